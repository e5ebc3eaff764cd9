//! Tests of destinations, in their lanes: each waits for a slot as a delivery does, and comes before the deliveries, for a
//! person waits for it. Nothing of it is settled.

use super::{AttemptRunner, Dispatcher, OpenPlace, Shards, lane_table::RunningLane};
use crate::test_sends::{AskedTest, TestEnd};
use domain::{
    id::{DeliveryId, DestinationId},
    lane::{TestSlot, WaitKind, WaitingFor},
    time::Timestamp,
};
use std::sync::Arc;

/// A test whose request has ended.
#[derive(Debug)]
pub(crate) struct EndedTest {
    pub(crate) destination_id: DestinationId,
    pub(crate) id: DeliveryId,
    pub(crate) slot: TestSlot,
    pub(crate) place: OpenPlace,
}

impl Dispatcher {
    pub(super) fn test_asked(&mut self, test: AskedTest, now: Timestamp) {
        let destination = test.delivery.destination_id;
        if self.stopping || !self.shards.is_ours(destination.shard()) {
            return test.end(TestEnd::Elsewhere);
        }
        if !self.has_place(destination) {
            let detail = "its turn on this node".into();
            let waits =
                WaitingFor { kind: WaitKind::Capacity, since: now, until: None, behind: None, detail };
            return test.end(TestEnd::waits(waits));
        }
        self.lane(destination, now);
        if let Some(run) = self.lanes.get_mut(destination) {
            run.tests.push(test);
            self.touch(destination);
        }
    }

    pub(super) fn test_ended(&mut self, EndedTest { destination_id, id, slot, place }: EndedTest) {
        self.runner.closed(place);
        self.shards.closed(destination_id.shard());
        if let Some(run) = self.lanes.get_mut(destination_id) {
            run.lane.test_ended(id, slot);
        }
        self.touch(destination_id);
        self.feed_starved();
    }
}

impl RunningLane {
    /// Starts what can be started, and gives up what cannot be in time.
    pub(super) fn start_tests(&mut self, runner: &mut AttemptRunner, shards: &mut Shards, now: Timestamp) {
        for test in std::mem::take(&mut self.tests) {
            if test.answer.is_closed() {
                continue;
            }
            let destination = self.destination.as_ref().filter(|_| shards.may_start(self.shard));
            if let Some(destination) = destination
                && let Some(slot) =
                    self.lane.start_test(test.delivery.id, test.forced, runner.share(self.account()), now)
            {
                shards.opened(self.shard);
                runner.start_test(Arc::clone(destination), test, slot);
                continue;
            }
            let not_before = self.lane.test_not_before(now).filter(|_| !test.forced);
            if test.wait_until <= now || not_before.is_some_and(|at| at > test.wait_until) {
                let waits = self.lane.test_waits_for(&test.delivery, test.forced, now);
                test.end(TestEnd::waits(waits));
            } else {
                self.tests.push(test);
            }
        }
    }

    /// When to look at its tests again if nothing happens before.
    pub(super) fn tests_wake_at(&self, now: Timestamp) -> Option<Timestamp> {
        let first = self.tests.iter().map(|test| test.wait_until).min()?;
        let not_before = self.lane.test_not_before(now);
        [Some(first), not_before].into_iter().flatten().filter(|at| *at > now).min()
    }
}
