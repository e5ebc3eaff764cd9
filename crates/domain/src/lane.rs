//! The heart: a destination's deliveries, what to start next, and why not yet.
//!
//! A lane is a pure state machine. Things happen to it (`expected`, `arrived`, `fetched`, `finished`, `flushed`,
//! `configured`); it is asked what to do (`next`, `wants`, `wake_at`) and it can explain every delivery it knows
//! (`waiting_for`). It reads no clock and does no I/O; the engine's dispatcher runs thousands of them.
//!
//! What it knows of the store is one mark: `unseen`, the lowest position at which a row may wait that is not here in
//! memory. None means **live**: everything is here, and new deliveries are taken straight from the commit. Otherwise
//! the lane is **behind**: arrivals only lower the mark, and windows are fetched from it. The mark is cleared before
//! a fetch is sent, so whatever happens meanwhile sets it again and no wake-up is lost. An ordered lane keeps such a
//! mark for each of its tracks: see `order`.

mod denied;
mod explain;
mod order;
mod pace;
mod window;

use crate::{
    delivery::{Delivery, Ending, Position, Settled, expires_at},
    destination::{Ordering, RateLimit},
    gate::{Gate, GateRecord, GateSettings, Hold, HoldReason, Met},
    id::{DeliveryId, RouteId},
    limits,
    outcome::DeadReason,
    time::Timestamp,
};
use denied::Denied;
use order::{Order, Rows};
use pace::{Beat, Pace};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use window::WindowSize;

pub use explain::{WaitKind, WaitingFor};
pub use order::Head;
pub use window::Wish;

/// One destination's lane. `C` is what travels with a delivery; the lane never looks into it.
#[derive(Debug)]
pub struct Lane<C> {
    /// None until the destination has been read: nothing starts before.
    settings: Option<LaneSettings>,
    gate: Gate,
    /// In memory and not started, in the order they will be sent.
    held: BTreeMap<Position, Held<C>>,
    /// Every delivery this lane has in hand, and how far it is. A fetch that returns one of these ignores it.
    known: HashMap<DeliveryId, Known>,
    /// Settled while a fetch was under way: the fetch may have read their rows as they were before.
    settled_meanwhile: HashMap<DeliveryId, Settled>,
    unseen: Option<Position>,
    fetching: bool,
    /// From where the last fetch reads.
    fetching_from: Option<Position>,
    /// The tracks of an ordered destination; they take the place of `held`, `unseen` and `fetching`.
    order: Option<Box<Order<C>>>,
    in_flight: u32,
    unflushed: u32,
    window: WindowSize,
    pace: Pace,
    /// Outlives the settings, which are forgotten whenever they are read again.
    rate_limit: Option<RateLimit>,
    /// Since when a due delivery has found every slot taken.
    full_since: Option<Timestamp>,
    denied: Denied,
    /// While the gate holds the lane: when it last looked for what has expired.
    expiry_looked_at: Option<Timestamp>,
}

/// A delivery in memory, with its cargo.
#[derive(Debug)]
pub struct Held<C> {
    pub delivery: Delivery,
    pub cargo: C,
    /// When its row was known to be true; older than a second and it is read again.
    pub read_at: Timestamp,
}

/// A row that was read.
#[derive(Debug)]
pub struct Row<C> {
    pub delivery: Delivery,
    pub cargo: C,
    /// The track of its ordering key: where a scheduled delivery of an ordered destination goes when its time comes.
    pub track: i64,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    stage: Stage,
    /// Where a fetch last saw its row and left it alone: "retry now" moves rows while we have them in hand, and who
    /// lets go of one must look there.
    seen: Option<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// Announced by a commit that is still under way.
    Expected,
    Held,
    Open {
        since: Timestamp,
    },
    /// Its attempt has ended, the settlement is not yet durable.
    Unflushed,
    /// Its time has come; the store is giving it its number.
    Turning,
}

impl From<Stage> for Known {
    fn from(stage: Stage) -> Self {
        Self { stage, seen: None }
    }
}

