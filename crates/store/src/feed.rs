//! What has just become durable, as a feed that can be left and taken up again: events, facts about deliveries (an
//! attempt, an ending) and holds of destinations.
//!
//! Nothing is written for it: it is read from the tables that are there. The difficulty is order. An attempt's id is
//! made when it starts and its row appears when it has ended and was flushed, so a lower id may become visible long
//! after a higher one, and with many nodes no column of the row says when. Two kinds of [`FeedPlace`] solve it:
//!
//! - Where one process writes (SQLite, memory) rows are numbered as they are committed: a place is the last number.
//! - On PostgreSQL a place is a **snapshot** of the database: which transactions were over. What lies behind it is what
//!   any other transaction wrote, whenever it commits and whatever its id; nothing has to be looked for twice and
//!   nothing to be remembered for it. Ids only say where to look: rows whose attempt began, or whose event was received,
//!   no longer than [`domain::limits::FEED_LOOKBACK`] before the snapshot. A round goes from one snapshot to the next in
//!   pages, and a place within it names both.

use crate::{EventRecord, FanoutCounts, StoreError};
use async_trait::async_trait;
use domain::{
    delivery::Ending,
    event::Event,
    gate::HoldRecord,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
    outcome::Outcome,
    time::Timestamp,
};
use std::{fmt, time::Duration};
use tokio::sync::Notify;
use uuid::Uuid;

#[async_trait]
pub trait Feed: Send + Sync {
    /// Here and now: all that is durable lies before it, all that becomes durable behind it.
    async fn feed_end(&self, now: Timestamp) -> Result<FeedPlace, StoreError>;

    /// The place that this text names.
    async fn feed_place(&self, text: &str) -> Result<Resumption, StoreError>;

    /// Some of what lies behind a place and is followed, each thing once on the way to where `more` is false; about
    /// `limit` of each kind. What moved nothing (a late word) is left out.
    async fn feed(
        &self,
        followed: Followed<'_>,
        after: &FeedPlace,
        limit: usize,
        now: Timestamp,
    ) -> Result<FeedPage, StoreError>;

    /// Waits until this process has written something to the feed since it was last asked. What other processes write
    /// is not heard. One may wait at a time.
    async fn feed_written(&self);
}

/// Whose feed is read, and what of it.
#[derive(Debug, Clone, Copy)]
pub struct Followed<'a> {
    pub accounts: &'a [AccountId],
    /// Events are passed over, and cost nothing, where no follower asks for them.
    pub events: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct FeedPage {
    pub entries: Vec<FeedEntry>,
    /// Behind all of it.
    pub next: FeedPlace,
    /// There is more that was durable already.
    pub more: bool,
}

/// One thing that became durable.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedEntry {
    pub account_id: AccountId,
    /// A follower that has heard this, and all before it, goes on from here.
    pub place: FeedPlace,
    pub stamp: FeedStamp,
    pub change: FeedChange,
}

#[derive(Debug, Clone, PartialEq)]
pub enum FeedChange {
    /// As it was received, without its payload. A large fan-out may be told a second time when it is complete.
    Event(Box<EventRecord>),
    Delivery(Box<FactRecord>),
    /// As it is now: it may have changed more than once.
    Hold(DestinationId, HoldRecord),
}

/// A delivery as a fact left it.
#[derive(Debug, Clone, PartialEq)]
pub struct FactRecord {
    pub delivery_id: DeliveryId,
    pub event_id: EventId,
    /// `unknown` once the event is gone.
    pub event_type: String,
    pub source_id: Option<SourceId>,
    pub ordering_key: Option<String>,
    pub route_id: RouteId,
    pub destination_id: DestinationId,
    pub replay_id: Option<ReplayId>,
    pub origin: DeliveryId,
    pub attempts: u32,
    pub spent: u32,
    pub sequence: Option<i64>,
    /// Of this attempt or, without one, of the last before.
    pub outcome: Option<Outcome>,
    pub http_status: Option<u16>,
    /// None: it ended without one.
    pub attempt: Option<FactAttempt>,
    pub ending: Option<(Ending, Timestamp)>,
    /// When it is due again, if nothing else has happened to it since.
    pub next_attempt_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FactAttempt {
    pub id: AttemptId,
    pub started_at: Timestamp,
    pub duration: Duration,
}

/// What became of a text that should name a place.
#[derive(Debug, Clone, PartialEq)]
pub enum Resumption {
    At(FeedPlace),
    /// It was one, but not of this store as it is today: a backup was restored, or the file was rewritten.
    Lost,
    /// It never was one.
    Malformed,
}

/// A place in the feed. Its text is for a follower that comes back.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedPlace {
    /// About when it was the end.
    pub(crate) at: Timestamp,
    pub(crate) seen: FeedProgress,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FeedProgress {
    /// Everything up to these numbers.
    Numbers(LastNumbers),
    /// What the transactions of a snapshot wrote and, within a round, some of what those of the next one did.
    Snapshots { seen: Snapshot, round: Option<FeedRound> },
}

/// The last fact, the last hold and the last event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LastNumbers {
    pub(crate) fact: i64,
    pub(crate) hold: i64,
    pub(crate) event: i64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FeedRound {
    pub(crate) at: Timestamp,
    pub(crate) until: Snapshot,
    pub(crate) stage: RoundStage,
}

/// Facts by attempt, then events by id, then holds by when they changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RoundStage {
    Facts { from: AttemptId },
    Events { from: EventId },
    Holds { after: (i64, DestinationId) },
}

