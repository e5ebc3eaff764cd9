//! Sessions of the dashboard, the links that begin one, and users with a password; see [`domain::session`].
//!
//! A session's row is read on every node, so that all of them agree on who is signed in. What begins or ends one for a
//! person is written down in the same transaction, in the chain of the account whose key holds it, or in the installation's
//! own: that is for the caller to say.

use crate::{ChainOwner, HeldPortalLink, Page, StoreError};
use async_trait::async_trait;
use domain::{
    account::ApiKey,
    audit::AuditEntry,
    id::{AccountId, SessionId, UserId},
    session::{Holder, SecretHash, Session, SignInLink, User},
    time::Timestamp,
};

#[async_trait]
pub trait Sessions: Send + Sync {
    // --- Sessions ------------------------------------------------------------------------------------------------

    /// Begins a session. Of its holder's sessions the newest [`domain::limits::SESSIONS_PER_HOLDER`] stay. With a link,
    /// that link is used up by it: `NotFound { "sign-in link" }` if it has been, or is over.
    async fn create_session(&self, new: &NewSession, audit: &AuditEntry) -> Result<(), StoreError>;

    /// The session of this hash, with its holder, over or not, and whatever has become of the key: the caller decides.
    /// None if there is none, or its holder is gone.
    async fn session(&self, hash: &SecretHash) -> Result<Option<HeldSession>, StoreError>;

    /// Of one holder, or of all; newest first, those that are over too.
    async fn sessions(
        &self,
        holder: Option<Holder>,
        page: Page<SessionId>,
    ) -> Result<Vec<Session>, StoreError>;

    /// Notes that it was used; one that is not there is none to note.
    async fn touch_session(&self, id: SessionId, now: Timestamp) -> Result<(), StoreError>;

    /// The account that its pages are about from now on. `NotFound { "session" }`.
    async fn choose_account(&self, id: SessionId, account: Option<AccountId>) -> Result<(), StoreError>;

    /// Ends a session: of this holder, or of anybody for None. `NotFound { "session" }`.
    async fn end_session(
        &self,
        holder: Option<Holder>,
        id: SessionId,
        owner: ChainOwner,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;

    /// Forgets sessions that were last seen before then, and links of either kind that were over then, at most so many in
    /// all. Says how many went. Can be run by several at once.
    async fn prune_sessions(
        &self,
        seen_before: Timestamp,
        links_over: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError>;

    // --- Links ---------------------------------------------------------------------------------------------------

    async fn create_link(&self, link: &SignInLink) -> Result<(), StoreError>;

    /// Over or not; None if it was never there, or is used up.
    async fn link(&self, hash: &SecretHash) -> Result<Option<SignInLink>, StoreError>;

    /// The key of a link, whatever has become of it.
    async fn key_of_link(&self, hash: &SecretHash) -> Result<Option<ApiKey>, StoreError>;

    // --- Users ---------------------------------------------------------------------------------------------------

    /// Makes the first user and begins its session, by a set-up link, which `new` names. All set-up links are used up by
    /// it. `NotFound { "set-up link" }` if it has been used or is over, or somebody else was faster.
    async fn set_up(&self, user: &User, new: &NewSession, audit: &AuditEntry) -> Result<(), StoreError>;

    /// `Taken { "name" }`, or `Full { "users" }` beyond [`domain::limits::USERS`].
    async fn create_user(&self, user: &User, audit: &AuditEntry) -> Result<(), StoreError>;

    async fn user(&self, id: UserId) -> Result<User, StoreError>;
    async fn user_by_name(&self, name: &str) -> Result<Option<User>, StoreError>;
    /// Newest first.
    async fn users(&self, page: Page<UserId>) -> Result<Vec<User>, StoreError>;

    /// With its sessions, and the portal links it has made.
    async fn delete_user(&self, id: UserId, audit: &AuditEntry) -> Result<(), StoreError>;

    /// Another password: all the user's sessions end, and the portal links it has made; this session begins.
    async fn change_password(
        &self,
        id: UserId,
        password: &str,
        new: &NewSession,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;
}

/// A session that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    pub session: Session,
    /// In whose chain it is written down.
    pub owner: ChainOwner,
    /// The link that was opened.
    pub link: Option<SecretHash>,
    /// What the same browser had before ends.
    pub replaces: Option<SessionId>,
}

/// A session, and whom it stands in for.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldSession {
    pub session: Session,
    pub of: SessionOf,
}

#[derive(Debug, Clone, PartialEq)]
pub enum SessionOf {
    Key(ApiKey),
    User(User),
    PortalLink(HeldPortalLink),
}
