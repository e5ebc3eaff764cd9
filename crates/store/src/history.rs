//! The read side: events, deliveries and attempts, newest first, always within one account.

use crate::{
    KeptPayload, PayloadSize, Resolution, StoreError, StoredEvent, catalog::Page, sealed_event::open_headers,
};
use async_trait::async_trait;
use domain::{
    attempt::Detail,
    delivery::{Delivery, Ending, Status},
    event::Event,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RouteId, SourceId},
    limits,
    outcome::Outcome,
    pattern::Pattern,
    seal::{DataKey, SealError, Sealed},
    time::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;

/// A list looks at no more than [`domain::limits::PAGE_SCAN`] entries a page and gives no more than
/// [`domain::limits::PAGE_BYTES`] of text, so a page may be short, or empty, and still have a `next`: only `next: None`
/// ends a list. One row is given however large it is. A list about something that is not there, or not this account's,
/// is empty; one thing that is not there is [`StoreError::NotFound`]. A delivery was created when its id was made.
#[async_trait]
pub trait History: Send + Sync {
    /// Of each fan-out up to [`domain::limits::FANOUT_COUNTED`] deliveries are counted that wait, and as many that have
    /// ended; all where one event is asked for.
    async fn events(
        &self,
        account: AccountId,
        filter: &EventFilter,
        page: Page<EventId>,
    ) -> Result<Listed<EventRecord, EventId>, StoreError>;
    /// With its fan-out, counted to the end, and with its headers, sealed or not.
    async fn event(&self, account: AccountId, id: EventId) -> Result<EventRecord, StoreError>;
    /// Without its payload, and without headers that are sealed. Costs the same however many deliveries it has.
    async fn event_alone(&self, account: AccountId, id: EventId) -> Result<Event, StoreError>;
    /// How far these events' fan-outs are, in order, counted as in a list; None where the event is gone. Of any account:
    /// it is the node that asks.
    async fn fanouts(&self, events: &[EventId]) -> Result<Vec<Option<FanoutCounts>>, StoreError>;
    /// How large its payload is, without reading it. [`StoreError::PayloadErased`] if it was erased.
    async fn payload_size(&self, account: AccountId, id: EventId) -> Result<PayloadSize, StoreError>;
    /// Its payload, to be read in pieces. [`StoreError::Altered`] if it is not what was accepted,
    /// [`StoreError::PayloadErased`] if it was erased.
    async fn kept_payload(&self, account: AccountId, id: EventId) -> Result<KeptPayload, StoreError>;
    /// With its payload, whatever has become of that.
    async fn event_payload(&self, account: AccountId, id: EventId) -> Result<StoredEvent, StoreError>;

    async fn deliveries(
        &self,
        account: AccountId,
        filter: &DeliveryFilter,
        page: Page<DeliveryId>,
    ) -> Result<Listed<DeliveryRecord, DeliveryId>, StoreError>;
    async fn delivery(&self, account: AccountId, id: DeliveryId) -> Result<DeliveryRecord, StoreError>;

    /// All attempts of a delivery, oldest first (by id), facts without an attempt left out; at most `limit`. Once their
    /// text fills a page, those that follow come without headers and answers.
    async fn attempts_of_delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
        limit: usize,
    ) -> Result<Vec<AttemptRecord>, StoreError>;
    /// The attempts of a destination whose deliveries ended or are under way, newest delivery first and within it
    /// newest attempt first.
    async fn attempts_of_destination(
        &self,
        account: AccountId,
        id: DestinationId,
        page: Page<(DeliveryId, AttemptId)>,
    ) -> Result<Listed<AttemptRecord, (DeliveryId, AttemptId)>, StoreError>;

    /// Of the newest `limit` facts of each destination, of deliveries not older than
    /// [`domain::limits::SUCCESS_RATE_DAYS`], the attempts that started at or after `since`; a throttled one is neither
    /// good nor bad, and left out.
    async fn success_rates(
        &self,
        destinations: &[DestinationId],
        since: Timestamp,
        limit: usize,
    ) -> Result<Vec<SuccessRate>, StoreError>;
}

/// The first delivery whose attempts since then count for a success rate.
pub(crate) fn first_counted(since: Timestamp) -> DeliveryId {
    DeliveryId::at(since.minus(Duration::from_secs(limits::SUCCESS_RATE_DAYS * 86_400)), 0)
}

/// How many attempts were made, and how many of them met success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SuccessRate {
    pub successes: u32,
    pub attempts: u32,
}

