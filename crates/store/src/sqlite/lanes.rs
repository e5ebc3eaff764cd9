//! What owners say about their lanes. There is one owner here, and it need not say anything; it can all the same.

use super::{
    SqliteStore,
    statement::{bound, sql},
    trouble::Trouble,
    writer::Priority,
};
use crate::{LaneRow, PublishedLanes, StoreError};
use async_trait::async_trait;
use domain::{
    id::{DestinationId, NodeId},
    time::Timestamp,
};
use rusqlite::Connection;

const PUBLISH_LANES: &str = sql!("publish_lanes");

#[async_trait]
impl PublishedLanes for SqliteStore {
    async fn publish_lanes(&self, node: NodeId, lanes: &[LaneRow], now: Timestamp) -> Result<(), StoreError> {
        let lanes = lanes.to_owned();
        self.write(Priority::Api, move |connection| {
            for lane in &lanes {
                let doc = serde_json::to_string(lane).map_err(|error| StoreError::Refused(error.into()))?;
                bound!(
                    PUBLISH_LANES,
                    destination_id: lane.destination_id,
                    shard: lane.shard,
                    node_id: node,
                    now: now,
                    doc: doc,
                )
                .execute(connection)?;
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
    let doc = bound!(
        "select doc from lanes where destination_id = :destination_id and seen_at > :newer_than",
        destination_id: id,
        newer_than: newer_than,
    )
    .first(connection, |columns| Ok(columns.get::<String>()?))?;
    // A newer version's words are none.
    Ok(doc.and_then(|doc| serde_json::from_str(&doc).ok()))
}
