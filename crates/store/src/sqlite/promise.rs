//! New deliveries: put into their lanes, with their numbers where there is an order.

use super::{
    Trouble, order,
    row::{self, Key as _},
    tally,
};
use crate::NewDelivery;
use domain::{
    event::Event,
    id::{AccountId, EventId},
    time::Timestamp,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

/// The statement that puts one into its lane, ready.
pub(super) struct Promises<'c> {
    connection: &'c Connection,
    insert: CachedStatement<'c>,
}

impl<'c> Promises<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self, Trouble> {
        let insert = connection.prepare_cached(include_str!("sql/insert_delivery.sql"))?;
        Ok(Self { connection, insert })
    }

    pub(super) fn make(&mut self, facts: &Facts, new: &NewDelivery) -> Result<(), Trouble> {
        let NewDelivery { id, route_id, destination_id, shard, position, due_at, sequenced } = new;
        let created_at = id.made_at();
        let available_at = facts.deliver_at.map_or(created_at, |at| at.max(created_at));
        let sequence =
            sequenced.then(|| order::next_sequence(self.connection, *destination_id)).transpose()?;
        self.insert.execute(params![
            shard,
            destination_id.blob(),
            position.track,
            sequence.unwrap_or(position.rank),
            id.blob(),
            facts.account_id.blob(),
            facts.event_id.blob(),
            route_id.blob(),
            due_at.micros(),
            created_at.micros(),
            available_at.micros(),
            facts.size_bytes,
            sequence,
        ])?;
        tally::came(facts.account_id, facts.size_bytes as usize);
        Ok(())
    }
}

/// What deliveries take over from their event.
pub(super) struct Facts {
    event_id: EventId,
    account_id: AccountId,
    deliver_at: Option<Timestamp>,
    size_bytes: i64,
}

impl Facts {
    pub(super) fn of(event: &Event) -> Self {
        Self {
            event_id: event.id,
            account_id: event.account_id,
            deliver_at: event.deliver_at,
            size_bytes: event.payload.len() as i64,
        }
    }

    /// None if the event has had its time.
    pub(super) fn read(connection: &Connection, event_id: EventId) -> Result<Option<Self>, Trouble> {
        let mut select = connection
            .prepare_cached("select account_id, deliver_at, size_bytes from events where id = ?1")?;
        let facts = |row: &Row<'_>| {
            let (account_id, deliver_at) = (row::id(row, 0)?, row::maybe_time(row, 1)?);
            Ok(Self { event_id, account_id, deliver_at, size_bytes: row.get(2)? })
        };
        Ok(select.query_row([event_id.blob()], facts).optional()?)
    }
}
