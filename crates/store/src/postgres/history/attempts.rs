//! Attempts of a delivery and of a destination, and how many of the latest went well.

use super::super::{
    pool::Connection,
    rows::{Cells, Unreadable},
    statement::{Statement, params, sql},
};
use crate::{
    AttemptRecord, Listed, Page, StoreError, SuccessRate, damage, detail,
    history::first_counted,
    page_rows::{self, PageRoom},
};
use domain::{
    id::{AccountId, AttemptId, DeliveryId, DestinationId},
    limits,
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
    let mut asked = limit;
    loop {
        let params = params![
            account_id: account.uuid() => UUID, delivery_id: id.uuid() => UUID, limit: asked as i64 => INT8,
        ];
        let (read, mut room) = (connection.read(&ATTEMPTS_OF_DELIVERY, params).await?, PageRoom::default());
        let fitted = |cells: &mut Cells<'_, '_>| record(cells).map(|attempt| room.fit(attempt));
        let found = read.each_by_itself::<AttemptId, _>("attempt_id", fitted)?;
        if asked > limit || !damage::is_cut_short(&found, limit) {
            return Ok(damage::sound("attempt", found, limit));
        }
        asked += limits::DAMAGED_PASSED_OVER;
    }
}

pub(super) async fn of_destination(
    connection: &Connection,
    account: AccountId,
    id: DestinationId,
    page: Page<(DeliveryId, AttemptId)>,
) -> Result<Listed<AttemptRecord, (DeliveryId, AttemptId)>, StoreError> {
    let (delivery, attempt) = page.before.unwrap_or((DeliveryId::MAX, AttemptId::MAX));
    let params = params![
        account_id: account.uuid() => UUID, destination_id: id.uuid() => UUID,
        before_delivery_id: delivery.uuid() => UUID, before_attempt_id: attempt.uuid() => UUID,
        limit: page_rows::asked_for(page.limit) as i64 => INT8,
    ];
    let read = connection.read(&ATTEMPTS_OF_DESTINATION, params).await?;
    let key = |cells: &mut Cells<'_, '_>| Ok((cells.get("delivery_id")?, cells.get("attempt_id")?));
    Ok(read.page("attempt", page.limit, key, record)?.listed())
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
    let rates = connection.read(&SUCCESS_RATES, params).await?;
    Ok(rates.all(|cells| {
        Ok(SuccessRate { successes: cells.get("successes")?, attempts: cells.get("attempts")? })
    })?)
}

fn record(cells: &mut Cells<'_, '_>) -> Result<AttemptRecord, Unreadable> {
    Ok(AttemptRecord {
        id: cells.get("attempt_id")?,
        delivery_id: cells.get("delivery_id")?,
        event_id: cells.get("event_id")?,
        destination_id: cells.get("destination_id")?,
        number: cells.get("number")?,
        started_at: cells.get("started_at")?,
        duration: Duration::from_micros(cells.get::<i64>("duration_us")?.max(0) as u64),
        outcome: cells.word("outcome")?,
        http_status: cells.get("http_status")?,
        detail: match cells.get("detail_packed")? {
            Some(packed) => detail::of_packed(packed),
            None => detail::of_text(cells.get::<Option<&str>>("detail")?.unwrap_or_default().as_bytes()),
        },
        node: cells.get("node_id")?,
        late: cells.get("late")?,
    })
}
