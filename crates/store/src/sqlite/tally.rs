//! How much waits, by account: counted by the writer as it writes, so that the queue is counted only at the start.
//!
//! What a transaction adds to the queue and takes from it is noted on the writer's own thread ([`came`], [`went`]) and
//! counts when it is flushed. What was there when the store was opened is counted meanwhile, from a snapshot taken
//! before the first write; until that is done, less is told than there is.

use super::{readers, statement::bound, trouble::Trouble};
use crate::{AccountBacklog, StoreError};
use domain::{delivery::Delivery, id::AccountId};
use rusqlite::Connection;
use std::{
    cell::RefCell,
    cmp::Reverse,
    collections::HashMap,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

/// Rows and bytes; they may be negative while the first count is under way.
type Counts = HashMap<AccountId, (i64, i64)>;

/// A change of an account's rows and bytes.
type Change = (AccountId, i64, i64);

thread_local! {
    /// Of the transaction that the writer's thread is in, in order.
    static PENDING: RefCell<Vec<Change>> = const { RefCell::new(Vec::new()) };
}

/// A delivery was put into the queue.
pub(super) fn came(account: AccountId, payload_bytes: usize) {
    note((account, 1, payload_bytes as i64));
}

/// A delivery was taken from the queue.
pub(super) fn went(delivery: &Delivery) {
    note((delivery.account_id, -1, -i64::from(delivery.payload_bytes)));
}

/// So many deliveries were taken from the queue, with payloads of so many bytes.
pub(super) fn erased(account: AccountId, rows: usize, payload_bytes: i64) {
    note((account, -(rows as i64), -payload_bytes));
}

fn note(change: Change) {
    PENDING.with_borrow_mut(|pending| pending.push(change));
}

/// How much is noted, to come back to.
pub(super) fn mark() -> usize {
    PENDING.with_borrow(Vec::len)
}

/// What was noted since the mark does not count: it was rolled back. Zero is the beginning of a transaction.
pub(super) fn back_to(mark: usize) {
    PENDING.with_borrow_mut(|pending| pending.truncate(mark));
}

/// How much waits.
#[derive(Default)]
pub(super) struct Tally {
    counts: Mutex<Counts>,
}

impl Tally {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was noted counts: it is flushed.
    pub(super) fn flushed(&self) {
        PENDING.with_borrow_mut(|pending| {
            if !pending.is_empty() {
                self.add(pending.drain(..));
            }
        });
    }

    fn add(&self, changes: impl Iterator<Item = Change>) {
        let mut counts = self.counts();
        for (account, rows, bytes) in changes {
            let of_account = counts.entry(account).or_default();
            of_account.0 += rows;
            of_account.1 += bytes;
            if *of_account == (0, 0) {
                counts.remove(&account);
            }
        }
    }

    /// The accounts with the most, largest first.
    pub(super) fn largest(&self, limit: usize) -> Vec<AccountBacklog> {
        let positive = |count: i64| u64::try_from(count).unwrap_or(0);
        let mut all: Vec<_> = self
            .counts()
            .iter()
            .map(|(account_id, (rows, bytes))| AccountBacklog {
                account_id: *account_id,
                rows: positive(*rows),
                bytes: positive(*bytes),
            })
            .filter(|backlog| backlog.rows > 0)
            .collect();
        all.sort_unstable_by_key(|backlog| Reverse((backlog.rows, backlog.account_id)));
        all.truncate(limit);
        all
    }
}

/// Counts what is there at the beginning, on a thread of its own that ends with this.
pub(super) struct FirstCount {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Rows between two looks whether the caller still waits.
const STRIDE: u32 = 1_024;

impl FirstCount {
    /// Reads the store as it is now. The writer must not have begun.
    pub(super) fn start(path: &Path, tally: Arc<Tally>) -> rusqlite::Result<Self> {
        let connection = readers::connect(path)?;
        // The snapshot is taken by the first look, not by `begin`.
        connection.execute_batch("begin")?;
        connection.query_row("select exists (select 1 from queue)", [], |row| row.get::<_, bool>(0))?;
        let over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("sqlite-tally".into()).spawn({
            let over = over.clone();
            move || match count(&connection, &over) {
                Ok(counts) => {
                    tally.add(counts.into_iter().map(|(account, (rows, bytes))| (account, rows, bytes)))
                }
                Err(trouble) => {
                    let error = StoreError::from(trouble);
                    tracing::warn!(%error, "the backlog at the start could not be counted");
                }
            }
        });
        // Without the thread there is no first count, and everything else works.
        Ok(Self { over, thread: thread.ok() })
    }
}

impl Drop for FirstCount {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic there has cost a count, and nothing else
        }
    }
}

/// In the order of the table, and summed up here: grouping in SQL would sort millions of rows.
fn count(connection: &Connection, over: &AtomicBool) -> Result<Counts, Trouble> {
    let (mut counts, mut until_look) = (Counts::new(), STRIDE);
    bound!("select account_id, payload_bytes from queue").each(connection, |columns| {
        let of_account = counts.entry(columns.id()?).or_default();
        of_account.0 += 1;
        of_account.1 += columns.get::<i64>()?;
        until_look -= 1;
        if until_look == 0 {
            until_look = STRIDE;
            if over.load(Ordering::Relaxed) {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(counts)
}
