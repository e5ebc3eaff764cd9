//! Hazard: an account reads, changes or hears of what another one has, because it knows or guesses an id.
//!
//! One account has something of every kind. Another asks each operation of `crates/api/scopes.txt` that takes an id with the first
//! one's ids, and names them wherever else an id may stand: in filters, in bodies, in the header that names an account, as cursors
//! and as idempotency keys. Whatever is asked with a foreign id is asked with one that was never given out, too.
//!
//! Holds if the two answers are the same, status, header names and every byte but the id itself and the request's; if what has the id in
//! its path is a 404; if a foreign cursor is refused; and if everything that the first account has is afterwards as it was.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::raw_http::{RawAnswer, json_request, request};
use crate::harness::testbed::API_KEY;

const MATRIX: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../api/scopes.txt"));
const LIMIT: Duration = Duration::from_secs(20);
/// The key of idempotency that both accounts use.
const KEY: &str = "used by both";

/// Filters of lists, each with the kind of id that it takes.
const FILTERS: [(&str, &str, &str); 15] = [
    ("/v1/events", "source_id", "src"),
    ("/v1/events", "q", "evt"),
    ("/v1/events", "q", "dlv"),
    ("/v1/deliveries", "event_id", "evt"),
    ("/v1/deliveries", "destination_id", "dst"),
    ("/v1/deliveries", "route_id", "rte"),
    ("/v1/deliveries", "source_id", "src"),
    ("/v1/deliveries", "replay_id", "rpl"),
    ("/v1/dead-letters/groups", "destination_id", "dst"),
    ("/v1/destinations", "uid", "uid"),
    ("/v1/sources", "uid", "uid"),
    ("/v1/routes", "uid", "uid"),
    ("/v1/audit", "object_id", "dst"),
    ("/v1/audit", "object_id", "key"),
    ("/v1/audit", "actor", "key"),
];

/// Lists whose cursors the other account tries.
const LISTS: [&str; 6] =
    ["/v1/events", "/v1/deliveries", "/v1/destinations", "/v1/routes", "/v1/api-keys", "/v1/audit"];

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let theirs = Things::make(&testbed).await?;
    let other = OtherAccount::make(&testbed).await?;
    let own = own_things(&testbed, &other.key).await?;
    let before = theirs.as_shown(&testbed).await?;

    let mut asked =
        Asked { testbed: &testbed, key: &other.key, pairs: 0, by_status: BTreeMap::new(), wrong: Vec::new() };
    for (method, path) in operations_with_ids() {
        let Some(kind) = kind_of(&path) else { continue };
        let body = match method.as_str() {
            "PATCH" => r#"{"name":"taken"}"#,
            _ => "",
        };
        asked.as_absent(&theirs, kind, &method, &path.replace("{id}", "<id>"), body, true).await?;
    }
    asked.as_absent(&theirs, "uid", "GET", "/v1/destinations/<id>", "", true).await?;
    for (path, name, kind) in FILTERS {
        asked.as_absent(&theirs, kind, "GET", &format!("{path}?{name}=<id>"), "", false).await?;
    }
    for (kind, method, path, body) in bodies(&own) {
        asked.as_absent(&theirs, kind, method, &path, &body, false).await?;
    }
    foreign_cursors(&mut asked).await?;
    another_account_by_header(&mut asked, &theirs).await?;
    let Asked { pairs, by_status, wrong, .. } = asked;

    shared_idempotency_key(&testbed, &other.key, report).await?;
    let after = theirs.as_shown(&testbed).await?;
    let changed: Vec<_> =
        before.iter().filter(|(path, was)| after.get(*path) != Some(was)).map(|(path, _)| path).collect();
    report.must(changed.is_empty(), format!("changed from outside: {changed:?}"));
    report.must_be_at_least("things_of_the_other_account", before.len() as u64, 9);
    report.must_be_at_least("asked_with_a_foreign_and_a_random_id", pairs, 60);
    report.note("by_status", &by_status);
    report.must_be("told_apart", wrong.len(), 0);
    report.must(wrong.is_empty(), format!("{:?}", &wrong[..wrong.len().min(10)]));
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// Every operation for accounts whose path has an id.
fn operations_with_ids() -> Vec<(String, String)> {
    let lines = MATRIX.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let of_accounts = words.filter(|words| words[2].starts_with("account") && words[1].contains("{id}"));
    of_accounts.map(|words| (words[0].to_owned(), words[1].to_owned())).collect()
}

