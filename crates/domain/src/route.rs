//! Routes: which events go where. An event has one delivery for each destination, whichever routes lead it there
//! ([`Deliverers`]). All of it is pure, so that the API can preview what ingest will do.

mod by_type;
mod pages;
mod table;

pub use table::{RoutePlace, RouteTable};

use crate::{
    delivery_settings::kept,
    destination::Signing,
    event::Event,
    filter::{Filter, Mismatch, Subject},
    id::{AccountId, DestinationId, RouteId, SourceId},
    json::Document,
    operations::is_operational,
    pattern::Pattern,
    retry::RetrySettings,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Route {
    pub id: RouteId,
    pub account_id: AccountId,
    pub uid: Option<String>,
    pub name: Option<String>,
    pub enabled: bool,
    /// None: events published by API.
    pub source_id: Option<SourceId>,
    pub destination_id: DestinationId,
    pub event_types: Vec<Pattern>,
    pub filter: Option<Filter>,
    /// Where a route says nothing, its destination's setting holds; of a retry policy, member by member.
    #[serde(flatten, with = "kept::of_route")]
    pub retry_policy: RetrySettings,
    pub timeout_seconds: Option<u32>,
    pub signing: Option<Signing>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// The account's version at which this row last changed; kept by the store.
    #[serde(skip)]
    pub version: i64,
}

/// Why an event does not match a route.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteMismatch {
    Disabled,
    OtherSource,
    EventType,
    Filter(Mismatch),
}

impl Route {
    /// For all events that are published.
    pub fn new(id: RouteId, account_id: AccountId, destination_id: DestinationId, now: Timestamp) -> Self {
        Self {
            id,
            account_id,
            uid: None,
            name: None,
            enabled: true,
            source_id: None,
            destination_id,
            event_types: vec!["*".parse().expect("a star is a pattern")],
            filter: None,
            retry_policy: RetrySettings::default(),
            timeout_seconds: None,
            signing: None,
            created_at: now,
            updated_at: now,
            version: 0,
        }
    }

    /// Whether it says anything that counts before its destination's settings.
    pub fn has_overrides(&self) -> bool {
        !self.retry_policy.is_empty() || self.timeout_seconds.is_some() || self.signing.is_some()
    }

    pub fn timeout(&self) -> Option<Duration> {
        self.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into()))
    }

    pub fn place(&self) -> RoutePlace {
        RoutePlace { source_id: self.source_id, destination_id: self.destination_id, id: self.id }
    }

    /// Whether it was there when an event came in that was committed at this version of the account. A route that has
    /// not changed since was, whatever the clocks say; one that has is judged by when it was made.
    pub fn was_there(&self, version: i64, received_at: Timestamp) -> bool {
        self.version <= version || self.created_at <= received_at
    }

    /// Nothing if the event takes this route, else the first reason why not.
    pub fn refuses(&self, event: &Candidate<'_>) -> Option<RouteMismatch> {
        if !self.enabled {
            return Some(RouteMismatch::Disabled);
        }
        if self.source_id != event.source_id {
            return Some(RouteMismatch::OtherSource);
        }
        if !self.takes_type(event) {
            return Some(RouteMismatch::EventType);
        }
        let filter = self.filter.as_ref()?;
        // Matching allocates nothing; only a mismatch that is to be explained does.
        if filter.matches(&event.subject()) {
            None
        } else {
            filter.explain(&event.subject()).map(RouteMismatch::Filter)
        }
    }

    /// Operational events are taken by patterns that begin with their segment, and not to the destination they are about.
    fn takes_type(&self, event: &Candidate<'_>) -> bool {
        let matches = |pattern: &Pattern| pattern.matches(event.event_type);
        if !event.operational {
            return self.event_types.iter().any(matches);
        }
        event.about != Some(self.destination_id)
            && self.event_types.iter().any(|pattern| pattern.names_operational() && matches(pattern))
    }

    /// Whether it takes operational events.
    pub fn takes_operational(&self) -> bool {
        self.event_types.iter().any(Pattern::names_operational)
    }

    /// Whether an event of this route's source takes it.
    pub fn takes(&self, event: &Candidate<'_>) -> bool {
        self.enabled
            && self.takes_type(event)
            && self.filter.as_ref().is_none_or(|filter| filter.matches(&event.subject()))
    }
}

/// An event as routes see it: parsed once, whatever the number of routes.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    pub source_id: Option<SourceId>,
    pub event_type: &'a str,
    /// Whether it is one that Posthaste tells of itself, and the destination it is about.
    pub operational: bool,
    pub about: Option<DestinationId>,
    /// The payload as JSON; None if it is not.
    pub data: Option<Document<'a>>,
    pub headers: Value,
    pub metadata: Value,
}

impl<'a> Candidate<'a> {
    /// Parses only what some route will look at.
    pub fn of(event: &'a Event, routes: &RouteTable) -> Self {
        Self::new(event, routes.has_filters(event.source_id))
    }

    /// With all that filters look at, or without.
    pub fn new(event: &'a Event, filtered: bool) -> Self {
        let headers = if filtered {
            Value::Object(
                event.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect(),
            )
        } else {
            Value::Null
        };
        Self {
            source_id: event.source_id,
            event_type: event.event_type.as_str(),
            operational: is_operational(event.event_type.as_str()),
            about: event.about(),
            data: filtered.then(|| Document::parse(&event.payload)).flatten(),
            headers,
            metadata: if filtered { Value::Object(event.metadata.clone()) } else { Value::Null },
        }
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            event_type: self.event_type,
            data: self.data.as_ref(),
            headers: &self.headers,
            metadata: &self.metadata,
        }
    }
}

/// Tells, of the routes that take an event, those that deliver it: for each destination the oldest. The routes come as
/// [`RouteTable::that_may_take`] has them, so that nothing need be remembered but the destination before.
#[derive(Debug, Default)]
pub struct Deliverers(Option<DestinationId>);

impl Deliverers {
    /// Whether this one, which takes the event, delivers it; else an older one to the same destination does.
    pub fn includes(&mut self, route: &Route) -> bool {
        self.0.replace(route.destination_id) != Some(route.destination_id)
    }
}

/// The routes that deliver this event, by destination.
pub fn fan_out<'r>(event: &Event, routes: &'r RouteTable) -> Vec<&'r Arc<Route>> {
    let (candidate, mut deliverers) = (Candidate::of(event, routes), Deliverers::default());
    let may_take = routes.that_may_take(event.source_id, candidate.event_type);
    let taken = may_take.filter(|route| route.takes(&candidate));
    taken.filter(|route| deliverers.includes(route)).collect()
}

#[cfg(test)]
mod tests;
