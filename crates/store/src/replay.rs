//! Replays: ended deliveries that a person asks to have again. Each becomes a new delivery that points to the first of
//! its chain; what has ended stays as it is.
//!
//! A replay is about what had ended when it was made, by a filter or by ids. One node at a time holds it and walks the
//! originals by id, oldest first, in chunks: a chunk is written with the cursor that follows it, guarded by the cursor
//! before it and by the hold. However often a chunk is tried, one replay makes one delivery of one origin.

pub use domain::replay::ReplayStatus;

use crate::{BackfillSelection, DeliveryFilter, Listed, NewDelivery, OpenBackfill, Page, StoreError};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    destination::Numbering,
    id::{AccountId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RouteId},
    limits,
    session::Holder,
    time::Timestamp,
};
use std::time::Duration;

#[async_trait]
pub trait Replays: Send + Sync {
    /// Makes a replay and, where it is of one delivery, that delivery with it; flushed. Where its key was used before,
    /// nothing is written and the first one is given. [`StoreError::NotFound`] `event` if the one delivery's event has
    /// had its time, [`StoreError::PayloadErased`] if its payload was erased, and [`StoreError::Full`] if the account has [`domain::limits::REPLAYS_PER_ACCOUNT`] that have not
    /// ended: then nothing is written either. The entry is written down with a new one only.
    async fn create_replay(&self, new: &NewReplay, audit: &AuditEntry) -> Result<CreatedReplay, StoreError>;
    async fn replay(&self, account: AccountId, id: ReplayId) -> Result<Replay, StoreError>;
    /// Newest first.
    async fn replays(
        &self,
        account: AccountId,
        page: Page<ReplayId>,
    ) -> Result<Listed<Replay, ReplayId>, StoreError>;
    /// Pauses, resumes or cancels one that has not ended; one that has stays as it is. Gives it as it is right
    /// after that, whatever others make of it next. After a pause or a cancel no delivery is made any more. The
    /// entry is written down unless it had ended.
    async fn switch_replay(
        &self,
        account: AccountId,
        id: ReplayId,
        to: ReplaySwitch,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Replay, StoreError>;
    /// The delivery that a replay has made of an origin.
    async fn replayed(
        &self,
        account: AccountId,
        id: ReplayId,
        origin: DeliveryId,
    ) -> Result<Option<DeliveryId>, StoreError>;

    /// What a replay that is made at `as_of` will match, having looked at `limit` entries at most. Ids are all looked
    /// for.
    async fn survey(
        &self,
        account: AccountId,
        selection: &Selection,
        as_of: Timestamp,
        limit: usize,
    ) -> Result<Survey, StoreError>;

    /// Those that run, oldest first.
    async fn open_replays(&self, limit: usize) -> Result<Vec<OpenReplay>, StoreError>;
    /// Takes one that runs, if it is still held as it was seen. None: it is not.
    async fn hold_replay(&self, hold: &ReplayHold) -> Result<Option<OpenReplay>, StoreError>;
    /// The next originals, oldest first, having looked at no more than [`domain::limits::PAGE_SCAN`] entries.
    async fn originals(&self, walk: &OriginalWalk) -> Result<Originals, StoreError>;
    /// Writes a chunk's deliveries and moves the cursor, in one transaction, only if the replay runs, is held by this
    /// node and its cursor stands where the chunk begins: None otherwise, and nothing is written. An origin of which this
    /// replay has made a delivery already, or whose event has had its time or its payload, is skipped. With the last chunk, so is what
    /// was counted when the replay was made and was found no more. Gives how many were made.
    async fn write_replay(&self, chunk: &ReplayChunk) -> Result<Option<u32>, StoreError>;
}

/// What is to be replayed.
#[derive(Debug, Clone, PartialEq)]
pub enum Selection {
    /// Of what this matches, whatever has ended.
    Filter(DeliveryFilter),
    Deliveries(SelectedDeliveries),
    /// Not deliveries, but events: a backfill ([`crate::Backfills`]). A survey does not know it.
    Events(BackfillSelection),
}

/// Deliveries by their ids.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SelectedDeliveries {
    /// Sorted, each once.
    pub ids: Vec<DeliveryId>,
    /// As that of a filter: those that are otherwise are counted as skipped.
    pub resolved: Option<bool>,
}

impl From<Vec<DeliveryId>> for SelectedDeliveries {
    /// Settled or not.
    fn from(ids: Vec<DeliveryId>) -> Self {
        Self { ids, resolved: None }
    }
}

#[derive(Debug, Clone)]
pub struct NewReplay {
    pub id: ReplayId,
    pub account_id: AccountId,
    pub selection: Selection,
    /// Deliveries a second.
    pub rate: u32,
    pub matched: u64,
    /// Whether that is all.
    pub matched_exact: bool,
    pub created_by: Holder,
    pub created_at: Timestamp,
    pub key: Option<ReplayKey>,
    /// Of one delivery: made at once, and that is all.
    pub at_once: Option<Replayed>,
}

/// Unique within the account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplayKey {
    /// SHA-256 of the key as given.
    pub hash: [u8; 32],
    /// SHA-256 of what was asked for: the same key with another body is a conflict.
    pub body_hash: [u8; 32],
}

