//! What the routes say to an event that is looked at.

use crate::{app::App, error::ApiError, routes};
use contract::RoutePreviewView;
use domain::{
    id::{AccountId, EventId},
    limits,
    route::Candidate,
};

/// As `POST /v1/routes/preview` says it, by the routes as this process knows them. None where it is too much for a look: many
/// routes, or a large payload.
pub async fn matching(
    app: &App,
    account: AccountId,
    id: EventId,
) -> Result<Option<Vec<RoutePreviewView>>, ApiError> {
    let snapshot = app.admission.snapshots().get(account).await?;
    let routes = snapshot.table.iter().take(limits::MATCHED_AT_SIGHT + 1).count();
    if routes > limits::MATCHED_AT_SIGHT {
        return Ok(None);
    }
    let payload = app.store.payload_size(account, id).await?.accepted;
    if payload > limits::PAYLOAD_SHOWN_BYTES {
        return Ok(None);
    }
    let event = app.open_event(app.store.event_payload(account, id).await?).await?;
    let judging = move || {
        let candidate = Candidate::of(&event, &snapshot.table);
        routes::preview::judge(&snapshot.table, &candidate)
    };
    Ok(Some(app.admission.matcher().run(account, routes, payload, judging).await?))
}
