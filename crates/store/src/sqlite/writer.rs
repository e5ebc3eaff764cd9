//! The one thread that writes: group commit without a timer.
//!
//! It takes whatever waits, runs all of it in one transaction, and answers every job after the flush has returned. While
//! one flush runs the next group forms by itself. Settlements go first, then events, then what the API writes, then at
//! most one chunk of bulk work.
//!
//! A job that fails, or panics, is rolled back alone: by its savepoint or, since savepoints cost a copy of every page
//! that is touched, by running the whole group again with savepoints where a job of the hot path fails. When the disk is
//! full the whole transaction is rolled back and every caller is told to try again, settlements after a second try in the
//! reserved room. When a flush fails for any other reason, it is unknown what is on disk: nothing is written on this
//! handle ever again.

mod copier;
mod job;

use super::{
    FileLock,
    readers::BUSY_TIMEOUT,
    rows::Columns,
    space::Space,
    tally::{self, Tally},
    trouble::{Reach, Trouble, reach},
};
use crate::{StoreError, failpoint};
use copier::Copier;
use domain::limits;
use job::{Job, Task};
use rusqlite::{Connection, config::DbConfig};
use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    thread::JoinHandle,
};
use tokio::sync::{mpsc, oneshot};

/// Which jobs of one group run first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// What the owner of the lanes must be able to write, also on a full disk.
    Settle,
    Ingest,
    Api,
    /// Chores, which no caller waits for, a chunk at a time.
    Bulk,
    /// The same, if there is room for more.
    Expand,
}

pub(super) struct Writer {
    /// None once the store is being closed.
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    failed: Arc<OnceLock<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// The second connection is for copying the log.
    pub(super) fn start(
        [connection, copying]: [Connection; 2],
        lock: Arc<FileLock>,
        space: Space,
        tally: Arc<Tally>,
    ) -> std::io::Result<Self> {
        let (jobs, waiting) = mpsc::channel(limits::WRITER_QUEUE);
        let failed = Arc::new(OnceLock::new());
        let copier = Copier::start(copying, lock, failed.clone())?;
        let failure = failed.clone();
        let writer =
            WriterThread { copier, connection, space, tally, failed: failure, patience: 0, groups: 0 };
        let thread = std::thread::Builder::new().name("sqlite-writer".into()).spawn(move || {
            let _guard = FailOnPanic { failed: writer.failed.clone(), thread: "writer" };
            writer.write_all(waiting);
        })?;
        Ok(Self { jobs: Some(jobs), failed, thread: Some(thread) })
    }

    /// Why nothing is written any more, if so.
    pub(super) fn failed(&self) -> Option<&str> {
        self.failed.get().map(String::as_str)
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        priority: Priority,
        work: impl FnMut(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        if let Some(reason) = self.failed() {
            return Err(StoreError::Failed(reason.into()));
        }
        let (reply, answer) = oneshot::channel();
        let job: Box<dyn Job> = Box::new(Task::new(priority, work, reply));
        let closed = || StoreError::Failed("the writer has stopped".into());
        self.jobs.as_ref().ok_or_else(closed)?.send(job).await.map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

impl Drop for Writer {
    /// Finishes what was asked for and closes the file.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of the thread has been logged where it happened
        }
    }
}

/// A thread of the store that dies takes the store along: what it had written is unknown, and no other does its work.
pub(super) struct FailOnPanic {
    pub(super) failed: Arc<OnceLock<String>>,
    pub(super) thread: &'static str,
}

impl Drop for FailOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = self.thread;
            tracing::error!(thread, "the store has failed with a panic: nothing is written any more");
            let _ = self.failed.set(format!("the {thread} of the store panicked"));
        }
    }
}

/// The thread, and what it writes with.
struct WriterThread {
    copier: Copier,
    connection: Connection,
    space: Space,
    tally: Arc<Tally>,
    failed: Arc<OnceLock<String>>,
    /// How much longer the log may get before its readers are waited for, because waiting was in vain the last time.
    patience: i64,
    /// Groups written since the log was last looked at.
    groups: u32,
}

