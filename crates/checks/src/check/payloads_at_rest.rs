//! Hazard: an account has its payloads encrypted, and something of them is found in the store all the same, or does not come
//! out of it as it went in.
//!
//! An account that encrypts publishes and brings in events of every size, with texts that can be found again in payloads,
//! headers, answers and requests that are not believed. Every first attempt is refused, and the node is killed before the
//! second: what is sent then was read from the store. All of it is replayed, and a backfill with a filter on the payload
//! brings it to a destination that never had it. An account beside it does not encrypt. At last the first one is deleted.
//!
//! Holds if every receiver gets the bytes that were accepted, in plain and in structured CloudEvents, the API shows them, and
//! none of the texts is found, as it is or in hexadecimal digits or base64, in the tables or in any file; if those of the
//! other account are found, or nothing was looked for; and if the key of the deleted account is in no table.

use std::collections::HashMap;

use client::{ApiKeyInput, Client, NewAccount};
use serde_json::Value;

use crate::harness::at_rest::{found_in_tables, look_through};
use crate::harness::canaries::Canaries;
use crate::harness::postgres_server::target_dir;
use crate::harness::prelude::*;
use crate::harness::testbed::OPERATOR_KEY;

const EVENTS: u64 = 40;
/// Too short to be packed, packed, too large to travel with a delivery, and larger than a page of any store.
const SIZES: [usize; 4] = [60, 3_000, 20_000, 300_000];
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let parent = target_dir()?.join("checks");
    std::fs::create_dir_all(&parent)?;
    let temporary = tempfile::tempdir_in(parent)?;
    let plan = TestbedPlan::new(options)?.env("TMPDIR", &temporary.path().display().to_string());
    let mut testbed = plan.start().await?;
    testbed.receiver.recording(Recording::FullWithBodies);
    let (mut canaries, mut control) = (Canaries::default(), Canaries::default());
    let answer = canaries.plant("an answer");
    testbed.receiver.default_script(Script::custom(move |request| {
        let reply = if request.attempt == 1 { Reply::status(500) } else { Reply::ok() };
        reply.header("x-answer", &answer).body(format!("an answer: {answer}"))
    }));

    let operator = Client::new(&testbed.base_url(), OPERATOR_KEY)?;
    let account = NewAccount { encrypt_payloads: true, ..NewAccount::new("Encrypting") };
    let account = operator.create_account(&account).await?.id;
    let key = ApiKeyInput { name: "check".into(), account_id: Some(account), ..Default::default() };
    let key = operator.create_api_key(&key).await?.key;
    let asker = Asker { key: &key };
    let (shop, ingest) = asker.source(&testbed, json!({ "name": "Shop" })).await?;
    let plain = asker.destination(&testbed, ("plain", "standard"), &shop).await?;
    asker.destination(&testbed, ("structured", "cloudevents-structured"), &shop).await?;
    let refusing = json!({
        "name": "Strict", "keep_refused": true, "verification": { "type": "bearer", "secrets": ["s3cret-of-the-check-0123456789abcdef"] },
    });
    let (strict, refusing) = asker.source(&testbed, refusing).await?;

    let count = options.count(EVENTS);
    let mut sent = HashMap::new();
    for n in 0..count {
        let (text, header) = (canaries.plant("a payload"), canaries.plant("a header of an event"));
        let size = SIZES[n as usize % SIZES.len()];
        let body =
            json!({ "n": n, "kind": "wanted", "secret": text, "filler": "x".repeat(size) }).to_string();
        let id = match n % 2 {
            0 => asker.published(&testbed, &body).await?,
            _ => ingested(&testbed, &ingest, &header, &body).await?,
        };
        sent.insert(id, body);
    }
    let refused = json!({ "secret": canaries.plant("a request that was not believed") }).to_string();
    let headers = [("content-type", "application/json"), ("user-agent", refused.as_str())];
    let request = raw_http::request("POST", &refusing, &headers, refused.as_bytes());
    let answer = raw_http::exchange(testbed.addr, &request, Duration::from_secs(5)).await?;
    ensure!(answer.status == Some(401), "it was believed: {}", answer.text);
    let readable = json!({ "secret": control.plant("a payload of the other account") }).to_string();
    testbed.client.publish(&Publish::json("lab.readable", readable)?).await?;

    // Before the second attempts.
    testbed.kill().await?;
    testbed.start().await?;
    report
        .must(testbed.receiver.wait_for_succeeded(2 * count, PATIENCE).await, "not everything was delivered");
    report.must_be("left_in_queue", testbed.quiesce(PATIENCE).await?, 0);
    let all = json!({ "filter": { "status": ["delivered"] } });
    asker.make(&testbed, "/v1/replays", &all).await?;
    report
        .must(testbed.receiver.wait_for_succeeded(4 * count, PATIENCE).await, "not everything was replayed");
    let late = asker.destination(&testbed, ("late", "standard"), &shop).await?;
    let backfill = json!({ "events": {}, "match": "now", "destination_ids": [late] });
    asker.make(&testbed, "/v1/replays", &backfill).await?;
    report.must(
        testbed.receiver.wait_for_succeeded(5 * count, PATIENCE).await,
        "not everything was backfilled",
    );
    report.must_be("left_in_queue_at_last", testbed.quiesce(PATIENCE).await?, 0);
    report.note("planted", canaries.count());

    as_it_was_accepted(&testbed, &sent, report);
    shown(&testbed, &asker, (&plain, &strict), &sent, report).await?;
    testbed.kill().await?;
    look_through(&testbed, &canaries, temporary.path(), report).await?;
    let (found, _) = found_in_tables(&testbed.database, &control).await?;
    report.must(!found.is_empty(), "what is not encrypted was not found either: nothing was looked for");

    testbed.start().await?;
    key_goes_with_the_account(&testbed, &operator, account, report).await?;
    testbed.tear_down().await
}

