//! The lanes of this node, when each wants to be looked at again, whose they are and what others are told of them.

use super::{
    figures::{Denials, LaneFigure, LaneFigures, Recent},
    slot_use::{LaneSample, SlotUse},
};
use crate::{
    carried::CarriedEvent, destination::PreparedDestination, test_sends::AskedTest, watch::Accounts,
};
use domain::{
    delivery::Delivery,
    gate::{GateRecord, GateSettings},
    id::{AccountId, DestinationId},
    lane::{Explanation, Lane},
    limits,
    operations::OperationalNote,
    time::Timestamp,
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque, hash_map::Entry},
    sync::Arc,
};
use store::{GateWord, LaneRow, LaneView};

#[derive(Default)]
pub(super) struct LaneTable {
    /// How many a node should have in memory.
    most: usize,
    /// In boxes: half of the places of a table that has grown are empty.
    lanes: HashMap<DestinationId, Box<RunningLane>>,
    /// When to wake which lane; one entry a lane at most.
    wakes: BTreeSet<(Timestamp, DestinationId)>,
    /// Lanes that have rows in memory, to be checked for rows that are too old; one entry a lane, in time order.
    with_loaded: VecDeque<(Timestamp, DestinationId)>,
    /// All lanes, to be checked for having nothing to do; one entry a lane, in time order.
    idling: VecDeque<(Timestamp, DestinationId)>,
    by_shard: BTreeMap<u16, BTreeSet<DestinationId>>,
    accounts: BTreeMap<AccountId, Account>,
    /// Numbers every reading of a destination that is waited for.
    readings: u64,
    /// Lanes that may look different from what was last published; one entry a lane.
    stirred: VecDeque<DestinationId>,
    /// Published lanes worth saying again; one entry a lane, in time order.
    said: VecDeque<(Timestamp, DestinationId)>,
    /// Whatever has changed is in `stirred`: false while there is no other node to tell.
    keeps_track: bool,
    denials: Denials,
    /// Of lanes that were forgotten since the last sample; a bounded number.
    left_samples: Vec<LaneSample>,
}

/// An account that has lanes here.
struct Account {
    /// Its changes up to this version are known here.
    version: i64,
    lanes: usize,
}

/// A lane at work.
#[derive(Default)]
pub(super) struct RunningLane {
    pub(super) lane: Lane<Arc<CarriedEvent>>,
    pub(super) shard: u16,
    pub(super) destination: Option<Arc<PreparedDestination>>,
    /// Tests that have not started, in the order in which they were asked for; the API bounds how many there are.
    pub(super) tests: Vec<AskedTest>,
    /// How its attempts went lately.
    pub(super) recent: Recent,
    /// What its slots were used for since the last sample.
    pub(super) slot_use: SlotUse,
    /// Something waited when the last sample was taken.
    waited: bool,
    /// What the destination was called, and its limit, when it was last read.
    called: Option<(Arc<str>, u32)>,
    /// In the queue of lanes to be looked at.
    pub(super) is_ready: bool,
    /// In the queue of lanes that may want a window.
    pub(super) is_hungry: bool,
    /// In the queue of lanes that the node's capacity held back.
    pub(super) is_starved: bool,
    /// The reading that is waited for or was the last: what was read before it is thrown away.
    change: u64,
    account: Option<AccountId>,
    /// What was last written about its gate.
    kept_gate: Option<GateRecord>,
    /// When a person last asked for a probe, as far as the lane knows.
    probed_at: Option<Timestamp>,
    is_stirred: bool,
    /// Was published a moment ago, and will be again.
    is_said: bool,
    /// What others were last told, unless it was that it is at rest.
    published: Option<LaneRow>,
    wake_at: Option<Timestamp>,
    /// In `with_loaded`.
    is_with_loaded: bool,
    /// Had nothing to do when it was last checked.
    was_idle: bool,
}

