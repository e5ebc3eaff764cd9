//! Order: one track for a `strict` destination, one for each ordering key of a `key` destination.
//!
//! Of a track only the lowest row may start, and the next one only when that one's end is durable. So nothing is taken
//! straight from a commit: a track is read from where it was read last, and a head that waits for its retry is
//! remembered with its time and nothing behind it. A track whose rows may be incomplete below its head starts nothing.
//! Scheduled deliveries wait in a track of their own until their time; then the store numbers them, and they
//! stand at the end of the track of their key.

use super::{LoadedDelivery, WindowQuery, WindowRow};
use crate::{
    delivery::{Delivery, Position},
    id::DeliveryId,
    limits,
    time::Timestamp,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug)]
pub(super) struct Order<C> {
    tracks: BTreeMap<i64, Track<C>>,
    /// Tracks whose head is here and free to go: its rank, and the track.
    ready: BTreeSet<(i64, i64)>,
    /// Tracks to be read, in this order.
    to_read: VecDeque<i64>,
    /// Heads that are not due.
    blocked: BTreeSet<(Timestamp, i64)>,
    /// Scheduled ones whose time has come, and the track each goes to.
    to_number: VecDeque<(LoadedDelivery<C>, i64)>,
    /// Those that the store is giving their numbers.
    numbering: usize,
    sweep: TrackSweep,
    /// Tracks that have rows in memory or under way.
    in_memory: usize,
    loaded: usize,
    reading: usize,
}

/// The look through all tracks: after a take-over, and for heads that were too many to remember.
#[derive(Debug, Default)]
struct TrackSweep {
    /// Tracks from here on may have something that has not been looked at.
    from: Option<i64>,
    /// What has been passed already is looked at by the next round: none is left out, whatever comes meanwhile.
    next_round: Option<i64>,
    under_way: bool,
    again_at: Option<Timestamp>,
}

impl TrackSweep {
    fn look_from(&mut self, track: i64) {
        let passed = match self.from {
            Some(from) => track < from,
            None => self.under_way,
        };
        let mark = if passed { &mut self.next_round } else { &mut self.from };
        *mark = Some(mark.map_or(track, |mark| mark.min(track)));
    }
}

#[derive(Debug)]
struct Track<C> {
    rows: BTreeMap<(i64, DeliveryId), LoadedDelivery<C>>,
    /// Open, or ended and not yet durable: one, unless the destination has been disabled.
    busy: Vec<DeliveryId>,
    /// Rows may wait from this rank on that are not here.
    unread: Option<i64>,
    /// A read from this rank is under way.
    reading: Option<i64>,
    /// Its head, and when it is due.
    blocked: Option<(Timestamp, DeliveryId)>,
    /// The highest rank that was read. What is committed later has a higher one.
    last: Option<i64>,
    /// Became durable while the read was under way, which may have seen them as they were before.
    settled: Vec<DeliveryId>,
    /// As in `ready`.
    filed: Option<i64>,
    /// In `to_read`.
    listed: bool,
}

/// A track that has something waiting, and its first row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrackHead {
    pub first: Position,
    pub due_at: Timestamp,
}

/// What was read of a track, less what is in hand.
pub(super) struct TrackRows<C> {
    pub(super) rows: Vec<WindowRow<C>>,
    /// The rank of the last one that was read.
    pub(super) last: Option<i64>,
    /// There were no more.
    pub(super) complete: bool,
}

impl<C> Default for Order<C> {
    fn default() -> Self {
        Self {
            tracks: BTreeMap::new(),
            ready: BTreeSet::new(),
            to_read: VecDeque::new(),
            blocked: BTreeSet::new(),
            to_number: VecDeque::new(),
            numbering: 0,
            sweep: TrackSweep::default(),
            in_memory: 0,
            loaded: 0,
            reading: 0,
        }
    }
}

impl<C> Default for Track<C> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            busy: Vec::new(),
            unread: None,
            reading: None,
            blocked: None,
            last: None,
            settled: Vec::new(),
            filed: None,
            listed: false,
        }
    }
}

impl<C> Order<C> {
    /// Something may wait anywhere from this track on.
    pub(super) fn look_from(&mut self, track: i64) {
        self.sweep.look_from(track);
    }

    /// Something waits in this track, from this rank on; [`Position::END`] for what has just been committed.
    pub(super) fn look_at(&mut self, track: i64, rank: i64) {
        if self.tracks.len() >= limits::TRACKS_KNOWN - limits::TRACKS_LISTED
            && !self.tracks.contains_key(&track)
        {
            return self.look_from(track);
        }
        self.mark(track, rank);
    }

