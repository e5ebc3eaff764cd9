//! A store of plain maps behind one mutex: the executable specification of what a store does.
//!
//! It says what the traits promise in the fewest words, and the other stores are compared with it. It forgets everything
//! when it is dropped, keeps no transaction open, and never fails unless it is told to; tests and the simulator deliver
//! with it. It fences settlements by node as PostgreSQL does: a node that has not joined moves nothing.

mod audit;
mod audit_log;
mod backfill;
mod backlog;
mod catalog;
mod chores;
mod dead_letters;
mod erasure;
mod expand;
mod feed;
mod gates;
mod history;
mod ingest;
mod interruption;
mod lane_rollups;
mod lanes;
mod membership;
mod operational_events;
mod portal_links;
mod queue;
mod refused_requests;
mod replay;
mod retention;
mod rollup;
mod seals;
mod sessions;
mod table;
mod test_sends;
mod waiting;
mod wakes;

use crate::{
    AskedTest, AttemptRecord, ChainOwner, Chore, Erasure, Expansion, KeptGate, LaneRow, NodeRecord,
    Resolution, RollupKind, RollupMark, SealedEvent, StoreError, StoredEvent, Term, TestProgress, checksum,
    feed::FeedSignal,
};
use audit_log::KeptChain;
use bytes::Bytes;
use domain::{
    account::{Account, ApiKey},
    delivery::{Delivery, Ending},
    destination::Destination,
    event::{Event, Headers},
    gate::HoldRecord,
    id::{
        self, AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, PortalLinkId,
        ReplayId, SessionId, SourceId, UserId,
    },
    operations::OperationalNote,
    portal_link::PortalLink,
    refused_request::RefusedRequest,
    rollup::Span,
    route::Route,
    seal::Sealed,
    session::{SecretHash, Session, SignInLink, User},
    source::Source,
    time::{Clock, Timestamp},
};
use feed::{WrittenFact, WrittenHold};
use interruption::Interruptions;
use operational_events::DeadLetterMinutes;
use replay::KeptReplay;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};
use table::Table;
use waiting::WaitingDeliveries;
use wakes::NewsChannel;

pub struct MemoryStore {
    clock: Arc<dyn Clock>,
    tables: Arc<Mutex<Tables>>,
    news: NewsChannel,
    interruptions: Interruptions,
    feed_signal: FeedSignal,
    /// A note of what is to be told was written.
    note_signal: FeedSignal,
}

impl MemoryStore {
    /// An empty store. The clock is the store's own: see [`crate::Membership::now`].
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            tables: Arc::default(),
            news: NewsChannel::new(),
            interruptions: Interruptions::default(),
            feed_signal: FeedSignal::default(),
            note_signal: FeedSignal::default(),
        }
    }

    /// The same store as another node has it: it hears what the others tell, and they hear it.
    pub fn another(&self) -> Self {
        Self {
            clock: self.clock.clone(),
            tables: self.tables.clone(),
            news: self.news.another(),
            interruptions: self.interruptions.clone(),
            feed_signal: FeedSignal::default(),
            note_signal: FeedSignal::default(),
        }
    }

    /// One lock for everything: as long as it is held, that is a transaction.
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("no method panics while it holds the lock")
    }
}

