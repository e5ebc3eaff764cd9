//! Hazard: the clock of the one machine there is jumps: retries stop, or everything kept expires.
//!
//! A node on an embedded store, with prune looking every second; a destination fails every first and second attempt. Under
//! load its clock is set back by two hours, put right, set ahead by 400 days and put right again, each for longer than a
//! retry takes and for less than the minute after which a clock is believed. Then the node is stopped, and started with a
//! clock two hours behind what it has stored.
//!
//! Holds if every retry comes when it is due by true time; if nothing expires: no event goes, nothing is lost or doubled; if
//! every timestamp that receivers see is right; if log and `/readyz` tell of each jump; and if the start behind is not ready,
//! says why, delivers all the same, and is ready once the clock is right. Needs libfaketime.

use lab::nemesis::ShiftedClock;

use super::wrong_clocks::{judge_pauses, wrong_timestamps};
use crate::harness::prelude::*;
use crate::harness::raw_http::RawAnswer;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
const EVENTS: &str = "select count(*) from events";

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.short_retention(None, 1).build().await?;
    let clock = ShiftedClock::new(&testbed.dir().join("clock"))?;
    testbed.nodes[0].launch.env.extend(clock.env());
    testbed.start().await?;
    let source = RoutedSource::make(&testbed, 8, 4).await?;
    testbed.receiver.recording(Recording::FullWithBodies);
    let failing = |request: &lab::ScriptedRequest<'_>| {
        let unwell = request.destination.as_bytes().last().is_some_and(|last| last % 4 == 0);
        Reply::status(if unwell && request.attempt < 3 { 500 } else { 200 })
    };
    testbed.receiver.default_script(Script::custom(failing));

    let away = options.seconds(8);
    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(50.0)))?;
    sleep(away / 4).await;
    for (name, by) in [("back", -2 * HOUR), ("ahead", 400 * DAY)] {
        let before = testbed.database.number(EVENTS).await?;
        clock.shift(by)?;
        sleep(away).await;
        let ready = testbed.get("/readyz").await?;
        let said = said_of_clock(&ready).unwrap_or_default();
        report.must(ready.status == Some(200), format!("{name}: the node is not ready"));
        report.must(said.contains("was set by"), format!("{name}: /readyz does not tell: {said:?}"));
        report.note(&format!("{name}_says"), said);
        let after = testbed.database.number(EVENTS).await?;
        report.must(after > before, format!("{name}: {before} events became {after}"));
        clock.shift(0)?;
        sleep(away / 2).await;
        let again = said_of_clock(&testbed.get("/readyz").await?);
        report.must(again.is_none(), format!("{name}: a clock that is right again is told of: {again:?}"));
    }
    let sent = pump.finish().await;
    testbed.must_drain(Duration::from_secs(30), report).await?;
    let told = testbed.log().matches("this machine's clock was set;").count();
    report.must_be_at_least("jumps_in_the_log", told as u64, 2.0);
    report.must_be("events_gone", sent.accepted.saturating_sub(testbed.database.number(EVENTS).await?), 0);
    let records = testbed.receiver.snapshot();
    judge_pauses(&records, report);
    report.must_be("wrong_timestamps", wrong_timestamps(&testbed, &records), 0);

    testbed.stop().await?;
    clock.shift(-2 * HOUR)?;
    testbed.launch_node(0)?;
    // Until the store is open there is no answer, or another one.
    let tells = async || {
        let Ok(answer) = testbed.get("/readyz").await else { return Ok(false) };
        let said = said_of_clock(&answer).unwrap_or_default();
        Ok(answer.status == Some(503) && said.contains("the newest time in the store"))
    };
    let tells = becomes(Duration::from_secs(10), 50, tells).await?;
    report.must(tells, "a start behind what is stored is ready, or does not say why");
    let mut later = source.pump(Until::Elapsed(Duration::from_secs(3))).open(options.rate(20.0));
    later.first_n = sent.offered;
    let later = Pump::start(later)?.report().await;
    testbed.must_drain(Duration::from_secs(30), report).await?;
    clock.shift(0)?;
    let ready = async || Ok(testbed.get("/readyz").await?.status == Some(200));
    let ready = becomes(Duration::from_secs(10), 100, ready).await?;
    report.must(ready, "it is not ready once the clock is right");
    let mut evidence = source.evidence(&sent, Vec::new());
    evidence.acked.extend(source.promised(&later.sent));
    settle_accounts(&testbed, &source, evidence, report).await?;
    testbed.tear_down().await
}

fn said_of_clock(ready: &RawAnswer) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(ready.body()).ok()?;
    Some(body["clock"].as_str()?.to_owned())
}
