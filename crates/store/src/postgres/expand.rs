//! Expansions: a chunk is one statement, and the cursor's row is its lock.

use super::{
    PostgresStore,
    catalog::docs,
    planned::{self, Planned, Statement},
    pool::params,
    rows,
};
use crate::{Chunk, Expansion, Expansions, RoutePage, RouteWalk, StoreError};
use async_trait::async_trait;
use domain::id::{AccountId, EventId, RouteId};
use std::sync::LazyLock;
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const EXPAND: &str = include_str!("sql/expand.sql");
/// On a table that nobody has counted yet the planner would rather sort all that are left, for every page.
pub(super) static ROUTES_AFTER: LazyLock<Planned> = LazyLock::new(|| {
    let statement = Statement {
        name: "routes_after",
        sql: include_str!("sql/routes_after.sql"),
        kept: true,
        settings: planned::IN_ORDER,
        gives: "doc text, route_version bigint, account_version bigint",
    };
    let (account, source, known) = (Uuid::nil(), None::<Uuid>, None::<i64>);
    let params = params![account => UUID, account => UUID, source => UUID, 0_i64 => INT8, known => INT8];
    Planned::new(statement, params)
});
pub(super) static ORDERINGS_OF: LazyLock<Planned> = LazyLock::new(|| {
    let statement = Statement {
        name: "orderings_of",
        sql: include_str!("sql/orderings_of.sql"),
        kept: true,
        settings: planned::BY_KEY,
        gives: "destination_id uuid, found text",
    };
    let destinations: Vec<Uuid> = Vec::new();
    Planned::new(statement, params![destinations => UUID_ARRAY])
});

#[async_trait]
impl Expansions for PostgresStore {
    async fn open_expansions(
        &self,
        after: Option<EventId>,
        limit: usize,
    ) -> Result<Vec<Expansion>, StoreError> {
        let connection = self.pools.engine().await?;
        let after = after.unwrap_or(EventId::MIN).uuid();
        let sql = include_str!("sql/open_expansions.sql");
        let open = connection.read(sql, params![after => UUID, limit as i64 => INT8]).await?;
        Ok(open.iter().map(expansion).collect())
    }

    async fn expansion(&self, event: EventId) -> Result<Option<Expansion>, StoreError> {
        let connection = self.pools.engine().await?;
        let sql = "select event_id, account_id, account_version, cursor, deliveries, inline_routes, created_at \
                   from expansions where event_id = $1";
        let found = connection.read_opt(sql, params![event.uuid() => UUID]).await?;
        Ok(found.as_ref().map(expansion))
    }

    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError> {
        let connection = self.pools.engine().await?;
        let (account, after) = (walk.account_id.uuid(), walk.after.unwrap_or(RouteId::MIN).uuid());
        let source = walk.source_id.map(|id| id.uuid());
        let params = params![
            account => UUID, after => UUID, source => UUID, walk.limit as i64 => INT8, walk.known => INT8,
        ];
        let rows = connection.read(&ROUTES_AFTER.call, params).await?;
        let Some(first) = rows.first() else {
            return Ok(RoutePage::Read { version: 0, routes: Vec::new(), orderings: Vec::new() });
        };
        let version = first.get(2);
        if walk.known == Some(version) {
            return Ok(RoutePage::Unchanged);
        }
        let found = rows.iter().filter(|row| row.get::<_, Option<i64>>(1).is_some());
        let routes = found.map(docs::route).collect::<Result<Vec<_>, _>>()?;
        let destinations: Vec<Uuid> = routes.iter().map(|route| route.destination_id.uuid()).collect();
        let ordered = connection.read(&ORDERINGS_OF.call, params![destinations => UUID_ARRAY]).await?;
        Ok(RoutePage::Read { version, routes, orderings: ordered.iter().map(docs::ordering).collect() })
    }

    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        let connection = self.pools.engine().await?;
        let columns = Columns::of(chunk);
        let (from, to) = (chunk.from.map(|id| id.uuid()), chunk.to.map(|id| id.uuid()));
        let params = params![
            chunk.event_id.uuid() => UUID, from => UUID, to => UUID, chunk.done => BOOL,
            columns.id => UUID_ARRAY, columns.shard => INT2_ARRAY, columns.destination_id => UUID_ARRAY,
            columns.route_id => UUID_ARRAY, columns.track => INT8_ARRAY, columns.rank => INT8_ARRAY,
            columns.due_at => INT8_ARRAY, columns.created_at => INT8_ARRAY, columns.sequenced => BOOL_ARRAY,
        ];
        Ok(!connection.write(EXPAND, params).await?.is_empty())
    }
}

/// event_id, account_id, account_version, cursor, deliveries, inline_routes, created_at.
fn expansion(row: &Row) -> Expansion {
    Expansion {
        event_id: EventId::from_uuid(row.get(0)),
        account_id: AccountId::from_uuid(row.get(1)),
        account_version: row.get(2),
        cursor: row.get::<_, Option<Uuid>>(3).map(RouteId::from_uuid),
        deliveries: rows::count(row, 4),
        inline_routes: row.get::<_, Vec<Uuid>>(5).into_iter().map(RouteId::from_uuid).collect(),
        created_at: rows::time(row, 6),
    }
}

/// A chunk's deliveries, by columns.
#[derive(Default)]
struct Columns {
    id: Vec<Uuid>,
    shard: Vec<i16>,
    destination_id: Vec<Uuid>,
    route_id: Vec<Uuid>,
    track: Vec<i64>,
    rank: Vec<i64>,
    due_at: Vec<i64>,
    created_at: Vec<i64>,
    sequenced: Vec<bool>,
}

impl Columns {
    fn of(chunk: &Chunk) -> Self {
        let mut columns = Self::default();
        for delivery in &chunk.deliveries {
            columns.id.push(delivery.id.uuid());
            columns.shard.push(delivery.shard as i16);
            columns.destination_id.push(delivery.destination_id.uuid());
            columns.route_id.push(delivery.route_id.uuid());
            columns.track.push(delivery.position.track);
            columns.rank.push(delivery.position.rank);
            columns.due_at.push(delivery.due_at.micros());
            columns.created_at.push(delivery.id.made_at().micros());
            columns.sequenced.push(delivery.sequenced);
        }
        columns
    }
}
