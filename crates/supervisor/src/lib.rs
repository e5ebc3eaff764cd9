//! The owner of a node's loops: every one of them is in the [`TABLE`], which says what happens when it dies.
//!
//! A loop dies when it panics, or when it returns although it was not told to stop. One that can be made again from the
//! store and from what is kept outside of it is restarted, after a pause that grows; one whose memory is the only truth
//! ends the node, and so does one that dies too often. Until it runs again it is *down*: `/readyz` names it. How a stop
//! goes is not decided here: a loop is started with the token it ends by.

mod deaths;
mod panics;
mod table;
#[cfg(feature = "testing")]
pub mod testing;

pub use panics::log_panics;
pub use table::{Crate, Loop, LoopEntry, Rule, TABLE};

use deaths::{Deaths, Verdict};
use domain::{
    limits,
    metrics::{Counter, MetricKind, Text},
};
use futures_util::FutureExt as _;
use std::{
    fmt,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// The loops of one node. A clone is another handle of the same.
#[derive(Clone)]
pub struct Supervisor(Arc<Shared>);

struct Shared {
    loops: [LoopHealth; TABLE.len()],
    /// Why the node must end, once it must.
    failed: watch::Sender<Option<String>>,
    /// Called where a loop says [`failpoint`]; a test's may panic.
    #[cfg_attr(not(debug_assertions), expect(dead_code, reason = "failpoints are of debug builds"))]
    planted: Box<dyn Fn(Loop) + Send + Sync>,
}

#[derive(Default)]
struct LoopHealth {
    deaths: Counter,
    is_down: AtomicBool,
}

/// Which life of a loop begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    First,
    /// After a death: what the last one had in hand may be lost, and must be looked for.
    Again,
}

/// How a life ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Panicked,
    Returned,
}

impl Default for Supervisor {
    fn default() -> Self {
        Self::with_failpoint(|_| {})
    }
}

impl Supervisor {
    /// With something that is called wherever a loop says [`failpoint`], to make it panic there. Only in debug builds.
    pub fn with_failpoint(planted: impl Fn(Loop) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared {
            loops: std::array::from_fn(|_| LoopHealth::default()),
            failed: watch::Sender::new(None),
            planted: Box::new(planted),
        }))
    }

    /// Starts a loop that is dropped at `stop`, wherever it is, and made again by `make` when it dies before.
    pub fn start<F>(
        &self,
        id: Loop,
        stop: &CancellationToken,
        mut make: impl FnMut(Life) -> F + Send + 'static,
    ) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let dropped_at = stop.clone();
        self.start_draining(id, stop, move |life| {
            let (stop, task) = (dropped_at.clone(), make(life));
            async move {
                stop.run_until_cancelled(task).await;
            }
        })
    }

    /// Starts a loop that ends by itself after `stop`, when it has done what is left, and is made again by `make` when
    /// it dies, then too: something may still be left to do.
    pub fn start_draining<F>(
        &self,
        id: Loop,
        stop: &CancellationToken,
        mut make: impl FnMut(Life) -> F + Send + 'static,
    ) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        debug_assert_eq!(id.entry().rule, Rule::Restart, "{id}");
        let (supervisor, stop) = (self.clone(), stop.clone());
        tokio::spawn(async move {
            let mut deaths = Deaths::default();
            let mut life = Life::First;
            loop {
                let end = supervisor.live(id, async { make(life).await }).await;
                if end == End::Returned && stop.is_cancelled() {
                    return;
                }
                supervisor.died(id);
                match deaths.next(Instant::now()) {
                    Verdict::Restart { pause, count } => {
                        let pause_ms = pause.as_millis() as u64;
                        tracing::error!(%id, %end, count, pause_ms, "loop.restarts");
                        let _ = timeout(pause, stop.cancelled()).await;
                    }
                    Verdict::EndNode { count } => {
                        let minutes = limits::LOOP_DEATHS_WITHIN.as_secs() / 60;
                        supervisor.end_node(format!("{id} died {count} times within {minutes} minutes"));
                        return;
                    }
                }
                life = Life::Again;
                supervisor.health(id).is_down.store(false, Ordering::Relaxed);
            }
        })
    }

    /// Starts a loop that cannot be made again: the node ends when it dies. It may return after `stop`.
    pub fn start_once(
        &self,
        id: Loop,
        stop: &CancellationToken,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        debug_assert_eq!(id.entry().rule, Rule::EndNode, "{id}");
        let (supervisor, stop) = (self.clone(), stop.clone());
        tokio::spawn(async move {
            let end = supervisor.live(id, task).await;
            if end == End::Panicked || !stop.is_cancelled() {
                supervisor.died(id);
                supervisor.end_node(format!("{id} {end}"));
            }
        })
    }

    /// The node must end, whatever the reason; the first one is told.
    pub fn end_node(&self, reason: String) {
        tracing::error!(reason, "this node must end");
        self.0.failed.send_if_modified(|told| {
            let first = told.is_none();
            if first {
                *told = Some(reason);
            }
            first
        });
    }

    /// Waits until the node must end, and says why.
    pub async fn failed(&self) -> String {
        let mut failed = self.0.failed.subscribe();
        match failed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => unreachable!("the sender is ours"),
        }
    }

    /// The loops that have died and do not run again yet.
    pub fn down(&self) -> Vec<&'static str> {
        let down = TABLE.iter().filter(|entry| self.health(entry.id).is_down.load(Ordering::Relaxed));
        down.map(|entry| entry.name).collect()
    }

    /// How often a loop has died.
    pub fn deaths(&self, id: Loop) -> u64 {
        self.health(id).deaths.get()
    }

    /// What Prometheus is told.
    pub fn write(&self, text: &mut Text) {
        let mut family = text.family(
            "posthaste_loop_deaths_total",
            MetricKind::Counter,
            "How often a loop of this node has panicked, or ended by itself; it was restarted, unless the node ended.",
        );
        for entry in TABLE.iter().filter(|entry| entry.home != Crate::Store) {
            family.value(&[("loop", entry.name)], self.deaths(entry.id));
        }
    }

    async fn live(&self, id: Loop, task: impl Future<Output = ()>) -> End {
        let running = CURRENT.scope((self.clone(), id), task);
        match AssertUnwindSafe(running).catch_unwind().await {
            Ok(()) => End::Returned,
            Err(_) => End::Panicked,
        }
    }

    fn died(&self, id: Loop) {
        let health = self.health(id);
        health.deaths.add(1);
        health.is_down.store(true, Ordering::Relaxed);
    }

    fn health(&self, id: Loop) -> &LoopHealth {
        &self.0.loops[id as usize]
    }
}

tokio::task_local! {
    /// The loop that runs.
    static CURRENT: (Supervisor, Loop);
}

/// Here a test may make the loop that calls it die. Every loop has one, where it has the most in hand; in a release
/// build it is nothing.
#[inline(always)]
pub fn failpoint() {
    #[cfg(debug_assertions)]
    let _ = CURRENT.try_with(|(supervisor, id)| (supervisor.0.planted)(*id));
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panicked => "panicked",
            Self::Returned => "ended by itself",
        })
    }
}

#[cfg(test)]
mod tests;
