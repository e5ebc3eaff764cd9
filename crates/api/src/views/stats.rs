use crate::read::Waiting;
use contract::{
    DailyView, DestinationStatsView, FanoutStatsView, PointView, QuantilesView, StatsView, StatusCountView,
    TotalsView,
};
use domain::{
    delivery::Status,
    outcome::Outcome,
    rollup::{FanoutSums, Sketch, Span, Sums},
    time::Timestamp,
};
use std::collections::BTreeMap;

pub(crate) fn stats(
    since: Timestamp,
    until: Timestamp,
    as_of: Timestamp,
    pieces: &[(Timestamp, Sums)],
    now: Waiting,
) -> StatsView {
    let (mut all, mut days) = (Sums::default(), BTreeMap::<Timestamp, Sums>::new());
    for (at, sums) in pieces {
        all.add(sums);
        days.entry(Span::Day.start_of(*at)).or_default().add(sums);
    }
    let Waiting { waiting, oldest_due_at, waiting_max } = now;
    let totals = TotalsView {
        events: all.events,
        deliveries: all.deliveries,
        delivered: all.delivered,
        dead_letter: all.dead_letter(),
        cancelled: all.cancelled,
        waiting,
        oldest_due_at,
        waiting_max,
        attempts: all.attempts(),
    };
    let by_status = [
        (Status::Queued, waiting),
        (Status::Delivered, totals.delivered),
        (Status::DeadLetter, totals.dead_letter),
        (Status::Cancelled, totals.cancelled),
    ];
    let day = |(at, sums): (Timestamp, Sums)| DailyView {
        date: at.to_string()[..10].into(),
        events: sums.events,
        delivered: sums.delivered,
        dead_letter: sums.dead_letter(),
        attempts: sums.attempts(),
    };
    let some = |(_, sums): &(Timestamp, Sums)| *sums != Sums::default();
    StatsView {
        since,
        until,
        as_of,
        totals,
        by_status: by_status.map(|(status, count)| StatusCountView { status, count }).into(),
        daily: days.into_iter().filter(some).map(day).collect(),
    }
}

pub(crate) fn fanout_stats(
    since: Timestamp,
    until: Timestamp,
    as_of: Timestamp,
    sums: &FanoutSums,
) -> FanoutStatsView {
    FanoutStatsView {
        since,
        until,
        as_of,
        events: sums.events,
        complete: sums.complete,
        completion_ratio: ratio(sums.complete, sums.events),
        partial_failure_ratio: ratio(sums.partial, sums.complete),
        lag_ms: quantiles(&sums.lag),
    }
}

pub(crate) fn destination_stats(
    since: Timestamp,
    until: Timestamp,
    as_of: Timestamp,
    span: Span,
    pieces: &[(Timestamp, Sums)],
) -> DestinationStatsView {
    let (mut all, mut points) = (Sums::default(), BTreeMap::<Timestamp, Sums>::new());
    for (at, sums) in pieces {
        all.add(sums);
        points.entry(span.start_of(*at)).or_default().add(sums);
    }
    let point = |(at, sums): (Timestamp, Sums)| PointView {
        at,
        ok: sums.successes(),
        failed: judged(&sums) - sums.successes(),
        p95_ms: quantile(&sums.latency, 0.95),
    };
    let some = |(_, sums): &(Timestamp, Sums)| sums.attempts() > 0;
    DestinationStatsView {
        since,
        until,
        as_of,
        attempts: all.attempts(),
        success_ratio: success_ratio(&all),
        latency_ms: quantiles(&all.latency),
        series: points.into_iter().filter(some).map(point).collect(),
        outcomes: all.outcomes,
        http_statuses: all.http_statuses,
    }
}

pub(super) fn quantiles(sketch: &Sketch) -> QuantilesView {
    QuantilesView { p50: quantile(sketch, 0.5), p95: quantile(sketch, 0.95), p99: quantile(sketch, 0.99) }
}

fn quantile(sketch: &Sketch, part: f64) -> Option<u64> {
    sketch.quantile(part).map(|took| took.as_millis() as u64)
}

pub(super) fn success_ratio(sums: &Sums) -> Option<f64> {
    ratio(sums.successes(), judged(sums))
}

/// A throttled attempt is neither good nor bad.
fn judged(sums: &Sums) -> u64 {
    sums.attempts() - sums.outcomes.get(&Outcome::Throttled).copied().unwrap_or(0)
}

fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}
