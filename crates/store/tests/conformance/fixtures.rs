//! What the tests are about: one obvious builder for each thing, and a world to put them into.

use crate::backend::{Backend, OtherNodes, Outside, START};
use bytes::Bytes;
use domain::{
    account::{Account, ApiKey, KeyKind, Scope},
    attempt::{Attempt, Detail},
    delivery::{Delivery, Ending, Position, Settled},
    destination::Destination,
    event::Event,
    id::{AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, NodeId, RouteId, SHARDS, SourceId},
    outcome::{DeadReason, Outcome},
    route::Route,
    seal::Sealed,
    source::Source,
    testing,
    testing::audit_entry,
    time::Timestamp,
    verification::{HmacRule, Verification, VerificationKind},
};
use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use store::{
    Committed, DeliveryFilter, DeliveryRecord, EventFilter, EventRecord, Fact, FetchedDelivery,
    IdempotencyKey, NewDelivery, NewEvent, NodeRecord, Page, PreparedEvent, Settlement, Store, StoreError,
    StoredEvent, Window,
};

// --- Times, chance, errors -----------------------------------------------------------------------------------------

/// So many seconds after the tests started.
pub(crate) fn at(seconds: u64) -> Timestamp {
    START.plus(Duration::from_secs(seconds))
}

/// Never the same twice. Grows, so that of two ids made for the same moment the later is the newer.
pub(crate) fn chance() -> u128 {
    static DRAWN: AtomicU64 = AtomicU64::new(1);
    u128::from(DRAWN.fetch_add(1, Ordering::Relaxed)) << 16
}

#[track_caller]
pub(crate) fn is_not_found<T: Debug>(result: Result<T, StoreError>, expected: &str) {
    match result {
        Err(StoreError::NotFound { what }) => assert_eq!(what, expected),
        other => panic!("expected no such {expected}, got {other:?}"),
    }
}

#[track_caller]
pub(crate) fn is_taken<T: Debug>(result: Result<T, StoreError>, expected: &str) {
    match result {
        Err(StoreError::Taken { constraint }) => assert_eq!(constraint, expected),
        other => panic!("expected {expected} to be taken, got {other:?}"),
    }
}

#[track_caller]
pub(crate) fn is_changed<T: Debug>(result: Result<T, StoreError>) {
    assert!(matches!(result, Err(StoreError::Changed)), "expected `changed meanwhile`, got {result:?}");
}

/// One that is there, and is not sealed.
pub(crate) fn plain(read: Result<Option<StoredEvent>, StoreError>) -> Event {
    let stored = read.expect("it is read").expect("it is there");
    Event::clone(&stored.plain().expect("it is not sealed"))
}

pub(crate) fn first<K>(limit: usize) -> Page<K> {
    Page { before: None, limit }
}

// --- Configuration -------------------------------------------------------------------------------------------------

pub(crate) fn account() -> Account {
    let data_key = Sealed(vec![0, 1, 2, 254, 255]);
    Account::new(AccountId::at(at(0), chance()), "Acme", data_key, at(0))
}

pub(crate) fn api_key(account: Option<&Account>, lookup: &str) -> ApiKey {
    ApiKey {
        id: ApiKeyId::at(at(0), chance()),
        account_id: account.map(|account| account.id),
        name: "for tests".into(),
        kind: if account.is_some() { KeyKind::Account } else { KeyKind::Operator },
        lookup: lookup.into(),
        hash: vec![0, 255, 7],
        scopes: vec![Scope::IngestWrite, Scope::EventsRead],
        source_id: None,
        rate_limit: Some(100),
        expires_at: Some(at(86_400)),
        allowed_addresses: vec!["192.0.2.0/24".parse().expect("a network")],
        last_used_at: None,
        revoked_at: None,
        created_at: at(0),
    }
}

