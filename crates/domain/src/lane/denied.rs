//! Deliveries that were due and found every slot taken: each is counted once each time it falls due, however often the
//! lane is asked and however often its row is read again.
//!
//! An unordered lane is sorted by due time, so one mark is enough: whatever lies at or below it was counted. In an
//! ordered lane only the head asks for a slot, and it is the same one until it has one.

use crate::delivery::Position;
use std::ops::Bound;

#[derive(Debug, Default)]
pub(super) struct Denied {
    count: u64,
    to: Option<Position>,
}

impl Denied {
    /// Where those lie that were not counted yet.
    pub(super) fn beyond(&self) -> (Bound<Position>, Bound<Position>) {
        (self.to.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
    }

    /// So many more, up to the last.
    pub(super) fn all(&mut self, count: u64, last: Option<Position>) {
        self.count += count;
        self.to = self.to.max(last);
    }

    /// The head of a track.
    pub(super) fn head(&mut self, place: Position) {
        if self.to != Some(place) {
            self.count += 1;
            self.to = Some(place);
        }
    }

    /// A new one below the mark, committed later than it was made: it would be taken for one that was counted.
    pub(super) fn came_late(&mut self, place: Position) {
        self.count += u64::from(self.to.is_some_and(|to| place < to));
    }

    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.count)
    }
}
