//! Forgetting, in steps of a few milliseconds: all that is written waits behind each of them.

mod replays;

use super::{
    SqliteStore,
    statement::{bound, sql},
    trouble::Trouble,
    writer::Priority,
};
use crate::{EventWalk, FactWalk, Pruned, ReplayPlace, ReplayWalk, Retention, StoreError, Term, tags};
use async_trait::async_trait;
use domain::{
    id::{AccountId, DeliveryId, EventId},
    limits,
};
use rusqlite::Connection;
use std::ops::ControlFlow;

#[cfg(test)]
pub(super) use replays::{MADE, OLD_REPLAYS};

pub(super) const OLD_EVENTS: &str = sql!("old_events");
pub(super) const IS_NEEDED: &str = sql!("is_needed");
pub(super) const ENDED_OF_EVENTS: &str = sql!("ended_of_events");
pub(super) const OLD_FACTS: &str = sql!("old_facts");
const FORGET_TAG: &str =
    "delete from event_tags where account_id = :account_id and tag = :tag and event_id = :event_id";
/// Its end goes first: a dead letter is subtracted from its group, and what its last attempt met is still to be found then.
const FORGET_ENDING: &str = "delete from attempts where delivery_id = :delivery_id and ending is not null";
const FORGET_DELIVERY: &str = "delete from attempts where delivery_id = :delivery_id";

#[async_trait]
impl Retention for SqliteStore {
    async fn prune_events(
        &self,
        _term: Term,
        walk: EventWalk,
    ) -> Result<Option<Pruned<EventId>>, StoreError> {
        // What has to stay costs the writer nothing.
        let old = self.read(move |connection| look(connection, &walk)).await?;
        if old.going.is_empty() {
            return Ok(Some(Pruned { rows: 0, next: old.next }));
        }
        self.write(Priority::Bulk, move |connection| forget(connection, &old, walk.rows).map(Some)).await
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
        self.write(Priority::Bulk, move |connection| {
            let mut rows = 0;
            for id in &lost {
                rows += forget_delivery(connection, *id)?;
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
        let old = self.read(move |connection| replays::look(connection, &walk)).await?;
        if old.is_empty() {
            return Ok(Some(Pruned { rows: 0, next: old.next }));
        }
        self.write(Priority::Bulk, move |connection| replays::forget(connection, &old).map(Some)).await
    }

    async fn give_room_back(&self) -> Result<bool, StoreError> {
        let free = self.read(free_pages).await?;
        if free.to_give() == 0 {
            return Ok(false);
        }
        self.write(Priority::Bulk, move |connection| {
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

/// The events that a step may forget.
struct OldEvents {
    going: Vec<EventId>,
    next: Option<EventId>,
}

fn look(connection: &Connection, walk: &EventWalk) -> Result<OldEvents, Trouble> {
    let mut old = OldEvents { going: Vec::new(), next: None };
    let mut looked_at = 0;
    bound!(
        OLD_EVENTS,
        account_id: walk.account_id,
        from: walk.from,
        below: EventId::at(walk.before, 0),
        limit: walk.events + 1,
    )
    .each(connection, |columns| {
        let id = columns.id()?;
        if looked_at == walk.events || old.going.len() >= walk.rows {
            old.next = Some(id);
            return Ok(ControlFlow::Break(()));
        }
        looked_at += 1;
        if !is_needed(connection, id)? {
            old.going.push(id);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(old)
}

fn is_needed(connection: &Connection, id: EventId) -> Result<bool, Trouble> {
    bound!(IS_NEEDED, event_id: id).one(connection, |columns| Ok(columns.get()?))
}

fn forget(connection: &Connection, old: &OldEvents, most: usize) -> Result<Pruned<EventId>, Trouble> {
    let mut rows = 0;
    for id in &old.going {
        // Asked again: it may have been replayed since it was looked at.
        if is_needed(connection, *id)? {
            continue;
        }
        let room = most.saturating_sub(rows);
        let deliveries = bound!(ENDED_OF_EVENTS, event_id: id, limit: room)
            .all(connection, |columns| Ok(columns.id::<DeliveryId>()?))?;
        for delivery in deliveries {
            rows += forget_delivery(connection, delivery)?;
        }
        if rows >= most {
            return Ok(Pruned { rows, next: Some(*id) });
        }
        rows += forget_event(connection, *id)?;
    }
    Ok(Pruned { rows, next: old.next })
}

/// All that is known of it, and that it was settled.
fn forget_delivery(connection: &Connection, id: DeliveryId) -> Result<usize, Trouble> {
    let ending = bound!(FORGET_ENDING, delivery_id: id).execute(connection)?;
    Ok(ending + bound!(FORGET_DELIVERY, delivery_id: id).execute(connection)?)
}

/// With its tags. Most have none: then nothing is looked for.
fn forget_event(connection: &Connection, id: EventId) -> Result<usize, Trouble> {
    let gone: Option<(AccountId, Vec<String>)> =
        bound!("delete from events where id = :id returning account_id, tags", id: id)
            .first(connection, |columns| Ok((columns.id()?, tags::read(columns.optional_text()?))))?;
    let Some((account, tags)) = gone else { return Ok(0) };
    for tag in tags {
        bound!(FORGET_TAG, account_id: account, tag: tag, event_id: id).execute(connection)?;
    }
    Ok(1)
}

/// Deliveries whose event is gone, and where to go on.
fn lost_facts(
    connection: &Connection,
    walk: &FactWalk,
) -> Result<(Vec<DeliveryId>, Option<DeliveryId>), Trouble> {
    let (mut lost, mut next, mut looked_at) = (Vec::new(), None, 0);
    bound!(
        OLD_FACTS,
        from: walk.from,
        below: DeliveryId::at(walk.before, 0),
        limit: walk.deliveries + 1,
    )
    .each(connection, |columns| {
        let id = columns.id()?;
        if looked_at == walk.deliveries {
            next = Some(id);
            return Ok(ControlFlow::Break(()));
        }
        looked_at += 1;
        if columns.get()? {
            lost.push(id);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((lost, next))
}

/// Pages of the file, and how many of them nothing is in.
#[derive(Clone, Copy)]
struct FilePages {
    all: i64,
    free: i64,
    incremental: bool,
}

impl FilePages {
    /// Beyond what is kept for what comes.
    fn to_give(self) -> i64 {
        let kept = limits::VACUUM_KEPT_PAGES.max(self.all / limits::VACUUM_KEPT_SHARE);
        if self.incremental { (self.free - kept).max(0) } else { 0 }
    }
}

fn free_pages(connection: &Connection) -> Result<FilePages, Trouble> {
    let read = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let incremental = read("auto_vacuum")? == 2;
    Ok(FilePages { all: read("page_count")?, free: read("freelist_count")?, incremental })
}
