//! Accounts.

use crate::schema;
use domain::{id::AccountId, limits, time::Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The tenant that owns everything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Account)]
pub struct AccountView {
    #[schema(value_type = schema::AccountId)]
    pub id: AccountId,
    /// The operator's own id of it.
    #[schema(required)]
    pub uid: Option<String>,
    pub name: String,
    /// How long ended work is kept.
    pub retention_days: u32,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub updated_at: Timestamp,
}

/// An account to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAccount {
    /// Your own id of it, unique in the installation.
    #[schema(value_type = Option<schema::Uid>)]
    pub uid: Option<String>,
    #[schema(value_type = schema::Name)]
    pub name: String,
    #[serde(default = "retention_days")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 3650, default = 90)]
    pub retention_days: u32,
}

impl NewAccount {
    pub fn new(name: &str) -> Self {
        Self { uid: None, name: name.into(), retention_days: retention_days() }
    }
}

/// What an account may change of itself: its uid is the operator's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnAccountInput {
    #[schema(value_type = schema::Name)]
    pub name: String,
    #[serde(default = "retention_days")]
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 3650, default = 90)]
    pub retention_days: u32,
}

fn retention_days() -> u32 {
    limits::RETENTION_DAYS_DEFAULT
}
