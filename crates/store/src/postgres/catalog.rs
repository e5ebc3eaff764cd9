//! Configuration. Every change is a transaction that takes the account's next version first: the account's row is
//! the lock under which its configuration changes, one change at a time.

pub(super) mod docs;

use super::{
    PostgresStore,
    planned::{self, Planned, Statement},
    pool::{Transaction, params},
    rows,
};
use crate::{AccountChanges, Catalog, Page, StoreError, Target};
use async_trait::async_trait;
use docs::{account, api_key, destination, document, route, source};
use domain::{
    account::{Account, ApiKey},
    destination::Destination,
    id::{AccountId, ApiKeyId, DestinationId, RouteId, SourceId},
    limits,
    route::Route,
    source::Source,
    time::Timestamp,
};
use std::sync::LazyLock;
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const CHANGED_DESTINATIONS: &str = include_str!("sql/changed_destinations.sql");
pub(super) static TARGETS: LazyLock<Planned> = LazyLock::new(|| {
    let statement = Statement {
        name: "targets",
        sql: include_str!("sql/targets.sql"),
        kept: true,
        settings: planned::BY_KEY,
        gives: "doc text, version bigint, paused_at bigint, resumed_at bigint, disabled_at bigint, \
                disabled_reason text, deleted_at bigint, probed_at bigint, account_id uuid, shard smallint, \
                account_doc text, route_docs text[], route_versions bigint[], account_version bigint, \
                gate_doc text, gate_kept_at bigint",
    };
    let destinations: Vec<Uuid> = Vec::new();
    Planned::new(statement, params![destinations => UUID_ARRAY])
});

#[async_trait]
impl Catalog for PostgresStore {
    // --- The installation --------------------------------------------------------------------------------------

    async fn setting_or_insert(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, StoreError> {
        let connection = self.pools.general().await?;
        // Two statements: whoever loses the race sees the winner's value only in a new snapshot.
        let insert = "insert into settings (name, value) values ($1, $2) on conflict do nothing";
        connection.write(insert, params![name => TEXT, value => BYTEA]).await?;
        let rows =
            connection.read("select value from settings where name = $1", params![name => TEXT]).await?;
        rows.first().map(|row| row.get(0)).ok_or(StoreError::NotFound { what: "setting" })
    }

    // --- Accounts ------------------------------------------------------------------------------------------------

    async fn create_account(&self, new: &Account) -> Result<Account, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "insert into accounts (id, uid, version, created_at, doc) values ($1, $2, 1, $3, $4)";
        let doc = document(new)?;
        let created_at = new.created_at.micros();
        let params = params![new.id.uuid() => UUID, new.uid => TEXT, created_at => INT8, doc => TEXT];
        connection.write(sql, params).await?;
        Ok(Account { version: 1, ..new.clone() })
    }

