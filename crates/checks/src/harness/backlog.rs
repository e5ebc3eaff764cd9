//! A backlog written straight into the tables, while no node runs: a million deliveries by API would take minutes,
//! and how they came to wait is not what these checks are about.
//!
//! Everything is copied from one delivery that the node itself has committed, so the rows are as real as it is.

use anyhow::{Context, Result, ensure};
use client::{NewDestination, NewRoute, Publish};
use domain::id::DestinationId;

use super::{Database, Stage, StoreKind};

/// The payload of every copied event.
const PAYLOAD_BYTES: usize = 512;

/// A destination with one waiting delivery, the pattern for all others.
pub(crate) struct Pattern {
    pub(crate) destination: DestinationId,
}

impl Pattern {
    /// Makes destination, route and delivery, on a running node; the delivery waits because of a pause.
    pub(crate) async fn make(stage: &Stage, name: &str, max_concurrency: u32) -> Result<Pattern> {
        let plan = NewDestination { max_concurrency, ..stage.destination(name) };
        let destination = stage.client.create_destination(&plan).await?.id;
        stage.client.pause(destination).await?;
        let route = NewRoute { event_types: vec!["backlog".into()], ..NewRoute::to(destination) };
        stage.client.create_route(&route).await?;
        let data = format!("{{\"pad\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES - 10));
        let accepted = stage.client.publish(&Publish::json("backlog", data)?).await?;
        ensure!(accepted.deliveries == Some(1), "the pattern event has {:?} deliveries", accepted.deliveries);
        Ok(Pattern { destination })
    }

    /// Copies the delivery, each copy with an event of its own. `series` sets one load apart from another.
    pub(crate) async fn copy(&self, database: &Database, series: u16, rows: u64) -> Result<()> {
        let sql = Sql { kind: database.kind(), series };
        let template = self.template(database);
        let (events, queue) = (EVENT_COLUMNS, QUEUE_COLUMNS);
        let (event_id, delivery_id) = (sql.id("e.id", "7000", "n.i"), sql.id("q.event_id", "7001", "n.i"));
        let from_event = sql.id("q.event_id", "7000", "n.i");
        let numbers = sql.numbers(rows);
        database
            .write(&format!(
                "insert into events ({events})
                 {numbers}
                 select {event_id}, e.account_id, e.source_id, e.type, null, e.content_type, e.ordering_key,
                     e.received_at, e.deliver_at, 1, e.size_bytes, e.headers, e.metadata, e.payload
                 from n cross join events e where e.id = (select event_id from {template});
                 insert into queue ({queue})
                 {numbers}
                 select q.shard, q.destination_id, q.track, q.rank - {rows} - 1 + n.i, {delivery_id}, q.account_id,
                     {from_event}, q.route_id, null, {delivery_id}, q.due_at - {rows} - 1 + n.i, 0, 0, 0, null, null,
                     q.created_at, q.available_at, q.payload_bytes
                 from n cross join {template}"
            ))
            .await?;
        tidy(database).await
    }

    /// The same few events, waiting for every other destination of the installation.
    pub(crate) async fn fan_out(&self, database: &Database, series: u16, events_each: u64) -> Result<()> {
        let sql = Sql { kind: database.kind(), series };
        let template = self.template(database);
        let (events, queue) = (EVENT_COLUMNS, QUEUE_COLUMNS);
        let event_id = sql.id("e.id", "7002", "n.i");
        let (from_event, delivery_id) =
            (sql.id("q.event_id", "7002", "n.i"), sql.id("q.event_id", "7003", "n.k"));
        let (numbers, pattern) = (sql.numbers(events_each), database.literal(self.destination.bytes()));
        let pairs = sql.numbered_pairs(events_each, &pattern);
        database
            .write(&format!(
                "insert into events ({events})
                 {numbers}
                 select {event_id}, e.account_id, e.source_id, e.type, null, e.content_type, e.ordering_key,
                     e.received_at, e.deliver_at, 1, e.size_bytes, e.headers, e.metadata, e.payload
                 from n cross join events e where e.id = (select event_id from {template});
                 insert into queue ({queue})
                 {pairs}
                 select n.shard, n.destination_id, q.track, q.rank - {events_each} - 1 + n.i, {delivery_id},
                     q.account_id, {from_event}, n.route_id, null, {delivery_id},
                     q.due_at - {events_each} - 1 + n.i, 0, 0, 0, null, null, q.created_at, q.available_at,
                     q.payload_bytes
                 from n cross join {template}"
            ))
            .await?;
        tidy(database).await
    }

    /// Lets the backlog go, at the next start.
    pub(crate) async fn release(&self, database: &Database) -> Result<()> {
        let id = database.literal(self.destination.bytes());
        database.write(&format!("update destinations set paused_at = null where id = {id}")).await
    }

    /// How many wait for the pattern's destination.
    pub(crate) async fn waiting(&self, database: &Database) -> Result<u64> {
        let id = database.literal(self.destination.bytes());
        let sql = format!("select count(*) from queue where destination_id = {id}");
        database.number(&sql).await.context("the backlog cannot be counted")
    }

    /// The one delivery that the node made: the latest, because copies are ranked before it.
    fn template(&self, database: &Database) -> String {
        let id = database.literal(self.destination.bytes());
        format!("(select * from queue where destination_id = {id} order by rank desc limit 1) q")
    }
}

const EVENT_COLUMNS: &str = "id, account_id, source_id, type, idempotency_key, content_type, ordering_key, \
    received_at, deliver_at, deliveries, size_bytes, headers, metadata, payload";
const QUEUE_COLUMNS: &str = "shard, destination_id, track, rank, delivery_id, account_id, event_id, route_id, \
    replay_id, origin, due_at, attempts, spent, tls_errors, last_outcome, last_http_status, created_at, \
    available_at, payload_bytes";

/// What the two stores write differently.
struct Sql {
    kind: StoreKind,
    series: u16,
}

impl Sql {
    /// An id made at the time of another one: its milliseconds, then our own series and number.
    fn id(&self, like: &str, version: &str, number: &str) -> String {
        let series = format!("8{:03x}", self.series & 0xfff);
        match self.kind {
            StoreKind::Sqlite => format!(
                "unhex(substr(hex({like}), 1, 12) || '{version}{series}' || printf('%012x', {number}))"
            ),
            StoreKind::Postgres => format!(
                "(substr(replace({like}::text, '-', ''), 1, 12) || '{version}{series}' \
                 || lpad(to_hex({number}), 12, '0'))::uuid"
            ),
        }
    }

