//! Nodes.

use crate::schema;
use domain::{id::NodeId, member::Role, time::Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A process that shares the work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Node)]
pub struct NodeView {
    /// New with every start.
    #[schema(value_type = schema::NodeId)]
    pub id: NodeId,
    /// The setting `node.name`.
    pub name: String,
    #[schema(value_type = schema::Role)]
    pub role: Role,
    pub version: String,
    /// Where it listens; for operators only.
    #[schema(required)]
    pub address: Option<String>,
    pub status: NodeStatus,
    /// How many of the 1,024 shards of destinations it owns.
    pub shards: u32,
    #[schema(value_type = schema::Timestamp)]
    pub joined_at: Timestamp,
    /// When its lease ends, unless it renews it.
    #[schema(value_type = schema::Timestamp)]
    pub expires_at: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    Active,
    /// Its lease has ended: it is about to be replaced, unless it comes back first.
    Expired,
}
