use super::{HeadersView, delivery::OutcomeWord, schema};
use domain::{
    attempt::{Response, Timing},
    event::Event,
    id::{AttemptId, DeliveryId, DestinationId, EventId, NodeId, ReplayId},
    outcome::Outcome,
    time::Timestamp,
    trace::{TRACEPARENT, TraceContext},
};
use serde::Serialize;
use std::time::Duration;
use store::AttemptRecord;
use utoipa::ToSchema;

/// One HTTP try of a delivery, as it went.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptView {
    #[schema(value_type = schema::AttemptId)]
    pub id: AttemptId,
    #[schema(value_type = schema::DeliveryId)]
    pub delivery_id: DeliveryId,
    #[schema(value_type = schema::EventId)]
    pub event_id: EventId,
    #[schema(value_type = schema::DestinationId)]
    pub destination_id: DestinationId,
    /// From 1.
    pub number: u32,
    #[schema(value_type = schema::Timestamp)]
    pub started_at: Timestamp,
    pub duration_ms: u64,
    pub timing_ms: TimingView,
    pub connection_reused: bool,
    #[schema(value_type = OutcomeWord)]
    pub outcome: Outcome,
    #[schema(required)]
    pub http_status: Option<u16>,
    #[schema(required)]
    pub retry_after_seconds: Option<u64>,
    #[schema(required)]
    pub error: Option<AttemptErrorView>,
    pub request: RequestView,
    /// Null when there was no answer.
    #[schema(required)]
    pub response: Option<ResponseView>,
    /// The process that made it.
    #[schema(value_type = String)]
    pub node: NodeId,
    /// Recorded after its delivery had moved on: it changed nothing.
    pub late: bool,
}

/// Where the time went; null for a phase that did not take place.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = Timing)]
pub struct TimingView {
    #[schema(required)]
    pub dns: Option<u32>,
    #[schema(required)]
    pub connect: Option<u32>,
    #[schema(required)]
    pub tls: Option<u32>,
    #[schema(required)]
    pub first_byte: Option<u32>,
}

/// Why there is no answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AttemptError)]
pub struct AttemptErrorView {
    #[schema(example = "connect_error")]
    pub code: String,
    pub message: String,
}

/// What was sent; credentials are redacted. The body is the event's payload.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AttemptRequest)]
pub struct RequestView {
    #[schema(example = "POST")]
    pub method: &'static str,
    pub url: String,
    #[schema(value_type = schema::Headers)]
    pub headers: HeadersView,
}

/// What came back.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AttemptResponse)]
pub struct ResponseView {
    #[schema(value_type = schema::Headers)]
    pub headers: HeadersView,
    /// The first 16 KiB as text; null if they are not text.
    #[schema(required)]
    pub body: Option<String>,
    /// The first 16 KiB in base64 if they are not text.
    #[schema(required)]
    pub body_base64: Option<String>,
    /// There was more.
    pub truncated: bool,
}

/// What every request of an event carries, and is therefore not kept with each attempt.
#[derive(Debug, Clone, Default)]
pub struct EveryRequest {
    pub content_type: Option<String>,
    pub event_type: Option<String>,
    pub replay_id: Option<ReplayId>,
}

impl EveryRequest {
    pub fn of(event: &Event) -> Self {
        Self {
            content_type: Some(event.content_type.clone()),
            event_type: Some(event.event_type.to_string()),
            replay_id: None,
        }
    }

    fn headers(&self, attempt: &AttemptRecord) -> Vec<(String, String)> {
        let replay_id = self.replay_id.map(|id| id.to_string());
        let headers = [
            ("content-type", self.content_type.clone()),
            ("user-agent", Some(concat!("Posthaste/", env!("CARGO_PKG_VERSION")).into())),
            ("accept-encoding", Some("identity".into())),
            ("webhook-id", Some(attempt.event_id.to_string())),
            ("webhook-timestamp", Some(attempt.started_at.seconds().to_string())),
            ("posthaste-event-type", self.event_type.clone()),
            ("posthaste-delivery", Some(attempt.delivery_id.to_string())),
            ("posthaste-attempt", Some(attempt.number.to_string())),
            ("posthaste-replay", replay_id),
            // Of an event that brought a trace along the sender has kept what it sent.
            (TRACEPARENT, Some(TraceContext::of_untraced(attempt.event_id, attempt.id).to_string())),
        ];
        headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

impl AttemptView {
    pub fn new(attempt: &AttemptRecord, every: &EveryRequest) -> Self {
        let detail = &attempt.detail;
        // What the sender kept is nearer to the truth than what we can say afterwards.
        let kept =
            |name: &str| detail.request_headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let sent = every.headers(attempt).into_iter().filter(|(name, _)| !kept(name));
        Self {
            id: attempt.id,
            delivery_id: attempt.delivery_id,
            event_id: attempt.event_id,
            destination_id: attempt.destination_id,
            number: attempt.number,
            started_at: attempt.started_at,
            duration_ms: millis(attempt.duration),
            timing_ms: TimingView::from(&detail.timing),
            connection_reused: detail.connection_reused,
            outcome: attempt.outcome,
            http_status: attempt.http_status,
            retry_after_seconds: detail.retry_after_seconds,
            error: detail
                .error
                .as_ref()
                .map(|error| AttemptErrorView { code: error.code.clone(), message: error.message.clone() }),
            request: RequestView {
                method: "POST",
                url: detail.url.clone(),
                headers: HeadersView::new(sent.chain(detail.request_headers.iter().cloned())),
            },
            response: detail.response.as_ref().map(ResponseView::from),
            node: attempt.node,
            late: attempt.late,
        }
    }
}

/// Rounded: half a millisecond of TLS is not nothing, and not a whole one either. The same for the whole and its parts,
/// so that no part is longer.
pub(super) fn millis(took: Duration) -> u64 {
    ((took.as_micros() + 500) / 1000) as u64
}

impl From<&Timing> for TimingView {
    fn from(timing: &Timing) -> Self {
        let millis =
            |micros: Option<u32>| micros.map(|micros| millis(Duration::from_micros(micros.into())) as u32);
        Self {
            dns: millis(timing.dns_us),
            connect: millis(timing.connect_us),
            tls: millis(timing.tls_us),
            first_byte: millis(timing.first_byte_us),
        }
    }
}

impl From<&Response> for ResponseView {
    fn from(response: &Response) -> Self {
        Self {
            headers: response.headers.as_slice().into(),
            body: response.body.clone(),
            body_base64: response.body_base64.clone(),
            truncated: response.truncated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_attempt_is_longer_than_the_whole() {
        let took = Duration::from_micros(1_663);
        let timing = Timing { first_byte_us: Some(1_601), connect_us: Some(400), ..Timing::default() };
        let shown = TimingView::from(&timing);
        assert_eq!((millis(took), shown.first_byte, shown.connect), (2, Some(2), Some(0)));
    }
}
