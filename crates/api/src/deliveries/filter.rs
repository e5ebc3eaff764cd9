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
use serde::{Deserialize, Serialize};
use store::DeliveryFilter;
use utoipa::{IntoParams, ToSchema};

/// Different filters narrow, the values of one widen; none is no filter.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[schema(as = DeliveryFilter)]
pub struct DeliveryQuery {
    #[param(value_type = Vec<words::StatusWord>, required = false)]
    #[schema(value_type = Vec<words::StatusWord>)]
    status: Vec<Status>,
    /// Why it ended undelivered.
    #[param(value_type = Vec<String>, required = false, example = json!(["exhausted"]))]
    #[schema(value_type = Vec<String>, example = json!(["exhausted"]))]
    reason: Vec<String>,
    #[param(value_type = Vec<schema::EventId>, required = false)]
    #[schema(value_type = Vec<schema::EventId>)]
    event_id: Vec<EventId>,
    #[param(value_type = Vec<schema::DestinationId>, required = false)]
    #[schema(value_type = Vec<schema::DestinationId>)]
    destination_id: Vec<DestinationId>,
    #[param(value_type = Vec<schema::RouteId>, required = false)]
    #[schema(value_type = Vec<schema::RouteId>)]
    route_id: Vec<RouteId>,
    #[param(value_type = Vec<schema::SourceId>, required = false)]
    #[schema(value_type = Vec<schema::SourceId>)]
    source_id: Vec<SourceId>,
    /// Event type, or a pattern of it.
    #[serde(rename = "type")]
    #[param(value_type = Vec<schema::EventTypePattern>, required = false)]
    #[schema(value_type = Vec<schema::EventTypePattern>)]
    types: Vec<Pattern>,
    /// Of the last attempt.
    #[param(required = false)]
    http_status: Vec<u16>,
    #[param(value_type = Vec<schema::ReplayId>, required = false)]
    #[schema(value_type = Vec<schema::ReplayId>)]
    replay_id: Vec<ReplayId>,
    /// Created at this time or later.
    #[param(value_type = Option<schema::Timestamp>)]
    #[schema(value_type = Option<schema::Timestamp>)]
    since: Option<Timestamp>,
    /// Created before this time.
    #[param(value_type = Option<schema::Timestamp>)]
    #[schema(value_type = Option<schema::Timestamp>)]
    until: Option<Timestamp>,
}

impl DeliveryQuery {
    pub(super) fn checked(&self) -> Result<DeliveryFilter, ApiError> {
        let mut checks = Checks::default();
        self.check("", &mut checks);
        checks.done()?;
        Ok(self.filter())
    }

    /// What is wrong with it, as the member `place` of a body.
    pub(crate) fn check(&self, place: &str, checks: &mut Checks) {
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
        for (pointer, count) in counts {
            checks.filter_values(&format!("{place}{pointer}"), count);
        }
        for (index, reason) in self.reason.iter().enumerate() {
            if !is_reason(reason) {
                checks.refuse(
                    format!("{place}/reason/{index}"),
                    "unknown_value",
                    "no delivery ends for this reason",
                );
            }
        }
    }

    pub(crate) fn filter(&self) -> DeliveryFilter {
        DeliveryFilter {
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
        }
    }

    /// A filter as it is shown.
    pub(crate) fn of(filter: &DeliveryFilter) -> Self {
        let filter = filter.clone();
        Self {
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
        }
    }
}

fn is_reason(text: &str) -> bool {
    let cancelled = [CancelReason::Requested, CancelReason::DestinationDeleted];
    text.parse::<DeadReason>().is_ok() || cancelled.iter().any(|reason| reason.as_str() == text)
}
