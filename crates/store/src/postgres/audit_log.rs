//! The audit log: chains that grow in the transactions of the changes they tell of. The row of a chain is the lock under
//! which it grows, and the last that its transaction takes.

use super::{
    PostgresStore,
    pool::{Connection, Transaction},
    rows::{Cells, Rows, Unreadable},
    statement::{Statement, params, sql},
};
use crate::{AuditChains, AuditFilter, AuditLog, ChainOwner, Listed, Page, StoreError};
use async_trait::async_trait;
use domain::{
    audit::{Actor, AuditEntry, AuditRecord, ChainEnds, ChainHash, ChainPlace},
    id::{AccountId, AuditId},
    limits,
    session::Holder,
    time::Timestamp,
};
use std::sync::LazyLock;

static LOCK_CHAIN: LazyLock<Statement> = sql!("lock_chain");
static APPEND_ENTRY: LazyLock<Statement> = sql!("append_entry");
static AUDIT_CHAINS: LazyLock<Statement> = sql!("audit_chains");
static ENDS: LazyLock<Statement> = sql!(
    "audit_ends": "select number, hash, forgotten_number, forgotten_hash from audit_chains where account_id = :account_id"
);
static RECORDS: LazyLock<Statement> = sql!(
    "audit_entry",
    "where account_id = :account_id and number > :after_number order by number limit :limit"
);
static ENTRIES_OF_ACCOUNT: LazyLock<Statement> = sql!(
    "audit_entry",
    "where account_id = :account_id and id >= :from_id and id < :before_id order by id desc limit :limit"
);
static ENTRIES_OF_ALL: LazyLock<Statement> =
    sql!("audit_entry", "where id >= :from_id and id < :before_id order by id desc limit :limit");
static OLD_CHAINS: LazyLock<Statement> = sql!("old_chains");
static FORGET_ENTRIES: LazyLock<Statement> = sql!("forget_entries");

#[async_trait]
impl AuditLog for PostgresStore {
    async fn write_audit(&self, account: Option<AccountId>, entry: &AuditEntry) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let written = append(&transaction, account, entry).await;
        transaction.end(written).await
    }

    async fn audit_entries(
        &self,
        account: Option<AccountId>,
        filter: &AuditFilter,
        page: Page<AuditId>,
    ) -> Result<Listed<AuditRecord, AuditId>, StoreError> {
        let connection = self.pools.general().await?;
        let (from, before) = filter.ids(page);
        let params = params![
            account_id: account.map(|id| id.uuid()) => UUID, from_id: from.uuid() => UUID,
            before_id: before.uuid() => UUID, limit: limits::AUDIT_LOG_SCAN as i64 => INT8,
        ];
        let found = match account {
            Some(_) => connection.read(&ENTRIES_OF_ACCOUNT, params).await?,
            None => connection.read(&ENTRIES_OF_ALL, params.without(&["account_id"])).await?,
        };
        Ok(filter.page(found.all(record)?, page.limit))
    }

    async fn prune_audit(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let connection = self.pools.general().await?;
        let before = AuditId::at(before, 0);
        let params = params![before_id: before.uuid() => UUID, limit: limit as i64 => INT8];
        let old: Vec<AccountId> = connection.read(&OLD_CHAINS, params).await?.column("account_id")?;
        let mut pruned = 0;
        for account in old {
            // One chain at a time: nobody waits for more than its own.
            let transaction = connection.begin().await?;
            let forgotten = forget(&transaction, account, before, limit - pruned).await;
            pruned += transaction.end(forgotten).await?;
            if pruned >= limit {
                break;
            }
        }
        Ok(pruned)
    }
}

#[async_trait]
impl AuditChains for PostgresStore {
    async fn audit_chains(
        &self,
        after: Option<ChainOwner>,
        limit: usize,
    ) -> Result<Vec<ChainOwner>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![
            first: after.is_none() => BOOL, after_account_id: key(after.flatten()).uuid() => UUID,
            limit: limit as i64 => INT8,
        ];
        let found: Vec<AccountId> = connection.read(&AUDIT_CHAINS, params).await?.column("account_id")?;
        Ok(found.into_iter().map(owner).collect())
    }

    async fn audit_ends(&self, owner: ChainOwner) -> Result<Option<ChainEnds>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![account_id: key(owner).uuid() => UUID];
        Ok(ends(&connection.read(&ENDS, params).await?)?)
    }

    async fn audit_records(
        &self,
        owner: ChainOwner,
        after: i64,
        limit: usize,
    ) -> Result<Vec<AuditRecord>, StoreError> {
        let connection: Connection = self.pools.general().await?;
        let params = params![
            account_id: key(owner).uuid() => UUID, after_number: after => INT8, limit: limit as i64 => INT8,
        ];
        Ok(connection.read(&RECORDS, params).await?.all(record)?)
    }
}

