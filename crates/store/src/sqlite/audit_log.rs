//! The audit log: chains that grow in the transactions of the changes they tell of. There is one writer, so nothing is
//! locked.

use super::{
    SqliteStore,
    read_only::SqliteReadOnly,
    rows::Columns,
    statement::{bound, sql},
    trouble::{Reach, Trouble},
    writer::Priority,
};
use crate::{AuditChains, AuditFilter, AuditLog, ChainOwner, Listed, Page, StoreError};
use async_trait::async_trait;
use domain::{
    audit::{Actor, AuditEntry, AuditRecord, ChainEnds, ChainHash, ChainPlace},
    id::{AccountId, ApiKeyId, AuditId},
    limits,
    time::Timestamp,
};
use rusqlite::Connection;

const APPEND_ENTRY: &str = sql!("append_entry");
const MOVE_CHAIN: &str = sql!("move_chain");
const AUDIT_CHAINS: &str = sql!("audit_chains");
const OLD_CHAINS: &str = sql!("old_chains");
pub(super) const ENTRIES_OF_ACCOUNT: &str = concat!(
    sql!("audit_entry"),
    "where account_id = :account_id and id >= :from and id < :before order by id desc limit :limit"
);
pub(super) const ENTRIES_OF_ALL: &str =
    concat!(sql!("audit_entry"), "where id >= :from and id < :before order by id desc limit :limit");
pub(super) const RECORDS: &str = concat!(
    sql!("audit_entry"),
    "where account_id = :account_id and number > :after order by number limit :limit"
);

#[async_trait]
impl AuditLog for SqliteStore {
    async fn write_audit(&self, account: Option<AccountId>, entry: &AuditEntry) -> Result<(), StoreError> {
        let entry = entry.clone();
        self.write(Priority::Api, move |connection| append(connection, account, &entry)).await
    }

    async fn audit_entries(
        &self,
        account: Option<AccountId>,
        filter: &AuditFilter,
        page: Page<AuditId>,
    ) -> Result<Listed<AuditRecord, AuditId>, StoreError> {
        let filter = filter.clone();
        self.read(move |connection| {
            let (from, before) = filter.ids(page);
            let limit = limits::AUDIT_LOG_SCAN;
            let looked_at = match account {
                Some(id) => {
                    bound!(ENTRIES_OF_ACCOUNT, account_id: id, from: from, before: before, limit: limit)
                        .all(connection, read)?
                }
                None => {
                    bound!(ENTRIES_OF_ALL, from: from, before: before, limit: limit).all(connection, read)?
                }
            };
            Ok(filter.page(looked_at, page.limit))
        })
        .await
    }

    async fn prune_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let before = AuditId::at(before, 0);
        // Looking for them costs the writer nothing.
        let old = self.read(move |connection| old_chains(connection, before, limit)).await?;
        if old.is_empty() {
            return Ok(0);
        }
        self.write(Priority::Bulk, move |connection| prune(connection, &old, before, limit)).await
    }
}

#[async_trait]
impl AuditChains for SqliteStore {
    async fn audit_chains(
        &self,
        after: Option<ChainOwner>,
        limit: usize,
    ) -> Result<Vec<ChainOwner>, StoreError> {
        self.read(move |connection| chains(connection, after, limit)).await
    }

    async fn audit_ends(&self, owner: ChainOwner) -> Result<Option<ChainEnds>, StoreError> {
        self.read(move |connection| found_ends(connection, owner)).await
    }

    async fn audit_records(
        &self,
        owner: ChainOwner,
        after: i64,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        self.read(move |connection| records(connection, owner, after, limit)).await
    }
}

#[async_trait]
impl AuditChains for SqliteReadOnly {
    async fn audit_chains(
        &self,
        after: Option<ChainOwner>,
        limit: usize,
    ) -> Result<Vec<ChainOwner>, StoreError> {
        self.readers.read(move |connection| chains(connection, after, limit)).await
    }

    async fn audit_ends(&self, owner: ChainOwner) -> Result<Option<ChainEnds>, StoreError> {
        self.readers.read(move |connection| found_ends(connection, owner)).await
    }

    async fn audit_records(
        &self,
        owner: ChainOwner,
        after: i64,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        self.readers.read(move |connection| records(connection, owner, after, limit)).await
    }
}

/// The next entry of a chain, in the transaction of what it tells of.
pub(super) fn append(
    connection: &Connection,
    account: Option<AccountId>,
    entry: &AuditEntry,
) -> Result<(), Trouble> {
    let last = ends(connection, account)?.unwrap_or_default().last;
    let record = last.next(account, entry.clone());
    let AuditEntry { id, at, actor, action, object_id, client, request_id, difference, count } =
        &record.entry;
    bound!(
        APPEND_ENTRY,
        account_id: key(account),
        number: record.number,
        id: id,
        at: at,
        actor: actor.kind().as_str(),
        key_id: actor.holder().map(|holder| *holder.uuid().as_bytes()),
        action: action,
        object_id: object_id,
        client: client,
        request_id: request_id,
        difference: difference,
        count: count,
        hash: record.hash,
    )
    .execute(connection)?;
    bound!(
        MOVE_CHAIN,
        account_id: key(account),
        number: record.number,
        hash: record.hash,
        beginning: ChainHash::default(),
    )
    .execute(connection)?;
    Ok(())
}

