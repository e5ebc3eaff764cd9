//! What SQLite's errors mean for the store: how far each reaches, and whether the store may go on.

use crate::{
    BoxError, StoreError,
    damage::{DamagedRow, left_out},
};
use rusqlite::{Error as SqlError, ErrorCode, ffi};
use std::fmt::Display;

/// What stops a piece of work.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A decision: this work is refused, its neighbours go on.
    Store(StoreError),
    /// Something of ours that does not read back: damaged by hand, or written by a newer version.
    Unreadable(BoxError),
    Sql(SqlError),
}

/// How far an error of SQLite reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// This one row will not be taken.
    Row,
    /// No room: not now, perhaps later. The transaction is lost.
    Full,
    /// Busy, out of memory, interrupted: the transaction is lost, the next one may work.
    Transaction,
    /// A read or a flush has failed, or the file is damaged: what this handle believes may not be on disk.
    Store,
}

impl Trouble {
    pub(super) fn reach(&self) -> Reach {
        match self {
            Self::Store(_) | Self::Unreadable(_) => Reach::Row,
            Self::Sql(error) => reach(error),
        }
    }

    /// Whether it is a row that does not read, and no other is the worse for it.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Unreadable(_) => true,
            Self::Sql(error) => is_ours(error),
            Self::Store(_) => false,
        }
    }

    /// None for a row that does not read, which is named: the list goes on without it.
    pub(super) fn leave_out<T>(
        what: &'static str,
        id: impl Display,
        read: Result<T, Self>,
    ) -> Result<Option<T>, Self> {
        match read {
            Err(trouble) if trouble.is_damage() => {
                left_out(what, &DamagedRow::new(id, trouble.of_read()));
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// What it means where nothing was to be written: only a write can be refused.
    pub(super) fn of_read(self) -> StoreError {
        match self {
            Self::Unreadable(error) => StoreError::Unreadable(error),
            Self::Sql(error) if is_ours(&error) => StoreError::Unreadable(error.into()),
            trouble => match StoreError::from(trouble) {
                StoreError::Refused(error) => StoreError::Unavailable(error),
                error => error,
            },
        }
    }
}

pub(super) fn reach(error: &SqlError) -> Reach {
    let SqlError::SqliteFailure(failure, _) = error else {
        return Reach::Row; // a value that does not fit its type: ours or damaged by hand, but not the disk's
    };
    match failure.code {
        ErrorCode::DiskFull => Reach::Full,
        // The index of the log lives in a file of its own, which cannot grow on a full disk. It is rebuilt from the
        // log at every start, so nothing is lost with it.
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Reach::Full,
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_NOMEM => Reach::Transaction,
        ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Reach::Store,
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::OutOfMemory
        | ErrorCode::OperationInterrupted
        | ErrorCode::OperationAborted
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::SchemaChanged
        | ErrorCode::CannotOpen
        | ErrorCode::ReadOnly => Reach::Transaction,
        _ => Reach::Row,
    }
}

impl From<SqlError> for Trouble {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Store(error) => error,
            Trouble::Unreadable(error) => Self::Unavailable(error),
            Trouble::Sql(error) => match reach(&error) {
                Reach::Row if is_ours(&error) => Self::Unavailable(error.into()),
                Reach::Row => Self::Refused(error.into()),
                Reach::Full | Reach::Transaction => Self::Unavailable(error.into()),
                Reach::Store => Self::Failed(error.into()),
            },
        }
    }
}

/// A value that the store kept and cannot read: no fault of the caller.
fn is_ours(error: &SqlError) -> bool {
    !matches!(error, SqlError::SqliteFailure(..) | SqlError::ToSqlConversionFailure(_))
}

/// A document of ours that does not read back.
pub(super) fn unreadable(what: &'static str, why: impl std::fmt::Display) -> Trouble {
    Trouble::Unreadable(format!("unreadable {what}: {why}").into())
}
