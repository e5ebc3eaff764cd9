//! The net under every wake-up: looks which lanes have something waiting. In all shards of this node from time to time,
//! and in some of them when they have just become ours or when another node could not name the lanes.

use crate::{backoff::Backoff, dispatcher::Message, ownership_view::OwnershipView};
use domain::{dice::Dice, limits};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use store::{Store, StoreError};
use supervisor::Life;
use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};

/// The shards to be looked at before their time.
#[derive(Debug, Default)]
pub(crate) struct Rescans {
    wanted: Mutex<WantedShards>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct WantedShards {
    shards: BTreeSet<u16>,
    all: bool,
}

impl Rescans {
    pub(crate) fn ask(&self, shards: impl IntoIterator<Item = u16>) {
        self.wanted().shards.extend(shards);
        self.bell.notify_one();
    }

    pub(crate) fn ask_all(&self) {
        self.wanted().all = true;
        self.bell.notify_one();
    }

    fn wanted(&self) -> std::sync::MutexGuard<'_, WantedShards> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Scans for ever. A life after another one begins with everything: what that had in hand is lost.
pub(super) async fn run(
    life: Life,
    rescans: Arc<Rescans>,
    store: Arc<dyn Store>,
    dice: Arc<dyn Dice>,
    ownership_view: Arc<OwnershipView>,
    every: Duration,
    inbox: mpsc::Sender<Message>,
) {
    let mut backoff = Backoff::default();
    let mut next_full = Instant::now() + every;
    if life == Life::Again {
        rescans.ask_all();
    }
    loop {
        tokio::select! {
            biased;
            () = rescans.bell.notified() => {}
            () = tokio::time::sleep_until(next_full) => rescans.wanted().all = true,
        }
        let WantedShards { shards, all } = std::mem::take(&mut *rescans.wanted());
        supervisor::failpoint();
        let owned = ownership_view.owned();
        let wanted: Vec<u16> = owned.iter().copied().filter(|shard| all || shards.contains(shard)).collect();
        let started = Instant::now();
        let scanned = if wanted.is_empty() { Ok(()) } else { scan(store.as_ref(), &wanted, &inbox).await };
        match scanned {
            Ok(()) => {
                backoff.reset();
                if all {
                    // Under an old snapshot a scan walks dead entries: it must not become what the store does all day.
                    next_full = Instant::now() + every.max(started.elapsed() * limits::RESCAN_SHARE);
                }
            }
            Err(error) => {
                if backoff.worth_telling() {
                    tracing::warn!(%error, "the queue could not be scanned; trying again");
                }
                tokio::time::sleep(backoff.pause(dice.as_ref())).await;
                rescans.wanted().all |= all;
                rescans.ask(wanted);
            }
        }
    }
}

async fn scan(store: &dyn Store, shards: &[u16], inbox: &mpsc::Sender<Message>) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let heads = store.lanes(shards, after, limits::RESCAN_LANES).await?;
        let Some(last) = heads.last() else { return Ok(()) };
        let complete = heads.len() < limits::RESCAN_LANES;
        after = Some((last.shard, last.destination_id));
        if inbox.send(Message::Heads(heads)).await.is_err() || complete {
            return Ok(());
        }
    }
}