/// `next` is the key to go on before; None at the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T, K> {
    pub rows: Vec<T>,
    pub next: Option<K>,
}

/// Different filters AND, the values of one OR; an empty list is no filter. `since` ≤ received_at < `until`.
/// A backfill keeps its filter as this document, in the words of the API.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventFilter {
    #[serde(rename = "type")]
    pub types: Vec<Pattern>,
    #[serde(rename = "source_id")]
    pub source_ids: Vec<SourceId>,
    #[serde(rename = "idempotency_key")]
    pub idempotency_keys: Vec<String>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Some(true): every delivery has ended (also where there was none); Some(false): some has not, or is yet to be
    /// made.
    pub fanout_complete: Option<bool>,
    /// No route led it anywhere, and nothing was made of it since.
    pub unmatched: bool,
    /// Found by their own table: what has none of them is not looked at.
    #[serde(rename = "tag")]
    pub tags: Vec<String>,
    /// Members of the metadata, each with the values it may have. Texts are compared by their characters, numbers and
    /// booleans as JSON writes them; nothing else has a value.
    pub metadata: Vec<(String, Vec<String>)>,
}

impl EventFilter {
    /// The ids between which its events are: an id is made when its event is received, give or take. This spares a list of
    /// yesterday all of today.
    pub(crate) fn ids(&self, before: Option<EventId>) -> (EventId, EventId) {
        let until = self.until.map_or(EventId::MAX, |until| EventId::at(until.plus(limits::ID_SLACK), 0));
        let since = self.since.map_or(EventId::MIN, |since| EventId::at(since.minus(limits::ID_SLACK), 0));
        (since, before.unwrap_or(EventId::MAX).min(until))
    }

    /// Texts of which an event's metadata, as they are kept, have one if the first of their filters may want them: a
    /// statement sorts most out by it, and [`Self::wants`] decides.
    pub(crate) fn metadata_parts(&self) -> Vec<String> {
        let Some((key, values)) = self.metadata.first() else { return Vec::new() };
        let json = |text: &str| serde_json::to_string(text).expect("a text is always JSON");
        let bare = |text: &String| {
            let bare = matches!(serde_json::from_str(text), Ok(Value::Number(_) | Value::Bool(_)));
            bare.then(|| text.trim().to_owned())
        };
        let written =
            |value: &String| [Some(json(value)), bare(value)].into_iter().flatten().collect::<Vec<_>>();
        values.iter().flat_map(written).map(|value| format!("{}:{value}", json(key))).collect()
    }

    /// What statements leave to be decided: metadata, and that nothing has come of an event.
    pub(crate) fn wants(&self, record: &EventRecord) -> bool {
        let has = |(key, values): &(String, Vec<String>)| {
            let value = record.event.metadata.get(key).and_then(metadata_text);
            value.is_some_and(|value| values.contains(&value))
        };
        self.metadata.iter().all(has) && (!self.unmatched || record.fanout.is_empty())
    }
}

fn metadata_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// An event without its payload, with how far its fan-out is.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    /// `payload` is empty here.
    pub event: Event,
    pub size_bytes: u64,
    pub fanout: FanoutCounts,
    /// Routes that match too and deliver nothing, since an older one leads to the same destination: the first
    /// [`domain::limits::OTHER_ROUTES`].
    pub other_routes: Vec<RouteId>,
    /// Then it was erased, with its headers; its size is still told.
    pub payload_erased_at: Option<Timestamp>,
    /// Its headers, where they are sealed and it was asked for alone; then `headers` is empty.
    pub sealed_headers: Option<Sealed>,
}

