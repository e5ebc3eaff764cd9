//! From a request to the committer's queue.
//!
//! A body gets room before it is read: bytes are counted from the first one on, so that bodies still on their way are
//! bounded together with events that wait. The event is then matched with its account's routes, and what is to be written of
//! it is made, in the task of its own request: so this uses every core, no other event waits for it, and a panic in it is that
//! request's alone. It waits in a queue that is bounded by
//! bytes, by count, and by the time it takes to get through (`queue_limit.rs`); a request that would wait too long is
//! refused at once.

use crate::{
    Answer, IngestError, IngestSettings, LongWork,
    committer::{Gathering, Submission},
    queue_limit::{QueueLimit, QueuePlace},
    snapshot::{Snapshot, Snapshots},
};
use aws_lc_rs::digest;
use domain::{
    destination::{Numbering, Ordering},
    dice::Dice,
    event::Event,
    id::{AccountId, DeliveryId, RouteId},
    limits,
    route::{Candidate, Deliverers, Route},
    time::Timestamp,
};
use sharing::{Share, SharedResource};
use std::sync::Arc;
use store::{IdempotencyKey, NewDelivery, NewEvent, PreparedEvent, StoreError};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};

/// The bytes that requests and waiting events may hold together, shared out between accounts.
#[derive(Debug)]
pub struct ByteBudget(Arc<SharedResource>);

impl Default for ByteBudget {
    fn default() -> Self {
        Self(SharedResource::new(limits::INGEST_QUEUE_BYTES))
    }
}

impl ByteBudget {
    /// What is larger than all there is may have all of it.
    pub fn reserve(&self, account: AccountId, bytes: usize) -> Result<ReservedBytes, IngestError> {
        self.0.try_take(account, bytes).map(ReservedBytes).ok_or(IngestError::Overloaded)
    }
}

/// A share of the budget, given back when it is dropped.
#[derive(Debug)]
pub struct ReservedBytes(Share);

impl ReservedBytes {
    /// Makes it at least this large.
    pub fn grow(&mut self, bytes: usize) -> Result<(), IngestError> {
        if self.0.try_grow(bytes) { Ok(()) } else { Err(IngestError::Overloaded) }
    }
}

/// What an event holds until it is answered: its bytes, and its place in the queue.
pub(crate) struct QueueShare {
    _bytes: ReservedBytes,
    _place: QueuePlace,
}

/// The queue before the committer, and the room for what is on its way there.
pub struct Admission {
    queue: mpsc::Sender<Submission>,
    gathering: Arc<Gathering>,
    budget: ByteBudget,
    limit: Arc<QueueLimit>,
    snapshots: Arc<Snapshots>,
    matcher: Matcher,
    dice: Arc<dyn Dice>,
}

impl Admission {
    pub(crate) fn new(
        snapshots: Arc<Snapshots>,
        matcher: Matcher,
        dice: Arc<dyn Dice>,
        capacity: usize,
    ) -> (Self, Arc<Gathering>, mpsc::Receiver<Submission>) {
        let capacity = capacity.max(1);
        let (queue, receiver) = mpsc::channel(capacity);
        let (budget, limit) = (ByteBudget::default(), Arc::new(QueueLimit::new(capacity)));
        let gathering = Arc::<Gathering>::default();
        let (told, this) =
            (gathering.clone(), Self { queue, gathering, budget, limit, snapshots, matcher, dice });
        (this, told, receiver)
    }

    /// Refuses while events wait longer than they should: asked before anything else is done for a request.
    pub fn check_wait(&self) -> Result<(), IngestError> {
        if self.limit.has_room() { Ok(()) } else { Err(IngestError::Overloaded) }
    }

    /// The same for one account, as soon as it is known: before its body is read.
    pub fn check_wait_of(&self, account: AccountId) -> Result<(), IngestError> {
        if self.limit.has_room_for(account) { Ok(()) } else { Err(IngestError::Overloaded) }
    }

    /// Where a body's room comes from.
    pub fn budget(&self) -> &ByteBudget {
        &self.budget
    }

