//! A thread with a single-threaded runtime that ends when its owner lets go.

use std::future::Future;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// Runs one future until it is done or the owner drops this; then every task of its runtime is dropped too.
#[derive(Debug)]
pub(crate) struct OwnThread {
    stop: Option<oneshot::Sender<()>>,
    handle: Option<JoinHandle<()>>,
}

impl OwnThread {
    pub(crate) fn run<F>(name: &str, work: impl FnOnce() -> F + Send + 'static) -> std::io::Result<OwnThread>
    where
        F: Future<Output = ()>,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let handle = std::thread::Builder::new().name(name.into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = work() => {}
                    _ = stopped => {}
                }
            });
        })?;
        Ok(OwnThread { stop: Some(stop), handle: Some(handle) })
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(handle) = self.handle.take() {
            // Waiting is short, the runtime only drops its tasks; after it the port is free again.
            // A panic in there has been printed by its thread and must not become a second one here.
            let _ = handle.join();
        }
    }
}
