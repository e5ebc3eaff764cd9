//! What every handler shares: the store, the handles of the engine, the caches and the settings.

use crate::{
    answers::Answers,
    audit::refusals::{self, Refusals},
    auth::{self, Keys},
    cache::Cache,
    client_address::TrustedProxies,
    destinations::test::TestsUnderWay,
    doctor::{Doctor, LastExamination},
    error::ApiError,
    full_backlogs::FullBacklogs,
    guesses::Guesses,
    ingest_url::SourceCache,
    installation_secrets::InstallationSecrets,
    key_watch,
    metrics::Figures,
    passwords::Passwords,
    rate::{RateBuckets, RateMeter, RateMeters, RateStatus},
    refused::RefusedPace,
    request::OncePerSecond,
    session::SessionCache,
    stream::{self, Hub},
    teller,
};
use async_trait::async_trait;
use domain::{
    account::AccountLimits,
    address::AddressPolicy,
    delivery_settings::DeliverySettings,
    dice::Dice,
    event::Event,
    id::{AccountId, ApiKeyId, DestinationId},
    lane::WaitingFor,
    limits,
    member::Role,
    seal::{DataKey, Sealed},
    session::Holder,
    time::{Clock, Timestamp},
    trace::Tracer,
};
use ingest::{Admission, Committer, IngestError, Observer};
use sharing::SharedResource;
use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use store::{Announce, AttemptRecord, BacklogCap, Change, Lanes, NewEvent, Scraped, Store, StoreError};
use supervisor::{Loop, Supervisor};
use tokio::{
    sync::{Mutex, mpsc},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// Handed to every handler; cloning it is cheap.
#[derive(Clone)]
pub struct App(Arc<AppState>);

pub struct AppState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) announce: Arc<dyn Announce>,
    pub(crate) lanes: Arc<dyn Lanes>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Arc<dyn Dice>,
    pub(crate) secrets: Arc<InstallationSecrets>,
    pub(crate) addresses: Arc<AddressPolicy>,
    pub(crate) sender: Arc<dyn TestSend>,
    pub(crate) tests: TestsUnderWay,
    pub(crate) doctor: Arc<dyn Doctor>,
    pub(crate) examined: LastExamination,
    pub(crate) config: ApiConfig,
    pub(crate) keys: Keys,
    /// Accounts that are there and are acted for, by id and by uid.
    pub(crate) acted_for: Cache<AccountId, ()>,
    pub(crate) acted_for_uids: Cache<String, AccountId>,
    pub(crate) sessions: SessionCache,
    pub(crate) passwords: Passwords,
    pub(crate) guesses: Guesses,
    pub(crate) refusals: Refusals,
    pub(crate) sources: SourceCache,
    pub(crate) refused: RefusedPace,
    /// Signatures that are held against a public key, which costs ten times a hash.
    pub(crate) public_key_checks: Arc<SharedResource>,
    pub(crate) admission: Admission,
    pub(crate) rates: RateBuckets,
    pub(crate) full_backlogs: Arc<FullBacklogs>,
    pub(crate) hub: Hub,
    /// Requests of accounts under way, but for those that bring events in.
    pub(crate) requests: Arc<SharedResource>,
    pub(crate) health: Arc<Health>,
    pub(crate) figures: Arc<Figures>,
    pub(crate) answers: Answers,
    pub(crate) scraped: Vec<Arc<dyn Scraped>>,
    pub(crate) supervisor: Supervisor,
    data_keys: Cache<AccountId, Arc<DataKey>>,
    /// Destinations that were probed a moment ago.
    pub(crate) probes: Cache<DestinationId, ()>,
}

/// What the binary puts together.
pub struct AppParts {
    pub store: Arc<dyn Store>,
    pub announce: Arc<dyn Announce>,
    pub lanes: Arc<dyn Lanes>,
    pub clock: Arc<dyn Clock>,
    pub dice: Arc<dyn Dice>,
    pub secrets: Arc<InstallationSecrets>,
    pub addresses: Arc<AddressPolicy>,
    pub sender: Arc<dyn TestSend>,
    /// Who looks whether everything is in order; `()`: nobody but the node itself.
    pub doctor: Arc<dyn Doctor>,
    /// What else in this process is told in metrics.
    pub scraped: Vec<Arc<dyn Scraped>>,
    /// The owner of every loop of the process.
    pub supervisor: Supervisor,
    pub config: ApiConfig,
}

