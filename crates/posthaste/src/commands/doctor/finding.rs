//! One thing that was looked at.

use serde::Serialize;
use std::fmt;

#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    /// What was looked at, in a word.
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) detail: String,
    /// What to do about it; null where nothing is to be done.
    pub(super) fix: Option<String>,
    /// Of something that is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) examples: Vec<String>,
}

/// The later the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    Ok,
    /// Worth knowing; nothing is lost and nothing stands still.
    Warning,
    Problem,
    /// What is acknowledged can be lost.
    Unsafe,
    /// Something was lost, or will be.
    Damaged,
}

impl Finding {
    pub(super) fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self::new(check, Level::Ok, detail, None)
    }

    pub(super) fn bad(
        check: &'static str,
        level: Level,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::new(check, level, detail, Some(fix.into()))
    }

    fn new(check: &'static str, level: Level, detail: impl Into<String>, fix: Option<String>) -> Self {
        Self { check, level, detail: detail.into(), fix, count: None, examples: Vec::new() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Ok => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
            Level::Unsafe => "unsafe",
            Level::Damaged => "damaged",
        };
        write!(f, "{level:<8} {:<18} {}", self.check, self.detail)?;
        for example in &self.examples {
            write!(f, "\n{:27} {example}", "")?;
        }
        match &self.fix {
            Some(fix) => write!(f, "\n{:27} to mend it: {fix}", ""),
            None => Ok(()),
        }
    }
}
