//! Summing up: what happened in a minute, an hour, a day is read from the facts, and written over what was there.
//!
//! Facts are never counted as they are written: that would make rows that every settlement writes, and sums that drift. A span
//! is read some time after its end, the longer ones later, so that what came late is in them. An attempt, and an ending,
//! belong to the minute in which their fact's id was made: at the start of the attempt.
//!
//! Until then a minute is **open**, and what has become durable of it is added up as it comes ([`Rollups::sum_fresh`]): each
//! fact is read once, in the order of commits, whatever its id.

use crate::{StoreError, Term, feed::Snapshot};
use async_trait::async_trait;
use domain::{
    id::{AccountId, DestinationId, EventId},
    rollup::{FanoutSums, Span, Sums},
    time::Timestamp,
};
use std::collections::BTreeMap;

#[async_trait]
pub trait Rollups: Send + Sync {
    /// Sums up the facts of `[from, to)` by account and destination, a step at a time: `at` is where the last one
    /// stopped. Of a minute, facts that were written long after are left to the larger spans.
    async fn sum_facts(
        &self,
        span: Span,
        from: Timestamp,
        to: Timestamp,
        at: Option<i64>,
    ) -> Result<Summed, StoreError>;

    /// Some of the facts of the minutes from `from` on that have become durable since a place, or of all of them without
    /// one: each once on the way to where `more` is false, whoever wrote it and however late. Those of minutes that begin
    /// at `to` or later may be left to a later call. `from` only grows.
    async fn sum_fresh(
        &self,
        from: Timestamp,
        to: Timestamp,
        after: Option<SumPlace>,
    ) -> Result<FreshSums, StoreError>;

    /// Events received in `[from, to)` and the deliveries they were committed with, by account.
    async fn count_events(&self, from: Timestamp, to: Timestamp) -> Result<Vec<EventCount>, StoreError>;

    /// How the fan-outs of the events made in `[from, to)` stand, by account; `limit` events a step, beginning at `at`.
    async fn sum_fanouts(
        &self,
        from: EventId,
        to: Timestamp,
        limit: usize,
    ) -> Result<(Vec<(AccountId, FanoutSums)>, Option<EventId>), StoreError>;

    /// Writes rollups over what was there. False, and nothing is written, once the term is over.
    async fn write_rollups(&self, term: Term, rows: &[Rollup]) -> Result<bool, StoreError>;

    /// Notes that everything before `until` is written. False, and nothing is noted, once the term is over.
    async fn write_mark(&self, term: Term, mark: RollupMark, until: Timestamp) -> Result<bool, StoreError>;

    /// Up to when everything is written; None before the first time.
    async fn mark(&self, mark: RollupMark) -> Result<Option<Timestamp>, StoreError>;

