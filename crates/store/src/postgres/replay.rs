//! Replays: a chunk is one transaction, and the replay's row is its lock.

mod walk;

use super::{
    PostgresStore, audit_log, backfill, catalog,
    new_deliveries::DeliveryColumns,
    operational_events,
    pool::Transaction,
    rows::{Cells, Doc, Rows, Unreadable},
    statement::{Statement, params, sql},
    trouble::Trouble,
};
use crate::{
    BackfillCursor, BackfillSelection, CreatedReplay, DeliveryFilter, Listed, NewReplay, OpenBackfill,
    OpenReplay, OriginalWalk, Originals, Page, Replay, ReplayChunk, ReplayHold, ReplayStatus, ReplaySwitch,
    Replayed, Replays, Selection, StoreError, Survey, page_rows,
};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    id::{AccountId, DeliveryId, EventId, ReplayId},
    limits,
    operations::OperationalNote,
    session::Holder,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use uuid::Uuid;

static REPLAY: LazyLock<Statement> = sql!("replay", "where r.id = :replay_id and r.account_id = :account_id");
static REPLAYS: LazyLock<Statement> = sql!(
    "replay",
    "where r.account_id = :account_id and r.id < :before_replay_id order by r.id desc limit :limit"
);
static OPEN_REPLAYS: LazyLock<Statement> = sql!("open_replay", "order by r.id limit :limit");
static OPEN_REPLAY: LazyLock<Statement> = sql!("open_replay", "and r.id = :replay_id");
static EVENT_IS_THERE: LazyLock<Statement> =
    sql!("event_is_there": "select from events where id = :event_id");
static INSERT_REPLAY: LazyLock<Statement> = sql!("insert_replay");
static REPLAY_OF_KEY: LazyLock<Statement> = sql!("replay_of_key");
static COUNT_UNFINISHED_REPLAYS: LazyLock<Statement> = sql!("count_unfinished_replays");
static SWITCH_REPLAY: LazyLock<Statement> = sql!("switch_replay");
static REPLAYED: LazyLock<Statement> = sql!("replayed");
static HOLD_REPLAY: LazyLock<Statement> = sql!("hold_replay");
static LOCK_REPLAY: LazyLock<Statement> = sql!("lock_replay");
static MAKE_REPLAYED: LazyLock<Statement> = sql!("make_replayed");
static WRITE_REPLAY: LazyLock<Statement> = sql!("write_replay");

