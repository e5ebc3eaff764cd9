use super::schema;
use domain::{id::NodeId, member::Role, time::Timestamp};
use serde::Serialize;
use store::Member;
use utoipa::ToSchema;

/// A process that shares the work.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Node)]
pub struct NodeView {
    /// New with every start.
    #[schema(value_type = schema::NodeId)]
    pub id: NodeId,
    /// The setting `node.name`.
    pub name: String,
    #[schema(value_type = RoleWord)]
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NodeStatus {
    Active,
    /// Its lease has ended: it is about to be replaced, unless it comes back first.
    Expired,
}

#[derive(ToSchema)]
#[schema(as = Role, rename_all = "snake_case")]
#[expect(dead_code, reason = "describes domain::member::Role, which knows nothing of OpenAPI")]
pub(crate) enum RoleWord {
    All,
    Api,
    Worker,
}

impl NodeView {
    pub fn new(member: &Member, shards: u32) -> Self {
        let record = &member.record;
        Self {
            id: record.id,
            name: record.label.clone(),
            role: record.role,
            version: record.version.clone(),
            address: record.address.clone(),
            status: if member.expired { NodeStatus::Expired } else { NodeStatus::Active },
            shards,
            joined_at: member.joined_at,
            expires_at: member.expires_at,
        }
    }
}