impl LaneTable {
    pub(super) fn with_room_for(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// The lane of a destination, and whether it is new.
    pub(super) fn enter(
        &mut self,
        id: DestinationId,
        shard: u16,
        now: Timestamp,
    ) -> (&mut RunningLane, bool) {
        match self.lanes.entry(id) {
            Entry::Occupied(entry) => (entry.into_mut(), false),
            Entry::Vacant(entry) => {
                self.idling.push_back((now.plus(limits::LANE_IDLE), id));
                self.by_shard.entry(shard).or_default().insert(id);
                self.readings += 1;
                let run = RunningLane { shard, change: self.readings, ..RunningLane::default() };
                (entry.insert(Box::new(run)), true)
            }
        }
    }

    pub(super) fn get_mut(&mut self, id: DestinationId) -> Option<&mut RunningLane> {
        self.lanes.get_mut(&id).map(Box::as_mut)
    }

    pub(super) fn contains(&self, id: DestinationId) -> bool {
        self.lanes.contains_key(&id)
    }

    pub(super) fn in_shard(&self, shard: u16) -> Vec<DestinationId> {
        self.by_shard.get(&shard).into_iter().flatten().copied().collect()
    }

    /// Drops the lanes of a shard; says whether one of them had something that was not seen to its end. Be sure to
    /// [`LaneTable::purge`] afterwards.
    pub(super) fn drop_shard(&mut self, shard: u16, gate: &GateSettings, now: Timestamp) -> bool {
        let Some(lanes) = self.by_shard.get(&shard).cloned() else { return false };
        let busy = lanes.iter().any(|id| self.lanes.get(id).is_some_and(|run| !run.lane.is_idle(gate, now)));
        for id in lanes {
            self.remove(id);
        }
        busy
    }

    /// After lanes were dropped: forgets what was noted about them, so that one that comes again is noted once.
    pub(super) fn purge(&mut self) {
        for queue in [&mut self.with_loaded, &mut self.idling, &mut self.said] {
            queue.retain(|(_, id)| self.lanes.contains_key(id));
        }
        self.stirred.retain(|id| self.lanes.contains_key(id));
    }

    fn remove(&mut self, id: DestinationId) {
        let Some(mut run) = self.lanes.remove(&id) else { return };
        self.denials.add(id, run.name(), run.take_denied());
        if let Some(since) = run.slot_use.since()
            && self.left_samples.len() < limits::LANE_ROLLUP_PLACES
        {
            let is_told = run.waited;
            let sample = run.sample(id, since).filter(|sample| is_told || sample.is_worth_noting());
            self.left_samples.extend(sample);
        }
        if let Some(wake_at) = run.wake_at {
            self.wakes.remove(&(wake_at, id));
        }
        if let Some(lanes) = self.by_shard.get_mut(&run.shard) {
            lanes.remove(&id);
            if lanes.is_empty() {
                self.by_shard.remove(&run.shard);
            }
        }
        if let Some(account) = run.account
            && let Some(kept) = self.accounts.get_mut(&account)
        {
            kept.lanes -= 1;
            if kept.lanes == 0 {
                self.accounts.remove(&account);
            }
        }
    }

    /// The destination has changed: nothing starts until it has been read again. False if no lane runs.
    pub(super) fn outdated(&mut self, id: DestinationId) -> bool {
        let Some(run) = self.lanes.get_mut(&id) else { return false };
        self.readings += 1;
        run.change = self.readings;
        run.destination = None;
        run.lane.outdated();
        true
    }

    /// The lanes of an account, and those of which it is not known yet whose they are: one of them may be read right now,
    /// as it was before.
    pub(super) fn perhaps_of(&self, account: AccountId) -> Vec<DestinationId> {
        let perhaps = |id: &&DestinationId| {
            self.lanes.get(id).is_some_and(|run| run.account.is_none_or(|known| known == account))
        };
        self.by_shard.values().flatten().filter(perhaps).copied().collect()
    }

    pub(super) fn change_of(&self, id: DestinationId) -> u64 {
        self.lanes.get(&id).map_or(0, |run| run.change)
    }

    /// The destination has been read; false if it has changed meanwhile and must be read again.
    pub(super) fn configured(
        &mut self,
        id: DestinationId,
        change: u64,
        destination: Arc<PreparedDestination>,
        now: Timestamp,
    ) -> bool {
        let Some(run) = self.lanes.get_mut(&id) else { return true };
        if run.change != change {
            return false;
        }
        run.lane.configured(destination.lane.clone());
        if let Some(gate) = destination.gate.as_ref().filter(|_| run.account.is_none()) {
            run.lane.restore(&gate.record, now);
            run.kept_gate = Some(gate.record.clone());
            run.probed_at = Some(gate.kept_at);
        }
        if destination.probed_at > run.probed_at {
            run.probed_at = destination.probed_at;
            run.lane.probe_now(now);
        }
        if run.account.is_none() {
            run.account = Some(destination.account_id);
            let fresh = Account { version: destination.account_version, lanes: 0 };
            self.accounts.entry(destination.account_id).or_insert(fresh).lanes += 1;
        }
        run.called = Some((Arc::clone(&destination.name), destination.lane.max_concurrency));
        run.destination = Some(destination);
        true
    }

    /// A person asked for a probe on this node. False if no lane runs.
    pub(super) fn probed(&mut self, id: DestinationId, now: Timestamp) -> bool {
        let Some(run) = self.lanes.get_mut(&id) else { return false };
        // The same wish comes with the next reading of the destination, and must not count twice.
        run.probed_at = Some(now);
        run.lane.probe_now(now);
        true
    }

    /// The accounts that have lanes here, and how far each is known.
    pub(super) fn accounts(&self) -> Accounts {
        self.accounts.iter().map(|(id, account)| (*id, account.version)).collect()
    }

    pub(super) fn reviewed(&mut self, id: AccountId, version: i64) {
        if let Some(account) = self.accounts.get_mut(&id) {
            account.version = account.version.max(version);
        }
    }

    /// Something happened to this lane.
    pub(super) fn touched(&mut self, id: DestinationId, publishing: bool) -> Option<&mut RunningLane> {
        let run = self.lanes.get_mut(&id)?;
        if !publishing {
            self.keeps_track = false;
        } else if !std::mem::replace(&mut run.is_stirred, true) {
            self.stirred.push_back(id);
        }
        Some(run)
    }

    /// The lanes that look different from what others were told, or that must be said again; a bounded number.
    pub(super) fn changes(&mut self, now: Timestamp) -> Vec<LaneRow> {
        if !std::mem::replace(&mut self.keeps_track, true) {
            for id in self.by_shard.values().flatten() {
                if let Some(run) = self.lanes.get_mut(id)
                    && !std::mem::replace(&mut run.is_stirred, true)
                {
                    self.stirred.push_back(*id);
                }
            }
        }
        while let Some(id) = next_due(&mut self.said, now) {
            if let Some(run) = self.lanes.get_mut(&id) {
                run.is_said = false;
                if !std::mem::replace(&mut run.is_stirred, true) {
                    self.stirred.push_back(id);
                }
            }
        }
        let mut rows = Vec::new();
        while rows.len() < limits::LANES_PUBLISHED {
            let Some(id) = self.stirred.pop_front() else { break };
            let Some(run) = self.lanes.get_mut(&id) else { continue };
            run.is_stirred = false;
            let row = run.row(id, now);
            let at_rest = row.in_flight == 0 && row.hold.is_none() && row.binding.is_none();
            let known = run.published.as_ref() == Some(&row);
            if known && run.is_said || at_rest && run.published.is_none() {
                continue;
            }
            run.published = (!at_rest).then(|| row.clone());
            if !at_rest && !std::mem::replace(&mut run.is_said, true) {
                self.said.push_back((now.plus(limits::LANES_AGAIN), id));
            }
            rows.push(row);
        }
        rows
    }

    /// Sets the lane's alarm to when it wants to be asked next.
    pub(super) fn schedule(&mut self, id: DestinationId, now: Timestamp) {
        let Some(run) = self.lanes.get_mut(&id) else { return };
        run.slot_use.note(run.lane.in_flight(), now);
        if run.lane.loaded() > 0 && !std::mem::replace(&mut run.is_with_loaded, true) {
            self.with_loaded.push_back((now.plus(limits::LOADED_FRESH), id));
        }
        let wake_at = run.lane.wake_at(now).into_iter().chain(run.tests_wake_at(now)).min();
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
        let checks = [self.with_loaded.front(), self.idling.front()];
        wake.into_iter().chain(checks.into_iter().flatten().map(|(at, _)| *at)).min()
    }

    /// Lets go of rows that are too old, and of lanes that have had nothing to do for a while.
    pub(super) fn check_up(&mut self, gate: &GateSettings, now: Timestamp) {
        while let Some(id) = next_due(&mut self.with_loaded, now) {
            let Some(run) = self.lanes.get_mut(&id) else { continue };
            run.lane.refresh(now);
            run.is_with_loaded = run.lane.loaded() > 0;
            if run.is_with_loaded {
                self.with_loaded.push_back((now.plus(limits::LOADED_FRESH), id));
            }
        }
        while let Some(id) = next_due(&mut self.idling, now) {
            let Some(run) = self.lanes.get_mut(&id) else { continue };
            let is_idle = !run.is_ready && run.tests.is_empty() && run.lane.is_idle(gate, now);
            if is_idle && run.was_idle {
                self.remove(id);
                continue;
            }
            run.was_idle = is_idle;
            self.idling.push_back((now.plus(limits::LANE_IDLE), id));
        }
    }

    /// As many lanes as a node should have in memory.
    pub(super) fn is_full(&self) -> bool {
        self.lanes.len() >= self.most
    }

    /// As many as a crowd may bring: the last places are for those that come alone.
    pub(super) fn is_crowded(&self) -> bool {
        self.lanes.len() + limits::LANES_AT_ONCE >= self.most.min(limits::LANES_BESIDE_CROWDS)
    }

    /// Others wait to be entered: lanes with nothing to do go at once, ill ones too if what they must remember is
    /// written down. Looks at no more than the dispatcher takes in at once.
    pub(super) fn make_room(&mut self, gate: &GateSettings, now: Timestamp) {
        let looked_at = self.idling.len().min(limits::DISPATCHER_BATCH);
        for _ in 0..looked_at {
            if !self.is_crowded() {
                return;
            }
            let Some((_, id)) = self.idling.pop_front() else { return };
            let Some(run) = self.lanes.get(&id) else { continue };
            let may_go = run.lane.is_idle(gate, now) || run.lane.is_quiet(now) && run.is_written_down();
            if !run.is_ready && run.tests.is_empty() && may_go {
                self.remove(id);
            } else {
                self.idling.push_back((now.plus(limits::LANE_IDLE), id));
            }
        }
    }

    pub(super) fn view(&self, id: DestinationId, now: Timestamp) -> Option<LaneView> {
        let lane = &self.lanes.get(&id)?.lane;
        Some(LaneView { in_flight: lane.in_flight(), hold: lane.destination_hold(now) })
    }

    /// What has happened since the last time: lanes at which nothing has, and in which nothing waits, are left out.
    pub(super) fn samples(&mut self, now: Timestamp) -> Vec<LaneSample> {
        let mut samples = std::mem::take(&mut self.left_samples);
        for (id, run) in &mut self.lanes {
            self.denials.add(*id, run.name(), run.take_denied());
            let waits = !run.lane.is_quiet(now);
            // Once more when nothing waits any longer: that is news too.
            let is_told = std::mem::replace(&mut run.waited, waits) || waits;
            samples.extend(run.sample(*id, now).filter(|sample| is_told || sample.is_worth_noting()));
        }
        samples
    }

    /// What metrics tell of all lanes.
    pub(super) fn figures(&mut self, now: Timestamp) -> LaneFigures {
        let mut lanes = Vec::with_capacity(self.lanes.len());
        let mut due_since = None;
        for (id, run) in &mut self.lanes {
            let (name, max_concurrency) = run.called.clone().unwrap_or_default();
            let (successes, attempts) = run.recent.read(now);
            let in_flight = run.lane.in_flight();
            self.denials.add(*id, Arc::clone(&name), run.take_denied());
            let due = run.lane.due_since(now);
            due_since = due_since.into_iter().chain(due).min();
            lanes.push(LaneFigure {
                destination: *id,
                name,
                max_concurrency,
                in_flight,
                successes,
                attempts,
                held: run.lane.held_by_gate(now),
                due_since: due,
            });
        }
        let (denied, denied_other) = self.denials.list();
        LaneFigures { lanes, denied, denied_other, due_since }
    }

    pub(super) fn explain(&self, delivery: &Delivery, now: Timestamp) -> Explanation {
        match self.lanes.get(&delivery.destination_id) {
            Some(run) => run.lane.explain(delivery, now),
            None => Lane::<Arc<CarriedEvent>>::default().explain(delivery, now),
        }
    }
}

impl RunningLane {
    /// Whose it is. Those of which that is not known yet start nothing, and count as one account's.
    pub(super) fn account(&self) -> AccountId {
        self.account.unwrap_or(AccountId::MIN)
    }

