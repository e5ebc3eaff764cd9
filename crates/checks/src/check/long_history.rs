//! Hazard: what is fast on an empty store is slow on one that has been in use for weeks, and forgetting makes it worse.
//!
//! A million events (`--count`) of eight days, with their endings, are written into the tables; the node sums them up.
//! Then the lists, statistics and metrics are asked for, ten times each. Then the account keeps seven days only: a day goes,
//! under a steady load (`--rate`), which is compared with the same load before.
//!
//! Holds if everything is answered within 50 ms, if the day that goes makes p99 of ingest no more than twice what it
//! was (or 10 ms), if no lock that others wait for is held for more than 100 ms, if a day's worth has gone and nothing
//! without what it belongs to is left. What an event takes on disk is told, with
//! `--only bytes` nothing else; and how long the disk took for a page of its own beside both loads.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use domain::limits;
use lab::{Histogram, Load, PumpConfig, Recording, Reply, Target, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::disk::DiskProbe;
use crate::harness::history::History;
use crate::harness::report::rounded;
use crate::harness::scrape::Scrape;
use crate::harness::stage::API_KEY;
use crate::harness::{Database, Plan, Report, Stage, StoreKind};

const DAYS: u64 = 8;
const KEPT_DAYS: u64 = 7;
const ASKED: usize = 10;
const ANSWERED_MS: f64 = 50.0;
const LOCKED_MS: f64 = 100.0;
const BYTES_PER_EVENT: f64 = 1_300.0;
/// A machine that does something else for a moment.
const P99_AT_LEAST_MS: f64 = 10.0;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.forgetting(None, 5).start().await?;
    stage.receiver.recording(Recording::Counts);
    stage.receiver.default_script(Reply::ok());
    let history = History::prepare(&stage, DAYS, ask.count(1_000_000)).await?;
    stage.stop().await?;
    let began = Instant::now();
    history.load(&stage.database).await?;
    report.note("loaded_in_seconds", rounded(began.elapsed().as_secs_f64()));
    let bytes = history.bytes_per_event(&stage.database).await?;
    report.note("bytes_per_event", bytes.round());
    report.note("bytes_per_event_within_budget", bytes <= BYTES_PER_EVENT);
    report.note("bytes_by_relation", history.bytes_by_relation(&stage.database).await?);
    if ask.only.as_ref().is_some_and(|part| "bytes".starts_with(part.as_str())) {
        stage.strike().await?;
        return Ok(report);
    }

    stage.start().await?;
    let began = Instant::now();
    summed_up(&stage, Duration::from_secs(1_200)).await?;
    report.note("summed_up_in_seconds", rounded(began.elapsed().as_secs_f64()));
    ask_all(&stage, &mut report).await?;

    let (before, disk_before) = beside_the_disk(ask, &stage).await?;
    let (events, facts) = (count(&stage, "events").await?, count(&stage, "attempts").await?);
    stage.client.update_own_account(&serde_json::json!({ "retention_days": KEPT_DAYS })).await?;
    let watched = Locks::watch(&stage.database);
    let (during, disk_during) = beside_the_disk(ask, &stage).await?;
    let (began, mut old) = (Instant::now(), u64::MAX);
    while old > 0 && began.elapsed() < Duration::from_secs(300) {
        old = count_old(&stage, &history).await?;
        sleep(Duration::from_millis(500)).await;
    }
    report.note("gone_after_seconds", rounded(began.elapsed().as_secs_f64()));
    let (after, left_facts) = (count(&stage, "events").await?, count(&stage, "attempts").await?);
    report.note("events", [events, after]);
    report.note("facts", [facts, left_facts]);
    report.exactly("left_of_the_oldest_day", old, 0u64);
    let p99 = |took: &Histogram| took.percentile(99.0).as_secs_f64() * 1e3;
    report.note("disk_p99_ms", [rounded(p99(&disk_before)), rounded(p99(&disk_during))]);
    report.note("ingest_p99_ms_before", rounded(p99(&before)));
    let allowed = (2.0 * p99(&before)).max(P99_AT_LEAST_MS);
    report.at_most("ingest_p99_ms_while_pruning", rounded(p99(&during)), allowed);
    report.at_most("longest_lock_ms", watched.longest_ms().await?, LOCKED_MS);
    let orphans =
        "select count(*) from attempts a where not exists (select 1 from events e where e.id = a.event_id)";
    report.exactly("orphans", stage.database.number(orphans).await?, 0u64);
    report.must(stage.is_running(), "the node exited");
    stage.strike().await?;
    Ok(report)
}

