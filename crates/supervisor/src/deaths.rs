//! How often a loop may die.

use domain::limits;
use std::{collections::VecDeque, time::Duration};
use tokio::time::Instant;

/// The deaths of one loop that still count.
#[derive(Debug, Default)]
pub(crate) struct Deaths(VecDeque<Instant>);

/// What follows from a death.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Restart {
        pause: Duration,
        count: usize,
    },
    /// A loop that goes on dying does not do its work, and nobody would notice.
    EndNode {
        count: usize,
    },
}

impl Deaths {
    /// One more.
    pub(crate) fn next(&mut self, now: Instant) -> Verdict {
        self.0.retain(|at| now.duration_since(*at) < limits::LOOP_DEATHS_WITHIN);
        self.0.push_back(now);
        let count = self.0.len();
        if count >= limits::LOOP_DEATHS {
            return Verdict::EndNode { count };
        }
        let pause = limits::LOOP_RESTART_PAUSE * limits::LOOP_RESTART_GROWTH.pow(count as u32 - 1);
        Verdict::Restart { pause, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_death_in_ten_minutes_is_the_last() {
        let (mut deaths, begun) = (Deaths::default(), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        let pauses = [100, 400, 1_600, 6_400];
        for (place, millis) in pauses.into_iter().enumerate() {
            let pause = Duration::from_millis(millis);
            assert_eq!(deaths.next(at(place as u64)), Verdict::Restart { pause, count: place + 1 });
        }
        assert_eq!(deaths.next(at(599)), Verdict::EndNode { count: 5 });
    }

    #[test]
    fn deaths_of_long_ago_do_not_count() {
        let (mut deaths, begun) = (Deaths::default(), Instant::now());
        for n in 0..100 {
            let verdict = deaths.next(begun + limits::LOOP_DEATHS_WITHIN * n / 4);
            assert!(matches!(verdict, Verdict::Restart { count: 1..=4, .. }), "{verdict:?}");
        }
        assert!(deaths.0.len() <= limits::LOOP_DEATHS);
    }
}
