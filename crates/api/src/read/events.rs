//! Events as they are kept.

use super::{Listed, deliveries};
use crate::{
    app::App,
    error::{ApiError, Code},
    validate::Checks,
    views,
};
use bytes::Bytes;
use contract::{EventDetailView, EventQuery, EventView, FanoutState, MetadataIs};
use domain::{
    id::{AccountId, EventId},
    limits,
    tag::is_tag,
};
use store::{DeliveryFilter, EventFilter, KeptPayload, Page, StoreError};
use uuid::Uuid;

/// With its headers, its payload if that is short text, and its first deliveries.
pub async fn event(app: &App, account: AccountId, id: EventId) -> Result<EventDetailView, ApiError> {
    let record = app.store.event(account, id).await?;
    // What cannot be opened is not shown; whoever asks for the payload itself is told why.
    let record = match app.open_record(account, record.clone()).await {
        Err(error) if matches!(error.code(), Code::PayloadErased | Code::Unreadable) => record,
        opened => opened?,
    };
    let payload =
        if record.size_bytes <= limits::PAYLOAD_SHOWN_BYTES as u64 && record.sealed_headers.is_none() {
            match app.store.kept_payload(account, id).await {
                // Nothing is shown rather than something else.
                Err(StoreError::Altered | StoreError::PayloadErased) => None,
                payload => shown_whole(app, account, payload?).await?,
            }
        } else {
            None
        };
    let filter = DeliveryFilter { event_ids: vec![id], ..DeliveryFilter::default() };
    let page = Page { before: None, limit: limits::DELIVERIES_SHOWN };
    let found = app.store.deliveries(account, &filter, page).await?;
    let deliveries = deliveries::show(app, &found.rows).await;
    Ok(views::event_detail(&record, payload.as_deref(), deliveries))
}

/// None: nothing is shown of it.
async fn shown_whole(app: &App, account: AccountId, payload: KeptPayload) -> Result<Option<Bytes>, ApiError> {
    let opened = match app.open_payload(account, payload).await {
        Err(error) if matches!(error.code(), Code::PayloadErased | Code::Unreadable) => return Ok(None),
        opened => opened?,
    };
    match opened.whole() {
        Err(StoreError::Altered) => Ok(None),
        whole => Ok(Some(whole?)),
    }
}

/// Its payload, byte for byte.
pub async fn event_payload(app: &App, account: AccountId, id: EventId) -> Result<KeptPayload, ApiError> {
    let payload = app.store.kept_payload(account, id).await.map_err(altered)?;
    app.open_payload(account, payload).await
}

/// 500 for a payload that the store has not kept as it was: there is nothing to wait for.
pub(crate) fn altered(error: StoreError) -> ApiError {
    match error {
        StoreError::Altered => {
            ApiError::internal("the payload was altered in the store: its checksum does not fit")
                .because(error)
        }
        error => error.into(),
    }
}

pub async fn events(
    app: &App,
    account: AccountId,
    query: &EventQuery,
    page: Page<EventId>,
) -> Result<Listed<EventView, EventId>, ApiError> {
    let (filter, search) = checked(query)?;
    let (rows, next) = match search {
        EventSearch::All => {
            let found = app.store.events(account, &filter, page).await?;
            (found.rows, found.next)
        }
        EventSearch::One(id) => {
            let page = Page { before: Some(after(id)), limit: 1 };
            let mut rows = app.store.events(account, &filter, page).await?.rows;
            rows.retain(|record| record.event.id == id);
            (rows, None)
        }
        EventSearch::Nothing => (Vec::new(), None),
    };
    Ok(Listed { data: rows, next }.map(views::event))
}

/// What `q` asks for.
enum EventSearch {
    /// What the filters say.
    All,
    /// This event, if the filters let it through.
    One(EventId),
    Nothing,
}

fn checked(query: &EventQuery) -> Result<(EventFilter, EventSearch), ApiError> {
    let mut checks = Checks::default();
    checks.filter_values("/type", query.types.len());
    checks.filter_values("/source_id", query.source_id.len());
    checks.filter_values("/idempotency_key", query.idempotency_key.len());
    checks.filter_values("/tag", query.tag.len());
    for (place, tag) in query.tag.iter().enumerate().filter(|(_, tag)| !is_tag(tag)) {
        let detail = format!("a tag has 1 to {} characters: `{}`", limits::TAG_CHARS, tag.escape_default());
        checks.refuse(format!("/tag/{place}"), "invalid_value", detail);
    }
    checks.filter_values("/metadata", query.metadata.len());
    if !query.metadata.is_empty() && query.since.is_none() {
        let detail = "a search of metadata looks through the events: say from when on";
        checks.refuse("/since", "missing_field", detail);
    }
    checks.done()?;
    let mut filter = EventFilter {
        types: query.types.clone(),
        source_ids: query.source_id.clone(),
        idempotency_keys: query.idempotency_key.clone(),
        since: query.since,
        until: query.until,
        fanout_complete: match query.fanout {
            Some(FanoutState::Complete) => Some(true),
            Some(FanoutState::Incomplete) => Some(false),
            Some(FanoutState::Unmatched) | None => None,
        },
        unmatched: query.fanout == Some(FanoutState::Unmatched),
        tags: query.tag.clone(),
        metadata: by_key(&query.metadata),
    };
    let search = match query.q.as_deref().map(str::trim).filter(|q| !q.is_empty()) {
        None => EventSearch::All,
        Some(q) => match q.parse() {
            Ok(id) => EventSearch::One(id),
            Err(_)
                if filter.idempotency_keys.is_empty()
                    || filter.idempotency_keys.iter().any(|key| key == q) =>
            {
                filter.idempotency_keys = vec![q.into()];
                EventSearch::All
            }
            Err(_) => EventSearch::Nothing,
        },
    };
    Ok((filter, search))
}

/// Each key with all the values it may have.
fn by_key(wanted: &[MetadataIs]) -> Vec<(String, Vec<String>)> {
    let mut keys: Vec<(String, Vec<String>)> = Vec::new();
    for MetadataIs { key, value } in wanted {
        match keys.iter_mut().find(|(known, _)| known == key) {
            Some((_, values)) => values.push(value.clone()),
            None => keys.push((key.clone(), vec![value.clone()])),
        }
    }
    keys
}

/// The next id: a page that ends before it begins with `id`.
fn after(id: EventId) -> EventId {
    EventId::from_uuid(Uuid::from_u128(id.uuid().as_u128().saturating_add(1)))
}
