//! Statistics of an account, of its fan-outs, and of a destination.

use crate::{app::App, auth::AccountCtx, error::ApiError, path::Id, problems, query::Query, read};
use axum::{extract::State, response::Response};
use contract::{
    DestinationStatsView, FanoutStatsView, SeriesQuery, SeriesView, StatsQuery, StatsView, schema,
};
use domain::{account::Scope, id::DestinationId};

/// Read what happened in the account: totals, by status, and day by day. Scope `events:read`.
#[utoipa::path(
    get, path = "/v1/stats", operation_id = "get_stats", tag = "stats",
    params(StatsQuery),
    responses((status = 200, description = "Statistics.", body = StatsView), problems::AskingAbout),
)]
pub(crate) async fn account(
    State(app): State<App>,
    ctx: AccountCtx,
    Query(query): Query<StatsQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::EventsRead)?;
    let room = app.answers.page(account).await?;
    room.json(&read::stats(&app, account, &query).await?)
}

/// Read how fan-outs went: how many events were delivered to all who wanted them, and how long that took. An event is
/// counted when it was received, and looked at again after an hour, a day and three. Scope `events:read`.
#[utoipa::path(
    get, path = "/v1/stats/fanout", operation_id = "get_fanout_stats", tag = "stats",
    params(StatsQuery),
    responses((status = 200, description = "Statistics.", body = FanoutStatsView), problems::AskingAbout),
)]
pub(crate) async fn fanout(
    State(app): State<App>,
    ctx: AccountCtx,
    Query(query): Query<StatsQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::EventsRead)?;
    let room = app.answers.page(account).await?;
    room.json(&read::fanout_stats(&app, account, &query).await?)
}

/// Read how a destination does: attempts, what they met, how long they took. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/destinations/{id}/stats", operation_id = "get_destination_stats", tag = "destinations",
    params(("id" = schema::DestinationId, Path), StatsQuery),
    responses((status = 200, description = "Statistics.", body = DestinationStatsView), problems::AskingAboutOne),
)]
pub(crate) async fn destination(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    Query(query): Query<StatsQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DestinationsRead)?;
    let room = app.answers.page(account).await?;
    room.json(&read::destination_stats(&app, account, id, &query).await?)
}

/// Read what happened in the account minute by minute, or by the hour or the day: events, attempts by outcome, how deliveries
/// ended and how long they took, backlog and slots. Scope `events:read`.
#[utoipa::path(
    get, path = "/v1/stats/series", operation_id = "get_stats_series", tag = "stats",
    params(SeriesQuery),
    responses((status = 200, description = "A series.", body = SeriesView), problems::AskingAbout),
)]
pub(crate) async fn series(
    State(app): State<App>,
    ctx: AccountCtx,
    Query(query): Query<SeriesQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::EventsRead)?;
    let room = app.answers.page(account).await?;
    room.json(&read::series(&app, account, &query).await?)
}

/// Read what happened at a destination minute by minute, or by the hour or the day: attempts by outcome, how deliveries ended
/// and how long they took, backlog and slots. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/destinations/{id}/stats/series", operation_id = "get_destination_stats_series", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), SeriesQuery),
    responses((status = 200, description = "A series.", body = SeriesView), problems::AskingAboutOne),
)]
pub(crate) async fn destination_series(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    Query(query): Query<SeriesQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DestinationsRead)?;
    let room = app.answers.page(account).await?;
    room.json(&read::destination_series(&app, account, id, &query).await?)
}
