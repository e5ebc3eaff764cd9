//! What has just happened. One process writes, so rows are numbered in the order of commits: facts by their row, holds by
//! when they changed, which never is the same moment twice.

use super::{SqliteStore, gates, row, trouble::Trouble};
use crate::{
    FactAttempt, FactRecord, Fed, Feed, Fresh, Place, Resumption, Stamp, StoreError, What,
    feed::{Seen, Written},
};
use async_trait::async_trait;
use domain::{
    id::{AccountId, AttemptId},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::time::Duration;

pub(super) const FACTS: &str = include_str!("sql/feed_facts.sql");
pub(super) const HOLDS: &str =
    "select h.reason, h.since, h.until, h.detail, h.step, h.ended_at, h.changed_at, h.destination_id, d.account_id
     from holds h left join destinations d on d.id = h.destination_id
     where h.changed_at > ?1 order by h.changed_at limit ?2";
const ENDS: &str = "select coalesce((select max(rowid) from attempts), 0),
       coalesce((select max(changed_at) from holds), 0)";

#[async_trait]
impl Feed for SqliteStore {
    async fn feed_end(&self, now: Timestamp) -> Result<Place, StoreError> {
        self.read(move |connection| {
            let (fact, hold) = ends(connection)?;
            Ok(Place::numbers(now, fact, hold))
        })
        .await
    }

    async fn feed_place(&self, text: &str) -> Result<Resumption, StoreError> {
        let Some(place) = Place::parse(text) else { return Ok(Resumption::Malformed) };
        let Seen::Numbers { fact, hold } = place.seen else { return Ok(Resumption::Lost) };
        self.read(move |connection| {
            let (last_fact, last_hold) = ends(connection)?;
            let known = fact <= last_fact && hold <= last_hold && !renumbered(connection, fact, place.at)?;
            Ok(if known { Resumption::At(place) } else { Resumption::Lost })
        })
        .await
    }

    async fn feed(
        &self,
        accounts: &[AccountId],
        after: &Place,
        limit: usize,
        now: Timestamp,
    ) -> Result<Fed, StoreError> {
        let (accounts, at) = (accounts.to_vec(), after.at);
        let Seen::Numbers { fact, hold } = after.seen else {
            return Err(StoreError::Refused("a place of another store".into()));
        };
        self.read(move |connection| {
            let mut walk = Walk { accounts, at, fact, hold, fresh: Vec::new() };
            let facts = walk.facts(connection, limit)?;
            let holds = walk.holds(connection, limit)?;
            let more = facts == limit || holds == limit;
            let Walk { fact, hold, fresh, .. } = walk;
            Ok(Fed { fresh, next: Place::numbers(if more { at } else { now }, fact, hold), more })
        })
        .await
    }

    async fn feed_stirred(&self) {
        self.stir.heard().await;
    }
}

fn ends(connection: &Connection) -> Result<(i64, i64), Trouble> {
    Ok(connection.prepare_cached(ENDS)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

/// Whether rows have other numbers than when this place was made, as after a VACUUM: then what was the last row began
/// later than that.
fn renumbered(connection: &Connection, fact: i64, at: Timestamp) -> Result<bool, Trouble> {
    let mut select = connection.prepare_cached("select attempt_id from attempts where rowid = ?1")?;
    let last: Option<AttemptId> = select.query_row([fact], |row| row::id(row, 0)).optional()?;
    Ok(last.is_some_and(|last| last.made_at() > at.plus(domain::limits::FEED_LOOKBACK)))
}

/// Goes over rows of whomever and keeps what is asked for.
struct Walk {
    accounts: Vec<AccountId>,
    at: Timestamp,
    fact: i64,
    hold: i64,
    fresh: Vec<Fresh>,
}

impl Walk {
    fn facts(&mut self, connection: &Connection, limit: usize) -> Result<usize, Trouble> {
        let mut select = connection.prepare_cached(FACTS)?;
        let mut rows = select.query(params![self.fact, limit as i64])?;
        let mut looked_at = 0;
        while let Some(row) = rows.next()? {
            looked_at += 1;
            self.fact = row.get(0)?;
            let account = row::id(row, 1)?;
            if self.accounts.contains(&account) && !row.get::<_, bool>(20)? {
                self.keep(account, Written::Fact(self.fact), What::Delivery(Box::new(fact(row)?)));
            }
        }
        Ok(looked_at)
    }

    fn holds(&mut self, connection: &Connection, limit: usize) -> Result<usize, Trouble> {
        let mut select = connection.prepare_cached(HOLDS)?;
        let mut rows = select.query(params![self.hold, limit as i64])?;
        let mut looked_at = 0;
        while let Some(row) = rows.next()? {
            looked_at += 1;
            self.hold = row.get(6)?;
            let account: Option<AccountId> = row::maybe_id(row, 8)?;
            if let Some(account) = account.filter(|account| self.accounts.contains(account))
                && let Some(entry) = gates::hold(row)?
            {
                self.keep(account, Written::Hold(self.hold), What::Hold(row::id(row, 7)?, entry));
            }
        }
        Ok(looked_at)
    }

    fn keep(&mut self, account_id: AccountId, written: Written, what: What) {
        let place = Place::numbers(self.at, self.fact, self.hold);
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
