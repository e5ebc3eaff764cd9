//! A read of which there is never more than one under way.

use crate::{backoff::Backoff, batch_interval::batch_interval};
use domain::{limits, time::Timestamp};

#[derive(Debug, Default)]
pub(super) struct SingleRead {
    pub(super) under_way: bool,
    begun_at: Option<Timestamp>,
    /// The end of the interval after the last read, or of the pause after a failure.
    not_before: Option<Timestamp>,
    pub(super) backoff: Backoff,
}

impl SingleRead {
    pub(super) fn may_go(&self, now: Timestamp) -> bool {
        !self.under_way && self.is_time(now)
    }

    pub(super) fn is_time(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }

    /// When the next may go, if it has to wait.
    pub(super) fn waits_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.not_before.filter(|at| !self.under_way && *at > now)
    }

    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.not_before
    }

    pub(super) fn begun(&mut self, now: Timestamp) {
        self.under_way = true;
        self.begun_at = Some(now);
    }

    pub(super) fn succeeded(&mut self) {
        self.under_way = false;
        self.backoff.reset();
    }

    /// While there is load the next one waits until more has gathered: for longer if this one has left nothing.
    pub(super) fn wait_interval(&mut self, has_more: bool, now: Timestamp) {
        let times = if has_more { 1 } else { limits::BATCH_INTERVAL_SPARSE };
        self.not_before = self.begun_at.map(|begun| begun.plus(batch_interval(now.since(begun)) * times));
    }

    pub(super) fn failed(&mut self, not_before: Timestamp) {
        self.under_way = false;
        self.pause_until(not_before);
    }

    pub(super) fn pause_until(&mut self, at: Timestamp) {
        self.not_before = Some(at);
    }
}
