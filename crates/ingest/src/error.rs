//! Why an event was not accepted. The texts are for producers; a cause that is meant for the log alone is a field that
//! the text leaves out.

use domain::id::{AccountId, EventId};
use std::sync::Arc;
use store::StoreError;

#[derive(Debug, Clone, thiserror::Error)]
pub enum IngestError {
    /// The queue before the committer is full, or slow.
    #[error("too many events wait to be stored: send it again in a moment")]
    Overloaded,
    /// Every thread for matching that takes long has been busy for too long.
    #[error(
        "too many events with large payloads or many routes are being matched: send it again in a moment"
    )]
    MatchersBusy,
    #[error("the account's configuration changes faster than events can be matched")]
    StaleTooOften,
    /// The committer takes nothing more in.
    #[error("this node is stopping: send it again in a moment")]
    Stopping,
    /// It matches more than an event may match.
    #[error("the event matches more than {most} {of}")]
    FanoutTooLarge { most: usize, of: &'static str },
    /// The idempotency key was used for another event.
    #[error("the key was used for {of}, with another body or type")]
    KeyConflict { of: EventId },
    #[error("no such account")]
    NoAccount(AccountId),
    /// The store cannot hold this one event, and says why.
    #[error("the event cannot be stored")]
    Refused(String),
    /// It may be durable or not: the committer has not answered, or its first try may still be running.
    #[error("the event was not confirmed: send it again, with the same idempotency key")]
    Unconfirmed,
    /// Shared by all whose flush it was.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// What must not happen did.
    #[error("a bug: {0}")]
    Bug(String),
}

impl From<StoreError> for IngestError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}
