//! Attempts as they are shown: with the headers every request of their event has.

use crate::{
    app::App,
    error::ApiError,
    views::{self, EveryRequest},
};
use contract::AttemptView;
use domain::{
    id::{AccountId, EventId},
    limits,
};
use futures_util::{StreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use store::{AttemptRecord, DeliveryRecord, StoreError};

/// Shows attempts of different events, each event read once.
pub(super) async fn show(
    app: &App,
    account: AccountId,
    attempts: &[AttemptRecord],
) -> Result<Vec<AttemptView>, ApiError> {
    let ids: BTreeSet<EventId> = attempts.iter().map(|attempt| attempt.event_id).collect();
    let read = |id| async move { Ok::<_, ApiError>((id, of_event(app, account, id).await?)) };
    let events: Vec<_> =
        stream::iter(ids.into_iter().map(read)).buffered(limits::READS_AT_ONCE).collect().await;
    let events: BTreeMap<_, _> = events.into_iter().collect::<Result<_, _>>()?;
    Ok(attempts.iter().map(|attempt| views::attempt(attempt, &events[&attempt.event_id])).collect())
}

/// What every request of one delivery carries.
pub(super) async fn every_request(
    app: &App,
    account: AccountId,
    delivery: &DeliveryRecord,
) -> Result<EveryRequest, ApiError> {
    let every = of_event(app, account, delivery.event_id).await?;
    Ok(EveryRequest { replay_id: delivery.replay_id, ..every })
}

/// An event that is gone costs two headers, not the answer.
async fn of_event(app: &App, account: AccountId, id: EventId) -> Result<EveryRequest, ApiError> {
    match app.store.event_alone(account, id).await {
        Ok(event) => Ok(EveryRequest::of(&event)),
        Err(StoreError::NotFound { .. }) => Ok(EveryRequest::default()),
        Err(error) => Err(error.into()),
    }
}
