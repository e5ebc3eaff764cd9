//! One byte budget for everything that travels through this node: windows, hand-overs, open requests, results. It is shared
//! out between accounts: what waits of one does not keep that of another out of memory.
//!
//! A share is given back when it is dropped, so nothing that panics or is forgotten can leak it.

use domain::{event::Event, id::AccountId, limits};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

#[derive(Debug)]
pub(crate) struct CarriedBytes {
    limit: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    /// None that has nothing here.
    accounts: HashMap<AccountId, usize>,
}

/// What travels with a delivery: its event, one for all of its deliveries that come together, and its part of the budget.
#[derive(Debug)]
pub(crate) struct CarriedEvent {
    pub(crate) event: Option<Arc<Event>>,
    /// False: the payload is read when the delivery starts.
    pub(crate) has_payload: bool,
    account: AccountId,
    bytes: usize,
    budget: Arc<CarriedBytes>,
}

impl CarriedBytes {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, state: Mutex::default() })
    }

    /// Whether more of this account may be read. What is then read is at most a window.
    pub(crate) fn has_room(&self, account: AccountId) -> bool {
        let state = self.lock();
        let held = state.accounts.get(&account).copied().unwrap_or(0);
        sharing::is_fair(held, self.limit.saturating_sub(state.used), 1)
    }

    /// What has come is carried, whether there was room for it or not.
    pub(crate) fn carry(
        self: &Arc<Self>,
        account: AccountId,
        event: Option<Arc<Event>>,
        has_payload: bool,
    ) -> Arc<CarriedEvent> {
        let payload = event.as_ref().map_or(0, |event| event.payload.len());
        let bytes = limits::DELIVERY_OVERHEAD_BYTES + payload;
        {
            let mut state = self.lock();
            state.used += bytes;
            *state.accounts.entry(account).or_default() += bytes;
        }
        Arc::new(CarriedEvent { event, has_payload, account, bytes, budget: Arc::clone(self) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CarriedEvent {
    fn drop(&mut self) {
        let mut state = self.budget.lock();
        state.used -= self.bytes;
        if let Some(held) = state.accounts.get_mut(&self.account) {
            *held -= self.bytes;
            if *held == 0 {
                state.accounts.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u128) -> AccountId {
        AccountId::at(domain::time::Timestamp::MIN, number)
    }

    #[test]
    fn what_is_dropped_gives_its_share_back() {
        let budget = CarriedBytes::new(limits::DELIVERY_OVERHEAD_BYTES);
        let carried = budget.carry(account(1), None, false);
        assert!(!budget.has_room(account(1)) && !budget.has_room(account(2)));
        drop(carried);
        assert!(budget.has_room(account(1)) && budget.lock().accounts.is_empty());
    }

    #[test]
    fn what_waits_of_one_account_leaves_room_for_another() {
        let budget = CarriedBytes::new(limits::DELIVERY_OVERHEAD_BYTES * 90);
        let carried =
            std::iter::from_fn(|| budget.has_room(account(1)).then(|| budget.carry(account(1), None, false)));
        let carried: Vec<_> = carried.collect();
        assert!((59..=61).contains(&carried.len()), "{}", carried.len());
        assert!(budget.has_room(account(2)));
    }
}