/// What the lane needs to know of its destination.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneSettings {
    pub max_concurrency: u32,
    pub rate_limit: Option<RateLimit>,
    pub ordering: Ordering,
    pub mode: Mode,
    pub resumed_at: Option<Timestamp>,
    pub expire_after: Duration,
    /// Routes with an age limit of their own.
    pub expire_after_by_route: HashMap<RouteId, Duration>,
}

/// What the lane does with its deliveries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    Deliver,
    /// Holds everything and drops nothing.
    Paused {
        since: Timestamp,
    },
    /// Disabled or deleted: everything that waits and everything that comes ends like this.
    End {
        with: Ending,
        since: Timestamp,
    },
}

/// The lane's answer to "what now?".
#[derive(Debug)]
pub enum Step<C> {
    Start(Held<C>),
    /// Ends without an attempt.
    End(Held<C>, Ending),
    /// Takes its turn in this track.
    Turn(Held<C>, i64),
}

impl<C> Default for Lane<C> {
    fn default() -> Self {
        Self {
            settings: None,
            gate: Gate::default(),
            held: BTreeMap::new(),
            known: HashMap::new(),
            settled_meanwhile: HashMap::new(),
            unseen: None,
            fetching: false,
            fetching_from: None,
            order: None,
            in_flight: 0,
            unflushed: 0,
            window: WindowSize::default(),
            pace: Pace::default(),
            rate_limit: None,
            full_since: None,
            denied: Denied::default(),
            expiry_looked_at: None,
        }
    }
}

impl<C> Lane<C> {
    // --- Things that happen ----------------------------------------------------------------------------------------

    /// The destination has been read, or read again after a change.
    pub fn configured(&mut self, settings: LaneSettings) {
        // Enabled again: what was read only to be ended need not stay in memory until it is due.
        let to_be_ended = |held: &Held<C>| held.delivery.due_at > held.read_at.plus(limits::HELD_FRESH);
        if !matches!(settings.mode, Mode::End { .. }) && self.held.values().any(to_be_ended) {
            self.drop_held();
        }
        self.ordered_as(&settings);
        if self.rate_limit != settings.rate_limit {
            self.rate_limit = settings.rate_limit;
            self.pace.changed();
        }
        self.settings = Some(settings);
    }

    /// The destination has changed: nothing starts until it has been read again.
    pub fn outdated(&mut self) {
        self.settings = None;
    }

    /// A commit is under way that will bring this delivery. An ordered lane reads it from the store like any other: left
    /// alone until it is announced, those behind it would pass.
    pub fn expected(&mut self, id: DeliveryId) {
        if self.order.is_some() {
            return;
        }
        self.known.entry(id).or_insert(Stage::Expected.into());
    }

    /// The commit failed, or nobody knows how it ended: without a row that was seen there is no such delivery.
    pub fn forgotten(&mut self, id: DeliveryId) {
        if let Some(seen) = self.no_longer_expected(id).flatten() {
            self.look_at(seen);
        }
    }

    /// The delivery is durable. It stays in memory if the lane is live and has room, else it waits in the store.
    pub fn arrived(&mut self, delivery: Delivery, cargo: C, room: bool, now: Timestamp) {
        // Not expected here: another owner, or a fetch of ours, may have seen to it before this word came.
        let Some(seen) = self.no_longer_expected(delivery.id) else {
            if !self.known.contains_key(&delivery.id) {
                self.look_at(delivery.position);
            }
            return;
        };
        let moved_to = seen.filter(|seen| *seen != delivery.position);
        let soon = delivery.due_at <= now.plus(limits::HELD_FRESH);
        // What is ordered was given its number by the commit: only the store knows it.
        let unordered = delivery.position.track == Position::UNORDERED && self.order.is_none();
        if unordered && room && soon && moved_to.is_none() && self.takes_arrivals(now) {
            if self.is_full() && delivery.due_at <= now {
                self.denied.came_late(delivery.position);
            }
            self.hold(Held { delivery, cargo, read_at: now });
        } else {
            self.look_at(moved_to.unwrap_or(delivery.position));
        }
    }

    /// Something may wait in the store from this position on.
    pub fn look(&mut self, from: Position) {
        match &mut self.order {
            Some(order) => order.look_from(from.track),
            None => self.unseen = Some(self.unseen.map_or(from, |unseen| unseen.min(from))),
        }
    }

