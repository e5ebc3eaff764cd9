//! Hazard: a destination that accepts and never answers ties up the workers, and all other destinations wait for it.
//!
//! 180 events for a destination that hangs, then 20 for nineteen others.
//!
//! Holds if the 20 arrive within one second.

use crate::harness::prelude::*;

const HANGING: u64 = 180;
const OTHERS: u64 = 20;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 20, 5).await?;
    testbed.receiver.script("d00", Reply::Hang);
    let of_types = |types: Vec<String>, count| PumpConfig {
        event_types: types,
        ..PumpConfig::new(source.target(), Until::Count(count))
    };
    let hanging = lab::pump::run(of_types(vec!["lab.d00".into()], HANGING)).await?;
    let others = source.names[1..].iter().map(|name| format!("lab.{name}")).collect();
    let sent = lab::pump::run(of_types(others, OTHERS)).await?;
    report.must_be("accepted", hanging.accepted + sent.accepted, HANGING + OTHERS);
    let at_others = || source.names[1..].iter().map(|name| testbed.receiver.succeeded_at(name)).sum::<u64>();
    testbed.receiver.wait_for_succeeded(OTHERS, Duration::from_secs(10)).await;
    report.must_be("arrived", at_others(), OTHERS);
    let slowest = source.names[1..].iter().map(|name| testbed.receiver.end_to_end_of(name).max_us()).max();
    report.must_be_at_most("slowest_seconds", slowest.unwrap_or(u64::MAX) as f64 / 1e6, 1.0);
    report.note("open_at_the_hanging_one", testbed.receiver.max_open("d00"));
    testbed.tear_down().await
}
