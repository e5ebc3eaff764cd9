//! Expansions: a chunk is one statement, and the cursor's row is its lock.

use super::{
    PostgresStore,
    catalog::{OrderingRow, RouteRow},
    planned::{self, Definition, Planned},
    rows::row,
    statement::{Statement, params, sql, sql_file},
};
use crate::{Chunk, Expansion, Expansions, RoutePage, RouteWalk, StoreError};
use async_trait::async_trait;
use domain::{
    id::{AccountId, EventId, RouteId},
    time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

static OPEN_EXPANSIONS: LazyLock<Statement> = sql!("open_expansions");
static EXPANSION: LazyLock<Statement> = sql!("expansion");
static EXPAND: LazyLock<Statement> = sql!("expand");
/// On a table that was never analysed the planner would rather sort all that are left, for every page.
pub(super) static ROUTES_AFTER: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "routes_after",
        sql: sql_file!("routes_after"),
        kept: true,
        settings: planned::IN_ORDER,
        gives: "doc text, version bigint, account_version bigint",
    };
    let params = params![
        account_id: Uuid::nil() => UUID, after_route_id: Uuid::nil() => UUID, source_id: None::<Uuid> => UUID,
        limit: 0_i64 => INT8, known_version: None::<i64> => INT8,
    ];
    Planned::new(definition, params)
});
pub(super) static ORDERINGS_OF: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "orderings_of",
        sql: sql_file!("orderings_of"),
        kept: true,
        settings: planned::BY_KEY,
        gives: "id uuid, ordering text",
    };
    Planned::new(definition, params![destination_ids: Vec::<Uuid>::new() => UUID_ARRAY])
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
        let params = params![after_event_id: after => UUID, limit: limit as i64 => INT8];
        let open = connection.read(&OPEN_EXPANSIONS, params).await?.all()?;
        Ok(open.into_iter().map(ExpansionRow::expansion).collect())
    }

    async fn expansion(&self, event: EventId) -> Result<Option<Expansion>, StoreError> {
        let connection = self.pools.engine().await?;
        let found = connection.read(&EXPANSION, params![event_id: event.uuid() => UUID]).await?.first()?;
        Ok(found.map(ExpansionRow::expansion))
    }

    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError> {
        let connection = self.pools.engine().await?;
        let params = params![
            account_id: walk.account_id.uuid() => UUID,
            after_route_id: walk.after.unwrap_or(RouteId::MIN).uuid() => UUID,
            source_id: walk.source_id.map(|id| id.uuid()) => UUID, limit: walk.limit as i64 => INT8,
            known_version: walk.known => INT8,
        ];
        let rows = connection.read(&ROUTES_AFTER.call, params).await?;
        let Some(version) = rows.first_value("account_version")? else {
            return Ok(RoutePage::Read { version: 0, routes: Vec::new(), orderings: Vec::new() });
        };
        if walk.known == Some(version) {
            return Ok(RoutePage::Unchanged);
        }
        let routes: Vec<_> = rows.joined("version")?.into_iter().map(RouteRow::route).collect();
        let destinations: Vec<Uuid> = routes.iter().map(|route| route.destination_id.uuid()).collect();
        let params = params![destination_ids: destinations => UUID_ARRAY];
        let ordered = connection.read(&ORDERINGS_OF.call, params).await?;
        let orderings = ordered.all()?.into_iter().map(OrderingRow::ordering).collect();
        Ok(RoutePage::Read { version, routes, orderings })
    }

    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        let connection = self.pools.engine().await?;
        let columns = DeliveryColumns::of(chunk);
        let params = params![
            event_id: chunk.event_id.uuid() => UUID, from_cursor: chunk.from.map(|id| id.uuid()) => UUID,
            to_cursor: chunk.to.map(|id| id.uuid()) => UUID, done: chunk.done => BOOL,
            delivery_id: columns.id => UUID_ARRAY, shard: columns.shard => INT2_ARRAY,
            destination_id: columns.destination_id => UUID_ARRAY, route_id: columns.route_id => UUID_ARRAY,
            track: columns.track => INT8_ARRAY, rank: columns.rank => INT8_ARRAY,
            due_at: columns.due_at => INT8_ARRAY, created_at: columns.created_at => INT8_ARRAY,
            sequenced: columns.sequenced => BOOL_ARRAY,
        ];
        Ok(!connection.write(&EXPAND, params).await?.is_empty())
    }
}

row! {
    struct ExpansionRow {
        event_id: EventId,
        account_id: AccountId,
        account_version: i64,
        cursor: Option<RouteId>,
        deliveries: u32,
        inline_routes: Vec<Uuid>,
        created_at: Timestamp,
    }
}

impl ExpansionRow {
    fn expansion(self) -> Expansion {
        Expansion {
            event_id: self.event_id,
            account_id: self.account_id,
            account_version: self.account_version,
            cursor: self.cursor,
            deliveries: self.deliveries,
            inline_routes: self.inline_routes.into_iter().map(RouteId::from_uuid).collect(),
            created_at: self.created_at,
        }
    }
}

/// A chunk's deliveries, by columns.
#[derive(Default)]
struct DeliveryColumns {
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

impl DeliveryColumns {
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