pub(crate) fn source(account: &Account) -> Source {
    let id = SourceId::at(at(0), chance());
    Source {
        id,
        account_id: account.id,
        uid: None,
        name: "Shop".into(),
        enabled: true,
        token: Sealed(vec![9, 8, 7]),
        token_hash: id.bytes().to_vec(),
        verification: Verification {
            kind: VerificationKind::Hmac,
            secrets: vec![Sealed(vec![6, 5]), Sealed(vec![4, 3])],
            hmac: Some(HmacRule {
                header: "x-signature".into(),
                timestamp_header: Some("x-time".into()),
                ..HmacRule::default()
            }),
            tolerance_seconds: Some(60),
            allowed_addresses: vec!["192.0.2.0/24".parse().expect("a network")],
        },
        rate_limit: None,
        tags: Vec::new(),
        keep_refused: false,
        created_at: at(0),
        updated_at: at(0),
        version: 0,
    }
}

pub(crate) fn destination(account: &Account) -> Destination {
    let id = DestinationId::at(at(0), chance());
    Destination::new(id, account.id, "Billing", "https://billing.example/hooks", at(0))
}

/// From what is published to the destination, for every event type.
pub(crate) fn route(destination: &Destination) -> Route {
    let id = RouteId::at(at(0), chance());
    Route::new(id, destination.account_id, destination.id, at(0))
}

/// A route as something that can be compared.
pub(crate) fn told(route: &Route) -> (serde_json::Value, i64) {
    (serde_json::to_value(route).expect("a route is a document"), route.version)
}

// --- Events and deliveries -----------------------------------------------------------------------------------------

