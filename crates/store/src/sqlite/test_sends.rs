//! Tests that are asked for on one node and made by another. There is no other node here; it works all the same.

use super::{SqliteStore, statement::bound, writer::Priority};
use crate::{AskedTest, StoreError, TestAnswer, TestProgress, TestSends, test_sends::text};
use async_trait::async_trait;
use domain::{id::DeliveryId, time::Timestamp};

const ASK_TEST: &str = "insert into test_sends (id, shard, doc, asked_at) values (:id, :shard, :doc, :now)";

#[async_trait]
impl TestSends for SqliteStore {
    async fn ask_test(&self, test: &AskedTest, now: Timestamp) -> Result<(), StoreError> {
        let (id, shard, doc) = (test.id, test.destination_id.shard(), text(test)?);
        self.write(Priority::Api, move |connection| {
            bound!(ASK_TEST, id: id, shard: shard, doc: doc, now: now).execute(connection)?;
            Ok(())
        })
        .await
    }

    async fn take_tests(&self, shards: &[u16], limit: usize) -> Result<Vec<AskedTest>, StoreError> {
        let asked = self
            .read(|connection| {
                bound!("select id, shard, doc from test_sends where not taken order by id").all(
                    connection,
                    |columns| {
                        Ok((columns.id::<DeliveryId>()?, columns.get::<u16>()?, columns.get::<String>()?))
                    },
                )
            })
            .await?;
        let mut taken: Vec<_> = asked.into_iter().filter(|(_, shard, _)| shards.contains(shard)).collect();
        taken.truncate(limit);
        // Usually there is none, and nothing to write.
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        self.write(Priority::Api, move |connection| {
            let mut tests = Vec::new();
            for (id, _, doc) in &taken {
                let taken =
                    bound!("update test_sends set taken = true where id = :id and not taken", id: *id)
                        .execute(connection)?;
                // A newer version's words are none.
                tests.extend(serde_json::from_str::<AskedTest>(doc).ok().filter(|_| taken > 0));
            }
            Ok(tests)
        })
        .await
    }

    async fn answer_test(&self, id: DeliveryId, answer: &TestAnswer) -> Result<(), StoreError> {
        let answer = text(answer)?;
        self.write(Priority::Api, move |connection| {
            bound!("update test_sends set answer = :answer where id = :id", id: id, answer: answer)
                .execute(connection)?;
            Ok(())
        })
        .await
    }

    async fn tests(&self, ids: &[DeliveryId]) -> Result<Vec<Option<TestProgress>>, StoreError> {
        let ids = ids.to_owned();
        self.read(move |connection| {
            let each = |id: &DeliveryId| {
                bound!("select taken, answer from test_sends where id = :id", id: *id).first(
                    connection,
                    |columns| {
                        let (taken, answer) = (columns.get::<bool>()?, columns.get::<Option<String>>()?);
                        Ok(TestProgress::read(taken, answer.as_deref()))
                    },
                )
            };
            ids.iter().map(each).collect()
        })
        .await
    }

    async fn forget_test(&self, id: DeliveryId) -> Result<(), StoreError> {
        self.write(Priority::Api, move |connection| {
            bound!("delete from test_sends where id = :id", id: id).execute(connection)?;
            Ok(())
        })
        .await
    }

    async fn forget_tests_before(&self, before: Timestamp) -> Result<(), StoreError> {
        self.write(Priority::Api, move |connection| {
            bound!("delete from test_sends where asked_at < :before", before: before).execute(connection)?;
            Ok(())
        })
        .await
    }
}
