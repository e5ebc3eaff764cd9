//! What waits for the same thing, account by account: however much of one account waits, the next of another has its turn
//! after one of it.

use domain::id::AccountId;
use std::collections::{HashMap, VecDeque};

/// A queue of which accounts have their turns one after the other; within an account it is first come, first served.
///
/// It is not bounded by itself: what is put into it is.
#[derive(Debug)]
pub struct TurnQueue<T> {
    /// None of them is empty.
    accounts: HashMap<AccountId, VecDeque<T>>,
    /// Whose turn is next; each account once.
    turns: VecDeque<AccountId>,
    count: usize,
}

impl<T> Default for TurnQueue<T> {
    fn default() -> Self {
        Self { accounts: HashMap::new(), turns: VecDeque::new(), count: 0 }
    }
}

impl<T> TurnQueue<T> {
    pub fn push(&mut self, account: AccountId, item: T) {
        self.of(account).push_back(item);
    }

    /// Before what waits of its account.
    pub fn push_front(&mut self, account: AccountId, item: T) {
        self.of(account).push_front(item);
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// How many of one account wait.
    pub fn len_of(&self, account: AccountId) -> usize {
        self.accounts.get(&account).map_or(0, VecDeque::len)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// What [`TurnQueue::pop`] would give.
    pub fn peek(&self) -> Option<&T> {
        self.peek_of(|_| true)
    }

    /// What [`TurnQueue::pop_of`] would give.
    pub fn peek_of(&self, mut may: impl FnMut(AccountId) -> bool) -> Option<&T> {
        let account = self.turns.iter().find(|account| may(**account))?;
        self.accounts.get(account)?.front()
    }

    /// The next of each account.
    pub fn firsts(&self) -> impl Iterator<Item = (AccountId, &T)> {
        self.accounts.iter().filter_map(|(account, waiting)| Some((*account, waiting.front()?)))
    }

    pub fn pop(&mut self) -> Option<T> {
        self.pop_of(|_| true)
    }

    /// The next of an account that may have its turn. The others keep their places.
    pub fn pop_of(&mut self, mut may: impl FnMut(AccountId) -> bool) -> Option<T> {
        let place = self.turns.iter().position(|account| may(*account))?;
        let account = self.turns.remove(place)?;
        let waiting = self.accounts.get_mut(&account)?;
        let item = waiting.pop_front()?;
        if waiting.is_empty() {
            self.accounts.remove(&account);
        } else {
            self.turns.push_back(account);
        }
        self.count -= 1;
        Some(item)
    }

    /// Whether something of an account waits that may have its turn.
    pub fn any_of(&self, may: impl FnMut(AccountId) -> bool) -> bool {
        self.turns.iter().copied().any(may)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        for waiting in self.accounts.values_mut() {
            waiting.retain(&mut keep);
        }
        self.accounts.retain(|_, waiting| !waiting.is_empty());
        self.turns.retain(|account| self.accounts.contains_key(account));
        self.count = self.accounts.values().map(VecDeque::len).sum();
    }

    pub fn clear(&mut self) {
        self.retain(|_| false);
    }

    fn of(&mut self, account: AccountId) -> &mut VecDeque<T> {
        self.count += 1;
        self.accounts.entry(account).or_insert_with(|| {
            self.turns.push_back(account);
            VecDeque::new()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::time::Timestamp;

    fn account(number: u128) -> AccountId {
        AccountId::at(Timestamp::MIN, number)
    }

    fn queue(items: &[(u128, u32)]) -> TurnQueue<u32> {
        let mut queue = TurnQueue::default();
        items.iter().for_each(|(of, item)| queue.push(account(*of), *item));
        queue
    }

    #[test]
    fn accounts_have_their_turns_one_after_the_other() {
        let mut queue = queue(&[(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (3, 31)]);
        assert_eq!((queue.len(), queue.len_of(account(1)), queue.peek()), (6, 3, Some(&10)));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [10, 20, 30, 11, 31, 12]);
        assert!(queue.is_empty() && queue.peek().is_none() && queue.accounts.is_empty());
    }

    #[test]
    fn one_that_comes_later_waits_for_one_of_each_account() {
        let mut queue = queue(&[(1, 10), (1, 11), (1, 12)]);
        assert_eq!(queue.pop(), Some(10));
        queue.push(account(2), 20);
        queue.push_front(account(1), 13);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [13, 20, 11, 12]);
    }

    #[test]
    fn an_account_that_may_not_have_its_turn_keeps_its_place() {
        let mut queue = queue(&[(1, 10), (2, 20), (2, 21)]);
        let not_first = |of| of != account(1);
        assert_eq!((queue.pop_of(not_first), queue.pop_of(not_first)), (Some(20), Some(21)));
        assert_eq!((queue.pop_of(not_first), queue.any_of(not_first)), (None, false));
        queue.push(account(2), 22);
        assert_eq!((queue.pop(), queue.pop()), (Some(10), Some(22)));
    }

    #[test]
    fn what_is_taken_out_of_the_middle_leaves_no_turn_behind() {
        let mut queue = queue(&[(1, 10), (2, 20), (2, 21), (3, 30)]);
        queue.retain(|item| *item % 10 == 1 || *item == 30);
        assert_eq!(queue.len(), 2);
        assert_eq!((queue.pop(), queue.pop(), queue.pop()), (Some(21), Some(30), None));
    }
}
