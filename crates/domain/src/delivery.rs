//! Deliveries: the promise to bring one event to one destination, and what becomes of it after each attempt.
//!
//! A delivery waits in the queue until it ends; `settle` decides, from what an attempt met, whether it ended and if
//! not when it is tried again. Endings are final: a replay is a new delivery.

use crate::{
    destination::Numbering,
    event::Event,
    id::{AccountId, DeliveryId, DestinationId, EventId, ReplayId, RouteId},
    outcome::{Classified, DeadReason, Next, Outcome},
    retry::RetryPolicy,
    time::Timestamp,
    word::words,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A delivery that has not ended: one row of the queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub id: DeliveryId,
    pub account_id: AccountId,
    pub event_id: EventId,
    pub destination_id: DestinationId,
    pub route_id: RouteId,
    pub replay_id: Option<ReplayId>,
    /// The first delivery of a chain of replays; itself if it is none.
    pub origin: DeliveryId,
    pub position: Position,
    /// Its number at an ordered destination, without gaps; None at others and while it waits for its time.
    pub sequence: Option<i64>,
    pub due_at: Timestamp,
    /// Attempts made so far; the next one has this number plus one.
    pub attempts: u32,
    /// Retries taken from the schedule so far; a throttled attempt takes none.
    pub spent: u32,
    pub tls_errors: u32,
    pub last_outcome: Option<Outcome>,
    pub last_http_status: Option<u16>,
    pub created_at: Timestamp,
    /// The later of creation and `deliver_at`: the age of a delivery counts from here.
    pub available_at: Timestamp,
    pub payload_bytes: u32,
}

impl Delivery {
    /// A delivery of this event that has not been tried yet. It was created when its id was made.
    pub fn new(
        id: DeliveryId,
        event: &Event,
        destination_id: DestinationId,
        route_id: RouteId,
        position: Position,
        due_at: Timestamp,
    ) -> Self {
        let created_at = id.made_at();
        Self {
            id,
            account_id: event.account_id,
            event_id: event.id,
            destination_id,
            route_id,
            replay_id: None,
            origin: id,
            position,
            sequence: None,
            due_at,
            attempts: 0,
            spent: 0,
            tls_errors: 0,
            last_outcome: None,
            last_http_status: None,
            created_at,
            available_at: event.deliver_at.map_or(created_at, |at| at.max(created_at)),
            payload_bytes: u32::try_from(event.payload.len()).unwrap_or(u32::MAX),
        }
    }
}

/// Where a delivery stands in its lane: the queue is sorted by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// One for all in unordered and in strictly ordered lanes; the hash of the ordering key otherwise.
    pub track: i64,
    /// Due time in microseconds for unordered lanes, sequence number for ordered ones.
    pub rank: i64,
    pub delivery_id: DeliveryId,
}

impl Position {
    /// Before everything.
    pub const START: Self = Self { track: i64::MIN, rank: i64::MIN, delivery_id: DeliveryId::MIN };

    /// The track of unordered lanes, and of strictly ordered ones.
    pub const UNORDERED: i64 = 0;
    pub const STRICT: i64 = 1;
    /// The track where scheduled deliveries of ordered lanes wait for their time.
    pub const AWAITS_TIME: i64 = -1;
    /// The rank of what is committed to an ordered lane, until the commit has given it its number.
    pub const END: i64 = i64::MAX;

    /// The place of a delivery in an unordered lane.
    pub const fn due(due_at: Timestamp, delivery_id: DeliveryId) -> Self {
        Self { track: 0, rank: due_at.micros(), delivery_id }
    }