#[async_trait]
impl Replays for PostgresStore {
    async fn create_replay(&self, new: &NewReplay, audit: &AuditEntry) -> Result<CreatedReplay, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let created = async {
            let created = create(&transaction, new).await?;
            if matches!(created, CreatedReplay::New(_)) {
                audit_log::append(&transaction, Some(new.account_id), audit).await?;
            }
            Ok(created)
        };
        let created = created.await;
        transaction.end(created).await
    }

    async fn replay(&self, account: AccountId, id: ReplayId) -> Result<Replay, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![account_id: account.uuid() => UUID, replay_id: id.uuid() => UUID];
        one(&connection.read(&REPLAY, params).await?)
    }

    async fn replays(
        &self,
        account: AccountId,
        page: Page<ReplayId>,
    ) -> Result<Listed<Replay, ReplayId>, StoreError> {
        let connection = self.pools.general().await?;
        let before = page.before.unwrap_or(ReplayId::MAX).uuid();
        let params = params![
            account_id: account.uuid() => UUID, before_replay_id: before => UUID,
            limit: page_rows::asked_for(page.limit) as i64 => INT8,
        ];
        let read = connection.read(&REPLAYS, params).await?;
        Ok(read.page("replay", page.limit, |cells| cells.get("id"), replay)?.listed())
    }

    async fn switch_replay(
        &self,
        account: AccountId,
        id: ReplayId,
        to: ReplaySwitch,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Replay, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let switched = switch(&transaction, account, id, to, now, audit).await;
        transaction.end(switched).await
    }

    async fn replayed(
        &self,
        account: AccountId,
        id: ReplayId,
        origin: DeliveryId,
    ) -> Result<Option<DeliveryId>, StoreError> {
        self.replay(account, id).await?;
        let connection = self.pools.general().await?;
        let params = params![replay_id: id.uuid() => UUID, origin: origin.uuid() => UUID];
        Ok(connection.read(&REPLAYED, params).await?.first_value("delivery_id")?)
    }

    async fn survey(
        &self,
        account: AccountId,
        selection: &Selection,
        as_of: Timestamp,
        limit: usize,
    ) -> Result<Survey, StoreError> {
        walk::survey(&self.pools.general().await?, account, selection, as_of, limit).await
    }

    async fn open_replays(&self, limit: usize) -> Result<Vec<OpenReplay>, StoreError> {
        let connection = self.pools.engine().await?;
        let params = params![limit: limit as i64 => INT8];
        Ok(connection.read(&OPEN_REPLAYS, params).await?.all(open_replay)?)
    }

    async fn hold_replay(&self, hold: &ReplayHold) -> Result<Option<OpenReplay>, StoreError> {
        let connection = self.pools.engine().await?;
        let params = params![
            replay_id: hold.id.uuid() => UUID, node_id: hold.node.uuid() => UUID,
            held_until: hold.until.micros() => INT8, seen_held_by: hold.seen_by.map(|id| id.uuid()) => UUID,
            seen_held_until: hold.seen_until.map(Timestamp::micros) => INT8,
        ];
        if connection.write(&HOLD_REPLAY, params).await?.is_empty() {
            return Ok(None);
        }
        let params = params![replay_id: hold.id.uuid() => UUID];
        Ok(connection.read(&OPEN_REPLAY, params).await?.first(open_replay)?)
    }

    async fn originals(&self, walk: &OriginalWalk) -> Result<Originals, StoreError> {
        walk::originals(&self.pools.engine().await?, walk).await
    }

    async fn write_replay(&self, chunk: &ReplayChunk) -> Result<Option<u32>, StoreError> {
        let connection = self.pools.engine().await?;
        let transaction = connection.begin().await?;
        let written = write(&transaction, chunk).await;
        let written = transaction.end(written).await?;
        if chunk.done {
            self.note_signal.notify();
        }
        Ok(written)
    }
}

/// What nothing is searched or guarded by.
#[derive(Serialize, Deserialize)]
struct ReplayDoc {
    filter: Option<DeliveryFilter>,
    /// Of one that was given ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolved: Option<bool>,
    /// Of a backfill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    events: Option<BackfillSelection>,
    created_by: Holder,
}

