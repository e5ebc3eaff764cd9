//! Hazard: one event for 100,000 destinations holds up every other account, or takes all memory.
//!
//! 100,000 destinations of one account (`--count`), every tenth with three routes, one event for all of them; meanwhile another account sends 50 events
//! a second (`--rate`), as it did alone before.
//!
//! Holds if all deliveries are durable within ten seconds, each once; if no write transaction takes longer than 100 ms;
//! if memory grows by no more than 128 MiB; and if the other account's events arrive within twice the time they took
//! before (99th percentile). SQLite shows no other connection the transaction that runs, but an answer waits for two of them
//! at most: there the slowest answer to the other account is held to 200 ms. All of them arrive in the end.

use crate::harness::large_fanout;
use crate::harness::other_account::OtherAccount;
use crate::harness::prelude::*;
use crate::harness::testbed::add_destination;

const DESTINATIONS: u64 = 100_000;
const DURABLE_WITHIN: f64 = 10.0;
const TRANSACTION_MS: f64 = 100.0;
const MEMORY_MIB: f64 = 128.0;
/// Below this it is the machine's own scheduler that is measured.
const P99_FLOOR_MS: f64 = 20.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let size = options.count(DESTINATIONS);
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    testbed.receiver.recording(Recording::Counts);
    let other = other_account(&testbed).await?;
    testbed.stop().await?;
    large_fanout::add_destinations(&testbed, size as usize).await?;
    testbed.start().await?;

    let alone = lab::pump::run(other.pump(&testbed, options.rate(50.0), options.seconds(10))).await?;
    until_arrived(&testbed, alone.accepted).await?;
    let baseline_ms = testbed.receiver.end_to_end().percentile_ms(99.0);
    testbed.receiver.clear();
    // Knowing the account's routes is what every event of it needs.
    let without_routes = testbed.process()?.rss_bytes()?;
    testbed.client.publish(&Publish::json("nobody", "{}".to_owned())?).await?;
    let memory_before = testbed.process()?.rss_bytes()?;
    report.note("memory_of_the_routes_mib", rounded(mib(memory_before.saturating_sub(without_routes))));

    let beside = Pump::start(other.pump(&testbed, options.rate(50.0), Duration::from_secs(600)))?;
    let watch = watch_transactions(&testbed.database).await?;
    let began = Instant::now();
    let event = large_fanout::publish(&testbed).await?;
    report.note("answered_ms", rounded(began.elapsed().as_secs_f64() * 1e3));
    let mut memory = memory_before;
    while large_fanout::expansions(&testbed.database).await? > 0 {
        ensure!(began.elapsed() < Duration::from_secs(120), "the expansion is not done after two minutes");
        memory = memory.max(testbed.process()?.rss_bytes()?);
        sleep(Duration::from_millis(20)).await;
    }
    let durable = began.elapsed().as_secs_f64();
    let longest_ms = match watch {
        Some(watch) => Some(watch.finish().await?),
        None => None,
    };
    let deadline = Instant::now() + Duration::from_secs(180);
    while Instant::now() < deadline && arrived_of_fanout(&testbed) < size {
        memory = memory.max(testbed.process()?.rss_bytes()?);
        sleep(Duration::from_millis(100)).await;
    }
    report.note("arrived_after_seconds", rounded(began.elapsed().as_secs_f64()));
    let beside = beside.finish().await;
    report.must_be_at_most("durable_after_seconds", durable, DURABLE_WITHIN);
    let slowest_ms = beside.latency.max_ms();
    match longest_ms {
        Some(longest) => report.must_be_at_most("longest_transaction_ms", longest, TRANSACTION_MS),
        None => report.must_be_at_most("slowest_answer_to_the_other_ms", slowest_ms, 2.0 * TRANSACTION_MS),
    }
    report.must_be_at_most("memory_grew_mib", mib(memory.saturating_sub(memory_before)), MEMORY_MIB);
    report.note("other_answers_p99_ms", beside.latency.percentile_ms(99.0));
    report.must_be("other_refused", beside.offered - beside.accepted, 0);
    report.note("other_baseline_p99_ms", rounded(baseline_ms));
    let p99_ms = testbed.receiver.end_to_end().percentile_ms(99.0);
    report.must_be_at_most("other_p99_ms", p99_ms, (2.0 * baseline_ms).max(P99_FLOOR_MS));

    testbed.must_drain(Duration::from_secs(60), report).await?;
    let (deliveries, destinations) = large_fanout::deliveries_made(&testbed.database, event).await?;
    report.must_be("deliveries", deliveries, size);
    report.must_be("destinations", destinations, size);
    TableAudit::of(&testbed.database).await?.must_hold(report);
    testbed.tear_down().await
}

/// Its events go to the receiver's destination `other`.
async fn other_account(testbed: &Testbed) -> Result<OtherAccount> {
    let other = OtherAccount::make(testbed).await?;
    add_destination(&other.client, &testbed.destination_with_slots("other", 50), &[]).await?;
    Ok(other)
}

async fn until_arrived(testbed: &Testbed, count: u64) -> Result<()> {
    let arrived = testbed.receiver.wait_for_succeeded(count, Duration::from_secs(10)).await;
    ensure!(arrived, "the other account's events do not arrive");
    Ok(())
}

fn arrived_of_fanout(testbed: &Testbed) -> u64 {
    testbed.receiver.succeeded() - testbed.receiver.succeeded_at("other")
}

/// Looks every few milliseconds how long the transactions have run that have written something, in milliseconds;
/// PostgreSQL only.
async fn watch_transactions(database: &Database) -> Result<Option<Background<f64>>> {
    if database.kind() == StoreKind::Sqlite {
        return Ok(None);
    }
    let client = database.connect().await?;
    Ok(Some(Background::task(|stop| async move {
        let sql = "select coalesce(max(extract(epoch from clock_timestamp() - xact_start) * 1e6), 0)::bigint \
                   from pg_stat_activity where backend_xid is not null and pid <> pg_backend_pid() \
                   and backend_type = 'client backend'";
        let mut longest_us = 0;
        while !stop.is_set() {
            longest_us = longest_us.max(client.query_one(sql, &[]).await?.get::<_, i64>(0));
            sleep(Duration::from_millis(3)).await;
        }
        Ok(longest_us as f64 / 1e3)
    })))
}
