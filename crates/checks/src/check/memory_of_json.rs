//! Hazard: documents of millions of small values, matched by their contents, take all memory and all processors.
//!
//! Twenty-four at once (`--count`), again and again for ten seconds (`--seconds`): documents of 5.2 MB whose every value is
//! one byte, for a source with one filtered route. Beside them another account publishes fifty small events a second
//! (`--rate`), as it did alone before.
//!
//! Holds if each document is accepted or told to come again (429, 503); if the node never has more than 512 MiB; and if the
//! other account is answered within twice the time, at the 50th and the 99th percentile, and refused nothing.

use client::{NewRoute, NewSource};
use std::collections::BTreeMap;
use tokio::task::JoinSet;

use crate::harness::node_watch::NodeWatch;
use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::testbed::add_destination;

const DOCUMENT: usize = 5_200_000;
const MEMORY_MIB: f64 = 512.0;
const TOLERANCE: f64 = 2.0;
/// Below these it is the machine's own scheduler that is measured.
const P50_FLOOR_MS: f64 = 10.0;
const P99_FLOOR_MS: f64 = 50.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let other = OtherAccount::make(&testbed).await?;
    add_destination(&other.client, &testbed.destination_with_slots("other", 10), &[]).await?;
    let source = testbed.client.create_source(&NewSource::new("large")).await?;
    let destination = testbed.client.create_destination(&testbed.destination("matched")).await?;
    let filter = Some(json!({ "data": { "last": "wanted" } }));
    let route = NewRoute { filter, ..NewRoute::from_source(source.id, destination.id) };
    testbed.client.create_route(&route).await?;

    let span = options.seconds(10);
    let alone = lab::pump::run(other.pump(&testbed, options.rate(50.0), span)).await?;
    report.note("memory_mib_before", rounded(mib(testbed.process()?.rss_bytes()?)));
    let watch = NodeWatch::begin(&testbed)?;
    let url = source.ingest_url.context("a source that was just made shows its ingest URL")?;
    let path = url.split_once("/ingest/").context("an ingest URL")?.1;
    let headers = [("x-event-type", "large.document"), ("content-type", "application/json")];
    let request = raw_http::request("POST", &format!("/ingest/{path}"), &headers, &document());
    let posters = options.count(24);
    let (beside, answers) = tokio::try_join!(
        async { Ok(lab::pump::run(other.pump(&testbed, options.rate(50.0), span)).await?) },
        post(&testbed, request.into(), posters, span)
    )?;
    let peak = watch.finish().await?;

    report.note("documents", &answers);
    let wrong: u64 =
        answers.iter().filter(|(status, _)| ![202, 429, 503].contains(*status)).map(|(_, n)| n).sum();
    report.must_be("documents_answered_otherwise", wrong, 0);
    report.must(answers.contains_key(&202), "no document was accepted");
    report.must_be_at_most("most_memory_mib", mib(peak.memory_bytes), MEMORY_MIB);
    for (percent, floor) in [(50.0, P50_FLOOR_MS), (99.0, P99_FLOOR_MS)] {
        let [alone, beside] = [&alone, &beside].map(|sent| sent.latency.percentile_ms(percent));
        report.note(&format!("p{percent}_ms_alone"), rounded(alone));
        report.must_be_at_most(&format!("p{percent}_ms_beside"), beside, (alone * TOLERANCE).max(floor));
    }
    report.must_be("other_account_refused", beside.offered - beside.accepted, 0);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// As many values as fit, and at its end the one that a route asks for.
fn document() -> Vec<u8> {
    let last = "0],\"last\":\"wanted\"}";
    let mut text = String::from("{\"values\":[");
    while text.len() + last.len() + 2 <= DOCUMENT {
        text.push_str("1,");
    }
    text.push_str(last);
    text.into_bytes()
}

/// How many were answered how.
async fn post(
    testbed: &Testbed,
    request: bytes::Bytes,
    posters: u64,
    span: Duration,
) -> Result<BTreeMap<u16, u64>> {
    let mut tasks = JoinSet::new();
    let (addr, began) = (testbed.addr, Instant::now());
    for _ in 0..posters {
        let request = request.clone();
        tasks.spawn(async move {
            let mut statuses = Vec::new();
            while began.elapsed() < span {
                let answer = raw_http::exchange(addr, &request, Duration::from_secs(30)).await?;
                statuses.push(answer.status.unwrap_or(0));
                if answer.status != Some(202) {
                    // As it is told, or a second.
                    sleep(Duration::from_secs(1)).await;
                }
            }
            anyhow::Ok(statuses)
        });
    }
    let mut answers = BTreeMap::new();
    while let Some(statuses) = tasks.join_next().await {
        for status in statuses?? {
            *answers.entry(status).or_default() += 1;
        }
    }
    Ok(answers)
}
