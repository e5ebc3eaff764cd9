//! Portal links.

use super::{
    SqliteStore, audit_log, catalog,
    rows::Columns,
    sessions,
    statement::{bound, sql},
    trouble::{Trouble, unreadable},
    writer::Priority,
};
use crate::{HeldPortalLink, ListedPortalLink, Maker, NewSession, Page, PortalLinks, StoreError};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    id::{AccountId, ApiKeyId, PortalLinkId},
    limits,
    portal_link::PortalLink,
    session::{Holder, HolderKind, SecretHash},
};
use rusqlite::Connection;
use std::time::Duration;

const INSERT_PORTAL_LINK: &str = sql!("insert_portal_link");
const OLD_PORTAL_LINKS: &str = sql!("old_portal_links");
const PORTAL_LINK_BY_HASH: &str = concat!(sql!("portal_link"), "where p.hash = :hash");
const PORTAL_LINK_BY_ID: &str = concat!(sql!("portal_link"), "where p.id = :id");
const PORTAL_LINKS_OF_ACCOUNT: &str = concat!(
    sql!("portal_link"),
    "where p.account_id = :account_id and p.id < :before order by p.id desc limit :limit"
);
const OPEN_PORTAL_LINK: &str = sql!("open_portal_link");

#[async_trait]
impl PortalLinks for SqliteStore {
    async fn create_portal_link(&self, link: &PortalLink, audit: &AuditEntry) -> Result<(), StoreError> {
        let (link, audit) = (link.clone(), audit.clone());
        self.write(Priority::Api, move |connection| {
            if catalog::version(connection, link.account_id)?.is_none() {
                return Err(StoreError::NotFound { what: "account" }.into());
            }
            insert(connection, &link)?;
            let old = bound!(
                OLD_PORTAL_LINKS,
                account_id: link.account_id,
                now: link.created_at,
                kept: limits::PORTAL_LINKS_PER_ACCOUNT,
            )
            .all(connection, |columns| Ok(columns.id::<PortalLinkId>()?))?;
            for id in old {
                remove(connection, link.account_id, id)?;
            }
            audit_log::append(connection, Some(link.account_id), &audit)
        })
        .await
    }

    async fn portal_link(&self, hash: &SecretHash) -> Result<Option<HeldPortalLink>, StoreError> {
        let hash = *hash;
        self.read(move |connection| {
            let found = bound!(PORTAL_LINK_BY_HASH, hash: hash).first(connection, link)?;
            held(connection, found)
        })
        .await
    }

    async fn open_portal_link(
        &self,
        link: &PortalLink,
        new: &NewSession,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let (link, new, audit) = (link.clone(), new.clone(), audit.clone());
        self.write(Priority::Api, move |connection| {
            let now = new.session.created_at;
            let opened =
                bound!(OPEN_PORTAL_LINK, id: link.id, now: now, ends_at: now.plus(link.session_length))
                    .execute(connection)?;
            sessions::found(opened, "portal link")?;
            sessions::begin(connection, &new)?;
            audit_log::append(connection, Some(link.account_id), &audit)
        })
        .await
    }

    async fn portal_links(
        &self,
        account: AccountId,
        page: Page<PortalLinkId>,
    ) -> Result<Vec<ListedPortalLink>, StoreError> {
        let before = page.before.unwrap_or(PortalLinkId::MAX);
        self.read(move |connection| {
            let links =
                bound!(PORTAL_LINKS_OF_ACCOUNT, account_id: account, before: before, limit: page.limit)
                    .all(connection, link)?;
            let listed = links.into_iter().map(|link| {
                let session = match link.opened_at {
                    Some(_) => sessions::newest(connection, Holder::PortalLink(link.id))?,
                    None => None,
                };
                Ok(ListedPortalLink { link, session })
            });
            listed.collect()
        })
        .await
    }

    async fn revoke_portal_link(
        &self,
        account: AccountId,
        id: PortalLinkId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| {
            sessions::found(remove(connection, account, id)?, "portal link")?;
            audit_log::append(connection, Some(account), &audit)
        })
        .await
    }
}

/// The link of a session.
pub(super) fn held_by_id(
    connection: &Connection,
    id: PortalLinkId,
) -> Result<Option<HeldPortalLink>, Trouble> {
    let found = bound!(PORTAL_LINK_BY_ID, id: id).first(connection, link)?;
    held(connection, found)
}

/// All that somebody has made.
pub(super) fn remove_by(connection: &Connection, maker: Holder) -> Result<(), Trouble> {
    let maker_id = *maker.uuid().as_bytes();
    bound!(
        "delete from sessions where holder_id in (select id from portal_links where maker_id = :maker_id)",
        maker_id: maker_id,
    )
    .execute(connection)?;
    bound!("delete from portal_links where maker_id = :maker_id", maker_id: maker_id).execute(connection)?;
    Ok(())
}

fn insert(connection: &Connection, link: &PortalLink) -> Result<(), Trouble> {
    bound!(
        INSERT_PORTAL_LINK,
        id: link.id,
        hash: link.hash,
        account_id: link.account_id,
        maker: link.maker.kind().as_str(),
        maker_id: *link.maker.uuid().as_bytes(),
        read_only: link.read_only,
        created_at: link.created_at,
        expires_at: link.expires_at,
        session_seconds: i64::try_from(link.session_length.as_secs()).unwrap_or(i64::MAX),
        ends_at: link.ends_at(),
    )
    .execute(connection)?;
    Ok(())
}

/// How many there were.
fn remove(connection: &Connection, account: AccountId, id: PortalLinkId) -> Result<usize, Trouble> {
    let removed = bound!(
        "delete from portal_links where id = :id and account_id = :account_id",
        id: id,
        account_id: account,
    )
    .execute(connection)?;
    if removed > 0 {
        bound!("delete from sessions where holder_id = :id", id: id).execute(connection)?;
    }
    Ok(removed)
}

fn held(connection: &Connection, found: Option<PortalLink>) -> Result<Option<HeldPortalLink>, Trouble> {
    let Some(link) = found else { return Ok(None) };
    let maker = match link.maker {
        Holder::Key(id) => catalog::api_key_by_id(connection, id)?.map(Maker::Key),
        Holder::User(id) => sessions::user_by_id(connection, id)?.map(Maker::User),
        Holder::PortalLink(_) => None,
    };
    Ok(maker.map(|maker| HeldPortalLink { link, maker }))
}

fn link(columns: &mut Columns<'_>) -> Result<PortalLink, Trouble> {
    let (id, hash, account_id) = (columns.id()?, columns.get()?, columns.id()?);
    let kind: HolderKind = columns.text()?.parse().map_err(|error| unreadable("maker", error))?;
    Ok(PortalLink {
        id,
        hash,
        account_id,
        // Whichever it is, it is kept as the others would be.
        maker: Holder::read(kind, columns.id::<ApiKeyId>()?.uuid()),
        read_only: columns.get()?,
        created_at: columns.time()?,
        expires_at: columns.time()?,
        session_length: Duration::from_secs(columns.count()?),
        opened_at: columns.optional_time()?,
    })
}
