//! `POST /ingest/{token}`: any bytes, as they are, by the URL of a source. The hot path.

use crate::{
    app::App,
    body,
    cache::Cache,
    client_address::ClientAddress,
    error::ApiError,
    event_text, problems,
    rate::{RateMeter, RateMeters, RateStatus},
    views,
};
use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
};
use contract::{Accepted, AcceptedStatus, schema};
use domain::{
    event::Event,
    id::{AccountId, EventId, SourceId},
    limits,
    source::{Source, Verification},
    tag::{self, TagRule},
};
use http::StatusCode;
use ingest::{Answer, bounded_lookup, idempotency_key};
use std::sync::Arc;

/// Take an event in by a source's URL. The answer comes when the event and its deliveries are durable. Whatever
/// content type the request has is that of the event.
#[utoipa::path(post, path = "/ingest/{token}", tag = "events", operation_id = "ingest", security(()),
    params(("token" = schema::IngestToken, Path),
           ("idempotency-key" = Option<schema::IdempotencyKeyHeader>, Header,
            description = "Repeats with the same key within 24 hours give the first event. The headers that well-known \
                           providers send their ids in count too."),
           ("x-event-type" = Option<schema::EventType>, Header,
            description = "If left out: what a well-known provider's header says, or `type` or `event` of a JSON object.")),
    request_body(content = schema::Bytes, description = "Any bytes; delivered as they are.",
                 content_type = "application/octet-stream"),
    responses((status = 202, description = "Durable.", body = Accepted),
              (status = 200, description = "Seen before: the first event.", body = Accepted),
              problems::Ingesting))]
pub(crate) async fn ingest(
    State(app): State<App>,
    Path(token): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let ((), body) =
        body::keep_if_admitted(app.admission.check_wait().map_err(ApiError::from), headers, body).await?;
    body::check_announced_size(&body, app.config.body_limit)?;
    let source = app.source_by_token(&token, ClientAddress::noted(&parts.extensions)).await?;
    let within_limits = match app.admission.check_wait_of(source.account_id) {
        Ok(()) => app.check_limits(source.account_id, RateMeters::new(None, source.meter())).await,
        Err(error) => Err(error.into()),
    };
    let ((rate_status, _), body) = body::keep_if_admitted(within_limits, headers, body).await?;
    body::check_unencoded(headers)?;
    let given_key = event_text::idempotency_key(headers)?;
    let content_type = event_text::content_type(headers)?;
    let (limit, deadlines) = (app.config.body_limit, &app.config.deadlines);
    let budget = app.admission.budget();
    let (payload, reserved) = body::read(body, limit, deadlines, budget, source.account_id).await?;
    let now = app.now();
    let event_type = event_text::event_type(headers, &payload)?;
    let kept_headers = event_text::kept_headers(headers);
    let tags = source.tags.as_ref().map(|rules| tag::taken(rules, &kept_headers, &payload));
    let event = Event {
        source_id: Some(source.source_id),
        idempotency_key: given_key,
        content_type,
        headers: kept_headers,
        tags: tags.unwrap_or_default(),
        ..Event::new(EventId::at(now, app.dice.bits()), source.account_id, event_type, payload, now)
    };
    let scope = source.source_id.uuid();
    let key = event.idempotency_key.as_deref().map(|key| idempotency_key(scope, key, &event));
    respond(app.admission.admit(event, key, reserved).await, rate_status)
}

/// 202 for a new event, 200 for one that was seen before.
pub(crate) fn respond(answer: Answer, rate_status: RateStatus) -> Result<Response, ApiError> {
    let accepted = views::accepted(answer?);
    let status = match accepted.status {
        AcceptedStatus::Queued | AcceptedStatus::Unmatched => StatusCode::ACCEPTED,
        AcceptedStatus::Duplicate => StatusCode::OK,
    };
    let mut response = (status, Json(accepted)).into_response();
    rate_status.write(response.headers_mut());
    Ok(response)
}

/// What ingest needs to know of a source.
#[derive(Debug, Clone)]
pub(crate) struct IngestSource {
    pub(crate) account_id: AccountId,
    pub(crate) source_id: SourceId,
    enabled: bool,
    rate_limit: Option<u32>,
    /// None: no tags are taken.
    tags: Option<Arc<[TagRule]>>,
}

impl IngestSource {
    fn of(source: &Source) -> Self {
        // A way to verify that is not handled here must not compile: it would let every caller in.
        match source.verification {
            Verification::None => {}
        }
        let Source { account_id, id: source_id, enabled, rate_limit, .. } = *source;
        let tags = (!source.tags.is_empty()).then(|| source.tags.as_slice().into());
        Self { account_id, source_id, enabled, rate_limit, tags }
    }

    pub(crate) fn meter(&self) -> Option<RateMeter> {
        RateMeter::of_source(self.source_id.uuid(), self.rate_limit)
    }

    fn require_enabled(found: Option<Self>) -> Result<Self, ApiError> {
        match found {
            Some(source) if source.enabled => Ok(source),
            Some(_) => Err(ApiError::source_disabled("the source is disabled: enable it to take events in")),
            None => Err(ApiError::no_such("source")),
        }
    }
}

/// The sources seen lately, and the tokens that led nowhere.
pub(crate) struct SourceCache {
    by_token: Cache<[u8; 32], Option<IngestSource>>,
    by_id: Cache<(AccountId, SourceId), Option<IngestSource>>,
}

impl SourceCache {
    pub(crate) fn new() -> Self {
        Self {
            by_token: Cache::of_credentials(limits::SOURCES_CACHED),
            by_id: Cache::of_credentials(limits::SOURCES_CACHED),
        }
    }

    /// Something about this account's sources may have changed.
    pub(crate) fn forget(&self, account: AccountId) {
        let foreign =
            |source: &Option<IngestSource>| source.as_ref().is_none_or(|source| source.account_id != account);
        self.by_token.retain(|_, source| foreign(source));
        self.by_id.retain(|(owner, _), _| *owner != account);
    }
}

impl App {
    /// A token that leads nowhere is a guess at one that does.
    async fn source_by_token(&self, token: &str, client: ClientAddress) -> Result<IngestSource, ApiError> {
        let (hash, seen) = (self.secrets.hash(token.as_bytes()), &self.sources.by_token);
        let found = match seen.get(&hash) {
            Some(found) => found,
            None => {
                let read = async {
                    let found = bounded_lookup(self.store.source_by_token(&hash)).await?;
                    Ok(found.as_ref().map(IngestSource::of))
                };
                let found = self.guesses.find(client, seen.last(&hash).flatten().is_none(), read).await?;
                seen.put(hash, found.clone());
                found
            }
        };
        let is_there = found.is_some();
        let source = IngestSource::require_enabled(found);
        if is_there { source } else { source.map_err(|error| self.guesses.wrong(client, error)) }
    }

    /// The source a key is bound to, if it takes events.
    pub(crate) async fn open_source(
        &self,
        account: AccountId,
        id: SourceId,
    ) -> Result<IngestSource, ApiError> {
        if let Some(found) = self.sources.by_id.get(&(account, id)) {
            return IngestSource::require_enabled(found);
        }
        let found = match bounded_lookup(self.store.source(account, id)).await {
            Ok(source) => Some(IngestSource::of(&source)),
            Err(store::StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        self.sources.by_id.put((account, id), found.clone());
        IngestSource::require_enabled(found)
    }
}
