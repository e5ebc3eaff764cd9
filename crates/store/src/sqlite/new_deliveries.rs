//! New deliveries: put into their lanes, with their numbers where there is an order.

use super::{
    Trouble, order,
    statement::{bound, sql},
    tally,
};
use crate::NewDelivery;
use domain::{
    event::Event,
    id::{AccountId, EventId},
    time::Timestamp,
};
use rusqlite::{CachedStatement, Connection};

const INSERT_DELIVERY: &str = sql!("insert_delivery");

/// The statement that puts one into its lane, ready.
pub(super) struct DeliveryInserter<'c> {
    connection: &'c Connection,
    insert: CachedStatement<'c>,
}

impl<'c> DeliveryInserter<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self, Trouble> {
        Ok(Self { connection, insert: connection.prepare_cached(INSERT_DELIVERY)? })
    }

    pub(super) fn insert(&mut self, event: &DeliveredEvent, new: &NewDelivery) -> Result<(), Trouble> {
        let NewDelivery { id, route_id, destination_id, shard, position, due_at, sequenced } = new;
        let created_at = id.made_at();
        let sequence =
            sequenced.then(|| order::next_sequence(self.connection, *destination_id)).transpose()?;
        bound!(
            INSERT_DELIVERY,
            shard: shard,
            destination_id: destination_id,
            track: position.track,
            rank: sequence.map_or(position.rank, |sequence| position.numbered(sequence).rank),
            delivery_id: id,
            account_id: event.account_id,
            event_id: event.id,
            route_id: route_id,
            due_at: due_at,
            created_at: created_at,
            available_at: event.deliver_at.map_or(created_at, |at| at.max(created_at)),
            payload_bytes: event.size_bytes,
            sequence: sequence,
        )
        .execute_on(&mut self.insert)?;
        tally::came(event.account_id, event.size_bytes);
        Ok(())
    }
}

/// What deliveries take over from their event.
pub(super) struct DeliveredEvent {
    id: EventId,
    account_id: AccountId,
    deliver_at: Option<Timestamp>,
    size_bytes: usize,
}

impl DeliveredEvent {
    pub(super) fn of(event: &Event) -> Self {
        Self {
            id: event.id,
            account_id: event.account_id,
            deliver_at: event.deliver_at,
            size_bytes: event.payload.len(),
        }
    }

    /// None if the event has had its time.
    pub(super) fn read(connection: &Connection, id: EventId) -> Result<Option<Self>, Trouble> {
        bound!("select account_id, deliver_at, size_bytes from events where id = :id", id: id).first(
            connection,
            |columns| {
                Ok(Self {
                    id,
                    account_id: columns.id()?,
                    deliver_at: columns.optional_time()?,
                    size_bytes: columns.count()? as usize,
                })
            },
        )
    }
}