struct Asker<'a> {
    key: &'a str,
}

impl Asker<'_> {
    /// Posts JSON and gives what is answered, which must be a success.
    async fn make(&self, testbed: &Testbed, path: &str, body: &Value) -> Result<Value> {
        let request = raw_http::json_request("POST", path, self.key, &body.to_string());
        let answer = raw_http::exchange(testbed.addr, &request, Duration::from_secs(10)).await?;
        ensure!(answer.status.is_some_and(|status| status < 300), "POST {path}: {}", answer.text);
        Ok(serde_json::from_str(answer.body())?)
    }

    async fn read(&self, testbed: &Testbed, path: &str) -> Result<Value> {
        let client = Client::new(&testbed.base_url(), self.key)?;
        Ok(serde_json::from_slice(&client.raw(path).await?)?)
    }

    /// With routes that look into the payload, for what is published and for what the source brings in.
    async fn destination(
        &self,
        testbed: &Testbed,
        (name, format): (&str, &str),
        source: &str,
    ) -> Result<String> {
        let body = json!({
            "name": name, "url": testbed.receiver.url(&format!("/d/{name}")), "format": format,
            "retry_policy": { "schedule_seconds": [3, 1, 1, 1] },
        });
        let made = self.make(testbed, "/v1/destinations", &body).await?;
        let id = made["id"].as_str().context("an id")?;
        for source in [Value::Null, source.into()] {
            let filter = json!({ "data": { "kind": "wanted" } });
            let route = json!({ "source_id": source, "destination_id": id, "filter": filter });
            self.make(testbed, "/v1/routes", &route).await?;
        }
        Ok(id.to_owned())
    }

    /// Its id, and the path of its ingest URL.
    async fn source(&self, testbed: &Testbed, body: Value) -> Result<(String, String)> {
        let made = self.make(testbed, "/v1/sources", &body).await?;
        let url = made["ingest_url"].as_str().context("an ingest URL is shown when it is made")?;
        let path = &url[url.find("/ingest/").context("an ingest URL")?..];
        Ok((made["id"].as_str().context("an id")?.to_owned(), path.to_owned()))
    }

    async fn published(&self, testbed: &Testbed, data: &str) -> Result<String> {
        let body = format!(r#"{{"type":"lab.encrypted","data":{data}}}"#);
        let request = raw_http::json_request("POST", "/v1/events", self.key, &body);
        let answer = raw_http::exchange(testbed.addr, &request, Duration::from_secs(10)).await?;
        accepted(&answer)
    }
}

