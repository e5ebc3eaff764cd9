//! What can be done to a store, as a value: done three times over, and its answers compared as text.

use crate::fixtures::{first, told};
use domain::{
    account::{Account, ApiKey},
    delivery::Position,
    destination::Destination,
    id::{
        AccountId, ApiKeyId, AttemptId, DeliveryId, DestinationId, EventId, NodeId, ReplayId, RouteId,
        SHARDS, SourceId,
    },
    route::Route,
    source::Source,
    testing::audit_entry,
    time::Timestamp,
};
use std::fmt::Debug;
use store::{
    Chore, DeliveryFilter, Dismissal, DueDelivery, EventFilter, EventWalk, FactWalk, GroupFilter,
    NewDelivery, NewEvent, NewReplay, Original, OriginalWalk, Originals, Page, ReplayChunk, ReplayHold,
    ReplaySwitch, Replayed, Selection, Settlement, Store, StoreError, Window,
};

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Setting(String, Vec<u8>),

    CreateAccount(Account),
    UpdateAccount(Account),
    Account(AccountId),
    Changes(AccountId, i64),

    CreateApiKey(ApiKey),
    RevokeApiKey(Option<AccountId>, ApiKeyId, Timestamp),
    TouchApiKey(ApiKeyId, Timestamp),
    ApiKeys(AccountId, usize),

    CreateSource(Source),
    UpdateSource(Source),
    DeleteSource(AccountId, SourceId, Timestamp),
    Sources(AccountId, Page<SourceId>),
    SourceByToken(Vec<u8>),

    CreateDestination(Destination),
    UpdateDestination(Destination),
    DeleteDestination(AccountId, DestinationId, Timestamp),
    Destinations(AccountId, Page<DestinationId>),
    DestinationRecords(Vec<DestinationId>),

    CreateRoute(Route),
    UpdateRoute(Route),
    DeleteRoute(AccountId, RouteId, Timestamp),
    Routes(AccountId, Page<RouteId>),

    Commit(Vec<NewEvent>, Timestamp),
    Prune(Timestamp, usize),
    /// Every key, then the account's events that were made before and have ended.
    Forget(AccountId, Timestamp),

    Fetch(Vec<Window>),
    Payload(EventId),
    Settle(Vec<Settlement>, Timestamp),
    Lanes(usize),
    Tracks(DestinationId, usize),
    TakeTurns(Vec<DueDelivery>, Timestamp),
    RetryNow(AccountId, DeliveryId, Timestamp),
    Cancel(AccountId, DeliveryId, AttemptId, Timestamp),
    Backlog(Vec<DestinationId>, i64),

    Events(AccountId, EventFilter, usize),
    Event(AccountId, EventId),
    Deliveries(AccountId, DeliveryFilter, usize),
    Delivery(AccountId, DeliveryId),
    AttemptsOfDelivery(AccountId, DeliveryId, usize),
    AttemptsOfDestination(AccountId, DestinationId, usize),
    DeadLetterGroups(AccountId, GroupFilter, usize),
    Dismiss(Dismissal),

    CreateReplay(NewReplay),
    SwitchReplay(AccountId, ReplayId, ReplaySwitch, Timestamp),
    /// Makes what is left of it, so many at a time, with ids that are drawn from the last number.
    FinishReplay(ReplayId, usize, Timestamp, u64),
    Replays(AccountId, usize),
    Survey(AccountId, Selection, Timestamp),
}

impl Operation {
    /// Its name alone, for a story.
    pub(crate) fn name(&self) -> String {
        let text = format!("{self:?}");
        text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().into()
    }

