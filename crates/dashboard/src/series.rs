//! What happened, minute by minute. Today the API tells the course of a destination alone, so that of an account is added up
//! here from its destinations; this file is the seam for an endpoint that tells it by itself.

use crate::reads::together;
use api::{App, error::ApiError, read};
use contract::{DestinationStatsView, PointView, StatsQuery};
use domain::{
    id::{AccountId, DestinationId},
    outcome::Outcome,
    time::Timestamp,
};
use futures_util::FutureExt;
use std::{collections::BTreeMap, time::Duration};

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// Beyond so many destinations nothing is added up: each costs a few reads, and a page has a tenth of a second.
const ADDED_UP: usize = 40;

/// Without gaps, oldest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Series {
    pub(crate) points: Vec<Point>,
    pub(crate) step: Duration,
    pub(crate) outcomes: BTreeMap<Outcome, u64>,
    pub(crate) http_statuses: BTreeMap<u16, u64>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) at: Timestamp,
    pub(crate) ok: u64,
    pub(crate) failed: u64,
    /// Of an account: of its slowest destination.
    pub(crate) p95_ms: Option<u64>,
}

/// The last `over` of an account; None where it has too many destinations to add up.
pub(crate) async fn of_account(
    app: &App,
    account: AccountId,
    destinations: &[DestinationId],
    now: Timestamp,
    over: Duration,
) -> Result<Option<Series>, ApiError> {
    if destinations.len() > ADDED_UP {
        return Ok(None);
    }
    let query = StatsQuery { since: Some(now.minus(over)), until: None };
    let each = destinations.iter().map(|id| read::destination_stats(app, account, *id, &query).boxed());
    let found = together(each.collect()).await;
    let mut sum = Series { points: empty(now, over, MINUTE), step: MINUTE, ..Series::default() };
    for stats in found {
        match stats {
            Ok(stats) => sum.add(&stats),
            // It was deleted between two reads.
            Err(error) if error.status() == 404 => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(sum))
}

/// The last `over` of one destination, in steps of a minute, or of an hour if it is more than that can be kept for.
pub(crate) fn of_destination(stats: &DestinationStatsView, now: Timestamp, over: Duration) -> Series {
    let step = if over > Duration::from_secs(6 * 3_600) { Duration::from_secs(3_600) } else { MINUTE };
    let mut series = Series { points: empty(now, over, step), step, ..Series::default() };
    series.add(stats);
    series
}

impl Series {
    fn add(&mut self, stats: &DestinationStatsView) {
        for (outcome, count) in &stats.outcomes {
            *self.outcomes.entry(*outcome).or_default() += count;
        }
        for (status, count) in &stats.http_statuses {
            *self.http_statuses.entry(*status).or_default() += count;
        }
        for PointView { at, ok, failed, p95_ms } in &stats.series {
            let at = at.floor(self.step);
            if let Ok(place) = self.points.binary_search_by_key(&at, |point| point.at) {
                let point = &mut self.points[place];
                point.ok += ok;
                point.failed += failed;
                point.p95_ms = point.p95_ms.max(*p95_ms);
            }
        }
    }

    pub(crate) fn ok(&self) -> u64 {
        self.points.iter().map(|point| point.ok).sum()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.points.iter().map(|point| point.failed).sum()
    }

    /// None without any attempt that counts.
    pub(crate) fn success_ratio(&self) -> Option<f64> {
        let (ok, all) = (self.ok(), self.ok() + self.failed());
        (all > 0).then(|| ok as f64 / all as f64)
    }
}

fn empty(now: Timestamp, over: Duration, step: Duration) -> Vec<Point> {
    let last = now.floor(step);
    let steps = (over.as_secs() / step.as_secs().max(1)) as u32;
    let at = |back: u32| last.minus(step * back);
    (0..=steps).rev().map(|back| Point { at: at(back), ok: 0, failed: 0, p95_ms: None }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::QuantilesView;

    fn stats(points: Vec<PointView>) -> DestinationStatsView {
        let at = Timestamp::from_seconds(0);
        DestinationStatsView {
            since: at,
            until: at,
            as_of: at,
            attempts: 0,
            success_ratio: None,
            outcomes: BTreeMap::from([(Outcome::Success, 3)]),
            http_statuses: BTreeMap::from([(200, 3)]),
            latency_ms: QuantilesView { p50: None, p95: None, p99: None },
            series: points,
        }
    }

    #[test]
    fn what_is_left_out_is_nothing_and_what_lies_outside_is_left_out() {
        let now = Timestamp::from_seconds(3_600 * 1_000 + 30);
        let point = |back: u64, ok| PointView {
            at: now.floor(MINUTE).minus(MINUTE * back as u32),
            ok,
            failed: 1,
            p95_ms: Some(back),
        };
        let of_now = PointView { at: now, ok: 5, failed: 0, p95_ms: None };
        let series = of_destination(&stats(vec![point(99, 7), point(3, 2), of_now]), now, MINUTE * 10);
        assert_eq!(series.points.len(), 11);
        assert_eq!((series.ok(), series.failed()), (7, 1), "the present minute is told by the moment");
        assert_eq!(series.points[7].p95_ms, Some(3));
        assert_eq!(series.success_ratio(), Some(0.875));
        assert_eq!(Series::default().success_ratio(), None);
    }

    #[test]
    fn a_day_is_told_by_the_hour() {
        let now = Timestamp::from_seconds(3_600 * 1_000);
        let series = of_destination(&stats(Vec::new()), now, Duration::from_secs(86_400));
        assert_eq!((series.points.len(), series.step.as_secs()), (25, 3_600));
    }
}
