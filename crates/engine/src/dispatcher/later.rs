//! Lanes that something waits in and that have not been entered yet: a large fan-out, or a rescan of a large queue, names
//! more of them at once than a node should have in memory. Each is a mark here, some sixty bytes; they are entered one
//! after the other as others have nothing more to do, and at a least pace however many of those are slow or held.

use domain::{delivery::Position, id::DestinationId, limits, time::Timestamp};
use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

#[derive(Default)]
pub(super) struct Later {
    marks: HashMap<DestinationId, Position>,
    /// In the order they came; one that is no longer marked is passed over.
    order: VecDeque<DestinationId>,
    /// When one was last let in though there was no room.
    last: Option<Timestamp>,
}

impl Later {
    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.marks.len()
    }

    /// Something waits there from this position on. What finds no room is found by the next rescan.
    pub(super) fn add(&mut self, id: DestinationId, from: Position) {
        if let Some(mark) = self.marks.get_mut(&id) {
            *mark = from.min(*mark);
        } else if self.order.len() < limits::LANES_LATER {
            self.marks.insert(id, from);
            self.order.push_back(id);
        }
    }

    /// The lane is entered for another reason: from where it must look.
    pub(super) fn take(&mut self, id: DestinationId) -> Option<Position> {
        // Most of the time nothing waits here, and this is asked for every new lane.
        if self.marks.is_empty() { None } else { self.marks.remove(&id) }
    }

    /// The next lane to be entered: there is room, or it is time.
    pub(super) fn next(&mut self, room: bool, now: Timestamp) -> Option<(DestinationId, Position)> {
        let pause = Duration::from_secs(1) / limits::LANES_A_SECOND;
        let due = self.last.map_or(now, |last| last.plus(pause).max(now.minus(limits::HELD_BACK_LOOK)));
        if !room && due > now {
            return None;
        }
        loop {
            let id = self.order.pop_front()?;
            if let Some(from) = self.marks.remove(&id) {
                if !room {
                    self.last = Some(due);
                }
                return Some((id, from));
            }
        }
    }

    /// Since when the first of those that wait has been due, as far as the marks say. Only those of unordered lanes do.
    pub(super) fn due_since(&self, now: Timestamp) -> Option<Timestamp> {
        let dated = |mark: &&Position| mark.track == Position::UNORDERED && mark.rank > 0;
        let first = self.marks.values().filter(dated).map(|mark| Timestamp::from_micros(mark.rank)).min();
        first.filter(|at| *at <= now)
    }

    /// These shards are somebody else's now; says whether something waited there.
    pub(super) fn forget(&mut self, shard: u16) -> bool {
        let before = self.marks.len();
        self.marks.retain(|id, _| id.shard() != shard);
        if self.marks.is_empty() {
            self.order.clear();
        }
        self.marks.len() < before
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
        let mut later = Later::default();
        for (n, rank) in [(1, 5), (2, 3), (1, 4), (3, 1)] {
            later.add(id(n), from(rank));
        }
        assert_eq!(later.take(id(2)), Some(from(3)), "entered for another reason");
        assert_eq!(later.next(true, NOW), Some((id(1), from(4))));
        assert_eq!(later.next(true, NOW), Some((id(3), from(1))));
        assert_eq!((later.next(true, NOW), later.is_empty()), (None, true));
    }

    #[test]
    fn without_room_they_are_entered_at_a_least_pace() {
        let mut later = Later::default();
        (0..limits::LANES_A_SECOND as u128 * 2).for_each(|n| later.add(id(n), from(0)));
        let mut entered = 0;
        for millisecond in 0..1_000 {
            let now = NOW.plus(Duration::from_millis(millisecond));
            entered += std::iter::from_fn(|| later.next(false, now)).count();
        }
        let most = limits::LANES_A_SECOND as usize;
        assert!((most * 9 / 10..=most * 11 / 10).contains(&entered), "{entered}");
    }

    #[test]
    fn a_rest_is_not_saved_up() {
        let mut later = Later::default();
        (0..1_000).for_each(|n| later.add(id(n), from(0)));
        assert!(later.next(false, NOW).is_some());
        let much_later = NOW.plus(Duration::from_secs(60));
        let burst = std::iter::from_fn(|| later.next(false, much_later)).count();
        assert!(burst < 100, "{burst}");
    }

    #[test]
    fn what_is_somebody_elses_is_forgotten() {
        let mut later = Later::default();
        later.add(id(1), from(0));
        later.add(id(2), from(0));
        assert_ne!(id(1).shard(), id(2).shard());
        assert!(later.forget(id(1).shard()) && !later.forget(id(1).shard()));
        assert_eq!(later.next(true, NOW), Some((id(2), from(0))));
    }
}
