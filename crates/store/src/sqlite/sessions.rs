//! Sessions, links and users.

use super::{
    SqliteStore, audit_log, catalog, portal_links,
    rows::Columns,
    statement::{bound, sql},
    trouble::{Trouble, unreadable},
    writer::Priority,
};
use crate::{ChainOwner, HeldSession, NewSession, Page, SessionOf, Sessions, StoreError};
use async_trait::async_trait;
use domain::{
    account::ApiKey,
    audit::AuditEntry,
    id::{AccountId, ApiKeyId, SessionId, UserId},
    limits,
    session::{Holder, HolderKind, LinkPurpose, SecretHash, Session, SignInLink, User},
    time::Timestamp,
};
use rusqlite::{Connection, ErrorCode};

const INSERT_SESSION: &str = sql!("insert_session");
const END_OLD_SESSIONS: &str = sql!("end_old_sessions");
const SESSION_BY_HASH: &str = concat!(sql!("session"), "where hash = :hash");
const SESSIONS: &str = concat!(sql!("session"), "where id < :before order by id desc limit :limit");
const SESSIONS_OF: &str =
    concat!(sql!("session"), "where holder_id = :holder_id and id < :before order by id desc limit :limit");
const PRUNE_SESSIONS: &str = sql!("prune_sessions");
const PRUNE_LINKS: &str = sql!("prune_links");
const PRUNE_PORTAL_LINKS: &str = sql!("prune_portal_links");
const INSERT_USER: &str = sql!("insert_user");
const USER: &str = concat!(sql!("user"), "where id = :id");
const USER_BY_NAME: &str = concat!(sql!("user"), "where name = :name");
const USERS: &str = concat!(sql!("user"), "where id < :before order by id desc limit :limit");

#[async_trait]
impl Sessions for SqliteStore {
    async fn create_session(&self, new: &NewSession, audit: &AuditEntry) -> Result<(), StoreError> {
        let (new, audit) = (new.clone(), audit.clone());
        self.write(Priority::Api, move |connection| {
            if let Some(hash) = new.link {
                let opened = bound!(
                    "delete from sign_in_links where hash = :hash and purpose = :purpose and expires_at > :now",
                    hash: hash,
                    purpose: LinkPurpose::SignIn.as_str(),
                    now: new.session.created_at,
                )
                .execute(connection)?;
                if opened == 0 {
                    return Err(StoreError::NotFound { what: "sign-in link" }.into());
                }
            }
            begin(connection, &new)?;
            audit_log::append(connection, new.owner, &audit)
        })
        .await
    }

    async fn session(&self, hash: &SecretHash) -> Result<Option<HeldSession>, StoreError> {
        let hash = *hash;
        self.read(move |connection| {
            let Some(session) = bound!(SESSION_BY_HASH, hash: hash).first(connection, session)? else {
                return Ok(None);
            };
            let of = match session.holder {
                Holder::Key(id) => catalog::api_key_by_id(connection, id)?.map(SessionOf::Key),
                Holder::User(id) => user_by_id(connection, id)?.map(SessionOf::User),
                Holder::PortalLink(id) => {
                    portal_links::held_by_id(connection, id)?.map(SessionOf::PortalLink)
                }
            };
            Ok(of.map(|of| HeldSession { session, of }))
        })
        .await
    }

    async fn sessions(
        &self,
        holder: Option<Holder>,
        page: Page<SessionId>,
    ) -> Result<Vec<Session>, StoreError> {
        let (before, limit) = (page.before.unwrap_or(SessionId::MAX), page.limit);
        self.read(move |connection| match holder {
            Some(holder) => {
                bound!(SESSIONS_OF, holder_id: *holder.uuid().as_bytes(), before: before, limit: limit)
                    .all(connection, session)
            }
            None => bound!(SESSIONS, before: before, limit: limit).all(connection, session),
        })
        .await
    }

    async fn touch_session(&self, id: SessionId, now: Timestamp) -> Result<(), StoreError> {
        self.write(Priority::Api, move |connection| {
            bound!("update sessions set seen_at = max(seen_at, :now) where id = :id", id: id, now: now)
                .execute(connection)?;
            Ok(())
        })
        .await
    }

    async fn choose_account(&self, id: SessionId, account: Option<AccountId>) -> Result<(), StoreError> {
        self.write(Priority::Api, move |connection| {
            let chosen = bound!(
                "update sessions set account_id = :account_id where id = :id",
                id: id,
                account_id: account,
            )
            .execute(connection)?;
            found(chosen, "session")
        })
        .await
    }

