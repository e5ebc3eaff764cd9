//! Replays that have had their time. What waits is looked for before the writer is asked: a replay that has ended makes
//! nothing more, and what has ended does not wait again.

use super::super::{
    row::{self, Key as _},
    trouble::Trouble,
};
use crate::{Pruned, ReplayPlace, ReplayWalk};
use domain::id::{DeliveryId, ReplayId};
use rusqlite::{Connection, params};

pub(in super::super) const OLD_REPLAYS: &str = "select id from replays
     where account_id = ?1 and id >= ?2 and id < ?3 and finished_at < ?4
     order by id limit ?5";
pub(in super::super) const MADE: &str = "select r.origin, r.delivery_id,
         exists (select 1 from queue q where q.account_id = ?1 and q.delivery_id = r.delivery_id)
     from replayed r
     where r.replay_id = ?2 and r.delivery_id >= ?3
     order by r.delivery_id limit ?4";
const FORGET_MADE: &str = "delete from replayed where replay_id = ?1 and origin = ?2";
const FORGET_REPLAY: &str = "delete from replays
     where id = ?1 and not exists (select 1 from replayed r where r.replay_id = ?1)";

/// What a step found.
pub(super) struct Step {
    /// Origins of what was made and does not wait.
    made: Vec<(ReplayId, DeliveryId)>,
    /// Looked through to the end.
    replays: Vec<ReplayId>,
    pub(super) next: Option<ReplayPlace>,
}

impl Step {
    /// There is nothing to write.
    pub(super) fn is_idle(&self) -> bool {
        self.made.is_empty() && self.replays.is_empty()
    }
}

pub(super) fn look(connection: &Connection, walk: &ReplayWalk) -> Result<Step, Trouble> {
    let mut select = connection.prepare_cached(OLD_REPLAYS)?;
    let below = ReplayId::at(walk.before, 0);
    let mut old = select.query(params![
        walk.account_id.blob(),
        walk.from.0.blob(),
        below.blob(),
        walk.before.micros(),
        walk.replays as i64 + 1,
    ])?;
    let mut step = Step { made: Vec::new(), replays: Vec::new(), next: None };
    let (mut looked_at, mut room) = (0, walk.rows);
    while let Some(row) = old.next()? {
        let id: ReplayId = row::id(row, 0)?;
        let from = if id == walk.from.0 { walk.from.1 } else { DeliveryId::MIN };
        if looked_at == walk.replays || room == 0 {
            step.next = Some((id, from));
            return Ok(step);
        }
        looked_at += 1;
        let (mut select, mut whole) = (connection.prepare_cached(MADE)?, from == DeliveryId::MIN);
        let mut made =
            select.query(params![walk.account_id.blob(), id.blob(), from.blob(), room as i64 + 1])?;
        while let Some(row) = made.next()? {
            if room == 0 {
                step.next = Some((id, row::id(row, 1)?));
                return Ok(step);
            }
            room -= 1;
            match row.get(2)? {
                true => whole = false,
                false => step.made.push((id, row::id(row, 0)?)),
            }
        }
        // Where an earlier step left something, only the table knows.
        if whole || from != DeliveryId::MIN {
            step.replays.push(id);
        }
    }
    Ok(step)
}

pub(super) fn forget(connection: &Connection, step: &Step) -> Result<Pruned<ReplayPlace>, Trouble> {
    let mut forget_made = connection.prepare_cached(FORGET_MADE)?;
    let mut forget_replay = connection.prepare_cached(FORGET_REPLAY)?;
    let mut rows = 0;
    for (id, origin) in &step.made {
        rows += forget_made.execute([id.blob(), origin.blob()])?;
    }
    for id in &step.replays {
        rows += forget_replay.execute([id.blob()])?;
    }
    Ok(Pruned { rows, next: step.next })
}
