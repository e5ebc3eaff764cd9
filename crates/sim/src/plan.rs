//! What a seed stands for: how large its world is, what its receivers are like, and what befalls it when.

use crate::{
    chance::Chance,
    shared_world::{ReceiverBehaviour, StoreBehaviour},
    time::{MILLISECOND, Moment, SECOND},
};
use domain::{
    destination::{Ordering, RateLimit},
    gate::{BreakerSettings, GateSettings},
    limits,
    member::Role,
    retry::RetryPolicy,
};
use std::time::Duration;

pub(crate) const ACCOUNTS: usize = 2;
pub(crate) const TYPES: [&str; 3] = ["order.paid", "order.sent", "user.left"];

#[derive(Debug)]
pub(crate) struct Plan {
    /// What each node is there for, and when it comes.
    pub(crate) nodes: Vec<(Role, Moment)>,
    /// The longest step: how finely the nodes' lives are interwoven.
    pub(crate) grain: Moment,
    pub(crate) lease: Duration,
    pub(crate) rescan: Duration,
    pub(crate) gate: GateSettings,
    pub(crate) max_in_flight: usize,
    pub(crate) ingest: IngestPlan,
    pub(crate) destinations: Vec<PlannedDestination>,
    pub(crate) events: Vec<PlannedEvent>,
    /// By time.
    pub(crate) interventions: Vec<(Moment, Intervention)>,
    /// From here on nothing bad happens.
    pub(crate) calm: Moment,
}

