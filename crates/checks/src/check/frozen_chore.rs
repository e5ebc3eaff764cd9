//! Hazard: two nodes do the same chore: one sleeps in the middle of it, another goes on, and then both have.
//!
//! The chore is the expansion of an event that matches thousands of routes (`--count`). The event is sent to one of three
//! nodes, which is stopped (SIGSTOP) at once, within its chore, for fifteen seconds; then to the next one. After that, on
//! two days of history, the node that sums up is stopped in the middle of it, and then the one that forgets.
//!
//! Holds if the others bring the chore to its end within twice the lease, if the sleeper's late writes match nothing, so
//! that every route has exactly one delivery, none missing and none twice, and if every delivery arrives once; if the sums
//! are what happened, and if retention leaves nothing half gone.

mod chores;

use tokio::task::JoinSet;

use crate::harness::multi_node::LEASE;
use crate::harness::prelude::*;
use crate::harness::testbed::add_destination;

const ROUTES: u64 = 5_000;
const ROUNDS: usize = 3;
const STILL: u64 = 15;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let routes = options.count(ROUTES);
    let mut testbed = TestbedPlan::of_several(options)?.start_balanced().await?;
    testbed.receiver.recording(Recording::Counts);
    testbed.receiver.default_script(Reply::ok());
    many_routes(&testbed, routes).await?;

    let (mut slowest, mut frozen_in_it) = (0.0f64, 0u64);
    for round in 0..ROUNDS {
        let at = round % testbed.nodes.len();
        let event = Publish::json("many", format!("{{\"round\":{round}}}"))?;
        let accepted = testbed.nodes[at].client.publish(&event).await?;
        let mut freeze = testbed.freeze_node(at).await?;
        let frozen = Instant::now();
        let open = testbed.database.count("expanding_events").await?;
        frozen_in_it += u64::from(open > 0);
        let id = testbed.database.literal(accepted.id.bytes());
        let sql = format!("select coalesce(deliveries, -1) from events where id = {id}");
        let done = async || -> Result<bool> {
            Ok(testbed.database.rows(&sql).await?.first().and_then(|row| row[0].number())
                == Some(routes as i64))
        };
        let still = options.seconds(STILL);
        let mut took = None;
        while frozen.elapsed() < still || took.is_none() && frozen.elapsed() < Duration::from_secs(40) {
            if took.is_none() && done().await? {
                took = Some(frozen.elapsed().as_secs_f64());
            }
            if frozen.elapsed() >= still && freeze.until_us.is_none() && took.is_some() {
                break;
            }
            sleep(Duration::from_millis(100)).await;
        }
        slowest = slowest.max(took.unwrap_or(f64::INFINITY));
        testbed.thaw_node(at, &mut freeze).await?;
        sleep(Duration::from_secs(1)).await;
    }
    report.note("frozen_within_the_chore", frozen_in_it);
    report.must_be_at_most("gone_on_after_seconds", slowest, 2 * LEASE);
    let wanted = ROUNDS as u64 * routes;
    testbed.must_drain(Duration::from_secs(120), report).await?;
    let sql = "select count(*) from attempts where ending = 'delivered'";
    report.must_be("deliveries", testbed.database.number(sql).await?, wanted);
    let sql = "select coalesce(reason, '') || ' ' || coalesce(outcome, ''), count(*) from attempts
               where ending is not null and ending <> 'delivered' group by 1 order by 2 desc limit 5";
    let others = testbed.database.rows(sql).await?;
    let others = others.iter().map(|row| (row[0].text().unwrap_or("").to_owned(), row[1].number()));
    report.note("other_endings", others.collect::<Vec<_>>());
    let twice = "select count(*) from (select event_id, route_id from attempts where ending is not null
                 group by event_id, route_id having count(*) > 1) twice";
    report.must_be("routes_with_two_deliveries", testbed.database.number(twice).await?, 0);
    report.note("arrived", testbed.receiver.succeeded());
    testbed.must_be_running(report);
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.tear_down().await?;
    chores::fall_asleep(options, report).await?;
    Ok(())
}

/// Routes for the type `many`, each to a destination of its own; by the API, many at a time.
async fn many_routes(testbed: &Testbed, count: u64) -> Result<()> {
    const AT_ONCE: u64 = 32;
    let mut tasks = JoinSet::new();
    for lane in 0..AT_ONCE {
        let client = testbed.nodes[lane as usize % testbed.nodes.len()].client.clone();
        let plan = testbed.destination_with_slots("many", 2);
        tasks.spawn(async move {
            for n in (lane..count).step_by(AT_ONCE as usize) {
                let plan = NewDestination { name: format!("many {n}"), ..plan.clone() };
                add_destination(&client, &plan, &["many"]).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done?.context("the routes could not be made")?;
    }
    Ok(())
}
