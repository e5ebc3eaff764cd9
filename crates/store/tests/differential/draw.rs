//! Drawing single things: mostly sensible, sometimes not.

use super::{Player, TRACKS};
use domain::{
    delivery::Status,
    id::{AccountId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
    pattern::Pattern,
    time::Timestamp,
};
use rand::RngExt;
use std::time::Duration;
use store::{DeliveryFilter, EventFilter};

const PATTERNS: [&str; 10] = [
    "*",
    "**",
    "invoice.*",
    "refund.**",
    "ping",
    "*.card.*",
    "*.card.**",
    "*.**",
    "*.sent",
    "refund.card.done",
];

impl Player {
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.dice.random_range(0..100) < percent
    }

    pub(super) fn one<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        if from.is_empty() { None } else { Some(from[self.dice.random_range(0..from.len())].clone()) }
    }

    /// No filter, or one of one or two values.
    pub(super) fn some<T>(&mut self, percent: u32, draw: impl Fn(&mut Self) -> T) -> Vec<T> {
        let count = if self.chance(percent) { self.dice.random_range(1..=2) } else { 0 };
        (0..count).map(|_| draw(self)).collect()
    }

    pub(super) fn account(&mut self) -> AccountId {
        self.accounts[self.dice.random_range(0..self.accounts.len())]
    }

    pub(super) fn destination_id(&mut self) -> DestinationId {
        match self.chance(5) {
            true => DestinationId::at(self.now, self.dice.random()),
            false => self.one(&self.destinations.clone()).expect("some were created first"),
        }
    }

    pub(super) fn source_id(&mut self) -> SourceId {
        let random = SourceId::at(self.now, self.dice.random());
        self.one(&self.sources.clone()).map_or(random, |source| source.id)
    }

    pub(super) fn route_id(&mut self) -> RouteId {
        let random = RouteId::at(self.now, self.dice.random());
        self.one(&self.routes.clone()).unwrap_or(random)
    }

    pub(super) fn delivery_id(&mut self) -> DeliveryId {
        self.one(&self.deliveries.clone()).unwrap_or(DeliveryId::at(self.now, self.dice.random()))
    }

    pub(super) fn track(&mut self) -> i64 {
        TRACKS[self.dice.random_range(0..TRACKS.len())]
    }

    /// Seldom any, and then seldom a free one.
    pub(super) fn uid(&mut self) -> Option<String> {
        self.chance(25).then(|| format!("uid-{}", self.dice.random_range(0..3)))
    }

    /// Accounts of all sequences share their names: only these two, of this sequence, may meet.
    pub(super) fn account_uid(&mut self) -> Option<String> {
        self.chance(50).then(|| self.accounts[0].to_string())
    }

    /// The right version, mostly.
    pub(super) fn version(&mut self, version: i64) -> i64 {
        if self.chance(8) { version - 1 } else { version }
    }

    pub(super) fn pattern(&mut self) -> Pattern {
        PATTERNS[self.dice.random_range(0..PATTERNS.len())].parse().expect("a pattern")
    }

    pub(super) fn moment(&mut self) -> Timestamp {
        self.now.minus(Duration::from_secs(self.dice.random_range(0..60)))
    }

    pub(super) fn event_filter(&mut self) -> EventFilter {
        EventFilter {
            types: self.some(30, Self::pattern),
            source_ids: self.some(20, Self::source_id),
            idempotency_keys: self.some(15, |player| format!("key-{}", player.dice.random_range(0..3))),
            since: self.chance(15).then(|| self.moment()),
            until: self.chance(15).then(|| self.moment()),
            fanout_complete: self.chance(30).then(|| self.chance(50)),
            unmatched: self.chance(10),
            ..EventFilter::default()
        }
    }

    pub(super) fn delivery_filter(&mut self) -> DeliveryFilter {
        DeliveryFilter {
            statuses: self.some(40, |player| Status::ALL[player.dice.random_range(0..Status::ALL.len())]),
            reasons: self.some(15, |player| {
                ["rejected", "gone", "expired", "requested"][player.dice.random_range(0..4)].into()
            }),
            event_ids: self.some(15, |player| {
                player.one(&player.events.clone()).unwrap_or(EventId::at(player.now, player.dice.random()))
            }),
            destination_ids: self.some(25, Self::destination_id),
            route_ids: self.some(15, Self::route_id),
            source_ids: self.some(15, Self::source_id),
            types: self.some(20, Self::pattern),
            http_statuses: self.some(15, |player| [200, 404, 429, 503][player.dice.random_range(0..4)]),
            replay_ids: self.some(10, |player| {
                let known = player.one(&player.replays.clone());
                known.map_or(ReplayId::at(player.now, player.dice.random()), |(_, id)| id)
            }),
            since: self.chance(15).then(|| self.moment()),
            until: self.chance(15).then(|| self.moment()),
            resolved: self.resolved(),
        }
    }

    pub(super) fn resolved(&mut self) -> Option<bool> {
        self.chance(30).then(|| self.chance(50))
    }
}
