//! Hazard: requests with one idempotency key race, or repeat after a crash, and become two events.
//!
//! For each of a hundred keys (`--count`), two hundred requests at once with the same body, on three nodes where there
//! can be several; then one with another body; then the node is made to die between the commit and the answer, and the request is repeated.
//!
//! Holds if all answers to a key name one event and only one of them says that it is new, another body is answered
//! 409, the repeat after the crash names the event that was committed, and the tables have one event a key. Needs
//! the debug build.

use std::collections::HashSet;

use bytes::Bytes;
use client::{AcceptedStatus, Client, Error};
use domain::id::EventId;
use http::{HeaderName, HeaderValue};
use tokio::task::JoinSet;

use crate::harness::prelude::*;

const AT_ONCE: usize = 200;
const CRASHES: u64 = 3;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let keys = options.count(100);
    let mut testbed = TestbedPlan::with_failpoints(options)?.nodes(options.nodes(3)).start().await?;
    let source = RoutedSource::make(&testbed, 1, 100).await?;
    let bases = testbed.nodes.iter().map(|node| Client::without_key(&node.base_url()));
    let clients = bases.collect::<Result<Vec<Client>, Error>>()?;
    let (client, path) = (clients[0].clone(), source.ingest_path());

    let (mut split, mut created, mut conflicts) = (0u64, 0u64, 0u64);
    for n in 0..keys {
        let key = format!("race-{n}");
        let mut racers = JoinSet::new();
        for racer in 0..AT_ONCE {
            let client = clients[racer % clients.len()].clone();
            let (path, key) = (path.clone(), key.clone());
            racers.spawn(async move { send(&client, &path, &key, "{\"same\":1}").await });
        }
        let mut ids = HashSet::new();
        while let Some(answer) = racers.join_next().await {
            let (id, is_new) = answer?.with_context(|| key.clone())?;
            ids.insert(id);
            created += u64::from(is_new);
        }
        split += u64::from(ids.len() != 1);
        let other = send(&client, &path, &key, "{\"other\":1}").await;
        conflicts += u64::from(matches!(other, Err(Error::Refused { problem, .. }) if problem.status == 409));
    }
    report.must_be("keys_with_two_events", split, 0);
    report.must_be("created", created, keys);
    report.must_be("conflicts", conflicts, keys);

    let mut kept = 0u64;
    for round in 0..CRASHES {
        kept += u64::from(crash_before_the_answer(&mut testbed, &path, &format!("crash-{round}")).await?);
    }
    report.must_be("kept_through_a_crash", kept, CRASHES);
    testbed.must_drain(Duration::from_secs(30), report).await?;
    let audit = TableAudit::of(&testbed.database).await?;
    report.must_be("events_stored", audit.events, keys + CRASHES);
    audit.must_hold(report);
    testbed.tear_down().await
}

/// Whether the repeat of a request that died before its answer names the event that was committed.
async fn crash_before_the_answer(testbed: &mut Testbed, path: &str, key: &str) -> Result<bool> {
    testbed.stop().await?;
    testbed.abort_at("ack.before", 1);
    testbed.start().await?;
    let client = Client::without_key(&testbed.base_url())?;
    let unanswered = send(&client, path, key, "{}").await.is_err();
    let died = testbed.wait_for_exit(Duration::from_secs(5)).await;
    testbed.set_env("POSTHASTE_FAIL", None);
    testbed.start().await?;
    let sql = format!("select id from events where idempotency_key = '{key}'");
    let rows = testbed.database.rows(&sql).await?;
    let committed = rows.first().and_then(|row| row[0].id()).map(EventId::from_bytes);
    let (id, is_new) = send(&Client::without_key(&testbed.base_url())?, path, key, "{}").await?;
    Ok(unanswered && died && committed == Some(id) && !is_new)
}

async fn send(client: &Client, path: &str, key: &str, body: &'static str) -> Result<(EventId, bool), Error> {
    let headers = [
        (HeaderName::from_static("x-event-type"), HeaderValue::from_static("lab.d00")),
        (HeaderName::from_static("idempotency-key"), key.parse().expect("a plain word")),
    ];
    let accepted = client.ingest(path, &headers, Bytes::from_static(body.as_bytes())).await?;
    Ok((accepted.id, accepted.status != AcceptedStatus::Duplicate))
}
