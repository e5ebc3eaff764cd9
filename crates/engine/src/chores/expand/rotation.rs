//! Which expansion is next: accounts one after the other, so that one account's large events do not hold up another's, and
//! within an account the event that came first.

use domain::{
    event::Event,
    id::{AccountId, EventId},
    limits,
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};
use store::Expansion;

/// An expansion this node works on.
pub(super) struct OpenExpansion {
    pub(super) expansion: Expansion,
    /// Kept from chunk to chunk if it is small.
    pub(super) event: Option<Arc<Event>>,
    /// Where the cursor stands must be asked first.
    pub(super) unsure: bool,
}

impl OpenExpansion {
    pub(super) fn keep(&mut self, event: &Arc<Event>) {
        if self.event.is_none() && event.payload.len() <= limits::CARRIED_BYTES {
            self.event = Some(Arc::clone(event));
        }
    }
}

#[derive(Default)]
pub(super) struct AccountRotation {
    accounts: VecDeque<AccountId>,
    waiting: HashMap<AccountId, VecDeque<OpenExpansion>>,
    held: HashSet<EventId>,
}

impl AccountRotation {
    /// Those that are not here already, as far as there is room; the others are found by the next look for open expansions.
    pub(super) fn extend(&mut self, expansions: impl IntoIterator<Item = Expansion>) {
        for expansion in expansions {
            if self.held.len() < limits::EXPANSIONS_HELD && self.held.insert(expansion.event_id) {
                let account = expansion.account_id;
                self.queue(account).push_back(OpenExpansion { expansion, event: None, unsure: false });
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<OpenExpansion> {
        let account = self.accounts.pop_front()?;
        let waiting = self.waiting.get_mut(&account)?;
        let open = waiting.pop_front()?;
        if waiting.is_empty() {
            self.waiting.remove(&account);
        } else {
            self.accounts.push_back(account);
        }
        self.held.remove(&open.expansion.event_id);
        Some(open)
    }

    /// It is not done: it is the account's next.
    pub(super) fn put_back(&mut self, open: OpenExpansion) {
        self.held.insert(open.expansion.event_id);
        self.queue(open.expansion.account_id).push_front(open);
    }

    fn queue(&mut self, account: AccountId) -> &mut VecDeque<OpenExpansion> {
        self.waiting.entry(account).or_insert_with(|| {
            self.accounts.push_back(account);
            VecDeque::new()
        })
    }
}
