//! The heart: a destination's deliveries, what to start next, and why not yet.
//!
//! A lane is a pure state machine. Things happen to it (`expected`, `arrived`, `fetched`, `finished`, `flushed`,
//! `configured`); it is asked what to do (`next`, `wants`, `wake_at`) and it can explain every delivery it knows
//! (`waiting_for`). It reads no clock and does no I/O; the engine's dispatcher runs thousands of them.
//!
//! What it knows of the store is one mark: `unseen`, the lowest position at which a row may wait that is not here in
//! memory. None means **live**: everything is here, and new deliveries are taken straight from the commit. Otherwise
//! the lane is **behind**: arrivals only lower the mark, and windows are fetched from it. The mark is cleared before
//! a fetch is sent, so whatever happens meanwhile sets it again and no wake-up is lost.

mod explain;
mod pace;
mod window;

use crate::{
    delivery::{Delivery, Ending, Position, Settled, expires_at},
    destination::RateLimit,
    gate::{Gate, GateRecord, GateSettings, Hold, HoldReason, Met},
    id::{DeliveryId, RouteId},
    limits,
    outcome::DeadReason,
    time::Timestamp,
};
use pace::{Beat, Pace};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use window::WindowSize;

pub use explain::{WaitKind, WaitingFor};
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
    in_flight: u32,
    unflushed: u32,
    window: WindowSize,
    pace: Pace,
    /// Outlives the settings, which are forgotten whenever they are read again.
    rate_limit: Option<RateLimit>,
    /// Since when a due delivery has found every slot taken.
    full_since: Option<Timestamp>,
}

/// A delivery in memory, with its cargo.
#[derive(Debug)]
pub struct Held<C> {
    pub delivery: Delivery,
    pub cargo: C,
    /// When its row was known to be true; older than a second and it is read again.
    pub read_at: Timestamp,
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
            in_flight: 0,
            unflushed: 0,
            window: WindowSize::default(),
            pace: Pace::default(),
            rate_limit: None,
            full_since: None,
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

    /// A commit is under way that will bring this delivery.
    pub fn expected(&mut self, id: DeliveryId) {
        self.known.entry(id).or_insert(Stage::Expected.into());
    }

    /// The commit failed, or nobody knows how it ended: without a row that was seen there is no such delivery.
    pub fn forgotten(&mut self, id: DeliveryId) {
        if let Some(seen) = self.no_longer_expected(id).flatten() {
            self.look(seen);
        }
    }

    /// The delivery is durable. It stays in memory if the lane is live and has room, else it waits in the store.
    pub fn arrived(&mut self, delivery: Delivery, cargo: C, room: bool, now: Timestamp) {
        // Not expected here: another owner, or a fetch of ours, may have seen to it before this word came.
        let Some(seen) = self.no_longer_expected(delivery.id) else {
            if !self.known.contains_key(&delivery.id) {
                self.look(delivery.position);
            }
            return;
        };
        let moved_to = seen.filter(|seen| *seen != delivery.position);
        let soon = delivery.due_at <= now.plus(limits::HELD_FRESH);
        if room && soon && moved_to.is_none() && self.takes_arrivals(now) {
            self.hold(Held { delivery, cargo, read_at: now });
        } else {
            self.look(moved_to.unwrap_or(delivery.position));
        }
    }

    /// Something may wait in the store from this position on.
    pub fn look(&mut self, from: Position) {
        self.unseen = Some(self.unseen.map_or(from, |unseen| unseen.min(from)));
    }

