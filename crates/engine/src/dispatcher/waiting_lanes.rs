//! Lanes that something waits in and that have not been entered yet: a large fan-out, or a rescan of a large queue, names
//! more of them at once than a node should have in memory. Each takes some sixty bytes here; they are entered one
//! after the other as others have nothing more to do, and at a least pace however many of those are slow or held. A lane
//! that comes alone, and found no place, never waits behind a crowd.

use domain::{delivery::Position, id::DestinationId, limits, time::Timestamp};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

#[derive(Default)]
pub(super) struct WaitingLanes {
    lanes: HashMap<DestinationId, WaitingLane>,
    alone: EntryQueue,
    crowd: EntryQueue,
}

/// How a lane was named: by itself, or as one of a crowd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryClass {
    Alone,
    Crowd,
}

struct WaitingLane {
    from: Position,
    class: EntryClass,
}

#[derive(Default)]
struct EntryQueue {
    /// As they came; one that waits no more, or in the other queue, is passed over.
    order: VecDeque<DestinationId>,
    /// When one was last let in though there was no room.
    last: Option<Timestamp>,
}

impl WaitingLanes {
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Something waits there from this position on. What finds no room is found by the next rescan.
    pub(super) fn add(&mut self, id: DestinationId, from: Position, class: EntryClass) {
        let queue = match class {
            EntryClass::Alone => &mut self.alone,
            EntryClass::Crowd => &mut self.crowd,
        };
        let has_room = queue.order.len() < limits::LANES_WAITING;
        match self.lanes.get_mut(&id) {
            Some(lane) => {
                lane.from = from.min(lane.from);
                if class == EntryClass::Alone && lane.class == EntryClass::Crowd && has_room {
                    lane.class = class;
                    queue.order.push_back(id);
                }
            }
            None if has_room => {
                self.lanes.insert(id, WaitingLane { from, class });
                queue.order.push_back(id);
            }
            None => {}
        }
    }

    /// The lane is entered for another reason: from where it must look.
    pub(super) fn take(&mut self, id: DestinationId) -> Option<Position> {
        // Most of the time nothing waits here, and this is asked for every new lane.
        if self.lanes.is_empty() { None } else { self.lanes.remove(&id).map(|lane| lane.from) }
    }

    /// The next lane of this class to be entered: there is room, or it is time.
    pub(super) fn next(
        &mut self,
        class: EntryClass,
        room: bool,
        now: Timestamp,
    ) -> Option<(DestinationId, Position)> {
        let queue = match class {
            EntryClass::Alone => &mut self.alone,
            EntryClass::Crowd => &mut self.crowd,
        };
        let pause = Duration::from_secs(1) / limits::LANES_A_SECOND;
        let due = queue.last.map_or(now, |last| last.plus(pause).max(now.minus(limits::HELD_BACK_LOOK)));
        if !room && due > now {
            return None;
        }
        loop {
            let id = queue.order.pop_front()?;
            if self.lanes.get(&id).is_none_or(|lane| lane.class != class) {
                continue;
            }
            if !room {
                queue.last = Some(due);
            }
            return self.lanes.remove(&id).map(|lane| (id, lane.from));
        }
    }

    /// Since when the first of those that wait has been due, as far as the marks say. Only those of unordered lanes do.
    pub(super) fn due_since(&self, now: Timestamp) -> Option<Timestamp> {
        let dated = |from: &Position| from.track == Position::UNORDERED && from.rank > 0;
        let places = self.lanes.values().map(|lane| lane.from).filter(dated);
        let first = places.map(|from| Timestamp::from_micros(from.rank)).min();
        first.filter(|at| *at <= now)
    }

    /// This shard is another node's now; says whether something waited there.
    pub(super) fn forget(&mut self, shard: u16) -> bool {
        let before = self.lanes.len();
        self.lanes.retain(|id, _| id.shard() != shard);
        if self.lanes.is_empty() {
            self.alone.order.clear();
            self.crowd.order.clear();
        }
        self.lanes.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u128) -> DestinationId {
        DestinationId::at(NOW, n)
    }

    fn from(rank: i64) -> Position {
        Position { rank, ..Position::START }
    }

    const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

    #[test]
    fn lanes_are_entered_in_the_order_they_came_and_from_their_first_row() {
        let mut waiting = WaitingLanes::default();
        for (n, rank) in [(1, 5), (2, 3), (1, 4), (3, 1)] {
            waiting.add(id(n), from(rank), EntryClass::Crowd);
        }
        assert_eq!(waiting.take(id(2)), Some(from(3)), "entered for another reason");
        assert_eq!(waiting.next(EntryClass::Crowd, true, NOW), Some((id(1), from(4))));
        assert_eq!(waiting.next(EntryClass::Crowd, true, NOW), Some((id(3), from(1))));
        assert_eq!((waiting.next(EntryClass::Crowd, true, NOW), waiting.is_empty()), (None, true));
    }

    #[test]
    fn one_that_comes_alone_waits_behind_no_crowd() {
        let mut waiting = WaitingLanes::default();
        (0..1_000).for_each(|n| waiting.add(id(n), from(7), EntryClass::Crowd));
        waiting.add(id(5_000), from(2), EntryClass::Alone);
        waiting.add(id(999), from(8), EntryClass::Alone);
        waiting.add(id(999), from(9), EntryClass::Crowd);
        assert_eq!(waiting.next(EntryClass::Alone, false, NOW), Some((id(5_000), from(2))));
        assert_eq!(
            waiting.next(EntryClass::Alone, true, NOW),
            Some((id(999), from(7))),
            "one of a crowd, and more"
        );
        assert_eq!(waiting.next(EntryClass::Alone, true, NOW), None);
        assert_eq!(std::iter::from_fn(|| waiting.next(EntryClass::Crowd, true, NOW)).count(), 999);
        assert!(waiting.is_empty());
    }

    #[test]
    fn without_room_they_are_entered_at_a_least_pace() {
        let mut waiting = WaitingLanes::default();
        (0..limits::LANES_A_SECOND as u128 * 2).for_each(|n| waiting.add(id(n), from(0), EntryClass::Crowd));
        let mut entered = 0;
        for millisecond in 0..1_000 {
            let now = NOW.plus(Duration::from_millis(millisecond));
            entered += std::iter::from_fn(|| waiting.next(EntryClass::Crowd, false, now)).count();
        }
        let most = limits::LANES_A_SECOND as usize;
        assert!((most * 9 / 10..=most * 11 / 10).contains(&entered), "{entered}");
    }

    #[test]
    fn a_rest_is_not_saved_up() {
        let mut waiting = WaitingLanes::default();
        (0..1_000).for_each(|n| waiting.add(id(n), from(0), EntryClass::Crowd));
        assert!(waiting.next(EntryClass::Crowd, false, NOW).is_some());
        let much_later = NOW.plus(Duration::from_secs(60));
        let burst = std::iter::from_fn(|| waiting.next(EntryClass::Crowd, false, much_later)).count();
        assert!(burst < 100, "{burst}");
    }

    #[test]
    fn lanes_of_another_owner_are_forgotten() {
        let mut waiting = WaitingLanes::default();
        waiting.add(id(1), from(0), EntryClass::Crowd);
        waiting.add(id(2), from(0), EntryClass::Alone);
        assert_ne!(id(1).shard(), id(2).shard());
        assert!(waiting.forget(id(1).shard()) && !waiting.forget(id(1).shard()));
        assert_eq!(waiting.next(EntryClass::Alone, true, NOW), Some((id(2), from(0))));
    }
}
