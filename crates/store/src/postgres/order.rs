//! Ordered lanes: their tracks, and turns for those whose time has come.

use super::{
    planned::{self, Planned, Statement},
    pool::{Connection, Param, params},
    rows,
};
use crate::{StoreError, TrackHead, Turn};
use domain::{
    delivery::Position,
    id::{DeliveryId, DestinationId, NodeId},
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, HashSet},
    sync::LazyLock,
};
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) static TRACKS: LazyLock<Planned> = LazyLock::new(|| {
    let statement = Statement {
        name: "tracks",
        sql: include_str!("sql/tracks.sql"),
        kept: true,
        settings: planned::IN_ORDER,
        gives: "track int8, rank int8, delivery_id uuid, due_at int8",
    };
    Planned::new(statement, params![0_i16 => INT2, Uuid::nil() => UUID, 0_i64 => INT8, 0_i64 => INT8])
});
pub(super) static TAKE_TURNS: LazyLock<Planned> = LazyLock::new(|| {
    let statement = Statement {
        name: "take_turns",
        sql: include_str!("sql/take_turns.sql"),
        kept: true,
        settings: planned::LOOKED_UP,
        gives: "delivery_id uuid",
    };
    Planned::new(statement, &Turns::default().params(&Uuid::nil(), &0))
});

pub(super) async fn tracks(
    connection: &Connection,
    shard: u16,
    destination: DestinationId,
    from: i64,
    limit: usize,
) -> Result<Vec<TrackHead>, StoreError> {
    let params = params![
        shard as i16 => INT2, destination.uuid() => UUID, from => INT8, limit as i64 => INT8,
    ];
    Ok(connection.read(&TRACKS.call, params).await?.iter().map(head).collect())
}

fn head(row: &Row) -> TrackHead {
    let track = row.get(0);
    let first = Position { track, rank: row.get(1), delivery_id: DeliveryId::from_uuid(row.get(2)) };
    TrackHead { track, first, due_at: rows::time(row, 3) }
}

/// One answer per turn, in order: whether it was taken.
pub(super) async fn take_turns(
    connection: &Connection,
    node: NodeId,
    turns: &[Turn],
    now: Timestamp,
) -> Result<Vec<bool>, StoreError> {
    let params = Turns::of(turns);
    let rows = connection.write(&TAKE_TURNS.call, &params.params(&node.uuid(), &now.micros())).await?;
    let mut moved: HashSet<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    Ok(turns.iter().map(|turn| moved.remove(&turn.delivery.id.uuid())).collect())
}

/// Turns, by columns, sorted by delivery.
#[derive(Default)]
struct Turns {
    account_id: Vec<Uuid>,
    delivery_id: Vec<Uuid>,
    track: Vec<i64>,
    place: Vec<i64>,
}

impl Turns {
    /// A delivery takes one turn, the first.
    fn of(turns: &[Turn]) -> Self {
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

    fn params<'a>(&'a self, node: &'a Uuid, now: &'a i64) -> Vec<Param<'a>> {
        params![
            *node => UUID, *now => INT8, self.account_id => UUID_ARRAY, self.delivery_id => UUID_ARRAY,
            self.track => INT8_ARRAY, self.place => INT8_ARRAY,
        ]
        .to_vec()
    }
}
