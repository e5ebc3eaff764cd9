//! What nodes on one store tell each other: everybody hears everybody else.

use super::MemoryStore;
use crate::{News, StoreError, Wakes};
use async_trait::async_trait;
use domain::limits;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::{Mutex, broadcast};

/// One node's end of the line between all of them.
pub(super) struct Line {
    mine: u64,
    others: Arc<AtomicU64>,
    mouth: broadcast::Sender<Told>,
    ear: Mutex<Ear>,
}

#[derive(Clone)]
struct Told {
    by: u64,
    news: Arc<[News]>,
}

struct Ear {
    waiting: broadcast::Receiver<Told>,
    /// Nobody knows what was told before it listened.
    new: bool,
}

impl Line {
    pub(super) fn new() -> Self {
        let (mouth, waiting) = broadcast::channel(limits::NEWS_WAITING);
        Self { mine: 0, others: Arc::default(), mouth, ear: Mutex::new(Ear { waiting, new: true }) }
    }

    /// Another node's end.
    pub(super) fn another(&self) -> Self {
        Self {
            mine: self.others.fetch_add(1, Ordering::Relaxed) + 1,
            others: self.others.clone(),
            mouth: self.mouth.clone(),
            ear: Mutex::new(Ear { waiting: self.mouth.subscribe(), new: true }),
        }
    }
}

#[async_trait]
impl Wakes for MemoryStore {
    async fn tell(&self, news: &[News]) -> Result<(), StoreError> {
        // Fails only if nobody listens, and we do.
        let _ = self.line.mouth.send(Told { by: self.line.mine, news: news.into() });
        Ok(())
    }

    async fn hear(&self) -> Result<Vec<News>, StoreError> {
        let mut ear = self.line.ear.lock().await;
        if std::mem::take(&mut ear.new) {
            return Ok(vec![News::Missed]);
        }
        loop {
            match ear.waiting.recv().await {
                Ok(told) if told.by == self.line.mine => {}
                Ok(told) => return Ok(told.news.to_vec()),
                Err(_) => return Ok(vec![News::Missed]),
            }
        }
    }
}
