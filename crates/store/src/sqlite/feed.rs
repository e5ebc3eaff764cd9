//! What has just happened. One process writes, so rows are numbered in the order of commits: events and facts by their
//! row, holds by when they changed, which never is the same moment twice.

use super::{
    SqliteStore, gates,
    rows::Columns,
    statement::{bound, sql},
    trouble::Trouble,
};
use crate::{
    EventRecord, FactAttempt, FactRecord, Feed, FeedChange, FeedEntry, FeedPage, FeedPlace, FeedStamp,
    Followed, Resumption, StoreError,
    feed::{FeedProgress, LastNumbers, WriteNumber},
    other_routes, tags,
};
use async_trait::async_trait;
use domain::{
    event::Event,
    id::{AccountId, AttemptId, EventId},
    time::Timestamp,
};
use rusqlite::Connection;
use std::ops::ControlFlow;

const FEED_END: &str = sql!("feed_end");
const FEED_FACTS: &str = sql!("feed_facts");
const FEED_EVENTS: &str = sql!("feed_events");
const FEED_HOLDS: &str = sql!("feed_holds");

#[async_trait]
impl Feed for SqliteStore {
    async fn feed_end(&self, now: Timestamp) -> Result<FeedPlace, StoreError> {
        self.read(move |connection| {
            let last = end(connection)?;
            Ok(FeedPlace::numbers(now, last))
        })
        .await
    }

    async fn feed_place(&self, text: &str) -> Result<Resumption, StoreError> {
        let Some(place) = FeedPlace::parse(text) else { return Ok(Resumption::Malformed) };
        let FeedProgress::Numbers(seen) = place.seen else { return Ok(Resumption::Lost) };
        self.read(move |connection| {
            let last = end(connection)?;
            let there = seen.fact <= last.fact && seen.hold <= last.hold && seen.event <= last.event;
            let known = there && !renumbered(connection, seen, place.at)?;
            Ok(if known { Resumption::At(place) } else { Resumption::Lost })
        })
        .await
    }

    async fn feed(
        &self,
        Followed { accounts, events }: Followed<'_>,
        after: &FeedPlace,
        limit: usize,
        now: Timestamp,
    ) -> Result<FeedPage, StoreError> {
        let (accounts, at) = (accounts.to_vec(), after.at);
        let FeedProgress::Numbers(seen) = after.seen else {
            return Err(StoreError::Refused("a place of another store".into()));
        };
        self.read(move |connection| {
            // Where retention took the newest rows, their numbers come again.
            let last = end(connection)?;
            let seen =
                LastNumbers { fact: seen.fact.min(last.fact), event: seen.event.min(last.event), ..seen };
            let mut walk = Walk { accounts, at, seen, entries: Vec::new() };
            let mut looked_at = vec![walk.facts(connection, limit)?];
            if events {
                looked_at.push(walk.events(connection, limit)?);
            } else {
                walk.seen.event = last.event;
            }
            looked_at.push(walk.holds(connection, limit)?);
            let more = looked_at.contains(&limit);
            let Walk { seen, entries, .. } = walk;
            Ok(FeedPage { entries, next: FeedPlace::numbers(if more { at } else { now }, seen), more })
        })
        .await
    }

    async fn feed_written(&self) {
        self.feed_signal.notified().await;
    }
}

fn end(connection: &Connection) -> Result<LastNumbers, Trouble> {
    bound!(FEED_END).one(connection, |columns| {
        Ok(LastNumbers { fact: columns.get()?, hold: columns.get()?, event: columns.get()? })
    })
}

/// Whether rows have other numbers than when this place was made, as after a VACUUM: then what was the last row began
/// later than that.
fn renumbered(connection: &Connection, seen: LastNumbers, at: Timestamp) -> Result<bool, Trouble> {
    let fact = bound!("select attempt_id from attempts where rowid = :row", row: seen.fact)
        .first(connection, |columns| Ok(columns.id::<AttemptId>()?))?;
    let event = bound!("select id from events where rowid = :row", row: seen.event)
        .first(connection, |columns| Ok(columns.id::<EventId>()?))?;
    let latest = at.plus(domain::limits::FEED_LOOKBACK);
    Ok(fact.is_some_and(|last| last.made_at() > latest) || event.is_some_and(|last| last.made_at() > latest))
}

