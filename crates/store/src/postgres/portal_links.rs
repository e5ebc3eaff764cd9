//! Portal links.

use super::{
    PostgresStore, audit_log, catalog,
    pool::{Connection, Transaction},
    rows::{Cells, Unreadable},
    sessions,
    statement::{Statement, params, sql},
};
use crate::{HeldPortalLink, ListedPortalLink, Maker, NewSession, Page, PortalLinks, StoreError};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    id::{AccountId, PortalLinkId},
    limits,
    portal_link::PortalLink,
    session::{Holder, SecretHash, Session},
};
use std::{collections::HashMap, sync::LazyLock, time::Duration};
use uuid::Uuid;

static INSERT_PORTAL_LINK: LazyLock<Statement> = sql!("insert_portal_link");
static OLD_PORTAL_LINKS: LazyLock<Statement> = sql!("old_portal_links");
static PORTAL_LINK_BY_HASH: LazyLock<Statement> = sql!("portal_link", "where p.hash = :hash");
static PORTAL_LINK_BY_ID: LazyLock<Statement> = sql!("portal_link", "where p.id = :id");
static PORTAL_LINKS_OF_ACCOUNT: LazyLock<Statement> = sql!(
    "portal_link",
    "where p.account_id = :account_id and p.id < :before_id order by p.id desc limit :limit"
);
static OPEN_PORTAL_LINK: LazyLock<Statement> = sql!("open_portal_link");
static REMOVE_PORTAL_LINKS: LazyLock<Statement> = sql!(
    "remove_portal_links": "delete from portal_links where id = any(:ids) and account_id = :account_id returning id"
);
static END_SESSIONS_OF_PORTAL_LINKS: LazyLock<Statement> = sql!(
    "end_sessions_of_portal_links": "delete from sessions where holder_id = any(:ids)"
);
static REMOVE_PORTAL_LINKS_BY: LazyLock<Statement> = sql!(
    "remove_portal_links_by": "delete from portal_links where maker_id = :maker_id returning id"
);

#[async_trait]
impl PortalLinks for PostgresStore {
    async fn create_portal_link(&self, link: &PortalLink, audit: &AuditEntry) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let created = async {
            catalog::lock_account(&transaction, link.account_id).await?;
            insert(&transaction, link).await?;
            let params = params![
                account_id: link.account_id.uuid() => UUID, now: link.created_at.micros() => INT8,
                kept: limits::PORTAL_LINKS_PER_ACCOUNT as i64 => INT8,
            ];
            let old: Vec<Uuid> = transaction.run(&OLD_PORTAL_LINKS, params).await?.column("id")?;
            if !old.is_empty() {
                remove(&transaction, link.account_id, old).await?;
            }
            audit_log::append(&transaction, Some(link.account_id), audit).await
        };
        let created = created.await;
        transaction.end(created).await
    }

    async fn portal_link(&self, hash: &SecretHash) -> Result<Option<HeldPortalLink>, StoreError> {
        let connection = self.pools.general().await?;
        let found =
            connection.read(&PORTAL_LINK_BY_HASH, params![hash: &hash[..] => BYTEA]).await?.first(link)?;
        held(&connection, found).await
    }

    async fn open_portal_link(
        &self,
        link: &PortalLink,
        new: &NewSession,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let now = new.session.created_at;
        let params = params![
            id: link.id.uuid() => UUID, now: now.micros() => INT8,
            ends_at: now.plus(link.session_length).micros() => INT8,
        ];
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let opened = async {
            sessions::found(&transaction.run(&OPEN_PORTAL_LINK, params).await?, "portal link")?;
            sessions::begin(&transaction, new).await?;
            audit_log::append(&transaction, Some(link.account_id), audit).await
        };
        let opened = opened.await;
        transaction.end(opened).await
    }

    async fn portal_links(
        &self,
        account: AccountId,
        page: Page<PortalLinkId>,
    ) -> Result<Vec<ListedPortalLink>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![
            account_id: account.uuid() => UUID, before_id: page.before.unwrap_or(PortalLinkId::MAX).uuid() => UUID,
            limit: page.limit as i64 => INT8,
        ];
        let links = connection.read(&PORTAL_LINKS_OF_ACCOUNT, params).await?.all(link)?;
        let opened = links.iter().filter(|link| link.opened_at.is_some()).map(|link| link.id.uuid());
        let found = sessions::of_holders(&connection, opened.collect()).await?;
        let mut found: HashMap<Holder, Session> =
            found.into_iter().map(|session| (session.holder, session)).collect();
        let listed = links.into_iter().map(|link| {
            let session = found.remove(&Holder::PortalLink(link.id));
            ListedPortalLink { link, session }
        });
        Ok(listed.collect())
    }

    async fn revoke_portal_link(
        &self,
        account: AccountId,
        id: PortalLinkId,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let revoked = async {
            if remove(&transaction, account, vec![id.uuid()]).await? == 0 {
                return Err(StoreError::NotFound { what: "portal link" });
            }
            audit_log::append(&transaction, Some(account), audit).await
        };
        let revoked = revoked.await;
        transaction.end(revoked).await
    }
}

