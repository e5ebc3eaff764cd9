//! What owners say about their lanes, for the API of other nodes.

use super::{
    PostgresStore,
    statement::{Statement, params, sql},
};
use crate::{LaneRow, PublishedLanes, StoreError};
use async_trait::async_trait;
use domain::{
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

static PUBLISH_LANES: LazyLock<Statement> = sql!("publish_lanes");
static PUBLISHED_LANES: LazyLock<Statement> = sql!("published_lanes");

#[async_trait]
impl PublishedLanes for PostgresStore {
    async fn publish_lanes(&self, node: NodeId, lanes: &[LaneRow], now: Timestamp) -> Result<(), StoreError> {
        if lanes.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = lanes.iter().map(|lane| lane.destination_id.uuid()).collect();
        let docs: Result<Vec<String>, _> = lanes.iter().map(serde_json::to_string).collect();
        let docs = docs.map_err(|error| StoreError::Refused(error.into()))?;
        let connection = self.pools.nodes().await?;
        let params = params![
            node_id: node.uuid() => UUID, now: now.micros() => INT8, destination_id: ids => UUID_ARRAY,
            doc: docs => TEXT_ARRAY,
        ];
        connection.write(&PUBLISH_LANES, params).await?;
        Ok(())
    }

    async fn published_lanes(
        &self,
        destinations: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<Option<LaneRow>>, StoreError> {
        let connection = self.pools.general().await?;
        let ids: Vec<Uuid> = destinations.iter().map(|id| id.uuid()).collect();
        let params = params![destination_ids: ids => UUID_ARRAY, newer_than: newer_than.micros() => INT8];
        let rows = connection.read(&PUBLISHED_LANES, params).await?;
        // A newer version's words are none.
        let lane = |doc: Option<&str>| doc.and_then(|doc| serde_json::from_str(doc).ok());
        Ok(rows.column("doc")?.into_iter().map(lane).collect())
    }
}