/// Where a world's ingest differs from the product's; None where it does not.
#[derive(Debug, Default)]
pub(crate) struct IngestPlan {
    pub(crate) queue: Option<usize>,
    pub(crate) fanout_inline: Option<usize>,
    pub(crate) fanout: Option<usize>,
    pub(crate) fanout_ordered: Option<usize>,
    pub(crate) match_rounds: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct PlannedDestination {
    pub(crate) account: usize,
    pub(crate) limit: u32,
    pub(crate) timeout: Duration,
    pub(crate) policy: RetryPolicy,
    /// The patterns of each route that leads to it.
    pub(crate) routes: Vec<Vec<&'static str>>,
    pub(crate) ordering: Ordering,
    /// Without order, its deliveries are numbered all the same.
    pub(crate) sequence: bool,
    pub(crate) rate_limit: Option<RateLimit>,
    /// How it answers once all is calm.
    pub(crate) at_last: ReceiverBehaviour,
}

#[derive(Debug)]
pub(crate) struct PlannedEvent {
    pub(crate) at: Moment,
    pub(crate) account: usize,
    pub(crate) event_type: &'static str,
    pub(crate) payload: usize,
    pub(crate) ordering_key: Option<&'static str>,
    /// How long after it was sent it is to be delivered.
    pub(crate) later: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Intervention {
    Crash { node: usize, down: Moment },
    Freeze { node: usize, lasts: Moment },
    Stop { node: usize, grace: Duration, down: Moment },
    // None: of all nodes.
    StoreBehaviour { node: Option<usize>, store_behaviour: StoreBehaviour },
    ReceiverBehaviour { destination: usize, receiver_behaviour: ReceiverBehaviour },
    RetryNow,
    Cancel,
    Pause { destination: usize },
    Resume { destination: usize },
    // Counted over all routes of the world, as often around as needed.
    SwitchRoute { route: usize },
    // Some of what has ended is asked for once more.
    Replay { count: usize, rate: u32 },
    // All events of an account go through the routes of then.
    Backfill { rate: u32 },
}

impl Plan {
    pub(crate) fn of(seed: u64, most_nodes: usize) -> Self {
        let chance = Chance::new(seed, 0);
        let count = chance.range(1, most_nodes as u64) as usize;
        let lasts = chance.range(3, 18) as Moment * SECOND;
        let destinations: Vec<_> =
            (0..chance.range(2, 6) as usize).map(|n| destination(&chance, n)).collect();
        let events = (0..chance.range(5, 50)).map(|_| planned_event(&chance, lasts)).collect();
        let mut plan = Self {
            nodes: (0..count).map(|n| node(&chance, n, count, lasts)).collect(),
            grain: *chance.pick(&[5, 20, 50, 100]) * MILLISECOND,
            lease: chance.millis(5_000, 10_000),
            rescan: chance.millis(1_000, 15_000),
            gate: gate(&chance),
            ingest: IngestPlan::default(),
            max_in_flight: if chance.happens(0.1) { 3 } else { limits::IN_FLIGHT },
            destinations,
            events,
            interventions: Vec::new(),
            calm: lasts + 2 * SECOND,
        };
        // A breaker lets one probe through at a time: a destination that never heals would take for ever to give up on.
        if plan.gate.breaker.enabled {
            plan.destinations
                .iter_mut()
                .for_each(|destination| destination.at_last = ReceiverBehaviour::Fine);
        }
        plan.trouble(&chance, lasts);
        plan.paces(&Chance::new(seed, 4));
        plan.replays(&Chance::new(seed, 5));
        plan.admissions(&Chance::new(seed, 6), lasts);
        let chance = Chance::new(seed, 7);
        plan.destinations.iter_mut().for_each(|destination| destination.sequence = chance.happens(0.3));
        plan.interventions.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Order, rates and schedules.
    fn paces(&mut self, chance: &Chance) {
        for destination in &mut self.destinations {
            destination.ordering = match chance.range(0, 9) {
                0 | 1 => Ordering::Strict,
                2 | 3 => Ordering::Key,
                _ => Ordering::None,
            };
            // One after the other: those of a destination that never heals would take for ever to give up on.
            if destination.ordering != Ordering::None {
                destination.at_last = ReceiverBehaviour::Fine;
            }
            let rate = RateLimit { requests: chance.range(1, 8) as u32, per_seconds: 1 };
            destination.rate_limit = chance.happens(0.2).then_some(rate);
            if destination.rate_limit.is_some() {
                destination.at_last = ReceiverBehaviour::Fine;
            }
        }
        for event in &mut self.events {
            event.ordering_key = *chance.pick(&[None, Some("a"), Some("b")]);
            event.later = chance.happens(0.15).then(|| chance.millis(100, 4_000));
        }
    }

    /// In three worlds of ten, one after the other and at any pace: the last ones when everything else is calm.
    fn replays(&mut self, chance: &Chance) {
        let most = if chance.happens(0.3) { 3 } else { 0 };
        for _ in 0..chance.range(0, most) {
            let at = chance.range(1_000, (self.calm / MILLISECOND) as u64) as Moment * MILLISECOND;
            let (count, rate) = (chance.range(1, 12) as usize, *chance.pick(&[4, 20, 1_000]));
            self.interventions.push((at, Intervention::Replay { count, rate }));
        }
        let most = if chance.happens(0.3) { 3 } else { 0 };
        for _ in 0..chance.range(0, most) {
            let at = chance.range(1_000, (self.calm / MILLISECOND) as u64) as Moment * MILLISECOND;
            let rate = *chance.pick(&[4, 20, 1_000]);
            // Something must have been missed: a route is switched, and back again a while before.
            let route = chance.next() as usize;
            for switched_at in [at / 6, at * 2 / 3] {
                self.interventions.push((switched_at, Intervention::SwitchRoute { route }));
            }
            self.interventions.push((at, Intervention::Backfill { rate }));
        }
    }

    /// More routes, which are switched now and then, and an ingest that is small enough to be exhausted.
    fn admissions(&mut self, chance: &Chance, lasts: Moment) {
        for destination in &mut self.destinations {
            // What comes at a slow pace must not become so much that its end takes for ever.
            let more = if destination.rate_limit.is_some() { 0 } else { chance.range(0, 2) };
            destination.routes.extend((0..more).map(|_| patterns(chance)));
        }
        let sometimes = |part, low, high| {
            let drawn = chance.range(low, high) as usize;
            chance.happens(part).then_some(drawn)
        };
        self.ingest = IngestPlan {
            queue: sometimes(0.2, 1, 3),
            fanout_inline: sometimes(0.5, 1, 3),
            fanout: sometimes(0.1, 2, 5),
            fanout_ordered: sometimes(0.1, 0, 2),
            match_rounds: sometimes(0.3, 0, 1),
        };
        let when = || chance.range(0, (lasts / MILLISECOND) as u64) as Moment * MILLISECOND;
        // Several at one moment: what is small is full then.
        if chance.happens(0.4) {
            let (at, first) = (when(), chance.index(self.events.len()));
            let many = chance.range(3, 12) as usize;
            self.events.iter_mut().skip(first).take(many).for_each(|event| event.at = at);
        }
        // A switch or two, or so many that events are matched in vain.
        let most = *chance.pick(&[0, 0, 2, 4, 20]);
        for _ in 0..chance.range(0, most) {
            let route = chance.next() as usize;
            self.interventions.push((when(), Intervention::SwitchRoute { route }));
        }
    }

    fn trouble(&mut self, chance: &Chance, lasts: Moment) {
        // One world in eight is a quiet one: there nothing may be doubled at all.
        if chance.happens(0.125) {
            return;
        }
        let when = |chance: &Chance| chance.range(100, (lasts / MILLISECOND) as u64) as Moment * MILLISECOND;
        let pause = |chance: &Chance, low, high| chance.range(low, high) as Moment * MILLISECOND;
        for _ in 0..chance.range(0, 3 + self.nodes.len() as u64) {
            let (at, node) = (when(chance), chance.index(self.nodes.len()));
            let intervention = match chance.range(0, 9) {
                0..=3 => Intervention::Crash { node, down: pause(chance, 1, 4_000) },
                4..=6 => {
                    let long = chance.happens(0.5);
                    let lasts = if long { pause(chance, 5_000, 16_000) } else { pause(chance, 10, 3_000) };
                    Intervention::Freeze { node, lasts }
                }
                _ => {
                    Intervention::Stop { node, grace: chance.millis(0, 4_000), down: pause(chance, 1, 3_000) }
                }
            };
            self.interventions.push((at, intervention));
        }
        for _ in 0..chance.range(0, 3) {
            let (at, until) = (when(chance), pause(chance, 100, 6_000));
            let node = chance.happens(0.5).then(|| chance.index(self.nodes.len()));
            let store_behaviour =
                *chance.pick(&[StoreBehaviour::SLOW, StoreBehaviour::FLAKY, StoreBehaviour::AWAY]);
            self.interventions.push((at, Intervention::StoreBehaviour { node, store_behaviour }));
            self.interventions.push((
                at + until,
                Intervention::StoreBehaviour { node, store_behaviour: StoreBehaviour::FINE },
            ));
        }
        for destination in 0..self.destinations.len() {
            for _ in 0..chance.range(0, 2) {
                use ReceiverBehaviour::*;
                let all =
                    [Slow, Slow, Sick, Sick, Busy, Busy, Hangs, Resets, Rejects, Moody, Moody, Moody, Gone];
                let (at, receiver_behaviour) = (when(chance), *chance.pick(&all));
                self.interventions
                    .push((at, Intervention::ReceiverBehaviour { destination, receiver_behaviour }));
                let until = at + pause(chance, 100, 5_000);
                self.interventions
                    .push((until, Intervention::ReceiverBehaviour { destination, receiver_behaviour: Fine }));
            }
        }
        for _ in 0..chance.range(0, 3) {
            let intervention =
                if chance.happens(0.6) { Intervention::RetryNow } else { Intervention::Cancel };
            self.interventions.push((when(chance), intervention));
        }
        if chance.happens(0.3) {
            let (destination, at) = (chance.index(self.destinations.len()), when(chance));
            self.interventions.push((at, Intervention::Pause { destination }));
            self.interventions.push((at + pause(chance, 100, 4_000), Intervention::Resume { destination }));
        }
    }
}

/// The first one is there from the beginning and does everything.
fn node(chance: &Chance, number: usize, count: usize, lasts: Moment) -> (Role, Moment) {
    let draw = chance.range(0, 9);
    let role = match draw {
        _ if number == 0 => Role::All,
        0 if count > 2 => Role::Api,
        1 => Role::Worker,
        _ => Role::All,
    };
    let late = number > 0 && chance.happens(0.3);
    let comes = if late { chance.range(0, (lasts / MILLISECOND) as u64) } else { chance.range(0, 500) };
    (role, comes as Moment * MILLISECOND)
}

fn destination(chance: &Chance, number: usize) -> PlannedDestination {
    let steps = chance.range(0, 4);
    // Whole seconds: a store that keeps documents keeps no less.
    let schedule = (0..steps).map(|_| Duration::from_secs(chance.range(1, 3))).collect();
    let patterns = patterns(chance);
    PlannedDestination {
        account: number % ACCOUNTS,
        limit: chance.range(1, 4) as u32,
        timeout: Duration::from_secs(chance.range(1, 3)),
        policy: RetryPolicy {
            schedule,
            jitter: *chance.pick(&[0.0, 0.2]),
            expire_after: Duration::from_secs(if chance.happens(0.1) { chance.range(3, 10) } else { 3_600 }),
            retry_statuses: Vec::new(),
        },
        routes: vec![patterns],
        ordering: Ordering::None,
        sequence: false,
        rate_limit: None,
        at_last: if chance.happens(0.15) {
            *chance.pick(&[ReceiverBehaviour::Sick, ReceiverBehaviour::Rejects])
        } else {
            ReceiverBehaviour::Fine
        },
    }
}

fn patterns(chance: &Chance) -> Vec<&'static str> {
    match chance.range(0, 3) {
        0 => vec!["order.*"],
        1 => vec!["user.left", "order.paid"],
        _ => vec!["*"],
    }
}

fn planned_event(chance: &Chance, lasts: Moment) -> PlannedEvent {
    let large = chance.happens(0.05);
    PlannedEvent {
        at: chance.range(0, (lasts / MILLISECOND) as u64) as Moment * MILLISECOND,
        account: chance.index(ACCOUNTS),
        event_type: TYPES[chance.index(TYPES.len())],
        payload: if large { limits::CARRIED_BYTES + 1 } else { chance.range(0, 64) as usize },
        ordering_key: None,
        later: None,
    }
}

fn gate(chance: &Chance) -> GateSettings {
    GateSettings {
        ladder: [1, 2, 4].map(Duration::from_secs).to_vec(),
        breaker: BreakerSettings {
            enabled: chance.happens(0.5),
            failures: chance.range(2, 8) as u32,
            open: Duration::from_secs(1),
            max_open: Duration::from_secs(4),
            ..BreakerSettings::default()
        },
    }
}
