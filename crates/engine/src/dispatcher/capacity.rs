//! What accounts share of a node's attempts: requests that are open, and results that are not yet durable.
//!
//! An account may have so many requests open that an eighth of the capacity is left for others. A lane may always have one,
//! so that no destination stands still because of its account's others: what is open by that rule alone is counted
//! beside the capacity, and takes nothing from other accounts. It is bounded by the lanes in memory.

use domain::{id::AccountId, limits};
use std::collections::HashMap;

pub(super) struct Capacity {
    /// Requests that may be open, besides one of each lane.
    most: usize,
    within: usize,
    beyond: usize,
    unflushed: usize,
    /// Accounts that have something open or unflushed.
    accounts: HashMap<AccountId, AccountLoad>,
}

#[derive(Default)]
struct AccountLoad {
    within: usize,
    beyond: usize,
    unflushed: usize,
}

/// The place of one open request.
#[derive(Debug)]
pub(crate) struct OpenPlace {
    account: AccountId,
    /// Of the capacity.
    is_within: bool,
}

impl Capacity {
    pub(super) fn new(most: usize) -> Self {
        Self { most, within: 0, beyond: 0, unflushed: 0, accounts: HashMap::new() }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.within + self.beyond
    }

    pub(super) fn is_full(&self) -> bool {
        self.in_flight() >= self.most
    }

    /// Attempts that have ended and are not yet durable.
    pub(super) fn unflushed(&self) -> usize {
        self.unflushed
    }

    /// Whether results of this account become durable as fast as they come.
    pub(super) fn may_start(&self, account: AccountId) -> bool {
        let held = self.accounts.get(&account).map_or(0, |load| load.unflushed);
        sharing::is_fair(held, limits::UNFLUSHED.saturating_sub(self.unflushed), 1)
    }

    /// How many requests one lane of this account may have open: what is left of the capacity, and always one.
    pub(super) fn share(&self, account: AccountId) -> u32 {
        let free = if self.is_fair(account) { self.most - self.within } else { 0 };
        u32::try_from(free).unwrap_or(u32::MAX).max(1)
    }

    fn is_fair(&self, account: AccountId) -> bool {
        let held = self.accounts.get(&account).map_or(0, |load| load.within);
        held < limits::IN_FLIGHT_SHARE * (self.most - self.within)
    }

    pub(super) fn open(&mut self, account: AccountId) -> OpenPlace {
        let is_within = self.is_fair(account);
        let load = self.accounts.entry(account).or_default();
        let (all, own) = match is_within {
            true => (&mut self.within, &mut load.within),
            false => (&mut self.beyond, &mut load.beyond),
        };
        *all += 1;
        *own += 1;
        OpenPlace { account, is_within }
    }

    pub(super) fn close(&mut self, OpenPlace { account, is_within }: OpenPlace) {
        self.change(account, |capacity, load| {
            let (all, own) = match is_within {
                true => (&mut capacity.within, &mut load.within),
                false => (&mut capacity.beyond, &mut load.beyond),
            };
            *all -= 1;
            *own -= 1;
        });
    }

    pub(super) fn ended(&mut self, account: AccountId) {
        self.unflushed += 1;
        self.accounts.entry(account).or_default().unflushed += 1;
    }

    pub(super) fn flushed(&mut self, account: AccountId) {
        self.change(account, |capacity, load| {
            capacity.unflushed -= 1;
            load.unflushed -= 1;
        });
    }

    /// Less of an account; one that has nothing left is forgotten.
    fn change(&mut self, account: AccountId, less: impl FnOnce(&mut Self, &mut AccountLoad)) {
        let mut load = self.accounts.remove(&account).unwrap_or_default();
        less(self, &mut load);
        if load.within + load.beyond + load.unflushed > 0 {
            self.accounts.insert(account, load);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;

    fn account(number: u128) -> AccountId {
        AccountId::at(Timestamp::MIN, number)
    }

    /// As many lanes of this account as there are, each with five slots.
    fn open_all(capacity: &mut Capacity, account: AccountId, lanes: usize) -> Vec<OpenPlace> {
        let mut open = Vec::new();
        for _ in 0..lanes {
            for in_lane in 0..5 {
                if in_lane < capacity.share(account) {
                    open.push(capacity.open(account));
                }
            }
        }
        open
    }

    #[test]
    fn ten_thousand_lanes_of_one_account_leave_the_slots_of_another_alone() {
        let mut capacity = Capacity::new(4_096);
        let greedy = open_all(&mut capacity, account(1), 10_000);
        assert_eq!(capacity.within, 4_096 / 8 * 7);
        assert!(greedy.len() > 10_000 - 1_000, "a lane always has one");
        assert_eq!(open_all(&mut capacity, account(2), 1).len(), 5);
        assert_eq!(open_all(&mut capacity, account(3), 20).len(), 100);
    }

    #[test]
    fn what_is_closed_is_given_back() {
        let mut capacity = Capacity::new(16);
        let open = [open_all(&mut capacity, account(1), 20), open_all(&mut capacity, account(2), 2)];
        assert!(capacity.is_full());
        open.into_iter().flatten().for_each(|place| capacity.close(place));
        assert_eq!(capacity.in_flight(), 0);
        assert!(capacity.accounts.is_empty());
    }

    #[test]
    fn results_of_one_account_that_are_not_durable_do_not_stop_another() {
        let mut capacity = Capacity::new(16);
        let ended = (0..limits::UNFLUSHED).take_while(|_| {
            let may = capacity.may_start(account(1));
            if may {
                capacity.ended(account(1));
            }
            may
        });
        let ended = ended.count();
        assert!(ended > limits::UNFLUSHED / 2 && capacity.may_start(account(2)));
        (0..ended).for_each(|_| capacity.flushed(account(1)));
        assert!(capacity.unflushed() == 0 && capacity.accounts.is_empty());
    }
}
