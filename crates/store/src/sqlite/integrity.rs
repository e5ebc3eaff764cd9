//! Is the file whole? SQLite's own check of its pages, read-only and with an end.
//!
//! Beside a server it goes table by table, each in a snapshot of its own: as long as one is held, the log cannot begin
//! again and grows. What SQLite cannot see, since pages have no checksums, is a bit that was turned over inside a value.

use super::{open, readers, trouble::Trouble};
use crate::{OpenError, StoreError};
use domain::limits;
use rusqlite::{Connection, ErrorCode};
use std::{
    path::Path,
    time::{Duration, Instant},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Pages, tables and indexes, and the list of free pages; then, as far as there is time, every row against its
    /// indexes. For a file that no server uses.
    Whole,
    /// Tables and their indexes, one after the other.
    ByTable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegrityReport {
    pub page_bytes: u64,
    pub pages: u64,
    /// Pages that deleted rows have left: used again before the file grows.
    pub free_pages: u64,
    /// What is wrong, in SQLite's words; [`limits::DAMAGE_TOLD`] of them at most.
    pub damage: Vec<String>,
    /// What there was no time to look through.
    pub unfinished: Vec<String>,
}

/// Looks through the file for `patience` at most. `progress` is told which table is looked at, and how many there are.
pub async fn check_integrity(
    path: &Path,
    depth: Depth,
    patience: Duration,
    progress: impl FnMut(&str, usize, usize) + Send + 'static,
) -> Result<IntegrityReport, OpenError> {
    let (path, _) = open::parse(path)?;
    let checked = tokio::task::spawn_blocking(move || whole(&path, depth, patience, progress)).await;
    let checked = checked.map_err(|panic| StoreError::Unavailable(panic.into())).and_then(|done| done);
    checked.map_err(|error| match error {
        StoreError::Failed(error) => OpenError::Damaged(error.to_string()),
        error => OpenError::Unavailable(error),
    })
}

fn whole(
    path: &Path,
    depth: Depth,
    patience: Duration,
    mut progress: impl FnMut(&str, usize, usize),
) -> Result<IntegrityReport, StoreError> {
    let mut run = || -> Result<IntegrityReport, Trouble> {
        let connection = readers::connect(path)?;
        let number = |pragma| {
            connection
                .pragma_query_value(None, pragma, |row| row.get::<_, i64>(0))
                .map(|number| number.max(0) as u64)
        };
        let mut integrity = IntegrityReport {
            page_bytes: number("page_size")?,
            pages: number("page_count")?,
            free_pages: number("freelist_count")?,
            damage: Vec::new(),
            unfinished: Vec::new(),
        };
        let portions = match depth {
            Depth::Whole => vec![Portion::Pages, Portion::Indexes],
            Depth::ByTable => tables(&connection)?.into_iter().map(Portion::Table).collect(),
        };
        let deadline = Instant::now() + patience;
        for (place, portion) in portions.iter().enumerate() {
            progress(portion.name(), place + 1, portions.len());
            match check(&connection, portion, deadline)? {
                Some(damage) => integrity.damage.extend(damage),
                None => integrity.unfinished.push(portion.name().to_owned()),
            }
            if !integrity.damage.is_empty() && depth == Depth::Whole {
                break; // it would only be said again
            }
        }
        integrity.damage.truncate(limits::DAMAGE_TOLD);
        Ok(integrity)
    };
    run().map_err(StoreError::from)
}

/// What is looked through in one go.
enum Portion {
    Pages,
    Indexes,
    Table(String),
}

impl Portion {
    fn name(&self) -> &str {
        match self {
            Self::Pages => "all pages",
            Self::Indexes => "all indexes",
            Self::Table(name) => name,
        }
    }

    fn pragma(&self) -> String {
        match self {
            Self::Pages => format!("pragma quick_check({})", limits::DAMAGE_TOLD),
            Self::Indexes => format!("pragma integrity_check({})", limits::DAMAGE_TOLD),
            Self::Table(name) => format!("pragma quick_check('{}')", name.replace('\'', "''")),
        }
    }
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut select =
        connection.prepare("select name from sqlite_schema where type = 'table' order by name")?;
    select.query_map([], |row| row.get(0))?.collect()
}

/// What is wrong with it; None if there was no time to find out.
fn check(
    connection: &Connection,
    portion: &Portion,
    deadline: Instant,
) -> rusqlite::Result<Option<Vec<String>>> {
    let Some(left) = deadline.checked_duration_since(Instant::now()) else { return Ok(None) };
    let _alarm = Alarm::set(connection, left);
    let looked = || -> rusqlite::Result<Vec<String>> {
        let mut check = connection.prepare(&portion.pragma())?;
        let lines = check.query_map([], |row| row.get(0))?;
        lines.filter(|line| line.as_ref().is_ok_and(|line| line != "ok") || line.is_err()).collect()
    };
    match looked() {
        Ok(damage) => Ok(Some(damage)),
        Err(rusqlite::Error::SqliteFailure(failure, _))
            if failure.code == ErrorCode::OperationInterrupted =>
        {
            Ok(None)
        }
        // A file too damaged to be looked through: that is what is wrong with it.
        Err(rusqlite::Error::SqliteFailure(failure, why)) if failure.code == ErrorCode::DatabaseCorrupt => {
            Ok(Some(vec![why.unwrap_or_else(|| failure.to_string())]))
        }
        Err(error) => Err(error),
    }
}

/// Interrupts what runs on a connection when time is up, unless it is dropped before.
struct Alarm {
    _off: std::sync::mpsc::Sender<()>,
}

impl Alarm {
    fn set(connection: &Connection, after: Duration) -> Self {
        let (off, stopped) = std::sync::mpsc::channel::<()>();
        let handle = connection.get_interrupt_handle();
        std::thread::spawn(move || {
            if stopped.recv_timeout(after) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                handle.interrupt();
            }
        });
        Self { _off: off }
    }
}

/// For a copy that was just made: whole, however long it takes.
pub(super) fn copy_is_whole(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let long = Instant::now() + Duration::from_secs(365 * 24 * 3600);
    Ok(check(connection, &Portion::Pages, long)?.unwrap_or_default())
}
