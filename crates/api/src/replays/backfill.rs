//! Backfills: what the routes of now would make of stored events. Here it is only counted, or asked of one event; a node makes
//! the deliveries.

use super::input;
use crate::{
    app::App,
    auth::AccountCtx,
    error::{ApiError, Code, FieldError},
};
use domain::{
    event::Event,
    id::{AccountId, DestinationId, EventId},
    limits,
    route::fan_out,
    time::Timestamp,
};
use ingest::Snapshot;
use std::{collections::BTreeMap, sync::Arc};
use store::{BackfillCursor, BackfillSelection, BackfillWalk, Selection, Survey};

/// Counts the deliveries that a backfill which is made at `as_of` will make, as far as a request may take.
pub(super) async fn survey(
    app: &App,
    account: AccountId,
    selection: &BackfillSelection,
    as_of: Timestamp,
) -> Result<Survey, ApiError> {
    // Whatever this process remembers, another may have changed it.
    let snapshot = app.admission.snapshots().newer_than(account, i64::MAX).await?;
    let mut walk = BackfillWalk {
        account_id: account,
        selection: selection.clone(),
        cursor: None,
        as_of,
        limit: limits::BACKFILL_EVENTS,
        payloads: false,
    };
    let mut counts = BTreeMap::<DestinationId, u64>::new();
    let (mut events, mut looked_at, mut exact) = (0, 0, true);
    loop {
        let found = app.store.backfill_events(&walk).await?;
        events += found.events.len();
        let mut pairs = Vec::new();
        for found in found.events.into_iter().filter(|found| !found.expanding) {
            let id = found.event.id;
            let reached = destinations(app, &snapshot, found.event).await?;
            let wanted = |to: &DestinationId| {
                selection.destination_ids.is_empty() || selection.destination_ids.contains(to)
            };
            pairs.extend(reached.into_iter().filter(wanted).map(|to| (id, to)));
            if looked_at + pairs.len() > limits::BACKFILL_SURVEY_DELIVERIES {
                break;
            }
        }
        looked_at += pairs.len();
        let had = app.store.had(&pairs).await?;
        for ((_, to), _) in pairs.iter().zip(had).filter(|(_, had)| !had) {
            *counts.entry(*to).or_default() += 1;
        }
        let Some(next) = found.next else { break };
        if events >= limits::BACKFILL_SURVEY_EVENTS || looked_at > limits::BACKFILL_SURVEY_DELIVERIES {
            exact = false;
            break;
        }
        walk.cursor = Some(BackfillCursor { event_id: next, destination_id: None });
    }
    exact &= looked_at <= limits::BACKFILL_SURVEY_DELIVERIES;
    let by_destination: Vec<_> = counts.into_iter().collect();
    let matched = by_destination.iter().map(|(_, count)| count).sum();
    Ok(Survey { matched, exact, by_destination, unknown: Vec::new() })
}

/// Where the routes of now lead an event. Its payload is read if one of them looks at it.
async fn destinations(
    app: &App,
    snapshot: &Arc<Snapshot>,
    mut event: Arc<Event>,
) -> Result<Vec<DestinationId>, ApiError> {
    let (account, source) = (event.account_id, event.source_id);
    if snapshot.table.of_source(source).any(|route| route.filter.is_some()) {
        let stored = app.store.event_payload(account, event.id).await?;
        event = match app.open_event(stored).await {
            // As the backfill itself does: what does not open is matched as far as it can be seen.
            Err(error) if matches!(error.code(), Code::PayloadErased | Code::Unreadable) => event,
            opened => opened?,
        };
    }
    let (routes, payload, snapshot) =
        (snapshot.table.count(source), event.payload.len(), Arc::clone(snapshot));
    let matching = move || -> Vec<_> {
        fan_out(&event, &snapshot.table).into_iter().map(|route| route.destination_id).collect()
    };
    Ok(app.admission.matcher().run(account, routes, payload, matching).await?)
}

/// What a replay of one event to these destinations is: None if they all had it; a backfill if none of them had, and a route
/// leads to each. 422 otherwise, with the places of those that stand in the way.
pub(crate) async fn of_event(
    app: &App,
    ctx: &AccountCtx,
    id: EventId,
    to: &[DestinationId],
) -> Result<Option<Selection>, ApiError> {
    let pairs: Vec<_> = to.iter().map(|destination| (id, *destination)).collect();
    let had = app.store.had(&pairs).await?;
    if had.iter().all(|had| *had) {
        return Ok(None);
    }
    let refuse = |stands: Vec<bool>, code: &'static str, detail: &'static str| {
        let places = stands.iter().enumerate().filter(|(_, stands)| **stands);
        let errors =
            places.map(|(index, _)| FieldError::new(format!("/destination_ids/{index}"), code, detail));
        Err(ApiError::invalid(errors.collect()))
    };
    if had.contains(&true) {
        let detail = "had the event, and others that are named never had: ask for them apart";
        return refuse(had, "not_allowed", detail);
    }
    let snapshot = app.admission.snapshots().newer_than(ctx.account_id(), i64::MAX).await?;
    let event = app.store.event_alone(ctx.account_id(), id).await?;
    let reached = destinations(app, &snapshot, Arc::new(event)).await?;
    let unreached: Vec<bool> = to.iter().map(|destination| !reached.contains(destination)).collect();
    if unreached.contains(&true) {
        return refuse(unreached, "no_route", "never had the event, and no route leads it there now");
    }
    let destination_ids = input::sorted(to.to_vec());
    Ok(Some(Selection::Events(BackfillSelection {
        event_id: Some(id),
        destination_ids,
        ..BackfillSelection::default()
    })))
}
