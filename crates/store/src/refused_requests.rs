//! Requests that sources did not believe: the last few of each that is told to keep them.

use crate::StoreError;
use async_trait::async_trait;
use domain::{
    id::{AccountId, SourceId},
    refused_request::RefusedRequest,
};

#[async_trait]
pub trait RefusedRequests: Send + Sync {
    /// Keeps it, and of its source the newest [`domain::limits::REFUSED_KEPT`] in all. Of a source that is not there, or is
    /// another account's, nothing is kept; they go with their source, and when it is told to keep none any more.
    async fn keep_refused(&self, request: &RefusedRequest) -> Result<(), StoreError>;

    /// Newest first; none of a source that is not there.
    async fn refused_requests(
        &self,
        account: AccountId,
        source: SourceId,
    ) -> Result<Vec<RefusedRequest>, StoreError>;
}
