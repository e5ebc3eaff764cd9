//! Threads of their own for the deliveries: however many thousand are under way, a request that comes in finds a thread
//! that is not busy with them, and the kernel shares the cores fairly between the two.

use crate::failure::Failure;
use std::future::Future;
use tokio::runtime::{Builder, Runtime};

/// A core that is fought over goes three quarters to whoever has none.
const NICENESS: i32 = 5;

pub(super) struct DeliveryThreads(Option<Runtime>);

impl DeliveryThreads {
    pub(super) fn start() -> Result<Self, Failure> {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.thread_name("deliver").enable_all().on_thread_start(step_back);
        let runtime = builder.build();
        runtime.map(|runtime| Self(Some(runtime))).map_err(Failure::failed)
    }

    /// Runs something there; whatever it spawns stays there.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Failure> {
        let Self(Some(runtime)) = self else { unreachable!("they are there until they are dropped") };
        runtime.spawn(work).await.map_err(Failure::failed)
    }
}

/// When all cores are busy the door comes first. (On Linux a thread has a niceness of its own.)
fn step_back() {
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "the threads of deliveries keep their priority");
    }
}

impl Drop for DeliveryThreads {
    /// Does not wait: what was to end has been stopped before.
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
