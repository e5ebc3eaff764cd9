//! Reading what is kept, as views: what handlers answer with and what pages show. A function here is told whose object it
//! is and which part of a list is wanted; it knows nothing of requests and answers, and leaves to its caller what the
//! caller may see.

mod attempts;
mod deliveries;
mod destinations;
mod events;
mod matching;
mod search;
mod series;
mod stats;

pub use deliveries::{deliveries, delivery};
pub use destinations::{
    destination, destination_attempts, destination_holds, destination_secret, destination_timeline,
    destinations,
};
pub use events::{event, event_payload, events};
pub use matching::matching;
pub use series::{destination_series, destinations_series, series};
pub use stats::{Waiting, destination_stats, fanout_stats, stats, waiting};

pub(crate) use destinations::{effective, show as show_destination, switched};
pub(crate) use events::altered;
pub use search::Wanted;

use crate::{app::App, error::ApiError, views};
use contract::{
    AccountView, ApiKeyView, AuditEntryView, DeadLetterGroupView, IngestUrlView, NodeView, PortalLinkView,
    RefusedRequestView, ReplayView, RouteView, SourceView, UserView,
};
use domain::{
    account::Account,
    id::{
        AccountId, ApiKeyId, AuditId, DestinationId, NodeId, PortalLinkId, ReplayId, RouteId, SourceId,
        UserId,
    },
    seal::DataKey,
    source::Source,
};
use std::collections::HashMap;
use store::{AuditFilter, DestinationRecord, GroupFilter, GroupKey, Member, Page, Replay, StoreError};

/// An object as it is at one version.
#[derive(Debug, Clone, PartialEq)]
pub struct Revision<T> {
    pub version: i64,
    pub view: T,
}

/// A part of a list, and the key to go on before; None at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T, K> {
    pub data: Vec<T>,
    pub next: Option<K>,
}

impl<T, K> Listed<T, K> {
    pub(crate) fn map<V>(self, view: impl FnMut(&T) -> V) -> Listed<V, K> {
        Listed { data: self.data.iter().map(view).collect(), next: self.next }
    }
}

impl<T, K> From<store::Listed<T, K>> for Listed<T, K> {
    fn from(found: store::Listed<T, K>) -> Self {
        Self { data: found.rows, next: found.next }
    }
}

/// The same page with one row more, by which [`cut`] sees whether the list goes on.
fn peek<K>(page: Page<K>) -> Page<K> {
    Page { limit: page.limit + 1, ..page }
}

/// Takes the row too many away again.
fn cut<T, K>(mut rows: Vec<T>, limit: usize, key: impl Fn(&T) -> K) -> Listed<T, K> {
    let goes_on = rows.len() > limit;
    rows.truncate(limit);
    let next = rows.last().filter(|_| goes_on).map(key);
    Listed { data: rows, next }
}

pub async fn account(app: &App, id: AccountId) -> Result<Revision<AccountView>, ApiError> {
    let account = app.store.account(id).await?;
    Ok(Revision { version: account.version, view: views::account(&account) })
}

/// The same for an operator: one that was deleted is shown as far as it is erased.
pub async fn account_or_erasure(app: &App, id: AccountId) -> Result<Revision<AccountView>, ApiError> {
    match app.store.account(id).await {
        Err(StoreError::NotFound { .. }) => {
            let erasure = app.store.erasure(id).await?;
            Ok(Revision { version: erasure.version, view: views::erased_account(&erasure) })
        }
        account => {
            let account = account?;
            Ok(Revision { version: account.version, view: views::account(&account) })
        }
    }
}

/// For whoever has to do with accounts as such.
pub async fn portal_links(
    app: &App,
    account: AccountId,
    page: Page<PortalLinkId>,
) -> Result<Listed<PortalLinkView, PortalLinkId>, ApiError> {
    let (rows, now) = (app.store.portal_links(account, peek(page)).await?, app.now());
    let found = cut(rows, page.limit, |listed| listed.link.id);
    Ok(found.map(|listed| views::portal_link(listed, now)))
}

