//! What was seen in all worlds together.

/// How often the interesting things happened: a world in which nothing happens proves nothing.
#[derive(Debug, Default, Clone)]
pub(super) struct Seen {
    pub(super) delivered: u64,
    pub(super) ended_otherwise: u64,
    pub(super) throttled: u64,
    pub(super) abandoned: u64,
    pub(super) fetches: u64,
    pub(super) full_fetches: u64,
    pub(super) ignored_while_expected: u64,
    pub(super) settled_meanwhile: u64,
    pub(super) dropped_stale: u64,
    pub(super) started_after_a_fresh_cancel: u64,
    pub(super) slots_full: u64,
    pub(super) pushed_back: u64,
    pub(super) in_order: u64,
    pub(super) numbered: u64,
    pub(super) reordered: u64,
}

impl Seen {
    pub(super) fn add(&mut self, other: &Self) {
        for (sum, part) in self.all_mut().into_iter().zip(other.clone().all_mut()) {
            *sum += *part;
        }
    }

    fn all_mut(&mut self) -> [&mut u64; 15] {
        [
            &mut self.delivered,
            &mut self.ended_otherwise,
            &mut self.throttled,
            &mut self.abandoned,
            &mut self.fetches,
            &mut self.full_fetches,
            &mut self.ignored_while_expected,
            &mut self.settled_meanwhile,
            &mut self.dropped_stale,
            &mut self.started_after_a_fresh_cancel,
            &mut self.slots_full,
            &mut self.pushed_back,
            &mut self.in_order,
            &mut self.numbered,
            &mut self.reordered,
        ]
    }

    pub(super) fn assert_interesting(&mut self) {
        let shown = format!("{self:?}");
        assert!(self.all_mut().into_iter().all(|count| *count > 100), "too quiet: {shown}");
    }
}
