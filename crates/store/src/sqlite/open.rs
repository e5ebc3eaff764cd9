//! Opening: the folder, the lock, the file's settings, its schema.

use super::{
    SqliteStore,
    file_lock::FileLock,
    idempotency::Keys,
    readers::{BUSY_TIMEOUT, ENGINE_READERS, Readers, STATEMENTS},
    space::Space,
    tally::{FirstCount, Tally},
    trouble::{Reach, reach},
    writer::Writer,
};
use crate::{
    FoundTables, OpenError, OpenOptions, StoreError, UnsafeSetting,
    feed::FeedSignal,
    migrations::{self, KNOWN_VERSION, MIGRATIONS_TABLE},
};
use domain::{limits, time::Timestamp};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicI64},
};

/// Enough for the pages a group of writes touches.
const CACHE_KIB: i64 = 8_192;
/// The log is cut back to this after it was longer: after a backup, not each time it begins again, since cutting takes up
/// to 25 ms, and each flush that makes it longer again waits for the file system's own log.
const LOG_KEPT_BYTES: i64 = (limits::CHECKPOINT_PAGES_WAIT + limits::CHECKPOINT_PAGES) * 4_120;

impl SqliteStore {
    /// Opens the database, creating folder and file where they are missing. `PATH?synchronous=normal` asks for less
    /// durability than we promise, and is refused unless `accept_data_loss` says that this is meant.
    pub async fn open(path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let (path, options) = (path.to_owned(), options.clone());
        let opened = tokio::task::spawn_blocking(move || Self::open_blocking(&path, &options)).await;
        opened.unwrap_or_else(|panic| Err(OpenError::Unavailable(StoreError::Unavailable(panic.into()))))
    }

    fn open_blocking(path: &Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let (path, synchronous) = parse(path)?;
        fs::create_dir_all(folder_of(&path)).map_err(unavailable)?;
        let lock = Arc::new(FileLock::take(&path)?);
        let path = lock.path.clone();
        let space = Space::at_start(folder_of(&path), beside(&path, "reserve"));
        let connection = connect(&path, synchronous, options.accept_data_loss)?;
        let copying = open(&path, synchronous).map_err(|error| of_sql(&path, error))?;
        let keys = Keys::open(&connection, limits::KEYS_UNINDEXED)
            .map_err(|trouble| of_reach(&path, trouble.reach(), trouble.of_read()))?;
        let tally = Arc::new(Tally::default());
        let first_count = FirstCount::start(&path, tally.clone()).map_err(|error| of_sql(&path, error))?;
        let writer = Writer::start([connection, copying], lock.clone(), space.begin(), tally.clone())
            .map_err(unavailable)?;
        let engine_readers = Arc::new(Readers::new(path.clone(), ENGINE_READERS, lock.clone()));
        let readers = Arc::new(Readers::new(path, options.pool, lock.clone()));
        let keys = Arc::new(keys);
        let (feed_signal, note_signal) = (FeedSignal::default(), FeedSignal::default());
        let (_first_count, _lock) = (first_count, lock);
        let ingested_at = AtomicI64::new(Timestamp::MIN.micros());
        Ok(Self {
            tally,
            _first_count,
            writer,
            readers,
            engine_readers,
            keys,
            ingested_at,
            feed_signal,
            note_signal,
            _lock,
        })
    }
}

/// The path, and what it says about `synchronous`.
pub(super) fn parse(path: &Path) -> Result<(PathBuf, &'static str), OpenError> {
    let Some((file, query)) = path.to_str().and_then(|text| text.split_once('?')) else {
        return Ok((path.to_owned(), "full"));
    };
    let synchronous = match query.to_ascii_lowercase().as_str() {
        "synchronous=full" => "full",
        "synchronous=normal" => "normal",
        "synchronous=off" => "off",
        _ => {
            return Err(OpenError::BadUrl(format!(
                "`?{query}` is not a setting: synchronous=full|normal|off is"
            )));
        }
    };
    Ok((file.into(), synchronous))
}

pub(super) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// `posthaste.db` -> `posthaste.db.lock`
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

fn connect(path: &Path, synchronous: &'static str, accept_data_loss: bool) -> Result<Connection, OpenError> {
    let mut connection = open(path, synchronous).map_err(|error| of_sql(path, error))?;
    check_durability(&connection, path, accept_data_loss)?;
    migrate(&mut connection, path)?;
    // This process holds the lock, so every node that is written down here is dead.
    connection
        .execute_batch("delete from nodes; update shards set node_id = null where node_id is not null")
        .map_err(|error| of_sql(path, error))?;
    Ok(connection)
}

