//! Deliveries: what became of every promise, what it waits for, the two things a person can ask of one that has not
//! ended, and the one of one that has.

pub(crate) mod filter;

use crate::{
    app::App,
    auth::AccountCtx,
    error::{ApiError, Code},
    page::List,
    page_params::PageParams,
    path::Id,
    problems, read, replays,
};
use axum::{extract::State, response::Response};
use contract::{DeliveryDetailView, DeliveryQuery, DeliveryView, ListBody, schema};
use domain::{
    account::Scope,
    delivery::Position,
    id::{AccountId, AttemptId, DeliveryId},
};
use http::{HeaderMap, StatusCode};
use store::{DeliveryRecord, DeliveryState, NewDelivery, Replayed, StoreError};

/// List deliveries, newest first. Different filters narrow, a repeated one widens. Scope `deliveries:read`.
#[utoipa::path(
    get, path = "/v1/deliveries", operation_id = "list_deliveries", tag = "deliveries",
    params(PageParams, DeliveryQuery),
    responses((status = 200, description = "A page.", body = ListBody<DeliveryView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: AccountCtx,
    list: List<DeliveryQuery>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DeliveriesRead)?;
    let room = app.answers.page(account).await?;
    let found = read::deliveries(&app, account, &list.filter, list.page(&app, account)?).await?;
    room.json(&list.body(&app, account, found))
}

/// Read a delivery with its attempts. Scope `deliveries:read`.
#[utoipa::path(
    get, path = "/v1/deliveries/{id}", operation_id = "get_delivery", tag = "deliveries",
    params(("id" = schema::DeliveryId, Path)),
    responses((status = 200, description = "The delivery.", body = DeliveryDetailView), problems::Reading),
)]
pub(crate) async fn get(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DeliveryId>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DeliveriesRead)?;
    let room = app.answers.page(account).await?;
    room.json(&read::delivery(&app, account, id).await?)
}

/// Try a delivery now instead of at its scheduled time. Slots, holds and order still count. Scope `deliveries:retry`.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/retry", operation_id = "retry_delivery", tag = "deliveries",
    params(("id" = schema::DeliveryId, Path)),
    responses((status = 202, description = "It is due now.", body = DeliveryDetailView), problems::Moving),
)]
pub(crate) async fn retry(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DeliveryId>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DeliveriesRetry)?;
    let room = app.answers.page(account).await?;
    let entry = ctx.entry(&app, id, None);
    let Some(delivery) = app.store.retry_now(account, id, app.now(), &entry).await? else {
        let instead =
            "the delivery has ended and stays as it is: `POST /v1/deliveries/{id}/replay` delivers it again";
        return Err(not_waiting(&app, account, id, instead).await);
    };
    app.announce.look(&[(delivery.destination_id, delivery.id, delivery.position)]).await;
    room.json_as(StatusCode::ACCEPTED, &read::delivery(&app, account, id).await?)
}

/// End a delivery undelivered. A request that is already open is not taken back. Scope `deliveries:retry`.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/cancel", operation_id = "cancel_delivery", tag = "deliveries",
    params(("id" = schema::DeliveryId, Path)),
    responses((status = 200, description = "Cancelled.", body = DeliveryDetailView), problems::Moving),
)]
pub(crate) async fn cancel(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DeliveryId>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DeliveriesRetry)?;
    let room = app.answers.page(account).await?;
    let now = app.now();
    let fact = AttemptId::at(now, app.dice.bits());
    let entry = ctx.entry(&app, id, None);
    let Some(delivery) = app.store.cancel(account, id, fact, now, &entry).await? else {
        let detail = "the delivery has ended; what has ended stays as it is";
        return Err(not_waiting(&app, account, id, detail).await);
    };
    // An owner reads a delivery again before it starts one it has not seen for a second, and its settlement does not move
    // a row that is gone. But those behind it may be waiting for its end.
    if delivery.position.track != Position::UNORDERED {
        app.announce.look(&[(delivery.destination_id, delivery.id, delivery.position)]).await;
    }
    room.json(&read::delivery(&app, account, id).await?)
}

/// Deliver again what has ended: a new delivery of the same event to the same destination. Scope `deliveries:retry`.
#[utoipa::path(
    post, path = "/v1/deliveries/{id}/replay", operation_id = "replay_delivery", tag = "deliveries",
    params(
        ("id" = schema::DeliveryId, Path),
        ("idempotency-key" = Option<schema::IdempotencyKeyHeader>, Header, description = "The same key gives the same new delivery."),
    ),
    responses(
        (status = 202, description = "The new delivery.", body = DeliveryDetailView),
        problems::ReplayingDelivery,
    ),
)]
pub(crate) async fn replay(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DeliveryId>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DeliveriesRetry)?;
    let room = app.answers.page(account).await?;
    let record = match app.store.delivery(account, id).await {
        Err(StoreError::NotFound { .. }) => {
            return Err(replays::absent("delivery", id.made_at(), app.kept_since(account).await?));
        }
        found => found?,
    };
    if matches!(record.state, DeliveryState::Waiting(_)) {
        return Err(ApiError::delivery_waiting("the delivery has not ended; retry it instead"));
    }
    match app.store.event_alone(account, record.event_id).await {
        Err(StoreError::NotFound { .. }) => return Err(gone()),
        found => found?,
    };
    let key = replays::key(&headers, &format!("delivery {id}"))?;
    let replayed = again(&app, &record).await?;
    let place = (replayed.delivery.destination_id, replayed.delivery.id, replayed.delivery.position);
    let made = match replays::one(&app, &ctx, id, replayed, key).await {
        Err(error) if error.code() == Code::NotFound => return Err(gone()),
        made => made?,
    };
    app.announce.look(&[place]).await;
    room.json_as(StatusCode::ACCEPTED, &read::delivery(&app, account, made).await?)
}

fn gone() -> ApiError {
    ApiError::pruned("the event of this delivery is no longer kept")
}

/// A new delivery of what has ended. 404 if its destination is no longer there.
async fn again(app: &App, record: &DeliveryRecord) -> Result<Replayed, ApiError> {
    let destination = app.store.destination(record.account_id, record.destination_id).await?;
    let now = app.now();
    let id = DeliveryId::at(now, app.dice.bits());
    let (destination, key) = ((destination.id, destination.numbering()), record.ordering_key.as_deref());
    let delivery = NewDelivery::new(id, record.route_id, destination, key, now, now);
    Ok(Replayed { origin: record.origin, event_id: record.event_id, delivery })
}

/// 404 if it never was, or is another account's; 409 if it is over.
async fn not_waiting(app: &App, account: AccountId, id: DeliveryId, ended: &'static str) -> ApiError {
    match app.store.delivery(account, id).await {
        Ok(_) => ApiError::delivery_ended(ended),
        Err(error) => error.into(),
    }
}
