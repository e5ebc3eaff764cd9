//! A small seeded world around one lane: a store, commits that are announced late, reads that are answered later than
//! they looked, requests that meet anything or are given up, settlements that become durable when they like, and people
//! who pause, disable, cancel and probe. After every happening the lane's promises are checked; then the trouble ends,
//! and everything that was ever committed must end too. There is no rescan here: the lane lives by its own wake-ups.

use super::*;
use crate::{
    delivery::{Circumstances, settle},
    gate::BreakerSettings,
    outcome::{Classified, Fault, ResponseFacts, classify, classify_fault},
    retry::RetryPolicy,
};
use std::collections::HashSet;

/// Worlds in an ordinary run. `POSTHASTE_WORLDS=500000` runs more.
const WORLDS: u64 = 2_000;
/// While trouble lasts, in milliseconds.
const TROUBLE: u64 = 25_000;
/// More happenings than this in one world: somebody runs in circles.
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

/// How often the interesting things happened: a world in which nothing happens proves nothing.
#[derive(Debug, Default, Clone)]
struct Seen {
    delivered: u64,
    ended_otherwise: u64,
    throttled: u64,
    abandoned: u64,
    fetches: u64,
    full_fetches: u64,
    ignored_while_expected: u64,
    settled_meanwhile: u64,
    dropped_stale: u64,
    started_after_a_fresh_cancel: u64,
    slots_full: u64,
    pushed_back: u64,
    in_order: u64,
    turns: u64,
    reordered: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        for (sum, part) in self.all_mut().into_iter().zip(other.clone().all_mut()) {
            *sum += *part;
        }
    }

    fn all_mut(&mut self) -> [&mut u64; 15] {
        [
            &mut self.delivered,
            &mut self.ended_otherwise,
            &mut self.throttled,
            &mut self.abandoned,
            &mut self.fetches,
            &mut self.full_fetches,
            &mut self.ignored_while_expected,
            &mut self.settled_meanwhile,
            &mut self.dropped_stale,
            &mut self.started_after_a_fresh_cancel,
            &mut self.slots_full,
            &mut self.pushed_back,
            &mut self.in_order,
            &mut self.turns,
            &mut self.reordered,
        ]
    }

    fn assert_interesting(&mut self) {
        let shown = format!("{self:?}");
        assert!(self.all_mut().into_iter().all(|count| *count > 100), "too quiet: {shown}");
    }
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
    Sweep(TrackWish),
    Swept(TrackWish, Vec<Head>, bool),
    /// A scheduled delivery takes its turn, in this track; and the lane hears of it.
    Turning(Delivery, i64),
    Turned(DeliveryId, Position),
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
    /// Nobody knows how it ended; it did commit …
    UnknownCommitted,
    /// … or it did not.
    UnknownRolledBack,
    /// By another way (a replay, another node): never expected.
    Look,
}

