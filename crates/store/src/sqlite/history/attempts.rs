//! Attempts, as they are kept.

use super::super::{
    Trouble,
    rollup::first_row,
    row::{self, Key as _},
    trouble::unreadable,
};
use crate::{AttemptRecord, SuccessRate, detail, history::first_counted};
use domain::{
    id::{AccountId, AttemptId, DeliveryId, DestinationId},
    limits,
    time::Timestamp,
};
use rusqlite::{Connection, Row, Rows, params, types::ValueRef};
use std::time::Duration;

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "select attempt_id, delivery_id, event_id, destination_id, number, started_at, duration_us, outcome, http_status,
               node_id, late, detail
             from attempts ",
            $rest
        )
    };
}

const OF_DELIVERY: &str =
    select!("where delivery_id = ?1 and account_id = ?2 and number is not null order by attempt_id limit ?3");
pub(in super::super) const OF_DESTINATION: &str = select!(
    "where destination_id = ?1 and account_id = ?2 and number is not null and (delivery_id, attempt_id) < (?3, ?4)
     order by delivery_id desc, attempt_id desc limit ?5"
);

pub(in super::super) const SUCCESS_RATES: &str = include_str!("../sql/success_rates.sql");

pub(super) fn of_delivery(
    connection: &Connection,
    account: AccountId,
    id: DeliveryId,
    limit: usize,
) -> Result<Vec<AttemptRecord>, Trouble> {
    let mut select = connection.prepare_cached(OF_DELIVERY)?;
    collect(select.query(params![id.blob(), account.blob(), limit as i64])?)
}

pub(super) fn of_destination(
    connection: &Connection,
    account: AccountId,
    id: DestinationId,
    before: Option<(DeliveryId, AttemptId)>,
    limit: usize,
) -> Result<Vec<AttemptRecord>, Trouble> {
    let (delivery, attempt) = before.unwrap_or((DeliveryId::MAX, AttemptId::MAX));
    let mut select = connection.prepare_cached(OF_DESTINATION)?;
    collect(select.query(params![
        id.blob(),
        account.blob(),
        delivery.blob(),
        attempt.blob(),
        limit as i64
    ])?)
}

pub(super) fn success_rates(
    connection: &Connection,
    destinations: &[DestinationId],
    since: Timestamp,
    limit: usize,
) -> Result<Vec<SuccessRate>, Trouble> {
    let mut select = connection.prepare_cached(SUCCESS_RATES)?;
    let oldest = first_counted(since).blob();
    // A fact is written when its attempt has ended.
    let first = first_row(connection, since.minus(limits::ROLLUP_MINUTE_AFTER))?;
    let mut rate = |id: &DestinationId| {
        let read = |row: &Row<'_>| Ok(SuccessRate { successes: row.get(0)?, attempts: row.get(1)? });
        Ok(select.query_row(params![id.blob(), since.micros(), oldest, limit as i64, first], read)?)
    };
    destinations.iter().map(&mut rate).collect()
}

fn collect(mut rows: Rows<'_>) -> Result<Vec<AttemptRecord>, Trouble> {
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Result<AttemptRecord, Trouble> {
    let detail = match row.get_ref(11)? {
        ValueRef::Blob(packed) => detail::of_packed(packed),
        text => detail::of_text(text.as_bytes().map_err(rusqlite::Error::from)?),
    };
    Ok(AttemptRecord {
        id: row::id(row, 0)?,
        delivery_id: row::id(row, 1)?,
        event_id: row::id(row, 2)?,
        destination_id: row::id(row, 3)?,
        number: row.get(4)?,
        started_at: row::time(row, 5)?,
        duration: Duration::from_micros(row.get::<_, i64>(6)?.unsigned_abs()),
        outcome: row::maybe_outcome(row, 7)?.ok_or_else(|| unreadable("attempt", "no outcome"))?,
        http_status: row.get(8)?,
        node: row::id(row, 9)?,
        late: row.get(10)?,
        detail,
    })
}
