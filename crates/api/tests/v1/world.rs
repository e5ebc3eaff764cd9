//! A whole API in process, with two accounts, an operator and a pretended engine.

use api::{
    ApiConfig, ApiService, App, AppParts, ListenAddress, NotSent, TestSend,
    installation_secrets::InstallationSecrets, keys::KeyText,
};
use async_trait::async_trait;
use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use domain::{
    account::{Account, ApiKey, KeyKind, Scope},
    address::AddressPolicy,
    attempt::{Attempt, AttemptError, Detail, Response, Timing},
    delivery::{Delivery, Ending, Position, Settled},
    dice::Dice,
    event::Event,
    id::{AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, NodeId},
    lane::{Explanation, WaitKind, WaitingFor},
    member::Role,
    outcome::{DeadReason, FailureKind, Fault, Outcome},
    seal::MasterKeys,
    testing::CountingDice,
    testing::audit_entry,
    time::{Clock, Timestamp},
};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};
use store::{
    Announce, Arrival, AttemptRecord, Change, Consequence, Expansion, Fact, LaneView, Lanes, NodeRecord,
    OpenOptions, Settlement, Store, Window, memory::MemoryStore,
};
use supervisor::Supervisor;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) lanes: Arc<PretendedLanes>,
    pub(crate) sender: Arc<PretendedSender>,
    pub(crate) announced: Arc<Announced>,
    pub(crate) clock: Arc<TestClock>,
    /// The key that is used unless another is named: every scope of the first account.
    pub(crate) key: String,
    /// The same in the second account.
    pub(crate) foreign_key: String,
    pub(crate) operator_key: String,
    /// Every scope of a platform.
    pub(crate) platform_key: String,
    pub(crate) account: AccountId,
    pub(crate) foreign_account: AccountId,
    pub(crate) dice: Arc<CountingDice>,
    pub(crate) secrets: Arc<InstallationSecrets>,
    pub(crate) app: App,
    pub(crate) service: ApiService,
    pub(crate) node: NodeId,
    _stop: DropGuard,
    _folder: Option<tempfile::TempDir>,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
    /// Null if it is not JSON.
    pub(crate) body: Value,
}

impl Reply {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }

    /// A 422 that points to this place for this reason.
    #[track_caller]
    pub(crate) fn expect_invalid(self, pointer: &str, code: &str) {
        let body = self.expect(422);
        assert_eq!(body["code"], "validation_failed");
        let found = body["errors"].as_array().expect("a list of errors");
        let found = found.iter().any(|error| error["pointer"] == pointer && error["code"] == code);
        assert!(found, "no {code} at {pointer}: {body}");
    }

    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) {
        let body = self.expect(status);
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], status);
    }
}

impl World {
    pub(crate) async fn memory() -> Self {
        Self::forgetful().await.0
    }

    /// With the store itself, which can be made to forget.
    pub(crate) async fn forgetful() -> (Self, Arc<MemoryStore>) {
        let clock = Arc::new(TestClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        (Self::on(store.clone(), clock, None, Supervisor::default()).await, store)
    }

    /// With loops that may die.
    pub(crate) async fn supervised(supervisor: Supervisor) -> Self {
        let clock = Arc::new(TestClock::default());
        Self::on(Arc::new(MemoryStore::new(clock.clone())), clock, None, supervisor).await
    }

    pub(crate) async fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = format!("sqlite:{}", folder.path().join("posthaste.db").display());
        let options = OpenOptions { url, pool: 2, listen_url: None, accept_data_loss: false };
        let store = store::open(&options).await.expect("a fresh database opens");
        Self::on(store, Arc::default(), Some(folder), Supervisor::default()).await
    }

