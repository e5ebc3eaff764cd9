//! The keys that encrypt what is secret: how they are used, and how they are changed. Never the keys themselves.

use crate::schema;
use domain::{id::AccountId, limits};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The master keys that this node knows, the active one first, and others that something is sealed by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MasterKeys)]
pub struct MasterKeysView {
    pub keys: Vec<MasterKeyView>,
    /// Accounts of which what is kept does not read: by which key theirs is sealed is not known.
    pub unreadable_count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MasterKey)]
pub struct MasterKeyView {
    #[schema(example = "k1")]
    pub name: String,
    /// It seals; all others only open.
    pub active: bool,
    /// This node was started with it.
    pub configured: bool,
    /// The data keys of accounts, and the installation's pepper, as far as they are sealed by it.
    pub sealed_count: u64,
    /// No node starts without it. False: it may be left out of `master_keys`.
    pub needed: bool,
}

/// Where to go on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RotateMasterKey {
    /// The `next` of the answer before.
    #[schema(value_type = Option<schema::AccountId>)]
    pub after: Option<AccountId>,
}

/// What a step of the rotation of the master key has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = MasterKeyRotation)]
pub struct RotationView {
    /// The name of the key that seals.
    #[schema(example = "k2")]
    pub master_key: String,
    /// In this step.
    pub resealed_count: u64,
    /// Where to go on; null: at the beginning, unless it is done.
    #[schema(value_type = Option<schema::AccountId>, required)]
    pub next: Option<AccountId>,
    /// Everything is sealed by that key: the others may be left out of `master_keys`.
    pub done: bool,
}

/// Which data keys are changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RotateDataKeys {
    /// The `next` of the answer before.
    #[schema(value_type = Option<schema::AccountId>)]
    pub after: Option<AccountId>,
    /// Accounts whose key is at least this old get a new one; null: none does, and only what was begun is ended.
    #[schema(value_type = Option<u32>)]
    pub older_than_seconds: Option<u32>,
}

impl Default for RotateDataKeys {
    fn default() -> Self {
        Self { after: None, older_than_seconds: Some(limits::DATA_KEY_YOUNG.as_secs() as u32) }
    }
}

/// What a step of the rotation of data keys has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DataKeyRotation)]
pub struct DataKeyRotationView {
    /// Accounts that have got a new key in this step.
    pub begun_count: u64,
    /// Sources and destinations whose secrets were sealed by a new key in this step.
    pub resealed_count: u64,
    /// Accounts whose old key was forgotten in this step.
    pub ended_count: u64,
    /// Accounts that have both keys still.
    pub waiting_count: u64,
    /// Accounts that keep older keys since payloads are encrypted by them: they are forgotten by the rotation after the last
    /// event of their time is.
    #[serde(default)]
    #[schema(required)]
    pub kept_count: u64,
    /// After so many seconds they can be ended.
    pub wait_seconds: u64,
    /// Sources and destinations with something sealed that does not open or read: the old key of their account stays.
    pub unreadable_count: u64,
    /// Where to go on; null: all accounts were looked at.
    #[schema(value_type = Option<schema::AccountId>, required)]
    pub next: Option<AccountId>,
}