async fn create(transaction: &Transaction<'_>, new: &NewReplay) -> Result<CreatedReplay, StoreError> {
    let (filter, given, events) = match &new.selection {
        Selection::Filter(filter) => (Some(filter.clone()), None, None),
        Selection::Deliveries(given) => (None, Some(given), None),
        Selection::Events(events) => (None, None, Some(events.clone())),
    };
    let ids = given.map(|given| given.ids.iter().map(|id| id.uuid()).collect::<Vec<Uuid>>());
    let resolved = given.and_then(|given| given.resolved);
    let is_backfill = events.is_some();
    let doc = ReplayDoc { filter, resolved, events, created_by: new.created_by };
    let doc = serde_json::to_string(&doc).expect("ids, words and times are always JSON");
    let at_once = new.at_once.is_some();
    let status = if at_once { ReplayStatus::Completed } else { ReplayStatus::Running };
    let word = if is_backfill { backfill::stored_status(status) } else { status.as_str() };
    let finished_at = at_once.then(|| new.created_at.micros());
    let (hash, body_hash) = (new.key.map(|key| key.hash.to_vec()), new.key.map(|key| key.body_hash.to_vec()));
    let account = new.account_id;
    let params = params![
        id: new.id.uuid() => UUID, account_id: account.uuid() => UUID, status: word => TEXT,
        rate: new.rate as i32 => INT4, matched: new.matched as i64 => INT8,
        matched_exact: new.matched_exact => BOOL, created: i64::from(at_once) => INT8,
        created_at: new.created_at.micros() => INT8, finished_at: finished_at => INT8, key_hash: hash => BYTEA,
        body_hash: body_hash => BYTEA, doc: doc => TEXT, delivery_ids: ids => UUID_ARRAY,
    ];
    catalog::lock_account(transaction, account).await?;
    if transaction.run(&INSERT_REPLAY, params).await?.is_empty() {
        let params = params![account_id: account.uuid() => UUID, key_hash: hash => BYTEA];
        let known = transaction.run(&REPLAY_OF_KEY, params).await?;
        let known =
            known.first(|cells| Ok((cells.get("id")?, cells.get::<Option<Vec<u8>>>("body_hash")?)))?;
        let (id, body_hash) = known.ok_or(StoreError::Changed)?;
        return Ok(CreatedReplay::Known {
            replay: get(transaction, account, id).await?,
            body_hash: body_hash.unwrap_or_default().try_into().unwrap_or_default(),
        });
    }
    if !at_once {
        // With the one that was just written. Two at once may both be the last: that does no harm.
        let params = params![account_id: account.uuid() => UUID];
        let unfinished: usize = transaction.run(&COUNT_UNFINISHED_REPLAYS, params).await?.value("count")?;
        if unfinished > limits::REPLAYS_PER_ACCOUNT {
            return Err(StoreError::Full { what: "replays" });
        }
    }
    if let Some(one) = &new.at_once
        && make(transaction, new.id, std::slice::from_ref(one)).await? == 0
    {
        let params = params![event_id: one.event_id.uuid() => UUID];
        let gone = transaction.run(&EVENT_IS_THERE, params).await?.is_empty();
        return Err(if gone { StoreError::NotFound { what: "event" } } else { StoreError::PayloadErased });
    }
    Ok(CreatedReplay::New(get(transaction, account, new.id).await?))
}

