//! How events come in: what the API's committer does, without HTTP around it. Events that wait are committed together;
//! their deliveries are announced as expected before the flush and as arrived, forgotten or to be looked for after it;
//! only then is anybody answered.

use crate::{
    chance::Chance,
    log::What,
    plant::Plant,
    scene::{Scene, count},
};
use domain::{
    delivery::{Delivery, Position},
    destination::Ordering,
    dice::Dice,
    event::Event,
    id::{AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, EventId, ReplayId},
    limits,
    route::{RouteTable, fan_out},
    time::Clock,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::{
    Announce, Arrival, Change, Committed, CreatedReplay, IdempotencyKey, NewDelivery, NewEvent, NewReplay,
    ReplayKey, Selection, Store, StoreError,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

/// Something that is asked of a node from outside.
pub(crate) enum Asked {
    Event(Order),
    RetryNow(AccountId, DeliveryId),
    Cancel(AccountId, DeliveryId),
    /// Pauses a destination, or lets it go on.
    Switch(AccountId, DestinationId, bool),
    Replay(Wish),
}

/// An event that a producer wants to send.
pub(crate) struct Order {
    pub(crate) account: AccountId,
    pub(crate) event_type: &'static str,
    pub(crate) key: String,
    pub(crate) payload: usize,
    pub(crate) ordering_key: Option<&'static str>,
    pub(crate) later: Option<Duration>,
    pub(crate) answer: oneshot::Sender<Result<EventId, ()>>,
}

/// Deliveries that somebody wants once more.
pub(crate) struct Wish {
    pub(crate) account: AccountId,
    pub(crate) deliveries: Vec<DeliveryId>,
    pub(crate) rate: u32,
    pub(crate) key: String,
    pub(crate) answer: oneshot::Sender<Result<ReplayId, ()>>,
}

pub(crate) struct Door {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) announce: Arc<dyn Announce>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<Chance>,
    pub(crate) scene: Arc<Scene>,
    pub(crate) routes: BTreeMap<AccountId, Snapshot>,
}

/// An account's routes, and which of its destinations are ordered.
pub(crate) struct Snapshot {
    version: i64,
    table: RouteTable,
    orderings: BTreeMap<DestinationId, Ordering>,
}

struct Submission {
    new: NewEvent,
    answer: oneshot::Sender<Result<EventId, ()>>,
}

impl Door {
    pub(crate) async fn run(mut self, mut asked: mpsc::UnboundedReceiver<Asked>) {
        while let Some(first) = asked.recv().await {
            let mut orders = Vec::new();
            for next in std::iter::once(first).chain(std::iter::from_fn(|| asked.try_recv().ok())) {
                match next {
                    Asked::Event(order) => orders.push(order),
                    Asked::RetryNow(account, id) => self.retry_now(account, id).await,
                    Asked::Cancel(account, id) => self.cancel(account, id).await,
                    Asked::Switch(account, id, pause) => self.switch(account, id, pause).await,
                    Asked::Replay(wish) => self.replay(wish).await,
                }
            }
            let mut waiting = Vec::new();
            for order in orders {
                if let Ok(submission) = self.submission(order).await {
                    waiting.push(submission);
                }
            }
            for _ in 0..limits::MATCH_ROUNDS {
                if waiting.is_empty() {
                    break;
                }
                waiting = self.commit(waiting).await;
            }
        }
    }

    /// Matched; a producer whose event cannot be matched hears so when the order is dropped.
    async fn submission(&mut self, order: Order) -> Result<Submission, StoreError> {
        let now = self.clock.now();
        let id = EventId::at(now, self.dice.bits());
        let event_type = order.event_type.parse().expect("the world's types are well-formed");
        let event = Event {
            idempotency_key: Some(order.key.clone()),
            ordering_key: order.ordering_key.map(Into::into),
            deliver_at: order.later.map(|later| now.plus(later)),
            ..Event::new(id, order.account, event_type, vec![b'x'; order.payload].into(), now)
        };
        let hash = hash_of(&order.key);
        let key = IdempotencyKey { scope: order.account.uuid(), hash, body_hash: hash };
        let new = NewEvent {
            event: Arc::new(event),
            account_version: 0,
            deliveries: Vec::new(),
            expands: false,
            key: Some(key),
        };
        let mut submission = Submission { new, answer: order.answer };
        if !self.routes.contains_key(&order.account) {
            self.read_routes(order.account).await?;
        }
        self.match_again(&mut submission);
        Ok(submission)
    }

    async fn read_routes(&mut self, account: AccountId) -> Result<(), StoreError> {
        let changes = self.store.changes(account, 0).await?;
        let table = RouteTable::new(changes.routes.into_iter().map(Arc::new));
        let orderings = changes.orderings.into_iter().collect();
        self.routes.insert(account, Snapshot { version: changes.version, table, orderings });
        Ok(())
    }

    fn match_again(&self, submission: &mut Submission) {
        let now = self.clock.now();
        let event = &submission.new.event;
        let Snapshot { version, table, orderings } = &self.routes[&event.account_id];
        let due_at = event.deliver_at.map_or(now, |at| at.max(now));
        let key = event.ordering_key.as_deref();
        let deliver = |route: &Arc<domain::route::Route>| {
            let id = DeliveryId::at(now, self.dice.bits());
            let destination_id = route.destination_id;
            let ordering = orderings.get(&destination_id).copied().unwrap_or_default();
            let (position, sequenced) = Position::new(ordering, key, due_at, now, id);
            NewDelivery {
                id,
                route_id: route.id,
                destination_id,
                shard: destination_id.shard(),
                position,
                due_at,
                sequenced,
            }
        };
        let deliveries: Vec<NewDelivery> = fan_out(event, table).into_iter().map(deliver).collect();
        submission.new.account_version = *version;
        submission.new.deliveries = deliveries;
        let matched = submission.new.deliveries.iter().map(|it| (it.route_id, it.destination_id)).collect();
        self.scene.book().submitted.insert(submission.new.event.id, matched);
    }

    /// One flush; gives back what must be matched again.
    async fn commit(&mut self, batch: Vec<Submission>) -> Vec<Submission> {
        let (events, answers): (Vec<NewEvent>, Vec<_>) =
            batch.into_iter().map(|it| (it.new, it.answer)).unzip();
        let names: Vec<_> = events.iter().flat_map(names).collect();
        let late = self.scene.has(Plant::ExpectedLate);
        if !late {
            self.announce.expected(&names).await;
        }
        let (committed, first_unknown) = match self.flush(&events).await {
            Ok(flushed) => flushed,
            Err(StoreError::OutcomeUnknown(_)) => {
                self.look_for(events.iter().flat_map(places).collect()).await;
                return Vec::new();
            }
            Err(_) => {
                self.announce.forgotten(&names).await;
                return Vec::new();
            }
        };
        let (mut arrivals, mut forgotten, mut unsure) = (Vec::new(), Vec::new(), Vec::new());
        let (mut told, mut stale) = (Vec::new(), Vec::new());
        for ((new, answer), outcome) in events.into_iter().zip(answers).zip(committed) {
            match outcome {
                Committed::New => {
                    arrivals.extend(arrivals_of(&new));
                    told.push((answer, new.event.id));
                }
                Committed::Stale if first_unknown => unsure.extend(places(&new)),
                Committed::Stale => {
                    forgotten.extend(names_of(&new));
                    stale.push(Submission { new, answer });
                }
                Committed::Duplicate { of, .. } => {
                    forgotten.extend(names_of(&new));
                    count(&self.scene.counts.repeats);
                    told.push((answer, of));
                }
                other => unreachable!("nothing in this world is {other:?}"),
            }
        }
        let heard = !self.scene.has(Plant::LostWakeUp) || self.scene.chance.happens(0.7);
        if late {
            self.announce.expected(&names).await;
        }
        if heard && !arrivals.is_empty() {
            self.announce.arrived(arrivals).await;
        }
        if !forgotten.is_empty() {
            self.announce.forgotten(&forgotten).await;
        }
        self.look_for(unsure).await;
        for (answer, event) in told {
            let _ = answer.send(Ok(event));
        }
        let mut matched = Vec::new();
        for mut submission in stale {
            if self.read_routes(submission.new.event.account_id).await.is_ok() {
                self.match_again(&mut submission);
                matched.push(submission);
            }
        }
        matched
    }

    /// Commits, and once more after a short pause if the store was away.
    async fn flush(&self, events: &[NewEvent]) -> Result<(Vec<Committed>, bool), StoreError> {
        let first = match self.store.commit(events, self.clock.now()).await {
            Ok(committed) => return Ok((committed, false)),
            Err(error) => error,
        };
        sleep(limits::BACKOFF_MIN.mul_f64(self.dice.unit())).await;
        let first_unknown = matches!(first, StoreError::OutcomeUnknown(_));
        match self.store.commit(events, self.clock.now()).await {
            Ok(committed) => Ok((committed, first_unknown)),
            Err(_) if first_unknown => Err(first),
            Err(second) => Err(second),
        }
    }

    async fn look_for(&self, unsure: Vec<(DestinationId, DeliveryId, Position)>) {
        if unsure.is_empty() {
            return;
        }
        self.announce.look(&unsure).await;
        let announce = Arc::clone(&self.announce);
        tokio::spawn(async move {
            sleep(limits::STORE_STATEMENT).await;
            announce.look(&unsure).await;
        });
    }

    // --- Commands ----------------------------------------------------------------------------------------------------

    async fn retry_now(&self, account: AccountId, id: DeliveryId) {
        self.command("retry now", id.to_string());
        if let Ok(Some(delivery)) = self.store.retry_now(account, id, self.clock.now()).await {
            self.announce.look(&[(delivery.destination_id, id, delivery.position)]).await;
            if self.scene.has(Plant::RetryPassesHold) {
                self.announce.changed(Change::Probe(delivery.destination_id)).await;
            }
        }
    }

    async fn cancel(&self, account: AccountId, id: DeliveryId) {
        self.command("cancel", id.to_string());
        let now = self.clock.now();
        let cancelled = self.store.cancel(account, id, AttemptId::at(now, self.dice.bits()), now).await;
        if let Ok(Some(delivery)) = cancelled
            && delivery.position.track != Position::UNORDERED
        {
            self.announce.look(&[(delivery.destination_id, id, delivery.position)]).await;
        }
    }

    /// Pauses or resumes, and tells the owner.
    async fn switch(&self, account: AccountId, id: DestinationId, pause: bool) {
        self.command(if pause { "pause" } else { "resume" }, id.to_string());
        let Ok(mut destination) = self.store.destination(account, id).await else { return };
        let now = self.clock.now();
        match (pause, destination.switch.paused_at.is_some()) {
            (true, false) => destination.switch.paused_at = Some(now),
            (false, true) => {
                self.scene.book().resumes(id, destination.version);
                (destination.switch.paused_at, destination.switch.resumed_at) = (None, Some(now));
            }
            _ => return,
        }
        let written = self.store.update_destination(&destination).await;
        let stale = self.scene.has(Plant::StaleConfiguration);
        if !stale && matches!(written, Ok(_) | Err(StoreError::OutcomeUnknown(_))) {
            self.announce.changed(Change::Destinations(account, vec![id])).await;
        }
        match written {
            Ok(changed) if pause => {
                self.scene.book().paused(id, changed.version, self.scene.time.now());
            }
            // It may still be made.
            Err(StoreError::OutcomeUnknown(_)) if !stale => {
                let announce = Arc::clone(&self.announce);
                tokio::spawn(async move {
                    sleep(limits::STORE_STATEMENT).await;
                    announce.changed(Change::Destinations(account, vec![id])).await;
                });
            }
            _ => {}
        }
    }

    /// As the API makes one of ids.
    async fn replay(&self, wish: Wish) {
        self.command("replay", wish.key.clone());
        let now = self.clock.now();
        let hash = hash_of(&wish.key);
        let key = ReplayKey { hash, body_hash: hash };
        let new = NewReplay {
            id: ReplayId::at(now, self.dice.bits()),
            account_id: wish.account,
            rate: wish.rate,
            matched: wish.deliveries.len() as u64,
            matched_exact: true,
            selection: Selection::Deliveries(wish.deliveries),
            created_by: ApiKeyId::MIN,
            created_at: now,
            key: Some(key).filter(|_| !self.scene.has(Plant::ReplayWithoutKey)),
            at_once: None,
        };
        let made = match self.store.create_replay(&new).await {
            Ok(CreatedReplay::New(replay) | CreatedReplay::Known { replay, .. }) => Ok(replay.id),
            Err(_) => Err(()),
        };
        let _ = wish.answer.send(made);
    }

    fn command(&self, what: &'static str, target: String) {
        count(&self.scene.counts.commands);
        self.scene.note(What::Command { what, target });
    }
}

/// Short keys stand for themselves.
fn hash_of(key: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash[..key.len()].copy_from_slice(key.as_bytes());
    hash
}

fn names(new: &NewEvent) -> impl Iterator<Item = (DestinationId, DeliveryId)> {
    new.deliveries.iter().map(|delivery| (delivery.destination_id, delivery.id))
}

fn names_of(new: &NewEvent) -> Vec<(DestinationId, DeliveryId)> {
    names(new).collect()
}

fn places(new: &NewEvent) -> Vec<(DestinationId, DeliveryId, Position)> {
    new.deliveries.iter().map(|delivery| (delivery.destination_id, delivery.id, delivery.position)).collect()
}

/// As the lanes will see them.
fn arrivals_of(new: &NewEvent) -> Vec<Arrival> {
    let has_payload = new.event.payload.len() <= limits::CARRIED_BYTES;
    let payload_bytes = new.event.payload.len() as u32;
    let event = if has_payload {
        Arc::clone(&new.event)
    } else {
        Arc::new(Event { payload: bytes::Bytes::new(), ..Event::clone(&new.event) })
    };
    let arrival = |promise: &NewDelivery| Arrival {
        shard: promise.shard,
        delivery: Delivery { payload_bytes, ..promise.of(&event) },
        event: Some(Arc::clone(&event)),
        has_payload,
    };
    new.deliveries.iter().map(arrival).collect()
}