    /// Where a new delivery stands, and whether the commit gives it its number: at an ordered destination it does when
    /// the delivery is due, at one that only numbers it does in any case.
    pub fn new(
        numbering: impl Into<Numbering>,
        key: Option<&str>,
        due_at: Timestamp,
        now: Timestamp,
        id: DeliveryId,
    ) -> (Self, bool) {
        match numbering.into() {
            Numbering::None => (Self::due(due_at, id), false),
            Numbering::Unordered => (Self::due(due_at, id), true),
            _ if due_at > now => (Self::awaits_time(due_at, id), false),
            ordered => (Self::ordered(ordered.ordering().track(key, id), Self::END, id), true),
        }
    }

    /// The same once a delivery there has its number: what is ordered stands by it.
    pub fn numbered(self, sequence: i64) -> Self {
        if self.track == Self::UNORDERED { self } else { Self { rank: sequence, ..self } }
    }

    /// The place of a delivery in an ordered lane.
    pub const fn ordered(track: i64, sequence: i64, delivery_id: DeliveryId) -> Self {
        Self { track, rank: sequence, delivery_id }
    }

    /// The place of a delivery in an ordered lane before its time.
    pub const fn awaits_time(deliver_at: Timestamp, delivery_id: DeliveryId) -> Self {
        Self { track: Self::AWAITS_TIME, rank: deliver_at.micros(), delivery_id }
    }

    /// The next place: what a read that has seen this one goes on from.
    pub fn after(self) -> Self {
        let next = self.delivery_id.uuid().as_u128().saturating_add(1);
        Self { delivery_id: DeliveryId::from_uuid(uuid::Uuid::from_u128(next)), ..self }
    }
}

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ending {
    Delivered,
    DeadLetter(DeadReason),
    Cancelled(CancelReason),
}

words! {
    "why a delivery was cancelled",
    CancelReason {
        Requested = "requested",
        DestinationDeleted = "destination_deleted",
    }
}

/// Why a delivery ended undelivered: the reason of a dead letter, or that of a cancelled one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EndReason {
    DeadLetter(DeadReason),
    Cancelled(CancelReason),
}

impl EndReason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DeadLetter(reason) => reason.as_str(),
            Self::Cancelled(reason) => reason.as_str(),
        }
    }

    /// None if no delivery ends for this reason.
    pub fn read(word: &str) -> Option<Self> {
        let cancelled = || word.parse().map(Self::Cancelled);
        word.parse().map(Self::DeadLetter).or_else(|_| cancelled()).ok()
    }
}

impl Ending {
    /// The delivery's status from here on.
    pub const fn status(self) -> Status {
        match self {
            Self::Delivered => Status::Delivered,
            Self::DeadLetter(_) => Status::DeadLetter,
            Self::Cancelled(_) => Status::Cancelled,
        }
    }

    pub const fn end_reason(self) -> Option<EndReason> {
        match self {
            Self::Delivered => None,
            Self::DeadLetter(reason) => Some(EndReason::DeadLetter(reason)),
            Self::Cancelled(reason) => Some(EndReason::Cancelled(reason)),
        }
    }

    /// The word of its reason.
    pub fn reason(self) -> Option<&'static str> {
        self.end_reason().map(EndReason::as_str)
    }

    /// Reads back what `status` and `reason` wrote.
    pub fn read(status: &str, reason: Option<&str>) -> Option<Self> {
        match (status, reason) {
            ("delivered", None) => Some(Self::Delivered),
            ("dead_letter", Some(reason)) => reason.parse().ok().map(Self::DeadLetter),
            ("cancelled", Some(reason)) => reason.parse().ok().map(Self::Cancelled),
            _ => None,
        }
    }
}

words! {
    "the status of a delivery",
    /// The word a delivery is shown with.
    Status {
        Queued = "queued",
        Delivering = "delivering",
        RetryScheduled = "retry_scheduled",
        Delivered = "delivered",
        DeadLetter = "dead_letter",
        Cancelled = "cancelled",
    }
}

impl Status {
    pub const fn ended(self) -> bool {
        matches!(self, Self::Delivered | Self::DeadLetter | Self::Cancelled)
    }
}

