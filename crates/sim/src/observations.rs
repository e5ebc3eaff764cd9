//! What the world has observed: requests as the receivers saw them, deliveries as the store was told of them, lives of nodes.
//! Promises that can be judged at the moment they are broken are judged here; the rest at the end, by `verdict`.

mod judge;

use crate::{
    log::{Log, Occurrence},
    promise::Promise::{self, *},
    time::{MILLISECOND, Moment, moment},
};
use domain::{
    delivery::{Ending, Settled},
    destination::{Ordering, RateLimit},
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, RouteId},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};
use store::{Fact, GateWord, NewDelivery, NewEvent, Roster, Settlement};

/// A promise that was broken.
#[derive(Debug, Clone)]
pub struct Violation {
    pub at: i64,
    pub promise: Promise,
    pub what: String,
}

/// The promise, and how it was broken.
impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}: {}", self.promise, self.what)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Observations {
    pub(crate) log: Log,
    pub(crate) violations: Vec<Violation>,
    /// The latest time the store has told: within a step it may be ahead of the node that has its turn.
    pub(crate) store_told: Moment,
    pub(crate) destinations: Vec<KnownDestination>,
    pub(crate) requests: Vec<Request>,
    pub(crate) deliveries: BTreeMap<DeliveryId, KnownDelivery>,
    pub(crate) events: BTreeMap<EventId, CommittedEvent>,
    /// Where the routes lead that were switched on or off, in this order.
    pub(crate) switched_routes: Vec<DestinationId>,
    pub(crate) lives: Vec<ProcessLife>,
    /// Nodes whose row is in the store.
    pub(crate) members: BTreeSet<NodeId>,
    /// Owner and epoch of every shard.
    shards: Vec<(Option<NodeId>, i64)>,
    /// Destinations that were paused, and when the answer to that was given.
    paused: BTreeMap<DestinationId, Moment>,
    /// … and at what version each was told to go on.
    resumed: BTreeMap<DestinationId, i64>,
    /// When each node was last cut off, slow or frozen.
    pub(crate) troubled: Vec<Moment>,
    pub(crate) life_of: BTreeMap<NodeId, usize>,
    /// Requests of each destination that have begun and are not over.
    open: Vec<BTreeSet<usize>>,
    holds: BTreeMap<usize, KnownHold>,
    /// Throttled windows of each destination, as its owners could see them.
    windows: BTreeMap<usize, u64>,
    /// Requests by the delivery they were for.
    requests_of: BTreeMap<DeliveryId, Vec<usize>>,
}

/// A destination, as the world made it.
#[derive(Debug, Clone)]
pub(crate) struct KnownDestination {
    pub(crate) id: DestinationId,
    pub(crate) account: AccountId,
    pub(crate) limit: u32,
    pub(crate) ordering: Ordering,
    pub(crate) sequence: bool,
    pub(crate) rate_limit: Option<RateLimit>,
    pub(crate) retries: u32,
    pub(crate) expire_after: std::time::Duration,
    pub(crate) first_rung: Moment,
}

/// One start of one process.
#[derive(Debug)]
pub(crate) struct ProcessLife {
    pub(crate) node: usize,
    /// It must not send a first byte after this moment, by the renewals it knows of.
    pub(crate) deadline: Moment,
    /// Its lease, from the same renewal: what is open then is aborted.
    pub(crate) lease_end: Moment,
    pub(crate) over: Option<Moment>,
    /// When its row was taken from it, or it noticed that its lease had ended: what was open then came to nothing.
    pub(crate) lost: Vec<Moment>,
    /// When it was last run again after a freeze.
    pub(crate) thawed: Moment,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) life: usize,
    pub(crate) destination: usize,
    pub(crate) delivery: DeliveryId,
    pub(crate) attempt: u32,
    /// Its payload was read after it had started.
    pub(crate) large: bool,
    pub(crate) began: Moment,
    /// When it began, by its sender's clock: holds and due times are measured by that.
    pub(crate) believed: Moment,
    pub(crate) first_byte: Option<Moment>,
    pub(crate) over: Option<(Moment, RequestEnd)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RequestEnd {
    Answered(u16),
    TimedOut,
    Reset,
    /// The process died.
    Cut,
    /// The sender gave it up.
    Aborted,
    /// The sender gave it up before the first byte.
    Unsent,
}