    /// The fetch that [`Lane::wants`] asked for has come back; fewer rows than asked for means there are no more.
    pub fn fetched(&mut self, rows: Vec<(Delivery, C)>, asked: usize, now: Timestamp) {
        let complete = rows.len() < asked;
        let last = rows.last().map(|(delivery, _)| delivery.position);
        self.fetching = false;
        self.window.filled(complete);
        for (delivery, cargo) in rows {
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
    pub fn fetch_failed(&mut self, from: Position) {
        self.fetching = false;
        self.settled_meanwhile.clear();
        self.look(from);
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
            self.look(seen.unwrap_or(position));
        }
    }

    /// The settlement is durable.
    pub fn flushed(&mut self, id: DeliveryId, settled: &Settled) {
        // A word about an attempt of another life of this lane must not touch what is in hand now.
        let known = self.known.get(&id).copied().filter(|known| known.stage == Stage::Unflushed);
        if known.is_some() {
            self.known.remove(&id);
            self.unflushed -= 1;
        }
        if self.fetching {
            self.settled_meanwhile.insert(id, *settled);
        }
        if let Settled::Waits { position, .. } = settled {
            self.look(*position);
            // The row as it was before, or moved once more since: only another look can tell.
            known.and_then(|known| known.seen).into_iter().for_each(|seen| self.look(seen));
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
        if self.held.values().next().is_some_and(stale) {
            self.window.wasted();
            self.drop_held();
        }
    }

    // --- What to do ------------------------------------------------------------------------------------------------

    /// The next thing to do, if there is one. `share` is what the node's capacity leaves to this lane.
    pub fn next(&mut self, share: u32, now: Timestamp) -> Option<Step<C>> {
        let settings = self.settings.as_ref()?;
        match settings.mode {
            Mode::End { with, .. } => {
                let held =
                    if self.unflushed < limits::ENDING_UNFLUSHED { self.take_first()? } else { return None };
                return Some(self.end(held, with));
            }
            Mode::Paused { .. } => {
                self.drop_held();
                return None;
            }
            Mode::Deliver => {}
        }
        if self.awaits_flush() {
            return None;
        }
        if self.gate.held_until(now).is_some() {
            self.drop_held();
            return None;
        }
        self.refresh(now);
        let settings = self.settings.as_ref()?;
        let first = self.held.values().next()?;
        if first.delivery.due_at > now {
            return None;
        }
        let own_age = settings.expire_after_by_route.get(&first.delivery.route_id);
        let expire_after = *own_age.unwrap_or(&settings.expire_after);
        if expires_at(&first.delivery, expire_after, settings.resumed_at) <= now {
            let held = self.take_first()?;
            return Some(self.end(held, Ending::DeadLetter(DeadReason::Expired)));
        }
        if self.in_flight >= settings.max_concurrency.min(share) || !self.gate.permits(now) {
            self.full_since.get_or_insert(now);
            return None;
        }
        if self.paced_until(now).is_some() {
            return None;
        }
        let held = self.take_first()?;
        if let Some(limit) = self.rate_limit {
            self.pace.started(Beat::of(limit), now);
        }
        self.known.insert(held.delivery.id, Stage::Open { since: now }.into());
        self.in_flight += 1;
        self.window.started(now);
        self.gate.started();
        Some(Step::Start(held))
    }

    /// The window to fetch now, if any. Asking is doing: the mark is cleared, the lane waits for the answer.
    pub fn wants(&mut self, now: Timestamp) -> Option<Wish> {
        let settings = self.settings.as_ref()?;
        let from = self.unseen.filter(|_| !self.fetching)?;
        let wanted = match settings.mode {
            Mode::Paused { .. } => false,
            Mode::End { .. } => self.held.is_empty(),
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
        let ending = self.is_ending();
        // Rows in hand may lie in the way of a mark that was lowered: ask for so many more.
        let mut limit = self.window.ask(settings.max_concurrency, ending, now);
        if let Some(rate) = self.rate_limit.filter(|_| !ending) {
            limit = limit.min(Beat::of(rate).starts_in(limits::HELD_FRESH));
        }
        limit += self.in_flight as usize;
        Some(Wish { from, limit: limit.min(limits::WINDOW_MAX) })
    }

    /// When to ask again if nothing happens before.
    pub fn wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let settings = self.settings.as_ref()?;
        if !matches!(settings.mode, Mode::Deliver) {
            return None;
        }
        let held = self.held.values().next().map(|held| held.delivery.due_at);
        let unseen = self.unseen.map(|position| Timestamp::from_micros(position.rank.max(0)));
        let gate = self.gate.held_until(now).unwrap_or(Timestamp::MIN);
        let pace = self.paced_until(now).unwrap_or(Timestamp::MIN);
        // What is overdue waits for a slot, a flush or an answer, and must not hide what falls due later.
        held.into_iter().chain(unseen).map(|due| due.max(gate).max(pace)).filter(|at| *at > now).min()
    }

    // --- What it is like -------------------------------------------------------------------------------------------

    pub fn is_configured(&self) -> bool {
        self.settings.is_some()
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Deliveries in memory that have not started.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Back-pressure: what has ended and is not durable yet counts against the lane, twice its limit in all.
    pub fn awaits_flush(&self) -> bool {
        let limit = self.settings.as_ref().map_or(0, |settings| settings.max_concurrency);
        self.in_flight + self.unflushed >= limit.saturating_mul(2)
    }

    /// Nothing to do, nothing to remember: the lane can be forgotten.
    pub fn is_idle(&self, settings: &GateSettings, now: Timestamp) -> bool {
        let nothing_to_do = self.known.is_empty() && self.unseen.is_none() && !self.fetching;
        nothing_to_do && self.gate.at_rest(settings, now) && self.pace_at_rest(now)
    }

    /// Has something due and a slot of its own for it, but the node's capacity leaves it none.
    pub fn is_starved(&self, share: u32, now: Timestamp) -> bool {
        let limit = self.settings.as_ref().map_or(0, |settings| settings.max_concurrency);
        let due = self.held.values().next().is_some_and(|held| held.delivery.due_at <= now);
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
            let before = known.seen.replace(row.position);
            // Moved since it came into memory: it is taken again, with its new due time.
            let moved = before.filter(|place| known.stage == Stage::Held && *place != row.position);
            if let Some(place) = moved {
                self.held.remove(&place);
                self.known.remove(&row.id);
            }
            return moved.is_none();
        }
        let settled = self.settled_meanwhile.get(&row.id).copied();
        if let Some(Settled::Waits { .. }) = settled {
            self.look(row.position); // as in `flushed`: before, or moved since?
        }
        settled.is_some()
    }

    /// Where a fetch has seen the row of a delivery, if it was expected until now.
    fn no_longer_expected(&mut self, id: DeliveryId) -> Option<Option<Position>> {
        let Known { seen, .. } = *self.known.get(&id).filter(|known| known.stage == Stage::Expected)?;
        self.known.remove(&id);
        Some(seen)
    }

    fn hold(&mut self, held: Held<C>) {
        self.known.insert(held.delivery.id, Known { stage: Stage::Held, seen: Some(held.delivery.position) });
        self.held.insert(held.delivery.position, held);
    }

    fn end(&mut self, held: Held<C>, with: Ending) -> Step<C> {
        self.known.insert(held.delivery.id, Stage::Unflushed.into());
        self.unflushed += 1;
        Step::End(held, with)
    }

    fn take_first(&mut self) -> Option<Held<C>> {
        let (_, held) = self.held.pop_first()?;
        // A map that has been used keeps room for eleven: three kilobytes, in every lane there is.
        if self.held.is_empty() {
            self.held = BTreeMap::new();
        }
        Some(held)
    }

    fn drop_held(&mut self) {
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

fn switched(reason: HoldReason, since: Timestamp) -> Hold {
    Hold { reason, since, until: None, detail: String::new(), step: None, probing: false }
}

#[cfg(test)]
mod tests;
