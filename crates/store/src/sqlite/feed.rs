//! What has just happened. One process writes, so rows are numbered in the order of commits: events and facts by their
//! row, holds by when they changed, which never is the same moment twice.

use super::{SqliteStore, gates, row, trouble::Trouble};
use crate::{
    EventRecord, FactAttempt, FactRecord, Fed, Feed, Followed, Fresh, Place, Resumption, Stamp, StoreError,
    What,
    feed::{Numbers, Seen, Written},
};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    id::{AccountId, AttemptId, EventId},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::time::Duration;

pub(super) const FACTS: &str = include_str!("sql/feed_facts.sql");
pub(super) const HOLDS: &str =
    "select h.reason, h.since, h.until, h.detail, h.step, h.ended_at, h.changed_at, h.destination_id, d.account_id
     from holds h left join destinations d on d.id = h.destination_id
     where h.changed_at > ?1 order by h.changed_at limit ?2";
pub(super) const EVENTS: &str =
    "select id, account_id, source_id, type, idempotency_key, content_type, ordering_key, received_at, deliver_at, headers,
       metadata, size_bytes, deliveries, rowid
     from events where rowid > ?1 order by rowid limit ?2";
const ENDS: &str = "select coalesce((select max(rowid) from attempts), 0),
       coalesce((select max(changed_at) from holds), 0), coalesce((select max(rowid) from events), 0)";

#[async_trait]
impl Feed for SqliteStore {
    async fn feed_end(&self, now: Timestamp) -> Result<Place, StoreError> {
        self.read(move |connection| {
            let last = ends(connection)?;
            Ok(Place::numbers(now, last))
        })
        .await
    }

    async fn feed_place(&self, text: &str) -> Result<Resumption, StoreError> {
        let Some(place) = Place::parse(text) else { return Ok(Resumption::Malformed) };
        let Seen::Numbers(seen) = place.seen else { return Ok(Resumption::Lost) };
        self.read(move |connection| {
            let last = ends(connection)?;
            let there = seen.fact <= last.fact && seen.hold <= last.hold && seen.event <= last.event;
            let known = there && !renumbered(connection, seen, place.at)?;
            Ok(if known { Resumption::At(place) } else { Resumption::Lost })
        })
        .await
    }

    async fn feed(
        &self,
        Followed { accounts, events }: Followed<'_>,
        after: &Place,
        limit: usize,
        now: Timestamp,
    ) -> Result<Fed, StoreError> {
        let (accounts, at) = (accounts.to_vec(), after.at);
        let Seen::Numbers(seen) = after.seen else {
            return Err(StoreError::Refused("a place of another store".into()));
        };
        self.read(move |connection| {
            // Where retention took the newest rows, their numbers come again.
            let last = ends(connection)?;
            let seen = Numbers { fact: seen.fact.min(last.fact), event: seen.event.min(last.event), ..seen };
            let mut walk = Walk { accounts, at, seen, fresh: Vec::new() };
            let mut looked_at = vec![walk.facts(connection, limit)?];
            if events {
                looked_at.push(walk.events(connection, limit)?);
            } else {
                walk.seen.event = last.event;
            }
            looked_at.push(walk.holds(connection, limit)?);
            let more = looked_at.contains(&limit);
            let Walk { seen, fresh, .. } = walk;
            Ok(Fed { fresh, next: Place::numbers(if more { at } else { now }, seen), more })
        })
        .await
    }

    async fn feed_stirred(&self) {
        self.stir.heard().await;
    }
}

fn ends(connection: &Connection) -> Result<Numbers, Trouble> {
    let numbers = |row: &Row<'_>| Ok(Numbers { fact: row.get(0)?, hold: row.get(1)?, event: row.get(2)? });
    Ok(connection.prepare_cached(ENDS)?.query_row([], numbers)?)
}

/// Whether rows have other numbers than when this place was made, as after a VACUUM: then what was the last row began
/// later than that.
fn renumbered(connection: &Connection, seen: Numbers, at: Timestamp) -> Result<bool, Trouble> {
    let mut select = connection.prepare_cached("select attempt_id from attempts where rowid = ?1")?;
    let fact: Option<AttemptId> = select.query_row([seen.fact], |row| row::id(row, 0)).optional()?;
    let mut select = connection.prepare_cached("select id from events where rowid = ?1")?;
    let event: Option<EventId> = select.query_row([seen.event], |row| row::id(row, 0)).optional()?;
    let latest = at.plus(domain::limits::FEED_LOOKBACK);
    Ok(fact.is_some_and(|last| last.made_at() > latest) || event.is_some_and(|last| last.made_at() > latest))
}

