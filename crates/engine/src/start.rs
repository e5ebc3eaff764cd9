//! Puts the engine together and takes it apart again.

use crate::{
    attempt_log::AttemptLogger,
    chores::{Chores, Rescans},
    data_keys::DataKeys,
    dispatcher::{AttemptRunner, Dispatcher},
    egress::{Egress, HickoryResolver, Proxy, Resolve, SystemResolver, TcpDialer},
    fetcher::Fetcher,
    handle::EngineHandle,
    lane_sampler::LaneSampler,
    large_payloads::LargePayloads,
    membership::Lease,
    metrics::Metrics,
    owner::{Joiner, Owner, StartError, Stops},
    ownership_view::OwnershipView,
    publish,
    sender::Sender,
    settler::{self, Settler},
    sink::Sinks,
    test_sends::TestTaker,
    transport::HttpTransport,
    wakes::{Outbox, WakeListener},
    watch::{ConfigWatch, EarlyLooks},
};
use domain::{
    address::AddressPolicy, delivery_settings::DeliverySettings, dice::Dice, gate::GateSettings, limits,
    seal::MasterKeys, time::Clock, trace::Tracer,
};
use futures_util::{FutureExt, future::BoxFuture};
use std::{sync::Arc, time::Duration};
use store::{BacklogCap, Expansion, NodeRecord, Store};
use supervisor::{Loop, Supervisor};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

/// What the engine is made of.
pub struct EngineParts {
    pub store: Arc<dyn Store>,
    pub clock: Arc<dyn Clock>,
    pub dice: Arc<dyn Dice>,
    pub master_keys: Arc<MasterKeys>,
    pub addresses: Arc<AddressPolicy>,
    pub node: NodeRecord,
    pub settings: EngineSettings,
    /// The owner of every loop of the process.
    pub supervisor: Supervisor,
}

#[derive(Debug, Clone)]
pub struct EngineSettings {
    pub max_in_flight: usize,
    /// Destinations that are kept in memory with what they are delivered.
    pub lanes_kept: usize,
    /// Connections to destinations that are kept, busy and idle.
    pub kept_connections: usize,
    pub connect_timeout: Duration,
    pub lease: Duration,
    pub rescan: Duration,
    pub gate: GateSettings,
    /// What destinations go by where neither they nor their account say anything.
    pub defaults: DeliverySettings,
    /// Ask the operating system for names instead of our own resolver.
    pub system_dns: bool,
    /// Every destination is reached through it.
    pub proxy: Option<Proxy>,
    pub idempotency_window: Duration,
    /// How long entries of the audit log are kept.
    pub audit_kept: Duration,
    /// Where spans of attempts go.
    pub tracer: Tracer,
    /// Where the line of each attempt goes.
    pub attempt_log: AttemptLogger,
    /// How often what is older than its account keeps it is looked for …
    pub prune_every: Duration,
    /// … and how long a day of retention is. Another length is for tests.
    pub retention_day: Duration,
    /// How often sums are looked after.
    pub rollup_every: Duration,
    /// How much of an account may wait: its replays do not add to more.
    pub backlog: BacklogCap,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            max_in_flight: limits::IN_FLIGHT,
            lanes_kept: limits::LANES_KEPT,
            kept_connections: limits::KEPT_CONNECTIONS,
            connect_timeout: limits::CONNECT_TIMEOUT,
            lease: limits::LEASE,
            rescan: limits::RESCAN,
            gate: GateSettings::default(),
            defaults: DeliverySettings::default(),
            system_dns: false,
            proxy: None,
            idempotency_window: limits::IDEMPOTENCY_WINDOW,
            audit_kept: limits::AUDIT_LOG_KEPT,
            tracer: Tracer::default(),
            attempt_log: AttemptLogger::default(),
            prune_every: limits::PRUNE_EVERY,
            retention_day: limits::RETENTION_DAY,
            rollup_every: limits::ROLLUP_EVERY,
            backlog: BacklogCap::default(),
        }
    }
}

/// A running engine.
pub struct Engine {
    handle: Arc<EngineHandle>,
    supervisor: Supervisor,
    /// First lanes and chores stop and shards are given away as they drain; then the membership ends.
    stops: Stops,
    grace: watch::Sender<Duration>,
    dispatcher: JoinHandle<()>,
    settler: JoinHandle<()>,
    owner: JoinHandle<()>,
}

