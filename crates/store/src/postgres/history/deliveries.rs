//! Deliveries, waiting and ended, in one list.

use super::{
    super::{
        pool::Connection,
        rows::{self, Cells, Unreadable},
        statement::{Statement, params, sql},
    },
    bounds, expressions, listed, page_ends, some, uuids,
};
use crate::{
    DeliveryFilter, DeliveryRecord, DeliveryState, Listed, Page, Resolution, ResolvedBy, StoreError,
};
use domain::{
    delivery::{Ending, Status},
    id::{AccountId, DeliveryId},
    time::Timestamp,
};
use std::sync::LazyLock;

static DELIVERIES: LazyLock<Statement> = sql!("deliveries" + "deliveries_page");
static DELIVERIES_OF_REPLAY: LazyLock<Statement> = sql!("deliveries_of_replay" + "deliveries_page");
static DELIVERY: LazyLock<Statement> = sql!("delivery");

pub(super) async fn list(
    connection: &Connection,
    account: AccountId,
    filter: &DeliveryFilter,
    page: Page<DeliveryId>,
) -> Result<Listed<DeliveryRecord, DeliveryId>, StoreError> {
    let until = filter.until.map_or(DeliveryId::MAX, |until| DeliveryId::at(until, 0));
    let below = page.before.unwrap_or(DeliveryId::MAX).min(until).uuid();
    let from = filter.since.map_or(DeliveryId::MIN, |since| DeliveryId::at(since, 0)).uuid();
    let StatusFilter { untried, tried, endings, ended } = StatusFilter::of(filter);
    let destination = match filter.destination_ids.as_slice() {
        [one] => Some(one.uuid()),
        _ => None,
    };
    // Dead letters alone have an index: all that is looked at is wanted.
    let filters = (!filter.statuses.is_empty() && !dead_letters_alone(filter))
        || !filter.reasons.is_empty()
        || !filter.destination_ids.is_empty()
        || !filter.route_ids.is_empty()
        || !filter.source_ids.is_empty()
        || !filter.types.is_empty()
        || !filter.http_statuses.is_empty()
        || !filter.replay_ids.is_empty()
        || filter.resolved.is_some();
    let (look_at, limit) = bounds(filters, page.limit);
    let http_statuses: Vec<i16> = filter.http_statuses.iter().map(|status| *status as i16).collect();
    let params = params![
        account_id: account.uuid() => UUID, below_delivery_id: below => UUID, from_delivery_id: from => UUID,
        look_at: look_at => INT8, limit: limit => INT8, waiting: untried || tried => BOOL, ended: ended => BOOL,
        destination_id: destination => UUID,
        event_ids: uuids(&filter.event_ids, |id| id.uuid()) => UUID_ARRAY,
        untried: untried => BOOL, tried: tried => BOOL, endings: endings => TEXT_ARRAY,
        reasons: some(&filter.reasons) => TEXT_ARRAY,
        destination_ids: uuids(&filter.destination_ids, |id| id.uuid()) => UUID_ARRAY,
        route_ids: uuids(&filter.route_ids, |id| id.uuid()) => UUID_ARRAY,
        source_ids: uuids(&filter.source_ids, |id| id.uuid()) => UUID_ARRAY,
        types: expressions(&filter.types) => TEXT_ARRAY, http_statuses: some(&http_statuses) => INT2_ARRAY,
        replay_ids: uuids(&filter.replay_ids, |id| id.uuid()) => UUID_ARRAY,
        dead_letters_alone: dead_letters_alone(filter) => BOOL, resolved: filter.resolved => BOOL,
    ];
    let of_replay = filter.event_ids.is_empty() && filter.replay_ids.len() == 1;
    let read = match of_replay {
        false => connection.read(&DELIVERIES, params).await?,
        true => {
            // It is narrowed by the replay, and by nothing else.
            let params = params.without(&["destination_id", "event_ids", "dead_letters_alone"]);
            connection.read(&DELIVERIES_OF_REPLAY, params).await?
        }
    };
    let found = read.joined_page::<DeliveryId, _>("delivery", "delivery_id", page.limit, record)?;
    Ok(listed(found, read.one(page_ends)?))
}

pub(super) async fn get(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
) -> Result<DeliveryRecord, StoreError> {
    let params = params![account_id: account.uuid() => UUID, delivery_id: id.uuid() => UUID];
    let found = connection.read(&DELIVERY, params).await?.first(record)?;
    found.ok_or(StoreError::NotFound { what: "delivery" })
}

/// Which deliveries are wanted, by their status.
struct StatusFilter {
    untried: bool,
    tried: bool,
    /// None: any.
    endings: Option<Vec<&'static str>>,
    ended: bool,
}

impl StatusFilter {
    fn of(filter: &DeliveryFilter) -> Self {
        // Only what has ended has a reason.
        let may_wait = filter.reasons.is_empty();
        if filter.statuses.is_empty() {
            return Self { untried: may_wait, tried: may_wait, endings: None, ended: true };
        }
        let has = |status| filter.statuses.contains(&status);
        let endings: Vec<_> =
            filter.statuses.iter().filter(|status| status.ended()).map(|status| status.as_str()).collect();
        Self {
            untried: may_wait && (has(Status::Queued) || has(Status::Delivering)),
            tried: may_wait && (has(Status::RetryScheduled) || has(Status::Delivering)),
            ended: !endings.is_empty(),
            endings: Some(endings),
        }
    }
}

/// Whether nothing but dead letters is wanted: they have an index.
pub(in super::super) fn dead_letters_alone(filter: &DeliveryFilter) -> bool {
    !filter.statuses.is_empty() && filter.statuses.iter().all(|status| *status == Status::DeadLetter)
}

/// None: it is not settled.
fn resolution(cells: &mut Cells<'_, '_>) -> Result<Option<Resolution>, Unreadable> {
    let at: Option<Timestamp> = cells.get("resolved_at")?;
    let by =
        ResolvedBy::read(cells.get("delivered_by")?, cells.known_word("dismissed_by")?, cells.get("note")?);
    Ok(at.zip(by).map(|(at, by)| Resolution { at, by }))
}

/// What waits has a place and times, what has ended has an ending.
fn record(cells: &mut Cells<'_, '_>) -> Result<DeliveryRecord, Unreadable> {
    let id: DeliveryId = cells.get("delivery_id")?;
    let (created_at, state) = match cells.get("ending")? {
        None => {
            let delivery = rows::waiting(cells)?;
            (delivery.created_at, DeliveryState::Waiting(Box::new(delivery)))
        }
        Some(word) => {
            let ending = Ending::read(word, cells.get("reason")?);
            let ending = ending.ok_or_else(|| cells.unknown_word("ending", word))?;
            (id.made_at(), DeliveryState::Ended { ending, at: cells.get("ended_at")? })
        }
    };
    Ok(DeliveryRecord {
        id,
        account_id: cells.get("account_id")?,
        event_id: cells.get("event_id")?,
        event_type: cells.get::<Option<String>>("event_type")?.unwrap_or_default(),
        source_id: cells.get("source_id")?,
        route_id: cells.get("route_id")?,
        destination_id: cells.get("destination_id")?,
        replay_id: cells.get("replay_id")?,
        origin: cells.get("origin")?,
        attempts: cells.get("attempts")?,
        spent: cells.get("spent")?,
        last_outcome: cells.known_word("last_outcome")?,
        last_http_status: cells.get("last_http_status")?,
        ordering_key: cells.get("ordering_key")?,
        sequence: cells.get("sequence")?,
        created_at,
        state,
        resolution: resolution(cells)?,
    })
}