/// The installation's chain is that of no account there can be.
fn key(owner: ChainOwner) -> AccountId {
    owner.unwrap_or(AccountId::MIN)
}

fn owner(key: AccountId) -> ChainOwner {
    Some(key).filter(|key| *key != AccountId::MIN)
}

fn chains(
    connection: &Connection,
    after: Option<ChainOwner>,
    limit: usize,
) -> Result<Vec<ChainOwner>, Trouble> {
    // Nothing is below the key of the installation: the empty text is.
    let after = after.map_or_else(Vec::new, |owner| key(owner).bytes().to_vec());
    bound!(AUDIT_CHAINS, after: after, limit: limit).all(connection, |columns| Ok(owner(columns.id()?)))
}

fn ends(connection: &Connection, owner: ChainOwner) -> Result<Option<ChainEnds>, Trouble> {
    bound!(
        "select number, hash, forgotten_number, forgotten_hash from audit_chains where account_id = :account_id",
        account_id: key(owner),
    )
    .first(connection, |columns| {
        let last = ChainPlace { number: columns.get()?, hash: hash(columns)? };
        let forgotten = ChainPlace { number: columns.get()?, hash: hash(columns)? };
        Ok(ChainEnds { forgotten, last })
    })
}

/// As they are found: what is not readable is no end, and a hash that is none fits nothing.
fn found_ends(connection: &Connection, owner: ChainOwner) -> Result<Option<ChainEnds>, Trouble> {
    match ends(connection, owner) {
        Err(trouble) if trouble.reach() == Reach::Row => Ok(None),
        found => found,
    }
}

fn records(
    connection: &Connection,
    owner: ChainOwner,
    after: i64,
    limit: usize,
) -> Result<Vec<AuditRecord>, Trouble> {
    bound!(RECORDS, account_id: key(owner), after: after, limit: limit)
        .all(connection, |columns| read_or_unreadable(columns, owner))
}

/// What cannot be read is an entry nevertheless, the one that does not hold: its hash fits nothing, and it is as new as
/// can be, so that it is not forgotten either. Without a number of its own it lies behind the end.
fn read_or_unreadable(columns: &mut Columns<'_>, owner: ChainOwner) -> Result<AuditRecord, Trouble> {
    let mut again = columns.clone();
    match read(columns) {
        Err(trouble) if trouble.reach() == Reach::Row => {
            let _account_id = again.value();
            let number = again.get().unwrap_or(i64::MAX);
            let entry = AuditEntry::system(AuditId::MAX, "unreadable", None);
            Ok(AuditRecord { account_id: owner, number, entry, hash: ChainHash::default() })
        }
        read => read,
    }
}

/// What somebody has made unreadable reads as something else, whose hash does not fit.
fn read(columns: &mut Columns<'_>) -> Result<AuditRecord, Trouble> {
    let (account_id, number) = (owner(columns.id()?), columns.get()?);
    let (id, at) = (columns.id()?, columns.time()?);
    let (kind, key_id) = (columns.text()?.parse().ok(), columns.optional_id::<ApiKeyId>()?);
    let entry = AuditEntry {
        id,
        at,
        actor: kind.and_then(|kind| Actor::read(kind, key_id.map(ApiKeyId::uuid))).unwrap_or(Actor::System),
        action: columns.get()?,
        object_id: columns.get()?,
        client: columns.get()?,
        request_id: columns.optional_id()?,
        difference: columns.get()?,
        count: columns.get()?,
    };
    Ok(AuditRecord { account_id, number, entry, hash: hash(columns)? })
}

fn hash(columns: &mut Columns<'_>) -> Result<ChainHash, Trouble> {
    Ok(columns.blob()?.try_into().unwrap_or_default())
}

/// The chains whose first entry was made before this id. One that begins with a newer one is none of them, however many
/// old ones it has behind it.
fn old_chains(connection: &Connection, before: AuditId, limit: usize) -> Result<Vec<AccountId>, Trouble> {
    bound!(OLD_CHAINS, before: before, limit: limit).all(connection, |columns| Ok(columns.id()?))
}

/// The chains in turn, each from its beginning up to the first entry that is newer.
fn prune(
    connection: &Connection,
    old: &[AccountId],
    before: AuditId,
    limit: usize,
) -> Result<usize, Trouble> {
    let mut pruned = 0;
    for account in old.iter().copied() {
        let Some(ends) = ends(connection, owner(account))? else { continue };
        let oldest = records(connection, owner(account), ends.forgotten.number, limit - pruned)?;
        let gone = oldest.into_iter().take_while(|record| record.entry.id < before);
        let Some(last) = gone.last() else { continue };
        pruned += bound!(
            "delete from audit_entries where account_id = :account_id and number <= :number",
            account_id: account,
            number: last.number,
        )
        .execute(connection)?;
        bound!(
            "update audit_chains set forgotten_number = :number, forgotten_hash = :hash \
             where account_id = :account_id",
            account_id: account,
            number: last.number,
            hash: last.hash,
        )
        .execute(connection)?;
        if pruned >= limit {
            break;
        }
    }
    Ok(pruned)
}
