//! Tests that are asked for on one node and made by another.

use super::{KeptTest, MemoryStore};
use crate::{AskedTest, StoreError, TestAnswer, TestProgress, TestSends};
use async_trait::async_trait;
use domain::{id::DeliveryId, time::Timestamp};

#[async_trait]
impl TestSends for MemoryStore {
    async fn ask_test(&self, test: &AskedTest, now: Timestamp) -> Result<(), StoreError> {
        let kept = KeptTest { test: test.clone(), asked_at: now, progress: TestProgress::Asked };
        self.tables().tests.insert(test.id, kept);
        Ok(())
    }

    async fn take_tests(&self, shards: &[u16], limit: usize) -> Result<Vec<AskedTest>, StoreError> {
        let mut tables = self.tables();
        let asked = |kept: &&mut KeptTest| {
            kept.progress == TestProgress::Asked && shards.contains(&kept.test.destination_id.shard())
        };
        let take = |kept: &mut KeptTest| {
            kept.progress = TestProgress::Taken;
            kept.test.clone()
        };
        Ok(tables.tests.values_mut().filter(asked).take(limit).map(take).collect())
    }

    async fn answer_test(&self, id: DeliveryId, answer: &TestAnswer) -> Result<(), StoreError> {
        if let Some(kept) = self.tables().tests.get_mut(&id) {
            kept.progress = TestProgress::Answered(answer.clone());
        }
        Ok(())
    }

    async fn tests(&self, ids: &[DeliveryId]) -> Result<Vec<Option<TestProgress>>, StoreError> {
        let tables = self.tables();
        Ok(ids.iter().map(|id| tables.tests.get(id).map(|kept| kept.progress.clone())).collect())
    }

    async fn forget_test(&self, id: DeliveryId) -> Result<(), StoreError> {
        self.tables().tests.remove(&id);
        Ok(())
    }

    async fn forget_tests_before(&self, before: Timestamp) -> Result<(), StoreError> {
        self.tables().tests.retain(|_, kept| kept.asked_at >= before);
        Ok(())
    }
}
