//! A bounded map whose entries are good for a while: for what is asked on every request and changes rarely.

use domain::limits;
use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

pub(crate) struct Cache<K, V> {
    entries: Mutex<HashMap<K, CachedValue<V>>>,
    capacity: usize,
    fresh: Duration,
    /// How long an old entry still serves the others while one of them reads it again.
    overlap: Duration,
}

struct CachedValue<V> {
    since: Instant,
    /// A request has been told to read it again.
    renewing: bool,
    value: V,
}

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    pub(crate) fn new(capacity: usize, fresh: Duration) -> Self {
        Self { entries: Mutex::default(), capacity, fresh, overlap: Duration::ZERO }
    }

    pub(crate) fn of_credentials(capacity: usize) -> Self {
        Self::new(capacity, limits::CREDENTIAL_FRESH).overlapping(limits::CREDENTIAL_OVERLAP)
    }

    /// Of many requests for an entry that has just grown old, one reads it again and the others do not wait for it.
    fn overlapping(self, overlap: Duration) -> Self {
        Self { overlap, ..self }
    }

    /// None: to be read, and [`Cache::put`].
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let mut entries = self.lock();
        let entry = entries.get_mut(key)?;
        let age = entry.since.elapsed();
        let serves = age < self.fresh || (entry.renewing && age < self.fresh + self.overlap);
        entry.renewing |= !serves;
        serves.then(|| entry.value.clone())
    }

    /// What it was when it was last read, however long ago.
    pub(crate) fn last(&self, key: &K) -> Option<V> {
        self.lock().get(key).map(|entry| entry.value.clone())
    }

    pub(crate) fn put(&self, key: K, value: V) {
        let mut entries = self.lock();
        if entries.len() >= self.capacity && !entries.contains_key(&key) {
            entries.retain(|_, entry| entry.since.elapsed() < self.fresh);
            // Still full of fresh entries: a caller that makes so many must not make the others' lookups slower for long.
            if entries.len() >= self.capacity {
                entries.clear();
            }
        }
        entries.insert(key, CachedValue { since: Instant::now(), renewing: false, value });
    }

    /// What there are entries of that are good still; the others are dropped.
    pub(crate) fn fresh_keys(&self) -> Vec<K>
    where
        K: Clone,
    {
        let mut entries = self.lock();
        entries.retain(|_, entry| entry.since.elapsed() < self.fresh + self.overlap);
        entries.keys().cloned().collect()
    }

    pub(crate) fn retain(&self, keep: impl Fn(&K, &V) -> bool) {
        self.lock().retain(|key, entry| keep(key, &entry.value));
    }

    /// Nothing in here can be half done, so a panic elsewhere spoils nothing.
    fn lock(&self) -> MutexGuard<'_, HashMap<K, CachedValue<V>>> {
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
    async fn of_many_one_reads_it_again() {
        let (fresh, overlap) = (Duration::from_millis(500), Duration::from_millis(250));
        let cache = Cache::new(2, fresh).overlapping(overlap);
        cache.put("a", 1);
        tokio::time::advance(fresh).await;
        assert_eq!([cache.get(&"a"), cache.get(&"a"), cache.get(&"a")], [None, Some(1), Some(1)]);
        cache.put("a", 2);
        assert_eq!(cache.get(&"a"), Some(2));
        tokio::time::advance(fresh).await;
        assert_eq!([cache.get(&"a"), cache.get(&"a")], [None, Some(2)]);
        tokio::time::advance(overlap).await;
        assert_eq!(
            [cache.get(&"a"), cache.get(&"a")],
            [None, None],
            "the request that was to read it has not come back"
        );
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
