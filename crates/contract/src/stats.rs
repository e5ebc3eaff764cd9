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