    /// Does it, and tells what came of it.
    pub(crate) async fn perform(&self, store: &dyn Store, node: NodeId) -> String {
        match self.clone() {
            Self::Setting(name, value) => tell(store.setting_or_insert(&name, &value).await),

            Self::CreateAccount(account) => tell(store.create_account(&account, &audit_entry()).await),
            Self::UpdateAccount(account) => tell(store.update_account(&account, &audit_entry()).await),
            Self::Account(id) => tell(store.account(id).await),
            Self::Changes(account, since) => tell(store.changes(account, since).await),

            Self::CreateApiKey(key) => tell(store.create_api_key(&key, &audit_entry()).await),
            Self::RevokeApiKey(account, id, now) => {
                tell(store.revoke_api_key(account, id, now, &audit_entry()).await)
            }
            Self::TouchApiKey(id, now) => tell(store.touch_api_key(id, now).await),
            // A key does not show itself in a debugger: it must be asked for its document.
            Self::ApiKeys(account, limit) => {
                let keys = store.api_keys(Some(account), first(limit)).await;
                tell(keys.map(|keys| serde_json::to_string(&keys).expect("keys are documents")))
            }

            Self::CreateSource(source) => tell(store.create_source(&source, &audit_entry()).await),
            Self::UpdateSource(source) => tell(store.update_source(&source, &audit_entry()).await),
            Self::DeleteSource(account, id, now) => {
                tell(store.delete_source(account, id, now, &audit_entry()).await)
            }
            Self::Sources(account, page) => tell(store.sources(account, page).await),
            Self::SourceByToken(hash) => tell(store.source_by_token(&hash).await),

            Self::CreateDestination(destination) => {
                tell(store.create_destination(&destination, &audit_entry()).await)
            }
            Self::UpdateDestination(destination) => {
                tell(store.update_destination(&destination, &audit_entry()).await)
            }
            Self::DeleteDestination(account, id, now) => {
                tell(store.delete_destination(account, id, now, &audit_entry()).await)
            }
            Self::Destinations(account, page) => tell(store.destinations(account, page).await),
            Self::DestinationRecords(ids) => tell(store.destination_records(&ids).await),

            Self::CreateRoute(route) => {
                tell(store.create_route(&route, &audit_entry()).await.map(|route| told(&route)))
            }
            Self::UpdateRoute(route) => {
                tell(store.update_route(&route, &audit_entry()).await.map(|route| told(&route)))
            }
            Self::DeleteRoute(account, id, now) => {
                tell(store.delete_route(account, id, now, &audit_entry()).await)
            }
            Self::Routes(account, page) => tell(store.routes(account, page).await),

            Self::Commit(batch, now) => tell(store.commit(&batch, now).await),
            Self::Prune(before, limit) => tell(store.prune_idempotency(before, limit).await),

            Self::Forget(account, before) => tell(forget(store, node, account, before).await),

            Self::Fetch(windows) => tell(store.fetch(&windows).await),
            Self::Payload(event) => tell(store.payload(event).await),
            Self::Settle(batch, now) => tell(store.settle(node, &batch, now).await),
            Self::Lanes(limit) => tell(lanes(store, limit).await),
            Self::Tracks(id, limit) => tell(tracks(store, id, limit).await),
            Self::TakeTurns(turns, now) => tell(store.take_turns(node, &turns, now).await),
            Self::RetryNow(account, id, now) => tell(store.retry_now(account, id, now, &audit_entry()).await),
            Self::Cancel(account, id, fact, now) => {
                tell(store.cancel(account, id, fact, now, &audit_entry()).await)
            }
            Self::Backlog(ids, limit) => tell(store.backlog(&ids, limit).await),

            Self::Events(account, filter, limit) => tell(events(store, account, &filter, limit).await),
            Self::Event(account, id) => tell((
                store.event(account, id).await.map_err(word),
                store.event_payload(account, id).await.map_err(word),
            )),
            Self::Deliveries(account, filter, limit) => {
                tell(deliveries(store, account, &filter, limit).await)
            }
            Self::Delivery(account, id) => tell(store.delivery(account, id).await),
            Self::AttemptsOfDelivery(account, id, limit) => {
                tell(store.attempts_of_delivery(account, id, limit).await)
            }
            Self::AttemptsOfDestination(account, id, limit) => {
                tell(attempts(store, account, id, limit).await)
            }
            Self::DeadLetterGroups(account, filter, limit) => {
                tell(groups(store, account, filter, limit).await)
            }
            Self::Dismiss(dismissal) => tell(store.dismiss(&dismissal, &audit_entry()).await),

            Self::CreateReplay(new) => tell(store.create_replay(&new, &audit_entry()).await),
            Self::SwitchReplay(account, id, to, now) => {
                tell(store.switch_replay(account, id, to, now, &audit_entry()).await)
            }
            Self::FinishReplay(id, limit, now, drawn) => {
                tell(finish(store, node, id, limit, now, drawn).await)
            }
            Self::Replays(account, limit) => tell(store.replays(account, first(limit)).await),
            Self::Survey(account, selection, as_of) => {
                tell(store.survey(account, &selection, as_of, 100_000).await)
            }
        }
    }
}

fn tell(answer: impl Debug) -> String {
    format!("{answer:?}")
}

fn word(error: StoreError) -> String {
    format!("{error:?}")
}

// --- Whole lists, page by page: where pages end is each store's own business ---------------------------------------

async fn lanes(store: &dyn Store, limit: usize) -> Result<Vec<impl Debug>, StoreError> {
    let shards = Vec::from_iter(0..SHARDS);
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.lanes(&shards, after, limit).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some((last.shard, last.destination_id));
        found.extend(page);
    }
}

