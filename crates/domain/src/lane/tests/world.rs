//! A small seeded world around one lane: a store, commits that are announced late, reads that are answered later than
//! they looked, requests that meet anything or are given up, settlements that become durable when they like, and people
//! who pause, disable, cancel and probe. After every happening the lane's promises are checked; then the trouble ends,
//! and everything that was ever committed must end too. There is no rescan here: the lane lives by its own wake-ups.

// Before the modules that speak with them.
macro_rules! promise {
    ($holds:expr, $($text:tt)*) => { if !$holds { return Err(format!($($text)*)); } };
}

macro_rules! tell {
    ($world:expr, $($text:tt)*) => {
        if $world.telling {
            let line = format!("{:>12} {}", $world.now.micros() - START, format!($($text)*));
            $world.story.push(line);
        }
    };
}

mod dice;
mod happenings;
mod promises;
mod seen;

use super::*;
use crate::{gate::BreakerSettings, retry::RetryPolicy};
use dice::Dice;
use seen::Seen;
use std::collections::HashSet;

/// Worlds in an ordinary run. `POSTHASTE_WORLDS=500000` runs more.
const WORLDS: u64 = 2_000;
/// While trouble lasts, in milliseconds.
const TROUBLE: u64 = 25_000;
/// More happenings than this in one world: something runs in circles.
const MANY: usize = 20_000;

#[test]
fn the_lane_never_forgets_a_delivery_and_never_breaks_a_promise() {
    let worlds = std::env::var("POSTHASTE_WORLDS").ok().and_then(|text| text.parse().ok()).unwrap_or(WORLDS);
    let mut seen = Seen::default();
    for seed in 0..worlds {
        let mut world = World::new(seed, false);
        if let Err(broken) = world.run() {
            let mut again = World::new(seed, true);
            let _ = again.run();
            let story: Vec<_> = again.story.iter().rev().take(80).rev().cloned().collect();
            panic!("world {seed}: {broken}\n{}", story.join("\n"));
        }
        seen.add(&world.seen);
    }
    seen.assert_interesting();
}

/// What is still to happen.
#[derive(Debug, Clone)]
enum Happening {
    /// A transaction ends: the row is there from now on, or never.
    Commit(Delivery, Word),
    /// With the moment at which its row was written.
    Announce(Delivery, Word, Timestamp),
    /// The store looks; the answer is on its way from now.
    Read(u64),
    Answer(u64),
    Sweep(TrackQuery),
    Swept(TrackQuery, Vec<TrackHead>, bool),
    /// The store numbers a scheduled delivery, in this track; and the lane hears of it.
    Numbering(Delivery, i64),
    Numbered(DeliveryId, Position),
    Respond(DeliveryId),
    Abandon(DeliveryId),
    Durable(usize),
    Told(usize),
    Publish,
    Meddle,
    /// The destination has been read again.
    Configured,
    Refresh,
    /// The lane's own alarm clock.
    Wake,
    /// The dispatcher comes round again.
    Round,
}

/// How a commit is announced.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Word {
    Arrived,
    RolledBack,
    /// It is not known how it ended; it did commit …
    UnknownCommitted,
    /// … or it did not.
    UnknownRolledBack,
    /// By another way (a replay, another node): never expected.
    Look,
}

#[derive(Debug)]
struct Read {
    query: WindowQuery,
    rows: Vec<(Delivery, Timestamp)>,
    fails: bool,
}

#[derive(Debug)]
struct Settling {
    /// As it was when it started.
    delivery: Delivery,
    settled: Settled,
}

#[derive(Debug, Clone, Copy)]
struct End {
    at: Timestamp,
    cancelled: bool,
}

struct World {
    dice: Dice,
    now: Timestamp,
    agenda: BTreeMap<(Timestamp, u64), Happening>,
    made: u64,
    /// What travels with a delivery is the moment its row was looked at.
    lane: Lane<Timestamp>,
    settings: LaneSettings,
    gate: GateSettings,
    policy: RetryPolicy,
    /// The store: rows that wait, and how the others ended.
    rows: BTreeMap<DeliveryId, Delivery>,
    ended: HashMap<DeliveryId, End>,
    /// Commits and other words on their way to the lane.
    unannounced: usize,
    reads: BTreeMap<u64, Read>,
    /// Numbers given so far.
    sequence: i64,
    numbering: usize,
    sweeping: usize,
    open: BTreeMap<DeliveryId, (Delivery, Timestamp)>,
    settling: Vec<Settling>,
    unflushed: HashSet<DeliveryId>,
    /// By the last 429: nothing may start before …
    held_until: Timestamp,
    /// … and then one at a time until one that started since has succeeded or was rejected.
    probing_from: Option<Timestamp>,
    last_hold_ends: Timestamp,
    calm: bool,
    wake_at: Option<Timestamp>,
    seen: Seen,
    story: Vec<String>,
    telling: bool,
}

