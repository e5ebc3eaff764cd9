//! Requests that sources did not believe.

use super::{
    SqliteStore,
    statement::{bound, sql},
    writer::Priority,
};
use crate::{RefusedRequests, StoreError};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    id::{AccountId, SourceId},
    limits,
    refused_request::RefusedRequest,
};
use rusqlite::Connection;

const KEEP_REFUSED: &str = sql!("keep_refused");
const PRUNE_REFUSED: &str = sql!("prune_refused");
const REFUSED_REQUESTS: &str = sql!("refused_requests");

#[async_trait]
impl RefusedRequests for SqliteStore {
    async fn keep_refused(&self, request: &RefusedRequest) -> Result<(), StoreError> {
        let doc = serde_json::to_string(request).map_err(|error| StoreError::Refused(error.into()))?;
        let request = request.clone();
        self.write(Priority::Api, move |connection| {
            bound!(
                KEEP_REFUSED,
                source_id: request.source_id,
                account_id: request.account_id,
                at: request.at,
                doc: doc,
                body: request.body[..],
            )
            .execute(connection)?;
            bound!(PRUNE_REFUSED, source_id: request.source_id, kept: limits::REFUSED_KEPT)
                .execute(connection)?;
            Ok(())
        })
        .await
    }

    async fn refused_requests(
        &self,
        account: AccountId,
        source: SourceId,
    ) -> Result<Vec<RefusedRequest>, StoreError> {
        self.read(move |connection| {
            bound!(REFUSED_REQUESTS, source_id: source, account_id: account).all(connection, |columns| {
                let at = columns.time()?;
                let request: RefusedRequest = columns.document("refused request")?;
                let body = Bytes::copy_from_slice(columns.blob()?);
                Ok(RefusedRequest { source_id: source, account_id: account, at, body, ..request })
            })
        })
        .await
    }
}

/// All of a source.
pub(super) fn forget(connection: &Connection, source: SourceId) -> rusqlite::Result<usize> {
    bound!("delete from refused_requests where source_id = :source_id", source_id: source).execute(connection)
}