/// All of them: for operators.
pub async fn accounts(
    app: &App,
    wanted: &Wanted,
    page: Page<AccountId>,
) -> Result<Listed<AccountView, AccountId>, ApiError> {
    let read = |page: Page<AccountId>| -> search::Reading<'_, Account, AccountId> {
        Box::pin(async move {
            let rows = app.store.accounts(peek(page)).await?;
            let Listed { data, next } = cut(rows, page.limit, |account| account.id);
            Ok(store::Listed { rows: data, next })
        })
    };
    let found = match &wanted.uid {
        Some(uid) => search::only(app.store.account_by_uid(uid).await?, wanted),
        None if wanted.looks_through() => search::through(page, wanted, |account| account.id, read).await?,
        None => read(page).await?.into(),
    };
    Ok(found.map(views::account))
}

/// None of one that was removed since its uid was found.
fn if_there<T>(found: Result<T, StoreError>) -> Result<Option<T>, ApiError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The keys of an account; without one, those of operators and platforms.
pub async fn api_keys(
    app: &App,
    account: Option<AccountId>,
    page: Page<ApiKeyId>,
) -> Result<Listed<ApiKeyView, ApiKeyId>, ApiError> {
    let limit = page.limit;
    let keys = app.store.api_keys(account, peek(page)).await?;
    Ok(cut(keys, limit, |key| key.id).map(views::api_key))
}

/// Of the dashboard: for operators.
pub async fn users(app: &App, page: Page<UserId>) -> Result<Listed<UserView, UserId>, ApiError> {
    let limit = page.limit;
    let users = app.store.users(peek(page)).await?;
    Ok(cut(users, limit, |user| user.id).map(views::user))
}

pub async fn source(app: &App, account: AccountId, id: SourceId) -> Result<Revision<SourceView>, ApiError> {
    let source = app.store.source(account, id).await?;
    Ok(Revision { version: source.version, view: views::source(&source) })
}

pub async fn sources(
    app: &App,
    account: AccountId,
    wanted: &Wanted,
    page: Page<SourceId>,
) -> Result<Listed<SourceView, SourceId>, ApiError> {
    let read = |page| app.store.sources(account, page);
    let found = match &wanted.uid {
        Some(uid) => {
            let found = match app.store.source_by_uid(account, uid).await? {
                Some(id) => if_there(app.store.source(account, id).await)?,
                None => None,
            };
            search::only(found, wanted)
        }
        None if wanted.looks_through() => search::through(page, wanted, |source| source.id, read).await?,
        None => read(page).await?.into(),
    };
    Ok(found.map(views::source))
}

/// The last requests that a source did not believe, newest first.
pub async fn refused_requests(
    app: &App,
    account: AccountId,
    id: SourceId,
) -> Result<Vec<RefusedRequestView>, ApiError> {
    app.store.source(account, id).await?;
    let kept = app.store.refused_requests(account, id).await?;
    let kept = app.open_refused(account, kept).await?;
    Ok(kept.iter().map(views::refused_request).collect())
}

/// A source's ingest URL, in the clear.
pub async fn source_ingest_url(
    app: &App,
    account: AccountId,
    id: SourceId,
) -> Result<IngestUrlView, ApiError> {
    let source = app.store.source(account, id).await?;
    let key = app.data_key_for(account, [&source.token]).await?;
    Ok(IngestUrlView { ingest_url: ingest_url(app, &source, &key)? })
}

pub(crate) fn ingest_url(app: &App, source: &Source, key: &DataKey) -> Result<String, ApiError> {
    let token = key.open(&Source::token_place(source.id), &source.token).map_err(ApiError::from_bug)?;
    let token = std::str::from_utf8(&token).map_err(ApiError::from_bug)?;
    Ok(format!("{}/ingest/{token}", app.config.public_url))
}

