//! One world from one seed: nodes around one store, producers, receivers, trouble, and then calm.
//!
//! Time goes in steps of random length. In each, what is due happens, then every node that is neither dead nor frozen
//! runs until its clock has caught up, in an order drawn anew.

mod producers;
mod replays;
mod setup;

use crate::{
    chance::Chance,
    commands::Command,
    faulty::finish,
    intake,
    log::Occurrence,
    node::{NodeParts, Process, ProcessStage, Shared},
    observations::Violation,
    plan::{Intervention, Plan, PlannedEvent},
    planted_bug::PlantedBug,
    promise::Promise,
    shared_world::{SharedWorld, StoreBehaviour, count},
    time::{MILLISECOND, Moment, SECOND},
    verdict,
};
use domain::{
    id::{AccountId, DestinationId, RouteId},
    seal::MasterKeys,
};
use producers::Producer;
use replays::WantedReplay;
use setup::{Disk, WorldClock, sqlite};
use std::sync::Arc;
use store::{Store, memory::MemoryStore};
use tokio::runtime::Handle;

#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    pub plant: Option<PlantedBug>,
    /// The store is a real SQLite file.
    pub sqlite: bool,
    /// What no wake-up names is never found.
    pub no_rescan: bool,
}

/// What became of a world.
#[derive(Debug)]
pub struct WorldReport {
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
    shared: Arc<SharedWorld>,
    chance: Chance,
    node_parts: NodeParts,
    accounts: Vec<AccountId>,
    routes: Vec<(AccountId, RouteId)>,
    nodes: Vec<Node>,
    producers: Vec<Producer>,
    replays: Vec<WantedReplay>,
    now: Moment,
    next_intervention: usize,
    next_resume: Moment,
    /// The store itself, seen without the trouble that nodes have with it.
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

pub fn run(seed: u64, options: Options, trace: bool) -> WorldReport {
    let mut world = World::new(seed, options);
    let inside = world.disk.as_ref().map(|disk| disk.runtime.handle().clone());
    let _inside = inside.as_ref().map(Handle::enter);
    world.set_up();
    world.play();
    verdict::judge(
        &world.shared,
        world.truth.as_ref(),
        &world.accounts,
        &world.sent(),
        &world.replayed(),
        &world.backfilled(),
        world.now,
    );
    let lasted = world.now;
    world.nodes.clear();
    let shared = world.shared;
    let observed = shared.observed();
    WorldReport {
        violations: observed.violations.clone(),
        counts: shared.counts.all(),
        hash: observed.log.hash(),
        lines: if trace { observed.log.lines().collect() } else { Vec::new() },
        lasted,
    }
}

impl World {
    fn new(seed: u64, options: Options) -> Self {
        let plan = Plan::of(seed, if options.sqlite { 1 } else { NODES });
        let shared = SharedWorld::new(seed, plan.nodes.len(), plan.destinations.len(), plan.lease, options);
        let memory = || Shared::Memory(Arc::new(MemoryStore::new(Arc::new(WorldClock(Arc::clone(&shared))))));
        let (store, disk) = if options.sqlite { sqlite() } else { (memory(), None) };
        let chance = Chance::new(seed, 3);
        let truth = store.handle();
        let keys =
            Arc::new(MasterKeys::parse("k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").expect("a key"));
        let node_parts = NodeParts {
            shared: Arc::clone(&shared),
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
        let producer = |(number, event): (usize, &PlannedEvent)| Producer {
            number,
            next: event.at,
            waiting: None,
            confirmed: None,
            refused: false,
            unsure: false,
        };
        let producers = plan.events.iter().enumerate().map(producer).collect();
        Self {
            plan,
            shared,
            chance,
            node_parts,
            accounts: Vec::new(),
            routes: Vec::new(),
            nodes,
            producers,
            replays: Vec::new(),
            now: 0,
            next_intervention: 0,
            next_resume: 0,
            truth,
            disk,
            calm: false,
        }
    }

    fn play(&mut self) {
        loop {
            self.intervene();
            while let Some(landing) = self.shared.landed(self.now) {
                landing();
            }
            self.resume();
            self.producers_proceed();
            self.replays_proceed();
            self.nodes_proceed();
            if self.calm && self.is_quiet() {
                return;
            }
            if self.now > self.plan.calm + PATIENCE {
                let text = format!("not everything has ended {} s after calm", PATIENCE / SECOND);
                return self.shared.observed().broken(self.now, Promise::EverythingEnds, text);
            }
            self.step();
        }
    }

    fn is_quiet(&self) -> bool {
        let answered = self.producers.iter().all(|producer| producer.confirmed.is_some() || producer.refused);
        let expanded = finish(self.truth.open_expansions(None, 1)).is_ok_and(|open| open.is_empty());
        let ended = {
            let observed = self.shared.observed();
            observed.deliveries.values().all(|known| known.ending.is_some()) && observed.nothing_open()
        };
        let up = self.nodes.iter().all(|node| node.process.as_ref().is_some_and(Process::is_serving));
        answered && expanded && ended && up && self.shared.all_landed() && self.replays_are_over()
    }

    /// Time goes on by a step; every node that runs and is not frozen lives through it.
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
                process.run(&self.shared, from, self.now);
            }
        }
        self.shared.time.stand(self.now);
        let mut observed = self.shared.observed();
        observed.troubled.resize(self.nodes.len(), 0);
        for (node, state) in self.nodes.iter().enumerate() {
            if state.frozen_until.is_some() || self.shared.store_behaviour(node) != StoreBehaviour::FINE {
                observed.troubled[node] = self.now;
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
                Some(ProcessStage::Ended(why)) if self.nodes[node].frozen_until.is_none() => {
                    if why != "stopped" && self.shared.plant.is_none() && why.contains("panicked") {
                        self.shared.observed().broken(
                            self.now,
                            Promise::EverythingEnds,
                            format!("node {node}: {why}"),
                        );
                    }
                    self.shared.note(Occurrence::Ended { node, why });
                    let down = self.nodes[node].down;
                    self.remove_process(node, down);
                }
                _ => {}
            }
        }
    }

    fn start(&mut self, node: usize) {
        count(&self.shared.counts.restarts);
        // Now and then it comes back on another machine, where nothing proves that its predecessor is dead.
        if self.chance.happens(0.2) {
            self.nodes[node].proof = format!("folder {node} {}", self.chance.next());
        }
        let proof = self.nodes[node].proof.clone();
        self.nodes[node].process = Some(Process::start(
            &self.node_parts,
            node,
            self.plan.nodes[node].0,
            proof,
            &self.chance,
            self.now,
        ));
        self.nodes[node].down = self.chance.range(1, 1_000) as Moment * MILLISECOND;
    }

    /// The process is gone: its connections are closed, what it had in memory is forgotten.
    fn remove_process(&mut self, node: usize, down: Moment) {
        let Some(process) = self.nodes[node].process.take() else { return };
        let life = process.life;
        self.shared.observed().dies(life, self.now);
        drop(process);
        self.shared.dies(life);
        self.nodes[node].starts = self.now + down;
        self.nodes[node].frozen_until = None;
    }

    fn thaw(&mut self, node: usize) {
        if self.nodes[node].frozen_until.take().is_none() {
            return;
        }
        if let Some(process) = &self.nodes[node].process {
            self.shared.observed().lives[process.life].thawed = self.now;
            self.shared.note(Occurrence::Thawed { node });
        }
    }

    // --- Trouble -----------------------------------------------------------------------------------------------------

    fn intervene(&mut self) {
        while let Some((at, intervention)) = self.plan.interventions.get(self.next_intervention).copied() {
            if at > self.now {
                break;
            }
            self.next_intervention += 1;
            self.apply(intervention);
        }
        if !self.calm && self.now >= self.plan.calm {
            self.calm_down();
        }
    }

    fn apply(&mut self, intervention: Intervention) {
        let counts = &self.shared.counts;
        match intervention {
            Intervention::Crash { node, down } => {
                if self.nodes[node].process.is_some() {
                    count(&counts.crashes);
                    self.shared.note(Occurrence::Crashed { node });
                    self.remove_process(node, down);
                }
            }
            Intervention::Freeze { node, lasts } => {
                if self.nodes[node].process.is_some() {
                    count(&counts.freezes);
                    self.shared.note(Occurrence::Frozen { node });
                    self.nodes[node].frozen_until = Some(self.now + lasts);
                }
            }
            Intervention::Stop { node, grace, down } => {
                if let Some(process) = &mut self.nodes[node].process {
                    count(&counts.stops);
                    self.shared.note(Occurrence::Stopping { node });
                    process.stop(grace);
                    self.nodes[node].down = down;
                }
            }
            Intervention::StoreBehaviour { node, store_behaviour } => {
                if store_behaviour == StoreBehaviour::AWAY {
                    count(&counts.outages);
                }
                let nodes = node.map_or(0..self.nodes.len(), |node| node..node + 1);
                nodes.for_each(|node| self.shared.set_store_behaviour(node, store_behaviour));
            }
            Intervention::ReceiverBehaviour { destination, receiver_behaviour } => {
                self.shared.set_receiver_behaviour(destination, receiver_behaviour)
            }
            Intervention::RetryNow => self.command(Command::RetryNow),
            Intervention::Cancel => self.command(Command::Cancel),
            Intervention::Pause { destination } => self.switch(destination, true),
            Intervention::Resume { destination } => self.switch(destination, false),
            Intervention::SwitchRoute { route } => self.switch_route(route),
            Intervention::Replay { count, rate } => self.plan_replay(count, rate),
            Intervention::Backfill { rate } => self.plan_backfill(rate),
        }
    }

    /// Everything that can be mended is mended; what a receiver is like at last is its own affair.
    fn calm_down(&mut self) {
        self.calm = true;
        self.shared.note(Occurrence::Calm);
        for node in 0..self.nodes.len() {
            self.shared.set_store_behaviour(node, StoreBehaviour::FINE);
            self.thaw(node);
            self.nodes[node].starts = self.nodes[node].starts.min(self.now);
        }
        for (destination, planned) in self.plan.destinations.iter().enumerate() {
            self.shared.set_receiver_behaviour(destination, planned.at_last);
        }
    }

    /// What is paused goes on in the end: that is asked for until it has happened.
    fn resume(&mut self) {
        if !self.calm || self.now < self.next_resume {
            return;
        }
        self.next_resume = self.now + SECOND;
        for destination in 0..self.plan.destinations.len() {
            let (account, id) = self.known_destination(destination);
            let paused = finish(self.truth.destination(account, id))
                .is_ok_and(|destination| destination.switch.paused_at.is_some());
            if paused {
                self.switch(destination, false);
            }
        }
    }

    fn known_destination(&self, destination: usize) -> (AccountId, DestinationId) {
        let known = &self.shared.observed().destinations[destination];
        (known.account, known.id)
    }

    fn command(&mut self, command: impl Fn(AccountId, domain::id::DeliveryId) -> Command) {
        let waiting: Vec<_> = {
            let observed = self.shared.observed();
            let waiting = observed.deliveries.iter().filter(|(_, known)| known.ending.is_none());
            waiting.map(|(id, known)| (known.account, *id)).collect()
        };
        if let (false, Some(process)) = (waiting.is_empty(), self.serving_process()) {
            let (account, id) = *self.chance.pick(&waiting);
            process.command(command(account, id));
        }
    }

    fn switch(&self, destination: usize, pause: bool) {
        let (account, id) = self.known_destination(destination);
        if let Some(process) = self.serving_process() {
            process.command(Command::Pause(account, id, pause));
        }
    }

    fn switch_route(&self, route: usize) {
        let (account, id) = self.routes[route % self.routes.len()];
        if let Some(process) = self.serving_process() {
            process.command(Command::SwitchRoute(account, id));
        }
    }

    fn serving_process(&self) -> Option<&Process> {
        let listening =
            self.nodes.iter().filter(|node| node.listens).filter_map(|node| node.process.as_ref());
        let up: Vec<_> = listening.filter(|process| process.is_serving()).collect();
        if up.is_empty() { None } else { Some(*self.chance.pick(&up)) }
    }
}