    /// Matches an event and puts it into the queue. `reserved` is what its body has taken already.
    pub fn submit(
        &self,
        event: impl Into<Arc<Event>>,
        key: Option<IdempotencyKey>,
        reserved: ReservedBytes,
    ) -> impl Future<Output = Result<PendingAnswer, IngestError>> + Send {
        // From here on it is not moved any more: each task that waits would have room for it twice.
        let event = event.into();
        async move {
            let snapshot = self.snapshots.soon(event.account_id).await?;
            let (event, fan_out) = self.matcher.prepare(event, &snapshot, &self.dice).await?;
            let FanOut { deliveries, other_routes, expands } = fan_out;
            let account_version = snapshot.version;
            let new = NewEvent { event, account_version, deliveries, other_routes, expands, key };
            self.enqueue(new, reserved)
        }
    }

    /// The same, and waits for the answer.
    pub fn admit(
        &self,
        event: impl Into<Arc<Event>>,
        key: Option<IdempotencyKey>,
        reserved: ReservedBytes,
    ) -> impl Future<Output = Answer> + Send {
        let event: Arc<Event> = event.into();
        async move {
            let pending = self.submit(event, key, reserved).await?;
            pending.wait_until(Instant::now() + limits::ANSWER_PATIENCE).await
        }
    }

    pub(crate) fn enqueue(
        &self,
        new: NewEvent,
        mut reserved: ReservedBytes,
    ) -> Result<PendingAnswer, IngestError> {
        reserved.grow(queued_bytes(&new))?;
        let place = self.limit.enter(new.event.account_id).ok_or(IngestError::Overloaded)?;
        let (answer, receiver) = oneshot::channel();
        let share = QueueShare { _bytes: reserved, _place: place };
        self.queue.try_send(Submission { new, rounds: 0, answer, share }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => IngestError::Overloaded,
            mpsc::error::TrySendError::Closed(_) => IngestError::Stopping,
        })?;
        self.gathering.in_queue(self.queue.max_capacity() - self.queue.capacity());
        Ok(PendingAnswer(receiver))
    }

    /// The routes that events are matched with.
    pub fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    pub fn matcher(&self) -> &Matcher {
        &self.matcher
    }
}

/// What an event takes of the queue's memory, about.
fn queued_bytes(new: &NewEvent) -> usize {
    let headers: usize = new.event.headers.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
    let tags: usize = new.event.tags.iter().map(|tag| tag.len() + size_of::<String>()).sum();
    size_of::<Submission>()
        + size_of::<Event>()
        + new.event.prepared_bytes()
        + new.event.payload.len()
        + headers
        + tags
        + size_of_val(&*new.deliveries)
        + size_of_val(&*new.other_routes)
}

/// The committer's answer about an event, once it comes.
pub struct PendingAnswer(oneshot::Receiver<Answer>);

impl PendingAnswer {
    /// No answer means that the committer broke off (a bug, or the end of the process) at an unknown point, or that the
    /// store has hung for longer than a producer should wait.
    pub async fn wait_until(self, until: Instant) -> Answer {
        match timeout_at(until, self.0).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(IngestError::Unconfirmed),
        }
    }
}

/// A look into the store on the way of a request: one that hangs counts as one that is away.
pub async fn bounded_lookup<T>(lookup: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let hangs = |_| Err(StoreError::Unavailable("the store does not answer".into()));
    match timeout(limits::LOOKUP_PATIENCE, lookup).await.unwrap_or_else(hangs) {
        // Damage of ours says nothing about the caller, who is to ask again.
        Err(StoreError::Unreadable(error)) => Err(StoreError::Unavailable(error)),
        found => found,
    }
}

/// The key under which a repeat is found, and what it stands for: SHA-256 over the event type, a zero byte and the
/// payload. The content type is left out on purpose: a proxy that adds a charset does not make another event.
pub fn idempotency_key(scope: uuid::Uuid, key: &str, event: &Event) -> IdempotencyKey {
    let mut body = digest::Context::new(&digest::SHA256);
    body.update(event.event_type.as_str().as_bytes());
    body.update(&[0]);
    body.update(&event.payload);
    IdempotencyKey {
        scope,
        hash: sha256(digest::digest(&digest::SHA256, key.as_bytes())),
        body_hash: sha256(body.finish()),
    }
}

/// The same by the id that a verified provider gives its event: what repeats it is it, whatever it looks like. Providers write a
/// body anew when they repeat it, and a counter in there would make it another.
pub fn provider_key(scope: uuid::Uuid, id: &str) -> IdempotencyKey {
    let hash = sha256(digest::digest(&digest::SHA256, id.as_bytes()));
    IdempotencyKey { scope, hash, body_hash: hash }
}

fn sha256(digest: digest::Digest) -> [u8; 32] {
    digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}