    /// Something waits in the store at this position.
    pub fn look_at(&mut self, place: Position) {
        match &mut self.order {
            Some(order) => order.look_at(place.track, place.rank),
            None => self.look(place),
        }
    }

    /// The fetch that [`Lane::wants`] asked for has come back; fewer rows than asked for means there are no more.
    pub fn fetched(&mut self, wish: &Wish, mut rows: Vec<Row<C>>, now: Timestamp) {
        let complete = rows.len() < wish.limit;
        let last = rows.last().map(|row| row.delivery.position);
        if self.order.is_some() {
            rows.retain(|row| !self.is_in_hand(&row.delivery));
            let read = Rows { rows, last: last.map(|last| last.rank), complete };
            return self.track_fetched(wish, read, now);
        }
        self.fetching = false;
        self.window.filled(complete);
        for Row { delivery, cargo, .. } in rows {
            if self.is_in_hand(&delivery) {
                continue;
            }
            if delivery.due_at <= now.plus(limits::HELD_FRESH) || self.is_ending() {
                self.hold(Held { delivery, cargo, read_at: now });
            } else {
                self.look(delivery.position);
            }
        }
        self.settled_meanwhile.clear();
        if let Some(last) = last.filter(|_| !complete) {
            self.look(last.after());
        }
    }

    /// The fetch came to nothing: what it was to read is still unseen.
    pub fn fetch_failed(&mut self, wish: &Wish) {
        match &mut self.order {
            Some(order) => order.fetch_failed(wish),
            None => {
                self.fetching = false;
                self.settled_meanwhile.clear();
                self.look(wish.from);
            }
        }
    }

    /// The look for tracks that [`Lane::wants_tracks`] asked for has come back.
    pub fn swept(&mut self, heads: &[Head], complete: bool, now: Timestamp) {
        if let Some(order) = &mut self.order {
            order.swept(heads, complete, |id| self.known.contains_key(&id), now);
        }
    }

    pub fn sweep_failed(&mut self, from: i64) {
        if let Some(order) = &mut self.order {
            order.sweep_failed(from);
        }
    }

    /// Its number has been given, and it stands at the end of this track; or where it stood, to be looked at again.
    pub fn turned(&mut self, id: DeliveryId, place: Position) {
        if self.known.get(&id).is_some_and(|known| known.stage == Stage::Turning) {
            self.known.remove(&id);
        }
        self.look_at(place);
    }

    /// The answer has been read: the slot is free, the settlement is on its way.
    pub fn finished(&mut self, id: DeliveryId, met: Met, settings: &GateSettings, now: Timestamp) {
        let known = self.known.insert(id, Stage::Unflushed.into());
        let open = known.is_some_and(|known| matches!(known.stage, Stage::Open { .. }));
        debug_assert!(open, "finished {id} without a start");
        self.in_flight -= 1;
        self.unflushed += 1;
        self.full_since = None;
        // While the limit is not known no ramp is over.
        let limit = self.settings.as_ref().map_or(u32::MAX, |settings| settings.max_concurrency);
        self.gate.met(met, limit, settings, now);
    }

    /// The request was given up without a result (a stop, a lost lease): the row is as it was.
    pub fn abandoned(&mut self, id: DeliveryId, position: Position) {
        if let Some(Known { stage: Stage::Open { since }, seen }) = self.known.get(&id).copied() {
            self.known.remove(&id);
            self.in_flight -= 1;
            self.full_since = None;
            self.gate.abandoned(since);
            if let Some(order) = &mut self.order {
                order.freed(position.track, id);
            }
            self.look_at(seen.unwrap_or(position));
        }
    }

