//! The feed of what became durable: a read like any other.

use super::FaultyStore;
use async_trait::async_trait;
use domain::time::Timestamp;
use store::{Feed, FeedPage, FeedPlace, Followed, Resumption, StoreError};

#[async_trait]
impl Feed for FaultyStore {
    async fn feed_end(&self, now: Timestamp) -> Result<FeedPlace, StoreError> {
        self.read("feed_end", self.inner.feed_end(now)).await
    }

    async fn feed_place(&self, text: &str) -> Result<Resumption, StoreError> {
        self.read("feed_place", self.inner.feed_place(text)).await
    }

    async fn feed(
        &self,
        followed: Followed<'_>,
        after: &FeedPlace,
        limit: usize,
        now: Timestamp,
    ) -> Result<FeedPage, StoreError> {
        self.read("feed", self.inner.feed(followed, after, limit, now)).await
    }

    async fn feed_written(&self) {
        self.inner.feed_written().await;
    }
}
