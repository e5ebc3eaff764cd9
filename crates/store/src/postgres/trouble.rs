//! What an error of the database means to us: whose fault it was, and whether anything can have been written.

use super::rows::Unreadable;
use crate::{BoxError, StoreError};
use std::error::Error;
use tokio_postgres::error::{Severity, SqlState};

/// A statement that did not go well.
#[derive(Debug)]
pub(super) enum Trouble {
    /// A value in it cannot be stored: leave that one out and the rest will go through.
    Culprit { error: tokio_postgres::Error },
    /// Nothing was written.
    Away(BoxError),
    /// The connection broke before the answer: it may have been written.
    Unknown(BoxError),
    /// It answered, and the answer does not read.
    Unreadable(Unreadable),
}

/// An error with all its causes, each said once: the driver alone calls whatever the server said a "db error".
pub(super) fn in_full(error: &dyn Error) -> BoxError {
    let (mut said, mut cause) = (error.to_string(), error.source());
    while let Some(next) = cause {
        let words = next.to_string();
        if !said.contains(&words) {
            said = format!("{said}: {words}");
        }
        cause = next.source();
    }
    said.into()
}

/// Whether a lost answer leaves a doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Commits when it is run.
    Writes,
    /// Reads, or is part of a transaction that is committed later.
    Harmless,
}

impl Trouble {
    pub(super) fn of(error: tokio_postgres::Error, doubt: Doubt) -> Self {
        let spoken = error.as_db_error();
        // A server that ends the connection says so too, and then the statement may have been complete.
        let last_words = spoken.is_some_and(|word| {
            matches!(word.parsed_severity(), Some(Severity::Fatal | Severity::Panic) | None)
        });
        match spoken.map(|word| word.code().code().as_bytes()) {
            Some([b'2', b'2' | b'3', ..] | [b'5', b'4', ..]) => Self::Culprit { error },
            Some(_) if !last_words => Self::Away(in_full(&error)),
            _ if doubt == Doubt::Writes => Self::Unknown(in_full(&error)),
            _ => Self::Away(in_full(&error)),
        }
    }

    /// What was written is written, whatever does not read of the answer.
    pub(super) fn after_write(unreadable: Unreadable) -> Self {
        Self::Unknown(unreadable.into())
    }

    pub(super) fn deadline(doubt: Doubt) -> Self {
        let error = BoxError::from("the database did not answer in time");
        if doubt == Doubt::Writes { Self::Unknown(error) } else { Self::Away(error) }
    }
}

impl From<Unreadable> for Trouble {
    fn from(unreadable: Unreadable) -> Self {
        Self::Unreadable(unreadable)
    }
}

/// Configuration has names that can be taken and owners that can be missing.
impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Away(error) => Self::Unavailable(error),
            Trouble::Unknown(error) => Self::OutcomeUnknown(error),
            Trouble::Unreadable(error) => error.into(),
            Trouble::Culprit { error } => {
                let constraint = error.as_db_error().and_then(|word| word.constraint()).unwrap_or_default();
                match error.code() {
                    Some(code) if *code == SqlState::UNIQUE_VIOLATION => match constraint {
                        constraint if constraint.contains("lookup") => Self::Taken { constraint: "lookup" },
                        constraint if constraint.contains("token_hash") => {
                            Self::Taken { constraint: "token" }
                        }
                        constraint if constraint.contains("user_name") => Self::Taken { constraint: "name" },
                        constraint if constraint.contains("uid") => Self::Taken { constraint: "uid" },
                        _ => Self::Taken { constraint: "id" },
                    },
                    Some(code)
                        if *code == SqlState::FOREIGN_KEY_VIOLATION && constraint.contains("account_id") =>
                    {
                        Self::NotFound { what: "account" }
                    }
                    _ => Self::Refused(in_full(&error)),
                }
            }
        }
    }
}
