//! The embedded store: one SQLite file, one thread that writes it, a few connections that read it.
//!
//! Everything that wants to write is a job for [`writer`], which runs all jobs that wait in one transaction and flushes
//! once for all of them; no job is answered before the flush. Reads go through [`readers`], each in one snapshot. A
//! lock on the file itself ([`file_lock`]) keeps a second process out, so that this one owns every lane there is.

mod audit;
mod audit_log;
mod backfill;
mod backlog;
mod backup;
mod catalog;
mod chores;
mod dead_letters;
mod erasure;
mod expand;
mod feed;
mod file_lock;
mod gates;
mod history;
mod idempotency;
mod ingest;
mod integrity;
mod lane_rollups;
mod lanes;
mod membership;
mod new_deliveries;
mod open;
mod operational_events;
mod order;
mod portal_links;
mod queue;
mod read_only;
mod readers;
mod refused_requests;
mod replay;
mod retention;
mod rollup;
mod rows;
mod seals;
mod sessions;
mod settle;
mod space;
mod statement;
mod tally;
mod test_sends;
mod trouble;
mod wakes;
mod writer;

#[cfg(test)]
mod tests;

pub use backup::{BackupError, Copied, backup};
pub use file_lock::is_in_use;
pub use integrity::{Depth, IntegrityReport, check_integrity};
pub use read_only::SqliteReadOnly;

use crate::{StoreError, feed::FeedSignal};
use file_lock::FileLock;
use idempotency::Keys;
use readers::Readers;
use rusqlite::Connection;
use std::sync::{Arc, atomic::AtomicI64};
use tally::{FirstCount, Tally};
use trouble::Trouble;
use writer::{Priority, Writer};

pub struct SqliteStore {
    tally: Arc<Tally>,
    _first_count: FirstCount,
    writer: Writer,
    readers: Arc<Readers>,
    /// For what the engine reads to deliver: a crowd of API reads never stands before it.
    engine_readers: Arc<Readers>,
    keys: Arc<Keys>,
    /// When an event came last, in microseconds: the next one must not wait for long.
    ingested_at: AtomicI64,
    feed_signal: FeedSignal,
    /// A note of what is to be told was written.
    note_signal: FeedSignal,
    // Last: it is let go when everything above is closed.
    _lock: Arc<FileLock>,
}

impl SqliteStore {
    /// Runs `work` in the writer's next transaction and gives its result once that is flushed. It may run more than
    /// once, each time from the same state: only the last one counts.
    async fn write<T: Send + 'static>(
        &self,
        priority: Priority,
        work: impl FnMut(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.write(priority, work).await
    }

    /// Runs `work` on a connection of its own, in one snapshot.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.readers.read(work).await
    }

    /// Like [`Self::read`], on the engine's own connections.
    async fn read_for_engine<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.engine_readers.read(work).await
    }

    /// Whether a flush has failed: nothing is written any more.
    pub fn failed(&self) -> bool {
        self.writer.failed().is_some()
    }
}
