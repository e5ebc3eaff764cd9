//! Sessions, links and users.

use super::{
    PostgresStore, audit_log, catalog,
    pool::{Connection, Transaction},
    portal_links,
    rows::{Cells, Doc, Rows, Unreadable},
    statement::{Statement, params, sql},
};
use crate::{ChainOwner, HeldSession, NewSession, Page, SessionOf, Sessions, StoreError};
use async_trait::async_trait;
use domain::{
    account::ApiKey,
    audit::AuditEntry,
    id::{AccountId, SessionId, UserId},
    limits,
    session::{Holder, LinkPurpose, SecretHash, Session, SignInLink, User},
    time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

static INSERT_SESSION: LazyLock<Statement> = sql!("insert_session");
static END_OLD_SESSIONS: LazyLock<Statement> = sql!("end_old_sessions");
static SESSION_BY_HASH: LazyLock<Statement> = sql!("session", "where hash = :hash");
static SESSIONS: LazyLock<Statement> = sql!("session", "where id < :before_id order by id desc limit :limit");
static SESSIONS_OF: LazyLock<Statement> =
    sql!("session", "where holder_id = :holder_id and id < :before_id order by id desc limit :limit");
static TOUCH_SESSION: LazyLock<Statement> =
    sql!("touch_session": "update sessions set seen_at = greatest(seen_at, :now) where id = :id");
static CHOOSE_ACCOUNT: LazyLock<Statement> =
    sql!("choose_account": "update sessions set account_id = :account_id where id = :id returning id");
static END_SESSION: LazyLock<Statement> =
    sql!("end_session": "delete from sessions where id = :id returning id");
static END_SESSION_OF: LazyLock<Statement> = sql!(
    "end_session_of": "delete from sessions where id = :id and holder_id = :holder_id returning id"
);
static END_SESSIONS: LazyLock<Statement> =
    sql!("end_sessions": "delete from sessions where holder_id = :holder_id");
static PRUNE_SESSIONS: LazyLock<Statement> = sql!("prune_sessions");
static PRUNE_LINKS: LazyLock<Statement> = sql!("prune_links");
static PRUNE_PORTAL_LINKS: LazyLock<Statement> = sql!("prune_portal_links");
static SESSIONS_OF_HOLDERS: LazyLock<Statement> = sql!("session", "where holder_id = any(:holder_ids)");
static INSERT_LINK: LazyLock<Statement> = sql!(
    "insert_link": "insert into sign_in_links (hash, purpose, key_id, expires_at) values (:hash, :purpose, :key_id, :expires_at)"
);
static LINK: LazyLock<Statement> = sql!(
    "link": "select hash, purpose, key_id, expires_at from sign_in_links where hash = :hash"
);
static OPEN_LINK: LazyLock<Statement> = sql!(
    "open_link": "delete from sign_in_links where hash = :hash and purpose = :purpose and expires_at > :now returning hash"
);
static OPEN_SET_UP_LINKS: LazyLock<Statement> = sql!(
    "open_set_up_links": "delete from sign_in_links where purpose = :purpose returning hash, purpose, key_id, expires_at"
);
static ANY_USER: LazyLock<Statement> = sql!("any_user": "select 1 as one from users limit 1");
static COUNT_USERS: LazyLock<Statement> = sql!("count_users": "select count(*) as count from users");
static INSERT_USER: LazyLock<Statement> = sql!("insert_user");
static USER: LazyLock<Statement> = sql!("user", "where id = :id");
static USER_BY_NAME: LazyLock<Statement> = sql!("user", "where name = :name");
static USERS: LazyLock<Statement> = sql!("user", "where id < :before_id order by id desc limit :limit");
static DELETE_USER: LazyLock<Statement> =
    sql!("delete_user": "delete from users where id = :id returning id");
static SET_PASSWORD: LazyLock<Statement> = sql!(
    "set_password": "update users set password = :password, updated_at = :now where id = :id returning id"
);

#[async_trait]
impl Sessions for PostgresStore {
    async fn create_session(&self, new: &NewSession, audit: &AuditEntry) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let created = async {
            if let Some(hash) = &new.link {
                let params = params![
                    hash: &hash[..] => BYTEA, purpose: LinkPurpose::SignIn.as_str() => TEXT,
                    now: new.session.created_at.micros() => INT8,
                ];
                found(&transaction.run(&OPEN_LINK, params).await?, "sign-in link")?;
            }
            begin(&transaction, new).await?;
            audit_log::append(&transaction, new.owner, audit).await
        };
        let created = created.await;
        transaction.end(created).await
    }

    async fn session(&self, hash: &SecretHash) -> Result<Option<HeldSession>, StoreError> {
        let connection = self.pools.general().await?;
        let rows = connection.read(&SESSION_BY_HASH, params![hash: &hash[..] => BYTEA]).await?;
        let Some(session) = rows.first(session)? else { return Ok(None) };
        let of = match session.holder {
            Holder::Key(id) => catalog::api_key_by_id(&connection, id).await?.map(SessionOf::Key),
            Holder::User(id) => user_by_id(&connection, id).await?.map(SessionOf::User),
            Holder::PortalLink(id) => {
                portal_links::held_by_id(&connection, id).await?.map(SessionOf::PortalLink)
            }
        };
        Ok(of.map(|of| HeldSession { session, of }))
    }

    async fn sessions(
        &self,
        holder: Option<Holder>,
        page: Page<SessionId>,
    ) -> Result<Vec<Session>, StoreError> {
        let connection = self.pools.general().await?;
        let holder_id = holder.map(Holder::uuid);
        let params = params![
            holder_id: holder_id => UUID, before_id: page.before.unwrap_or(SessionId::MAX).uuid() => UUID,
            limit: page.limit as i64 => INT8,
        ];
        let rows = match holder {
            Some(_) => connection.read(&SESSIONS_OF, params).await?,
            None => connection.read(&SESSIONS, params.without(&["holder_id"])).await?,
        };
        Ok(rows.all(session)?)
    }

    async fn touch_session(&self, id: SessionId, now: Timestamp) -> Result<(), StoreError> {
        let params = params![id: id.uuid() => UUID, now: now.micros() => INT8];
        self.pools.general().await?.write(&TOUCH_SESSION, params).await?;
        Ok(())
    }

    async fn choose_account(&self, id: SessionId, account: Option<AccountId>) -> Result<(), StoreError> {
        let params = params![id: id.uuid() => UUID, account_id: account.map(|id| id.uuid()) => UUID];
        found(&self.pools.general().await?.write(&CHOOSE_ACCOUNT, params).await?, "session")
    }

    async fn end_session(
        &self,
        holder: Option<Holder>,
        id: SessionId,
        owner: ChainOwner,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let holder_id = holder.map(Holder::uuid);
        let params = params![id: id.uuid() => UUID, holder_id: holder_id => UUID];
        let transaction = connection.begin().await?;
        let ended = async {
            let ended = match holder {
                Some(_) => transaction.run(&END_SESSION_OF, params).await?,
                None => transaction.run(&END_SESSION, params.without(&["holder_id"])).await?,
            };
            found(&ended, "session")?;
            audit_log::append(&transaction, owner, audit).await
        };
        let ended = ended.await;
        transaction.end(ended).await
    }

    async fn prune_sessions(
        &self,
        seen_before: Timestamp,
        links_over: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![seen_before: seen_before.micros() => INT8, limit: limit as i64 => INT8];
        let sessions: usize = connection.write(&PRUNE_SESSIONS, params).await?.value("gone")?;
        let left = limit.saturating_sub(sessions);
        let params = params![over: links_over.micros() => INT8, limit: left as i64 => INT8];
        let links: usize = connection.write(&PRUNE_LINKS, params).await?.value("gone")?;
        let left = left.saturating_sub(links);
        let params = params![over: links_over.micros() => INT8, limit: left as i64 => INT8];
        let portals: usize = connection.write(&PRUNE_PORTAL_LINKS, params).await?.value("gone")?;
        Ok(sessions + links + portals)
    }

    // --- Links ---------------------------------------------------------------------------------------------------

    async fn create_link(&self, link: &SignInLink) -> Result<(), StoreError> {
        let params = params![
            hash: &link.hash[..] => BYTEA, purpose: link.purpose.as_str() => TEXT,
            key_id: link.key_id.map(|id| id.uuid()) => UUID, expires_at: link.expires_at.micros() => INT8,
        ];
        self.pools.general().await?.write(&INSERT_LINK, params).await?;
        Ok(())
    }

    async fn link(&self, hash: &SecretHash) -> Result<Option<SignInLink>, StoreError> {
        let connection = self.pools.general().await?;
        Ok(connection.read(&LINK, params![hash: &hash[..] => BYTEA]).await?.first(link)?)
    }

    async fn key_of_link(&self, hash: &SecretHash) -> Result<Option<ApiKey>, StoreError> {
        let connection = self.pools.general().await?;
        let found = connection.read(&LINK, params![hash: &hash[..] => BYTEA]).await?.first(link)?;
        match found.and_then(|link| link.key_id) {
            Some(id) => catalog::api_key_by_id(&connection, id).await,
            None => Ok(None),
        }
    }

    // --- Users ---------------------------------------------------------------------------------------------------

    /// Whoever deletes the links has them for itself: another that tries the same waits, and finds none.
    async fn set_up(&self, user: &User, new: &NewSession, audit: &AuditEntry) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let set_up = async {
            let params = params![purpose: LinkPurpose::SetUp.as_str() => TEXT];
            let links = transaction.run(&OPEN_SET_UP_LINKS, params).await?.all(link)?;
            let opens =
                |link: &SignInLink| Some(link.hash) == new.link && link.expires_at > new.session.created_at;
            let is_first = transaction.run(&ANY_USER, params![]).await?.is_empty();
            if !links.iter().any(opens) || !is_first {
                return Err(StoreError::NotFound { what: "set-up link" });
            }
            insert_user(&transaction, user).await?;
            begin(&transaction, new).await?;
            audit_log::append(&transaction, new.owner, audit).await
        };
        let set_up = set_up.await;
        transaction.end(set_up).await
    }

    async fn create_user(&self, user: &User, audit: &AuditEntry) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let created = async {
            let count: usize = transaction.run(&COUNT_USERS, params![]).await?.value("count")?;
            if count >= limits::USERS {
                return Err(StoreError::Full { what: "users" });
            }
            insert_user(&transaction, user).await?;
            audit_log::append(&transaction, None, audit).await
        };
        let created = created.await;
        transaction.end(created).await
    }

    async fn user(&self, id: UserId) -> Result<User, StoreError> {
        let found = user_by_id(&self.pools.general().await?, id).await?;
        found.ok_or(StoreError::NotFound { what: "user" })
    }

    async fn user_by_name(&self, name: &str) -> Result<Option<User>, StoreError> {
        let rows = self.pools.general().await?.read(&USER_BY_NAME, params![name: name => TEXT]).await?;
        Ok(rows.first(user)?)
    }

    async fn users(&self, page: Page<UserId>) -> Result<Vec<User>, StoreError> {
        let params = params![
            before_id: page.before.unwrap_or(UserId::MAX).uuid() => UUID, limit: page.limit as i64 => INT8,
        ];
        Ok(self.pools.general().await?.read(&USERS, params).await?.all(user)?)
    }

    async fn delete_user(&self, id: UserId, audit: &AuditEntry) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let deleted = async {
            found(&transaction.run(&DELETE_USER, params![id: id.uuid() => UUID]).await?, "user")?;
            end_sessions(&transaction, Holder::User(id)).await?;
            audit_log::append(&transaction, None, audit).await
        };
        let deleted = deleted.await;
        transaction.end(deleted).await
    }

    async fn change_password(
        &self,
        id: UserId,
        password: &str,
        new: &NewSession,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let params = params![
            id: id.uuid() => UUID, password: password => TEXT, now: new.session.created_at.micros() => INT8,
        ];
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let changed = async {
            found(&transaction.run(&SET_PASSWORD, params).await?, "user")?;
            end_sessions(&transaction, Holder::User(id)).await?;
            begin(&transaction, new).await?;
            audit_log::append(&transaction, new.owner, audit).await
        };
        let changed = changed.await;
        transaction.end(changed).await
    }
}

