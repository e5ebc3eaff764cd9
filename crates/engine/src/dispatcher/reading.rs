//! What the lanes need from the store, and what they are told when it comes: windows, destinations, tracks and
//! numbers.

use super::Dispatcher;
use crate::{
    carried::CarriedEvent,
    destination::PreparedDestination,
    fetcher::{LaneQuery, LaneSweep},
};
use domain::{
    delivery::Position,
    id::DestinationId,
    lane::{Lane, WindowRow},
    limits,
    time::Timestamp,
};
use std::sync::Arc;
use store::{DueDelivery, FetchedDelivery, StoreError, TrackHead};

impl Dispatcher {
    pub(super) fn fetch_windows(&mut self, now: Timestamp) {
        if !self.fetching.may_go(now) {
            return;
        }
        let (mut queries, mut rows) = (Vec::new(), 0);
        while queries.len() < limits::FETCH_LANES && rows < limits::FETCH_ROWS {
            let Some(id) = self.hungry.pop_of(|account| self.runner.has_room(account)) else { break };
            let Some(run) = self.lanes.get_mut(id) else { continue };
            run.is_hungry = false;
            let Some(epoch) = self.shards.epoch(run.shard).filter(|_| self.shards.may_start(run.shard))
            else {
                continue;
            };
            if let Some(query) = run.lane.wants_tracks() {
                self.sweeps.push_back(LaneSweep { destination: id, epoch, query });
            }
            while let Some(query) = run.lane.wants(now) {
                rows += query.limit;
                queries.push(LaneQuery { destination: id, epoch, query });
                if queries.len() >= limits::FETCH_LANES || rows >= limits::FETCH_ROWS {
                    run.is_hungry = true;
                    self.hungry.push(run.account(), id);
                    break;
                }
            }
        }
        if !queries.is_empty() {
            self.fetching.begun(now);
            self.fetcher.fetch(queries);
        }
    }

    pub(super) fn fetched(
        &mut self,
        queries: Vec<LaneQuery>,
        result: Result<Vec<Vec<FetchedDelivery>>, StoreError>,
        now: Timestamp,
    ) {
        match result {
            Ok(windows) => {
                self.fetching.succeeded();
                let is_full = |(asked, rows): (&LaneQuery, &Vec<_>)| rows.len() >= asked.query.limit;
                let has_more = !self.waiting_lanes.is_empty() || queries.iter().zip(&windows).any(is_full);
                self.fetching.wait_interval(has_more, now);
                let mut loader = self.runner.loader();
                for (LaneQuery { destination, epoch, query }, rows) in queries.into_iter().zip(windows) {
                    let Some(lane) = self.lane_of(destination, epoch) else { continue };
                    let ordering = lane.ordering();
                    let rows = rows.into_iter().map(|row| {
                        let carried = loader.load(&row);
                        let key = row.event.as_ref().and_then(|event| event.ordering_key.as_deref());
                        let track = ordering.track(key, row.delivery.id);
                        WindowRow { delivery: row.delivery, carried, track }
                    });
                    lane.fetched(&query, rows.collect(), now);
                    self.touch(destination);
                }
            }
            Err(error) => {
                let pause = self.runner.pause_after(&mut self.fetching.backoff, &error, "waiting deliveries");
                self.fetching.failed(now.plus(pause));
                for LaneQuery { destination, epoch, query } in queries {
                    if let Some(lane) = self.lane_of(destination, epoch) {
                        lane.fetch_failed(&query);
                        self.touch(destination);
                    }
                }
            }
        }
    }

    /// The lane that asked for something when its shard was ours at this epoch. Since then it may have been another's,
    /// and what was read then is no longer true.
    fn lane_of(&mut self, destination: DestinationId, epoch: i64) -> Option<&mut Lane<Arc<CarriedEvent>>> {
        let run = self.lanes.get_mut(destination)?;
        (self.shards.epoch(run.shard) == Some(epoch)).then_some(&mut run.lane)
    }

    pub(super) fn read_targets(&mut self, now: Timestamp) {
        if self.unread.is_empty() || !self.reading.may_go(now) {
            return;
        }
        let count = self.unread.len().min(limits::FETCH_LANES);
        let wanted = self.unread.drain(..count).map(|id| (id, self.lanes.change_of(id))).collect();
        self.reading.begun(now);
        self.fetcher.read_targets(wanted);
    }

