//! The audit log.

use crate::schema;
use domain::{
    audit::ActorKind,
    id::{AccountId, ApiKeyId, AuditId, PortalLinkId, RequestId, UserId},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

/// What was done, by whom, when and from where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct AuditEntryView {
    #[schema(value_type = schema::AuditId)]
    pub id: AuditId,
    /// Its place in the chain of its account, from 1 without gaps.
    #[schema(minimum = 1)]
    pub number: i64,
    /// Null: the installation's own, such as an operator's key.
    #[schema(value_type = Option<schema::AccountId>, required)]
    pub account_id: Option<AccountId>,
    #[schema(value_type = schema::Timestamp)]
    pub at: Timestamp,
    pub actor: AuditActorView,
    /// The `operationId` of what was done, or `refused_` and the code of a problem.
    #[schema(example = "update_destination")]
    pub action: String,
    /// The id of what it was done to.
    #[schema(required)]
    pub object_id: Option<String>,
    /// The address it was asked for from, as far as `trusted_proxies` tell it.
    #[schema(required, example = "192.0.2.1")]
    pub client: Option<String>,
    #[schema(value_type = Option<String>, required, example = "req_01h455vb4pex5vsknk084sn02q")]
    pub request_id: Option<RequestId>,
    /// What changed, by member: what it was and what it is. Of what is secret it says `changed` and nothing else.
    #[schema(value_type = Option<schema::AuditDifference>, required)]
    pub difference: Option<Value>,
    /// How often it happened, where one entry stands for many: the refusals of a minute, the dead letters that were dismissed.
    #[schema(required)]
    pub count: Option<u32>,
    /// SHA-256 over the entry and the hash before it, in hexadecimal digits.
    pub hash: String,
}

/// Who did it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditActor)]
pub struct AuditActorView {
    #[serde(rename = "type")]
    #[schema(value_type = schema::ActorType)]
    pub kind: ActorKind,
    #[schema(value_type = Option<schema::ApiKeyId>, required)]
    pub key_id: Option<ApiKeyId>,
    /// Who signed in with a password.
    #[serde(default)]
    #[schema(value_type = Option<schema::UserId>, required)]
    pub user_id: Option<UserId>,
    /// The portal link that was opened.
    #[serde(default)]
    #[schema(value_type = Option<schema::PortalLinkId>, required)]
    pub portal_link_id: Option<PortalLinkId>,
}

/// Which entries are wanted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditQuery {
    /// Written at this time or later.
    #[param(value_type = Option<schema::Timestamp>)]
    pub since: Option<Timestamp>,
    /// Written before this time.
    #[param(value_type = Option<schema::Timestamp>)]
    pub until: Option<Timestamp>,
    /// The `operationId` of what was done, or `refused_` and a code.
    pub action: Option<String>,
    /// The id of a key, a user or a portal link, `operator`, `platform` or `system`.
    pub actor: Option<String>,
    /// The id of what it was done to.
    pub object_id: Option<String>,
    /// For operators: of this account alone.
    #[param(value_type = Option<schema::AccountRef>)]
    pub account_id: Option<AccountId>,
}
