//! Nodes: which there are, and how much of the work each has.

use crate::{app::App, auth::Caller, error::ApiError, problems, read};
use axum::{Json, extract::State};
use contract::{ListBody, NodeView};
use domain::account::Scope;

/// List the nodes that share the store, in the order in which they started. An operator, or scope `account:admin`, which
/// does not see addresses; platforms do not see them.
#[utoipa::path(
    get, path = "/v1/nodes", operation_id = "list_nodes", tag = "operations",
    responses((status = 200, description = "All of them.", body = ListBody<NodeView>), problems::Asking),
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
) -> Result<Json<ListBody<NodeView>>, ApiError> {
    match &caller {
        Caller::Operator(_) => {}
        Caller::Account(ctx) if !ctx.is_platform() => {
            ctx.require(Scope::AccountAdmin)?;
        }
        Caller::Account(_) | Caller::Platform => {
            return Err(ApiError::scope_missing("the nodes are the operator's: a platform does not see them"));
        }
    }
    let mut data = read::nodes(&app).await?;
    if let Caller::Account(_) = &caller {
        data.iter_mut().for_each(|node| node.address = None);
    }
    Ok(Json(ListBody { data, next_cursor: None, searched_until: None }))
}