impl RequestEnd {
    /// The sender has heard how it ended, and is to write it down.
    pub(crate) fn was_heard(self) -> bool {
        matches!(self, Self::Answered(_) | Self::TimedOut | Self::Reset)
    }
}

/// An event, at the moment its commit was made.
#[derive(Debug)]
pub(crate) struct CommittedEvent {
    /// How many routes had been switched before. Nodes have their turns one after the other, so moments do not tell what
    /// came first.
    switched_before: usize,
    /// The routes it matched, as they were in the store at that moment, and where they lead.
    pub(crate) matched: Vec<(RouteId, DestinationId)>,
    /// Its deliveries were made by an expansion, and so many routes had been switched when that ended.
    pub(crate) expanded_after: Option<usize>,
}

/// A delivery, by what the store has confirmed.
#[derive(Debug)]
pub(crate) struct KnownDelivery {
    pub(crate) account: AccountId,
    pub(crate) destination: DestinationId,
    /// Its track and number at an ordered destination.
    pub(crate) number: Option<(i64, i64)>,
    pub(crate) due: Moment,
    pub(crate) attempts: u32,
    pub(crate) spent: u32,
    pub(crate) ending: Option<Ending>,
    facts: BTreeMap<AttemptId, bool>,
}

/// A destination asked to wait.
#[derive(Debug)]
struct KnownHold {
    /// The process that was asked.
    life: usize,
    /// Until when, as it has been written down: the next owner is bound by that too.
    kept: Option<Moment>,
    since: Moment,
    until: Moment,
    /// Since then, of each of its owners: every one begins with one probe.
    answers: BTreeMap<usize, u32>,
}

/// A monotonic clock that runs a little fast or slow, measured over a lease.
const DRIFT: Moment = 60 * MILLISECOND;
/// How much closer requests may come than their rate says: clocks, and the way from the lane to the line.
const RATE_SLACK: Moment = 200 * MILLISECOND;
/// Every owner knows of a change after this, …
const TOLD: Moment = 1_300 * MILLISECOND;
/// … if it has been well for so long.
const RECOVERED: Moment = 7_000 * MILLISECOND;

impl Observations {
    pub(crate) fn broken(&mut self, at: Moment, promise: Promise, what: String) {
        // The first few tell the story; a broken world breaks everything after.
        if self.violations.len() < 8 {
            self.violations.push(Violation { at, promise, what });
        }
    }

    pub(crate) fn add_destination(&mut self, known: KnownDestination) {
        self.destinations.push(known);
        self.open.push(BTreeSet::new());
    }

    pub(crate) fn account_of(&self, destination: DestinationId) -> AccountId {
        let known = self.destinations.iter().find(|known| known.id == destination);
        known.expect("the world made every destination").account
    }

    // --- Nodes -------------------------------------------------------------------------------------------------------

    pub(crate) fn begins(&mut self, node: usize, now: Moment) -> usize {
        let life = self.lives.len();
        let never = Moment::MIN;
        self.lives.push(ProcessLife {
            node,
            deadline: never,
            lease_end: never,
            over: None,
            lost: vec![],
            thawed: never,
        });
        self.log.note(now, Occurrence::Started { node, life });
        life
    }

    /// The process is gone, and with it every connection it had.
    pub(crate) fn dies(&mut self, life: usize, now: Moment) {
        self.lives[life].over = Some(now);
        let cut: Vec<usize> = self.open.iter().flatten().copied().collect();
        for request in
            cut.into_iter().filter(|request| self.requests[*request].life == life).collect::<Vec<_>>()
        {
            self.over(request, RequestEnd::Cut, now);
        }
    }

