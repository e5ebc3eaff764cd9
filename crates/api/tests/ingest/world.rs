//! An installation in one process: the memory store, a clock that stands, an account with a source, a destination and
//! a route, and a recording of what the engine would be told.

use api::{
    ApiConfig, ApiService, App, AppParts, Background, ListenAddress, NotSent, TestSend,
    installation_secrets::InstallationSecrets, keys::KeyText,
};
use async_trait::async_trait;
use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    account::{Account, ApiKey, KeyKind},
    address::AddressPolicy,
    delivery::{Delivery, Position},
    destination::Destination,
    dice::Dice,
    event::Event,
    id::{AccountId, ApiKeyId, DeliveryId, DestinationId, RouteId, SourceId},
    lane::Explanation,
    route::Route,
    seal::MasterKeys,
    source::Source,
    testing::audit_entry,
    testing::{CountingDice, StandingClock},
    time::Timestamp,
};
use http::{Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};
use store::{
    Announce, Arrival, AttemptRecord, Catalog as _, Change, EventFilter, EventRecord, Expansion,
    History as _, LaneView, Lanes, Page, memory::MemoryStore,
};
use supervisor::Supervisor;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub(crate) const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);
pub(crate) const TOKEN: &str = "sourcetoken";

pub(crate) struct World {
    pub(crate) app: App,
    pub(crate) service: ApiService,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) secrets: Arc<InstallationSecrets>,
    pub(crate) recording: Arc<Recording>,
    pub(crate) sender: Arc<PretendedSender>,
    pub(crate) dice: Arc<CountingDice>,
    pub(crate) account: AccountId,
    pub(crate) source: Source,
    pub(crate) destination: DestinationId,
    pub(crate) key: String,
    pub(crate) key_id: ApiKeyId,
    background: Option<Background>,
    pub(crate) supervisor: Supervisor,
    _stop: tokio_util::sync::DropGuard,
    stopped: CancellationToken,
}

impl World {
    /// Running, with every default.
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(configure: impl FnOnce(&mut ApiConfig)) -> Self {
        let mut world = Self::stopped(configure).await;
        let background = world.background.take().expect("not running yet");
        tokio::spawn(background.run(world.stopped.clone()));
        world
    }

    /// Nothing is committed.
    pub(crate) async fn stopped(configure: impl FnOnce(&mut ApiConfig)) -> Self {
        let clock = Arc::new(StandingClock(NOW));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let dice = Arc::new(CountingDice::default());
        let master = MasterKeys::parse(&format!("k1:{}", STANDARD.encode([7; 32]))).unwrap();
        let secrets = Arc::new(InstallationSecrets::open(&*store, master, &*dice).await.unwrap());
        let recording = Arc::new(Recording::default());
        let mut config = ApiConfig::new("http://localhost", "test");
        configure(&mut config);
        let (supervisor, sender) = (Supervisor::default(), Arc::<PretendedSender>::default());
        let (app, background) = App::start(AppParts {
            store: store.clone(),
            announce: recording.clone(),
            lanes: Arc::new(Nothing),
            clock,
            dice: dice.clone(),
            secrets: secrets.clone(),
            addresses: Arc::new(AddressPolicy::default()),
            sender: sender.clone(),
            doctor: Arc::new(()),
            scraped: Vec::new(),
            supervisor: supervisor.clone(),
            config,
        });
        let account = create_account(&store, &secrets, &*dice).await;
        let source = Source {
            token_hash: secrets.hash(TOKEN.as_bytes()).to_vec(),
            ..Source::new(SourceId::at(NOW, dice.bits()), account, "Stripe", NOW)
        };
        let source = store.create_source(&source, &audit_entry()).await.unwrap();
        let (key, key_id) = create_key(&store, &secrets, &*dice, account, KeyKind::Account, None).await;
        let destination = Destination::new(
            DestinationId::at(NOW, dice.bits()),
            account,
            "there",
            "https://example.com/",
            NOW,
        );
        store.create_destination(&destination, &audit_entry()).await.unwrap();
        for source_id in [None, Some(source.id)] {
            let route = Route::new(RouteId::at(NOW, dice.bits()), account, destination.id, NOW);
            store.create_route(&Route { source_id, ..route }, &audit_entry()).await.unwrap();
        }
        let stopped = CancellationToken::new();
        Self {
            service: ApiService::new(ListenAddress::Only, app.clone(), None),
            app,
            store,
            secrets,
            sender,
            recording,
            dice,
            account,
            source,
            destination: destination.id,
            key,
            key_id,
            background: Some(background),
            supervisor,
            _stop: stopped.clone().drop_guard(),
            stopped,
        }
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        Answer::of(self.service.clone().answer(request).await).await
    }