async fn ingested(testbed: &Testbed, path: &str, header: &str, body: &str) -> Result<String> {
    let headers =
        [("content-type", "application/json"), ("x-event-type", "lab.encrypted"), ("x-customer", header)];
    let request = raw_http::request("POST", path, &headers, body.as_bytes());
    accepted(&raw_http::exchange(testbed.addr, &request, Duration::from_secs(10)).await?)
}

fn accepted(answer: &raw_http::RawAnswer) -> Result<String> {
    ensure!(answer.status == Some(202), "it was not accepted: {}", answer.text);
    let view: Value = serde_json::from_str(answer.body())?;
    Ok(view["id"].as_str().context("an id")?.to_owned())
}

/// Every request, of every attempt.
fn as_it_was_accepted(testbed: &Testbed, sent: &HashMap<String, String>, report: &mut Report) {
    let (mut requests, mut other) = (0u64, 0u64);
    for record in testbed.receiver.snapshot() {
        let (Some(kept), Some(sent)) = (&record.kept, sent.get(&*record.event_id)) else { continue };
        requests += 1;
        let same = match &*record.destination {
            "structured" => serde_json::from_slice::<Value>(&kept.body)
                .is_ok_and(|document| Some(&document["data"]) == serde_json::from_str(sent).ok().as_ref()),
            _ => kept.body == sent.as_bytes(),
        };
        other += u64::from(!same);
    }
    report.note("requests_compared", requests);
    report.must(requests >= 5 * sent.len() as u64, "not every request was compared");
    report.must_be("other_bytes", other, 0);
}

/// The API opens what it shows.
async fn shown(
    testbed: &Testbed,
    asker: &Asker<'_>,
    (destination, strict): (&str, &str),
    sent: &HashMap<String, String>,
    report: &mut Report,
) -> Result<()> {
    let client = Client::new(&testbed.base_url(), asker.key)?;
    let mut headers = 0u64;
    for (id, body) in sent {
        let payload = client.event_payload(id.parse()?).await?;
        report.must(payload == body.as_bytes(), "a payload is shown as another");
        let event = asker.read(testbed, &format!("/v1/events/{id}")).await?;
        headers += u64::from(event["headers"]["x-customer"].is_string());
        report.must(body.len() > 64 * 1024 || event["payload"] == **body, "a short payload is not shown");
    }
    report.must_be("events_with_their_headers", headers, sent.len() as u64 / 2);
    let path = format!("/v1/destinations/{destination}/attempts?limit=100");
    let attempts = asker.read(testbed, &path).await?;
    let attempts = attempts["data"].as_array().cloned().unwrap_or_default();
    let answered = |attempt: &&Value| {
        attempt["response"]["body"].as_str().is_some_and(|body| body.starts_with("an answer: "))
    };
    report.must_be(
        "attempts_without_their_answer",
        attempts.len() - attempts.iter().filter(answered).count(),
        0,
    );
    report.must(!attempts.is_empty(), "no attempts are shown");
    let test = asker.make(testbed, &format!("/v1/destinations/{destination}/test"), &json!({})).await?;
    report.must(answered(&&test), "a test does not show its answer");
    let refused = asker.read(testbed, &format!("/v1/sources/{strict}/refused")).await?.to_string();
    report.must(refused.contains("secret"), "what was not believed is not shown");
    Ok(())
}

/// At once, with the transaction that deletes it.
async fn key_goes_with_the_account(
    testbed: &Testbed,
    operator: &Client,
    account: domain::id::AccountId,
    report: &mut Report,
) -> Result<()> {
    let id = testbed.database.literal(account.bytes());
    let rows = testbed.database.rows(&format!("select doc from accounts where id = {id}")).await?;
    let doc: Value = serde_json::from_str(rows.first().and_then(|row| row[0].text()).context("no account")?)?;
    let mut key = Canaries::default();
    key.know("the data key of the account", doc["data_key"].as_str().context("no data key")?);
    let (found, _) = found_in_tables(&testbed.database, &key).await?;
    report.must_be("tables_with_the_key_before", found.len(), 1);
    operator.delete_account(account).await?;
    let (found, _) = found_in_tables(&testbed.database, &key).await?;
    report.must_be("tables_with_the_key_after", found.len(), 0);
    Ok(())
}