    /// The settlement of a delivery in this track is durable.
    pub fn flushed(&mut self, id: DeliveryId, track: i64, settled: &Settled, now: Timestamp) {
        // A word about an attempt of another life of this lane must not touch what is in hand now.
        let known = self.known.get(&id).copied().filter(|known| known.stage == Stage::Unflushed);
        if known.is_some() {
            self.known.remove(&id);
            self.unflushed -= 1;
        }
        if self.fetching {
            self.settled_meanwhile.insert(id, *settled);
        }
        if let Some(order) = &mut self.order {
            order.freed(track, id);
        }
        if let Settled::Waits { position, due_at, .. } = settled {
            match &mut self.order {
                Some(order) => {
                    let gone = order.waits(*position, *due_at, now);
                    self.let_go(gone);
                }
                None => self.look(*position),
            }
            // The row as it was before, or moved once more since: only another look can tell.
            known.and_then(|known| known.seen).into_iter().for_each(|seen| self.look_at(seen));
        }
    }

    /// The destination had another owner, who wrote this about its gate. To be told before anything starts.
    pub fn restore(&mut self, record: &GateRecord, now: Timestamp) {
        self.gate.restore(record, now);
    }

    /// Since when the lane is this node's: whoever had it before may have started something until then.
    pub fn owned_since(&mut self, since: Timestamp) {
        self.pace.owned_since(since);
    }

    /// A person asked to try now, whatever the gate says.
    pub fn probe_now(&mut self, now: Timestamp) {
        self.gate.probe_now(now);
    }

    /// Lets go of what has been in memory too long; it is read again when it can be sent.
    pub fn refresh(&mut self, now: Timestamp) {
        let stale = |held: &Held<C>| now.since(held.read_at) > limits::HELD_FRESH;
        let out_of_order = self.order.as_ref().is_some_and(|order| order.is_stale(now));
        if out_of_order || self.held.values().next().is_some_and(stale) {
            self.window.wasted();
            self.drop_held();
        }
    }

    // --- What to do ------------------------------------------------------------------------------------------------

    /// The next thing to do, if there is one. `share` is what the node's capacity leaves to this lane.
    pub fn next(&mut self, share: u32, now: Timestamp) -> Option<Step<C>> {
        let mode = self.settings.as_ref()?.mode;
        if let Mode::End { with, .. } = mode {
            let held =
                if self.unflushed < limits::ENDING_UNFLUSHED { self.take_any()? } else { return None };
            return Some(self.end(held, with));
        }
        if let Some((held, track)) = self.order.as_mut().and_then(|order| order.next_turn()) {
            self.known.insert(held.delivery.id, Stage::Turning.into());
            return Some(Step::Turn(held, track));
        }
        if let Mode::Paused { .. } = mode {
            self.drop_held();
            return None;
        }
        if self.awaits_flush() {
            return None;
        }
        if self.gate.held_until(now).is_some() {
            return self.end_expired(now);
        }
        self.expiry_looked_at = None;
        let place = self.first(now)?.position;
        if self.peek(place).is_some_and(|first| self.has_expired(first, now)) {
            let held = self.take(place)?;
            return Some(self.end(held, Ending::DeadLetter(DeadReason::Expired)));
        }
        let settings = self.settings.as_ref()?;
        if self.in_flight >= settings.max_concurrency.min(share) || !self.gate.permits(now) {
            self.full_since.get_or_insert(now);
            if self.is_full() {
                self.deny(place, now);
            }
            return None;
        }
        if self.paced_until(now).is_some() {
            return None;
        }
        let held = self.take(place)?;
        if let Some(limit) = self.rate_limit {
            self.pace.started(Beat::of(limit), now);
        }
        self.known.insert(held.delivery.id, Stage::Open { since: now }.into());
        if let Some(order) = &mut self.order {
            order.busy(place.track, held.delivery.id);
        }
        self.in_flight += 1;
        self.window.started(now);
        self.gate.started();
        Some(Step::Start(held))
    }

    /// A held lane starts nothing, but what has waited too long ends all the same. Where one has, there may be others.
    fn end_expired(&mut self, now: Timestamp) -> Option<Step<C>> {
        if let Some(place) = self.first(now).map(|first| first.position)
            && let Some(first) = self.peek(place)
            && self.has_expired(first, now)
        {
            let held = self.take(place)?;
            self.expiry_looked_at = Some(Timestamp::MIN);
            return Some(self.end(held, Ending::DeadLetter(DeadReason::Expired)));
        }
        self.drop_held();
        self.expiry_looked_at.get_or_insert(now);
        None
    }