impl Engine {
    pub async fn start(parts: EngineParts) -> Result<Self, StartError> {
        let resolver: Arc<dyn Resolve> = match HickoryResolver::from_system() {
            Some(hickory) if !parts.settings.system_dns => Arc::new(hickory),
            _ => Arc::new(SystemResolver),
        };
        let EngineSettings { connect_timeout, proxy, kept_connections, .. } = parts.settings.clone();
        let (addresses, dialer) = (Arc::clone(&parts.addresses), Arc::new(TcpDialer));
        let lease = Lease::new();
        let egress = Egress::new(addresses, resolver, dialer, connect_timeout, proxy)?;
        let http = HttpTransport::keeping(egress.clone().under(Arc::clone(&lease)), kept_connections);
        Self::begin(parts, Sinks::http(Arc::new(http)).through(egress), lease).await
    }

    /// With destinations of the caller's kinds, or an internet of the caller's choice.
    pub async fn start_with(parts: EngineParts, sinks: Sinks) -> Result<Self, StartError> {
        Self::begin(parts, sinks, Lease::new()).await
    }

    async fn begin(parts: EngineParts, sinks: Sinks, lease: Arc<Lease>) -> Result<Self, StartError> {
        let sinks = Arc::new(sinks);
        let EngineParts { store, clock, dice, master_keys, node, settings, supervisor, .. } = parts;
        let joiner = Joiner {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            dice: Arc::clone(&dice),
            lease,
            length: settings.lease,
        };
        let membership = joiner.join(&node).await?;
        let ownership_view = OwnershipView::new(Arc::clone(&membership));
        let (outbox, rescans, watch) = (Arc::<Outbox>::default(), Arc::<Rescans>::default(), Arc::default());
        let data_keys = DataKeys::new(Arc::clone(&store), Arc::clone(&master_keys));
        let sender = Arc::new(Sender {
            store: Arc::clone(&store),
            data_keys: Arc::clone(&data_keys),
            sinks: Arc::clone(&sinks),
            clock: Arc::clone(&clock),
            dice: Arc::clone(&dice),
            large_payloads: LargePayloads::new(),
            tracer: settings.tracer.clone(),
            attempt_log: settings.attempt_log.clone(),
        });
        let (inbox, messages) = mpsc::channel(limits::DISPATCHER_INBOX);
        let (settling, waiting) = settler::channels();
        let metrics = Arc::<Metrics>::default();
        let settler = Settler {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            dice: Arc::clone(&dice),
            waiting,
            dispatcher: inbox.clone(),
            metrics: Arc::clone(&metrics),
        };
        let fetcher = Fetcher {
            store: Arc::clone(&store),
            data_keys: Arc::clone(&data_keys),
            master_keys,
            sinks,
            defaults: Arc::new(settings.defaults.clone()),
            dispatcher: inbox.downgrade(),
        };
        let (gate, max_in_flight) = (settings.gate.clone(), settings.max_in_flight);
        let lanes = AttemptRunner::new(
            Arc::clone(&sender),
            settling,
            inbox.clone(),
            Arc::clone(&membership),
            gate,
            max_in_flight,
        );
        // Bounded by the dispatcher: see `ShardReport`.
        let (reports, reported) = mpsc::unbounded_channel();
        let (view, told) = (Arc::clone(&ownership_view), Arc::clone(&outbox));
        let dispatcher = Dispatcher::new(lanes, fetcher, view, told, reports, settings.lanes_kept);
        let membership_moved = Arc::new(Notify::new());
        let owner = Owner {
            joiner,
            node,
            membership,
            ownership_view: Arc::clone(&ownership_view),
            dispatcher: inbox.clone(),
            reports: reported,
            rescans: Arc::clone(&rescans),
            outbox: Arc::clone(&outbox),
            membership_moved: Arc::clone(&membership_moved),
            supervisor: supervisor.clone(),
        };
        let stops = Stops { drain: CancellationToken::new(), leave: CancellationToken::new() };
        let ended = CancellationToken::new();
        let chores = Chores { store, data_keys, clock, dice, settings, ownership_view, rescans, inbox };
        let side_loops = SideLoops { sender, chores, outbox, watch, membership_moved };
        let expansions = side_loops.start(&supervisor, &stops.drain, &ended);
        let (grace, grace_given) = watch::channel(limits::SHUTDOWN_GRACE);
        let vital = |id, task: BoxFuture<'static, ()>| supervisor.start_once(id, &stops.drain, task);
        let dispatching =
            dispatcher.run(messages, stops.drain.clone(), grace_given, ended.clone(), supervisor.clone());
        let SideLoops { sender, chores: Chores { ownership_view, inbox, .. }, outbox, .. } = side_loops;
        let _ended = ended.drop_guard();
        Ok(Self {
            dispatcher: vital(Loop::Dispatcher, dispatching.boxed()),
            settler: vital(Loop::Settler, settler.run().boxed()),
            owner: vital(Loop::Owner, owner.run(stops.clone()).boxed()),
            handle: Arc::new(EngineHandle {
                inbox,
                expansions,
                sender,
                ownership_view,
                outbox,
                metrics,
                _ended,
            }),
            supervisor: supervisor.clone(),
            stops,
            grace,
        })
    }

