//! An account's keys as its operator or platform sees them: which there are, and that one works no longer. Making them is in
//! `api_keys`, where the account is named.

use crate::{
    app::App,
    auth::TenantsCtx,
    error::ApiError,
    page::{List, NoFilter},
    page_params::PageParams,
    path::{Id, IdWithin},
    problems, read,
};
use axum::{extract::State, response::Response};
use contract::{ApiKeyView, ListBody, schema};
use domain::{
    account::Scope,
    id::{AccountId, ApiKeyId},
};
use http::StatusCode;

/// List the API keys of an account, newest first, revoked ones too. Operators, or a platform with the
/// scope `accounts:read`.
#[utoipa::path(
    get, path = "/v1/accounts/{id}/api-keys", operation_id = "list_account_api_keys", tag = "accounts",
    params(("id" = schema::AccountRef, Path), PageParams),
    responses((status = 200, description = "A page.", body = ListBody<ApiKeyView>), problems::ListingOf),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: TenantsCtx,
    Id(account): Id<AccountId>,
    list: List<NoFilter>,
) -> Result<Response, ApiError> {
    super::page_of(&app, &ctx, account, &list, async |page| read::api_keys(&app, Some(account), page).await)
        .await
}

/// Revoke an API key of an account. It stops working at once on this node and within a second on all; revoking again is
/// fine. Operators, or a platform with the scope `accounts:write`.
#[utoipa::path(
    delete, path = "/v1/accounts/{id}/api-keys/{key_id}", operation_id = "revoke_account_api_key", tag = "accounts",
    params(("id" = schema::AccountRef, Path), ("key_id" = schema::ApiKeyId, Path)),
    responses((status = 204, description = "Revoked."), problems::Acting),
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    ctx: TenantsCtx,
    Id(account): Id<AccountId>,
    IdWithin(id): IdWithin<ApiKeyId>,
) -> Result<StatusCode, ApiError> {
    ctx.require(Scope::AccountsWrite)?;
    let entry = ctx.entry(&app, id, None);
    app.store.revoke_api_key(Some(account), id, app.now(), &entry).await?;
    app.key_revoked(id);
    Ok(StatusCode::NO_CONTENT)
}
