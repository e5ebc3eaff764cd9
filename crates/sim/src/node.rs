//! A node: the real engine in a runtime of its own whose time is paused. It lives only while the world runs it, so a
//! frozen node is one that is not run, and a killed one is one whose runtime is dropped.

use crate::{
    announcements::Announcements,
    chance::Chance,
    commands::{Command, Handlers},
    faulty::FaultyStore,
    intake::{EventRequest, Unobserved},
    internet::Internet,
    log::Occurrence,
    planted_bug::PlantedBug,
    shared_world::SharedWorld,
    time::{Moment, NodeClock, calendar},
};
use domain::{
    address::AddressPolicy, dice::Dice, gate::GateSettings, id::NodeId, limits, member::Role,
    seal::MasterKeys,
};
use engine::{Engine, EngineParts, EngineSettings, sink::Sinks};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};
use store::{NodeRecord, Store, memory::MemoryStore};
use supervisor::Supervisor;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, advance, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

/// What a node is made of, whatever its life.
#[derive(Clone)]
pub(crate) struct NodeParts {
    pub(crate) shared: Arc<SharedWorld>,
    pub(crate) store: Shared,
    pub(crate) keys: Arc<MasterKeys>,
    pub(crate) gate: GateSettings,
    pub(crate) rescan: Duration,
    pub(crate) max_in_flight: usize,
    pub(crate) ingest: ingest::IngestSettings,
}

/// The one store of a world, of which every process has a handle of its own.
#[derive(Clone)]
pub(crate) enum Shared {
    Memory(Arc<MemoryStore>),
    Sqlite(Arc<dyn Store>),
}

impl Shared {
    pub(crate) fn handle(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::new(store.another()),
            Self::Sqlite(store) => Arc::clone(store),
        }
    }
}

/// A running process.
pub(crate) struct Process {
    pub(crate) life: usize,
    /// None when it has ended by itself. Before the runtime: it is dropped first.
    main: Option<Pin<Box<dyn Future<Output = ()>>>>,
    runtime: Runtime,
    /// Where its clock stands, in true time.
    at: Moment,
    /// How fast its clock goes.
    rate: f64,
    requests: mpsc::UnboundedSender<EventRequest>,
    commands: mpsc::UnboundedSender<Command>,
    stop: Option<oneshot::Sender<Duration>>,
    stage: Arc<Mutex<ProcessStage>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ProcessStage {
    Starting,
    Serving,
    /// The process has ended by itself, in peace or not.
    Ended(String),
}

impl Process {
    pub(crate) fn start(
        node_parts: &NodeParts,
        node: usize,
        role: Role,
        proof: String,
        chance: &Chance,
        now: Moment,
    ) -> Self {
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let shared = &node_parts.shared;
        let life = shared.observed().begins(node, now);
        let dice = Arc::new(Chance::new(chance.next(), 2));
        // Until the store has told it better it may be hours off.
        let hour = Duration::from_secs(3_600).as_micros() as Moment;
        let wall = calendar(now + chance.range(0, 4) as Moment * hour - 2 * hour);
        let clock = {
            let _inside = runtime.enter();
            Arc::new(NodeClock::new(wall))
        };
        let store: Arc<dyn Store> = Arc::new(FaultyStore {
            inner: node_parts.store.handle(),
            shared: Arc::clone(shared),
            node,
            life,
            line_is_down: AtomicBool::new(false),
        });
        let lease = if shared.has(PlantedBug::NoHolderDeadline) {
            shared.lease + Duration::from_secs(20)
        } else {
            shared.lease
        };
        let never = shared.no_rescan
            || shared.has(PlantedBug::LostWakeUp)
            || shared.has(PlantedBug::ForgottenAfterUnknown);
        let rescan = if never { Duration::from_secs(3_600) } else { node_parts.rescan };
        let parts = EngineParts {
            store: Arc::clone(&store),
            clock: clock.clone(),
            dice: dice.clone(),
            master_keys: Arc::clone(&node_parts.keys),
            addresses: Arc::new(AddressPolicy::default()),
            node: NodeRecord {
                id: NodeId::at(calendar(now), dice.bits()),
                label: format!("n{node}"),
                proof,
                version: "sim".into(),
                role,
                address: None,
                master_keys: "k1".into(),
            },
            settings: EngineSettings {
                lease,
                rescan,
                gate: node_parts.gate.clone(),
                max_in_flight: node_parts.max_in_flight,
                ..EngineSettings::default()
            },
            supervisor: Supervisor::default(),
        };
        let (requests, requested) = mpsc::unbounded_channel();
        let (commands, commanded) = mpsc::unbounded_channel();
        let (settings, master_keys) = (node_parts.ingest.clone(), Arc::clone(&node_parts.keys));
        let (stop, stopped) = oneshot::channel();
        let stage = Arc::new(Mutex::new(ProcessStage::Starting));
        let internet = Arc::new(Internet { shared: Arc::clone(shared), clock: Arc::clone(&clock), life });
        let (own_shared, own_stage) = (Arc::clone(shared), Arc::clone(&stage));
        let main = async move {
            let tell = |told: ProcessStage| *own_stage.lock().expect("never poisoned") = told;
            let engine = match Engine::start_with(parts, Sinks::http(internet)).await {
                Ok(engine) => engine,
                Err(error) => return tell(ProcessStage::Ended(error.to_string())),
            };
            own_shared.note(Occurrence::Serving { node });
            tell(ProcessStage::Serving);
            let announce = Arc::new(Announcements::new(engine.handle(), Arc::clone(&own_shared)));
            let (admission, mut committer) = ingest::open(ingest::IngestParts {
                store: store.clone(),
                catalog: store.clone(),
                announce,
                clock: clock.clone(),
                dice: dice.clone(),
                observer: Arc::new(Unobserved),
                tracer: Default::default(),
                master_keys,
                settings,
            });
            let (admission, announce) = (Arc::new(admission), engine.handle());
            let handlers = Handlers { store, announce, admission, clock, dice, shared: own_shared };
            let stop_committer = CancellationToken::new();
            let committer_stopped = stop_committer.clone();
            let committing = tokio::spawn(async move { committer.run(committer_stopped).await });
            let commanding = tokio::spawn(handlers.clone().obey(commanded));
            let (close, closed) = oneshot::channel();
            let taking = tokio::spawn(take_requests(handlers, requested, closed));
            tokio::select! {
                biased;
                why = engine.failed() => tell(ProcessStage::Ended(why)),
                grace = stopped => {
                    // The world drops the other end only together with this runtime.
                    let grace = grace.unwrap_or_default();
                    commanding.abort();
                    let _ = close.send(());
                    // As the binary does: requests are answered, then the committer ends, while the engine stops.
                    let answering = async {
                        let _ = timeout(grace, taking).await;
                        stop_committer.cancel();
                        let _ = timeout(limits::LEASE_MARGIN, committing).await;
                    };
                    tokio::join!(answering, engine.stop(grace));
                    tell(ProcessStage::Ended("stopped".into()));
                }
            }
        };
        // Good quartz is better than this; a thousandth shows what depends on it.
        let rate = 1.0 + (chance.range(0, 2_000) as f64 - 1_000.0) / 1e6;
        let (main, stop) = (Some(Box::pin(main) as _), Some(stop));
        Self { life, main, runtime, at: now, rate, requests, commands, stop, stage }
    }

