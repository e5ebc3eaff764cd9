//! Routes: which events of a source go to a destination; and a preview that says why, or why not.

pub(crate) mod preview;

use crate::{
    app::App,
    auth::AccountCtx,
    changes::{IfMatch, IfMatchParam, Versioned, until_unchanged},
    destinations::SigningInput,
    error::ApiError,
    json::{self, Body},
    page::{List, ListBody, NoFilter},
    page_params::PageParams,
    patch::patch_schema,
    path::Id,
    problems,
    validate::Checks,
    views::{RouteView, schema, words},
};
use axum::{Json, extract::State};
use domain::{
    account::Scope,
    filter::Filter,
    id::{AccountId, DestinationId, RouteId, SourceId},
    limits,
    pattern::Pattern,
    retry::RetryPolicy,
    route::Route,
};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::StoreError;
use utoipa::ToSchema;

/// A route to be made. What is left out, or null, takes its default.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewRoute)]
pub(crate) struct RouteInput {
    /// Your own id of it, unique in the account.
    uid: Option<String>,
    name: Option<String>,
    #[serde(default = "enabled")]
    #[schema(default = true)]
    enabled: bool,
    /// Null: events published by API.
    #[schema(value_type = Option<schema::SourceId>)]
    source_id: Option<SourceId>,
    #[schema(value_type = schema::DestinationId)]
    destination_id: DestinationId,
    /// At least one of these must match; `["*"]` if left out.
    #[serde(default = "everything")]
    #[schema(value_type = Vec<schema::EventTypePattern>)]
    event_types: Vec<String>,
    /// Replaced as a whole, not merged: a `null` inside is a value to compare with.
    #[schema(value_type = Option<schema::Filter>)]
    filter: Option<Value>,
    /// Null: the destination's.
    #[schema(value_type = Option<words::RetryPolicyWord>)]
    retry_policy: Option<RetryPolicy>,
    /// Null: the destination's.
    #[schema(minimum = 1, maximum = 30)]
    timeout_seconds: Option<u32>,
    /// Null: the destination's. The secret is always the destination's.
    signing: Option<SigningInput>,
}

patch_schema!(RoutePatch as "RoutePatch" of RouteInput);

fn enabled() -> bool {
    true
}

fn everything() -> Vec<String> {
    vec!["*".into()]
}

/// What is left of an input once it has been checked.
struct Checked {
    event_types: Vec<Pattern>,
    filter: Option<Filter>,
}

impl RouteInput {
    fn read(form: Value, mut body: Value) -> Result<Self, ApiError> {
        let filter = body.as_object_mut().and_then(|members| members.shift_remove("filter"));
        json::known_removals::<Self>(&body)?;
        let mut merged = json::merge_patch(form, body);
        if let (Some(filter), Some(members)) = (filter, merged.as_object_mut()) {
            members.insert("filter".into(), filter);
        }
        json::from_value(merged)
    }

    fn of(route: &Route) -> Value {
        let input = Self {
            uid: route.uid.clone(),
            name: route.name.clone(),
            enabled: route.enabled,
            source_id: route.source_id,
            destination_id: route.destination_id,
            event_types: route.event_types.iter().map(|pattern| pattern.as_str().to_owned()).collect(),
            filter: route.filter.as_ref().map(|filter| filter.source().clone()),
            retry_policy: route.retry_policy.clone(),
            timeout_seconds: route.timeout_seconds,
            signing: route.signing.as_ref().map(SigningInput::of),
        };
        serde_json::to_value(input).expect("an input is plain data")
    }

    /// Finds everything that is wrong with it. `current` is None at creation.
    fn check(&self, current: Option<&Route>, retention_days: u32) -> Result<Checked, ApiError> {
        let mut checks = Checks::default();
        checks.uid(self.uid.as_deref());
        if let Some(name) = &self.name {
            checks.name("/name", name);
        }
        let event_types = self.check_event_types(&mut checks);
        self.check_header_names(&mut checks);
        let filter = match self.filter.as_ref().map(Filter::compile) {
            Some(Err(error)) => {
                checks.refuse(format!("/filter{}", error.pointer), error.code, error.detail);
                None
            }
            Some(Ok(filter)) => Some(filter),
            None => None,
        };
        if let Some(policy) = &self.retry_policy {
            let current = current.and_then(|current| current.retry_policy.as_ref());
            checks.retry_policy("/retry_policy", policy, current, retention_days);
        }
        if let Some(seconds) = self.timeout_seconds {
            checks.timeout("/timeout_seconds", seconds.into());
        }
        if let Some(signing) = &self.signing {
            signing.check(&mut checks, "/signing");
            if signing.secret.is_some() {
                checks.refuse("/signing/secret", "not_allowed", "the secret is the destination's");
            }
        }
        checks.done().map(|()| Checked { event_types, filter })
    }

