//! What nodes tell each other: one process has the file to itself, so there is no other to tell and nothing to hear.

use super::SqliteStore;
use crate::{News, StoreError, Wakes};
use async_trait::async_trait;

#[async_trait]
impl Wakes for SqliteStore {
    async fn tell(&self, _news: &[News]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn hear(&self) -> Result<Vec<News>, StoreError> {
        std::future::pending().await
    }
}