    /// Runs it until its clock shows `to`. One that was not run for longer finds that time has jumped.
    pub(crate) fn run(&mut self, shared: &SharedWorld, from: Moment, to: Moment) {
        let local = |moments: Moment| Duration::from_micros((moments.max(0) as f64 * self.rate) as u64);
        let (at, rate, main) = (self.at, self.rate, &mut self.main);
        self.at = self.runtime.block_on(async {
            if from > at {
                let thawed = Instant::now() + local(from - at);
                shared.time.turn_begins(from, thawed, rate);
                advance(thawed - Instant::now()).await;
            } else {
                shared.time.turn_begins(at, Instant::now(), rate);
            }
            let enough = sleep_until(Instant::now() + local(to - shared.time.now()));
            tokio::pin!(enough);
            if let Some(running) = main {
                tokio::select! {
                    biased;
                    () = running => *main = None,
                    () = &mut enough => return shared.time.now(),
                }
            }
            enough.await;
            shared.time.now()
        });
        shared.time.stand(to);
    }

    pub(crate) fn stage(&self) -> ProcessStage {
        self.stage.lock().expect("never poisoned").clone()
    }

    pub(crate) fn take(&self, request: EventRequest) {
        let _ = self.requests.send(request);
    }

    pub(crate) fn command(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// SIGTERM.
    pub(crate) fn stop(&mut self, grace: Duration) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(grace);
        }
    }

    /// It is up, and has not been told to stop.
    pub(crate) fn is_serving(&self) -> bool {
        self.stage() == ProcessStage::Serving && self.stop.is_some()
    }
}

/// Every request has a task of its own. Ends when it is closed and the last one is answered.
async fn take_requests(
    handlers: Handlers,
    mut requests: mpsc::UnboundedReceiver<EventRequest>,
    mut closed: oneshot::Receiver<()>,
) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut closed => break,
            Some(request) = requests.recv() => drop(open.spawn(handlers.clone().take(request))),
            Some(_) = open.join_next() => {}
        }
    }
    while open.join_next().await.is_some() {}
}
