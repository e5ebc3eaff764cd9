//! Operational events: what Posthaste tells of itself, as events of the account they are about and, as copies, of the
//! operator's. Their types begin with the segment `posthaste`, which nobody else may publish.
//!
//! They are few, and nothing comes of them that could become many: only routes whose pattern begins with that segment
//! take them, none goes to the destination it is about, and a dead letter of one is told to nobody. A hold is told
//! whatever led to it, once, and never to the destination that is held: so what tells of trouble can make no more of it
//! than there are holds.

use crate::{
    event::EventType,
    gate::{Hold, HoldReason},
    id::{AccountId, DestinationId, EventId, ReplayId},
    time::Timestamp,
    word::words,
};
use aws_lc_rs::digest;
use serde_json::{Map, Value, json};

/// What the types of operational events begin with.
pub const FIRST_SEGMENT: &str = "posthaste";

/// Where an operational event says which destination it is about, beside its payload: there it does not go.
pub const ABOUT: &str = "destination_id";

words! {
    "the kind of an operational event",
    /// What it tells; with [`FIRST_SEGMENT`] before it, the event's type.
    OperationalKind {
        Throttled = "destination.throttled",
        Unhealthy = "destination.unhealthy",
        Disabled = "destination.disabled",
        Recovered = "destination.recovered",
        DeadLetter = "delivery.dead_letter",
        ReplayCompleted = "replay.completed",
        BacklogFull = "account.backlog_full",
    }
}

impl OperationalKind {
    pub fn event_type(self) -> EventType {
        EventType::kept(&format!("{FIRST_SEGMENT}.{self}")).expect("the words are dotted names")
    }
}

