//! Threads of their own for the deliveries: however many thousand are under way, a request that comes in finds a thread
//! that is not busy with them, and the kernel shares the cores fairly between the two.
//!
//! In one set of threads, under an overload on one core, `/healthz` answered after 338 ms and events were accepted late for
//! 23 s; in two, 78 ms and 0.2 s, for about three percent more CPU an event. The deliveries' threads are not niced: they
//! fell behind their lanes, and what was in memory was read from the store again.

use crate::{failure::Failure, threads};
use async_trait::async_trait;
use domain::metrics::{MetricKind, Text};
use std::{future::Future, sync::Arc};
use store::Scraped;
use tokio::runtime::{Builder, Handle, Runtime};

pub(super) struct DeliveryThreads(Option<Runtime>);

impl DeliveryThreads {
    pub(super) fn start() -> Result<Self, Failure> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(threads::of_a_set()).thread_name("deliver").enable_all().build();
        runtime.map(|runtime| Self(Some(runtime))).map_err(Failure::failed)
    }

    /// How many tasks there are, here and among those who ask.
    pub(super) fn tasks(&self) -> Arc<Tasks> {
        let Self(Some(runtime)) = self else { unreachable!("they are there until they are dropped") };
        Arc::new(Tasks { serving: Handle::current(), delivering: runtime.handle().clone() })
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

/// Tasks of both sets of threads, for the metrics: what is left open or waits for ever shows here.
pub(super) struct Tasks {
    serving: Handle,
    delivering: Handle,
}

#[async_trait]
impl Scraped for Tasks {
    async fn scrape(&self, _named: bool, text: &mut Text) {
        let mut tasks = text.family(
            "posthaste_tasks",
            MetricKind::Gauge,
            "Loops, connections and requests of this process, by the threads they run on. As many as before when the load is \
             gone.",
        );
        for (threads, handle) in [("serve", &self.serving), ("deliver", &self.delivering)] {
            tasks.value(&[("threads", threads)], handle.metrics().num_alive_tasks());
        }
    }
}

impl Drop for DeliveryThreads {
    /// Does not wait: what was to end has been stopped before.
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}