async fn tracks(store: &dyn Store, id: DestinationId, limit: usize) -> Result<Vec<impl Debug>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.tracks(id.shard(), id, after, limit).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.first.track);
        found.extend(page);
    }
}

async fn events(
    store: &dyn Store,
    account: AccountId,
    filter: &EventFilter,
    limit: usize,
) -> Result<Vec<impl Debug>, StoreError> {
    let (mut found, mut page) = (Vec::new(), first(limit));
    loop {
        let listed = store.events(account, filter, page).await?;
        found.extend(listed.rows);
        let Some(next) = listed.next else { return Ok(found) };
        page.before = Some(next);
    }
}

async fn deliveries(
    store: &dyn Store,
    account: AccountId,
    filter: &DeliveryFilter,
    limit: usize,
) -> Result<Vec<impl Debug>, StoreError> {
    let (mut found, mut page) = (Vec::new(), first(limit));
    loop {
        let listed = store.deliveries(account, filter, page).await?;
        found.extend(listed.rows);
        let Some(next) = listed.next else { return Ok(found) };
        page.before = Some(next);
    }
}

async fn groups(
    store: &dyn Store,
    account: AccountId,
    filter: GroupFilter,
    limit: usize,
) -> Result<Vec<impl Debug>, StoreError> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.dead_letter_groups(account, filter, after, limit).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.key);
        found.extend(page);
    }
}

/// What was made, and how it was told.
async fn finish(
    store: &dyn Store,
    node: NodeId,
    id: ReplayId,
    limit: usize,
    now: Timestamp,
    drawn: u64,
) -> Result<Vec<impl Debug>, StoreError> {
    let open = store.open_replays(100_000).await?;
    let (mut made, mut number) = (Vec::new(), u128::from(drawn) << 16);
    let Some(seen) = open.into_iter().find(|open| open.id == id) else { return Ok(made) };
    let (seen_by, seen_until) = (seen.held_by, seen.held_until);
    let hold = ReplayHold { id, node, until: now, seen_by, seen_until };
    let mut replay = store.hold_replay(&hold).await?.expect("it runs");
    loop {
        let walk = OriginalWalk { replay: replay.clone(), limit };
        let Originals { rows, missing, next } = store.originals(&walk).await?;
        let again = |original: &Original| {
            number += 1;
            let id = DeliveryId::at(now, number);
            Some(Replayed {
                origin: original.origin,
                event_id: original.event_id,
                delivery: NewDelivery {
                    id,
                    route_id: original.route_id,
                    destination_id: original.destination_id,
                    shard: original.destination_id.shard(),
                    position: Position::new(original.numbering?, None, now, now, id).0,
                    due_at: now,
                    sequenced: false,
                },
            })
        };
        let deliveries: Vec<_> = rows.iter().filter_map(again).collect();
        let chunk = ReplayChunk {
            replay_id: id,
            node,
            from: replay.cursor,
            to: next.or(rows.last().map(|row| row.id)).or(replay.cursor),
            skipped: missing + (rows.len() - deliveries.len()) as u32,
            deliveries,
            done: next.is_none(),
            now,
            until: now,
        };
        store.write_replay(&chunk).await?.expect("it is held");
        // Where chunks end is each store's own business.
        made.extend(rows.into_iter().map(|row| format!("{row:?}")));
        if chunk.done {
            return Ok(made);
        }
        replay.cursor = chunk.to;
    }
}

async fn attempts(
    store: &dyn Store,
    account: AccountId,
    id: DestinationId,
    limit: usize,
) -> Result<Vec<impl Debug>, StoreError> {
    let (mut found, mut before) = (Vec::new(), None);
    loop {
        let rows = store.attempts_of_destination(account, id, Page { before, limit }).await?.rows;
        let Some(last) = rows.last() else { return Ok(found) };
        before = Some((last.delivery_id, last.id));
        found.extend(rows);
    }
}

/// In steps so small that they end everywhere. What is left is what can be read.
async fn forget(
    store: &dyn Store,
    node: NodeId,
    account_id: AccountId,
    before: Timestamp,
) -> Result<(), StoreError> {
    while store.prune_idempotency(Timestamp::MAX, 1_000).await? > 0 {}
    let term = store.take_chore(Chore::Prune, node, before, domain::limits::LEASE).await?;
    let term = term.expect("one node has joined");
    let mut walk = EventWalk { account_id, from: EventId::MIN, before, events: 3, rows: 2 };
    while let Some(next) = store.prune_events(term, walk).await?.expect("the term stands").next {
        walk.from = next;
    }
    let mut walk = FactWalk { from: DeliveryId::MIN, before, deliveries: 2 };
    while let Some(next) = store.prune_facts(term, walk).await?.expect("the term stands").next {
        walk.from = next;
    }
    Ok(())
}
