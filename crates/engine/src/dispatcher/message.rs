//! What the dispatcher is told and asked, and what it says.

use super::{EndedTest, LaneFigures, LaneSample, OpenPlace};
use crate::{
    destination::PreparedDestination,
    fetcher::{LaneQuery, LaneSweep},
    membership::Membership,
    sender::AttemptEnd,
    settler::DurableSettlement,
    test_sends::AskedTest,
    watch::Accounts,
};
use domain::{
    delivery::{Delivery, Position},
    id::{AccountId, DeliveryId, DestinationId},
    lane::Explanation,
};
use std::sync::Arc;
use store::{
    Arrival, Change, DueDelivery, FetchedDelivery, LaneHead, LaneRow, LaneView, OwnedShard, StoreError,
    TrackHead, Wake,
};
use tokio::sync::oneshot;

/// Something that happened, or a question.
#[derive(Debug)]
pub(crate) enum Message {
    Expected(Vec<(DestinationId, DeliveryId)>),
    Arrived(Vec<Arrival>),
    Forgotten(Vec<(DestinationId, DeliveryId)>),
    Look(Vec<(DestinationId, DeliveryId, Position)>),
    /// A chunk of a large fan-out or of a replay is durable: its lanes are part of a crowd.
    Made(Vec<(DestinationId, DeliveryId, Position)>),
    Changed(Change),
    Fetched {
        queries: Vec<LaneQuery>,
        result: Result<Vec<Vec<FetchedDelivery>>, StoreError>,
    },
    TargetsRead {
        wanted: Vec<(DestinationId, u64)>,
        result: Result<Vec<Arc<PreparedDestination>>, StoreError>,
    },
    /// What a look for the tracks of a lane has found.
    Swept {
        sweep: LaneSweep,
        result: Result<Vec<TrackHead>, StoreError>,
    },
    /// The store has given these their numbers, each or not.
    Numbered {
        due: Vec<DueDelivery>,
        result: Result<Vec<bool>, StoreError>,
    },
    Ended(AttemptEnd, OpenPlace),
    /// Somebody wants to try a destination and waits for what comes of it.
    Test(Box<AskedTest>),
    TestEnded(EndedTest),
    Flushed(Vec<DurableSettlement>),
    Heads(Vec<LaneHead>),
    Views(Vec<DestinationId>, oneshot::Sender<Vec<LaneAnswer<Option<LaneView>>>>),
    Explain(Vec<Delivery>, oneshot::Sender<Vec<LaneAnswer<Explanation>>>),
    /// Another node has committed something for lanes of ours.
    Woken(Vec<Wake>),
    /// We have joined; nothing is ours yet.
    Joined(Arc<Membership>),
    Gained(Vec<OwnedShard>),
    /// Start nothing more in these shards, and say when nothing is open in them: a report of this round.
    Drain(Vec<u16>, u64),
    Undrain(Vec<u16>),
    Lost(Vec<u16>),
    /// Say when nothing is open and everything is durable.
    Quiet,
    Accounts(oneshot::Sender<Accounts>),
    /// Of this account these destinations have changed; with a version, those were all up to it.
    Reviewed {
        account: AccountId,
        version: Option<i64>,
        changed: Vec<DestinationId>,
    },
    /// The lanes worth publishing that have changed.
    Changes(oneshot::Sender<Vec<LaneRow>>),
    /// What has happened to the slots of the lanes since this was last asked.
    Samples(oneshot::Sender<Vec<LaneSample>>),
    /// What metrics tell of the lanes.
    Figures(oneshot::Sender<LaneFigures>),
}

/// What the dispatcher says to the owner. Bounded: a shard drains once in a round, and quiet is said when asked for.
#[derive(Debug)]
pub(crate) enum ShardReport {
    /// Nothing of these shards is open or unflushed; each with the round of its drain.
    Drained(Vec<(u16, u64)>),
    Quiet,
}

/// An answer about a lane, if it is one of this node's.
#[derive(Debug, Clone)]
pub(crate) enum LaneAnswer<T> {
    Here(T),
    Elsewhere,
}
