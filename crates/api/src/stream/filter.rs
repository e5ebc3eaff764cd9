//! Which changes a client wants to hear of.

use super::item::{ItemSubject, StreamItem};
use crate::{auth::AccountCtx, error::ApiError, validate::Checks};
use contract::{StreamKind, StreamQuery};
use domain::{
    account::Scope,
    delivery::Status,
    id::{DestinationId, RouteId, SourceId},
};

/// What a client may hear of, and wants to.
#[derive(Debug)]
pub(super) struct StreamFilter {
    query: StreamQuery,
    events: bool,
    deliveries: bool,
    destinations: bool,
}

impl StreamFilter {
    /// A client that asks for a kind must have its scope; one that asks for everything gets what its key may see.
    pub(super) fn checked(query: StreamQuery, ctx: &AccountCtx) -> Result<Self, ApiError> {
        let mut checks = Checks::default();
        let counts = [
            ("/kind", query.kind.len()),
            ("/destination_id", query.destination_id.len()),
            ("/status", query.status.len()),
            ("/outcome", query.outcome.len()),
            ("/type", query.types.len()),
            ("/source_id", query.source_id.len()),
            ("/route_id", query.route_id.len()),
            ("/replay_id", query.replay_id.len()),
        ];
        counts.into_iter().for_each(|(pointer, count)| checks.filter_values(pointer, count));
        // What a change has left is one of these: a client that waited for another would wait for ever.
        for (index, status) in query.status.iter().enumerate() {
            if matches!(status, Status::Queued | Status::Delivering) {
                let detail =
                    "the stream tells of `retry_scheduled`, `delivered`, `dead_letter` and `cancelled`";
                checks.refuse(format!("/status/{index}"), "not_allowed", detail);
            }
        }
        checks.done()?;
        let named = |kind| query.kind.contains(&kind);
        if query.kind.is_empty() || named(StreamKind::Delivery) {
            ctx.require(Scope::DeliveriesRead)?;
        }
        if named(StreamKind::Event) {
            ctx.require(Scope::EventsRead)?;
        }
        if named(StreamKind::Destination) {
            ctx.require(Scope::DestinationsRead)?;
        }
        // A uid that nobody has: a client would wait for ever. Said only now, to whom the scope permits it.
        let absent = [
            ("/destination_id", query.destination_id.iter().position(|id| *id == DestinationId::MIN)),
            ("/source_id", query.source_id.iter().position(|id| *id == SourceId::MIN)),
            ("/route_id", query.route_id.iter().position(|id| *id == RouteId::MIN)),
        ];
        if let Some((name, place)) = absent.into_iter().find_map(|(name, place)| Some((name, place?))) {
            return Err(ApiError::invalid_field(
                format!("{name}/{place}"),
                "not_found",
                "nothing has this uid",
            ));
        }
        let deliveries = query.kind.is_empty() || named(StreamKind::Delivery);
        // What has nothing that a filter could ask about is not told.
        let of_deliveries = !(query.status.is_empty()
            && query.outcome.is_empty()
            && query.route_id.is_empty()
            && query.replay_id.is_empty());
        let of_events = !(query.types.is_empty() && query.source_id.is_empty());
        let events = ctx.has(Scope::EventsRead)
            && !of_deliveries
            && query.destination_id.is_empty()
            && (query.kind.is_empty() || named(StreamKind::Event));
        let destinations = ctx.has(Scope::DestinationsRead)
            && !of_deliveries
            && !of_events
            && (query.kind.is_empty() || named(StreamKind::Destination));
        Ok(Self { query, events, deliveries, destinations })
    }

    /// Whether any event could be wanted.
    pub(super) fn wants_events(&self) -> bool {
        self.events
    }

    pub(super) fn wants(&self, item: &StreamItem) -> bool {
        let query = &self.query;
        match &item.subject {
            ItemSubject::Event { event_type, source_id } => {
                self.events
                    && one_of(&query.types, |pattern| pattern.matches(event_type))
                    && one_of(&query.source_id, |id| Some(*id) == *source_id)
            }
            ItemSubject::Destination(destination) => {
                self.destinations && one_of(&query.destination_id, |id| id == destination)
            }
            ItemSubject::Delivery(delivery) => {
                self.deliveries
                    && one_of(&query.destination_id, |id| *id == delivery.destination_id)
                    && one_of(&query.status, |status| *status == delivery.status)
                    && one_of(&query.outcome, |outcome| Some(*outcome) == delivery.outcome)
                    && one_of(&query.types, |pattern| pattern.matches(&delivery.event_type))
                    && one_of(&query.source_id, |id| Some(*id) == delivery.source_id)
                    && one_of(&query.route_id, |id| *id == delivery.route_id)
                    && one_of(&query.replay_id, |id| Some(*id) == delivery.replay_id)
            }
        }
    }
}

/// An empty list is no filter.
fn one_of<T>(wanted: &[T], is: impl Fn(&T) -> bool) -> bool {
    wanted.is_empty() || wanted.iter().any(is)
}
