//! The filters of the list of deliveries.

use crate::{error::ApiError, validate::Checks};
use contract::{DeliveryQuery, ResolvedFilter};
use domain::{delivery::EndReason, limits};
use store::DeliveryFilter;

pub(crate) fn checked(query: &DeliveryQuery) -> Result<DeliveryFilter, ApiError> {
    let mut checks = Checks::default();
    check(query, "", &mut checks);
    checks.done()?;
    Ok(filter(query))
}

/// What is wrong with it, as the member `place` of a body.
pub(crate) fn check(query: &DeliveryQuery, place: &str, checks: &mut Checks) {
    let counts = [
        ("/status", query.status.len()),
        ("/reason", query.reason.len()),
        ("/event_id", query.event_id.len()),
        ("/destination_id", query.destination_id.len()),
        ("/route_id", query.route_id.len()),
        ("/source_id", query.source_id.len()),
        ("/type", query.types.len()),
        ("/http_status", query.http_status.len()),
        ("/replay_id", query.replay_id.len()),
    ];
    for (pointer, count) in counts {
        checks.filter_values(&format!("{place}{pointer}"), count);
    }
    for (index, status) in query.http_status.iter().enumerate() {
        checks.range(&format!("{place}/http_status/{index}"), *status, limits::HTTP_STATUSES);
    }
    for (index, reason) in query.reason.iter().enumerate() {
        if EndReason::read(reason).is_none() {
            checks.refuse(
                format!("{place}/reason/{index}"),
                "unknown_value",
                "no delivery ends for this reason",
            );
        }
    }
}

pub(crate) fn filter(query: &DeliveryQuery) -> DeliveryFilter {
    DeliveryFilter {
        statuses: query.status.clone(),
        reasons: query.reason.clone(),
        event_ids: query.event_id.clone(),
        destination_ids: query.destination_id.clone(),
        route_ids: query.route_id.clone(),
        source_ids: query.source_id.clone(),
        types: query.types.clone(),
        http_statuses: query.http_status.clone(),
        replay_ids: query.replay_id.clone(),
        since: query.since,
        until: query.until,
        resolved: query.resolved.and_then(ResolvedFilter::wanted),
    }
}
