//! Hazard: a key does more than its scopes say, or a missing, doubled or foreign credential is taken for a good one.
//!
//! `crates/api/scopes.txt` is the specification. Each of its lines is asked for with a key that has one scope, for each scope; with
//! one that has all others; with one of a source, one of another account, none, and two at once. What is asked about is never
//! there and no body is a right one, so that nothing is changed; a stream is given up after its head.
//!
//! Holds if what is refused for want of a scope (403) is exactly what the lines say, if without one good key there is a 401 for each
//! line that needs one, if nothing is answered with 5xx, and if no table has changed.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use client::{ApiKeyInput, NewSource};
use domain::account::{KeyKind, Scope};

use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::raw_http::{RawAnswer, request};
use crate::harness::testbed::{API_KEY, OPERATOR_KEY};

const MATRIX: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../api/scopes.txt"));
const TABLES: [&str; 9] = [
    "accounts",
    "api_keys",
    "destinations",
    "routes",
    "sources",
    "events",
    "replays",
    "users",
    "portal_links",
];

struct Line {
    method: String,
    path: String,
    who: String,
    scopes: Vec<Scope>,
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let lines = lines()?;
    let other = OtherAccount::make(&testbed).await?;
    let source = testbed.client.create_source(&NewSource::new("matrix")).await?;
    let ingest =
        ApiKeyInput { kind: Some(KeyKind::Ingest), source_id: Some(source.id), ..named("of a source") };
    let ingest = testbed.client.create_api_key(&ingest).await?.key;
    let mut keys = Vec::new();
    for scope in Scope::OF_ACCOUNT {
        let others = Scope::OF_ACCOUNT.into_iter().filter(|other| *other != scope).collect();
        for scopes in [vec![scope], others] {
            let plan = ApiKeyInput { scopes: Some(scopes.clone()), ..named("of the matrix") };
            keys.push((scopes, testbed.client.create_api_key(&plan).await?.key));
        }
    }
    let before = counts(&testbed).await?;
    let mut asked = Asked { testbed: &testbed, statuses: BTreeMap::new(), wrong: Vec::new(), count: 0 };
    for line in &lines {
        for (scopes, key) in &keys {
            let may = line.needs().is_some_and(|needed| needed.iter().all(|needed| scopes.contains(needed)));
            asked.expect(line, &format!("with {scopes:?}"), &[key], may).await?;
        }
        let brings = line.scopes == [Scope::IngestWrite];
        asked.expect(line, "by a key of a source", &[&ingest], brings).await?;
        asked.expect(line, "by an operator", &[OPERATOR_KEY], true).await?;
        let may = line.needs().is_some();
        asked.expect(line, "by another account", &[&other.key], may).await?;
        asked.expect_nobody(line, "without a key", &[]).await?;
        asked.expect_nobody(line, "by two keys", &[API_KEY, OPERATOR_KEY]).await?;
        asked.expect_nobody(line, "by the same key twice", &[API_KEY, API_KEY]).await?;
    }
    let Asked { statuses, wrong, count, .. } = asked;
    report.must_be_at_least("lines", lines.len() as u64, 70);
    report.must_be_at_least("asked", count, 1_000);
    report.note("by_status", &statuses);
    report.must_be("wrongly_answered", wrong.len(), 0);
    report.must(wrong.is_empty(), format!("{:?}", &wrong[..wrong.len().min(20)]));
    report.must(counts(&testbed).await? == before, "something was changed");
    testbed.must_be_running(report);
    testbed.tear_down().await
}

fn named(name: &str) -> ApiKeyInput {
    ApiKeyInput { name: name.into(), ..Default::default() }
}

async fn counts(testbed: &Testbed) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    for table in TABLES {
        counts.push(testbed.database.count(table).await?);
    }
    Ok(counts)
}

fn lines() -> Result<Vec<Line>> {
    let lines = MATRIX.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let read = lines.map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [method, path, who, scopes] = words[..] else { anyhow::bail!("no line of a matrix: {line}") };
        let scopes = scopes
            .split(',')
            .filter(|scope| *scope != "-")
            .map(|scope| scope.parse().context(scope.to_owned()));
        Ok(Line {
            method: method.into(),
            path: path.into(),
            who: who.into(),
            scopes: scopes.collect::<Result<_>>()?,
        })
    });
    read.filter(|line| !matches!(line, Ok(line) if line.who == "nobody")).collect()
}

impl Line {
    /// What a key of an account needs; None: no such key may.
    fn needs(&self) -> Option<&[Scope]> {
        self.who.starts_with("account").then_some(&self.scopes)
    }

    /// About what was never there.
    fn concrete(&self) -> String {
        let kind = match self.path.split('/').nth(2) {
            Some("accounts") => "acc",
            Some("api-keys") => "key",
            Some("deliveries") => "dlv",
            Some("destinations") => "dst",
            Some("events") => "evt",
            Some("replays") => "rpl",
            Some("routes") => "rte",
            Some("sources") => "src",
            _ => "usr",
        };
        let id = |kind: &str| format!("{kind}_01h455vb4pex5vsknk084sn02q");
        let path = self.path.replace("{id}", &id(kind));
        path.replace("{key_id}", &id("key")).replace("{link_id}", &id("ptl"))
    }
}

struct Asked<'a> {
    testbed: &'a Testbed,
    statuses: BTreeMap<u16, u64>,
    wrong: Vec<String>,
    count: u64,
}

impl Asked<'_> {
    async fn ask(&mut self, line: &Line, keys: &[&str]) -> Result<RawAnswer> {
        let bearers: Vec<String> = keys.iter().map(|key| format!("Bearer {key}")).collect();
        let mut headers: Vec<(&str, &str)> =
            bearers.iter().map(|bearer| ("authorization", bearer.as_str())).collect();
        headers.push(("content-type", "application/json"));
        // Never a right body: of a PATCH it would change nothing, and is refused before.
        let body: &[u8] = if line.method == "GET" { b"" } else { b"{\"no\":1}" };
        let bytes = request(&line.method, &line.concrete(), &headers, body);
        let limit =
            if line.path == "/v1/stream" { Duration::from_millis(300) } else { Duration::from_secs(20) };
        // What is wrong is counted by address: few from each.
        self.count += 1;
        let from = Ipv4Addr::from([127, 50, (self.count / 1_000) as u8, (self.count / 8 % 125 + 1) as u8]);
        let answer = raw_http::exchange_from(from, self.testbed.addr, &bytes, limit).await?;
        *self.statuses.entry(answer.status.unwrap_or(0)).or_default() += 1;
        Ok(answer)
    }

    async fn expect(&mut self, line: &Line, how: &str, keys: &[&str], may: bool) -> Result<()> {
        let answer = self.ask(line, keys).await?;
        let status = answer.status.unwrap_or(0);
        let fits = if may { !matches!(status, 401 | 403 | 429 | 500..) } else { status == 403 };
        self.note(line, how, &answer, fits);
        Ok(())
    }

    async fn expect_nobody(&mut self, line: &Line, how: &str, keys: &[&str]) -> Result<()> {
        let answer = self.ask(line, keys).await?;
        let fits = answer.status == Some(401) && answer.header("www-authenticate").is_some();
        self.note(line, how, &answer, fits);
        Ok(())
    }

    fn note(&mut self, line: &Line, how: &str, answer: &RawAnswer, fits: bool) {
        if !fits {
            let Line { method, path, .. } = line;
            self.wrong.push(format!("{method} {path} {how}: {:?} {:?}", answer.status, answer.code()));
        }
    }
}
