//! What has just happened, from one snapshot to the next: see [`crate::feed`]. Every statement here is run for a
//! listener, and none is run while there is none.

use super::{
    PostgresStore, gates,
    pool::Connection,
    rows::{self, Cells, Rows, Unreadable},
    statement::{Statement, params, sql},
};
use crate::{
    EventRecord, FactAttempt, FactRecord, Feed, FeedChange, FeedEntry, FeedPage, FeedPlace, FeedStamp,
    Followed, Resumption, StoreError,
    feed::{FeedProgress, FeedRound, RoundStage, Snapshot, WriteNumber},
    other_routes, tags,
};
use async_trait::async_trait;
use domain::{
    event::Event,
    id::{AttemptId, DestinationId, EventId},
    limits,
    time::Timestamp,
};
use std::{sync::LazyLock, time::Duration};
use uuid::Uuid;

static SNAPSHOT: LazyLock<Statement> = sql!("snapshot": "select pg_current_snapshot()::text as snapshot");
pub(super) static FEED_FACTS: LazyLock<Statement> = sql!("feed_facts");
static FEED_EVENTS: LazyLock<Statement> = sql!("feed_events");
static FEED_HOLDS: LazyLock<Statement> = sql!("feed_holds");

#[async_trait]
impl Feed for PostgresStore {
    async fn feed_end(&self, now: Timestamp) -> Result<FeedPlace, StoreError> {
        Ok(FeedPlace::snapshot(now, current(&self.pools.general().await?).await?))
    }

    async fn feed_place(&self, text: &str) -> Result<Resumption, StoreError> {
        let Some(place) = FeedPlace::parse(text) else { return Ok(Resumption::Malformed) };
        let current = current(&self.pools.general().await?).await?;
        let newest = match &place.seen {
            FeedProgress::Numbers(_) => return Ok(Resumption::Lost),
            FeedProgress::Snapshots { seen, round } => {
                round.as_ref().map_or(seen.next, |round| round.until.next)
            }
        };
        // Of transactions that have not begun yet: another database, or this one as it was before.
        Ok(if newest <= current.next { Resumption::At(place) } else { Resumption::Lost })
    }

    async fn feed(
        &self,
        followed: Followed<'_>,
        after: &FeedPlace,
        limit: usize,
        now: Timestamp,
    ) -> Result<FeedPage, StoreError> {
        let FeedProgress::Snapshots { seen, round } = &after.seen else {
            return Err(StoreError::Refused("a place of another store".into()));
        };
        let read = FeedReader {
            connection: self.pools.general().await?,
            accounts: followed.accounts.iter().map(|id| id.uuid()).collect(),
            events: followed.events,
            at: after.at,
            seen: seen.clone(),
            limit,
        };
        match round.clone() {
            Some(FeedRound { at, until, stage: RoundStage::Facts { from } }) => {
                read.facts(from, at, Some(until)).await
            }
            Some(FeedRound { at, until, stage: RoundStage::Events { from } }) => {
                read.events(Vec::new(), from, at, until).await
            }
            Some(FeedRound { at, until, stage: RoundStage::Holds { after } }) => {
                read.holds(Vec::new(), after, at, until).await
            }
            None => {
                let from = AttemptId::at(after.at.minus(limits::FEED_LOOKBACK), 0);
                read.facts(from, now, None).await
            }
        }
    }

    async fn feed_written(&self) {
        self.feed_signal.notified().await;
    }
}

async fn current(connection: &Connection) -> Result<Snapshot, StoreError> {
    let rows = connection.read(&SNAPSHOT, params![]).await?;
    Snapshot::of_server(rows.value("snapshot")?).ok_or_else(unreadable)
}

fn unreadable() -> StoreError {
    StoreError::Unreadable("the server's snapshot does not read as one".into())
}

/// A page of the feed being read.
struct FeedReader {
    connection: Connection,
    accounts: Vec<Uuid>,
    events: bool,
    at: Timestamp,
    seen: Snapshot,
    limit: usize,
}

