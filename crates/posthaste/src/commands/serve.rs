//! `posthaste serve`: everything tied together, started in order and stopped in order.
//!
//! The lock of the data folder comes first, so that a second process ends before it touches anything; the listener
//! next, so that callers wait instead of being refused; then the store, the engine, the API. A stop goes the other
//! way: not ready, after a delay no new requests, nothing new started, what is under way finished within the grace, the shards given
//! away.

mod deliveries;
mod signals;
mod starting_server;
pub(super) mod test_settings;
mod ways_in;

use crate::{
    clock::{SteadyClock, StoreClock, SystemClock},
    commands::{
        bootstrap,
        dev::DevKeys,
        dev_receiver::{self, EVENT_TYPE},
        doctor::RunningDoctor,
        open::{open, options, retry_while_unavailable, url_path},
    },
    config::{Config, Dev, Dns, SettingFlags},
    data_dir::DataDir,
    dice::SystemDice,
    failure::{Code, Failure},
    output::offer,
    surroundings::{self, Concern},
    telemetry::{self, Exporting, Flush, Log, TelemetryMetrics},
};
use anyhow::Context;
use api::{
    ApiConfig, ApiService, App, AppParts, ListenAddress, NotSent, TestSend, TrustedProxies,
    installation_secrets::InstallationSecrets, keys::KeyText,
};
use async_trait::async_trait;
use clap::Args;
use deliveries::DeliveryThreads;
use domain::{
    account::KeyKind,
    dice::Dice,
    event::Event,
    id::{DestinationId, NodeId},
    limits,
    time::Clock,
};
use engine::{Engine, EngineHandle, EngineParts, EngineSettings, StartError, TestSendError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signals::Signals;
use std::{any::Any, net::SocketAddr, sync::Arc};
use store::{AttemptRecord, NodeRecord, Store, StoreError, sqlite::SqliteReadOnly};
use supervisor::{Loop, Supervisor};
use tokio::{net::TcpListener, sync::Mutex, time::timeout};
use tokio_util::sync::CancellationToken;
use ways_in::{WaysIn, pages};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// For development: loopback only, private destinations allowed, keys made by itself, a curl line to begin with
    #[arg(long)]
    dev: bool,
    /// Start although the database may lose what it has acknowledged
    #[arg(long)]
    accept_data_loss: bool,
    /// Be ready although this machine's clock is behind the newest time in an embedded store
    #[arg(long)]
    accept_clock: bool,
    /// Open the dashboard in a browser, signed in, with --dev
    #[arg(long, requires = "dev")]
    open: bool,
    #[command(flatten)]
    settings: SettingFlags,
}

pub(crate) async fn run(args: ServeArgs, json: bool) -> Result<(), Failure> {
    let dev = if args.dev { Dev::Yes } else { Dev::No };
    let mut config = args.settings.config(dev)?;
    config.accept_data_loss |= args.accept_data_loss;
    if dev == Dev::Yes {
        config = config.for_dev()?;
    }
    let log = telemetry::start(config.log_format).map_err(Failure::configuration)?;
    let begun = async |serving: Serving<'_>| {
        let receiver = match &serving.dev_key {
            Some(key) if serving.config.role.listens() => {
                dev_receiver::start(&serving.config.data_dir, serving.address, key).await
            }
            _ => None,
        };
        // The greeting comes last, for a reader of both streams.
        serving.flush_log();
        greet(serving.config, serving.dev_key.as_deref(), &serving.ways_in, json);
        if args.open {
            serving.ways_in.open();
        }
        Ok(Beside { stop: CancellationToken::new(), kept: Box::new(receiver) })
    };
    run_node(config, dev, args.accept_clock, log, begun).await
}

/// A server that takes requests.
pub(crate) struct Serving<'a> {
    pub(crate) config: &'a Config,
    pub(crate) address: SocketAddr,
    /// In development: a key of the account that was made first.
    pub(crate) dev_key: Option<String>,
    /// How a browser gets in.
    pub(crate) ways_in: WaysIn,
    flush: &'a Flush,
}

impl Serving<'_> {
    /// What the log has said up to now stands above what is printed next.
    pub(crate) fn flush_log(&self) {
        self.flush.wait();
    }
}

/// What runs beside a server in the same process.
pub(crate) struct Beside {
    /// Cancelled when the server begins to stop.
    pub(crate) stop: CancellationToken,
    /// Dropped when it has stopped.
    pub(crate) kept: Box<dyn Any + Send>,
}