/// Whether a type, or a pattern, begins with the segment of operational events.
pub fn is_operational(text: &str) -> bool {
    text.strip_prefix(FIRST_SEGMENT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Something that is to be told, from when it happened until it is an event.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationalNote {
    /// When it happened, and what tells it from others. Made of what it tells: written twice it is one.
    pub id: EventId,
    pub kind: OperationalKind,
    /// Whose it is about.
    pub account_id: AccountId,
    pub destination_id: Option<DestinationId>,
    /// Of its payload, what is known when it happens.
    pub data: Map<String, Value>,
}

impl OperationalNote {
    pub fn new(
        kind: OperationalKind,
        account_id: AccountId,
        destination_id: Option<DestinationId>,
        at: Timestamp,
        data: Value,
    ) -> Self {
        let of = destination_id.map_or(account_id.uuid(), |id| id.uuid());
        let id = note_id(at, &[kind.as_str().as_bytes(), of.as_bytes()]);
        let Value::Object(data) = data else { unreachable!("every caller gives an object") };
        Self { id, kind, account_id, destination_id, data }
    }

    /// A destination is held, or no longer.
    pub fn of_gate(
        account: AccountId,
        destination: DestinationId,
        (kind, hold): (OperationalKind, &Hold),
        now: Timestamp,
    ) -> Self {
        let data = match kind {
            OperationalKind::Recovered => {
                json!({ "reason": hold.reason.as_str(), "since": hold.since, "recovered_at": now })
            }
            _ => json!({
                "reason": hold.reason.as_str(),
                "since": hold.since,
                "until": hold.until,
                "detail": hold.detail,
            }),
        };
        Self::new(kind, account, Some(destination), now, data)
    }

    pub fn of_disabled(account: AccountId, destination: DestinationId, reason: &str, at: Timestamp) -> Self {
        let data = json!({ "reason": reason, "disabled_at": at });
        Self::new(OperationalKind::Disabled, account, Some(destination), at, data)
    }

    /// Its counts are read when it is told.
    pub fn of_replay(account: AccountId, replay: ReplayId, at: Timestamp) -> Self {
        let data = json!({ "replay_id": replay });
        let note = Self::new(OperationalKind::ReplayCompleted, account, None, at, data);
        Self { id: note_id(at, &[note.kind.as_str().as_bytes(), replay.bytes()]), ..note }
    }

    /// Of the dead letters of one destination in one minute; of what comes later for that minute there is another, so
    /// that `chance` is a part of its id.
    pub fn of_dead_letters(letters: &DeadLetterMinute, chance: u128) -> Self {
        let DeadLetterMinute { account_id, destination_id, minute, counts } = letters;
        let total: u64 = counts.iter().map(|count| count.count).sum();
        let reasons: Vec<Value> = counts
            .iter()
            .map(|it| json!({ "reason": it.reason, "http_status": it.http_status, "count": it.count }))
            .collect();
        let data = json!({ "minute": minute, "count": total, "reasons": reasons });
        let note = Self::new(OperationalKind::DeadLetter, *account_id, Some(*destination_id), *minute, data);
        let id = note_id(*minute, &[destination_id.bytes(), &chance.to_be_bytes()]);
        Self { id, ..note }
    }

    /// Events were refused because as much waits as may: one for each such span of time, whichever node says so.
    pub fn of_full_backlog(account: AccountId, span_start: Timestamp, rows: u64, bytes: u64) -> Self {
        let data = json!({ "queued_deliveries": rows, "queued_bytes": bytes });
        Self::new(OperationalKind::BacklogFull, account, None, span_start, data)
    }
}

/// Dead letters of a destination that were written in one minute.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetterMinute {
    pub account_id: AccountId,
    pub destination_id: DestinationId,
    pub minute: Timestamp,
    pub counts: Vec<DeadLetterCount>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetterCount {
    pub reason: String,
    pub http_status: Option<u16>,
    pub count: u64,
}

/// What a change of a gate is told as: that a hold of a kind that was not there has begun, or that none is left.
pub fn told_of_gate(before: &[Hold], after: &[Hold]) -> Vec<(OperationalKind, Hold)> {
    let kind = |reason| match reason {
        HoldReason::Throttle => Some(OperationalKind::Throttled),
        HoldReason::Breaker => Some(OperationalKind::Unhealthy),
        HoldReason::Paused | HoldReason::Disabled => None,
    };
    let is_new = |hold: &&Hold| !before.iter().any(|old| old.reason == hold.reason);
    let mut told: Vec<_> = after
        .iter()
        .filter(is_new)
        .filter_map(|hold| kind(hold.reason).map(|kind| (kind, hold.clone())))
        .collect();
    if after.is_empty() {
        let first = before.iter().min_by_key(|hold| hold.since);
        told.extend(first.map(|hold| (OperationalKind::Recovered, hold.clone())));
    }
    told
}

fn note_id(at: Timestamp, parts: &[&[u8]]) -> EventId {
    let mut hash = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| hash.update(part));
    let hash = hash.finish();
    let bytes = hash.as_ref()[..16].try_into().expect("SHA-256 gives 32 bytes");
    EventId::operational(at, u128::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_seconds(1_790_000_000 + seconds)
    }

    fn hold(reason: HoldReason, since: i64) -> Hold {
        let (until, detail) = (Some(at(since + 60)), String::new());
        Hold { reason, since: at(since), until, detail, step: None, probing: false }
    }

    fn kinds(before: &[Hold], after: &[Hold]) -> Vec<OperationalKind> {
        told_of_gate(before, after).into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn a_hold_is_told_when_it_begins_and_when_none_is_left() {
        let (throttle, breaker) = (hold(HoldReason::Throttle, 0), hold(HoldReason::Breaker, 5));
        let (one, both) = ([throttle.clone()], [throttle.clone(), breaker.clone()]);
        assert_eq!(kinds(&[], &one), [OperationalKind::Throttled]);
        assert_eq!(kinds(&one, &[hold(HoldReason::Throttle, 61)]), [], "the next window of the same hold");
        assert_eq!(kinds(&one, &both), [OperationalKind::Unhealthy]);
        assert_eq!(kinds(&both, &one), [], "it is still held");
        assert_eq!(kinds(&both, &[]), [OperationalKind::Recovered]);
        assert_eq!(kinds(&[], &[]), []);
    }

    #[test]
    fn what_is_noted_twice_has_one_id_and_an_operational_one() {
        let account = AccountId::at(at(0), 1);
        let destination = DestinationId::at(at(0), 2);
        let note = |n: i64| OperationalNote::of_disabled(account, destination, "gone", at(n));
        assert_eq!(note(1), note(1));
        assert_ne!(note(1).id, note(2).id);
        assert!(note(1).id.is_operational());
        assert!(!EventId::at(at(1), u128::MAX).is_operational());
        assert_eq!(note(1).id.made_at(), at(1));
    }

    #[test]
    fn the_first_segment_is_a_whole_one() {
        for (text, yes) in
            [("posthaste", true), ("posthaste.**", true), ("posthastes.a", false), ("*", false)]
        {
            assert_eq!(is_operational(text), yes, "{text}");
        }
        assert_eq!(OperationalKind::Throttled.event_type().as_str(), "posthaste.destination.throttled");
    }
}
