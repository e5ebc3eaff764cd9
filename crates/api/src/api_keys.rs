//! API keys: made, listed and revoked. The key itself is shown once, in the answer that makes it.

use crate::{
    app::App,
    audit::AuditOrigin,
    auth::{AccountCtx, Caller, OperatorCtx, no_account},
    error::ApiError,
    json::{self, Body},
    keys::KeyText,
    named,
    page::{List, NoFilter},
    page_params::PageParams,
    path::Id,
    problems, read,
    validate::Checks,
    views,
};
use axum::{
    Json,
    extract::{FromRequestParts, State},
    response::Response,
};
use contract::{ApiKeyInput, ApiKeyView, ListBody, NewApiKeyView, schema};
use domain::{
    account::{ApiKey, KeyKind, Scope},
    address::network,
    audit::Told,
    id::{AccountId, ApiKeyId, SourceId},
    time::Timestamp,
};
use http::{StatusCode, request};
use ipnet::IpNet;
use serde_json::{Value, json};
use store::StoreError;

/// Whose keys are meant: an account's, or those of the installation.
pub(crate) enum KeyOwner {
    Account(AccountCtx),
    Operator(OperatorCtx),
}

impl FromRequestParts<App> for KeyOwner {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        match Caller::from_request_parts(parts, app).await? {
            Caller::Operator(ctx) => Ok(Self::Operator(ctx)),
            Caller::Platform => Err(no_account()),
            Caller::Account(ctx) => {
                ctx.require(Scope::KeysManage)?;
                Ok(Self::Account(ctx))
            }
        }
    }
}

impl KeyOwner {
    fn account_id(&self) -> Option<AccountId> {
        match self {
            Self::Account(ctx) => Some(ctx.account_id()),
            Self::Operator(_) => None,
        }
    }

    /// The key that asks; None of a user.
    fn key(&self) -> Option<&ApiKey> {
        match self {
            Self::Account(ctx) => ctx.key(),
            Self::Operator(ctx) => ctx.key(),
        }
    }

    fn origin(&self) -> &AuditOrigin {
        match self {
            Self::Account(ctx) => ctx.origin(),
            Self::Operator(ctx) => ctx.origin(),
        }
    }
}

/// Make an API key. Scope `keys:manage`; a key makes no other that may do more than itself, lasts longer or is taken from
/// elsewhere.
///
/// An operator makes keys of operators and platforms, or with `account_id` the keys of an account.
#[utoipa::path(
    post, path = "/v1/api-keys", operation_id = "create_api_key", tag = "api keys",
    request_body = schema::ApiKeyInput,
    responses((status = 201, description = "Made. The key is shown this once.", body = NewApiKeyView), problems::Creating),
)]
pub(crate) async fn create(
    State(app): State<App>,
    owner: KeyOwner,
    Body(mut body): Body<Value>,
) -> Result<(StatusCode, Json<NewApiKeyView>), ApiError> {
    resolve_references(&app, &owner, &mut body).await?;
    let input: ApiKeyInput = json::patched(json!({}), body)?;
    let now = app.now();
    let (kind, account_id) = check(&input, &owner, now)?;
    let (expires_at, allowed_addresses) = within(owner.key(), &input, account_id)?;
    let scopes = scopes(&input, kind);
    if let KeyOwner::Account(ctx) = &owner {
        for scope in &scopes {
            ctx.require(*scope)?;
        }
    }
    if let Some(account_id) = account_id {
        check_references(&app, account_id, input.source_id).await?;
    }
    let text = KeyText::generate(kind, &*app.dice);
    let id = ApiKeyId::at(now, app.dice.bits());
    let key = ApiKey {
        scopes,
        source_id: input.source_id,
        rate_limit: input.rate_limit,
        expires_at,
        allowed_addresses,
        ..text.kept(id, account_id, &input.name, &app.secrets, now)
    };
    let entry = owner.origin().entry(&app, id, told(&key).made());
    app.store.create_api_key(&key, &entry).await?;
    let made = NewApiKeyView { api_key: views::api_key(&key), key: text.expose().to_owned() };
    Ok((StatusCode::CREATED, Json(made)))
}