    /// An answer that is no JSON.
    pub(crate) async fn text(&self, request: Request<Body>) -> String {
        let body = self.service.clone().answer(request).await.into_body();
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    /// With headers as `name: value`.
    pub(crate) async fn ingest(&self, token: &str, headers: &[&str], body: impl Into<Body>) -> Answer {
        self.ask(request("POST", &format!("/ingest/{token}"), headers, body)).await
    }

    pub(crate) async fn publish(&self, path: &str, key: &str, body: impl Into<Body>) -> Answer {
        let authorization = format!("authorization: Bearer {key}");
        self.ask(request("POST", path, &["content-type: application/json", &authorization], body)).await
    }

    pub(crate) async fn get(&self, path: &str, key: &str) -> Answer {
        self.ask(request("GET", path, &[&format!("authorization: Bearer {key}")], "")).await
    }

    /// Everything stored, oldest first, payloads included.
    pub(crate) async fn events(&self) -> Vec<Event> {
        let page = Page { before: None, limit: 1_000 };
        let listed = self.store.events(self.account, &EventFilter::default(), page).await.unwrap();
        let mut events = Vec::new();
        for EventRecord { event, .. } in listed.rows.into_iter().rev() {
            let stored = self.store.event_payload(self.account, event.id).await.unwrap();
            events.push(Event::clone(&stored.plain().expect("it is not sealed")));
        }
        events
    }

    pub(crate) async fn assert_nothing_stored(&self) {
        assert!(self.events().await.is_empty(), "something was stored");
        assert!(self.recording.taken().is_empty(), "something was announced");
    }

    pub(crate) async fn new_key(&self, kind: KeyKind, source: Option<SourceId>) -> (String, ApiKeyId) {
        create_key(&self.store, &self.secrets, &*self.dice, self.account, kind, source).await
    }
}

pub(crate) fn request(method: &str, path: &str, headers: &[&str], body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for header in headers {
        let (name, value) = header.split_once(": ").expect("name: value");
        request = request.header(name, value);
    }
    request.body(body.into()).unwrap()
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Self { status: parts.status, headers: parts.headers, body }
    }

    /// A problem document, complete and with this status and code.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, code: &str) -> &Self {
        assert_eq!((self.status.as_u16(), self.body["code"].as_str()), (status, Some(code)), "{}", self.body);
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(self.body["type"], format!("/docs/errors#{code}"));
        assert_eq!(self.body["status"], status);
        assert_eq!(self.headers["x-request-id"].to_str().unwrap(), self.body["request_id"]);
        self
    }

    #[track_caller]
    pub(crate) fn points_at(&self, pointer: &str, code: &str) {
        let error = &self.body["errors"][0];
        assert_eq!(
            (error["pointer"].as_str(), error["code"].as_str()),
            (Some(pointer), Some(code)),
            "{}",
            self.body
        );
    }

    #[track_caller]
    pub(crate) fn accepted(&self, status: &str, deliveries: u32) -> String {
        let expected = if status == "duplicate" { StatusCode::OK } else { StatusCode::ACCEPTED };
        assert_eq!(self.status, expected, "{}", self.body);
        assert_eq!(self.body["status"], status);
        assert_eq!((&self.body["deliveries"], &self.body["expanding"]), (&deliveries.into(), &false.into()));
        self.body["id"].as_str().unwrap().to_owned()
    }
}

