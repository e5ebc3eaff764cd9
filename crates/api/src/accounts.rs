//! Accounts: made and seen by operators and platforms, and each seen by itself.

pub(crate) mod keys;
pub(crate) mod portal_links;

use crate::{
    app::App,
    audit::AuditOrigin,
    auth::{AccountCtx, NewTenant, TenantsCtx},
    changes::{IfMatch, IfMatchParam, Versioned, until_unchanged},
    error::ApiError,
    json::{self, Body},
    page::{CursorKey, List, NoFilter},
    patch::patch_schema,
    path::Id,
    problems,
    read::{self, Listed, Revision, Wanted},
    validate::Checks,
    views,
};
use axum::{Json, extract::State, response::Response};
use contract::{
    AccountView, DefaultsInput, ListBody, NameQuery, NewAccount, OwnAccountInput, QuotasInput, schema,
};
use domain::{
    account::{Account, Quotas, Scope},
    audit::Told,
    delivery_settings::DeliverySettings,
    id::AccountId,
    limits,
};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;
use store::{Member, Page, SEALED_EVENTS_VERSION, StoreError};

patch_schema!(AccountPatch as "AccountPatch" of NewAccount);
patch_schema!(OwnAccountPatch as "OwnAccountPatch" of OwnAccountInput);

/// Finds everything that is wrong with it. `current` is None at creation.
fn check(input: &NewAccount, current: Option<&Account>) -> Result<(), ApiError> {
    let mut checks = Checks::default();
    checks.uid(input.uid.as_deref(), current.and_then(|current| current.uid.as_deref()));
    checks.name("/name", &input.name);
    checks.range("/retention_days", input.retention_days, 1..=limits::RETENTION_DAYS_MAX);
    checks.rate_limit(input.rate_limit);
    check_quotas(&mut checks, &input.quotas);
    let current = current.map(|current| &current.defaults);
    checks.delivery_settings("/defaults", &read_defaults(&input.defaults), current, input.retention_days);
    checks.done()
}

fn check_quotas(checks: &mut Checks, quotas: &QuotasInput) {
    let counts = [
        ("/quotas/destinations", quotas.destinations, limits::DESTINATIONS_PER_ACCOUNT),
        ("/quotas/routes", quotas.routes, limits::ROUTES_PER_ACCOUNT),
    ];
    for (pointer, count, most) in counts {
        checks.range(pointer, count.unwrap_or(0) as usize, 0..=most);
    }
    let backlogs = [
        ("/quotas/backlog_rows", quotas.backlog_rows, limits::BACKLOG_QUOTA_ROWS_MAX),
        ("/quotas/backlog_bytes", quotas.backlog_bytes, limits::BACKLOG_QUOTA_BYTES_MAX),
    ];
    for (pointer, quota, most) in backlogs {
        checks.range(pointer, quota.unwrap_or(1), 1..=most);
    }
}

fn read_quotas(input: &QuotasInput) -> Quotas {
    let QuotasInput { destinations, routes, backlog_rows, backlog_bytes } = *input;
    Quotas { destinations, routes, backlog_rows, backlog_bytes }
}

fn read_defaults(input: &DefaultsInput) -> DeliverySettings {
    DeliverySettings {
        max_concurrency: input.max_concurrency,
        timeout: input.timeout_seconds.map(Duration::from_secs),
        retry_policy: input.retry_policy.clone(),
    }
}

/// Make an account. Operators, or a platform with the scope `accounts:write`.
#[utoipa::path(
    post, path = "/v1/accounts", operation_id = "create_account", tag = "accounts",
    request_body = NewAccount,
    responses((status = 201, description = "Made.", body = AccountView), problems::CreatingAccount),
)]
pub(crate) async fn create(
    State(app): State<App>,
    ctx: TenantsCtx,
    Body(body): Body<Value>,
) -> Result<Versioned<AccountView>, ApiError> {
    ctx.require(Scope::AccountsWrite)?;
    let input: NewAccount = json::patched(json!({}), body)?;
    check(&input, None)?;
    if input.encrypt_payloads {
        every_node_opens(&app).await?;
    }
    let now = app.now();
    let id = AccountId::at(now, app.dice.bits());
    let data_key = app.secrets.master().new_data_key(id, &*app.dice);
    let account = Account {
        uid: input.uid,
        retention_days: input.retention_days,
        defaults: read_defaults(&input.defaults),
        rate_limit: input.rate_limit,
        quotas: read_quotas(&input.quotas),
        ..Account::new(id, &input.name, data_key, now)
    };
    let account = account.with_encryption(input.encrypt_payloads, now);
    let entry = ctx.entry(&app, id, told(&account).made());
    let account = app.store.create_account_within(app.config.accounts, &account, &entry).await?;
    Ok(Versioned::created(shown(&account)))
}

