//! How long it takes from the start of the process until it serves: on an empty store, which has to be made first,
//! and on one that is there. Five times each (`--count`).
//!
//! Holds if every start is ready within a second.

use anyhow::Result;

use crate::Ask;
use crate::harness::{Plan, Report, StoreKind};

const WITHIN_SECONDS: f64 = 1.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let (mut first, mut again) = (0.0f64, 0.0f64);
    for _ in 0..ask.count(5) {
        let mut stage = Plan::new(ask, store)?.set().await?;
        first = first.max(stage.start().await?.as_secs_f64());
        stage.stop().await?;
        again = again.max(stage.start().await?.as_secs_f64());
        stage.strike().await?;
    }
    report.at_most("slowest_first_start_seconds", first, WITHIN_SECONDS);
    report.at_most("slowest_start_seconds", again, WITHIN_SECONDS);
    Ok(report)
}