impl WriterThread {
    /// Until the store is closed.
    fn write_all(mut self, mut waiting: mpsc::Receiver<Box<dyn Job>>) {
        let (mut bulk, mut passed_over) = (VecDeque::new(), 0);
        loop {
            let first = match bulk.is_empty() {
                true => waiting.blocking_recv(),
                false => waiting.try_recv().ok(),
            };
            let mut group: Vec<Box<dyn Job>> = Vec::new();
            let mut next = first;
            while let Some(job) = next {
                match job.priority() {
                    Priority::Bulk | Priority::Expand => bulk.push_back(job),
                    _ => group.push(job),
                }
                // Bulk work that waits counts too, so that it cannot pile up here past the channel's bound.
                let full = group.len() + bulk.len() >= limits::WRITER_TURN;
                next = if full { None } else { waiting.try_recv().ok() };
            }
            // Bulk work steps back while an event waits, but not for ever.
            let hurry = group.iter().any(|job| job.priority() == Priority::Ingest);
            passed_over = if hurry && passed_over < limits::BULK_PASSED_OVER { passed_over + 1 } else { 0 };
            if passed_over == 0 {
                group.extend(bulk.pop_front());
            }
            if group.is_empty() {
                return self.close(); // nothing waits, and the store is being closed
            }
            group.sort_by_key(|job| job.priority());
            self.write_group(group);
            self.checkpoint();
        }
    }

    fn write_group(&mut self, mut group: Vec<Box<dyn Job>>) {
        if let Some(reason) = self.failed.get() {
            return refuse(group, &Refusal::Failed(reason.clone()));
        }
        if group.iter().any(|job| needs_room(job.as_ref())) && self.space.is_short() {
            let (refused, rest) = group.into_iter().partition(|job| needs_room(job.as_ref()));
            refuse(refused, &Refusal::Unavailable("the disk is almost full".into()));
            group = rest;
        }
        let Err(trouble) = self.transact(&mut group) else { return answer(group) };
        let settlements = self.give_up(group, trouble);
        self.write_in_reserve(settlements);
    }

    /// Settlements on a full disk: alone, and if that does not help, in the reserve.
    fn write_in_reserve(&mut self, mut settlements: Vec<Box<dyn Job>>) {
        while !settlements.is_empty() {
            let Err(trouble) = self.transact(&mut settlements) else { return answer(settlements) };
            settlements = self.give_up(settlements, trouble);
            if !settlements.is_empty() && !self.space.release() {
                return refuse(settlements, &Refusal::Unavailable("the disk is full".into()));
            }
        }
    }

    /// Rolls back and refuses every job, but for settlements, which may try again in reserved room.
    fn give_up(&mut self, group: Vec<Box<dyn Job>>, trouble: rusqlite::Error) -> Vec<Box<dyn Job>> {
        let reach = reach(&trouble);
        if reach == Reach::Store {
            self.fail(&trouble);
            refuse(group, &Refusal::Failed(trouble.to_string()));
            return Vec::new();
        }
        // SQLite may have rolled back by itself already.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("rollback")
        {
            self.fail(&error);
            refuse(group, &Refusal::Failed(error.to_string()));
            return Vec::new();
        }
        tracing::warn!(error = %trouble, jobs = group.len(), "a group of writes was rolled back");
        if reach == Reach::Full {
            self.space.ran_out();
        }
        let (again, refused) =
            group.into_iter().partition(|job| reach == Reach::Full && job.priority() == Priority::Settle);
        refuse(refused, &Refusal::Unavailable(trouble.to_string()));
        again
    }

    /// Runs all jobs and flushes. An error means that nothing of it is there, or that this is unknown.
    fn transact(&mut self, group: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
        if !self.run(group, Savepoints::ForWhatOftenFails)? {
            self.connection.execute_batch("rollback")?;
            self.run(group, Savepoints::ForAll)?;
        }
        failpoint::hit("store.commit.before");
        self.connection.prepare_cached("commit")?.execute([])?;
        self.tally.flushed();
        failpoint::hit("store.commit.after");
        Ok(())
    }

    /// False if a job has failed that had no savepoint to go back to.
    fn run(&self, group: &mut [Box<dyn Job>], savepoints: Savepoints) -> rusqlite::Result<bool> {
        let connection = &self.connection;
        connection.prepare_cached("begin immediate")?.execute([])?;
        tally::back_to(0);
        for job in group {
            let guarded =
                savepoints == Savepoints::ForAll || matches!(job.priority(), Priority::Api | Priority::Bulk);
            let mark = tally::mark();
            if guarded {
                connection.prepare_cached("savepoint job")?.execute([])?;
            }
            job.run(connection)?;
            match (job.succeeded(), guarded) {
                (true, false) => continue,
                (true, true) => {}
                (false, true) => {
                    connection.prepare_cached("rollback to job")?.execute([])?;
                    tally::back_to(mark);
                }
                (false, false) => return Ok(false),
            }
            connection.prepare_cached("release job")?.execute([])?;
        }
        Ok(true)
    }