fn open(path: &Path, synchronous: &'static str) -> rusqlite::Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    // One plan a statement, whatever is bound: else values are looked at, and statements prepared anew for each.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Only a new file takes this, before anything is in it: then what is pruned can be given back to the system.
    connection.pragma_update(None, "auto_vacuum", "incremental")?;
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    // References are checked where something is created: the rows of the hot path have none.
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_KEPT_BYTES, |_| Ok(()))?;
    // The copier does it, beside the writer, and sees its errors.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    Ok(connection)
}

/// What we asked for is not always what we get: asked again after the fact.
fn check_durability(connection: &Connection, path: &Path, accept_data_loss: bool) -> Result<(), OpenError> {
    let read = || -> rusqlite::Result<(i64, String)> {
        let synchronous = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        Ok((synchronous, connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?))
    };
    let (synchronous, journal_mode) = read().map_err(|error| of_sql(path, error))?;
    let found = unsafe_settings(synchronous, &journal_mode);
    if found.is_empty() {
        return Ok(());
    }
    if !accept_data_loss {
        return Err(OpenError::Unsafe(format!("{}: {}", path.display(), UnsafeSetting::refusal(&found))));
    }
    for found in found {
        tracing::warn!(database = %path.display(), "{found}. That was accepted");
    }
    Ok(())
}

/// The number SQLite has for it.
pub(super) fn synchronous_level(word: &str) -> Option<i64> {
    ["off", "normal", "full"].iter().position(|known| *known == word).map(|level| level as i64)
}

/// FULL flushes the log at every commit; EXTRA does no more than that with a log.
pub(super) fn unsafe_settings(synchronous: i64, journal_mode: &str) -> Vec<UnsafeSetting> {
    let mut found = Vec::new();
    if synchronous < 2 {
        let word = ["off", "normal"].get(synchronous.max(0) as usize).unwrap_or(&"unknown");
        found.push(UnsafeSetting {
            setting: format!("synchronous = {word}"),
            harm: "a power cut loses events that were acknowledged",
            fix: "Leave `?synchronous=…` out of the database's URL".into(),
        });
    }
    if journal_mode != "wal" {
        found.push(UnsafeSetting {
            setting: format!("journal_mode = {journal_mode}"),
            harm: "the file system cannot keep a log beside the database, and such ones lose flushes and locks too",
            fix: "Keep the database on a disk of this machine".into(),
        });
    }
    found
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<(), OpenError> {
    let found = found_tables(connection).map_err(|error| of_sql(path, error))?;
    match found {
        FoundTables::Unreleased => return Err(OpenError::unreleased(path.display(), "an empty folder")),
        FoundTables::Version(found) if found > KNOWN_VERSION => {
            return Err(OpenError::TooOld(format!(
                "{} has schema {found}, this program knows schemas up to {KNOWN_VERSION}: use a newer version of it",
                path.display()
            )));
        }
        _ => {}
    }
    let mut migrated = || {
        let transaction = connection.transaction()?;
        for migration in migrations::missing(migrations::SQLITE, &found) {
            transaction.execute_batch(&migration.script())?;
        }
        transaction.commit()
    };
    migrated().map_err(|error| match reach(&error) {
        Reach::Row => OpenError::Damaged(format!("{}: {error}", path.display())),
        // A disk that is full or a file that is busy stops a migration too, and is not the schema's fault.
        reach => of_reach(path, reach, StoreError::Unavailable(error.into())),
    })
}

/// The list of migrations comes before any other table: a file with tables and without it is none of ours, or from
/// before the first release.
pub(super) fn found_tables(connection: &Connection) -> rusqlite::Result<FoundTables> {
    if !connection.table_exists(None, MIGRATIONS_TABLE)? {
        let any = "select exists (select 1 from sqlite_schema where type = 'table')";
        let any: bool = connection.query_row(any, [], |row| row.get(0))?;
        return Ok(if any { FoundTables::Unreleased } else { FoundTables::None });
    }
    let last = format!("select max(version) from {MIGRATIONS_TABLE}");
    let last: Option<i64> = connection.query_row(&last, [], |row| row.get(0))?;
    Ok(last.map_or(FoundTables::None, FoundTables::Version))
}

fn of_sql(path: &Path, error: rusqlite::Error) -> OpenError {
    of_reach(path, reach(&error), StoreError::Unavailable(error.into()))
}

fn of_reach(path: &Path, reach: Reach, error: StoreError) -> OpenError {
    match (reach, error) {
        (Reach::Store, error) => OpenError::Damaged(format!("{}: {error}", path.display())),
        (_, error) => OpenError::Unavailable(error),
    }
}

pub(super) fn unavailable(error: impl std::error::Error + Send + Sync + 'static) -> OpenError {
    OpenError::Unavailable(StoreError::Unavailable(error.into()))
}
