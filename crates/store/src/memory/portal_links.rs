//! Portal links.

use super::{MemoryStore, Tables, newest_first};
use crate::{HeldPortalLink, ListedPortalLink, Maker, NewSession, Page, PortalLinks, StoreError};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    id::{AccountId, PortalLinkId},
    limits,
    portal_link::PortalLink,
    session::{Holder, SecretHash},
};
use std::cmp::Reverse;

#[async_trait]
impl PortalLinks for MemoryStore {
    async fn create_portal_link(&self, link: &PortalLink, audit: &AuditEntry) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.account(link.account_id)?;
        tables.portal_links.insert(link.id, link.clone());
        let own = tables.portal_links.values().filter(|other| other.account_id == link.account_id);
        let mut own: Vec<_> =
            own.map(|other| (Reverse(other.ends_at() > link.created_at), Reverse(other.id))).collect();
        own.sort();
        for (_, Reverse(id)) in own.into_iter().skip(limits::PORTAL_LINKS_PER_ACCOUNT) {
            tables.remove_portal_link(id);
        }
        tables.append(Some(link.account_id), audit);
        Ok(())
    }

    async fn portal_link(&self, hash: &SecretHash) -> Result<Option<HeldPortalLink>, StoreError> {
        let tables = self.tables();
        let found = tables.portal_links.values().find(|link| link.hash == *hash).map(|link| link.id);
        Ok(found.and_then(|id| tables.held_portal_link(id)))
    }

    async fn open_portal_link(
        &self,
        link: &PortalLink,
        new: &NewSession,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let now = new.session.created_at;
        let kept = tables.portal_links.get_mut(&link.id).filter(|kept| kept.can_be_opened(now));
        kept.ok_or(StoreError::NotFound { what: "portal link" })?.opened_at = Some(now);
        tables.begin(new);
        tables.append(Some(link.account_id), audit);
        Ok(())
    }

    async fn portal_links(
        &self,
        account: AccountId,
        page: Page<PortalLinkId>,
    ) -> Result<Vec<ListedPortalLink>, StoreError> {
        let tables = self.tables();
        let alive = tables.accounts.contains_key(&account);
        let links = newest_first(&tables.portal_links, page.before).map(|(_, link)| link);
        let own = links.filter(|link| alive && link.account_id == account).take(page.limit);
        let listed = own.map(|link| {
            let holder = Holder::PortalLink(link.id);
            let session = tables.sessions.values().find(|session| session.holder == holder);
            ListedPortalLink { link: link.clone(), session: session.cloned() }
        });
        Ok(listed.collect())
    }

    async fn revoke_portal_link(
        &self,
        account: AccountId,
        id: PortalLinkId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.portal_links.get(&id).is_none_or(|link| link.account_id != account) {
            return Err(StoreError::NotFound { what: "portal link" });
        }
        tables.remove_portal_link(id);
        tables.append(Some(account), audit);
        Ok(())
    }
}

impl Tables {
    pub(super) fn held_portal_link(&self, id: PortalLinkId) -> Option<HeldPortalLink> {
        let link = self.portal_links.get(&id)?.clone();
        self.accounts.get(&link.account_id)?;
        let maker = match link.maker {
            Holder::Key(id) => Maker::Key(self.api_keys.get(&id)?.clone()),
            Holder::User(id) => Maker::User(self.users.get(&id)?.clone()),
            Holder::PortalLink(_) => return None,
        };
        Some(HeldPortalLink { link, maker })
    }

    /// All that somebody has made.
    pub(super) fn remove_portal_links_by(&mut self, maker: Holder) {
        let made = self.portal_links.values().filter(|link| link.maker == maker);
        let made: Vec<PortalLinkId> = made.map(|link| link.id).collect();
        made.into_iter().for_each(|id| self.remove_portal_link(id));
    }

    fn remove_portal_link(&mut self, id: PortalLinkId) {
        self.portal_links.remove(&id);
        self.sessions.retain(|_, session| session.holder != Holder::PortalLink(id));
    }
}
