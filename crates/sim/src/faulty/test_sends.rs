//! Tests of destinations, which no world asks for: passed on without trouble, so that nothing is drawn for them.

use super::FaultyStore;
use async_trait::async_trait;
use domain::{id::DeliveryId, time::Timestamp};
use store::{AskedTest, StoreError, TestAnswer, TestProgress, TestSends};

#[async_trait]
impl TestSends for FaultyStore {
    async fn ask_test(&self, test: &AskedTest, now: Timestamp) -> Result<(), StoreError> {
        self.inner.ask_test(test, now).await
    }

    async fn take_tests(&self, shards: &[u16], limit: usize) -> Result<Vec<AskedTest>, StoreError> {
        self.inner.take_tests(shards, limit).await
    }

    async fn answer_test(&self, id: DeliveryId, answer: &TestAnswer) -> Result<(), StoreError> {
        self.inner.answer_test(id, answer).await
    }

    async fn tests(&self, ids: &[DeliveryId]) -> Result<Vec<Option<TestProgress>>, StoreError> {
        self.inner.tests(ids).await
    }

    async fn forget_test(&self, id: DeliveryId) -> Result<(), StoreError> {
        self.inner.forget_test(id).await
    }

    async fn forget_tests_before(&self, before: Timestamp) -> Result<(), StoreError> {
        self.inner.forget_tests_before(before).await
    }
}
