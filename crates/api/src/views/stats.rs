use super::schema;
use domain::{
    outcome::Outcome,
    rollup::{FanoutSums, Sketch, Span, Sums},
    time::Timestamp,
};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// What happened in an account.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stats)]
pub struct StatsView {
    #[schema(value_type = schema::Timestamp)]
    pub since: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub until: Timestamp,
    /// Everything up to this moment is counted; more has happened since if it lies before `until`.
    #[schema(value_type = schema::Timestamp)]
    pub as_of: Timestamp,
    pub totals: TotalsView,
    /// Deliveries that ended, by how, and as `queued` all that wait now, whatever for.
    pub by_status: Vec<StatusCountView>,
    /// Days without anything are left out.
    pub daily: Vec<DailyView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StatsTotals)]
pub struct TotalsView {
    pub events: u64,
    /// That these events gave rise to; what replays made of them is not among these.
    pub deliveries: u64,
    /// Deliveries that ended so in this time, whenever their events came, and those of replays too.
    pub delivered: u64,
    pub dead_letter: u64,
    pub cancelled: u64,
    /// Now.
    pub waiting: u64,
    pub attempts: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StatusCount)]
pub struct StatusCountView {
    pub status: &'static str,
    pub count: u64,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DailyStats)]
pub struct DailyView {
    /// A day of UTC.
    #[schema(format = Date, example = "2026-04-03")]
    pub date: String,
    pub events: u64,
    pub delivered: u64,
    pub dead_letter: u64,
    pub attempts: u64,
}

impl StatsView {
    pub fn new(
        since: Timestamp,
        until: Timestamp,
        as_of: Timestamp,
        pieces: &[(Timestamp, Sums)],
        waiting: u64,
    ) -> Self {
        let (mut all, mut days) = (Sums::default(), BTreeMap::<Timestamp, Sums>::new());
        for (at, sums) in pieces {
            all.add(sums);
            days.entry(Span::Day.start_of(*at)).or_default().add(sums);
        }
        let totals = TotalsView {
            events: all.events,
            deliveries: all.deliveries,
            delivered: all.delivered,
            dead_letter: all.dead_letter(),
            cancelled: all.cancelled,
            waiting,
            attempts: all.attempts(),
        };
        let by_status = [
            ("queued", waiting),
            ("delivered", totals.delivered),
            ("dead_letter", totals.dead_letter),
            ("cancelled", totals.cancelled),
        ];
        let day = |(at, sums): (Timestamp, Sums)| DailyView {
            date: at.to_string()[..10].into(),
            events: sums.events,
            delivered: sums.delivered,
            dead_letter: sums.dead_letter(),
            attempts: sums.attempts(),
        };
        let some = |(_, sums): &(Timestamp, Sums)| *sums != Sums::default();
        Self {
            since,
            until,
            as_of,
            totals,
            by_status: by_status.map(|(status, count)| StatusCountView { status, count }).into(),
            daily: days.into_iter().filter(some).map(day).collect(),
        }
    }
}

/// How fan-outs went.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = FanoutStats)]
pub struct FanoutStatsView {
    #[schema(value_type = schema::Timestamp)]
    pub since: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub until: Timestamp,
    /// Events received up to this moment are counted, two minutes ago as a rule.
    #[schema(value_type = schema::Timestamp)]
    pub as_of: Timestamp,
    /// Those that had something to deliver.
    pub events: u64,
    /// Of which every delivery has ended.
    pub complete: u64,
    /// `complete` of `events`; null without events.
    #[schema(required)]
    pub completion_ratio: Option<f64>,
    /// Of those that are complete: delivered to some and not to others. Null without any.
    #[schema(required)]
    pub partial_failure_ratio: Option<f64>,
    /// From receipt to the end of the last delivery.
    pub lag_ms: QuantilesView,
}

impl FanoutStatsView {
    pub fn new(since: Timestamp, until: Timestamp, as_of: Timestamp, sums: &FanoutSums) -> Self {
        Self {
            since,
            until,
            as_of,
            events: sums.events,
            complete: sums.complete,
            completion_ratio: ratio(sums.complete, sums.events),
            partial_failure_ratio: ratio(sums.partial, sums.complete),
            lag_ms: QuantilesView::of(&sums.lag),
        }
    }
}

/// How a destination does.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DestinationStats)]
pub struct DestinationStatsView {
    #[schema(value_type = schema::Timestamp)]
    pub since: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub until: Timestamp,
    /// Everything up to this moment is counted; more has happened since if it lies before `until`.
    #[schema(value_type = schema::Timestamp)]
    pub as_of: Timestamp,
    pub attempts: u64,
    /// Successes of all attempts but the throttled ones; null without any.
    #[schema(required)]
    pub success_ratio: Option<f64>,
    /// Attempts by what they met.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub outcomes: BTreeMap<Outcome, u64>,
    /// Attempts by the status that was answered, if any was.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub http_statuses: BTreeMap<u16, u64>,
    /// How long attempts took.
    pub latency_ms: QuantilesView,
    /// By the minute, the hour or the day, as the time that is asked for allows. Spans without anything are left out.
    pub series: Vec<PointView>,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StatsPoint)]
pub struct PointView {
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    /// Attempts that met success.
    pub ok: u64,
    /// All others but the throttled ones.
    pub failed: u64,
    #[schema(required)]
    pub p95_ms: Option<u64>,
}

impl DestinationStatsView {
    pub fn new(
        since: Timestamp,
        until: Timestamp,
        as_of: Timestamp,
        span: Span,
        pieces: &[(Timestamp, Sums)],
    ) -> Self {
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
        Self {
            since,
            until,
            as_of,
            attempts: all.attempts(),
            success_ratio: ratio(all.successes(), judged(&all)),
            latency_ms: QuantilesView::of(&all.latency),
            series: points.into_iter().filter(some).map(point).collect(),
            outcomes: all.outcomes,
            http_statuses: all.http_statuses,
        }
    }
}

/// In milliseconds, within an eighth; null where there is nothing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Quantiles)]
pub struct QuantilesView {
    #[schema(required)]
    pub p50: Option<u64>,
    #[schema(required)]
    pub p95: Option<u64>,
    #[schema(required)]
    pub p99: Option<u64>,
}

impl QuantilesView {
    fn of(sketch: &Sketch) -> Self {
        Self { p50: quantile(sketch, 0.5), p95: quantile(sketch, 0.95), p99: quantile(sketch, 0.99) }
    }
}

fn quantile(sketch: &Sketch, part: f64) -> Option<u64> {
    sketch.quantile(part).map(|took| took.as_millis() as u64)
}

/// A throttled attempt is neither good nor bad.
fn judged(sums: &Sums) -> u64 {
    sums.attempts() - sums.outcomes.get(&Outcome::Throttled).copied().unwrap_or(0)
}

fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}