#[derive(Debug, Clone)]
pub struct ApiConfig {
    /// Where the world finds us, without a slash at the end: `ingest_url` begins with it.
    pub public_url: String,
    /// Largest event body.
    pub body_limit: usize,
    /// Connections open at once.
    pub connections: usize,
    /// Who may say for whom it asks.
    pub trusted_proxies: TrustedProxies,
    /// Events that wait for the committer.
    pub ingest_queue: usize,
    /// Memory for answers that are made and not yet sent.
    pub answer_bytes: usize,
    /// How much of one account may wait to be delivered.
    pub backlog: BacklogCap,
    /// How many accounts there may be.
    pub accounts: usize,
    /// A day of an account's `retention_days`.
    pub retention_day: Duration,
    /// How long an idempotency key is kept at least; the chore that forgets keys goes by it.
    pub idempotency_window: Duration,
    /// What destinations go by where neither they nor their account say anything.
    pub defaults: DeliverySettings,
    /// The operator's account, by its id or uid: it is told of all accounts.
    pub operations_account: Option<String>,
    /// What this node does beside answering.
    pub role: Role,
    /// Settings of the store that can lose what it has acknowledged, and were accepted.
    pub unsafe_settings: Vec<String>,
    /// Whether secrets are shown again after the answer that made them.
    pub reveal: bool,
    pub dev: bool,
    /// Whether there are pages.
    pub dashboard: bool,
    pub version: &'static str,
    pub deadlines: Deadlines,
    /// Where spans of events that came in go.
    pub tracer: Tracer,
}

impl ApiConfig {
    /// Every default of the product.
    pub fn new(public_url: impl Into<String>, version: &'static str) -> Self {
        Self {
            public_url: public_url.into(),
            body_limit: limits::BODY_BYTES_DEFAULT,
            connections: limits::CONNECTIONS,
            trusted_proxies: TrustedProxies::default(),
            ingest_queue: limits::INGEST_QUEUE,
            answer_bytes: limits::ANSWERS_BYTES,
            backlog: BacklogCap::default(),
            accounts: limits::ACCOUNTS,
            retention_day: limits::RETENTION_DAY,
            idempotency_window: limits::IDEMPOTENCY_WINDOW,
            defaults: DeliverySettings::default(),
            operations_account: None,
            role: Role::default(),
            unsafe_settings: Vec::new(),
            reveal: true,
            dev: false,
            dashboard: true,
            version,
            deadlines: Deadlines::default(),
            tracer: Tracer::default(),
        }
    }
}

/// How long a client may take.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// Request line and headers, from their first byte.
    pub head: Duration,
    /// A whole body.
    pub body: Duration,
    /// How long a body may be slow before its pace counts.
    pub body_grace: Duration,
    /// How long a client may take nothing of an answer before its pace counts.
    pub answer_grace: Duration,
    /// How long an answer waits for memory to be made in.
    pub answer_room: Duration,
    /// Between two requests on one connection.
    pub idle: Duration,
    /// Between two signs of life of a stream, at each of which its key is looked at.
    pub heartbeat: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            head: limits::HEAD_DEADLINE,
            body: limits::BODY_DEADLINE,
            body_grace: limits::BODY_GRACE,
            answer_grace: limits::ANSWER_GRACE,
            answer_room: limits::ANSWER_ROOM_PATIENCE,
            idle: limits::CONNECTION_IDLE,
            heartbeat: limits::STREAM_HEARTBEAT,
        }
    }
}

/// Sends one event to a destination in a slot of its lane, and stores nothing: the "test" button.
#[async_trait]
pub trait TestSend: Send + Sync {
    /// The attempt as it would have been recorded; a destination that answers 500 is no error. Forced, it asks for the slot
    /// alone. Dropping the future ends it.
    async fn test_send(
        &self,
        destination: DestinationId,
        event: Event,
        forced: bool,
    ) -> Result<AttemptRecord, NotSent>;
}

/// Why a test was not sent.
#[derive(Debug)]
pub enum NotSent {
    Waits(WaitingFor),
    /// Our own trouble.
    Failed(StoreError),
}

/// Why this node would rather not be asked.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Not ready any more, though requests are still taken.
    retiring: AtomicBool,
    draining: AtomicBool,
    /// The same, to be waited for.
    closing: CancellationToken,
    failed: AtomicBool,
    pub(crate) refusals: OncePerSecond,
}

