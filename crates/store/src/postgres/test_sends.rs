//! Tests that are asked for on one node and made by another.

use super::{
    PostgresStore,
    statement::{Statement, params, sql},
};
use crate::{AskedTest, StoreError, TestAnswer, TestProgress, TestSends, test_sends::text};
use async_trait::async_trait;
use domain::{id::DeliveryId, time::Timestamp};
use std::sync::LazyLock;
use uuid::Uuid;

static ASK_TEST: LazyLock<Statement> =
    sql!("ask_test": "insert into test_sends (id, shard, doc, asked_at) values (:id, :shard, :doc, :now)");
static TAKE_TESTS: LazyLock<Statement> = sql!("take_tests");
static ANSWER_TEST: LazyLock<Statement> =
    sql!("answer_test": "update test_sends set answer = :answer where id = :id");
static TEST_PROGRESS: LazyLock<Statement> = sql!("test_progress");
static FORGET_TEST: LazyLock<Statement> = sql!("forget_test": "delete from test_sends where id = :id");
static FORGET_TESTS_BEFORE: LazyLock<Statement> =
    sql!("forget_tests_before": "delete from test_sends where asked_at < :before");

#[async_trait]
impl TestSends for PostgresStore {
    async fn ask_test(&self, test: &AskedTest, now: Timestamp) -> Result<(), StoreError> {
        let doc = text(test)?;
        let params = params![
            id: test.id.uuid() => UUID, shard: test.destination_id.shard() as i16 => INT2, doc: doc => TEXT,
            now: now.micros() => INT8,
        ];
        self.pools.general().await?.write(&ASK_TEST, params).await?;
        Ok(())
    }

    async fn take_tests(&self, shards: &[u16], limit: usize) -> Result<Vec<AskedTest>, StoreError> {
        let shards: Vec<i16> = shards.iter().map(|shard| *shard as i16).collect();
        let params = params![shards: shards => INT2_ARRAY, max: limit as i64 => INT8];
        let rows = self.pools.nodes().await?.write(&TAKE_TESTS, params).await?;
        // A newer version's words are none.
        let read = |doc: String| serde_json::from_str(&doc).ok();
        let mut taken: Vec<AskedTest> = rows.column("doc")?.into_iter().filter_map(read).collect();
        taken.sort_by_key(|test| test.id);
        Ok(taken)
    }

    async fn answer_test(&self, id: DeliveryId, answer: &TestAnswer) -> Result<(), StoreError> {
        let params = params![id: id.uuid() => UUID, answer: text(answer)? => TEXT];
        self.pools.nodes().await?.write(&ANSWER_TEST, params).await?;
        Ok(())
    }

    async fn tests(&self, ids: &[DeliveryId]) -> Result<Vec<Option<TestProgress>>, StoreError> {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
        let rows = self.pools.nodes().await?.read(&TEST_PROGRESS, params![ids: ids => UUID_ARRAY]).await?;
        Ok(rows.all(|cells| {
            let (taken, answer): (Option<bool>, Option<&str>) = (cells.get("taken")?, cells.get("answer")?);
            Ok(taken.map(|taken| TestProgress::read(taken, answer)))
        })?)
    }

    async fn forget_test(&self, id: DeliveryId) -> Result<(), StoreError> {
        self.pools.general().await?.write(&FORGET_TEST, params![id: id.uuid() => UUID]).await?;
        Ok(())
    }

    async fn forget_tests_before(&self, before: Timestamp) -> Result<(), StoreError> {
        let params = params![before: before.micros() => INT8];
        self.pools.nodes().await?.write(&FORGET_TESTS_BEFORE, params).await?;
        Ok(())
    }
}