    pub fn handle(&self) -> Arc<EngineHandle> {
        Arc::clone(&self.handle)
    }

    /// Waits until the node must end, and says why.
    pub async fn failed(&self) -> String {
        self.supervisor.failed().await
    }

    /// Starts nothing more, finishes what is open within `grace`, writes all results, gives every shard to its next
    /// owner as soon as nothing of it is open, and leaves.
    pub async fn stop(self, grace: Duration) {
        self.grace.send_replace(grace);
        self.stops.drain.cancel();
        let drained = async {
            let _ = self.dispatcher.await;
            let _ = self.settler.await;
        };
        if tokio::time::timeout(grace + limits::LEASE_MARGIN, drained).await.is_err() {
            tracing::warn!("some results could not be written; their deliveries will be tried again");
        }
        self.stops.leave.cancel();
        let _ = tokio::time::timeout(limits::LEASE_MARGIN, self.owner).await;
    }
}

/// What runs beside the lanes and the owner.
struct SideLoops {
    sender: Arc<Sender>,
    chores: Chores,
    outbox: Arc<Outbox>,
    watch: Arc<EarlyLooks>,
    membership_moved: Arc<Notify>,
}

impl SideLoops {
    /// All of it ends with `stop`, but for what tells the others: something may be committed to the very end.
    fn start(
        &self,
        supervisor: &Supervisor,
        stop: &CancellationToken,
        ended: &CancellationToken,
    ) -> mpsc::Sender<Vec<Expansion>> {
        let Self { sender, chores, outbox, watch, membership_moved } = self;
        let Chores { store, dice, ownership_view, rescans, inbox, .. } = chores;
        let expansions = chores.start(supervisor, stop);
        let listener = WakeListener {
            store: Arc::clone(store),
            dice: Arc::clone(dice),
            dispatcher: inbox.clone(),
            rescans: Arc::clone(rescans),
            watch: Arc::clone(watch),
            membership_moved: Arc::clone(membership_moved),
        };
        let watching = ConfigWatch {
            watch: Arc::clone(watch),
            store: Arc::clone(store),
            dice: Arc::clone(dice),
            ownership_view: Arc::clone(ownership_view),
            dispatcher: inbox.clone(),
            data_keys: Arc::clone(&chores.data_keys),
        };
        let taking = TestTaker {
            store: Arc::clone(store),
            clock: Arc::clone(&chores.clock),
            ownership_view: Arc::clone(ownership_view),
            dispatcher: inbox.clone(),
        };
        let sampling = LaneSampler {
            store: Arc::clone(store),
            clock: Arc::clone(&chores.clock),
            ownership_view: Arc::clone(ownership_view),
            dispatcher: inbox.clone(),
            every: chores.settings.rollup_every,
            minutes: Arc::default(),
        };
        let publishing = (Arc::clone(sender), Arc::clone(ownership_view), inbox.clone());
        let telling = (Arc::clone(outbox), Arc::clone(store), Arc::clone(dice));
        supervisor.start(Loop::WakeListener, stop, move |life| listener.clone().run(life));
        supervisor.start(Loop::ConfigWatch, stop, move |_| watching.clone().run());
        supervisor.start(Loop::LanePublisher, stop, move |_| {
            let (sender, ownership_view, inbox) = publishing.clone();
            publish::run(sender, ownership_view, inbox)
        });
        supervisor.start(Loop::LaneSampler, stop, move |_| sampling.clone().run());
        supervisor.start(Loop::TestTaker, stop, move |_| taking.clone().run());
        supervisor.start(Loop::Outbox, ended, move |_| {
            let (outbox, store, dice) = telling.clone();
            outbox.run(store, dice)
        });
        expansions
    }
}
