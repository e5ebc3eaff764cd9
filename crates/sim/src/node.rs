//! A node: the real engine in a runtime of its own whose time is paused. It lives only while the world runs it, so a
//! frozen node is one that is not run, and a killed one is one whose runtime is dropped.

use crate::{
    announcements::Announcements,
    chance::Chance,
    commands::{Command, Commands},
    faulty::Faulty,
    intake::{Intake, Order, Unobserved},
    internet::Internet,
    log::What,
    plant::Plant,
    scene::Scene,
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
pub(crate) struct Makings {
    pub(crate) scene: Arc<Scene>,
    pub(crate) store: Shared,
    pub(crate) keys: Arc<MasterKeys>,
    pub(crate) gate: GateSettings,
    pub(crate) rescan: Duration,
    pub(crate) max_in_flight: usize,
    pub(crate) ingest: ingest::Settings,
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
    orders: mpsc::UnboundedSender<Order>,
    commands: mpsc::UnboundedSender<Command>,
    stop: Option<oneshot::Sender<Duration>>,
    stage: Arc<Mutex<Stage>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stage {
    Starting,
    Serving,
    /// The process has ended by itself, in peace or not.
    Ended(String),
}

impl Process {
    pub(crate) fn start(
        makings: &Makings,
        node: usize,
        role: Role,
        proof: String,
        chance: &Chance,
        now: Moment,
    ) -> Self {
        let runtime =
            Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let scene = &makings.scene;
        let life = scene.book().begins(node, now);
        let dice = Arc::new(Chance::new(chance.next(), 2));
        // Until the store has told it better it may be hours off.
        let hour = Duration::from_secs(3_600).as_micros() as Moment;
        let wall = calendar(now + chance.range(0, 4) as Moment * hour - 2 * hour);
        let clock = {
            let _inside = runtime.enter();
            Arc::new(NodeClock::new(wall))
        };
        let store: Arc<dyn Store> = Arc::new(Faulty {
            inner: makings.store.handle(),
            scene: Arc::clone(scene),
            node,
            life,
            line_is_down: AtomicBool::new(false),
        });
        let lease = if scene.has(Plant::NoHolderDeadline) {
            scene.lease + Duration::from_secs(20)
        } else {
            scene.lease
        };
        let never = scene.has(Plant::LostWakeUp) || scene.has(Plant::ForgottenAfterUnknown);
        let rescan = if never { Duration::from_secs(3_600) } else { makings.rescan };
        let parts = EngineParts {
            store: Arc::clone(&store),
            clock: clock.clone(),
            dice: dice.clone(),
            master_keys: Arc::clone(&makings.keys),
            addresses: Arc::new(AddressPolicy::default()),
            node: NodeRecord {
                id: NodeId::at(calendar(now), dice.bits()),
                label: format!("n{node}"),
                proof,
                version: "sim".into(),
                role,
                address: None,
            },
            settings: EngineSettings {
                lease,
                rescan,
                gate: makings.gate.clone(),
                max_in_flight: makings.max_in_flight,
                ..EngineSettings::default()
            },
            supervisor: Supervisor::default(),
        };
        let (orders, ordered) = mpsc::unbounded_channel();
        let (commands, commanded) = mpsc::unbounded_channel();
        let settings = makings.ingest.clone();
        let (stop, stopped) = oneshot::channel();
        let stage = Arc::new(Mutex::new(Stage::Starting));
        let internet = Arc::new(Internet { scene: Arc::clone(scene), clock: Arc::clone(&clock), life });
        let (own_scene, own_stage) = (Arc::clone(scene), Arc::clone(&stage));
        let main = async move {
            let tell = |told: Stage| *own_stage.lock().expect("never poisoned") = told;
            let engine = match Engine::start_with(parts, Sinks::http(internet)).await {
                Ok(engine) => engine,
                Err(error) => return tell(Stage::Ended(error.to_string())),
            };
            own_scene.note(What::Serving { node });
            tell(Stage::Serving);
            let announce = Arc::new(Announcements::new(engine.handle(), Arc::clone(&own_scene)));
            let (admission, mut committer) = ingest::open(ingest::Parts {
                store: store.clone(),
                catalog: store.clone(),
                announce,
                clock: clock.clone(),
                dice: dice.clone(),
                observer: Arc::new(Unobserved),
                tracer: Default::default(),
                settings,
            });
            let admission = Arc::new(admission);
            let (scene, announce) = (own_scene, engine.handle());
            let intake = Intake {
                admission: admission.clone(),
                clock: clock.clone(),
                dice: dice.clone(),
                scene: scene.clone(),
            };
            let commands = Commands { store, announce, admission, clock, dice, scene };
            let stop_committer = CancellationToken::new();
            let committer_stopped = stop_committer.clone();
            let committing = tokio::spawn(async move { committer.run(committer_stopped).await });
            let commanding = tokio::spawn(commands.run(commanded));
            let (close, closed) = oneshot::channel();
            let taking = tokio::spawn(take_orders(intake, ordered, closed));
            tokio::select! {
                biased;
                why = engine.failed() => tell(Stage::Ended(why)),
                grace = stopped => {
                    // The world drops the other end only together with this runtime.
                    let grace = grace.unwrap_or_default();
                    commanding.abort();
                    let _ = close.send(());
                    // As the binary does: requests are answered, then the committer ends, while the engine stops.
                    let requests = async {
                        let _ = timeout(grace, taking).await;
                        stop_committer.cancel();
                        let _ = timeout(limits::LEASE_MARGIN, committing).await;
                    };
                    tokio::join!(requests, engine.stop(grace));
                    tell(Stage::Ended("stopped".into()));
                }
            }
        };
        // Good quartz is better than this; a thousandth shows what depends on it.
        let rate = 1.0 + (chance.range(0, 2_000) as f64 - 1_000.0) / 1e6;
        let (main, stop) = (Some(Box::pin(main) as _), Some(stop));
        Self { life, main, runtime, at: now, rate, orders, commands, stop, stage }
    }

    /// Runs it until its clock shows `to`. One that was not run for longer finds that time has jumped.
    pub(crate) fn run(&mut self, scene: &Scene, from: Moment, to: Moment) {
        let local = |moments: Moment| Duration::from_micros((moments.max(0) as f64 * self.rate) as u64);
        let (at, rate, main) = (self.at, self.rate, &mut self.main);
        self.at = self.runtime.block_on(async {
            if from > at {
                let thawed = Instant::now() + local(from - at);
                scene.time.turn_begins(from, thawed, rate);
                advance(thawed - Instant::now()).await;
            } else {
                scene.time.turn_begins(at, Instant::now(), rate);
            }
            let enough = sleep_until(Instant::now() + local(to - scene.time.now()));
            tokio::pin!(enough);
            if let Some(running) = main {
                tokio::select! {
                    biased;
                    () = running => *main = None,
                    () = &mut enough => return scene.time.now(),
                }
            }
            enough.await;
            scene.time.now()
        });
        scene.time.stand(to);
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage.lock().expect("never poisoned").clone()
    }

    pub(crate) fn order(&self, order: Order) {
        let _ = self.orders.send(order);
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

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_none()
    }
}

/// Every order is a request with a task of its own. Ends when it is closed and the last one is answered.
async fn take_orders(
    intake: Intake,
    mut orders: mpsc::UnboundedReceiver<Order>,
    mut closed: oneshot::Receiver<()>,
) {
    let mut requests = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut closed => break,
            Some(order) = orders.recv() => drop(requests.spawn(intake.clone().take(order))),
            Some(_) = requests.join_next() => {}
        }
    }
    while requests.join_next().await.is_some() {}
}
