//! Replays: a chunk is one job of the writer, after all that a caller waits for.

mod walk;

use super::{
    SqliteStore, Trouble, audit_log, catalog, operational_events, order,
    rows::{Columns, id_in},
    statement::{bound, sql},
    tally,
    writer::Priority,
};
use crate::{
    BackfillCursor, BackfillSelection, CreatedReplay, DeliveryFilter, Listed, NewDelivery, NewReplay,
    OpenBackfill, OpenReplay, OriginalWalk, Originals, Page, Replay, ReplayChunk, ReplayHold, ReplayStatus,
    ReplaySwitch, Replayed, Replays, Selection, StoreError, Survey, damage, page_rows,
};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    delivery::Ending,
    id::{AccountId, DeliveryId, EventId, ReplayId},
    limits,
    operations::OperationalNote,
    session::Holder,
    time::Timestamp,
};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const REPLAY: &str = concat!(sql!("replay"), "where id = :id and account_id = :account_id");
const REPLAYS: &str =
    concat!(sql!("replay"), "where account_id = :account_id and id < :before order by id desc limit :limit");
const OPEN_REPLAY: &str = concat!(sql!("open_replay"), "and r.id = :id");
const OPEN_REPLAYS: &str = concat!(sql!("open_replay"), "order by r.id limit :limit");
const INSERT_REPLAY: &str = sql!("insert_replay");
const SWITCH_REPLAY: &str = sql!("switch_replay");
const HOLD_REPLAY: &str = sql!("hold_replay");
const IS_HELD: &str = sql!("is_held");
const WRITE_REPLAY: &str = sql!("write_replay");
const NOTE_REPLAYED: &str = sql!("note_replayed");
const MAKE_REPLAYED: &str = sql!("make_replayed");

#[async_trait]
impl Replays for SqliteStore {
    async fn create_replay(&self, new: &NewReplay, audit: &AuditEntry) -> Result<CreatedReplay, StoreError> {
        let (new, audit) = (new.clone(), audit.clone());
        self.write(Priority::Api, move |connection| {
            let created = create(connection, &new)?;
            if matches!(created, CreatedReplay::New(_)) {
                audit_log::append(connection, Some(new.account_id), &audit)?;
            }
            Ok(created)
        })
        .await
    }

    async fn replay(&self, account: AccountId, id: ReplayId) -> Result<Replay, StoreError> {
        self.read(move |connection| get(connection, account, id)).await
    }

    async fn replays(
        &self,
        account: AccountId,
        page: Page<ReplayId>,
    ) -> Result<Listed<Replay, ReplayId>, StoreError> {
        self.read(move |connection| {
            let before = page.before.unwrap_or(ReplayId::MAX);
            let limit = page_rows::asked_for(page.limit);
            bound!(REPLAYS, account_id: account, before: before, limit: limit).page(
                connection,
                ("replay", page.limit),
                |row| id_in(row, "id"),
                read,
            )
        })
        .await
    }

    async fn switch_replay(
        &self,
        account: AccountId,
        id: ReplayId,
        to: ReplaySwitch,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Replay, StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| {
            let switched = bound!(
                SWITCH_REPLAY,
                id: id,
                account_id: account,
                status: to.status().as_str(),
                finished_at: to.status().ended().then_some(now),
            )
            .execute(connection)?;
            if switched > 0 {
                audit_log::append(connection, Some(account), &audit)?;
            }
            get(connection, account, id)
        })
        .await
    }

    async fn replayed(
        &self,
        account: AccountId,
        id: ReplayId,
        origin: DeliveryId,
    ) -> Result<Option<DeliveryId>, StoreError> {
        self.read(move |connection| {
            get(connection, account, id)?;
            bound!(
                "select delivery_id from replayed where replay_id = :replay_id and origin = :origin",
                replay_id: id,
                origin: origin,
            )
            .first(connection, |columns| Ok(columns.id()?))
        })
        .await
    }

    async fn survey(
        &self,
        account: AccountId,
        selection: &Selection,
        as_of: Timestamp,
        limit: usize,
    ) -> Result<Survey, StoreError> {
        let selection = selection.clone();
        self.read(move |connection| walk::survey(connection, account, &selection, as_of, limit)).await
    }

    async fn open_replays(&self, limit: usize) -> Result<Vec<OpenReplay>, StoreError> {
        self.read_for_engine(move |connection| {
            damage::page("replay", limit, |limit| {
                bound!(OPEN_REPLAYS, limit: limit).each_by_itself::<ReplayId, _>(connection, "id", read_open)
            })
        })
        .await
    }

    async fn hold_replay(&self, hold: &ReplayHold) -> Result<Option<OpenReplay>, StoreError> {
        let hold = hold.clone();
        self.write(Priority::Bulk, move |connection| {
            let held = bound!(
                HOLD_REPLAY,
                id: hold.id,
                node_id: hold.node,
                until: hold.until,
                seen_by: hold.seen_by,
                seen_until: hold.seen_until,
            )
            .execute(connection)?;
            if held == 0 {
                return Ok(None);
            }
            bound!(OPEN_REPLAY, id: hold.id).first(connection, read_open)
        })
        .await
    }

    async fn originals(&self, walk: &OriginalWalk) -> Result<Originals, StoreError> {
        let walk = walk.clone();
        self.read_for_engine(move |connection| walk::originals(connection, &walk)).await
    }

    async fn write_replay(&self, chunk: &ReplayChunk) -> Result<Option<u32>, StoreError> {
        let (chunk, done) = (chunk.clone(), chunk.done);
        let written = self.write(Priority::Expand, move |connection| write(connection, &chunk)).await?;
        if done {
            self.note_signal.notify();
        }
        Ok(written)
    }
}