    /// A renewal that was sent then has been confirmed to the node.
    pub(crate) fn renewed(&mut self, life: usize, sent: Moment, lease: Moment, margin: Moment, now: Moment) {
        let life = &mut self.lives[life];
        if now > life.lease_end {
            life.lost.push(now);
        }
        life.deadline = life.deadline.max(sent + lease - margin);
        life.lease_end = life.lease_end.max(sent + lease);
    }

    /// The members and the owners of the shards, after a write that may have moved either.
    pub(crate) fn roster_read(&mut self, roster: &Roster, now: Moment) {
        let members: BTreeSet<NodeId> = roster.members.iter().map(|member| member.record.id).collect();
        let removed: Vec<NodeId> = self.members.difference(&members).copied().collect();
        self.members = members;
        for id in removed {
            let Some(life) = self.life_of.get(&id).copied() else { continue };
            self.lives[life].lost.push(now);
            self.holds.retain(|_, hold| hold.kept.is_some() || hold.life != life);
        }
        self.shards.resize(roster.shards.len(), (None, i64::MIN));
        for (row, known) in roster.shards.iter().zip(self.shards.clone()) {
            let (owner, epoch) = known;
            let moved = row.owner.is_some() && owner.is_some() && row.owner != owner;
            if row.epoch < epoch || (moved && row.epoch == epoch) {
                let what = format!(
                    "shard {}: {owner:?} at {epoch}, then {:?} at {}",
                    row.shard, row.owner, row.epoch
                );
                self.broken(now, FormerOwnersMoveNothing, what);
            }
            self.shards[usize::from(row.shard)] = (row.owner.or(owner), row.epoch);
            if row.owner != owner && !self.holds.is_empty() {
                let destinations = &self.destinations;
                self.holds.retain(|destination, hold| {
                    hold.kept.is_some() || destinations[*destination].id.shard() != row.shard
                });
            }
        }
    }

    /// The producer of the command has heard that the destination is paused.
    pub(crate) fn paused(&mut self, destination: DestinationId, version: i64, now: Moment) {
        if self.resumed.get(&destination).is_none_or(|resumed| *resumed < version) {
            self.paused.insert(destination, now);
        }
    }

    /// Whatever pause it had at this version ends.
    pub(crate) fn resumes(&mut self, destination: DestinationId, version: i64) {
        self.paused.remove(&destination);
        self.resumed.insert(destination, version);
    }

    /// Whether a life has ended or lost its lanes since: then it may not have told what it knew.
    pub(crate) fn lost_since(&self, life: usize, since: Moment) -> bool {
        let life = &self.lives[life];
        life.over.is_some_and(|at| at >= since) || life.lost.iter().any(|at| *at >= since)
    }

    // --- Requests ----------------------------------------------------------------------------------------------------

    pub(crate) fn begin(&mut self, new: Request) -> usize {
        let request = self.requests.len();
        let Request { destination, delivery, attempt, began, .. } = new;
        let node = self.lives[new.life].node;
        self.log.note(began, Occurrence::Began { request, node, destination, delivery, attempt });
        self.requests_of.entry(delivery).or_default().push(request);
        self.open[destination].insert(request);
        self.requests.push(new);
        request
    }

    /// The first byte reaches the receiver.
    pub(crate) fn first_byte(&mut self, request: usize, now: Moment) {
        self.log.note(now, Occurrence::FirstByte { request });
        self.requests[request].first_byte = Some(now);
        for judge in [
            Self::judge_claim,
            Self::judge_slots,
            Self::judge_repeat,
            Self::judge_hold,
            Self::judge_order,
            Self::judge_rate,
            Self::judge_due,
        ] {
            if let Err((promise, what)) = judge(self, request, now) {
                self.broken(now, promise, format!("request {request}: {what}"));
            }
        }
    }

