//! The filters of the list of deliveries.

use crate::{
    error::ApiError,
    validate::Checks,
    views::{schema, words},
};
use domain::{
    delivery::{CancelReason, Status},
    id::{DestinationId, EventId, ReplayId, RouteId, SourceId},
    outcome::DeadReason,
    pattern::Pattern,
    time::Timestamp,
};
use serde::Deserialize;
use store::DeliveryFilter;
use utoipa::IntoParams;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeliveryQuery {
    #[param(value_type = Vec<words::StatusWord>, required = false)]
    status: Vec<Status>,
    /// Why it ended undelivered.
    #[param(value_type = Vec<String>, required = false, example = json!(["exhausted"]))]
    reason: Vec<String>,
    #[param(value_type = Vec<schema::EventId>, required = false)]
    event_id: Vec<EventId>,
    #[param(value_type = Vec<schema::DestinationId>, required = false)]
    destination_id: Vec<DestinationId>,
    #[param(value_type = Vec<schema::RouteId>, required = false)]
    route_id: Vec<RouteId>,
    #[param(value_type = Vec<schema::SourceId>, required = false)]
    source_id: Vec<SourceId>,
    /// Event type, or a pattern of it.
    #[serde(rename = "type")]
    #[param(value_type = Vec<schema::EventTypePattern>, required = false)]
    types: Vec<Pattern>,
    /// Of the last attempt.
    #[param(required = false)]
    http_status: Vec<u16>,
    #[param(value_type = Vec<schema::ReplayId>, required = false)]
    replay_id: Vec<ReplayId>,
    /// Created at this time or later.
    #[param(value_type = Option<schema::Timestamp>)]
    since: Option<Timestamp>,
    /// Created before this time.
    #[param(value_type = Option<schema::Timestamp>)]
    until: Option<Timestamp>,
}

impl DeliveryQuery {
    pub(super) fn checked(&self) -> Result<DeliveryFilter, ApiError> {
        let mut checks = Checks::default();
        let counts = [
            ("/status", self.status.len()),
            ("/reason", self.reason.len()),
            ("/event_id", self.event_id.len()),
            ("/destination_id", self.destination_id.len()),
            ("/route_id", self.route_id.len()),
            ("/source_id", self.source_id.len()),
            ("/type", self.types.len()),
            ("/http_status", self.http_status.len()),
            ("/replay_id", self.replay_id.len()),
        ];
        counts.into_iter().for_each(|(pointer, count)| checks.filter_values(pointer, count));
        for (index, reason) in self.reason.iter().enumerate() {
            if !is_reason(reason) {
                checks.refuse(
                    format!("/reason/{index}"),
                    "unknown_value",
                    "no delivery ends for this reason",
                );
            }
        }
        checks.done()?;
        Ok(DeliveryFilter {
            statuses: self.status.clone(),
            reasons: self.reason.clone(),
            event_ids: self.event_id.clone(),
            destination_ids: self.destination_id.clone(),
            route_ids: self.route_id.clone(),
            source_ids: self.source_id.clone(),
            types: self.types.clone(),
            http_statuses: self.http_status.clone(),
            replay_ids: self.replay_id.clone(),
            since: self.since,
            until: self.until,
        })
    }
}

fn is_reason(text: &str) -> bool {
    let cancelled = [CancelReason::Requested, CancelReason::DestinationDeleted];
    text.parse::<DeadReason>().is_ok() || cancelled.iter().any(|reason| reason.as_str() == text)
}
