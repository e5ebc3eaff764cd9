//! Requests that sources did not believe.

use super::{
    PostgresStore,
    rows::Doc,
    statement::{Statement, params, sql},
};
use crate::{RefusedRequests, StoreError};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    id::{AccountId, SourceId},
    limits,
    refused_request::RefusedRequest,
};
use std::sync::LazyLock;

static KEEP_REFUSED: LazyLock<Statement> = sql!("keep_refused");
static PRUNE_REFUSED: LazyLock<Statement> = sql!("prune_refused");
static REFUSED_REQUESTS: LazyLock<Statement> = sql!("refused_requests");

#[async_trait]
impl RefusedRequests for PostgresStore {
    async fn keep_refused(&self, request: &RefusedRequest) -> Result<(), StoreError> {
        let doc = serde_json::to_string(request).map_err(|error| StoreError::Refused(error.into()))?;
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let kept = async {
            let params = params![
                source_id: request.source_id.uuid() => UUID, account_id: request.account_id.uuid() => UUID,
                at: request.at.micros() => INT8, doc: doc => TEXT, body: &request.body[..] => BYTEA,
            ];
            transaction.run(&KEEP_REFUSED, params).await?;
            let params = params![
                source_id: request.source_id.uuid() => UUID, kept: limits::REFUSED_KEPT as i64 => INT8,
            ];
            transaction.run(&PRUNE_REFUSED, params).await?;
            Ok(())
        };
        let kept = kept.await;
        transaction.end(kept).await
    }

    async fn refused_requests(
        &self,
        account: AccountId,
        source: SourceId,
    ) -> Result<Vec<RefusedRequest>, StoreError> {
        let params = params![source_id: source.uuid() => UUID, account_id: account.uuid() => UUID];
        let connection = self.pools.general().await?;
        let found = connection.read(&REFUSED_REQUESTS, params).await?;
        Ok(found.all(|cells| {
            let Doc(request) = cells.get("doc")?;
            let request: RefusedRequest = request;
            let body: &[u8] = cells.get("body")?;
            Ok(RefusedRequest {
                source_id: source,
                account_id: account,
                at: cells.get("at")?,
                body: Bytes::copy_from_slice(body),
                ..request
            })
        })?)
    }
}
