use contract::{DeliveryView, WaitingForView};
use domain::{delivery::Status, lane::WaitingFor};
use store::{DeliveryRecord, DeliveryState};

/// `waiting_for` is the lane's word about a delivery that has not ended: None says that it is being delivered.
pub(crate) fn delivery(record: &DeliveryRecord, waiting_for: Option<WaitingFor>) -> DeliveryView {
    let mut view = DeliveryView {
        id: record.id,
        event_id: record.event_id,
        event_type: record.event_type.clone(),
        route_id: record.route_id,
        destination_id: record.destination_id,
        status: Status::Delivering,
        reason: None,
        attempt_count: record.attempts,
        retry_count: record.spent,
        last_outcome: record.last_outcome,
        last_http_status: record.last_http_status,
        sequence: record.sequence,
        ordering_key: record.ordering_key.clone(),
        created_at: record.created_at,
        next_attempt_at: None,
        ended_at: None,
        replay_id: record.replay_id,
        replay_of: Some(record.origin).filter(|origin| *origin != record.id),
        waiting_for: None,
    };
    match (&record.state, waiting_for) {
        (DeliveryState::Ended { ending, at }, _) => {
            view.status = ending.status();
            view.reason = ending.end_reason();
            view.ended_at = Some(*at);
        }
        (DeliveryState::Waiting(delivery), Some(waiting_for)) => {
            view.status = if record.attempts == 0 { Status::Queued } else { Status::RetryScheduled };
            view.next_attempt_at = Some(delivery.due_at);
            view.waiting_for = Some(waits(waiting_for));
        }
        (DeliveryState::Waiting(_), None) => {}
    }
    view
}

fn waits(wait: WaitingFor) -> WaitingForView {
    WaitingForView {
        kind: wait.kind,
        since: wait.since,
        until: wait.until,
        behind: wait.behind,
        detail: wait.detail,
    }
}