pub(super) async fn begin(transaction: &Transaction<'_>, new: &NewSession) -> Result<(), StoreError> {
    if let Some(id) = new.replaces {
        transaction.run(&END_SESSION, params![id: id.uuid() => UUID]).await?;
    }
    let session = &new.session;
    let params = params![
        id: session.id.uuid() => UUID, hash: &session.hash[..] => BYTEA,
        holder: session.holder.kind().as_str() => TEXT, holder_id: session.holder.uuid() => UUID,
        account_id: session.account_id.map(|id| id.uuid()) => UUID,
        created_at: session.created_at.micros() => INT8, seen_at: session.seen_at.micros() => INT8,
        expires_at: session.expires_at.micros() => INT8, client: session.client => TEXT,
        user_agent: session.user_agent => TEXT,
    ];
    transaction.run(&INSERT_SESSION, params).await?;
    let params = params![
        holder_id: session.holder.uuid() => UUID, kept: limits::SESSIONS_PER_HOLDER as i64 => INT8,
    ];
    transaction.run(&END_OLD_SESSIONS, params).await?;
    Ok(())
}

/// And the portal links that the holder has made, with theirs.
pub(super) async fn end_sessions(transaction: &Transaction<'_>, holder: Holder) -> Result<(), StoreError> {
    transaction.run(&END_SESSIONS, params![holder_id: holder.uuid() => UUID]).await?;
    portal_links::remove_by(transaction, holder).await
}

