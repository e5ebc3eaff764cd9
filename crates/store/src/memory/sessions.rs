//! Sessions, links and users.

use super::{MemoryStore, Tables, newest_first};
use crate::{ChainOwner, HeldSession, NewSession, Page, SessionOf, Sessions, StoreError};
use async_trait::async_trait;
use domain::{
    account::ApiKey,
    audit::AuditEntry,
    id::{AccountId, PortalLinkId, SessionId, UserId},
    limits,
    session::{Holder, LinkPurpose, SecretHash, Session, SignInLink, User},
    time::Timestamp,
};

#[async_trait]
impl Sessions for MemoryStore {
    async fn create_session(&self, new: &NewSession, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if let Some(hash) = &new.link {
            let now = new.session.created_at;
            let opens = |link: &SignInLink| link.purpose == LinkPurpose::SignIn && link.expires_at > now;
            if !tables.links.get(hash).is_some_and(opens) {
                return Err(StoreError::NotFound { what: "sign-in link" });
            }
            tables.links.remove(hash);
        }
        tables.begin(new);
        tables.append(new.owner, audit);
        Ok(())
    }

    async fn session(&self, hash: &SecretHash) -> Result<Option<HeldSession>, StoreError> {
        self.interrupted("session")?;
        let tables = self.tables();
        let Some(session) = tables.sessions.values().find(|session| session.hash == *hash) else {
            return Ok(None);
        };
        let of = match session.holder {
            Holder::Key(id) => tables.api_keys.get(&id).cloned().map(SessionOf::Key),
            Holder::User(id) => tables.users.get(&id).cloned().map(SessionOf::User),
            Holder::PortalLink(id) => tables.held_portal_link(id).map(SessionOf::PortalLink),
        };
        Ok(of.map(|of| HeldSession { session: session.clone(), of }))
    }

    async fn sessions(
        &self,
        holder: Option<Holder>,
        page: Page<SessionId>,
    ) -> Result<Vec<Session>, StoreError> {
        let tables = self.tables();
        let sessions = newest_first(&tables.sessions, page.before).map(|(_, session)| session);
        let wanted = sessions.filter(|session| holder.is_none_or(|holder| session.holder == holder));
        Ok(wanted.take(page.limit).cloned().collect())
    }

    async fn touch_session(&self, id: SessionId, now: Timestamp) -> Result<(), StoreError> {
        if let Some(session) = self.tables().sessions.get_mut(&id) {
            session.seen_at = session.seen_at.max(now);
        }
        Ok(())
    }