    async fn on(
        store: Arc<dyn Store>,
        clock: Arc<TestClock>,
        folder: Option<tempfile::TempDir>,
        supervisor: Supervisor,
    ) -> Self {
        let dice = Arc::new(CountingDice::default());
        let master = MasterKeys::parse(&format!("k1:{}", STANDARD.encode([7; 32]))).expect("a master key");
        let secrets = Arc::new(
            InstallationSecrets::open(&*store, master, &*dice).await.expect("a fresh store has none"),
        );
        let (lanes, announced) = (Arc::<PretendedLanes>::default(), Arc::<Announced>::default());
        let sender = Arc::<PretendedSender>::default();
        let addresses = AddressPolicy { allow_http: false, ..AddressPolicy::default() };
        let mut config = ApiConfig::new("https://hooks.example.com", "0.0.0-test");
        config.deadlines.heartbeat = Duration::from_millis(100);
        // Not there, unless a test makes it.
        config.operations_account = Some("operator".into());
        let (app, background) = App::start(AppParts {
            store: store.clone(),
            announce: announced.clone(),
            lanes: lanes.clone(),
            clock: clock.clone(),
            dice: dice.clone(),
            secrets: secrets.clone(),
            addresses: Arc::new(addresses),
            sender: sender.clone(),
            doctor: Arc::new(()),
            scraped: Vec::new(),
            supervisor,
            config,
        });
        let stop = CancellationToken::new();
        tokio::spawn(background.run(stop.clone()));
        let node = NodeId::at(clock.now(), 1);
        let record = NodeRecord {
            id: node,
            label: "test".into(),
            proof: "test".into(),
            version: "0.0.0".into(),
            role: Role::All,
            address: None,
            master_keys: "k1".into(),
        };
        store.join(&record, Duration::from_secs(3600)).await.expect("a node joins");
        let mut world = Self {
            store,
            lanes,
            sender,
            announced,
            clock,
            key: String::new(),
            foreign_key: String::new(),
            operator_key: String::new(),
            platform_key: String::new(),
            account: AccountId::MIN,
            foreign_account: AccountId::MIN,
            dice,
            secrets,
            service: ApiService::new(ListenAddress::Only, app.clone(), None),
            app,
            node,
            _stop: stop.drop_guard(),
            _folder: folder,
        };
        world.account = world.make_account("Acme").await;
        world.key = world.make_key(Some(world.account), KeyKind::Account, &Scope::OF_ACCOUNT).await;
        let foreign = world.make_account("Umbrella").await;
        world.foreign_key = world.make_key(Some(foreign), KeyKind::Account, &Scope::OF_ACCOUNT).await;
        world.foreign_account = foreign;
        world.operator_key = world.make_key(None, KeyKind::Operator, &[]).await;
        world.platform_key = world.make_key(None, KeyKind::Platform, &Scope::ALL).await;
        world
    }

    /// Another node of the same installation, found under the same URL.
    pub(crate) async fn another_node(&self) -> App {
        self.node_at("https://hooks.example.com").await
    }

    /// The same, found under another.
    pub(crate) async fn node_at(&self, public_url: &str) -> App {
        self.node_with(ApiConfig::new(public_url, "0.0.0-test")).await
    }

    /// The same with settings of its own.
    pub(crate) async fn node_with(&self, config: ApiConfig) -> App {
        let (app, background) = App::start(AppParts {
            store: self.store.clone(),
            announce: self.announced.clone(),
            lanes: self.lanes.clone(),
            clock: self.clock.clone(),
            dice: self.dice.clone(),
            secrets: self.secrets.clone(),
            addresses: Arc::default(),
            sender: self.sender.clone(),
            doctor: Arc::new(()),
            scraped: Vec::new(),
            supervisor: Supervisor::default(),
            config,
        });
        tokio::spawn(background.run(CancellationToken::new()));
        app
    }

    async fn make_account(&self, name: &str) -> AccountId {
        let now = self.clock.now();
        let id = AccountId::at(now, self.dice.bits());
        let account = Account::new(id, name, self.secrets.master().new_data_key(id, &*self.dice), now);
        self.store.create_account(&account, &audit_entry()).await.expect("an account");
        id
    }

