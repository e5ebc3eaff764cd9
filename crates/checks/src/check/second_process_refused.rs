//! Hazard: two processes on one file.
//!
//! While a node runs under load, a second one is started on the same folder; then one on a link to the folder, and ones with
//! folders of their own whose database is the first one's by a relative path, by a symbolic link and by a hard link.
//!
//! Holds if each exits with code 5 within two seconds, and the first neither loses nor refuses anything nor logs a word
//! about it.

use std::os::unix::fs::symlink;

use tokio::process::Command;
use tokio::time::timeout;

use crate::harness::prelude::*;
use crate::harness::testbed::free_addr;

const IN_USE: i32 = 5;

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 2, 4).await?;
    let said_before = testbed.log();
    let pump = Pump::start(source.pump(Until::Stopped).open(options.rate(50.0)))?;
    sleep(Duration::from_secs(1)).await;

    let (dir, mut slowest) = (testbed.dir().to_owned(), Duration::ZERO);
    let file = dir.join("data/posthaste.db");
    symlink(dir.join("data"), dir.join("folder"))?;
    symlink(&file, dir.join("link.db"))?;
    std::fs::hard_link(&file, dir.join("name.db"))?;
    for (way, data_dir, database) in [
        ("same", "data", file.display().to_string()),
        ("folder_link", "folder", dir.join("folder/posthaste.db").display().to_string()),
        ("relative", "own-1", "data/posthaste.db".into()),
        ("link", "own-2", dir.join("link.db").display().to_string()),
        ("hard_link", "own-3", dir.join("name.db").display().to_string()),
    ] {
        let began = Instant::now();
        let second = Command::new(&testbed.launch().binary)
            .args(&testbed.launch().args)
            .envs(testbed.launch().env.iter().map(|(name, value)| (name, value)))
            .env("POSTHASTE_LISTEN", free_addr()?.to_string())
            .env("POSTHASTE_DATA_DIR", dir.join(data_dir))
            .env("POSTHASTE_DATABASE", format!("sqlite:{database}"))
            .current_dir(&dir)
            .kill_on_drop(true)
            .output();
        let second = timeout(Duration::from_secs(10), second).await??;
        slowest = slowest.max(began.elapsed());
        report.note(&format!("{way}_says"), String::from_utf8_lossy(&second.stderr).trim().to_owned());
        let code = second.status.code();
        report.must(code == Some(IN_USE), format!("{way}: the second exits with {code:?}"));
    }
    report.must_be_at_most("second_exits_after_seconds", slowest, 2.0);

    sleep(Duration::from_secs(1)).await;
    let sent = pump.finish().await;
    testbed.must_drain(Duration::from_secs(30), report).await?;
    testbed.must_be_running(report);
    report.must(sent.accepted == sent.offered && sent.retries == 0, "the first node refused events");
    report.must(testbed.log() == said_before, "the first node has something to say about it");
    settle_accounts(&testbed, &source, source.evidence(&sent, Vec::new()), report).await?;
    testbed.tear_down().await
}
