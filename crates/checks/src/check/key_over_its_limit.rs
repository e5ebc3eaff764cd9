//! Hazard: one producer that is far too fast takes the node away from producers that keep to their limits.
//!
//! Two keys with the same limit. First B alone, at its limit: the baseline. Then A at twenty times its limit beside B at
//! its own. `--seconds` is how long both run, `--rate` the limit.
//!
//! Holds if A gets what its limit and its second of burst allow, and 429 for all the rest, with a `Retry-After` after
//! which it is let in again; and if B does not notice: at least 99.9 % accepted, and a p99 of no more than one and a
//! half times its baseline.

use client::ApiKeyInput;
use lab::Target;
use serde_json::Value;

use crate::harness::prelude::*;

const LIMIT: f64 = 100.0;
const TOO_FAST: f64 = 20.0;
/// Below this it is the machine's own scheduler that is measured.
const P99_FLOOR_MS: f64 = 10.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let limit = options.rate(LIMIT);
    let testbed = TestbedPlan::new(options)?.start().await?;
    testbed.add_destination(&testbed.destination("d"), &[]).await?;
    let (a, b) = (limited_key(&testbed, "a", limit).await?, limited_key(&testbed, "b", limit).await?);

    let baseline = lab::pump::run(at(&testbed, &b, limit, options.seconds(15).div_f64(2.0))).await?;
    let (fast, slow) = tokio::try_join!(
        lab::pump::run(at(&testbed, &a, limit * TOO_FAST, options.seconds(15))),
        lab::pump::run(at(&testbed, &b, limit, options.seconds(15))),
    )?;

    let seconds = fast.elapsed_us as f64 / 1e6;
    report.note("a_offered", fast.offered);
    report.must_be_at_most("a_accepted", fast.accepted, limit * (seconds + 1.0) + 1.0);
    report.must_be_at_least("a_accepted_share_of_its_limit", fast.accepted as f64 / (limit * seconds), 0.95);
    report.note("a_refused", &fast.refused);
    let limited = fast.refused.get(&429).copied().unwrap_or(0);
    report.must_be("a_neither_accepted_nor_limited", fast.offered - fast.accepted - limited, 0);
    report.note("b_offered", slow.offered);
    report.must_be_at_least("b_accepted_share", slow.accepted as f64 / slow.offered.max(1) as f64, 0.999);
    let [baseline_ms, slow_ms] = [&baseline, &slow].map(|sent| sent.latency.percentile_ms(99.0));
    report.note("b_baseline_p99_ms", rounded(baseline_ms));
    report.must_be_at_most("b_p99_ms", slow_ms, (1.5 * baseline_ms).max(P99_FLOOR_MS));
    retry_after_is_right(&testbed, &a, limit, report).await?;
    testbed.tear_down().await
}

async fn limited_key(testbed: &Testbed, name: &str, limit: f64) -> Result<String> {
    let rate_limit = Some(limit as u32);
    let plan = ApiKeyInput { name: name.into(), rate_limit, ..Default::default() };
    Ok(testbed.client.create_api_key(&plan).await?.key)
}

/// Nothing is sent twice: every answer counts.
fn at(testbed: &Testbed, key: &str, per_second: f64, how_long: Duration) -> PumpConfig {
    let target = Target::Publish { base: testbed.base_url(), key: key.into() };
    PumpConfig {
        retry_for: Duration::ZERO,
        keep_log: false,
        ..PumpConfig::new(target, Until::Elapsed(how_long))
    }
    .open(per_second)
}

/// A batch of five seconds' worth empties the bucket; a producer that then waits as long as it is told is let in.
async fn retry_after_is_right(testbed: &Testbed, key: &str, limit: f64, report: &mut Report) -> Result<()> {
    let event = r#"{"type":"lab.event","data":1}"#;
    let batch = format!("{{\"events\":[{}]}}", vec![event; (limit * 5.0).min(1_000.0) as usize].join(","));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let taken = post(testbed, "/v1/events/batch", key, &batch).await?;
    ensure!(taken.status == Some(202), "a batch after a second of rest: {}", taken.text);
    let refused = post(testbed, "/v1/events", key, event).await?;
    report.must_be("after_a_large_batch", refused.status.unwrap_or(0), 429);
    let told = refused.header("retry-after").and_then(|text| text.parse::<u64>().ok());
    report.note("retry_after_seconds", told);
    report
        .must(told.is_some_and(|seconds| (1..=60).contains(&seconds)), "Retry-After is not 1 to 60 seconds");
    report.must(refused.header("ratelimit").is_some(), "there is no RateLimit field");
    tokio::time::sleep(Duration::from_secs(told.unwrap_or(60))).await;
    let again = post(testbed, "/v1/events", key, event).await?;
    report.must_be("after_waiting_as_told", again.status.unwrap_or(0), 202);
    let body: Value = serde_json::from_str(again.body()).unwrap_or_default();
    report.must(body["id"].is_string(), "an accepted event has no id");
    Ok(())
}

async fn post(testbed: &Testbed, path: &str, key: &str, body: &str) -> Result<raw_http::RawAnswer> {
    let request = raw_http::json_request("POST", path, key, body);
    Ok(raw_http::exchange(testbed.addr, &request, Duration::from_secs(10)).await?)
}
