//! Deliveries, waiting and ended, in one list.

use super::{
    super::{
        pool::Connection,
        rows::row,
        statement::{Statement, params, sql},
    },
    bounds, expressions, listed, some, unknown_word, uuids,
};
use crate::{DeliveryFilter, DeliveryRecord, DeliveryState, Listed, Page, StoreError};
use domain::{
    delivery::{Delivery, Ending, Position, Status},
    id::{AccountId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
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
        || !filter.replay_ids.is_empty();
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
        dead_letters_alone: dead_letters_alone(filter) => BOOL,
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
    let PageRow { last_id, looked_at_id } = read.one()?;
    let found = read.joined("delivery_id")?.into_iter().map(DeliveryRow::record);
    let found = found.collect::<Result<_, _>>()?;
    Ok(listed(found, |record: &DeliveryRecord| record.id, page.limit, last_id, looked_at_id))
}

pub(super) async fn get(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
) -> Result<DeliveryRecord, StoreError> {
    let params = params![account_id: account.uuid() => UUID, delivery_id: id.uuid() => UUID];
    let rows = connection.read(&DELIVERY, params).await?;
    let found: Option<DeliveryRow<'_>> = rows.first()?;
    found.ok_or(StoreError::NotFound { what: "delivery" })?.record()
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

row! {
    struct PageRow {
        /// The last there was to look at.
        last_id: Option<DeliveryId>,
        /// The last that was looked at.
        looked_at_id: Option<DeliveryId>,
    }
}

row! {
    /// What waits has a place and times, what has ended has an ending.
    struct DeliveryRow<'r> {
        delivery_id: DeliveryId,
        account_id: AccountId,
        event_id: EventId,
        destination_id: DestinationId,
        route_id: RouteId,
        replay_id: Option<ReplayId>,
        origin: DeliveryId,
        track: Option<i64>,
        rank: Option<i64>,
        due_at: Option<Timestamp>,
        attempts: u32,
        spent: u32,
        tls_errors: Option<u32>,
        last_outcome: Option<&'r str>,
        last_http_status: Option<u16>,
        created_at: Option<Timestamp>,
        available_at: Option<Timestamp>,
        payload_bytes: Option<u32>,
        sequence: Option<i64>,
        ending: Option<&'r str>,
        reason: Option<&'r str>,
        ended_at: Option<Timestamp>,
        event_type: Option<String>,
        source_id: Option<SourceId>,
        ordering_key: Option<String>,
    }
}

impl DeliveryRow<'_> {
    fn record(self) -> Result<DeliveryRecord, StoreError> {
        let (created_at, state) = match self.ending {
            None => {
                let delivery = self.delivery().ok_or_else(|| half_read(self.delivery_id))?;
                (delivery.created_at, DeliveryState::Waiting(Box::new(delivery)))
            }
            Some(status) => {
                let ending =
                    Ending::read(status, self.reason).ok_or_else(|| unknown_word("ending", status))?;
                let at = self.ended_at.ok_or_else(|| half_read(self.delivery_id))?;
                (self.delivery_id.made_at(), DeliveryState::Ended { ending, at })
            }
        };
        Ok(DeliveryRecord {
            id: self.delivery_id,
            account_id: self.account_id,
            event_id: self.event_id,
            event_type: self.event_type.unwrap_or_default(),
            source_id: self.source_id,
            route_id: self.route_id,
            destination_id: self.destination_id,
            replay_id: self.replay_id,
            origin: self.origin,
            attempts: self.attempts,
            spent: self.spent,
            last_outcome: self.last_outcome.and_then(|word| word.parse().ok()),
            last_http_status: self.last_http_status,
            ordering_key: self.ordering_key,
            sequence: self.sequence,
            created_at,
            state,
        })
    }

    /// None if something of it is missing.
    fn delivery(&self) -> Option<Delivery> {
        Some(Delivery {
            id: self.delivery_id,
            account_id: self.account_id,
            event_id: self.event_id,
            destination_id: self.destination_id,
            route_id: self.route_id,
            replay_id: self.replay_id,
            origin: self.origin,
            position: Position { track: self.track?, rank: self.rank?, delivery_id: self.delivery_id },
            due_at: self.due_at?,
            attempts: self.attempts,
            spent: self.spent,
            tls_errors: self.tls_errors?,
            last_outcome: self.last_outcome.and_then(|word| word.parse().ok()),
            last_http_status: self.last_http_status,
            created_at: self.created_at?,
            available_at: self.available_at?,
            payload_bytes: self.payload_bytes?,
            sequence: self.sequence,
        })
    }
}

fn half_read(id: DeliveryId) -> StoreError {
    StoreError::Unreadable(format!("the delivery {id} neither waits nor has ended").into())
}
