//! Dead letters that are settled: there is nothing left to be done about them. The delivery stays what it is, a dead letter;
//! that it is settled, by whom and when, is said beside it.
//!
//! A replay that is delivered settles its whole chain in its own settlement ([`crate::Queue::settle`]); a person dismisses.

use crate::StoreError;
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    id::{AccountId, ApiKeyId, DeliveryId, DestinationId},
    outcome::{DeadReason, Outcome},
    time::Timestamp,
};

#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Settles those of the account's deliveries that are dead letters and not settled, all in one transaction, flushed, and
    /// says how many these were. The entry is written down with them, with their number as its `count`; where there are
    /// none, nothing is. Can be run again, and then settles nothing: the first word about a dead letter stays, unless a
    /// replay of it is delivered.
    async fn dismiss(&self, dismissal: &Dismissal, audit: &AuditEntry) -> Result<u32, StoreError>;

    /// Dead letters that are not settled, by destination, reason, HTTP status and outcome of the last attempt, in this order,
    /// behind the given one; at most `limit`. They are counted as they come and go, so this costs the same however many
    /// there are.
    async fn dead_letter_groups(
        &self,
        account: AccountId,
        filter: GroupFilter,
        after: Option<GroupKey>,
        limit: usize,
    ) -> Result<Vec<DeadLetterGroup>, StoreError>;
}

/// Deliveries that a person says are done with.
#[derive(Debug, Clone, PartialEq)]
pub struct Dismissal {
    pub account_id: AccountId,
    /// No more than [`domain::limits::DISMISS_CHUNK`].
    pub delivery_ids: Vec<DeliveryId>,
    pub key_id: ApiKeyId,
    pub note: Option<String>,
    pub at: Timestamp,
}

/// How a dead letter was settled.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// When the delivery was delivered, or it was dismissed.
    pub at: Timestamp,
    pub by: ResolvedBy,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ResolvedBy {
    /// A delivery of its chain was delivered.
    Delivery(DeliveryId),
    /// A person has dismissed it.
    Dismissal { key_id: ApiKeyId, note: Option<String> },
}

impl ResolvedBy {
    /// As it is kept; none where it was never settled.
    pub(crate) fn read(
        delivered_by: Option<DeliveryId>,
        dismissed_by: Option<ApiKeyId>,
        note: Option<String>,
    ) -> Option<Self> {
        let dismissal = |key_id| Self::Dismissal { key_id, note };
        delivered_by.map(Self::Delivery).or_else(|| dismissed_by.map(dismissal))
    }
}

/// Which groups are wanted; what is None does not narrow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct GroupFilter {
    pub destination_id: Option<DestinationId>,
    /// Counted by whole days: those created on the day of this moment, in UTC, or later.
    pub since: Option<Timestamp>,
}

impl GroupFilter {
    /// The first day that counts, since 1970.
    pub(crate) fn first_day(&self) -> i32 {
        self.since.map_or(i32::MIN, day_of)
    }
}

/// The day of a moment, since 1970.
pub(crate) fn day_of(at: Timestamp) -> i32 {
    const DAY_MICROS: i64 = 86_400_000_000;
    i32::try_from(at.micros().div_euclid(DAY_MICROS)).unwrap_or(i32::MAX)
}

/// What dead letters have in common. Ordered as groups are: reasons and outcomes by their words, none first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupKey {
    pub destination_id: DestinationId,
    pub reason: DeadReason,
    pub http_status: Option<u16>,
    pub outcome: Option<Outcome>,
}

impl GroupKey {
    /// What it is sorted by, and stored as.
    pub(crate) fn sorts(&self) -> (DestinationId, &'static str, u16, &'static str) {
        let outcome = self.outcome.map_or("", Outcome::as_str);
        (self.destination_id, self.reason.as_str(), self.http_status.unwrap_or_default(), outcome)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetterGroup {
    pub key: GroupKey,
    pub count: u64,
    pub oldest: DeliveryId,
    pub newest: DeliveryId,
}