    /// What is to be written about the gate, if that has changed.
    pub(super) fn gate_word(&mut self, id: DestinationId, now: Timestamp) -> Option<Box<GateWord>> {
        let record = self.lane.gate_record();
        if record == self.kept_gate {
            return None;
        }
        let holds = GateRecord::history(self.kept_gate.as_ref(), record.as_ref(), now);
        let told = GateRecord::told(self.kept_gate.as_ref(), record.as_ref());
        let note = |account: AccountId| {
            let note = move |(kind, hold): &(_, _)| OperationalNote::of_gate(account, id, (*kind, hold), now);
            told.iter().map(note).collect()
        };
        let notes = self.account.map(note).unwrap_or_default();
        self.kept_gate.clone_from(&record);
        Some(Box::new(GateWord { destination_id: id, shard: self.shard, record, holds, notes }))
    }

    /// The gate as it is, so that the lane goes on from there when it is entered again.
    fn is_written_down(&self) -> bool {
        self.kept_gate.is_some() && self.kept_gate == self.lane.gate_record()
    }

    /// Counted for the metrics as for the samples.
    fn take_denied(&mut self) -> u64 {
        let count = self.lane.take_denied();
        self.slot_use.deny(count);
        count
    }

    /// None of a destination that was never read: nothing was started there.
    fn sample(&mut self, id: DestinationId, now: Timestamp) -> Option<LaneSample> {
        let (_, slots) = self.called.as_ref()?;
        let (account_id, slots) = (self.account?, *slots);
        let (busy_us, denied) = self.slot_use.take(self.lane.in_flight(), now);
        let waiting = self.lane.waiting_here().map(|waiting| waiting as u64);
        Some(LaneSample { account_id, destination_id: id, slots, busy_us, denied, waiting })
    }

    fn name(&self) -> Arc<str> {
        self.called.as_ref().map(|(name, _)| Arc::clone(name)).unwrap_or_default()
    }

    /// The lane as others may see it.
    fn row(&self, id: DestinationId, now: Timestamp) -> LaneRow {
        let mut open = self.lane.open_for(limits::LANES_OPEN_AFTER, now);
        open.truncate(limits::LANES_OPEN_NAMED);
        LaneRow {
            destination_id: id,
            shard: self.shard,
            in_flight: self.lane.in_flight(),
            hold: self.lane.destination_hold(now),
            open,
            binding: self.lane.binding(now),
        }
    }
}

fn next_due(queue: &mut VecDeque<(Timestamp, DestinationId)>, now: Timestamp) -> Option<DestinationId> {
    queue.pop_front_if(|(at, _)| *at <= now).map(|(_, id)| id)
}