    async fn account(&self, id: AccountId) -> Result<Account, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, version from accounts where id = $1";
        let row = connection.read_opt(sql, params![id.uuid() => UUID]).await?;
        account(&row.ok_or(StoreError::NotFound { what: "account" })?)
    }

    async fn accounts(&self, page: Page<AccountId>) -> Result<Vec<Account>, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, version from accounts where id < $1 order by id desc limit $2";
        let before = page.before.unwrap_or(AccountId::MAX).uuid();
        let rows = connection.read(sql, params![before => UUID, page.limit as i64 => INT8]).await?;
        rows.iter().map(account).collect()
    }

    async fn first_account(&self) -> Result<Option<Account>, StoreError> {
        let connection = self.pools.general().await?;
        let row = connection.read_opt("select doc, version from accounts order by id limit 1", &[]).await?;
        row.as_ref().map(account).transpose()
    }

    async fn update_account(&self, changed: &Account) -> Result<Account, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let updated = async {
            let version = next_version(&transaction, changed.id, "account").await?;
            if version != changed.version + 1 {
                return Err(StoreError::Changed);
            }
            let doc = document(changed)?;
            let sql = "update accounts set uid = $2, doc = $3 where id = $1";
            transaction
                .run(sql, params![changed.id.uuid() => UUID, changed.uid => TEXT, doc => TEXT])
                .await?;
            Ok(Account { version, ..changed.clone() })
        };
        let updated = updated.await;
        transaction.end(updated).await
    }

    async fn changes(&self, id: AccountId, since: i64) -> Result<AccountChanges, StoreError> {
        let connection = self.pools.general().await?;
        let sql = include_str!("sql/changes.sql");
        let rows = connection.read(sql, params![id.uuid() => UUID, since => INT8]).await?;
        let first = rows.first().ok_or(StoreError::NotFound { what: "account" })?;
        let mut changes = AccountChanges { version: first.get(3), ..AccountChanges::default() };
        for row in rows.iter().filter(|row| row.get::<_, Option<i64>>(1).is_some()) {
            if row.get::<_, bool>(2) {
                changes.removed_routes.push(RouteId::from_uuid(row.get(4)));
            } else {
                changes.routes.push(route(row)?);
            }
        }
        // Read later than the version: what has changed in between is read once more.
        let sql = include_str!("sql/orderings.sql");
        let rows = connection.read(sql, params![id.uuid() => UUID, since => INT8]).await?;
        changes.orderings = rows.iter().map(docs::ordering).collect();
        Ok(changes)
    }

    async fn versions(&self, accounts: &[AccountId]) -> Result<Vec<Option<i64>>, StoreError> {
        let connection = self.pools.nodes().await?;
        let ids: Vec<Uuid> = accounts.iter().map(|id| id.uuid()).collect();
        let rows = connection.read(include_str!("sql/versions.sql"), params![ids => UUID_ARRAY]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn changed_destinations(
        &self,
        account: AccountId,
        since: i64,
        after: Option<DestinationId>,
        limit: usize,
    ) -> Result<Vec<DestinationId>, StoreError> {
        let connection = self.pools.nodes().await?;
        let after = after.unwrap_or(DestinationId::MIN).uuid();
        let params = params![account.uuid() => UUID, since => INT8, after => UUID, limit as i64 => INT8];
        let rows = connection.read(CHANGED_DESTINATIONS, params).await?;
        Ok(rows.iter().map(|row| DestinationId::from_uuid(row.get(0))).collect())
    }

    // --- API keys ------------------------------------------------------------------------------------------------

    async fn create_api_key(&self, key: &ApiKey) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let sql = "insert into api_keys (id, account_id, lookup, created_at, last_used_at, revoked_at, doc) \
                   values ($1, $2, $3, $4, $5, $6, $7)";
        let doc = document(key)?;
        let params = params![
            key.id.uuid() => UUID, key.account_id.map(|id| id.uuid()) => UUID, key.lookup => TEXT,
            key.created_at.micros() => INT8, micros(key.last_used_at) => INT8, micros(key.revoked_at) => INT8,
            doc => TEXT,
        ];
        connection.write(sql, params).await?;
        Ok(())
    }

    async fn api_key_by_lookup(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, last_used_at, revoked_at from api_keys where lookup = $1";
        let row = connection.read_opt(sql, params![lookup => TEXT]).await?;
        row.as_ref().map(api_key).transpose()
    }

    async fn api_keys(
        &self,
        account: Option<AccountId>,
        page: Page<ApiKeyId>,
    ) -> Result<Vec<ApiKey>, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, last_used_at, revoked_at from api_keys \
                   where (account_id = $1 or ($1 is null and account_id is null)) and id < $2 \
                   order by id desc limit $3";
        let (account, before) = (account.map(|id| id.uuid()), page.before.unwrap_or(ApiKeyId::MAX).uuid());
        let rows =
            connection.read(sql, params![account => UUID, before => UUID, page.limit as i64 => INT8]).await?;
        rows.iter().map(api_key).collect()
    }

    async fn revoke_api_key(
        &self,
        account: Option<AccountId>,
        id: ApiKeyId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let sql = "update api_keys set revoked_at = coalesce(revoked_at, $3) \
                   where id = $2 and account_id is not distinct from $1 returning id";
        let account = account.map(|id| id.uuid());
        let rows =
            connection.write(sql, params![account => UUID, id.uuid() => UUID, now.micros() => INT8]).await?;
        if rows.is_empty() { Err(StoreError::NotFound { what: "api key" }) } else { Ok(()) }
    }

    async fn touch_api_key(&self, id: ApiKeyId, now: Timestamp) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let sql = "update api_keys set last_used_at = $2 where id = $1";
        connection.write(sql, params![id.uuid() => UUID, now.micros() => INT8]).await?;
        Ok(())
    }

    // --- Sources -------------------------------------------------------------------------------------------------

    async fn create_source(&self, new: &Source) -> Result<Source, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let created = async {
            let version = next_version(&transaction, new.account_id, "account").await?;
            let sql = "insert into sources (id, account_id, uid, token_hash, version, created_at, doc) \
                       values ($1, $2, $3, $4, $5, $6, $7)";
            let doc = document(new)?;
            let params = params![
                new.id.uuid() => UUID, new.account_id.uuid() => UUID, new.uid => TEXT, new.token_hash => BYTEA,
                version => INT8, new.created_at.micros() => INT8, doc => TEXT,
            ];
            transaction.run(sql, params).await?;
            Ok(Source { version, ..new.clone() })
        };
        let created = created.await;
        transaction.end(created).await
    }

    async fn source(&self, account: AccountId, id: SourceId) -> Result<Source, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, version, token_hash from sources \
                   where id = $2 and account_id = $1 and deleted_at is null";
        let row = connection.read_opt(sql, params![account.uuid() => UUID, id.uuid() => UUID]).await?;
        source(&row.ok_or(StoreError::NotFound { what: "source" })?)
    }

    async fn source_by_token(&self, token_hash: &[u8]) -> Result<Option<Source>, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, version, token_hash from sources where token_hash = $1 and deleted_at is null";
        let row = connection.read_opt(sql, params![token_hash => BYTEA]).await?;
        row.as_ref().map(source).transpose()
    }

    async fn sources(&self, account: AccountId, page: Page<SourceId>) -> Result<Vec<Source>, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, version, token_hash from sources \
                   where account_id = $1 and id < $2 and deleted_at is null order by id desc limit $3";
        let before = page.before.unwrap_or(SourceId::MAX).uuid();
        let params = params![account.uuid() => UUID, before => UUID, page.limit as i64 => INT8];
        connection.read(sql, params).await?.iter().map(source).collect()
    }

    async fn update_source(&self, changed: &Source) -> Result<Source, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let updated = async {
            let version = next_version(&transaction, changed.account_id, "source").await?;
            let old = "select version from sources where id = $1 and account_id = $2 and deleted_at is null";
            unchanged(&transaction, old, changed.id.uuid(), changed.account_id, changed.version, "source")
                .await?;
            let sql = "update sources set uid = $2, token_hash = $3, version = $4, doc = $5 where id = $1";
            let doc = document(changed)?;
            let params = params![
                changed.id.uuid() => UUID, changed.uid => TEXT, changed.token_hash => BYTEA, version => INT8,
                doc => TEXT,
            ];
            transaction.run(sql, params).await?;
            Ok(Source { version, ..changed.clone() })
        };
        let updated = updated.await;
        transaction.end(updated).await
    }

    async fn delete_source(
        &self,
        account: AccountId,
        id: SourceId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "update sources set deleted_at = $3, version = $4 \
                   where id = $2 and account_id = $1 and deleted_at is null returning id";
        let routes = "update routes set deleted_at = $3, version = $4 \
                      where source_id = $2 and account_id = $1 and deleted_at is null";
        self.delete(account, id.uuid(), now, "source", &[sql, routes]).await
    }

    // --- Destinations --------------------------------------------------------------------------------------------

    async fn create_destination(&self, new: &Destination) -> Result<Destination, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let created = async {
            let version = next_version(&transaction, new.account_id, "account").await?;
            let count = "select count(*) from (select 1 from destinations \
                         where account_id = $1 and deleted_at is null limit $2) live";
            let most = (limits::DESTINATIONS_PER_ACCOUNT, "destinations");
            has_room(&transaction, count, new.account_id, version, most).await?;
            let sql = "insert into destinations (id, account_id, uid, version, paused_at, resumed_at, disabled_at, \
                       disabled_reason, doc, shard, created_at) \
                       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
            let (doc, switch) = (document(new)?, Switches::of(new));
            let params = params![
                new.id.uuid() => UUID, new.account_id.uuid() => UUID, new.uid => TEXT, version => INT8,
                switch.paused_at => INT8, switch.resumed_at => INT8, switch.disabled_at => INT8,
                switch.disabled_reason => TEXT, doc => TEXT, new.id.shard() as i16 => INT2,
                new.created_at.micros() => INT8,
            ];
            transaction.run(sql, params).await?;
            Ok(written(new, version))
        };
        let created = created.await;
        transaction.end(created).await
    }

    async fn destination(&self, account: AccountId, id: DestinationId) -> Result<Destination, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, version, paused_at, resumed_at, disabled_at, disabled_reason, deleted_at, probed_at \
                   from destinations where id = $2 and account_id = $1 and deleted_at is null";
        let row = connection.read_opt(sql, params![account.uuid() => UUID, id.uuid() => UUID]).await?;
        destination(&row.ok_or(StoreError::NotFound { what: "destination" })?)
    }

    async fn destinations(
        &self,
        account: AccountId,
        page: Page<DestinationId>,
    ) -> Result<Vec<Destination>, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, version, paused_at, resumed_at, disabled_at, disabled_reason, deleted_at, probed_at \
                   from destinations where account_id = $1 and id < $2 and deleted_at is null \
                   order by id desc limit $3";
        let before = page.before.unwrap_or(DestinationId::MAX).uuid();
        let params = params![account.uuid() => UUID, before => UUID, page.limit as i64 => INT8];
        connection.read(sql, params).await?.iter().map(destination).collect()
    }

    async fn update_destination(&self, changed: &Destination) -> Result<Destination, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let updated = async {
            let (id, account) = (changed.id.uuid(), changed.account_id);
            let version = next_version(&transaction, account, "destination").await?;
            let old =
                "select version from destinations where id = $1 and account_id = $2 and deleted_at is null";
            unchanged(&transaction, old, id, account, changed.version, "destination").await?;
            let sql = "update destinations set uid = $2, version = $3, paused_at = $4, resumed_at = $5, \
                       disabled_at = $6, disabled_reason = $7, doc = $8 where id = $1";
            let (doc, switch) = (document(changed)?, Switches::of(changed));
            let params = params![
                id => UUID, changed.uid => TEXT, version => INT8, switch.paused_at => INT8,
                switch.resumed_at => INT8, switch.disabled_at => INT8, switch.disabled_reason => TEXT, doc => TEXT,
            ];
            transaction.run(sql, params).await?;
            Ok(written(changed, version))
        };
        let updated = updated.await;
        transaction.end(updated).await
    }

    async fn delete_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "update destinations set deleted_at = $3, version = $4 \
                   where id = $2 and account_id = $1 and deleted_at is null returning id";
        let routes = "update routes set deleted_at = $3, version = $4 \
                      where destination_id = $2 and account_id = $1 and deleted_at is null";
        self.delete(account, id.uuid(), now, "destination", &[sql, routes]).await
    }

    async fn probe(
        &self,
        account: AccountId,
        id: DestinationId,
        now: Timestamp,
    ) -> Result<Destination, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let probed = async {
            let version = next_version(&transaction, account, "destination").await?;
            let sql = "update destinations set probed_at = $3, version = $4 \
                       where id = $2 and account_id = $1 and deleted_at is null \
                       returning doc, version, paused_at, resumed_at, disabled_at, disabled_reason, deleted_at, \
                       probed_at";
            let params = params![
                account.uuid() => UUID, id.uuid() => UUID, now.micros() => INT8, version => INT8,
            ];
            let row = transaction.run_opt(sql, params).await?;
            destination(&row.ok_or(StoreError::NotFound { what: "destination" })?)
        };
        let probed = probed.await;
        transaction.end(probed).await
    }

    async fn targets(&self, ids: &[DestinationId]) -> Result<Vec<Option<Target>>, StoreError> {
        let connection = self.pools.engine().await?;
        let uuids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
        let rows = connection.read(&TARGETS.call, params![uuids => UUID_ARRAY]).await?;
        Ok(rows.iter().zip(ids).map(|(row, id)| docs::target(row, *id)).collect())
    }

    // --- Routes --------------------------------------------------------------------------------------------------

    async fn create_route(&self, new: &Route) -> Result<Route, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let created = async {
            let version = next_version(&transaction, new.account_id, "account").await?;
            has_ends(&transaction, new).await?;
            let count = "select count(*) from (select 1 from routes \
                         where account_id = $1 and deleted_at is null limit $2) live";
            let most = (limits::ROUTES_PER_ACCOUNT, "routes");
            has_room(&transaction, count, new.account_id, version, most).await?;
            let sql = "insert into routes (id, account_id, uid, source_id, destination_id, overrides, version, \
                       created_at, doc) values ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
            let doc = document(new)?;
            let params = params![
                new.id.uuid() => UUID, new.account_id.uuid() => UUID, new.uid => TEXT,
                new.source_id.map(|id| id.uuid()) => UUID, new.destination_id.uuid() => UUID,
                has_overrides(new) => BOOL, version => INT8, new.created_at.micros() => INT8, doc => TEXT,
            ];
            transaction.run(sql, params).await?;
            Ok(Route { version, ..new.clone() })
        };
        let created = created.await;
        transaction.end(created).await
    }

    async fn route(&self, account: AccountId, id: RouteId) -> Result<Route, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, version from routes where id = $2 and account_id = $1 and deleted_at is null";
        let row = connection.read_opt(sql, params![account.uuid() => UUID, id.uuid() => UUID]).await?;
        route(&row.ok_or(StoreError::NotFound { what: "route" })?)
    }

    async fn routes(&self, account: AccountId, page: Page<RouteId>) -> Result<Vec<Route>, StoreError> {
        let connection = self.pools.general().await?;
        let sql = "select doc, version from routes \
                   where account_id = $1 and id < $2 and deleted_at is null order by id desc limit $3";
        let before = page.before.unwrap_or(RouteId::MAX).uuid();
        let params = params![account.uuid() => UUID, before => UUID, page.limit as i64 => INT8];
        connection.read(sql, params).await?.iter().map(route).collect()
    }

    async fn update_route(&self, changed: &Route) -> Result<Route, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let updated = async {
            let (id, account) = (changed.id.uuid(), changed.account_id);
            let version = next_version(&transaction, account, "route").await?;
            let old = "select version from routes where id = $1 and account_id = $2 and deleted_at is null";
            unchanged(&transaction, old, id, account, changed.version, "route").await?;
            has_ends(&transaction, changed).await?;
            let sql = "update routes set uid = $2, source_id = $3, destination_id = $4, overrides = $5, \
                       version = $6, doc = $7 where id = $1";
            let doc = document(changed)?;
            let params = params![
                id => UUID, changed.uid => TEXT, changed.source_id.map(|id| id.uuid()) => UUID,
                changed.destination_id.uuid() => UUID, has_overrides(changed) => BOOL, version => INT8, doc => TEXT,
            ];
            transaction.run(sql, params).await?;
            Ok(Route { version, ..changed.clone() })
        };
        let updated = updated.await;
        transaction.end(updated).await
    }

    async fn delete_route(&self, account: AccountId, id: RouteId, now: Timestamp) -> Result<(), StoreError> {
        let sql = "update routes set deleted_at = $3, version = $4 \
                   where id = $2 and account_id = $1 and deleted_at is null returning id";
        self.delete(account, id.uuid(), now, "route", &[sql]).await
    }
}