    pub(super) fn targets_read(
        &mut self,
        wanted: Vec<(DestinationId, u64)>,
        result: Result<Vec<Arc<PreparedDestination>>, StoreError>,
        now: Timestamp,
    ) {
        match result {
            Ok(targets) => {
                self.reading.succeeded();
                for ((destination, change), target) in wanted.into_iter().zip(targets) {
                    if self.lanes.configured(destination, change, target, now) {
                        self.touch(destination);
                    } else {
                        self.unread.push_back(destination);
                    }
                }
            }
            Err(error) => {
                let pause = self.runner.pause_after(&mut self.reading.backoff, &error, "destinations");
                self.reading.failed(now.plus(pause));
                self.unread.extend(wanted.into_iter().map(|(destination, _)| destination));
            }
        }
    }

    /// These have changed: nothing starts there until they have been read again.
    pub(super) fn outdated(&mut self, destinations: Vec<DestinationId>) {
        for destination in destinations {
            if self.lanes.outdated(destination) {
                self.unread.push_back(destination);
            }
        }
    }

    pub(super) fn sweep_tracks(&mut self, now: Timestamp) {
        // They keep the pause of the windows after a failure.
        while self.sweeping < limits::SWEEPS_AT_ONCE && self.fetching.is_time(now) {
            let Some(sweep) = self.sweeps.pop_front() else { return };
            self.sweeping += 1;
            self.fetcher.sweep(sweep);
        }
    }

    pub(super) fn swept(
        &mut self,
        sweep: &LaneSweep,
        result: Result<Vec<TrackHead>, StoreError>,
        now: Timestamp,
    ) {
        self.sweeping -= 1;
        let LaneSweep { destination, epoch, query } = *sweep;
        let result = result.map_err(|error| {
            // It is asked for again with the windows, and they keep the pause.
            let pause = self.runner.pause_after(&mut self.fetching.backoff, &error, "tracks");
            self.fetching.pause_until(now.plus(pause));
        });
        let Some(lane) = self.lane_of(destination, epoch) else { return };
        match result {
            Ok(heads) => {
                lane.swept(&query, &heads, heads.len() < limits::TRACKS_LISTED, now);
            }
            Err(()) => lane.sweep_failed(&query),
        }
        self.touch(destination);
    }

    pub(super) fn number_due(&mut self, now: Timestamp) {
        if !self.to_number.is_empty() && self.numbering.may_go(now) {
            self.numbering.begun(now);
            let count = self.to_number.len().min(limits::NUMBERED_AT_ONCE);
            let due = self.to_number.drain(..count).collect();
            self.fetcher.number_due(self.runner.id(), due, now);
        }
    }

    /// Each stands at the end of its track now. One that did not move may have been moved before: both places are looked
    /// at.
    pub(super) fn numbered(
        &mut self,
        due: Vec<DueDelivery>,
        result: Result<Vec<bool>, StoreError>,
        now: Timestamp,
    ) {
        let moved = match result {
            Ok(moved) => {
                self.numbering.succeeded();
                moved
            }
            Err(error) => {
                let pause =
                    self.runner.pause_after(&mut self.numbering.backoff, &error, "scheduled deliveries");
                self.numbering.failed(now.plus(pause));
                if !matches!(error, StoreError::Refused(_)) {
                    // Tried again before the others, or later times would have lower numbers.
                    due.into_iter().rev().for_each(|next| self.to_number.push_front(next));
                    return;
                }
                vec![false; due.len()]
            }
        };
        for (DueDelivery { delivery, track }, moved) in due.into_iter().zip(moved) {
            let destination = delivery.destination_id;
            let place = Position::ordered(track, Position::END, delivery.id);
            match self.lanes.get_mut(destination) {
                Some(run) => {
                    run.lane.numbered(delivery.id, if moved { place } else { delivery.position });
                    run.lane.look_at(place);
                    self.touch(destination);
                }
                None => self.outbox.wake(destination, place),
            }
            self.feed_starved();
        }
    }
}
