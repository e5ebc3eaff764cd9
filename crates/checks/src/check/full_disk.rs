//! Hazard: the disk is full.
//!
//! The data folder is a file system of 64 MiB, half of it taken; events of 8 KiB come in at 500/s while a slow
//! destination works off 50/s, until nothing more fits; ten seconds later the other half is set free. Needs root.
//!
//! Holds if events are only ever answered 202 or 503, the latter with Retry-After; if the process lives on and what
//! it delivers while the disk is full is settled; if it accepts within five seconds after there is room again,
//! without a restart; if nothing is lost; and if the file passes SQLite's integrity check.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lab::{Pump, Reply, Until};
use tokio::time::sleep;

use crate::Ask;
use crate::harness::audit::settle_accounts;
use crate::harness::server::target_dir;
use crate::harness::{Fleet, Plan, Report, StoreKind, wire};

const DISK_MIB: usize = 64;
const TAKEN_MIB: usize = 32;
const SLOTS: u64 = 10;
const FULL_FOR: Duration = Duration::from_secs(10);
const SETTLED: &str = "select count(*) from attempts where ending is not null";

pub(crate) async fn run(ask: &Ask, store: StoreKind) -> Result<Report> {
    let mut report = Report::default();
    let disk = SmallDisk::mount()?;
    let taken = disk.path.join("taken");
    std::fs::write(&taken, vec![1; TAKEN_MIB << 20])?;
    let mut stage = Plan::new(ask, store)?.data_dir(&disk.path.join("data")).start().await?;
    let fleet = Fleet::assemble(&stage, 1, SLOTS as u32).await?;
    stage.receiver.default_script(Reply::ok().after(Duration::from_millis(200)));

    let mut config = fleet.pump(Until::Stopped).open(ask.rate(500.0));
    config.body_bytes = 8 * 1024;
    // Each event is sent once, so that every answer is in the log.
    config.retry_for = Duration::ZERO;
    let pump = Pump::start(config)?;
    let request =
        wire::request("POST", &fleet.ingest_path(), &[("x-event-type", "lab.probe")], &[b'x'; 8192]);
    let probe = || wire::exchange(stage.addr, &request, Duration::from_secs(3));

    let began = Instant::now();
    let refusal = loop {
        let answer = probe().await?;
        if answer.status != Some(202) {
            break answer;
        }
        ensure!(began.elapsed() < Duration::from_secs(60), "the disk never filled up");
        sleep(Duration::from_millis(20)).await;
    };
    report.note("full_after_seconds", began.elapsed().as_secs());
    report.must(refusal.status == Some(503), format!("the first refusal is {:?}", refusal.status));
    let retry_after = refusal.header("retry-after").and_then(|value| value.parse::<u64>().ok());
    report.must(retry_after.is_some(), "the refusal has no Retry-After");
    let before = (stage.database.number(SETTLED).await?, stage.receiver.succeeded());
    sleep(FULL_FOR).await;
    let delivered = stage.receiver.succeeded() - before.1;
    let settled = stage.database.number(SETTLED).await? - before.0;
    report.at_least("delivered_while_full", delivered as f64, SLOTS as f64 * 10.0);
    // All but those that are under way at the two moments.
    report.at_least("settled_while_full", settled as f64, delivered.saturating_sub(2 * SLOTS) as f64);
    report.must(probe().await?.status == Some(503), "a full disk does not refuse any more");
    let ready = wire::request("GET", "/readyz", &[], b"");
    let ready = wire::exchange(stage.addr, &ready, Duration::from_secs(3)).await?;
    report.must(ready.status == Some(503), "a node that lets no event in says it is ready");
    report.must(stage.node_mut()?.is_running(), "the process died of a full disk");

    std::fs::remove_file(&taken)?;
    let freed = Instant::now();
    let request =
        wire::request("POST", &fleet.ingest_path(), &[("x-event-type", "lab.probe")], &[b'x'; 8192]);
    let probe = || wire::exchange(stage.addr, &request, Duration::from_secs(3));
    while probe().await?.status != Some(202) && freed.elapsed() < Duration::from_secs(10) {
        sleep(Duration::from_millis(50)).await;
    }
    report.at_most("accepting_again_after_seconds", freed.elapsed().as_secs_f64(), 5.0);
    sleep(Duration::from_secs(1)).await;
    let sent = pump.finish().await;
    report.note("pump", &sent);
    let wrong = sent.refused.iter().filter(|(status, _)| **status != 503).count() as u64;
    report.exactly("other_answers", wrong + sent.unanswered, 0u64);
    stage.receiver.default_script(Reply::ok());
    let left = stage.quiesce(Duration::from_secs(60)).await?;
    report.exactly("left_in_queue", left, 0u64);
    report.must(stage.is_running(), "the process did not survive");
    settle_accounts(&stage, &fleet, fleet.promised(&sent.sent), Vec::new(), &mut report).await?;
    let integrity = stage.database.rows("pragma integrity_check").await?;
    let sound = integrity.first().and_then(|row| row[0].text()) == Some("ok");
    report.must(sound, "the file is damaged");
    stage.strike().await?;
    Ok(report)
}

/// A tmpfs, unmounted when dropped.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    fn mount() -> Result<SmallDisk> {
        let path = target_dir()?.join(format!("checks/disk-{:08x}", rand::random::<u32>()));
        std::fs::create_dir_all(&path)?;
        let size = format!("size={DISK_MIB}m");
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).status()?;
        ensure!(status.success(), "mount: {status}; this check needs root");
        Ok(SmallDisk { path })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(&self.path);
    }
}

fn unmount(path: &Path) {
    // Lazily: a node that is being killed may hold a file for another moment.
    let _ = Command::new("umount").arg("-l").arg(path).status();
    let _ = std::fs::remove_dir(path);
}