impl FeedReader {
    /// Facts of attempts from there on, a span of time in each statement; at the end of them, events.
    async fn facts(
        self,
        mut from: AttemptId,
        until_at: Timestamp,
        mut until: Option<Snapshot>,
    ) -> Result<FeedPage, StoreError> {
        let mut span = limits::FEED_SPAN;
        for _ in 0..limits::FEED_SPANS {
            let end = from.made_at().plus(span);
            let below = (end < until_at).then(|| AttemptId::at(end, 0));
            let found = self.facts_between(from, below, &mut until).await?;
            let until = until.clone().ok_or_else(unreadable)?;
            let at = |stage| self.within(until_at, &until, stage);
            let mut entries = Vec::with_capacity(found.len());
            found.joined("attempt_id", |cells| {
                let id: Uuid = cells.get("attempt_id")?;
                from = AttemptId::from_uuid(Uuid::from_u128(id.as_u128().saturating_add(1)));
                entries.push(FeedEntry {
                    account_id: cells.get("account_id")?,
                    place: at(RoundStage::Facts { from }),
                    stamp: stamp(cells)?,
                    change: FeedChange::Delivery(Box::new(fact(cells)?)),
                });
                Ok(())
            })?;
            match below {
                _ if entries.len() == self.limit => {
                    return Ok(FeedPage { entries, next: at(RoundStage::Facts { from }), more: true });
                }
                None => {
                    let from = EventId::at(self.at.minus(limits::FEED_LOOKBACK), 0);
                    return self.events(entries, from, until_at, until).await;
                }
                Some(below) if !entries.is_empty() => {
                    return Ok(FeedPage { entries, next: at(RoundStage::Facts { from: below }), more: true });
                }
                Some(below) => from = below,
            }
            span = (span * 2).min(limits::FEED_SPAN_MAX);
        }
        let until = until.ok_or_else(unreadable)?;
        let next = self.within(until_at, &until, RoundStage::Facts { from });
        Ok(FeedPage { entries: Vec::new(), next, more: true })
    }

    async fn facts_between(
        &self,
        from: AttemptId,
        below: Option<AttemptId>,
        until: &mut Option<Snapshot>,
    ) -> Result<Rows, StoreError> {
        let Snapshot { oldest, next, open } = &self.seen;
        let (until_next, until_open) = until.clone().map(|until| (until.next, until.open)).unzip();
        let (from, below) = (from.uuid(), below.map(|below| below.uuid()));
        let params = params![
            account_ids: self.accounts => UUID_ARRAY, from_attempt_id: from => UUID,
            below_attempt_id: below => UUID, seen_oldest: *oldest => INT8, seen_next: *next => INT8,
            seen_open: *open => INT8_ARRAY, until_next: until_next => INT8, until_open: until_open => INT8_ARRAY,
            limit: self.limit as i64 => INT8,
        ];
        let rows = self.connection.read(&FEED_FACTS, params).await?;
        if until.is_none() {
            *until = Snapshot::of_server(rows.value("snapshot")?);
        }
        Ok(rows)
    }

    /// Events from there on, after what was found already; at the end of them, holds.
    async fn events(
        self,
        mut entries: Vec<FeedEntry>,
        mut from: EventId,
        until_at: Timestamp,
        until: Snapshot,
    ) -> Result<FeedPage, StoreError> {
        let mut found = 0;
        if self.events {
            let Snapshot { oldest, next, open } = &self.seen;
            let params = params![
                account_ids: self.accounts => UUID_ARRAY, from_event_id: from.uuid() => UUID,
                seen_oldest: *oldest => INT8, seen_next: *next => INT8, seen_open: *open => INT8_ARRAY,
                until_next: until.next => INT8, until_open: until.open => INT8_ARRAY,
                limit: self.limit as i64 => INT8,
            ];
            let rows = self.connection.read(&FEED_EVENTS, params).await?;
            found = rows.len();
            rows.all(|cells| {
                let event = Event { tags: tags::read(cells.get("tags")?), ..rows::event(cells)? };
                from = EventId::from_uuid(Uuid::from_u128(event.id.uuid().as_u128().saturating_add(1)));
                let size_bytes: u32 = cells.get("size_bytes")?;
                let account_id = event.account_id;
                let (deliveries, others) = (cells.get("deliveries")?, cells.get("other_routes")?);
                let others = other_routes::unpacked(others);
                let record = EventRecord::received(event, size_bytes.into(), deliveries, others);
                entries.push(FeedEntry {
                    account_id,
                    place: self.within(until_at, &until, RoundStage::Events { from }),
                    stamp: stamp(cells)?,
                    change: FeedChange::Event(Box::new(record)),
                });
                Ok(())
            })?;
        }
        if found == self.limit {
            let next = self.within(until_at, &until, RoundStage::Events { from });
            return Ok(FeedPage { entries, next, more: true });
        }
        self.holds(entries, (0, DestinationId::MIN), until_at, until).await
    }

