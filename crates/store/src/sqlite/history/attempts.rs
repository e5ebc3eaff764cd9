//! Attempts, as they are kept.

use super::super::{
    Trouble,
    rollup::first_row,
    rows::{Columns, id_in},
    statement::{bound, sql},
    trouble::unreadable,
};
use crate::{
    AttemptRecord, Listed, Page, SuccessRate, damage, detail,
    history::first_counted,
    page_rows::{self, PageRoom},
};
use domain::{
    attempt::Detail,
    id::{AccountId, AttemptId, DeliveryId, DestinationId},
    limits,
    time::Timestamp,
};
use rusqlite::{Connection, types::ValueRef};

const ATTEMPTS_OF_DELIVERY: &str = sql!("attempts_of_delivery");
pub(in super::super) const ATTEMPTS_OF_DESTINATION: &str = sql!("attempts_of_destination");
pub(in super::super) const SUCCESS_RATES: &str = sql!("success_rates");

pub(super) fn of_delivery(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
    limit: usize,
) -> Result<Vec<AttemptRecord>, Trouble> {
    damage::page("attempt", limit, |limit| {
        let mut room = PageRoom::default();
        bound!(ATTEMPTS_OF_DELIVERY, delivery_id: id, account_id: account, limit: limit)
            .each_by_itself::<AttemptId, _>(connection, "attempt_id", |columns| {
                record(columns).map(|attempt| room.fit(attempt))
            })
    })
}

pub(super) fn of_destination(
    connection: &Connection,
    account: AccountId,
    id: DestinationId,
    page: Page<(DeliveryId, AttemptId)>,
) -> Result<Listed<AttemptRecord, (DeliveryId, AttemptId)>, Trouble> {
    let (delivery, attempt) = page.before.unwrap_or((DeliveryId::MAX, AttemptId::MAX));
    bound!(
        ATTEMPTS_OF_DESTINATION,
        destination_id: id,
        account_id: account,
        delivery_id: delivery,
        attempt_id: attempt,
        limit: page_rows::asked_for(page.limit),
    )
    .page(
        connection,
        ("attempt", page.limit),
        |row| Ok((id_in(row, "delivery_id")?, id_in(row, "attempt_id")?)),
        record,
    )
}

pub(super) fn success_rates(
    connection: &Connection,
    destinations: &[DestinationId],
    since: Timestamp,
    limit: usize,
) -> Result<Vec<SuccessRate>, Trouble> {
    let first_delivery = first_counted(since);
    // A fact is written when its attempt has ended.
    let first_row = first_row(connection, since.minus(limits::ROLLUP_MINUTE_AFTER))?;
    let rate = |id: &DestinationId| {
        bound!(
            SUCCESS_RATES,
            destination_id: id,
            since: since,
            first_delivery: first_delivery,
            first_row: first_row,
            limit: limit,
        )
        .one(connection, |columns| Ok(SuccessRate { successes: columns.get()?, attempts: columns.get()? }))
    };
    destinations.iter().map(rate).collect()
}

fn record(columns: &mut Columns<'_>) -> Result<AttemptRecord, Trouble> {
    Ok(AttemptRecord {
        id: columns.id()?,
        delivery_id: columns.id()?,
        event_id: columns.id()?,
        destination_id: columns.id()?,
        number: columns.get()?,
        started_at: columns.time()?,
        duration: columns.duration()?,
        outcome: columns.optional_outcome()?.ok_or_else(|| unreadable("attempt", "no outcome"))?,
        http_status: columns.get()?,
        detail: detail(columns)?,
        node: columns.id()?,
        late: columns.get()?,
    })
}

/// A blob where it is packed.
fn detail(columns: &mut Columns<'_>) -> Result<Detail, Trouble> {
    Ok(match columns.value()? {
        ValueRef::Blob(packed) => detail::of_packed(packed),
        text => detail::of_text(text.as_bytes().map_err(rusqlite::Error::from)?),
    })
}
