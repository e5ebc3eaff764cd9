//! What a replay is asked to do.

use crate::{deliveries::filter, error::ApiError, validate::Checks};
use contract::{BackfillEvents, DeliveryQuery, FanoutState, ReplayInput, ResolvedFilter};
use domain::{
    delivery::Status,
    id::{DeliveryId, DestinationId},
    limits,
    tag::is_tag,
};
use store::{BackfillSelection, EventFilter, SelectedDeliveries, Selection};

/// A wish that can be granted.
pub(super) struct CheckedReplay {
    pub(super) selection: Selection,
    /// Ids in the order in which they were given.
    pub(super) given: Vec<DeliveryId>,
    pub(super) rate: u32,
    pub(super) dry_run: bool,
    /// The same for the same wish.
    pub(super) text: String,
}

pub(super) fn checked(input: ReplayInput) -> Result<CheckedReplay, ApiError> {
    let mut checks = Checks::default();
    let rate = input.rate.unwrap_or(limits::REPLAY_RATE_DEFAULT);
    checks.range("/rate", rate, 1..=limits::REPLAY_RATE_MAX);
    match (&input.filter, &input.delivery_ids, &input.events) {
        (Some(filter), None, None) => check_filter(filter, &mut checks),
        (None, Some(ids), None) if ids.is_empty() => {
            checks.refuse("/delivery_ids", "missing_value", "name a delivery, or give a filter");
        }
        (None, Some(ids), None) if ids.len() > limits::REPLAY_IDS => {
            checks.refuse("/delivery_ids", "too_many", format!("at most {} ids", limits::REPLAY_IDS));
        }
        (None, Some(_), None) => {}
        (None, None, Some(events)) => check_events(events, &input, &mut checks),
        (Some(_), Some(_), _) => {
            checks.refuse("/delivery_ids", "not_allowed", "give a filter or ids, not both");
        }
        (_, _, Some(_)) => {
            checks.refuse("/events", "not_allowed", "a backfill has neither a filter of deliveries nor ids");
        }
        (None, None, None) => {
            checks.refuse("/filter", "missing_field", "give a filter, `delivery_ids` or `events`");
        }
    }
    if input.resolved.is_some() && input.delivery_ids.is_none() {
        let detail = "goes with `delivery_ids`; a filter has a member of its own for it";
        checks.refuse("/resolved", "not_allowed", detail);
    }
    if input.events.is_none() {
        for (member, given) in
            [("/match", input.matching.is_some()), ("/destination_ids", input.destination_ids.is_some())]
        {
            if given {
                checks.refuse(member, "not_allowed", "goes with `events`");
            }
        }
    }
    checks.done()?;
    let text = serde_json::to_string(&input).map_err(ApiError::from_bug)?;
    let given = input.delivery_ids.clone().unwrap_or_default();
    let selection = match (input.filter, input.delivery_ids, input.events) {
        (_, _, Some(events)) => Selection::Events(BackfillSelection {
            event_id: None,
            filter: event_filter(events),
            destination_ids: sorted(input.destination_ids.unwrap_or_default()),
        }),
        (_, Some(mut ids), None) => {
            ids.sort_unstable();
            ids.dedup();
            let resolved = input.resolved.unwrap_or(ResolvedFilter::False).wanted();
            Selection::Deliveries(SelectedDeliveries { ids, resolved })
        }
        (filter, None, None) => {
            let query = filter.unwrap_or_default();
            let mut filter = filter::filter(&query);
            // The same replay twice sends nothing twice.
            filter.resolved = query.resolved.unwrap_or(ResolvedFilter::False).wanted();
            if filter.statuses.is_empty() {
                filter.statuses = vec![Status::DeadLetter];
            }
            Selection::Filter(filter)
        }
    };
    Ok(CheckedReplay { selection, given, rate, dry_run: input.dry_run, text })
}

/// As a backfill keeps them.
pub(super) fn sorted(mut ids: Vec<DestinationId>) -> Vec<DestinationId> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn check_filter(filter: &DeliveryQuery, checks: &mut Checks) {
    filter::check(filter, "/filter", checks);
    for (index, status) in filter.status.iter().enumerate() {
        if !status.ended() {
            let detail = "only what has ended can be replayed";
            checks.refuse(format!("/filter/status/{index}"), "not_allowed", detail);
        }
    }
}

fn check_events(events: &BackfillEvents, input: &ReplayInput, checks: &mut Checks) {
    checks.filter_values("/events/type", events.types.len());
    checks.filter_values("/events/source_id", events.source_id.len());
    checks.filter_values("/events/idempotency_key", events.idempotency_key.len());
    checks.filter_values("/events/tag", events.tag.len());
    for (place, tag) in events.tag.iter().enumerate().filter(|(_, tag)| !is_tag(tag)) {
        let detail = format!("a tag has 1 to {} characters: `{}`", limits::TAG_CHARS, tag.escape_default());
        checks.refuse(format!("/events/tag/{place}"), "invalid_value", detail);
    }
    if events.fanout.is_some_and(|state| state != FanoutState::Unmatched) {
        let detail = "a backfill changes it: only `unmatched` stays what it was";
        checks.refuse("/events/fanout", "not_allowed", detail);
    }
    if input.matching.is_none() {
        let detail = "say by which routes the events go: `now`, those of now";
        checks.refuse("/match", "missing_field", detail);
    }
    let to = input.destination_ids.as_ref();
    checks.filter_values("/destination_ids", to.map_or(0, Vec::len));
    if to.is_some_and(Vec::is_empty) {
        checks.refuse("/destination_ids", "missing_value", "name a destination, or leave it out for all");
    }
}

fn event_filter(events: BackfillEvents) -> EventFilter {
    EventFilter {
        types: events.types,
        source_ids: events.source_id,
        idempotency_keys: events.idempotency_key,
        since: events.since,
        until: events.until,
        unmatched: events.fanout == Some(FanoutState::Unmatched),
        tags: events.tag,
        ..EventFilter::default()
    }
}
