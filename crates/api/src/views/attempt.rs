use contract::{AttemptErrorView, AttemptView, HeadersView, RequestView, ResponseView, TimingView};
use domain::{
    attempt::{Response, Timing},
    event::Event,
    id::ReplayId,
    trace::{TRACEPARENT, TraceContext},
};
use std::time::Duration;
use store::AttemptRecord;

/// What every request of an event carries, and is therefore not kept with each attempt: the counterpart of what
/// `engine::sink::http` sends and does not keep.
#[derive(Debug, Clone, Default)]
pub(crate) struct EveryRequest {
    pub(crate) content_type: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) replay_id: Option<ReplayId>,
}

impl EveryRequest {
    pub(crate) fn of(event: &Event) -> Self {
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

pub(crate) fn attempt(attempt: &AttemptRecord, every: &EveryRequest) -> AttemptView {
    let detail = &attempt.detail;
    // What the sender kept is nearer to the truth than what we can say afterwards.
    let kept = |name: &str| detail.request_headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let sent = every.headers(attempt).into_iter().filter(|(name, _)| !kept(name));
    AttemptView {
        id: attempt.id,
        delivery_id: attempt.delivery_id,
        event_id: attempt.event_id,
        destination_id: attempt.destination_id,
        number: attempt.number,
        started_at: attempt.started_at,
        duration_ms: millis(attempt.duration),
        timing_ms: timing(&detail.timing),
        connection_reused: detail.connection_reused,
        outcome: attempt.outcome,
        http_status: attempt.http_status,
        retry_after_seconds: detail.retry_after_seconds,
        error: detail.error.as_ref().map(|error| AttemptErrorView {
            code: error.code.clone(),
            kind: error.kind.clone(),
            message: error.message.clone(),
        }),
        request: RequestView {
            method: "POST".into(),
            url: detail.url.clone(),
            headers: HeadersView::new(sent.chain(detail.request_headers.iter().cloned())),
        },
        response: detail.response.as_ref().map(response),
        node: attempt.node,
        late: attempt.late,
    }
}

/// Rounded: half a millisecond of TLS is not nothing, and not a whole one either. The same for the whole and its parts,
/// so that no part is longer.
pub(super) fn millis(took: Duration) -> u64 {
    ((took.as_micros() + 500) / 1000) as u64
}

fn timing(timing: &Timing) -> TimingView {
    let millis =
        |micros: Option<u32>| micros.map(|micros| millis(Duration::from_micros(micros.into())) as u32);
    TimingView {
        dns: millis(timing.dns_us),
        connect: millis(timing.connect_us),
        tls: millis(timing.tls_us),
        first_byte: millis(timing.first_byte_us),
    }
}

fn response(response: &Response) -> ResponseView {
    ResponseView {
        headers: response.headers.as_slice().into(),
        body: response.body.clone(),
        body_base64: response.body_base64.clone(),
        truncated: response.truncated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_an_attempt_is_longer_than_the_whole() {
        let took = Duration::from_micros(1_663);
        let took_by_part = Timing { first_byte_us: Some(1_601), connect_us: Some(400), ..Timing::default() };
        let shown = timing(&took_by_part);
        assert_eq!((millis(took), shown.first_byte, shown.connect), (2, Some(2), Some(0)));
    }
}
