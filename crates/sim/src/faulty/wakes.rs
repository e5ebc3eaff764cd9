//! What nodes tell each other, as one node hears it: late, or not at all while its line is down.

use super::{Faulty, finish, pause};
use crate::plant::Plant;
use async_trait::async_trait;
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use store::{News, StoreError, Wakes};
use tokio::time::sleep;

/// How often a node whose line is down tries to listen again.
const LISTEN_AGAIN: Duration = Duration::from_millis(250);

#[async_trait]
impl Wakes for Faulty {
    async fn tell(&self, news: &[News]) -> Result<(), StoreError> {
        let (inner, news) = (Arc::clone(&self.inner), news.to_vec());
        if self.has(Plant::LostWakeUp) && self.scene.chance.happens(0.5) {
            return Ok(());
        }
        self.write("tell", move || finish(inner.tell(&news))).await
    }

    async fn hear(&self) -> Result<Vec<News>, StoreError> {
        loop {
            if self.line_is_down.load(Relaxed) {
                while self.scene.weather(self.node).refuse > 0.5 {
                    sleep(LISTEN_AGAIN).await;
                }
                pause(self.scene.chance.millis(0, 300)).await;
                self.line_is_down.store(false, Relaxed);
                return Ok(vec![News::Missed]);
            }
            let news = self.inner.hear().await?;
            let (chance, weather) = (&self.scene.chance, self.scene.weather(self.node));
            if chance.happens(weather.refuse) {
                self.line_is_down.store(true, Relaxed);
                continue;
            }
            if chance.happens(weather.slow) {
                pause(chance.millis(0, weather.slow_ms)).await;
            }
            return Ok(news);
        }
    }
}