impl PostgresStore {
    /// Marks a row as deleted, then what hangs on it. Each statement takes account, id, time and version.
    async fn delete(
        &self,
        account: AccountId,
        id: Uuid,
        now: Timestamp,
        what: &'static str,
        statements: &[&str],
    ) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let deleted = async {
            let version = next_version(&transaction, account, what).await?;
            let params = params![account.uuid() => UUID, id => UUID, now.micros() => INT8, version => INT8];
            for (place, sql) in statements.iter().enumerate() {
                let rows = transaction.run(sql, params).await?;
                if place == 0 && rows.is_empty() {
                    return Err(StoreError::NotFound { what });
                }
            }
            Ok(())
        };
        let deleted = deleted.await;
        transaction.end(deleted).await
    }
}

/// The version of the change that is being made. Holds the account's row until the transaction ends.
async fn next_version(
    transaction: &Transaction<'_>,
    account: AccountId,
    what: &'static str,
) -> Result<i64, StoreError> {
    let sql = "update accounts set version = version + 1 where id = $1 returning version";
    let row = transaction.run_opt(sql, params![account.uuid() => UUID]).await?;
    row.map(|row| row.get(0)).ok_or(StoreError::NotFound { what })
}

/// Each of them took a version when it was created, so an account that has had fewer changes has room. Any other is
/// counted under its lock, by the index of live uids: there is no number beside the rows that could go wrong.
async fn has_room(
    transaction: &Transaction<'_>,
    count: &str,
    account: AccountId,
    version: i64,
    (most, what): (usize, &'static str),
) -> Result<(), StoreError> {
    let most = most as i64;
    if version <= most {
        return Ok(());
    }
    let rows = transaction.run(count, params![account.uuid() => UUID, most => INT8]).await?;
    if rows[0].get::<_, i64>(0) < most { Ok(()) } else { Err(StoreError::Full { what }) }
}

/// The row is as it was when it was read. Under the account's lock nothing can come between this and the update.
async fn unchanged(
    transaction: &Transaction<'_>,
    sql: &str,
    id: Uuid,
    account: AccountId,
    version: i64,
    what: &'static str,
) -> Result<(), StoreError> {
    let row = transaction.run_opt(sql, params![id => UUID, account.uuid() => UUID]).await?;
    let found: i64 = row.ok_or(StoreError::NotFound { what })?.get(0);
    if found == version { Ok(()) } else { Err(StoreError::Changed) }
}

/// A route leads from a source of its account, or from none, to a destination of its account.
async fn has_ends(transaction: &Transaction<'_>, route: &Route) -> Result<(), StoreError> {
    let account = route.account_id.uuid();
    let exists =
        |rows: Vec<Row>, what| if rows.is_empty() { Err(StoreError::NotFound { what }) } else { Ok(()) };
    let sql = "select id from destinations where id = $1 and account_id = $2 and deleted_at is null";
    let found = transaction.run(sql, params![route.destination_id.uuid() => UUID, account => UUID]).await?;
    exists(found, "destination")?;
    if let Some(source) = route.source_id {
        let sql = "select id from sources where id = $1 and account_id = $2 and deleted_at is null";
        exists(transaction.run(sql, params![source.uuid() => UUID, account => UUID]).await?, "source")?;
    }
    Ok(())
}

fn has_overrides(route: &Route) -> bool {
    route.retry_policy.is_some() || route.timeout_seconds.is_some() || route.signing.is_some()
}

/// A destination's switches as columns.
struct Switches {
    paused_at: Option<i64>,
    resumed_at: Option<i64>,
    disabled_at: Option<i64>,
    disabled_reason: Option<&'static str>,
}

impl Switches {
    fn of(destination: &Destination) -> Self {
        let switch = &destination.switch;
        Self {
            paused_at: micros(switch.paused_at),
            resumed_at: micros(switch.resumed_at),
            disabled_at: switch.disabled.as_ref().map(|disabled| disabled.at.micros()),
            disabled_reason: switch.disabled.as_ref().map(|disabled| disabled.reason.as_str()),
        }
    }
}

/// As it is kept: a deletion is never written this way.
fn written(destination: &Destination, version: i64) -> Destination {
    let mut written = Destination { version, ..destination.clone() };
    written.switch.deleted_at = None;
    written
}

fn micros(at: Option<Timestamp>) -> Option<i64> {
    at.map(Timestamp::micros)
}