/// Goes over rows of whomever and keeps what is asked for.
struct Walk {
    accounts: Vec<AccountId>,
    at: Timestamp,
    seen: Numbers,
    fresh: Vec<Fresh>,
}

impl Walk {
    fn facts(&mut self, connection: &Connection, limit: usize) -> Result<usize, Trouble> {
        let mut select = connection.prepare_cached(FACTS)?;
        let mut rows = select.query(params![self.seen.fact, limit as i64])?;
        let mut looked_at = 0;
        while let Some(row) = rows.next()? {
            looked_at += 1;
            self.seen.fact = row.get(0)?;
            let account = row::id(row, 1)?;
            if self.accounts.contains(&account) && !row.get::<_, bool>(20)? {
                self.keep(account, Written::Fact(self.seen.fact), What::Delivery(Box::new(fact(row)?)));
            }
        }
        Ok(looked_at)
    }

    fn events(&mut self, connection: &Connection, limit: usize) -> Result<usize, Trouble> {
        let mut select = connection.prepare_cached(EVENTS)?;
        let mut rows = select.query(params![self.seen.event, limit as i64])?;
        let mut looked_at = 0;
        while let Some(row) = rows.next()? {
            looked_at += 1;
            self.seen.event = row.get(13)?;
            let account = row::id(row, 1)?;
            if self.accounts.contains(&account) {
                let size = row.get::<_, i64>(11)?.unsigned_abs();
                let record = EventRecord::received(row::event(row, Bytes::new())?, size, row.get(12)?);
                self.keep(account, Written::Event(self.seen.event), What::Event(Box::new(record)));
            }
        }
        Ok(looked_at)
    }

    fn holds(&mut self, connection: &Connection, limit: usize) -> Result<usize, Trouble> {
        let mut select = connection.prepare_cached(HOLDS)?;
        let mut rows = select.query(params![self.seen.hold, limit as i64])?;
        let mut looked_at = 0;
        while let Some(row) = rows.next()? {
            looked_at += 1;
            self.seen.hold = row.get(6)?;
            let account: Option<AccountId> = row::maybe_id(row, 8)?;
            if let Some(account) = account.filter(|account| self.accounts.contains(account))
                && let Some(entry) = gates::hold(row)?
            {
                self.keep(account, Written::Hold(self.seen.hold), What::Hold(row::id(row, 7)?, entry));
            }
        }
        Ok(looked_at)
    }

    fn keep(&mut self, account_id: AccountId, written: Written, what: What) {
        let place = Place::numbers(self.at, self.seen);
        self.fresh.push(Fresh { account_id, place, stamp: Stamp(written), what });
    }
}

fn fact(row: &Row<'_>) -> Result<FactRecord, Trouble> {
    let attempt = match row.get::<_, Option<u32>>(9)? {
        Some(_) => Some(FactAttempt {
            id: row::id(row, 3)?,
            started_at: row::time(row, 14)?,
            duration: Duration::from_micros(row.get::<_, i64>(15)?.unsigned_abs()),
        }),
        None => None,
    };
    let ending = match row::maybe_time(row, 18)? {
        Some(at) => Some((row::ending(row, 16, 17)?, at)),
        None => None,
    };
    Ok(FactRecord {
        delivery_id: row::id(row, 2)?,
        event_id: row::id(row, 4)?,
        event_type: row.get(21)?,
        source_id: row::maybe_id(row, 22)?,
        ordering_key: row.get(23)?,
        route_id: row::id(row, 5)?,
        destination_id: row::id(row, 6)?,
        replay_id: row::maybe_id(row, 7)?,
        origin: row::id(row, 8)?,
        attempts: row.get(10)?,
        spent: row.get(11)?,
        sequence: row.get(19)?,
        outcome: row::maybe_outcome(row, 12)?,
        http_status: row.get(13)?,
        attempt,
        ending,
        next_attempt_at: row::maybe_time(row, 24)?,
    })
}
