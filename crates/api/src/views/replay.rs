use contract::{
    BackfillEvents, DeadLetterGroupView, DeliveryQuery, DestinationCountView, FanoutState,
    ReplayEstimateView, ReplayView, ReplayWaitKind, ReplayWaitView, ResolvedFilter,
};
use domain::limits;
use store::{DeadLetterGroup, DeliveryFilter, EventFilter, Replay, ReplayStatus, Survey};

/// `full`: as much of its account waits as may.
pub(crate) fn replay(replay: &Replay, full: bool) -> ReplayView {
    let left = replay.matched.saturating_sub(replay.created + replay.skipped);
    let runs = replay.status == ReplayStatus::Running;
    ReplayView {
        id: replay.id,
        status: replay.status,
        filter: replay.filter.clone().map(delivery_query),
        resolved: (replay.filter.is_none() && replay.events.is_none())
            .then_some(ResolvedFilter::of(replay.resolved)),
        events: replay.events.as_ref().map(|events| backfill_events(&events.filter)),
        event_id: replay.events.as_ref().and_then(|events| events.event_id),
        destination_ids: replay.events.as_ref().map(|it| it.destination_ids.clone()).unwrap_or_default(),
        rate: replay.rate,
        matched: replay.matched,
        matched_exact: replay.matched_exact,
        created: replay.created,
        delivered: replay.delivered,
        dead_letter: replay.dead_letter,
        skipped: replay.skipped,
        waiting_for: (runs && full).then_some(ReplayWaitView {
            kind: ReplayWaitKind::Backlog,
            detail: "as much of the account waits to be delivered as may: it goes on when some of it is"
                .into(),
        }),
        estimated_seconds: (runs && replay.matched_exact && !full).then(|| seconds(left, replay.rate)),
        created_by: replay.created_by,
        created_at: replay.created_at,
        finished_at: replay.finished_at,
    }
}

fn seconds(deliveries: u64, rate: u32) -> u64 {
    deliveries.div_ceil(u64::from(rate.max(1)))
}

pub(crate) fn replay_estimate(survey: Survey, rate: u32) -> ReplayEstimateView {
    let counts = survey.by_destination.into_iter();
    let mut by_destination: Vec<_> =
        counts.map(|(destination_id, count)| DestinationCountView { destination_id, count }).collect();
    by_destination.sort_by_key(|one| std::cmp::Reverse(one.count));
    by_destination.truncate(limits::REPLAY_DESTINATIONS_SHOWN);
    ReplayEstimateView {
        matched: survey.matched,
        matched_exact: survey.exact,
        by_destination,
        estimated_seconds: seconds(survey.matched, rate),
    }
}

pub(crate) fn dead_letter_group(
    group: &DeadLetterGroup,
    destination_name: Option<String>,
) -> DeadLetterGroupView {
    DeadLetterGroupView {
        destination_id: group.key.destination_id,
        destination_name,
        reason: group.key.reason,
        outcome: group.key.outcome,
        http_status: group.key.http_status,
        count: group.count,
        first_at: group.oldest.made_at(),
        last_at: group.newest.made_at(),
        sample_delivery_id: group.newest,
    }
}

fn backfill_events(filter: &EventFilter) -> BackfillEvents {
    BackfillEvents {
        types: filter.types.clone(),
        source_id: filter.source_ids.clone(),
        idempotency_key: filter.idempotency_keys.clone(),
        tag: filter.tags.clone(),
        fanout: filter.unmatched.then_some(FanoutState::Unmatched),
        since: filter.since,
        until: filter.until,
    }
}

/// A filter as it is shown.
fn delivery_query(filter: DeliveryFilter) -> DeliveryQuery {
    DeliveryQuery {
        status: filter.statuses,
        reason: filter.reasons,
        event_id: filter.event_ids,
        destination_id: filter.destination_ids,
        route_id: filter.route_ids,
        source_id: filter.source_ids,
        types: filter.types,
        http_status: filter.http_statuses,
        replay_id: filter.replay_ids,
        since: filter.since,
        until: filter.until,
        resolved: Some(ResolvedFilter::of(filter.resolved)),
    }
}
