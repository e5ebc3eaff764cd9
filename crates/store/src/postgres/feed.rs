//! What has just happened, from one snapshot to the next: see [`crate::feed`]. No statement here is anybody's but a
//! listener's, and none is run while there is none.

use super::{
    PostgresStore, gates,
    pool::{Connection, params},
    rows,
};
use crate::{
    EventRecord, FactAttempt, FactRecord, Fed, Feed, Followed, Fresh, Place, Resumption, Stamp, StoreError,
    What,
    feed::{Round, Seen, Snapshot, Stage, Written},
};
use async_trait::async_trait;
use domain::{
    delivery::Ending,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
    limits,
    time::Timestamp,
};
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const FACTS: &str = include_str!("sql/feed_facts.sql");
pub(super) const EVENTS: &str = include_str!("sql/feed_events.sql");
pub(super) const HOLDS: &str = include_str!("sql/feed_holds.sql");

#[async_trait]
impl Feed for PostgresStore {
    async fn feed_end(&self, now: Timestamp) -> Result<Place, StoreError> {
        Ok(Place::snapshot(now, current(&self.pools.general().await?).await?))
    }

    async fn feed_place(&self, text: &str) -> Result<Resumption, StoreError> {
        let Some(place) = Place::parse(text) else { return Ok(Resumption::Malformed) };
        let current = current(&self.pools.general().await?).await?;
        let newest = match &place.seen {
            Seen::Numbers(_) => return Ok(Resumption::Lost),
            Seen::Snapshots { seen, round } => round.as_ref().map_or(seen.next, |round| round.until.next),
        };
        // Of transactions that have not begun yet: another database, or this one as it was before.
        Ok(if newest <= current.next { Resumption::At(place) } else { Resumption::Lost })
    }

    async fn feed(
        &self,
        followed: Followed<'_>,
        after: &Place,
        limit: usize,
        now: Timestamp,
    ) -> Result<Fed, StoreError> {
        let Seen::Snapshots { seen, round } = &after.seen else {
            return Err(StoreError::Refused("a place of another store".into()));
        };
        let read = Reading {
            connection: self.pools.general().await?,
            accounts: followed.accounts.iter().map(|id| id.uuid()).collect(),
            events: followed.events,
            at: after.at,
            seen: seen.clone(),
            limit,
        };
        match round.clone() {
            Some(Round { at, until, stage: Stage::Facts { from } }) => {
                read.facts(from, at, Some(until)).await
            }
            Some(Round { at, until, stage: Stage::Events { from } }) => {
                read.events(Vec::new(), from, at, until).await
            }
            Some(Round { at, until, stage: Stage::Holds { after } }) => {
                read.holds(Vec::new(), after, at, until).await
            }
            None => {
                let from = AttemptId::at(after.at.minus(limits::FEED_LOOKBACK), 0);
                read.facts(from, now, None).await
            }
        }
    }

    async fn feed_stirred(&self) {
        self.stir.heard().await;
    }
}

async fn current(connection: &Connection) -> Result<Snapshot, StoreError> {
    let row = connection.read("select pg_current_snapshot()::text", &[]).await?.into_iter().next();
    row.and_then(|row| Snapshot::of_server(row.get(0))).ok_or_else(unreadable)
}

fn unreadable() -> StoreError {
    StoreError::Unavailable("the server's snapshot does not read as one".into())
}

/// A page of the feed being read.
struct Reading {
    connection: Connection,
    accounts: Vec<Uuid>,
    events: bool,
    at: Timestamp,
    seen: Snapshot,
    limit: usize,
}

