//! The memory of Posthaste, and the only crate that knows SQL.
//!
//! Small traits by purpose, so that a function asks only for what it uses; three stores that keep the same promises
//! (`memory` is the executable specification), proven by one conformance suite. Methods work on batches, take the
//! time as an argument and say what guards them.

mod announce;
mod audit;
mod audit_log;
mod backfill;
mod backlog;
mod catalog;
mod checksum;
mod chores;
mod damage;
mod dead_letters;
mod detail;
mod documents;
mod erasure;
mod error;
mod expand;
pub mod failpoint;
mod feed;
mod gates;
mod history;
mod ingest;
mod lane_rollups;
mod lanes;
mod membership;
#[cfg(feature = "memory")]
pub mod memory;
mod migrations;
mod open;
mod operational_events;
mod other_routes;
mod page_rows;
mod payload;
mod portal_links;
pub mod postgres;
mod prepared;
mod queue;
mod read_only;
mod refused_requests;
mod replay;
mod retention;
mod rollup;
mod sealed_event;
mod seals;
mod sessions;
mod shard_scan;
pub mod sqlite;
mod tags;
mod test_sends;
#[cfg(test)]
mod twins;
mod wakes;

pub use announce::{Announce, Arrival, Change, LaneView, Lanes, Scraped};
pub use audit::{
    Audit, FIRST_FACT, FIRST_TRACK, FactKey, KnownLane, Missing, StrayFact, TrackPlace, UnevenFanOut,
    UnownedShard, WaitingHead, Walked,
};
pub use audit_log::{AuditActor, AuditChains, AuditFilter, AuditLog, ChainOwner, Checked, check_chain};
pub use backfill::{
    BackfillChunk, BackfillCursor, BackfillEvent, BackfillEvents, BackfillSelection, BackfillWalk,
    Backfilled, Backfills, OpenBackfill,
};
pub use backlog::{AccountBacklog, BacklogCap, Backlogs};
pub use catalog::{AccountChanges, Catalog, DestinationRecord, Page};
pub use chores::{Chore, Chores, Term};
pub use dead_letters::{
    DeadLetterGroup, DeadLetters, Dismissal, GroupFilter, GroupKey, Resolution, ResolvedBy,
};
pub use detail::{open_detail, seal_detail, shut_detail};
pub use erasure::{Erased, Erasure, ErasurePhase, ErasureStep, Erasures};
pub use error::{BoxError, StoreError};
pub use expand::{Chunk, Expansion, Expansions, RoutePage, RouteWalk};
pub use feed::{
    FactAttempt, FactRecord, Feed, FeedChange, FeedEntry, FeedPage, FeedPlace, FeedStamp, Followed,
    Resumption,
};
pub use gates::{GateWord, Gates, HoldKey, KeptGate};
pub use history::{
    AttemptRecord, DeliveryFilter, DeliveryRecord, DeliveryState, EventFilter, EventRecord, FanoutCounts,
    History, Listed, SuccessRate,
};
pub use ingest::{Committed, IdempotencyKey, Ingest, NewDelivery, NewEvent};
pub use lane_rollups::{LanePlace, LaneRollup, LaneRollups};
pub use lanes::{LaneRow, PublishedLanes};
pub use membership::{Member, Membership, NodeRecord, OwnedShard, Renewed, Roster, RosterStamp, ShardRow};
pub use migrations::SEALED_EVENTS_VERSION;
pub use open::{OpenError, OpenOptions, open};
pub use operational_events::{OperationalEvents, UntoldNote};
pub use payload::{KeptPayload, PayloadPieces, PayloadSize};
pub use portal_links::{HeldPortalLink, ListedPortalLink, Maker, PortalLinks};
pub use prepared::PreparedEvent;
pub use queue::{
    Consequence, DueDelivery, Fact, FetchedDelivery, LaneHead, Queue, Settlement, TrackHead, Window,
};
pub use read_only::{
    Extent, FoundTables, KeptCertificate, MissingRight, ReadOnlyStore, SchemaVersion, UnsafeSetting,
    open_read_only,
};
pub use refused_requests::RefusedRequests;
pub use replay::{
    CreatedReplay, NewReplay, OpenReplay, Original, OriginalWalk, Originals, Replay, ReplayChunk, ReplayHold,
    ReplayKey, ReplayStatus, ReplaySwitch, Replayed, Replays, SelectedDeliveries, Selection, Survey,
};
pub use retention::{EventWalk, FIRST_REPLAY, FactWalk, Pruned, ReplayPlace, ReplayWalk, Retention};
pub use rollup::{
    EventCount, FreshSums, Rollup, RollupKind, RollupMark, Rollups, SumPlace, Summed, SummedTail,
};
pub use sealed_event::{SealedEvent, StoredEvent};
pub use seals::{
    DataKeyChange, KeptDataKey, KeptSeals, ResealedRow, SealedRow, SealedRowId, Seals, SettingChange,
};
pub use sessions::{HeldSession, NewSession, SessionOf, Sessions};
pub use test_sends::{AskedTest, TestAnswer, TestProgress, TestSends};
pub use wakes::{News, Wake, Wakes};

/// Everything a store does.
pub trait Store:
    Catalog
    + Ingest
    + Expansions
    + Replays
    + Backfills
    + Queue
    + Gates
    + History
    + DeadLetters
    + Feed
    + Retention
    + Erasures
    + Rollups
    + LaneRollups
    + Backlogs
    + Membership
    + Chores
    + PublishedLanes
    + TestSends
    + AuditLog
    + OperationalEvents
    + Sessions
    + PortalLinks
    + Seals
    + RefusedRequests
    + Wakes
{
}

impl<T> Store for T where
    T: Catalog
        + Ingest
        + Expansions
        + Replays
        + Backfills
        + Queue
        + Gates
        + History
        + DeadLetters
        + Feed
        + Retention
        + Erasures
        + Rollups
        + LaneRollups
        + Backlogs
        + Membership
        + Chores
        + PublishedLanes
        + TestSends
        + AuditLog
        + OperationalEvents
        + Sessions
        + PortalLinks
        + Seals
        + RefusedRequests
        + Wakes
{
}
