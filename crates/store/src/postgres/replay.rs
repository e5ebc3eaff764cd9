//! Replays: a chunk is one transaction, and the replay's row is its lock.

mod walk;

use super::{
    PostgresStore,
    pool::{Transaction, params},
    rows,
    trouble::Trouble,
};
use crate::{
    CreatedReplay, DeliveryFilter, NewReplay, OpenReplay, OriginalWalk, Originals, Page, Replay, ReplayChunk,
    ReplayHold, ReplayStatus, ReplaySwitch, Replayed, Replays, Selection, StoreError, Survey,
};
use async_trait::async_trait;
use domain::{
    delivery::Ending,
    id::{AccountId, ApiKeyId, DeliveryId, NodeId, ReplayId},
    limits,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const MAKE_REPLAYED: &str = include_str!("sql/make_replayed.sql");
const ONE: &str = concat!(include_str!("sql/replay.sql"), "where r.id = $2 and r.account_id = $1");
const LIST: &str = concat!(
    include_str!("sql/replay.sql"),
    "where r.account_id = $1 and r.id < $2 order by r.id desc limit $3"
);
const OPEN: &str = concat!(include_str!("sql/open_replay.sql"), "order by r.id limit $1");
const OPEN_ONE: &str = concat!(include_str!("sql/open_replay.sql"), "and r.id = $1");

#[async_trait]
impl Replays for PostgresStore {
    async fn create_replay(&self, new: &NewReplay) -> Result<CreatedReplay, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let created = create(&transaction, new).await;
        transaction.end(created).await
    }

    async fn replay(&self, account: AccountId, id: ReplayId) -> Result<Replay, StoreError> {
        let connection = self.pools.general().await?;
        let row = connection.read_opt(ONE, params![account.uuid() => UUID, id.uuid() => UUID]).await?;
        row.as_ref().map(replay).transpose()?.ok_or(StoreError::NotFound { what: "replay" })
    }

    async fn replays(&self, account: AccountId, page: Page<ReplayId>) -> Result<Vec<Replay>, StoreError> {
        let connection = self.pools.general().await?;
        let before = page.before.unwrap_or(ReplayId::MAX).uuid();
        let params = params![account.uuid() => UUID, before => UUID, page.limit as i64 => INT8];
        connection.read(LIST, params).await?.iter().map(replay).collect()
    }

    async fn switch_replay(
        &self,
        account: AccountId,
        id: ReplayId,
        to: ReplaySwitch,
        now: Timestamp,
    ) -> Result<Replay, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let switched = switch(&transaction, account.uuid(), id.uuid(), to, now).await;
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
        let sql = "select delivery_id from replayed where replay_id = $1 and origin = $2";
        let row = connection.read_opt(sql, params![id.uuid() => UUID, origin.uuid() => UUID]).await?;
        Ok(row.map(|row| DeliveryId::from_uuid(row.get(0))))
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
        connection.read(OPEN, params![limit as i64 => INT8]).await?.iter().map(open).collect()
    }

    async fn hold_replay(&self, hold: &ReplayHold) -> Result<Option<OpenReplay>, StoreError> {
        let connection = self.pools.engine().await?;
        let (seen_by, seen_until) =
            (hold.seen_by.map(|id| id.uuid()), hold.seen_until.map(Timestamp::micros));
        let params = params![
            hold.id.uuid() => UUID, hold.node.uuid() => UUID, hold.until.micros() => INT8, seen_by => UUID,
            seen_until => INT8,
        ];
        if connection.write(include_str!("sql/hold_replay.sql"), params).await?.is_empty() {
            return Ok(None);
        }
        let row = connection.read_opt(OPEN_ONE, params![hold.id.uuid() => UUID]).await?;
        row.as_ref().map(open).transpose()
    }

    async fn originals(&self, walk: &OriginalWalk) -> Result<Originals, StoreError> {
        walk::originals(&self.pools.engine().await?, walk).await
    }

    async fn write_replay(&self, chunk: &ReplayChunk) -> Result<Option<u32>, StoreError> {
        let connection = self.pools.engine().await?;
        let transaction = connection.begin().await?;
        let written = write(&transaction, chunk).await;
        Ok(transaction.end(written).await?)
    }
}

/// What nothing is searched or guarded by.
#[derive(Serialize, Deserialize)]
struct Doc {
    filter: Option<DeliveryFilter>,
    created_by: ApiKeyId,
}

