//! The history of a destination's holds: why it waited, since when and until when.

use crate::{
    app::App,
    auth::AccountCtx,
    error::ApiError,
    page::{List, NoFilter},
    page_params::PageParams,
    path::Id,
    problems, read,
};
use axum::{extract::State, response::Response};
use contract::{HoldRecordView, ListBody, schema};
use domain::{account::Scope, destination::Destination, id::DestinationId};

/// List a destination's holds, the newest first; one that goes on has no `ended_at`. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/destinations/{id}/holds", operation_id = "list_destination_holds", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), PageParams),
    responses((status = 200, description = "A page.", body = ListBody<HoldRecordView>), problems::ListingOf),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    list: List<NoFilter>,
) -> Result<Response, ApiError> {
    let account = ctx.require(Scope::DestinationsRead)?;
    let room = app.answers.page(account).await?;
    let found = read::destination_holds(&app, account, id, list.page(&app, account)?).await?;
    room.json(&list.body(&app, account, found))
}

/// Writes down what a change of the destination has ended. Not worth failing for: the change has been made.
pub(super) async fn note_ended(app: &App, before: &Destination, after: &Destination) {
    let go_on = read::switched(after, None);
    let mut ended = read::switched(before, Some(app.now()));
    ended.retain(|hold| !go_on.iter().any(|other| (other.reason, other.since) == (hold.reason, hold.since)));
    if !ended.is_empty()
        && let Err(error) = app.store.note_holds(before.id, &ended).await
    {
        tracing::warn!(destination_id = %before.id, %error, "the end of a hold was not written down");
    }
}
