//! Hazard: a request of a provider that somebody has recorded makes another event when it is sent again.
//!
//! For each provider whose signature carries a moment, one request that is nearly as old as may be. It comes in; it is sent
//! again at once, at another source of the same provider, a second before it is too old and two seconds after. Those that sign no
//! moment, and one that is fresh, are sent again after ten seconds.
//!
//! Holds if the first is accepted and each repeat in time answered 200 with its event; if what is too old and what another source
//! is shown is a 401; and if there is one event of each.

use std::net::Ipv4Addr;

use serde_json::Value;

use crate::harness::prelude::*;
use crate::harness::providers::{Provider, Sending, Signed, now_millis, providers};
use crate::harness::raw_http::{RawAnswer, json_request, request};
use crate::harness::testbed::API_KEY;

const LIMIT: Duration = Duration::from_secs(10);
/// How much younger than too old the request is at first.
const LEFT: i64 = 14;

/// A request that was recorded, and what became of it.
struct Recorded {
    name: &'static str,
    path: String,
    other_path: String,
    signed: Signed,
    /// In milliseconds, when it is too old; None: never.
    too_old_at: Option<i64>,
    event: String,
}

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let began = Instant::now();
    let mut recorded = Vec::new();
    for provider in &providers() {
        if let Some(stamp) = provider.stamp {
            let age = stamp.tolerance_seconds - LEFT;
            recorded.push(record(&testbed, provider, Some(age)).await?);
        }
        // What has no moment is good for as long as its id is remembered.
        recorded.push(record(&testbed, provider, None).await?);
    }
    let (mut wrong, mut in_time, mut late, mut foreign) = (Vec::new(), 0, 0, 0);
    for it in &recorded {
        let again = send(&testbed, &it.path, &it.signed).await?;
        is_repeat(it, &again, "at once", &mut wrong);
        let elsewhere = send(&testbed, &it.other_path, &it.signed).await?;
        if elsewhere.status != Some(401) {
            wrong.push(format!("{} at another source: {:?}", it.name, elsewhere.status));
        }
        foreign += 1;
    }
    let after_ten = Duration::from_secs(10).saturating_sub(began.elapsed());
    sleep(after_ten).await;
    for it in recorded.iter().filter(|it| it.too_old_at.is_none()) {
        is_repeat(it, &send(&testbed, &it.path, &it.signed).await?, "ten seconds later", &mut wrong);
        in_time += 1;
    }
    for it in recorded.iter().filter(|it| it.too_old_at.is_some()) {
        let Some(too_old_at) = it.too_old_at else { continue };
        // Just before, if the way here did not take too long, and just after.
        let left = too_old_at - now_millis();
        if left > 1_000 {
            sleep(Duration::from_millis((left - 1_000) as u64)).await;
            is_repeat(it, &send(&testbed, &it.path, &it.signed).await?, "just in time", &mut wrong);
            in_time += 1;
        }
    }
    for it in recorded.iter().filter(|it| it.too_old_at.is_some()) {
        let left = it.too_old_at.unwrap_or_default() + 1_100 - now_millis();
        sleep(Duration::from_millis(left.max(0) as u64)).await;
        let answer = send(&testbed, &it.path, &it.signed).await?;
        if answer.status != Some(401) {
            wrong.push(format!("{} when it is too old: {:?}", it.name, answer.status));
        }
        late += 1;
    }
    report.note("recorded", recorded.len());
    report.must_be_at_least("repeated_in_time", in_time, recorded.len() as u64 / 2);
    report.must_be_at_least("sent_when_too_old", late, 1);
    report.note("shown_to_another_source", foreign);
    report.must_be("wrongly_answered", wrong.len(), 0);
    report.must(wrong.is_empty(), format!("{wrong:?}"));
    let events = testbed.database.count("events").await?;
    report.must_be("events", events, recorded.len());
    testbed.must_be_running(report);
    testbed.tear_down().await
}

fn is_repeat(it: &Recorded, answer: &RawAnswer, when: &str, wrong: &mut Vec<String>) {
    let body: Value = serde_json::from_str(answer.body()).unwrap_or_default();
    if answer.status != Some(200) || body["id"] != it.event.as_str() || body["status"] != "duplicate" {
        wrong.push(format!("{} {when}: {:?} {body}", it.name, answer.status));
    }
}

/// Lets it in once. So old when it comes; None: new.
async fn record(testbed: &Testbed, provider: &Provider, age: Option<i64>) -> Result<Recorded> {
    let (secret, other) = (provider.new_secret(), provider.new_secret());
    let mut paths = Vec::new();
    for secret in [&secret, &other] {
        let source = json!({ "name": provider.name, "verification": provider.verification(&[secret]) });
        let bytes = json_request("POST", "/v1/sources", API_KEY, &source.to_string());
        let made = raw_http::exchange(testbed.addr, &bytes, LIMIT).await?;
        let made: Value = serde_json::from_str(made.body()).with_context(|| provider.name.to_owned())?;
        paths.push(made["ingest_url"].as_str().context("an ingest URL")?.to_owned());
    }
    let path =
        |url: &String| Ok::<_, anyhow::Error>(url[url.find("/ingest/").context("a path")?..].to_owned());
    let now = now_millis();
    let stamp = provider.stamp(-age.unwrap_or_default());
    let id = format!("id{:016x}", rand::random::<u64>());
    let signed = provider.sign(&secret, &Sending { url: &paths[0], stamp: &stamp, id: &id });
    let first = send(testbed, &path(&paths[0])?, &signed).await?;
    ensure!(first.status == Some(202), "{} comes in at first: {}", provider.name, first.text);
    let body: Value = serde_json::from_str(first.body())?;
    // A moment is written in whole seconds by most: up to a second later than it was.
    let too_old_at = age.map(|_| now.div_euclid(1_000) * 1_000 + LEFT * 1_000);
    Ok(Recorded {
        name: provider.name,
        path: path(&paths[0])?,
        other_path: path(&paths[1])?,
        signed,
        too_old_at,
        event: body["id"].as_str().context("an event's id")?.to_owned(),
    })
}

/// Each source from an address of its own: few of them may be wrong.
async fn send(testbed: &Testbed, path: &str, signed: &Signed) -> Result<RawAnswer> {
    let headers: Vec<(&str, &str)> =
        signed.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let number = path.bytes().fold(0u16, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let from = Ipv4Addr::from([127, 30, (number >> 8) as u8, (number as u8).max(1)]);
    let bytes = request("POST", path, &headers, &signed.body);
    Ok(raw_http::exchange_from(from, testbed.addr, &bytes, LIMIT).await?)
}
