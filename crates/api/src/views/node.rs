use contract::{NodeStatus, NodeView};
use store::Member;

pub(crate) fn node(member: &Member, shards: u32) -> NodeView {
    let record = &member.record;
    NodeView {
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
