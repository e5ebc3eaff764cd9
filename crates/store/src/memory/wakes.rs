//! What nodes on one store tell each other: each hears all others.

use super::MemoryStore;
use crate::{News, StoreError, Wakes};
use async_trait::async_trait;
use domain::limits;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::{Mutex, broadcast};

/// What one node tells the others by, and hears them by.
pub(super) struct NewsChannel {
    mine: u64,
    others: Arc<AtomicU64>,
    sender: broadcast::Sender<SentNews>,
    receiver: Mutex<NewsReceiver>,
}

#[derive(Clone)]
struct SentNews {
    by: u64,
    news: Arc<[News]>,
}

struct NewsReceiver {
    waiting: broadcast::Receiver<SentNews>,
    /// What was told before it listened is unknown to it.
    new: bool,
}

impl NewsChannel {
    pub(super) fn new() -> Self {
        let (sender, waiting) = broadcast::channel(limits::NEWS_WAITING);
        Self {
            mine: 0,
            others: Arc::default(),
            sender,
            receiver: Mutex::new(NewsReceiver { waiting, new: true }),
        }
    }

    /// Another node's end.
    pub(super) fn another(&self) -> Self {
        Self {
            mine: self.others.fetch_add(1, Ordering::Relaxed) + 1,
            others: self.others.clone(),
            sender: self.sender.clone(),
            receiver: Mutex::new(NewsReceiver { waiting: self.sender.subscribe(), new: true }),
        }
    }
}

#[async_trait]
impl Wakes for MemoryStore {
    async fn tell(&self, news: &[News]) -> Result<(), StoreError> {
        // Fails only if there is no receiver, and ours is one.
        let _ = self.news.sender.send(SentNews { by: self.news.mine, news: news.into() });
        Ok(())
    }

    async fn hear(&self) -> Result<Vec<News>, StoreError> {
        let mut receiver = self.news.receiver.lock().await;
        if std::mem::take(&mut receiver.new) {
            return Ok(vec![News::Missed]);
        }
        loop {
            match receiver.waiting.recv().await {
                Ok(sent) if sent.by == self.news.mine => {}
                Ok(sent) => return Ok(sent.news.to_vec()),
                Err(_) => return Ok(vec![News::Missed]),
            }
        }
    }
}
