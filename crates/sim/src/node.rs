//! A node: the real engine in a runtime of its own whose time is paused. It lives only while the world runs it, so a
//! frozen node is one that is not run, and a killed one is one whose runtime is dropped.

use crate::{
    chance::Chance,
    door::{Asked, Door},
    faulty::Faulty,
    internet::Internet,
    log::What,
    plant::Plant,
    scene::Scene,
    time::{Moment, NodeClock, calendar},
};
use domain::{
    address::AddressPolicy, dice::Dice, gate::GateSettings, id::NodeId, member::Role, seal::MasterKeys,
};
use engine::{Engine, EngineParts, EngineSettings, sink::Sinks};
use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};
use store::{NodeRecord, Store, memory::MemoryStore};
use supervisor::Supervisor;
use tokio::{
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
    time::{Instant, advance, sleep_until},
};

/// What a node is made of, whatever its life.
#[derive(Clone)]
pub(crate) struct Makings {
    pub(crate) scene: Arc<Scene>,
    pub(crate) store: Shared,
    pub(crate) keys: Arc<MasterKeys>,
    pub(crate) gate: GateSettings,
    pub(crate) rescan: Duration,
    pub(crate) max_in_flight: usize,
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
    asked: mpsc::UnboundedSender<Asked>,
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
        let rescan = if scene.has(Plant::LostWakeUp) { Duration::from_secs(3_600) } else { makings.rescan };
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
        let (asked, waiting) = mpsc::unbounded_channel();
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
            let door = Door {
                store,
                announce: engine.handle(),
                clock,
                dice,
                scene: own_scene,
                routes: BTreeMap::new(),
            };
            let door = tokio::spawn(door.run(waiting));
            tokio::select! {
                biased;
                why = engine.failed() => tell(Stage::Ended(why)),
                grace = stopped => {
                    // The world drops the other end only together with this runtime.
                    let grace = grace.unwrap_or_default();
                    door.abort();
                    engine.stop(grace).await;
                    tell(Stage::Ended("stopped".into()));
                }
            }
        };
        // Good quartz is better than this; a thousandth shows what depends on it.
        let rate = 1.0 + (chance.range(0, 2_000) as f64 - 1_000.0) / 1e6;
        Self { life, main: Some(Box::pin(main)), runtime, at: now, rate, asked, stop: Some(stop), stage }
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

    pub(crate) fn ask(&self, what: Asked) {
        let _ = self.asked.send(what);
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
