//! Deliveries that were due and found every slot taken: each is counted once each time it falls due, however often the
//! lane is asked and however often its row is read again.
//!
//! What waits in the store is counted when it arrives, if it finds every slot taken, and not again when it is read. What
//! others committed is counted when it is read, if it was due while every slot was taken.
//!
//! An unordered lane is sorted by due time, so one mark is enough: whatever lies at or below it was counted. In an
//! ordered lane only the head asks for a slot, and it is the same one until it has one.

use crate::delivery::Position;
use std::ops::Bound;

#[derive(Debug, Default)]
pub(super) struct Denied {
    count: u64,
    to: Option<Position>,
    /// So many were counted when they arrived, and have not been read from the store yet.
    ahead: u64,
}

impl Denied {
    /// Where those lie that were not counted yet.
    pub(super) fn beyond(&self) -> (Bound<Position>, Bound<Position>) {
        (self.to.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
    }

    /// So many more, up to the last.
    pub(super) fn all(&mut self, count: u64, last: Option<Position>) {
        let known = count.min(self.ahead);
        self.ahead -= known;
        self.count += count - known;
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

    /// A new one that waits in the store.
    pub(super) fn stored(&mut self, place: Position) {
        self.count += 1;
        // Below the mark it is taken for one that was counted, as it was.
        self.ahead += u64::from(self.to.is_none_or(|to| place > to));
    }

    /// Everything in the store has been read: what was counted and never came was cancelled meanwhile.
    pub(super) fn caught_up(&mut self) {
        self.ahead = 0;
    }

    pub(super) fn take(&mut self) -> u64 {
        std::mem::take(&mut self.count)
    }
}
