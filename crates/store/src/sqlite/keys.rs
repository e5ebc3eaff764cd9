//! Idempotency keys: written in the order they come, and indexed later, many at a time.
//!
//! A key is a hash. An index that followed every event would be written at random, a page for each of them, which was
//! a third of all writing. So the table is only appended to; what the index does not know yet is known here, in memory,
//! and read from the table's end at the next start. Memory says where to look, never what is there: the row decides,
//! so what was rolled back is simply not found.

use super::{
    Trouble,
    row::{self, Key as _},
};
use crate::IdempotencyKey;
use domain::{id::EventId, time::Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

const INSERT: &str = include_str!("sql/insert_key.sql");
pub(super) const BY_NUMBER: &str = include_str!("sql/key_by_number.sql");
pub(super) const BY_FINGERPRINT: &str = include_str!("sql/key_by_fingerprint.sql");
const INDEX: &str =
    "insert into idempotency_index (fingerprint, number) values (?1, ?2) on conflict do nothing";
const INDEXED: &str = "update idempotency_indexed set up_to = ?1";
const OLDEST: &str = include_str!("sql/oldest_keys.sql");

/// The event that has used a key.
pub(super) struct User {
    number: i64,
    pub(super) event: EventId,
    pub(super) body_hash: [u8; 32],
}

pub(super) struct Keys {
    /// How many may be missing in the index before they are written to it.
    unindexed: usize,
    state: Mutex<State>,
}

struct State {
    /// Numbers are never given twice while the process lives, whatever is rolled back.
    next: i64,
    /// Keys that the index does not know, and their numbers.
    recent: HashMap<u128, i64>,
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
    pub(super) fn open(connection: &Connection, unindexed: usize) -> rusqlite::Result<Self> {
        loop {
            let indexed: i64 =
                connection.query_row("select up_to from idempotency_indexed", [], |row| row.get(0))?;
            let mut select = connection.prepare(
                "select number, scope, key_hash from idempotency where number > ?1 order by number limit ?2",
            )?;
            let rows = select.query_map(params![indexed, unindexed as i64], |row| {
                Ok((hint(&row.get(1)?, &row.get(2)?), row.get(0)?))
            })?;
            let found = rows.collect::<rusqlite::Result<Vec<(u128, i64)>>>()?;
            let last = found.last().map_or(indexed, |(_, number)| *number);
            if found.len() < unindexed {
                let state = State {
                    next: last + 1,
                    recent: found.into_iter().collect(),
                    leaving: HashMap::new(),
                    sorted: Vec::new(),
                    written: 0,
                    departure: 0,
                };
                return Ok(Self { unindexed, state: Mutex::new(state) });
            }
            let transaction = connection.unchecked_transaction()?;
            write_index(connection, &sorted(found.into_iter()))?;
            connection.execute(INDEXED, [last])?;
            transaction.commit()?;
        }
    }

    /// Uses a key for an event, unless it has been used: then says by whom.
    pub(super) fn claim(
        &self,
        connection: &Connection,
        key: &IdempotencyKey,
        event: EventId,
        now: Timestamp,
    ) -> Result<Option<User>, Trouble> {
        let mut state = self.state();
        let hint = hint(key.scope.as_bytes(), &key.hash);
        if let Some(user) = state.find(connection, key, hint)? {
            return Ok(Some(user));
        }
        let number = state.next;
        state.next += 1;
        connection.prepare_cached(INSERT)?.execute(params![
            number,
            key.scope.as_bytes(),
            key.hash,
            event.blob(),
            key.body_hash,
            now.micros()
        ])?;
        state.recent.insert(hint, number);
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
        let user = self.state().find(connection, key, hint)?;
        if let Some(user) = user.filter(|user| user.event == event) {
            connection.prepare_cached("delete from idempotency where number = ?1")?.execute([user.number])?;
        }
        Ok(())
    }

    /// Brings the index a step further, in proportion to what has come.
    pub(super) fn index_some(&self, connection: &Connection, arrived: usize) -> Result<Progress, Trouble> {
        let mut state = self.state();
        if state.sorted.is_empty() && state.recent.len() >= self.unindexed {
            state.leaving = std::mem::take(&mut state.recent);
            state.sorted = sorted(state.leaving.iter().map(|(hint, number)| (*hint, *number)));
            state.departure += 1;
        }
        // Twice as fast as keys come, so that it is done before memory is full again.
        let written = state.sorted.len().min(state.written + 2 * arrived);
        write_index(connection, &state.sorted[state.written..written])?;
        if written == state.sorted.len() && written > 0 {
            let last = state.leaving.values().max().copied().unwrap_or(0);
            connection.prepare_cached(INDEXED)?.execute([last])?;
        }
        Ok(Progress { departure: state.departure, written })
    }

    /// What was written with the index is durable.
    pub(super) fn flushed(&self, progress: Progress) {
        let mut state = self.state();
        if progress.departure != state.departure {
            return; // of several in one transaction another was first, and these are long there
        }
        state.written = state.written.max(progress.written.min(state.sorted.len()));
        if state.written == state.sorted.len() {
            state.leaving = HashMap::new();
            state.sorted = Vec::new();
            state.written = 0;
        }
    }

    /// Forgets the oldest keys.
    pub(super) fn prune(connection: &Connection, before: Timestamp, limit: usize) -> Result<usize, Trouble> {
        let mut select = connection.prepare_cached(OLDEST)?;
        let mut rows = select.query([limit as i64])?;
        let mut old = Vec::new();
        while let Some(row) = rows.next()? {
            if row.get::<_, i64>(3)? >= before.micros() {
                break;
            }
            old.push((fingerprint(hint(&row.get(1)?, &row.get(2)?)), row.get::<_, i64>(0)?));
        }
        old.sort_unstable();
        let mut forget = connection.prepare_cached("delete from idempotency where number = ?1")?;
        let mut unlist = connection
            .prepare_cached("delete from idempotency_index where fingerprint = ?1 and number = ?2")?;
        for (fingerprint, number) in &old {
            forget.execute([number])?;
            unlist.execute([fingerprint, number])?;
        }
        Ok(old.len())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whatever a panic left behind is only where to look.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn find(
        &self,
        connection: &Connection,
        key: &IdempotencyKey,
        hint: u128,
    ) -> Result<Option<User>, Trouble> {
        for known in [&self.recent, &self.leaving] {
            let Some(number) = known.get(&hint) else { continue };
            let mut select = connection.prepare_cached(BY_NUMBER)?;
            let found = select.query_row(params![key.scope.as_bytes(), key.hash, number], user).optional()?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let mut select = connection.prepare_cached(BY_FINGERPRINT)?;
        let place = params![key.scope.as_bytes(), key.hash, fingerprint(hint)];
        Ok(select.query_row(place, user).optional()?)
    }
}

fn user(row: &Row<'_>) -> rusqlite::Result<User> {
    Ok(User { number: row.get(0)?, event: row::id(row, 1)?, body_hash: row.get(2)? })
}

fn write_index(connection: &Connection, entries: &[(i64, i64)]) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(INDEX)?;
    for (fingerprint, number) in entries {
        insert.execute([fingerprint, number])?;
    }
    Ok(())
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
