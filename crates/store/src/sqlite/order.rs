//! Ordered lanes: numbers without gaps, tracks, and turns for those whose time has come. Numbers are rows as all else:
//! what is rolled back has taken none.

use super::{
    Trouble,
    rows::Columns,
    statement::{bound, sql},
};
use crate::{DueDelivery, TrackHead};
use domain::{delivery::Position, id::DestinationId, time::Timestamp};
use rusqlite::Connection;

pub(super) const TRACKS: &str = sql!("tracks");
pub(super) const AWAITS_TIME: &str = sql!("awaits_time");
pub(super) const TAKE_TURNS: &str = sql!("take_turns");
const NEXT_SEQUENCE: &str = sql!("next_sequence");

pub(super) fn next_sequence(connection: &Connection, destination: DestinationId) -> Result<i64, Trouble> {
    bound!(NEXT_SEQUENCE, destination_id: destination).one(connection, |columns| Ok(columns.get()?))
}

/// From track to track by the key: what waits behind a track's first row is never looked at.
pub(super) fn tracks(
    connection: &Connection,
    shard: u16,
    destination: DestinationId,
    from: i64,
    limit: usize,
) -> Result<Vec<TrackHead>, Trouble> {
    let mut select = connection.prepare_cached(TRACKS)?;
    let (mut heads, mut next) = (Vec::new(), Some(from));
    while let Some(from) = next.filter(|_| heads.len() < limit) {
        let track = bound!(TRACKS, shard: shard, destination_id: destination, from: from);
        let Some(head) = track.first_on(&mut select, head)? else { break };
        next = head.first.track.checked_add(1);
        heads.push(head);
    }
    Ok(heads)
}

fn head(columns: &mut Columns<'_>) -> Result<TrackHead, Trouble> {
    let track = columns.get()?;
    let mut first = || -> rusqlite::Result<(Position, Timestamp)> {
        let first = Position { track, rank: columns.get()?, delivery_id: columns.id()? };
        Ok((first, columns.time()?))
    };
    // A first row that does not read back hides none of those behind it.
    let (first, due_at) = first().unwrap_or((Position { track, ..Position::START }, Timestamp::MIN));
    Ok(TrackHead { first, due_at })
}

/// Whether it was taken. The row decides: it must be there, still wait for its time, and be due.
pub(super) fn take_turn(
    connection: &Connection,
    turn: &DueDelivery,
    now: Timestamp,
) -> Result<bool, Trouble> {
    let (account_id, id) = (turn.delivery.account_id, turn.delivery.id);
    let waits_for = bound!(
        AWAITS_TIME,
        account_id: account_id,
        delivery_id: id,
        track: Position::AWAITS_TIME,
        now: now,
    )
    .first(connection, |columns| Ok(columns.id()?))?;
    let Some(destination) = waits_for else { return Ok(false) };
    let sequence = next_sequence(connection, destination)?;
    bound!(TAKE_TURNS, account_id: account_id, delivery_id: id, track: turn.track, sequence: sequence)
        .execute(connection)?;
    Ok(true)
}
