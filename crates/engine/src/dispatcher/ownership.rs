//! Shards come and go: what that means for the lanes. And what becomes of hand-overs for lanes that are not ours.

use super::{Dispatcher, LaneAnswer, Message, ShardReport, entry::LookRange, waiting_lanes::EntryClass};
use crate::{test_sends::TestEnd, wakes::Outbox};
use domain::{id::DestinationId, time::Timestamp};
use std::sync::Arc;
use store::{OwnedShard, Wake};
use tokio::sync::{Mutex, mpsc};

impl Dispatcher {
    /// From now on lanes of these shards begin here, each with reading what its destination is like.
    pub(super) fn gained(&mut self, gained: Vec<OwnedShard>, now: Timestamp) {
        for shard in gained {
            self.shards.gained(shard, now);
        }
    }

    /// Nothing more starts in these shards; what is open ends, and then they can be given away.
    pub(super) fn drain(&mut self, shards: Vec<u16>, round: u64) {
        for shard in shards {
            self.shards.drain(shard, round);
        }
    }

    /// They stay: on with it.
    pub(super) fn undrain(&mut self, shards: Vec<u16>) {
        for shard in shards {
            self.shards.undrain(shard);
            for destination in self.lanes.in_shard(shard) {
                self.touch(destination);
            }
        }
    }

    /// They are another node's: their lanes are dropped with everything they hold. What had not been seen to its end
    /// is pointed out to the new owner, which may have looked before it was committed.
    pub(super) fn lost(&mut self, shards: Vec<u16>, now: Timestamp) {
        let mut busy = Vec::new();
        for shard in shards {
            self.shards.lost(shard);
            let waited = self.waiting_lanes.forget(shard);
            if self.lanes.drop_shard(shard, self.runner.gate(), now) || waited {
                busy.push(shard);
            }
        }
        if !busy.is_empty() {
            self.outbox.shards(busy);
        }
        self.lanes.purge();
        let lanes = &self.lanes;
        for queue in [&mut self.ready, &mut self.starved, &mut self.hungry] {
            queue.retain(|id| lanes.contains(*id));
        }
        self.unread.retain(|id| lanes.contains(*id));
    }

    /// Another node says that something waits in lanes of ours.
    pub(super) fn woken(&mut self, wakes: Vec<Wake>, now: Timestamp) {
        let class = EntryClass::of_count(wakes.len());
        for wake in wakes {
            self.look(wake.destination_id, LookRange::At(wake.from), class, now);
        }
    }

    /// Says which shards have drained, and that nothing is open any more, to the owner, which waits for it.
    pub(super) fn report(&mut self) {
        let drained = self.shards.take_drained();
        if !drained.is_empty() {
            // An owner that is gone gives nothing away.
            let _ = self.reports.send(ShardReport::Drained(drained));
        }
        if self.quiet_wanted && self.runner.is_quiet() {
            self.quiet_wanted = false;
            let _ = self.reports.send(ShardReport::Quiet);
        }
    }

    /// What the lane of a destination shows, if it is one of ours.
    pub(super) fn seen<T>(
        &self,
        destination: DestinationId,
        here: impl FnOnce(&super::LaneTable) -> T,
    ) -> LaneAnswer<T> {
        if self.shards.is_ours(destination.shard()) {
            LaneAnswer::Here(here(&self.lanes))
        } else {
            LaneAnswer::Elsewhere
        }
    }
}

/// After the stop: what is still committed through this node is passed on to the nodes that own the lanes now.
pub(super) async fn pass_on(inbox: Arc<Mutex<mpsc::Receiver<Message>>>, outbox: Arc<Outbox>) {
    let mut inbox = inbox.lock().await;
    while let Some(message) = inbox.recv().await {
        supervisor::failpoint();
        match message {
            Message::Arrived(arrivals) => {
                for arrival in arrivals {
                    outbox.wake(arrival.delivery.destination_id, arrival.delivery.position);
                }
            }
            Message::Look(places) | Message::Made(places) => {
                places.iter().for_each(|(destination, _, position)| outbox.wake(*destination, *position));
            }
            Message::Views(destinations, answer) => {
                let _ = answer.send(destinations.iter().map(|_| LaneAnswer::Elsewhere).collect());
            }
            Message::Explain(deliveries, answer) => {
                let _ = answer.send(deliveries.iter().map(|_| LaneAnswer::Elsewhere).collect());
            }
            Message::Test(test) => test.end(TestEnd::Elsewhere),
            _ => {}
        }
    }
    // No handle is left that could commit anything, and the node is about to say so.
    std::future::pending().await
}