    async fn choose_account(&self, id: SessionId, account: Option<AccountId>) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let session = tables.sessions.get_mut(&id).ok_or(StoreError::NotFound { what: "session" })?;
        session.account_id = account;
        Ok(())
    }

    async fn end_session(
        &self,
        holder: Option<Holder>,
        id: SessionId,
        owner: ChainOwner,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let is_wanted = |session: &&Session| holder.is_none_or(|holder| session.holder == holder);
        if tables.sessions.get(&id).filter(is_wanted).is_none() {
            return Err(StoreError::NotFound { what: "session" });
        }
        tables.sessions.remove(&id);
        tables.append(owner, audit);
        Ok(())
    }

    async fn prune_sessions(
        &self,
        seen_before: Timestamp,
        links_over: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let mut tables = self.tables();
        let old = tables.sessions.values().filter(|session| session.seen_at < seen_before);
        let old: Vec<SessionId> = old.map(|session| session.id).take(limit).collect();
        let over = tables.links.values().filter(|link| link.expires_at <= links_over);
        let over: Vec<SecretHash> = over.map(|link| link.hash).take(limit - old.len()).collect();
        tables.sessions.retain(|id, _| !old.contains(id));
        tables.links.retain(|hash, _| !over.contains(hash));
        let left = limit - old.len() - over.len();
        let ended = tables.portal_links.values().filter(|link| link.ends_at() <= links_over);
        let ended: Vec<PortalLinkId> = ended.map(|link| link.id).take(left).collect();
        tables.portal_links.retain(|id, _| !ended.contains(id));
        Ok(old.len() + over.len() + ended.len())
    }

    // --- Links ---------------------------------------------------------------------------------------------------

    async fn create_link(&self, link: &SignInLink) -> Result<(), StoreError> {
        self.tables().links.insert(link.hash, link.clone());
        Ok(())
    }

    async fn link(&self, hash: &SecretHash) -> Result<Option<SignInLink>, StoreError> {
        Ok(self.tables().links.get(hash).cloned())
    }

    async fn key_of_link(&self, hash: &SecretHash) -> Result<Option<ApiKey>, StoreError> {
        let tables = self.tables();
        let key = tables.links.get(hash).and_then(|link| link.key_id);
        Ok(key.and_then(|id| tables.api_keys.get(&id).cloned()))
    }

    // --- Users ---------------------------------------------------------------------------------------------------

    async fn set_up(&self, user: &User, new: &NewSession, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let now = new.session.created_at;
        let opens = |link: &SignInLink| link.purpose == LinkPurpose::SetUp && link.expires_at > now;
        let link = new.link.as_ref().and_then(|hash| tables.links.get(hash));
        if !link.is_some_and(opens) || !tables.users.is_empty() {
            return Err(StoreError::NotFound { what: "set-up link" });
        }
        tables.links.retain(|_, link| link.purpose != LinkPurpose::SetUp);
        tables.users.insert(user.id, user.clone());
        tables.begin(new);
        tables.append(new.owner, audit);
        Ok(())
    }

    async fn create_user(&self, user: &User, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.users.len() >= limits::USERS {
            return Err(StoreError::Full { what: "users" });
        }
        if tables.users.values().any(|other| other.name == user.name) {
            return Err(StoreError::Taken { constraint: "name" });
        }
        tables.users.insert(user.id, user.clone());
        tables.append(None, audit);
        Ok(())
    }

    async fn user(&self, id: UserId) -> Result<User, StoreError> {
        self.tables().users.get(&id).cloned().ok_or(StoreError::NotFound { what: "user" })
    }

    async fn user_by_name(&self, name: &str) -> Result<Option<User>, StoreError> {
        Ok(self.tables().users.values().find(|user| user.name == name).cloned())
    }

    async fn users(&self, page: Page<UserId>) -> Result<Vec<User>, StoreError> {
        let tables = self.tables();
        let users = newest_first(&tables.users, page.before).take(page.limit);
        Ok(users.map(|(_, user)| user.clone()).collect())
    }

    async fn delete_user(&self, id: UserId, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.users.remove(&id).ok_or(StoreError::NotFound { what: "user" })?;
        tables.end_sessions(Holder::User(id));
        tables.append(None, audit);
        Ok(())
    }

    async fn change_password(
        &self,
        id: UserId,
        password: &str,
        new: &NewSession,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let user = tables.users.get_mut(&id).ok_or(StoreError::NotFound { what: "user" })?;
        (user.password, user.updated_at) = (password.into(), new.session.created_at);
        tables.end_sessions(Holder::User(id));
        tables.begin(new);
        tables.append(new.owner, audit);
        Ok(())
    }
}

impl Tables {
    pub(super) fn begin(&mut self, new: &NewSession) {
        if let Some(id) = new.replaces {
            self.sessions.remove(&id);
        }
        let holder = new.session.holder;
        self.sessions.insert(new.session.id, new.session.clone());
        let own = self.sessions.values().rev().filter(|session| session.holder == holder);
        let old: Vec<SessionId> = own.map(|session| session.id).skip(limits::SESSIONS_PER_HOLDER).collect();
        self.sessions.retain(|id, _| !old.contains(id));
    }

    /// And the portal links that the holder has made, with theirs.
    pub(super) fn end_sessions(&mut self, holder: Holder) {
        self.sessions.retain(|_, session| session.holder != holder);
        self.remove_portal_links_by(holder);
    }
}