    /// Holds behind that one, after what was found already; then the round is over.
    async fn holds(
        self,
        mut entries: Vec<FeedEntry>,
        (changed_at, destination): (i64, DestinationId),
        until_at: Timestamp,
        until: Snapshot,
    ) -> Result<FeedPage, StoreError> {
        let Snapshot { oldest, next, open } = &self.seen;
        let since = self.at.minus(limits::FEED_LOOKBACK).micros();
        let params = params![
            account_ids: self.accounts => UUID_ARRAY, changed_since: since => INT8,
            after_changed_at: changed_at => INT8, after_destination_id: destination.uuid() => UUID,
            seen_oldest: *oldest => INT8, seen_next: *next => INT8, seen_open: *open => INT8_ARRAY,
            until_next: until.next => INT8, until_open: until.open => INT8_ARRAY,
            limit: self.limit as i64 => INT8,
        ];
        let rows = self.connection.read(&FEED_HOLDS, params).await?;
        let changes: Vec<(i64, DestinationId)> =
            rows.all(|cells| Ok((cells.get("changed_at")?, cells.get("destination_id")?)))?;
        let (mut after, mut index) = ((changed_at, destination), 0);
        rows.all(|cells| {
            // Those that changed together are behind one only when all of them are.
            if changes.get(index + 1) != Some(&changes[index]) {
                after = changes[index];
            }
            index += 1;
            let Some(hold) = gates::hold(cells)? else { return Ok(()) };
            entries.push(FeedEntry {
                account_id: cells.get("account_id")?,
                place: self.within(until_at, &until, RoundStage::Holds { after }),
                stamp: stamp(cells)?,
                change: FeedChange::Hold(cells.get("destination_id")?, hold),
            });
            Ok(())
        })?;
        if rows.len() >= self.limit {
            let next = self.within(until_at, &until, RoundStage::Holds { after });
            return Ok(FeedPage { entries, next, more: true });
        }
        let next = FeedPlace::snapshot(until_at, until);
        if let Some(last) = entries.last_mut() {
            last.place = next.clone();
        }
        Ok(FeedPage { entries, next, more: false })
    }

    fn within(&self, at: Timestamp, until: &Snapshot, stage: RoundStage) -> FeedPlace {
        let round = Some(FeedRound { at, until: until.clone(), stage });
        FeedPlace { at: self.at, seen: FeedProgress::Snapshots { seen: self.seen.clone(), round } }
    }
}

/// The transaction that wrote it.
fn stamp(cells: &mut Cells<'_, '_>) -> Result<FeedStamp, Unreadable> {
    Ok(FeedStamp(WriteNumber::Transaction(cells.get("written_by")?)))
}

fn fact(cells: &mut Cells<'_, '_>) -> Result<FactRecord, Unreadable> {
    Ok(FactRecord {
        delivery_id: cells.get("delivery_id")?,
        event_id: cells.get("event_id")?,
        event_type: cells.get("event_type")?,
        source_id: cells.get("source_id")?,
        ordering_key: cells.get("ordering_key")?,
        route_id: cells.get("route_id")?,
        destination_id: cells.get("destination_id")?,
        replay_id: cells.get("replay_id")?,
        origin: cells.get("origin")?,
        attempts: cells.get("attempts")?,
        spent: cells.get("spent")?,
        sequence: cells.get("sequence")?,
        outcome: cells.known_word("outcome")?,
        http_status: cells.get("http_status")?,
        attempt: attempt(cells)?,
        ending: cells.known_ending()?.zip(cells.get("ended_at")?),
        next_attempt_at: cells.get("next_attempt_at")?,
    })
}

/// None: an ending without one.
fn attempt(cells: &mut Cells<'_, '_>) -> Result<Option<FactAttempt>, Unreadable> {
    let (number, started_at): (Option<u32>, Option<Timestamp>) =
        (cells.get("number")?, cells.get("started_at")?);
    let Some((_, started_at)) = number.zip(started_at) else { return Ok(None) };
    let micros = cells.get::<Option<i64>>("duration_us")?.unwrap_or_default().unsigned_abs();
    let (id, duration) = (cells.get("attempt_id")?, Duration::from_micros(micros));
    Ok(Some(FactAttempt { id, started_at, duration }))
}
