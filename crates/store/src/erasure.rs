//! Erasing: all that was an account's, or the payload of one event.
//!
//! An account is deleted at once, in one transaction: from then on it is none for every method that is given it, its keys
//! are revoked, its destinations are as good as deleted, and its replays have ended. What it had is erased afterwards, in
//! small steps under a [`Term`]. A step removes what it finds, so nothing has to remember how far the last one came: it is
//! gone. What was under way when the account was deleted may land later; so the steps are done again until they find
//! nothing, and not for the last time before [`limits::ERASURE_QUIET`] is over. What may come even later is refused where
//! it is written: facts of deliveries that are gone, sums, gates and holds.
//!
//! What stays: the account's row with its id and nothing else, its erasure, and its audit log.

use crate::{StoreError, Term, detail};
use async_trait::async_trait;
use domain::{
    account::Account,
    attempt::Detail,
    audit::AuditEntry,
    id::{AccountId, DeliveryId, EventId},
    seal::Sealed,
    time::Timestamp,
};

pub use domain::erasure::ErasurePhase;

#[async_trait]
pub trait Erasures: Send + Sync {
    /// Deletes an account, and gives how far it is erased. One that was deleted before stays as it is and leaves no entry.
    /// Its uid is free at once. It takes the account's next version, so that what was matched for it is matched again, and
    /// finds none.
    async fn delete_account(
        &self,
        id: AccountId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Erasure, StoreError>;

    /// How far an account is erased. [`StoreError::NotFound`] for one that lives, as for one that never was.
    async fn erasure(&self, id: AccountId) -> Result<Erasure, StoreError>;

    /// Those that have not ended, in the order of their accounts.
    async fn open_erasures(&self, limit: usize) -> Result<Vec<Erasure>, StoreError>;

    /// Removes some of what there is of a phase. None, and nothing is removed, once the term is over, or if the account
    /// lives or its erasure has ended.
    async fn erase(&self, term: Term, step: &ErasureStep) -> Result<Option<Erased>, StoreError>;

    /// There is nothing left. False, and nothing is written, once the term is over.
    async fn end_erasure(&self, term: Term, id: AccountId, now: Timestamp) -> Result<bool, StoreError>;

    /// Erases the payload and the headers of an event, if nothing of it waits or is yet to be made: else
    /// [`StoreError::PayloadInUse`], and nothing is written. A replay at the same moment either comes first, and then it
    /// is in use, or finds it erased. Once erased, it stays as it is and leaves no entry.
    async fn erase_payload(
        &self,
        account: AccountId,
        id: EventId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError>;

    /// Erases what is kept of the answers to some deliveries of an event whose payload was erased, and of the headers that
    /// went with it: those behind `after`, in order, at most `deliveries` of them. Gives the last one; None: there is none
    /// behind. Can be run again.
    async fn erase_answers(
        &self,
        id: EventId,
        after: Option<DeliveryId>,
        deliveries: usize,
    ) -> Result<Option<DeliveryId>, StoreError>;

    /// Events whose payload was erased before then, and whose answers are to be looked through once more.
    async fn payload_erasures(&self, before: Timestamp, limit: usize) -> Result<Vec<EventId>, StoreError>;

    /// They have been.
    async fn end_payload_erasure(&self, id: EventId) -> Result<(), StoreError>;
}

/// An account that was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erasure {
    pub account_id: AccountId,
    /// Of the account, as it was left.
    pub version: i64,
    pub requested_at: Timestamp,
    /// What is being erased, or was last.
    pub phase: ErasurePhase,
    /// So far, of whatever table.
    pub erased_rows: u64,
    pub finished_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasureStep {
    pub account_id: AccountId,
    pub phase: ErasurePhase,
    /// Where the last step stopped, if it said so; else 0.
    pub from: i64,
    /// To remove at most, but for what belongs to one delivery.
    pub rows: usize,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Erased {
    pub rows: usize,
    /// Where to go on with the phase; None: nothing is left of it.
    pub next: Option<i64>,
}

impl Erased {
    /// As long as something was found there may be more.
    pub(crate) fn found(rows: usize) -> Self {
        Self { rows, next: (rows > 0).then_some(0) }
    }
}

/// What is left of an account: what it was called, how it was set and the key of its secrets are gone. Written as an
/// account that nodes of the version before can read.
pub(crate) fn tombstone(id: AccountId, now: Timestamp) -> Account {
    Account { updated_at: now, ..Account::new(id, "", Sealed::default(), id.made_at()) }
}

/// What is left of an attempt's detail, if there is something to be erased. The request's headers may be the event's, and
/// what does not read may hold anything.
pub(crate) fn without_answer(detail: Detail) -> Option<Detail> {
    let has_any = detail.sealed.is_some()
        || detail.response.is_some()
        || !detail.request_headers.is_empty()
        || detail::is_unreadable(&detail);
    has_any.then(|| Detail { response: None, request_headers: Vec::new(), sealed: None, ..detail })
}