/// Its row stays locked until it has been read: a switch back meanwhile comes after.
async fn switch(
    transaction: &Transaction<'_>,
    account: AccountId,
    id: ReplayId,
    to: ReplaySwitch,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<Replay, StoreError> {
    let finished_at = to.status().ended().then(|| now.micros());
    let params = params![
        account_id: account.uuid() => UUID, replay_id: id.uuid() => UUID, status: to.status().as_str() => TEXT,
        backfill_status: backfill::stored_status(to.status()) => TEXT, finished_at: finished_at => INT8,
    ];
    let switched = !transaction.run(&SWITCH_REPLAY, params).await?.is_empty();
    let replay = get(transaction, account, id).await?;
    if switched {
        audit_log::append(transaction, Some(account), audit).await?;
    }
    Ok(replay)
}

async fn get(transaction: &Transaction<'_>, account: AccountId, id: ReplayId) -> Result<Replay, StoreError> {
    let params = params![account_id: account.uuid() => UUID, replay_id: id.uuid() => UUID];
    one(&transaction.run(&REPLAY, params).await?)
}

fn one(rows: &Rows) -> Result<Replay, StoreError> {
    rows.first(replay)?.ok_or(StoreError::NotFound { what: "replay" })
}

/// Its row is locked to the end: a pause or a cancel waits that long, and then nothing more is made.
async fn write(transaction: &Transaction<'_>, chunk: &ReplayChunk) -> Result<Option<u32>, Trouble> {
    let params = params![
        replay_id: chunk.replay_id.uuid() => UUID, node_id: chunk.node.uuid() => UUID,
        from_cursor: chunk.from.map(|id| id.uuid()) => UUID,
    ];
    if transaction.run(&LOCK_REPLAY, params).await?.is_empty() {
        return Ok(None);
    }
    let made = make(transaction, chunk.replay_id, &chunk.deliveries).await?;
    let skipped = chunk.deliveries.len() as i64 - i64::from(made) + i64::from(chunk.skipped);
    let params = params![
        replay_id: chunk.replay_id.uuid() => UUID, cursor: chunk.to.map(|id| id.uuid()) => UUID,
        made: i64::from(made) => INT8, skipped: skipped => INT8, done: chunk.done => BOOL,
        now: chunk.now.micros() => INT8, held_until: chunk.until.micros() => INT8,
    ];
    let account = transaction.run(&WRITE_REPLAY, params).await?.first_value("account_id")?;
    if let Some(account) = account.filter(|_| chunk.done) {
        let note = OperationalNote::of_replay(account, chunk.replay_id, chunk.now);
        operational_events::note(transaction, [&note]).await?;
    }
    Ok(Some(made))
}

/// How many were made.
async fn make(
    transaction: &Transaction<'_>,
    replay: ReplayId,
    deliveries: &[Replayed],
) -> Result<u32, Trouble> {
    if deliveries.is_empty() {
        return Ok(0);
    }
    let (origins, events): (Vec<Uuid>, Vec<Uuid>) =
        deliveries.iter().map(|replayed| (replayed.origin.uuid(), replayed.event_id.uuid())).unzip();
    let columns = DeliveryColumns::of(deliveries.iter().map(|replayed| &replayed.delivery));
    let params = params![
        replay_id: replay.uuid() => UUID, origin: origins => UUID_ARRAY,
        event_id: events => UUID_ARRAY, delivery_id: columns.id => UUID_ARRAY,
        shard: columns.shard => INT2_ARRAY, destination_id: columns.destination_id => UUID_ARRAY,
        route_id: columns.route_id => UUID_ARRAY, track: columns.track => INT8_ARRAY,
        rank: columns.rank => INT8_ARRAY, due_at: columns.due_at => INT8_ARRAY,
        created_at: columns.created_at => INT8_ARRAY, sequenced: columns.sequenced => BOOL_ARRAY,
    ];
    let made: u64 = transaction.run(&MAKE_REPLAYED, params).await?.value("made")?;
    Ok(made as u32)
}

fn replay(cells: &mut Cells<'_, '_>) -> Result<Replay, Unreadable> {
    let Doc(ReplayDoc { filter, resolved, events, created_by }) = cells.get("doc")?;
    let replay = Replay {
        id: cells.get("id")?,
        account_id: cells.get("account_id")?,
        filter,
        resolved,
        events,
        rate: cells.get("rate")?,
        matched: cells.get("matched")?,
        matched_exact: cells.get("matched_exact")?,
        created: cells.get("created")?,
        skipped: cells.get("skipped")?,
        delivered: cells.get("delivered")?,
        dead_letter: cells.get("dead_letter")?,
        status: backfill::read_status(cells.get("status")?),
        created_by,
        created_at: cells.get("created_at")?,
        finished_at: cells.get("finished_at")?,
    };
    Ok(replay.told())
}

fn open_replay(cells: &mut Cells<'_, '_>) -> Result<OpenReplay, Unreadable> {
    let Doc(ReplayDoc { filter, resolved, events, .. }) = cells.get("doc")?;
    let (cursor, destination_id): (Option<Uuid>, _) =
        (cells.get("cursor")?, cells.get("cursor_destination")?);
    // Of a backfill it is an event.
    let at = |id| BackfillCursor { event_id: EventId::from_uuid(id), destination_id };
    let is_backfill = events.is_some();
    Ok(OpenReplay {
        id: cells.get("id")?,
        account_id: cells.get("account_id")?,
        filter,
        resolved,
        backfill: events.map(|selection| OpenBackfill { selection, cursor: cursor.map(at) }),
        rate: cells.get("rate")?,
        cursor: cursor.filter(|_| !is_backfill).map(DeliveryId::from_uuid),
        created_at: cells.get("created_at")?,
        held_by: cells.get("held_by")?,
        held_until: cells.get("held_until")?,
        holder_lives: cells.get("holder_lives")?,
    })
}
