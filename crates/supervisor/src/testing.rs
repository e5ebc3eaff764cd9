//! For tests: a panic planted in one loop, to see that it is survived.

use crate::{Loop, Supervisor};
use futures_util::FutureExt as _;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{sync::watch, time::timeout};

const PATIENCE: Duration = Duration::from_secs(10);

/// One loop of what this supervisor runs dies, once, the next time it comes round after it was armed.
#[derive(Clone)]
pub struct PlantedPanic {
    pub id: Loop,
    pub supervisor: Supervisor,
    armed: Arc<AtomicBool>,
    /// Whether the loop has come round since it died; None while it has not died.
    came_round: watch::Sender<Option<bool>>,
}

impl PlantedPanic {
    pub fn in_loop(id: Loop) -> Self {
        let (armed, came_round) = (Arc::<AtomicBool>::default(), watch::Sender::new(None));
        let (fires, told) = (Arc::clone(&armed), came_round.clone());
        let supervisor = Supervisor::with_failpoint(move |reached| {
            if reached != id {
                return;
            }
            if fires.swap(false, Ordering::SeqCst) {
                told.send_replace(Some(false));
                panic!("planted in {id}");
            }
            told.send_modify(|came_round| *came_round = came_round.map(|_| true));
        });
        Self { id, supervisor, armed, came_round }
    }

    pub fn arm(&self) {
        self.armed.store(true, Ordering::SeqCst);
    }

    /// Waits until the loop has died.
    pub async fn fired(&self) {
        self.told(|came_round| came_round.is_some()).await;
    }

    /// Waits until the loop has died, was made again and has come round since.
    pub async fn survived(&self) {
        self.told(|came_round| *came_round == Some(true)).await;
        let Self { id, supervisor, .. } = self;
        assert_eq!((supervisor.deaths(*id), supervisor.down()), (1, Vec::new()), "{id}");
        assert_eq!(supervisor.failed().now_or_never(), None, "{id}");
    }

    async fn told(&self, wanted: impl Fn(&Option<bool>) -> bool) {
        let mut came_round = self.came_round.subscribe();
        let told = timeout(PATIENCE, came_round.wait_for(|came_round| wanted(came_round))).await;
        assert!(matches!(told, Ok(Ok(_))), "{} did not come back", self.id);
    }
}