    fn mark(&mut self, track: i64, rank: i64) {
        let it = self.tracks.entry(track).or_default();
        // Behind a head that waits: it is found when that one is.
        if it.blocked.is_some() && it.unread.is_some_and(|unread| unread < rank) {
            return;
        }
        // What is said of one row says nothing of those before it.
        let next = it.last.map_or(i64::MIN, |last| last.saturating_add(1));
        it.lower(if track == Position::AWAITS_TIME { rank } else { next.min(rank) });
        if let Some((due_at, _)) = it.blocked.take() {
            self.blocked.remove(&(due_at, track));
        }
        self.review(track);
    }

    /// Times that have come.
    pub(super) fn tick(&mut self, now: Timestamp) {
        while let Some((due_at, track)) = self.blocked.first().copied().filter(|(due_at, _)| *due_at <= now) {
            self.blocked.remove(&(due_at, track));
            if let Some(it) = self.tracks.get_mut(&track) {
                it.blocked = None;
            }
            self.review(track);
        }
        if self.sweep.again_at.is_some_and(|at| at <= now) {
            self.sweep.again_at = None;
            self.look_from(i64::MIN);
        }
    }

    /// The next track to read. What is scheduled is numbered whatever holds the others: `open` says whether they
    /// may start, `tracks` how many of them are worth having in memory.
    pub(super) fn query(&mut self, open: bool, tracks: usize) -> Option<WindowQuery> {
        // Those of the last read are numbered first: what they leave behind is where the next one begins.
        if self.to_number.is_empty() && self.numbering == 0 {
            let query = self.read(Position::AWAITS_TIME, limits::NUMBERED_AT_ONCE);
            if query.is_some() {
                return query;
            }
        }
        while open && self.in_memory < tracks {
            let track = self.to_read.pop_front()?;
            if let Some(query) = self.read(track, limits::TRACK_ROWS) {
                return Some(query);
            }
        }
        None
    }

    /// Begins to read a track that is listed, if there is still something to read.
    fn read(&mut self, track: i64, limit: usize) -> Option<WindowQuery> {
        let it = self.tracks.get_mut(&track).filter(|it| it.listed)?;
        it.listed = false;
        let Some(rank) = it.unread.filter(|_| it.may_be_read()) else {
            self.review(track);
            return None;
        };
        it.unread = None;
        it.reading = Some(rank);
        self.reading += 1;
        self.in_memory += usize::from(it.rows.is_empty());
        let from = Position { track, rank, delivery_id: DeliveryId::MIN };
        Some(WindowQuery { from, last_track: track, limit, life: 0 })
    }

    /// Where to go on looking for tracks, if that is needed now. Asking is doing.
    pub(super) fn sweep(&mut self) -> Option<i64> {
        // Room for a page of them is kept free of what has just been committed.
        let room = self.tracks.len() <= limits::TRACKS_KNOWN - limits::TRACKS_LISTED;
        let from = self.sweep.from.filter(|_| room && !self.sweep.under_way)?;
        self.sweep.from = None;
        self.sweep.under_way = true;
        Some(from)
    }

    pub(super) fn sweep_failed(&mut self, from: i64) {
        self.sweep.under_way = false;
        self.sweep.from = Some(from);
    }

    /// These tracks were found, and there are more after them unless it was `complete`.
    pub(super) fn swept(
        &mut self,
        heads: &[TrackHead],
        complete: bool,
        ending: bool,
        in_hand: impl Fn(DeliveryId) -> bool,
        now: Timestamp,
    ) {
        self.sweep.under_way = false;
        for TrackHead { first, due_at } in heads {
            let waits = (*due_at, first.delivery_id);
            match self.tracks.get(&first.track) {
                Some(it) if it.blocked == Some(waits) => {}
                Some(_) if first.track != Position::AWAITS_TIME && in_hand(first.delivery_id) => {
                    self.mark(first.track, Position::END);
                }
                None if !ending && *due_at > now.plus(limits::LOADED_FRESH) => {
                    self.block(*first, *due_at, now)
                }
                // Another than the one that was waited for: that one is gone.
                Some(Track { blocked: Some(_), unread: Some(unread), .. }) => {
                    let rank = first.rank.min(*unread);
                    self.mark(first.track, rank);
                }
                _ => self.mark(first.track, first.rank),
            }
        }
        self.sweep.from = match heads.last().filter(|_| !complete) {
            Some(last) => Some(last.first.track.saturating_add(1)),
            None => self.sweep.next_round.take(),
        };
    }

