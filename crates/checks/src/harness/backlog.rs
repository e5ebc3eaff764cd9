//! A backlog written straight into the tables, while no node runs: a million deliveries by API would take minutes,
//! and how they came to wait is not what these checks are about.
//!
//! Everything is copied from one delivery that the node itself has committed, so the rows are as real as it is.

use anyhow::{Context, Result, ensure};
use client::Publish;
use domain::id::DestinationId;

use super::{Database, StoreKind, Testbed};

/// The payload of every copied event.
const PAYLOAD_BYTES: usize = 512;

/// A destination with one waiting delivery, of which all others are copies.
pub(crate) struct BacklogTemplate {
    pub(crate) destination: DestinationId,
}

impl BacklogTemplate {
    /// Makes destination, route and delivery, on a running node; the delivery waits because of a pause.
    pub(crate) async fn make(testbed: &Testbed, name: &str, slots: u32) -> Result<BacklogTemplate> {
        let plan = testbed.destination_with_slots(name, slots);
        let destination = testbed.add_destination(&plan, &["backlog"]).await?;
        testbed.client.pause(destination).await?;
        let data = format!("{{\"pad\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES - 10));
        let accepted = testbed.client.publish(&Publish::json("backlog", data)?).await?;
        ensure!(accepted.deliveries == Some(1), "the template has {:?} deliveries", accepted.deliveries);
        Ok(BacklogTemplate { destination })
    }

    /// Copies the delivery, each copy with an event of its own. `series` sets one load apart from another.
    pub(crate) async fn copy(&self, database: &Database, series: u16, rows: u64) -> Result<()> {
        let numbers = database.kind().numbers("n", 1, rows);
        let ids = CopiedIds {
            kind: database.kind(),
            series,
            event: "7000",
            delivery: "7001",
            delivery_number: "n.i",
        };
        let to = "q.shard, q.destination_id, q.route_id";
        self.write(database, &ids, rows, &numbers, &numbers, to).await
    }

    /// The same few events, waiting for every other destination of the installation.
    pub(crate) async fn fan_out(&self, database: &Database, series: u16, events_each: u64) -> Result<()> {
        let kind = database.kind();
        let own = database.literal(self.destination.bytes());
        // Every destination but the template's with every number, counted.
        let pairs = format!(
            "{}, n as (
                 select m.i, row_number() over () as k, d.shard, d.id as destination_id, r.id as route_id
                 from destinations d join routes r on r.destination_id = d.id cross join m where d.id <> {own})",
            kind.numbers("m", 1, events_each)
        );
        let ids = CopiedIds { kind, series, event: "7002", delivery: "7003", delivery_number: "n.k" };
        let to = "n.shard, n.destination_id, n.route_id";
        self.write(database, &ids, events_each, &kind.numbers("n", 1, events_each), &pairs, to).await
    }

    /// Events numbered `n.i`, and for each row of `deliveries` one delivery of event `n.i`. Copies are ranked before the
    /// template, which stays the last of its lane.
    async fn write(
        &self,
        database: &Database,
        ids: &CopiedIds<'_>,
        events: u64,
        numbers: &str,
        deliveries: &str,
        to: &str,
    ) -> Result<()> {
        let template = self.waiting_row(database);
        let (event_id, of_event, delivery_id) = (ids.event("e.id"), ids.event("q.event_id"), ids.delivery());
        database
            .write(&format!(
                "insert into events (id, account_id, source_id, type, idempotency_key, content_type, ordering_key,
                     received_at, deliver_at, deliveries, size_bytes, headers, metadata, payload)
                 {numbers}
                 select {event_id}, e.account_id, e.source_id, e.type, null, e.content_type, e.ordering_key,
                     e.received_at, e.deliver_at, 1, e.size_bytes, e.headers, e.metadata, e.payload
                 from n cross join events e where e.id = (select event_id from {template});
                 insert into queue (shard, destination_id, route_id, track, rank, delivery_id, account_id, event_id,
                     replay_id, origin, due_at, attempts, spent, tls_errors, last_outcome, last_http_status, created_at,
                     available_at, payload_bytes)
                 {deliveries}
                 select {to}, q.track, q.rank - {events} - 1 + n.i, {delivery_id}, q.account_id, {of_event},
                     null, {delivery_id}, q.due_at - {events} - 1 + n.i, 0, 0, 0, null, null, q.created_at,
                     q.available_at, q.payload_bytes
                 from n cross join {template}"
            ))
            .await?;
        database.tidy(&["vacuum analyze queue", "analyze events"]).await
    }

    /// Lets the backlog go, at the next start.
    pub(crate) async fn release(&self, database: &Database) -> Result<()> {
        let id = database.literal(self.destination.bytes());
        database.write(&format!("update destinations set paused_at = null where id = {id}")).await
    }

    /// How many wait for the template's destination.
    pub(crate) async fn waiting(&self, database: &Database) -> Result<u64> {
        let id = database.literal(self.destination.bytes());
        let sql = format!("select count(*) from queue where destination_id = {id}");
        database.number(&sql).await.context("the backlog cannot be counted")
    }

    /// The one delivery that the node made: the latest, because copies are ranked before it.
    fn waiting_row(&self, database: &Database) -> String {
        let id = database.literal(self.destination.bytes());
        format!("(select * from queue where destination_id = {id} order by rank desc limit 1) q")
    }
}

/// How the ids of copies are made in SQL: of the template's time, then a series and a number of our own.
struct CopiedIds<'a> {
    kind: StoreKind,
    series: u16,
    event: &'a str,
    delivery: &'a str,
    delivery_number: &'a str,
}

impl CopiedIds<'_> {
    fn event(&self, like: &str) -> String {
        self.id(like, self.event, "n.i")
    }

    fn delivery(&self) -> String {
        self.id("q.event_id", self.delivery, self.delivery_number)
    }

    fn id(&self, like: &str, version: &str, number: &str) -> String {
        let time = match self.kind {
            StoreKind::Sqlite => format!("substr(hex({like}), 1, 12)"),
            StoreKind::Postgres => format!("substr(replace({like}::text, '-', ''), 1, 12)"),
        };
        self.kind.id(&time, &format!("{version}8{:03x}", self.series & 0xfff), number)
    }
}