/// The account of a uid that was new when it was asked for: made under this id, or by another request meanwhile.
pub(crate) async fn of_new_uid(app: &App, id: AccountId, new: &NewTenant) -> Result<AccountId, ApiError> {
    let data_key = app.secrets.master().new_data_key(id, &*app.dice);
    let account = Account::new(id, &new.uid, data_key, app.now());
    let account = Account { uid: Some(new.uid.clone()), ..account };
    let entry = new.origin.entry(app, id, told(&account).made());
    match app.store.create_account_within(app.config.accounts, &account, &entry).await {
        Ok(made) => Ok(made.id),
        Err(error @ (StoreError::Taken { .. } | StoreError::Full { .. })) => {
            app.account_of_uid(&new.uid).await?.ok_or_else(|| error.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// List all accounts, newest first. Operators, or a platform with the scope `accounts:read`.
#[utoipa::path(
    get, path = "/v1/accounts", operation_id = "list_accounts", tag = "accounts",
    params(crate::page_params::PageParams, NameQuery),
    responses((status = 200, description = "A page.", body = ListBody<AccountView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: TenantsCtx,
    list: List<NameQuery>,
) -> Result<Response, ApiError> {
    ctx.require(Scope::AccountsRead)?;
    let wanted = Wanted::try_from(&list.filter)?;
    let room = app.answers.page(None).await?;
    let found = read::accounts(&app, &wanted, list.page(&app, None)?).await?;
    let searched_until = found.next.filter(|_| wanted.looks_through()).map(AccountId::made_at);
    room.json(&ListBody { searched_until, ..list.body(&app, None, found) })
}

/// Read an account, or how far one is erased that was deleted. Operators, or a platform with the scope `accounts:read`.
#[utoipa::path(
    get, path = "/v1/accounts/{id}", operation_id = "get_account", tag = "accounts",
    params(("id" = schema::AccountRef, Path)),
    responses((status = 200, description = "The account.", body = AccountView), problems::Reading),
)]
pub(crate) async fn get(
    State(app): State<App>,
    ctx: TenantsCtx,
    Id(id): Id<AccountId>,
) -> Result<Versioned<AccountView>, ApiError> {
    ctx.require(Scope::AccountsRead)?;
    read::account_or_erasure(&app, id).await.map(Versioned::ok)
}

/// Delete an account and erase all that was its own: its keys and ingest URLs stop working at once on this node and within
/// a second on all, nothing more is accepted, and what waits is cancelled. The rest goes in the background; reading the
/// account shows how far it is. Deleting it again is fine. What stays is its id, and its audit log. Operators, or a platform with the
/// scope `accounts:write`.
#[utoipa::path(
    delete, path = "/v1/accounts/{id}", operation_id = "delete_account", tag = "accounts",
    params(("id" = schema::AccountRef, Path)),
    responses((status = 202, description = "It is being erased.", body = AccountView), problems::DeletingAccount),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    ctx: TenantsCtx,
    Id(id): Id<AccountId>,
) -> Result<(StatusCode, Json<AccountView>), ApiError> {
    ctx.require(Scope::AccountsWrite)?;
    is_not_told_of_all(&app, id).await?;
    let entry = ctx.entry(&app, id, None);
    let deleted = app.store.delete_account(id, app.now(), &entry).await;
    let erasure = app.account_deleted(id, deleted).await?;
    Ok((StatusCode::ACCEPTED, Json(views::erased_account(&erasure))))
}

/// 409 for the operator's own account: what it is told would go nowhere, and nobody would notice.
async fn is_not_told_of_all(app: &App, id: AccountId) -> Result<(), ApiError> {
    let Some(named) = app.config.operations_account.as_deref() else { return Ok(()) };
    let is_named = match named.parse::<AccountId>() {
        Ok(named) => named == id,
        Err(_) => app.store.account_by_uid(named).await?.is_some_and(|account| account.id == id),
    };
    match is_named {
        true => Err(ApiError::account_in_use(
            "`operations.account` names this account: it is told of all others. Name another one, or none, first",
        )),
        false => Ok(()),
    }
}

/// Change an account. Operators, or a platform with the scope `accounts:write`.
#[utoipa::path(
    patch, path = "/v1/accounts/{id}", operation_id = "update_account", tag = "accounts",
    params(("id" = schema::AccountRef, Path), IfMatchParam), request_body = AccountPatch,
    responses((status = 200, description = "As it is now.", body = AccountView), problems::ChangingAccount),
)]
pub(crate) async fn update(
    State(app): State<App>,
    ctx: TenantsCtx,
    Id(id): Id<AccountId>,
    if_match: IfMatch,
    Body(patch): Body<Value>,
) -> Result<Versioned<AccountView>, ApiError> {
    ctx.require(Scope::AccountsWrite)?;
    change(&app, id, ctx.origin(), &if_match, |account| {
        let form = json!({
            "uid": account.uid, "name": account.name, "retention_days": account.retention_days,
            "defaults": account.defaults, "rate_limit": account.rate_limit, "quotas": account.quotas,
            "encrypt_payloads": account.encrypt_payloads,
        });
        let input: NewAccount = json::patched(form, patch.clone())?;
        check(&input, Some(&account))?;
        let account = account.with_defaults(read_defaults(&input.defaults));
        let account = account.with_encryption(input.encrypt_payloads, app.now());
        Ok(Account {
            uid: input.uid,
            name: input.name,
            retention_days: input.retention_days,
            rate_limit: input.rate_limit,
            quotas: read_quotas(&input.quotas),
            ..account
        })
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
    responses((status = 200, description = "As it is now.", body = AccountView), problems::ChangingAccount),
)]
pub(crate) async fn update_own(
    State(app): State<App>,
    ctx: AccountCtx,
    if_match: IfMatch,
    Body(patch): Body<Value>,
) -> Result<Versioned<AccountView>, ApiError> {
    ctx.require(Scope::AccountAdmin)?;
    change(&app, ctx.account_id(), ctx.origin(), &if_match, |account| {
        let form = json!({
            "name": account.name, "retention_days": account.retention_days, "defaults": account.defaults,
            "encrypt_payloads": account.encrypt_payloads,
        });
        let OwnAccountInput { name, retention_days, defaults, encrypt_payloads } =
            json::patched(form, patch.clone())?;
        let input =
            NewAccount { uid: account.uid.clone(), retention_days, defaults, ..NewAccount::new(&name) };
        check(&input, Some(&account))?;
        let account = account.with_defaults(read_defaults(&input.defaults));
        let account = account.with_encryption(encrypt_payloads, app.now());
        Ok(Account { name: input.name, retention_days: input.retention_days, ..account })
    })
    .await
}

/// A page of what belongs to an account, in the order of what it is.
async fn page_of<V: Serialize, K: CursorKey>(
    app: &App,
    ctx: &TenantsCtx,
    account: AccountId,
    list: &List<NoFilter>,
    read: impl AsyncFnOnce(Page<K>) -> Result<Listed<V, K>, ApiError>,
) -> Result<Response, ApiError> {
    ctx.require(Scope::AccountsRead)?;
    let room = app.answers.page(None).await?;
    app.store.account(account).await?;
    let found = read(list.page(app, None)?).await?;
    room.json(&list.body(app, None, found))
}

async fn change(
    app: &App,
    id: AccountId,
    origin: &AuditOrigin,
    if_match: &IfMatch,
    decide: impl Fn(Account) -> Result<Account, ApiError>,
) -> Result<Versioned<AccountView>, ApiError> {
    let decide = &decide;
    let account = until_unchanged(&*app.dice, if_match, || async move {
        let before = app.store.account(id).await?;
        if_match.check(before.version)?;
        let account = Account { updated_at: app.now(), ..decide(before.clone())? };
        if account.encrypt_payloads && !before.encrypt_payloads {
            every_node_opens(app).await?;
        }
        let entry = origin.entry(app, id, told(&account).since(&told(&before)));
        let updated = app.store.update_account(&account, &entry).await;
        app.account_written(id);
        if account.defaults == before.defaults && account.encrypt_payloads == before.encrypt_payloads {
            return Ok(updated?);
        }
        Ok(app.defaults_written(id, updated).await?)
    })
    .await?;
    Ok(Versioned::ok(shown(&account)))
}

/// 409 while a node is of a version that could not open what is encrypted.
async fn every_node_opens(app: &App) -> Result<(), ApiError> {
    let members = app.store.roster().await?.members;
    match members.iter().find(|member| member.tables_version < SEALED_EVENTS_VERSION) {
        None => Ok(()),
        Some(Member { record, .. }) => Err(ApiError::nodes_behind(format!(
            "the node {} is of a version that does not encrypt payloads, and cannot read those that are: upgrade it first",
            record.label
        ))),
    }
}

/// What the audit log tells of it.
fn told(account: &Account) -> Told {
    Told::of(json!({
        "uid": account.uid, "name": account.name, "retention_days": account.retention_days,
        "defaults": account.defaults, "rate_limit": account.rate_limit, "quotas": account.quotas,
        "encrypt_payloads": account.encrypt_payloads,
    }))
}

fn shown(account: &Account) -> Revision<AccountView> {
    Revision { version: account.version, view: views::account(account) }
}
