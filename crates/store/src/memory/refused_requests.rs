//! Requests that sources did not believe.

use super::{MemoryStore, Tables};
use crate::{RefusedRequests, StoreError};
use async_trait::async_trait;
use domain::{
    id::{AccountId, SourceId},
    limits,
    refused_request::RefusedRequest,
};

#[async_trait]
impl RefusedRequests for MemoryStore {
    async fn keep_refused(&self, request: &RefusedRequest) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if tables.sources.get(request.account_id, request.source_id).is_err() {
            return Ok(());
        }
        let key = (request.source_id, request.at);
        tables.refused_requests.entry(key).or_insert_with(|| request.clone());
        let own = tables.refused_requests.keys().rev().filter(|(source, _)| *source == request.source_id);
        let old: Vec<_> = own.skip(limits::REFUSED_KEPT).copied().collect();
        for key in old {
            tables.refused_requests.remove(&key);
        }
        Ok(())
    }

    async fn refused_requests(
        &self,
        account: AccountId,
        source: SourceId,
    ) -> Result<Vec<RefusedRequest>, StoreError> {
        let tables = self.tables();
        let kept = tables.refused_requests.values().rev();
        Ok(kept.filter(|kept| (kept.account_id, kept.source_id) == (account, source)).cloned().collect())
    }
}

impl Tables {
    pub(super) fn forget_refused(&mut self, source: SourceId) {
        self.refused_requests.retain(|(of, _), _| *of != source);
    }
}