pub(crate) fn event(account: &Account, received_at: Timestamp) -> Event {
    Event {
        event_type: "invoice.paid".parse().expect("an event type"),
        headers: vec![("x-trace".into(), "1".into())],
        payload: Bytes::from_static(br#"{"amount":100}"#),
        ..testing::event(account.id, received_at, chance())
    }
}

/// A delivery by this route, due at once.
pub(crate) fn promise(route: &Route, received_at: Timestamp) -> NewDelivery {
    promise_due(route, received_at, received_at)
}

pub(crate) fn promise_due(route: &Route, received_at: Timestamp, due_at: Timestamp) -> NewDelivery {
    let id = DeliveryId::at(received_at, chance());
    NewDelivery::unordered(id, route.id, route.destination_id, due_at)
}

/// A delivery by this route that takes the next number of its destination, in this track.
pub(crate) fn promise_in(route: &Route, received_at: Timestamp, track: i64) -> NewDelivery {
    let promise = promise(route, received_at);
    NewDelivery { position: Position::ordered(track, i64::MIN, promise.id), sequenced: true, ..promise }
}

/// A delivery by this route that waits for its time before it takes a number.
pub(crate) fn promise_for(route: &Route, received_at: Timestamp, deliver_at: Timestamp) -> NewDelivery {
    let promise = promise_due(route, received_at, deliver_at);
    NewDelivery { position: Position::awaits_time(deliver_at, promise.id), ..promise }
}

pub(crate) fn key(account: &Account, name: u8, body: u8) -> IdempotencyKey {
    IdempotencyKey { scope: account.id.uuid(), hash: [name; 32], body_hash: [body; 32] }
}

/// The whole lane of a destination.
pub(crate) fn window(id: DestinationId) -> Window {
    Window {
        shard: id.shard(),
        destination_id: id,
        from: Position::START,
        last_track: i64::MAX,
        limit: 1_000,
    }
}

// --- Attempts and settlements --------------------------------------------------------------------------------------

/// The next attempt of a delivery, which took a quarter of a second and a bit.
pub(crate) fn attempt(
    delivery: &Delivery,
    started_at: Timestamp,
    outcome: Outcome,
    http_status: Option<u16>,
) -> Attempt {
    Attempt {
        id: AttemptId::at(started_at, chance()),
        delivery_id: delivery.id,
        number: delivery.attempts + 1,
        started_at,
        duration: Duration::from_micros(250_001),
        outcome,
        http_status,
        detail: Detail { url: "https://billing.example/hooks".into(), ..Detail::default() },
        node: NodeId::MIN,
    }
}

pub(crate) fn settlement(delivery: &Delivery, attempt: Attempt, settled: Settled) -> Settlement {
    Settlement {
        delivery: delivery.clone(),
        shard: delivery.destination_id.shard(),
        fact: Fact::Attempted(Box::new(attempt)),
        settled,
        consequence: None,
    }
}

pub(crate) fn delivered(delivery: &Delivery, started_at: Timestamp) -> Settlement {
    let attempt = attempt(delivery, started_at, Outcome::Success, Some(200));
    settlement(delivery, attempt, Settled::Ended(Ending::Delivered))
}

pub(crate) fn rejected(delivery: &Delivery, started_at: Timestamp) -> Settlement {
    let attempt = attempt(delivery, started_at, Outcome::Rejected, Some(404));
    settlement(delivery, attempt, Settled::Ended(Ending::DeadLetter(DeadReason::Rejected)))
}

/// A 503, to be tried again at `due_at`.
pub(crate) fn retried(delivery: &Delivery, started_at: Timestamp, due_at: Timestamp) -> Settlement {
    let attempt = attempt(delivery, started_at, Outcome::ServerError, Some(503));
    let position = Position::due(due_at, delivery.id);
    settlement(delivery, attempt, Settled::Waits { position, due_at, spent: delivery.spent + 1 })
}

/// A 429: one microsecond behind where it stood, and no retry spent.
pub(crate) fn throttled(delivery: &Delivery, started_at: Timestamp) -> Settlement {
    let attempt = attempt(delivery, started_at, Outcome::Throttled, Some(429));
    let position = Position { rank: delivery.position.rank + 1, ..delivery.position };
    settlement(delivery, attempt, Settled::Waits { position, due_at: delivery.due_at, spent: delivery.spent })
}

pub(crate) fn ended_without(delivery: &Delivery, ended_at: Timestamp, ending: Ending) -> Settlement {
    let id = AttemptId::at(ended_at, chance());
    Settlement {
        delivery: delivery.clone(),
        shard: delivery.destination_id.shard(),
        fact: Fact::EndedWithout { id, at: ended_at, node: NodeId::MIN, ending },
        settled: Settled::Ended(ending),
        consequence: None,
    }
}

pub(crate) fn all_shards() -> Vec<u16> {
    Vec::from_iter(0..SHARDS)
}

/// When an attempt that was started then was over.
pub(crate) fn over(started_at: Timestamp) -> Timestamp {
    started_at.plus(Duration::from_micros(250_001))
}

// --- The world -----------------------------------------------------------------------------------------------------

/// A store with one node in it.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) backend: Backend,
    pub(crate) node: NodeRecord,
    pub(crate) other_nodes: OtherNodes,
    pub(crate) outside: Outside,
}

/// An account whose published events go to one destination.
pub(crate) struct Ground {
    pub(crate) account: Account,
    pub(crate) destination: Destination,
    pub(crate) route: Route,
}

impl World {
    pub(crate) async fn account(&self) -> Account {
        self.store.create_account(&account(), &audit_entry()).await.expect("an account")
    }

    pub(crate) async fn source(&self, account: &Account) -> Source {
        self.store.create_source(&source(account), &audit_entry()).await.expect("a source")
    }

    pub(crate) async fn destination(&self, account: &Account) -> Destination {
        self.store.create_destination(&destination(account), &audit_entry()).await.expect("a destination")
    }

    pub(crate) async fn route(&self, destination: &Destination) -> Route {
        self.store.create_route(&route(destination), &audit_entry()).await.expect("a route")
    }

    pub(crate) async fn ground(&self) -> Ground {
        let account = self.account().await;
        let destination = self.destination(&account).await;
        let route = self.route(&destination).await;
        Ground { account, destination, route }
    }

    pub(crate) async fn version(&self, account: &Account) -> i64 {
        self.store.account(account.id).await.expect("the account").version
    }

