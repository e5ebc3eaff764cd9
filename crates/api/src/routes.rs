//! Routes: which events of a source go to a destination; and a preview that says why, or why not.

pub(crate) mod preview;

use crate::{
    app::App,
    auth::AccountCtx,
    changes::{IfMatch, IfMatchParam, Versioned, until_unchanged},
    destinations::{secret, signing},
    error::ApiError,
    json::{self, Body},
    named,
    page::List,
    page_params::PageParams,
    patch::patch_schema,
    path::Id,
    problems,
    read::{self, Revision, Wanted},
    validate::Checks,
    views,
};
use axum::{extract::State, response::Response};
use contract::{ListBody, NameQuery, NewRoute, RouteView, schema};
use domain::{
    account::Scope,
    audit::Told,
    filter::Filter,
    id::{AccountId, DestinationId, RouteId, SourceId},
    limits,
    pattern::Pattern,
    route::Route,
};
use http::StatusCode;
use serde_json::{Value, json};
use store::StoreError;

patch_schema!(RoutePatch as "RoutePatch" of NewRoute);

/// Which events a route takes, checked.
struct Matching {
    event_types: Vec<Pattern>,
    filter: Option<Filter>,
}

fn parse(mut form: Value, mut body: Value) -> Result<NewRoute, ApiError> {
    let filter = body.as_object_mut().and_then(|members| members.shift_remove("filter"));
    json::known_removals::<NewRoute>(&body)?;
    signing::forget_header(&mut form, &body);
    let mut merged = json::merge_patch(form, body);
    if let (Some(filter), Some(members)) = (filter, merged.as_object_mut()) {
        members.insert("filter".into(), filter);
    }
    json::from_value(merged)
}

/// What would make it as it is.
fn form(route: &Route) -> Value {
    let input = NewRoute {
        uid: route.uid.clone(),
        name: route.name.clone(),
        enabled: route.enabled,
        source_id: route.source_id,
        destination_id: route.destination_id,
        event_types: route.event_types.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
        filter: route.filter.as_ref().map(|filter| filter.source().clone()),
        retry_policy: route.retry_policy.clone(),
        timeout_seconds: route.timeout_seconds,
        signing: route.signing.as_ref().map(signing::form),
    };
    serde_json::to_value(input).expect("an input is plain data")
}

/// What the audit log tells of it.
fn told(route: &Route) -> Told {
    Told::of(form(route))
}

/// Finds everything that is wrong with it. `current` is None at creation.
fn check(input: &NewRoute, current: Option<&Route>, retention_days: u32) -> Result<Matching, ApiError> {
    let mut checks = Checks::default();
    checks.uid(input.uid.as_deref(), current.and_then(|current| current.uid.as_deref()));
    if let Some(name) = &input.name {
        checks.name("/name", name);
    }
    let matching = check_matching(&mut checks, "", &input.event_types, input.filter.as_ref());
    let policy = current.map(|current| &current.retry_policy);
    checks.retry_policy("/retry_policy", &input.retry_policy, policy, retention_days);
    if let Some(seconds) = input.timeout_seconds {
        checks.timeout("/timeout_seconds", seconds.into());
    }
    if let Some(signing) = &input.signing {
        signing::check(signing, &mut checks, "/signing");
        if signing.secret.is_some() {
            checks.refuse("/signing/secret", "not_allowed", "the secret is the destination's");
        }
    }
    checks.done().map(|()| matching)
}

/// What a route takes, wherever it stands in the body. Only good if nothing was refused.
fn check_matching(checks: &mut Checks, at: &str, event_types: &[String], filter: Option<&Value>) -> Matching {
    let event_types = check_event_types(checks, at, event_types);
    check_header_names(checks, at, filter);
    let filter = filter.and_then(|filter| {
        Filter::compile(filter)
            .map_err(|error| checks.refuse(format!("{at}/filter{}", error.pointer), error.code, error.detail))
            .ok()
    });
    Matching { event_types, filter }
}

/// Headers are known by lower-case names: a filter on any other would never match.
fn check_header_names(checks: &mut Checks, at: &str, filter: Option<&Value>) {
    let headers = filter.and_then(|filter| filter.get("headers")).and_then(Value::as_object);
    for name in headers.into_iter().flat_map(|headers| headers.keys()) {
        if !name.starts_with('$') && name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            let detail = "write header names in lower case";
            checks.refuse(format!("{at}/filter/headers/{name}"), "invalid_value", detail);
        }
    }
}

fn check_event_types(checks: &mut Checks, at: &str, event_types: &[String]) -> Vec<Pattern> {
    if event_types.is_empty() || event_types.len() > limits::ROUTE_PATTERNS {
        let detail = format!("1 to {} patterns; `*` matches every event type", limits::ROUTE_PATTERNS);
        checks.refuse(format!("{at}/event_types"), "invalid_length", detail);
    }
    let mut patterns = Vec::new();
    for (index, text) in event_types.iter().enumerate() {
        match text.parse() {
            Ok(pattern) => patterns.push(pattern),
            Err(error) => {
                let error: domain::pattern::PatternError = error;
                checks.refuse(format!("{at}/event_types/{index}"), "invalid_pattern", error.to_string());
            }
        }
    }
    patterns
}

fn write(input: NewRoute, matching: Matching, route: &mut Route) {
    route.uid = input.uid;
    route.name = input.name;
    route.enabled = input.enabled;
    route.source_id = input.source_id;
    route.destination_id = input.destination_id;
    route.event_types = matching.event_types;
    route.filter = matching.filter;
    route.retry_policy = input.retry_policy;
    route.timeout_seconds = input.timeout_seconds;
    route.signing = input.signing.as_ref().map(signing::read);
}