async fn create(transaction: &Transaction<'_>, new: &NewReplay) -> Result<CreatedReplay, StoreError> {
    let (filter, ids) = match &new.selection {
        Selection::Filter(filter) => (Some(filter.clone()), None),
        Selection::Deliveries(ids) => (None, Some(ids.iter().map(|id| id.uuid()).collect::<Vec<Uuid>>())),
    };
    let doc = Doc { filter, created_by: new.created_by };
    let doc = serde_json::to_string(&doc).expect("ids, words and times are always JSON");
    let at_once = new.at_once.is_some();
    let status = if at_once { ReplayStatus::Completed } else { ReplayStatus::Running };
    let finished_at = at_once.then(|| new.created_at.micros());
    let (hash, body_hash) = (new.key.map(|key| key.hash.to_vec()), new.key.map(|key| key.body_hash.to_vec()));
    let account = new.account_id.uuid();
    let params = params![
        new.id.uuid() => UUID, account => UUID, status.as_str() => TEXT, new.rate as i32 => INT4,
        new.matched as i64 => INT8, new.matched_exact => BOOL, i64::from(at_once) => INT8,
        new.created_at.micros() => INT8, finished_at => INT8, hash => BYTEA, body_hash => BYTEA, doc => TEXT,
        ids => UUID_ARRAY,
    ];
    let written = transaction.run(include_str!("sql/insert_replay.sql"), params).await?;
    if written.is_empty() {
        let sql = "select id, body_hash from replays where account_id = $1 and key_hash = $2";
        let known = transaction.run_opt(sql, params![account => UUID, hash => BYTEA]).await?;
        let known = known.ok_or(StoreError::Changed)?;
        let body_hash = known.get::<_, &[u8]>(1).try_into().unwrap_or_default();
        return Ok(CreatedReplay::Known {
            replay: get(transaction, account, known.get(0)).await?,
            body_hash,
        });
    }
    if !at_once {
        // With the one that was just written. Two at once may both be the last: that does no harm.
        let sql = "select count(*) from replays where account_id = $1 and finished_at is null";
        let unfinished = transaction.run_opt(sql, params![account => UUID]).await?;
        let unfinished = unfinished.map_or(0, |row| row.get::<_, i64>(0) as usize);
        if unfinished > limits::REPLAYS_PER_ACCOUNT {
            return Err(StoreError::Full { what: "replays" });
        }
    }
    if let Some(one) = &new.at_once
        && make(transaction, new.id, std::slice::from_ref(one)).await? == 0
    {
        return Err(StoreError::NotFound { what: "event" });
    }
    Ok(CreatedReplay::New(get(transaction, account, new.id.uuid()).await?))
}

/// Its row stays locked until it has been read: whoever switches it back meanwhile comes after.
async fn switch(
    transaction: &Transaction<'_>,
    account: Uuid,
    id: Uuid,
    to: ReplaySwitch,
    now: Timestamp,
) -> Result<Replay, StoreError> {
    let sql = "update replays set status = $3, finished_at = $4 \
               where id = $2 and account_id = $1 and status in ('running', 'paused')";
    let finished_at = to.status().ended().then(|| now.micros());
    let params = params![account => UUID, id => UUID, to.status().as_str() => TEXT, finished_at => INT8];
    transaction.run(sql, params).await?;
    get(transaction, account, id).await
}

async fn get(transaction: &Transaction<'_>, account: Uuid, id: Uuid) -> Result<Replay, StoreError> {
    let row = transaction.run_opt(ONE, params![account => UUID, id => UUID]).await?;
    row.as_ref().map(replay).transpose()?.ok_or(StoreError::NotFound { what: "replay" })
}

/// Its row is locked to the end: whoever pauses or cancels waits that long, and then nothing more is made.
async fn write(transaction: &Transaction<'_>, chunk: &ReplayChunk) -> Result<Option<u32>, Trouble> {
    let guard = "select from replays \
                 where id = $1 and status = 'running' and held_by = $2 and cursor is not distinct from $3 \
                 for update";
    let (id, from, to) =
        (chunk.replay_id.uuid(), chunk.from.map(|id| id.uuid()), chunk.to.map(|id| id.uuid()));
    let params = params![id => UUID, chunk.node.uuid() => UUID, from => UUID];
    if transaction.run_opt(guard, params).await?.is_none() {
        return Ok(None);
    }
    let made = make(transaction, chunk.replay_id, &chunk.deliveries).await?;
    let skipped = chunk.deliveries.len() as i64 - i64::from(made) + i64::from(chunk.skipped);
    let params = params![
        id => UUID, to => UUID, i64::from(made) => INT8, skipped => INT8, chunk.done => BOOL,
        chunk.now.micros() => INT8, chunk.until.micros() => INT8,
    ];
    transaction.run(include_str!("sql/write_replay.sql"), params).await?;
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
    let columns = Columns::of(deliveries);
    let params = params![
        replay.uuid() => UUID, columns.origin => UUID_ARRAY, columns.event_id => UUID_ARRAY,
        columns.id => UUID_ARRAY, columns.shard => INT2_ARRAY, columns.destination_id => UUID_ARRAY,
        columns.route_id => UUID_ARRAY, columns.track => INT8_ARRAY, columns.rank => INT8_ARRAY,
        columns.due_at => INT8_ARRAY, columns.created_at => INT8_ARRAY, columns.sequenced => BOOL_ARRAY,
    ];
    let made = transaction.run_opt(MAKE_REPLAYED, params).await?;
    Ok(made.map_or(0, |row| row.get::<_, i64>(0) as u32))
}

