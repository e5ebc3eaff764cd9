//! New deliveries, by columns.

use crate::NewDelivery;
use uuid::Uuid;

#[derive(Default)]
pub(super) struct DeliveryColumns {
    pub(super) id: Vec<Uuid>,
    pub(super) shard: Vec<i16>,
    pub(super) destination_id: Vec<Uuid>,
    pub(super) route_id: Vec<Uuid>,
    pub(super) track: Vec<i64>,
    pub(super) rank: Vec<i64>,
    pub(super) due_at: Vec<i64>,
    pub(super) created_at: Vec<i64>,
    pub(super) sequenced: Vec<bool>,
}

impl DeliveryColumns {
    pub(super) fn of<'a>(deliveries: impl IntoIterator<Item = &'a NewDelivery>) -> Self {
        let mut columns = Self::default();
        deliveries.into_iter().for_each(|delivery| columns.push(delivery));
        columns
    }

    pub(super) fn push(&mut self, delivery: &NewDelivery) {
        self.id.push(delivery.id.uuid());
        self.shard.push(delivery.shard as i16);
        self.destination_id.push(delivery.destination_id.uuid());
        self.route_id.push(delivery.route_id.uuid());
        self.track.push(delivery.position.track);
        self.rank.push(delivery.position.rank);
        self.due_at.push(delivery.due_at.micros());
        self.created_at.push(delivery.id.made_at().micros());
        self.sequenced.push(delivery.sequenced);
    }
}
