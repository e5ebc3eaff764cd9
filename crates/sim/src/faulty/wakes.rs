//! What nodes tell each other, as one node hears it: late, or not at all while its line is down.

use super::{FaultyStore, finish, pause};
use crate::planted_bug::PlantedBug;
use async_trait::async_trait;
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use store::{News, StoreError, Wakes};
use tokio::time::sleep;

/// How often a node whose line is down tries to listen again.
const LISTEN_AGAIN: Duration = Duration::from_millis(250);

#[async_trait]
impl Wakes for FaultyStore {
    async fn tell(&self, news: &[News]) -> Result<(), StoreError> {
        let news = news.to_vec();
        if self.has(PlantedBug::LostWakeUp) && self.shared.chance.happens(0.5) {
            return Ok(());
        }
        self.write("tell", move |it| finish(it.store.tell(&news))).await
    }

    async fn hear(&self) -> Result<Vec<News>, StoreError> {
        loop {
            if self.line_is_down.load(Relaxed) {
                while self.shared.store_behaviour(self.node).refuse > 0.5 {
                    sleep(LISTEN_AGAIN).await;
                }
                pause(self.shared.chance.millis(0, 300)).await;
                self.line_is_down.store(false, Relaxed);
                return Ok(vec![News::Missed]);
            }
            let news = self.inner.hear().await?;
            let (chance, store_behaviour) = (&self.shared.chance, self.shared.store_behaviour(self.node));
            if chance.happens(store_behaviour.refuse) {
                self.line_is_down.store(true, Relaxed);
                continue;
            }
            if chance.happens(store_behaviour.slow) {
                pause(chance.millis(0, store_behaviour.slow_ms)).await;
            }
            return Ok(news);
        }
    }
}