/// List API keys, newest first, revoked ones too. Scope `keys:manage`; an operator sees those of operators and platforms.
#[utoipa::path(
    get, path = "/v1/api-keys", operation_id = "list_api_keys", tag = "api keys",
    params(PageParams),
    responses((status = 200, description = "A page.", body = ListBody<ApiKeyView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    owner: KeyOwner,
    list: List<NoFilter>,
) -> Result<Response, ApiError> {
    let account = owner.account_id();
    let room = app.answers.page(account).await?;
    let found = read::api_keys(&app, account, list.page(&app, account)?).await?;
    room.json(&list.body(&app, account, found))
}

/// Revoke an API key. It stops working at once on this node and within a second on all; revoking again is fine.
#[utoipa::path(
    delete, path = "/v1/api-keys/{id}", operation_id = "revoke_api_key", tag = "api keys",
    params(("id" = schema::ApiKeyId, Path)),
    responses((status = 204, description = "Revoked."), problems::Acting),
)]
pub(crate) async fn revoke(
    State(app): State<App>,
    owner: KeyOwner,
    Id(id): Id<ApiKeyId>,
) -> Result<StatusCode, ApiError> {
    let entry = owner.origin().entry(&app, id, None);
    app.store.revoke_api_key(owner.account_id(), id, app.now(), &entry).await?;
    app.key_revoked(id);
    Ok(StatusCode::NO_CONTENT)
}

/// What the audit log tells of it.
fn told(key: &ApiKey) -> Told {
    Told::of(json!({
        "name": key.name, "kind": key.kind, "scopes": key.scopes, "source_id": key.source_id,
        "rate_limit": key.rate_limit, "expires_at": key.expires_at, "allowed_addresses": key.allowed_addresses,
    }))
}

/// The kind of the key, and the account it is for.
fn check(
    input: &ApiKeyInput,
    owner: &KeyOwner,
    now: Timestamp,
) -> Result<(KeyKind, Option<AccountId>), ApiError> {
    let mut checks = Checks::default();
    checks.name("/name", &input.name);
    let account_id = owner.account_id().or(input.account_id);
    let default = if account_id.is_some() { KeyKind::Account } else { KeyKind::Operator };
    let kind = input.kind.unwrap_or(default);
    if input.account_id.is_some() && owner.account_id().is_some() {
        checks.refuse("/account_id", "not_allowed", "a key is made for the account that asks; leave it out");
    }
    match (kind, account_id) {
        (KeyKind::Operator | KeyKind::Platform, Some(_)) => {
            let detail = "keys of operators and platforms are made by operators, and for no account";
            checks.refuse("/kind", "not_allowed", detail);
        }
        (KeyKind::Account | KeyKind::Ingest, None) => {
            checks.refuse(
                "/account_id",
                "missing_field",
                "an operator must say which account the key is for",
            );
        }
        _ => {}
    }
    match (kind, input.source_id) {
        (KeyKind::Ingest, None) => {
            checks.refuse("/source_id", "missing_field", "an ingest key is bound to a source");
        }
        (KeyKind::Account | KeyKind::Operator | KeyKind::Platform, Some(_)) => {
            checks.refuse("/source_id", "not_allowed", "only an ingest key is bound to a source");
        }
        _ => {}
    }
    check_scopes(input, kind, &mut checks);
    if input.expires_at.is_some_and(|at| at <= now) {
        checks.refuse("/expires_at", "out_of_range", "it lies in the past");
    }
    checks.rate_limit(input.rate_limit);
    checks.networks("/allowed_addresses", &input.allowed_addresses);
    checks.done().map(|()| (kind, account_id))
}

