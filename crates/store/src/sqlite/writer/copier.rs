//! Copies the log into the database beside the writer, on a connection of its own, and flushes that: sixteen thousand
//! pages take a tenth of a second, and every event that came meanwhile would wait for them.

use super::{
    super::{
        FileLock,
        trouble::{Reach, reach},
    },
    FailOnPanic,
};
use rusqlite::{Connection, config::DbConfig};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

pub(super) struct Copier {
    /// None once it is to end.
    wake: Option<SyncSender<()>>,
    busy: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    /// `failed` is where it says that a flush has failed: nothing may be written from then on.
    pub(super) fn start(
        connection: Connection,
        lock: Arc<FileLock>,
        failed: Arc<OnceLock<String>>,
    ) -> std::io::Result<Self> {
        let (wake, woken) = sync_channel(1);
        let busy = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("sqlite-copier".into()).spawn({
            let busy = busy.clone();
            move || {
                let _guard = FailOnPanic { failed: failed.clone(), thread: "copier" };
                copy_all(&connection, &lock, &woken, &busy, &failed);
            }
        })?;
        Ok(Self { wake: Some(wake), busy, thread: Some(thread) })
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Begins to copy what is in the log by now. Only the writer calls it, and only while it is not busy.
    pub(super) fn wake(&self) {
        self.busy.store(true, Ordering::Release);
        // One that has ended copies nothing any more, and has said why in `failed`.
        let _ = self.wake.as_ref().map(|wake| wake.try_send(()));
    }
}

impl Drop for Copier {
    /// Ends when what it has begun is done.
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of the thread has been logged where it happened
        }
    }
}

fn copy_all(
    connection: &Connection,
    lock: &FileLock,
    woken: &Receiver<()>,
    busy: &AtomicBool,
    failed: &OnceLock<String>,
) {
    // The writer closes the store, and knows whether that may write.
    let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    while woken.recv().is_ok() && failed.get().is_none() {
        let fail = |error: String| {
            tracing::error!(error, "the store has failed: nothing is written any more");
            let _ = failed.set(error);
        };
        match copy(connection) {
            // SQLite flushes where the end of the log is copied, and that is in the writer.
            Ok(()) => {
                if let Err(error) = lock.flush_database() {
                    fail(error.to_string());
                }
            }
            Err(error) if reach(&error) == Reach::Store => fail(error.to_string()),
            // No room to grow the database: the log keeps everything, and is tried again.
            Err(error) => tracing::warn!(%error, "the log could not be copied into the database"),
        }
        busy.store(false, Ordering::Release);
    }
}

/// As far as the oldest reader allows.
fn copy(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("pragma wal_checkpoint(passive)")?.query_row([], |_| Ok(()))
}
