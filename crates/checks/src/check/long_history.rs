//! Hazard: what is fast on an empty store is slow on one that has been in use for weeks, and forgetting makes it worse.
//!
//! A million events (`--count`) of eight days, with their endings, are written into the tables; the node sums them up.
//! Then the lists, statistics and metrics are asked for, ten times each, and every page of the dashboard twenty times. Then the account keeps seven days only: a day goes,
//! under a steady load (`--rate`), which is compared with the same load before.
//!
//! Holds if everything is answered within 50 ms, and 95 of 100 times a page within 100 ms, if the day that goes makes p99 of ingest no more than twice what it
//! was (or 10 ms), if no lock that others wait for is held for more than 100 ms, if a day's worth has gone and nothing
//! without what it belongs to is left. What an event takes on disk is told, with
//! `--only bytes` nothing else, and `--only pages` ends with the pages; and how long the disk took for a page of its own beside both loads.

use client::EventQuery;
use domain::limits;
use lab::{Histogram, Load};

use crate::harness::disk;
use crate::harness::history::LongHistory;
use crate::harness::prelude::*;
use crate::harness::scrape::Scrape;
use crate::harness::visitor::Visitor;

const DAYS: u64 = 8;
const KEPT_DAYS: u64 = 7;
const ASKED: usize = 10;
const ANSWERED_MS: f64 = 50.0;
const OPENED: usize = 20;
const PAGE_MS: f64 = 100.0;
const LOCKED_MS: f64 = 100.0;
const BYTES_PER_EVENT: f64 = 1_300.0;
/// A machine that does something else for a moment.
const P99_AT_LEAST_MS: f64 = 10.0;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.short_retention(None, 5).start().await?;
    testbed.receiver.recording(Recording::Counts);
    testbed.receiver.default_script(Reply::ok());
    let history = LongHistory::prepare(&testbed, DAYS, options.count(1_000_000)).await?;
    testbed.stop().await?;
    let began = Instant::now();
    history.load(&testbed.database).await?;
    report.note("loaded_in_seconds", rounded(began.elapsed().as_secs_f64()));
    let bytes = history.bytes_per_event(&testbed.database).await?;
    report.note("bytes_per_event", bytes.round());
    report.note("bytes_per_event_within_budget", bytes <= BYTES_PER_EVENT);
    report.note("bytes_by_relation", history.bytes_by_relation(&testbed.database).await?);
    let only = |part: &str| options.only.as_ref().is_some_and(|wanted| part.starts_with(wanted.as_str()));
    if only("bytes") {
        return testbed.tear_down().await;
    }

    testbed.start().await?;
    let began = Instant::now();
    summed_up(&testbed, Duration::from_secs(1_200)).await?;
    report.note("summed_up_in_seconds", rounded(began.elapsed().as_secs_f64()));
    ask_all(&testbed, report).await?;
    open_all(&testbed, report).await?;
    if only("pages") {
        return testbed.tear_down().await;
    }

    let (before, disk_before) = beside_the_disk(options, &testbed).await?;
    let (events, facts) =
        (testbed.database.count("events").await?, testbed.database.count("attempts").await?);
    testbed.client.update_own_account(&serde_json::json!({ "retention_days": KEPT_DAYS })).await?;
    let locks = watch_locks(&testbed.database).await?;
    let (during, disk_during) = beside_the_disk(options, &testbed).await?;
    let (began, mut old) = (Instant::now(), u64::MAX);
    while old > 0 && began.elapsed() < Duration::from_secs(300) {
        old = count_old(&testbed, &history).await?;
        sleep(Duration::from_millis(500)).await;
    }
    report.note("gone_after_seconds", rounded(began.elapsed().as_secs_f64()));
    let (after, left_facts) =
        (testbed.database.count("events").await?, testbed.database.count("attempts").await?);
    report.note("events", [events, after]);
    report.note("facts", [facts, left_facts]);
    report.must_be("left_of_the_oldest_day", old, 0);
    let [disk_before, disk_during, before, during] =
        [disk_before, disk_during, before, during].map(|took| rounded(took.percentile_ms(99.0)));
    report.note("disk_p99_ms", [disk_before, disk_during]);
    report.note("ingest_p99_ms_before", before);
    report.must_be_at_most("ingest_p99_ms_while_pruning", during, (2.0 * before).max(P99_AT_LEAST_MS));
    // Where there is one writer there is no lock but its own: what that costs shows in the latency.
    let longest_ms = match locks {
        Some(watch) => watch.finish().await?,
        None => 0.0,
    };
    report.must_be_at_most("longest_lock_ms", longest_ms, LOCKED_MS);
    let orphans =
        "select count(*) from attempts a where not exists (select 1 from events e where e.id = a.event_id)";
    report.must_be("orphans", testbed.database.number(orphans).await?, 0);
    testbed.must_be_running(report);
    testbed.tear_down().await
}