/// Goes over the rows of all accounts and keeps those of the accounts that are followed.
struct Walk {
    accounts: Vec<AccountId>,
    at: Timestamp,
    seen: LastNumbers,
    entries: Vec<FeedEntry>,
}

impl Walk {
    fn facts(&mut self, connection: &Connection, limit: usize) -> Result<usize, Trouble> {
        let (mut looked_at, after) = (0, self.seen.fact);
        bound!(FEED_FACTS, after: after, limit: limit).each(connection, |columns| {
            looked_at += 1;
            self.seen.fact = columns.get()?;
            let (account, late): (_, bool) = (columns.id()?, columns.get()?);
            if self.accounts.contains(&account) && !late {
                let record = Box::new(fact(columns)?);
                self.keep(account, WriteNumber::Fact(self.seen.fact), FeedChange::Delivery(record));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(looked_at)
    }

    fn events(&mut self, connection: &Connection, limit: usize) -> Result<usize, Trouble> {
        let (mut looked_at, after) = (0, self.seen.event);
        bound!(FEED_EVENTS, after: after, limit: limit).each(connection, |columns| {
            looked_at += 1;
            self.seen.event = columns.get()?;
            // Of an event of another account no more is read than its account.
            let account = columns.clone().account_of_event()?;
            if self.accounts.contains(&account) {
                let (event, size_bytes, deliveries) = (columns.event()?, columns.count()?, columns.get()?);
                let others = other_routes::unpacked(columns.optional_blob()?);
                let event = Event { tags: tags::read(columns.optional_text()?), ..event };
                let record = EventRecord::received(event, size_bytes, deliveries, others);
                self.keep(account, WriteNumber::Event(self.seen.event), FeedChange::Event(Box::new(record)));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(looked_at)
    }

    fn holds(&mut self, connection: &Connection, limit: usize) -> Result<usize, Trouble> {
        let (mut looked_at, after) = (0, self.seen.hold);
        bound!(FEED_HOLDS, after: after, limit: limit).each(connection, |columns| {
            looked_at += 1;
            self.seen.hold = columns.get()?;
            let (account, destination) = (columns.optional_id()?, columns.id()?);
            if let Some(account) = account.filter(|account| self.accounts.contains(account))
                && let Some(entry) = gates::hold(columns)?
            {
                self.keep(account, WriteNumber::Hold(self.seen.hold), FeedChange::Hold(destination, entry));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(looked_at)
    }

    fn keep(&mut self, account_id: AccountId, written: WriteNumber, change: FeedChange) {
        let place = FeedPlace::numbers(self.at, self.seen);
        self.entries.push(FeedEntry { account_id, place, stamp: FeedStamp(written), change });
    }
}

impl Columns<'_> {
    /// Of one that begins with `id, account_id`.
    fn account_of_event(mut self) -> rusqlite::Result<AccountId> {
        self.id::<EventId>()?;
        self.id()
    }
}

fn fact(columns: &mut Columns<'_>) -> Result<FactRecord, Trouble> {
    Ok(FactRecord {
        delivery_id: columns.id()?,
        event_id: columns.id()?,
        event_type: columns.get()?,
        source_id: columns.optional_id()?,
        ordering_key: columns.get()?,
        route_id: columns.id()?,
        destination_id: columns.id()?,
        replay_id: columns.optional_id()?,
        origin: columns.id()?,
        attempts: columns.get()?,
        spent: columns.get()?,
        sequence: columns.get()?,
        outcome: columns.optional_outcome()?,
        http_status: columns.get()?,
        attempt: attempt(columns)?,
        ending: columns.optional_ending()?.zip(columns.optional_time()?),
        next_attempt_at: columns.optional_time()?,
    })
}

/// None: an ending without one.
fn attempt(columns: &mut Columns<'_>) -> Result<Option<FactAttempt>, Trouble> {
    let (id, started_at) = (columns.id()?, columns.optional_time()?);
    let times = started_at.zip(columns.optional_duration()?);
    Ok(times.map(|(started_at, duration)| FactAttempt { id, started_at, duration }))
}
