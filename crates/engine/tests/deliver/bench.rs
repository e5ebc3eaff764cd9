//! An engine on the memory store with a real receiver beside it, and the few gestures tests need.

use domain::{
    account::Account,
    address::AddressPolicy,
    delivery::{Position, Status},
    destination::{Auth, Destination},
    dice::Dice,
    event::Event,
    id::{AccountId, DeliveryId, DestinationId, EventId, NodeId, RouteId},
    limits,
    member::Role,
    retry::RetrySettings,
    route::Route,
    seal::{DataKey, MasterKeys, Sealed},
    signature::SigningSecret,
    testing,
    testing::audit_entry,
    time::{Clock, Timestamp},
};
use engine::{
    Engine, EngineHandle, EngineParts, EngineSettings,
    egress::{Egress, SystemResolver, TcpDialer},
    sink::Sinks,
};
use lab::{Receiver, Script};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use store::{
    Announce, Catalog, Change, Committed, DeliveryFilter, DeliveryRecord, DeliveryState, FetchedDelivery,
    History, Ingest, NewDelivery, NewEvent, NodeRecord, Page, PreparedEvent, memory::MemoryStore,
};
use supervisor::Supervisor;
use tokio::time::Instant;

pub(crate) struct Bench {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) id: NodeId,
    pub(crate) engine: Engine,
    pub(crate) handle: Arc<EngineHandle>,
    pub(crate) receiver: Receiver,
    pub(crate) secret: SigningSecret,
    pub(crate) account: AccountId,
    pub(crate) clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    /// The next throw of the dice panics.
    pub(crate) broken: Arc<AtomicBool>,
    keys: Arc<MasterKeys>,
}

/// Another node on the same store.
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    pub(crate) engine: Engine,
    pub(crate) handle: Arc<EngineHandle>,
}

/// Tokio's time, so that a paused clock would pause everything; counted from a fixed day.
struct TestClock(Instant);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(1_790_000_000).plus(self.0.elapsed())
    }
}

struct TestDice(Arc<AtomicBool>);

impl Dice for TestDice {
    fn bits(&self) -> u128 {
        assert!(!self.0.load(Ordering::SeqCst), "the dice are broken");
        rand::random()
    }
    fn fill(&self, bytes: &mut [u8]) {
        rand::fill(bytes);
    }
}

/// What an event is sent with.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wish {
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) key: Option<&'static str>,
    pub(crate) later: Option<Duration>,
}

pub(crate) async fn bench() -> Bench {
    bench_with(EngineSettings::default(), None).await
}

pub(crate) async fn bench_with(settings: EngineSettings, sinks: Option<Sinks>) -> Bench {
    bench_of(settings, sinks, Supervisor::default()).await
}

