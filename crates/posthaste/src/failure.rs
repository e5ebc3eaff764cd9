//! How a command ends when it does not end well: what happened, what to do, and the exit code a script can act on.

use crate::{config::ConfigError, output};
use std::{
    fmt::{self, Display},
    process::ExitCode,
};
use store::{OpenError, StoreError};

#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    error: anyhow::Error,
}

/// The documented exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Failed = 1,
    Configuration = 2,
    Damaged = 3,
    Unsafe = 4,
    InUse = 5,
    NotReached = 6,
    Refused = 7,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Display) -> Self {
        Self { code, error: anyhow::anyhow!("{message}") }
    }

    pub(crate) fn failed(error: impl Into<anyhow::Error>) -> Self {
        Self { code: Code::Failed, error: error.into() }
    }

    pub(crate) fn configuration(message: impl Display) -> Self {
        Self::new(Code::Configuration, message)
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Whether trying again may help: the database is away.
    pub(crate) fn is_passing(&self) -> bool {
        let by_store = self.error.downcast_ref::<StoreError>();
        let at_open = self.error.downcast_ref::<OpenError>();
        matches!(by_store, Some(StoreError::Unavailable(_) | StoreError::OutcomeUnknown(_)))
            || matches!(at_open, Some(OpenError::Unavailable(_)))
    }

    /// Says it on standard error; in JSON when asked for.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        let code = self.code as u8;
        let message = self.to_string();
        if json {
            output::note(serde_json::json!({ "error": message, "exit_code": code }));
        } else {
            output::note(format_args!("posthaste: {message}"));
        }
        ExitCode::from(code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = self.error.to_string();
        f.write_str(&said)?;
        // Many errors say their cause themselves: each is said once.
        for cause in self.error.chain().skip(1).map(ToString::to_string) {
            if !said.contains(&cause) {
                write!(f, ": {cause}")?;
                said = cause;
            }
        }
        Ok(())
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::failed(error)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::configuration(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let code = if matches!(error, StoreError::Failed(_)) { Code::Damaged } else { Code::Failed };
        Self { code, error: error.into() }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        let code = match &error {
            OpenError::BadUrl(_) | OpenError::NotPermitted(_) => Code::Configuration,
            OpenError::InUse(_) => Code::InUse,
            OpenError::Unsafe(_) => Code::Unsafe,
            OpenError::Damaged(_) => Code::Damaged,
            OpenError::TooOld(_) | OpenError::Unreleased(_) | OpenError::Unavailable(_) => Code::Failed,
        };
        Self { code, error: error.into() }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        let code = match &error {
            client::Error::BadUrl(_) | client::Error::BadHeader(_) | client::Error::BadKey => {
                Code::Configuration
            }
            client::Error::NotReached { .. } => Code::NotReached,
            client::Error::Refused { .. } => Code::Refused,
            client::Error::Tls(_) | client::Error::Unexpected(_) => Code::Failed,
        };
        Self { code, error: error.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let full = || std::io::Error::other("the disk is full");
        let said = StoreError::Unavailable(full().into());
        assert_eq!(Failure::from(said).to_string(), "the store is unavailable: the disk is full");
        let added = anyhow::Error::new(full()).context("it cannot be written");
        assert_eq!(Failure::from(added).to_string(), "it cannot be written: the disk is full");
    }
}
