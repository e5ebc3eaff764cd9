//! Ordered lanes: numbers without gaps, tracks, and turns for those whose time has come. Numbers are rows as all else:
//! what is rolled back has taken none.

use super::{
    Trouble,
    row::{self, Key as _},
};
use crate::{TrackHead, Turn};
use domain::{delivery::Position, id::DestinationId, time::Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

pub(super) const TRACKS: &str = include_str!("sql/tracks.sql");
pub(super) const AWAITS_TIME: &str = include_str!("sql/awaits_time.sql");
pub(super) const TAKE_TURN: &str = include_str!("sql/take_turn.sql");

pub(super) fn next_sequence(connection: &Connection, destination: DestinationId) -> Result<i64, Trouble> {
    let mut next = connection.prepare_cached(include_str!("sql/next_sequence.sql"))?;
    Ok(next.query_row([destination.blob()], |row| row.get(0))?)
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
        let row = params![shard, destination.blob(), from];
        let Some(head) = select.query_row(row, head).optional()? else { break };
        next = head.track.checked_add(1);
        heads.push(head);
    }
    Ok(heads)
}

fn head(row: &Row<'_>) -> rusqlite::Result<TrackHead> {
    let track = row.get(0)?;
    let first = || -> rusqlite::Result<(Position, Timestamp)> {
        Ok((Position { track, rank: row.get(1)?, delivery_id: row::id(row, 2)? }, row::time(row, 3)?))
    };
    // A first row that does not read back hides none of those behind it.
    let (first, due_at) = first().unwrap_or((Position { track, ..Position::START }, Timestamp::MIN));
    Ok(TrackHead { track, first, due_at })
}

/// Whether it was taken. The row decides: it must be there, still wait for its time, and be due.
pub(super) fn take_turn(connection: &Connection, turn: &Turn, now: Timestamp) -> Result<bool, Trouble> {
    let (account, id) = (turn.delivery.account_id.blob(), turn.delivery.id.blob());
    let mut select = connection.prepare_cached(AWAITS_TIME)?;
    let waits = params![account, id, Position::AWAITS_TIME, now.micros()];
    let Some(destination) = select.query_row(waits, |row| row::id(row, 0)).optional()? else {
        return Ok(false);
    };
    let sequence = next_sequence(connection, destination)?;
    connection.prepare_cached(TAKE_TURN)?.execute(params![account, id, turn.track, sequence])?;
    Ok(true)
}