/// The next entry of a chain, in the transaction of what it tells of: the last thing that it does.
pub(super) async fn append(
    transaction: &Transaction<'_>,
    account: Option<AccountId>,
    entry: &AuditEntry,
) -> Result<(), StoreError> {
    let last = lock(transaction, key(account)).await?.last;
    let AuditRecord { number, entry, hash, .. } = last.next(account, entry.clone());
    let AuditEntry { id, at, actor, action, object_id, client, request_id, difference, count } = entry;
    let params = params![
        account_id: key(account).uuid() => UUID, number: number => INT8, id: id.uuid() => UUID,
        at: at.micros() => INT8, actor: actor.kind().as_str() => TEXT,
        key_id: actor.holder().map(Holder::uuid) => UUID, action: action => TEXT, object_id: object_id => TEXT,
        client: client => TEXT, request_id: request_id.map(|id| id.uuid()) => UUID,
        difference: difference => TEXT, count: count.map(i64::from) => INT8, hash: &hash[..] => BYTEA,
    ];
    transaction.run(&APPEND_ENTRY, params).await?;
    Ok(())
}

async fn lock(transaction: &Transaction<'_>, account: AccountId) -> Result<ChainEnds, StoreError> {
    let beginning = ChainHash::default();
    let params = params![account_id: account.uuid() => UUID, beginning: &beginning[..] => BYTEA];
    Ok(ends(&transaction.run(&LOCK_CHAIN, params).await?)?.unwrap_or_default())
}

/// The entries of a chain from its beginning up to the first that is newer.
async fn forget(
    transaction: &Transaction<'_>,
    account: AccountId,
    before: AuditId,
    limit: usize,
) -> Result<usize, StoreError> {
    let forgotten = lock(transaction, account).await?.forgotten;
    let params = params![
        account_id: account.uuid() => UUID, after_number: forgotten.number => INT8, limit: limit as i64 => INT8,
    ];
    let oldest = transaction.run(&RECORDS, params).await?.all(record)?;
    let Some(last) = oldest.into_iter().take_while(|record| record.entry.id < before).last() else {
        return Ok(0);
    };
    let params = params![
        account_id: account.uuid() => UUID, number: last.number => INT8, hash: &last.hash[..] => BYTEA,
    ];
    Ok(transaction.run(&FORGET_ENTRIES, params).await?.len())
}

/// The installation's chain is that of no account there can be.
fn key(owner: ChainOwner) -> AccountId {
    owner.unwrap_or(AccountId::MIN)
}

fn owner(key: AccountId) -> ChainOwner {
    Some(key).filter(|key| *key != AccountId::MIN)
}

fn ends(rows: &Rows) -> Result<Option<ChainEnds>, Unreadable> {
    rows.first(|cells| {
        Ok(ChainEnds {
            forgotten: ChainPlace {
                number: cells.get("forgotten_number")?,
                hash: hash(cells.get("forgotten_hash")?),
            },
            last: ChainPlace { number: cells.get("number")?, hash: hash(cells.get("hash")?) },
        })
    })
}

/// What somebody has made unreadable reads as something else, whose hash does not fit.
fn record(cells: &mut Cells<'_, '_>) -> Result<AuditRecord, Unreadable> {
    let (kind, key_id) = (cells.known_word("actor")?, cells.get("key_id")?);
    let count: Option<i64> = cells.get("count")?;
    let entry = AuditEntry {
        id: cells.get("id")?,
        at: cells.get("at")?,
        actor: kind.and_then(|kind| Actor::read(kind, key_id)).unwrap_or(Actor::System),
        action: cells.get("action")?,
        object_id: cells.get("object_id")?,
        client: cells.get("client")?,
        request_id: cells.get("request_id")?,
        difference: cells.get("difference")?,
        count: count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
    };
    let too_many = count.is_some_and(|count| u32::try_from(count).is_err());
    Ok(AuditRecord {
        account_id: owner(cells.get("account_id")?),
        number: cells.get("number")?,
        entry,
        hash: if too_many { ChainHash::default() } else { hash(cells.get("hash")?) },
    })
}

fn hash(bytes: &[u8]) -> ChainHash {
    bytes.try_into().unwrap_or_default()
}