    /// The answer to a wish; says which rows are in hand from now on.
    pub(super) fn fetched(
        &mut self,
        query: &WindowQuery,
        read: TrackRows<C>,
        ending: bool,
        now: Timestamp,
    ) -> Vec<Position> {
        let track = query.last_track;
        let settled = self.read_ended(track);
        let Some(it) = self.tracks.get_mut(&track) else { return Vec::new() };
        if track != Position::AWAITS_TIME {
            it.last = it.last.max(read.last);
        }
        if let Some(last) = read.last.filter(|_| !read.complete) {
            // Many may be scheduled for the same time.
            it.lower(if track == Position::AWAITS_TIME { last } else { last.saturating_add(1) });
        }
        let mut taken = Vec::with_capacity(read.rows.len());
        for WindowRow { delivery, carried, track: key_track } in read.rows {
            let (position, due_at, id) = (delivery.position, delivery.due_at, delivery.id);
            let it = self.tracks.entry(track).or_default();
            if settled.contains(&id) {
                it.lower(position.rank);
                break;
            }
            let soon = if track == Position::AWAITS_TIME { now } else { now.plus(limits::LOADED_FRESH) };
            if due_at > soon && !ending {
                // It is to be looked at again: it may have been moved, or ended, since it was read.
                let looked_for = it.unread.is_some_and(|unread| unread <= position.rank);
                it.lower(position.rank);
                if it.rows.is_empty() && it.busy.is_empty() && !looked_for {
                    self.block(position, due_at, now);
                }
                break;
            }
            taken.push(position);
            let loaded = LoadedDelivery { delivery, carried, read_at: now };
            if track == Position::AWAITS_TIME && !ending {
                self.to_number.push_back((loaded, key_track));
                continue;
            }
            self.in_memory += usize::from(it.rows.is_empty());
            self.loaded += usize::from(it.rows.insert((position.rank, id), loaded).is_none());
        }
        self.review(track);
        taken
    }

    pub(super) fn fetch_failed(&mut self, query: &WindowQuery) {
        self.read_ended(query.last_track);
        self.mark(query.last_track, query.from.rank);
    }

    /// Gives what was settled during the read.
    fn read_ended(&mut self, track: i64) -> Vec<DeliveryId> {
        let Some(it) = self.tracks.get_mut(&track) else { return Vec::new() };
        if it.reading.take().is_some() {
            self.reading -= 1;
            self.in_memory -= usize::from(it.rows.is_empty());
        }
        std::mem::take(&mut it.settled)
    }

    #[cfg(test)]
    pub(super) fn is_reading(&self) -> bool {
        self.reading > 0
    }

    /// A scheduled delivery whose time has come, and the track it goes to.
    pub(super) fn next_to_number(&mut self) -> Option<(LoadedDelivery<C>, i64)> {
        let next = self.to_number.pop_front();
        self.numbering += usize::from(next.is_some());
        next
    }

    pub(super) fn has_to_number(&self) -> bool {
        !self.to_number.is_empty()
    }

    /// One of them has its number, or it is not known whether. It may have been taken in another life of this lane.
    pub(super) fn numbered(&mut self) {
        self.numbering = self.numbering.saturating_sub(1);
    }

    /// The head that may start now, lowest sequence first. What was read too long ago is let go into `stale`.
    pub(super) fn first(&mut self, now: Timestamp, stale: &mut Vec<DeliveryId>) -> Option<&Delivery> {
        let track = loop {
            let due =
                |(_, track): &&(i64, i64)| self.head(*track).is_some_and(|head| head.delivery.due_at <= now);
            let (_, track) = self.ready.iter().find(due).copied()?;
            if self.head(track).is_some_and(|head| now.since(head.read_at) <= limits::LOADED_FRESH) {
                break track;
            }
            stale.extend(self.let_go(track));
        };
        self.head(track).map(|head| &head.delivery)
    }

    pub(super) fn peek(&self, place: Position) -> Option<&Delivery> {
        let it = self.tracks.get(&place.track)?;
        it.rows.get(&(place.rank, place.delivery_id)).map(|loaded| &loaded.delivery)
    }

    pub(super) fn has_ready(&self, now: Timestamp) -> bool {
        let due = |head: &LoadedDelivery<C>| head.delivery.due_at <= now;
        self.ready.iter().any(|(_, track)| self.head(*track).is_some_and(due))
    }

    /// Takes the head of a track out of memory.
    pub(super) fn take(&mut self, position: Position) -> Option<LoadedDelivery<C>> {
        let it = self.tracks.get_mut(&position.track)?;
        let loaded = it.rows.remove(&(position.rank, position.delivery_id))?;
        self.loaded -= 1;
        self.in_memory -= usize::from(it.rows.is_empty() && it.reading.is_none());
        self.review(position.track);
        Some(loaded)
    }

