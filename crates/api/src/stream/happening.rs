//! Something that happened, written down once for everybody who follows its account.

use super::{destinations::Destinations, frame, mark::Mark};
use crate::views;
use bytes::Bytes;
use domain::{
    delivery::Status,
    gate::HoldEntry,
    id::{DestinationId, ReplayId, RouteId, SourceId},
    outcome::Outcome,
};
use store::{FeedChange, FeedEntry, FeedStamp};

pub(super) struct Happening {
    /// Where to go on from for whoever has heard it.
    pub(super) mark: Mark,
    written: Written,
    pub(super) about: About,
    pub(super) text: Bytes,
}

/// By which it is known whether somebody has heard it already.
enum Written {
    InFeed(FeedStamp),
    /// With this version of the account's configuration, or before.
    At(i64),
}

/// What filters ask about.
pub(super) enum About {
    Event { event_type: String, source_id: Option<SourceId> },
    Delivery(OfDelivery),
    Destination(DestinationId),
}

pub(super) struct OfDelivery {
    pub(super) destination_id: DestinationId,
    pub(super) status: Status,
    pub(super) outcome: Option<Outcome>,
    pub(super) event_type: String,
    pub(super) source_id: Option<SourceId>,
    pub(super) route_id: RouteId,
    pub(super) replay_id: Option<ReplayId>,
}

impl Happening {
    pub(super) fn of(entry: FeedEntry, version: i64, destinations: &Destinations) -> Self {
        let mark = Mark { version, place: entry.place };
        let written = Written::InFeed(entry.stamp);
        match entry.change {
            FeedChange::Event(record) => Self {
                text: frame::event("event.received", &mark, &views::event(&record)).into(),
                mark,
                written,
                about: About::Event {
                    event_type: record.event.event_type.to_string(),
                    source_id: record.event.source_id,
                },
            },
            FeedChange::Hold(id, hold) => Self::hold(id, &hold, destinations, mark, written),
            FeedChange::Delivery(fact) => {
                let view = views::delivery_change(&fact);
                Self {
                    text: frame::event("delivery.changed", &mark, &view).into(),
                    mark,
                    written,
                    about: About::Delivery(OfDelivery {
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
        (id, hold): &(DestinationId, HoldEntry),
        destinations: &Destinations,
        mark: Mark,
        version: i64,
    ) -> Self {
        Self::hold(*id, hold, destinations, mark, Written::At(version))
    }

    fn hold(
        destination_id: DestinationId,
        hold: &HoldEntry,
        destinations: &Destinations,
        mark: Mark,
        written: Written,
    ) -> Self {
        let view = destinations.view(destination_id, hold);
        let text = frame::event("destination.changed", &mark, &view).into();
        Self { mark, written, about: About::Destination(destination_id), text }
    }

    pub(super) fn is_event(&self) -> bool {
        matches!(self.about, About::Event { .. })
    }

    /// Whether somebody who came as far as that has heard it.
    pub(super) fn heard_by(&self, mark: &Mark) -> bool {
        match self.written {
            Written::InFeed(stamp) => mark.place.covers(stamp),
            Written::At(version) => version <= mark.version,
        }
    }
}