    /// Headers are known by lower-case names: a filter on any other would never match.
    fn check_header_names(&self, checks: &mut Checks) {
        let headers =
            self.filter.as_ref().and_then(|filter| filter.get("headers")).and_then(Value::as_object);
        for name in headers.into_iter().flat_map(|headers| headers.keys()) {
            if !name.starts_with('$') && name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                let detail = "write header names in lower case";
                checks.refuse(format!("/filter/headers/{name}"), "invalid_value", detail);
            }
        }
    }

    fn check_event_types(&self, checks: &mut Checks) -> Vec<Pattern> {
        if self.event_types.is_empty() || self.event_types.len() > limits::ROUTE_PATTERNS {
            let detail = format!("1 to {} patterns; `*` matches every event type", limits::ROUTE_PATTERNS);
            checks.refuse("/event_types", "invalid_length", detail);
        }
        let mut patterns = Vec::new();
        for (index, text) in self.event_types.iter().enumerate() {
            match text.parse() {
                Ok(pattern) => patterns.push(pattern),
                Err(error) => {
                    let error: domain::pattern::PatternError = error;
                    checks.refuse(format!("/event_types/{index}"), "invalid_pattern", error.to_string());
                }
            }
        }
        patterns
    }

    fn write(self, checked: Checked, route: &mut Route) {
        route.uid = self.uid;
        route.name = self.name;
        route.enabled = self.enabled;
        route.source_id = self.source_id;
        route.destination_id = self.destination_id;
        route.event_types = checked.event_types;
        route.filter = checked.filter;
        route.retry_policy = self.retry_policy;
        route.timeout_seconds = self.timeout_seconds;
        route.signing = self.signing.as_ref().map(SigningInput::to_signing);
    }
}

/// Make a route. It counts for the events that come after it. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/routes", operation_id = "create_route", tag = "routes",
    request_body = RouteInput,
    responses((status = 201, description = "Made.", body = RouteView), problems::CreatingCounted),
)]
pub(crate) async fn create(
    State(app): State<App>,
    ctx: AccountCtx,
    Body(body): Body<Value>,
) -> Result<Versioned<RouteView>, ApiError> {
    ctx.require(Scope::DestinationsWrite)?;
    let input = RouteInput::read(json!({}), body)?;
    let checked = input.check(None, retention_days(&app, ctx.account_id()).await?)?;
    let now = app.now();
    let mut route = Route {
        id: RouteId::at(now, app.dice.bits()),
        account_id: ctx.account_id(),
        uid: None,
        name: None,
        enabled: true,
        source_id: None,
        destination_id: input.destination_id,
        event_types: Vec::new(),
        filter: None,
        retry_policy: None,
        timeout_seconds: None,
        signing: None,
        created_at: now,
        updated_at: now,
        version: 0,
    };
    input.write(checked, &mut route);
    let created = app.store.create_route(&route).await;
    let written = app.config_written(ctx.account_id(), &[route.destination_id], created).await;
    let route = written.map_err(refuse_reference)?;
    Ok(Versioned::created(route.version, RouteView::from(&route)))
}

/// List routes, newest first. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/routes", operation_id = "list_routes", tag = "routes",
    params(PageParams),
    responses((status = 200, description = "A page.", body = ListBody<RouteView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: AccountCtx,
    list: List<NoFilter>,
) -> Result<Json<ListBody<RouteView>>, ApiError> {
    ctx.require(Scope::DestinationsRead)?;
    let account = ctx.account_id();
    let mut routes = app.store.routes(account, list.peek(&app, account)?).await?;
    let next = list.cut(&mut routes, |route| route.id);
    Ok(Json(list.body(&app, account, routes.iter().map(RouteView::from).collect(), next)))
}

/// Read a route. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/routes/{id}", operation_id = "get_route", tag = "routes",
    params(("id" = schema::RouteId, Path)),
    responses((status = 200, description = "The route.", body = RouteView), problems::Reading),
)]
pub(crate) async fn get(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<RouteId>,
) -> Result<Versioned<RouteView>, ApiError> {
    ctx.require(Scope::DestinationsRead)?;
    let route = app.store.route(ctx.account_id(), id).await?;
    Ok(Versioned::ok(route.version, RouteView::from(&route)))
}

/// Change a route. It touches later events only. Scope `destinations:write`.
#[utoipa::path(
    patch, path = "/v1/routes/{id}", operation_id = "update_route", tag = "routes",
    params(("id" = schema::RouteId, Path), IfMatchParam), request_body = RoutePatch,
    responses((status = 200, description = "As it is now.", body = RouteView), problems::Changing),
)]
pub(crate) async fn update(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<RouteId>,
    if_match: IfMatch,
    Body(patch): Body<Value>,
) -> Result<Versioned<RouteView>, ApiError> {
    ctx.require(Scope::DestinationsWrite)?;
    let account = ctx.account_id();
    let retention_days = retention_days(&app, account).await?;
    let (app, patch, if_match) = (&app, &patch, &if_match);
    let route = until_unchanged(&*app.dice, if_match, || async move {
        let mut route = app.store.route(account, id).await?;
        if_match.check(route.version)?;
        let mut touched = vec![route.destination_id];
        let input = RouteInput::read(RouteInput::of(&route), patch.clone())?;
        let checked = input.check(Some(&route), retention_days)?;
        input.write(checked, &mut route);
        route.updated_at = app.now();
        touched.push(route.destination_id);
        touched.dedup();
        let updated = app.store.update_route(&route).await;
        app.config_written(account, &touched, updated).await.map_err(refuse_reference)
    })
    .await?;
    Ok(Versioned::ok(route.version, RouteView::from(&route)))
}

/// Remove a route. Its deliveries go on. Scope `destinations:write`.
#[utoipa::path(
    delete, path = "/v1/routes/{id}", operation_id = "delete_route", tag = "routes",
    params(("id" = schema::RouteId, Path), IfMatchParam),
    responses((status = 204, description = "Removed."), problems::Switching),
)]
pub(crate) async fn delete(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<RouteId>,
    if_match: IfMatch,
) -> Result<StatusCode, ApiError> {
    ctx.require(Scope::DestinationsWrite)?;
    let route = app.store.route(ctx.account_id(), id).await?;
    if_match.check(route.version)?;
    let deleted = app.store.delete_route(ctx.account_id(), id, app.now()).await;
    app.config_written(ctx.account_id(), &[route.destination_id], deleted).await?;
    Ok(StatusCode::NO_CONTENT)
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
