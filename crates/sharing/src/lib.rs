//! What accounts share of a node, shared out between them: memory, places in a queue, processor time.
//!
//! A [`SharedResource`] has so many units. An account may hold at most [`SHARE`] times as many as are then free: alone it gets two
//! thirds of all, of two that want everything each gets two fifths, and there is always something left for one that comes
//! later. An account that holds nothing gets what it asks for if it is there. What waits is served account by account: the
//! one that holds the least first, of several the one that was served longest ago, and within an account in its order.
//!
//! A [`Share`] is given back when it is dropped, so nothing that panics, is cancelled or is forgotten can leak it.
//!
//! A [`TurnQueue`] is for what waits in one place for one worker: there accounts have their turns one after the other.

mod turns;

pub use turns::TurnQueue;

use domain::id::AccountId;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// How many times what is free an account may hold.
const SHARE: usize = 2;

#[derive(Debug)]
pub struct SharedResource {
    units: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    waiting: usize,
    /// How often something was granted.
    grants: u64,
    /// Accounts that hold or wait for something.
    accounts: HashMap<AccountId, Holding>,
}

#[derive(Debug, Default)]
struct Holding {
    used: usize,
    /// The number of its last grant.
    served: u64,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    units: usize,
    grant: oneshot::Sender<Share>,
}

/// A part of a shared resource, until it is dropped.
#[derive(Debug)]
pub struct Share {
    resource: Arc<SharedResource>,
    account: AccountId,
    units: usize,
}

impl SharedResource {
    pub fn new(units: usize) -> Arc<Self> {
        Arc::new(Self { units, state: Mutex::default() })
    }

    /// So many units, at once or not at all. Others of the account that wait come first.
    pub fn try_take(self: &Arc<Self>, account: AccountId, units: usize) -> Option<Share> {
        let units = units.min(self.units);
        let mut state = self.lock();
        let holding = state.accounts.get(&account);
        if holding.is_some_and(|holding| !holding.waiting.is_empty()) || !self.permits(&state, account, units)
        {
            return None;
        }
        state.grant(account, units);
        Some(self.share(account, units))
    }

    /// Waits for so many units; more than there are at all are as many as there are.
    pub async fn take(self: &Arc<Self>, account: AccountId, units: usize) -> Share {
        if let Some(share) = self.try_take(account, units) {
            return share;
        }
        let units = units.min(self.units);
        let (grant, granted) = oneshot::channel();
        {
            let mut state = self.lock();
            state.forget_given_up(account);
            state.waiting += 1;
            state.accounts.entry(account).or_default().waiting.push_back(Waiting { units, grant });
        }
        // Something may have been given back since it was asked for.
        self.serve();
        match granted.await {
            Ok(share) => share,
            // Only a resource that is gone drops a grant, and this one is held by whoever waits.
            Err(_) => unreachable!("a waiting account is served or waits"),
        }
    }

    /// How many units are held, by all accounts.
    pub fn used(&self) -> usize {
        self.lock().used
    }

    /// How many requests for units wait.
    pub fn waiting(&self) -> usize {
        let state = self.lock();
        let alive = |holding: &Holding| holding.waiting.iter().filter(|it| !it.grant.is_closed()).count();
        state.accounts.values().map(alive).sum()
    }

    fn permits(&self, state: &State, account: AccountId, units: usize) -> bool {
        let held = state.accounts.get(&account).map_or(0, |holding| holding.used);
        is_fair(held, self.units - state.used, units)
    }

    fn share(self: &Arc<Self>, account: AccountId, units: usize) -> Share {
        Share { resource: Arc::clone(self), account, units }
    }

    /// Grants whatever can be granted to those who wait.
    fn serve(self: &Arc<Self>) {
        while let Some((account, Waiting { units, grant })) = self.next() {
            // One that does not wait any more gives it back at once.
            let _ = grant.send(self.share(account, units));
        }
    }

    /// The next one that waits and may have what it wants. One that holds less than others is not passed over because
    /// they want less.
    fn next(&self) -> Option<(AccountId, Waiting)> {
        let mut state = self.lock();
        loop {
            let waiting = state.accounts.iter().filter(|(_, holding)| !holding.waiting.is_empty());
            let (account, holding) = waiting.min_by_key(|(_, holding)| (holding.used, holding.served))?;
            let (account, first) = (*account, holding.waiting.front()?);
            if first.grant.is_closed() {
                state.forget_given_up(account);
                continue;
            }
            let units = first.units;
            if !self.permits(&state, account, units) {
                return None;
            }
            let next = state.accounts.get_mut(&account)?.waiting.pop_front()?;
            state.waiting -= 1;
            state.grant(account, units);
            return Some((account, next));
        }
    }

