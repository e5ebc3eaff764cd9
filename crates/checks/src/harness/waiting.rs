//! Waiting for something to become true, and work that goes on meanwhile.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

/// Looks every so many milliseconds until it is so or the time is up; says whether it is.
pub(crate) async fn becomes(
    limit: Duration,
    every_ms: u64,
    mut is_so: impl AsyncFnMut() -> Result<bool>,
) -> Result<bool> {
    let began = Instant::now();
    while !is_so().await? {
        if began.elapsed() >= limit {
            return Ok(false);
        }
        sleep(Duration::from_millis(every_ms)).await;
    }
    Ok(true)
}

/// The same, and fails, with what is said, when the time is up.
pub(crate) async fn wait_until(
    otherwise: &str,
    limit: Duration,
    every_ms: u64,
    is_so: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    ensure!(becomes(limit, every_ms, is_so).await?, "{otherwise} after {limit:?}");
    Ok(())
}

/// Work that goes on beside a check until it is stopped, and then says what it has found.
#[derive(Debug)]
pub(crate) struct Background<T> {
    stop: Arc<AtomicBool>,
    work: JoinHandle<Result<T>>,
}

impl<T: Send + 'static> Background<T> {
    pub(crate) fn task<F>(work: impl FnOnce(StopSign) -> F) -> Background<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let stop = Arc::new(AtomicBool::new(false));
        Background { work: tokio::spawn(work(StopSign(stop.clone()))), stop }
    }

    /// On a thread that does nothing else: a runtime that has its hands full does not make the work late.
    pub(crate) fn thread(work: impl FnOnce(StopSign) -> Result<T> + Send + 'static) -> Background<T> {
        let stop = Arc::new(AtomicBool::new(false));
        let sign = StopSign(stop.clone());
        Background { work: spawn_blocking(move || work(sign)), stop }
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    pub(crate) async fn finish(self) -> Result<T> {
        self.stop();
        self.work.await?
    }
}

/// Whether work in the background is to end.
#[derive(Debug)]
pub(crate) struct StopSign(Arc<AtomicBool>);

impl StopSign {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Relaxed)
    }
}