    async fn end_session(
        &self,
        holder: Option<Holder>,
        id: SessionId,
        owner: ChainOwner,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| {
            let ended = match holder {
                Some(holder) => bound!(
                    "delete from sessions where id = :id and holder_id = :holder_id",
                    id: id,
                    holder_id: *holder.uuid().as_bytes(),
                )
                .execute(connection)?,
                None => bound!("delete from sessions where id = :id", id: id).execute(connection)?,
            };
            found(ended, "session")?;
            audit_log::append(connection, owner, &audit)
        })
        .await
    }

    async fn prune_sessions(
        &self,
        seen_before: Timestamp,
        links_over: Timestamp,
        limit: usize,
    ) -> Result<usize, StoreError> {
        // Looking for them costs the writer nothing.
        let any = self
            .read(move |connection| {
                Ok(bound!("select 1 from sessions where seen_at < :seen_before limit 1", seen_before: seen_before)
                    .exists(connection)?
                    || bound!("select 1 from sign_in_links where expires_at <= :over limit 1", over: links_over)
                        .exists(connection)?
                    || bound!("select 1 from portal_links where ends_at <= :over limit 1", over: links_over)
                        .exists(connection)?)
            })
            .await?;
        if !any {
            return Ok(0);
        }
        self.write(Priority::Bulk, move |connection| {
            let sessions =
                bound!(PRUNE_SESSIONS, seen_before: seen_before, limit: limit).execute(connection)?;
            let links = bound!(PRUNE_LINKS, over: links_over, limit: limit - sessions).execute(connection)?;
            let left = limit - sessions - links;
            let portals = bound!(PRUNE_PORTAL_LINKS, over: links_over, limit: left).execute(connection)?;
            Ok(sessions + links + portals)
        })
        .await
    }

    // --- Links ---------------------------------------------------------------------------------------------------

    async fn create_link(&self, link: &SignInLink) -> Result<(), StoreError> {
        let link = link.clone();
        self.write(Priority::Api, move |connection| {
            bound!(
                "insert into sign_in_links (hash, purpose, key_id, expires_at) values (:hash, :purpose, :key_id, :expires_at)",
                hash: link.hash,
                purpose: link.purpose.as_str(),
                key_id: link.key_id,
                expires_at: link.expires_at,
            )
            .execute(connection)?;
            Ok(())
        })
        .await
    }

    async fn link(&self, hash: &SecretHash) -> Result<Option<SignInLink>, StoreError> {
        let hash = *hash;
        self.read(move |connection| link(connection, hash)).await
    }

    async fn key_of_link(&self, hash: &SecretHash) -> Result<Option<ApiKey>, StoreError> {
        let hash = *hash;
        self.read(move |connection| match link(connection, hash)?.and_then(|link| link.key_id) {
            Some(id) => catalog::api_key_by_id(connection, id),
            None => Ok(None),
        })
        .await
    }

    // --- Users ---------------------------------------------------------------------------------------------------

    async fn set_up(&self, user: &User, new: &NewSession, audit: &AuditEntry) -> Result<(), StoreError> {
        let (user, new, audit) = (user.clone(), new.clone(), audit.clone());
        self.write(Priority::Api, move |connection| {
            let link = match new.link {
                Some(hash) => link(connection, hash)?,
                None => None,
            };
            let opens = link.is_some_and(|link| {
                link.purpose == LinkPurpose::SetUp && link.expires_at > new.session.created_at
            });
            if !opens || bound!("select 1 from users limit 1").exists(connection)? {
                return Err(StoreError::NotFound { what: "set-up link" }.into());
            }
            bound!(
                "delete from sign_in_links where purpose = :purpose",
                purpose: LinkPurpose::SetUp.as_str(),
            )
            .execute(connection)?;
            insert_user(connection, &user)?;
            begin(connection, &new)?;
            audit_log::append(connection, new.owner, &audit)
        })
        .await
    }

    async fn create_user(&self, user: &User, audit: &AuditEntry) -> Result<(), StoreError> {
        let (user, audit) = (user.clone(), audit.clone());
        self.write(Priority::Api, move |connection| {
            let count =
                bound!("select count(*) from users").one(connection, |columns| Ok(columns.count()?))?;
            if count as usize >= limits::USERS {
                return Err(StoreError::Full { what: "users" }.into());
            }
            insert_user(connection, &user)?;
            audit_log::append(connection, None, &audit)
        })
        .await
    }

    async fn user(&self, id: UserId) -> Result<User, StoreError> {
        self.read(move |connection| {
            user_by_id(connection, id)?.ok_or(StoreError::NotFound { what: "user" }.into())
        })
        .await
    }

    async fn user_by_name(&self, name: &str) -> Result<Option<User>, StoreError> {
        let name = name.to_owned();
        self.read(move |connection| bound!(USER_BY_NAME, name: name).first(connection, user)).await
    }

    async fn users(&self, page: Page<UserId>) -> Result<Vec<User>, StoreError> {
        let before = page.before.unwrap_or(UserId::MAX);
        self.read(move |connection| bound!(USERS, before: before, limit: page.limit).all(connection, user))
            .await
    }

    async fn delete_user(&self, id: UserId, audit: &AuditEntry) -> Result<(), StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| {
            found(bound!("delete from users where id = :id", id: id).execute(connection)?, "user")?;
            end_sessions(connection, Holder::User(id))?;
            audit_log::append(connection, None, &audit)
        })
        .await
    }

    async fn change_password(
        &self,
        id: UserId,
        password: &str,
        new: &NewSession,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let (password, new, audit) = (password.to_owned(), new.clone(), audit.clone());
        self.write(Priority::Api, move |connection| {
            let changed = bound!(
                "update users set password = :password, updated_at = :now where id = :id",
                id: id,
                password: password,
                now: new.session.created_at,
            )
            .execute(connection)?;
            found(changed, "user")?;
            end_sessions(connection, Holder::User(id))?;
            begin(connection, &new)?;
            audit_log::append(connection, new.owner, &audit)
        })
        .await
    }
}

