//! Hazard: what an event costs grows with what has been stored, with what waits, or with how much is configured.
//!
//! Two nodes, each on a store of its own: one has nothing but what it needs, the other a million events of eight days
//! (`history`), a million deliveries that wait for a destination that is paused (`waiting`), or a hundred thousand destinations
//! among which the events are spread (`destinations`, against ten). Both get the same closed loop of 64 connections, in turn, three
//! times for five seconds each (`--seconds`). `--only` names one of the three, `--count` how large it is.
//!
//! Holds if the CPU time that node and database spend on an event grows by 15 % at most (median of the three pairs), and
//! everything arrives.

use super::long_history::summed_up;
use crate::harness::backlog::BacklogTemplate;
use crate::harness::history::LongHistory;
use crate::harness::large_fanout;
use crate::harness::prelude::*;

const PAIRS: usize = 3;
const CONNECTIONS: usize = 64;
/// Of the loads that are not about destinations.
const DESTINATIONS: usize = 10;
const DAYS: u64 = 8;
const DEARER: f64 = 1.15;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let wanted = |part: &str| options.only.as_ref().is_none_or(|only| part.starts_with(only.as_str()));
    if wanted("history") {
        let size = options.count(1_000_000);
        let full = with_history(options, size).await?;
        compare("history", size, options, full, DESTINATIONS, report).await?;
    }
    if wanted("waiting") {
        let size = options.count(1_000_000);
        let full = with_waiting(options, size).await?;
        compare("waiting", size, options, full, DESTINATIONS, report).await?;
    }
    if wanted("destinations") {
        let size = options.count(100_000);
        let full = with_destinations(options, size as usize).await?;
        compare("destinations", size, options, full, size as usize, report).await?;
    }
    Ok(())
}

/// A node with so many destinations, each of which gets the events of a type of its own.
async fn with_destinations(options: &Options, size: usize) -> Result<Testbed> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.recording(Recording::Counts);
    testbed.receiver.default_script(Reply::ok());
    testbed.stop().await?;
    large_fanout::add_destinations_for(&testbed, size, |at| (event_type(at), 1)).await?;
    testbed.database.tidy(&["vacuum analyze destinations", "vacuum analyze routes"]).await?;
    testbed.start().await?;
    Ok(testbed)
}

async fn with_history(options: &Options, size: u64) -> Result<Testbed> {
    let mut testbed = with_destinations(options, DESTINATIONS).await?;
    let history = LongHistory::prepare(&testbed, DAYS, size).await?;
    testbed.stop().await?;
    history.load(&testbed.database).await?;
    testbed.start().await?;
    // A history that is not summed up yet is work of its own.
    summed_up(&testbed, Duration::from_secs(1_800)).await?;
    Ok(testbed)
}

async fn with_waiting(options: &Options, size: u64) -> Result<Testbed> {
    let mut testbed = with_destinations(options, DESTINATIONS).await?;
    let template = BacklogTemplate::make(&testbed, "held", 1).await?;
    testbed.stop().await?;
    template.copy(&testbed.database, 1, size).await?;
    testbed.start().await?;
    Ok(testbed)
}

fn event_type(at: usize) -> String {
    format!("growth.d{at}")
}

async fn compare(
    name: &str,
    size: u64,
    options: &Options,
    full: Testbed,
    of_full: usize,
    report: &mut Report,
) -> Result<()> {
    let empty = with_destinations(options, DESTINATIONS).await?;
    for (testbed, size) in [(&empty, DESTINATIONS), (&full, of_full)] {
        load(testbed, size, Duration::from_secs(3)).await?;
    }
    let (mut little, mut much) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        little.push(load(&empty, DESTINATIONS, options.seconds(5)).await?);
        much.push(load(&full, of_full, options.seconds(5)).await?);
    }
    let ratio =
        median(little.iter().zip(&much).map(|(little, much)| much.us_per_event / little.us_per_event));
    let speed = median(little.iter().zip(&much).map(|(little, much)| much.per_second / little.per_second));
    report.note(&format!("{name}_size"), size);
    report.note(&format!("{name}_little"), little.iter().map(Cost::shown).collect::<Vec<_>>());
    report.note(&format!("{name}_much"), much.iter().map(Cost::shown).collect::<Vec<_>>());
    report.note(&format!("{name}_speed"), rounded(speed));
    report.note(&format!("{name}_node_mib"), mib(full.process()?.rss_bytes()?).round());
    report.must_be_at_most(&format!("{name}_dearer_by"), rounded(ratio), DEARER);
    empty.tear_down().await?;
    full.tear_down().await
}

struct Cost {
    us_per_event: f64,
    per_second: f64,
}

impl Cost {
    fn shown(&self) -> serde_json::Value {
        json!({ "us": rounded(self.us_per_event), "events_per_second": rounded(self.per_second) })
    }
}

/// Spread over the destinations in turn; what each event costs once all have arrived.
async fn load(testbed: &Testbed, destinations: usize, span: Duration) -> Result<Cost> {
    testbed.receiver.clear();
    let before = CpuTime::of(testbed).await?;
    let config = PumpConfig {
        connections: CONNECTIONS,
        event_types: (0..destinations).map(event_type).collect(),
        keep_log: false,
        ..testbed.publisher(Until::Elapsed(span))
    };
    let sent = lab::pump::run(config).await?;
    let all = testbed.receiver.wait_for_succeeded(sent.accepted, Duration::from_secs(60)).await;
    ensure!(all, "{} of {} arrived", testbed.receiver.succeeded(), sent.accepted);
    let spent = CpuTime::spent(testbed, &before).await?;
    Ok(Cost {
        us_per_event: us_per_event(spent.of_nodes_and_database(), sent.accepted),
        per_second: sent.rate,
    })
}