/// Everything there is, as a database has it in tables.
#[derive(Default)]
struct Tables {
    settings: BTreeMap<String, Vec<u8>>,
    accounts: BTreeMap<AccountId, Account>,
    api_keys: BTreeMap<ApiKeyId, ApiKey>,
    sources: Table<Source>,
    destinations: Table<Destination>,
    routes: Table<Route>,
    events: BTreeMap<EventId, KeptEvent>,
    /// Those under way.
    expansions: BTreeMap<EventId, Expansion>,
    replays: BTreeMap<ReplayId, KeptReplay>,
    /// By scope and hash of the key.
    used_keys: BTreeMap<(uuid::Uuid, [u8; 32]), UsedKey>,
    waiting: WaitingDeliveries,
    /// The last number each ordered destination has given.
    sequences: BTreeMap<DestinationId, i64>,
    ended: BTreeMap<DeliveryId, EndedDelivery>,
    /// Dead letters that are settled.
    settled: BTreeMap<DeliveryId, Resolution>,
    /// What settlements said, an attempt or an ending without one, and whether it moved the delivery.
    facts: BTreeMap<(DeliveryId, AttemptId), bool>,
    /// By delivery, then in the order in which they were started.
    attempts: BTreeMap<(DeliveryId, AttemptId), KeptAttempt>,
    nodes: BTreeMap<NodeId, KeptNode>,
    shards: Shards,
    lanes: BTreeMap<DestinationId, KeptLane>,
    /// As long as somebody waits for them.
    tests: BTreeMap<DeliveryId, KeptTest>,
    gates: BTreeMap<DestinationId, KeptGate>,
    holds: BTreeMap<DestinationId, BTreeMap<(Timestamp, &'static str), HoldRecord>>,
    /// What settlements and people made of deliveries, and lines of the history of holds, as they were written.
    written_facts: Vec<WrittenFact>,
    written_holds: Vec<WrittenHold>,
    written_events: Vec<EventId>,
    chores: BTreeMap<Chore, KeptChore>,
    rollups: BTreeMap<(AccountId, DestinationId, RollupKind, Timestamp), String>,
    marks: BTreeMap<RollupMark, Timestamp>,
    /// By span, beginning, account, destination and who saw it.
    lane_rollups: BTreeMap<(Span, Timestamp, AccountId, DestinationId, NodeId), String>,
    audit_chains: BTreeMap<ChainOwner, KeptChain>,
    /// Accounts that are told what Posthaste tells of itself, and the one that is told of all.
    told_accounts: BTreeSet<AccountId>,
    operations_account: Option<AccountId>,
    operational_notes: BTreeMap<(EventId, AccountId), OperationalNote>,
    dead_letter_minutes: DeadLetterMinutes,
    /// Of accounts that were deleted: they are among the accounts no more.
    erasures: BTreeMap<AccountId, Erasure>,
    /// Whose it is, and when it was erased.
    payload_erasures: BTreeMap<EventId, (AccountId, Timestamp)>,
    sessions: BTreeMap<SessionId, Session>,
    links: BTreeMap<SecretHash, SignInLink>,
    users: BTreeMap<UserId, User>,
    portal_links: BTreeMap<PortalLinkId, PortalLink>,
    refused_requests: BTreeMap<(SourceId, Timestamp), RefusedRequest>,
}

struct KeptChore {
    term: Term,
    until: Timestamp,
}

struct KeptEvent {
    event: Arc<Event>,
    /// Of what is kept of the payload.
    payload_crc: i32,
    /// Its payload as it is kept and its headers, where they are sealed: then these are all that is given of them.
    sealed: Option<(Bytes, Sealed)>,
    deliveries: Vec<DeliveryId>,
    /// Made by backfills since.
    backfilled: Vec<DeliveryId>,
    other_routes: Vec<domain::id::RouteId>,
    /// Of the payload as it was accepted.
    size_bytes: usize,
    payload_erased_at: Option<Timestamp>,
}

impl KeptEvent {
    fn is_whole(&self) -> bool {
        match &self.sealed {
            None => checksum::fits(&self.event.payload, Some(self.payload_crc)),
            Some((payload, _)) => checksum::fits_sealed(payload, Some(self.payload_crc)),
        }
    }

    /// As it is read, payload and all.
    fn stored(&self) -> StoredEvent {
        let event = self.event.clone();
        match &self.sealed {
            None => StoredEvent::Plain(event),
            Some((payload, headers)) => StoredEvent::Sealed(Box::new(SealedEvent::new(
                Event::clone(&event),
                self.size_bytes,
                payload.clone(),
                headers.clone(),
            ))),
        }
    }

    /// Without its payload, and without headers that are sealed.
    fn outside(&self) -> Event {
        let event = Event { payload: Bytes::new(), ..Event::clone(&self.event) };
        match &self.sealed {
            None => event,
            Some(_) => Event { headers: Headers::new(), ..event },
        }
    }

    /// Whether its payload travels with it.
    fn is_carried(&self) -> bool {
        self.sealed.is_none() && self.event.payload.len() <= domain::limits::CARRIED_BYTES && self.is_whole()
    }
}

struct UsedKey {
    event_id: EventId,
    body_hash: [u8; 32],
    committed_at: Timestamp,
}

struct EndedDelivery {
    /// As it was left.
    delivery: Delivery,
    ending: Ending,
    at: Timestamp,
    /// The fact that ended it.
    fact: AttemptId,
}

struct KeptAttempt {
    account_id: AccountId,
    record: AttemptRecord,
}

struct KeptNode {
    record: NodeRecord,
    joined_at: Timestamp,
    expires_at: Timestamp,
}

#[derive(Debug, Clone, Default)]
struct KeptShard {
    /// It is free once this node has no row.
    node: Option<NodeId>,
    epoch: i64,
    wanted_by: Option<NodeId>,
}

/// By number.
struct Shards(Vec<KeptShard>);

impl Default for Shards {
    fn default() -> Self {
        Self(vec![KeptShard::default(); usize::from(id::SHARDS)])
    }
}

struct KeptTest {
    test: AskedTest,
    asked_at: Timestamp,
    progress: TestProgress,
}

struct KeptLane {
    lane: LaneRow,
    said_at: Timestamp,
}

impl Tables {
    fn account(&self, id: AccountId) -> Result<&Account, StoreError> {
        self.accounts.get(&id).ok_or(StoreError::NotFound { what: "account" })
    }

    /// The version of a change that is being made to the account's configuration.
    fn next_version(&mut self, id: AccountId) -> Result<i64, StoreError> {
        let account = self.accounts.get_mut(&id).ok_or(StoreError::NotFound { what: "account" })?;
        account.version += 1;
        Ok(account.version)
    }
}

/// The entries of a map below `before`, newest first.
fn newest_first<K: Ord + Copy, V>(map: &BTreeMap<K, V>, before: Option<K>) -> impl Iterator<Item = (K, &V)> {
    let entries = match before {
        Some(before) => map.range(..before),
        None => map.range(..),
    };
    entries.rev().map(|(key, value)| (*key, value))
}