pub(super) fn begin(connection: &Connection, new: &NewSession) -> Result<(), Trouble> {
    if let Some(id) = new.replaces {
        bound!("delete from sessions where id = :id", id: id).execute(connection)?;
    }
    let session = &new.session;
    let holder_id = *session.holder.uuid().as_bytes();
    bound!(
        INSERT_SESSION,
        id: session.id,
        hash: session.hash,
        holder: session.holder.kind().as_str(),
        holder_id: holder_id,
        account_id: session.account_id,
        created_at: session.created_at,
        seen_at: session.seen_at,
        expires_at: session.expires_at,
        client: session.client,
        user_agent: session.user_agent,
    )
    .execute(connection)?;
    bound!(END_OLD_SESSIONS, holder_id: holder_id, kept: limits::SESSIONS_PER_HOLDER).execute(connection)?;
    Ok(())
}

/// And the portal links that the holder has made, with theirs.
pub(super) fn end_sessions(connection: &Connection, holder: Holder) -> Result<(), Trouble> {
    bound!("delete from sessions where holder_id = :holder_id", holder_id: *holder.uuid().as_bytes())
        .execute(connection)?;
    portal_links::remove_by(connection, holder)
}

pub(super) fn newest(connection: &Connection, holder: Holder) -> Result<Option<Session>, Trouble> {
    let holder_id = *holder.uuid().as_bytes();
    bound!(SESSIONS_OF, holder_id: holder_id, before: SessionId::MAX, limit: 1_usize)
        .first(connection, session)
}

pub(super) fn user_by_id(connection: &Connection, id: UserId) -> Result<Option<User>, Trouble> {
    bound!(USER, id: id).first(connection, user)
}

fn insert_user(connection: &Connection, user: &User) -> Result<(), Trouble> {
    let accounts = serde_json::to_string(&user.accounts).expect("ids are always JSON");
    let written = bound!(
        INSERT_USER,
        id: user.id,
        name: user.name,
        password: user.password,
        role: user.role.as_str(),
        accounts: accounts,
        created_at: user.created_at,
        updated_at: user.updated_at,
    )
    .execute(connection);
    match written {
        Err(rusqlite::Error::SqliteFailure(failure, Some(message)))
            if failure.code == ErrorCode::ConstraintViolation && message.ends_with("users.name") =>
        {
            Err(StoreError::Taken { constraint: "name" }.into())
        }
        written => Ok(written.map(drop)?),
    }
}

pub(super) fn found(rows: usize, what: &'static str) -> Result<(), Trouble> {
    if rows == 0 { Err(StoreError::NotFound { what }.into()) } else { Ok(()) }
}

fn session(columns: &mut Columns<'_>) -> Result<Session, Trouble> {
    let (id, hash) = (columns.id()?, columns.get()?);
    let kind: HolderKind = columns.text()?.parse().map_err(|error| unreadable("holder", error))?;
    // Whichever it is, it is kept as the other would be.
    let holder = Holder::read(kind, columns.id::<ApiKeyId>()?.uuid());
    Ok(Session {
        id,
        hash,
        holder,
        account_id: columns.optional_id()?,
        created_at: columns.time()?,
        seen_at: columns.time()?,
        expires_at: columns.time()?,
        client: columns.get()?,
        user_agent: columns.get()?,
    })
}

fn link(connection: &Connection, hash: SecretHash) -> Result<Option<SignInLink>, Trouble> {
    bound!("select purpose, key_id, expires_at from sign_in_links where hash = :hash", hash: hash).first(
        connection,
        |columns| {
            Ok(SignInLink {
                hash,
                purpose: columns.text()?.parse().map_err(|error| unreadable("purpose", error))?,
                key_id: columns.optional_id()?,
                expires_at: columns.time()?,
            })
        },
    )
}

fn user(columns: &mut Columns<'_>) -> Result<User, Trouble> {
    Ok(User {
        id: columns.id()?,
        name: columns.get()?,
        password: columns.get()?,
        role: columns.text()?.parse().map_err(|error| unreadable("role", error))?,
        accounts: columns.document("accounts")?,
        created_at: columns.time()?,
        updated_at: columns.time()?,
    })
}
