//! The store as one node meets it: replies come late or get lost, calls are refused or hang, and a write whose caller
//! has died may still land.
//!
//! What really happens in the store is told to the world's book at the moment it happens.

mod expansions;
mod feed;
mod forward;
mod gates;
mod ingest;
mod membership;
mod queue;
mod replays;
mod wakes;

use crate::{
    log::What,
    plant::Plant,
    scene::{Landing, Scene, count},
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

pub(crate) struct Faulty {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) scene: Arc<Scene>,
    pub(crate) node: usize,
    pub(crate) life: usize,
    /// It hears nothing of the others, and will find out.
    pub(crate) line_is_down: AtomicBool,
}

/// Where a write happens, whatever has become of its caller.
struct Site {
    store: Arc<dyn Store>,
    scene: Arc<Scene>,
    node: usize,
}

/// What is going to befall a call.
struct Fate {
    number: u64,
    before: Duration,
    after: Duration,
    end: End,
    /// If its caller dies before it is made, it lands so much later all the same.
    lands: Option<Moment>,
}

#[derive(PartialEq)]
enum End {
    Well,
    Refused,
    Stalled,
    Lost,
    Late(Moment),
}

impl Faulty {
    async fn read<T>(
        &self,
        call: &'static str,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if self.has(Plant::StaleConfiguration) && call == "versions" {
            return Err(StoreError::Unavailable("nobody may know".into()));
        }
        let fate = self.fate(call);
        pause(fate.before).await;
        match fate.end {
            End::Refused | End::Stalled => return Err(StoreError::Unavailable("simulated".into())),
            _ => {}
        }
        let result = finish(work);
        pause(fate.after).await;
        match fate.end {
            End::Well => result,
            _ => Err(StoreError::Unavailable("the reply got lost".into())),
        }
    }

    async fn write<T: Send + 'static>(
        &self,
        call: &'static str,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let fate = self.fate(call);
        let (scene, life) = (self.scene.as_ref(), self.life);
        let mut transit = Transit { work: Some(work), scene, life, number: fate.number, lands: fate.lands };
        pause(fate.before).await;
        match fate.end {
            End::Refused => {
                transit.work = None;
                return Err(StoreError::Unavailable("simulated".into()));
            }
            End::Stalled => {
                transit.work = None;
                return Err(StoreError::OutcomeUnknown("simulated: no answer".into()));
            }
            End::Late(by) => {
                transit.lands = Some(by);
                return Err(StoreError::OutcomeUnknown("simulated: no answer yet".into()));
            }
            End::Well | End::Lost => {}
        }
        let work = transit.work.take().expect("it has not been made yet");
        drop(transit);
        let result = work();
        pause(fate.after).await;
        match fate.end {
            End::Lost => Err(StoreError::OutcomeUnknown("simulated: the reply got lost".into())),
            _ => result,
        }
    }

    fn fate(&self, call: &'static str) -> Fate {
        let (chance, weather) = (&self.scene.chance, self.scene.weather(self.node));
        let number = self.scene.number_call();
        let counts = &self.scene.counts;
        let mut fate =
            Fate { number, before: Duration::ZERO, after: Duration::ZERO, end: End::Well, lands: None };
        if chance.happens(weather.slow) {
            fate.before = chance.millis(0, weather.slow_ms);
            fate.after = chance.millis(0, weather.slow_ms);
            count(&counts.slow_calls);
        }
        if chance.happens(0.5) {
            fate.lands = Some(chance.range(1, 1_500) as Moment * MILLISECOND);
        }
        let draw = {
            use domain::dice::Dice as _;
            chance.unit()
        };
        let mut bound = weather.refuse;
        let mut below = |part: f64| {
            let hit = draw < bound;
            bound += part;
            hit
        };
        let (refused, stalled, lost, late) =
            (below(weather.stall), below(weather.lose), below(weather.late), below(0.0));
        let named = if refused {
            count(&counts.refused_calls);
            fate.end = End::Refused;
            "refused"
        } else if stalled {
            count(&counts.stalled_calls);
            fate.end = End::Stalled;
            fate.before += chance.millis(500, 5_000);
            fate.lands = None;
            "stalled"
        } else if lost {
            count(&counts.lost_replies);
            fate.end = End::Lost;
            "lost"
        } else if late {
            fate.end = End::Late(chance.range(1, 4_000) as Moment * MILLISECOND);
            "late"
        } else {
            return fate;
        };
        self.scene.note(What::Call { node: self.node, call, fate: named });
        fate
    }

    fn site(&self) -> Site {
        Site { store: Arc::clone(&self.inner), scene: Arc::clone(&self.scene), node: self.node }
    }

    fn has(&self, plant: Plant) -> bool {
        self.scene.has(plant)
    }
}

/// A write between its caller and the store.
struct Transit<'s, T, W: FnOnce() -> Result<T, StoreError> + Send + 'static> {
    work: Option<W>,
    scene: &'s Scene,
    life: usize,
    number: u64,
    lands: Option<Moment>,
}

impl<T, W: FnOnce() -> Result<T, StoreError> + Send + 'static> Drop for Transit<'_, T, W> {
    fn drop(&mut self) {
        if let (Some(work), Some(by)) = (self.work.take(), self.lands) {
            let landing: Landing = Box::new(move || drop(work()));
            self.scene.send_off(self.scene.time.now() + by, self.number, self.life, landing);
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