pub(crate) async fn bench_of(
    settings: EngineSettings,
    sinks: Option<Sinks>,
    supervisor: Supervisor,
) -> Bench {
    let clock: Arc<dyn Clock> = Arc::new(TestClock(Instant::now()));
    let broken = Arc::new(AtomicBool::new(false));
    let dice: Arc<dyn Dice> = Arc::new(TestDice(broken.clone()));
    let store = Arc::new(MemoryStore::new(Arc::clone(&clock)));
    let keys = Arc::new(MasterKeys::parse("k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap());
    let now = clock.now();
    let account = AccountId::at(now, dice.bits());
    let row = Account::new(account, "test", keys.new_data_key(account, dice.as_ref()), now);
    store.create_account(&row, &audit_entry()).await.unwrap();
    let parts = EngineParts { supervisor, ..parts(store.clone(), &clock, &dice, &keys, settings) };
    let id = parts.node.id;
    let engine = match sinks {
        Some(sinks) => Engine::start_with(parts, sinks).await.unwrap(),
        None => Engine::start(parts).await.unwrap(),
    };
    let handle = engine.handle();
    let receiver = Receiver::local(Script::ok());
    receiver.recording(lab::Recording::FullWithBodies);
    let secret = SigningSecret::from_bytes(&[7; 32]).unwrap();
    Bench { store, id, engine, handle, receiver, secret, account, clock, dice, broken, keys }
}

fn parts(
    store: Arc<MemoryStore>,
    clock: &Arc<dyn Clock>,
    dice: &Arc<dyn Dice>,
    keys: &Arc<MasterKeys>,
    settings: EngineSettings,
) -> EngineParts {
    let id = NodeId::at(clock.now(), dice.bits());
    let node = NodeRecord {
        id,
        label: "test".into(),
        proof: id.to_string(),
        version: "0".into(),
        role: Role::All,
        address: None,
        master_keys: "k1".into(),
    };
    EngineParts {
        store,
        clock: clock.clone(),
        dice: dice.clone(),
        master_keys: keys.clone(),
        addresses: Arc::new(loopback()),
        node,
        settings,
        supervisor: Supervisor::default(),
    }
}

/// Nothing else may be called.
fn loopback() -> AddressPolicy {
    AddressPolicy {
        allow: domain::address::parse_allow_list("127.0.0.0/8").unwrap(),
        allow_http: true,
        ..AddressPolicy::default()
    }
}

/// The real way out, to the loopback.
pub(crate) fn egress() -> Egress {
    let (resolver, dialer) = (Arc::new(SystemResolver), Arc::new(TcpDialer));
    Egress::new(Arc::new(loopback()), resolver, dialer, limits::CONNECT_TIMEOUT, None).unwrap()
}

impl Bench {
    /// What another node on this store is made of.
    pub(crate) fn peer_parts(&self, settings: EngineSettings) -> EngineParts {
        let store = Arc::new(self.store.another());
        parts(store, &self.clock, &self.dice, &self.keys, settings)
    }

    pub(crate) async fn peer(&self) -> Peer {
        self.peer_with(|_| {}).await
    }

    pub(crate) async fn peer_with(&self, change: impl FnOnce(&mut EngineParts)) -> Peer {
        let mut parts = self.peer_parts(EngineSettings::default());
        change(&mut parts);
        let id = parts.node.id;
        let engine = Engine::start(parts).await.unwrap();
        Peer { id, handle: engine.handle(), engine }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A destination at the receiver's path `/d/<name>`, changed as the test likes.
    pub(crate) async fn destination(
        &self,
        name: &str,
        change: impl FnOnce(&mut Destination),
    ) -> DestinationId {
        let now = self.now();
        let id = DestinationId::at(now, self.dice.bits());
        let url = self.receiver.url(&format!("/d/{name}"));
        let mut destination = Destination::new(id, self.account, name, &url, now);
        let account = self.store.account(self.account).await.unwrap();
        let key = self.keys.data_key(self.account, &account.data_key).unwrap();
        let secret = self.secret.expose();
        destination.secret.current =
            key.seal(&Destination::secret_place(id), secret.as_bytes(), self.dice.as_ref());
        change(&mut destination);
        self.store.create_destination(&destination, &audit_entry()).await.unwrap();
        let route = Route::new(RouteId::at(now, self.dice.bits()), self.account, id, now);
        self.store.create_route(&route, &audit_entry()).await.unwrap();
        id
    }

    /// One that wants this bearer token.
    pub(crate) async fn destination_with_token(&self, name: &str, token: &str) -> DestinationId {
        self.destination_sealing(name, |it, seal| it.auth = Auth::Bearer { token: seal(token) }).await
    }

    /// One whose credentials are sealed by what the change is handed.
    pub(crate) async fn destination_sealing(
        &self,
        name: &str,
        change: impl FnOnce(&mut Destination, &dyn Fn(&str) -> Sealed),
    ) -> DestinationId {
        let key = self.data_key().await;
        self.destination(name, |it| {
            let place = Destination::auth_place(it.id);
            change(it, &|value| key.seal(&place, value.as_bytes(), self.dice.as_ref()));
        })
        .await
    }

    /// A value of the credentials of this one.
    pub(crate) async fn sealed_for(&self, id: DestinationId, value: &str) -> Sealed {
        self.data_key().await.seal(&Destination::auth_place(id), value.as_bytes(), self.dice.as_ref())
    }

    pub(crate) async fn data_key(&self) -> DataKey {
        let account = self.store.account(self.account).await.unwrap();
        self.keys.data_key(self.account, &account.data_key).unwrap()
    }

    /// Seals what a destination keeps, by its place.
    pub(crate) async fn sealer(&self) -> impl Fn(&str, &str) -> Sealed + use<> {
        let account = self.store.account(self.account).await.unwrap();
        let key = self.keys.data_key(self.account, &account.data_key).unwrap();
        let dice = Arc::clone(&self.dice);
        move |place: &str, text: &str| key.seal(place, text.as_bytes(), dice.as_ref())
    }

    /// Commits one event without announcing it.
    pub(crate) async fn send_silently(&self, destination: DestinationId) -> EventId {
        self.send_silently_as(destination, b"{}", Wish::default()).await
    }

    pub(crate) async fn send_silently_as(
        &self,
        destination: DestinationId,
        payload: &[u8],
        wish: Wish,
    ) -> EventId {
        self.commit(&[destination], payload, wish).await.0.id
    }

    /// Something may wait for it from here on.
    pub(crate) async fn look_at(&self, destination: DestinationId) {
        self.handle.look(&[(destination, DeliveryId::MIN, Position::START)]).await;
    }

    /// Changes the account, and tells the engine nothing.
    pub(crate) async fn change_account_silently(
        &self,
        change: impl FnOnce(Account, &MasterKeys, &dyn Dice) -> Account,
    ) {
        let account = self.store.account(self.account).await.unwrap();
        let account = change(account, &self.keys, self.dice.as_ref());
        self.store.update_account(&account, &audit_entry()).await.unwrap();
    }

    /// Changes the account as its own API would.
    pub(crate) async fn change_account(
        &self,
        change: impl FnOnce(Account, &MasterKeys, &dyn Dice) -> Account,
    ) {
        self.change_account_silently(change).await;
        self.handle.changed(Change::Defaults(self.account)).await;
    }

    /// An event with an ordering key, or for later.
    pub(crate) async fn send_as(&self, destination: DestinationId, payload: &[u8], wish: Wish) -> EventId {
        let (event, ids) = self.commit(&[destination], payload, wish).await;
        self.announce(&self.handle, event, ids).await
    }

    /// Commits one event for these destinations and announces it, as the committer does.
    pub(crate) async fn send(&self, destinations: &[DestinationId], payload: &[u8]) -> EventId {
        self.send_through(&self.handle, destinations, payload).await
    }

    /// The same on another node.
    pub(crate) async fn send_through(
        &self,
        handle: &EngineHandle,
        destinations: &[DestinationId],
        payload: &[u8],
    ) -> EventId {
        let (event, ids) = self.commit(destinations, payload, Wish::default()).await;
        self.announce(handle, event, ids).await
    }

    async fn announce(
        &self,
        handle: &EngineHandle,
        event: Arc<Event>,
        ids: Vec<(DestinationId, DeliveryId)>,
    ) -> EventId {
        handle.expected(&ids).await;
        let mut arrivals = Vec::new();
        for (_, id) in ids {
            let record = self.store.delivery(self.account, id).await.unwrap();
            let DeliveryState::Waiting(delivery) = record.state else { panic!("just committed") };
            let shard = delivery.destination_id.shard();
            arrivals.push(FetchedDelivery {
                shard,
                delivery: *delivery,
                event: Some(event.clone()),
                has_payload: true,
                sealed: None,
            });
        }
        handle.arrived(arrivals).await;
        event.id
    }

    async fn commit(
        &self,
        destinations: &[DestinationId],
        payload: &[u8],
        wish: Wish,
    ) -> (Arc<Event>, Vec<(DestinationId, DeliveryId)>) {
        let now = self.now();
        let due_at = wish.later.map_or(now, |later| now.plus(later));
        let event = Arc::new(Event {
            payload: payload.to_vec().into(),
            ordering_key: wish.key.map(Into::into),
            headers: wish.headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            deliver_at: wish.later.map(|_| due_at),
            ..testing::event(self.account, now, self.dice.bits())
        });
        let mut deliveries = Vec::new();
        for destination in destinations {
            let id = DeliveryId::at(now, self.dice.bits());
            let to = self.store.destination(self.account, *destination).await.unwrap();
            let to = (*destination, to.numbering());
            deliveries.push(NewDelivery::new(id, RouteId::MIN, to, wish.key, due_at, now));
        }
        let ids: Vec<_> = deliveries.iter().map(|delivery| (delivery.destination_id, delivery.id)).collect();
        let account = self.store.account(self.account).await.unwrap();
        let prepared = match account.sealing() {
            None => PreparedEvent::new(event.clone()),
            Some(_) => PreparedEvent::sealed(event.clone(), &self.data_key().await, self.dice.as_ref()),
        };
        let new = NewEvent {
            event: prepared,
            account_version: account.version,
            deliveries,
            other_routes: Vec::new(),
            expands: false,
            key: None,
        };
        assert_eq!(self.store.commit(&[new], now).await.unwrap(), [Committed::New]);
        (event, ids)
    }

    pub(crate) async fn deliveries(&self, destination: DestinationId) -> Vec<DeliveryRecord> {
        let filter = DeliveryFilter { destination_ids: vec![destination], ..DeliveryFilter::default() };
        let page = Page { before: None, limit: limits::PAGE_MAX };
        self.store.deliveries(self.account, &filter, page).await.unwrap().rows
    }

    /// Waits until the destination's only delivery has ended, and says how.
    pub(crate) async fn ended(&self, destination: DestinationId) -> (Status, Option<&'static str>) {
        self.until(|| async {
            let rows = self.deliveries(destination).await;
            match &rows[..] {
                [DeliveryRecord { state: DeliveryState::Ended { ending, .. }, .. }] => {
                    Some((ending.status(), ending.reason()))
                }
                _ => None,
            }
        })
        .await
    }

    /// Asks until there is an answer; the memory store has no bell to ring.
    pub(crate) async fn until<T, F: Future<Output = Option<T>>>(&self, ask: impl Fn() -> F) -> T {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(found) = ask().await {
                return found;
            }
            assert!(Instant::now() < deadline, "waited too long");
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// A retry policy with these pauses, to the second.
pub(crate) fn schedule(seconds: &[u64]) -> RetrySettings {
    let schedule = seconds.iter().map(|pause| Duration::from_secs(*pause)).collect();
    RetrySettings { schedule: Some(schedule), jitter: Some(0.0), ..RetrySettings::default() }
}
