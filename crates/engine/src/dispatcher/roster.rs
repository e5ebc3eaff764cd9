//! The lanes of this node, and when each wants to be looked at again.

use crate::{budget::Cargo, target::Prepared};
use domain::{
    delivery::Delivery,
    gate::GateSettings,
    id::DestinationId,
    lane::{Lane, WaitingFor},
    limits,
    time::Timestamp,
};
use std::{
    collections::{BTreeSet, HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
};
use store::LaneView;

#[derive(Default)]
pub(super) struct Roster {
    lanes: HashMap<DestinationId, Run>,
    /// When to wake which lane; one entry a lane at most.
    wakes: BTreeSet<(Timestamp, DestinationId)>,
    /// Lanes that hold rows, to be checked for rows held too long; one entry a lane, in time order.
    holding: VecDeque<(Timestamp, DestinationId)>,
    /// All lanes, to be checked for having nothing to do; one entry a lane, in time order.
    idling: VecDeque<(Timestamp, DestinationId)>,
}

/// A lane at work.
#[derive(Default)]
pub(super) struct Run {
    pub(super) lane: Lane<Cargo>,
    pub(super) target: Option<Arc<Prepared>>,
    /// In the queue of lanes to be looked at.
    pub(super) is_ready: bool,
    /// In the queue of lanes that may want a window.
    pub(super) is_hungry: bool,
    /// In the queue of lanes that the node's capacity held back.
    pub(super) is_starved: bool,
    /// Counts changes of the destination: what was read before the last one is thrown away.
    change: u64,
    wake_at: Option<Timestamp>,
    /// In the queue of lanes that hold rows.
    is_holding: bool,
    /// Had nothing to do when it was last checked.
    was_idle: bool,
}

impl Roster {
    /// The lane of a destination, and whether it is new.
    pub(super) fn enter(&mut self, id: DestinationId, now: Timestamp) -> (&mut Run, bool) {
        match self.lanes.entry(id) {
            Entry::Occupied(entry) => (entry.into_mut(), false),
            Entry::Vacant(entry) => {
                self.idling.push_back((now.plus(limits::LANE_IDLE), id));
                (entry.insert(Run::default()), true)
            }
        }
    }

    pub(super) fn get_mut(&mut self, id: DestinationId) -> Option<&mut Run> {
        self.lanes.get_mut(&id)
    }

    /// The destination has changed: nothing starts until it has been read again. False if no lane runs.
    pub(super) fn outdated(&mut self, id: DestinationId) -> bool {
        let Some(run) = self.lanes.get_mut(&id) else { return false };
        run.change += 1;
        run.target = None;
        run.lane.outdated();
        true
    }

    pub(super) fn change_of(&self, id: DestinationId) -> u64 {
        self.lanes.get(&id).map_or(0, |run| run.change)
    }

    /// The destination has been read; false if it has changed meanwhile and must be read again.
    pub(super) fn configured(&mut self, id: DestinationId, change: u64, target: Arc<Prepared>) -> bool {
        let Some(run) = self.lanes.get_mut(&id) else { return true };
        if run.change != change {
            return false;
        }
        run.lane.configured(target.lane.clone());
        run.target = Some(target);
        true
    }

    /// Sets the lane's alarm to when it wants to be asked next.
    pub(super) fn schedule(&mut self, id: DestinationId, now: Timestamp) {
        let Some(run) = self.lanes.get_mut(&id) else { return };
        if run.lane.held() > 0 && !std::mem::replace(&mut run.is_holding, true) {
            self.holding.push_back((now.plus(limits::HELD_FRESH), id));
        }
        let wake_at = run.lane.wake_at(now);
        if run.wake_at != wake_at {
            if let Some(before) = run.wake_at {
                self.wakes.remove(&(before, id));
            }
            if let Some(at) = wake_at {
                self.wakes.insert((at, id));
            }
            run.wake_at = wake_at;
        }
    }

    /// The lanes whose alarm has gone off.
    pub(super) fn woken(&mut self, now: Timestamp) -> Vec<DestinationId> {
        let mut woken = Vec::new();
        while let Some((at, id)) = self.wakes.first().copied() {
            if at > now {
                break;
            }
            self.wakes.pop_first();
            if let Some(run) = self.lanes.get_mut(&id) {
                run.wake_at = None;
            }
            woken.push(id);
        }
        woken
    }

    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        let wake = self.wakes.first().map(|(at, _)| *at);
        let checks = [self.holding.front(), self.idling.front()];
        wake.into_iter().chain(checks.into_iter().flatten().map(|(at, _)| *at)).min()
    }

    /// Lets go of rows that were held too long, and of lanes that have had nothing to do for a while.
    pub(super) fn check_up(&mut self, gate: &GateSettings, now: Timestamp) {
        while let Some(id) = next_due(&mut self.holding, now) {
            let Some(run) = self.lanes.get_mut(&id) else { continue };
            run.lane.refresh(now);
            run.is_holding = run.lane.held() > 0;
            if run.is_holding {
                self.holding.push_back((now.plus(limits::HELD_FRESH), id));
            }
        }
        while let Some(id) = next_due(&mut self.idling, now) {
            let Some(run) = self.lanes.get_mut(&id) else { continue };
            let is_idle = !run.is_ready && run.lane.is_idle(gate, now);
            if is_idle && run.was_idle {
                if let Some(wake_at) = run.wake_at {
                    self.wakes.remove(&(wake_at, id));
                }
                self.lanes.remove(&id);
                continue;
            }
            run.was_idle = is_idle;
            self.idling.push_back((now.plus(limits::LANE_IDLE), id));
        }
    }

    pub(super) fn view(&self, id: DestinationId, now: Timestamp) -> Option<LaneView> {
        let lane = &self.lanes.get(&id)?.lane;
        Some(LaneView { in_flight: lane.in_flight(), hold: lane.destination_hold(now) })
    }

    pub(super) fn waiting_for(&self, delivery: &Delivery, now: Timestamp) -> Option<WaitingFor> {
        match self.lanes.get(&delivery.destination_id) {
            Some(run) => run.lane.waiting_for(delivery, now),
            None => Lane::<Cargo>::default().waiting_for(delivery, now),
        }
    }
}

fn next_due(queue: &mut VecDeque<(Timestamp, DestinationId)>, now: Timestamp) -> Option<DestinationId> {
    queue.pop_front_if(|(at, _)| *at <= now).map(|(_, id)| id)
}
