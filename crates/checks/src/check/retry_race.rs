//! Hazard: a person retries a delivery at the very moment at which it is retried anyway.
//!
//! Two hundred deliveries (`--count`) fail at their first attempt and are due again a second later. Around that moment
//! "retry now" is called fifty times for each, all of them in parallel, on every node in turn. The second attempt
//! fails too; the third succeeds.
//!
//! Holds if no delivery ever has two requests open, its attempts are numbered without gaps and repeats, nothing is sent
//! after a success, and every call is answered with a 2xx or with a plain no.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use client::{Client, Error};
use domain::id::DeliveryId;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::harness::prelude::*;

const CALLS: u64 = 50;
/// So that the calls are about one delivery's moment and not about the node's capacity.
const PER_SECOND: f64 = 10.0;
/// Calls open at once, of all deliveries together: many, and not so many that a slow node turns connections away.
const AT_ONCE: usize = 150;
const LATENCY: Duration = Duration::from_millis(30);
const PAUSE: Duration = Duration::from_secs(1);
/// Half of it before the moment, half after.
const AROUND: Duration = Duration::from_millis(600);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let deliveries = options.count(200);
    let mut testbed = TestbedPlan::of_several(options)?.start().await?;
    // Not waiting until the lanes are shared out: that they change hands meanwhile must not matter either.
    let source = RoutedSource::make(&testbed, 1, 100).await?;
    let status = |request: &lab::ScriptedRequest<'_>| if request.attempt < 3 { 500 } else { 200 };
    testbed
        .receiver
        .default_script(Script::custom(move |request| Reply::status(status(request)).after(LATENCY)));
    let mut config = source.pump(Until::Count(deliveries)).open(PER_SECOND);
    config.event_types = vec!["lab.d00".into()];
    let pump = Pump::start(config)?;
    let clients: Vec<Client> = testbed.nodes.iter().map(|node| node.client.clone()).collect();
    let (mut calls, mut known) = (JoinSet::new(), HashSet::new());
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let deadline = Instant::now() + Duration::from_secs_f64(deliveries as f64 / PER_SECOND + 20.0);
    while (known.len() as u64) < deliveries {
        ensure!(Instant::now() < deadline, "only {} of {deliveries} were tried at all", known.len());
        let now_us = testbed.receiver.now_us();
        for record in testbed.receiver.snapshot().iter().filter(|record| record.attempt == 1) {
            let (Some(end_us), true) = (record.end_us, !known.contains(&record.delivery_id)) else {
                continue;
            };
            known.insert(record.delivery_id.clone());
            let id: DeliveryId = record.delivery_id.parse()?;
            let due = Instant::now() + PAUSE.saturating_sub(Duration::from_micros(now_us - end_us));
            for call in 0..CALLS {
                let client = clients[(known.len() + call as usize) % clients.len()].clone();
                let at = due + AROUND.mul_f64(call as f64 / CALLS as f64) - AROUND / 2;
                let places = places.clone();
                calls.spawn(async move {
                    sleep_until(at).await;
                    let _place = places.acquire().await;
                    client.retry(id).await
                });
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    let sent = pump.report().await;
    ensure!(sent.accepted == deliveries, "not everything was accepted: {sent}");
    let mut answers: BTreeMap<String, u64> = BTreeMap::new();
    while let Some(answer) = calls.join_next().await {
        let word = match answer? {
            Ok(_) => "taken".to_owned(),
            Err(Error::Refused { problem, .. }) => problem.status.to_string(),
            Err(other) => other.to_string(),
        };
        *answers.entry(word).or_default() += 1;
    }
    // Ended or under way: there is nothing to retry. Too much at once: come back later.
    let wrong = answers.keys().any(|word| !matches!(word.as_str(), "taken" | "409" | "503"));
    report.must(!wrong, format!("a call was answered {answers:?}"));
    let taken = answers.get("taken").copied().unwrap_or(0);
    report.must(taken >= deliveries / 4, "hardly any retry was taken: nothing was tried");
    report.note("answers", answers);
    testbed.must_drain(Duration::from_secs(30), report).await?;

    let mut requests: HashMap<Arc<str>, Vec<Record>> = HashMap::new();
    for record in testbed.receiver.snapshot() {
        requests.entry(record.delivery_id.clone()).or_default().push(record);
    }
    let (mut together, mut misnumbered, mut after_success) = (0u64, 0u64, 0u64);
    let mut examples = Vec::new();
    for of_one in requests.values() {
        let pairs = || of_one.windows(2);
        together +=
            pairs().filter(|pair| pair[0].end_us.is_none_or(|end| end > pair[1].start_us)).count() as u64;
        after_success += pairs().filter(|pair| pair[0].succeeded()).count() as u64;
        let in_turn = of_one.iter().enumerate().all(|(at, record)| record.attempt as usize == at + 1);
        let well = in_turn && of_one.len() == 3;
        misnumbered += u64::from(!well);
        if !well && examples.len() < 5 {
            let shown = |record: &Record| {
                let (start, end) = (record.start_us / 1000, record.end_us.unwrap_or(0) / 1000);
                format!("#{} {start}-{end} ms by {:?}: {:?}", record.attempt, record.sender, record.end)
            };
            examples.push(of_one.iter().map(shown).collect::<Vec<_>>().join(", "));
        }
    }
    report.must_be("deliveries", requests.len(), deliveries);
    report.must_be("two_open_at_once", together, 0);
    report.must_be("wrongly_numbered", misnumbered, 0);
    report.note("examples", examples);
    report.must_be("sent_after_success", after_success, 0);
    testbed.must_be_running(report);
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.tear_down().await
}
