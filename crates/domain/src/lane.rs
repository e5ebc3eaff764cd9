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

mod decide;
mod denied;
mod explain;
mod order;
mod pace;
mod state;
mod test_slot;
mod window;

use crate::{
    delivery::{Delivery, Ending, Position, Settled},
    destination::{Ordering, RateLimit},
    gate::{Gate, GateRecord, GateSettings, MetOutcome},
    id::{DeliveryId, RouteId},
    limits,
    time::Timestamp,
};
use denied::Denied;
use order::{Order, TrackRows};
use pace::{Pace, StartInterval};
use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};
use window::WindowSize;

pub use explain::{Binding, Explanation, WaitKind, WaitingFor};
pub use order::TrackHead;
pub use test_slot::TestSlot;
pub use window::{TrackQuery, WindowQuery};

/// One destination's lane. `C` is what travels with a delivery; the lane never looks into it.
#[derive(Debug)]
pub struct Lane<C> {
    /// None until the destination has been read: nothing starts before.
    settings: Option<LaneSettings>,
    gate: Gate,
    /// In memory and not started, in the order they will be sent.
    loaded: BTreeMap<Position, LoadedDelivery<C>>,
    /// Every delivery this lane has in hand, and how far it is. A fetch that returns one of these ignores it.
    known: HashMap<DeliveryId, KnownDelivery>,
    /// Settled while a fetch was under way: the fetch may have read their rows as they were before.
    settled_meanwhile: HashMap<DeliveryId, Settled>,
    unseen: Option<Position>,
    /// When a row is due that an unordered lane has outside its track: left from the moment at which its order ended.
    left_over: Option<Timestamp>,
    fetching: bool,
    /// From where the last fetch reads.
    fetching_from: Option<Position>,
    /// Counts the changes between ordered and not: what was read in another life is no answer.
    life: u32,
    /// The tracks of an ordered destination; they take the place of `loaded`, `unseen` and `fetching`.
    order: Option<Box<Order<C>>>,
    in_flight: u32,
    unflushed: u32,
    window: WindowSize,
    pace: Pace,
    /// These outlive the settings, which are forgotten whenever they are read again.
    rate_limit: Option<RateLimit>,
    ordering: Ordering,
    ending: bool,
    /// Since when a due delivery has found every slot taken.
    full_since: Option<Timestamp>,
    /// When one of all the slots that were taken was last given back.
    full_until: Option<Timestamp>,
    denied: Denied,
    /// While the gate holds the lane: when it last looked for what has expired.
    expiry_looked_at: Option<Timestamp>,
}

/// A delivery in memory, with what travels with it.
#[derive(Debug)]
pub struct LoadedDelivery<C> {
    pub delivery: Delivery,
    pub carried: C,
    /// When its row was known to be true; older than a second and it is read again.
    pub read_at: Timestamp,
}

/// A row that was read.
#[derive(Debug)]
pub struct WindowRow<C> {
    pub delivery: Delivery,
    pub carried: C,
    /// The track of its ordering key: where a scheduled delivery of an ordered destination goes when its time comes.
    pub track: i64,
}

#[derive(Debug, Clone, Copy)]
struct KnownDelivery {
    stage: DeliveryStage,
    /// Where a fetch last saw its row and left it alone: "retry now" moves rows while we have them in hand, and a
    /// lane that lets go of one must look there.
    seen: Option<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum DeliveryStage {
    /// Announced by a commit that is still under way.
    Expected,
    Loaded,
    Open {
        since: Timestamp,
    },
    /// Its attempt has ended, the settlement is not yet durable.
    Unflushed,
    /// Its time has come; the store is giving it its number.
    Numbering,
}

impl From<DeliveryStage> for KnownDelivery {
    fn from(stage: DeliveryStage) -> Self {
        Self { stage, seen: None }
    }
}

/// What the lane needs to know of its destination.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneSettings {
    pub max_concurrency: u32,
    pub rate_limit: Option<RateLimit>,
    pub ordering: Ordering,
    pub mode: LaneMode,
    pub resumed_at: Option<Timestamp>,
    pub expire_after: Duration,
    /// Routes with an age limit of their own.
    pub expire_after_by_route: HashMap<RouteId, Duration>,
}

/// What the lane does with its deliveries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LaneMode {
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
pub enum LaneAction<C> {
    Start(LoadedDelivery<C>),
    /// Ends without an attempt.
    End(LoadedDelivery<C>, Ending),
    /// Its time has come: the store gives it its number in this track.
    Number(LoadedDelivery<C>, i64),
}