/// How long it lasts, and where it is taken from. A key makes none that outlasts it or is taken from elsewhere; what is left
/// out is as it is of the one that asks. Whoever acts for an account is not bounded there by what bounds it at home.
fn within(
    maker: Option<&ApiKey>,
    input: &ApiKeyInput,
    account_id: Option<AccountId>,
) -> Result<(Option<Timestamp>, Vec<IpNet>), ApiError> {
    let mut checks = Checks::default();
    let networks: Vec<IpNet> = input.allowed_addresses.iter().filter_map(|text| network(text)).collect();
    let Some(maker) = maker.filter(|maker| maker.account_id == account_id) else {
        return Ok((input.expires_at, networks));
    };
    if maker.expires_at.zip(input.expires_at).is_some_and(|(last, wanted)| wanted > last) {
        checks.refuse("/expires_at", "not_allowed", "the key that asks expires before that");
    }
    let inside = |network: &IpNet| maker.allowed_addresses.iter().any(|own| own.contains(network));
    if !maker.allowed_addresses.is_empty() && !networks.iter().all(inside) {
        let detail = "the key that asks is not taken from all of these itself";
        checks.refuse("/allowed_addresses", "not_allowed", detail);
    }
    checks.done()?;
    let networks = if networks.is_empty() { maker.allowed_addresses.clone() } else { networks };
    Ok((input.expires_at.or(maker.expires_at), networks))
}

fn check_scopes(input: &ApiKeyInput, kind: KeyKind, checks: &mut Checks) {
    let Some(scopes) = &input.scopes else { return };
    match kind {
        KeyKind::Account | KeyKind::Platform if scopes.is_empty() => {
            checks.refuse("/scopes", "too_few", "a key without a scope can do nothing");
        }
        KeyKind::Account if !scopes.iter().all(|scope| scope.is_of_account()) => {
            let detail = "`accounts:read` and `accounts:write` are scopes of platforms";
            checks.refuse("/scopes", "not_allowed", detail);
        }
        KeyKind::Ingest if scopes.as_slice() != [Scope::IngestWrite] => {
            checks.refuse(
                "/scopes",
                "not_allowed",
                "an ingest key has the scope `ingest:write` and no other",
            );
        }
        KeyKind::Operator if !scopes.is_empty() => {
            checks.refuse("/scopes", "not_allowed", "an operator's key has no scopes of an account");
        }
        _ => {}
    }
}

fn scopes(input: &ApiKeyInput, kind: KeyKind) -> Vec<Scope> {
    let mut scopes = match (kind, &input.scopes) {
        (KeyKind::Account | KeyKind::Platform, Some(scopes)) => scopes.clone(),
        (KeyKind::Account, None) => Scope::OF_ACCOUNT.to_vec(),
        (KeyKind::Platform, None) => Scope::ALL.to_vec(),
        (KeyKind::Ingest, _) => vec![Scope::IngestWrite],
        (KeyKind::Operator, _) => Vec::new(),
    };
    scopes.sort_unstable();
    scopes.dedup();
    scopes
}

/// An operator may name the account by its uid, and whoever makes a key of a source may name that by its own.
async fn resolve_references(app: &App, owner: &KeyOwner, body: &mut Value) -> Result<(), ApiError> {
    if owner.account_id().is_none() {
        named::resolve::<AccountId>(app, None, body, "/account_id").await?;
    }
    let named = || body["account_id"].as_str().and_then(|text| text.parse().ok());
    let account = owner.account_id().or_else(named);
    named::resolve::<SourceId>(app, account, body, "/source_id").await
}

/// What the key is bound to must be there.
async fn check_references(app: &App, account: AccountId, source: Option<SourceId>) -> Result<(), ApiError> {
    let absent = |error, pointer: &'static str| match error {
        StoreError::NotFound { what } => {
            ApiError::invalid_field(pointer, "not_found", format!("no such {what}"))
        }
        other => other.into(),
    };
    app.store.account(account).await.map_err(|error| absent(error, "/account_id"))?;
    if let Some(source) = source {
        app.store.source(account, source).await.map_err(|error| absent(error, "/source_id"))?;
    }
    Ok(())
}
