use super::{
    attempt::millis,
    destination::{going_on, hold, hold_record, status},
};
use contract::{AttemptSummaryView, DeliveryChangeView, DestinationChangeView, HoldView};
use domain::{
    delivery::{Ending, Status},
    destination::Destination,
    gate::{HoldReason, HoldRecord},
    id::DestinationId,
};
use store::{FactAttempt, FactRecord, LaneView};

pub(crate) fn delivery_change(fact: &FactRecord) -> DeliveryChangeView {
    let (ending, ended_at): (Option<Ending>, _) = fact.ending.unzip();
    let attempt = |attempt: FactAttempt| AttemptSummaryView {
        id: attempt.id,
        number: fact.attempts,
        started_at: attempt.started_at,
        duration_ms: millis(attempt.duration),
        outcome: fact.outcome,
        http_status: fact.http_status,
    };
    DeliveryChangeView {
        id: fact.delivery_id,
        event_id: fact.event_id,
        event_type: fact.event_type.clone(),
        route_id: fact.route_id,
        destination_id: fact.destination_id,
        status: ending.map_or(Status::RetryScheduled, Ending::status),
        reason: ending.and_then(Ending::end_reason),
        attempt_count: fact.attempts,
        retry_count: fact.spent,
        last_outcome: fact.outcome,
        last_http_status: fact.http_status,
        sequence: fact.sequence,
        ordering_key: fact.ordering_key.clone(),
        created_at: fact.delivery_id.made_at(),
        next_attempt_at: fact.next_attempt_at,
        ended_at,
        replay_id: fact.replay_id,
        replay_of: Some(fact.origin).filter(|origin| *origin != fact.delivery_id),
        attempt: fact.attempt.map(attempt),
    }
}

/// `destination` is None if it does not read back.
pub(crate) fn destination_change(
    id: DestinationId,
    destination: Option<&Destination>,
    lane: Option<&LaneView>,
    change: &HoldRecord,
) -> DestinationChangeView {
    let hold = standing(destination, lane, change);
    let throttle = hold.as_ref().filter(|hold| hold.reason == HoldReason::Throttle);
    DestinationChangeView {
        id,
        status: status(hold.as_ref()),
        throttled_until: throttle.and_then(|hold| hold.until),
        throttle_reason: throttle.map(|hold| hold.detail.clone()),
        hold,
        change: hold_record(change),
    }
}

/// What holds the destination by now. A line of the history is durable; what this node knows of a lane may be a moment
/// older, if another node runs it.
fn standing(
    destination: Option<&Destination>,
    lane: Option<&LaneView>,
    change: &HoldRecord,
) -> Option<HoldView> {
    let known = destination.and_then(|destination| hold(destination, lane));
    match known {
        Some(known) if known.reason == change.reason && known.since == change.since => {
            change.ended_at.is_none().then_some(known)
        }
        None if change.ended_at.is_none() && (destination.is_none() || of_lane(change.reason)) => {
            Some(going_on(change))
        }
        known => known,
    }
}

/// Not of the destination's own switches.
const fn of_lane(reason: HoldReason) -> bool {
    matches!(reason, HoldReason::Throttle | HoldReason::Breaker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::DestinationStatus;
    use domain::{gate::Hold, id::AccountId, time::Timestamp};

    const THEN: Timestamp = Timestamp::from_seconds(1_790_000_000);

    fn change(reason: HoldReason, ended_at: Option<Timestamp>) -> HoldRecord {
        let detail = "429 Too Many Requests".into();
        HoldRecord { reason, since: THEN, until: Some(THEN), detail, step: Some(1), ended_at }
    }

    fn lane(reason: HoldReason) -> LaneView {
        let HoldRecord { since, until, detail, step, .. } = change(reason, None);
        LaneView { in_flight: 0, hold: Some(Hold { reason, since, until, detail, step, probing: true }) }
    }

    fn shown(paused: bool, lane: Option<LaneView>, change: &HoldRecord) -> DestinationChangeView {
        let id = DestinationId::at(THEN, 1);
        let url = "https://example.com/hooks";
        let mut destination = Destination::new(id, AccountId::at(THEN, 2), "Orders", url, THEN);
        destination.switch.paused_at = paused.then_some(THEN);
        destination_change(id, Some(&destination), lane.as_ref(), change)
    }

    #[test]
    fn a_hold_that_has_begun_is_shown_before_its_lane_says_so() {
        let view = shown(false, None, &change(HoldReason::Throttle, None));
        assert_eq!((view.status, view.throttled_until), (DestinationStatus::Throttled, Some(THEN)));
        assert_eq!(view.throttle_reason.as_deref(), Some("429 Too Many Requests"));
        let view = shown(false, Some(lane(HoldReason::Throttle)), &change(HoldReason::Throttle, None));
        assert!(view.hold.is_some_and(|hold| hold.probing), "the lane knows more");
    }

    #[test]
    fn a_hold_that_has_ended_is_not_shown_though_its_lane_still_says_so() {
        let ended = change(HoldReason::Throttle, Some(THEN));
        let view = shown(false, Some(lane(HoldReason::Throttle)), &ended);
        assert_eq!((view.status, view.hold, view.throttled_until), (DestinationStatus::Active, None, None));
    }

    #[test]
    fn a_destination_that_is_held_for_something_else_says_that() {
        let ended = change(HoldReason::Throttle, Some(THEN));
        assert_eq!(
            shown(false, Some(lane(HoldReason::Breaker)), &ended).status,
            DestinationStatus::Unhealthy
        );
        assert_eq!(shown(true, None, &ended).status, DestinationStatus::Paused);
        let begun = change(HoldReason::Throttle, None);
        assert_eq!(shown(true, None, &begun).status, DestinationStatus::Paused);
    }
}