impl<C> Default for Lane<C> {
    fn default() -> Self {
        Self {
            settings: None,
            gate: Gate::default(),
            loaded: BTreeMap::new(),
            known: HashMap::new(),
            settled_meanwhile: HashMap::new(),
            unseen: None,
            left_over: None,
            fetching: false,
            fetching_from: None,
            life: 0,
            order: None,
            in_flight: 0,
            unflushed: 0,
            window: WindowSize::default(),
            pace: Pace::default(),
            rate_limit: None,
            ordering: Ordering::None,
            ending: false,
            full_since: None,
            full_until: None,
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
        let to_be_ended =
            |loaded: &LoadedDelivery<C>| loaded.delivery.due_at > loaded.read_at.plus(limits::LOADED_FRESH);
        if !matches!(settings.mode, LaneMode::End { .. }) && self.loaded.values().any(to_be_ended) {
            self.drop_loaded();
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
        self.known.entry(id).or_insert(DeliveryStage::Expected.into());
    }

    /// The commit failed, or it is not known how it ended: without a row that was seen there is no such delivery.
    pub fn forgotten(&mut self, id: DeliveryId) {
        if let Some(seen) = self.no_longer_expected(id).flatten() {
            self.look_at(seen);
        }
    }

    /// The delivery is durable. It stays in memory if the lane is live and has room, else it waits in the store.
    pub fn arrived(&mut self, delivery: Delivery, carried: C, room: bool, now: Timestamp) {
        // Not expected here: another owner, or a fetch of ours, may have seen to it before this word came.
        let Some(seen) = self.no_longer_expected(delivery.id) else {
            if !self.known.contains_key(&delivery.id) {
                self.look_at(delivery.position);
            }
            return;
        };
        let moved_to = seen.filter(|seen| *seen != delivery.position);
        let soon = delivery.due_at <= now.plus(limits::LOADED_FRESH);
        // What is ordered was given its number by the commit: only the store knows it.
        let unordered = delivery.position.track == Position::UNORDERED && self.order.is_none();
        if unordered && room && soon && moved_to.is_none() && self.takes_arrivals(now) {
            if self.is_full() && delivery.due_at <= now {
                self.denied.came_late(delivery.position);
            }
            self.load(LoadedDelivery { delivery, carried, read_at: now });
        } else {
            if unordered && self.is_full() && delivery.due_at <= now {
                self.denied.stored(delivery.position);
            }
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
            None if place.track == Position::UNORDERED => self.look(place),
            None => self.look(Position::START),
        }
    }

    /// The fetch that [`Lane::wants`] asked for has come back; fewer rows than asked for means there are no more.
    pub fn fetched(&mut self, query: &WindowQuery, mut rows: Vec<WindowRow<C>>, now: Timestamp) {
        if query.life != self.life {
            return;
        }
        let complete = rows.len() < query.limit;
        let last = rows.last().map(|row| row.delivery.position);
        if self.order.is_some() {
            rows.retain(|row| !self.is_in_hand(&row.delivery));
            let read = TrackRows { rows, last: last.map(|last| last.rank), complete };
            return self.track_fetched(query, read, now);
        }
        self.fetching = false;
        self.window.filled(complete);
        for WindowRow { delivery, carried, .. } in rows {
            if self.is_in_hand(&delivery) {
                continue;
            }
            if delivery.due_at <= now.plus(limits::LOADED_FRESH) || self.is_ending() {
                self.load(LoadedDelivery { delivery, carried, read_at: now });
            } else {
                self.look_when_due(delivery.position, delivery.due_at);
            }
        }
        self.settled_meanwhile.clear();
        // A lane is read when a slot comes free: what is due has waited until then.
        if let Some(until) = if self.is_full() { Some(now) } else { self.full_until } {
            self.deny_due(until);
        }
        if let Some(last) = last.filter(|_| !complete) {
            self.look(last.after());
        }
        if self.unseen.is_none() {
            self.denied.caught_up();
        }
    }

    /// The fetch came to nothing: what it was to read is still unseen.
    pub fn fetch_failed(&mut self, query: &WindowQuery) {
        if query.life != self.life {
            return;
        }
        match &mut self.order {
            Some(order) => order.fetch_failed(query),
            None => {
                self.fetching = false;
                self.settled_meanwhile.clear();
                self.look(query.from);
            }
        }
    }

    /// The look for tracks that [`Lane::wants_tracks`] asked for has come back.
    pub fn swept(&mut self, query: &TrackQuery, heads: &[TrackHead], complete: bool, now: Timestamp) {
        let ending = self.is_ending();
        if let Some(order) = self.order.as_mut().filter(|_| query.life == self.life) {
            order.swept(heads, complete, ending, |id| self.known.contains_key(&id), now);
        }
    }

    pub fn sweep_failed(&mut self, query: &TrackQuery) {
        if let Some(order) = self.order.as_mut().filter(|_| query.life == self.life) {
            order.sweep_failed(query.from);
        }
    }

    /// Its number has been given, and it stands at the end of this track; or where it stood, to be looked at again.
    pub fn numbered(&mut self, id: DeliveryId, place: Position) {
        if self.known.get(&id).is_some_and(|known| known.stage == DeliveryStage::Numbering) {
            self.known.remove(&id);
        }
        if let Some(order) = &mut self.order {
            order.numbered();
        }
        self.look_at(place);
    }

    /// The answer has been read: the slot is free, the settlement is on its way.
    pub fn finished(&mut self, id: DeliveryId, met: MetOutcome, settings: &GateSettings, now: Timestamp) {
        let known = self.known.insert(id, DeliveryStage::Unflushed.into());
        let open = known.is_some_and(|known| matches!(known.stage, DeliveryStage::Open { .. }));
        debug_assert!(open, "finished {id} without a start");
        self.note_full(now);
        self.in_flight -= 1;
        self.unflushed += 1;
        self.full_since = None;
        // While the limit is not known no ramp is over.
        let limit = self.settings.as_ref().map_or(u32::MAX, |settings| settings.max_concurrency);
        self.gate.met(met, limit, settings, now);
    }

    /// The request was given up without a result (a stop, a lost lease): the row is as it was.
    pub fn abandoned(&mut self, id: DeliveryId, position: Position) {
        if let Some(KnownDelivery { stage: DeliveryStage::Open { since }, seen }) =
            self.known.get(&id).copied()
        {
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
        // After a word about an attempt of another life of this lane, what is in hand stays in hand.
        let known = self.known.get(&id).copied().filter(|known| known.stage == DeliveryStage::Unflushed);
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
            let ending = self.is_ending();
            match &mut self.order {
                // It ends with the others.
                Some(order) if ending => order.look_at(position.track, position.rank),
                Some(order) => {
                    let gone = order.waits(*position, *due_at, now);
                    self.let_go(gone);
                }
                None => self.look_when_due(*position, *due_at),
            }
            // The row as it was before, or moved once more since: only another look can tell.
            known.and_then(|known| known.seen).into_iter().for_each(|seen| self.look_at(seen));
        }
    }

    /// The destination had another owner, which wrote this about its gate. To be told before anything starts.
    pub fn restore(&mut self, record: &GateRecord, now: Timestamp) {
        self.gate.restore(record, now);
    }

    /// Since when the lane is this node's: the owner before may have started something until then.
    pub fn owned_since(&mut self, since: Timestamp) {
        self.pace.owned_since(since);
    }

    /// A person asked to try now, whatever the gate says.
    pub fn probe_now(&mut self, now: Timestamp) {
        self.gate.probe_now(now);
    }

    /// Lets go of what has been in memory too long; it is read again when it can be sent.
    pub fn refresh(&mut self, now: Timestamp) {
        let stale = |loaded: &LoadedDelivery<C>| now.since(loaded.read_at) > limits::LOADED_FRESH;
        let out_of_order = self.order.as_ref().is_some_and(|order| order.is_stale(now));
        if out_of_order || self.loaded.values().next().is_some_and(stale) {
            self.window.wasted();
            self.drop_loaded();
        }
    }

    // --- Leaves ----------------------------------------------------------------------------------------------------

    /// Whether a row that was read is to be left alone, because what is known here is newer.
    fn is_in_hand(&mut self, row: &Delivery) -> bool {
        if let Some(known) = self.known.get_mut(&row.id) {
            if known.stage == DeliveryStage::Numbering && row.position.track != Position::AWAITS_TIME {
                self.known.remove(&row.id); // it has its number, and this row is the first to tell
                return false;
            }
            let numbered = known.seen.is_some_and(|seen| seen.track > Position::UNORDERED);
            if numbered && row.position.track == Position::AWAITS_TIME {
                return true; // as it was before it was numbered
            }
            let before = known.seen.replace(row.position);
            // Moved since it came into memory: it is taken again, with its new due time.
            let moved = before.filter(|place| known.stage == DeliveryStage::Loaded && *place != row.position);
            if let Some(place) = moved {
                match &mut self.order {
                    Some(order) => order.forget(place),
                    None => drop(self.loaded.remove(&place)),
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
        let KnownDelivery { seen, .. } =
            *self.known.get(&id).filter(|known| known.stage == DeliveryStage::Expected)?;
        self.known.remove(&id);
        Some(seen)
    }

    /// Every slot of its own is taken.
    fn is_full(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| self.in_flight >= settings.max_concurrency)
    }

    /// A slot is about to be given back.
    fn note_full(&mut self, now: Timestamp) {
        if self.is_full() {
            self.full_until = Some(now);
        }
    }

    /// What is due has found no slot: this one, and in an unordered lane all that are in memory.
    fn deny(&mut self, first: Position, now: Timestamp) {
        match self.order {
            Some(_) => self.denied.head(first),
            None => self.deny_due(now),
        }
    }

    /// What is in memory and was due by then has found no slot.
    fn deny_due(&mut self, now: Timestamp) {
        let due =
            self.loaded.range(self.denied.beyond()).take_while(|(_, loaded)| loaded.delivery.due_at <= now);
        let (mut count, mut last) = (0, None);
        for (place, _) in due {
            (count, last) = (count + 1, Some(*place));
        }
        self.denied.all(count, last);
    }

    fn load(&mut self, loaded: LoadedDelivery<C>) {
        self.known.insert(
            loaded.delivery.id,
            KnownDelivery { stage: DeliveryStage::Loaded, seen: Some(loaded.delivery.position) },
        );
        self.loaded.insert(loaded.delivery.position, loaded);
    }

    /// Whether the destination is ordered may change while nothing waits there; what comes meanwhile is found.
    fn ordered_as(&mut self, settings: &LaneSettings) {
        let ordered = settings.ordering != Ordering::None;
        if ordered != self.order.is_some() {
            self.drop_loaded();
            self.life += 1;
            self.order = ordered.then(Box::default);
            self.known.retain(|_, known| {
                !matches!(known.stage, DeliveryStage::Expected | DeliveryStage::Numbering)
            });
            (self.unseen, self.left_over, self.fetching) = (None, None, false);
            self.settled_meanwhile.clear();
            self.look(Position::START);
        }
        let ends = matches!(settings.mode, LaneMode::End { .. });
        let ended = std::mem::replace(&mut self.ending, ends);
        self.ordering = settings.ordering;
        if let Some(order) = &mut self.order {
            let gone = if ended && !ends { order.let_all_go() } else { Vec::new() };
            if ends && !ended {
                order.release_all();
            }
            self.let_go(gone);
        }
    }

    /// It waits until then. The rank of an unordered lane's own rows is their time; of others it is not.
    fn look_when_due(&mut self, place: Position, due_at: Timestamp) {
        if self.order.is_none() && place.track != Position::UNORDERED {
            self.left_over = Some(self.left_over.map_or(due_at, |at| at.min(due_at)));
        } else {
            self.look_at(place);
        }
    }

    fn track_fetched(&mut self, query: &WindowQuery, read: TrackRows<C>, now: Timestamp) {
        let everything = self.is_ending();
        if let Some(order) = &mut self.order {
            for place in order.fetched(query, read, everything, now) {
                self.known.insert(
                    place.delivery_id,
                    KnownDelivery { stage: DeliveryStage::Loaded, seen: Some(place) },
                );
            }
        }
    }

    fn let_go(&mut self, gone: Vec<DeliveryId>) {
        for id in gone {
            self.known.remove(&id);
        }
    }

    fn drop_loaded(&mut self) {
        if let Some(order) = &mut self.order {
            let gone = order.let_all_go();
            self.let_go(gone);
        }
        let Some((first, _)) = self.loaded.first_key_value() else { return };
        let first = *first;
        for (_, loaded) in std::mem::take(&mut self.loaded) {
            self.known.remove(&loaded.delivery.id);
        }
        self.look(first);
    }

    /// Until when the rate limit lets nothing start; None if it lets something start now.
    fn paced_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.pace.earliest(StartInterval::of(self.rate_limit?)).filter(|at| *at > now)
    }

    /// Live, as far as what is due goes: a retry that waits for tomorrow does not stand in today's way.
    fn takes_arrivals(&self, now: Timestamp) -> bool {
        let live = !self.fetching && self.unseen.is_none_or(|unseen| unseen.rank > now.micros());
        let is_held = self.gate.held_until(now).is_some()
            || self
                .settings
                .as_ref()
                .is_some_and(|settings| matches!(settings.mode, LaneMode::Paused { .. }));
        live && !is_held && self.loaded.len() < limits::WINDOW_MAX
    }
}

#[cfg(test)]
mod tests;