#[derive(Debug, Clone, PartialEq)]
pub enum CreatedReplay {
    New(Replay),
    /// The key was used before.
    Known {
        replay: Replay,
        body_hash: [u8; 32],
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    pub id: ReplayId,
    pub account_id: AccountId,
    /// None: it was given ids, or is a backfill.
    pub filter: Option<DeliveryFilter>,
    /// Of one that was given ids.
    pub resolved: Option<bool>,
    /// Of a backfill.
    pub events: Option<BackfillSelection>,
    pub rate: u32,
    /// How many originals there are: all of them if it is exact, else those that were counted so far.
    pub matched: u64,
    pub matched_exact: bool,
    pub created: u64,
    pub skipped: u64,
    /// What has become of those that were made.
    pub delivered: u64,
    pub dead_letter: u64,
    pub status: ReplayStatus,
    pub created_by: Holder,
    pub created_at: Timestamp,
    pub finished_at: Option<Timestamp>,
}

impl Replay {
    /// What was counted at the start gives way to what the walk has found.
    pub(crate) fn told(mut self) -> Self {
        let walked = self.created + self.skipped;
        if self.status == ReplayStatus::Completed {
            (self.matched, self.matched_exact) = (walked, true);
        }
        if walked > self.matched {
            (self.matched, self.matched_exact) = (walked, false);
        }
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplaySwitch {
    Pause,
    Resume,
    Cancel,
}

impl ReplaySwitch {
    pub const fn status(self) -> ReplayStatus {
        match self {
            Self::Pause => ReplayStatus::Paused,
            Self::Resume => ReplayStatus::Running,
            Self::Cancel => ReplayStatus::Cancelled,
        }
    }
}

/// How many deliveries a selection matches.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Survey {
    pub matched: u64,
    /// False: there may be more than were looked at.
    pub exact: bool,
    /// By destination, in the order of their ids.
    pub by_destination: Vec<(DestinationId, u64)>,
    /// Ids that are no delivery of this account, sorted.
    pub unknown: Vec<DeliveryId>,
}

/// What a replay is about: what was there when it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsOf {
    /// Deliveries made later have this id or a higher one.
    pub(crate) below: DeliveryId,
    pub(crate) ended_by: Timestamp,
}

impl AsOf {
    pub(crate) fn at(time: Timestamp) -> Self {
        let below = DeliveryId::at(time.plus(Duration::from_micros(1)), 0);
        Self { below, ended_by: time.plus(limits::REPLAY_SLACK) }
    }

    pub(crate) fn covers(&self, id: DeliveryId, ended_at: Timestamp) -> bool {
        id < self.below && ended_at <= self.ended_by
    }
}

/// One that runs, as the node that works on it needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenReplay {
    pub id: ReplayId,
    pub account_id: AccountId,
    pub filter: Option<DeliveryFilter>,
    /// Of one that was given ids.
    pub resolved: Option<bool>,
    /// Of a backfill, which has its own cursor.
    pub backfill: Option<OpenBackfill>,
    pub rate: u32,
    /// The last original that is done.
    pub cursor: Option<DeliveryId>,
    /// What was created later, or had not ended, is not matched.
    pub created_at: Timestamp,
    pub held_by: Option<NodeId>,
    pub held_until: Option<Timestamp>,
    /// Whether the node that holds it has a row.
    pub holder_lives: bool,
}

impl OpenReplay {
    /// Whether a node may take it.
    pub fn is_free_for(&self, node: NodeId, now: Timestamp) -> bool {
        self.held_by.is_none_or(|holder| holder == node)
            || !self.holder_lives
            || self.held_until.is_none_or(|until| until <= now)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ReplayHold {
    pub id: ReplayId,
    pub node: NodeId,
    pub until: Timestamp,
    /// As it was seen.
    pub seen_by: Option<NodeId>,
    pub seen_until: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OriginalWalk {
    pub replay: OpenReplay,
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Originals {
    pub rows: Vec<Original>,
    /// Ids that were given and are no ended delivery, or settled otherwise than was asked for.
    pub missing: u32,
    /// The last that was looked at; None: there is nothing behind.
    pub next: Option<DeliveryId>,
}

/// A delivery that has ended, and what a new one takes over from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Original {
    pub id: DeliveryId,
    pub origin: DeliveryId,
    pub event_id: EventId,
    pub route_id: RouteId,
    pub destination_id: DestinationId,
    pub ordering_key: Option<String>,
    /// None: the destination is no longer there.
    pub numbering: Option<Numbering>,
}

/// A delivery to be made of an original.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    pub origin: DeliveryId,
    pub event_id: EventId,
    pub delivery: NewDelivery,
}

/// The next deliveries of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayChunk {
    pub replay_id: ReplayId,
    pub node: NodeId,
    /// The cursor as it was read.
    pub from: Option<DeliveryId>,
    pub to: Option<DeliveryId>,
    pub deliveries: Vec<Replayed>,
    /// Originals of which none is made.
    pub skipped: u32,
    /// There is none left.
    pub done: bool,
    pub now: Timestamp,
    /// It is held until then.
    pub until: Timestamp,
}
