//! The store as one node meets it: replies come late or get lost, calls are refused or hang, and a write whose caller
//! has died may still land.
//!
//! What really happens in the store is noted at the moment it happens.

mod expansions;
mod feed;
mod forward;
mod gates;
mod ingest;
mod membership;
mod operational_events;
mod queue;
mod replays;
mod test_sends;
mod wakes;

use crate::{
    log::Occurrence,
    planted_bug::PlantedBug,
    shared_world::{LateWrite, SharedWorld, count},
    time::{MILLISECOND, Moment},
};
use std::{
    future::Future,
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::Duration,
};
use store::{Store, StoreError};
use tokio::time::sleep;

pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) shared: Arc<SharedWorld>,
    pub(crate) node: usize,
    pub(crate) life: usize,
    /// It hears nothing of the others, and will find out.
    pub(crate) line_is_down: AtomicBool,
}

/// Where a write happens, whatever has become of its caller.
struct TrueStore {
    store: Arc<dyn Store>,
    shared: Arc<SharedWorld>,
    node: usize,
    life: usize,
}

/// What is going to happen to a call.
struct CallFate {
    number: u64,
    before: Duration,
    after: Duration,
    end: CallEnd,
    /// If its caller dies before it is made, it lands so much later all the same.
    lands: Option<Moment>,
}

#[derive(PartialEq)]
enum CallEnd {
    Well,
    Refused,
    Stalled,
    Lost,
    Late(Moment),
}

impl FaultyStore {
    async fn read<T>(
        &self,
        call: &'static str,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if self.has(PlantedBug::StaleConfiguration) && call == "versions" {
            return Err(StoreError::Unavailable("nobody may know".into()));
        }
        let fate = self.fate(call);
        pause(fate.before).await;
        match fate.end {
            CallEnd::Refused | CallEnd::Stalled => return Err(StoreError::Unavailable("simulated".into())),
            _ => {}
        }
        let result = finish(work);
        pause(fate.after).await;
        match fate.end {
            CallEnd::Well => result,
            _ => Err(StoreError::Unavailable("the reply got lost".into())),
        }
    }

    async fn write<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce(&TrueStore) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (fate, true_store) = (self.fate(call), self.true_store());
        let work = move || work(&true_store);
        let (shared, life) = (self.shared.as_ref(), self.life);
        let mut pending =
            PendingWrite { work: Some(work), shared, life, number: fate.number, lands: fate.lands };
        pause(fate.before).await;
        match fate.end {
            CallEnd::Refused => {
                pending.work = None;
                return Err(StoreError::Unavailable("simulated".into()));
            }
            CallEnd::Stalled => {
                pending.work = None;
                return Err(StoreError::OutcomeUnknown("simulated: no answer".into()));
            }
            CallEnd::Late(by) => {
                pending.lands = Some(by);
                return Err(StoreError::OutcomeUnknown("simulated: no answer yet".into()));
            }
            CallEnd::Well | CallEnd::Lost => {}
        }
        let work = pending.work.take().expect("it has not been made yet");
        drop(pending);
        let result = work();
        pause(fate.after).await;
        match fate.end {
            CallEnd::Lost => Err(StoreError::OutcomeUnknown("simulated: the reply got lost".into())),
            _ => result,
        }
    }

    fn fate(&self, call: &'static str) -> CallFate {
        let (chance, store_behaviour) = (&self.shared.chance, self.shared.store_behaviour(self.node));
        let number = self.shared.number_call();
        let counts = &self.shared.counts;
        let mut fate = CallFate {
            number,
            before: Duration::ZERO,
            after: Duration::ZERO,
            end: CallEnd::Well,
            lands: None,
        };
        if chance.happens(store_behaviour.slow) {
            fate.before = chance.millis(0, store_behaviour.slow_ms);
            fate.after = chance.millis(0, store_behaviour.slow_ms);
            count(&counts.slow_calls);
        }
        if chance.happens(0.5) {
            fate.lands = Some(chance.range(1, 1_500) as Moment * MILLISECOND);
        }
        let draw = {
            use domain::dice::Dice as _;
            chance.unit()
        };
        let mut bound = store_behaviour.refuse;
        let mut below = |part: f64| {
            let hit = draw < bound;
            bound += part;
            hit
        };
        let (refused, stalled, lost, late) = (
            below(store_behaviour.stall),
            below(store_behaviour.lose),
            below(store_behaviour.late),
            below(0.0),
        );
        let named = if refused {
            count(&counts.refused_calls);
            fate.end = CallEnd::Refused;
            "refused"
        } else if stalled {
            count(&counts.stalled_calls);
            fate.end = CallEnd::Stalled;
            fate.before += chance.millis(500, 5_000);
            fate.lands = None;
            "stalled"
        } else if lost {
            count(&counts.lost_replies);
            fate.end = CallEnd::Lost;
            "lost"
        } else if late {
            fate.end = CallEnd::Late(chance.range(1, 4_000) as Moment * MILLISECOND);
            "late"
        } else {
            return fate;
        };
        self.shared.note(Occurrence::Call { node: self.node, call, fate: named });
        fate
    }

    fn true_store(&self) -> TrueStore {
        TrueStore {
            store: Arc::clone(&self.inner),
            shared: Arc::clone(&self.shared),
            node: self.node,
            life: self.life,
        }
    }

    fn has(&self, plant: PlantedBug) -> bool {
        self.shared.has(plant)
    }
}

/// A write between its caller and the store.
struct PendingWrite<'s, T, W: FnOnce() -> Result<T, StoreError> + Send + 'static> {
    work: Option<W>,
    shared: &'s SharedWorld,
    life: usize,
    number: u64,
    lands: Option<Moment>,
}

impl<T, W: FnOnce() -> Result<T, StoreError> + Send + 'static> Drop for PendingWrite<'_, T, W> {
    fn drop(&mut self) {
        if let (Some(work), Some(by)) = (self.work.take(), self.lands) {
            let landing: LateWrite = Box::new(move || drop(work()));
            self.shared.send_off(self.shared.time.now() + by, self.number, self.life, landing);
        }
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

/// Runs a call of the real store to its end while the world's time stands. The memory store answers at once, SQLite
/// when its writer has.
pub(crate) fn finish<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut work = pin!(tokio::task::unconstrained(work));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}