/// A node from its start to its end. `begun` is called once it serves; what it gives ends with the node.
pub(crate) async fn run_node(
    mut config: Config,
    dev: Dev,
    accept_clock: bool,
    log: Log,
    begun: impl AsyncFnOnce(Serving<'_>) -> Result<Beside, Failure>,
) -> Result<(), Failure> {
    let engine_settings = EngineSettings { attempt_log: log.attempts, ..engine_settings(&config)? };
    raise_open_files();
    for Concern { check, detail, fix } in surroundings::concerns(&config) {
        tracing::warn!(check, fix, "{detail}");
    }

    let data_dir = DataDir::claim(&config.data_dir)?;
    let keys = FirstKeys::gather(&config, dev)?;
    let listener = listen(config.listen).await?;
    let admin_listener = match config.admin_listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let address = listener.local_addr().map_err(Failure::failed)?;
    if config.public_url == format!("http://{}", config.listen) {
        // Port 0 means any, and only now is it known which.
        config.public_url = format!("http://{address}");
    }

    let mut signals = Signals::install()?;
    let supervisor = Supervisor::with_failpoint(|id| store::failpoint::hit(id.entry().name));
    let threads = DeliveryThreads::start()?;
    let node_name = config.node_name.clone().unwrap_or_else(|| format!("{}-{}", host_name(), address.port()));
    let (telemetry_metrics, exporting) = traces(&node_name);
    let telemetry_metrics = Arc::new(telemetry_metrics);
    let parts = NodeParts {
        config: &config,
        keys: &keys,
        data_dir: &data_dir,
        address,
        node_name,
        telemetry_metrics: &telemetry_metrics,
        engine_settings,
        dev,
        accept_clock,
        supervisor: &supervisor,
    };
    let started = tokio::select! {
        started = parts.start(&threads) => started?,
        never = starting_server::answer(&listener) => match never {},
        () = signals.stop() => return Ok(()),
    };
    let Started { engine, app, background } = started;
    let dev_key = keys.for_dev(&config, dev)?;

    let (stop_server, stop_background) = (CancellationToken::new(), CancellationToken::new());
    let serve = |id, listener, listen_address| {
        let service = if config.role.listens() {
            ApiService::new(listen_address, app.clone(), config.dashboard.then(|| pages(dev_key.as_deref())))
        } else {
            ApiService::of_worker(listen_address, app.clone())
        };
        let serving = api::serve(listener, service, stop_server.clone(), config.grace);
        supervisor.start_once(id, &stop_server, serving)
    };
    let admin_address = admin_listener.as_ref().and_then(|listener| listener.local_addr().ok());
    let listen_address = if admin_listener.is_some() { ListenAddress::Public } else { ListenAddress::Only };
    let server = serve(Loop::Server, listener, listen_address);
    let admin = admin_listener.map(|listener| serve(Loop::AdminServer, listener, ListenAddress::Admin));
    let background = tokio::spawn(background.run(stop_background.clone()));
    let stop_exporting = CancellationToken::new();
    let exporting = exporting.map(|exporting| {
        let (exporting, stop) = (Arc::new(Mutex::new(exporting)), stop_exporting.clone());
        supervisor.start_draining(Loop::TraceExporter, &stop_exporting, move |_| {
            let (exporting, stop) = (exporting.clone(), stop.clone());
            async move { exporting.lock().await.run(stop).await }
        })
    });
    let (role, database) = (config.role.as_str(), database_kind(&config));
    tracing::info!(
        %address,
        admin_address = admin_address.map(tracing::field::display),
        version = VERSION,
        role,
        database,
        "serving"
    );
    let ways_in = WaysIn::of(&app, &config, dev_key.as_deref(), admin_address).await;
    let serving = Serving { config: &config, address, dev_key, ways_in, flush: &log.flush };
    let (beside, mut failure) = match begun(serving).await {
        Ok(beside) => (Some(beside), None),
        Err(error) => (None, Some(error)),
    };

    if failure.is_none() {
        failure = tokio::select! {
            () = signals.stop() => None,
            why = supervisor.failed() => Some(Failure::new(Code::Failed, why)),
        };
    }
    signals.exit_at_once_on_another();
    let (delay_seconds, grace_seconds) = (config.stop_delay.as_secs(), config.grace.as_secs());
    tracing::info!(delay_seconds, grace_seconds, "stopping");
    if let Some(beside) = &beside {
        beside.stop.cancel();
    }
    app.retire();
    if failure.is_none() {
        let failed = timeout(config.stop_delay, supervisor.failed()).await.ok();
        failure = failed.map(|why| Failure::new(Code::Failed, why));
    }
    app.drain();
    stop_server.cancel();
    let requests = async {
        let _ = server.await;
        if let Some(admin) = admin {
            let _ = admin.await;
        }
        stop_background.cancel();
        let _ = timeout(limits::LEASE_MARGIN, background).await;
    };
    // Both at once, so that the grace is spent once: what is committed now is delivered after the next start.
    tokio::join!(requests, engine.stop(config.grace));
    stop_exporting.cancel();
    if let Some(exporting) = exporting {
        let _ = timeout(limits::LEASE_MARGIN, exporting).await;
    }
    drop(beside.map(|beside| beside.kept));
    tracing::info!("stopped");
    failure.map_or(Ok(()), Err)
}

struct Started {
    engine: Engine,
    app: App,
    background: api::Background,
}

/// What a node is made of.
struct NodeParts<'a> {
    config: &'a Config,
    keys: &'a FirstKeys,
    data_dir: &'a DataDir,
    address: SocketAddr,
    node_name: String,
    telemetry_metrics: &'a Arc<TelemetryMetrics>,
    engine_settings: EngineSettings,
    dev: Dev,
    accept_clock: bool,
    supervisor: &'a Supervisor,
}

