//! Accounts: made and seen by the operator, and each seen by itself.

pub(crate) mod keys;

use crate::{
    app::App,
    auth::{AccountCtx, OperatorCtx},
    changes::{IfMatch, IfMatchParam, Versioned, until_unchanged},
    error::ApiError,
    json::{self, Body},
    page::{List, NoFilter},
    patch::patch_schema,
    path::Id,
    problems,
    read::{self, Revision},
    validate::Checks,
    views,
};
use axum::{extract::State, response::Response};
use contract::{AccountView, ListBody, NewAccount, OwnAccountInput, schema};
use domain::{
    account::{Account, Scope},
    id::AccountId,
    limits,
};
use serde_json::{Value, json};

patch_schema!(AccountPatch as "AccountPatch" of NewAccount);
patch_schema!(OwnAccountPatch as "OwnAccountPatch" of OwnAccountInput);

fn check(input: &NewAccount) -> Result<(), ApiError> {
    let mut checks = Checks::default();
    checks.uid(input.uid.as_deref());
    checks.name("/name", &input.name);
    checks.range("/retention_days", input.retention_days, 1..=limits::RETENTION_DAYS_MAX);
    checks.done()
}

/// Make an account. Operators only.
#[utoipa::path(
    post, path = "/v1/accounts", operation_id = "create_account", tag = "accounts",
    request_body = NewAccount,
    responses((status = 201, description = "Made.", body = AccountView), problems::Creating),
)]
pub(crate) async fn create(
    State(app): State<App>,
    _: OperatorCtx,
    Body(body): Body<Value>,
) -> Result<Versioned<AccountView>, ApiError> {
    let input: NewAccount = json::patched(json!({}), body)?;
    check(&input)?;
    let now = app.now();
    let id = AccountId::at(now, app.dice.bits());
    let data_key = app.secrets.master().new_data_key(id, &*app.dice);
    let account = Account {
        uid: input.uid,
        retention_days: input.retention_days,
        ..Account::new(id, &input.name, data_key, now)
    };
    let account = app.store.create_account(&account).await?;
    Ok(Versioned::created(shown(&account)))
}

/// List all accounts, newest first. Operators only.
#[utoipa::path(
    get, path = "/v1/accounts", operation_id = "list_accounts", tag = "accounts",
    params(crate::page_params::PageParams),
    responses((status = 200, description = "A page.", body = ListBody<AccountView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    _: OperatorCtx,
    list: List<NoFilter>,
) -> Result<Response, ApiError> {
    let room = app.answers.page(None).await?;
    let found = read::accounts(&app, list.page(&app, None)?).await?;
    room.json(&list.body(&app, None, found))
}

/// Read an account. Operators only.
#[utoipa::path(
    get, path = "/v1/accounts/{id}", operation_id = "get_account", tag = "accounts",
    params(("id" = schema::AccountId, Path)),
    responses((status = 200, description = "The account.", body = AccountView), problems::Reading),
)]
pub(crate) async fn get(
    State(app): State<App>,
    _: OperatorCtx,
    Id(id): Id<AccountId>,
) -> Result<Versioned<AccountView>, ApiError> {
    read::account(&app, id).await.map(Versioned::ok)
}

/// Change an account. Operators only.
#[utoipa::path(
    patch, path = "/v1/accounts/{id}", operation_id = "update_account", tag = "accounts",
    params(("id" = schema::AccountId, Path), IfMatchParam), request_body = AccountPatch,
    responses((status = 200, description = "As it is now.", body = AccountView), problems::Changing),
)]
pub(crate) async fn update(
    State(app): State<App>,
    _: OperatorCtx,
    Id(id): Id<AccountId>,
    if_match: IfMatch,
    Body(patch): Body<Value>,
) -> Result<Versioned<AccountView>, ApiError> {
    change(&app, id, &if_match, |account| {
        let form = json!({
            "uid": account.uid, "name": account.name, "retention_days": account.retention_days,
        });
        let input: NewAccount = json::patched(form, patch.clone())?;
        check(&input)?;
        Ok(Account { uid: input.uid, name: input.name, retention_days: input.retention_days, ..account })
    })
    .await
}

/// Read the account of the key.
#[utoipa::path(
    get, path = "/v1/account", operation_id = "get_own_account", tag = "accounts",
    responses((status = 200, description = "The account.", body = AccountView), problems::Reading),
)]
pub(crate) async fn get_own(
    State(app): State<App>,
    ctx: AccountCtx,
) -> Result<Versioned<AccountView>, ApiError> {
    read::account(&app, ctx.account_id()).await.map(Versioned::ok)
}

/// Change the account of the key. Scope `account:admin`.
#[utoipa::path(
    patch, path = "/v1/account", operation_id = "update_own_account", tag = "accounts",
    params(IfMatchParam),
    request_body = OwnAccountPatch,
    responses((status = 200, description = "As it is now.", body = AccountView), problems::Changing),
)]
pub(crate) async fn update_own(
    State(app): State<App>,
    ctx: AccountCtx,
    if_match: IfMatch,
    Body(patch): Body<Value>,
) -> Result<Versioned<AccountView>, ApiError> {
    ctx.require(Scope::AccountAdmin)?;
    change(&app, ctx.account_id(), &if_match, |account| {
        let form = json!({ "name": account.name, "retention_days": account.retention_days });
        let own: OwnAccountInput = json::patched(form, patch.clone())?;
        let input = NewAccount { uid: None, name: own.name, retention_days: own.retention_days };
        check(&input)?;
        Ok(Account { name: input.name, retention_days: input.retention_days, ..account })
    })
    .await
}

async fn change(
    app: &App,
    id: AccountId,
    if_match: &IfMatch,
    decide: impl Fn(Account) -> Result<Account, ApiError>,
) -> Result<Versioned<AccountView>, ApiError> {
    let decide = &decide;
    let account = until_unchanged(&*app.dice, if_match, || async move {
        let account = app.store.account(id).await?;
        if_match.check(account.version)?;
        let account = Account { updated_at: app.now(), ..decide(account)? };
        Ok(app.store.update_account(&account).await?)
    })
    .await?;
    Ok(Versioned::ok(shown(&account)))
}

fn shown(account: &Account) -> Revision<AccountView> {
    Revision { version: account.version, view: views::account(account) }
}
