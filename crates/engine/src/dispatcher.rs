//! The loop over the lanes: things that happened come in as messages, lanes say what to do, it is done.
//!
//! One task owns all lanes of the node, so there is nothing to lock and every decision is made on one state. It never
//! waits: requests, reads and flushes are tasks of their own that answer with a message.

mod capacity;
mod entry;
mod figures;
mod lane_table;
mod lane_tests;
mod message;
mod ownership;
mod reading;
mod runner;
mod shards;
mod single_read;
mod slot_use;
mod waiting_lanes;

use crate::{
    fetcher::{Fetcher, LaneSweep},
    ownership_view::OwnershipView,
    sender::AttemptEnd,
    settler::{DurableSettlement, PendingSettlement},
    wakes::Outbox,
};
use domain::{
    delivery::Delivery,
    id::{DestinationId, EventId},
    lane::{LaneAction, LoadedDelivery},
    limits,
    time::Timestamp,
};
use sharing::TurnQueue;
use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use store::{Arrival, Change, DueDelivery};
use supervisor::{Loop, Supervisor};
use tokio::sync::{Mutex, mpsc, watch};
use tokio_util::sync::CancellationToken;

pub(crate) use capacity::OpenPlace;
use entry::LookRange;
pub(crate) use figures::{LaneFigure, LaneFigures};
use lane_table::LaneTable;
pub(crate) use lane_tests::EndedTest;
pub(crate) use message::{LaneAnswer, Message, ShardReport};
pub(crate) use runner::AttemptRunner;
use shards::Shards;
use single_read::SingleRead;
pub(crate) use slot_use::LaneSample;
use waiting_lanes::{EntryClass, WaitingLanes};

pub(crate) struct Dispatcher {
    runner: AttemptRunner,
    shards: Shards,
    lanes: LaneTable,
    fetcher: Fetcher,
    ownership_view: Arc<OwnershipView>,
    /// To the other nodes.
    outbox: Arc<Outbox>,
    /// To the owner.
    reports: mpsc::UnboundedSender<ShardReport>,
    quiet_wanted: bool,
    waiting_lanes: WaitingLanes,
    /// When something was last made for a crowd.
    made_at: Option<Timestamp>,
    /// Lanes that may have something to start: those of an account one after the other, and one account after the other.
    ready: TurnQueue<DestinationId>,
    /// Not all of them have had their turn.
    more_ready: bool,
    /// Lanes that the node's capacity held back.
    starved: TurnQueue<DestinationId>,
    /// Lanes that may want a window.
    hungry: TurnQueue<DestinationId>,
    /// Lanes whose destination must be read.
    unread: VecDeque<DestinationId>,
    /// Looks for the tracks of ordered lanes: one a lane, a few of them under way.
    sweeps: VecDeque<LaneSweep>,
    sweeping: usize,
    /// Scheduled deliveries of ordered lanes whose time has come: the store is to number them.
    to_number: VecDeque<DueDelivery>,
    fetching: SingleRead,
    reading: SingleRead,
    numbering: SingleRead,
    stopping: bool,
}

impl Dispatcher {
    pub(crate) fn new(
        runner: AttemptRunner,
        fetcher: Fetcher,
        ownership_view: Arc<OwnershipView>,
        outbox: Arc<Outbox>,
        reports: mpsc::UnboundedSender<ShardReport>,
        lanes_kept: usize,
    ) -> Self {
        Self {
            runner,
            fetcher,
            ownership_view,
            outbox,
            reports,
            shards: Shards::default(),
            lanes: LaneTable::with_room_for(lanes_kept),
            quiet_wanted: false,
            waiting_lanes: WaitingLanes::default(),
            made_at: None,
            ready: TurnQueue::default(),
            more_ready: false,
            starved: TurnQueue::default(),
            hungry: TurnQueue::default(),
            unread: VecDeque::new(),
            sweeps: VecDeque::new(),
            sweeping: 0,
            to_number: VecDeque::new(),
            fetching: SingleRead::default(),
            reading: SingleRead::default(),
            numbering: SingleRead::default(),
            stopping: false,
        }
    }