    pub(crate) fn over(&mut self, request: usize, how: RequestEnd, now: Moment) {
        if self.requests[request].over.is_some() {
            return;
        }
        self.log.note(now, Occurrence::Over { request, how: format!("{how:?}") });
        self.requests[request].over = Some((now, how));
        let (life, destination) = (self.requests[request].life, self.requests[request].destination);
        let ends = self.lives[life].lease_end.max(self.lives[life].thawed);
        if now > ends + DRIFT && how != RequestEnd::Cut {
            let late = (now - ends) / MILLISECOND;
            let what = format!("request {request}: open until {late} ms after its sender's lease");
            self.broken(now, OnlyTheOwnerSends, what);
        }
        self.open[destination].remove(&request);
        // Neither throttled nor unwell: it is back, whatever it thinks of what it was sent.
        if matches!(how, RequestEnd::Answered(200..=407 | 409..=424 | 426..=428 | 430..=499)) {
            let began = self.requests[request].believed;
            if let Some(hold) = self.holds.get_mut(&destination).filter(|hold| began >= hold.until - DRIFT) {
                *hold.answers.entry(life).or_default() += 1;
            }
        }
    }

    pub(crate) fn nothing_open(&self) -> bool {
        self.open.iter().all(BTreeSet::is_empty)
    }

    /// The sender has read a 429, now by its own clock.
    pub(crate) fn throttled(&mut self, request: usize, asked: Option<Moment>, now: Moment) {
        let Request { life, destination, believed: began, .. } = self.requests[request];
        let rung = self.destinations[destination].first_rung;
        let known = self.holds.get_mut(&destination).filter(|hold| hold.life == life && began < hold.until);
        match known {
            Some(hold) => hold.until = asked.map_or(hold.until, |pause| hold.until.max(now + pause)),
            None => {
                let until = now + asked.unwrap_or(rung);
                let hold = KnownHold { life, kept: None, since: now, until, answers: BTreeMap::new() };
                *self.windows.entry(destination).or_default() += 1;
                self.holds.insert(destination, hold);
            }
        }
    }

    /// The owner has written down what it knows of these gates; or that there is nothing to know any more.
    pub(crate) fn gates_kept(&mut self, node: NodeId, words: &[GateWord], now: Moment) {
        let Some(life) = self.life_of.get(&node).copied().filter(|_| self.members.contains(&node)) else {
            return;
        };
        for word in words {
            let Some(destination) =
                self.destinations.iter().position(|known| known.id == word.destination_id)
            else {
                continue;
            };
            self.judge_ladder(destination, word, now);
            match self.holds.get_mut(&destination) {
                Some(hold) if hold.life == life => {
                    let doc = serde_json::to_value(&word.record).unwrap_or_default();
                    let until = doc["throttle"]["until"].as_str().and_then(|text| text.parse().ok());
                    hold.kept = word.record.is_some().then_some(until.map_or(hold.until, moment));
                }
                // A later owner has come to the end of the ramp.
                Some(_) if word.record.is_none() => drop(self.holds.remove(&destination)),
                _ => {}
            }
        }
    }

    /// It has been asked to wait, may be asked again, and has not answered yet.
    pub(crate) fn is_probed(&self, destination: usize, now: Moment) -> bool {
        self.holds.get(&destination).is_some_and(|hold| hold.until <= now && hold.answers.is_empty())
    }

    // --- The store ---------------------------------------------------------------------------------------------------

    /// A commit that is repeated makes nothing again.
    pub(crate) fn committed(
        &mut self,
        new: &NewEvent,
        matched: impl FnOnce() -> Vec<(RouteId, DestinationId)>,
    ) {
        let switched_before = self.switched_routes.len();
        let committed = || CommittedEvent { switched_before, matched: matched(), expanded_after: None };
        self.events.entry(new.event.id).or_insert_with(committed);
        for delivery in &new.deliveries {
            self.promised(new.event.account_id, delivery);
        }
    }

    /// The last chunk of its expansion has been written.
    pub(crate) fn expanded(&mut self, event: EventId) {
        let switched = self.switched_routes.len();
        if let Some(event) = self.events.get_mut(&event) {
            event.expanded_after = Some(switched);
        }
    }

    pub(crate) fn route_switched(&mut self, leads_to: DestinationId) {
        self.switched_routes.push(leads_to);
    }

