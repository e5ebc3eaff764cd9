//! Destinations, with what their lanes say and what waits for them; their holds, attempts and secrets.

use super::{Listed, Revision, Wanted, attempts, cut, if_there, search};
use crate::{
    app::App,
    error::ApiError,
    views::{self, EveryRequest, LaneSummary},
};
use contract::{AttemptView, DestinationView, HoldRecordView, SecretView};
use domain::{
    delivery_settings::{DeliverySettings, EffectiveSettings},
    destination::Destination,
    gate::{HoldReason, HoldRecord},
    id::{AccountId, AttemptId, DeliveryId, DestinationId},
    limits,
    time::Timestamp,
};
use store::Page;

pub async fn destination(
    app: &App,
    account: AccountId,
    id: DestinationId,
) -> Result<Revision<DestinationView>, ApiError> {
    show(app, &app.store.destination(account, id).await?).await
}

pub async fn destinations(
    app: &App,
    account: AccountId,
    wanted: &Wanted,
    page: Page<DestinationId>,
) -> Result<Listed<DestinationView, DestinationId>, ApiError> {
    let read = |page| app.store.destinations(account, page);
    let Listed { data, next } = match &wanted.uid {
        _ if wanted.held => held(app, account, wanted, page).await?,
        Some(uid) => {
            let found = match app.store.destination_by_uid(account, uid).await? {
                Some(id) => if_there(app.store.destination(account, id).await)?,
                None => None,
            };
            search::only(found, wanted)
        }
        None if wanted.looks_through() => {
            search::through(page, wanted, |destination| destination.id, read).await?
        }
        None => read(page).await?.into(),
    };
    let ids: Vec<_> = data.iter().map(|destination| destination.id).collect();
    let lanes = lane_summaries(app, &ids).await?;
    let defaults = app.store.account(account).await?.defaults;
    let data = data.iter().zip(&lanes).map(|(destination, lane)| {
        views::destination(destination, &effective(app, destination, &defaults), lane)
    });
    Ok(Listed { data: data.collect(), next })
}

/// Those that are held, among the newest there are.
async fn held(
    app: &App,
    account: AccountId,
    wanted: &Wanted,
    page: Page<DestinationId>,
) -> Result<Listed<Destination, DestinationId>, ApiError> {
    let ids = app.store.held_destinations(account, limits::HELD_LOOKED_AT).await?;
    let before = |id: &DestinationId| page.before.is_none_or(|before| *id < before);
    let ids: Vec<_> = ids.into_iter().filter(before).collect();
    let looked_at = cut(ids, limits::PAGE_MAX, |id| *id);
    let records = app.store.destination_records(&looked_at.data).await?;
    // One whose document does not read is not listed either where all are.
    let there = records.into_iter().flatten().filter_map(|record| record.destination.ok());
    let rows: Vec<_> = there.filter(|it| it.switch.deleted_at.is_none() && wanted.has(it)).collect();
    let found = cut(rows, page.limit, |destination| destination.id);
    Ok(Listed { data: found.data, next: found.next.or(looked_at.next) })
}

pub(crate) async fn show(
    app: &App,
    destination: &Destination,
) -> Result<Revision<DestinationView>, ApiError> {
    let lanes = lane_summaries(app, &[destination.id]).await?;
    let lane = lanes.first().cloned().unwrap_or_default();
    let defaults = app.store.account(destination.account_id).await?.defaults;
    let view = views::destination(destination, &effective(app, destination, &defaults), &lane);
    Ok(Revision { version: destination.version, view })
}

/// What holds for it, its account having these defaults.
pub(crate) fn effective(
    app: &App,
    destination: &Destination,
    defaults: &DeliverySettings,
) -> EffectiveSettings {
    EffectiveSettings::new(&destination.settings, defaults, &app.config.defaults)
}

/// Its attempts, those of the newest delivery first.
pub async fn destination_attempts(
    app: &App,
    account: AccountId,
    id: DestinationId,
    page: Page<(DeliveryId, AttemptId)>,
) -> Result<Listed<AttemptView, (DeliveryId, AttemptId)>, ApiError> {
    app.store.destination(account, id).await?;
    let Listed { mut data, next } = app.store.attempts_of_destination(account, id, page).await?.into();
    app.open_attempts(account, &mut data).await?;
    Ok(Listed { data: attempts::show(app, account, &data).await?, next })
}

/// The same to be drawn: without what every request of their events carried, which would be a read for each of them.
pub async fn destination_timeline(
    app: &App,
    account: AccountId,
    id: DestinationId,
    limit: usize,
) -> Result<Vec<AttemptView>, ApiError> {
    let page = Page { before: None, limit };
    let mut found = app.store.attempts_of_destination(account, id, page).await?;
    app.open_attempts(account, &mut found.rows).await?;
    Ok(found.rows.iter().map(|attempt| views::attempt(attempt, &EveryRequest::default())).collect())
}

/// Its holds, the newest first.
pub async fn destination_holds(
    app: &App,
    account: AccountId,
    id: DestinationId,
    page: Page<(Timestamp, HoldReason)>,
) -> Result<Listed<HoldRecordView, (Timestamp, HoldReason)>, ApiError> {
    let destination = app.store.destination(account, id).await?;
    let Page { before, limit } = page;
    let mut holds = app.store.holds(id, before, limit + 1).await?;
    // What a person has switched off is written down when it ends; until then the destination itself says so.
    let key = |hold: &HoldRecord| (hold.since, hold.reason.as_str());
    let earlier =
        |hold: &HoldRecord| before.is_none_or(|(since, reason)| key(hold) < (since, reason.as_str()));
    holds.extend(switched(&destination, None).into_iter().filter(earlier));
    holds.sort_by_key(|hold| std::cmp::Reverse(key(hold)));
    Ok(cut(holds, limit, |hold| (hold.since, hold.reason)).map(views::hold_record))
}

/// What its switches hold it for, as lines of its history.
pub(crate) fn switched(destination: &Destination, ended_at: Option<Timestamp>) -> Vec<HoldRecord> {
    destination.holds().iter().map(|hold| HoldRecord::of(hold, ended_at)).collect()
}

/// Its signing secret, in the clear.
pub async fn destination_secret(
    app: &App,
    account: AccountId,
    id: DestinationId,
) -> Result<SecretView, ApiError> {
    let destination = app.store.destination(account, id).await?;
    let key = app.data_key_for(account, [&destination.secret.current]).await?;
    let place = Destination::secret_place(id);
    let secret = key.open(&place, &destination.secret.current).map_err(ApiError::from_bug)?;
    let secret = std::str::from_utf8(&secret).map_err(ApiError::from_bug)?.to_owned();
    let now = app.now();
    let previous = destination.secret.previous.map(|previous| previous.until);
    Ok(SecretView { secret, previous_until: previous.filter(|until| *until > now) })
}

/// What waits for these destinations and what their lanes say, in order.
async fn lane_summaries(app: &App, ids: &[DestinationId]) -> Result<Vec<LaneSummary>, ApiError> {
    let backlog = app.store.backlog(ids, limits::QUEUED_EVENTS_EXACT + 1).await?;
    let since = app.now().minus(limits::SUCCESS_RATE_OVER);
    let rates = app.store.success_rates(ids, since, limits::SUCCESS_RATE_ATTEMPTS).await?;
    let views = app.lanes.views(ids).await;
    let states = backlog.into_iter().zip(rates).zip(views.into_iter().chain(std::iter::repeat(None)));
    let state = |(((rows, oldest_queued_at), rate), view)| LaneSummary { view, rows, oldest_queued_at, rate };
    Ok(states.map(state).collect())
}