    /// When the oldest event there is was made.
    async fn oldest_event(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Removes rollups that began before then, at most so many. None once the term is over.
    async fn prune_rollups(
        &self,
        term: Term,
        kind: RollupKind,
        before: Timestamp,
        limit: usize,
    ) -> Result<Option<usize>, StoreError>;

    /// Rollups that began in `[from, to)`, oldest first: of a destination, or of the account as a whole.
    async fn rollups(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        kind: RollupKind,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<(Timestamp, String)>, StoreError>;

    /// Rollups of each of these destinations that began in `[from, to)`: in the order asked for, those of one oldest first,
    /// and at most `limit` in all.
    async fn rollups_of_destinations(
        &self,
        account: AccountId,
        destinations: &[DestinationId],
        kind: RollupKind,
        from: Timestamp,
        to: Timestamp,
        limit: usize,
    ) -> Result<Vec<(DestinationId, Timestamp, String)>, StoreError>;

    /// What happened since `from`, having looked at no more than `limit` facts of all accounts, in about the order in which
    /// they were written, and as many events.
    async fn sum_tail(
        &self,
        account: AccountId,
        destination: Option<DestinationId>,
        from: Timestamp,
        limit: usize,
    ) -> Result<SummedTail, StoreError>;

    /// How many deliveries of an account wait: exact up to `limit`, and never more.
    async fn count_waiting(&self, account: AccountId, limit: usize) -> Result<u64, StoreError>;

    /// Since when something has been due: the earliest due time that has come by `now`, of the `limit` oldest deliveries of
    /// an account that wait.
    async fn oldest_due(
        &self,
        account: AccountId,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<Timestamp>, StoreError>;
}

/// What a step has summed up, and where to go on; None at the end.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Summed {
    pub sums: Vec<((AccountId, DestinationId), Sums)>,
    pub next: Option<i64>,
}

/// What has been added to minutes, and where to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct FreshSums {
    pub sums: Vec<((Timestamp, AccountId, DestinationId), Sums)>,
    pub place: SumPlace,
    /// There is more that was durable already.
    pub more: bool,
}

/// Which facts have been added up. Good for the process that has it, and no longer.
#[derive(Debug, Clone, PartialEq)]
pub struct SumPlace(pub(crate) SumProgress);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SumProgress {
    /// One process writes: all rows before this one.
    Row(i64),
    /// Many do: of each minute what a snapshot of the database shows; and the minute that is looked at next.
    Snapshots { seen: BTreeMap<Timestamp, Snapshot>, next: Option<Timestamp> },
    /// These, one by one.
    #[cfg(feature = "memory")]
    Facts(std::collections::BTreeSet<domain::id::AttemptId>),
}

impl SumProgress {
    pub(crate) fn foreign() -> StoreError {
        StoreError::Refused("a place of another store".into())
    }
}

/// What has happened since a moment, as far as it was looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SummedTail {
    pub sums: Sums,
    /// None if that is all. Else there may be more, and this is when the last that was looked at began.
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EventCount {
    pub account_id: AccountId,
    pub events: u64,
    pub deliveries: u64,
}

/// What rollups there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RollupKind {
    /// [`Sums`] of a span.
    Sums(Span),
    /// [`FanoutSums`] of a minute, or an hour.
    Fanout(Span),
}

impl RollupKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sums(span) => span.as_str(),
            Self::Fanout(Span::Minute) => "fanout_minute",
            Self::Fanout(_) => "fanout_hour",
        }
    }
}

/// How far summing up has come, by what is summed up and how long after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RollupMark {
    Sums(Span),
    /// What was durable by then is in the minutes that are still open: in those of accounts, and in those of destinations.
    OpenAccounts,
    OpenDestinations,
    FanoutMinute,
    /// So many hours after its end: fan-outs go on for days.
    FanoutHour(u8),
    /// Hours and days of lanes.
    Lanes(Span),
}

impl RollupMark {
    pub fn name(self) -> String {
        match self {
            Self::Sums(span) => span.as_str().into(),
            Self::OpenAccounts => "open_accounts".into(),
            Self::OpenDestinations => "open_destinations".into(),
            Self::FanoutMinute => "fanout_minute".into(),
            Self::FanoutHour(hours) => format!("fanout_hour_{hours}"),
            Self::Lanes(span) => format!("lane_{}", span.as_str()),
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Rollup {
    pub account_id: AccountId,
    /// None: the account as a whole.
    pub destination_id: Option<DestinationId>,
    pub kind: RollupKind,
    pub starts_at: Timestamp,
    /// [`Sums`] or [`FanoutSums`], as JSON.
    pub doc: String,
}

impl Rollup {
    /// As it is stored: the account as a whole has the id that was never made.
    pub(crate) fn place(&self) -> DestinationId {
        self.destination_id.unwrap_or(DestinationId::MIN)
    }
}

/// How the fan-out of one event stands.
pub(crate) struct Fanned {
    /// None while they are being made.
    pub(crate) deliveries: Option<u32>,
    pub(crate) received_at: Timestamp,
    pub(crate) waits: bool,
    pub(crate) delivered: u32,
    pub(crate) not_delivered: u32,
    pub(crate) last_at: Option<Timestamp>,
}

impl Fanned {
    pub(crate) fn add_to(&self, sums: &mut FanoutSums) {
        if self.deliveries == Some(0) {
            return; // no route matched it
        }
        sums.events += 1;
        let ended = self.delivered + self.not_delivered;
        if self.waits || self.deliveries.is_none_or(|made| ended < made) {
            return;
        }
        sums.complete += 1;
        sums.partial += u64::from(self.delivered > 0 && self.not_delivered > 0);
        if let Some(last) = self.last_at {
            sums.lag.note(last.since(self.received_at), 1);
        }
    }
}
