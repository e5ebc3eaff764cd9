//! Hazard: the disk is full.
//!
//! The data folder is a file system of 64 MiB, half of it taken; events of 8 KiB come in at 500/s while a slow
//! destination works off 50/s, until nothing more fits; ten seconds later the last byte is taken too, the node is killed
//! and started on the full disk; then the other half is set free. Needs root.
//!
//! Holds if events are only ever answered 202 or 503, the latter with Retry-After; if the process lives on and what
//! it delivers while the disk is full is settled, before the kill and after the start; if it accepts within five seconds
//! after there is room again, without a restart; if nothing is lost; and if the file passes SQLite's integrity check.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::postgres_server::target_dir;
use crate::harness::prelude::*;

const DISK_MIB: usize = 64;
const TAKEN_MIB: usize = 32;
const SLOTS: u64 = 10;
const FULL_FOR: Duration = Duration::from_secs(10);
const SETTLED: &str = "select count(*) from attempts where ending is not null";

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let disk = SmallDisk::mount()?;
    let taken = disk.path.join("taken");
    std::fs::write(&taken, vec![1; TAKEN_MIB << 20])?;
    let mut testbed = TestbedPlan::new(options)?.data_dir(&disk.path.join("data")).start().await?;
    let source = RoutedSource::make(&testbed, 1, SLOTS as u32).await?;
    testbed.receiver.default_script(Reply::ok().after(Duration::from_millis(200)));

    let mut config = source.pump(Until::Stopped).open(options.rate(500.0));
    config.body_bytes = 8 * 1024;
    // Each event is sent once, so that every answer is in the log.
    config.retry_for = Duration::ZERO;
    let pump = Pump::start(config)?;
    let (addr, request) = (testbed.addr, source.ingest_request("lab.probe", &[b'x'; 8192]));
    let probe = || raw_http::exchange(addr, &request, Duration::from_secs(3));

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
    let before = (testbed.database.number(SETTLED).await?, testbed.receiver.succeeded());
    sleep(FULL_FOR).await;
    let delivered = testbed.receiver.succeeded() - before.1;
    let settled = testbed.database.number(SETTLED).await? - before.0;
    report.must_be_at_least("delivered_while_full", delivered, SLOTS * 10);
    // All but those that are under way at the two moments.
    report.must_be_at_least("settled_while_full", settled, delivered.saturating_sub(2 * SLOTS));
    report.must(probe().await?.status == Some(503), "a full disk does not refuse any more");
    let ready = testbed.get("/readyz").await?;
    report.must(ready.status == Some(503), "a node that lets no event in says it is ready");
    report.must(testbed.is_running(), "the process died of a full disk");

    let sent = pump.finish().await;
    report.must_be_accepted_or_refused(&sent);
    let rest = disk.path.join("rest");
    fill(&rest)?;
    let settled = testbed.database.number(SETTLED).await?;
    let killed = testbed.kill().await?;
    fill(&rest)?;
    testbed.launch_node(0)?;
    let again = async || Ok(testbed.database.number(SETTLED).await? >= settled + SLOTS * 2);
    let again = becomes(Duration::from_secs(20), 100, again).await?;
    report.must(again, "a node does not start and settle on a full disk");

    std::fs::remove_file(&rest)?;
    std::fs::remove_file(&taken)?;
    let freed = Instant::now();
    becomes(Duration::from_secs(10), 50, async || Ok(probe().await?.status == Some(202))).await?;
    report.must_be_at_most("accepting_again_after_seconds", freed.elapsed(), 5.0);
    testbed.receiver.default_script(Reply::ok());
    testbed.must_be_running(report);
    settle_accounts(&testbed, &source, source.evidence(&sent, vec![killed]), report).await?;
    let integrity = testbed.database.rows("pragma integrity_check").await?;
    let sound = integrity.first().and_then(|row| row[0].text()) == Some("ok");
    report.must(sound, "the file is damaged");
    testbed.tear_down().await
}

/// Adds to the file until nothing more fits on its disk.
fn fill(file: &Path) -> Result<()> {
    let mut file = std::fs::File::options().append(true).create(true).open(file)?;
    for size in [1 << 16, 1 << 10, 1] {
        while file.write_all(&vec![1; size]).is_ok() {}
    }
    Ok(())
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
