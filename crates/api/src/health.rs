//! Probes: `/healthz` while the process answers, `/readyz` while it should be sent requests.

use crate::{app::App, error::ApiError, problems, query::Parameters};
use axum::{
    Json,
    extract::{RawQuery, State},
    response::{IntoResponse, Response},
};
use domain::limits;
use http::StatusCode;
use serde::Serialize;
use store::StoreError;
use tokio::time::timeout;
use utoipa::ToSchema;

#[derive(Serialize, ToSchema)]
pub(crate) struct Alive {
    status: &'static str,
    version: &'static str,
}

/// What this node can do, and what keeps it from more.
#[derive(Serialize, ToSchema)]
pub(crate) struct Readiness {
    ready: bool,
    /// `ok`, `unavailable` (it will be back) or `failed` (it needs a person).
    store: &'static str,
    /// It is stopping; with `shutdown.delay` it still takes requests for so long.
    draining: bool,
    /// Loops of this node that have died and do not run again yet: see the table in the documentation of operations.
    loops_down: Vec<&'static str>,
    /// What this node does: `all`, `api` or `worker`.
    role: &'static str,
    version: &'static str,
    /// Settings of the store under which acknowledged events can be lost: empty, unless the node was started with
    /// `--accept-data-loss`.
    unsafe_settings: Vec<String>,
    /// What is wrong with the clock of this machine; null where nothing is, and where a database server's clock is gone by.
    #[schema(required)]
    clock: Option<String>,
}

/// The process answers.
#[utoipa::path(get, path = "/healthz", tag = "operations", security(()),
    responses((status = 200, description = "Alive", body = Alive), problems::Probing))]
pub(crate) async fn healthz(State(app): State<App>) -> Json<Alive> {
    Json(Alive { status: "ok", version: app.config.version })
}

/// What a node is asked to be ready for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Whatever its role is.
    Role,
    /// Events and the API, as a balancer sends them.
    Ingest,
}

impl Purpose {
    /// What else a balancer puts into the URL is not ours to judge.
    fn asked(query: Option<&str>) -> Result<Self, ApiError> {
        match Parameters::of(query).take("for")?.as_deref() {
            None => Ok(Self::Role),
            Some("ingest") => Ok(Self::Ingest),
            Some(_) => Err(ApiError::invalid_parameter("`for` can be `ingest`, or be left out")),
        }
    }
}

/// The store answers (it is migrated when it opens), every loop runs, the node is not stopping, and the clock is believed;
/// with `for=ingest`, the node's role also lets it take events and answer the API.
#[utoipa::path(get, path = "/readyz", tag = "operations", security(()),
    params(("for" = Option<contract::schema::ReadinessFor>, Query,
            description = "`ingest`: what a balancer asks that sends events here")),
    responses((status = 200, description = "Ready", body = Readiness),
              (status = 503, description = "Not ready", body = Readiness),
              problems::AskingReadiness))]
pub(crate) async fn readyz(State(app): State<App>, RawQuery(query): RawQuery) -> Result<Response, ApiError> {
    let purpose = Purpose::asked(query.as_deref())?;
    let store = match timeout(limits::READY_PATIENCE, app.store.health()).await {
        _ if app.health.has_failed() => "failed",
        Ok(Ok(())) => "ok",
        Ok(Err(StoreError::Failed(_))) => "failed",
        _ => "unavailable",
    };
    let draining = app.health.is_retiring();
    let loops_down = app.supervisor.down();
    let clock = app.clock.trouble();
    let believed = clock.is_none_or(|trouble| !trouble.keeps_from_serving());
    let has_role = purpose == Purpose::Role || app.config.role.listens();
    let ready = has_role && store == "ok" && !draining && loops_down.is_empty() && believed;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let answer = (
        status,
        Json(Readiness {
            ready,
            store,
            draining,
            loops_down,
            role: app.config.role.as_str(),
            version: app.config.version,
            unsafe_settings: app.config.unsafe_settings.clone(),
            clock: clock.map(|trouble| trouble.to_string()),
        }),
    );
    Ok(answer.into_response())
}