/// Which transactions are over: those below `oldest`, and those below `next` that are not in `open`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) oldest: i64,
    pub(crate) next: i64,
    pub(crate) open: Vec<i64>,
}

/// Which write something came with, to be compared with a place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FeedStamp(pub(crate) WriteNumber);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum WriteNumber {
    Fact(i64),
    Hold(i64),
    Event(i64),
    Transaction(i64),
}

/// A snapshot with more open transactions than this is kept as if all of those after the oldest were open: then some
/// things are told twice, and a place stays short.
const OPEN_MOST: usize = 64;

impl FeedPlace {
    /// About when this was the end of the feed.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Whether what has this stamp lies before the place.
    pub fn covers(&self, stamp: FeedStamp) -> bool {
        match (&self.seen, stamp.0) {
            (FeedProgress::Numbers(seen), WriteNumber::Fact(number)) => number <= seen.fact,
            (FeedProgress::Numbers(seen), WriteNumber::Hold(number)) => number <= seen.hold,
            (FeedProgress::Numbers(seen), WriteNumber::Event(number)) => number <= seen.event,
            (FeedProgress::Snapshots { seen, .. }, WriteNumber::Transaction(transaction)) => {
                seen.has(transaction)
            }
            _ => false,
        }
    }

    /// The same place, looked back from as if it had been the end already then: for facts that could not be written
    /// for a while.
    pub fn looking_back_to(mut self, then: Timestamp) -> Self {
        self.at = self.at.min(then);
        self
    }

    pub(crate) fn numbers(at: Timestamp, seen: LastNumbers) -> Self {
        Self { at, seen: FeedProgress::Numbers(seen) }
    }

    pub(crate) fn snapshot(at: Timestamp, seen: Snapshot) -> Self {
        Self { at, seen: FeedProgress::Snapshots { seen, round: None } }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let kind = parts.next()?;
        let at = Timestamp::from_micros(number(parts.next()?)?);
        let seen = match kind {
            "n" => {
                let mut next = || number(parts.next()?);
                FeedProgress::Numbers(LastNumbers { fact: next()?, hold: next()?, event: next()? })
            }
            "s" => {
                let seen = Snapshot::read(parts.next()?)?;
                let round = match parts.next() {
                    None => None,
                    Some(round_at) => Some(FeedRound {
                        at: Timestamp::from_micros(number(round_at)?),
                        until: Snapshot::read(parts.next()?)?,
                        stage: RoundStage::read(parts.next()?)?,
                    }),
                };
                FeedProgress::Snapshots { seen, round }
            }
            _ => return None,
        };
        parts.next().is_none().then_some(Self { at, seen })
    }
}

impl fmt::Display for FeedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.seen {
            FeedProgress::Numbers(LastNumbers { fact, hold, event }) => {
                write!(f, "n-{:x}-{fact:x}-{hold:x}-{event:x}", self.at.micros())
            }
            FeedProgress::Snapshots { seen, round } => {
                write!(f, "s-{:x}-{seen}", self.at.micros())?;
                let Some(FeedRound { at, until, stage }) = round else { return Ok(()) };
                write!(f, "-{:x}-{until}-", at.micros())?;
                match stage {
                    RoundStage::Facts { from } => write!(f, "f{}", from.uuid().simple()),
                    RoundStage::Events { from } => write!(f, "e{}", from.uuid().simple()),
                    RoundStage::Holds { after: (at, id) } => write!(f, "h{at:x}.{}", id.uuid().simple()),
                }
            }
        }
    }
}

impl EventRecord {
    /// As it was when it became durable: nothing has been delivered yet. `deliveries` is None while they are being made.
    pub(crate) fn received(
        event: Event,
        size_bytes: u64,
        deliveries: Option<u32>,
        other_routes: Vec<RouteId>,
    ) -> Self {
        let total = deliveries.unwrap_or(0);
        let fanout = FanoutCounts {
            total,
            waiting: total,
            expanding: deliveries.is_none(),
            ..FanoutCounts::default()
        };
        Self { event, size_bytes, fanout, other_routes, payload_erased_at: None, sealed_headers: None }
    }
}

