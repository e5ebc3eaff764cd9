//! Replays: a chunk is one job of the writer, after everything that somebody waits for.

mod walk;

use super::{
    SqliteStore, Trouble, order,
    row::{self, Key as _, blob, micros},
    tally,
    trouble::unreadable,
    writer::Turn,
};
use crate::{
    CreatedReplay, DeliveryFilter, NewDelivery, NewReplay, OpenReplay, OriginalWalk, Originals, Page, Replay,
    ReplayChunk, ReplayHold, ReplayStatus, ReplaySwitch, Replayed, Replays, Selection, StoreError, Survey,
};
use async_trait::async_trait;
use domain::{
    delivery::Ending,
    id::{AccountId, ApiKeyId, DeliveryId, ReplayId},
    limits,
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::{Deserialize, Serialize};

macro_rules! replay {
    ($rest:literal) => {
        concat!(include_str!("sql/replay.sql"), $rest)
    };
}

macro_rules! open_replay {
    ($rest:literal) => {
        concat!(include_str!("sql/open_replay.sql"), $rest)
    };
}

#[async_trait]
impl Replays for SqliteStore {
    async fn create_replay(&self, new: &NewReplay) -> Result<CreatedReplay, StoreError> {
        let new = new.clone();
        self.write(Turn::Api, move |connection| create(connection, &new)).await
    }

    async fn replay(&self, account: AccountId, id: ReplayId) -> Result<Replay, StoreError> {
        self.read(move |connection| get(connection, account, id)).await
    }

    async fn replays(&self, account: AccountId, page: Page<ReplayId>) -> Result<Vec<Replay>, StoreError> {
        self.read(move |connection| {
            let mut select = connection
                .prepare_cached(replay!("where account_id = ?1 and id < ?2 order by id desc limit ?3"))?;
            let before = page.before.unwrap_or(ReplayId::MAX).blob();
            let mut rows = select.query(params![account.blob(), before, page.limit as i64])?;
            let mut replays = Vec::new();
            while let Some(row) = rows.next()? {
                replays.push(read(row)?);
            }
            Ok(replays)
        })
        .await
    }

    async fn switch_replay(
        &self,
        account: AccountId,
        id: ReplayId,
        to: ReplaySwitch,
        now: Timestamp,
    ) -> Result<Replay, StoreError> {
        self.write(Turn::Api, move |connection| {
            let mut update = connection.prepare_cached(
                "update replays set status = ?3, finished_at = ?4
                 where id = ?2 and account_id = ?1 and status in ('running', 'paused')",
            )?;
            let finished_at = to.status().ended().then(|| now.micros());
            update.execute(params![account.blob(), id.blob(), to.status().as_str(), finished_at])?;
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
            let mut select = connection
                .prepare_cached("select delivery_id from replayed where replay_id = ?1 and origin = ?2")?;
            Ok(select.query_row([id.blob(), origin.blob()], |row| row::id(row, 0)).optional()?)
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
            let mut select = connection.prepare_cached(open_replay!("order by r.id limit ?1"))?;
            let mut rows = select.query([limit as i64])?;
            let mut open = Vec::new();
            while let Some(row) = rows.next()? {
                open.push(read_open(row)?);
            }
            Ok(open)
        })
        .await
    }

    async fn hold_replay(&self, hold: &ReplayHold) -> Result<Option<OpenReplay>, StoreError> {
        let hold = hold.clone();
        self.write(Turn::Bulk, move |connection| {
            let mut update = connection.prepare_cached(
                "update replays set held_by = ?2, held_until = ?3
                 where id = ?1 and status = 'running' and held_by is ?4 and held_until is ?5",
            )?;
            let taken = update.execute(params![
                hold.id.blob(),
                hold.node.blob(),
                hold.until.micros(),
                blob(hold.seen_by),
                micros(hold.seen_until),
            ])?;
            if taken == 0 {
                return Ok(None);
            }
            let mut select = connection.prepare_cached(open_replay!("and r.id = ?1"))?;
            let mut rows = select.query([hold.id.blob()])?;
            rows.next()?.map(read_open).transpose()
        })
        .await
    }

    async fn originals(&self, walk: &OriginalWalk) -> Result<Originals, StoreError> {
        let walk = walk.clone();
        self.read_for_engine(move |connection| walk::originals(connection, &walk)).await
    }

    async fn write_replay(&self, chunk: &ReplayChunk) -> Result<Option<u32>, StoreError> {
        let chunk = chunk.clone();
        self.write(Turn::Expand, move |connection| write(connection, &chunk)).await
    }
}

/// What nothing is searched or guarded by.
#[derive(Serialize, Deserialize)]
struct Doc {
    filter: Option<DeliveryFilter>,
    created_by: ApiKeyId,
}

fn create(connection: &Connection, new: &NewReplay) -> Result<CreatedReplay, Trouble> {
    if let Some(key) = &new.key {
        let mut select = connection
            .prepare_cached("select id, body_hash from replays where account_id = ?1 and key_hash = ?2")?;
        let known = |row: &Row<'_>| Ok((row::id(row, 0)?, row.get(1)?));
        let known = select.query_row(params![new.account_id.blob(), key.hash], known).optional()?;
        if let Some((id, body_hash)) = known {
            return Ok(CreatedReplay::Known { replay: get(connection, new.account_id, id)?, body_hash });
        }
    }
    let mut unfinished = connection
        .prepare_cached("select count(*) from replays where account_id = ?1 and finished_at is null")?;
    let unfinished: i64 = unfinished.query_row([new.account_id.blob()], |row| row.get(0))?;
    if unfinished as usize >= limits::REPLAYS_PER_ACCOUNT && new.at_once.is_none() {
        return Err(StoreError::Full { what: "replays" }.into());
    }
    let (filter, ids) = match &new.selection {
        Selection::Filter(filter) => (Some(filter.clone()), None),
        Selection::Deliveries(ids) => (None, Some(ids.iter().flat_map(|id| id.blob()).collect::<Vec<u8>>())),
    };
    let doc = Doc { filter, created_by: new.created_by };
    let at_once = new.at_once.is_some();
    let status = if at_once { ReplayStatus::Completed } else { ReplayStatus::Running };
    connection.prepare_cached(include_str!("sql/insert_replay.sql"))?.execute(params![
        new.id.blob(),
        new.account_id.blob(),
        status.as_str(),
        new.rate,
        new.matched as i64,
        new.matched_exact,
        at_once,
        new.created_at.micros(),
        at_once.then(|| new.created_at.micros()),
        new.key.map(|key| key.hash),
        new.key.map(|key| key.body_hash),
        serde_json::to_string(&doc).expect("ids, words and times are always JSON"),
        ids,
    ])?;
    if let Some(one) = &new.at_once
        && !make(connection, new.id, one)?
    {
        return Err(StoreError::NotFound { what: "event" }.into());
    }
    Ok(CreatedReplay::New(get(connection, new.account_id, new.id)?))
}

fn get(connection: &Connection, account: AccountId, id: ReplayId) -> Result<Replay, Trouble> {
    let mut select = connection.prepare_cached(replay!("where id = ?2 and account_id = ?1"))?;
    let mut rows = select.query(params![account.blob(), id.blob()])?;
    rows.next()?.map(read).transpose()?.ok_or(StoreError::NotFound { what: "replay" }.into())
}

fn read(row: &Row<'_>) -> Result<Replay, Trouble> {
    let Doc { filter, created_by } = doc(row, 12)?;
    let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
    let replay = Replay {
        id: row::id(row, 0)?,
        account_id: row::id(row, 1)?,
        filter,
        rate: row.get(3)?,
        matched: count(4)?,
        matched_exact: row.get(5)?,
        created: count(6)?,
        skipped: count(7)?,
        delivered: count(8)?,
        dead_letter: count(9)?,
        status: ReplayStatus::read(row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?),
        created_by,
        created_at: row::time(row, 10)?,
        finished_at: row::maybe_time(row, 11)?,
    };
    Ok(replay.told())
}

fn read_open(row: &Row<'_>) -> Result<OpenReplay, Trouble> {
    Ok(OpenReplay {
        id: row::id(row, 0)?,
        account_id: row::id(row, 1)?,
        filter: doc(row, 8)?.filter,
        rate: row.get(2)?,
        cursor: row::maybe_id(row, 3)?,
        created_at: row::time(row, 4)?,
        held_by: row::maybe_id(row, 5)?,
        held_until: row::maybe_time(row, 6)?,
        holder_lives: row.get(7)?,
    })
}

fn doc(row: &Row<'_>, column: usize) -> Result<Doc, Trouble> {
    let text = row.get_ref(column)?.as_str().map_err(rusqlite::Error::from)?;
    serde_json::from_str(text).map_err(|error| unreadable("replay", error))
}

fn write(connection: &Connection, chunk: &ReplayChunk) -> Result<Option<u32>, Trouble> {
    let mut select = connection.prepare_cached(
        "select 1 from replays where id = ?1 and status = 'running' and held_by = ?2 and cursor is ?3",
    )?;
    let (id, node, from) = (chunk.replay_id.blob(), chunk.node.blob(), blob(chunk.from));
    if !select.exists(params![id, node, from])? {
        return Ok(None);
    }
    let mut made = 0;
    for one in &chunk.deliveries {
        made += u32::from(make(connection, chunk.replay_id, one)?);
    }
    let skipped = chunk.deliveries.len() as u32 - made + chunk.skipped;
    connection.prepare_cached(include_str!("sql/write_replay.sql"))?.execute(params![
        id,
        node,
        from,
        blob(chunk.to),
        made,
        skipped,
        chunk.done,
        chunk.now.micros(),
        chunk.until.micros(),
    ])?;
    Ok(Some(made))
}

/// Whether it was made: of an event that is there, and once.
fn make(connection: &Connection, replay: ReplayId, one: &Replayed) -> Result<bool, Trouble> {
    let Replayed { origin, event_id, delivery } = one;
    let NewDelivery { id, route_id, destination_id, shard, position, due_at, sequenced } = delivery;
    let mut select = connection.prepare_cached("select account_id, size_bytes from events where id = ?1")?;
    let event = |row: &Row<'_>| Ok((row::id::<AccountId>(row, 0)?, row.get::<_, i64>(1)?));
    let Some((account, size_bytes)) = select.query_row([event_id.blob()], event).optional()? else {
        return Ok(false);
    };
    let mut once = connection.prepare_cached(
        "insert into replayed (replay_id, origin, delivery_id) values (?1, ?2, ?3)
         on conflict (replay_id, origin) do nothing",
    )?;
    if once.execute([replay.blob(), origin.blob(), id.blob()])? == 0 {
        return Ok(false);
    }
    let sequence = sequenced.then(|| order::next_sequence(connection, *destination_id)).transpose()?;
    connection.prepare_cached(include_str!("sql/insert_replayed.sql"))?.execute(params![
        shard,
        destination_id.blob(),
        position.track,
        sequence.unwrap_or(position.rank),
        id.blob(),
        account.blob(),
        event_id.blob(),
        route_id.blob(),
        replay.blob(),
        origin.blob(),
        due_at.micros(),
        id.made_at().micros(),
        size_bytes,
        sequence,
    ])?;
    tally::came(account, size_bytes as usize);
    Ok(true)
}

/// A delivery of a replay has ended.
pub(super) fn count(connection: &Connection, replay: ReplayId, ending: Ending) -> Result<(), Trouble> {
    let update = match ending {
        Ending::Delivered => "update replays set delivered = delivered + 1 where id = ?1",
        Ending::DeadLetter(_) => "update replays set dead_letter = dead_letter + 1 where id = ?1",
        Ending::Cancelled(_) => return Ok(()),
    };
    connection.prepare_cached(update)?.execute([replay.blob()])?;
    Ok(())
}