fn kind_of(path: &str) -> Option<&'static str> {
    Some(match path.split('/').nth(2)? {
        "api-keys" => "key",
        "deliveries" => "dlv",
        "destinations" => "dst",
        "events" => "evt",
        "replays" => "rpl",
        "routes" => "rte",
        "sources" => "src",
        _ => return None,
    })
}

/// Ids in bodies, beside what the one who asks has.
fn bodies(own: &OwnThings) -> Vec<(&'static str, &'static str, String, String)> {
    let OwnThings { destination, route, event } = own;
    let plain = |kind, path: &str, body: Value| (kind, "POST", path.to_owned(), body.to_string());
    vec![
        plain("dst", "/v1/routes", json!({ "destination_id": "<id>" })),
        plain("src", "/v1/routes", json!({ "destination_id": destination, "source_id": "<id>" })),
        ("dst", "PATCH", format!("/v1/routes/{route}"), json!({ "destination_id": "<id>" }).to_string()),
        ("src", "PATCH", format!("/v1/routes/{route}"), json!({ "source_id": "<id>" }).to_string()),
        plain("evt", "/v1/routes/preview", json!({ "event_id": "<id>" })),
        plain("src", "/v1/routes/preview", json!({ "source_id": "<id>", "type": "a.b", "data": {} })),
        plain("dlv", "/v1/replays", json!({ "delivery_ids": ["<id>"] })),
        plain("dst", "/v1/replays", json!({ "filter": { "destination_id": ["<id>"] }, "dry_run": true })),
        plain("evt", "/v1/replays", json!({ "filter": { "event_id": ["<id>"] }, "dry_run": true })),
        plain(
            "src",
            "/v1/replays",
            json!({ "events": { "source_id": ["<id>"] }, "match": "now", "dry_run": true }),
        ),
        plain(
            "dst",
            "/v1/replays",
            json!({ "events": {}, "match": "now", "destination_ids": ["<id>"], "dry_run": true }),
        ),
        plain("dst", &format!("/v1/events/{event}/replay"), json!({ "destination_ids": ["<id>"] })),
        plain("dlv", "/v1/dead-letters/dismiss", json!({ "delivery_ids": ["<id>"] })),
        plain(
            "src",
            "/v1/api-keys",
            json!({ "name": "of their door", "kind": "ingest", "source_id": "<id>" }),
        ),
        plain("acc", "/v1/api-keys", json!({ "name": "of their account", "account_id": "<id>" })),
    ]
}

