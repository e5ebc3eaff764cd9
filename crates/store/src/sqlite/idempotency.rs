//! Idempotency keys: written in the order they come, and indexed later, many at a time.
//!
//! A key is a hash. An index that followed every event would be written at random, a page for each of them, which was
//! a third of all writing. So the table is only appended to; what the index does not know yet is known here, in memory,
//! and read from the table's end at the next start. Memory says where to look, never what is there: the row decides,
//! so what was rolled back is simply not found.

use super::{
    Trouble,
    rows::Columns,
    statement::{bound, sql},
};
use crate::IdempotencyKey;
use domain::{
    id::{AccountId, EventId},
    limits,
    time::Timestamp,
};
use rusqlite::Connection;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

const CLAIM_KEY: &str = sql!("claim_key");
const UNINDEXED_KEYS: &str = sql!("unindexed_keys");
const KEYS_OF_ACCOUNT: &str = sql!("keys_of_account");
const OLDEST_KEYS: &str = sql!("oldest_keys");
pub(super) const KEY_BY_NUMBER: &str = sql!("key_by_number");
pub(super) const KEY_BY_FINGERPRINT: &str = sql!("key_by_fingerprint");
const INDEX_KEY: &str = "insert into idempotency_index (fingerprint, number) values (:fingerprint, :number) on conflict do nothing";
const UNLIST_KEY: &str =
    "delete from idempotency_index where fingerprint = :fingerprint and number = :number";
const FORGET_KEY: &str = "delete from idempotency where number = :number";
const INDEXED: &str = "update idempotency_indexed set up_to = :number";

/// A key that was used before, and by which event.
pub(super) struct UsedKey {
    number: i64,
    pub(super) event_id: EventId,
    pub(super) body_hash: [u8; 32],
}

pub(super) struct Keys {
    /// How many may be missing in the index before they are written to it.
    unindexed: usize,
    recent: Mutex<RecentKeys>,
}

/// What the index does not know, or not for sure.
struct RecentKeys {
    /// Numbers are never given twice while the process lives, whatever is rolled back.
    next: i64,
    /// Keys that the index does not know, and their numbers.
    unindexed: HashMap<u128, i64>,
    /// Keys on their way into the index.
    leaving: HashMap<u128, i64>,
    /// The same by fingerprint, as they are written; those before `written` are durable.
    sorted: Vec<(i64, i64)>,
    written: usize,
    /// Counts how often keys have left.
    departure: u64,
}

/// How far the index has come with a transaction; to be told to [`Keys::flushed`] after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    departure: u64,
    written: usize,
}

impl Keys {
    /// Reads what the index does not know yet, and indexes it if that is more than memory should hold.
    pub(super) fn open(connection: &Connection, unindexed: usize) -> Result<Self, Trouble> {
        loop {
            let indexed: i64 = bound!("select up_to from idempotency_indexed")
                .one(connection, |columns| Ok(columns.get()?))?;
            let found = bound!(UNINDEXED_KEYS, after: indexed, limit: unindexed)
                .all(connection, |columns| Ok((columns.hint()?, columns.get()?)))?;
            let last = found.last().map_or(indexed, |(_, number)| *number);
            if found.len() < unindexed {
                let recent = RecentKeys {
                    next: last + 1,
                    unindexed: found.into_iter().collect(),
                    leaving: HashMap::new(),
                    sorted: Vec::new(),
                    written: 0,
                    departure: 0,
                };
                return Ok(Self { unindexed, recent: Mutex::new(recent) });
            }
            let transaction = connection.unchecked_transaction()?;
            write_index(connection, &sorted(found.into_iter()))?;
            bound!(INDEXED, number: last).execute(connection)?;
            transaction.commit()?;
        }
    }

    /// Uses a key for an event, unless it has been used: then says by which event.
    pub(super) fn claim(
        &self,
        connection: &Connection,
        key: &IdempotencyKey,
        event: EventId,
        now: Timestamp,
    ) -> Result<Option<UsedKey>, Trouble> {
        let mut recent = self.recent();
        let hint = hint(key.scope.as_bytes(), &key.hash);
        if let Some(used) = recent.find(connection, key, hint)? {
            return Ok(Some(used));
        }
        let number = recent.next;
        recent.next += 1;
        bound!(
            CLAIM_KEY,
            number: number,
            scope: key.scope.as_bytes(),
            key_hash: key.hash,
            event_id: event,
            body_hash: key.body_hash,
            now: now,
        )
        .execute(connection)?;
        recent.unindexed.insert(hint, number);
        Ok(None)
    }

    /// Takes a key back that was claimed in this transaction.
    pub(super) fn unclaim(
        &self,
        connection: &Connection,
        key: &IdempotencyKey,
        event: EventId,
    ) -> Result<(), Trouble> {
        let hint = hint(key.scope.as_bytes(), &key.hash);
        let used = self.recent().find(connection, key, hint)?;
        if let Some(used) = used.filter(|used| used.event_id == event) {
            bound!(FORGET_KEY, number: used.number).execute(connection)?;
        }
        Ok(())
    }