/// Matches events with routes, and says which deliveries come of it.
///
/// A filter may look at every element of a large payload, and an account may have a hundred thousand of them; a large payload
/// takes long to pack. Such work gets threads of its own, a few, so that it can neither keep the runtime from its other tasks nor take all the cores:
/// leases are renewed and other producers are answered while it runs.
#[derive(Clone)]
pub struct Matcher {
    /// Shared out between accounts.
    threads: Arc<SharedResource>,
    /// The same, for large payloads that little is matched with.
    packers: Arc<SharedResource>,
    long_work: LongWork,
    inline: usize,
    most: usize,
    most_ordered: usize,
}

/// What an event is committed with.
#[derive(Debug, Default)]
pub struct FanOut {
    pub deliveries: Vec<NewDelivery>,
    /// Of the routes that match too, and deliver nothing, the first [`limits::OTHER_ROUTES`].
    pub other_routes: Vec<RouteId>,
    /// There are more than one commit takes: an expansion makes all others.
    pub expands: bool,
}

impl Matcher {
    pub(crate) fn new(settings: &IngestSettings) -> Self {
        let IngestSettings { fanout_inline: inline, fanout: most, fanout_ordered: most_ordered, .. } =
            *settings;
        let threads = SharedResource::new(limits::LONG_MATCHES);
        let packers = SharedResource::new(limits::LONG_PACKS);
        Self { threads, packers, long_work: settings.long_work, inline, most, most_ordered }
    }

    /// Runs `matching`, here if it looks at little: `routes` routes, at a payload of so many bytes.
    pub async fn run<T: Send + 'static>(
        &self,
        account: AccountId,
        routes: usize,
        payload: usize,
        matching: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, IngestError> {
        match takes_long_to_match(routes, payload) {
            true => self.run_long(&self.threads, account, matching).await,
            false => Ok(matching()),
        }
    }

    async fn run_long<T: Send + 'static>(
        &self,
        threads: &Arc<SharedResource>,
        account: AccountId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, IngestError> {
        let free = timeout(limits::MATCH_PATIENCE, threads.take(account, 1)).await;
        let Ok(thread) = free else { return Err(IngestError::MatchersBusy) };
        let done = self.long_work.run(move || {
            let done = work();
            drop(thread);
            done
        });
        done.await.map_err(IngestError::Bug)
    }

    /// Matches an event that has just come, and makes what is written of it. Both in one go: a large event needs one thread
    /// once.
    pub async fn prepare(
        &self,
        event: Arc<Event>,
        snapshot: &Arc<Snapshot>,
        dice: &Arc<dyn Dice>,
    ) -> Result<(Arc<PreparedEvent>, FanOut), IngestError> {
        let (routes, payload) = (routes_looked_at(&event, snapshot), event.payload.len());
        let (account, now) = (event.account_id, event.received_at);
        let takes_long = takes_long_to_match(routes, payload);
        if !takes_long && payload <= limits::PACK_INLINE_BYTES {
            let fan_out = self.fan_out(&event, snapshot, &**dice, now)?;
            return Ok((snapshot.prepared(event, &**dice), fan_out));
        }
        let (matcher, snapshot, dice) = (self.clone(), snapshot.clone(), dice.clone());
        let work = move || {
            let fan_out = matcher.fan_out(&event, &snapshot, &*dice, now)?;
            Ok((snapshot.prepared(event, &*dice), fan_out))
        };
        let threads = if takes_long { &self.threads } else { &self.packers };
        Box::pin(self.run_long(threads, account, work)).await?
    }

    /// One delivery for each destination that a route leads to, or an expansion.
    pub async fn match_event(
        &self,
        event: &Arc<Event>,
        snapshot: &Arc<Snapshot>,
        dice: &Arc<dyn Dice>,
        now: Timestamp,
    ) -> Result<FanOut, IngestError> {
        let (routes, payload) = (routes_looked_at(event, snapshot), event.payload.len());
        let account = event.account_id;
        let (matcher, event, snapshot, dice) = (self.clone(), event.clone(), snapshot.clone(), dice.clone());
        self.run(account, routes, payload, move || matcher.fan_out(&event, &snapshot, &*dice, now)).await?
    }