    /// The window to fetch now, if any. Asking is doing: the mark is cleared, the lane waits for the answer.
    pub fn wants(&mut self, now: Timestamp) -> Option<Wish> {
        if self.order.is_some() {
            return self.wants_track(now);
        }
        let settings = self.settings.as_ref()?;
        let from = self.unseen.filter(|_| !self.fetching)?;
        let wanted = match settings.mode {
            Mode::Paused { .. } => false,
            Mode::End { .. } => self.held.is_empty(),
            Mode::Deliver if self.looks_for_expired(now) => from.rank <= now.micros(),
            Mode::Deliver => {
                let slot = self.in_flight < settings.max_concurrency && self.gate.permits(now);
                let soon = self.paced_until(now).is_none_or(|at| at <= now.plus(limits::HELD_FRESH / 2));
                self.gate.held_until(now).is_none()
                    && soon
                    && from.rank <= now.micros()
                    && self.window.wants_more(self.held.len(), slot, now)
            }
        };
        if !wanted {
            return None;
        }
        self.unseen = None;
        self.fetching = true;
        self.fetching_from = Some(from);
        if self.looks_for_expired(now) {
            self.expiry_looked_at = Some(now);
            let limit = limits::WINDOW_MIN + self.in_flight as usize;
            return Some(Wish { from, last_track: i64::MAX, limit });
        }
        let ending = self.is_ending();
        // Rows in hand may lie in the way of a mark that was lowered: ask for so many more.
        let mut limit = self.window.ask(settings.max_concurrency, ending, now);
        if let Some(rate) = self.rate_limit.filter(|_| !ending) {
            limit = limit.min(Beat::of(rate).starts_in(limits::HELD_FRESH));
        }
        limit += self.in_flight as usize;
        Some(Wish { from, last_track: i64::MAX, limit: limit.min(limits::WINDOW_MAX) })
    }

    /// From which track on to look for tracks, if that is needed now. Asking is doing, as in [`Lane::wants`].
    pub fn wants_tracks(&mut self) -> Option<i64> {
        let settings = self.settings.as_ref()?;
        self.order.as_mut()?.sweep(tracks_wanted(settings))
    }

