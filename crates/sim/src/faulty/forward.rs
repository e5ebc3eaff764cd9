//! What needs no story of its own: configuration and the read side. They fail as everything else does.

use super::{FaultyStore, TrueStore, finish, replays::replayed};
use async_trait::async_trait;
use domain::{
    account::{Account, ApiKey},
    audit::{AuditEntry, AuditRecord, ChainEnds},
    destination::Destination,
    event::Event,
    id::{
        AccountId, ApiKeyId, AttemptId, AuditId, DeliveryId, DestinationId, EventId, NodeId, PortalLinkId,
        ReplayId, RouteId, SessionId, SourceId, UserId,
    },
    portal_link::PortalLink,
    refused_request::RefusedRequest,
    rollup::{FanoutSums, Span},
    route::Route,
    session::{Holder, SecretHash, Session, SignInLink, User},
    source::Source,
    time::Timestamp,
};
use std::time::Duration;
use store::{
    AccountBacklog, AccountChanges, AttemptRecord, AuditChains, AuditFilter, AuditLog, Backlogs, Catalog,
    ChainOwner, Chore, Chores, CreatedReplay, DataKeyChange, DeadLetterGroup, DeadLetters, DeliveryFilter,
    DeliveryRecord, DestinationRecord, Dismissal, Erased, Erasure, ErasureStep, Erasures, EventCount,
    EventFilter, EventRecord, EventWalk, FactWalk, FanoutCounts, FreshSums, GroupFilter, GroupKey,
    HeldPortalLink, HeldSession, History, KeptDataKey, KeptPayload, KeptSeals, LanePlace, LaneRollup,
    LaneRollups, LaneRow, Listed, ListedPortalLink, NewReplay, NewSession, OpenReplay, OriginalWalk,
    Originals, Page, PayloadSize, PortalLinks, Pruned, PublishedLanes, RefusedRequests, Replay, ReplayChunk,
    ReplayHold, ReplayPlace, ReplaySwitch, ReplayWalk, Replays, ResealedRow, Retention, Rollup, RollupKind,
    RollupMark, Rollups, SealedRow, SealedRowId, Seals, Selection, Sessions, SettingChange, StoreError,
    StoredEvent, SuccessRate, SumPlace, Summed, SummedTail, Survey, Term,
};

