//! One world from one seed: nodes around one store, producers, receivers, trouble, and then calm.
//!
//! Time goes in steps of random length. In each, what is due happens, then every node that is neither dead nor frozen
//! runs until its clock has caught up, in an order drawn anew.

mod furniture;
mod producers;
mod replays;

use crate::{
    book::Violation,
    chance::Chance,
    commands::Command,
    faulty::finish,
    intake,
    log::What,
    node::{Makings, Process, Shared, Stage},
    plan::{Happening, Plan, PlannedOrder},
    plant::Plant,
    promise::Promise,
    scene::{Scene, Weather, count},
    time::{MILLISECOND, Moment, SECOND},
    verdict,
};
use domain::{
    id::{AccountId, DestinationId, RouteId},
    seal::MasterKeys,
};
use furniture::{Disk, SceneClock, sqlite};
use producers::Sending;
use replays::Replaying;
use std::sync::Arc;
use store::{Store, memory::MemoryStore};
use tokio::runtime::Handle;

#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub plant: Option<Plant>,
    /// The store is a real SQLite file.
    pub sqlite: bool,
}

/// What became of a world.
#[derive(Debug)]
pub struct Told {
    pub violations: Vec<Violation>,
    pub counts: Vec<(&'static str, u64)>,
    pub hash: u64,
    pub lines: Vec<String>,
    /// How long it lasted in its own time, in microseconds.
    pub lasted: i64,
}

/// How many nodes a world may have.
const NODES: usize = 4;
/// After calm everything must have ended within this: the longest schedule, hold, lease and rescan there are.
const PATIENCE: Moment = 120 * SECOND;
/// The longest step once all is calm.
const CALM_GRAIN: Moment = 200 * MILLISECOND;

struct World {
    plan: Plan,
    scene: Arc<Scene>,
    chance: Chance,
    makings: Makings,
    accounts: Vec<AccountId>,
    routes: Vec<(AccountId, RouteId)>,
    nodes: Vec<Node>,
    orders: Vec<Sending>,
    replays: Vec<Replaying>,
    now: Moment,
    next_happening: usize,
    next_resume: Moment,
    /// The store itself, for whoever looks from outside.
    truth: Arc<dyn Store>,
    disk: Option<Disk>,
    calm: bool,
}

struct Node {
    process: Option<Process>,
    proof: String,
    listens: bool,
    starts: Moment,
    frozen_until: Option<Moment>,
    /// How long it stays down when it has stopped by itself.
    down: Moment,
}

pub fn run(seed: u64, options: Options, trace: bool) -> Told {
    let mut world = World::new(seed, options);
    let inside = world.disk.as_ref().map(|disk| disk.runtime.handle().clone());
    let _inside = inside.as_ref().map(Handle::enter);
    world.furnish();
    world.play();
    verdict::pronounce(
        &world.scene,
        world.truth.as_ref(),
        &world.accounts,
        &world.sent(),
        &world.replayed(),
        world.now,
    );
    let lasted = world.now;
    world.nodes.clear();
    let scene = world.scene;
    let book = scene.book();
    Told {
        violations: book.violations.clone(),
        counts: scene.counts.all(),
        hash: book.log.hash(),
        lines: if trace { book.log.lines().collect() } else { Vec::new() },
        lasted,
    }
}

impl World {
    fn new(seed: u64, options: Options) -> Self {
        let plan = Plan::of(seed, if options.sqlite { 1 } else { NODES });
        let scene = Scene::new(seed, plan.nodes.len(), plan.destinations.len(), plan.lease, options);
        let memory = || Shared::Memory(Arc::new(MemoryStore::new(Arc::new(SceneClock(Arc::clone(&scene))))));
        let (store, disk) = if options.sqlite { sqlite() } else { (memory(), None) };
        let chance = Chance::new(seed, 3);
        let truth = store.handle();
        let keys =
            Arc::new(MasterKeys::parse("k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").expect("a key"));
        let makings = Makings {
            scene: Arc::clone(&scene),
            store,
            keys,
            gate: plan.gate.clone(),
            rescan: plan.rescan,
            max_in_flight: plan.max_in_flight,
            ingest: intake::settings(&plan.ingest),
        };
        let node = |n: usize| Node {
            process: None,
            proof: format!("folder {n}"),
            listens: plan.nodes[n].0.listens(),
            starts: plan.nodes[n].1,
            frozen_until: None,
            down: 0,
        };
        let nodes = (0..plan.nodes.len()).map(node).collect();
        let sending = |(number, order): (usize, &PlannedOrder)| Sending {
            number,
            next: order.at,
            waiting: None,
            confirmed: None,
            refused: false,
            unsure: false,
        };
        let orders = plan.orders.iter().enumerate().map(sending).collect();
        Self {
            plan,
            scene,
            chance,
            makings,
            accounts: Vec::new(),
            routes: Vec::new(),
            nodes,
            orders,
            replays: Vec::new(),
            now: 0,
            next_happening: 0,
            next_resume: 0,
            truth,
            disk,
            calm: false,
        }
    }

