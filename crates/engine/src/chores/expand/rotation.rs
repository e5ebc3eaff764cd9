//! Which expansion is next: accounts one after the other, so that one account's large events do not hold up another's, and
//! within an account the event that came first.

use domain::{
    event::Event,
    id::{DestinationId, EventId},
    limits,
};
use sharing::TurnQueue;
use std::{collections::HashSet, sync::Arc};
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
    fn new(expansion: Expansion) -> Self {
        let mut open = Self { expansion, event: None, unsure: false };
        open.expansion.inline_destinations.sort_unstable();
        open
    }

    /// As it is in the store now.
    pub(super) fn renew(&mut self, expansion: Expansion) {
        *self = Self { event: self.event.take(), ..Self::new(expansion) };
    }

    /// Its delivery was written with the event. Looked up in a sorted list: of an expansion that was taken over there may
    /// be as many as destinations.
    pub(super) fn has_inline(&self, destination: DestinationId) -> bool {
        self.expansion.inline_destinations.binary_search(&destination).is_ok()
    }

    pub(super) fn keep(&mut self, event: &Arc<Event>) {
        if self.event.is_none() && event.payload.len() <= limits::CARRIED_BYTES {
            self.event = Some(Arc::clone(event));
        }
    }
}

#[derive(Default)]
pub(super) struct AccountRotation {
    waiting: TurnQueue<OpenExpansion>,
    held: HashSet<EventId>,
}

impl AccountRotation {
    /// Those that are not here already, as far as there is room, and room for others; what is left is found by the next
    /// look for open expansions.
    pub(super) fn extend(&mut self, expansions: impl IntoIterator<Item = Expansion>) {
        for expansion in expansions {
            let account = expansion.account_id;
            let free = limits::EXPANSIONS_HELD.saturating_sub(self.held.len());
            let has_room = sharing::is_fair(self.waiting.len_of(account), free, 1);
            if has_room && self.held.insert(expansion.event_id) {
                self.waiting.push(account, OpenExpansion::new(expansion));
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<OpenExpansion> {
        let open = self.waiting.pop()?;
        self.held.remove(&open.expansion.event_id);
        Some(open)
    }

    /// It is not done: it is the account's next.
    pub(super) fn put_back(&mut self, open: OpenExpansion) {
        self.held.insert(open.expansion.event_id);
        self.waiting.push_front(open.expansion.account_id, open);
    }
}