    /// Whether an expansion may have met a route to this destination otherwise than the commit of its event did.
    pub(crate) fn switched_during(&self, event: &CommittedEvent, destination: DestinationId) -> bool {
        let Some(end) = event.expanded_after else { return false };
        self.switched_routes[event.switched_before..end].contains(&destination)
    }

    pub(crate) fn promised(&mut self, account: AccountId, delivery: &NewDelivery) {
        self.deliveries.entry(delivery.id).or_insert_with(|| KnownDelivery {
            account,
            destination: delivery.destination_id,
            number: None,
            due: crate::time::moment(delivery.due_at),
            attempts: 0,
            spent: 0,
            ending: None,
            facts: BTreeMap::new(),
        });
    }

    /// Those of a batch that were there before.
    pub(crate) fn known(&self, batch: &[NewEvent]) -> BTreeSet<DeliveryId> {
        let all = batch.iter().flat_map(|new| &new.deliveries).map(|delivery| delivery.id);
        all.filter(|id| self.deliveries.contains_key(id)).collect()
    }

    /// The store has given it its number.
    pub(crate) fn numbered(&mut self, id: DeliveryId, track: i64, sequence: Option<i64>) {
        if let Some(known) = self.deliveries.get_mut(&id) {
            known.number = sequence.map(|sequence| (track, sequence));
        }
    }

    pub(crate) fn settled(&mut self, node: NodeId, settlement: &Settlement, moved: bool, now: Moment) {
        let id = settlement.delivery.id;
        let by = self.life_of.get(&node).map_or(usize::MAX, |life| self.lives[*life].node);
        let to = match settlement.settled {
            Settled::Ended(ending) => format!("{ending:?}"),
            Settled::Waits { due_at, .. } => {
                format!("waits until {} ms", crate::time::moment(due_at) / MILLISECOND)
            }
        };
        let attempts = settlement.delivery.attempts;
        self.log.note(now, Occurrence::Settled { node: by, delivery: id, attempts, moved, to });
        let is_member = self.members.contains(&node);
        let Some(known) = self.deliveries.get_mut(&id) else {
            return self.broken(now, StoredWhole, format!("{id} was settled and never committed"));
        };
        let (fact, attempted) = match &settlement.fact {
            Fact::Attempted(attempt) => (attempt.id, true),
            Fact::EndedWithout { id, .. } => (*id, false),
        };
        if let Some(first) = known.facts.get(&fact) {
            if *first != moved {
                self.broken(now, EndsOnce, format!("{id}: a repeated settlement is answered with {moved}"));
            }
            return;
        }
        known.facts.insert(fact, moved);
        if !moved {
            return;
        }
        let (ended, attempts_before) = (known.ending, known.attempts);
        known.attempts += u32::from(attempted);
        match settlement.settled {
            Settled::Ended(ending) => known.ending = Some(ending),
            Settled::Waits { due_at, spent, .. } => {
                known.due = crate::time::moment(due_at);
                known.spent = spent;
            }
        }
        if let Some(ending) = ended {
            self.broken(now, EndsOnce, format!("{id} had ended as {ending:?} and was settled again"));
        }
        if attempts_before != attempts {
            self.broken(
                now,
                EveryAttemptOnRecord,
                format!("{id} had {attempts_before} attempts and was settled with {attempts}"),
            );
        }
        if !is_member {
            self.broken(now, FormerOwnersMoveNothing, format!("{id} was moved by a node that is no member"));
        }
    }

    /// A person moved it: cancelled, or due now.
    pub(crate) fn commanded(
        &mut self,
        id: DeliveryId,
        due: Option<Moment>,
        ending: Option<Ending>,
        now: Moment,
    ) {
        let Some(known) = self.deliveries.get_mut(&id) else { return };
        if known.ending.is_some() {
            return self.broken(now, EndsOnce, format!("{id} had ended and was moved by a command"));
        }
        known.due = due.unwrap_or(known.due);
        known.ending = ending;
    }

    pub(crate) fn requests_for(&self, delivery: DeliveryId) -> impl Iterator<Item = &Request> {
        self.requests_of.get(&delivery).into_iter().flatten().map(|request| &self.requests[*request])
    }
}
