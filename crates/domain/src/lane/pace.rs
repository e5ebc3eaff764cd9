//! A destination's rate limit: starts are spread evenly, so that no stretch of its length ever has more than it allows.
//!
//! Every start has its moment, so much after the one before. It may come a little early, which makes up for those that
//! came late (timers do), and the distance is that much longer: in a stretch of `per_seconds` there are never more
//! starts than `requests`.

use crate::{destination::RateLimit, time::Timestamp};
use std::time::Duration;

/// How early a start may come at most; less where the whole stretch is short.
const SLACK: Duration = Duration::from_millis(20);
/// Starts that are this far apart need not make up for anything.
const FAR_APART: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The moment of the next start.
    next: Option<Timestamp>,
    last: Option<Timestamp>,
    /// Since when the lane is ours: the owner before may have started something until then.
    since: Option<Timestamp>,
}

/// The time between two starts, and how early one may come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StartInterval {
    pub(super) every: Duration,
    slack: Duration,
}

impl StartInterval {
    pub(super) fn of(limit: RateLimit) -> Self {
        let stretch = Duration::from_secs(limit.per_seconds.max(1).into());
        let requests = limit.requests.max(1);
        let slack = if stretch / requests >= FAR_APART { Duration::ZERO } else { SLACK.min(stretch / 50) };
        // Rounded up: a nanosecond short, repeated, is a start too many.
        let every = (stretch + slack).as_nanos().div_ceil(u128::from(requests)).div_ceil(1_000);
        Self { every: Duration::from_micros(u64::try_from(every).unwrap_or(u64::MAX)), slack }
    }

    /// Starts that fit into a time, about.
    pub(super) fn starts_in(self, time: Duration) -> usize {
        (time.as_micros() / self.every.as_micros().max(1)) as usize + 1
    }
}

impl Pace {
    pub(super) fn owned_since(&mut self, since: Timestamp) {
        self.since = Some(since);
    }

    /// Another limit from now on: it counts from the last start.
    pub(super) fn changed(&mut self) {
        self.next = None;
        self.since = self.since.max(self.last);
    }

    /// When the next may start; None if nothing has been started that counts.
    pub(super) fn earliest(&self, interval: StartInterval) -> Option<Timestamp> {
        let next = self.next.map(|next| next.minus(interval.slack));
        next.max(self.since.map(|since| since.plus(interval.every)))
    }

    /// The moment of the next start has passed: as good as never started.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        self.next.is_none_or(|next| next <= now)
    }

    pub(super) fn started(&mut self, interval: StartInterval, now: Timestamp) {
        self.next = Some(self.next.map_or(now, |next| next.max(now)).plus(interval.every));
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(requests: u32, per_seconds: u32) -> RateLimit {
        RateLimit { requests, per_seconds }
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(1_790_000_000_000_000 + micros)
    }

    /// Starts as soon as it may, late by what the dice say where it has to wait; gives the moments.
    fn starts(limit: RateLimit, count: usize, mut late: impl FnMut() -> i64) -> Vec<i64> {
        let (interval, mut pace, mut now) = (StartInterval::of(limit), Pace::default(), 0);
        let mut moments = Vec::new();
        for _ in 0..count {
            let earliest = pace.earliest(interval).map_or(0, |moment| moment.micros() - at(0).micros());
            if earliest > now {
                now = earliest + late();
            }
            pace.started(interval, at(now));
            moments.push(now);
        }
        moments
    }

    fn most_in_a_stretch(moments: &[i64], stretch_us: i64) -> usize {
        let in_stretch = |(n, from): (usize, &i64)| {
            moments[n..].iter().take_while(|moment| **moment - from < stretch_us).count()
        };
        moments.iter().enumerate().map(in_stretch).max().unwrap_or(0)
    }

    #[test]
    fn no_stretch_has_more_than_the_limit_however_late_the_timers_are() {
        let mut seed = 7u64;
        let mut dice = move |most: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) % (most + 1)) as i64
        };
        for (requests, per_seconds) in
            [(1, 1), (3, 1), (9, 1), (10, 1), (100, 1), (999, 1), (1, 60), (100, 60)]
        {
            for most_late in [0, 1_500, 40_000] {
                let limit = limit(requests, per_seconds);
                let moments = starts(limit, requests as usize * 5, || dice(most_late));
                let most = most_in_a_stretch(&moments, i64::from(per_seconds) * 1_000_000);
                assert!(most <= requests as usize, "{limit:?}, late by {most_late}: {most}");
            }
        }
    }

    #[test]
    fn late_timers_do_not_slow_it_down() {
        for (requests, at_least) in [(10, 9.8), (100, 97.0), (1_000, 970.0)] {
            let moments = starts(limit(requests, 1), requests as usize * 10, || 1_500);
            let seconds = (moments[moments.len() - 1] - moments[0]) as f64 / 1e6;
            let rate = (moments.len() - 1) as f64 / seconds;
            assert!(rate >= at_least, "{requests}: {rate}");
        }
    }

    #[test]
    fn the_next_owner_waits_for_one_interval() {
        let (interval, mut pace) = (StartInterval::of(limit(1, 10)), Pace::default());
        pace.owned_since(at(0));
        assert_eq!(pace.earliest(interval), Some(at(10_000_000)));
    }

    #[test]
    fn another_limit_counts_from_the_last_start() {
        let (slow, quick, mut pace) =
            (StartInterval::of(limit(1, 3_600)), StartInterval::of(limit(1, 1)), Pace::default());
        pace.started(slow, at(0));
        pace.changed();
        assert_eq!(pace.earliest(quick), Some(at(1_000_000)));
    }
}
