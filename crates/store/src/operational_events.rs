//! What is to be told, from when it happens until it is an event: notes, each written in the transaction of what it
//! tells of, and deleted when its event is durable.
//!
//! Notes are made only for accounts that are told: those that have had a route for operational events, and the
//! operator's for all. What becomes of a note is decided by its id: whoever makes an event of it uses the id as the
//! idempotency key, so that a node that dies before it has deleted the note makes no second event of it.

use crate::StoreError;
use async_trait::async_trait;
use domain::{
    id::{AccountId, EventId},
    operations::OperationalNote,
    time::Timestamp,
};
use serde_json::{Map, Value};

#[async_trait]
pub trait OperationalEvents: Send + Sync {
    /// From now on this account is told of all accounts, and no other is.
    async fn set_operations_account(&self, account: Option<AccountId>) -> Result<(), StoreError>;

    /// Writes a note for every account that is told; once, however often.
    async fn note_operational(&self, note: &OperationalNote) -> Result<(), StoreError>;

    /// Makes notes of the dead letters of minutes that began before then, of at most `limit` destinations and minutes, and
    /// counts them no more, in one transaction. Says of how many. What is settled later for such a minute makes a note of
    /// its own; `chance` tells the two apart.
    async fn sum_up_dead_letters(
        &self,
        before: Timestamp,
        limit: usize,
        chance: u128,
    ) -> Result<usize, StoreError>;

    /// Notes, the oldest first, of all accounts but these.
    async fn untold(&self, passed_over: &[AccountId], limit: usize) -> Result<Vec<UntoldNote>, StoreError>;

    /// Its event is durable: the note is deleted.
    async fn forget_note(&self, told: AccountId, id: EventId) -> Result<(), StoreError>;

    /// Forgets notes from before then, at most `limit`; says how many.
    async fn prune_notes(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError>;

    /// Waits until this process has written a note since it was last asked. One may wait at a time.
    async fn note_written(&self);
}

/// A note as one account is to be told it.
#[derive(Debug, Clone, PartialEq)]
pub struct UntoldNote {
    /// Whose event it becomes.
    pub told: AccountId,
    pub note: OperationalNote,
}

pub(crate) fn data_text(note: &OperationalNote) -> String {
    serde_json::to_string(&note.data).expect("texts and numbers are always JSON")
}

/// What does not read was written by hand, and says nothing.
pub(crate) fn data_of(text: &str) -> Map<String, Value> {
    serde_json::from_str(text).unwrap_or_default()
}