#[derive(Debug)]
struct Read {
    wish: Wish,
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
    turning: usize,
    sweeping: usize,
    open: BTreeMap<DeliveryId, (Delivery, Timestamp)>,
    settling: Vec<Settling>,
    unflushed: HashSet<DeliveryId>,
    /// By the last 429: nothing may start before …
    held_until: Timestamp,
    /// … and then one at a time until one that started since has succeeded.
    probing_from: Option<Timestamp>,
    last_hold_ends: Timestamp,
    calm: bool,
    wake_at: Option<Timestamp>,
    seen: Seen,
    story: Vec<String>,
    telling: bool,
}

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
            turning: 0,
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
        let resumed_at = Some(self.now).filter(|_| self.settings.mode != Mode::Deliver);
        self.settings.mode = match self.dice.chance(20) {
            true => Mode::End { with: DISABLED, since: self.now },
            false => Mode::Deliver,
        };
        self.settings.resumed_at = resumed_at.or(self.settings.resumed_at);
        self.lane.configured(self.settings.clone());
    }

    // --- What happens ----------------------------------------------------------------------------------------------

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        tell!(self, "{}", brief(&happening));
        match happening {
            Happening::Publish => self.publish(),
            Happening::Commit(delivery, word) => {
                if !matches!(word, Word::RolledBack | Word::UnknownRolledBack) {
                    let mut row = delivery.clone();
                    if row.position.rank == Position::END {
                        self.number(&mut row);
                    }
                    self.rows.insert(row.id, row);
                }
                let after = self.dice.delay();
                self.plan(after, Happening::Announce(delivery, word, self.now));
            }
            Happening::Announce(delivery, word, written_at) => self.announce(delivery, word, written_at),
            Happening::Read(read) => self.look_into_the_store(read),
            Happening::Answer(read) => self.answer(read),
            Happening::Sweep(wish) => self.sweep(wish),
            Happening::Swept(wish, heads, failed) => {
                self.sweeping -= 1;
                match failed {
                    true => self.lane.sweep_failed(&wish),
                    false => self.lane.swept(&wish, &heads, heads.len() < SWEPT, self.now),
                }
            }
            Happening::Turning(delivery, track) => self.give_turn(&delivery, track),
            Happening::Turned(id, place) => {
                self.turning -= 1;
                self.lane.turned(id, place);
            }
            Happening::Respond(id) => self.respond(id)?,
            Happening::Abandon(id) => {
                let (delivery, _) = self.open.remove(&id).ok_or("abandoned what is not open")?;
                self.lane.abandoned(id, delivery.position);
                self.seen.abandoned += 1;
            }
            Happening::Durable(index) => self.make_durable(index),
            Happening::Told(index) => {
                let settling = &self.settling[index];
                self.unflushed.remove(&settling.delivery.id);
                self.seen.settled_meanwhile += u64::from(self.lane.fetching);
                let track = settling.delivery.position.track;
                self.lane.flushed(settling.delivery.id, track, &settling.settled, self.now);
            }
            Happening::Meddle => self.meddle(),
            Happening::Configured => self.lane.configured(self.settings.clone()),
            Happening::Refresh => self.lane.refresh(self.now),
            Happening::Wake => self.wake_at = None,
            Happening::Round => {}
        }
        Ok(())
    }

    fn publish(&mut self) {
        for _ in 0..self.dice.between(1, 4) {
            let word = match self.dice.below(20) {
                0 => Word::RolledBack,
                1 => Word::UnknownCommitted,
                2 => Word::UnknownRolledBack,
                3 | 4 => Word::Look,
                _ => Word::Arrived,
            };
            let later = match self.dice.below(10) {
                0 => self.dice.below(20_000),
                1 => self.dice.below(1_500),
                _ => 0,
            };
            self.made += 1;
            let id = DeliveryId::at(self.now, self.dice.next().into());
            let due_at = self.now.plus(Duration::from_millis(later));
            let track = self.track();
            let position = match self.settings.ordering {
                Ordering::None => Position::due(due_at, id),
                _ if later > 0 => Position::awaits_time(due_at, id),
                _ => Position::ordered(track, Position::END, id),
            };
            let delivery = Delivery {
                id,
                origin: id,
                position,
                due_at,
                available_at: due_at,
                created_at: self.now,
                ..super::delivery(0)
            };
            if word != Word::Look {
                self.lane.expected(id);
            }
            self.unannounced += 1;
            let after = self.dice.delay();
            self.plan(after, Happening::Commit(delivery, word));
        }
    }

    fn announce(&mut self, delivery: Delivery, word: Word, written_at: Timestamp) {
        self.unannounced -= 1;
        match word {
            Word::Arrived => {
                let room = self.dice.chance(90);
                self.lane.arrived(delivery, written_at, room, self.now);
            }
            Word::RolledBack => self.lane.forgotten(delivery.id),
            Word::UnknownCommitted | Word::UnknownRolledBack => {
                self.lane.forgotten(delivery.id);
                self.lane.look_at(delivery.position);
            }
            Word::Look if self.dice.chance(50) => self.lane.look(delivery.position),
            Word::Look => self.lane.look_at(delivery.position),
        }
        // The destination is read soon after its lane is first heard of.
        self.lane.configured(self.settings.clone());
    }

    fn look_into_the_store(&mut self, number: u64) {
        let Some(read) = self.reads.get_mut(&number) else { return };
        let Wish { from, last_track, limit, .. } = read.wish;
        let asked = |row: &&Delivery| row.position >= from && row.position.track <= last_track;
        let mut rows: Vec<_> = self.rows.values().filter(asked).cloned().collect();
        rows.sort_by_key(|row| row.position);
        rows.truncate(limit);
        read.rows = rows.into_iter().map(|row| (row, self.now)).collect();
        let after = self.dice.delay();
        self.plan(after, Happening::Answer(number));
    }

    fn answer(&mut self, number: u64) {
        let Some(read) = self.reads.remove(&number) else { return };
        self.seen.fetches += 1;
        self.seen.full_fetches += u64::from(read.rows.len() == read.wish.limit);
        let expected = |(row, _): &&(Delivery, Timestamp)| {
            self.lane.known.get(&row.id).is_some_and(|known| known.stage == Stage::Expected)
        };
        self.seen.ignored_while_expected += read.rows.iter().filter(expected).count() as u64;
        if read.fails {
            self.lane.fetch_failed(&read.wish);
        } else {
            // As the dispatcher does: by what the lane says of itself.
            let ordering = self.lane.ordering();
            let row = |(delivery, cargo): (Delivery, Timestamp)| {
                let track = match ordering {
                    Ordering::None => Position::UNORDERED,
                    Ordering::Strict => Position::STRICT,
                    Ordering::Key => key_of(delivery.id),
                };
                Row { delivery, cargo, track }
            };
            self.lane.fetched(&read.wish, read.rows.into_iter().map(row).collect(), self.now);
        }
    }

    /// The first row of each track, from this one on.
    fn sweep(&mut self, wish: TrackWish) {
        let mut heads = BTreeMap::<i64, Head>::new();
        for row in self.rows.values().filter(|row| row.position.track >= wish.from) {
            let head = Head { first: row.position, due_at: row.due_at };
            let lowest = heads.entry(row.position.track).or_insert(head);
            if head.first < lowest.first {
                *lowest = head;
            }
        }
        let heads = heads.into_values().take(SWEPT).collect();
        let failed = !self.calm && self.dice.chance(8);
        let after = self.dice.delay();
        self.plan(after, Happening::Swept(wish, heads, failed));
    }

    /// The destination's next number.
    fn number(&mut self, row: &mut Delivery) {
        self.sequence += 1;
        row.sequence = Some(self.sequence);
        row.position.rank = self.sequence;
    }

    fn give_turn(&mut self, delivery: &Delivery, track: i64) {
        let mut place = delivery.position;
        let fails = !self.calm && self.dice.chance(8);
        let waits = |row: &Delivery| row.position.track == Position::AWAITS_TIME;
        if let Some(mut row) = self.rows.get(&delivery.id).filter(|row| !fails && waits(row)).cloned() {
            row.position.track = track;
            self.number(&mut row);
            place = Position::ordered(track, Position::END, row.id);
            self.rows.insert(row.id, row);
            self.seen.turns += 1;
        }
        let after = self.dice.delay();
        self.plan(after, Happening::Turned(delivery.id, place));
    }

    fn track(&mut self) -> i64 {
        match self.settings.ordering {
            Ordering::None => Position::UNORDERED,
            Ordering::Strict => Position::STRICT,
            Ordering::Key => self.dice.between(2, 4) as i64,
        }
    }

    fn respond(&mut self, id: DeliveryId) -> Result<(), String> {
        let (delivery, started_at) = self.open.remove(&id).ok_or("an answer without a request")?;
        let (met, retry_after) = self.answer_of_the_destination();
        tell!(self, "  meets {:?}", met.outcome);
        match met.outcome {
            Outcome::Throttled => self.note_throttle(started_at, retry_after),
            Outcome::Success
                if self.probing_from.is_some_and(|from| started_at >= from && self.now >= from) =>
            {
                self.probing_from = None;
            }
            _ => {}
        }
        let on = Circumstances {
            policy: &self.policy,
            now: self.now,
            resumed_at: self.settings.resumed_at,
            ordered: self.settings.ordering != Ordering::None,
            jitter: 0.5,
        };
        let settled = settle(&delivery, &met, on);
        let met = Met { outcome: met.outcome, started_at, retry_after };
        self.lane.finished(id, met, &self.gate, self.now);
        self.settle_later(delivery, settled);
        Ok(())
    }

    fn answer_of_the_destination(&mut self) -> (Classified, Option<Duration>) {
        let roll = if self.calm { 99 } else { self.dice.below(100) };
        let retry_after = Some(Duration::from_secs(self.dice.between(1, 6))).filter(|_| roll % 2 == 0);
        let status = match roll {
            0..=7 => 429,
            8..=29 => 503,
            30..=33 => 400,
            34..=36 => return (classify_fault(Fault::Tls), None),
            37..=43 => return (classify_fault(Fault::Reset), None),
            _ => 200,
        };
        let retry_after = retry_after.filter(|_| status == 429);
        let facts = ResponseFacts { status, retry_after, delivery_control: None };
        (classify(&facts, &self.policy), retry_after)
    }

    /// What the destination asked for, kept apart from the gate: its Retry-After, or the first rung of the ladder.
    fn note_throttle(&mut self, started_at: Timestamp, retry_after: Option<Duration>) {
        self.seen.throttled += 1;
        // Without Retry-After only a request that was started after the last hold, of any kind, opens a new window.
        let fresh = started_at >= self.last_hold_ends;
        let pause = retry_after.or(Some(self.gate.ladder[0]).filter(|_| fresh));
        if let Some(until) = pause.map(|pause| self.now.plus(pause)).filter(|until| *until > self.held_until)
        {
            self.held_until = until;
            self.probing_from = Some(until);
        }
    }

    fn settle_later(&mut self, delivery: Delivery, settled: Settled) {
        self.unflushed.insert(delivery.id);
        self.settling.push(Settling { delivery, settled });
        let after = self.dice.delay();
        self.plan(after, Happening::Durable(self.settling.len() - 1));
    }

    /// The row decides: what has moved on since is not moved again.
    fn make_durable(&mut self, index: usize) {
        let Settling { delivery, settled, .. } = &self.settling[index];
        let id = delivery.id;
        if let Some(row) = self.rows.get_mut(&id).filter(|row| row.attempts == delivery.attempts) {
            match settled {
                Settled::Waits { position, due_at, spent } => {
                    row.position = *position;
                    row.due_at = *due_at;
                    row.spent = *spent;
                    row.attempts += 1;
                }
                Settled::Ended(ending) => {
                    let delivered = *ending == Ending::Delivered;
                    self.seen.delivered += u64::from(delivered);
                    self.seen.ended_otherwise += u64::from(!delivered);
                    self.rows.remove(&id);
                    self.ended.insert(id, End { at: self.now, cancelled: false });
                }
            }
        } else {
            // As the settler says it.
            self.settling[index].settled = Settled::Ended(Ending::Delivered);
        }
        let after = self.dice.delay();
        self.plan(after, Happening::Told(index));
    }

    /// People and other nodes.
    fn meddle(&mut self) {
        match self.dice.below(12) {
            // Only while nothing waits there.
            0..=6 if self.rows.is_empty() && self.unannounced == 0 => {
                self.settings.ordering = any_ordering(&mut self.dice);
                self.seen.reordered += 1;
            }
            0..=2 => self.settings.max_concurrency = self.dice.between(1, 5) as u32,
            3 | 4 => self.settings.mode = Mode::Paused { since: self.now },
            5 | 6 => {
                self.settings.mode = Mode::Deliver;
                self.settings.resumed_at = Some(self.now);
            }
            7 if self.dice.chance(30) => self.settings.mode = Mode::End { with: DISABLED, since: self.now },
            8 | 9 => return self.cancel_some(),
            10 => return self.retry_one_now(),
            _ => {
                self.lane.probe_now(self.now);
                if self.held_until > self.now {
                    self.held_until = self.now;
                    self.probing_from = Some(self.now);
                }
                return;
            }
        }
        tell!(self, "  settings {:?} {}", self.settings.mode, self.settings.max_concurrency);
        self.lane.outdated();
        let after = self.dice.delay();
        self.plan(after, Happening::Configured);
    }

    /// Directly in the store; the lane is told only if others may wait behind it.
    fn cancel_some(&mut self) {
        for id in self.rows.keys().copied().collect::<Vec<_>>() {
            if self.dice.chance(30) {
                tell!(self, "  cancels {id}");
                let row = self.rows.remove(&id);
                self.ended.insert(id, End { at: self.now, cancelled: true });
                if let Some(row) = row.filter(|row| row.position.track != Position::UNORDERED) {
                    self.unannounced += 1;
                    let after = self.dice.delay();
                    self.plan(after, Happening::Announce(row, Word::Look, self.now));
                }
            }
        }
    }

    fn retry_one_now(&mut self) {
        let (now, pick) = (self.now, self.dice.next() as usize);
        let mut waiting: Vec<_> = self.rows.values_mut().filter(|row| row.due_at > now).collect();
        if waiting.is_empty() {
            return;
        }
        let count = waiting.len();
        let row = &mut waiting[pick % count];
        row.due_at = now;
        if row.sequence.is_none() {
            row.position.rank = now.micros();
        }
        let moved = row.clone();
        self.unannounced += 1;
        let after = self.dice.delay();
        self.plan(after, Happening::Announce(moved, Word::Look, now));
    }

    // --- What the lane does ----------------------------------------------------------------------------------------

    /// The dispatcher's part: ask until there is nothing more to do, then sleep until the lane says.
    fn pump(&mut self) -> Result<(), String> {
        if self.dice.chance(50) {
            self.fetch_if_wanted();
        }
        let share =
            if self.dice.chance(20) && !self.calm { self.dice.between(1, 3) as u32 } else { u32::MAX };
        let was_held = self.lane.held();
        while let Some(step) = self.lane.next(share, self.now) {
            match step {
                Step::Start(held) => self.start(held, share)?,
                Step::End(held, ending) => self.end(held, ending)?,
                Step::Turn(held, track) => {
                    tell!(self, "  turns {} to {track}", held.delivery.id);
                    promise!(held.delivery.due_at <= self.now.plus(limits::HELD_FRESH), "a turn too early");
                    promise!(track > Position::UNORDERED, "a turn in no track");
                    self.turning += 1;
                    let after = self.dice.delay();
                    self.plan(after, Happening::Turning(held.delivery, track));
                }
            }
        }
        let full = self.open.len() >= self.settings.max_concurrency as usize;
        self.seen.slots_full += u64::from(full && self.lane.held() > 0);
        self.seen.dropped_stale +=
            u64::from(was_held > 0 && self.lane.held() == 0 && self.lane.unseen.is_some());
        self.fetch_if_wanted();
        if share != u32::MAX {
            self.plan(20, Happening::Round); // lanes in turn: a lane held back by its share is asked again
        }
        if let Some(at) = self.lane.wake_at(self.now).filter(|at| self.wake_at.is_none_or(|wake| *at < wake))
        {
            promise!(at > self.now, "wakes in the past");
            self.wake_at = Some(at);
            self.made += 1;
            self.agenda.insert((at, self.made), Happening::Wake);
        }
        Ok(())
    }

    fn fetch_if_wanted(&mut self) {
        while let Some(wish) = self.lane.wants(self.now) {
            tell!(
                self,
                "  fetches {} from {} {}",
                wish.limit,
                wish.from.track,
                wish.from.rank.wrapping_sub(START)
            );
            let fails = !self.calm && self.dice.chance(8);
            self.made += 1;
            let number = self.made;
            self.reads.insert(number, Read { wish, rows: vec![], fails });
            let after = self.dice.delay();
            self.plan(after, Happening::Read(number));
        }
        if let Some(wish) = self.lane.wants_tracks() {
            self.sweeping += 1;
            let after = self.dice.delay();
            self.plan(after, Happening::Sweep(wish));
        }
    }

    fn start(&mut self, held: Held<Timestamp>, share: u32) -> Result<(), String> {
        let Held { delivery, cargo: looked_at, read_at } = held;
        let (id, now, limit) = (delivery.id, self.now, self.settings.max_concurrency);
        tell!(self, "  starts {id}");
        promise!(self.settings.mode == Mode::Deliver, "{id} started while {:?}", self.settings.mode);
        promise!(self.open.len() < limit.min(share) as usize, "{id} is one too many");
        promise!(
            self.open.len() + self.unflushed.len() < 2 * limit as usize,
            "{id} started against back-pressure"
        );
        promise!(!self.open.contains_key(&id), "{id} is open twice");
        promise!(!self.unflushed.contains(&id), "{id} started before its settlement was durable");
        promise!(delivery.due_at <= now, "{id} started before its time");
        if self.settings.ordering != Ordering::None {
            let Position { track, rank, .. } = delivery.position;
            let before = |row: &&Delivery| row.position.track == track && row.position.rank < rank;
            let before = self.rows.values().find(before).map(|row| row.id);
            promise!(before.is_none(), "{id} started before {before:?}");
            let beside = self.open.values().find(|(open, _)| open.position.track == track);
            promise!(beside.is_none(), "{id} started beside another of its track");
            promise!(track > Position::UNORDERED, "{id} started before it had its turn");
            self.seen.in_order += 1;
        }
        promise!(now.since(read_at) <= limits::HELD_FRESH, "{id} was read too long ago");
        match (self.rows.get(&id), self.ended.get(&id)) {
            (Some(row), _) => promise!(row.attempts == delivery.attempts, "{id} started from an old row"),
            (None, Some(end)) => {
                let fresh = limits::HELD_FRESH + read_at.since(looked_at);
                promise!(end.cancelled && now.since(end.at) <= fresh, "{id} started after its end");
                self.seen.started_after_a_fresh_cancel += 1;
            }
            (None, None) => return Err(format!("{id} was never committed")),
        }
        promise!(now >= self.held_until, "{id} started while the destination is held");
        if let Some(from) = self.probing_from {
            let probes = self.open.values().filter(|(_, started)| *started >= from).count();
            promise!(probes == 0, "{id} is a second probe");
        }
        self.open.insert(id, (delivery, now));
        let takes = self.dice.delay() + 1;
        let end =
            if !self.calm && self.dice.chance(5) { Happening::Abandon(id) } else { Happening::Respond(id) };
        self.plan(takes, end);
        Ok(())
    }

    fn end(&mut self, held: Held<Timestamp>, ending: Ending) -> Result<(), String> {
        let delivery = held.delivery;
        let id = delivery.id;
        tell!(self, "  ends {id} {ending:?}");
        promise!(!self.open.contains_key(&id) && !self.unflushed.contains(&id), "{id} ended while under way");
        match self.settings.mode {
            Mode::End { with, .. } => promise!(ending == with, "{id} ended as {ending:?}"),
            Mode::Paused { .. } => return Err(format!("{id} ended while paused")),
            Mode::Deliver => {
                let expires_at = crate::delivery::expires_at(
                    &delivery,
                    self.policy.expire_after,
                    self.settings.resumed_at,
                );
                promise!(ending == Ending::DeadLetter(DeadReason::Expired), "{id} ended as {ending:?}");
                promise!(self.now >= expires_at, "{id} expired too early");
            }
        }
        self.settle_later(delivery, Settled::Ended(ending));
        Ok(())
    }

    // --- What must hold --------------------------------------------------------------------------------------------

    fn check(&mut self) -> Result<(), String> {
        let lane = &self.lane;
        promise!(
            lane.in_flight as usize == self.open.len(),
            "{} slots for {}",
            lane.in_flight,
            self.open.len()
        );
        promise!(lane.unflushed as usize == self.unflushed.len(), "unflushed: {}", lane.unflushed);
        let held = lane.known.values().filter(|known| known.stage == Stage::Held).count();
        promise!(lane.held() == held, "{} in the window, {held} known", lane.held());
        let reading = lane.fetching || lane.order.as_ref().is_some_and(|order| order.is_reading());
        let made = self.reads.values().any(|read| read.wish.life == lane.life);
        promise!(reading == made, "a fetch nobody makes");
        self.last_hold_ends =
            self.last_hold_ends.max(lane.gate.held_until(self.now).unwrap_or(Timestamp::MIN));
        self.seen.pushed_back += u64::from(self.unflushed.len() >= self.settings.max_concurrency as usize);
        self.check_wakefulness()
    }

    /// With nothing under way that could wake the lane, the lane itself must know when to go on.
    fn check_wakefulness(&self) -> Result<(), String> {
        let under_way =
            self.unannounced + self.open.len() + self.unflushed.len() + self.reads.len() + self.turning;
        let under_way = under_way + self.sweeping;
        if under_way > 0 || self.lane.settings.is_none() {
            return Ok(());
        }
        match self.settings.mode {
            Mode::Deliver => {}
            Mode::Paused { .. } => return Ok(()),
            Mode::End { .. } => {
                promise!(self.rows.is_empty(), "not ended: {:?}", self.rows.keys().collect::<Vec<_>>());
                return Ok(());
            }
        }
        let leads = |row: &&Delivery| {
            let before = |other: &Delivery| {
                other.position.track == row.position.track && other.position < row.position
            };
            self.settings.ordering == Ordering::None || !self.rows.values().any(before)
        };
        let Some(due) = self.rows.values().filter(leads).map(|row| row.due_at).min() else { return Ok(()) };
        // A window in hand may come first, for as long as it is fresh.
        let soon = self.now.plus(limits::HELD_FRESH);
        let latest = due.max(soon).max(self.lane.gate.held_until(self.now).unwrap_or(soon));
        let wakes = self.lane.wake_at(self.now);
        promise!(wakes.is_some_and(|at| at <= latest), "sleeps until {wakes:?} with something due at {due}");
        Ok(())
    }

    fn check_the_end(&self) -> Result<(), String> {
        promise!(self.rows.is_empty(), "forgotten: {:?}", self.rows.keys().collect::<Vec<_>>());
        promise!(self.lane.known.is_empty(), "still in hand: {:?}", self.lane.known);
        promise!(self.lane.held.is_empty() && self.lane.settled_meanwhile.is_empty(), "remembers too much");
        promise!(self.lane.unseen.is_none(), "still to look at: {:?}", self.lane.unseen);
        promise!(self.lane.order.as_ref().is_none_or(|order| order.is_idle()), "{:?}", self.lane.order);
        Ok(())
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

/// SplitMix64: small, even, and the same everywhere.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Milliseconds something takes: mostly nothing, sometimes long.
    fn delay(&mut self) -> u64 {
        match self.below(20) {
            0 => self.below(3_000),
            1..=5 => self.below(300),
            _ => self.below(10),
        }
    }
}