async fn create_account(store: &MemoryStore, secrets: &InstallationSecrets, dice: &dyn Dice) -> AccountId {
    let id = AccountId::at(NOW, dice.bits());
    let account = Account::new(id, "Acme", secrets.master().new_data_key(id, dice), NOW);
    store.create_account(&account, &audit_entry()).await.unwrap();
    id
}

async fn create_key(
    store: &MemoryStore,
    secrets: &InstallationSecrets,
    dice: &dyn Dice,
    account: AccountId,
    kind: KeyKind,
    source: Option<SourceId>,
) -> (String, ApiKeyId) {
    let text = KeyText::generate(kind, dice);
    let id = ApiKeyId::at(NOW, dice.bits());
    let account = (!kind.is_of_installation()).then_some(account);
    let key = ApiKey { source_id: source, ..text.kept(id, account, "test", secrets, NOW) };
    store.create_api_key(&key, &audit_entry()).await.unwrap();
    (text.expose().to_owned(), id)
}

impl World {
    /// Another account, with a key of its own.
    pub(crate) async fn neighbour(&self) -> (AccountId, String) {
        let account = create_account(&self.store, &self.secrets, &*self.dice).await;
        let key = create_key(&self.store, &self.secrets, &*self.dice, account, KeyKind::Account, None).await;
        (account, key.0)
    }
}

/// What the engine was told, in order.
#[derive(Default)]
pub(crate) struct Recording {
    lines: Mutex<Vec<String>>,
    /// A change is about to be told …
    pub(crate) telling: Notify,
    /// … which is not heard while a test holds this …
    pub(crate) hearing: tokio::sync::Mutex<()>,
    /// … and now it is.
    pub(crate) heard: Notify,
}

impl Recording {
    fn note(&self, line: String) {
        self.lines.lock().unwrap().push(line);
    }

    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }
}

#[async_trait]
impl Announce for Recording {
    async fn expected(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.note(format!("expected {}", deliveries.len()));
    }
    async fn arrived(&self, arrivals: Vec<Arrival>) {
        for arrival in arrivals {
            let event = arrival.event.expect("carried");
            assert_eq!((arrival.delivery.event_id, arrival.delivery.attempts), (event.id, 0));
            self.note(format!("arrived {}", String::from_utf8_lossy(&event.payload)));
        }
    }
    async fn forgotten(&self, deliveries: &[(DestinationId, DeliveryId)]) {
        self.note(format!("forgotten {}", deliveries.len()));
    }
    async fn look(&self, places: &[(DestinationId, DeliveryId, Position)]) {
        self.note(format!("look {}", places.len()));
    }
    async fn expanding(&self, expansions: Vec<Expansion>) {
        self.note(format!("expanding {}", expansions.len()));
    }
    async fn changed(&self, change: Change) {
        self.telling.notify_one();
        drop(self.hearing.lock().await);
        self.note(format!("changed {change:?}"));
        self.heard.notify_one();
    }
}

struct Nothing;

#[async_trait]
impl Lanes for Nothing {
    async fn views(&self, destinations: &[DestinationId]) -> Vec<Option<LaneView>> {
        vec![None; destinations.len()]
    }
    async fn explain(&self, deliveries: Vec<Delivery>) -> Vec<Explanation> {
        vec![Explanation::Unknown; deliveries.len()]
    }
}

/// Panics, or never answers; says how many wait for it.
#[derive(Default)]
pub(crate) struct PretendedSender {
    pub(crate) hangs: AtomicBool,
    pub(crate) open: watch::Sender<usize>,
}

struct OpenTest<'a>(&'a PretendedSender);

impl Drop for OpenTest<'_> {
    fn drop(&mut self) {
        self.0.open.send_modify(|open| *open -= 1);
    }
}

#[async_trait]
impl TestSend for PretendedSender {
    async fn test_send(&self, _: DestinationId, _: Event, _: bool) -> Result<AttemptRecord, NotSent> {
        assert!(self.hangs.load(Ordering::Relaxed), "a bug in the sender");
        self.open.send_modify(|open| *open += 1);
        let _open = OpenTest(self);
        std::future::pending().await
    }
}