impl NodeParts<'_> {
    async fn start(self, threads: &DeliveryThreads) -> Result<Started, Failure> {
        let Self {
            config,
            keys,
            data_dir,
            address,
            node_name,
            telemetry_metrics,
            engine_settings,
            dev,
            accept_clock,
            supervisor,
        } = self;
        let dice: Arc<dyn Dice> = Arc::new(SystemDice);
        let (store, secrets) = retry_while_unavailable(config, || opened(config, keys, data_dir)).await?;
        let unsafe_settings = retry_while_unavailable(config, || accepted(config)).await?;
        let clock = clock(config, accept_clock).await?;
        let addresses = Arc::new(config.addresses.clone());
        let node = NodeRecord {
            id: NodeId::at(clock.now(), dice.bits()),
            label: node_name,
            proof: data_dir.proof()?,
            version: VERSION.into(),
            role: config.role,
            address: Some(address.to_string()),
            master_keys: secrets.master().names().collect::<Vec<_>>().join(","),
        };
        let parts = EngineParts {
            store: store.clone(),
            clock: clock.clone(),
            dice: dice.clone(),
            master_keys: Arc::new(bootstrap::master_keys(&keys.master)?),
            addresses: addresses.clone(),
            node,
            settings: EngineSettings {
                tracer: telemetry_metrics.tracer(),
                kept_connections: config.max_in_flight.min(open_files_limit() / 4),
                ..engine_settings
            },
            supervisor: supervisor.clone(),
        };
        let engine = threads.run(Engine::start(parts)).await?.map_err(start_failure)?;
        let handle = engine.handle();
        let (app, background) = App::start(AppParts {
            store: store.clone(),
            announce: handle.clone(),
            lanes: handle.clone(),
            clock,
            dice,
            secrets,
            addresses,
            sender: Arc::new(TestSender { handle: handle.clone() }),
            doctor: Arc::new(RunningDoctor::new(config)),
            scraped: vec![handle, telemetry_metrics.clone(), threads.tasks()],
            supervisor: supervisor.clone(),
            config: ApiConfig {
                body_limit: config.body_bytes,
                connections: limits::CONNECTIONS.min(open_files_limit() / 2),
                trusted_proxies: TrustedProxies::new(config.trusted_proxies.clone()),
                backlog: config.backlog,
                accounts: config.accounts,
                role: config.role,
                operations_account: config.operations_account.clone(),
                unsafe_settings,
                retention_day: engine_settings.retention_day,
                idempotency_window: config.idempotency_window,
                defaults: config.defaults.clone(),
                reveal: config.reveal,
                dev: dev == Dev::Yes,
                dashboard: config.dashboard,
                tracer: telemetry_metrics.tracer(),
                ..ApiConfig::new(&config.public_url, VERSION)
            },
        });
        Ok(Started { engine, app, background })
    }
}

