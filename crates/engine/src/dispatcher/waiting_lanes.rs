//! Lanes that something waits in and that have not been entered yet: a large fan-out, or a rescan of a large queue, names
//! more of them at once than a node should have in memory. Each takes some sixty bytes here; they are entered one
//! after the other as others have nothing more to do, and at a least pace however many of those are slow or held. A lane
//! that comes alone, and found no place, never waits behind a crowd, nor behind all those of another account.

use domain::{
    delivery::Position,
    id::{AccountId, DestinationId},
    limits,
    time::Timestamp,
};
use sharing::TurnQueue;
use std::{collections::HashMap, time::Duration};

#[derive(Default)]
pub(super) struct WaitingLanes {
    lanes: HashMap<DestinationId, WaitingLane>,
    alone: EntryQueue,
    crowd: EntryQueue,
}

/// How a lane was named: by itself, or as one of a crowd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryClass {
    /// Of this account, as far as that was said.
    Alone(AccountId),
    Crowd,
}

impl EntryClass {
    /// The class of lanes that were named together.
    pub(super) fn of_count(count: usize) -> Self {
        if count > limits::LANES_AT_ONCE { Self::Crowd } else { Self::Alone(AccountId::MIN) }
    }
}

struct WaitingLane {
    from: Position,
    is_of_crowd: bool,
}