impl EventRecord {
    /// With headers that were sealed.
    pub fn open(&mut self, key: &DataKey) -> Result<(), SealError> {
        if let Some(sealed) = &self.sealed_headers {
            self.event.headers = open_headers(self.event.id, key, sealed)?;
            self.sealed_headers = None;
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FanoutCounts {
    /// Deliveries the event has; while they are being made, those there are already.
    pub total: u32,
    /// Also where it was a replay that was delivered.
    pub delivered: u32,
    pub waiting: u32,
    /// Those that are not settled.
    pub dead_letter: u32,
    /// Dead letters that a person has dismissed.
    pub dismissed: u32,
    pub cancelled: u32,
    /// A large fan-out: not all deliveries have been made yet.
    pub expanding: bool,
    /// There are more than were counted: all numbers but the total of a fan-out that has been made, and that no backfill
    /// has added to, are at least what there is. Zero is right also then for what waits, and so is whether it is complete.
    pub capped: bool,
    /// When the last delivery ended, if all have, there was one and all were counted. What happened, and not how it stands:
    /// a dead letter that is settled later ended when it died.
    pub completed_at: Option<Timestamp>,
}

impl FanoutCounts {
    /// Every delivery has been made and has ended.
    pub fn is_complete(&self) -> bool {
        self.waiting == 0 && !self.expanding
    }

    /// There is none and none is yet to be made.
    pub fn is_empty(&self) -> bool {
        let Self { total, delivered, waiting, dead_letter, dismissed, cancelled, expanding, .. } = self;
        !expanding && total + delivered + waiting + dead_letter + dismissed + cancelled == 0
    }

    /// Counts, of which at most so many were taken of what waits and of what has ended, as those of a fan-out of
    /// `total` deliveries (None: they are being made) the last of which, as far as it was looked, ended then.
    pub(crate) fn of(mut self, total: Option<u32>, at_most: Option<usize>, last: Option<Timestamp>) -> Self {
        let ended = self.delivered + self.dead_letter + self.dismissed + self.cancelled;
        self.capped = at_most.is_some_and(|most| self.waiting.max(ended) as usize >= most);
        self.expanding = total.is_none();
        // What a backfill has made since is part of it too.
        self.total = total.unwrap_or_default().max(self.waiting + ended);
        self.completed_at = last.filter(|_| self.is_complete() && !self.capped);
        self
    }
}

/// Different filters AND, the values of one OR; an empty list is no filter. `since` ≤ created_at < `until`, by the
/// delivery's id. `http_statuses` are about the last attempt, `reasons` about endings. A replay keeps its filter as this
/// document, in the words of the API.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeliveryFilter {
    /// `Delivering` is the owner's knowledge: here it means "has not ended", as `Queued` and `RetryScheduled` do
    /// (told apart by `attempts`: none, or some).
    #[serde(rename = "status")]
    pub statuses: Vec<Status>,
    #[serde(rename = "reason")]
    pub reasons: Vec<String>,
    #[serde(rename = "event_id")]
    pub event_ids: Vec<EventId>,
    #[serde(rename = "destination_id")]
    pub destination_ids: Vec<DestinationId>,
    #[serde(rename = "route_id")]
    pub route_ids: Vec<RouteId>,
    #[serde(rename = "source_id")]
    pub source_ids: Vec<SourceId>,
    #[serde(rename = "type")]
    pub types: Vec<Pattern>,
    #[serde(rename = "http_status")]
    pub http_statuses: Vec<u16>,
    #[serde(rename = "replay_id")]
    pub replay_ids: Vec<ReplayId>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    /// Some(true): dead letters that are settled; Some(false): whatever is not one of those.
    pub resolved: Option<bool>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct DeliveryRecord {
    pub id: DeliveryId,
    pub account_id: AccountId,
    pub event_id: EventId,
    pub event_type: String,
    pub source_id: Option<SourceId>,
    pub route_id: RouteId,
    pub destination_id: DestinationId,
    pub replay_id: Option<ReplayId>,
    /// The first delivery of a chain of replays; itself if it is none.
    pub origin: DeliveryId,
    pub attempts: u32,
    pub spent: u32,
    pub last_outcome: Option<Outcome>,
    pub last_http_status: Option<u16>,
    pub ordering_key: Option<String>,
    /// Its number at an ordered destination; None at others and while it waits for its time.
    pub sequence: Option<i64>,
    pub created_at: Timestamp,
    pub state: DeliveryState,
    /// Of a dead letter that is settled.
    pub resolution: Option<Resolution>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum DeliveryState {
    /// In the queue; its owner may have it open.
    Waiting(Box<Delivery>),
    Ended {
        ending: Ending,
        at: Timestamp,
    },
}

/// An attempt as it is kept.
#[derive(Debug, Clone, PartialEq)]
pub struct AttemptRecord {
    pub id: AttemptId,
    pub delivery_id: DeliveryId,
    pub event_id: EventId,
    pub destination_id: DestinationId,
    pub number: u32,
    pub started_at: Timestamp,
    pub duration: Duration,
    pub outcome: Outcome,
    pub http_status: Option<u16>,
    pub detail: Detail,
    pub node: NodeId,
    pub late: bool,
}