/// Where spans go, if they are collected. A collector that is named wrongly must not keep the node from its work.
fn traces(node: &str) -> (TelemetryMetrics, Option<Exporting>) {
    match Exporting::from_env(|name| std::env::var(name).ok(), node, VERSION) {
        Ok(Some((exporter, exporting))) => (TelemetryMetrics { exporter: Some(exporter) }, Some(exporting)),
        Ok(None) => (TelemetryMetrics::default(), None),
        Err(error) => {
            tracing::warn!(error = format!("{error:#}"), "traces are not exported");
            (TelemetryMetrics::default(), None)
        }
    }
}

/// The store with its secrets, and the first keys in it.
async fn opened(
    config: &Config,
    keys: &FirstKeys,
    data_dir: &DataDir,
) -> Result<(Arc<dyn Store>, Arc<InstallationSecrets>), Failure> {
    let store = open(config).await?;
    // From here on the store may be sealed with keys that are in the folder.
    data_dir.keep();
    let secrets =
        InstallationSecrets::open(store.as_ref(), bootstrap::master_keys(&keys.master)?, &SystemDice).await;
    let secrets = Arc::new(secrets.map_err(bootstrap::secrets_failure)?);
    secrets.note_keys(store.as_ref(), &SystemDice).await?;
    for master_key in secrets.others_needed(store.as_ref()).await? {
        let fix = "once every node has the active one first, run `posthaste keys rotate`";
        tracing::warn!(
            master_key,
            fix,
            "secrets may still be sealed by a master key that is not the active one"
        );
    }
    if let Some(key) = &keys.operator_key {
        bootstrap::enter(key, &store, &secrets).await?;
    }
    if let Some(key) = &keys.api_key
        && !bootstrap::enter(key, &store, &secrets).await?
        && let Some(dev) = keys.dev.clone()
    {
        // Development goes on with another key.
        let text = dev.with_new_key(&config.data_dir)?.api_key;
        let key = bootstrap::given_key("api_key", KeyKind::Account, &text)?;
        bootstrap::enter(&key, &store, &secrets).await?;
    }
    Ok((store, secrets))
}

/// Nodes that share a database go by its clock. One with a store of its own has only this machine's.
async fn clock(config: &Config, accepted: bool) -> Result<Arc<dyn Clock>, Failure> {
    Ok(match url_path(config) {
        Some(path) => Arc::new(SteadyClock::start(SqliteReadOnly::open(&path)?.newest_at().await?, accepted)),
        None => Arc::new(StoreClock::new(SystemClock.now())),
    })
}

/// What the store can lose events by, if that was accepted: for all to see.
async fn accepted(config: &Config) -> Result<Vec<String>, Failure> {
    if !config.accept_data_loss {
        return Ok(Vec::new());
    }
    let found = store::open_read_only(&options(config)).await?.unsafe_settings().await?;
    Ok(found.into_iter().map(|found| found.setting).collect())
}

fn engine_settings(config: &Config) -> Result<EngineSettings, Failure> {
    Ok(EngineSettings {
        max_in_flight: config.max_in_flight,
        lanes_kept: config.lanes_kept,
        connect_timeout: config.connect_timeout,
        lease: config.lease,
        rescan: config.rescan,
        gate: config.gate.clone(),
        defaults: config.defaults.clone(),
        system_dns: config.dns == Dns::System,
        proxy: config.proxy.clone(),
        idempotency_window: config.idempotency_window,
        audit_kept: config.audit_kept,
        backlog: config.backlog,
        ..test_settings::engine_settings()?
    })
}

fn start_failure(error: StartError) -> Failure {
    match error {
        StartError::Store(error) => error.into(),
        error @ StartError::Tls(_) => Failure::failed(error),
    }
}

/// The keys that must be there before anything starts, checked.
struct FirstKeys {
    master: String,
    api_key: Option<KeyText>,
    operator_key: Option<KeyText>,
    /// Where `api_key` comes from, if `--dev` made it.
    dev: Option<DevKeys>,
}

