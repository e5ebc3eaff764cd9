//! Hazard: a backup that cannot be restored, or that holds up the server while it is made.
//!
//! A store with a backlog (`--count` events that wait for a paused destination) takes 500 events a second, in turns of
//! `--seconds` without and with backups being made, one after the other. The first backup of the last turn is put into an
//! empty folder, the node is killed, and another is started on the copy.
//!
//! Holds if everything that was acknowledged before that backup began is in the copy and has ended once the node on it
//! is done, if the audit finds nothing, if a file that is there is not overwritten, if the copy is for its owner alone,
//! and if the 99th percentile from post to answer is at most three times that without backups (median of three).

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use domain::id::EventId;
use lab::PumpReport;
use tokio::process::Command;

use crate::harness::backlog::BacklogTemplate;
use crate::harness::doctor::{self, node_command};
use crate::harness::prelude::*;

const PAIRS: usize = 3;
const TIMES: f64 = 3.0;
/// So much is the machine's own scheduler.
const FLOOR_MS: f64 = 5.0;
const USAGE: i32 = 2;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let template = BacklogTemplate::make(&testbed, "backlog", 4).await?;
    testbed.stop().await?;
    template.copy(&testbed.database, 1, options.count(200_000)).await?;
    testbed.start().await?;
    let source = RoutedSource::make(&testbed, 10, 8).await?;

    let (mut p99_ms, mut made, mut acked) = (Pairs::default(), Vec::new(), Vec::new());
    for round in 0..PAIRS {
        let sent = load(options, &source, round * 2).await?;
        p99_ms.alone.push(sent.latency.percentile_ms(99.0));
        acked.extend(answered_before(&sent, u64::MAX));
        let backups = make_backups(&testbed, round);
        let sent = load(options, &source, round * 2 + 1).await?;
        made = backups.finish().await?;
        p99_ms.beside.push(sent.latency.percentile_ms(99.0));
        let first = made.first().context("no backup was made")?;
        let is_last = round + 1 == PAIRS;
        acked.extend(answered_before(&sent, if is_last { first.began_us } else { u64::MAX }));
    }
    let (alone, beside) = p99_ms.medians("p99_ms_without", "p99_ms_with", report);
    report.note("backups_in_the_last_turn", made.len());
    report.note("p99_ms_without", alone);
    report.must_be_at_most("p99_ms_with", beside, alone * TIMES + FLOOR_MS);

    let first = made.into_iter().next().context("no backup was made")?;
    report.note("backup_bytes", std::fs::metadata(&first.path)?.len());
    report.note("backup_seconds", first.seconds);
    let mode = std::fs::metadata(&first.path)?.permissions().mode() & 0o777;
    report.must(mode == 0o600, format!("the copy has mode {mode:o}"));
    let again = node_command(&testbed, &["backup"]).arg(&first.path).output().await?;
    report.must(
        again.status.code() == Some(USAGE),
        format!("a second one ends with {:?}", again.status.code()),
    );
    report.must(left_behind(&testbed)? == 0, "a part of a copy was left behind");

    testbed.kill().await?;
    restored(options, &testbed, &first.path, &acked, report).await?;
    testbed.tear_down().await
}

async fn load(options: &Options, source: &RoutedSource, turn: usize) -> Result<PumpReport> {
    let mut config = source.pump(Until::Elapsed(options.seconds(6))).open(options.rate(500.0));
    config.first_n = turn as u64 * 10_000_000;
    pump_all(config).await
}

/// What was answered before this moment.
fn answered_before(sent: &PumpReport, before_us: u64) -> Vec<Box<str>> {
    let in_time = sent.acked().filter(|sent| sent.answered_us() < before_us);
    in_time.filter_map(|sent| sent.event_id.clone()).collect()
}

/// Starts a node on the copy, in an empty folder, and looks what it has.
async fn restored(
    options: &Options,
    testbed: &Testbed,
    copy: &Path,
    acked: &[Box<str>],
    report: &mut Report,
) -> Result<()> {
    let folder = testbed.dir().join("restored");
    std::fs::create_dir(&folder)?;
    std::fs::rename(copy, folder.join("posthaste.db"))?;
    // The receiver stays the first testbed's: that is where the destinations are.
    let mut second = TestbedPlan::new(options)?.data_dir(&folder).build().await?;
    let rows = second.database.rows("select id from events").await?;
    let there: HashSet<String> =
        rows.iter().filter_map(|row| Some(EventId::from_bytes(row[0].id()?).to_string())).collect();
    report.note("acked_before_the_backup", acked.len());
    let missing = acked.iter().filter(|id| !there.contains(id.as_ref())).count();
    report.must_be("acked_and_not_in_the_copy", missing, 0);
    second.start().await?;
    let open = "select count(*) from queue q join destinations d on d.id = q.destination_id where d.paused_at is null";
    let mut left = 0;
    becomes(Duration::from_secs(30), 100, async || {
        left = second.database.number(open).await?;
        Ok(left == 0)
    })
    .await?;
    report.must_be("not_ended_on_the_copy", left, 0);
    doctor::audit(&second, report).await?;
    second.tear_down().await
}

struct Backup {
    path: PathBuf,
    /// On the clock of the pump's log.
    began_us: u64,
    seconds: f64,
}

/// Backups, one after the other, for as long as they are wanted.
fn make_backups(testbed: &Testbed, round: usize) -> Background<Vec<Backup>> {
    let (launch, dir) = (testbed.launch().clone(), testbed.dir().to_owned());
    Background::task(|stop| async move {
        let mut made: Vec<Backup> = Vec::new();
        while !stop.is_set() {
            let path = dir.join(format!("backup-{round}-{}.db", made.len()));
            let mut command = Command::new(&launch.binary);
            command.arg("backup").arg(&path).envs(launch.env.iter().map(|(name, value)| (name, value)));
            let (began_us, began) = (lab::clock::unix_us(), Instant::now());
            let run = command.kill_on_drop(true).output().await?;
            ensure!(run.status.success(), "backup: {}", String::from_utf8_lossy(&run.stderr));
            // It stays until the end: to remove it now would be work of the file system that no backup does, and a
            // disk that is told of what is free lets every flush wait for it.
            made.push(Backup { path, began_us, seconds: began.elapsed().as_secs_f64() });
        }
        Ok(made)
    })
}

fn left_behind(testbed: &Testbed) -> Result<usize> {
    let files = std::fs::read_dir(testbed.dir())?.flatten();
    Ok(files.filter(|file| file.path().extension().is_some_and(|ending| ending == "part")).count())
}