impl Health {
    pub(crate) fn is_retiring(&self) -> bool {
        self.retiring.load(Ordering::Relaxed) || self.is_draining()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// The store has said that it can no longer be trusted.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(crate) fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }
}

/// Counts what the committer does.
struct CommitObserver {
    health: Arc<Health>,
    figures: Arc<Figures>,
}

impl Observer for CommitObserver {
    fn committed(&self, event: &NewEvent) {
        self.figures.ingested.add(1);
        self.figures.fanouts.offer(event);
    }

    fn store_failed(&self) {
        self.health.fail();
    }
}

impl App {
    /// Nothing is committed until the [`Background`] runs.
    pub fn start(parts: AppParts) -> (Self, Background) {
        let AppParts {
            store,
            announce,
            lanes,
            clock,
            dice,
            secrets,
            addresses,
            sender,
            doctor,
            scraped,
            supervisor,
            config,
        } = parts;
        let health = Arc::new(Health::default());
        let figures = Arc::new(Figures::default());
        let (keys, touched) = Keys::new();
        let (admission, committer) = ingest::open(ingest::IngestParts {
            store: store.clone(),
            catalog: store.clone(),
            announce: announce.clone(),
            clock: clock.clone(),
            dice: dice.clone(),
            observer: Arc::new(CommitObserver { health: health.clone(), figures: figures.clone() }),
            tracer: config.tracer.clone(),
            master_keys: secrets.master_keys(),
            settings: ingest::IngestSettings {
                queue: config.ingest_queue,
                ..ingest::IngestSettings::default()
            },
        });
        let full_backlogs = Arc::new(FullBacklogs::default());
        let cap = config.backlog;
        let answers = Answers::new(config.answer_bytes, config.deadlines.answer_room);
        let app = Self(Arc::new(AppState {
            store,
            announce,
            lanes,
            clock,
            dice,
            secrets,
            addresses,
            sender,
            tests: TestsUnderWay::default(),
            doctor,
            examined: LastExamination::default(),
            config,
            keys,
            acted_for: Cache::of_credentials(limits::ACTED_FOR_CACHED),
            acted_for_uids: Cache::of_credentials(limits::ACTED_FOR_CACHED),
            sessions: SessionCache::new(),
            passwords: Passwords::new(),
            guesses: Guesses::new(),
            refusals: Refusals::default(),
            sources: SourceCache::new(),
            refused: RefusedPace::default(),
            public_key_checks: SharedResource::new(limits::PUBLIC_KEY_CHECKS),
            admission,
            rates: RateBuckets::new(),
            full_backlogs,
            hub: Hub::default(),
            requests: SharedResource::new(limits::REQUESTS),
            health,
            figures,
            answers,
            scraped,
            supervisor,
            data_keys: Cache::new(limits::DATA_KEYS_CACHED, limits::DATA_KEY_FRESH),
            probes: Cache::new(limits::PROBES_REMEMBERED, limits::PROBE_PAUSE),
        }));
        let background = Background { app: app.clone(), committer, touched, cap };
        (app, background)
    }

    /// Ask once per request, and hand it down.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Whether secrets are shown again after the answer that made them.
    pub fn reveals(&self) -> bool {
        self.config.reveal
    }

    /// 403 where secrets are shown only by the answer that makes them.
    pub(crate) fn may_reveal(&self) -> Result<(), ApiError> {
        match self.reveals() {
            true => Ok(()),
            false => Err(ApiError::reveal_disabled(
                "the operator has switched off that secrets are shown again (`secrets.reveal`): whoever has lost one makes a \
                 new one, which is shown this once",
            )),
        }
    }

    /// What was made earlier, and has ended, may have been pruned.
    pub(crate) async fn kept_since(&self, account: AccountId) -> Result<Timestamp, ApiError> {
        let days = self.store.account(account).await?.retention_days;
        Ok(self.now().minus(self.config.retention_day * days))
    }

    /// The key that seals the secrets of an account. It may have been changed up to [`limits::DATA_KEY_FRESH`] ago.
    pub async fn data_key(&self, account: AccountId) -> Result<Arc<DataKey>, ApiError> {
        match self.data_keys.get(&account) {
            Some(key) => Ok(key),
            None => self.read_data_key(account).await,
        }
    }

