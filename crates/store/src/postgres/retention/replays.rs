//! Replays that have had their time: one after the other, so many of their deliveries in a transaction.

use super::super::{
    chores,
    pool::Transaction,
    statement::{Statement, params, sql},
    trouble::Trouble,
};
use crate::{Pruned, ReplayPlace, ReplayWalk, Term};
use domain::id::{DeliveryId, ReplayId};
use std::sync::LazyLock;

static OLD_REPLAYS: LazyLock<Statement> = sql!("old_replays");
pub(in super::super) static FORGET_MADE: LazyLock<Statement> = sql!("forget_made");
/// By then whatever was settled of it is counted: the count is written with the ending.
static FORGET_REPLAY: LazyLock<Statement> = sql!("forget_replay");

/// None: the term is over.
pub(super) async fn forget(
    transaction: &Transaction<'_>,
    term: Term,
    walk: &ReplayWalk,
) -> Result<Option<Pruned<ReplayPlace>>, Trouble> {
    if !chores::stands(transaction, term).await? {
        return Ok(None);
    }
    let params = params![
        account_id: walk.account_id.uuid() => UUID, from_replay_id: walk.from.0.uuid() => UUID,
        below_replay_id: ReplayId::at(walk.before, 0).uuid() => UUID,
        finished_before: walk.before.micros() => INT8, limit: walk.replays as i64 + 1 => INT8,
    ];
    let old: Vec<ReplayId> = transaction.run(&OLD_REPLAYS, params).await?.column("id")?;
    let (mut rows, mut room) = (0, walk.rows);
    for (place, id) in old.into_iter().enumerate() {
        let from = if id == walk.from.0 { walk.from.1 } else { DeliveryId::MIN };
        if place == walk.replays || room == 0 {
            return Ok(Some(Pruned { rows, next: Some((id, from)) }));
        }
        let params = params![
            account_id: walk.account_id.uuid() => UUID, replay_id: id.uuid() => UUID,
            from_delivery_id: from.uuid() => UUID, limit: room as i64 => INT8,
        ];
        let made = transaction.run(&FORGET_MADE, params).await?;
        room -= made.value::<usize>("looked_at")?.min(room);
        rows += made.value::<usize>("gone")?;
        if let Some(left) = made.value("next_delivery_id")? {
            return Ok(Some(Pruned { rows, next: Some((id, left)) }));
        }
        let gone = transaction.run(&FORGET_REPLAY, params![replay_id: id.uuid() => UUID]).await?;
        rows += gone.value::<usize>("gone")?;
    }
    Ok(Some(Pruned { rows, next: None }))
}
