//! How long it takes from the start of the process until it serves: on an empty store, which has to be made first,
//! and on one that is there. Five times each (`--count`).
//!
//! Holds if every start is ready within a second.

use crate::harness::prelude::*;

const WITHIN_SECONDS: f64 = 1.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let (mut first, mut again) = (0.0f64, 0.0f64);
    for _ in 0..options.count(5) {
        let mut testbed = TestbedPlan::new(options)?.build().await?;
        first = first.max(testbed.start().await?.as_secs_f64());
        testbed.stop().await?;
        again = again.max(testbed.start().await?.as_secs_f64());
        testbed.tear_down().await?;
    }
    report.must_be_at_most("slowest_first_start_seconds", first, WITHIN_SECONDS);
    report.must_be_at_most("slowest_start_seconds", again, WITHIN_SECONDS);
    Ok(())
}
