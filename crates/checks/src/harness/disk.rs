//! How long the disk alone takes to sync a page, beside whatever else writes to it: what no node can be quicker than.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use lab::Histogram;

use super::waiting::Background;

const PAGE: usize = 8_192;
/// Written before, as a log's pages are: to sync one is to write it, and nothing about the file.
const PAGES: u64 = 1_024;
const PAUSE: Duration = Duration::from_millis(50);

/// Syncs a page of a file of its own, twenty times a second, and says how long that took.
pub(crate) fn start_probe(dir: &Path) -> Result<Background<Histogram>> {
    let file = File::create(dir.join("disk-probe"))?;
    file.write_all_at(&vec![1; PAGE * PAGES as usize], 0)?;
    file.sync_all()?;
    Ok(Background::thread(move |stop| {
        let mut took = Histogram::default();
        for page in (0..PAGES).cycle() {
            if stop.is_set() {
                break;
            }
            let began = Instant::now();
            file.write_all_at(&[2; PAGE], page * PAGE as u64)?;
            file.sync_data()?;
            took.record(began.elapsed().as_micros() as u64);
            thread::sleep(PAUSE);
        }
        Ok(took)
    }))
}