impl FirstKeys {
    /// What the settings say comes first; `--dev` makes up for what they do not.
    fn gather(config: &Config, dev: Dev) -> Result<Self, Failure> {
        let made = match dev {
            Dev::Yes => Some(DevKeys::read_or_make(&config.data_dir)?),
            Dev::No => None,
        };
        let master = config.master_keys.as_ref().map(|keys| keys.expose().to_owned());
        let master = master.or_else(|| made.as_ref().map(|made| made.master_key.clone()));
        let master = master.ok_or_else(bootstrap::no_master_key)?;
        bootstrap::master_keys(&master)?;
        let api_key = config.bootstrap_api_key.as_ref().map(|key| key.expose().to_owned());
        let dev = made.filter(|_| api_key.is_none());
        let api_key = api_key.or_else(|| dev.as_ref().map(|made| made.api_key.clone()));
        let api_key = api_key.map(|text| bootstrap::given_key("bootstrap.api_key", KeyKind::Account, &text));
        let operator_key = config.bootstrap_operator_key.as_ref().map(|key| key.expose());
        let operator_key =
            operator_key.map(|text| bootstrap::given_key("bootstrap.operator_key", KeyKind::Operator, text));
        Ok(Self { master, api_key: api_key.transpose()?, operator_key: operator_key.transpose()?, dev })
    }

    /// The key of the curl line, in development. Read again: it is another one if the first was revoked.
    fn for_dev(&self, config: &Config, dev: Dev) -> Result<Option<String>, Failure> {
        let made = self.dev.as_ref().map(|_| DevKeys::read(&config.data_dir)).transpose()?.flatten();
        let given = self.api_key.as_ref().map(|key| key.expose().to_owned());
        Ok(made.map(|made| made.api_key).or(given).filter(|_| dev == Dev::Yes))
    }
}

/// The "test" button: one attempt in a slot of the lane, shown as if it had been recorded.
struct TestSender {
    handle: Arc<EngineHandle>,
}

#[async_trait]
impl TestSend for TestSender {
    async fn test_send(
        &self,
        destination_id: DestinationId,
        event: Event,
        forced: bool,
    ) -> Result<AttemptRecord, NotSent> {
        let event_id = event.id;
        let test = engine::TestSend { destination_id, event: Arc::new(event), forced };
        let attempt = self.handle.test_send(test).await.map_err(|error| match error {
            TestSendError::Waits(waiting_for) => NotSent::Waits(waiting_for),
            TestSendError::Abandoned => {
                NotSent::Failed(StoreError::Unavailable("the attempt was given up".into()))
            }
            TestSendError::Store(error) => NotSent::Failed(error),
        })?;
        Ok(AttemptRecord {
            id: attempt.id,
            delivery_id: attempt.delivery_id,
            event_id,
            destination_id,
            number: attempt.number,
            started_at: attempt.started_at,
            duration: attempt.duration,
            outcome: attempt.outcome,
            http_status: attempt.http_status,
            detail: attempt.detail,
            node: attempt.node,
            late: false,
        })
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).await;
    Ok(bound.with_context(|| format!("cannot listen on {address}; choose another address with --listen"))?)
}

/// Standard output, for people and scripts; with `--dev` the last line is a command that works as it is.
fn greet(config: &Config, dev_key: Option<&str>, ways_in: &WaysIn, json: bool) {
    let url = &config.public_url;
    let WaysIn { dashboard, set_up } = ways_in;
    if json {
        offer(serde_json::json!({
            "url": url, "version": VERSION, "api_key": dev_key, "dashboard": dashboard, "set_up": set_up,
        }));
        return;
    }
    offer(format_args!("Posthaste {VERSION} is listening on {url}"));
    if let Some(link) = dashboard {
        offer(format_args!("Dashboard   {link}"));
    }
    if let Some(link) = set_up {
        offer(format_args!("Set up      {link}"));
        offer(
            "            There is no user yet: this link makes the first one. It can be opened once, within an hour.",
        );
    }
    if let Some(key) = dev_key {
        let file = DevKeys::path(&config.data_dir);
        let file = file.display();
        offer(format_args!("For development only: loopback, private destinations allowed, keys in {file}"));
        offer("Publish an event:");
        offer(format_args!(
            "curl -sS {url}/v1/events -H 'authorization: Bearer {key}' -H 'content-type: application/json' \
             -d '{{\"type\":\"{EVENT_TYPE}\",\"data\":{{\"greeting\":\"hello\"}}}}'"
        ));
    }
}

/// Thousands of sockets are the usual state of affairs; the soft limit of most systems is 1,024.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

/// Half of them are for callers: the other half must be enough for destinations and for the store. A quarter may be
/// connections to destinations that are kept for the next request.
fn open_files_limit() -> usize {
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |limit| limit as usize)
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn database_kind(config: &Config) -> &str {
    config.database.split_once(':').map_or("", |(kind, _)| kind)
}
