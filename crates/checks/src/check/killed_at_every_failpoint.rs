//! Hazard: the process dies at the worst possible instruction.
//!
//! For every failpoint named in the source that belongs to this store (`--only`): load, an abort at the fiftieth time the place
//! is reached (fewer where it is reached seldom), a restart without it, and a drain. One destination fails at
//! first, one for good, one is slow enough to fall behind, one throttles, so that retries, dead letters, fetches and
//! holds happen too. Places that only a large event comes by are tried with one, as in `killed_while_expanding`; those of chores with a
//! replay, with retention that is seconds, and with a day of history to be summed up.
//!
//! Holds if for every place the abort happened, nothing was lost, duplicates are within the budget and no
//! destination had more requests open than its limit; of chores, if each original was replayed once, what waits was kept
//! and nothing is left of what went, and the sums are what happened. Needs the debug build.

mod chores;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use lab::Latency;

use super::killed_while_expanding;
use crate::harness::postgres_server::root;
use crate::harness::prelude::*;

const DESTINATIONS: usize = 6;
const SLOTS: u32 = 4;
/// Tried one after the other until the place was reached often enough.
const AT_HITS: [u64; 3] = [50, 5, 1];
/// Places that only an event for a crowd comes by.
const OF_LARGE_EVENTS: &str = "expand.";
const AT_HITS_OF_LARGE: [u64; 1] = [2];
/// And only chores.
const AT_HITS_OF_CHORES: [u64; 2] = [2, 1];
const OF_CHORES: [&str; 4] = ["backfill.", "replay.", "prune.", "rollup."];

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut places = BTreeMap::new();
    collect(&root().join("crates"), &mut places)?;
    places.retain(|_, files: &mut Vec<String>| files.iter().any(|file| concerns(file, options.store())));
    // Nobody is told in here: those places are tried in the tests of the binary.
    places.retain(|place, _| !place.starts_with("operations."));
    places.retain(|place, _| options.only.as_ref().is_none_or(|only| place.starts_with(only.as_str())));
    ensure!(!places.is_empty(), "no failpoint was found in the source");
    report.note("places", places.len());
    let mut runs = serde_json::Map::new();
    for place in places.keys() {
        let mut hit = false;
        let large = place.starts_with(OF_LARGE_EVENTS);
        let of_chores = OF_CHORES.iter().any(|chore| place.starts_with(chore));
        let at_hits = match (large, of_chores) {
            (true, _) => &AT_HITS_OF_LARGE[..],
            (_, true) => &AT_HITS_OF_CHORES[..],
            _ => &AT_HITS[..],
        };
        for at_hit in at_hits.iter().copied() {
            let (died, part) = match (large, of_chores) {
                (true, _) => killed_while_expanding::died_at(options, place, at_hit).await,
                (_, true) => chores::died_at(options, place, at_hit).await,
                _ => one_place(options, place, at_hit).await,
            }
            .with_context(|| place.clone())?;
            if died {
                hit = true;
                report.must_hold(place, &part);
                runs.insert(place.clone(), json!(at_hit));
                break;
            }
        }
        report.must(hit, format!("{place} was never reached"));
    }
    report.note("aborted_at_hit", runs);
    Ok(())
}

async fn one_place(options: &Options, place: &str, at_hit: u64) -> Result<(bool, Report)> {
    let mut part = Report::default();
    let mut testbed = TestbedPlan::with_failpoints(options)?.start().await?;
    let source = RoutedSource::make(&testbed, DESTINATIONS, SLOTS).await?;
    let quick = Latency::Uniform { from: Duration::from_millis(2), to: Duration::from_millis(20) };
    testbed.receiver.default_script(Reply::ok().after(quick));
    // Fails once, then no more: a retry is what is wanted, not the long tail of many.
    testbed
        .receiver
        .script("d01", Script::custom(|request| Reply::status(if request.attempt == 1 { 500 } else { 200 })));
    testbed.receiver.script("d02", Reply::status(400));
    testbed.receiver.script("d03", Reply::ok().after(Duration::from_millis(300)));
    // Throttles once, so that there is a hold to be remembered.
    let first = AtomicBool::new(true);
    testbed.receiver.script(
        "d04",
        Script::custom(move |_| if first.swap(false, Relaxed) { Reply::throttled(1) } else { Reply::ok() }),
    );
    // Setting up has reached places too; the count begins with the load.
    testbed.stop().await?;
    testbed.abort_at(place, at_hit);
    // The place may be on the way to being ready.
    let _ = testbed.start().await;

    let pump = Pump::start(source.pump(Until::Elapsed(options.seconds(3))).open(options.rate(100.0)))?;
    let limit = options.seconds(3) + Duration::from_secs(3);
    let (died, died_us) = testbed.restart_after_abort(place, limit, &mut part).await?;
    let sent = pump.report().await;
    let death = Fault::of_all(FaultKind::Kill, died_us);
    settle_accounts(&testbed, &source, source.evidence(&sent, vec![death]), &mut part).await?;
    testbed.tear_down().await?;
    Ok((died, part))
}

/// Every `failpoint::hit("…")` below a folder, with the files it is in.
fn collect(folder: &Path, places: &mut BTreeMap<String, Vec<String>>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("checks") && !path.ends_with("tests") {
            collect(&path, places)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)?;
            for found in text.split("failpoint::hit(\"").skip(1) {
                let Some((place, _)) = found.split_once('"') else { continue };
                places.entry(place.to_owned()).or_default().push(path.display().to_string());
            }
        }
    }
    Ok(())
}

/// A place in the other store's folder is never reached on this one.
fn concerns(file: &str, store: StoreKind) -> bool {
    match store {
        StoreKind::Sqlite => !file.contains("/postgres"),
        StoreKind::Postgres => !file.contains("/sqlite"),
    }
}
