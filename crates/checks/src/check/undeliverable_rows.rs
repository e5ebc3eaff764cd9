//! Hazard: a row that cannot be delivered any more stops the worker, or takes its neighbours along.
//!
//! Twenty deliveries wait for each of several destinations; the node is stopped and the rows are spoiled in the
//! tables: a header no HTTP can carry, a URL that does not parse, a secret that does not open, settings that are no
//! JSON, an event whose row is gone. An empty body and one of the greatest size go to a healthy destination.
//!
//! Holds if every spoiled delivery ends as a dead letter that says why, if everything for the healthy destinations
//! arrives, and if the process lives on without a panic.

use bytes::Bytes;
use client::Client;
use domain::id::DestinationId;
use serde_json::Value;

use crate::harness::prelude::*;

const EACH: u64 = 20;
const HEALTHY: [usize; 2] = [0, 1];
const BAD_HEADER: usize = 2;
const BAD_URL: usize = 3;
const BAD_SECRET: usize = 4;
const BAD_SETTINGS: usize = 5;
const NO_EVENT: usize = 6;
const SIZE: usize = 7;
/// The greatest body that is accepted.
const GREATEST: usize = 5 * 1024 * 1024;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, SIZE, 4).await?;
    for id in &source.destinations {
        testbed.client.pause(*id).await?;
    }
    // In turns of one to each and one to all: twice a turn for each.
    let turns = EACH / 2;
    pump_all(source.pump(Until::Count(turns * (SIZE as u64 + 1)))).await?;
    let anonymous = Client::without_key(&testbed.base_url())?;
    for body in [Bytes::new(), Bytes::from(vec![b'z'; GREATEST])] {
        let headers =
            [(http::HeaderName::from_static("x-event-type"), http::HeaderValue::from_static("lab.d00"))];
        anonymous.ingest(&source.ingest_path(), &headers, body).await?;
    }
    testbed.stop().await?;

    spoil(&testbed.database, source.destinations[BAD_HEADER], |doc| {
        doc["headers"] = json!([["x-\u{1}", "a\r\nb: c"]])
    })
    .await?;
    spoil(&testbed.database, source.destinations[BAD_URL], |doc| {
        doc["url"] = json!("http://[half an address")
    })
    .await?;
    spoil(&testbed.database, source.destinations[BAD_SECRET], |doc| {
        doc["secret"]["current"] = json!("AQJrMQAAAAAAAAAA")
    })
    .await?;
    let id = testbed.database.literal(source.destinations[BAD_SETTINGS].bytes());
    testbed.database.write(&format!("update destinations set doc = '{{' where id = {id}")).await?;
    let id = testbed.database.literal(source.destinations[NO_EVENT].bytes());
    let sole = "select event_id from queue group by event_id having count(*) = 1";
    testbed
        .database
        .write(&format!(
            "delete from events where id in (select event_id from queue where destination_id = {id}
             and event_id in ({sole}))"
        ))
        .await?;
    testbed.database.write("update destinations set paused_at = null").await?;

    testbed.start().await?;
    testbed.must_drain(Duration::from_secs(30), report).await?;
    let healthy = HEALTHY.len() as u64 * EACH + 2;
    let arrived: u64 = HEALTHY.iter().map(|at| testbed.receiver.succeeded_at(&source.names[*at])).sum();
    report.must_be("healthy_delivered", arrived, healthy);
    for (what, at, wanted) in [
        ("bad_header", BAD_HEADER, EACH),
        ("bad_url", BAD_URL, EACH),
        ("bad_secret", BAD_SECRET, EACH),
        ("bad_settings", BAD_SETTINGS, EACH),
        ("no_event", NO_EVENT, EACH / 2),
    ] {
        let id = testbed.database.literal(source.destinations[at].bytes());
        let dead = format!(
            "select count(*) from attempts where destination_id = {id} and ending = 'dead_letter'
             and reason = 'undeliverable'"
        );
        report.must_be(what, testbed.database.number(&dead).await?, wanted);
    }
    let unexplained = "select count(*) from attempts where ending = 'dead_letter' and number is null";
    report.must_be("dead_letters_without_an_attempt", testbed.database.number(unexplained).await?, 0);
    testbed.must_be_running(report);
    report.must(!testbed.log().contains("panicked"), "something panicked");
    let mut audit = TableAudit::of(&testbed.database).await?;
    // The events that we removed ourselves.
    audit.partial_fan_outs = 0;
    audit.must_hold(report);
    testbed.tear_down().await
}

async fn spoil(database: &Database, id: DestinationId, how: impl Fn(&mut Value)) -> Result<()> {
    let id = database.literal(id.bytes());
    let rows = database.rows(&format!("select doc from destinations where id = {id}")).await?;
    let text = rows.first().and_then(|row| row[0].text()).context("the destination is gone")?;
    let mut doc: Value = serde_json::from_str(text)?;
    how(&mut doc);
    let text = doc.to_string().replace('\'', "''");
    database.write(&format!("update destinations set doc = '{text}' where id = {id}")).await
}
