//! The payloads: bits of some are turned over in the table while nobody looks.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{Client, NewDestination, Publish};
use domain::id::{DestinationId, EventId};
use lab::Reply;
use tokio::time::sleep;

use crate::Ask;
use crate::harness::fleet::sole_destination;
use crate::harness::{Audit, Cell, Database, Plan, Report, Stage, StoreKind};

const EVENTS: u64 = 60;
/// One of so many is altered, one of so many is too large to be carried.
const ALTERED: u64 = 3;
const LARGE: u64 = 4;
const LARGE_BYTES: usize = 20_000;

pub(super) async fn altered(ask: &Ask, store: StoreKind, report: &mut Report) -> Result<()> {
    let mut stage = Plan::new(ask, store)?.start().await?;
    // Tried once, and then read from the store for the next attempt.
    stage.receiver.default_script(Reply::status(503));
    let plan = NewDestination { max_concurrency: 50, ..stage.destination("all") };
    let destination = sole_destination(&stage.client, &plan).await?;
    let mut sent = HashMap::new();
    for n in 0..EVENTS {
        let pad = "x".repeat(if n % LARGE == 0 { LARGE_BYTES } else { 100 });
        let data = format!("{{\"n\":{n},\"pad\":\"{pad}\"}}");
        let id = stage.client.publish(&Publish::json("payload", data.clone())?).await?.id;
        sent.insert(id, (lab::body::hash(data.as_bytes()), n % ALTERED == 0));
    }
    all_tried(&stage).await?;
    stage.stop().await?;
    let turned: Vec<EventId> = sent.iter().filter(|(_, (_, altered))| *altered).map(|(id, _)| *id).collect();
    for (place, id) in turned.iter().enumerate() {
        turn_a_bit(&stage.database, *id, place).await?;
    }
    stage.receiver.clear();
    stage.receiver.default_script(Reply::ok());
    stage.start().await?;
    report.exactly("altered_left_in_queue", stage.quiesce(Duration::from_secs(60)).await?, 0u64);

    let arrived = stage.receiver.snapshot();
    let as_sent = |record: &&lab::Record| {
        let known = record.event_id.parse().ok().and_then(|id: EventId| sent.get(&id));
        known.is_some_and(|(hash, altered)| !altered && record.body_hash == Some(*hash))
    };
    let whole = arrived.iter().filter(as_sent).count();
    report.exactly("arrived_otherwise_than_sent", (arrived.len() - whole) as u64, 0u64);
    report.exactly("arrived_as_sent", whole as u64, EVENTS - turned.len() as u64);
    let audit = Audit::of(&stage.database).await?;
    audit.rules(report);
    report.exactly("payloads_altered", audit.dead_letters, turned.len() as u64);
    report.exactly("and_named", named(&stage.client, destination).await?, turned.len() as u64);
    report.must(stage.is_running(), "the node exited");
    stage.strike().await
}

/// Attempts that say why nothing was sent. Asked for by API: in the tables their details are packed.
async fn named(client: &Client, destination: DestinationId) -> Result<u64> {
    let (mut named, mut cursor) = (0, None);
    loop {
        let page = client.destination_attempts(destination, cursor.as_deref()).await?;
        let altered = |attempt: &&client::AttemptView| {
            attempt.error.as_ref().is_some_and(|error| error.code == "payload_altered")
        };
        named += page.data.iter().filter(altered).count() as u64;
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(named);
        }
    }
}

async fn all_tried(stage: &Stage) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(30);
    let waiting = "select count(*) from queue where attempts > 0";
    while stage.database.number(waiting).await? < EVENTS {
        ensure!(Instant::now() < until, "not everything was tried");
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn turn_a_bit(database: &Database, id: EventId, place: usize) -> Result<()> {
    let of_it = format!("where id = {}", database.literal(id.bytes()));
    let rows = database.rows(&format!("select payload from events {of_it}")).await?;
    let Some(Cell::Bytes(payload)) = rows.first().map(|row| row[0].clone()) else {
        anyhow::bail!("{id} has no payload")
    };
    let mut payload = payload;
    let at = place * 997 % payload.len();
    *payload.get_mut(at).context("it has bytes")? ^= 1 << (place % 8);
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    let literal = match database.kind() {
        StoreKind::Sqlite => format!("x'{hex}'"),
        StoreKind::Postgres => format!("'\\x{hex}'::bytea"),
    };
    database.write(&format!("update events set payload = {literal} {of_it}")).await
}
