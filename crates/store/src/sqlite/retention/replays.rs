//! Replays that have had their time. What waits is looked for before the writer is asked: a replay that has ended makes
//! nothing more, and what has ended does not wait again.

use super::super::{
    statement::{bound, sql},
    trouble::Trouble,
};
use crate::{Pruned, ReplayPlace, ReplayWalk};
use domain::id::{DeliveryId, ReplayId};
use rusqlite::Connection;
use std::ops::ControlFlow;

pub(in super::super) const OLD_REPLAYS: &str = sql!("old_replays");
pub(in super::super) const MADE: &str = sql!("made");
const FORGET_REPLAY: &str = sql!("forget_replay");

/// What a step may forget.
#[derive(Default)]
pub(super) struct OldReplays {
    /// Origins of what was made and does not wait.
    made: Vec<(ReplayId, DeliveryId)>,
    /// Looked through to the end.
    replays: Vec<ReplayId>,
    pub(super) next: Option<ReplayPlace>,
}

impl OldReplays {
    /// There is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.made.is_empty() && self.replays.is_empty()
    }
}

pub(super) fn look(connection: &Connection, walk: &ReplayWalk) -> Result<OldReplays, Trouble> {
    let mut old = OldReplays::default();
    let (mut looked_at, mut room) = (0, walk.rows);
    bound!(
        OLD_REPLAYS,
        account_id: walk.account_id,
        from: walk.from.0,
        below: ReplayId::at(walk.before, 0),
        before: walk.before,
        limit: walk.replays + 1,
    )
    .each(connection, |columns| {
        let id = columns.id()?;
        let from = if id == walk.from.0 { walk.from.1 } else { DeliveryId::MIN };
        if looked_at == walk.replays || room == 0 {
            old.next = Some((id, from));
            return Ok(ControlFlow::Break(()));
        }
        looked_at += 1;
        let mut whole = from == DeliveryId::MIN;
        bound!(MADE, account_id: walk.account_id, replay_id: id, from: from, limit: room + 1).each(
            connection,
            |columns| {
                let (origin, delivery, waits): (_, _, bool) = (columns.id()?, columns.id()?, columns.get()?);
                if room == 0 {
                    old.next = Some((id, delivery));
                    return Ok(ControlFlow::Break(()));
                }
                room -= 1;
                match waits {
                    true => whole = false,
                    false => old.made.push((id, origin)),
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        if old.next.is_some() {
            return Ok(ControlFlow::Break(()));
        }
        // Where an earlier step left something, only the table knows.
        if whole || from != DeliveryId::MIN {
            old.replays.push(id);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(old)
}

pub(super) fn forget(connection: &Connection, old: &OldReplays) -> Result<Pruned<ReplayPlace>, Trouble> {
    let mut rows = 0;
    for (id, origin) in &old.made {
        rows += bound!(
            "delete from replayed where replay_id = :replay_id and origin = :origin",
            replay_id: id,
            origin: origin,
        )
        .execute(connection)?;
    }
    for id in &old.replays {
        rows += bound!(FORGET_REPLAY, id: id).execute(connection)?;
    }
    Ok(Pruned { rows, next: old.next })
}
