//! Few errors, each with a decision behind it.

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// 404: no such row, or not this account's.
    #[error("no such {what}")]
    NotFound { what: &'static str },
    /// 409: a unique name is taken. `constraint` is a word such as `uid`.
    #[error("{constraint} is taken")]
    Taken { constraint: &'static str },
    /// 409: the account has as many of these as it may. `what` is a word such as `destinations`.
    #[error("no room for more {what}")]
    Full { what: &'static str },
    /// 409: what is to be erased is still to be sent.
    #[error("the payload is still to be sent")]
    PayloadInUse,
    /// 410: the payload was erased, and the event without it is all there is.
    #[error("the payload was erased")]
    PayloadErased,
    /// The row has changed since it was read: read it again and decide again (412 if the caller named a version).
    #[error("changed meanwhile")]
    Changed,
    /// 503, and certainly nothing was written: the database is away, full or busy. Trying again is safe.
    #[error("the store is unavailable: {0}")]
    Unavailable(#[source] BoxError),
    /// 503, and it is not known whether it was written: the connection broke during the commit.
    #[error("the outcome is unknown: {0}")]
    OutcomeUnknown(#[source] BoxError),
    /// A single row the database will not take, whatever we do (too large, impossible value). Said of writes only.
    #[error("refused by the store: {0}")]
    Refused(#[source] BoxError),
    /// The store can no longer be trusted (a failed flush, a damaged file): the process must not go on writing.
    #[error("the store has failed: {0}")]
    Failed(#[source] BoxError),
    /// What is stored is not what was accepted: a payload whose checksum does not fit. Reading it again will not help.
    #[error("the stored payload is not what was accepted")]
    Altered,
    /// 503: something in a row does not read: damaged by hand, or written by a newer version. Reading it again will not
    /// help. Said of reads only.
    #[error("what is stored does not read: {0}")]
    Unreadable(#[source] BoxError),
    /// This node's row is gone: others own its lanes.
    #[error("this node has been declared dead and replaced")]
    NodeLost,
}