/// Waits until yesterday and the hours of today are summed up.
pub(crate) async fn summed_up(stage: &Stage, limit: Duration) -> Result<()> {
    let began = Instant::now();
    let behind = "select count(*) from (select 'day' as name, 90600 as seconds
                      union all select 'hour', 4400 union all select 'minute', 300) wanted
                  where not exists (select 1 from rollup_marks m where m.name = wanted.name
                      and m.closed_at > (NOW - wanted.seconds) * 1000000)";
    let now = match stage.database.kind() {
        StoreKind::Sqlite => "cast(strftime('%s', 'now') as integer)",
        StoreKind::Postgres => "extract(epoch from now())::bigint",
    };
    while stage.database.number(&behind.replace("NOW", now)).await? > 0 {
        anyhow::ensure!(began.elapsed() < limit, "not summed up after {limit:?}: {}", stage.log());
        sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

async fn ask_all(stage: &Stage, report: &mut Report) -> Result<()> {
    let destinations = stage.client.destinations(None).await?;
    let destination = destinations.data.first().context("a destination")?.id;
    for (name, path) in [
        ("events", "/v1/events?limit=50".to_owned()),
        ("incomplete", "/v1/events?fanout=incomplete".into()),
        ("destinations", "/v1/destinations?limit=50".into()),
        ("deliveries", "/v1/deliveries?limit=50".into()),
        ("dead_letters", "/v1/deliveries?status=dead_letter&limit=50".into()),
        ("groups", "/v1/dead-letters/groups?limit=50".into()),
        ("stats", "/v1/stats".into()),
        ("fanout_stats", "/v1/stats/fanout".into()),
        ("destination_stats", format!("/v1/destinations/{destination}/stats")),
    ] {
        stage.client.raw(&path).await?; // once for the caches
        let mut slowest = Duration::ZERO;
        for _ in 0..ASKED {
            let began = Instant::now();
            stage.client.raw(&path).await?;
            slowest = slowest.max(began.elapsed());
        }
        report.at_most(&format!("{name}_ms"), rounded(slowest.as_secs_f64() * 1e3), ANSWERED_MS);
    }
    let mut slowest = Duration::ZERO;
    for _ in 0..ASKED {
        sleep(limits::METRICS_FRESH).await; // until then it is told again
        slowest = slowest.max(Scrape::of(&stage.members[0]).await?.took);
    }
    report.at_most("metrics_ms", rounded(slowest.as_secs_f64() * 1e3), ANSWERED_MS);
    let stats = stage.client.stats().await?;
    report.note("stats", [stats.totals.events, stats.totals.delivered, stats.totals.dead_letter]);
    Ok(())
}

/// How long events took to be answered, and how long the disk alone took meanwhile.
async fn beside_the_disk(ask: &Ask, stage: &Stage) -> Result<(Histogram, Histogram)> {
    let disk = DiskProbe::start(stage.dir())?;
    let sent = load(ask, stage).await?;
    Ok((sent.latency, disk.stop()?))
}

async fn load(ask: &Ask, stage: &Stage) -> Result<lab::PumpReport> {
    let until = Until::Elapsed(ask.seconds(15));
    let target = Target::Publish { base: stage.base(), key: API_KEY.into() };
    let config = PumpConfig {
        load: Load::Open { per_second: ask.rate(300.0) },
        event_types: vec!["history.1".into()],
        keep_log: false,
        ..PumpConfig::new(target, until)
    };
    Ok(lab::pump::run(config).await?)
}

async fn count(stage: &Stage, table: &str) -> Result<u64> {
    stage.database.number(&format!("select count(*) from {table}")).await
}

/// Events of the first day of the history.
async fn count_old(stage: &Stage, history: &History) -> Result<u64> {
    let id = stage.database.literal(history.end_of_first_day().bytes());
    stage.database.number(&format!("select count(*) from events where id < {id}")).await
}

/// Watches for locks that keep everybody out.
struct Locks {
    watching: Option<tokio::task::JoinHandle<Result<f64>>>,
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Locks {
    fn watch(database: &Database) -> Locks {
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let database = database.clone();
        let watching = (database.kind() == StoreKind::Postgres).then(|| {
            tokio::spawn(async move {
                let client = database.connect().await?;
                let sql = "select 1 from pg_locks l join pg_class c on c.oid = l.relation
                           where l.granted and l.mode = 'AccessExclusiveLock' and c.relname in ('events', 'attempts')
                             and l.pid <> pg_backend_pid() limit 1";
                let (mut longest, mut since) = (0.0f64, None::<Instant>);
                while stopped.try_recv().is_err() {
                    let held = !client.query(sql, &[]).await?.is_empty();
                    since = if held { since.or_else(|| Some(Instant::now())) } else { None };
                    longest = longest.max(since.map_or(0.0, |since| since.elapsed().as_secs_f64() * 1e3));
                    sleep(Duration::from_millis(2)).await;
                }
                Ok(rounded(longest))
            })
        });
        Locks { watching, stop }
    }

    /// Zero where there is one writer, and no lock but its own: what that costs shows in the latency.
    async fn longest_ms(self) -> Result<f64> {
        let _ = self.stop.send(());
        match self.watching {
            Some(watching) => watching.await?,
            None => Ok(0.0),
        }
    }
}
