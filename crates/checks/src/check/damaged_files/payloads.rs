//! The payloads: bits of some are turned over in the table while no node runs.

use std::collections::HashMap;

use client::Client;
use domain::id::{DestinationId, EventId};

use crate::harness::prelude::*;

const EVENTS: u64 = 60;
/// One of so many is altered, one of so many is too large to be carried.
const ALTERED: u64 = 3;
const LARGE: u64 = 4;
const LARGE_BYTES: usize = 20_000;

pub(super) async fn altered(options: &Options, report: &mut Report) -> Result<()> {
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    // Tried once, and then read from the store for the next attempt.
    testbed.receiver.default_script(Reply::status(503));
    let destination = testbed.add_destination(&testbed.destination_with_slots("all", 50), &[]).await?;
    let mut sent = HashMap::new();
    for n in 0..EVENTS {
        let pad = "x".repeat(if n % LARGE == 0 { LARGE_BYTES } else { 100 });
        let data = format!("{{\"n\":{n},\"pad\":\"{pad}\"}}");
        let id = testbed.client.publish(&Publish::json("payload", data.clone())?).await?.id;
        sent.insert(id, (lab::body::hash(data.as_bytes()), n % ALTERED == 0));
    }
    all_tried(&testbed).await?;
    testbed.stop().await?;
    let turned: Vec<EventId> = sent.iter().filter(|(_, (_, altered))| *altered).map(|(id, _)| *id).collect();
    for (place, id) in turned.iter().enumerate() {
        turn_a_bit(&testbed.database, *id, place).await?;
    }
    testbed.receiver.clear();
    testbed.receiver.default_script(Reply::ok());
    testbed.start().await?;
    report.must_be("altered_left_in_queue", testbed.quiesce(Duration::from_secs(60)).await?, 0);

    let arrived = testbed.receiver.snapshot();
    let as_sent = |record: &&lab::Record| {
        let known = record.event_id.parse().ok().and_then(|id: EventId| sent.get(&id));
        known.is_some_and(|(hash, altered)| !altered && record.body_hash == Some(*hash))
    };
    let whole = arrived.iter().filter(as_sent).count();
    report.must_be("arrived_otherwise_than_sent", arrived.len() - whole, 0);
    report.must_be("arrived_as_sent", whole, EVENTS - turned.len() as u64);
    let audit = TableAudit::of(&testbed.database).await?;
    audit.must_hold(report);
    report.must_be("payloads_altered", audit.dead_letters, turned.len() as u64);
    report.must_be("and_named", named(&testbed.client, destination).await?, turned.len() as u64);
    testbed.must_be_running(report);
    testbed.tear_down().await
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

async fn all_tried(testbed: &Testbed) -> Result<()> {
    let tried = "select count(*) from queue where attempts > 0";
    let all = async || Ok(testbed.database.number(tried).await? >= EVENTS);
    wait_until("not everything was tried", Duration::from_secs(30), 20, all).await
}

async fn turn_a_bit(database: &Database, id: EventId, place: usize) -> Result<()> {
    let of_it = format!("where id = {}", database.literal(id.bytes()));
    let rows = database.rows(&format!("select payload from events {of_it}")).await?;
    let Some(SqlValue::Bytes(payload)) = rows.first().map(|row| row[0].clone()) else {
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