    /// When to ask again if nothing happens before.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let settings = self.settings.as_ref()?;
        let turn = self.order.as_ref().and_then(|order| order.turn_at()).filter(|at| *at > now);
        match settings.mode {
            Mode::Deliver => {}
            Mode::Paused { .. } => return turn,
            Mode::End { .. } => return None,
        }
        let ordered = self.order.iter().flat_map(|order| order.wakes());
        let held = self.held.values().next().map(|held| held.delivery.due_at);
        let unseen = self.unseen.map(|position| Timestamp::from_micros(position.rank.max(0)));
        let gate = self.gate.held_until(now).unwrap_or(Timestamp::MIN);
        let pace = self.paced_until(now).unwrap_or(Timestamp::MIN);
        // What is overdue waits for a slot, a flush or an answer, and must not hide what falls due later.
        let expiry = self.next_expiry_look().filter(|_| unseen.is_some() || self.order.is_some());
        let turn = turn.into_iter().chain(expiry);
        held.into_iter()
            .chain(unseen)
            .chain(ordered)
            .map(|due| due.max(gate).max(pace))
            .chain(turn)
            .filter(|at| *at > now)
            .min()
    }

    // --- What it is like -------------------------------------------------------------------------------------------

    pub fn ordering(&self) -> Ordering {
        self.settings.as_ref().map_or(Ordering::None, |settings| settings.ordering)
    }

    pub fn is_configured(&self) -> bool {
        self.settings.is_some()
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Deliveries that were due and found every slot taken, each time they fell due: those since this was last asked.
    pub fn take_denied(&mut self) -> u64 {
        self.denied.take()
    }

    /// Since when the first of those that wait has been due, as far as is known here. None if none is, and while the
    /// destination is paused or being ended: then nobody waits for it to be sent.
    pub fn due_since(&self, now: Timestamp) -> Option<Timestamp> {
        if self.settings.as_ref().is_some_and(|settings| settings.mode != Mode::Deliver) {
            return None;
        }
        let held = self.held.values().next().map(|held| held.delivery.due_at);
        let reading = self.fetching_from.filter(|_| self.fetching);
        // A mark at the beginning of everything says nothing about when.
        let marks =
            [self.unseen, reading].into_iter().flatten().map(|mark| mark.rank).filter(|rank| *rank > 0);
        let ordered = self.order.iter().flat_map(|order| order.heads_due());
        let due = held.into_iter().chain(marks.map(Timestamp::from_micros)).chain(ordered);
        due.min().filter(|at| *at <= now)
    }

    /// Deliveries in memory that have not started.
    pub fn held(&self) -> usize {
        self.held.len() + self.order.as_ref().map_or(0, |order| order.held())
    }

    /// Back-pressure: what has ended and is not durable yet counts against the lane, twice its limit in all.
    pub fn awaits_flush(&self) -> bool {
        let limit = self.settings.as_ref().map_or(0, |settings| settings.max_concurrency);
        self.in_flight + self.unflushed >= limit.saturating_mul(2)
    }

    /// Whether something waits for the next flush: in an ordered lane always the delivery behind.
    pub fn hurries(&self) -> bool {
        self.order.is_some() || self.awaits_flush()
    }

    /// Nothing to do, nothing to remember: the lane can be forgotten.
    pub fn is_idle(&self, settings: &GateSettings, now: Timestamp) -> bool {
        let ordered = self.order.as_ref().is_none_or(|order| order.is_idle());
        let nothing_to_do = self.known.is_empty() && self.unseen.is_none() && !self.fetching;
        nothing_to_do && ordered && self.gate.at_rest(settings, now) && self.pace_at_rest(now)
    }

    /// Has something due and a slot of its own for it, but the node's capacity leaves it none.
    pub fn is_starved(&self, share: u32, now: Timestamp) -> bool {
        let limit = self.settings.as_ref().map_or(0, |settings| settings.max_concurrency);
        let due = match &self.order {
            Some(order) => order.has_ready(now),
            None => self.held.values().next().is_some_and(|held| held.delivery.due_at <= now),
        };
        due && self.in_flight >= share && self.in_flight < limit
    }

    /// Has a request of this delivery open, and since when.
    pub fn delivering_since(&self, id: DeliveryId) -> Option<Timestamp> {
        match self.known.get(&id)?.stage {
            Stage::Open { since } => Some(since),
            _ => None,
        }
    }

    /// Deliveries whose request has been open for at least so long, in order.
    pub fn open_for(&self, pause: Duration, now: Timestamp) -> Vec<DeliveryId> {
        let long = |known: &Known| matches!(known.stage, Stage::Open { since } if now.since(since) >= pause);
        let mut open: Vec<DeliveryId> =
            self.known.iter().filter(|(_, known)| long(known)).map(|(id, _)| *id).collect();
        open.sort_unstable();
        open
    }

    /// What the next owner must know of the gate.
    pub fn gate_record(&self) -> Option<GateRecord> {
        self.gate.record()
    }

    /// Why the destination waits, if it does.
    pub fn destination_hold(&self, now: Timestamp) -> Option<Hold> {
        match self.settings.as_ref().map(|settings| settings.mode) {
            Some(Mode::End { since, .. }) => Some(switched(HoldReason::Disabled, since)),
            Some(Mode::Paused { since }) => Some(switched(HoldReason::Paused, since)),
            _ => self.gate.hold(now),
        }
    }

    // --- Leaves ----------------------------------------------------------------------------------------------------

    /// Whether a row that was read is to be left alone, because what is known here is newer.
    fn is_in_hand(&mut self, row: &Delivery) -> bool {
        if let Some(known) = self.known.get_mut(&row.id) {
            if known.stage == Stage::Turning && row.position.track != Position::AWAITS_TIME {
                self.known.remove(&row.id); // it has had its turn, and this is the first to tell
                return false;
            }
            let turned = known.seen.is_some_and(|seen| seen.track > Position::UNORDERED);
            if turned && row.position.track == Position::AWAITS_TIME {
                return true; // as it was before its turn
            }
            let before = known.seen.replace(row.position);
            // Moved since it came into memory: it is taken again, with its new due time.
            let moved = before.filter(|place| known.stage == Stage::Held && *place != row.position);
            if let Some(place) = moved {
                match &mut self.order {
                    Some(order) => order.forget(place),
                    None => drop(self.held.remove(&place)),
                }
                self.known.remove(&row.id);
            }
            return moved.is_none();
        }
        let settled = self.settled_meanwhile.get(&row.id).copied();
        if let Some(Settled::Waits { .. }) = settled {
            self.look_at(row.position); // as in `flushed`: before, or moved since?
        }
        settled.is_some()
    }

    /// Where a fetch has seen the row of a delivery, if it was expected until now.
    fn no_longer_expected(&mut self, id: DeliveryId) -> Option<Option<Position>> {
        let Known { seen, .. } = *self.known.get(&id).filter(|known| known.stage == Stage::Expected)?;
        self.known.remove(&id);
        Some(seen)
    }

    /// Every slot of its own is taken.
    fn is_full(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| self.in_flight >= settings.max_concurrency)
    }

    /// What is due has found no slot: this one, and in an unordered lane all that are in memory.
    fn deny(&mut self, first: Position, now: Timestamp) {
        if self.order.is_some() {
            return self.denied.head(first);
        }
        let due = self.held.range(self.denied.beyond()).take_while(|(_, held)| held.delivery.due_at <= now);
        let (mut count, mut last) = (0, None);
        for (place, _) in due {
            (count, last) = (count + 1, Some(*place));
        }
        self.denied.all(count, last);
    }

    fn hold(&mut self, held: Held<C>) {
        self.known.insert(held.delivery.id, Known { stage: Stage::Held, seen: Some(held.delivery.position) });
        self.held.insert(held.delivery.position, held);
    }

    fn end(&mut self, held: Held<C>, with: Ending) -> Step<C> {
        self.known.insert(held.delivery.id, Stage::Unflushed.into());
        self.unflushed += 1;
        if let Some(order) = &mut self.order {
            order.busy(held.delivery.position.track, held.delivery.id);
        }
        Step::End(held, with)
    }

    /// What would start next: due, and read a moment ago.
    fn first(&mut self, now: Timestamp) -> Option<&Delivery> {
        if self.order.is_none() {
            self.refresh(now);
            return self.held.values().next().map(|held| &held.delivery).filter(|first| first.due_at <= now);
        }
        let (order, mut stale) = (self.order.as_mut()?, Vec::new());
        let first = order.first(now, &mut stale);
        for id in stale {
            self.known.remove(&id);
        }
        first
    }

    /// One that is in memory.
    fn peek(&self, place: Position) -> Option<&Delivery> {
        match &self.order {
            Some(order) => order.peek(place),
            None => self.held.get(&place).map(|held| &held.delivery),
        }
    }

    /// While it is held: now and then.
    fn looks_for_expired(&self, now: Timestamp) -> bool {
        self.gate.held_until(now).is_some() && self.next_expiry_look().is_some_and(|at| at <= now)
    }

    fn next_expiry_look(&self) -> Option<Timestamp> {
        self.expiry_looked_at.map(|at| at.plus(limits::EXPIRY_LOOK))
    }

    fn has_expired(&self, delivery: &Delivery, now: Timestamp) -> bool {
        let Some(settings) = &self.settings else { return false };
        let own_age = settings.expire_after_by_route.get(&delivery.route_id);
        let expire_after = *own_age.unwrap_or(&settings.expire_after);
        expires_at(delivery, expire_after, settings.resumed_at) <= now
    }

    fn take(&mut self, place: Position) -> Option<Held<C>> {
        if let Some(order) = &mut self.order {
            return order.take(place);
        }
        let held = self.held.remove(&place)?;
        // A map that has been used keeps room for eleven: three kilobytes, in every lane there is.
        if self.held.is_empty() {
            self.held = BTreeMap::new();
        }
        Some(held)
    }

    fn take_any(&mut self) -> Option<Held<C>> {
        match &mut self.order {
            Some(order) => order.take_any(),
            None => self.held.keys().next().copied().and_then(|place| self.take(place)),
        }
    }

    /// Whether the destination is ordered may change while nothing waits there; what comes meanwhile is found.
    fn ordered_as(&mut self, settings: &LaneSettings) {
        let ordered = settings.ordering != Ordering::None;
        if ordered != self.order.is_some() {
            self.drop_held();
            self.order = ordered.then(Box::default);
            self.known.retain(|_, known| known.stage != Stage::Expected);
            if self.unseen.take().is_some() || !ordered {
                self.look(Position::START);
            }
        }
        let ends = matches!(settings.mode, Mode::End { .. });
        let ended = self.is_ending();
        if let Some(order) = &mut self.order {
            let gone = if ended && !ends { order.let_all_go() } else { Vec::new() };
            if ends && !ended {
                order.release_all();
            }
            self.let_go(gone);
        }
    }

    fn wants_track(&mut self, now: Timestamp) -> Option<Wish> {
        let settings = self.settings.as_ref()?;
        let open = match settings.mode {
            Mode::Paused { .. } => false,
            Mode::End { .. } => true,
            Mode::Deliver => {
                let soon = self.paced_until(now).is_none_or(|at| at <= now.plus(limits::HELD_FRESH / 2));
                self.looks_for_expired(now)
                    || (self.gate.held_until(now).is_none() && soon && self.gate.permits(now))
            }
        };
        if self.looks_for_expired(now) {
            self.expiry_looked_at = Some(now);
        }
        let tracks = tracks_wanted(self.settings.as_ref()?);
        let order = self.order.as_mut()?;
        order.tick(now);
        order.wish(open, tracks)
    }

    fn track_fetched(&mut self, wish: &Wish, read: Rows<C>, now: Timestamp) {
        let everything = self.is_ending();
        if let Some(order) = &mut self.order {
            for place in order.fetched(wish, read, everything, now) {
                self.known.insert(place.delivery_id, Known { stage: Stage::Held, seen: Some(place) });
            }
        }
    }

    fn let_go(&mut self, gone: Vec<DeliveryId>) {
        for id in gone {
            self.known.remove(&id);
        }
    }

    fn drop_held(&mut self) {
        if let Some(order) = &mut self.order {
            let gone = order.let_all_go();
            self.let_go(gone);
        }
        let Some((first, _)) = self.held.first_key_value() else { return };
        let first = *first;
        for (_, held) in std::mem::take(&mut self.held) {
            self.known.remove(&held.delivery.id);
        }
        self.look(first);
    }

    /// A limit of one an hour is remembered for an hour.
    fn pace_at_rest(&self, now: Timestamp) -> bool {
        self.rate_limit.is_none() || (self.pace.is_over(now) && self.paced_until(now).is_none())
    }

    /// Until when the rate limit lets nothing start; None if it lets something start now.
    fn paced_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.pace.earliest(Beat::of(self.rate_limit?)).filter(|at| *at > now)
    }

    /// Live, as far as what is due goes: a retry that waits for tomorrow does not stand in today's way.
    fn takes_arrivals(&self, now: Timestamp) -> bool {
        let live = !self.fetching && self.unseen.is_none_or(|unseen| unseen.rank > now.micros());
        let held = self.gate.held_until(now).is_some()
            || self.settings.as_ref().is_some_and(|settings| matches!(settings.mode, Mode::Paused { .. }));
        live && !held && self.held.len() < limits::WINDOW_MAX
    }

    /// Disabled or deleted: its deliveries are being ended.
    pub fn is_ending(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| matches!(settings.mode, Mode::End { .. }))
    }
}

/// Tracks of an ordered lane worth having in memory: what may be open, and as many again.
fn tracks_wanted(settings: &LaneSettings) -> usize {
    (settings.max_concurrency as usize * 2).clamp(limits::WINDOW_MIN, limits::WINDOW_MAX)
}

fn switched(reason: HoldReason, since: Timestamp) -> Hold {
    Hold { reason, since, until: None, detail: String::new(), step: None, probing: false }
}

#[cfg(test)]
mod tests;
