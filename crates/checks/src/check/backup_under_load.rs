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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use domain::id::EventId;
use lab::{Pump, PumpReport, Until};
use tokio::process::Command;

use crate::Ask;
use crate::harness::backlog::Pattern;
use crate::harness::doctor::{self, node_command};
use crate::harness::others::median;
use crate::harness::{Fleet, Plan, Report, Stage, StoreKind};

const PAIRS: usize = 3;
const TIMES: f64 = 3.0;
/// So much is the machine's own scheduler.
const FLOOR_MS: f64 = 5.0;
const USAGE: i32 = 2;

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let mut stage = Plan::new(ask, store)?.start().await?;
    let pattern = Pattern::make(&stage, "backlog", 4).await?;
    stage.stop().await?;
    pattern.copy(&stage.database, 1, ask.count(200_000)).await?;
    stage.start().await?;
    let fleet = Fleet::assemble(&stage, 10, 8).await?;

    let (mut without, mut with, mut made, mut acked) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..PAIRS {
        let sent = load(ask, &fleet, round * 2).await?;
        without.push(p99_ms(&sent));
        acked.extend(kept(&sent, u64::MAX));
        let backups = Backups::start(&stage, round);
        let sent = load(ask, &fleet, round * 2 + 1).await?;
        made = backups.finish().await?;
        with.push(p99_ms(&sent));
        let first = made.first().context("no backup was made")?;
        if round + 1 == PAIRS {
            acked.extend(kept(&sent, first.began_us));
        } else {
            acked.extend(kept(&sent, u64::MAX));
        }
    }
    report.note("each_p99_ms_without", &without);
    report.note("each_p99_ms_with", &with);
    report.note("backups_in_the_last_turn", made.len());
    let alone = median(without);
    report.note("p99_ms_without", alone);
    report.at_most("p99_ms_with", median(with), alone * TIMES + FLOOR_MS);

    let first = made.into_iter().next().context("no backup was made")?;
    report.note("backup_bytes", std::fs::metadata(&first.path)?.len());
    report.note("backup_seconds", first.seconds);
    let mode = std::fs::metadata(&first.path)?.permissions().mode() & 0o777;
    report.must(mode == 0o600, format!("the copy has mode {mode:o}"));
    let again = node_command(&stage, &["backup"]).arg(&first.path).output().await?;
    report.must(
        again.status.code() == Some(USAGE),
        format!("a second one ends with {:?}", again.status.code()),
    );
    report.must(left_behind(&stage)? == 0, "a part of a copy was left behind");

    stage.kill().await?;
    restored(ask, &stage, &first.path, &acked, &mut report).await?;
    stage.strike().await?;
    Ok(report)
}

async fn load(ask: &Ask, fleet: &Fleet, turn: usize) -> Result<PumpReport> {
    let mut config = fleet.pump(Until::Elapsed(ask.seconds(6))).open(ask.rate(500.0));
    config.first_n = turn as u64 * 10_000_000;
    let sent = Pump::start(config)?.report().await;
    ensure!(sent.accepted == sent.offered, "not everything was accepted: {sent}");
    Ok(sent)
}

fn p99_ms(sent: &PumpReport) -> f64 {
    sent.latency.percentile_us(99.0) as f64 / 1000.0
}

/// What was answered before this moment.
fn kept(sent: &PumpReport, before_us: u64) -> Vec<Box<str>> {
    let in_time = sent.acked().filter(|sent| sent.answered_us() < before_us);
    in_time.filter_map(|sent| sent.event_id.clone()).collect()
}

/// Starts a node on the copy, in an empty folder, and looks what it has.
async fn restored(
    ask: &Ask,
    stage: &Stage,
    copy: &Path,
    acked: &[Box<str>],
    report: &mut Report,
) -> Result<()> {
    let folder = stage.dir().join("restored");
    std::fs::create_dir(&folder)?;
    std::fs::rename(copy, folder.join("posthaste.db"))?;
    // The receiver stays the first stage's: that is where the destinations are.
    let mut second = Plan::new(ask, StoreKind::Sqlite)?.data_dir(&folder).set().await?;
    let rows = second.database.rows("select id from events").await?;
    let there: HashSet<String> =
        rows.iter().filter_map(|row| Some(EventId::from_bytes(row[0].id()?).to_string())).collect();
    report.note("acked_before_the_backup", acked.len());
    let missing = acked.iter().filter(|id| !there.contains(id.as_ref())).count();
    report.exactly("acked_and_not_in_the_copy", missing as u64, 0u64);
    second.start().await?;
    let open = "select count(*) from queue q join destinations d on d.id = q.destination_id where d.paused_at is null";
    let mut left = 0;
    for _ in 0..300 {
        left = second.database.number(open).await?;
        if left == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    report.exactly("not_ended_on_the_copy", left, 0u64);
    doctor::audit(&second, report).await?;
    second.strike().await
}

/// Backups, one after the other, for as long as they are wanted.
struct Backups {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<Result<Vec<Made>>>,
}

struct Made {
    path: PathBuf,
    /// On the clock of the pump's log.
    began_us: u64,
    seconds: f64,
}

impl Backups {
    fn start(stage: &Stage, round: usize) -> Backups {
        let stop = Arc::new(AtomicBool::new(false));
        let (until, dir) = (stop.clone(), stage.dir().to_owned());
        let mut commands = (0..1_000).map({
            let (launch, dir) = (stage.launch().clone(), dir.clone());
            move |at| {
                let path = dir.join(format!("backup-{round}-{at}.db"));
                let mut command = Command::new(&launch.binary);
                command.arg("backup").arg(&path).envs(launch.env.iter().map(|(name, value)| (name, value)));
                command.kill_on_drop(true);
                (command, path)
            }
        });
        let task = tokio::spawn(async move {
            let mut made: Vec<Made> = Vec::new();
            while !until.load(Relaxed) {
                let (mut command, path) = commands.next().context("too many backups")?;
                let (began_us, began) = (lab::clock::unix_us(), std::time::Instant::now());
                let run = command.output().await?;
                ensure!(run.status.success(), "backup: {}", String::from_utf8_lossy(&run.stderr));
                // It stays until the end: to remove it now would be work of the file system that no backup does, and a
                // disk that is told of what is free lets every flush wait for it.
                made.push(Made { path, began_us, seconds: began.elapsed().as_secs_f64() });
            }
            Ok(made)
        });
        Backups { stop, task }
    }

    async fn finish(self) -> Result<Vec<Made>> {
        self.stop.store(true, Relaxed);
        self.task.await?
    }
}

fn left_behind(stage: &Stage) -> Result<usize> {
    let files = std::fs::read_dir(stage.dir())?.flatten();
    Ok(files.filter(|file| file.path().extension().is_some_and(|ending| ending == "part")).count())
}
