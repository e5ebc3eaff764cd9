//! What must never be: work that no node will ever do, and facts that do not fit together. Looked for from outside,
//! beside the nodes at work.
//!
//! A walk goes by key, in steps of so many rows, each in a snapshot of its own, so that none is held for long. What a
//! step finds may be about to change (a row under way, a row being pruned): the caller looks again at what was found,
//! by a step of one row from its key.

use crate::{DestinationRecord, LaneRow, Roster, StoreError};
use async_trait::async_trait;
use domain::{
    delivery::Ending,
    delivery_settings::{DeliverySettings, EffectiveSettings},
    gate::Gate,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    time::Timestamp,
};
use std::time::Duration;
use uuid::Uuid;

#[async_trait]
pub trait Audit: Send + Sync {
    /// The members and the shards at one moment.
    async fn audit_roster(&self) -> Result<Roster, StoreError>;

    /// The first rows of the tracks from this one on, in order; at most `limit`.
    async fn audit_heads(
        &self,
        from: TrackPlace,
        limit: usize,
    ) -> Result<Walked<TrackPlace, WaitingHead>, StoreError>;

    /// What is known of lanes, in the order asked for: their destinations, and their owners' last words that are newer
    /// than `newer_than`.
    async fn audit_lanes(
        &self,
        ids: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<KnownLane>, StoreError>;

    /// Of the events from this one on those whose deliveries, waiting and ended, are not as many as were promised.
    /// Replays were not promised by the event. Looks at `limit` events at most, and at fewer where they have more than
    /// `deliveries` together.
    async fn audit_fan_outs(
        &self,
        from: EventId,
        limit: usize,
        deliveries: u64,
    ) -> Result<Walked<EventId, UnevenFanOut>, StoreError>;

    /// Of the facts from this one on those that do not fit. Looks at `limit` of them.
    async fn audit_facts(
        &self,
        from: FactKey,
        limit: usize,
    ) -> Result<Walked<FactKey, StrayFact>, StoreError>;
}

/// A step of a walk.
#[derive(Debug, Clone, PartialEq)]
pub struct Walked<K, T> {
    pub looked_at: usize,
    pub found: Vec<T>,
    /// Where to go on from; None at the end.
    pub next: Option<K>,
}

/// Shard, destination, track: where a queue within the queue begins.
pub type TrackPlace = (u16, DestinationId, i64);
pub const FIRST_TRACK: TrackPlace = (0, DestinationId::MIN, i64::MIN);

pub type FactKey = (DeliveryId, AttemptId);
pub const FIRST_FACT: FactKey = (DeliveryId::MIN, AttemptId::MIN);

/// The first row of a track, as it waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WaitingHead {
    pub place: TrackPlace,
    pub delivery_id: DeliveryId,
    pub due_at: Timestamp,
    pub attempts: u32,
}

#[derive(Debug, Clone)]
pub struct KnownLane {
    /// None: there is no such destination.
    pub record: Option<DestinationRecord>,
    pub published: Option<LaneRow>,
}

/// An event that has not the deliveries it was committed with.
#[derive(Debug, Clone, PartialEq)]
pub struct UnevenFanOut {
    pub event_id: EventId,
    pub account_id: AccountId,
    /// None: neither the event says it nor an expansion.
    pub promised: Option<u32>,
    pub found: u32,
}

/// A fact that does not fit, and what it misses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StrayFact {
    pub key: FactKey,
    pub event_id: EventId,
    pub misses: Missing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Its event is not there.
    Event,
    /// Its delivery neither waits nor has ended.
    Delivery,
    /// A dead letter for a reason that only an attempt can give, and there was none.
    Attempts,
}

/// A shard that no node looks after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnownedShard {
    pub shard: u16,
    pub epoch: i64,
    /// Its owner's lease has ended long ago, and no node took it over. Else it is free, which is a fault only if it
    /// stays so, at the same epoch.
    pub certain: bool,
}

impl Roster {
    /// Whether a node is there that delivers, or was a moment ago.
    pub fn has_workers(&self) -> bool {
        self.members.iter().any(|member| member.record.role.owns_lanes())
    }

    /// Shards without an owner, and those whose owner's lease ended longer than `patience` ago.
    pub fn unowned(&self, patience: Duration) -> Vec<UnownedShard> {
        let lost = |id: NodeId| {
            let member = self.members.iter().find(|member| member.record.id == id);
            member.is_none_or(|member| member.expires_at.plus(patience) <= self.now)
        };
        let unowned = |row: &crate::ShardRow| match row.owner {
            None => Some(UnownedShard { shard: row.shard, epoch: row.epoch, certain: false }),
            Some(id) => {
                lost(id).then_some(UnownedShard { shard: row.shard, epoch: row.epoch, certain: true })
            }
        };
        self.shards.iter().filter_map(unowned).collect()
    }
}