/// Deliveries of a replay have ended, in the transaction that says so.
pub(super) async fn count(
    transaction: &Transaction<'_>,
    node: &Uuid,
    ended: impl Iterator<Item = (ReplayId, Ending)>,
) -> Result<(), Trouble> {
    let mut counts = BTreeMap::<Uuid, (i64, i64)>::new();
    for (replay, ending) in ended {
        let (delivered, dead_letter) = counts.entry(replay.uuid()).or_default();
        match ending {
            Ending::Delivered => *delivered += 1,
            Ending::DeadLetter(_) => *dead_letter += 1,
            Ending::Cancelled(_) => {}
        }
    }
    if counts.is_empty() {
        return Ok(());
    }
    let replays: Vec<Uuid> = counts.keys().copied().collect();
    let (delivered, dead_letter): (Vec<i64>, Vec<i64>) = counts.into_values().unzip();
    let params = params![
        *node => UUID, replays => UUID_ARRAY, delivered => INT8_ARRAY, dead_letter => INT8_ARRAY,
    ];
    transaction.run(include_str!("sql/count_replayed.sql"), params).await?;
    Ok(())
}

fn replay(row: &Row) -> Result<Replay, StoreError> {
    let Doc { filter, created_by } = doc(row.get(12))?;
    let count = |column| row.get::<_, i64>(column).unsigned_abs();
    let replay = Replay {
        id: ReplayId::from_uuid(row.get(0)),
        account_id: AccountId::from_uuid(row.get(1)),
        filter,
        rate: rows::count(row, 3),
        matched: count(4),
        matched_exact: row.get(5),
        created: count(6),
        skipped: count(7),
        delivered: count(8),
        dead_letter: count(9),
        status: ReplayStatus::read(row.get(2)),
        created_by,
        created_at: rows::time(row, 10),
        finished_at: rows::optional_time(row, 11),
    };
    Ok(replay.told())
}

fn open(row: &Row) -> Result<OpenReplay, StoreError> {
    Ok(OpenReplay {
        id: ReplayId::from_uuid(row.get(0)),
        account_id: AccountId::from_uuid(row.get(1)),
        filter: doc(row.get(8))?.filter,
        rate: rows::count(row, 2),
        cursor: row.get::<_, Option<Uuid>>(3).map(DeliveryId::from_uuid),
        created_at: rows::time(row, 4),
        held_by: row.get::<_, Option<Uuid>>(5).map(NodeId::from_uuid),
        held_until: rows::optional_time(row, 6),
        holder_lives: row.get(7),
    })
}

fn doc(text: &str) -> Result<Doc, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::Unavailable(format!("a replay does not read back: {error}").into()))
}

/// A chunk's deliveries, by columns.
#[derive(Default)]
struct Columns {
    origin: Vec<Uuid>,
    event_id: Vec<Uuid>,
    id: Vec<Uuid>,
    shard: Vec<i16>,
    destination_id: Vec<Uuid>,
    route_id: Vec<Uuid>,
    track: Vec<i64>,
    rank: Vec<i64>,
    due_at: Vec<i64>,
    created_at: Vec<i64>,
    sequenced: Vec<bool>,
}

impl Columns {
    fn of(deliveries: &[Replayed]) -> Self {
        let mut columns = Self::default();
        for Replayed { origin, event_id, delivery } in deliveries {
            columns.origin.push(origin.uuid());
            columns.event_id.push(event_id.uuid());
            columns.id.push(delivery.id.uuid());
            columns.shard.push(delivery.shard as i16);
            columns.destination_id.push(delivery.destination_id.uuid());
            columns.route_id.push(delivery.route_id.uuid());
            columns.track.push(delivery.position.track);
            columns.rank.push(delivery.position.rank);
            columns.due_at.push(delivery.due_at.micros());
            columns.created_at.push(delivery.id.made_at().micros());
            columns.sequenced.push(delivery.sequenced);
        }
        columns
    }
}
