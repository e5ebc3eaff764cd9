//! Hazard: a node dies while stored events are brought to a new destination, and some get there twice or not at all; or the
//! way back costs much more than the way it missed.
//!
//! 100,000 events (`--count`) for one destination, as fast as they are taken. Then a second destination comes and gets all of
//! them by a backfill at the highest rate, and as many events come for a third one at that same rate: what the two cost is
//! compared, the sums of what came included. A fourth destination gets the first events by a backfill while nodes are killed
//! (SIGKILL) in the middle and started again; on PostgreSQL there are three of them. At last the same is asked for once more.
//!
//! Holds if each event has one delivery to each destination, all of them arrive, the last backfill makes none, and a
//! delivery that was made late cost at most 1.2 times the CPU time of one that came with its event at the same rate. (One of
//! many that come as fast as they can is cheaper: more of them share a flush. It is told beside them.)

use client::{BackfillEvents, BackfillMatch, BatchResult, ReplayInput, ReplayView};
use domain::{
    id::{DestinationId, ReplayId},
    replay::ReplayStatus,
};

use crate::harness::prelude::*;

const RATE: u32 = 10_000;
const DEAREST: f64 = 1.2;
/// What has become durable is added to its minute every five seconds.
const SUMMED_UP: Duration = Duration::from_secs(6);
const PATIENCE: Duration = Duration::from_secs(240);

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.count(100_000);
    let mut testbed = TestbedPlan::of_several(options)?.start_balanced().await?;
    testbed.receiver.recording(Recording::Counts);
    let usual = testbed.add_destination(&testbed.destination_with_slots("usual", 50), &["order.*"]).await?;

    let before = CpuTime::of(&testbed).await?;
    publish(&testbed, "order.paid", count, None).await?;
    let fast = spent(&testbed, &before, report, "as_fast_as_can_be", count).await?;

    let late = testbed.add_destination(&testbed.destination_with_slots("late", 50), &["order.*"]).await?;
    let (before, began) = (CpuTime::of(&testbed).await?, Instant::now());
    let first = completed(&testbed, begin(&testbed, &[late], "first").await?.id).await?;
    report.note("made_a_second", rounded(count as f64 / began.elapsed().as_secs_f64()));
    let backfilled = spent(&testbed, &before, report, "backfilled", count).await?;

    let steady = testbed.add_destination(&testbed.destination_with_slots("steady", 50), &["call.*"]).await?;
    let before = CpuTime::of(&testbed).await?;
    publish(&testbed, "call.ended", count, Some(RATE)).await?;
    let ordinary = spent(&testbed, &before, report, "ordinary", count).await?;
    report.note("dearer_than_as_fast_as_can_be", rounded(backfilled / fast));
    report.must_be_at_most("dearer", backfilled / ordinary, DEAREST);
    report.must_be("first_created", first.created, count);

    let last = testbed.add_destination(&testbed.destination_with_slots("last", 50), &["order.*"]).await?;
    let replay = begin(&testbed, &[last], "killed").await?;
    for part in 1..=2 {
        wait_until("the backfill does not go on", PATIENCE, 20, async || {
            Ok(testbed.client.replay(replay.id).await.is_ok_and(|told| told.created >= count * part / 3))
        })
        .await?;
        let at = part as usize % testbed.nodes.len();
        testbed.kill_node(at).await?;
        testbed.start_node(at).await?;
    }
    let told = completed(&testbed, replay.id).await?;
    report.must_be("killed_created", told.created, count);
    report.must_be("killed_skipped", told.skipped, 0);
    let again = completed(&testbed, begin(&testbed, &[], "again").await?.id).await?;
    report.must_be("made_again", again.created, 0);
    testbed.must_drain(PATIENCE, report).await?;

    for (name, destination) in [("usual", usual), ("late", late), ("steady", steady), ("last", last)] {
        let (deliveries, events) = reached(&testbed, destination).await?;
        report.must_be(&format!("{name}_deliveries"), deliveries, count);
        report.must_be(&format!("{name}_events"), events, count);
    }
    let told = testbed.client.replay(replay.id).await?;
    report.must_be("killed_delivered", told.delivered, count);
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.tear_down().await
}

/// What a delivery cost since then, in microseconds, when all have arrived and are summed up: all together, and the part of
/// the database.
async fn spent(
    testbed: &Testbed,
    before: &CpuTime,
    report: &mut Report,
    name: &str,
    count: u64,
) -> Result<f64> {
    testbed.must_drain(PATIENCE, report).await?;
    sleep(SUMMED_UP).await;
    let spent = CpuTime::spent(testbed, before).await?;
    let each = |spent: Duration| spent.as_secs_f64() * 1e6 / count as f64;
    let all = each(spent.of_nodes_and_database());
    report.note(&format!("{name}_microseconds"), rounded(all));
    report.note(&format!("{name}_database_microseconds"), rounded(each(spent.database)));
    Ok(all)
}

/// So many a second, or as fast as they are taken; through all nodes in turn, as behind a balancer.
async fn publish(testbed: &Testbed, event_type: &str, count: u64, rate: Option<u32>) -> Result<()> {
    let (began, mut sent) = (Instant::now(), 0);
    let mut nodes = testbed.nodes.iter().cycle();
    while let Some(node) = nodes.next().filter(|_| sent < count) {
        let some = vec![Publish::json(event_type, "{}")?; (count - sent).min(200) as usize];
        let results = node.client.publish_batch(&some).await?;
        let accepted = |result: &BatchResult| matches!(result, BatchResult::Accepted(_));
        ensure!(results.iter().all(accepted), "not all events were accepted");
        sent += some.len() as u64;
        if let Some(rate) = rate {
            let due = Duration::from_secs_f64(sent as f64 / f64::from(rate));
            sleep(due.saturating_sub(began.elapsed())).await;
        }
    }
    Ok(())
}

async fn begin(testbed: &Testbed, to: &[DestinationId], key: &str) -> Result<ReplayView> {
    let asked = ReplayInput {
        events: Some(BackfillEvents::default()),
        matching: Some(BackfillMatch::Now),
        destination_ids: Some(to.to_vec()).filter(|to| !to.is_empty()),
        rate: Some(RATE),
        ..ReplayInput::default()
    };
    Ok(testbed.client.create_replay(&asked, Some(key)).await?)
}

async fn completed(testbed: &Testbed, id: ReplayId) -> Result<ReplayView> {
    let mut last = None;
    wait_until("the backfill does not end", PATIENCE, 50, async || {
        last = testbed.client.replay(id).await.ok();
        Ok(last.as_ref().is_some_and(|told| told.status == ReplayStatus::Completed))
    })
    .await?;
    last.context("no answer")
}

/// Deliveries that arrived there, and of how many events.
async fn reached(testbed: &Testbed, destination: DestinationId) -> Result<(u64, u64)> {
    let there = format!(
        "from attempts where ending = 'delivered' and destination_id = {}",
        testbed.database.literal(destination.bytes())
    );
    let deliveries = testbed.database.number(&format!("select count(*) {there}")).await?;
    let events = testbed.database.number(&format!("select count(distinct event_id) {there}")).await?;
    Ok((deliveries, events))
}
