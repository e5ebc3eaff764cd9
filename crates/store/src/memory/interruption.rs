//! Trouble on purpose: a test may come between a caller and the store.

use super::MemoryStore;
use crate::StoreError;
use std::sync::{Arc, Mutex, PoisonError};

type Interruption = Arc<dyn Fn(&'static str) -> Result<(), StoreError> + Send + Sync>;

#[derive(Clone, Default)]
pub(super) struct Interruptions(Arc<Mutex<Option<Interruption>>>);

impl MemoryStore {
    /// From now on this is run before each `fetch`, `payload`, `settle`, `tracks`, `take_turns`, `write_audit`, `join`, `replace_data_keys`,
    /// `api_key_by_lookup` and `session`, on every node, and told which: it may fail it, or panic.
    pub fn interrupt(&self, with: impl Fn(&'static str) -> Result<(), StoreError> + Send + Sync + 'static) {
        *self.interruptions.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(with));
    }

    pub(super) fn interrupted(&self, call: &'static str) -> Result<(), StoreError> {
        let interruption = self.interruptions.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        interruption.map_or(Ok(()), |interruption| interruption(call))
    }
}
