//! What has just happened, from one snapshot to the next: see [`crate::feed`]. Every statement here is run for a
//! listener, and none is run while there is none.

use super::{
    PostgresStore,
    gates::HoldRow,
    pool::Connection,
    rows::{EventRow, Rows, row},
    statement::{Statement, params, sql},
};
use crate::{
    EventRecord, FactAttempt, FactRecord, Feed, FeedChange, FeedEntry, FeedPage, FeedPlace, FeedStamp,
    Followed, Resumption, StoreError,
    feed::{FeedProgress, FeedRound, RoundStage, Snapshot, Written},
};
use async_trait::async_trait;
use domain::{
    delivery::Ending,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
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
            let stamps = found.joined::<StampRow>("attempt_id")?;
            for (stamp, row) in stamps.into_iter().zip(found.joined::<FactRow>("attempt_id")?) {
                let id = row.attempt_id.uuid();
                from = AttemptId::from_uuid(Uuid::from_u128(id.as_u128().saturating_add(1)));
                entries.push(FeedEntry {
                    account_id: stamp.account_id,
                    place: at(RoundStage::Facts { from }),
                    stamp: FeedStamp(Written::By(stamp.written_by)),
                    change: FeedChange::Delivery(Box::new(row.fact())),
                });
            }
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
            for (row, event) in rows.each::<ReceivedRow>()?.zip(rows.each::<EventRow>()?) {
                let (ReceivedRow { deliveries, size_bytes, written_by }, event) = (row?, event?.event());
                from = EventId::from_uuid(Uuid::from_u128(event.id.uuid().as_u128().saturating_add(1)));
                entries.push(FeedEntry {
                    account_id: event.account_id,
                    place: self.within(until_at, &until, RoundStage::Events { from }),
                    stamp: FeedStamp(Written::By(written_by)),
                    change: FeedChange::Event(Box::new(EventRecord::received(
                        event,
                        size_bytes.into(),
                        deliveries,
                    ))),
                });
            }
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
        let changes: Vec<HoldChangeRow> = rows.all()?;
        let mut after = (changed_at, destination);
        for (index, hold) in rows.each::<HoldRow>()?.enumerate() {
            let change = &changes[index];
            // Those that changed together are behind one only when all of them are.
            if changes.get(index + 1).is_none_or(|later| later.key() != change.key()) {
                after = change.key();
            }
            let Some(hold) = hold?.hold() else { continue };
            entries.push(FeedEntry {
                account_id: change.account_id,
                place: self.within(until_at, &until, RoundStage::Holds { after }),
                stamp: FeedStamp(Written::By(change.written_by)),
                change: FeedChange::Hold(change.destination_id, hold),
            });
        }
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

row! {
    /// Whose fact it is, and the transaction that wrote it.
    struct StampRow {
        account_id: AccountId,
        written_by: i64,
    }
}

row! {
    struct FactRow<'r> {
        attempt_id: AttemptId,
        delivery_id: DeliveryId,
        event_id: EventId,
        event_type: String,
        source_id: Option<SourceId>,
        ordering_key: Option<String>,
        route_id: RouteId,
        destination_id: DestinationId,
        replay_id: Option<ReplayId>,
        origin: DeliveryId,
        /// None: nothing was attempted.
        number: Option<u32>,
        attempts: u32,
        spent: u32,
        outcome: Option<&'r str>,
        http_status: Option<u16>,
        started_at: Option<Timestamp>,
        duration_us: Option<i64>,
        ending: Option<&'r str>,
        reason: Option<&'r str>,
        ended_at: Option<Timestamp>,
        sequence: Option<i64>,
        next_attempt_at: Option<Timestamp>,
    }
}

impl FactRow<'_> {
    fn fact(self) -> FactRecord {
        let attempt = self.number.zip(self.started_at).map(|(_, started_at)| FactAttempt {
            id: self.attempt_id,
            started_at,
            duration: Duration::from_micros(self.duration_us.unwrap_or_default().unsigned_abs()),
        });
        let ending = self.ending.and_then(|word| Ending::read(word, self.reason));
        FactRecord {
            delivery_id: self.delivery_id,
            event_id: self.event_id,
            event_type: self.event_type,
            source_id: self.source_id,
            ordering_key: self.ordering_key,
            route_id: self.route_id,
            destination_id: self.destination_id,
            replay_id: self.replay_id,
            origin: self.origin,
            attempts: self.attempts,
            spent: self.spent,
            sequence: self.sequence,
            outcome: self.outcome.and_then(|word| word.parse().ok()),
            http_status: self.http_status,
            attempt,
            ending: ending.zip(self.ended_at),
            next_attempt_at: self.next_attempt_at,
        }
    }
}

row! {
    struct ReceivedRow {
        deliveries: Option<u32>,
        size_bytes: u32,
        written_by: i64,
    }
}

row! {
    struct HoldChangeRow {
        changed_at: i64,
        destination_id: DestinationId,
        account_id: AccountId,
        written_by: i64,
    }
}

impl HoldChangeRow {
    fn key(&self) -> (i64, DestinationId) {
        (self.changed_at, self.destination_id)
    }
}
