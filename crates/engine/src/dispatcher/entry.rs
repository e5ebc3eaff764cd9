//! How lanes come into memory: at once, or as part of a crowd when there is room for them.

use super::{Dispatcher, waiting_lanes::EntryClass};
use crate::carried::CarriedEvent;
use domain::{
    delivery::Position,
    id::{DeliveryId, DestinationId},
    lane::Lane,
    limits,
    time::Timestamp,
};
use std::sync::Arc;

/// Where something waits in a lane: there, or anywhere from there on.
#[derive(Debug, Clone, Copy)]
pub(super) enum LookRange {
    At(Position),
    From(Position),
}

impl Dispatcher {
    /// The lane of a destination, if its shard is ours; a new one begins with reading what its destination is like.
    pub(super) fn lane(
        &mut self,
        destination: DestinationId,
        now: Timestamp,
    ) -> Option<&mut Lane<Arc<CarriedEvent>>> {
        let shard = destination.shard();
        if !self.shards.is_ours(shard) {
            return None;
        }
        let (run, is_new) = self.lanes.enter(destination, shard, now);
        if is_new {
            self.unread.push_back(destination);
            // The owner before us may have started something, but not for a destination made since.
            if let Some(since) = self.shards.since(shard)
                && destination.made_at() < since.plus(limits::LEASE)
            {
                run.lane.owned_since(since);
            }
            if let Some(from) = self.waiting_lanes.take(destination) {
                run.lane.look(from);
            }
        }
        Some(&mut run.lane)
    }

    /// Whether a lane is kept, or another one may be. What is not ours needs none.
    pub(super) fn has_place(&self, destination: DestinationId) -> bool {
        !self.lanes.is_full() || self.lanes.contains(destination) || !self.shards.is_ours(destination.shard())
    }

    pub(super) fn look_all(
        &mut self,
        places: Vec<(DestinationId, DeliveryId, Position)>,
        class: EntryClass,
        now: Timestamp,
    ) {
        for (destination, delivery, position) in places {
            if !self.shards.is_ours(destination.shard()) {
                self.outbox.wake(destination, position);
                continue;
            }
            if let Some(run) = self.lanes.get_mut(destination) {
                run.lane.forgotten(delivery);
            }
            self.look(destination, LookRange::At(position), class, now);
        }
    }

    /// Something waits there: looked at now or, as one of many or without a place, when there is room.
    pub(super) fn look(
        &mut self,
        destination: DestinationId,
        place: LookRange,
        class: EntryClass,
        now: Timestamp,
    ) {
        let has_room = || match class {
            EntryClass::Crowd => self.waiting_lanes.is_empty() && self.has_room_for_crowd(now),
            EntryClass::Alone(_) => !self.lanes.is_full(),
        };
        let enters = self.lanes.contains(destination) || has_room();
        if !enters {
            if self.shards.is_ours(destination.shard()) {
                let (LookRange::At(from) | LookRange::From(from)) = place;
                self.waiting_lanes.add(destination, from, class);
            }
        } else if let Some(lane) = self.lane(destination, now) {
            match place {
                LookRange::At(place) => lane.look_at(place),
                LookRange::From(from) => lane.look(from),
            }
            self.touch(destination);
        }
    }

    pub(super) fn enter_waiting(&mut self, now: Timestamp) {
        if self.stopping || self.waiting_lanes.is_empty() {
            return;
        }
        self.lanes.make_room(self.runner.gate(), now);
        while let Some((destination, from)) = self.waiting_lanes.next_alone(!self.lanes.is_full(), now) {
            self.look_from(destination, from, now);
        }
        // However many of a crowd do not answer, the node keeps what it has for others.
        if self.runner.is_full() {
            return;
        }
        while let Some((destination, from)) =
            self.waiting_lanes.next_of_crowd(self.has_room_for_crowd(now), now)
        {
            self.look_from(destination, from, now);
        }
    }

    fn look_from(&mut self, destination: DestinationId, from: Position, now: Timestamp) {
        if let Some(lane) = self.lane(destination, now) {
            lane.look(from);
            self.touch(destination);
        }
    }

    /// Whether one more lane of a crowd may be entered: what it takes away from the others is bounded. While the rest of a
    /// large one is still being made, that comes first.
    fn has_room_for_crowd(&self, now: Timestamp) -> bool {
        let busy = self.runner.in_flight() + self.unread.len() + self.hungry.len();
        let being_made = self.made_at.is_some_and(|at| now.since(at) < limits::CROWD_MADE)
            && self.waiting_lanes.len() >= limits::CROWD_LARGE;
        !self.lanes.is_crowded() && busy < limits::CROWD_BUSY && !being_made
    }
}