#[derive(Default)]
struct EntryQueue {
    /// One that waits no more, or in the other queue, is passed over.
    order: TurnQueue<DestinationId>,
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
        let (queue, account) = match class {
            EntryClass::Alone(account) => (&mut self.alone, account),
            EntryClass::Crowd => (&mut self.crowd, AccountId::MIN),
        };
        let free = limits::LANES_WAITING.saturating_sub(queue.order.len());
        let has_room = match class {
            EntryClass::Alone(account) => sharing::is_fair(queue.order.len_of(account), free, 1),
            EntryClass::Crowd => free > 0,
        };
        match self.lanes.get_mut(&id) {
            Some(lane) => {
                lane.from = from.min(lane.from);
                if class != EntryClass::Crowd && lane.is_of_crowd && has_room {
                    lane.is_of_crowd = false;
                    queue.order.push(account, id);
                }
            }
            None if has_room => {
                self.lanes.insert(id, WaitingLane { from, is_of_crowd: class == EntryClass::Crowd });
                queue.order.push(account, id);
            }
            None => {}
        }
    }

    /// The lane is entered for another reason: from where it must look.
    pub(super) fn take(&mut self, id: DestinationId) -> Option<Position> {
        // Most of the time nothing waits here, and this is asked for every new lane.
        if self.lanes.is_empty() { None } else { self.lanes.remove(&id).map(|lane| lane.from) }
    }

    /// The next lane to be entered of those that came alone: there is room, or it is time.
    pub(super) fn next_alone(&mut self, room: bool, now: Timestamp) -> Option<(DestinationId, Position)> {
        let Self { lanes, alone, .. } = self;
        alone.next(room, now, lanes, |lane| !lane.is_of_crowd)
    }

    /// The same of a crowd.
    pub(super) fn next_of_crowd(&mut self, room: bool, now: Timestamp) -> Option<(DestinationId, Position)> {
        let Self { lanes, crowd, .. } = self;
        crowd.next(room, now, lanes, |lane| lane.is_of_crowd)
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

impl EntryQueue {
    fn next(
        &mut self,
        room: bool,
        now: Timestamp,
        lanes: &mut HashMap<DestinationId, WaitingLane>,
        waits_here: impl Fn(&WaitingLane) -> bool,
    ) -> Option<(DestinationId, Position)> {
        let pause = Duration::from_secs(1) / limits::LANES_A_SECOND;
        let due = self.last.map_or(now, |last| last.plus(pause).max(now.minus(limits::HELD_BACK_LOOK)));
        if !room && due > now {
            return None;
        }
        loop {
            let id = self.order.pop()?;
            if !lanes.get(&id).is_some_and(&waits_here) {
                continue;
            }
            if !room {
                self.last = Some(due);
            }
            return lanes.remove(&id).map(|lane| (id, lane.from));
        }
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

    const ALONE: EntryClass = EntryClass::Alone(AccountId::MIN);
    const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

    #[test]
    fn lanes_are_entered_in_the_order_they_came_and_from_their_first_row() {
        let mut waiting = WaitingLanes::default();
        for (n, rank) in [(1, 5), (2, 3), (1, 4), (3, 1)] {
            waiting.add(id(n), from(rank), EntryClass::Crowd);
        }
        assert_eq!(waiting.take(id(2)), Some(from(3)), "entered for another reason");
        assert_eq!(waiting.next_of_crowd(true, NOW), Some((id(1), from(4))));
        assert_eq!(waiting.next_of_crowd(true, NOW), Some((id(3), from(1))));
        assert_eq!((waiting.next_of_crowd(true, NOW), waiting.is_empty()), (None, true));
    }

    #[test]
    fn one_that_comes_alone_waits_behind_no_crowd() {
        let mut waiting = WaitingLanes::default();
        (0..1_000).for_each(|n| waiting.add(id(n), from(7), EntryClass::Crowd));
        waiting.add(id(5_000), from(2), ALONE);
        waiting.add(id(999), from(8), ALONE);
        waiting.add(id(999), from(9), EntryClass::Crowd);
        assert_eq!(waiting.next_alone(false, NOW), Some((id(5_000), from(2))));
        assert_eq!(waiting.next_alone(true, NOW), Some((id(999), from(7))), "one of a crowd, and more");
        assert_eq!(waiting.next_alone(true, NOW), None);
        assert_eq!(std::iter::from_fn(|| waiting.next_of_crowd(true, NOW)).count(), 999);
        assert!(waiting.is_empty());
    }

    #[test]
    fn without_room_they_are_entered_at_a_least_pace() {
        let mut waiting = WaitingLanes::default();
        (0..limits::LANES_A_SECOND as u128 * 2).for_each(|n| waiting.add(id(n), from(0), EntryClass::Crowd));
        let mut entered = 0;
        for millisecond in 0..1_000 {
            let now = NOW.plus(Duration::from_millis(millisecond));
            entered += std::iter::from_fn(|| waiting.next_of_crowd(false, now)).count();
        }
        let most = limits::LANES_A_SECOND as usize;
        assert!((most * 9 / 10..=most * 11 / 10).contains(&entered), "{entered}");
    }

    #[test]
    fn a_rest_is_not_saved_up() {
        let mut waiting = WaitingLanes::default();
        (0..1_000).for_each(|n| waiting.add(id(n), from(0), EntryClass::Crowd));
        assert!(waiting.next_of_crowd(false, NOW).is_some());
        let much_later = NOW.plus(Duration::from_secs(60));
        let burst = std::iter::from_fn(|| waiting.next_of_crowd(false, much_later)).count();
        assert!(burst < 100, "{burst}");
    }

    #[test]
    fn lanes_of_another_owner_are_forgotten() {
        let mut waiting = WaitingLanes::default();
        waiting.add(id(1), from(0), EntryClass::Crowd);
        waiting.add(id(2), from(0), ALONE);
        assert_ne!(id(1).shard(), id(2).shard());
        assert!(waiting.forget(id(1).shard()) && !waiting.forget(id(1).shard()));
        assert_eq!(waiting.next_alone(true, NOW), Some((id(2), from(0))));
    }

    #[test]
    fn ten_thousand_lanes_of_one_account_are_not_before_one_of_another() {
        let mut waiting = WaitingLanes::default();
        let account = |number| EntryClass::Alone(AccountId::at(NOW, number));
        (0..10_000).for_each(|n| waiting.add(id(n), from(0), account(1)));
        waiting.add(id(10_000), from(0), account(2));
        assert_eq!(waiting.next_alone(true, NOW), Some((id(0), from(0))));
        assert_eq!(waiting.next_alone(true, NOW), Some((id(10_000), from(0))));
    }
}
