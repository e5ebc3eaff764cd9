//! The queue: deliveries by id, and the same deliveries by their place in their lane.

use crate::{LaneHead, TrackHead, TrackPlace};
use domain::{
    delivery::{Delivery, Position},
    id::{AccountId, DeliveryId, DestinationId},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound::{Excluded, Included, Unbounded},
};

#[derive(Default)]
pub(super) struct WaitingDeliveries {
    by_id: BTreeMap<DeliveryId, (u16, Delivery)>,
    keys: BTreeSet<QueueKey>,
}

type QueueKey = (u16, DestinationId, Position);

/// After every place of a lane.
const LAST: Position = Position { track: i64::MAX, rank: i64::MAX, delivery_id: DeliveryId::MAX };

impl WaitingDeliveries {
    pub(super) fn insert(&mut self, shard: u16, delivery: Delivery) {
        self.keys.insert((shard, delivery.destination_id, delivery.position));
        self.by_id.insert(delivery.id, (shard, delivery));
    }

    pub(super) fn get(&self, id: DeliveryId) -> Option<&Delivery> {
        self.by_id.get(&id).map(|(_, delivery)| delivery)
    }

    /// The account's own: everything else is not there.
    pub(super) fn of_account(&self, account: AccountId, id: DeliveryId) -> Option<&Delivery> {
        self.get(id).filter(|delivery| delivery.account_id == account)
    }

    pub(super) fn remove(&mut self, id: DeliveryId) -> Option<Delivery> {
        let (shard, delivery) = self.by_id.remove(&id)?;
        self.keys.remove(&(shard, delivery.destination_id, delivery.position));
        Some(delivery)
    }

    /// Puts a changed delivery in the place of what it was.
    pub(super) fn replace(&mut self, delivery: Delivery) {
        let (shard, was) = self.by_id.get(&delivery.id).expect("only a waiting delivery is replaced");
        let shard = *shard;
        self.keys.remove(&(shard, was.destination_id, was.position));
        self.insert(shard, delivery);
    }

    /// A lane from a position on.
    pub(super) fn lane(
        &self,
        shard: u16,
        id: DestinationId,
        from: Position,
    ) -> impl Iterator<Item = &Delivery> {
        let keys = self.keys.range((shard, id, from)..=(shard, id, LAST));
        keys.map(|(_, _, position)| &self.by_id[&position.delivery_id].1)
    }

    /// The first place of every lane of these shards behind the given one.
    pub(super) fn heads(
        &self,
        shards: &[u16],
        after: Option<(u16, DestinationId)>,
    ) -> impl Iterator<Item = LaneHead> {
        let behind = |(shard, id)| Excluded((shard, id, LAST));
        let start = after.map_or(Unbounded, behind);
        shards.iter().flat_map(move |shard| {
            let first = (*shard, DestinationId::MIN, Position::START);
            let mut from = match start {
                Excluded(after) if after > first => start,
                _ => Included(first),
            };
            std::iter::from_fn(move || {
                let (shard, destination_id, first) =
                    *self.keys.range((from, Unbounded)).next().filter(|place| place.0 == *shard)?;
                from = behind((shard, destination_id));
                Some(LaneHead { shard, destination_id, first })
            })
        })
    }

    /// The first place of every track of a lane, from a track on.
    pub(super) fn tracks(&self, shard: u16, id: DestinationId, from: i64) -> impl Iterator<Item = TrackHead> {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let first = self.lane(shard, id, Position { track: next?, ..Position::START }).next()?;
            next = first.position.track.checked_add(1);
            Some(TrackHead { first: first.position, due_at: first.due_at })
        })
    }

    /// The first row at or behind the beginning of this track, with its shard.
    pub(super) fn first_from(&self, (shard, id, track): TrackPlace) -> Option<(u16, &Delivery)> {
        let from = (shard, id, Position { track, ..Position::START });
        let (shard, _, position) = self.keys.range(from..).next()?;
        Some((*shard, &self.by_id[&position.delivery_id].1))
    }

    /// Newest first, below `before`.
    pub(super) fn newest_first(&self, before: Option<DeliveryId>) -> impl Iterator<Item = &Delivery> {
        let to = before.map_or(Included(DeliveryId::MAX), Excluded);
        self.by_id.range((Unbounded, to)).rev().map(|(_, (_, delivery))| delivery)
    }
}
