//! Nodes: which there are, and how much of the work each has.

use crate::{
    app::App,
    auth::{Caller, OperatorCtx},
    error::{ApiError, Code},
    problems, read,
};
use axum::{
    Json,
    extract::{FromRequestParts, State},
};
use contract::{ListBody, NodeView};
use domain::account::Scope;
use http::request;

/// Who may see the nodes.
pub(crate) enum Onlooker {
    Operator,
    /// Of an account, by a key of its own: what accounts share is no secret, but where the nodes are is.
    Account,
}

impl FromRequestParts<App> for Onlooker {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        match OperatorCtx::from_request_parts(parts, app).await {
            Ok(_) => return Ok(Self::Operator),
            Err(error) if error.code() != Code::ScopeMissing => return Err(error),
            Err(_) => {}
        }
        match Caller::from_request_parts(parts, app).await? {
            Caller::Account(ctx) if !ctx.is_platform() => {
                ctx.require(Scope::AccountAdmin).map(|_| Self::Account)
            }
            _ => Err(ApiError::scope_missing("the nodes are the operator's: a platform does not see them")),
        }
    }
}

/// List the nodes that share the store, in the order in which they started. An operator, or scope `account:admin`, which
/// does not see addresses; platforms do not see them.
#[utoipa::path(
    get, path = "/v1/nodes", operation_id = "list_nodes", tag = "operations",
    responses((status = 200, description = "All of them.", body = ListBody<NodeView>), problems::Asking),
)]
pub(crate) async fn list(
    State(app): State<App>,
    onlooker: Onlooker,
) -> Result<Json<ListBody<NodeView>>, ApiError> {
    let mut data = read::nodes(&app).await?;
    if let Onlooker::Account = onlooker {
        data.iter_mut().for_each(|node| node.address = None);
    }
    Ok(Json(ListBody { data, next_cursor: None, searched_until: None }))
}