    fn give_back(self: &Arc<Self>, account: AccountId, units: usize) {
        {
            let mut state = self.lock();
            state.used -= units;
            if let Some(holding) = state.accounts.get_mut(&account) {
                holding.used -= units;
                state.forget_idle(account);
            }
            if state.waiting == 0 {
                return;
            }
        }
        self.serve();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an account that holds so many units may have so many more of what is free.
pub fn is_fair(held: usize, free: usize, more: usize) -> bool {
    more <= free && (held == 0 || held + more <= SHARE * (free - more))
}

impl Share {
    /// Makes it at least so large, at once or not at all. One that is all its account holds may have whatever is free.
    pub fn try_grow(&mut self, units: usize) -> bool {
        let more = units.min(self.resource.units).saturating_sub(self.units);
        if more == 0 {
            return true;
        }
        let mut state = self.resource.lock();
        let held = state.accounts.get(&self.account).map_or(0, |holding| holding.used);
        let beside = if held == self.units { 0 } else { held };
        if !is_fair(beside, self.resource.units - state.used, more) {
            return false;
        }
        state.grant(self.account, more);
        self.units += more;
        true
    }
}

impl State {
    fn grant(&mut self, account: AccountId, units: usize) {
        self.used += units;
        self.grants += 1;
        let holding = self.accounts.entry(account).or_default();
        (holding.used, holding.served) = (holding.used + units, self.grants);
    }

    /// Those at the head of an account's line that wait no more. Granting them instead would drop a share inside the
    /// drop of another, as deep as the line is long.
    fn forget_given_up(&mut self, account: AccountId) {
        let Some(holding) = self.accounts.get_mut(&account) else { return };
        while holding.waiting.front().is_some_and(|first| first.grant.is_closed()) {
            holding.waiting.pop_front();
            self.waiting -= 1;
        }
        self.forget_idle(account);
    }

    fn forget_idle(&mut self, account: AccountId) {
        let idle = |holding: &Holding| holding.used == 0 && holding.waiting.is_empty();
        if self.accounts.get(&account).is_some_and(idle) {
            self.accounts.remove(&account);
        }
    }
}

impl Share {
    /// Gives back all but so many.
    pub fn shrink(&mut self, units: usize) {
        let back = self.units.saturating_sub(units);
        self.units -= back;
        self.resource.give_back(self.account, back);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resource.give_back(self.account, self.units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;
    use futures_util::FutureExt as _;

    fn account(number: u128) -> AccountId {
        AccountId::at(Timestamp::MIN, number)
    }

    fn take_all(resource: &Arc<SharedResource>, account: AccountId, units: usize) -> Vec<Share> {
        std::iter::from_fn(|| resource.try_take(account, units)).collect()
    }

    #[test]
    fn an_account_alone_gets_two_thirds_and_leaves_room_for_a_newcomer() {
        let resource = SharedResource::new(90);
        let first = take_all(&resource, account(1), 1);
        assert_eq!(first.len(), 60);
        let second = take_all(&resource, account(2), 1);
        assert_eq!(second.len(), 20);
        assert!(resource.try_take(account(3), 10).is_some());
        drop((first, second));
        assert_eq!(resource.used(), 0);
        assert!(resource.lock().accounts.is_empty());
    }

    #[test]
    fn one_that_holds_nothing_gets_whatever_is_there() {
        let resource = SharedResource::new(10);
        assert!(resource.try_take(account(1), 100).is_some(), "more than there is, is all there is");
        let all = resource.try_take(account(1), 10).expect("alone");
        assert!(resource.try_take(account(2), 1).is_none());
        drop(all);
        assert!(resource.try_take(account(2), 1).is_some());
    }

    #[test]
    fn what_waits_is_served_account_by_account() {
        let resource = SharedResource::new(9);
        let mut held = take_all(&resource, account(1), 3);
        held.extend(resource.try_take(account(2), 3));
        let mut greedy = Box::pin(resource.take(account(1), 3));
        let mut late = Box::pin(resource.take(account(3), 3));
        assert_eq!(resource.used(), 9);
        assert!(greedy.as_mut().now_or_never().is_none() && late.as_mut().now_or_never().is_none());
        assert_eq!(resource.waiting(), 2);
        held.remove(0);
        let share = late.as_mut().now_or_never().expect("the one that holds nothing comes first");
        assert!(greedy.as_mut().now_or_never().is_none());
        drop((share, held));
        assert!(greedy.now_or_never().is_some());
        assert_eq!(resource.used(), 0);
    }

    #[test]
    fn accounts_that_hold_alike_are_served_in_turn() {
        let resource = SharedResource::new(1);
        let mut held = resource.try_take(account(3), 1);
        let mut waiting: Vec<_> = [1, 1, 1, 2, 2]
            .into_iter()
            .map(|number| (number, Box::pin(resource.take(account(number), 1))))
            .collect();
        for (_, waits) in &mut waiting {
            assert!(waits.as_mut().now_or_never().is_none());
        }
        let mut order = Vec::new();
        while let Some(share) = held.take() {
            drop(share);
            let next = waiting.iter_mut().enumerate().find_map(|(at, (number, waits))| {
                waits.as_mut().now_or_never().map(|share| (at, *number, share))
            });
            let Some((at, number, share)) = next else { break };
            drop(waiting.remove(at));
            order.push(number);
            held = Some(share);
        }
        assert!(order == [1, 2, 1, 2, 1] || order == [2, 1, 2, 1, 1], "{order:?}");
    }

    #[test]
    fn a_share_grows_by_the_same_rule() {
        let resource = SharedResource::new(90);
        let mut first = resource.try_take(account(1), 10).unwrap();
        assert!(first.try_grow(5) && first.try_grow(80), "it is all its account holds");
        assert!(first.try_grow(100), "more than there is, is all there is");
        assert_eq!((first.units, resource.used()), (90, 90));
        drop(first);
        let [mut first, second] = [40, 10].map(|units| resource.try_take(account(1), units).unwrap());
        assert!(!first.try_grow(60), "another would be left with a third");
        assert!(first.try_grow(50));
        drop((first, second));
        assert_eq!(resource.used(), 0);
        assert!(resource.lock().accounts.is_empty());
    }

    #[test]
    fn one_that_has_given_up_waiting_takes_nothing() {
        let resource = SharedResource::new(3);
        let all = resource.try_take(account(1), 3);
        let mut gone = Box::pin(resource.take(account(2), 3));
        assert!(gone.as_mut().now_or_never().is_none());
        drop(gone);
        let mut waits = Box::pin(resource.take(account(3), 3));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(all);
        assert!(waits.now_or_never().is_some());
        assert_eq!((resource.used(), resource.waiting()), (0, 0));
        assert!(resource.lock().accounts.is_empty());
    }

    #[test]
    fn a_long_line_of_those_that_gave_up_is_passed_over() {
        let resource = SharedResource::new(1);
        let held = resource.try_take(account(1), 1);
        let mut gone: Vec<_> = (0..100_000).map(|_| Box::pin(resource.take(account(2), 1))).collect();
        for waits in &mut gone {
            assert!(waits.as_mut().now_or_never().is_none());
        }
        let mut late = Box::pin(resource.take(account(2), 1));
        assert!(late.as_mut().now_or_never().is_none());
        assert_eq!(resource.waiting(), 100_001);
        drop(gone);
        assert_eq!(resource.waiting(), 1, "who has given up is not counted");
        drop(held);
        assert!(late.now_or_never().is_some());
        assert_eq!((resource.used(), resource.waiting()), (0, 0));
        assert!(resource.lock().accounts.is_empty());
    }

    #[test]
    fn a_part_can_be_given_back() {
        let resource = SharedResource::new(9);
        let mut share = resource.try_take(account(1), 6).expect("alone");
        share.shrink(8);
        assert_eq!(resource.used(), 6, "no share grows");
        let mut waits = Box::pin(resource.take(account(2), 5));
        assert!(waits.as_mut().now_or_never().is_none());
        share.shrink(1);
        assert!(waits.now_or_never().is_some());
        drop(share);
        assert!(resource.lock().accounts.is_empty());
    }
}