    /// The key that opens these, which were read before.
    pub(crate) async fn data_key_for(
        &self,
        account: AccountId,
        sealed: impl IntoIterator<Item = &Sealed>,
    ) -> Result<Arc<DataKey>, ApiError> {
        let key = self.data_key(account).await?;
        // Sealed by one that was made since: an account's keys are there before anything is sealed by them.
        match sealed.into_iter().all(|sealed| key.knows(sealed)) {
            true => Ok(key),
            false => self.read_data_key(account).await,
        }
    }

    async fn read_data_key(&self, account: AccountId) -> Result<Arc<DataKey>, ApiError> {
        let wrapped = self.store.account(account).await?.data_key;
        let key = self.secrets.master().data_key(account, &wrapped).map_err(ApiError::from_bug)?;
        let key = Arc::new(key);
        self.data_keys.put(account, key.clone());
        Ok(key)
    }

    /// Whether this node takes an event of this account now, and this key and source may bring it: asked before the body
    /// is read, so that what is refused costs little. Gives the meters with that of the account, whose limits come with the
    /// snapshot by which its events are matched: nothing more is read for them.
    pub(crate) async fn check_limits(
        &self,
        account: AccountId,
        meters: RateMeters,
    ) -> Result<(RateStatus, RateMeters), ApiError> {
        let own = self.limits_of(account).await?;
        self.full_backlogs.check(account, &own.quotas)?;
        let meters = meters.with_account(RateMeter::of_account(account.uuid(), own.rate_limit));
        self.rates.take(&meters).map(|rate_status| (rate_status, meters))
    }

    /// 429 if as much of the account waits as may.
    pub(crate) async fn check_backlog(&self, account: AccountId) -> Result<(), ApiError> {
        self.full_backlogs.check(account, &self.limits_of(account).await?.quotas)
    }

    pub(crate) async fn limits_of(&self, account: AccountId) -> Result<AccountLimits, ApiError> {
        let snapshot = self.admission.snapshots().soon(account).await;
        Ok(snapshot.map_err(IngestError::from)?.limits)
    }

    /// To be called after an account was written: here it counts at once, elsewhere within a second or with its next event.
    pub(crate) fn account_written(&self, account: AccountId) {
        self.acted_for_uids.retain(|_, id| *id != account);
        self.admission.snapshots().mark_outdated(account);
    }

    /// Every write to an account's sources, destinations or routes passes through here, with the destinations whose
    /// settings, switches, secrets or routes it changes. A write with an unknown outcome may have happened, or may do
    /// so until the statement has ended.
    pub async fn config_written<T>(
        &self,
        account: AccountId,
        destinations: &[DestinationId],
        written: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &written {
            Ok(_) => self.config_changed(account, destinations).await,
            Err(StoreError::OutcomeUnknown(_)) => {
                self.config_changed(account, destinations).await;
                let (app, destinations) = (self.clone(), destinations.to_vec());
                tokio::spawn(async move {
                    sleep(limits::STORE_STATEMENT).await;
                    app.config_changed(account, &destinations).await;
                });
            }
            Err(_) => {}
        }
        written
    }

    /// The same for a write of an account itself: its destinations may go by other defaults now.
    pub async fn defaults_written<T>(
        &self,
        account: AccountId,
        written: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &written {
            Ok(_) => self.announce.changed(Change::Defaults(account)).await,
            Err(StoreError::OutcomeUnknown(_)) => {
                self.announce.changed(Change::Defaults(account)).await;
                let app = self.clone();
                tokio::spawn(async move {
                    sleep(limits::STORE_STATEMENT).await;
                    app.announce.changed(Change::Defaults(account)).await;
                });
            }
            Err(_) => {}
        }
        written
    }

    /// The same for an account that was deleted: here nothing of it is known any more at once, elsewhere within a second.
    pub async fn account_deleted<T>(
        &self,
        account: AccountId,
        deleted: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if matches!(deleted, Ok(_) | Err(StoreError::OutcomeUnknown(_))) {
            self.admission.snapshots().mark_outdated(account);
            self.sources.forget(account);
            self.keys.forget_of(account);
            self.sessions.forget_about(account);
            self.acted_for.retain(|id, ()| *id != account);
            self.acted_for_uids.retain(|_, id| *id != account);
            self.forget_keys(account);
        }
        self.defaults_written(account, deleted).await
    }

    /// Accounts of which this process has a data key in memory. One that was not used for a while it has no more.
    pub fn accounts_with_keys(&self) -> Vec<AccountId> {
        let mut accounts = self.data_keys.fresh_keys();
        accounts.extend(self.admission.snapshots().sealing_accounts());
        accounts.sort_unstable();
        accounts.dedup();
        accounts
    }

