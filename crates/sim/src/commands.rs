//! What people ask of a node: retry now, cancel, pause, resume, switch a route, replay. As the API's handlers do it.

use crate::{
    chance::Chance,
    log::Occurrence,
    planted_bug::PlantedBug,
    shared_world::{SharedWorld, count},
};
use domain::{
    audit::AuditEntry,
    delivery::Position,
    dice::Dice,
    id::{AccountId, ApiKeyId, AttemptId, AuditId, DeliveryId, DestinationId, ReplayId, RouteId},
    limits,
    time::Clock,
};
use ingest::Admission;
use std::sync::Arc;
use store::{Announce, Change, CreatedReplay, NewReplay, ReplayKey, Selection, Store, StoreError};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

/// Of changes in a world, where nobody reads the audit log.
pub(crate) fn audit_entry() -> AuditEntry {
    AuditEntry::system(AuditId::MIN, "simulated", None)
}

#[expect(clippy::large_enum_variant, reason = "a world has few of them")]
pub(crate) enum Command {
    RetryNow(AccountId, DeliveryId),
    Cancel(AccountId, DeliveryId),
    /// Pauses a destination, or lets it go on.
    Pause(AccountId, DestinationId, bool),
    /// Disables a route, or enables it again.
    SwitchRoute(AccountId, RouteId),
    Replay(ReplayRequest),
}

/// Deliveries that are wanted once more, or events that get what they never had.
pub(crate) struct ReplayRequest {
    pub(crate) account: AccountId,
    pub(crate) selection: Selection,
    pub(crate) rate: u32,
    pub(crate) key: String,
    pub(crate) answer: oneshot::Sender<Result<ReplayId, ()>>,
}

/// What the API's handlers of a process have at hand: for commands here, for events in `intake`.
#[derive(Clone)]
pub(crate) struct Handlers {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) announce: Arc<dyn Announce>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<Chance>,
    pub(crate) shared: Arc<SharedWorld>,
}

impl Handlers {
    /// One command after the other.
    pub(crate) async fn obey(self, mut asked: mpsc::UnboundedReceiver<Command>) {
        while let Some(command) = asked.recv().await {
            match command {
                Command::RetryNow(account, id) => self.retry_now(account, id).await,
                Command::Cancel(account, id) => self.cancel(account, id).await,
                Command::Pause(account, id, pause) => self.pause(account, id, pause).await,
                Command::SwitchRoute(account, id) => self.switch_route(account, id).await,
                Command::Replay(request) => self.replay(request).await,
            }
        }
    }

    async fn retry_now(&self, account: AccountId, id: DeliveryId) {
        self.note("retry now", id.to_string());
        if let Ok(Some(delivery)) = self.store.retry_now(account, id, self.clock.now(), &audit_entry()).await
        {
            self.announce.look(&[(delivery.destination_id, id, delivery.position)]).await;
            if self.shared.has(PlantedBug::RetryPassesHold) {
                self.announce.changed(Change::Probe(delivery.destination_id)).await;
            }
        }
    }

    async fn cancel(&self, account: AccountId, id: DeliveryId) {
        self.note("cancel", id.to_string());
        let now = self.clock.now();
        let cancelled =
            self.store.cancel(account, id, AttemptId::at(now, self.dice.bits()), now, &audit_entry()).await;
        if let Ok(Some(delivery)) = cancelled
            && delivery.position.track != Position::UNORDERED
        {
            self.announce.look(&[(delivery.destination_id, id, delivery.position)]).await;
        }
    }

    /// Pauses or resumes, and tells the owner.
    async fn pause(&self, account: AccountId, id: DestinationId, pause: bool) {
        self.note(if pause { "pause" } else { "resume" }, id.to_string());
        let Ok(mut destination) = self.store.destination(account, id).await else { return };
        let now = self.clock.now();
        match (pause, destination.switch.paused_at.is_some()) {
            (true, false) => destination.switch.paused_at = Some(now),
            (false, true) => {
                self.shared.observed().resumes(id, destination.version);
                (destination.switch.paused_at, destination.switch.resumed_at) = (None, Some(now));
            }
            _ => return,
        }
        let written = self.store.update_destination(&destination, &audit_entry()).await;
        self.config_written(account, id, &written).await;
        if let (Ok(changed), true) = (written, pause) {
            self.shared.observed().paused(id, changed.version, self.shared.time.now());
        }
    }

    async fn switch_route(&self, account: AccountId, id: RouteId) {
        let Ok(mut route) = self.store.route(account, id).await else { return };
        self.note(if route.enabled { "disable route" } else { "enable route" }, id.to_string());
        route.enabled = !route.enabled;
        route.updated_at = self.clock.now();
        let written = self.store.update_route(&route, &audit_entry()).await;
        self.config_written(account, route.destination_id, &written).await;
    }

    /// What this process remembers is read again, and owners are told. A write with an unknown outcome may still be made.
    async fn config_written<T>(
        &self,
        account: AccountId,
        id: DestinationId,
        written: &Result<T, StoreError>,
    ) {
        let unknown = matches!(written, Err(StoreError::OutcomeUnknown(_)));
        if written.is_err() && !unknown || self.shared.has(PlantedBug::StaleConfiguration) {
            return;
        }
        self.config_changed(account, id).await;
        if unknown {
            let commands = self.clone();
            tokio::spawn(async move {
                sleep(limits::STORE_STATEMENT).await;
                commands.config_changed(account, id).await;
            });
        }
    }

    async fn config_changed(&self, account: AccountId, id: DestinationId) {
        self.admission.snapshots().mark_outdated(account);
        self.announce.changed(Change::Destinations(account, vec![id])).await;
    }

    /// As the API makes one of ids.
    async fn replay(&self, request: ReplayRequest) {
        self.note("replay", request.key.clone());
        let now = self.clock.now();
        let hash = hash_of(&request.key);
        let key = ReplayKey { hash, body_hash: hash };
        let new = NewReplay {
            id: ReplayId::at(now, self.dice.bits()),
            account_id: request.account,
            rate: request.rate,
            matched: match &request.selection {
                Selection::Deliveries(given) => given.ids.len() as u64,
                _ => 0,
            },
            matched_exact: true,
            selection: request.selection,
            created_by: ApiKeyId::MIN.into(),
            created_at: now,
            key: Some(key).filter(|_| !self.shared.has(PlantedBug::ReplayWithoutKey)),
            at_once: None,
        };
        let made = match self.store.create_replay(&new, &audit_entry()).await {
            Ok(CreatedReplay::New(replay) | CreatedReplay::Known { replay, .. }) => Ok(replay.id),
            Err(_) => Err(()),
        };
        let _ = request.answer.send(made);
    }

    fn note(&self, what: &'static str, target: String) {
        count(&self.shared.counts.commands);
        self.shared.note(Occurrence::Command { what, target });
    }
}

/// Short keys stand for themselves.
fn hash_of(key: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[..key.len()].copy_from_slice(key.as_bytes());
    hash
}
