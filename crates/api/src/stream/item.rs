//! Something that happened, written down once for all followers of its account.

use super::{destinations::KnownDestinations, frame, position::StreamPosition};
use crate::views;
use bytes::Bytes;
use domain::{
    delivery::Status,
    gate::HoldRecord,
    id::{DestinationId, ReplayId, RouteId, SourceId},
    outcome::Outcome,
};
use store::{FeedChange, FeedEntry, FeedStamp};

pub(super) struct StreamItem {
    /// Where a follower that was told it goes on from.
    pub(super) position: StreamPosition,
    origin: ItemOrigin,
    pub(super) subject: ItemSubject,
    pub(super) text: Bytes,
}

/// By which it is known whether a follower was told it already.
enum ItemOrigin {
    InFeed(FeedStamp),
    /// With this version of the account's configuration, or before.
    At(i64),
}

/// What filters ask about.
pub(super) enum ItemSubject {
    Event { event_type: String, source_id: Option<SourceId> },
    Delivery(DeliverySubject),
    Destination(DestinationId),
}

pub(super) struct DeliverySubject {
    pub(super) destination_id: DestinationId,
    pub(super) status: Status,
    pub(super) outcome: Option<Outcome>,
    pub(super) event_type: String,
    pub(super) source_id: Option<SourceId>,
    pub(super) route_id: RouteId,
    pub(super) replay_id: Option<ReplayId>,
}

impl StreamItem {
    pub(super) fn of(entry: FeedEntry, version: i64, destinations: &KnownDestinations) -> Self {
        let position = StreamPosition { version, place: entry.place };
        let origin = ItemOrigin::InFeed(entry.stamp);
        match entry.change {
            FeedChange::Event(record) => Self {
                text: frame::event("event.received", &position, &views::event(&record)).into(),
                position,
                origin,
                subject: ItemSubject::Event {
                    event_type: record.event.event_type.to_string(),
                    source_id: record.event.source_id,
                },
            },
            FeedChange::Hold(id, hold) => Self::hold(id, &hold, destinations, position, origin),
            FeedChange::Delivery(fact) => {
                let view = views::delivery_change(&fact);
                Self {
                    text: frame::event("delivery.changed", &position, &view).into(),
                    position,
                    origin,
                    subject: ItemSubject::Delivery(DeliverySubject {
                        destination_id: fact.destination_id,
                        status: view.status,
                        outcome: fact.outcome,
                        source_id: fact.source_id,
                        route_id: fact.route_id,
                        replay_id: fact.replay_id,
                        event_type: fact.event_type,
                    }),
                }
            }
        }
    }

    /// A destination that was paused or disabled, found up to this version.
    pub(super) fn switched(
        (id, hold): &(DestinationId, HoldRecord),
        destinations: &KnownDestinations,
        position: StreamPosition,
        version: i64,
    ) -> Self {
        Self::hold(*id, hold, destinations, position, ItemOrigin::At(version))
    }

    fn hold(
        destination_id: DestinationId,
        hold: &HoldRecord,
        destinations: &KnownDestinations,
        position: StreamPosition,
        origin: ItemOrigin,
    ) -> Self {
        let view = destinations.view(destination_id, hold);
        let text = frame::event("destination.changed", &position, &view).into();
        Self { position, origin, subject: ItemSubject::Destination(destination_id), text }
    }

    pub(super) fn is_event(&self) -> bool {
        matches!(self.subject, ItemSubject::Event { .. })
    }

    /// Whether a follower that came as far as that was told it.
    pub(super) fn is_covered_by(&self, position: &StreamPosition) -> bool {
        match self.origin {
            ItemOrigin::InFeed(stamp) => position.place.covers(stamp),
            ItemOrigin::At(version) => version <= position.version,
        }
    }
}