    /// `n(i)` from 1 to `last`.
    fn numbers(&self, last: u64) -> String {
        match self.kind {
            StoreKind::Sqlite => {
                format!("with recursive n(i) as (select 1 union all select i + 1 from n where i < {last})")
            }
            StoreKind::Postgres => format!("with n(i) as (select generate_series(1, {last}))"),
        }
    }

    /// `n(i, k, shard, destination_id, route_id)`: every destination but the pattern's with every number, counted.
    fn numbered_pairs(&self, last: u64, pattern: &str) -> String {
        let numbers = self.numbers(last).replace("n(i)", "m(i)").replace("from n ", "from m ");
        format!(
            "{numbers}, n as (
                 select m.i, row_number() over () as k, d.shard, d.id as destination_id, r.id as route_id
                 from destinations d join routes r on r.destination_id = d.id cross join m where d.id <> {pattern})"
        )
    }
}

/// Leaves the tables as a store that has been up for a while would have them.
async fn tidy(database: &Database) -> Result<()> {
    match database.kind() {
        StoreKind::Sqlite => {
            let Database::Sqlite { file } = database else { return Ok(()) };
            let connection = rusqlite::Connection::open(file)?;
            Ok(connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?)
        }
        StoreKind::Postgres => {
            database.write("vacuum analyze queue").await?;
            database.write("analyze events").await?;
            database.write("checkpoint").await
        }
    }
}
