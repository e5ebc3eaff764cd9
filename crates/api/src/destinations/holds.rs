//! The history of a destination's holds: why it waited, since when and until when.

use crate::{
    app::App,
    auth::AccountCtx,
    error::ApiError,
    page::{List, NoFilter},
    page_params::PageParams,
    path::Id,
    problems, views,
};
use axum::{Json, extract::State};
use contract::{HoldEntryView, ListBody, schema};
use domain::{
    account::Scope,
    destination::Destination,
    gate::{HoldEntry, HoldReason},
    id::DestinationId,
    time::Timestamp,
};
use store::Page;

/// List a destination's holds, the newest first; one that goes on has no `ended_at`. Scope `destinations:read`.
#[utoipa::path(
    get, path = "/v1/destinations/{id}/holds", operation_id = "list_destination_holds", tag = "destinations",
    params(("id" = schema::DestinationId, Path), PageParams),
    responses((status = 200, description = "A page.", body = ListBody<HoldEntryView>), problems::ListingOf),
)]
pub(crate) async fn list(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    list: List<NoFilter>,
) -> Result<Json<ListBody<HoldEntryView>>, ApiError> {
    ctx.require(Scope::DestinationsRead)?;
    let account = ctx.account_id();
    let destination = app.store.destination(account, id).await?;
    let Page { before, limit } = list.peek::<(Timestamp, HoldReason)>(&app, account)?;
    let mut holds = app.store.holds(id, before, limit).await?;
    // What a person has switched off is written down when it ends; until then the destination itself says so.
    let key = |hold: &HoldEntry| (hold.since, hold.reason.as_str());
    let earlier =
        |hold: &HoldEntry| before.is_none_or(|(since, reason)| key(hold) < (since, reason.as_str()));
    holds.extend(switched(&destination, None).into_iter().filter(earlier));
    holds.sort_by_key(|hold| std::cmp::Reverse(key(hold)));
    let next = list.cut(&mut holds, |hold| (hold.since, hold.reason));
    Ok(Json(list.body(&app, account, holds.iter().map(views::hold_entry).collect(), next)))
}

/// Writes down what a change of the destination has ended. Not worth failing for: the change has been made.
pub(super) async fn note_ended(app: &App, before: &Destination, after: &Destination) {
    let go_on = switched(after, None);
    let mut ended = switched(before, Some(app.now()));
    ended.retain(|hold| !go_on.iter().any(|other| (other.reason, other.since) == (hold.reason, hold.since)));
    if !ended.is_empty()
        && let Err(error) = app.store.note_holds(before.id, &ended).await
    {
        tracing::warn!(destination_id = %before.id, %error, "the end of a hold was not written down");
    }
}

fn switched(destination: &Destination, ended_at: Option<Timestamp>) -> Vec<HoldEntry> {
    destination.holds().iter().map(|hold| HoldEntry::of(hold, ended_at)).collect()
}
