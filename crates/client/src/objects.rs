//! What the API answers with. Fields of later versions are passed over.

use crate::Problem;
use domain::{
    account::{KeyKind, Scope},
    delivery::Status,
    destination::{OnDeadLetter, Ordering, RateLimit, Scheme},
    id::{
        AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RouteId,
        SourceId,
    },
    member::Role,
    outcome::Outcome,
    retry::RetryPolicy,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A part of a list; `next_cursor` is null at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    pub data: Vec<T>,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Account {
    pub id: AccountId,
    pub uid: Option<String>,
    pub name: String,
    pub retention_days: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApiKey {
    pub id: ApiKeyId,
    pub name: String,
    pub kind: KeyKind,
    pub prefix: String,
    pub scopes: Vec<Scope>,
    pub source_id: Option<SourceId>,
    pub rate_limit: Option<u32>,
    pub expires_at: Option<Timestamp>,
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    pub created_at: Timestamp,
    /// Only in the answer to its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Source {
    pub id: SourceId,
    pub uid: Option<String>,
    pub name: String,
    pub enabled: bool,
    pub ingest_url: String,
    pub verification: Value,
    pub rate_limit: Option<u32>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Destination {
    pub id: DestinationId,
    pub uid: Option<String>,
    pub name: String,
    pub url: String,
    /// active, throttled, unhealthy, paused or disabled.
    pub status: String,
    pub hold: Option<Hold>,
    pub throttled_until: Option<Timestamp>,
    pub throttle_reason: Option<String>,
    pub queued_events: i64,
    pub queued_events_exact: bool,
    pub in_flight: u32,
    pub oldest_queued_at: Option<Timestamp>,
    pub max_concurrency: u32,
    pub timeout_seconds: u64,
    pub rate_limit: Option<RateLimit>,
    pub ordering: Ordering,
    pub on_dead_letter: OnDeadLetter,
    pub retry_policy: RetryPolicy,
    pub headers: BTreeMap<String, Value>,
    pub forward_headers: Vec<String>,
    pub auth: Value,
    pub signing: Signing,
    pub success_rate_1h: Option<f64>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    pub reason: String,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    pub detail: String,
    pub step: Option<u32>,
    pub probing: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Signing {
    pub scheme: Scheme,
    pub ed25519: bool,
    pub svix_headers: bool,
    /// `whsec_…`: only in the answer to what made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Secret {
    pub secret: String,
    #[serde(default)]
    pub previous_until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Route {
    pub id: RouteId,
    pub uid: Option<String>,
    pub name: Option<String>,
    pub enabled: bool,
    pub source_id: Option<SourceId>,
    pub destination_id: DestinationId,
    pub event_types: Vec<String>,
    pub filter: Option<Value>,
    pub retry_policy: Option<RetryPolicy>,
    pub timeout_seconds: Option<u64>,
    pub signing: Option<Value>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// An event is durable; or it was before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accepted {
    pub id: EventId,
    pub status: AcceptedStatus,
    /// Null while a large fan-out is being expanded.
    pub deliveries: Option<u32>,
    pub expanding: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AcceptedStatus {
    Queued,
    /// The idempotency key was used before, by this event.
    Duplicate,
}

/// What became of one event of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BatchResult {
    Accepted(Accepted),
    Refused { status: String, error: Box<Problem> },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub id: EventId,
    #[serde(rename = "type")]
    pub event_type: String,
    pub source_id: Option<SourceId>,
    pub idempotency_key: Option<String>,
    pub content_type: String,
    pub size_bytes: u64,
    pub ordering_key: Option<String>,
    pub metadata: Map<String, Value>,
    pub received_at: Timestamp,
    pub deliver_at: Option<Timestamp>,
    pub fanout: Fanout,
    /// The rest only where one event was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<Vec<Delivery>>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fanout {
    pub total: u32,
    pub delivered: u32,
    pub waiting: u32,
    pub dead_letter: u32,
    pub cancelled: u32,
    /// False: there are more than were counted.
    pub exact: bool,
    pub expanding: bool,
    pub completed_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    pub id: DeliveryId,
    pub event_id: EventId,
    pub event_type: String,
    pub route_id: RouteId,
    pub destination_id: DestinationId,
    pub status: Status,
    pub reason: Option<String>,
    pub attempt_count: u32,
    pub retry_count: u32,
    pub last_outcome: Option<Outcome>,
    pub last_http_status: Option<u16>,
    pub sequence: Option<i64>,
    pub ordering_key: Option<String>,
    pub created_at: Timestamp,
    pub next_attempt_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub replay_id: Option<ReplayId>,
    pub replay_of: Option<DeliveryId>,
    pub waiting_for: Option<WaitingFor>,
    /// Only where one delivery was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<Attempt>>,
}

/// Ended deliveries that were asked for again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    pub id: ReplayId,
    /// `running`, `paused`, `completed` or `cancelled`.
    pub status: String,
    /// None: it was given ids.
    pub filter: Option<Value>,
    pub rate: u32,
    pub matched: u64,
    pub matched_exact: bool,
    pub created: u64,
    pub delivered: u64,
    pub dead_letter: u64,
    pub skipped: u64,
    /// What keeps it from making more.
    pub waiting_for: Option<ReplayWait>,
    pub estimated_seconds: Option<u64>,
    pub created_by: ApiKeyId,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayWait {
    /// `backlog`: as much of the account waits as may.
    pub kind: String,
    pub detail: String,
}

/// What a replay would do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayEstimate {
    pub matched: u64,
    pub matched_exact: bool,
    pub by_destination: Vec<DestinationCount>,
    pub estimated_seconds: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DestinationCount {
    pub destination_id: DestinationId,
    pub count: u64,
}

/// Dead letters that have destination, reason and HTTP status in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetterGroup {
    pub destination_id: DestinationId,
    pub reason: String,
    pub http_status: Option<u16>,
    pub count: u64,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    pub sample_delivery_id: DeliveryId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingFor {
    pub kind: String,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    pub behind: Option<DeliveryId>,
    pub detail: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    pub id: AttemptId,
    pub delivery_id: DeliveryId,
    pub event_id: EventId,
    pub destination_id: DestinationId,
    pub number: u32,
    pub started_at: Timestamp,
    pub duration_ms: u64,
    pub timing_ms: Timing,
    pub connection_reused: bool,
    pub outcome: Outcome,
    pub http_status: Option<u16>,
    pub retry_after_seconds: Option<u64>,
    pub error: Option<AttemptError>,
    pub request: AttemptRequest,
    pub response: Option<AttemptResponse>,
    pub node: String,
    pub late: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    pub dns: Option<u32>,
    pub connect: Option<u32>,
    pub tls: Option<u32>,
    pub first_byte: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptError {
    pub code: String,
    pub message: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptRequest {
    pub method: String,
    pub url: String,
    pub headers: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResponse {
    pub headers: BTreeMap<String, Value>,
    pub body: Option<String>,
    pub body_base64: Option<String>,
    pub truncated: bool,
}

/// A process that shares the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    pub id: NodeId,
    pub name: String,
    pub role: Role,
    pub version: String,
    /// Where it listens; only an operator sees it.
    pub address: Option<String>,
    pub status: NodeStatus,
    /// How many shards it owns.
    pub shards: u32,
    pub joined_at: Timestamp,
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    Active,
    /// Its lease has ended, and nobody has taken over yet.
    Expired,
}

/// What `/readyz` says.
#[derive(Debug, Clone, PartialEq)]
pub struct Readiness {
    pub ready: bool,
    pub http_status: u16,
    /// The whole answer, for people.
    pub detail: Value,
}

/// What happened in an account.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    pub since: Timestamp,
    pub until: Timestamp,
    /// Everything up to this moment is counted.
    pub as_of: Timestamp,
    pub totals: StatsTotals,
    pub by_status: Vec<StatusCount>,
    pub daily: Vec<DailyStats>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatsTotals {
    pub events: u64,
    pub deliveries: u64,
    pub delivered: u64,
    pub dead_letter: u64,
    pub cancelled: u64,
    pub waiting: u64,
    pub attempts: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusCount {
    pub status: Status,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DailyStats {
    pub date: String,
    pub events: u64,
    pub delivered: u64,
    pub dead_letter: u64,
    pub attempts: u64,
}

/// How fan-outs went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FanoutStats {
    pub since: Timestamp,
    pub until: Timestamp,
    pub as_of: Timestamp,
    pub events: u64,
    pub complete: u64,
    pub completion_ratio: Option<f64>,
    pub partial_failure_ratio: Option<f64>,
    pub lag_ms: Quantiles,
}

/// How a destination does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DestinationStats {
    pub since: Timestamp,
    pub until: Timestamp,
    pub as_of: Timestamp,
    pub attempts: u64,
    pub success_ratio: Option<f64>,
    pub outcomes: BTreeMap<String, u64>,
    pub http_statuses: BTreeMap<String, u64>,
    pub latency_ms: Quantiles,
    pub series: Vec<StatsPoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatsPoint {
    pub at: Timestamp,
    pub ok: u64,
    pub failed: u64,
    pub p95_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quantiles {
    pub p50: Option<u64>,
    pub p95: Option<u64>,
    pub p99: Option<u64>,
}
