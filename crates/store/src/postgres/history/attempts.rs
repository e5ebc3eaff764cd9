//! Attempts of a delivery and of a destination, and how many of the latest went well.

use super::{
    super::{
        pool::Connection,
        rows::row,
        statement::{Statement, params, sql},
    },
    unknown_word,
};
use crate::{AttemptRecord, StoreError, SuccessRate, detail, history::first_counted};
use domain::{
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId},
    outcome::Outcome,
    time::Timestamp,
};
use std::{sync::LazyLock, time::Duration};
use uuid::Uuid;

static ATTEMPTS_OF_DELIVERY: LazyLock<Statement> = sql!("attempts_of_delivery");
static ATTEMPTS_OF_DESTINATION: LazyLock<Statement> = sql!("attempts_of_destination");
static SUCCESS_RATES: LazyLock<Statement> = sql!("success_rates");

pub(super) async fn of_delivery(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
    limit: usize,
) -> Result<Vec<AttemptRecord>, StoreError> {
    let params = params![
        account_id: account.uuid() => UUID, delivery_id: id.uuid() => UUID, limit: limit as i64 => INT8,
    ];
    let rows = connection.read(&ATTEMPTS_OF_DELIVERY, params).await?;
    rows.all()?.into_iter().map(AttemptRow::record).collect()
}

pub(super) async fn of_destination(
    connection: &Connection,
    account: AccountId,
    id: DestinationId,
    before: Option<(DeliveryId, AttemptId)>,
    limit: usize,
) -> Result<Vec<AttemptRecord>, StoreError> {
    let (delivery, attempt) = before.unwrap_or((DeliveryId::MAX, AttemptId::MAX));
    let params = params![
        account_id: account.uuid() => UUID, destination_id: id.uuid() => UUID,
        before_delivery_id: delivery.uuid() => UUID, before_attempt_id: attempt.uuid() => UUID,
        limit: limit as i64 => INT8,
    ];
    let rows = connection.read(&ATTEMPTS_OF_DESTINATION, params).await?;
    rows.all()?.into_iter().map(AttemptRow::record).collect()
}

pub(super) async fn success_rates(
    connection: &Connection,
    destinations: &[DestinationId],
    since: Timestamp,
    limit: usize,
) -> Result<Vec<SuccessRate>, StoreError> {
    let ids: Vec<Uuid> = destinations.iter().map(|id| id.uuid()).collect();
    let params = params![
        destination_ids: ids => UUID_ARRAY, since: since.micros() => INT8,
        from_delivery_id: first_counted(since).uuid() => UUID, limit: limit as i64 => INT8,
    ];
    let rates = connection.read(&SUCCESS_RATES, params).await?.all()?;
    Ok(rates.into_iter().map(|RateRow { successes, attempts }| SuccessRate { successes, attempts }).collect())
}

row! {
    struct RateRow {
        successes: u32,
        attempts: u32,
    }
}

row! {
    struct AttemptRow<'r> {
        attempt_id: AttemptId,
        delivery_id: DeliveryId,
        event_id: EventId,
        destination_id: DestinationId,
        number: u32,
        started_at: Timestamp,
        duration_us: i64,
        outcome: &'r str,
        http_status: Option<u16>,
        detail: Option<&'r str>,
        detail_packed: Option<&'r [u8]>,
        node_id: NodeId,
        late: bool,
    }
}

impl AttemptRow<'_> {
    fn record(self) -> Result<AttemptRecord, StoreError> {
        Ok(AttemptRecord {
            id: self.attempt_id,
            delivery_id: self.delivery_id,
            event_id: self.event_id,
            destination_id: self.destination_id,
            number: self.number,
            started_at: self.started_at,
            duration: Duration::from_micros(self.duration_us.max(0) as u64),
            outcome: self.outcome.parse::<Outcome>().map_err(|_| unknown_word("outcome", self.outcome))?,
            http_status: self.http_status,
            detail: match self.detail_packed {
                Some(packed) => detail::of_packed(packed),
                None => detail::of_text(self.detail.unwrap_or_default().as_bytes()),
            },
            node: self.node_id,
            late: self.late,
        })
    }
}