    async fn make_key(&self, account_id: Option<AccountId>, kind: KeyKind, scopes: &[Scope]) -> String {
        let text = KeyText::generate(kind, &*self.dice);
        let now = self.clock.now();
        let id = ApiKeyId::at(now, self.dice.bits());
        let key = ApiKey { scopes: scopes.to_vec(), ..text.kept(id, account_id, "test", &self.secrets, now) };
        self.store.create_api_key(&key, &audit_entry()).await.expect("a key");
        text.expose().to_owned()
    }

    /// A key of the first account with these scopes alone.
    pub(crate) async fn key_with(&self, scopes: &[Scope]) -> String {
        self.make_key(Some(self.account), KeyKind::Account, scopes).await
    }

    /// A key of a platform with these scopes alone.
    pub(crate) async fn platform_with(&self, scopes: &[Scope]) -> String {
        self.make_key(None, KeyKind::Platform, scopes).await
    }

    // --- Asking ----------------------------------------------------------------------------------------------------

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.ask_as(&self.key, Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask_as(&self.key, Method::POST, path, Some(body)).await
    }

    /// A POST without a body.
    pub(crate) async fn tell(&self, path: &str) -> Reply {
        self.ask_as(&self.key, Method::POST, path, None).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Reply {
        self.ask_as(&self.key, Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.ask_as(&self.key, Method::DELETE, path, None).await
    }

    pub(crate) async fn ask_as(&self, key: &str, method: Method, path: &str, body: Option<Value>) -> Reply {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {key}"));
        let request = match body {
            Some(body) => {
                request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string()))
            }
            None => request.body(Body::empty()),
        };
        self.ask(request.expect("a well-formed request")).await
    }