/// One implementation of a trait in which every method is the inner store's, with the trouble in between. Of a write
/// whose answer is lost it is unknown whether it was made; `then` notes one that was.
macro_rules! forward {
    ($trait:ident:
     $(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*
     $(write fn $write:ident($value:ident: &$of:ty $(, $audit:ident)?) -> $written:ty $(, then $tell:path)?;)*) => {
        #[async_trait]
        impl $trait for FaultyStore {
            $(async fn $name(&self, $($arg: $type),*) -> Result<$result, StoreError> {
                self.read(stringify!($name), self.inner.$name($($arg),*)).await
            })*
            $(async fn $write(&self, $value: &$of $(, $audit: &AuditEntry)?) -> Result<$written, StoreError> {
                let $value = $value.clone();
                $(let $audit = $audit.clone();)?
                let write = move |true_store: &TrueStore| {
                    let written = finish(true_store.store.$write(&$value $(, &$audit)?))?;
                    $($tell(true_store, &$value, &written);)?
                    Ok(written)
                };
                self.write(stringify!($write), write).await
            })*
        }
    };
}

forward! { Catalog:
    fn setting_or_insert(name: &str, value: &[u8]) -> Vec<u8>;
    fn create_account(account: &Account, audit: &AuditEntry) -> Account;
    fn create_account_within(most: usize, account: &Account, audit: &AuditEntry) -> Account;
    fn account(id: AccountId) -> Account;
    fn account_by_uid(uid: &str) -> Option<Account>;
    fn accounts(page: Page<AccountId>) -> Vec<Account>;
    fn first_account() -> Option<Account>;
    fn update_account(account: &Account, audit: &AuditEntry) -> Account;
    fn changes(account: AccountId, since: i64) -> AccountChanges;
    fn versions(accounts: &[AccountId]) -> Vec<Option<i64>>;
    fn changed_destinations(account: AccountId, since: i64, after: Option<DestinationId>, limit: usize) -> Vec<DestinationId>;
    fn create_api_key(key: &ApiKey, audit: &AuditEntry) -> ();
    fn api_key_by_lookup(lookup: &str) -> Option<ApiKey>;
    fn api_keys(account: Option<AccountId>, page: Page<ApiKeyId>) -> Vec<ApiKey>;
    fn revoke_api_key(account: Option<AccountId>, id: ApiKeyId, now: Timestamp, audit: &AuditEntry) -> ();
    fn touch_api_key(id: ApiKeyId, now: Timestamp) -> ();
    fn create_source(source: &Source, audit: &AuditEntry) -> Source;
    fn source(account: AccountId, id: SourceId) -> Source;
    fn source_by_uid(account: AccountId, uid: &str) -> Option<SourceId>;
    fn source_by_token(token_hash: &[u8]) -> Option<Source>;
    fn sources(account: AccountId, page: Page<SourceId>) -> Listed<Source, SourceId>;
    fn update_source(source: &Source, audit: &AuditEntry) -> Source;
    fn delete_source(account: AccountId, id: SourceId, now: Timestamp, audit: &AuditEntry) -> ();
    fn create_destination(destination: &Destination, audit: &AuditEntry) -> Destination;
    fn destination(account: AccountId, id: DestinationId) -> Destination;
    fn held_destinations(account: AccountId, limit: usize) -> Vec<DestinationId>;
    fn destination_by_uid(account: AccountId, uid: &str) -> Option<DestinationId>;
    fn destinations(account: AccountId, page: Page<DestinationId>) -> Listed<Destination, DestinationId>;
    fn delete_destination(account: AccountId, id: DestinationId, now: Timestamp, audit: &AuditEntry) -> ();
    fn probe(account: AccountId, id: DestinationId, now: Timestamp, audit: &AuditEntry) -> Destination;
    fn destination_records(ids: &[DestinationId]) -> Vec<Option<DestinationRecord>>;
    fn create_route(route: &Route, audit: &AuditEntry) -> Route;
    fn route(account: AccountId, id: RouteId) -> Route;
    fn route_by_uid(account: AccountId, uid: &str) -> Option<RouteId>;
    fn routes(account: AccountId, page: Page<RouteId>) -> Listed<Route, RouteId>;
    fn delete_route(account: AccountId, id: RouteId, now: Timestamp, audit: &AuditEntry) -> ();
    write fn update_destination(destination: &Destination, audit) -> Destination;
    write fn update_route(route: &Route, audit) -> Route, then route_updated;
}

fn route_updated(true_store: &TrueStore, route: &Route, _: &Route) {
    true_store.shared.observed().route_switched(route.destination_id);
}

forward! { History:
    fn events(account: AccountId, filter: &EventFilter, page: Page<EventId>) -> Listed<EventRecord, EventId>;
    fn event(account: AccountId, id: EventId) -> EventRecord;
    fn event_alone(account: AccountId, id: EventId) -> Event;
    fn fanouts(events: &[EventId]) -> Vec<Option<FanoutCounts>>;
    fn payload_size(account: AccountId, id: EventId) -> PayloadSize;
    fn kept_payload(account: AccountId, id: EventId) -> KeptPayload;
    fn event_payload(account: AccountId, id: EventId) -> StoredEvent;
    fn deliveries(account: AccountId, filter: &DeliveryFilter, page: Page<DeliveryId>) -> Listed<DeliveryRecord, DeliveryId>;
    fn delivery(account: AccountId, id: DeliveryId) -> DeliveryRecord;
    fn attempts_of_delivery(account: AccountId, id: DeliveryId, limit: usize) -> Vec<AttemptRecord>;
    fn attempts_of_destination(account: AccountId, id: DestinationId, page: Page<(DeliveryId, AttemptId)>) -> Listed<AttemptRecord, (DeliveryId, AttemptId)>;
    fn success_rates(destinations: &[DestinationId], since: Timestamp, limit: usize) -> Vec<SuccessRate>;
}

forward! { DeadLetters:
    fn dead_letter_groups(account: AccountId, filter: GroupFilter, after: Option<GroupKey>, limit: usize) -> Vec<DeadLetterGroup>;
    write fn dismiss(dismissal: &Dismissal, audit) -> u32;
}

forward! { Replays:
    fn replay(account: AccountId, id: ReplayId) -> Replay;
    fn replays(account: AccountId, page: Page<ReplayId>) -> Listed<Replay, ReplayId>;
    fn switch_replay(account: AccountId, id: ReplayId, to: ReplaySwitch, now: Timestamp, audit: &AuditEntry) -> Replay;
    fn replayed(account: AccountId, id: ReplayId, origin: DeliveryId) -> Option<DeliveryId>;
    fn survey(account: AccountId, selection: &Selection, as_of: Timestamp, limit: usize) -> Survey;
    fn open_replays(limit: usize) -> Vec<OpenReplay>;
    fn originals(walk: &OriginalWalk) -> Originals;
    write fn create_replay(new: &NewReplay, audit) -> CreatedReplay;
    write fn hold_replay(hold: &ReplayHold) -> Option<OpenReplay>;
    write fn write_replay(chunk: &ReplayChunk) -> Option<u32>, then replayed;
}

forward! { PublishedLanes:
    fn publish_lanes(node: NodeId, lanes: &[LaneRow], now: Timestamp) -> ();
    fn published_lanes(destinations: &[DestinationId], newer_than: Timestamp) -> Vec<Option<LaneRow>>;
}

forward! { Chores:
    fn take_chore(chore: Chore, node: NodeId, now: Timestamp, lease: Duration) -> Option<Term>;
}

forward! { Retention:
    fn prune_events(term: Term, walk: EventWalk) -> Option<Pruned<EventId>>;
    fn prune_facts(term: Term, walk: FactWalk) -> Option<Pruned<DeliveryId>>;
    fn prune_replays(term: Term, walk: ReplayWalk) -> Option<Pruned<ReplayPlace>>;
}

forward! { Erasures:
    fn delete_account(id: AccountId, now: Timestamp, audit: &AuditEntry) -> Erasure;
    fn erasure(id: AccountId) -> Erasure;
    fn open_erasures(limit: usize) -> Vec<Erasure>;
    fn erase(term: Term, step: &ErasureStep) -> Option<Erased>;
    fn end_erasure(term: Term, id: AccountId, now: Timestamp) -> bool;
    fn erase_payload(account: AccountId, id: EventId, now: Timestamp, audit: &AuditEntry) -> ();
    fn erase_answers(id: EventId, after: Option<DeliveryId>, deliveries: usize) -> Option<DeliveryId>;
    fn payload_erasures(before: Timestamp, limit: usize) -> Vec<EventId>;
    fn end_payload_erasure(id: EventId) -> ();
}

forward! { Rollups:
    fn sum_facts(span: Span, from: Timestamp, to: Timestamp, at: Option<i64>) -> Summed;
    fn sum_fresh(from: Timestamp, to: Timestamp, after: Option<SumPlace>) -> FreshSums;
    fn count_events(from: Timestamp, to: Timestamp) -> Vec<EventCount>;
    fn sum_fanouts(from: EventId, to: Timestamp, limit: usize) -> (Vec<(AccountId, FanoutSums)>, Option<EventId>);
    fn write_rollups(term: Term, rows: &[Rollup]) -> bool;
    fn write_mark(term: Term, mark: RollupMark, until: Timestamp) -> bool;
    fn mark(mark: RollupMark) -> Option<Timestamp>;
    fn oldest_event() -> Option<Timestamp>;
    fn prune_rollups(term: Term, kind: RollupKind, before: Timestamp, limit: usize) -> Option<usize>;
    fn rollups(account: AccountId, destination: Option<DestinationId>, kind: RollupKind, from: Timestamp, to: Timestamp) -> Vec<(Timestamp, String)>;
    fn sum_tail(account: AccountId, destination: Option<DestinationId>, from: Timestamp, limit: usize) -> SummedTail;
    fn count_waiting(account: AccountId, limit: usize) -> u64;
    fn oldest_due(account: AccountId, now: Timestamp, limit: usize) -> Option<Timestamp>;
    fn rollups_of_destinations(account: AccountId, destinations: &[DestinationId], kind: RollupKind, from: Timestamp, to: Timestamp, limit: usize) -> Vec<(DestinationId, Timestamp, String)>;
}

forward! { LaneRollups:
    fn write_lane_minutes(node: NodeId, rows: &[LaneRollup]) -> ();
    fn write_lane_rollups(term: Term, span: Span, rows: &[LaneRollup]) -> bool;
    fn lane_rollups(account: AccountId, destination: Option<DestinationId>, span: Span, from: Timestamp, to: Timestamp) -> Vec<(Timestamp, String)>;
    fn lane_rollups_at(span: Span, starts_at: Timestamp, after: Option<LanePlace>, limit: usize) -> Vec<(LanePlace, String)>;
    fn prune_lane_rollups(term: Term, span: Span, before: Timestamp, limit: usize) -> Option<usize>;
}

forward! { AuditLog:
    fn write_audit(account: Option<AccountId>, entry: &AuditEntry) -> ();
    fn audit_entries(account: Option<AccountId>, filter: &AuditFilter, page: Page<AuditId>) -> Listed<AuditRecord, AuditId>;
    fn prune_audit(before: Timestamp, limit: usize) -> usize;
}

forward! { AuditChains:
    fn audit_chains(after: Option<ChainOwner>, limit: usize) -> Vec<ChainOwner>;
    fn audit_ends(owner: ChainOwner) -> Option<ChainEnds>;
    fn audit_records(owner: ChainOwner, after: i64, limit: usize) -> Vec<AuditRecord>;
}

forward! { Sessions:
    fn create_session(new: &NewSession, audit: &AuditEntry) -> ();
    fn session(hash: &SecretHash) -> Option<HeldSession>;
    fn sessions(holder: Option<Holder>, page: Page<SessionId>) -> Vec<Session>;
    fn touch_session(id: SessionId, now: Timestamp) -> ();
    fn choose_account(id: SessionId, account: Option<AccountId>) -> ();
    fn end_session(holder: Option<Holder>, id: SessionId, owner: ChainOwner, audit: &AuditEntry) -> ();
    fn prune_sessions(seen_before: Timestamp, links_over: Timestamp, limit: usize) -> usize;
    fn create_link(link: &SignInLink) -> ();
    fn link(hash: &SecretHash) -> Option<SignInLink>;
    fn key_of_link(hash: &SecretHash) -> Option<ApiKey>;
    fn set_up(user: &User, new: &NewSession, audit: &AuditEntry) -> ();
    fn create_user(user: &User, audit: &AuditEntry) -> ();
    fn user(id: UserId) -> User;
    fn user_by_name(name: &str) -> Option<User>;
    fn users(page: Page<UserId>) -> Vec<User>;
    fn delete_user(id: UserId, audit: &AuditEntry) -> ();
    fn change_password(id: UserId, password: &str, new: &NewSession, audit: &AuditEntry) -> ();
}

forward! { KeptSeals:
    fn data_keys(after: Option<AccountId>, limit: usize) -> Vec<KeptDataKey>;
    fn settings(prefix: &str) -> Vec<(String, Vec<u8>)>;
}

forward! { Seals:
    fn replace_data_keys(changes: &[DataKeyChange], audit: &AuditEntry) -> usize;
    fn replace_settings(changes: &[SettingChange], audit: &AuditEntry) -> bool;
    fn sealed_rows(account: AccountId, after: Option<SealedRowId>, limit: usize) -> Vec<SealedRow>;
    fn reseal_rows(account: AccountId, rows: &[ResealedRow], audit: &AuditEntry) -> usize;
    fn oldest_event_of(account: AccountId) -> Option<EventId>;
}

forward! { PortalLinks:
    fn create_portal_link(link: &PortalLink, audit: &AuditEntry) -> ();
    fn portal_link(hash: &SecretHash) -> Option<HeldPortalLink>;
    fn open_portal_link(link: &PortalLink, new: &NewSession, audit: &AuditEntry) -> ();
    fn portal_links(account: AccountId, page: Page<PortalLinkId>) -> Vec<ListedPortalLink>;
    fn revoke_portal_link(account: AccountId, id: PortalLinkId, audit: &AuditEntry) -> ();
}

forward! { RefusedRequests:
    fn keep_refused(request: &RefusedRequest) -> ();
    fn refused_requests(account: AccountId, source: SourceId) -> Vec<RefusedRequest>;
}

forward! { Backlogs:
    fn account_backlogs(limit: usize) -> Vec<AccountBacklog>;
}