/// Something of every kind, by the beginning of its id.
struct Things(BTreeMap<&'static str, String>);

impl Things {
    async fn make(testbed: &Testbed) -> Result<Things> {
        let call =
            async |method: &str, path: &str, body: Value| call(testbed, API_KEY, method, path, &body).await;
        let id = |made: &Value| made["id"].as_str().map(str::to_owned).with_context(|| made.to_string());
        let mut ids = BTreeMap::new();
        ids.insert("acc", id(&call("GET", "/v1/account", json!(null)).await?)?);
        ids.insert("uid", "billing".to_owned());
        ids.insert(
            "src",
            id(&call("POST", "/v1/sources", json!({ "name": "theirs", "uid": "billing" })).await?)?,
        );
        // Refused at once: its delivery is a dead letter.
        let url = testbed.receiver.url("/d/theirs/status-403");
        let destination = json!({ "name": "theirs", "uid": "billing", "url": url });
        let destination = id(&call("POST", "/v1/destinations", destination).await?)?;
        let route = json!({ "destination_id": destination, "uid": "billing", "name": "theirs" });
        ids.insert("rte", id(&call("POST", "/v1/routes", route).await?)?);
        ids.insert("dst", destination);
        ids.insert("key", id(&call("POST", "/v1/api-keys", json!({ "name": "theirs" })).await?)?);
        let event = json!({ "type": "a.b", "data": { "of": "theirs" }, "idempotency_key": KEY });
        let event = id(&call("POST", "/v1/events", event).await?)?;
        testbed.quiesce(LIMIT).await?;
        let deliveries = call("GET", &format!("/v1/deliveries?event_id={event}"), json!(null)).await?;
        ids.insert("dlv", id(&deliveries["data"][0])?);
        ids.insert("evt", event);
        // A second one of each, so that every list has a next page.
        let plain = json!({ "name": "second", "url": testbed.receiver.url("/d/second") });
        let plain = id(&call("POST", "/v1/destinations", plain).await?)?;
        call("POST", "/v1/routes", json!({ "destination_id": plain })).await?;
        call("POST", "/v1/events", json!({ "type": "a.b", "data": {} })).await?;
        testbed.quiesce(LIMIT).await?;
        let replay = json!({ "filter": { "status": ["delivered"] } });
        ids.insert("rpl", id(&call("POST", "/v1/replays", replay).await?)?);
        wait_until("the replay has not ended", LIMIT, 50, async || {
            let path = format!("/v1/replays/{}", ids["rpl"]);
            Ok(call("GET", &path, json!(null)).await?["status"] == "completed")
        })
        .await?;
        Ok(Things(ids))
    }

    /// As their own account is shown them.
    async fn as_shown(&self, testbed: &Testbed) -> Result<BTreeMap<String, String>> {
        let mut shown = BTreeMap::new();
        for (kind, path) in [
            ("acc", "/v1/account"),
            ("src", "/v1/sources/<id>"),
            ("dst", "/v1/destinations/<id>"),
            ("rte", "/v1/routes/<id>"),
            ("evt", "/v1/events/<id>"),
            ("dlv", "/v1/deliveries/<id>"),
            ("rpl", "/v1/replays/<id>"),
            ("dst", "/v1/destinations/<id>/secret"),
            ("src", "/v1/sources/<id>/ingest-url"),
            ("dst", "/v1/destinations/<id>/holds"),
        ] {
            let path = path.replace("<id>", &self.0[kind]);
            let answer = call(testbed, API_KEY, "GET", &path, &json!(null)).await?;
            shown.insert(path, answer.to_string());
        }
        // A key tells when it was last used: only that it is there, and not revoked.
        let keys = call(testbed, API_KEY, "GET", "/v1/api-keys", &json!(null)).await?;
        let key = keys["data"]
            .as_array()
            .and_then(|keys| keys.iter().find(|key| key["id"] == self.0["key"].as_str()));
        shown
            .insert("their key".into(), key.map_or(Value::Null, |key| key["revoked_at"].clone()).to_string());
        Ok(shown)
    }
}

struct OwnThings {
    destination: String,
    route: String,
    event: String,
}

async fn own_things(testbed: &Testbed, key: &str) -> Result<OwnThings> {
    let make = async |path: &str, body: Value| {
        let made = call(testbed, key, "POST", path, &body).await?;
        made["id"].as_str().map(str::to_owned).with_context(|| made.to_string())
    };
    let destination =
        make("/v1/destinations", json!({ "name": "own", "url": testbed.receiver.url("/d/own") })).await?;
    let route = make("/v1/routes", json!({ "destination_id": destination, "event_types": ["none"] })).await?;
    let event = make("/v1/events", json!({ "type": "a.b", "data": {} })).await?;
    Ok(OwnThings { destination, route, event })
}

async fn call(testbed: &Testbed, key: &str, method: &str, path: &str, body: &Value) -> Result<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = raw_http::exchange(testbed.addr, &json_request(method, path, key, &body), LIMIT).await?;
    ensure!(answer.status.is_some_and(|status| status < 300), "{method} {path}: {}", answer.text);
    Ok(serde_json::from_str(answer.body())?)
}

struct Asked<'a> {
    testbed: &'a Testbed,
    key: &'a str,
    pairs: u64,
    by_status: BTreeMap<u16, u64>,
    wrong: Vec<String>,
}