/// What nothing is searched or guarded by.
#[derive(Serialize, Deserialize)]
struct ReplayDocument {
    filter: Option<DeliveryFilter>,
    /// Of one that was given ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolved: Option<bool>,
    /// Of a backfill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    events: Option<BackfillSelection>,
    created_by: Holder,
}

fn create(connection: &Connection, new: &NewReplay) -> Result<CreatedReplay, Trouble> {
    if let Some(key) = &new.key {
        let known = bound!(
            "select id, body_hash from replays where account_id = :account_id and key_hash = :key_hash",
            account_id: new.account_id,
            key_hash: key.hash,
        )
        .first(connection, |columns| Ok((columns.id()?, columns.get()?)))?;
        if let Some((id, body_hash)) = known {
            return Ok(CreatedReplay::Known { replay: get(connection, new.account_id, id)?, body_hash });
        }
    }
    if catalog::version(connection, new.account_id)?.is_none() {
        return Err(StoreError::NotFound { what: "account" }.into());
    }
    let unfinished = bound!(
        "select count(*) from replays where account_id = :account_id and finished_at is null",
        account_id: new.account_id,
    )
    .one(connection, |columns| Ok(columns.count()?))?;
    if unfinished as usize >= limits::REPLAYS_PER_ACCOUNT && new.at_once.is_none() {
        return Err(StoreError::Full { what: "replays" }.into());
    }
    let (filter, given, events) = match &new.selection {
        Selection::Filter(filter) => (Some(filter.clone()), None, None),
        Selection::Deliveries(given) => (None, Some(given), None),
        Selection::Events(events) => (None, None, Some(events.clone())),
    };
    let ids = given.map(|given| given.ids.iter().flat_map(|id| *id.bytes()).collect::<Vec<u8>>());
    let resolved = given.and_then(|given| given.resolved);
    let doc = ReplayDocument { filter, resolved, events, created_by: new.created_by };
    let at_once = new.at_once.is_some();
    let status = if at_once { ReplayStatus::Completed } else { ReplayStatus::Running };
    bound!(
        INSERT_REPLAY,
        id: new.id,
        account_id: new.account_id,
        status: status.as_str(),
        rate: new.rate,
        matched: new.matched as usize,
        matched_exact: new.matched_exact,
        created: at_once,
        created_at: new.created_at,
        finished_at: at_once.then_some(new.created_at),
        key_hash: new.key.map(|key| key.hash),
        body_hash: new.key.map(|key| key.body_hash),
        doc: serde_json::to_string(&doc).expect("ids, words and times are always JSON"),
        delivery_ids: ids,
    )
    .execute(connection)?;
    if let Some(one) = &new.at_once
        && !make(connection, new.id, one)?
    {
        return Err(not_made(connection, one.event_id)?.into());
    }
    Ok(CreatedReplay::New(get(connection, new.account_id, new.id)?))
}

/// Why nothing could be made of an event.
fn not_made(connection: &Connection, event: EventId) -> Result<StoreError, Trouble> {
    let there = bound!("select 1 from events where id = :id", id: event).exists(connection)?;
    Ok(if there { StoreError::PayloadErased } else { StoreError::NotFound { what: "event" } })
}

fn get(connection: &Connection, account: AccountId, id: ReplayId) -> Result<Replay, Trouble> {
    bound!(REPLAY, id: id, account_id: account)
        .first(connection, read)?
        .ok_or(StoreError::NotFound { what: "replay" }.into())
}

fn read(columns: &mut Columns<'_>) -> Result<Replay, Trouble> {
    let (id, account_id) = (columns.id()?, columns.id()?);
    let ReplayDocument { filter, resolved, events, created_by } = columns.document("replay")?;
    let replay = Replay {
        id,
        account_id,
        filter,
        resolved,
        events,
        rate: columns.get()?,
        matched: columns.count()?,
        matched_exact: columns.get()?,
        created: columns.count()?,
        skipped: columns.count()?,
        delivered: columns.count()?,
        dead_letter: columns.count()?,
        status: ReplayStatus::read(columns.text()?),
        created_by,
        created_at: columns.time()?,
        finished_at: columns.optional_time()?,
    };
    Ok(replay.told())
}