    /// Its row has moved: what was read of it is no longer true.
    pub(super) fn forget(&mut self, place: Position) {
        self.to_number.retain(|(loaded, _)| loaded.delivery.id != place.delivery_id);
        drop(self.take(place));
    }

    /// Any row: they are all to be ended.
    pub(super) fn take_any(&mut self) -> Option<LoadedDelivery<C>> {
        if let Some((loaded, _)) = self.to_number.pop_front() {
            return Some(loaded);
        }
        let place = self
            .tracks
            .values()
            .find_map(|it| it.rows.values().next().map(|loaded| loaded.delivery.position));
        self.take(place?)
    }

    pub(super) fn busy(&mut self, track: i64, id: DeliveryId) {
        self.tracks.entry(track).or_default().busy.push(id);
        self.review(track);
    }

    /// What became of this one is durable, or it is not ours any more.
    pub(super) fn freed(&mut self, track: i64, id: DeliveryId) {
        let Some(it) = self.tracks.get_mut(&track) else { return };
        if it.reading.is_some() {
            it.settled.push(id);
        }
        it.busy.retain(|busy| *busy != id);
        self.review(track);
    }

    /// The head waits for its time; what stands behind it is let go.
    pub(super) fn waits(&mut self, position: Position, due_at: Timestamp, now: Timestamp) -> Vec<DeliveryId> {
        // It is to be looked at: it may have been moved once more since.
        let unread = self.tracks.get(&position.track).and_then(|it| it.unread);
        let looked_for = unread.is_some_and(|unread| unread <= position.rank);
        let gone = self.let_go(position.track);
        if due_at > now.plus(limits::LOADED_FRESH) && !looked_for {
            self.block(position, due_at, now);
        } else {
            self.look_at(position.track, position.rank);
        }
        gone
    }

    /// Everything leaves the memory and is read again when it can be sent.
    pub(super) fn let_all_go(&mut self) -> Vec<DeliveryId> {
        if self.loaded == 0 {
            return Vec::new();
        }
        let full: Vec<i64> =
            self.tracks.iter().filter(|(_, it)| !it.rows.is_empty()).map(|(track, _)| *track).collect();
        full.into_iter().flat_map(|track| self.let_go(track)).collect()
    }

    pub(super) fn is_stale(&self, now: Timestamp) -> bool {
        let old = |it: &Track<C>| {
            it.rows.values().next().is_some_and(|loaded| now.since(loaded.read_at) > limits::LOADED_FRESH)
        };
        self.loaded > 0 && self.tracks.values().any(old)
    }

    /// All of it shall end: what waits for its time, too.
    pub(super) fn release_all(&mut self) {
        for (_, track) in std::mem::take(&mut self.blocked) {
            if let Some(it) = self.tracks.get_mut(&track) {
                it.blocked = None;
            }
            self.review(track);
        }
        self.look_from(i64::MIN);
    }

    /// When there is something to do, those that are past included.
    pub(super) fn wakes(&self) -> impl Iterator<Item = Timestamp> {
        let blocked = self.blocked.first().map(|(due_at, _)| *due_at);
        let ready =
            self.ready.iter().filter_map(|(_, track)| self.head(*track)).map(|head| head.delivery.due_at);
        let scheduled = self.tracks.get(&Position::AWAITS_TIME).is_some_and(|it| it.listed);
        let unread = (scheduled || !self.to_read.is_empty()).then_some(Timestamp::MIN);
        ready.chain(blocked).chain(unread).chain(self.sweep.again_at)
    }

    /// When the heads are due that are known and not under way; of those that are not due, the first.
    pub(super) fn heads_due(&self) -> impl Iterator<Item = Timestamp> {
        let ready = self.ready.iter().filter_map(|(_, track)| self.head(*track));
        let blocked = self.blocked.first().map(|(due_at, _)| *due_at);
        ready.map(|head| head.delivery.due_at).chain(blocked)
    }

    /// When the next scheduled delivery is to be numbered, whatever holds the others.
    pub(super) fn next_scheduled_at(&self) -> Option<Timestamp> {
        Some(self.tracks.get(&Position::AWAITS_TIME)?.blocked?.0)
    }

    /// Which delivery stands before the others of a track.
    pub(super) fn leader(&self, track: i64) -> Option<DeliveryId> {
        let it = self.tracks.get(&track)?;
        let first = || it.rows.keys().next().map(|(_, id)| *id);
        it.busy.first().copied().or(it.blocked.map(|(_, id)| id)).or_else(first)
    }