    /// As the committer would hand it over: matched at the account's present version.
    pub(crate) async fn matched(&self, event: Event, deliveries: Vec<NewDelivery>) -> NewEvent {
        let account = self.store.account(event.account_id).await.expect("the account");
        NewEvent {
            event: PreparedEvent::new(event),
            account_version: account.version,
            deliveries,
            other_routes: Vec::new(),
            expands: false,
            key: None,
        }
    }

    pub(crate) async fn commit(&self, new: &NewEvent) -> Committed {
        let results =
            self.store.commit(std::slice::from_ref(new), new.event.received_at).await.expect("a commit");
        assert_eq!(results.len(), 1);
        results.into_iter().next().expect("counted above")
    }

    /// Commits an event by these routes and gives its deliveries, in the order of the routes.
    pub(crate) async fn commit_event(&self, event: Event, routes: &[&Route]) -> Vec<Delivery> {
        let promises = routes.iter().map(|route| promise(route, event.received_at)).collect();
        self.commit_promises(event, promises).await
    }

    pub(crate) async fn commit_promises(&self, event: Event, promises: Vec<NewDelivery>) -> Vec<Delivery> {
        let new = self.matched(event, promises).await;
        assert_eq!(self.commit(&new).await, Committed::New);
        let mut deliveries = Vec::new();
        for promise in &new.deliveries {
            let lane = self.lane(promise.destination_id).await;
            deliveries.push(lane.into_iter().find(|delivery| delivery.id == promise.id).expect("it waits"));
        }
        deliveries
    }

    /// Commits one event with one delivery.
    pub(crate) async fn delivery(&self, ground: &Ground, received_at: Timestamp) -> Delivery {
        let event = event(&ground.account, received_at);
        self.commit_event(event, &[&ground.route]).await.remove(0)
    }

    pub(crate) async fn fetch(&self, window: Window) -> Vec<FetchedDelivery> {
        self.store.fetch(&[window]).await.expect("a fetch").remove(0)
    }

    /// Everything that waits for a destination, in order.
    pub(crate) async fn lane(&self, destination: DestinationId) -> Vec<Delivery> {
        self.fetch(window(destination)).await.into_iter().map(|fetched| fetched.delivery).collect()
    }

    pub(crate) async fn settle(&self, settlements: &[Settlement], now: Timestamp) -> Vec<bool> {
        self.store.settle(self.node.id, settlements, now).await.expect("a settlement")
    }

    /// Settles one and says that it moved.
    pub(crate) async fn move_on(&self, settlement: Settlement) {
        let now = match &settlement.fact {
            Fact::Attempted(attempt) => attempt.started_at.plus(attempt.duration),
            Fact::EndedWithout { at, .. } => *at,
        };
        assert_eq!(self.settle(&[settlement], now).await, [true]);
    }

    /// Walks the whole list in pages.
    pub(crate) async fn events(
        &self,
        account: &Account,
        filter: &EventFilter,
        limit: usize,
    ) -> Vec<EventRecord> {
        let (mut rows, mut page) = (Vec::new(), first(limit));
        loop {
            let listed = self.store.events(account.id, filter, page).await.expect("a page of events");
            assert!(listed.rows.len() <= limit, "{} rows on a page of {limit}", listed.rows.len());
            rows.extend(listed.rows);
            let Some(next) = listed.next else { return rows };
            page.before = Some(next);
        }
    }

    pub(crate) async fn deliveries(
        &self,
        account: &Account,
        filter: &DeliveryFilter,
        limit: usize,
    ) -> Vec<DeliveryRecord> {
        let (mut rows, mut page) = (Vec::new(), first(limit));
        loop {
            let listed = self.store.deliveries(account.id, filter, page).await.expect("a page of deliveries");
            assert!(listed.rows.len() <= limit, "{} rows on a page of {limit}", listed.rows.len());
            rows.extend(listed.rows);
            let Some(next) = listed.next else { return rows };
            page.before = Some(next);
        }
    }
}
