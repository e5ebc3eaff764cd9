//! What is sealed, for those who seal it anew: the data keys of accounts, which a master key wraps, the values that are
//! sealed by a data key, and the settings of the installation. What a key is and how it seals is [`domain::seal`]'s to know.
//!
//! Whatever is replaced says what it replaces, so that two who do it at once, or one that died and its successor, do each
//! once; and it takes its account's next version as any other change does, so that whoever changes the same row at that
//! moment reads it again and does not bring back what was replaced.

use crate::StoreError;
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    destination::Destination,
    id::{AccountId, DestinationId, EventId, SourceId},
    seal::Sealed,
    source::Source,
    time::Timestamp,
};
use serde::Deserialize;

/// What is looked at, also from outside.
#[async_trait]
pub trait KeptSeals: Send + Sync {
    /// The data keys of accounts that live, in the order of the accounts' ids, behind this one.
    async fn data_keys(&self, after: Option<AccountId>, limit: usize)
    -> Result<Vec<KeptDataKey>, StoreError>;

    /// Settings of the installation whose names begin like this, in the order of their names.
    async fn settings(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
}

#[async_trait]
pub trait Seals: KeptSeals {
    /// Replaces the data keys of accounts, where they are still those that are to be replaced; says of how many. The entry
    /// is the installation's, and is left out where nothing was replaced.
    async fn replace_data_keys(
        &self,
        changes: &[DataKeyChange],
        audit: &AuditEntry,
    ) -> Result<usize, StoreError>;

    /// Replaces or removes settings, if each is still what is to be replaced: false, and nothing is written, otherwise. The
    /// entry is the installation's.
    async fn replace_settings(
        &self,
        changes: &[SettingChange],
        audit: &AuditEntry,
    ) -> Result<bool, StoreError>;

    /// What of an account is sealed by its data keys: its destinations, deleted ones too as long as there is a row, then its
    /// sources; in this order behind the given one, at most `limit`. Fewer: there are no more.
    async fn sealed_rows(
        &self,
        account: AccountId,
        after: Option<SealedRowId>,
        limit: usize,
    ) -> Result<Vec<SealedRow>, StoreError>;

    /// Replaces sealed values in rows of an account, where a row still has the version it was read with; says in how many.
    /// The entry is the account's, and is left out where nothing was replaced.
    async fn reseal_rows(
        &self,
        account: AccountId,
        rows: &[ResealedRow],
        audit: &AuditEntry,
    ) -> Result<usize, StoreError>;

    /// The oldest event of an account, if it has any: nothing that is kept of its payloads and answers is older.
    async fn oldest_event_of(&self, account: AccountId) -> Result<Option<EventId>, StoreError>;
}

/// The data keys of an account, wrapped; None: its document does not read.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptDataKey {
    pub account_id: AccountId,
    pub data_key: Option<Sealed>,
    /// Payloads and answers may be sealed by them too: it has had that encrypted, now or once.
    pub seals_events: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DataKeyChange {
    pub account_id: AccountId,
    pub from: Sealed,
    pub to: Sealed,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SettingChange {
    pub name: String,
    pub from: Vec<u8>,
    /// None: it is removed.
    pub to: Option<Vec<u8>>,
}

/// In this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SealedRowId {
    Destination(DestinationId),
    Source(SourceId),
}

#[derive(Debug, Clone, PartialEq)]
pub struct SealedRow {
    pub id: SealedRowId,
    pub version: i64,
    /// Each with its place; None: the document does not read.
    pub sealed: Option<Vec<(String, Sealed)>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ResealedRow {
    pub id: SealedRowId,
    pub version: i64,
    /// From, to.
    pub replaced: Vec<(Sealed, Sealed)>,
}

impl DataKeyChange {
    /// What stands in the account's document, and what is to stand there. A text in a document has its quotes escaped, so
    /// nothing else in one reads like this.
    pub(crate) fn texts(&self) -> Result<(String, String), StoreError> {
        let member = |sealed| Ok::<_, StoreError>(format!("\"data_key\":{}", json(sealed)?));
        Ok((member(&self.from)?, member(&self.to)?))
    }
}

impl KeptDataKey {
    pub(crate) fn of_document(account_id: AccountId, doc: &str) -> Self {
        #[derive(Deserialize)]
        struct WithDataKey {
            data_key: Sealed,
            #[serde(default)]
            payloads_encrypted_at: Option<Timestamp>,
        }
        let found = serde_json::from_str::<WithDataKey>(doc).ok();
        let seals_events = found.as_ref().is_some_and(|found| found.payloads_encrypted_at.is_some());
        Self { account_id, data_key: found.map(|found| found.data_key), seals_events }
    }
}

/// The data key that seals the account's payloads, wrapped; None: they are not encrypted. A document that does not read and
/// may say so is no reason to keep them readable.
pub(crate) fn sealing_of(doc: &str) -> Result<Option<Sealed>, StoreError> {
    #[derive(Deserialize)]
    struct Sealing {
        #[serde(default)]
        encrypt_payloads: bool,
        data_key: Sealed,
    }
    match serde_json::from_str::<Sealing>(doc) {
        Ok(Sealing { encrypt_payloads, data_key }) => Ok(encrypt_payloads.then_some(data_key)),
        Err(error) if doc.contains("encrypt_payloads") => Err(StoreError::Unreadable(error.into())),
        Err(_) => Ok(None),
    }
}

impl SealedRow {
    pub(crate) fn of_destination(id: DestinationId, version: i64, doc: &str) -> Self {
        let read = serde_json::from_str::<Destination>(doc).ok();
        let sealed = read.map(|mut destination| collected(destination.sealed_mut()));
        Self { id: SealedRowId::Destination(id), version, sealed }
    }

    pub(crate) fn of_source(id: SourceId, version: i64, doc: &str) -> Self {
        let read = serde_json::from_str::<Source>(doc).ok();
        let sealed = read.map(|mut source| collected(source.sealed_mut()));
        Self { id: SealedRowId::Source(id), version, sealed }
    }
}

/// Nothing is sealed where nothing is.
pub(crate) fn collected(sealed: Vec<(String, &mut Sealed)>) -> Vec<(String, Sealed)> {
    let is_any = |(_, sealed): &(String, &mut Sealed)| !sealed.0.is_empty();
    sealed.into_iter().filter(is_any).map(|(place, sealed)| (place, sealed.clone())).collect()
}

impl ResealedRow {
    /// The document with what is replaced, and all else as it was, also what only another version reads. A sealed value is
    /// as good as random: it stands nowhere else.
    pub(crate) fn in_document(&self, mut doc: String) -> Result<String, StoreError> {
        for (from, to) in &self.replaced {
            doc = doc.replace(&json(from)?, &json(to)?);
        }
        Ok(doc)
    }
}

fn json(sealed: &Sealed) -> Result<String, StoreError> {
    serde_json::to_string(sealed).map_err(|error| StoreError::Refused(error.into()))
}
