use contract::{DeliveryView, ResolvedByView, WaitingForView};
use domain::{
    delivery::{Delivery, Status},
    lane::{Explanation, WaitKind, WaitingFor},
    session::Holder,
};
use store::{DeliveryRecord, DeliveryState, Resolution, ResolvedBy};

/// `explanation` counts for a delivery that has not ended.
pub(crate) fn delivery(record: &DeliveryRecord, explanation: Explanation) -> DeliveryView {
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
        resolved_at: record.resolution.as_ref().map(|resolution| resolution.at),
        resolved_by: record.resolution.as_ref().map(resolved_by),
        dismissal_note: record.resolution.as_ref().and_then(dismissal_note),
    };
    match (&record.state, explanation) {
        (DeliveryState::Ended { ending, at }, _) => {
            view.status = ending.status();
            view.reason = ending.end_reason();
            view.ended_at = Some(*at);
        }
        (DeliveryState::Waiting(_), Explanation::Delivering) => {}
        (DeliveryState::Waiting(delivery), Explanation::Waits(waiting_for)) => {
            wait(&mut view, delivery, waiting_for);
        }
        (DeliveryState::Waiting(delivery), Explanation::Unknown) => {
            wait(&mut view, delivery, no_worker(delivery));
        }
    }
    view
}

fn resolved_by(resolution: &Resolution) -> ResolvedByView {
    match resolution.by {
        ResolvedBy::Delivery(delivery_id) => ResolvedByView::Delivery { delivery_id },
        ResolvedBy::Dismissal { dismissed_by: Holder::Key(key_id), .. } => ResolvedByView::Key { key_id },
        ResolvedBy::Dismissal { dismissed_by: Holder::User(user_id), .. } => ResolvedByView::User { user_id },
        ResolvedBy::Dismissal { dismissed_by: Holder::PortalLink(portal_link_id), .. } => {
            ResolvedByView::PortalLink { portal_link_id }
        }
    }
}

fn dismissal_note(resolution: &Resolution) -> Option<String> {
    match &resolution.by {
        ResolvedBy::Delivery(_) => None,
        ResolvedBy::Dismissal { note, .. } => note.clone(),
    }
}

fn wait(view: &mut DeliveryView, delivery: &Delivery, waiting_for: WaitingFor) {
    view.status = if view.attempt_count == 0 { Status::Queued } else { Status::RetryScheduled };
    view.next_attempt_at = Some(delivery.due_at);
    view.waiting_for = Some(self::waiting_for(waiting_for));
}

fn no_worker(delivery: &Delivery) -> WaitingFor {
    WaitingFor {
        kind: WaitKind::NoWorker,
        since: delivery.available_at,
        until: None,
        behind: None,
        detail: "no worker runs its destination's lane at the moment".into(),
    }
}

pub(crate) fn waiting_for(wait: WaitingFor) -> WaitingForView {
    WaitingForView {
        kind: wait.kind,
        since: wait.since,
        until: wait.until,
        behind: wait.behind,
        detail: wait.detail,
    }
}
