//! Hazard: a destination with a long backlog starves all others, because the fetcher wades through it in search of work.
//!
//! A thousand destinations with ten waiting deliveries each, once alone and once beside a destination that is at its
//! limit with a million waiting (`--count`); everything waits in the tables when the node starts. Three such pairs,
//! one after the other.
//!
//! Holds if the thousand drain as fast beside the backlog as without it, within a fifth (median of three), and the
//! CPU that node and database spend on them, which is where a dearer fetch would show, is the same within a fifth.

use crate::harness::backlog::BacklogTemplate;
use crate::harness::prelude::*;

const OTHERS: usize = 1_000;
const EACH: u64 = 10;
const PAIRS: u16 = 3;
const TOLERANCE: f64 = 1.2;
/// The steps of the kernel's CPU clock, and the other work of a node, must not decide.
const CPU_GRACE: f64 = 0.1;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let backlog = options.count(1_000_000);
    let mut alone = ComparedTestbed::start(options, 0).await?;
    let mut beside = ComparedTestbed::start(options, backlog).await?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 0..PAIRS {
        without.push(alone.drain(round).await?);
        with.push(beside.drain(round).await?);
    }
    let seconds = |drains: &[Drain]| median(drains.iter().map(|drain| drain.seconds));
    let cpu_seconds = |drains: &[Drain]| median(drains.iter().map(|drain| drain.cpu_seconds));
    let (seconds_alone, seconds_beside) = (seconds(&without), seconds(&with));
    let (cpu_alone, cpu_beside) = (cpu_seconds(&without), cpu_seconds(&with));
    report.note("backlog", beside.template.waiting(&beside.testbed.database).await?);
    report.note("open_at_the_full_destination", beside.full);
    report.note("others", OTHERS as u64 * EACH);
    report.note("seconds_alone", rounded(seconds_alone));
    report.note("seconds_beside", rounded(seconds_beside));
    report.must_be_at_most("slower_by", seconds_beside / seconds_alone, TOLERANCE);
    report.note("cpu_seconds_alone", rounded(cpu_alone));
    report.note("cpu_seconds_beside", rounded(cpu_beside));
    report.must_be_at_most("dearer_by", (cpu_beside - CPU_GRACE).max(0.0) / cpu_alone, TOLERANCE);
    report.must(beside.full > 0, "the destination with the backlog was never at work");
    alone.testbed.tear_down().await?;
    beside.testbed.tear_down().await
}

/// One of the two installations that are compared.
struct ComparedTestbed {
    testbed: Testbed,
    template: BacklogTemplate,
    full: u32,
}

#[derive(Clone, Copy)]
struct Drain {
    seconds: f64,
    cpu_seconds: f64,
}

impl ComparedTestbed {
    async fn start(options: &Options, backlog: u64) -> Result<ComparedTestbed> {
        let mut testbed = TestbedPlan::new(options)?.start().await?;
        testbed.receiver.recording(Recording::Counts);
        // As long as its deadline allows: five slots, two a second.
        testbed.receiver.script("full", Reply::ok().after(Duration::from_millis(2_500)));
        let template = BacklogTemplate::make(&testbed, "full", 5).await?;
        for at in 0..OTHERS {
            let plan = testbed.destination_with_slots(&format!("o{at:04}"), 5);
            testbed.add_destination(&plan, &["others"]).await?;
        }
        testbed.stop().await?;
        if backlog > 0 {
            template.copy(&testbed.database, 0, backlog).await?;
            template.release(&testbed.database).await?;
        }
        Ok(ComparedTestbed { testbed, template, full: 0 })
    }

    /// Starts the node on fresh deliveries for the others, and times from its readiness until they have arrived.
    async fn drain(&mut self, round: u16) -> Result<Drain> {
        self.template.fan_out(&self.testbed.database, round, EACH).await?;
        self.testbed.receiver.clear();
        self.testbed.launch_node(0)?;
        let before = CpuTime::of(&self.testbed).await?;
        self.testbed.nodes[0].ready().await?;
        let began = Instant::now();
        let wanted = OTHERS as u64 * EACH;
        // What the full destination gets is not counted among the others'.
        let others = |testbed: &Testbed| testbed.receiver.succeeded() - testbed.receiver.succeeded_at("full");
        while others(&self.testbed) < wanted {
            ensure!(
                began.elapsed() < Duration::from_secs(60),
                "only {} of {wanted} arrived",
                others(&self.testbed)
            );
            let missing = wanted - others(&self.testbed);
            let goal = self.testbed.receiver.succeeded() + missing;
            self.testbed.receiver.wait_for_succeeded(goal, Duration::from_millis(20)).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        let spent = CpuTime::spent(&self.testbed, &before).await?;
        self.full = self.full.max(self.testbed.receiver.max_open("full"));
        self.testbed.stop().await?;
        Ok(Drain { seconds, cpu_seconds: spent.of_nodes_and_database().as_secs_f64() })
    }
}