impl Asked<'_> {
    /// Once with their id where `<id>` stands, once with one that nobody has: the answers must be the same.
    async fn as_absent(
        &mut self,
        theirs: &Things,
        kind: &str,
        method: &str,
        path: &str,
        body: &str,
        must_be_absent: bool,
    ) -> Result<()> {
        let known = &theirs.0[kind];
        let unknown = never_given_out(known);
        let foreign = self.ask(method, &path.replace("<id>", known), &body.replace("<id>", known)).await?;
        let random =
            self.ask(method, &path.replace("<id>", &unknown), &body.replace("<id>", &unknown)).await?;
        self.pairs += 1;
        let (one, other) = (comparable(&foreign, known), comparable(&random, &unknown));
        let wrong_status =
            must_be_absent && foreign.status != Some(404) || foreign.status.is_none_or(|it| it >= 500);
        if one != other || wrong_status {
            self.wrong.push(format!("{method} {path} {body}: {one:?}, and with an id of nobody {other:?}"));
        }
        for id in theirs.0.iter().filter(|(other, _)| **other != kind && **other != "uid").map(|(_, id)| id) {
            if foreign.text.contains(id.as_str()) {
                self.wrong.push(format!("{method} {path} {body} tells of {id}"));
            }
        }
        Ok(())
    }

    async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<RawAnswer> {
        let answer =
            raw_http::exchange(self.testbed.addr, &json_request(method, path, self.key, body), LIMIT).await?;
        *self.by_status.entry(answer.status.unwrap_or(0)).or_default() += 1;
        Ok(answer)
    }
}

/// Of the same form.
fn never_given_out(id: &str) -> String {
    let (head, tail) = id.split_at(id.len() - 3);
    format!("{head}{}", if tail == "zzz" { "000" } else { "zzz" })
}

/// Status, names of the headers, and the body without what differs from request to request.
fn comparable(answer: &RawAnswer, id: &str) -> (Option<u16>, Vec<String>, String) {
    let head = answer.text.split("\r\n\r\n").next().unwrap_or_default();
    let names =
        head.lines().skip(1).filter_map(|line| Some(line.split_once(':')?.0.to_ascii_lowercase())).collect();
    let mut body = answer.body().replace(id, "<id>");
    if let Ok(Value::Object(read)) = serde_json::from_str::<Value>(answer.body())
        && let Some(request_id) = read.get("request_id").and_then(Value::as_str)
    {
        body = body.replace(request_id, "<request>");
    }
    (answer.status, names, body)
}

/// A cursor belongs to the account that was given it.
async fn foreign_cursors(asked: &mut Asked<'_>) -> Result<()> {
    for list in LISTS {
        let page = call(asked.testbed, API_KEY, "GET", &format!("{list}?limit=1"), &json!(null)).await?;
        let cursor = page["next_cursor"].as_str().with_context(|| format!("{list} has one page"))?;
        let answer = asked.ask("GET", &format!("{list}?limit=1&cursor={cursor}"), "").await?;
        asked.pairs += 1;
        if answer.status != Some(400) || answer.code().as_deref() != Some("invalid_cursor") {
            asked.wrong.push(format!("a cursor of another account at {list}: {}", answer.text));
        }
    }
    Ok(())
}

/// The header that names an account is for those who act for accounts: to all others every account is as absent.
async fn another_account_by_header(asked: &mut Asked<'_>, theirs: &Things) -> Result<()> {
    let known = &theirs.0["acc"];
    let unknown = never_given_out(known);
    let mut answers = Vec::new();
    for account in [known, &unknown] {
        let bearer = format!("Bearer {}", asked.key);
        let headers = [("authorization", bearer.as_str()), ("posthaste-account", account.as_str())];
        let bytes = request("GET", "/v1/destinations", &headers, b"");
        answers.push(comparable(&raw_http::exchange(asked.testbed.addr, &bytes, LIMIT).await?, account));
    }
    asked.pairs += 1;
    if answers[0] != answers[1] || answers[0].0.is_none_or(|status| status < 400) {
        asked.wrong.push(format!("the header of another account: {answers:?}"));
    }
    Ok(())
}

/// Each account has its own event by it.
async fn shared_idempotency_key(testbed: &Testbed, other: &str, report: &mut Report) -> Result<()> {
    let body = json!({ "type": "a.b", "data": { "of": "theirs" }, "idempotency_key": KEY });
    let first = call(testbed, API_KEY, "POST", "/v1/events", &body).await?;
    let second = call(testbed, other, "POST", "/v1/events", &body).await?;
    report.must(first["status"] == "duplicate", format!("their own repeat: {first}"));
    report.must(
        second["status"] != "duplicate" && second["id"] != first["id"],
        format!("another account's: {second}"),
    );
    Ok(())
}