impl Reading {
    /// Facts of attempts from there on, a span of time in each statement; at the end of them, events.
    async fn facts(
        self,
        mut from: AttemptId,
        until_at: Timestamp,
        mut until: Option<Snapshot>,
    ) -> Result<Fed, StoreError> {
        let mut span = limits::FEED_SPAN;
        for _ in 0..limits::FEED_SPANS {
            let end = from.made_at().plus(span);
            let below = (end < until_at).then(|| AttemptId::at(end, 0));
            let found = self.facts_between(from, below, &mut until).await?;
            let until = until.clone().ok_or_else(unreadable)?;
            let at = |stage| self.within(until_at, &until, stage);
            let mut fresh = Vec::with_capacity(found.len());
            for row in &found {
                let id = AttemptId::from_uuid(row.get(4));
                from = AttemptId::from_uuid(Uuid::from_u128(id.uuid().as_u128().saturating_add(1)));
                fresh.push(Fresh {
                    account_id: AccountId::from_uuid(row.get(2)),
                    place: at(Stage::Facts { from }),
                    stamp: Stamp(Written::By(row.get(1))),
                    what: What::Delivery(Box::new(fact(row))),
                });
            }
            match below {
                _ if fresh.len() == self.limit => {
                    return Ok(Fed { fresh, next: at(Stage::Facts { from }), more: true });
                }
                None => {
                    let from = EventId::at(self.at.minus(limits::FEED_LOOKBACK), 0);
                    return self.events(fresh, from, until_at, until).await;
                }
                Some(below) if !fresh.is_empty() => {
                    return Ok(Fed { fresh, next: at(Stage::Facts { from: below }), more: true });
                }
                Some(below) => from = below,
            }
            span = (span * 2).min(limits::FEED_SPAN_MAX);
        }
        let until = until.ok_or_else(unreadable)?;
        let next = self.within(until_at, &until, Stage::Facts { from });
        Ok(Fed { fresh: Vec::new(), next, more: true })
    }

    async fn facts_between(
        &self,
        from: AttemptId,
        below: Option<AttemptId>,
        until: &mut Option<Snapshot>,
    ) -> Result<Vec<Row>, StoreError> {
        let Snapshot { oldest, next, open } = &self.seen;
        let (until_next, until_open) = until.clone().map(|until| (until.next, until.open)).unzip();
        let (from, below) = (from.uuid(), below.map(|below| below.uuid()));
        let params = params![
            self.accounts => UUID_ARRAY, from => UUID, below => UUID, *oldest => INT8, *next => INT8,
            *open => INT8_ARRAY, until_next => INT8, until_open => INT8_ARRAY, self.limit as i64 => INT8,
        ];
        let mut rows = self.connection.read(FACTS, params).await?;
        if until.is_none() {
            *until = rows.first().and_then(|row| Snapshot::of_server(row.get(0)));
        }
        rows.retain(|row| row.get::<_, Option<Uuid>>(4).is_some());
        Ok(rows)
    }

    /// Events from there on, after what was found already; at the end of them, holds.
    async fn events(
        self,
        mut fresh: Vec<Fresh>,
        mut from: EventId,
        until_at: Timestamp,
        until: Snapshot,
    ) -> Result<Fed, StoreError> {
        let mut found = Vec::new();
        if self.events {
            let Snapshot { oldest, next, open } = &self.seen;
            let params = params![
                self.accounts => UUID_ARRAY, from.uuid() => UUID, *oldest => INT8, *next => INT8,
                *open => INT8_ARRAY, until.next => INT8, until.open => INT8_ARRAY, self.limit as i64 => INT8,
            ];
            found = self.connection.read(EVENTS, params).await?;
        }
        for row in &found {
            let event = rows::event(row);
            from = EventId::from_uuid(Uuid::from_u128(event.id.uuid().as_u128().saturating_add(1)));
            let deliveries = row.get::<_, Option<i32>>(11).map(i32::unsigned_abs);
            fresh.push(Fresh {
                account_id: event.account_id,
                place: self.within(until_at, &until, Stage::Events { from }),
                stamp: Stamp(Written::By(row.get(13))),
                what: What::Event(Box::new(EventRecord::received(
                    event,
                    rows::count(row, 12).into(),
                    deliveries,
                ))),
            });
        }
        if found.len() == self.limit {
            let next = self.within(until_at, &until, Stage::Events { from });
            return Ok(Fed { fresh, next, more: true });
        }
        self.holds(fresh, (0, DestinationId::MIN), until_at, until).await
    }