    /// A flush that failed may have dropped the pages it could not write and yet succeed when asked again, so
    /// the writer does not ask again. What was flushed before is safe in the log, and is found there at the next start.
    fn fail(&mut self, error: &rusqlite::Error) {
        tracing::error!(%error, "the store has failed: nothing is written any more");
        let _ = self.failed.set(error.to_string());
    }

    fn close(self) {
        drop(self.copier);
        if self.failed.get().is_some() {
            let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }

    /// Has the log copied into the database when it has grown long. Not by SQLite itself, which would hide a failed flush
    /// of the database.
    fn checkpoint(&mut self) {
        self.groups += 1;
        let due = self.groups >= limits::CHECKPOINT_LOOK || self.space.was_short();
        if !due || self.failed.get().is_some() {
            return;
        }
        self.groups = 0;
        if let Err(error) = self.try_checkpoint() {
            match reach(&error) {
                Reach::Store => self.fail(&error),
                // No room to grow the database: the log keeps everything, and is tried again after the next group.
                _ => tracing::warn!(%error, "the log could not be copied into the database"),
            }
        }
    }

    fn try_checkpoint(&mut self) -> rusqlite::Result<()> {
        let log = self.log("pragma wal_checkpoint(noop)")?;
        let left = log.pages - log.copied;
        if self.space.was_short() {
            return if log.pages >= limits::CHECKPOINT_PAGES_SHORT {
                self.begin_log_again(&log)
            } else {
                Ok(())
            };
        }
        let overlong = log.pages >= limits::CHECKPOINT_PAGES_WAIT + self.patience;
        if self.copier.is_busy() && !overlong {
            return Ok(());
        }
        let long = log.pages >= limits::CHECKPOINT_PAGES + self.patience;
        if overlong || (long && left <= limits::CHECKPOINT_PAGES_LEFT) {
            return self.begin_log_again(&log);
        }
        let much = if long { limits::CHECKPOINT_PAGES_LEFT } else { limits::CHECKPOINT_PAGES };
        if left >= much {
            self.copier.wake();
        }
        Ok(())
    }

    /// Copies what is left, and has the next write begin at the log's beginning. One that may not, waits for as many pages
    /// again: how many there are is told by the log before, since a log that another one copies is not counted.
    fn begin_log_again(&mut self, before: &Log) -> rusqlite::Result<()> {
        self.connection.busy_timeout(limits::CHECKPOINT_WAIT)?;
        let restarted = self.log("pragma wal_checkpoint(restart)");
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        self.patience = if restarted?.busy { before.pages.max(self.patience) } else { 0 };
        Ok(())
    }

    fn log(&self, pragma: &'static str) -> rusqlite::Result<Log> {
        self.connection.prepare_cached(pragma)?.query_row([], |row| {
            let mut columns = Columns::of(row);
            Ok(Log { busy: columns.get()?, pages: columns.get()?, copied: columns.get()? })
        })
    }
}

#[derive(PartialEq)]
enum Savepoints {
    /// What the API writes may be refused any time; results and events hardly ever are.
    ForWhatOftenFails,
    ForAll,
}

/// The write-ahead log.
struct Log {
    /// Readers, or another program, did not let it begin again.
    busy: bool,
    pages: i64,
    /// Pages that are in the database too.
    copied: i64,
}

/// What only adds to what is stored waits until there is room.
fn needs_room(job: &dyn Job) -> bool {
    matches!(job.priority(), Priority::Ingest | Priority::Expand)
}

enum Refusal {
    Unavailable(String),
    Failed(String),
}

fn answer(group: Vec<Box<dyn Job>>) {
    group.into_iter().for_each(|job| job.answer());
}

fn refuse(group: Vec<Box<dyn Job>>, refusal: &Refusal) {
    for job in group {
        job.refuse(match refusal {
            Refusal::Unavailable(reason) => StoreError::Unavailable(reason.clone().into()),
            Refusal::Failed(reason) => StoreError::Failed(reason.clone().into()),
        });
    }
}
