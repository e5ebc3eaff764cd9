//! Portal links.

use crate::schema;
use domain::{
    id::{AccountId, PortalLinkId},
    portal_link::PortalLinkStatus,
    session::Holder,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A link to the pages of one account as it can be shown: enough to recognise it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = PortalLink)]
pub struct PortalLinkView {
    #[schema(value_type = schema::PortalLinkId)]
    pub id: PortalLinkId,
    #[schema(value_type = schema::AccountId)]
    pub account_id: AccountId,
    #[schema(value_type = schema::PortalLinkStatus)]
    pub status: PortalLinkStatus,
    /// Its session looks, and changes nothing.
    pub read_only: bool,
    /// The key or the user it was made by: it ends with them.
    #[schema(value_type = schema::HolderId)]
    pub created_by: Holder,
    #[schema(value_type = schema::Timestamp)]
    pub created_at: Timestamp,
    /// Until then it can be opened.
    #[schema(value_type = schema::Timestamp)]
    pub expires_at: Timestamp,
    /// How long the session lasts that it begins.
    #[schema(minimum = 60, maximum = 43200)]
    pub session_seconds: u32,
    #[schema(value_type = Option<schema::Timestamp>, required)]
    pub opened_at: Option<Timestamp>,
    /// Who is signed in by it. Null before it is opened, and when that has ended.
    #[schema(required)]
    pub session: Option<PortalSessionView>,
}

/// A browser that is signed in by a portal link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = PortalSession)]
pub struct PortalSessionView {
    /// To the minute or so.
    #[schema(value_type = schema::Timestamp)]
    pub seen_at: Timestamp,
    #[schema(value_type = schema::Timestamp)]
    pub expires_at: Timestamp,
    /// The address it was opened from, as far as `trusted_proxies` tell it.
    #[schema(example = "192.0.2.1")]
    pub client: String,
    #[schema(required)]
    pub user_agent: Option<String>,
}

/// A link that has just been made: the only time it is shown.
#[derive(Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NewPortalLink)]
pub struct NewPortalLinkView {
    #[serde(flatten)]
    pub portal_link: PortalLinkView,
    /// Where to send whoever it is for. It is opened once, and whoever opens it is signed in: hand it on as you would a
    /// password. It cannot be read again.
    #[schema(example = "https://hooks.example.com/portal?t=…")]
    pub url: String,
}

impl std::fmt::Debug for NewPortalLinkView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NewPortalLinkView").field(&self.portal_link).finish()
    }
}

/// A link to be made.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = PortalLinkInput)]
#[serde(default, deny_unknown_fields)]
pub struct PortalLinkInput {
    /// Its session looks, and changes nothing: no settings, no retry, no replay, no test, no secret.
    #[schema(default = false)]
    pub read_only: bool,
    /// For how long it can be opened.
    #[schema(minimum = 10, maximum = 3600, default = 3600)]
    pub expires_in_seconds: Option<u32>,
    /// How long the session lasts that it begins; without a request it ends after half an hour in any case.
    #[schema(minimum = 60, maximum = 43200, default = 43200)]
    pub session_seconds: Option<u32>,
}