    /// Holds behind that one, after what was found already; then the round is over.
    async fn holds(
        self,
        mut fresh: Vec<Fresh>,
        (changed_at, destination): (i64, DestinationId),
        until_at: Timestamp,
        until: Snapshot,
    ) -> Result<Fed, StoreError> {
        let Snapshot { oldest, next, open } = &self.seen;
        let since = self.at.minus(limits::FEED_LOOKBACK).micros();
        let params = params![
            self.accounts => UUID_ARRAY, since => INT8, changed_at => INT8, destination.uuid() => UUID,
            *oldest => INT8, *next => INT8, *open => INT8_ARRAY, until.next => INT8, until.open => INT8_ARRAY,
            self.limit as i64 => INT8,
        ];
        let rows = self.connection.read(HOLDS, params).await?;
        let key = |row: &Row| (row.get::<_, i64>(7), DestinationId::from_uuid(row.get(8)));
        let mut after = (changed_at, destination);
        for (index, row) in rows.iter().enumerate() {
            // Those that changed together are behind one only when all of them are.
            if rows.get(index + 1).is_none_or(|later| key(later) != key(row)) {
                after = key(row);
            }
            let Some(hold) = gates::hold(row) else { continue };
            fresh.push(Fresh {
                account_id: AccountId::from_uuid(row.get(9)),
                place: self.within(until_at, &until, Stage::Holds { after }),
                stamp: Stamp(Written::By(row.get(6))),
                what: What::Hold(DestinationId::from_uuid(row.get(8)), hold),
            });
        }
        if rows.len() >= self.limit {
            let next = self.within(until_at, &until, Stage::Holds { after });
            return Ok(Fed { fresh, next, more: true });
        }
        let next = Place::snapshot(until_at, until);
        if let Some(last) = fresh.last_mut() {
            last.place = next.clone();
        }
        Ok(Fed { fresh, next, more: false })
    }

    fn within(&self, at: Timestamp, until: &Snapshot, stage: Stage) -> Place {
        let round = Some(Round { at, until: until.clone(), stage });
        Place { at: self.at, seen: Seen::Snapshots { seen: self.seen.clone(), round } }
    }
}

fn fact(row: &Row) -> FactRecord {
    let attempt = row.get::<_, Option<i32>>(10).map(|_| FactAttempt {
        id: AttemptId::from_uuid(row.get(4)),
        started_at: rows::time(row, 15),
        duration: Duration::from_micros(row.get::<_, i64>(16).unsigned_abs()),
    });
    let ending = row.get::<_, Option<&str>>(17).and_then(|word| Ending::read(word, row.get(18)));
    FactRecord {
        delivery_id: DeliveryId::from_uuid(row.get(3)),
        event_id: EventId::from_uuid(row.get(5)),
        event_type: row.get(21),
        source_id: row.get::<_, Option<Uuid>>(22).map(SourceId::from_uuid),
        ordering_key: row.get(23),
        route_id: RouteId::from_uuid(row.get(6)),
        destination_id: DestinationId::from_uuid(row.get(7)),
        replay_id: row.get::<_, Option<Uuid>>(8).map(ReplayId::from_uuid),
        origin: DeliveryId::from_uuid(row.get(9)),
        attempts: rows::count(row, 11),
        spent: rows::count(row, 12),
        sequence: row.get(20),
        outcome: row.get::<_, Option<&str>>(13).and_then(|word| word.parse().ok()),
        http_status: rows::http_status(row, 14),
        attempt,
        ending: ending.zip(rows::optional_time(row, 19)),
        next_attempt_at: rows::optional_time(row, 24),
    }
}