    /// Runs until stopped; then starts nothing more and waits for what is open and unflushed, at most `grace`, and cuts
    /// the rest: nothing is open when it ends. What is committed even later is passed on to the other nodes until
    /// nothing can be committed any more.
    pub(crate) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Message>,
        stop: CancellationToken,
        grace: watch::Receiver<Duration>,
        ended: CancellationToken,
        supervisor: Supervisor,
    ) {
        let mut messages = Vec::with_capacity(limits::DISPATCHER_BATCH);
        loop {
            let pause = self.pause(self.runner.now());
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = inbox.recv_many(&mut messages, limits::DISPATCHER_BATCH) => {}
                () = tokio::time::sleep(pause) => {}
            }
            self.step(&mut messages);
        }
        self.stopping = true;
        let grace = *grace.borrow();
        let drained = async {
            while !self.runner.is_quiet() {
                inbox.recv_many(&mut messages, limits::DISPATCHER_BATCH).await;
                self.step(&mut messages);
            }
        };
        if tokio::time::timeout(grace, drained).await.is_err() {
            tracing::warn!(
                in_flight = self.runner.in_flight(),
                "requests were still open when the grace time ended"
            );
            // Each answers: that it was cut, or how it ended in the same moment; that is written like any other result.
            self.runner.abort_all();
            let cut = async {
                while self.runner.in_flight() > 0 {
                    inbox.recv_many(&mut messages, limits::DISPATCHER_BATCH).await;
                    self.step(&mut messages);
                }
            };
            if tokio::time::timeout(limits::CUT_REQUESTS_ANSWER, cut).await.is_err() {
                tracing::warn!(in_flight = self.runner.in_flight(), "requests that were cut did not answer");
            }
        }
        let (inbox, outbox) = (Arc::new(Mutex::new(inbox)), self.outbox);
        supervisor.start(Loop::LateHandOver, &ended, move |_| {
            ownership::pass_on(Arc::clone(&inbox), Arc::clone(&outbox))
        });
    }

    /// Takes in what happened, then does what the lanes say.
    fn step(&mut self, messages: &mut Vec<Message>) {
        supervisor::failpoint();
        let now = self.runner.now();
        for message in messages.drain(..) {
            self.take(message, now);
        }
        for id in self.lanes.woken(now) {
            self.touch(id);
        }
        self.lanes.check_up(self.runner.gate(), now);
        self.enter_waiting(now);
        self.run_ready(now);
        if !self.stopping {
            self.read_targets(now);
            self.number_due(now);
            self.fetch_windows(now);
            self.sweep_tracks(now);
        }
        self.report();
    }

    fn take(&mut self, message: Message, now: Timestamp) {
        match message {
            Message::Expected(deliveries) => {
                for (destination, delivery) in deliveries {
                    if self.has_place(destination)
                        && let Some(lane) = self.lane(destination, now)
                    {
                        lane.expected(delivery);
                    }
                }
            }
            Message::Arrived(arrivals) => self.arrived(arrivals, now),
            Message::Forgotten(deliveries) => {
                for (destination, delivery) in deliveries {
                    if let Some(run) = self.lanes.get_mut(destination) {
                        run.lane.forgotten(delivery);
                    }
                }
            }
            Message::Look(places) => {
                let class = EntryClass::of_count(places.len());
                self.look_all(places, class, now);
            }
            Message::Made(places) => {
                self.made_at = Some(now);
                self.look_all(places, EntryClass::Crowd, now);
            }

            Message::Heads(heads) => {
                for head in heads {
                    self.look(head.destination_id, LookRange::From(head.first), EntryClass::Crowd, now);
                }
            }
            Message::Changed(change) => self.changed(change, now),
            Message::Fetched { queries, result } => self.fetched(queries, result, now),
            Message::TargetsRead { wanted, result } => self.targets_read(wanted, result, now),
            Message::Swept { sweep, result } => self.swept(&sweep, result, now),
            Message::Numbered { due, result } => self.numbered(due, result, now),
            Message::Ended(sent, place) => self.sent(sent, place, now),
            Message::Test(test) => self.test_asked(*test, now),
            Message::TestEnded(ended) => self.test_ended(ended),
            Message::Flushed(flushed) => self.flushed(flushed, now),
            Message::Views(destinations, answer) => {
                let view = |id: &DestinationId| self.seen(*id, |lanes| lanes.view(*id, now));
                let _ = answer.send(destinations.iter().map(view).collect());
            }
            Message::Explain(deliveries, answer) => {
                let explain = |it: &Delivery| self.seen(it.destination_id, |lanes| lanes.explain(it, now));
                let _ = answer.send(deliveries.iter().map(explain).collect());
            }
            Message::Woken(wakes) => self.woken(wakes, now),
            Message::Joined(membership) => self.runner.joined(membership),
            Message::Gained(gained) => self.gained(gained, now),
            Message::Drain(shards, round) => self.drain(shards, round),
            Message::Undrain(shards) => self.undrain(shards),
            Message::Lost(shards) => self.lost(shards, now),
            Message::Quiet => self.quiet_wanted = true,
            Message::Accounts(answer) => {
                let _ = answer.send(self.lanes.accounts());
            }
            Message::Reviewed { account, version, changed } => {
                self.outdated(changed);
                if let Some(version) = version {
                    self.lanes.reviewed(account, version);
                }
            }
            Message::Changes(answer) => {
                let _ = answer.send(self.lanes.changes(now));
            }
            Message::Samples(answer) => {
                let _ = answer.send(self.lanes.samples(now));
            }
            Message::Figures(answer) => {
                let mut figures = self.lanes.figures(now);
                figures.due_since =
                    figures.due_since.into_iter().chain(self.waiting_lanes.due_since(now)).min();
                let _ = answer.send(figures);
            }
        }
    }

    fn arrived(&mut self, arrivals: Vec<Arrival>, now: Timestamp) {
        store::failpoint::hit("handover.before");
        let mut loader = self.runner.loader();
        let crowds = if self.lanes.is_full() { crowds(&arrivals) } else { HashSet::new() };
        for arrival in arrivals {
            let destination = arrival.delivery.destination_id;
            let account = arrival.delivery.account_id;
            let room = self.runner.has_room(account);
            if !self.has_place(destination) {
                let class = if crowds.contains(&arrival.delivery.event_id) {
                    EntryClass::Crowd
                } else {
                    EntryClass::Alone(account)
                };
                self.look(destination, LookRange::At(arrival.delivery.position), class, now);
                continue;
            }
            let Some(lane) = self.lane(destination, now) else {
                self.outbox.wake(destination, arrival.delivery.position);
                continue;
            };
            let carried = loader.load(&arrival);
            lane.arrived(arrival.delivery, carried, room, now);
            self.touch(destination);
        }
        store::failpoint::hit("handover.after");
    }

    fn changed(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Destinations(_, destinations) => self.outdated(destinations),
            Change::Defaults(account) => self.outdated(self.lanes.perhaps_of(account)),
            Change::Probe(destination) => {
                if self.lanes.probed(destination, now) {
                    self.touch(destination);
                }
            }
        }
    }

    fn sent(&mut self, sent: AttemptEnd, place: OpenPlace, now: Timestamp) {
        self.runner.closed(place);
        let destination = match sent {
            AttemptEnd::Attempted { settlement, met } => {
                let (destination, delivery) = (settlement.delivery.destination_id, settlement.delivery.id);
                let (mut gate_word, mut hurry) = (None, false);
                if let Some(run) = self.lanes.get_mut(destination) {
                    run.lane.finished(delivery, met, self.runner.gate(), now);
                    run.recent.note(met.outcome, now);
                    run.slot_use.note(run.lane.in_flight(), now);
                    gate_word = run.gate_word(destination, now);
                    hurry = run.lane.hurries();
                }
                self.runner.finished(PendingSettlement { settlement: *settlement, gate_word, hurry }, now);
                destination
            }
            AttemptEnd::Abandoned(delivery) => {
                self.shards.closed(delivery.destination_id.shard());
                if let Some(run) = self.lanes.get_mut(delivery.destination_id) {
                    run.lane.abandoned(delivery.id, delivery.position);
                }
                delivery.destination_id
            }
        };
        self.touch(destination);
        self.feed_starved();
    }

    fn flushed(&mut self, flushed: Vec<DurableSettlement>, now: Timestamp) {
        self.runner.flushed(&flushed, now);
        for DurableSettlement { destination, delivery, track, settled, switched, .. } in flushed {
            self.shards.closed(destination.shard());
            if let Some(run) = self.lanes.get_mut(destination) {
                run.lane.flushed(delivery, track, &settled, now);
                self.touch(destination);
            }
            if switched {
                self.outdated(vec![destination]);
            }
        }
        self.feed_starved();
    }

    /// Capacity has come back: the account whose turn it is has it, for the lane that has waited longest.
    fn feed_starved(&mut self) {
        let Some(next) = self.starved.pop() else { return };
        if let Some(run) = self.lanes.get_mut(next) {
            run.is_starved = false;
        }
        self.touch(next);
    }

    /// Lanes in turn, a few deliveries each, until none can start anything or many have had their turn.
    fn run_ready(&mut self, now: Timestamp) {
        let mut lanes = 0;
        self.more_ready = false;
        while !self.stopping && self.runner.may_start(now) {
            self.more_ready = lanes == limits::LANES_A_STEP;
            if self.more_ready {
                return;
            }
            let Some(id) = self.ready.pop_of(|account| self.runner.may_start_of(account)) else { return };
            lanes += 1;
            let Some(run) = self.lanes.get_mut(id) else { continue };
            run.is_ready = false;
            let account = run.account();
            let shard = run.shard;
            run.start_tests(&mut self.runner, &mut self.shards, now);
            if !self.shards.may_start(shard) {
                self.lanes.schedule(id, now);
                continue; // it is being given away; it is touched when it is taken back
            }
            let mut steps = 0;
            let blocked = loop {
                let Some(prepared) = run.destination.as_ref() else { break false };
                let may_start = self.runner.may_start(now) && self.runner.may_start_of(account);
                if steps == limits::LANE_STEPS || !may_start {
                    run.is_ready = true;
                    self.ready.push(account, id);
                    break false;
                }
                let no_room = self.to_number.len() >= limits::NUMBERING_WAITING && run.lane.has_to_number();
                if no_room || (run.lane.is_ending() && !self.runner.may_end()) {
                    break true;
                }
                let share = self.runner.share(account);
                match run.lane.next(share, now) {
                    Some(LaneAction::Start(loaded)) => self.runner.start(Arc::clone(prepared), loaded),
                    Some(LaneAction::End(loaded, ending)) => {
                        self.runner.end(prepared, loaded.delivery, ending, now)
                    }
                    Some(LaneAction::Number(LoadedDelivery { delivery, .. }, track)) => {
                        self.to_number.push_back(DueDelivery { delivery, track });
                        steps += 1;
                        continue;
                    }
                    None => break run.lane.is_starved(share, now),
                }
                self.shards.opened(shard);
                steps += 1;
            };
            if blocked && !std::mem::replace(&mut run.is_starved, true) {
                self.starved.push(account, id);
            }
            if !std::mem::replace(&mut run.is_hungry, true) {
                self.hungry.push(account, id);
            }
            self.lanes.schedule(id, now);
        }
    }

    /// Something happened to this lane: look at it in this step.
    fn touch(&mut self, destination: DestinationId) {
        let publishing = !self.ownership_view.is_alone();
        if let Some(run) = self.lanes.touched(destination, publishing)
            && !run.is_ready
        {
            run.is_ready = true;
            self.ready.push(run.account(), destination);
        }
    }

    /// How long nothing needs doing if nothing happens.
    fn pause(&self, now: Timestamp) -> Duration {
        if self.more_ready {
            return Duration::ZERO;
        }
        let has_room = self.hungry.any_of(|account| self.runner.has_room(account));
        let next_fetch = self.fetching.waits_until(now).filter(|_| has_room);
        let next_read = self.reading.waits_until(now).filter(|_| !self.unread.is_empty());
        // Held back by the lease, by an old flush or by a full budget: look again soon, nothing else would wake us.
        let no_room = !self.hungry.is_empty() && !self.fetching.under_way && !has_room;
        let waits = !self.ready.is_empty() || !self.waiting_lanes.is_empty();
        let held_back = (no_room || waits).then(|| now.plus(limits::HELD_BACK_LOOK));
        let next_numbering = self.numbering.waits_until(now).filter(|_| !self.to_number.is_empty());
        let may_sweep = !self.sweeps.is_empty() && self.sweeping < limits::SWEEPS_AT_ONCE;
        let next_sweep = self.fetching.next_at().filter(|_| may_sweep);
        let all = [self.lanes.next_wake(), next_fetch, next_sweep, next_read, next_numbering, held_back];
        let next = all.into_iter().flatten().min();
        next.map_or(limits::RESCAN, |at| at.since(now))
    }
}

/// The events that many of these belong to.
fn crowds(arrivals: &[Arrival]) -> HashSet<EventId> {
    let same = |one: &Arrival, next: &Arrival| one.delivery.event_id == next.delivery.event_id;
    let many = arrivals.chunk_by(same).filter(|arrivals| arrivals.len() > limits::LANES_AT_ONCE);
    many.map(|arrivals| arrivals[0].delivery.event_id).collect()
}