/// Of whoever has one.
pub(super) async fn of_holders(
    connection: &Connection,
    holders: Vec<Uuid>,
) -> Result<Vec<Session>, StoreError> {
    if holders.is_empty() {
        return Ok(Vec::new());
    }
    let params = params![holder_ids: holders => UUID_ARRAY];
    Ok(connection.read(&SESSIONS_OF_HOLDERS, params).await?.all(session)?)
}

pub(super) async fn user_by_id(connection: &Connection, id: UserId) -> Result<Option<User>, StoreError> {
    Ok(connection.read(&USER, params![id: id.uuid() => UUID]).await?.first(user)?)
}

async fn insert_user(transaction: &Transaction<'_>, user: &User) -> Result<(), StoreError> {
    let accounts = serde_json::to_string(&user.accounts).expect("ids are always JSON");
    let params = params![
        id: user.id.uuid() => UUID, name: user.name => TEXT, password: user.password => TEXT,
        role: user.role.as_str() => TEXT, accounts: accounts => TEXT,
        created_at: user.created_at.micros() => INT8, updated_at: user.updated_at.micros() => INT8,
    ];
    transaction.run(&INSERT_USER, params).await?;
    Ok(())
}

pub(super) fn found(rows: &Rows, what: &'static str) -> Result<(), StoreError> {
    if rows.is_empty() { Err(StoreError::NotFound { what }) } else { Ok(()) }
}