    /// The same of all tracks that have one, some of them if they are many.
    pub(super) fn leaders(&self, most: usize) -> Vec<(i64, DeliveryId)> {
        let leader = |track: &i64| Some((*track, self.leader(*track)?));
        self.tracks.keys().filter_map(leader).take(most).collect()
    }

    pub(super) fn loaded(&self) -> usize {
        self.loaded + self.to_number.len()
    }

    pub(super) fn is_idle(&self) -> bool {
        let TrackSweep { from, next_round, under_way, again_at } = &self.sweep;
        let swept = from.is_none() && next_round.is_none() && !under_way && again_at.is_none();
        swept && self.tracks.values().all(Track::is_empty) && self.to_number.is_empty() && self.numbering == 0
    }

    fn head(&self, track: i64) -> Option<&LoadedDelivery<C>> {
        self.tracks.get(&track)?.rows.values().next()
    }

    /// Rows of this track leave the memory; the first of them is where to read from.
    fn let_go(&mut self, track: i64) -> Vec<DeliveryId> {
        let Some(it) = self.tracks.get_mut(&track) else { return Vec::new() };
        let rows = std::mem::take(&mut it.rows);
        if let Some(((rank, _), _)) = rows.first_key_value() {
            it.lower(*rank);
            self.loaded -= rows.len();
            self.in_memory -= usize::from(it.reading.is_none());
        }
        self.review(track);
        rows.into_keys().map(|(_, id)| id).collect()
    }

    /// The head of a track waits until then. Beyond so many of them all tracks are looked through again.
    fn block(&mut self, position: Position, due_at: Timestamp, now: Timestamp) {
        let Position { track, rank, delivery_id } = position;
        let it = self.tracks.entry(track).or_default();
        let before = |from: Option<i64>| from.is_some_and(|from| from < rank);
        let is_head = !before(it.unread) && !before(it.reading);
        it.lower(rank);
        if !is_head {
            return self.review(track);
        }
        if self.blocked.len() < limits::TRACKS_REMEMBERED {
            if let Some((before, _)) = it.blocked.replace((due_at, delivery_id)) {
                self.blocked.remove(&(before, track));
            }
            self.blocked.insert((due_at, track));
            self.review(track);
            return;
        }
        if it.reading.is_none() && it.rows.is_empty() && it.busy.is_empty() {
            it.unread = None;
            let again = due_at.max(now.plus(limits::TRACKS_AGAIN));
            self.sweep.again_at = Some(self.sweep.again_at.map_or(again, |at| at.min(again)));
        }
        self.review(track);
    }

    /// Files a track where it belongs now, or forgets it.
    fn review(&mut self, track: i64) {
        let Some(it) = self.tracks.get_mut(&track) else { return };
        let filed = it.free_head();
        if it.filed != filed {
            it.filed.into_iter().for_each(|rank| {
                self.ready.remove(&(rank, track));
            });
            it.filed = filed;
            self.ready.extend(filed.map(|rank| (rank, track)));
        }
        if it.unread.is_some() && it.may_be_read() && !it.listed {
            it.listed = true;
            // What is scheduled is read whatever holds the others, and does not wait among them.
            if track != Position::AWAITS_TIME {
                self.to_read.push_back(track);
            }
        }
        // The one track of a strict destination is not forgotten: it is read on from where it was read last.
        if it.is_empty() && track != Position::STRICT {
            self.tracks.remove(&track);
        }
    }
}

impl<C> Track<C> {
    fn lower(&mut self, rank: i64) {
        self.unread = Some(self.unread.map_or(rank, |unread| unread.min(rank)));
    }

    /// Nothing is read ahead of a head under way: it may take long, and then come back.
    fn may_be_read(&self) -> bool {
        let few = self.rows.len() <= limits::TRACK_ROWS / 2;
        let gap = self
            .rows
            .keys()
            .next()
            .is_some_and(|(first, _)| self.unread.is_some_and(|unread| unread <= *first));
        (few || gap) && self.busy.is_empty() && self.blocked.is_none() && self.reading.is_none()
    }

    /// The rank of the head, if it may start: nothing can be missing before it.
    fn free_head(&self) -> Option<i64> {
        let (rank, _) = *self.rows.keys().next()?;
        let complete = |from: Option<i64>| from.is_none_or(|from| from > rank);
        let free = self.busy.is_empty() && self.blocked.is_none();
        (free && complete(self.unread) && complete(self.reading)).then_some(rank)
    }

    fn is_empty(&self) -> bool {
        let nothing = self.rows.is_empty() && self.unread.is_none() && self.reading.is_none();
        nothing && self.busy.is_empty() && self.blocked.is_none() && !self.listed
    }
}
