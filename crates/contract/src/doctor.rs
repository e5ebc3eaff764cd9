//! What a running node finds when it looks whether everything is in order.

use crate::schema;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What was looked at, and what to do about what is not in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Examination)]
pub struct ExaminationView {
    /// Nothing is worse than a warning.
    pub ok: bool,
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    pub findings: Vec<FindingView>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Finding)]
pub struct FindingView {
    /// What was looked at, in a word: as `posthaste doctor` calls it.
    #[schema(example = "disk_space")]
    pub check: String,
    pub level: FindingLevel,
    pub detail: String,
    /// What to do about it; null where nothing is to be done.
    #[schema(required)]
    pub fix: Option<String>,
}

/// The later the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingLevel {
    Ok,
    /// Worth knowing; nothing is lost and nothing stands still.
    Warning,
    Problem,
    /// What is acknowledged can be lost.
    Unsafe,
    /// Something was lost, or will be.
    Damaged,
}

impl FindingView {
    pub fn ok(check: &str, detail: impl Into<String>) -> Self {
        Self { check: check.into(), level: FindingLevel::Ok, detail: detail.into(), fix: None }
    }
}