fn session(cells: &mut Cells<'_, '_>) -> Result<Session, Unreadable> {
    Ok(Session {
        id: cells.get("id")?,
        hash: hash(cells.get("hash")?),
        holder: Holder::read(cells.word("holder")?, cells.get("holder_id")?),
        account_id: cells.get("account_id")?,
        created_at: cells.get("created_at")?,
        seen_at: cells.get("seen_at")?,
        expires_at: cells.get("expires_at")?,
        client: cells.get("client")?,
        user_agent: cells.get("user_agent")?,
    })
}

fn link(cells: &mut Cells<'_, '_>) -> Result<SignInLink, Unreadable> {
    Ok(SignInLink {
        hash: hash(cells.get("hash")?),
        purpose: cells.word("purpose")?,
        key_id: cells.get("key_id")?,
        expires_at: cells.get("expires_at")?,
    })
}

fn user(cells: &mut Cells<'_, '_>) -> Result<User, Unreadable> {
    let (id, name, password) = (cells.get("id")?, cells.get("name")?, cells.get("password")?);
    let role = cells.word("role")?;
    let Doc(accounts) = cells.get("accounts")?;
    let (created_at, updated_at) = (cells.get("created_at")?, cells.get("updated_at")?);
    Ok(User { id, name, password, role, accounts, created_at, updated_at })
}

/// One of another length was made by hand, and fits nothing.
pub(super) fn hash(bytes: &[u8]) -> SecretHash {
    bytes.try_into().unwrap_or_default()
}