impl KnownLane {
    /// Whether something that is due there should be under way: it is not held, and it is not known to be at its
    /// limit. What was disabled or deleted is being ended, which is work too.
    /// `defaults` are the installation's.
    pub fn is_free(&self, defaults: &DeliverySettings, now: Timestamp) -> bool {
        let Some(DestinationRecord { destination: Ok(destination), gate, .. }) = &self.record else {
            return true;
        };
        if destination.switch.disabled.is_some() || destination.switch.deleted_at.is_some() {
            return true;
        }
        let held = gate.as_ref().is_some_and(|kept| {
            let mut gate = Gate::default();
            gate.restore(&kept.record, now);
            gate.held_until(now).is_some()
        });
        let published = self.published.as_ref();
        let slots = self.max_concurrency(defaults);
        let full = published.is_some_and(|lane| lane.in_flight as usize >= slots);
        let said = published.is_some_and(|lane| lane.hold.is_some());
        destination.switch.paused_at.is_none() && !held && !said && !full
    }

    /// How long something may be under way there, from its turn to the end of its request.
    pub fn a_turn_takes(&self, defaults: &DeliverySettings) -> Duration {
        let Some(DestinationRecord { destination: Ok(destination), overrides, account_defaults, .. }) =
            &self.record
        else {
            return Duration::ZERO;
        };
        let found = EffectiveSettings::new(&destination.settings, account_defaults, defaults);
        let own = overrides.iter().map(|route| found.timeout_by(route));
        let pace = destination.rate_limit.map_or(Duration::ZERO, |rate| {
            Duration::from_secs(u64::from(rate.per_seconds)) / rate.requests.max(1)
        });
        own.fold(found.timeout.value, Duration::max) + pace
    }

    pub fn max_concurrency(&self, defaults: &DeliverySettings) -> usize {
        match &self.record {
            Some(DestinationRecord { destination: Ok(destination), account_defaults, .. }) => {
                let found = EffectiveSettings::new(&destination.settings, account_defaults, defaults);
                found.max_concurrency.value as usize
            }
            _ => 1,
        }
    }
}

/// What a store says about a fact.
pub(crate) struct FactWord<'a> {
    pub(crate) key: FactKey,
    pub(crate) event_id: EventId,
    pub(crate) has_event: bool,
    /// It waits, or has ended.
    pub(crate) has_delivery: bool,
    /// Of an ending without an attempt: whether there was one before.
    pub(crate) has_attempts: bool,
    pub(crate) ending: Option<&'a str>,
    pub(crate) reason: Option<&'a str>,
}

impl FactWord<'_> {
    pub(crate) fn stray(&self) -> Option<StrayFact> {
        let ending = self.ending.and_then(|word| Ending::read(word, self.reason));
        let dead = matches!(ending, Some(Ending::DeadLetter(reason)) if reason.takes_an_attempt());
        let misses = match (self.has_event, self.has_delivery) {
            (false, _) => Missing::Event,
            (_, false) => Missing::Delivery,
            _ if dead && !self.has_attempts => Missing::Attempts,
            _ => return None,
        };
        Some(StrayFact { key: self.key, event_id: self.event_id, misses })
    }
}

pub(crate) fn after_track((shard, id, track): TrackPlace) -> Option<TrackPlace> {
    match track.checked_add(1) {
        Some(next) => Some((shard, id, next)),
        None => Some((shard, DestinationId::from_uuid(after_uuid(id.uuid())?), i64::MIN)),
    }
}

pub(crate) fn after_event(id: EventId) -> Option<EventId> {
    after_uuid(id.uuid()).map(EventId::from_uuid)
}

pub(crate) fn after_fact((delivery, attempt): FactKey) -> Option<FactKey> {
    match after_uuid(attempt.uuid()) {
        Some(next) => Some((delivery, AttemptId::from_uuid(next))),
        None => Some((DeliveryId::from_uuid(after_uuid(delivery.uuid())?), AttemptId::MIN)),
    }
}

fn after_uuid(id: Uuid) -> Option<Uuid> {
    id.as_u128().checked_add(1).map(Uuid::from_u128)
}

/// The step of a walk that asked for `limit` rows and got these.
pub(crate) fn walked<K, T>(
    looked_at: usize,
    limit: usize,
    last: Option<K>,
    after: impl Fn(K) -> Option<K>,
    found: Vec<T>,
) -> Walked<K, T> {
    Walked { looked_at, found, next: last.filter(|_| looked_at >= limit).and_then(after) }
}