/// What becomes of a delivery after an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Settled {
    Ended(Ending),
    /// Back into the queue, at this place.
    Waits {
        position: Position,
        due_at: Timestamp,
        spent: u32,
    },
}

/// What the decision depends on besides the delivery and what it met.
#[derive(Debug, Clone, Copy)]
pub struct Circumstances<'a> {
    pub policy: &'a RetryPolicy,
    pub now: Timestamp,
    /// The destination's last resume: nothing expires while paused.
    pub resumed_at: Option<Timestamp>,
    /// Ordered deliveries keep their sequence: a retrying head blocks, it does not step aside.
    pub ordered: bool,
    /// In 0..1.
    pub jitter: f64,
}

/// Turns what an attempt met into the delivery's next state.
pub fn settle(delivery: &Delivery, met: &Classified, on: Circumstances<'_>) -> Settled {
    match met.next {
        Next::Deliver => Settled::Ended(Ending::Delivered),
        Next::Disable => Settled::Ended(Ending::DeadLetter(DeadReason::Gone)),
        Next::DeadLetter(reason) => Settled::Ended(Ending::DeadLetter(reason)),
        Next::Hold { .. } => keep_place(delivery, on),
        Next::Retry { not_before } => retry(delivery, not_before, on, DeadReason::Exhausted),
        Next::RetryOnce if delivery.tls_errors > 0 => Settled::Ended(Ending::DeadLetter(DeadReason::Tls)),
        Next::RetryOnce => retry(delivery, None, on, DeadReason::Tls),
        Next::RetryRenewed if was_refused(delivery) => {
            Settled::Ended(Ending::DeadLetter(DeadReason::Rejected))
        }
        Next::RetryRenewed => keep_place(delivery, on),
    }
}

/// Whether the last attempt was refused for its credential. A kind that is not HTTP has no status.
fn was_refused(delivery: &Delivery) -> bool {
    const UNAUTHORIZED: u16 = 401;
    delivery.last_outcome == Some(Outcome::Rejected)
        && delivery.last_http_status.is_none_or(|status| status == UNAUTHORIZED)
}

/// When a waiting delivery stops being worth a try. Nothing expires while paused: its age counts from the last resume.
pub fn expires_at(delivery: &Delivery, expire_after: Duration, resumed_at: Option<Timestamp>) -> Timestamp {
    let counted_from = resumed_at.map_or(delivery.available_at, |resumed| resumed.max(delivery.available_at));
    counted_from.plus(expire_after)
}

/// A delivery that was throttled, or that has a new credential, spends no retry and stands one microsecond behind where it stood.
fn keep_place(delivery: &Delivery, on: Circumstances<'_>) -> Settled {
    if on.now >= expires_at(delivery, on.policy.expire_after, on.resumed_at) {
        return Settled::Ended(Ending::DeadLetter(DeadReason::Expired));
    }
    let rank = if on.ordered { delivery.position.rank } else { delivery.position.rank.saturating_add(1) };
    let position = Position { rank, ..delivery.position };
    Settled::Waits { position, due_at: delivery.due_at, spent: delivery.spent }
}

fn retry(
    delivery: &Delivery,
    not_before: Option<Duration>,
    on: Circumstances<'_>,
    spent_out: DeadReason,
) -> Settled {
    let Some(pause) = on.policy.pause_after(delivery.spent, on.jitter) else {
        return Settled::Ended(Ending::DeadLetter(spent_out));
    };
    let due_at = on.now.plus(pause.max(not_before.unwrap_or_default()));
    if due_at >= expires_at(delivery, on.policy.expire_after, on.resumed_at) {
        return Settled::Ended(Ending::DeadLetter(DeadReason::Expired));
    }
    let position = if on.ordered { delivery.position } else { Position::due(due_at, delivery.id) };
    Settled::Waits { position, due_at, spent: delivery.spent + 1 }
}

#[cfg(test)]
mod tests;
