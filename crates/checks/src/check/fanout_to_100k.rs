//! Hazard: one event for 100,000 destinations holds up everybody else, or takes all memory.
//!
//! 100,000 destinations of one account (`--count`), one event for all of them; meanwhile another account sends 50 events
//! a second (`--rate`), as it did alone before.
//!
//! Holds if all deliveries are durable within ten seconds, each once; if no write transaction takes longer than 100 ms;
//! if memory grows by no more than 128 MiB; and if the other account's events arrive within twice the time they took
//! before (99th percentile). SQLite lets nobody look at the transaction that runs, but an answer waits for two of them
//! at most: there the slowest answer to the other account is held to 200 ms. All of them arrive in the end.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{ApiKeyInput, Client, NewAccount, NewDestination, Publish};
use lab::{Pump, PumpConfig, Recording, Target, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::report::rounded;
use crate::harness::stage::OPERATOR_KEY;
use crate::harness::{Audit, Database, Plan, Report, Stage, StoreKind, crowd};

const DESTINATIONS: u64 = 100_000;
const DURABLE_WITHIN: f64 = 10.0;
const TRANSACTION_MS: f64 = 100.0;
const MEMORY_MIB: f64 = 128.0;
/// Below this it is the machine's own scheduler that is measured.
const P99_FLOOR_MS: f64 = 20.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let size = ask.count(DESTINATIONS);
    let mut stage = Plan::new(ask, store)?.start().await?;
    stage.receiver.recording(Recording::Counts);
    let key = other_account(&stage).await?;
    stage.stop().await?;
    crowd::assemble(&stage, size as usize).await?;
    stage.start().await?;

    let alone = lab::pump::run(pump(&stage, &key, ask, ask.seconds(10))).await?;
    until_arrived(&stage, alone.accepted).await?;
    let baseline_ms = p99_ms(&stage);
    stage.receiver.clear();
    // Knowing the account's routes is what every event of it needs.
    let without_routes = stage.node()?.rss_bytes()?;
    stage.client.publish(&Publish::json("nobody", "{}".to_owned())?).await?;
    let memory_before = stage.node()?.rss_bytes()?;
    report.note("memory_of_the_routes_mib", mib(memory_before.saturating_sub(without_routes)));

    let beside = Pump::start(pump(&stage, &key, ask, Duration::from_secs(600)))?;
    let watch = Watch::start(&stage.database).await?;
    let began = Instant::now();
    let accepted = crowd::publish(&stage).await.context("an event for all")?;
    report.note("answered_ms", rounded(began.elapsed().as_secs_f64() * 1e3));
    ensure!(accepted.deliveries.is_none() && accepted.expanding, "it was answered {accepted:?}");
    let mut memory = memory_before;
    while crowd::expanding(&stage.database).await? > 0 {
        ensure!(began.elapsed() < Duration::from_secs(120), "the expansion is not done after two minutes");
        memory = memory.max(stage.node()?.rss_bytes()?);
        sleep(Duration::from_millis(20)).await;
    }
    let durable = began.elapsed().as_secs_f64();
    let longest_ms = watch.longest_ms();
    let deadline = Instant::now() + Duration::from_secs(180);
    while Instant::now() < deadline && arrived_of_crowd(&stage) < size {
        memory = memory.max(stage.node()?.rss_bytes()?);
        sleep(Duration::from_millis(100)).await;
    }
    report.note("arrived_after_seconds", rounded(began.elapsed().as_secs_f64()));
    let beside = beside.finish().await;
    report.at_most("durable_after_seconds", durable, DURABLE_WITHIN);
    let slowest_ms = beside.latency.max_us() as f64 / 1e3;
    match longest_ms {
        Some(longest) => report.at_most("longest_transaction_ms", longest, TRANSACTION_MS),
        None => report.at_most("slowest_answer_to_the_other_ms", slowest_ms, 2.0 * TRANSACTION_MS),
    }
    report.at_most("memory_grew_mib", mib(memory.saturating_sub(memory_before)), MEMORY_MIB);
    report.note("other_answers_p99_ms", beside.latency.percentile_us(99.0) as f64 / 1e3);
    report.exactly("other_refused", beside.offered - beside.accepted, 0u64);
    report.note("other_baseline_p99_ms", rounded(baseline_ms));
    report.at_most("other_p99_ms", p99_ms(&stage), (2.0 * baseline_ms).max(P99_FLOOR_MS));

    report.exactly("left_in_queue", stage.quiesce(Duration::from_secs(60)).await?, 0u64);
    let (deliveries, destinations) = crowd::made(&stage.database, accepted.id).await?;
    report.exactly("deliveries", deliveries, size);
    report.exactly("destinations", destinations, size);
    Audit::of(&stage.database).await?.rules(&mut report);
    stage.strike().await?;
    Ok(report)
}