/// The link of a session.
pub(super) async fn held_by_id(
    connection: &Connection,
    id: PortalLinkId,
) -> Result<Option<HeldPortalLink>, StoreError> {
    let found = connection.read(&PORTAL_LINK_BY_ID, params![id: id.uuid() => UUID]).await?.first(link)?;
    held(connection, found).await
}

/// All that somebody has made.
pub(super) async fn remove_by(transaction: &Transaction<'_>, maker: Holder) -> Result<(), StoreError> {
    let removed = transaction.run(&REMOVE_PORTAL_LINKS_BY, params![maker_id: maker.uuid() => UUID]).await?;
    end_sessions(transaction, removed.column("id")?).await
}

async fn insert(transaction: &Transaction<'_>, link: &PortalLink) -> Result<(), StoreError> {
    let seconds = i32::try_from(link.session_length.as_secs()).unwrap_or(i32::MAX);
    let params = params![
        id: link.id.uuid() => UUID, hash: &link.hash[..] => BYTEA, account_id: link.account_id.uuid() => UUID,
        maker: link.maker.kind().as_str() => TEXT, maker_id: link.maker.uuid() => UUID,
        read_only: link.read_only => BOOL, created_at: link.created_at.micros() => INT8,
        expires_at: link.expires_at.micros() => INT8, session_seconds: seconds => INT4,
        ends_at: link.ends_at().micros() => INT8,
    ];
    transaction.run(&INSERT_PORTAL_LINK, params).await?;
    Ok(())
}

/// How many there were.
async fn remove(
    transaction: &Transaction<'_>,
    account: AccountId,
    ids: Vec<Uuid>,
) -> Result<usize, StoreError> {
    let params = params![ids: ids => UUID_ARRAY, account_id: account.uuid() => UUID];
    let removed: Vec<Uuid> = transaction.run(&REMOVE_PORTAL_LINKS, params).await?.column("id")?;
    let count = removed.len();
    end_sessions(transaction, removed).await?;
    Ok(count)
}

async fn end_sessions(transaction: &Transaction<'_>, links: Vec<Uuid>) -> Result<(), StoreError> {
    if !links.is_empty() {
        transaction.run(&END_SESSIONS_OF_PORTAL_LINKS, params![ids: links => UUID_ARRAY]).await?;
    }
    Ok(())
}

async fn held(
    connection: &Connection,
    found: Option<PortalLink>,
) -> Result<Option<HeldPortalLink>, StoreError> {
    let Some(link) = found else { return Ok(None) };
    let maker = match link.maker {
        Holder::Key(id) => catalog::api_key_by_id(connection, id).await?.map(Maker::Key),
        Holder::User(id) => sessions::user_by_id(connection, id).await?.map(Maker::User),
        Holder::PortalLink(_) => None,
    };
    Ok(maker.map(|maker| HeldPortalLink { link, maker }))
}

fn link(cells: &mut Cells<'_, '_>) -> Result<PortalLink, Unreadable> {
    let seconds: u32 = cells.get("session_seconds")?;
    Ok(PortalLink {
        id: cells.get("id")?,
        hash: sessions::hash(cells.get("hash")?),
        account_id: cells.get("account_id")?,
        maker: Holder::read(cells.word("maker")?, cells.get("maker_id")?),
        read_only: cells.get("read_only")?,
        created_at: cells.get("created_at")?,
        expires_at: cells.get("expires_at")?,
        session_length: Duration::from_secs(seconds.into()),
        opened_at: cells.get("opened_at")?,
    })
}
