//! How much of a lane is read ahead: little for a slow destination, more for a fast one.
//!
//! It shrinks to two deliveries when what was read goes stale before it is started: with 5,000 lanes at work each is asked once or
//! two a second, and a window of sixteen was read seven times over for each delivery. It doubles with each read that is
//! used up quickly, so a lane that comes to life has a large one within milliseconds.

use crate::{delivery::Position, limits, time::Timestamp};
use std::time::Duration;

/// A read the lane asks for: from this position to the end of this track, at most so many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowQuery {
    pub from: Position,
    pub last_track: i64,
    pub limit: usize,
    /// Of which life of the lane.
    pub life: u32,
}

/// A look for tracks that the lane asks for: from this one on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackQuery {
    pub from: i64,
    pub life: u32,
}

/// A window that is used up faster than this should be larger.
const QUICK: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct WindowSize {
    /// 0 until first asked.
    size: usize,
    asked_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    came_full: bool,
}

impl WindowSize {
    /// Reading ahead pays while deliveries start; a lane whose slots are all stuck reads when one comes free.
    pub(super) fn wants_more(&self, loaded: usize, slot_free: bool, now: Timestamp) -> bool {
        let moving = self.started_at.is_some_and(|at| now.since(at) < limits::LOADED_FRESH);
        if slot_free || moving { loaded <= self.size / 2 } else { false }
    }

    pub(super) fn started(&mut self, now: Timestamp) {
        self.started_at = Some(now);
    }

    /// How many rows to ask for now.
    pub(super) fn ask(&mut self, max_concurrency: u32, everything: bool, now: Timestamp) -> usize {
        let first = (max_concurrency as usize * 2).clamp(limits::WINDOW_MIN, limits::WINDOW_MAX);
        let quick = self.came_full && self.asked_at.is_some_and(|at| now.since(at) < QUICK);
        self.size = match self.size {
            _ if everything => limits::WINDOW_MAX,
            0 => first,
            size if quick => (size * 2).min(limits::WINDOW_MAX),
            size => size,
        };
        self.asked_at = Some(now);
        self.size
    }

    pub(super) fn filled(&mut self, complete: bool) {
        self.came_full = !complete;
    }

    /// Rows went stale before they could start: read less next time.
    pub(super) fn wasted(&mut self) {
        self.size = (self.size / 2).max(limits::WINDOW_LEAST);
        self.came_full = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: u32 = 100;

    fn at(millis: u64) -> Timestamp {
        Timestamp::MIN.plus(Duration::from_millis(millis))
    }

    #[test]
    fn many_slots_that_are_slow_do_not_read_again_and_again_what_they_cannot_start() {
        let mut window = WindowSize::default();
        assert_eq!(window.ask(SLOTS, false, at(0)), 200, "nothing is known yet: two for each slot");
        for stale in 1..=10 {
            window.filled(false);
            window.wasted();
            window.ask(SLOTS, false, at(stale * 2_000));
        }
        assert_eq!(window.ask(SLOTS, false, at(30_000)), limits::WINDOW_LEAST);
    }

    #[test]
    fn a_window_that_is_used_up_quickly_grows_to_its_limit() {
        let mut window = WindowSize::default();
        let sizes: Vec<usize> = (0..9)
            .map(|read| {
                let size = window.ask(1, false, at(read * 10));
                window.filled(false);
                size
            })
            .collect();
        assert_eq!(sizes, [16, 32, 64, 128, 256, 512, 1_024, limits::WINDOW_MAX, limits::WINDOW_MAX]);
    }
}
