//! A bounded map whose entries are good for a while: for what is asked on every request and changes rarely.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

pub(crate) struct Cache<K, V> {
    entries: Mutex<HashMap<K, (Instant, V)>>,
    capacity: usize,
    fresh: Duration,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    pub(crate) fn new(capacity: usize, fresh: Duration) -> Self {
        Self { entries: Mutex::default(), capacity, fresh }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let entries = self.lock();
        let (since, value) = entries.get(key)?;
        (since.elapsed() < self.fresh).then(|| value.clone())
    }

    pub(crate) fn put(&self, key: K, value: V) {
        let mut entries = self.lock();
        if entries.len() >= self.capacity && !entries.contains_key(&key) {
            entries.retain(|_, (since, _)| since.elapsed() < self.fresh);
            // Still full of fresh entries: whoever makes so many must not make the others' lookups slower for long.
            if entries.len() >= self.capacity {
                entries.clear();
            }
        }
        entries.insert(key, (Instant::now(), value));
    }

    pub(crate) fn retain(&self, keep: impl Fn(&K, &V) -> bool) {
        self.lock().retain(|key, (_, value)| keep(key, value));
    }

    /// Nothing in here can be half done, so a panic elsewhere spoils nothing.
    fn lock(&self) -> MutexGuard<'_, HashMap<K, (Instant, V)>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_good_for_a_while() {
        let cache = Cache::new(2, Duration::from_millis(500));
        cache.put("a", 1);
        assert_eq!(cache.get(&"a"), Some(1));
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(cache.get(&"a"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn it_never_holds_more_than_it_may() {
        let cache = Cache::new(2, Duration::from_millis(500));
        for n in 0..9 {
            cache.put(n, n);
            assert!(cache.lock().len() <= 2);
            assert_eq!(cache.get(&n), Some(n));
        }
    }
}