pub async fn route(app: &App, account: AccountId, id: RouteId) -> Result<Revision<RouteView>, ApiError> {
    let route = app.store.route(account, id).await?;
    Ok(Revision { version: route.version, view: views::route(&route) })
}

pub async fn routes(
    app: &App,
    account: AccountId,
    wanted: &Wanted,
    page: Page<RouteId>,
) -> Result<Listed<RouteView, RouteId>, ApiError> {
    let read = |page| app.store.routes(account, page);
    let found = match &wanted.uid {
        Some(uid) => {
            let found = match app.store.route_by_uid(account, uid).await? {
                Some(id) => if_there(app.store.route(account, id).await)?,
                None => None,
            };
            search::only(found, wanted)
        }
        None if wanted.looks_through() => search::through(page, wanted, |route| route.id, read).await?,
        None => read(page).await?.into(),
    };
    Ok(found.map(views::route))
}

pub async fn replay(app: &App, account: AccountId, id: ReplayId) -> Result<ReplayView, ApiError> {
    Ok(show_replay(app, &app.store.replay(account, id).await?))
}

pub async fn replays(
    app: &App,
    account: AccountId,
    page: Page<ReplayId>,
) -> Result<Listed<ReplayView, ReplayId>, ApiError> {
    Ok(Listed::from(app.store.replays(account, page).await?).map(|replay| show_replay(app, replay)))
}

/// With what it waits for.
pub(crate) fn show_replay(app: &App, replay: &Replay) -> ReplayView {
    let full = !replay.status.ended() && app.full_backlogs.is_full(replay.account_id);
    views::replay(replay, full)
}

/// What was done: of an account, or of all.
pub async fn audit_entries(
    app: &App,
    account: Option<AccountId>,
    filter: &AuditFilter,
    page: Page<AuditId>,
) -> Result<Listed<AuditEntryView, AuditId>, ApiError> {
    Ok(Listed::from(app.store.audit_entries(account, filter, page).await?).map(views::audit_entry))
}

/// Dead letters that are not settled, by destination, reason, HTTP status and outcome.
pub async fn dead_letter_groups(
    app: &App,
    account: AccountId,
    filter: GroupFilter,
    page: Page<GroupKey>,
) -> Result<Listed<DeadLetterGroupView, GroupKey>, ApiError> {
    let groups = app.store.dead_letter_groups(account, filter, page.before, page.limit + 1).await?;
    let found = cut(groups, page.limit, |group| group.key);
    let mut ids: Vec<DestinationId> = found.data.iter().map(|group| group.key.destination_id).collect();
    ids.dedup();
    let records = if ids.is_empty() { Vec::new() } else { app.store.destination_records(&ids).await? };
    // Of a deleted one too.
    let name = |record: DestinationRecord| Some((record.id, record.destination.ok()?.name));
    let names: HashMap<DestinationId, String> = records.into_iter().flatten().filter_map(name).collect();
    Ok(found.map(|group| views::dead_letter_group(group, names.get(&group.key.destination_id).cloned())))
}

/// Every node that shares the store, in the order in which they started.
pub async fn nodes(app: &App) -> Result<Vec<NodeView>, ApiError> {
    let roster = app.store.roster().await?;
    let mut shards: HashMap<NodeId, u32> = HashMap::new();
    for owner in roster.shards.iter().filter_map(|row| row.owner) {
        *shards.entry(owner).or_default() += 1;
    }
    let view = |member: &Member| views::node(member, shards.get(&member.record.id).copied().unwrap_or(0));
    Ok(roster.members.iter().map(view).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_too_many_is_cut_off() {
        assert_eq!(cut(vec![9, 8, 7], 2, |row| *row), Listed { data: vec![9, 8], next: Some(8) });
        assert_eq!(cut(vec![9, 8], 2, |row| *row), Listed { data: vec![9, 8], next: None });
    }
}