/// Its API key; its events go to the receiver's destination `other`.
async fn other_account(stage: &Stage) -> Result<String> {
    let operator = Client::new(&stage.base(), OPERATOR_KEY)?;
    let account = operator.create_account(&NewAccount::new("Other")).await?;
    let plan = ApiKeyInput { name: "other".into(), account_id: Some(account.id), ..Default::default() };
    let key = operator.create_api_key(&plan).await?.key;
    let client = Client::new(&stage.base(), &key)?;
    let plan = NewDestination { max_concurrency: 50, ..stage.destination("other") };
    sole_destination(&client, &plan).await?;
    Ok(key)
}

fn pump(stage: &Stage, key: &str, ask: &Ask, how_long: Duration) -> PumpConfig {
    let target = Target::Publish { base: stage.base(), key: key.into() };
    let config = PumpConfig { keep_log: false, ..PumpConfig::new(target, Until::Elapsed(how_long)) };
    config.open(ask.rate(50.0))
}

async fn until_arrived(stage: &Stage, count: u64) -> Result<()> {
    let arrived = stage.receiver.wait_for_succeeded(count, Duration::from_secs(10)).await;
    ensure!(arrived, "the other account's events do not arrive");
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    rounded(bytes as f64 / 1024.0 / 1024.0)
}

fn p99_ms(stage: &Stage) -> f64 {
    stage.receiver.end_to_end().percentile_us(99.0) as f64 / 1e3
}

fn arrived_of_crowd(stage: &Stage) -> u64 {
    stage.receiver.succeeded() - stage.receiver.succeeded_at("other")
}

/// Looks every few milliseconds how long the transactions have run that have written something; PostgreSQL only.
struct Watch(Option<(tokio::task::JoinHandle<()>, std::sync::Arc<std::sync::atomic::AtomicU64>)>);

impl Watch {
    async fn start(database: &Database) -> Result<Watch> {
        if database.kind() == StoreKind::Sqlite {
            return Ok(Watch(None));
        }
        let client = database.connect().await?;
        let longest = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let seen = longest.clone();
        let watching = tokio::spawn(async move {
            let sql = "select coalesce(max(extract(epoch from clock_timestamp() - xact_start) * 1e6), 0)::bigint \
                       from pg_stat_activity where backend_xid is not null and pid <> pg_backend_pid() \
                       and backend_type = 'client backend'";
            while let Ok(row) = client.query_one(sql, &[]).await {
                let micros = row.get::<_, i64>(0).max(0) as u64;
                seen.fetch_max(micros, std::sync::atomic::Ordering::Relaxed);
                sleep(Duration::from_millis(3)).await;
            }
        });
        Ok(Watch(Some((watching, longest))))
    }

    fn longest_ms(self) -> Option<f64> {
        let (watching, longest) = self.0?;
        watching.abort();
        Some(longest.load(std::sync::atomic::Ordering::Relaxed) as f64 / 1e3)
    }
}