/// Tracks found at once.
const SWEPT: usize = 2;
const START: i64 = 1_790_000_000_000_000;

impl World {
    fn new(seed: u64, telling: bool) -> Self {
        let mut dice = Dice(seed);
        let ladder = [2, 5].map(Duration::from_secs).to_vec();
        let breaker = BreakerSettings {
            failures: 4,
            open: Duration::from_secs(2),
            max_open: Duration::from_secs(8),
            ..BreakerSettings::default()
        };
        let mut world = Self {
            now: Timestamp::from_micros(START),
            agenda: BTreeMap::new(),
            made: 0,
            lane: Lane::default(),
            settings: settings(dice.between(1, 5) as u32),
            gate: GateSettings { ladder, breaker },
            policy: RetryPolicy {
                schedule: [1, 2, 4].map(Duration::from_secs).to_vec(),
                expire_after: Duration::from_secs(dice.between(5, 60)),
                ..RetryPolicy::default()
            },
            rows: BTreeMap::new(),
            ended: HashMap::new(),
            unannounced: 0,
            reads: BTreeMap::new(),
            sequence: 0,
            numbering: 0,
            sweeping: 0,
            open: BTreeMap::new(),
            settling: vec![],
            unflushed: HashSet::new(),
            held_until: Timestamp::MIN,
            probing_from: None,
            last_hold_ends: Timestamp::MIN,
            calm: false,
            wake_at: None,
            seen: Seen::default(),
            story: vec![],
            telling,
            dice,
        };
        world.settings.expire_after = world.policy.expire_after;
        world.settings.ordering = any_ordering(&mut world.dice);
        for _ in 0..world.dice.between(10, 60) {
            let after = world.dice.below(TROUBLE);
            world.plan(after, Happening::Publish);
        }
        for _ in 0..world.dice.below(20) {
            let after = world.dice.below(TROUBLE);
            world.plan(after, Happening::Meddle);
        }
        for _ in 0..world.dice.below(10) {
            let after = world.dice.below(TROUBLE);
            world.plan(after, Happening::Refresh);
        }
        world
    }

    fn run(&mut self) -> Result<(), String> {
        let trouble_ends = Timestamp::from_micros(START).plus(Duration::from_millis(TROUBLE));
        // Some lanes hear of deliveries before their destination has been read.
        if self.dice.chance(80) {
            self.lane.configured(self.settings.clone());
        }
        for _ in 0..MANY {
            let next = self.agenda.pop_first();
            let at = next.as_ref().map_or(Timestamp::MAX, |((at, _), _)| *at);
            if !self.calm && at >= trouble_ends {
                if let Some((key, happening)) = next {
                    self.agenda.insert(key, happening);
                }
                self.now = trouble_ends.max(self.now);
                self.calm_down();
            } else if let Some((_, happening)) = next {
                self.now = self.now.max(at);
                self.happen(happening)?;
            } else {
                return self.check_the_end();
            }
            self.pump()?;
            self.check()?;
        }
        Err(format!("still going after {MANY} happenings"))
    }

    fn calm_down(&mut self) {
        tell!(self, "the trouble ends");
        self.calm = true;
        let resumed_at = Some(self.now).filter(|_| self.settings.mode != LaneMode::Deliver);
        self.settings.mode = match self.dice.chance(20) {
            true => LaneMode::End { with: DISABLED, since: self.now },
            false => LaneMode::Deliver,
        };
        self.settings.resumed_at = resumed_at.or(self.settings.resumed_at);
        self.lane.configured(self.settings.clone());
    }

    fn plan(&mut self, after_millis: u64, happening: Happening) {
        self.made += 1;
        let micros = after_millis * 1_000 + self.dice.below(1_000);
        self.agenda.insert((self.now.plus(Duration::from_micros(micros)), self.made), happening);
    }
}

fn brief(happening: &Happening) -> String {
    match happening {
        Happening::Commit(delivery, word) => format!("Commit {} {word:?}", delivery.id),
        Happening::Announce(delivery, word, _) => format!("Announce {} {word:?}", delivery.id),
        other => format!("{other:?}"),
    }
}

fn any_ordering(dice: &mut Dice) -> Ordering {
    match dice.below(4) {
        0 => Ordering::Strict,
        1 => Ordering::Key,
        _ => Ordering::None,
    }
}

/// The track of its ordering key.
fn key_of(id: DeliveryId) -> i64 {
    2 + (id.uuid().as_u128() % 3) as i64
}