    fn play(&mut self) {
        loop {
            self.happen();
            while let Some(landing) = self.scene.landed(self.now) {
                landing();
            }
            self.resume();
            self.orders_proceed();
            self.replays_proceed();
            self.nodes_proceed();
            if self.calm && self.is_quiet() {
                return;
            }
            if self.now > self.plan.calm + PATIENCE {
                let text = format!("not everything has ended {} s after calm", PATIENCE / SECOND);
                return self.scene.book().broken(self.now, Promise::EverythingEnds, text);
            }
            self.step();
        }
    }

    fn is_quiet(&self) -> bool {
        let answered = self.orders.iter().all(|order| order.confirmed.is_some() || order.refused);
        let expanded = finish(self.truth.open_expansions(None, 1)).is_ok_and(|open| open.is_empty());
        let ended = {
            let book = self.scene.book();
            book.deliveries.values().all(|page| page.ending.is_some()) && book.nothing_open()
        };
        let up = self.nodes.iter().all(|node| {
            node.process
                .as_ref()
                .is_some_and(|process| process.stage() == Stage::Serving && !process.is_stopping())
        });
        answered && expanded && ended && up && self.scene.all_landed() && self.replays_are_over()
    }

    /// Time goes on by a step; everybody who is there and awake lives through it.
    fn step(&mut self) {
        let grain = if self.calm { self.plan.grain.max(CALM_GRAIN) } else { self.plan.grain };
        let from = self.now;
        self.now += self.chance.range(1, grain as u64) as Moment;
        let mut turns: Vec<usize> = (0..self.nodes.len()).collect();
        for place in (1..turns.len()).rev() {
            turns.swap(place, self.chance.index(place + 1));
        }
        for turn in turns {
            let node = &mut self.nodes[turn];
            if node.frozen_until.is_none()
                && let Some(process) = &mut node.process
            {
                process.run(&self.scene, from, self.now);
            }
        }
        self.scene.time.stand(self.now);
        let mut book = self.scene.book();
        book.troubled.resize(self.nodes.len(), 0);
        for (node, state) in self.nodes.iter().enumerate() {
            if state.frozen_until.is_some() || self.scene.weather(node) != Weather::FINE {
                book.troubled[node] = self.now;
            }
        }
    }

    // --- Nodes -------------------------------------------------------------------------------------------------------

