//! Portal links; see [`domain::portal_link`]. The session that one begins is held by it, and is gone with it.
//!
//! A link ends with whoever made it: revoking a key, removing a user or changing its password removes the links they made, as
//! it ends their sessions. Of an account that was deleted there is none. What is done to a link is written down in its
//! account's chain.

use crate::{NewSession, Page, StoreError};
use async_trait::async_trait;
use domain::{
    account::ApiKey,
    audit::AuditEntry,
    id::{AccountId, PortalLinkId},
    portal_link::PortalLink,
    session::{SecretHash, Session, User},
};

#[async_trait]
pub trait PortalLinks: Send + Sync {
    /// Of the account's links [`domain::limits::PORTAL_LINKS_PER_ACCOUNT`] stay: those that are over go first, then the
    /// oldest, with their sessions. `NotFound { "account" }`.
    async fn create_portal_link(&self, link: &PortalLink, audit: &AuditEntry) -> Result<(), StoreError>;

    /// The link of this hash, over or not, and whatever has become of its maker's key: the caller decides. None if there is
    /// none, or its account or its maker is gone.
    async fn portal_link(&self, hash: &SecretHash) -> Result<Option<HeldPortalLink>, StoreError>;

    /// Opens it, and begins its session. `NotFound { "portal link" }` if it has been opened, or is over.
    async fn open_portal_link(
        &self,
        link: &PortalLink,
        new: &NewSession,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;

    /// Newest first, those that are over too.
    async fn portal_links(
        &self,
        account: AccountId,
        page: Page<PortalLinkId>,
    ) -> Result<Vec<ListedPortalLink>, StoreError>;

    /// Removes it with its session. `NotFound { "portal link" }`.
    async fn revoke_portal_link(
        &self,
        account: AccountId,
        id: PortalLinkId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
}

/// A link, and who made it.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldPortalLink {
    pub link: PortalLink,
    pub maker: Maker,
}

/// Whoever made a portal link.
#[derive(Debug, Clone, PartialEq)]
pub enum Maker {
    Key(ApiKey),
    User(User),
}

/// A link with the session that it began, if that one has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedPortalLink {
    pub link: PortalLink,
    pub session: Option<Session>,
}
