//! Nodes: who is there, and how much of the work each has.

use crate::{app::App, auth::Caller, error::ApiError, problems, views};
use axum::{Json, extract::State};
use contract::{ListBody, NodeView};
use domain::{account::Scope, id::NodeId};
use std::collections::HashMap;

/// List the nodes that share the store, in the order in which they started. An operator, or scope `account:admin`, which
/// does not see addresses.
#[utoipa::path(
    get, path = "/v1/nodes", operation_id = "list_nodes", tag = "operations",
    responses((status = 200, description = "All of them.", body = ListBody<NodeView>), problems::Asking),
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<ListBody<NodeView>>, ApiError> {
    if let Caller::Account(ctx) = &caller {
        ctx.require(Scope::AccountAdmin)?;
    }
    let roll = app.store.roll().await?;
    let mut shards: HashMap<NodeId, u32> = HashMap::new();
    for owner in roll.shards.iter().filter_map(|row| row.owner) {
        *shards.entry(owner).or_default() += 1;
    }
    let view = |member: &store::Member| {
        let owned = shards.get(&member.record.id).copied().unwrap_or(0);
        let view = views::node(member, owned);
        match caller {
            Caller::Operator(_) => view,
            Caller::Account(_) => NodeView { address: None, ..view },
        }
    };
    Ok(Json(ListBody { data: roll.members.iter().map(view).collect(), next_cursor: None }))
}
