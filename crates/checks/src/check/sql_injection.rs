//! Hazard: a text that somebody searches for, filters by or names something with is read as SQL.
//!
//! Five hundred texts that are SQL to a program that is not careful, in every search, filter, id and cursor of every list, in ids of
//! paths, in the header that names an account, and as names and uids of what is made. Two accounts have something; one asks.
//!
//! Holds if nothing is answered with 5xx, if no answer has anything of the other account, if what was named with such a text has that
//! name, and if no table has other rows than before.

use std::collections::BTreeMap;

use client::NewSource;
use serde_json::Value;

use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::raw_http::{RawAnswer, json_request, request};
use crate::harness::testbed::{API_KEY, OPERATOR_KEY, add_destination};

const LIMIT: Duration = Duration::from_secs(20);
const TEXTS: usize = 500;

/// What is put in as it is, and between what may stand around it.
const CORES: [&str; 25] = [
    "1=1",
    "or 1=1",
    "' or '1'='1",
    "\" or \"\"=\"",
    "' or 1=1 --",
    "'; drop table events; --",
    "'; delete from api_keys; --",
    "1; update accounts set name = 'x'",
    "' union select hash from api_keys --",
    "' union all select null, null, null --",
    "') or ('a'='a",
    "admin'--",
    "' and sleep(5) --",
    "'; select pg_sleep(5); --",
    "' || (select doc from accounts limit 1) || '",
    "%' or name like '%",
    "_%",
    "\\' or 1=1 --",
    "' group by 1 having 1=1 --",
    "' order by 99 --",
    "$1",
    ":account_id",
    "?1",
    "randomblob(100000000)",
    "x'27206f7220313d31'",
];
const AROUND: [(&str, &str); 20] = [
    ("", ""),
    ("'", ""),
    ("\"", ""),
    ("`", "`"),
    ("(", ")"),
    ("a'", "--"),
    ("%", "%"),
    ("\\", ""),
    ("/*", "*/"),
    ("1' ", " #"),
    ("\u{2019}", "\u{2019}"),
    ("ʼ", ""),
    ("name:", ""),
    ("*", ""),
    ("[", "]"),
    ("{\"$eq\":\"", "\"}"),
    ("-1 ", ""),
    ("null, ", ""),
    ("\u{ff07}", ""),
    ("$$", "$$"),
];

/// Lists, and what of their parameters takes a text.
const LISTS: [(&str, &[&str]); 11] = [
    (
        "/v1/events",
        &["q", "type", "source_id", "idempotency_key", "tag", "since", "until", "fanout", "limit", "cursor"],
    ),
    (
        "/v1/deliveries",
        &[
            "status",
            "reason",
            "event_id",
            "destination_id",
            "route_id",
            "source_id",
            "type",
            "http_status",
            "since",
            "cursor",
        ],
    ),
    ("/v1/destinations", &["name", "uid", "url", "held", "cursor", "limit"]),
    ("/v1/sources", &["name", "uid", "cursor"]),
    ("/v1/routes", &["name", "uid", "cursor"]),
    ("/v1/replays", &["cursor", "limit"]),
    ("/v1/api-keys", &["cursor", "limit"]),
    ("/v1/dead-letters/groups", &["since", "destination_id", "cursor"]),
    ("/v1/audit", &["action", "actor", "object_id", "since", "until", "cursor"]),
    ("/v1/stats", &["since", "until"]),
    ("/v1/stats/series", &["since", "until", "step", "by"]),
];
const PATHS: [&str; 6] =
    ["/v1/events/", "/v1/deliveries/", "/v1/destinations/", "/v1/sources/", "/v1/routes/", "/v1/replays/"];

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    testbed.add_destination(&testbed.destination("ours"), &["lab.event"]).await?;
    testbed.publish_copies("lab.event", 3).await?;
    testbed.quiesce(LIMIT).await?;
    let other = OtherAccount::make(&testbed).await?;
    let theirs = add_destination(&other.client, &testbed.destination("theirs"), &[]).await?;
    let their_source = other.client.create_source(&NewSource::new("theirs, of another account")).await?;
    let foreign = [theirs.to_string(), their_source.id.to_string(), "of another account".to_owned()];
    let texts: Vec<String> = AROUND
        .iter()
        .flat_map(|(before, after)| CORES.map(|core| format!("{before}{core}{after}")))
        .collect();
    let before = counts(&testbed).await?;

    let mut asked =
        Asked { foreign: &foreign, by_status: BTreeMap::new(), wrong: Vec::new(), slowest: Duration::ZERO };
    // Every text in every place would be thirty thousand: each place has every text of its turn, each text forty places.
    let places: Vec<(&str, &str)> =
        LISTS.iter().flat_map(|(path, names)| names.iter().map(move |name| (*path, *name))).collect();
    for (number, text) in texts.iter().enumerate() {
        let encoded = encoded(text);
        for (path, name) in places.iter().skip(number % 2).step_by(2) {
            asked
                .ask(&testbed, &json_request("GET", &format!("{path}?{name}={encoded}"), API_KEY, ""))
                .await?;
        }
        for path in PATHS {
            asked.ask(&testbed, &json_request("GET", &format!("{path}{encoded}"), API_KEY, "")).await?;
        }
        if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
            let bearer = format!("Bearer {OPERATOR_KEY}");
            let headers = [("authorization", bearer.as_str()), ("posthaste-account", text.as_str())];
            asked.ask(&testbed, &request("GET", "/v1/routes", &headers, b"")).await?;
        }
    }
    let after = counts(&testbed).await?;
    report.must(after == before, format!("rows before {before:?}, and after {after:?}"));
    named_so(&testbed, &texts, &mut asked, report).await?;

    report.must_be("texts", texts.len(), TEXTS);
    report.must_be_at_least("requests", asked.by_status.values().sum::<u64>(), 10_000);
    report.note("by_status", &asked.by_status);
    report.must_be_at_most("slowest_answer_seconds", asked.slowest, Duration::from_secs(2));
    report.must_be("wrong_answers", asked.wrong.len(), 0);
    report.must(asked.wrong.is_empty(), format!("{:?}", &asked.wrong[..asked.wrong.len().min(10)]));
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// Rows of every table that is there, but for what is written down of requests.
async fn counts(testbed: &Testbed) -> Result<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for table in [
        "accounts",
        "api_keys",
        "sources",
        "destinations",
        "routes",
        "events",
        "attempts",
        "replays",
        "users",
    ] {
        counts.insert(table.to_owned(), testbed.database.count(table).await?);
    }
    Ok(counts)
}