    /// Brings the index a step further, in proportion to what has come.
    pub(super) fn index_some(&self, connection: &Connection, arrived: usize) -> Result<Progress, Trouble> {
        let mut recent = self.recent();
        if recent.sorted.is_empty() && recent.unindexed.len() >= self.unindexed {
            recent.leaving = std::mem::take(&mut recent.unindexed);
            recent.sorted = sorted(recent.leaving.iter().map(|(hint, number)| (*hint, *number)));
            recent.departure += 1;
        }
        // Twice as fast as keys come, so that it is done before memory is full again.
        let written = recent.sorted.len().min(recent.written + 2 * arrived);
        write_index(connection, &recent.sorted[recent.written..written])?;
        if written == recent.sorted.len() && written > 0 {
            let last = recent.leaving.values().max().copied().unwrap_or(0);
            bound!(INDEXED, number: last).execute(connection)?;
        }
        Ok(Progress { departure: recent.departure, written })
    }

    /// What was written with the index is durable.
    pub(super) fn flushed(&self, progress: Progress) {
        let mut recent = self.recent();
        if progress.departure != recent.departure {
            return; // of several in one transaction another was first, and these are long there
        }
        recent.written = recent.written.max(progress.written.min(recent.sorted.len()));
        if recent.written == recent.sorted.len() {
            recent.leaving = HashMap::new();
            recent.sorted = Vec::new();
            recent.written = 0;
        }
    }

    /// Forgets the oldest keys.
    pub(super) fn prune(connection: &Connection, before: Timestamp, limit: usize) -> Result<usize, Trouble> {
        let mut select = connection.prepare_cached(OLDEST_KEYS)?;
        let mut rows = bound!(OLDEST_KEYS, limit: limit).rows(&mut select)?;
        let mut old = Vec::new();
        while let Some(row) = rows.next()? {
            let mut columns = Columns::of(row);
            if columns.time()? >= before {
                break;
            }
            old.push((fingerprint(columns.hint()?), columns.get::<i64>()?));
        }
        old.sort_unstable();
        for (fingerprint, number) in &old {
            bound!(FORGET_KEY, number: number).execute(connection)?;
            bound!(UNLIST_KEY, fingerprint: fingerprint, number: number).execute(connection)?;
        }
        Ok(old.len())
    }

    /// Forgets some of the keys of an account and of its sources, from a number on; how many, and where to go on.
    pub(super) fn erase(
        &self,
        connection: &Connection,
        account: AccountId,
        from: i64,
        limit: usize,
    ) -> Result<(usize, Option<i64>), Trouble> {
        let end: Option<i64> =
            bound!("select max(number) from idempotency where number >= :from", from: from)
                .one(connection, |columns| Ok(columns.get()?))?;
        let Some(end) = end else { return Ok((0, None)) };
        let begin: i64 =
            bound!("select number from idempotency where number >= :from order by number limit 1", from: from)
                .one(connection, |columns| Ok(columns.get()?))?;
        let below = begin.saturating_add(limits::ERASED_KEYS_LOOKED_AT);
        let found = bound!(KEYS_OF_ACCOUNT, account_id: account, from: begin, below: below, limit: limit)
            .all(connection, |columns| Ok((columns.hint()?, columns.get::<i64>()?)))?;
        let mut recent = self.recent();
        for (hint, number) in &found {
            bound!(FORGET_KEY, number: number).execute(connection)?;
            bound!(UNLIST_KEY, fingerprint: fingerprint(*hint), number: number).execute(connection)?;
            recent.unindexed.remove(hint);
        }
        let next = match found.last() {
            Some((_, last)) if found.len() == limit => last + 1,
            _ => below,
        };
        Ok((found.len(), (next <= end).then_some(next)))
    }

    fn recent(&self) -> MutexGuard<'_, RecentKeys> {
        // Whatever a panic left behind is only where to look.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecentKeys {
    fn find(
        &self,
        connection: &Connection,
        key: &IdempotencyKey,
        hint: u128,
    ) -> Result<Option<UsedKey>, Trouble> {
        for known in [&self.unindexed, &self.leaving] {
            let Some(number) = known.get(&hint) else { continue };
            let found =
                bound!(KEY_BY_NUMBER, number: number, scope: key.scope.as_bytes(), key_hash: key.hash)
                    .first(connection, used_key)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        bound!(
            KEY_BY_FINGERPRINT,
            fingerprint: fingerprint(hint),
            scope: key.scope.as_bytes(),
            key_hash: key.hash,
        )
        .first(connection, used_key)
    }
}

fn used_key(columns: &mut Columns<'_>) -> Result<UsedKey, Trouble> {
    Ok(UsedKey { number: columns.get()?, event_id: columns.id()?, body_hash: columns.get()? })
}

fn write_index(connection: &Connection, keys: &[(i64, i64)]) -> Result<(), Trouble> {
    let mut insert = connection.prepare_cached(INDEX_KEY)?;
    for (fingerprint, number) in keys {
        bound!(INDEX_KEY, fingerprint: fingerprint, number: number).execute_on(&mut insert)?;
    }
    Ok(())
}

impl Columns<'_> {
    /// `scope, key_hash`
    fn hint(&mut self) -> rusqlite::Result<u128> {
        Ok(hint(&self.get()?, &self.get()?))
    }
}

fn sorted(keys: impl Iterator<Item = (u128, i64)>) -> Vec<(i64, i64)> {
    let mut sorted: Vec<_> = keys.map(|(hint, number)| (fingerprint(hint), number)).collect();
    sorted.sort_unstable();
    sorted
}

/// Where to look for a key: as good as unique.
fn hint(scope: &[u8; 16], key_hash: &[u8; 32]) -> u128 {
    let (first, _) = key_hash.split_first_chunk().expect("32 bytes have 16");
    u128::from_be_bytes(*scope) ^ u128::from_be_bytes(*first)
}

/// Half of the hint: the index is small, and the row decides.
fn fingerprint(hint: u128) -> i64 {
    hint as i64
}
