//! The way from a handler to the committer: an event is matched with its account's routes here, in the task of its own
//! request (so matching uses every core, and a panic in it is that request's alone; `matching` has the exception), and
//! then waits in a queue that is bounded by bytes, by count, and by the time it takes to get through (`pace.rs`). Whoever
//! would wait too long is told at once, before the body is read. The bytes are counted from the first one read of a
//! body, so that bodies still on their way are bounded with those that wait.

mod pace;

use crate::{app::App, committer::Submission, error::ApiError, fanout::Matched, matching::Matching};
use aws_lc_rs::digest;
use domain::{event::Event, limits};
use pace::{Pace, Place};
use serde::Serialize;
use std::sync::Arc;
use store::{IdempotencyKey, NewEvent, StoreError};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};
use utoipa::ToSchema;

/// What a producer is told.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Accepted {
    #[schema(value_type = String, example = "evt_01h455vb4pex5vsknk084sn02q")]
    pub(crate) id: domain::id::EventId,
    pub(crate) status: AcceptedStatus,
    /// How many deliveries the event was committed with; null while a large fan-out is being expanded.
    pub(crate) deliveries: Option<u32>,
    pub(crate) expanding: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AcceptedStatus {
    /// Durable, with its deliveries.
    Queued,
    /// The key was used before: this is the first event.
    Duplicate,
}

pub(crate) type Answer = Result<Accepted, ApiError>;

/// A share of the bytes that requests may hold together, given back when it is dropped.
pub(crate) type Room = OwnedSemaphorePermit;

/// What an event that waits for the committer holds until it is answered: its bytes, and its place in the queue.
pub(crate) struct Seat {
    _room: Room,
    _place: Place,
}

/// The queue before the committer, and the room for what is on its way there.
pub(crate) struct Admission {
    queue: mpsc::Sender<Submission>,
    bytes: Arc<Semaphore>,
    pace: Arc<Pace>,
    pub(crate) matching: Matching,
}

impl Admission {
    pub(crate) fn new(capacity: usize) -> (Self, mpsc::Receiver<Submission>) {
        let capacity = capacity.max(1);
        let (queue, receiver) = mpsc::channel(capacity);
        let bytes = Arc::new(Semaphore::new(limits::INGEST_QUEUE_BYTES));
        (Self { queue, bytes, pace: Arc::new(Pace::new(capacity)), matching: Matching::default() }, receiver)
    }

    /// 503 while events wait longer than they should: asked before anything else is done for a request.
    pub(crate) fn open(&self) -> Result<(), ApiError> {
        if self.pace.has_room() { Ok(()) } else { Err(overloaded()) }
    }

    /// 503 if there is none. What is larger than all there is may have all of it.
    pub(crate) fn room(&self, bytes: usize) -> Result<Room, ApiError> {
        let permits = bytes.min(limits::INGEST_QUEUE_BYTES) as u32;
        self.bytes.clone().try_acquire_many_owned(permits).map_err(|_| overloaded())
    }

    /// Makes it at least this large.
    pub(crate) fn widen(&self, room: &mut Room, bytes: usize) -> Result<(), ApiError> {
        let lacking = bytes.min(limits::INGEST_QUEUE_BYTES).saturating_sub(room.num_permits());
        if lacking > 0 {
            room.merge(self.room(lacking)?);
        }
        Ok(())
    }

    /// `room` is what the event's body has taken already.
    pub(crate) fn submit(
        &self,
        new: NewEvent,
        mut room: Room,
    ) -> Result<oneshot::Receiver<Answer>, ApiError> {
        self.widen(&mut room, weight(&new))?;
        let (answer, receiver) = oneshot::channel();
        let seat = Seat { _room: room, _place: self.pace.enter() };
        self.queue.try_send(Submission { new, rounds: 0, answer, seat }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => overloaded(),
            mpsc::error::TrySendError::Closed(_) => stopping(),
        })?;
        Ok(receiver)
    }
}

fn overloaded() -> ApiError {
    ApiError::overloaded("too many events wait to be stored: send it again in a moment")
}

fn stopping() -> ApiError {
    ApiError::draining("this node is stopping: send it again in a moment")
}

/// What an event takes of the queue's memory, about.
fn weight(new: &NewEvent) -> usize {
    let headers: usize = new.event.headers.iter().map(|(name, value)| name.len() + value.len() + 48).sum();
    size_of::<Submission>()
        + size_of::<Event>()
        + new.event.payload.len()
        + headers
        + size_of_val(&*new.deliveries)
}

impl App {
    /// Matches an event and puts it into the queue. The receiver hears when it is durable, or why it is not.
    pub(crate) async fn submit(
        &self,
        event: Event,
        key: Option<IdempotencyKey>,
        room: Room,
    ) -> Result<oneshot::Receiver<Answer>, ApiError> {
        let snapshot = patiently(self.snapshots.get(event.account_id)).await?;
        let (now, event) = (event.received_at, Arc::new(event));
        let Matched { deliveries, expands } =
            self.admission.matching.match_event(&event, &snapshot, &self.dice, now).await?;
        let new = NewEvent { event, account_version: snapshot.version, deliveries, expands, key };
        self.admission.submit(new, room)
    }

    /// The same, and waits for the answer.
    pub(crate) async fn admit(&self, event: Event, key: Option<IdempotencyKey>, room: Room) -> Answer {
        answered(self.submit(event, key, room).await?, Instant::now() + limits::ANSWER_PATIENCE).await
    }
}

/// Waits for the committer's word. None at all means that it broke off (a bug, or the end of the process) at a point
/// that nobody knows, or that the store has hung for longer than anybody should wait.
pub(crate) async fn answered(receiver: oneshot::Receiver<Answer>, until: Instant) -> Answer {
    match timeout_at(until, receiver).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(unconfirmed()),
    }
}

/// A look into the store on the way of a request: one that hangs is one that is away.
pub(crate) async fn patiently<T>(look: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let hangs = |_| Err(StoreError::Unavailable("the store does not answer".into()));
    timeout(limits::LOOKUP_PATIENCE, look).await.unwrap_or_else(hangs)
}

pub(crate) fn unconfirmed() -> ApiError {
    ApiError::outcome_unknown("the event was not confirmed: send it again, with the same idempotency key")
}

/// The key under which a repeat is found, and what it stands for: SHA-256 over the event type, a zero byte and the
/// payload. The content type is left out on purpose: a proxy that adds a charset does not make another event.
pub(crate) fn idempotency_key(scope: uuid::Uuid, key: &str, event: &Event) -> IdempotencyKey {
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

fn sha256(digest: digest::Digest) -> [u8; 32] {
    digest.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}