/// A source that is called so is found by its name, and is called so; as a uid it is refused.
async fn named_so(
    testbed: &Testbed,
    texts: &[String],
    asked: &mut Asked<'_>,
    report: &mut Report,
) -> Result<()> {
    let mut called_otherwise = 0;
    for text in texts.iter().step_by(5) {
        let made = json_request("POST", "/v1/sources", API_KEY, &json!({ "name": text }).to_string());
        let made = asked.ask(testbed, &made).await?;
        let made: Value = serde_json::from_str(made.body()).unwrap_or_default();
        let id = made["id"].as_str().unwrap_or_default();
        let read =
            asked.ask(testbed, &json_request("GET", &format!("/v1/sources/{id}"), API_KEY, "")).await?;
        let read: Value = serde_json::from_str(read.body()).unwrap_or_default();
        let path = format!("/v1/sources?name={}", encoded(text));
        let found = asked.ask(testbed, &json_request("GET", &path, API_KEY, "")).await?;
        let is_found = found.body().contains(id) && !id.is_empty();
        called_otherwise += u64::from(read["name"] != text.as_str() || !is_found);
        let uid = json!({ "name": "x", "uid": text }).to_string();
        asked.ask(testbed, &json_request("POST", "/v1/sources", API_KEY, &uid)).await?;
    }
    report.must_be("called_otherwise", called_otherwise, 0);
    Ok(())
}

struct Asked<'a> {
    /// What is never to be told.
    foreign: &'a [String],
    by_status: BTreeMap<u16, u64>,
    wrong: Vec<String>,
    slowest: Duration,
}

impl Asked<'_> {
    async fn ask(&mut self, testbed: &Testbed, bytes: &[u8]) -> Result<RawAnswer> {
        let answer = raw_http::exchange(testbed.addr, bytes, LIMIT).await?;
        let status = answer.status.unwrap_or(0);
        *self.by_status.entry(status).or_default() += 1;
        self.slowest = self.slowest.max(answer.took);
        let told = self.foreign.iter().any(|text| answer.body().contains(text));
        if told || !matches!(status, 200 | 201 | 400 | 404 | 422) {
            let line = String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
            self.wrong.push(format!(
                "{line}: {status}{}",
                if told { ", and tells of another account" } else { "" }
            ));
        }
        Ok(answer)
    }
}

/// Every byte but letters and digits.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte.is_ascii_alphanumeric() {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
