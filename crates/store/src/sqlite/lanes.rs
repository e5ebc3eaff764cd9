//! What owners say about their lanes. There is one owner here, and it need not say anything; it can all the same.

use super::{SqliteStore, row::Key as _, trouble::Trouble, writer::Turn};
use crate::{LaneRow, PublishedLanes, StoreError};
use async_trait::async_trait;
use domain::{
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};

#[async_trait]
impl PublishedLanes for SqliteStore {
    async fn publish_lanes(&self, node: NodeId, lanes: &[LaneRow], now: Timestamp) -> Result<(), StoreError> {
        let lanes = lanes.to_owned();
        self.write(Turn::Api, move |connection| {
            let mut publish = connection.prepare_cached(include_str!("sql/publish_lanes.sql"))?;
            for lane in &lanes {
                let doc = serde_json::to_string(lane).map_err(|error| StoreError::Refused(error.into()))?;
                let id = lane.destination_id.blob();
                publish.execute(params![id, lane.shard, node.blob(), now.micros(), doc])?;
            }
            Ok(())
        })
        .await
    }

    async fn published_lanes(
        &self,
        destinations: &[DestinationId],
        newer_than: Timestamp,
    ) -> Result<Vec<Option<LaneRow>>, StoreError> {
        let destinations = destinations.to_owned();
        self.read(move |connection| {
            destinations.iter().map(|id| published(connection, *id, newer_than)).collect()
        })
        .await
    }
}

pub(super) fn published(
    connection: &Connection,
    id: DestinationId,
    newer_than: Timestamp,
) -> Result<Option<LaneRow>, Trouble> {
    let mut select =
        connection.prepare_cached("select doc from lanes where destination_id = ?1 and seen_at > ?2")?;
    let doc: Option<String> =
        select.query_row(params![id.blob(), newer_than.micros()], |row| row.get(0)).optional()?;
    // A newer version's words are none.
    Ok(doc.and_then(|doc| serde_json::from_str(&doc).ok()))
}
