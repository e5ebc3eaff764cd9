//! Forgetting, in steps of a few milliseconds: everybody waits behind the one who writes.

mod replays;

use super::{
    SqliteStore,
    row::{self, Key as _},
    trouble::Trouble,
    writer::Turn,
};
use crate::{EventWalk, FactWalk, Pruned, ReplayPlace, ReplayWalk, Retention, StoreError, Term};
use async_trait::async_trait;
use domain::{
    id::{DeliveryId, EventId},
    limits,
};
use rusqlite::{Connection, params};

#[cfg(test)]
pub(super) use replays::{MADE, OLD_REPLAYS};

pub(super) const OLD_EVENTS: &str =
    "select id from events where account_id = ?1 and id >= ?2 and id < ?3 order by id limit ?4";
pub(super) const IS_NEEDED: &str = "select exists (select 1 from queue where event_id = ?1)
         or exists (select 1 from expansions where event_id = ?1)";
pub(super) const ENDED_OF_EVENT: &str =
    "select delivery_id from attempts where event_id = ?1 and ending is not null limit ?2";
pub(super) const OLD_FACTS: &str = include_str!("sql/old_facts.sql");
const FORGET_DELIVERY: &str = "delete from attempts where delivery_id = ?1";
const FORGET_EVENT: &str = "delete from events where id = ?1";

#[async_trait]
impl Retention for SqliteStore {
    async fn prune_events(
        &self,
        _term: Term,
        walk: EventWalk,
    ) -> Result<Option<Pruned<EventId>>, StoreError> {
        // What has to stay costs the writer nothing.
        let step = self.read(move |connection| look(connection, &walk)).await?;
        if step.going.is_empty() {
            return Ok(Some(Pruned { rows: 0, next: step.next }));
        }
        self.write(Turn::Bulk, move |connection| forget(connection, &step, walk.rows).map(Some)).await
    }

    async fn prune_facts(
        &self,
        _term: Term,
        walk: FactWalk,
    ) -> Result<Option<Pruned<DeliveryId>>, StoreError> {
        let (lost, next) = self.read(move |connection| lost_facts(connection, &walk)).await?;
        if lost.is_empty() {
            return Ok(Some(Pruned { rows: 0, next }));
        }
        self.write(Turn::Bulk, move |connection| {
            let mut forget = connection.prepare_cached(FORGET_DELIVERY)?;
            let mut rows = 0;
            for id in &lost {
                rows += forget.execute([id.blob()])?;
            }
            Ok(Some(Pruned { rows, next }))
        })
        .await
    }

    async fn prune_replays(
        &self,
        _term: Term,
        walk: ReplayWalk,
    ) -> Result<Option<Pruned<ReplayPlace>>, StoreError> {
        let step = self.read(move |connection| replays::look(connection, &walk)).await?;
        if step.is_idle() {
            return Ok(Some(Pruned { rows: 0, next: step.next }));
        }
        self.write(Turn::Bulk, move |connection| replays::forget(connection, &step).map(Some)).await
    }

    async fn give_room_back(&self) -> Result<bool, StoreError> {
        let free = self.read(free_pages).await?;
        if free.to_give() == 0 {
            return Ok(false);
        }
        self.write(Turn::Bulk, move |connection| {
            // Does nothing in a file that was made without it.
            let pages = i64::from(limits::VACUUM_PAGES).min(free.to_give());
            let mut give = connection.prepare(&format!("pragma incremental_vacuum({pages})"))?;
            // Each row is a page that has gone.
            let mut gone = give.query([])?;
            while gone.next()?.is_some() {}
            Ok(())
        })
        .await?;
        let left = self.read(free_pages).await?;
        Ok(left.free < free.free && left.to_give() > 0)
    }

    fn prune_step(&self) -> (usize, usize) {
        (limits::PRUNE_EVENTS_ONE_WRITER, limits::PRUNE_ROWS_ONE_WRITER)
    }
}

/// What a step found.
struct Step {
    going: Vec<EventId>,
    next: Option<EventId>,
}

fn look(connection: &Connection, walk: &EventWalk) -> Result<Step, Trouble> {
    let mut select = connection.prepare_cached(OLD_EVENTS)?;
    let before = EventId::at(walk.before, 0);
    let mut rows = select.query(params![
        walk.account_id.blob(),
        walk.from.blob(),
        before.blob(),
        walk.events as i64 + 1
    ])?;
    let mut step = Step { going: Vec::new(), next: None };
    let mut looked_at = 0;
    while let Some(row) = rows.next()? {
        let id: EventId = row::id(row, 0)?;
        if looked_at == walk.events || step.going.len() >= walk.rows {
            step.next = Some(id);
            break;
        }
        looked_at += 1;
        if !is_needed(connection, id)? {
            step.going.push(id);
        }
    }
    Ok(step)
}

fn is_needed(connection: &Connection, id: EventId) -> Result<bool, Trouble> {
    Ok(connection.prepare_cached(IS_NEEDED)?.query_row([id.blob()], |row| row.get(0))?)
}

fn forget(connection: &Connection, step: &Step, most: usize) -> Result<Pruned<EventId>, Trouble> {
    let mut ended = connection.prepare_cached(ENDED_OF_EVENT)?;
    let mut forget_delivery = connection.prepare_cached(FORGET_DELIVERY)?;
    let mut forget_event = connection.prepare_cached(FORGET_EVENT)?;
    let mut rows = 0;
    for id in &step.going {
        // Asked again: it may have been replayed since it was looked at.
        if is_needed(connection, *id)? {
            continue;
        }
        let room = most.saturating_sub(rows) as i64;
        let found = ended.query_map(params![id.blob(), room], |row| row.get::<_, [u8; 16]>(0))?;
        let deliveries = found.collect::<rusqlite::Result<Vec<_>>>()?;
        for delivery in &deliveries {
            rows += forget_delivery.execute([delivery])?;
        }
        if rows >= most {
            return Ok(Pruned { rows, next: Some(*id) });
        }
        rows += forget_event.execute([id.blob()])?;
    }
    Ok(Pruned { rows, next: step.next })
}

/// Deliveries whose event is gone, and where to go on.
fn lost_facts(
    connection: &Connection,
    walk: &FactWalk,
) -> Result<(Vec<DeliveryId>, Option<DeliveryId>), Trouble> {
    let mut select = connection.prepare_cached(OLD_FACTS)?;
    let before = DeliveryId::at(walk.before, 0);
    let mut rows = select.query(params![walk.from.blob(), before.blob(), walk.deliveries as i64 + 1])?;
    let (mut lost, mut looked_at) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let id = row::id(row, 0)?;
        if looked_at == walk.deliveries {
            return Ok((lost, Some(id)));
        }
        looked_at += 1;
        if row.get(1)? {
            lost.push(id);
        }
    }
    Ok((lost, None))
}

/// Pages of the file, and how many of them nothing is in.
#[derive(Clone, Copy)]
struct Pages {
    all: i64,
    free: i64,
    incremental: bool,
}

impl Pages {
    /// Beyond what is kept for what comes.
    fn to_give(self) -> i64 {
        let kept = limits::VACUUM_KEPT_PAGES.max(self.all / limits::VACUUM_KEPT_SHARE);
        if self.incremental { (self.free - kept).max(0) } else { 0 }
    }
}

fn free_pages(connection: &Connection) -> Result<Pages, Trouble> {
    let read = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let incremental = read("auto_vacuum")? == 2;
    Ok(Pages { all: read("page_count")?, free: read("freelist_count")?, incremental })
}