    /// With the platform's key, for this account.
    pub(crate) async fn act_for(
        &self,
        account: &str,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Reply {
        self.act_as(&self.platform_key, Some(account), method, path, body).await
    }

    pub(crate) async fn act_as(
        &self,
        key: &str,
        account: Option<&str>,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Reply {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::AUTHORIZATION, format!("Bearer {key}"))
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(account) = account {
            request = request.header("posthaste-account", account);
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.ask(request.body(body).expect("a well-formed request")).await
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Reply {
        Self::reply(self.service.clone().answer(request).await).await
    }

    pub(crate) async fn reply(response: http::Response<Body>) -> Reply {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Reply { status: parts.status, headers: parts.headers, bytes, body }
    }

    /// The answer's head, and its body as it comes.
    pub(crate) async fn begin(&self, request: Request<Body>) -> http::Response<Body> {
        self.service.clone().answer(request).await
    }

    // --- Having something to ask about -----------------------------------------------------------------------------

    /// A destination's id.
    pub(crate) async fn destination(&self) -> String {
        let body = serde_json::json!({ "name": "Orders", "url": "https://example.com/hooks" });
        text(&self.post("/v1/destinations", body).await.expect(201)["id"])
    }

    /// A destination with a route for everything that is published: their ids.
    pub(crate) async fn routed_destination(&self) -> (String, String) {
        let destination = self.destination().await;
        let body = serde_json::json!({ "destination_id": destination });
        (destination, text(&self.post("/v1/routes", body).await.expect(201)["id"]))
    }

    /// Publishes an event and gives its id.
    pub(crate) async fn publish(&self, event_type: &str, data: Value) -> String {
        let body = serde_json::json!({ "type": event_type, "data": data });
        text(&self.post("/v1/events", body).await.expect(202)["id"])
    }

    /// The id of an event's only delivery.
    pub(crate) async fn delivery_of(&self, event: &str) -> String {
        let found = self.get(&format!("/v1/deliveries?event_id={event}")).await.expect(200);
        assert_eq!(found["data"].as_array().map(Vec::len), Some(1), "{found}");
        text(&found["data"][0]["id"])
    }

    /// Delivers everything that waits for a destination, up to a thousand; says how much that was.
    pub(crate) async fn deliver_all(&self, destination: &str) -> usize {
        let id: DestinationId = destination.parse().expect("an id");
        let rows = self.store.fetch(&[whole_lane(id)]).await.expect("a window").remove(0);
        let now = self.clock.now();
        let settlement = |delivery| self.settlement(delivery, Outcome::Success, 200, now);
        let settlements: Vec<_> = rows.into_iter().map(|row| settlement(row.delivery)).collect();
        for some in settlements.chunks(domain::limits::SETTLE_BATCH) {
            self.store.settle(self.node, some, now).await.expect("a settlement");
        }
        settlements.len()
    }

    /// Makes an attempt at a waiting delivery, as its owner would.
    pub(crate) async fn attempt(
        &self,
        destination: &str,
        delivery: &str,
        outcome: Outcome,
        http_status: u16,
    ) {
        self.attempt_that(None, destination, delivery, outcome, http_status).await;
    }

    /// An attempt whose end switches its destination.
    pub(crate) async fn attempt_that(
        &self,
        consequence: Option<Consequence>,
        destination: &str,
        delivery: &str,
        outcome: Outcome,
        http_status: u16,
    ) {
        let destination: DestinationId = destination.parse().expect("an id");
        let delivery: DeliveryId = delivery.parse().expect("an id");
        let rows = self.store.fetch(&[whole_lane(destination)]).await.expect("a window").remove(0);
        let delivery =
            rows.into_iter().map(|row| row.delivery).find(|row| row.id == delivery).expect("it waits");
        let now = self.clock.now();
        let settlement = Settlement { consequence, ..self.settlement(delivery, outcome, http_status, now) };
        assert_eq!(self.store.settle(self.node, &[settlement], now).await.expect("a settlement"), [true]);
    }

    /// What follows from an attempt that met this.
    fn settlement(
        &self,
        delivery: Delivery,
        outcome: Outcome,
        http_status: u16,
        now: Timestamp,
    ) -> Settlement {
        let attempt = Attempt {
            id: AttemptId::at(now, self.dice.bits()),
            delivery_id: delivery.id,
            number: delivery.attempts + 1,
            started_at: now,
            duration: Duration::from_millis(112),
            outcome,
            http_status: Some(http_status),
            detail: detail(outcome),
            node: self.node,
        };
        let settled = match outcome {
            Outcome::Success => Settled::Ended(Ending::Delivered),
            Outcome::Rejected => Settled::Ended(Ending::DeadLetter(DeadReason::Rejected)),
            _ => {
                let due_at = now.plus(Duration::from_secs(30));
                Settled::Waits {
                    position: Position::due(due_at, delivery.id),
                    due_at,
                    spent: delivery.spent + 1,
                }
            }
        };
        Settlement {
            shard: delivery.destination_id.shard(),
            delivery,
            fact: Fact::Attempted(Box::new(attempt)),
            settled,
            consequence: None,
        }
    }
}

fn whole_lane(id: DestinationId) -> Window {
    Window { shard: id.shard(), destination_id: id, from: Position::START, last_track: i64::MAX, limit: 1000 }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

fn detail(outcome: Outcome) -> Detail {
    let refused =
        || AttemptError::new(Fault::Refused, Some(FailureKind::Refused), "it refused the connection");
    Detail {
        error: (outcome == Outcome::NetworkError).then(refused),
        url: "https://example.com/hooks".into(),
        request_headers: vec![("authorization".into(), "***".into()), ("x-team".into(), "orders".into())],
        timing: Timing {
            dns_us: Some(1_900),
            connect_us: Some(6_100),
            tls_us: None,
            first_byte_us: Some(90_000),
        },
        connection_reused: false,
        retry_after_seconds: Some(60),
        response: Some(Response {
            headers: vec![("server".into(), "nginx".into())],
            body: Some("busy".into()),
            body_base64: None,
            truncated: false,
        }),
        sealed: None,
    }
}

/// A clock that moves a millisecond whenever it is looked at.
pub(crate) struct TestClock(AtomicI64);

impl Default for TestClock {
    fn default() -> Self {
        Self(AtomicI64::new(1_790_000_000_000_000))
    }
}

impl TestClock {
    /// Minutes pass at once.
    pub(crate) fn minutes_pass(&self, minutes: i64) {
        self.0.fetch_add(minutes * 60 * 1_000_000, Ordering::Relaxed);
    }

    /// Days pass at once.
    pub(crate) fn days_pass(&self, days: i64) {
        self.0.fetch_add(days * 24 * 3600 * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.fetch_add(1_000, Ordering::Relaxed))
    }
}

/// Lanes that say what a test wants them to. Those not mentioned do not run.
#[derive(Default)]
pub(crate) struct PretendedLanes {
    pub(crate) views: Mutex<HashMap<String, LaneView>>,
    pub(crate) delivering: Mutex<HashSet<String>>,
}

#[async_trait]
impl Lanes for PretendedLanes {
    async fn views(&self, destinations: &[DestinationId]) -> Vec<Option<LaneView>> {
        let views = self.views.lock().unwrap();
        destinations.iter().map(|id| views.get(&id.to_string()).cloned()).collect()
    }

    async fn explain(&self, deliveries: Vec<Delivery>) -> Vec<Explanation> {
        let (views, delivering) = (self.views.lock().unwrap(), self.delivering.lock().unwrap());
        let explain = |delivery: Delivery| {
            if !views.contains_key(&delivery.destination_id.to_string()) {
                return Explanation::Unknown;
            }
            if delivering.contains(&delivery.id.to_string()) {
                return Explanation::Delivering;
            }
            let (since, detail) = (delivery.created_at, "its turn on this node".into());
            Explanation::Waits(WaitingFor {
                kind: WaitKind::Capacity,
                since,
                until: None,
                behind: None,
                detail,
            })
        };
        deliveries.into_iter().map(explain).collect()
    }
}

/// What the engine was told.
#[derive(Default)]
pub(crate) struct Announced {
    pub(crate) looks: Mutex<Vec<DeliveryId>>,
    pub(crate) changes: Mutex<Vec<Change>>,
}

#[async_trait]
impl Announce for Announced {
    async fn expected(&self, _: &[(DestinationId, DeliveryId)]) {}
    async fn arrived(&self, _: Vec<Arrival>) {}
    async fn forgotten(&self, _: &[(DestinationId, DeliveryId)]) {}
    async fn look(&self, places: &[(DestinationId, DeliveryId, Position)]) {
        self.looks.lock().unwrap().extend(places.iter().map(|(_, id, _)| *id));
    }
    async fn expanding(&self, _: Vec<Expansion>) {}
    async fn changed(&self, change: Change) {
        self.changes.lock().unwrap().push(change);
    }
}

/// Sends unless it is to say what a test waits for.
#[derive(Default)]
pub(crate) struct PretendedSender(pub(crate) Mutex<Option<WaitingFor>>);

#[async_trait]
impl TestSend for PretendedSender {
    async fn test_send(
        &self,
        destination_id: DestinationId,
        event: Event,
        forced: bool,
    ) -> Result<AttemptRecord, NotSent> {
        let at = event.received_at;
        if !forced && let Some(waiting_for) = self.0.lock().unwrap().clone() {
            return Err(NotSent::Waits(waiting_for));
        }
        Ok(AttemptRecord {
            id: AttemptId::at(at, 1),
            delivery_id: DeliveryId::at(at, 2),
            event_id: event.id,
            destination_id,
            number: 1,
            started_at: at,
            duration: Duration::from_millis(8),
            outcome: Outcome::Success,
            http_status: Some(204),
            detail: detail(Outcome::Success),
            node: NodeId::MIN,
            late: false,
        })
    }
}