    fn nodes_proceed(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].frozen_until.is_some_and(|until| until <= self.now) {
                self.thaw(node);
            }
            match self.nodes[node].process.as_ref().map(Process::stage) {
                None if self.nodes[node].starts <= self.now => self.start(node),
                Some(Stage::Ended(why)) if self.nodes[node].frozen_until.is_none() => {
                    if why != "stopped" && self.scene.plant.is_none() && why.contains("panicked") {
                        self.scene.book().broken(
                            self.now,
                            Promise::EverythingEnds,
                            format!("node {node}: {why}"),
                        );
                    }
                    self.scene.note(What::Ended { node, why });
                    let down = self.nodes[node].down;
                    self.bury(node, down);
                }
                _ => {}
            }
        }
    }

    fn start(&mut self, node: usize) {
        count(&self.scene.counts.restarts);
        // Now and then it comes back on another machine, where nothing proves that its predecessor is dead.
        if self.chance.happens(0.2) {
            self.nodes[node].proof = format!("folder {node} {}", self.chance.next());
        }
        let proof = self.nodes[node].proof.clone();
        self.nodes[node].process =
            Some(Process::start(&self.makings, node, self.plan.nodes[node].0, proof, &self.chance, self.now));
        self.nodes[node].down = self.chance.range(1, 1_000) as Moment * MILLISECOND;
    }

    /// The process is gone: its connections are closed, what it had in memory is forgotten.
    fn bury(&mut self, node: usize, down: Moment) {
        let Some(process) = self.nodes[node].process.take() else { return };
        let life = process.life;
        self.scene.book().dies(life, self.now);
        drop(process);
        self.scene.dies(life);
        self.nodes[node].starts = self.now + down;
        self.nodes[node].frozen_until = None;
    }

    fn thaw(&mut self, node: usize) {
        if self.nodes[node].frozen_until.take().is_none() {
            return;
        }
        if let Some(process) = &self.nodes[node].process {
            self.scene.book().lives[process.life].thawed = self.now;
            self.scene.note(What::Thawed { node });
        }
    }

    // --- Trouble -----------------------------------------------------------------------------------------------------

    fn happen(&mut self) {
        while let Some((at, happening)) = self.plan.happenings.get(self.next_happening).copied() {
            if at > self.now {
                break;
            }
            self.next_happening += 1;
            self.befall(happening);
        }
        if !self.calm && self.now >= self.plan.calm {
            self.calm_down();
        }
    }

    fn befall(&mut self, happening: Happening) {
        let counts = &self.scene.counts;
        match happening {
            Happening::Crash { node, down } => {
                if self.nodes[node].process.is_some() {
                    count(&counts.crashes);
                    self.scene.note(What::Crashed { node });
                    self.bury(node, down);
                }
            }
            Happening::Freeze { node, lasts } => {
                if self.nodes[node].process.is_some() {
                    count(&counts.freezes);
                    self.scene.note(What::Frozen { node });
                    self.nodes[node].frozen_until = Some(self.now + lasts);
                }
            }
            Happening::Stop { node, grace, down } => {
                if let Some(process) = &mut self.nodes[node].process {
                    count(&counts.stops);
                    self.scene.note(What::Stopping { node });
                    process.stop(grace);
                    self.nodes[node].down = down;
                }
            }
            Happening::Weather { node, weather } => {
                if weather == Weather::AWAY {
                    count(&counts.outages);
                }
                let nodes = node.map_or(0..self.nodes.len(), |node| node..node + 1);
                nodes.for_each(|node| self.scene.set_weather(node, weather));
            }
            Happening::Temper { destination, temper } => self.scene.set_temper(destination, temper),
            Happening::RetryNow => self.command(Command::RetryNow),
            Happening::Cancel => self.command(Command::Cancel),
            Happening::Pause { destination } => self.switch(destination, true),
            Happening::Resume { destination } => self.switch(destination, false),
            Happening::SwitchRoute { route } => self.switch_route(route),
            Happening::Replay { count, rate } => self.want_again(count, rate),
        }
    }

    /// Everything that can be mended is mended; what a receiver is like at last is its own affair.
    fn calm_down(&mut self) {
        self.calm = true;
        self.scene.note(What::Calm);
        for node in 0..self.nodes.len() {
            self.scene.set_weather(node, Weather::FINE);
            self.thaw(node);
            self.nodes[node].starts = self.nodes[node].starts.min(self.now);
        }
        for (destination, planned) in self.plan.destinations.iter().enumerate() {
            self.scene.set_temper(destination, planned.at_last);
        }
    }

    /// Whoever paused a destination lets it go on in the end, and asks until that has happened.
    fn resume(&mut self) {
        if !self.calm || self.now < self.next_resume {
            return;
        }
        self.next_resume = self.now + SECOND;
        for destination in 0..self.plan.destinations.len() {
            let (account, id) = self.place(destination);
            let paused = finish(self.truth.destination(account, id))
                .is_ok_and(|destination| destination.switch.paused_at.is_some());
            if paused {
                self.switch(destination, false);
            }
        }
    }

    fn place(&self, destination: usize) -> (AccountId, DestinationId) {
        let place = &self.scene.book().places[destination];
        (place.account, place.id)
    }

    fn command(&mut self, command: impl Fn(AccountId, domain::id::DeliveryId) -> Command) {
        let waiting: Vec<_> = {
            let book = self.scene.book();
            let waiting = book.deliveries.iter().filter(|(_, page)| page.ending.is_none());
            waiting.map(|(id, page)| (page.account, *id)).collect()
        };
        if let (false, Some(process)) = (waiting.is_empty(), self.somebody()) {
            let (account, id) = *self.chance.pick(&waiting);
            process.command(command(account, id));
        }
    }

    fn switch(&self, destination: usize, pause: bool) {
        let (account, id) = self.place(destination);
        if let Some(process) = self.somebody() {
            process.command(Command::Pause(account, id, pause));
        }
    }

    fn switch_route(&self, route: usize) {
        let (account, id) = self.routes[route % self.routes.len()];
        if let Some(process) = self.somebody() {
            process.command(Command::SwitchRoute(account, id));
        }
    }

    fn somebody(&self) -> Option<&Process> {
        let serving = |node: &&Node| {
            node.listens
                && node
                    .process
                    .as_ref()
                    .is_some_and(|process| process.stage() == Stage::Serving && !process.is_stopping())
        };
        let up: Vec<_> = self.nodes.iter().filter(serving).collect();
        if up.is_empty() { None } else { self.chance.pick(&up).process.as_ref() }
    }
}
