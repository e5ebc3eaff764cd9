//! Expansions: a chunk is one statement, and the cursor's row is its lock.

use super::{
    PostgresStore, catalog,
    new_deliveries::DeliveryColumns,
    planned::{self, Definition, Planned},
    rows::{Cells, Unreadable},
    statement::{Statement, params, sql, sql_file},
};
use crate::{Chunk, Expansion, Expansions, RoutePage, RouteWalk, StoreError, other_routes};
use async_trait::async_trait;
use domain::{
    id::{DeliveryId, DestinationId, EventId, RouteId},
    limits,
};
use std::sync::LazyLock;
use uuid::Uuid;

static OPEN_EXPANSIONS: LazyLock<Statement> = sql!("open_expansions");
static EXPANSION: LazyLock<Statement> = sql!("expansion");
static EXPAND: LazyLock<Statement> = sql!("expand");
static LEFT_EXPANSIONS: LazyLock<Statement> = sql!("left_expansions");
static REACHED_BY_EVENT: LazyLock<Statement> = sql!("reached_by_event");
static TAKE_OVER_EXPANSION: LazyLock<Statement> = sql!("take_over_expansion");
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
        account_id: Uuid::nil() => UUID, after_destination_id: Uuid::nil() => UUID,
        after_route_id: Uuid::nil() => UUID, source_id: None::<Uuid> => UUID, limit: 0_i64 => INT8,
        known_version: None::<i64> => INT8,
    ];
    Planned::new(definition, params)
});
pub(super) static NUMBERINGS_OF: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "numberings_of",
        sql: sql_file!("numberings_of"),
        kept: true,
        settings: planned::BY_KEY,
        gives: "id uuid, numbering text",
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
        Ok(connection.read(&OPEN_EXPANSIONS, params).await?.all(expansion)?)
    }

    async fn expansion(&self, event: EventId) -> Result<Option<Expansion>, StoreError> {
        let connection = self.pools.engine().await?;
        let params = params![event_id: event.uuid() => UUID];
        Ok(connection.read(&EXPANSION, params).await?.first(expansion)?)
    }

    async fn take_over_expansion(&self) -> Result<bool, StoreError> {
        let connection = self.pools.engine().await?;
        let left = connection.read(&LEFT_EXPANSIONS, params![]).await?;
        let oldest = left.first(|cells| Ok((cells.get("event_id")?, cells.get("cursor")?)))?;
        let Some((event, cursor)): Option<(EventId, Option<Uuid>)> = oldest else { return Ok(false) };
        let from = DeliveryId::at(event.made_at().minus(limits::ID_SLACK), 0).uuid();
        let params = params![event_id: event.uuid() => UUID, from_delivery_id: from => UUID];
        let reached: Vec<Uuid> =
            connection.read(&REACHED_BY_EVENT, params).await?.column("destination_id")?;
        let params = params![
            event_id: event.uuid() => UUID, cursor: cursor => UUID, destination_ids: reached => UUID_ARRAY,
        ];
        Ok(!connection.write(&TAKE_OVER_EXPANSION, params).await?.is_empty())
    }

    async fn routes_after(&self, walk: &RouteWalk) -> Result<RoutePage, StoreError> {
        let connection = self.pools.engine().await?;
        let after = walk.after.unwrap_or((DestinationId::MIN, RouteId::MIN));
        let params = params![
            account_id: walk.account_id.uuid() => UUID,
            after_destination_id: after.0.uuid() => UUID, after_route_id: after.1.uuid() => UUID,
            source_id: walk.source_id.map(|id| id.uuid()) => UUID, limit: walk.limit as i64 => INT8,
            known_version: walk.known => INT8,
        ];
        let rows = connection.read(&ROUTES_AFTER.call, params).await?;
        let Some(version) = rows.first_value("account_version")? else {
            return Ok(RoutePage::Read { version: 0, routes: Vec::new(), numberings: Vec::new() });
        };
        if walk.known == Some(version) {
            return Ok(RoutePage::Unchanged);
        }
        let routes = rows.joined("version", catalog::route)?;
        let destinations: Vec<Uuid> = routes.iter().map(|route| route.destination_id.uuid()).collect();
        let params = params![destination_ids: destinations => UUID_ARRAY];
        let numberings = connection.read(&NUMBERINGS_OF.call, params).await?.all(catalog::numbering)?;
        Ok(RoutePage::Read { version, routes, numberings })
    }

    async fn expand(&self, chunk: &Chunk) -> Result<bool, StoreError> {
        let connection = self.pools.engine().await?;
        let columns = DeliveryColumns::of(&chunk.deliveries);
        let params = params![
            event_id: chunk.event_id.uuid() => UUID, from_cursor: chunk.from.map(|id| id.uuid()) => UUID,
            to_cursor: chunk.to.map(|id| id.uuid()) => UUID, done: chunk.done => BOOL,
            delivery_id: columns.id => UUID_ARRAY, shard: columns.shard => INT2_ARRAY,
            destination_id: columns.destination_id => UUID_ARRAY, route_id: columns.route_id => UUID_ARRAY,
            track: columns.track => INT8_ARRAY, rank: columns.rank => INT8_ARRAY,
            due_at: columns.due_at => INT8_ARRAY, created_at: columns.created_at => INT8_ARRAY,
            sequenced: columns.sequenced => BOOL_ARRAY,
            other_routes: other_routes::packed(&chunk.other_routes) => BYTEA,
        ];
        Ok(!connection.write(&EXPAND, params).await?.is_empty())
    }
}

fn expansion(cells: &mut Cells<'_, '_>) -> Result<Expansion, Unreadable> {
    let inline_destinations: Vec<Uuid> = cells.get("inline_destinations")?;
    Ok(Expansion {
        event_id: cells.get("event_id")?,
        account_id: cells.get("account_id")?,
        account_version: cells.get("account_version")?,
        cursor: cells.get("cursor")?,
        deliveries: cells.get("deliveries")?,
        inline_destinations: inline_destinations.into_iter().map(DestinationId::from_uuid).collect(),
        other_routes: other_routes::unpacked(cells.get("other_routes")?),
        created_at: cells.get("created_at")?,
    })
}
