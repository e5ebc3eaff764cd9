//! Statistics.

use crate::schema;
use domain::{delivery::Status, outcome::Outcome, time::Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// What happened in an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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
    /// Since when something has been due that has not been delivered: how far deliveries are behind. The thousand oldest that
    /// wait are looked at; null if none of them is due.
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub oldest_due_at: Option<Timestamp>,
    /// How many may wait; beyond, events are refused.
    pub waiting_max: u64,
    pub attempts: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = StatusCount)]
pub struct StatusCountView {
    #[schema(value_type = schema::DeliveryStatus)]
    pub status: Status,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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

/// How fan-outs went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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

/// How a destination does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
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

/// In milliseconds, within an eighth; null where there is nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Quantiles)]
pub struct QuantilesView {
    #[schema(required)]
    pub p50: Option<u64>,
    #[schema(required)]
    pub p95: Option<u64>,
    #[schema(required)]
    pub p99: Option<u64>,
}

/// What happened, span by span: for a page to draw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = StatsSeries)]
pub struct SeriesView {
    pub by: SeriesBy,
    /// In whole spans.
    #[schema(value_type = schema::Timestamp)]
    pub since: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub until: Timestamp,
    /// Everything up to this moment is counted, a few seconds ago at most as a rule. Slots and backlogs are looked at every five
    /// seconds.
    #[schema(value_type = schema::Timestamp)]
    pub as_of: Timestamp,
    /// All of it together.
    pub totals: SeriesTotalsView,
    /// Oldest first, at most 1,500. Spans without anything are left out.
    pub points: Vec<SeriesPointView>,
}

/// What happened in all spans of a series together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = StatsSeriesTotals)]
pub struct SeriesTotalsView {
    /// Events received. Of accounts only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    pub attempts: u64,
    /// The same by what they met.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub outcomes: BTreeMap<Outcome, u64>,
    /// The same by the status that was answered, if any was.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub http_statuses: BTreeMap<u16, u64>,
    /// Successes of all attempts but the throttled ones; null without any.
    #[schema(required)]
    pub success_ratio: Option<f64>,
    /// Deliveries that ended so.
    pub delivered: u64,
    pub dead_letter: u64,
    pub cancelled: u64,
    pub latency_ms: SeriesLatencyView,
    pub slot_denied: u64,
}

/// One span of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = StatsSeriesPoint)]
pub struct SeriesPointView {
    /// Where the span begins.
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    /// Events received. Of accounts only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// Attempts that began in it.
    pub attempts: u64,
    /// The same by what they met.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub outcomes: BTreeMap<Outcome, u64>,
    /// The same by the status that was answered, if any was.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub http_statuses: BTreeMap<u16, u64>,
    /// Deliveries that ended so.
    pub delivered: u64,
    pub dead_letter: u64,
    pub cancelled: u64,
    pub latency_ms: SeriesLatencyView,
    /// Deliveries that had not ended when it was last looked at in this span; of a destination counted up to 10,000. Null where
    /// the owner of the lane had nothing to note.
    #[schema(required)]
    pub backlog: Option<u64>,
    /// Slots that were taken, on average over the time of the span.
    pub in_flight: f64,
    /// How many slots there were, the most at a time; of an account those of its destinations at which something happened. Null
    /// where the owner of the lane had nothing to note.
    #[schema(required)]
    pub max_concurrency: Option<u64>,
    /// Deliveries that were due and found every slot of their destination taken, once each time they fell due.
    pub slot_denied: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = StatsSeriesLatency)]
pub struct SeriesLatencyView {
    /// From when a delivery was made to the end of the attempt that delivered it, of those that were delivered in this span.
    pub deliveries: QuantilesView,
    /// How long attempts took, whatever they met.
    pub attempts: QuantilesView,
}

/// How long the spans of a series are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesBy {
    /// Known for the last six hours.
    #[default]
    Minute,
    /// Known for the last eight days.
    Hour,
    /// A day of UTC.
    Day,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SeriesQuery {
    /// The length of a span; a minute unless it is said.
    #[param(inline)]
    pub by: SeriesBy,
    /// From this time on, rounded down to a whole span. Lies before `until`, and in the past: within the last six hours by the
    /// minute, within the last eight days by the hour. The last hour, day or 30 days unless it is said.
    #[param(value_type = Option<schema::Timestamp>)]
    pub since: Option<Timestamp>,
    /// Before this time; now unless it is said. A series has at most 1,500 points.
    #[param(value_type = Option<schema::Timestamp>)]
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StatsQuery {
    /// From this time on. Lies before `until`, and in the past. Rounded down to the minute within the last hours, to the
    /// hour within the last week, to the day before that.
    #[param(value_type = Option<schema::Timestamp>)]
    pub since: Option<Timestamp>,
    /// Before this time.
    #[param(value_type = Option<schema::Timestamp>)]
    pub until: Option<Timestamp>,
}
