//! Reading connections: a few, on blocking threads, each read in one snapshot.

use super::{FileLock, trouble::Trouble};
use crate::StoreError;
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::Semaphore;

/// Statements kept ready on a connection: all of ours, with room.
pub(super) const STATEMENTS: usize = 128;
/// Only another program on the same file can make us wait.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// For the engine alone: a fetch and a large payload at a time.
pub(super) const ENGINE_READERS: usize = 2;

/// Little: there are several of them, and the system's own cache lies below.
const CACHE_KIB: i64 = 2_048;

pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
    // A read that is still under way when the store is dropped keeps others out until it is done.
    _lock: Option<Arc<FileLock>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf, count: usize, lock: Arc<FileLock>) -> Self {
        let permits = Arc::new(Semaphore::new(count.max(1)));
        Self { path, idle: Mutex::default(), permits, _lock: Some(lock) }
    }

    /// One connection, beside the process that has the lock.
    pub(super) fn read_only(path: PathBuf) -> Self {
        Self { path, idle: Mutex::default(), permits: Arc::new(Semaphore::new(1)), _lock: None }
    }

    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, StoreError> {
        let readers = self.clone();
        let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        let read = tokio::task::spawn_blocking(move || {
            // Held by the thread: a caller that stops waiting for a read does not free its connection.
            let _permit = permit;
            let connection = readers.take()?;
            let result = snapshot(&connection, work);
            readers.give_back(connection);
            result
        });
        match read.await {
            Ok(result) => result.map_err(Trouble::of_read),
            // Its connection went with it; the next read opens another.
            Err(panic) => Err(StoreError::Unavailable(panic.into())),
        }
    }

    fn take(&self) -> Result<Connection, Trouble> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.map_or_else(|| Ok(connect(&self.path)?), Ok)
    }

    fn give_back(&self, connection: Connection) {
        // One that could not leave its transaction would keep the log from being emptied.
        if connection.is_autocommit() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    Ok(connection)
}

fn snapshot<T>(
    connection: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    connection.prepare_cached("begin")?.execute([])?;
    let result = work(connection);
    connection.prepare_cached("rollback")?.execute([])?;
    result
}