    pub(crate) fn forget_keys(&self, account: AccountId) {
        self.data_keys.retain(|id, _| *id != account);
        self.admission.snapshots().forget(account);
    }

    /// What this process remembers is read again, and owners are told.
    async fn config_changed(&self, account: AccountId, destinations: &[DestinationId]) {
        self.admission.snapshots().mark_outdated(account);
        self.sources.forget(account);
        if !destinations.is_empty() {
            self.announce.changed(Change::Destinations(account, destinations.to_vec())).await;
        }
    }

    /// To be called after a key was revoked: here it stops working at once, elsewhere within a second.
    pub fn key_revoked(&self, id: ApiKeyId) {
        self.keys.forget(id);
        self.sessions.forget_of(Holder::Key(id));
    }

    /// From now on `/readyz` says that this node stops, so that nobody is sent here; who comes all the same is answered.
    pub fn retire(&self) {
        self.0.health.retiring.store(true, Ordering::Relaxed);
    }

    /// From now on new requests are turned away and `/readyz` says so.
    pub fn drain(&self) {
        self.0.health.draining.store(true, Ordering::Relaxed);
        self.0.health.closing.cancel();
    }

    /// Waits for that: a stream, which has no end of its own, ends now.
    pub(crate) async fn closing(&self) {
        self.0.health.closing.cancelled().await;
    }
}

impl Deref for App {
    type Target = AppState;
    fn deref(&self) -> &AppState {
        &self.0
    }
}

/// The loops behind the handlers: committing, noting when keys were used, looking how much waits, writing down what was
/// refused, telling of ourselves, reading for the stream.
pub struct Background {
    app: App,
    committer: Committer,
    touched: mpsc::Receiver<auth::ToNote>,
    cap: BacklogCap,
}

impl Background {
    /// Runs until `stop`, and then until everything that was admitted has its answer. Stop it after the server. The reader
    /// of the stream ends with [`App::drain`].
    pub async fn run(self, stop: CancellationToken) {
        let Self { app, committer, touched, cap } = self;
        let supervisor = &app.supervisor;
        // Outside of the loops: the next one goes on with what one that died has left.
        let (committer, touched) = (Arc::new(Mutex::new(committer)), Arc::new(Mutex::new(touched)));
        let committing = {
            let told = stop.clone();
            supervisor.start_draining(Loop::Committer, &stop, move |_| {
                let (committer, stop) = (committer.clone(), told.clone());
                async move { committer.lock().await.run(stop).await }
            })
        };
        let noting = {
            let (app, told) = (app.clone(), stop.clone());
            supervisor.start_draining(Loop::KeyUse, &stop, move |_| {
                let (app, touched, stop) = (app.clone(), touched.clone(), told.clone());
                async move { auth::note_use(&app, &mut *touched.lock().await, stop).await }
            })
        };
        let watching = {
            let (app, told) = (app.clone(), stop.clone());
            supervisor.start_draining(Loop::BacklogWatch, &stop, move |_| {
                let outdated = {
                    let app = app.clone();
                    move |account| app.admission.snapshots().mark_outdated(account)
                };
                let (store, clock) = (app.store.clone(), app.clock.clone());
                app.full_backlogs.clone().watch(store, clock, cap, told.clone(), outdated)
            })
        };
        let summing_up = {
            let (app, told) = (app.clone(), stop.clone());
            supervisor.start_draining(Loop::Refusals, &stop, move |_| {
                let (app, stop) = (app.clone(), told.clone());
                async move { refusals::write_down(&app, stop).await }
            })
        };
        let telling = {
            let (app, told) = (app.clone(), stop.clone());
            supervisor.start_draining(Loop::Teller, &stop, move |_| {
                let (app, stop) = (app.clone(), told.clone());
                async move { teller::run(&app, stop).await }
            })
        };
        let forgetting = {
            let (app, told) = (app.clone(), stop.clone());
            supervisor.start_draining(Loop::KeyWatch, &stop, move |_| {
                let (app, stop) = (app.clone(), told.clone());
                async move { key_watch::run(&app, stop).await }
            })
        };
        let reader = app.clone();
        supervisor
            .start(Loop::StreamReader, &app.health.closing, move |life| stream::read(reader.clone(), life));
        let _ = tokio::join!(committing, noting, watching, summing_up, telling, forgetting);
    }
}
