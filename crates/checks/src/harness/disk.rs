//! How long the disk alone takes to sync a page, beside whatever else writes to it: what no node can be quicker than.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use lab::Histogram;

const PAGE: usize = 8_192;
/// Written before, as a log's pages are: to sync one is to write it, and nothing about the file.
const PAGES: u64 = 1_024;
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) struct DiskProbe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Histogram>>,
}

impl DiskProbe {
    /// Syncs a page of a file of its own, twenty times a second.
    pub(crate) fn start(dir: &Path) -> Result<DiskProbe> {
        let file = File::create(dir.join("disk-probe"))?;
        file.write_all_at(&vec![1; PAGE * PAGES as usize], 0)?;
        file.sync_all()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut took = Histogram::default();
            for page in (0..PAGES).cycle() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let began = Instant::now();
                file.write_all_at(&[2; PAGE], page * PAGE as u64)?;
                file.sync_data()?;
                took.record(began.elapsed().as_micros() as u64);
                thread::sleep(PAUSE);
            }
            Ok(took)
        });
        Ok(DiskProbe { stop, thread })
    }

    pub(crate) fn stop(self) -> Result<Histogram> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the probe of the disk panicked"))?
    }
}