/// Make a route. It counts for the events that come after it. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/routes", operation_id = "create_route", tag = "routes",
    request_body = NewRoute,
    responses((status = 201, description = "Made.", body = RouteView), problems::CreatingCounted),
)]
pub(crate) async fn create(
    State(app): State<App>,
    ctx: AccountCtx,
    Body(mut body): Body<Value>,
) -> Result<Versioned<RouteView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    resolve_ends(&app, account, &mut body).await?;
    let input = parse(json!({}), body)?;
    let checked = check(&input, None, retention_days(&app, account).await?)?;
    let now = app.now();
    let id = RouteId::at(now, app.dice.bits());
    let mut route = Route::new(id, account, input.destination_id, now);
    write(input, checked, &mut route);
    check_signing(&app, &route).await?;
    let entry = ctx.entry(&app, id, told(&route).made());
    let created = app.store.create_route(&route, &entry).await;
    let written = app.config_written(account, &[route.destination_id], created).await;
    let route = written.map_err(refuse_reference)?;
    Ok(Versioned::created(shown(&route)))
}

/// List routes, newest first. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/routes", operation_id = "list_routes", tag = "routes",
    params(PageParams, NameQuery),
    responses((status = 200, description = "A page.", body = ListBody<RouteView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: AccountCtx,
    list: List<NameQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DestinationsRead)?;
    let room = app.answers.page(account).await?;
    let wanted = Wanted::try_from(&list.filter)?;
    let found = read::routes(&app, account, &wanted, list.page(&app, account)?).await?;
    let searched_until = found.next.filter(|_| wanted.looks_through()).map(RouteId::made_at);
    room.json(&ListBody { searched_until, ..list.body(&app, account, found) })
}

/// Read a route. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/routes/{id}", operation_id = "get_route", tag = "routes",
    params(("id" = schema::RouteRef, Path)),
    responses((status = 200, description = "The route.", body = RouteView), problems::Reading),
)]
pub(crate) async fn get(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<RouteId>,
) -> Result<Versioned<RouteView>, ApiError> {
    let account = ctx.require(Scope::DestinationsRead)?;
    read::route(&app, account, id).await.map(Versioned::ok)
}

/// Change a route. It touches later events only. Scope `destinations:write`.
#[utoipa::path(
    patch, path = "/v1/routes/{id}", operation_id = "update_route", tag = "routes",
    params(("id" = schema::RouteRef, Path), IfMatchParam), request_body = RoutePatch,
    responses((status = 200, description = "As it is now.", body = RouteView), problems::Changing),
)]
pub(crate) async fn update(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<RouteId>,
    if_match: IfMatch,
    Body(mut patch): Body<Value>,
) -> Result<Versioned<RouteView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    resolve_ends(&app, account, &mut patch).await?;
    let retention_days = retention_days(&app, account).await?;
    let (app, ctx, patch, if_match) = (&app, &ctx, &patch, &if_match);
    let route = until_unchanged(&*app.dice, if_match, || async move {
        let before = app.store.route(account, id).await?;
        if_match.check(before.version)?;
        let mut route = before.clone();
        let mut touched = vec![route.destination_id];
        let input = parse(form(&route), patch.clone())?;
        let checked = check(&input, Some(&route), retention_days)?;
        write(input, checked, &mut route);
        check_signing(app, &route).await?;
        route.updated_at = app.now();
        touched.push(route.destination_id);
        touched.dedup();
        let entry = ctx.entry(app, id, told(&route).since(&told(&before)));
        let updated = app.store.update_route(&route, &entry).await;
        app.config_written(account, &touched, updated).await.map_err(refuse_reference)
    })
    .await?;
    Ok(Versioned::ok(shown(&route)))
}

/// Remove a route. Its deliveries go on. Scope `destinations:write`.
#[utoipa::path(
    delete, path = "/v1/routes/{id}", operation_id = "delete_route", tag = "routes",
    params(("id" = schema::RouteRef, Path), IfMatchParam),
    responses((status = 204, description = "Removed."), problems::Switching),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<RouteId>,
    if_match: IfMatch,
) -> Result<StatusCode, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    let route = app.store.route(account, id).await?;
    if_match.check(route.version)?;
    let entry = ctx.entry(&app, id, None);
    let deleted = app.store.delete_route(account, id, app.now(), &entry).await;
    app.config_written(account, &[route.destination_id], deleted).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A route that asks for another signature asks for one that its destination can make.
async fn check_signing(app: &App, route: &Route) -> Result<(), ApiError> {
    let Some(signing) = &route.signing else { return Ok(()) };
    let found = app.store.destination(route.account_id, route.destination_id).await;
    let destination = found.map_err(refuse_reference)?;
    secret::check_fits(&destination, signing, &*app.data_key(route.account_id).await?)
}

/// Source and destination may be named by their uids.
async fn resolve_ends(app: &App, account: AccountId, body: &mut Value) -> Result<(), ApiError> {
    named::resolve::<DestinationId>(app, Some(account), body, "/destination_id").await?;
    named::resolve::<SourceId>(app, Some(account), body, "/source_id").await
}

fn shown(route: &Route) -> Revision<RouteView> {
    Revision { version: route.version, view: views::route(route) }
}

async fn retention_days(app: &App, account: AccountId) -> Result<u32, ApiError> {
    Ok(app.store.account(account).await?.retention_days)
}

/// A body that names something that is not there is wrong in that place; the route itself is found.
fn refuse_reference(error: StoreError) -> ApiError {
    match error {
        StoreError::NotFound { what: "destination" } => {
            ApiError::invalid_field("/destination_id", "not_found", "no such destination")
        }
        StoreError::NotFound { what: "source" } => {
            ApiError::invalid_field("/source_id", "not_found", "no such source")
        }
        other => other.into(),
    }
}
