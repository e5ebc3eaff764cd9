use super::stats::{quantiles, success_ratio};
use contract::{SeriesBy, SeriesLatencyView, SeriesPointView, SeriesTotalsView, SeriesView};
use domain::{
    rollup::{LaneSums, Span, Sums},
    time::Timestamp,
};
use std::{collections::BTreeMap, time::Duration};

/// What is known of a series, in pieces of any length.
pub(crate) struct SeriesPieces {
    pub(crate) by: SeriesBy,
    pub(crate) span: Span,
    pub(crate) since: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) as_of: Timestamp,
    pub(crate) now: Timestamp,
    pub(crate) sums: Vec<(Timestamp, Sums)>,
    /// Oldest first; one for each piece.
    pub(crate) lanes: Vec<(Timestamp, LaneSums)>,
    pub(crate) whole_account: bool,
}

pub(crate) fn series(pieces: SeriesPieces) -> SeriesView {
    let SeriesPieces { by, span, since, until, as_of, now, .. } = pieces;
    let mut points: BTreeMap<Timestamp, (Sums, Option<LaneSums>)> = BTreeMap::new();
    for (at, sums) in &pieces.sums {
        points.entry(span.start_of(*at)).or_default().0.add(sums);
    }
    for (at, lanes) in &pieces.lanes {
        points.entry(span.start_of(*at)).or_default().1.get_or_insert_default().then(lanes);
    }
    let point = |(at, (sums, lanes)): (Timestamp, (Sums, Option<LaneSums>))| {
        let elapsed = now.since(at).clamp(SHORTEST, span.length());
        SeriesPointView {
            at,
            events: pieces.whole_account.then_some(sums.events),
            attempts: sums.attempts(),
            delivered: sums.delivered,
            dead_letter: sums.dead_letter(),
            cancelled: sums.cancelled,
            latency_ms: latency(&sums),
            backlog: lanes.as_ref().and_then(|lanes| lanes.backlog).map(|backlog| backlog.rows),
            in_flight: lanes.as_ref().map_or(0.0, |lanes| rounded(lanes.in_flight(elapsed))),
            max_concurrency: lanes.as_ref().map(|lanes| lanes.slots),
            slot_denied: lanes.as_ref().map_or(0, |lanes| lanes.denied),
            outcomes: sums.outcomes,
            http_statuses: sums.http_statuses,
        }
    };
    let (mut all, mut denied) = (Sums::default(), 0);
    pieces.sums.iter().for_each(|(_, sums)| all.add(sums));
    pieces.lanes.iter().for_each(|(_, lanes)| denied += lanes.denied);
    let some = |(_, (sums, lanes)): &(Timestamp, (Sums, Option<LaneSums>))| {
        lanes.is_some() || *sums != Sums::default()
    };
    let points = points.into_iter().filter(some).map(point).collect();
    let totals = totals(all, denied, pieces.whole_account);
    SeriesView { by, since, until, as_of, totals, points }
}

fn totals(all: Sums, slot_denied: u64, whole_account: bool) -> SeriesTotalsView {
    SeriesTotalsView {
        events: whole_account.then_some(all.events),
        attempts: all.attempts(),
        success_ratio: success_ratio(&all),
        delivered: all.delivered,
        dead_letter: all.dead_letter(),
        cancelled: all.cancelled,
        latency_ms: latency(&all),
        slot_denied,
        outcomes: all.outcomes,
        http_statuses: all.http_statuses,
    }
}

fn latency(sums: &Sums) -> SeriesLatencyView {
    SeriesLatencyView { deliveries: quantiles(&sums.delivery_latency), attempts: quantiles(&sums.latency) }
}

/// Of a span that has only just begun nothing can be said by time.
const SHORTEST: Duration = Duration::from_secs(1);

fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}