impl RoundStage {
    fn read(text: &str) -> Option<Self> {
        if let Some(from) = text.strip_prefix('f') {
            return Some(Self::Facts { from: AttemptId::from_uuid(Uuid::try_parse(from).ok()?) });
        }
        if let Some(from) = text.strip_prefix('e') {
            return Some(Self::Events { from: EventId::from_uuid(Uuid::try_parse(from).ok()?) });
        }
        let (at, id) = text.strip_prefix('h')?.split_once('.')?;
        Some(Self::Holds { after: (number(at)?, DestinationId::from_uuid(Uuid::try_parse(id).ok()?)) })
    }
}

impl Snapshot {
    /// As PostgreSQL writes it, kept short.
    pub(crate) fn of_server(text: &str) -> Option<Self> {
        let whole = Self::whole(text)?;
        Some(match whole.open.len() {
            0..=OPEN_MOST => whole,
            _ => Self { oldest: whole.oldest, next: whole.oldest, open: Vec::new() },
        })
    }

    /// As PostgreSQL writes it: `oldest:next:open,open`.
    pub(crate) fn whole(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (oldest, next) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let open = parts.next()?.split(',').filter(|part| !part.is_empty());
        let open: Vec<i64> = open.map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(Self { oldest, next, open })
    }

    fn has(&self, transaction: i64) -> bool {
        transaction < self.oldest || (transaction < self.next && !self.open.contains(&transaction))
    }

    /// As differences: those are short.
    fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let oldest = number(parts.next()?)?;
        let next = oldest.checked_add(number(parts.next()?)?)?;
        let open = parts.map(|part| oldest.checked_add(number(part)?)).collect::<Option<Vec<i64>>>()?;
        (open.len() <= OPEN_MOST).then_some(Self { oldest, next, open })
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.oldest, self.next - self.oldest)?;
        self.open.iter().try_for_each(|open| write!(f, ".{:x}", open - self.oldest))
    }
}

/// Never negative.
fn number(text: &str) -> Option<i64> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| i64::from_str_radix(text, 16).ok()).flatten()
}

/// Notified when this process has written something to the feed. Where no stream waits it costs an atomic or two.
#[derive(Debug, Default)]
pub(crate) struct FeedSignal(Notify);

impl FeedSignal {
    pub(crate) fn notify(&self) {
        self.0.notify_one();
    }

    pub(crate) async fn notified(&self) {
        self.0.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::of_server(text).expect("a snapshot")
    }

    #[test]
    fn a_place_reads_back_from_its_text() {
        let at = Timestamp::from_micros(1_790_000_000_123_456);
        let (seen, until) = (snapshot("100:120:100,105"), snapshot("130:130:"));
        let within = |stage| {
            let round = FeedRound { at, until: until.clone(), stage };
            FeedPlace { at, seen: FeedProgress::Snapshots { seen: seen.clone(), round: Some(round) } }
        };
        let places = [
            FeedPlace::numbers(at, LastNumbers { fact: 17, hold: 0, event: 4 }),
            FeedPlace::snapshot(at, seen.clone()),
            within(RoundStage::Facts { from: AttemptId::at(at, 7) }),
            within(RoundStage::Events { from: EventId::at(at, 9) }),
            within(RoundStage::Holds { after: (at.micros(), DestinationId::at(at, 8)) }),
        ];
        for place in places {
            let text = place.to_string();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)), "{text}");
            assert_eq!(FeedPlace::parse(&text), Some(place), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_is_told_apart() {
        for text in [
            "",
            "n",
            "n-1-2-3",
            "n-1-2-3-4-5",
            "n-1-2--3",
            "s-1-5",
            "s-1-5.2-7",
            "x-1-2-3-4",
            "n-1-2-+3-4",
            "77",
        ] {
            assert_eq!(FeedPlace::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_was_open_is_not_seen_whatever_its_number() {
        let place = FeedPlace::snapshot(Timestamp::MIN, snapshot("100:120:100,105"));
        let seen = |transaction| place.covers(FeedStamp(WriteNumber::Transaction(transaction)));
        assert!(seen(99) && seen(101) && seen(119));
        assert!(!seen(100) && !seen(105) && !seen(120) && !seen(500));
    }

    #[test]
    fn a_crowd_of_open_transactions_makes_a_place_earlier_not_longer() {
        let open: Vec<String> = (100..200).map(|transaction| transaction.to_string()).collect();
        let place = FeedPlace::snapshot(Timestamp::MIN, snapshot(&format!("100:300:{}", open.join(","))));
        let seen = |transaction| place.covers(FeedStamp(WriteNumber::Transaction(transaction)));
        assert!(seen(99) && !seen(100) && !seen(250), "some are told twice, none is left out");
        assert!(place.to_string().len() < 20);
    }
}