    /// What is written of an event that was prepared by an earlier snapshot: the same, unless its account has its payloads
    /// encrypted since, or by another key.
    pub(crate) async fn prepare_again(
        &self,
        prepared: &Arc<PreparedEvent>,
        snapshot: &Arc<Snapshot>,
        dice: &Arc<dyn Dice>,
    ) -> Result<Arc<PreparedEvent>, IngestError> {
        if prepared.is_sealed_as(snapshot.sealing.as_deref()) {
            return Ok(Arc::clone(prepared));
        }
        let (event, snapshot, dice) = (Arc::clone(prepared.event()), snapshot.clone(), dice.clone());
        let (account, payload) = (event.account_id, event.payload.len());
        let work = move || snapshot.prepared(event, &*dice);
        match payload <= limits::PACK_INLINE_BYTES {
            true => Ok(work()),
            false => self.run_long(&self.packers, account, work).await,
        }
    }

    /// The walk over the routes stops where it knows enough: a large fan-out is admitted as fast as a small one.
    fn fan_out(
        &self,
        event: &Event,
        snapshot: &Snapshot,
        dice: &dyn Dice,
        now: Timestamp,
    ) -> Result<FanOut, IngestError> {
        let candidate = Candidate::of(event, &snapshot.table);
        // Where there may be more than an event may have, they must be counted.
        let exactly = snapshot.table.count(event.source_id) > self.most;
        let enough = if exactly { self.most } else { self.inline };
        let (mut made, mut destinations, mut deliverers) = (FanOut::default(), 0, Deliverers::default());
        let may_take = snapshot.table.that_may_take(event.source_id, candidate.event_type);
        for route in may_take.filter(|route| route.takes(&candidate)) {
            if !deliverers.includes(route) {
                made.name(route);
                continue;
            }
            destinations += 1;
            if destinations <= self.inline {
                made.deliveries.push(new_delivery(event, route, snapshot, dice, now));
            } else if destinations > enough {
                break;
            }
        }
        if destinations > self.most {
            return Err(IngestError::FanoutTooLarge { most: self.most, of: "destinations" });
        }
        if destinations > self.inline {
            return self.ordered_deliveries(event, &candidate, snapshot, dice, now);
        }
        Ok(made)
    }

    /// The deliveries of a large event that are made at once: at an ordered destination, what is accepted later must not
    /// come before it.
    fn ordered_deliveries(
        &self,
        event: &Event,
        candidate: &Candidate<'_>,
        snapshot: &Snapshot,
        dice: &dyn Dice,
        now: Timestamp,
    ) -> Result<FanOut, IngestError> {
        let (mut made, mut deliverers) =
            (FanOut { expands: true, ..FanOut::default() }, Deliverers::default());
        if snapshot.numberings.is_empty() {
            return Ok(made);
        }
        let routes = snapshot.table.of_source(event.source_id);
        let is_ordered =
            |numbering: Option<&Numbering>| numbering.is_some_and(|it| it.ordering() != Ordering::None);
        let ordered = routes.filter(|route| is_ordered(snapshot.numberings.get(&route.destination_id)));
        for route in ordered.filter(|route| route.takes(candidate)) {
            if !deliverers.includes(route) {
                made.name(route);
                continue;
            }
            if made.deliveries.len() == self.most_ordered {
                let of = "ordered destinations";
                return Err(IngestError::FanoutTooLarge { most: self.most_ordered, of });
            }
            made.deliveries.push(new_delivery(event, route, snapshot, dice, now));
        }
        Ok(made)
    }
}

impl FanOut {
    /// This one matches, and another delivers.
    fn name(&mut self, route: &Route) {
        if self.other_routes.len() < limits::OTHER_ROUTES {
            self.other_routes.push(route.id);
        }
    }
}

/// An event of an account with a hundred thousand routes is quickly matched if few of them name its type.
fn routes_looked_at(event: &Event, snapshot: &Snapshot) -> usize {
    snapshot.table.count_that_may_take(event.source_id, event.event_type.as_str())
}

/// A route costs something even if it looks at nothing of the payload.
fn takes_long_to_match(routes: usize, payload: usize) -> bool {
    routes.saturating_mul(payload + 256) > limits::MATCH_INLINE_BYTES
}

fn new_delivery(
    event: &Event,
    route: &Route,
    snapshot: &Snapshot,
    dice: &dyn Dice,
    now: Timestamp,
) -> NewDelivery {
    let numbering = snapshot.numberings.get(&route.destination_id).copied().unwrap_or_default();
    NewDelivery::of_route(event, route, numbering, DeliveryId::at(now, dice.bits()), now)
}

#[cfg(test)]
mod tests;
