//! Replays that have had their time: one after the other, so many of their deliveries in a transaction.

use super::super::{
    chores,
    pool::{Transaction, params},
    trouble::Trouble,
};
use crate::{Pruned, ReplayPlace, ReplayWalk, Term};
use domain::id::{DeliveryId, ReplayId};
use uuid::Uuid;

const OLD_REPLAYS: &str = "select id from replays \
     where account_id = $1 and id >= $2 and id < $3 and finished_at < $4 \
     order by id limit $5";
pub(in super::super) const FORGET_MADE: &str = include_str!("../sql/forget_made.sql");
/// By then whatever was settled of it is counted: the count is written with the ending.
const FORGET_REPLAY: &str = include_str!("../sql/forget_replay.sql");

/// None: the term is over.
pub(super) async fn forget(
    transaction: &Transaction<'_>,
    term: Term,
    walk: &ReplayWalk,
) -> Result<Option<Pruned<ReplayPlace>>, Trouble> {
    if !chores::stands(transaction, term).await? {
        return Ok(None);
    }
    let account = walk.account_id.uuid();
    let params = params![
        account => UUID, walk.from.0.uuid() => UUID, ReplayId::at(walk.before, 0).uuid() => UUID,
        walk.before.micros() => INT8, walk.replays as i64 + 1 => INT8,
    ];
    let old = transaction.run(OLD_REPLAYS, params).await?;
    let (mut rows, mut room) = (0, walk.rows as i64);
    for (place, row) in old.iter().enumerate() {
        let id: Uuid = row.get(0);
        let from = if id == walk.from.0.uuid() { walk.from.1 } else { DeliveryId::MIN };
        if place == walk.replays || room == 0 {
            return Ok(Some(Pruned { rows, next: Some((ReplayId::from_uuid(id), from)) }));
        }
        let params = params![account => UUID, id => UUID, from.uuid() => UUID, room => INT8];
        let Some(made) = transaction.run_opt(FORGET_MADE, params).await? else { continue };
        let (looked_at, gone): (i64, i64) = (made.get(0), made.get(1));
        room -= looked_at.min(room);
        rows += gone as usize;
        if let Some(left) = made.get::<_, Option<Uuid>>(2) {
            let next = Some((ReplayId::from_uuid(id), DeliveryId::from_uuid(left)));
            return Ok(Some(Pruned { rows, next }));
        }
        let gone = transaction.run_opt(FORGET_REPLAY, params![id => UUID]).await?;
        rows += gone.map_or(0, |row| row.get::<_, i64>(0) as usize);
    }
    Ok(Some(Pruned { rows, next: None }))
}
