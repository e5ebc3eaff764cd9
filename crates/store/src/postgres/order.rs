//! Ordered lanes: their tracks, and turns for those whose time has come.

use super::{
    planned::{self, Definition, Planned},
    pool::Connection,
    rows,
    statement::{Params, params, sql_file},
};
use crate::{DueDelivery, StoreError, TrackHead};
use domain::{
    id::{DeliveryId, DestinationId, NodeId},
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, HashSet},
    sync::LazyLock,
};
use uuid::Uuid;

pub(super) static TRACKS: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "tracks",
        sql: sql_file!("tracks"),
        kept: true,
        settings: planned::IN_ORDER,
        gives: "track int8, rank int8, delivery_id uuid, due_at int8",
    };
    let params = params![
        shard: 0_i16 => INT2, destination_id: Uuid::nil() => UUID, from_track: 0_i64 => INT8,
        limit: 0_i64 => INT8,
    ];
    Planned::new(definition, params)
});
pub(super) static TAKE_TURNS: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "take_turns",
        sql: sql_file!("take_turns"),
        kept: true,
        settings: planned::LOOKED_UP,
        gives: "delivery_id uuid",
    };
    Planned::new(definition, TurnColumns::default().params(&Uuid::nil(), &0))
});

pub(super) async fn tracks(
    connection: &Connection,
    shard: u16,
    destination: DestinationId,
    from: i64,
    limit: usize,
) -> Result<Vec<TrackHead>, StoreError> {
    let params = params![
        shard: shard as i16 => INT2, destination_id: destination.uuid() => UUID, from_track: from => INT8,
        limit: limit as i64 => INT8,
    ];
    let heads = connection.read(&TRACKS.call, params).await?;
    Ok(heads.all(|cells| Ok(TrackHead { first: rows::position(cells)?, due_at: cells.get("due_at")? }))?)
}

/// One answer per turn, in order: whether it was taken.
pub(super) async fn take_turns(
    connection: &Connection,
    node: NodeId,
    turns: &[DueDelivery],
    now: Timestamp,
) -> Result<Vec<bool>, StoreError> {
    let columns = TurnColumns::of(turns);
    let rows = connection.write(&TAKE_TURNS.call, columns.params(&node.uuid(), &now.micros())).await?;
    let mut moved: HashSet<DeliveryId> = rows.column("delivery_id")?.into_iter().collect();
    Ok(turns.iter().map(|turn| moved.remove(&turn.delivery.id)).collect())
}

/// Turns, by columns, sorted by delivery.
#[derive(Default)]
struct TurnColumns {
    account_id: Vec<Uuid>,
    delivery_id: Vec<Uuid>,
    track: Vec<i64>,
    place: Vec<i64>,
}

impl TurnColumns {
    /// A delivery takes one turn, the first.
    fn of(turns: &[DueDelivery]) -> Self {
        let mut by_delivery = BTreeMap::new();
        for (place, turn) in turns.iter().enumerate() {
            by_delivery.entry(turn.delivery.id).or_insert((place, turn));
        }
        let mut columns = Self::default();
        for (id, (place, turn)) in by_delivery {
            columns.account_id.push(turn.delivery.account_id.uuid());
            columns.delivery_id.push(id.uuid());
            columns.track.push(turn.track);
            columns.place.push(place as i64);
        }
        columns
    }

    fn params<'a>(&'a self, node: &'a Uuid, now: &'a i64) -> Params<'a, 'a> {
        params![
            node_id: *node => UUID, now: *now => INT8, account_id: self.account_id => UUID_ARRAY,
            delivery_id: self.delivery_id => UUID_ARRAY, track: self.track => INT8_ARRAY,
            place: self.place => INT8_ARRAY,
        ]
        .owned()
    }
}