/// Waits until yesterday and the hours of today are summed up.
pub(crate) async fn summed_up(testbed: &Testbed, limit: Duration) -> Result<()> {
    let behind = "select count(*) from (select 'day' as name, 90600 as seconds
                      union all select 'hour', 4400 union all select 'minute', 300) wanted
                  where not exists (select 1 from rollup_marks m where m.name = wanted.name
                      and m.closed_at > (NOW - wanted.seconds) * 1000000)";
    let now = match testbed.database.kind() {
        StoreKind::Sqlite => "cast(strftime('%s', 'now') as integer)",
        StoreKind::Postgres => "extract(epoch from now())::bigint",
    };
    let done = async || Ok(testbed.database.number(&behind.replace("NOW", now)).await? == 0);
    wait_until("not summed up", limit, 500, done).await.with_context(|| testbed.log())
}

async fn ask_all(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let destinations = testbed.client.destinations(None).await?;
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
        testbed.client.raw(&path).await?; // once for the caches
        let mut slowest = Duration::ZERO;
        for _ in 0..ASKED {
            let began = Instant::now();
            testbed.client.raw(&path).await?;
            slowest = slowest.max(began.elapsed());
        }
        report.must_be_at_most(&format!("{name}_ms"), rounded(slowest.as_secs_f64() * 1e3), ANSWERED_MS);
    }
    let mut slowest = Duration::ZERO;
    for _ in 0..ASKED {
        sleep(limits::METRICS_FRESH).await; // until then it is told again
        slowest = slowest.max(Scrape::of(&testbed.nodes[0]).await?.took);
    }
    report.must_be_at_most("metrics_ms", rounded(slowest.as_secs_f64() * 1e3), ANSWERED_MS);
    let stats = testbed.client.stats().await?;
    report.note("stats", [stats.totals.events, stats.totals.delivered, stats.totals.dead_letter]);
    Ok(())
}

/// Every page of the dashboard, as somebody who is signed in opens it again and again.
async fn open_all(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let visitor = Visitor::sign_in(&testbed.nodes[0]).await?;
    let destination = testbed.client.destinations(None).await?.data.first().context("a destination")?.id;
    let event =
        testbed.client.events(&EventQuery::default(), None).await?.data.first().context("an event")?.id;
    for (name, path) in [
        ("overview", "/".to_owned()),
        ("events", "/events".into()),
        ("events_of_a_type", "/events?q=type:history.1".into()),
        ("dead_deliveries", "/events?q=status:dead_letter".into()),
        ("event_beside_the_list", format!("/events?selected={event}")),
        ("event", format!("/events/{event}")),
        ("destinations", "/destinations".into()),
        ("destination", format!("/destinations/{destination}")),
        ("destination_over_a_day", format!("/destinations/{destination}?over=24h")),
        ("dead_letters", "/dead-letters".into()),
        ("replays", "/replays".into()),
        ("sources", "/sources".into()),
        ("routes", "/routes".into()),
        ("settings", "/settings".into()),
        ("reference", "/docs".into()),
    ] {
        let mut took = Vec::with_capacity(OPENED);
        for _ in 0..OPENED {
            took.push(visitor.open(&path).await?);
        }
        took.sort();
        let p95 = took[OPENED * 95 / 100 - 1];
        report.must_be_at_most(&format!("page_{name}_ms"), rounded(p95.as_secs_f64() * 1e3), PAGE_MS);
    }
    Ok(())
}

/// How long events took to be answered, and how long the disk alone took meanwhile.
async fn beside_the_disk(options: &Options, testbed: &Testbed) -> Result<(Histogram, Histogram)> {
    let disk = disk::start_probe(testbed.dir())?;
    let config = PumpConfig {
        load: Load::Open { per_second: options.rate(300.0) },
        event_types: vec!["history.1".into()],
        keep_log: false,
        ..testbed.publisher(Until::Elapsed(options.seconds(15)))
    };
    let sent = lab::pump::run(config).await?;
    Ok((sent.latency, disk.finish().await?))
}

/// Events of the first day of the history.
async fn count_old(testbed: &Testbed, history: &LongHistory) -> Result<u64> {
    let id = testbed.database.literal(history.end_of_first_day().bytes());
    testbed.database.number(&format!("select count(*) from events where id < {id}")).await
}

/// Watches for locks that keep every other session out, where there can be any; the longest, in milliseconds.
async fn watch_locks(database: &Database) -> Result<Option<Background<f64>>> {
    if database.kind() == StoreKind::Sqlite {
        return Ok(None);
    }
    let client = database.connect().await?;
    Ok(Some(Background::task(|stop| async move {
        let sql = "select 1 from pg_locks l join pg_class c on c.oid = l.relation
                   where l.granted and l.mode = 'AccessExclusiveLock' and c.relname in ('events', 'attempts')
                     and l.pid <> pg_backend_pid() limit 1";
        let (mut longest, mut since) = (0.0f64, None::<Instant>);
        while !stop.is_set() {
            let held = !client.query(sql, &[]).await?.is_empty();
            since = if held { since.or_else(|| Some(Instant::now())) } else { None };
            longest = longest.max(since.map_or(0.0, |since| since.elapsed().as_secs_f64() * 1e3));
            sleep(Duration::from_millis(2)).await;
        }
        Ok(rounded(longest))
    })))
}