fn read_open(columns: &mut Columns<'_>) -> Result<OpenReplay, Trouble> {
    let (id, account_id) = (columns.id()?, columns.id()?);
    let ReplayDocument { filter, resolved, events, .. } = columns.document("replay")?;
    let rate = columns.get()?;
    let (cursor, destination_id) = (columns.optional_id::<DeliveryId>()?, columns.optional_id()?);
    // Of a backfill it is an event.
    let at = |id: DeliveryId| BackfillCursor { event_id: EventId::from_bytes(*id.bytes()), destination_id };
    let is_backfill = events.is_some();
    Ok(OpenReplay {
        id,
        account_id,
        filter,
        resolved,
        backfill: events.map(|selection| OpenBackfill { selection, cursor: cursor.map(at) }),
        rate,
        cursor: cursor.filter(|_| !is_backfill),
        created_at: columns.time()?,
        held_by: columns.optional_id()?,
        held_until: columns.optional_time()?,
        holder_lives: columns.get()?,
    })
}

fn write(connection: &Connection, chunk: &ReplayChunk) -> Result<Option<u32>, Trouble> {
    let held = bound!(IS_HELD, id: chunk.replay_id, node_id: chunk.node, from: chunk.from);
    if !held.exists(connection)? {
        return Ok(None);
    }
    let mut made = 0;
    for one in &chunk.deliveries {
        made += u32::from(make(connection, chunk.replay_id, one)?);
    }
    bound!(
        WRITE_REPLAY,
        id: chunk.replay_id,
        node_id: chunk.node,
        from: chunk.from,
        to: chunk.to,
        made: made,
        skipped: chunk.deliveries.len() as u32 - made + chunk.skipped,
        done: chunk.done,
        now: chunk.now,
        held_until: chunk.until,
    )
    .execute(connection)?;
    if chunk.done {
        let account = bound!("select account_id from replays where id = :id", id: chunk.replay_id)
            .one(connection, |columns| Ok(columns.id()?))?;
        operational_events::note(
            connection,
            &OperationalNote::of_replay(account, chunk.replay_id, chunk.now),
        )?;
    }
    Ok(Some(made))
}

/// Whether it was made: of an event that is there, and once.
fn make(connection: &Connection, replay: ReplayId, one: &Replayed) -> Result<bool, Trouble> {
    let Replayed { origin, event_id, delivery } = one;
    let NewDelivery { id, route_id, destination_id, shard, position, due_at, sequenced } = delivery;
    let event = bound!(
        "select account_id, size_bytes from events where id = :id and payload_erased_at is null",
        id: event_id,
    )
    .first(connection, |columns| Ok((columns.id()?, columns.count()? as usize)))?;
    let Some((account, size_bytes)) = event else { return Ok(false) };
    let noted = bound!(NOTE_REPLAYED, replay_id: replay, origin: origin, delivery_id: id);
    if noted.execute(connection)? == 0 {
        return Ok(false);
    }
    let sequence = sequenced.then(|| order::next_sequence(connection, *destination_id)).transpose()?;
    bound!(
        MAKE_REPLAYED,
        shard: shard,
        destination_id: destination_id,
        track: position.track,
        rank: sequence.map_or(position.rank, |sequence| position.numbered(sequence).rank),
        delivery_id: id,
        account_id: account,
        event_id: event_id,
        route_id: route_id,
        replay_id: replay,
        origin: origin,
        due_at: due_at,
        created_at: id.made_at(),
        payload_bytes: size_bytes,
        sequence: sequence,
    )
    .execute(connection)?;
    tally::came(account, size_bytes);
    Ok(true)
}

/// Deliveries of replays have ended, in the transaction that says so: a replay's row is written once for all of them.
pub(super) fn count(
    connection: &Connection,
    ended: impl Iterator<Item = (ReplayId, Ending)>,
) -> Result<(), Trouble> {
    let mut counts = BTreeMap::<ReplayId, (i64, i64)>::new();
    for (replay, ending) in ended {
        let (delivered, dead_letter) = counts.entry(replay).or_default();
        match ending {
            Ending::Delivered => *delivered += 1,
            Ending::DeadLetter(_) => *dead_letter += 1,
            Ending::Cancelled(_) => {}
        }
    }
    for (replay, (delivered, dead_letter)) in counts {
        bound!(
            "update replays set delivered = delivered + :delivered, dead_letter = dead_letter + :dead_letter
             where id = :id",
            id: replay,
            delivered: delivered,
            dead_letter: dead_letter,
        )
        .execute(connection)?;
    }
    Ok(())
}
