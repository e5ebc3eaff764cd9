//! The loop over the lanes: things that happened come in as messages, lanes say what to do, it is done.
//!
//! One task owns all lanes of the node, so there is nothing to lock and every decision is made on one state. It never
//! waits for anybody: requests, reads and flushes are tasks of their own that answer with a message.

mod errand;
mod figures;
mod later;
mod node;
mod ownership;
mod roster;
mod shards;

use crate::{
    board::Board,
    claim::Claim,
    fetcher::{Fetcher, LaneWish, Sweep},
    sender::Sent,
    settler::{Flushed, Outcome},
    target::Prepared,
    wakes::Outbox,
    watch::Accounts,
};
use domain::{
    delivery::{Delivery, Position},
    id::{AccountId, DeliveryId, DestinationId},
    lane::{Head, Held, Lane, Row, Step, WaitingFor},
    limits,
    time::Timestamp,
};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use store::{
    Arrival, Change, FetchedDelivery, LaneHead, LaneRow, LaneView, OwnedShard, StoreError, TrackHead, Turn,
    Wake,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use errand::Errand;
pub(crate) use figures::{LaneFigure, LaneFigures};
use later::Later;
pub(crate) use node::Node;
use roster::Roster;
use shards::Shards;

/// Something that happened, or a question.
#[derive(Debug)]
pub(crate) enum Message {
    Expected(Vec<(DestinationId, DeliveryId)>),
    Arrived(Vec<Arrival>),
    Forgotten(Vec<(DestinationId, DeliveryId)>),
    Look(Vec<(DestinationId, DeliveryId, Position)>),
    Changed(Change),
    Fetched {
        wishes: Vec<LaneWish>,
        result: Result<Vec<Vec<FetchedDelivery>>, StoreError>,
    },
    TargetsRead {
        wanted: Vec<(DestinationId, u64)>,
        result: Result<Vec<Arc<Prepared>>, StoreError>,
    },
    /// What a look for the tracks of a lane has found.
    Swept {
        sweep: Sweep,
        result: Result<Vec<TrackHead>, StoreError>,
    },
    Turned {
        turns: Vec<Turn>,
        result: Result<Vec<bool>, StoreError>,
    },
    Sent(Sent),
    Flushed(Vec<Flushed>),
    Heads(Vec<LaneHead>),
    Views(Vec<DestinationId>, oneshot::Sender<Vec<Seen<Option<LaneView>>>>),
    WaitingFor(Vec<Delivery>, oneshot::Sender<Vec<Seen<Option<WaitingFor>>>>),
    /// Another node has committed something for lanes of ours.
    Woken(Vec<Wake>),
    /// We are a member, under this claim; nothing is ours yet.
    Joined(Arc<Claim>),
    Gained(Vec<OwnedShard>),
    /// Start nothing more in these shards, and say when nothing is open in them: a report of this round.
    Drain(Vec<u16>, u64),
    Undrain(Vec<u16>),
    Lost(Vec<u16>),
    /// Say when nothing is open and everything is durable.
    Quiet,
    Accounts(oneshot::Sender<Accounts>),
    /// Of this account these destinations have changed; with a version, those were all up to it.
    Reviewed {
        account: AccountId,
        version: Option<i64>,
        changed: Vec<DestinationId>,
    },
    /// The lanes worth publishing that have changed.
    Changes(oneshot::Sender<Vec<LaneRow>>),
    /// What is told of the lanes to whoever watches the node.
    Figures(oneshot::Sender<LaneFigures>),
}

/// What the dispatcher says to the owner. Bounded: a shard drains once in a round, and quiet is said when asked for.
#[derive(Debug)]
pub(crate) enum Report {
    /// Nothing of these shards is open or unflushed; each with the round of its drain.
    Drained(Vec<(u16, u64)>),
    Quiet,
}

/// Where something waits in a lane: there, or anywhere from there on.
#[derive(Debug, Clone, Copy)]
enum Place {
    At(Position),
    From(Position),
}

/// An answer about a lane, if it is one of this node's.
#[derive(Debug, Clone)]
pub(crate) enum Seen<T> {
    Here(T),
    Elsewhere,
}

pub(crate) struct Dispatcher {
    node: Node,
    shards: Shards,
    roster: Roster,
    fetcher: Fetcher,
    board: Arc<Board>,
    /// To the other nodes.
    outbox: Arc<Outbox>,
    /// To the owner.
    reports: mpsc::UnboundedSender<Report>,
    quiet_wanted: bool,
    later: Later,
    /// Lanes that may have something to start, in turn.
    ready: VecDeque<DestinationId>,
    /// Lanes that the node's capacity held back.
    starved: VecDeque<DestinationId>,
    /// Lanes that may want a window.
    hungry: VecDeque<DestinationId>,
    /// Lanes whose destination must be read.
    unread: VecDeque<DestinationId>,
    /// Looks for the tracks of ordered lanes: one a lane, a few of them under way.
    sweeps: VecDeque<Sweep>,
    sweeping: usize,
    /// Scheduled deliveries of ordered lanes whose time has come.
    turns: VecDeque<Turn>,
    fetching: Errand,
    reading: Errand,
    turning: Errand,
    stopping: bool,
}

impl Dispatcher {
    pub(crate) fn new(
        node: Node,
        fetcher: Fetcher,
        board: Arc<Board>,
        outbox: Arc<Outbox>,
        reports: mpsc::UnboundedSender<Report>,
    ) -> Self {
        Self {
            node,
            fetcher,
            board,
            outbox,
            reports,
            shards: Shards::default(),
            roster: Roster::default(),
            quiet_wanted: false,
            later: Later::default(),
            ready: VecDeque::new(),
            starved: VecDeque::new(),
            hungry: VecDeque::new(),
            unread: VecDeque::new(),
            sweeps: VecDeque::new(),
            sweeping: 0,
            turns: VecDeque::new(),
            fetching: Errand::default(),
            reading: Errand::default(),
            turning: Errand::default(),
            stopping: false,
        }
    }

    /// Runs until stopped; then starts nothing more and waits for what is open and unflushed, at most `grace`, and cuts
    /// the rest: nothing is open when it ends. What is committed even later is passed on to the others until nobody can
    /// commit any more.
    pub(crate) async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Message>,
        stop: CancellationToken,
        grace: watch::Receiver<Duration>,
        ended: CancellationToken,
    ) {
        let mut messages = Vec::with_capacity(limits::DISPATCHER_TURN);
        loop {
            let pause = self.pause(self.node.now());
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                _ = inbox.recv_many(&mut messages, limits::DISPATCHER_TURN) => {}
                () = tokio::time::sleep(pause) => {}
            }
            self.turn(&mut messages);
        }
        self.stopping = true;
        let grace = *grace.borrow();
        let drained = async {
            while !self.node.is_quiet() {
                inbox.recv_many(&mut messages, limits::DISPATCHER_TURN).await;
                self.turn(&mut messages);
            }
        };
        if tokio::time::timeout(grace, drained).await.is_err() {
            tracing::warn!(
                in_flight = self.node.in_flight(),
                "requests were still open when the grace time ended"
            );
            // Each answers: that it was cut, or how it ended in the same moment; that is written like any other result.
            self.node.abort_all();
            let cut = async {
                while self.node.in_flight() > 0 {
                    inbox.recv_many(&mut messages, limits::DISPATCHER_TURN).await;
                    self.turn(&mut messages);
                }
            };
            if tokio::time::timeout(limits::CUT_REQUESTS_ANSWER, cut).await.is_err() {
                tracing::warn!(in_flight = self.node.in_flight(), "requests that were cut did not answer");
            }
        }
        let passing_on = ownership::pass_on(inbox, self.outbox);
        tokio::spawn(async move { ended.run_until_cancelled(passing_on).await });
    }

    /// Takes in what happened, then does what the lanes say.
    fn turn(&mut self, messages: &mut Vec<Message>) {
        let now = self.node.now();
        for message in messages.drain(..) {
            self.take(message, now);
        }
        for id in self.roster.woken(now) {
            self.touch(id);
        }
        self.roster.check_up(self.node.gate(), now);
        self.enter_later(now);
        self.run_ready(now);
        if !self.stopping {
            self.read_targets(now);
            self.take_turns(now);
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
                    if let Some(run) = self.roster.get_mut(destination) {
                        run.lane.forgotten(delivery);
                    }
                }
            }
            Message::Look(places) => {
                let many = places.len() > limits::LANES_AT_ONCE;
                for (destination, delivery, position) in places {
                    if !self.shards.is_ours(destination.shard()) {
                        self.outbox.wake(destination, position);
                        continue;
                    }
                    if let Some(run) = self.roster.get_mut(destination) {
                        run.lane.forgotten(delivery);
                    }
                    self.look(destination, Place::At(position), many, now);
                }
            }
            Message::Heads(heads) => {
                for head in heads {
                    self.look(head.destination_id, Place::From(head.first), true, now);
                }
            }
            Message::Changed(change) => self.changed(change, now),
            Message::Fetched { wishes, result } => self.fetched(wishes, result, now),
            Message::TargetsRead { wanted, result } => self.targets_read(wanted, result, now),
            Message::Swept { sweep, result } => self.swept(&sweep, result, now),
            Message::Turned { turns, result } => self.turned(turns, result, now),
            Message::Sent(sent) => self.sent(sent, now),
            Message::Flushed(flushed) => self.flushed(flushed, now),
            Message::Views(destinations, answer) => {
                let view = |id: &DestinationId| self.seen(*id, |roster| roster.view(*id, now));
                let _ = answer.send(destinations.iter().map(view).collect());
            }
            Message::WaitingFor(deliveries, answer) => {
                let why = |it: &Delivery| self.seen(it.destination_id, |roster| roster.waiting_for(it, now));
                let _ = answer.send(deliveries.iter().map(why).collect());
            }
            Message::Woken(wakes) => self.woken(wakes, now),
            Message::Joined(claim) => self.node.joined(claim),
            Message::Gained(gained) => self.gained(gained, now),
            Message::Drain(shards, round) => self.drain(shards, round),
            Message::Undrain(shards) => self.undrain(shards),
            Message::Lost(shards) => self.lost(shards, now),
            Message::Quiet => self.quiet_wanted = true,
            Message::Accounts(answer) => {
                let _ = answer.send(self.roster.accounts());
            }
            Message::Reviewed { account, version, changed } => {
                self.outdated(changed);
                if let Some(version) = version {
                    self.roster.reviewed(account, version);
                }
            }
            Message::Changes(answer) => {
                let _ = answer.send(self.roster.changes(now));
            }
            Message::Figures(answer) => {
                let mut figures = self.roster.figures(now);
                figures.due_since = figures.due_since.into_iter().chain(self.later.due_since(now)).min();
                let _ = answer.send(figures);
            }
        }
    }

    fn arrived(&mut self, arrivals: Vec<Arrival>, now: Timestamp) {
        store::failpoint::hit("handover.before");
        let mut loader = self.node.loader();
        for arrival in arrivals {
            let destination = arrival.delivery.destination_id;
            let room = self.node.has_room();
            if !self.has_place(destination) {
                self.look(destination, Place::At(arrival.delivery.position), true, now);
                continue;
            }
            let Some(lane) = self.lane(destination, now) else {
                self.outbox.wake(destination, arrival.delivery.position);
                continue;
            };
            let cargo = loader.load(&arrival);
            lane.arrived(arrival.delivery, cargo, room, now);
            self.touch(destination);
        }
        store::failpoint::hit("handover.after");
    }

    fn changed(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Destinations(_, destinations) => self.outdated(destinations),
            Change::Probe(destination) => {
                if self.roster.probed(destination, now) {
                    self.touch(destination);
                }
            }
        }
    }

    /// These have changed: nothing starts there until they have been read again.
    fn outdated(&mut self, destinations: Vec<DestinationId>) {
        for destination in destinations {
            if self.roster.outdated(destination) {
                self.unread.push_back(destination);
            }
        }
    }

    fn fetched(
        &mut self,
        wishes: Vec<LaneWish>,
        result: Result<Vec<Vec<FetchedDelivery>>, StoreError>,
        now: Timestamp,
    ) {
        match result {
            Ok(windows) => {
                self.fetching.succeeded();
                self.fetching.next_beat(now);
                let mut loader = self.node.loader();
                for (LaneWish { destination, epoch, wish }, rows) in wishes.into_iter().zip(windows) {
                    let Some(lane) = self.lane_of(destination, epoch) else { continue };
                    let ordering = lane.ordering();
                    let rows = rows.into_iter().map(|row| {
                        let cargo = loader.load(&row);
                        let key = row.event.as_ref().and_then(|event| event.ordering_key.as_deref());
                        let track = ordering.track(key, row.delivery.id);
                        Row { delivery: row.delivery, cargo, track }
                    });
                    lane.fetched(&wish, rows.collect(), now);
                    self.touch(destination);
                }
            }
            Err(error) => {
                let pause = self.node.pause_after(&mut self.fetching.backoff, &error, "waiting deliveries");
                self.fetching.failed(now.plus(pause));
                for LaneWish { destination, epoch, wish } in wishes {
                    if let Some(lane) = self.lane_of(destination, epoch) {
                        lane.fetch_failed(&wish);
                        self.touch(destination);
                    }
                }
            }
        }
    }

    fn swept(&mut self, sweep: &Sweep, result: Result<Vec<TrackHead>, StoreError>, now: Timestamp) {
        self.sweeping -= 1;
        let Sweep { destination, epoch, wish } = *sweep;
        let result = result.map_err(|error| {
            // It is asked for again with the windows, and they keep the pause.
            let pause = self.node.pause_after(&mut self.fetching.backoff, &error, "tracks");
            self.fetching.pause_until(now.plus(pause));
        });
        let Some(lane) = self.lane_of(destination, epoch) else { return };
        match result {
            Ok(tracks) => {
                let head = |track: &TrackHead| Head { first: track.first, due_at: track.due_at };
                let heads: Vec<Head> = tracks.iter().map(head).collect();
                lane.swept(&wish, &heads, heads.len() < limits::TRACKS_LISTED, now);
            }
            Err(()) => lane.sweep_failed(&wish),
        }
        self.touch(destination);
    }

    fn take_turns(&mut self, now: Timestamp) {
        if !self.turns.is_empty() && self.turning.may_go(now) {
            self.turning.begun(now);
            let count = self.turns.len().min(limits::TURNS);
            let turns = self.turns.drain(..count).collect();
            self.fetcher.take_turns(self.node.id(), turns, now);
        }
    }

    /// Each stands at the end of its track now. One that did not move may have been moved before: both places are looked
    /// at.
    fn turned(&mut self, turns: Vec<Turn>, result: Result<Vec<bool>, StoreError>, now: Timestamp) {
        let moved = match result {
            Ok(moved) => {
                self.turning.succeeded();
                moved
            }
            Err(error) => {
                let pause = self.node.pause_after(&mut self.turning.backoff, &error, "scheduled deliveries");
                self.turning.failed(now.plus(pause));
                if !matches!(error, StoreError::Refused(_)) {
                    // Tried again before the others, or later times would have lower numbers.
                    turns.into_iter().rev().for_each(|turn| self.turns.push_front(turn));
                    return;
                }
                vec![false; turns.len()]
            }
        };
        for (Turn { delivery, track }, moved) in turns.into_iter().zip(moved) {
            let destination = delivery.destination_id;
            let place = Position::ordered(track, Position::END, delivery.id);
            match self.roster.get_mut(destination) {
                Some(run) => {
                    run.lane.turned(delivery.id, if moved { place } else { delivery.position });
                    run.lane.look_at(place);
                    self.touch(destination);
                }
                None => self.outbox.wake(destination, place),
            }
            self.feed_starved();
        }
    }

    fn targets_read(
        &mut self,
        wanted: Vec<(DestinationId, u64)>,
        result: Result<Vec<Arc<Prepared>>, StoreError>,
        now: Timestamp,
    ) {
        match result {
            Ok(targets) => {
                self.reading.succeeded();
                for ((destination, change), target) in wanted.into_iter().zip(targets) {
                    if self.roster.configured(destination, change, target, now) {
                        self.touch(destination);
                    } else {
                        self.unread.push_back(destination);
                    }
                }
            }
            Err(error) => {
                let pause = self.node.pause_after(&mut self.reading.backoff, &error, "destinations");
                self.reading.failed(now.plus(pause));
                self.unread.extend(wanted.into_iter().map(|(destination, _)| destination));
            }
        }
    }

    fn sent(&mut self, sent: Sent, now: Timestamp) {
        let destination = match sent {
            Sent::Attempted { settlement, met } => {
                let (destination, delivery) = (settlement.delivery.destination_id, settlement.delivery.id);
                let (mut word, mut hurry) = (None, false);
                if let Some(run) = self.roster.get_mut(destination) {
                    run.lane.finished(delivery, met, self.node.gate(), now);
                    run.recent.note(met.outcome, now);
                    word = run.gate_word(destination, now);
                    hurry = run.lane.hurries();
                }
                self.node.finished(Outcome { settlement: *settlement, word }, hurry, now);
                destination
            }
            Sent::Abandoned(delivery) => {
                self.node.abandoned();
                self.shards.closed(delivery.destination_id.shard());
                if let Some(run) = self.roster.get_mut(delivery.destination_id) {
                    run.lane.abandoned(delivery.id, delivery.position);
                }
                delivery.destination_id
            }
        };
        self.touch(destination);
        self.feed_starved();
    }

    fn flushed(&mut self, flushed: Vec<Flushed>, now: Timestamp) {
        self.node.flushed(&flushed, now);
        for Flushed { destination, delivery, track, settled, switched, .. } in flushed {
            self.shards.closed(destination.shard());
            if let Some(run) = self.roster.get_mut(destination) {
                run.lane.flushed(delivery, track, &settled, now);
                self.touch(destination);
            }
            if switched {
                self.outdated(vec![destination]);
            }
        }
        self.feed_starved();
    }

    /// Capacity has come back: the lane that has waited longest for it has its turn.
    fn feed_starved(&mut self) {
        let Some(next) = self.starved.pop_front() else { return };
        if let Some(run) = self.roster.get_mut(next) {
            run.is_starved = false;
        }
        self.touch(next);
    }

    /// Lanes in turn, a few deliveries each, until none can start anything.
    fn run_ready(&mut self, now: Timestamp) {
        while !self.stopping && self.node.may_start(now) {
            let Some(id) = self.ready.pop_front() else { return };
            let Some(run) = self.roster.get_mut(id) else { continue };
            run.is_ready = false;
            let shard = run.shard;
            if !self.shards.may_start(shard) {
                continue; // it is being given away; whoever takes it back touches it
            }
            let mut steps = 0;
            let blocked = loop {
                let Some(target) = run.target.as_ref() else { break false };
                if steps == limits::LANE_TURN || !self.node.may_start(now) {
                    run.is_ready = true;
                    self.ready.push_back(id);
                    break false;
                }
                let no_turns = self.turns.len() >= limits::TURNS_WAITING && run.lane.has_turn();
                if no_turns || (run.lane.is_ending() && !self.node.may_end()) {
                    break true;
                }
                let share = self.node.share();
                match run.lane.next(share, now) {
                    Some(Step::Start(held)) => self.node.start(Arc::clone(target), held),
                    Some(Step::End(held, ending)) => self.node.end(target, held.delivery, ending, now),
                    Some(Step::Turn(Held { delivery, .. }, track)) => {
                        self.turns.push_back(Turn { delivery, track });
                        steps += 1;
                        continue;
                    }
                    None => break run.lane.is_starved(share, now),
                }
                self.shards.opened(shard);
                steps += 1;
            };
            if blocked && !std::mem::replace(&mut run.is_starved, true) {
                self.starved.push_back(id);
            }
            if !std::mem::replace(&mut run.is_hungry, true) {
                self.hungry.push_back(id);
            }
            self.roster.schedule(id, now);
        }
    }

    fn fetch_windows(&mut self, now: Timestamp) {
        if !self.fetching.may_go(now) || !self.node.has_room() {
            return;
        }
        let (mut wishes, mut rows) = (Vec::new(), 0);
        while wishes.len() < limits::FETCH_LANES && rows < limits::FETCH_ROWS {
            let Some(id) = self.hungry.pop_front() else { break };
            let Some(run) = self.roster.get_mut(id) else { continue };
            run.is_hungry = false;
            let Some(epoch) = self.shards.epoch(run.shard).filter(|_| self.shards.may_start(run.shard))
            else {
                continue;
            };
            if let Some(wish) = run.lane.wants_tracks() {
                self.sweeps.push_back(Sweep { destination: id, epoch, wish });
            }
            while let Some(wish) = run.lane.wants(now) {
                rows += wish.limit;
                wishes.push(LaneWish { destination: id, epoch, wish });
                if wishes.len() >= limits::FETCH_LANES || rows >= limits::FETCH_ROWS {
                    run.is_hungry = true;
                    self.hungry.push_back(id);
                    break;
                }
            }
        }
        if !wishes.is_empty() {
            self.fetching.begun(now);
            self.fetcher.fetch(wishes);
        }
    }

    fn sweep_tracks(&mut self, now: Timestamp) {
        // They keep the pause of the windows after a failure.
        while self.sweeping < limits::SWEEPS_AT_ONCE && self.fetching.is_time(now) {
            let Some(sweep) = self.sweeps.pop_front() else { return };
            self.sweeping += 1;
            self.fetcher.sweep(sweep);
        }
    }

    fn read_targets(&mut self, now: Timestamp) {
        if self.unread.is_empty() || !self.reading.may_go(now) {
            return;
        }
        let count = self.unread.len().min(limits::FETCH_LANES);
        let wanted = self.unread.drain(..count).map(|id| (id, self.roster.change_of(id))).collect();
        self.reading.begun(now);
        self.fetcher.read_targets(wanted);
    }

    /// The lane of a destination, if its shard is ours; a new one begins with reading what its destination is like.
    fn lane(
        &mut self,
        destination: DestinationId,
        now: Timestamp,
    ) -> Option<&mut Lane<crate::budget::Cargo>> {
        let shard = destination.shard();
        if !self.shards.is_ours(shard) {
            return None;
        }
        let (run, is_new) = self.roster.enter(destination, shard, now);
        if is_new {
            self.unread.push_back(destination);
            if let Some(since) = self.shards.since(shard) {
                run.lane.owned_since(since);
            }
            if let Some(from) = self.later.take(destination) {
                run.lane.look(from);
            }
        }
        Some(&mut run.lane)
    }

    /// Whether a lane is kept, or another one may be. What is not ours needs none.
    fn has_place(&self, destination: DestinationId) -> bool {
        !self.roster.is_full()
            || self.roster.contains(destination)
            || !self.shards.is_ours(destination.shard())
    }

    /// Something waits there: looked at now or, as one of many, when its turn comes.
    fn look(&mut self, destination: DestinationId, place: Place, many: bool, now: Timestamp) {
        let has_room = || !self.roster.is_full() && self.later.is_empty();
        let enters = !many || self.roster.contains(destination) || has_room();
        if !enters {
            if self.shards.is_ours(destination.shard()) {
                let (Place::At(from) | Place::From(from)) = place;
                self.later.add(destination, from);
            }
        } else if let Some(lane) = self.lane(destination, now) {
            match place {
                Place::At(place) => lane.look_at(place),
                Place::From(from) => lane.look(from),
            }
            self.touch(destination);
        }
    }

    fn enter_later(&mut self, now: Timestamp) {
        if self.stopping || self.later.is_empty() {
            return;
        }
        self.roster.make_room(self.node.gate(), now);
        while let Some((destination, from)) = self.later.next(!self.roster.is_full(), now) {
            if let Some(lane) = self.lane(destination, now) {
                lane.look(from);
                self.touch(destination);
            }
        }
    }

    /// The lane that asked for something when its shard was ours at this epoch. Since then it may have been another's,
    /// and what was read then is no longer true.
    fn lane_of(&mut self, destination: DestinationId, epoch: i64) -> Option<&mut Lane<crate::budget::Cargo>> {
        let run = self.roster.get_mut(destination)?;
        (self.shards.epoch(run.shard) == Some(epoch)).then_some(&mut run.lane)
    }

    /// Something happened to this lane: look at it in this turn.
    fn touch(&mut self, destination: DestinationId) {
        let publishing = !self.board.is_alone();
        if let Some(run) = self.roster.touched(destination, publishing)
            && !run.is_ready
        {
            run.is_ready = true;
            self.ready.push_back(destination);
        }
    }

    /// How long nothing needs doing if nothing happens.
    fn pause(&self, now: Timestamp) -> Duration {
        let next_fetch = self.fetching.waits_until(now).filter(|_| !self.hungry.is_empty());
        let next_read = self.reading.waits_until(now).filter(|_| !self.unread.is_empty());
        // Held back by the lease, by an old flush or by a full budget: look again soon, nothing else would wake us.
        let no_room = !self.hungry.is_empty() && !self.fetching.under_way && !self.node.has_room();
        let waits = !self.ready.is_empty() || !self.later.is_empty();
        let held_back = (no_room || waits).then(|| now.plus(limits::HELD_BACK_LOOK));
        let next_turn = self.turning.waits_until(now).filter(|_| !self.turns.is_empty());
        let may_sweep = !self.sweeps.is_empty() && self.sweeping < limits::SWEEPS_AT_ONCE;
        let next_sweep = self.fetching.next_at().filter(|_| may_sweep);
        let all = [self.roster.next_wake(), next_fetch, next_sweep, next_read, next_turn, held_back];
        let next = all.into_iter().flatten().min();
        next.map_or(limits::RESCAN, |at| at.since(now))
    }
}
