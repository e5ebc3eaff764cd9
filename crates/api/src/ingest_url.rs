//! `POST /ingest/{token}`: any bytes, as they are, by the URL of a source. The hot path.

use crate::{
    app::App,
    body,
    cache::Cache,
    client_address::ClientAddress,
    cloud_events::{self, Door, ReceivedEvent},
    error::ApiError,
    event_text, problems,
    rate::{RateMeter, RateMeters, RateStatus},
    sources, views,
};
use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
};
use contract::{Accepted, AcceptedStatus, schema};
use domain::{
    cloud_event::Mode,
    event::Event,
    id::{AccountId, EventId, SourceId},
    limits,
    source::Source,
    tag::{self, TagRule},
    time::Timestamp,
    verification::{HandshakeAnswer, Inbound, InboundHeaders, VerificationKind, Verified, Verifier},
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use ingest::{Answer, bounded_lookup, idempotency_key, provider_key};
use sharing::Share;
use std::sync::Arc;
use tokio::time::timeout;

/// Take an event in by a source's URL. The answer comes when the event and its deliveries are durable. Whatever
/// content type the request has is that of the event, unless it is a CloudEvent: in binary mode (`ce-…` headers), in structured
/// mode (`application/cloudevents+json`) or in a batch (`application/cloudevents-batch+json`), which is answered like a batch
/// that is published. A source that verifies its callers takes nothing from anybody else,
/// knows repeats by the provider's own id, and answers the provider's handshake.
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
              (status = 200, description = "Seen before: the first event. As text: what a provider's handshake asks for.",
               content((Accepted = "application/json"), (String = "text/plain"))),
              (status = 204, description = "A provider's handshake that asks for nothing else."),
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
    let ((rate_status, meters), body) = body::keep_if_admitted(within_limits, headers, body).await?;
    body::check_unencoded(headers)?;
    let cloud_events = cloud_events::mode(headers)?;
    // What a provider has signed counts more than any header.
    let given_key = match &source.verifier {
        None if cloud_events.is_none() => event_text::idempotency_key(headers)?,
        _ => None,
    };
    let content_type = event_text::content_type(headers)?;
    let (limit, deadlines) = (app.config.body_limit, &app.config.deadlines);
    let budget = app.admission.budget();
    let (payload, reserved) = body::read(body, limit, deadlines, budget, source.account_id).await?;
    let now = app.now();
    let client = ClientAddress::noted(&parts.extensions);
    let Verified { id: provider_id, event_type, handshake } =
        app.verify(&source, &parts, &payload, client, now).await?;
    if let Some(answer) = handshake {
        return Ok(shake_hands(answer));
    }
    if let Some(mode) = cloud_events {
        let door = Door {
            account_id: source.account_id,
            source_id: Some(source.source_id),
            tags: source.tags.as_deref(),
            headers: event_text::kept_headers(headers),
            event_type: match (mode, event_type) {
                (Mode::Batched, _) => None,
                (_, Some(event_type)) => Some(event_type),
                _ => event_text::given_type(headers)?,
            },
            // In the other modes the attributes are in the body, and signed with it.
            provider_id: provider_id.filter(|_| mode == Mode::Binary),
        };
        if mode != Mode::Batched {
            let received = ReceivedEvent::one(mode, headers, payload)?;
            return Box::pin(cloud_events::admit_one(&app, received, &door, reserved, rate_status)).await;
        }
        let received = cloud_events::read_batch(&payload)?;
        drop(payload);
        let request_id = cloud_events::request_id(&parts.extensions);
        let rate = (rate_status, meters);
        return Box::pin(cloud_events::admit_batch(&app, received, &door, rate, request_id)).await;
    }
    let given_key = match (&source.verifier, &provider_id) {
        (Some(_), None) => event_text::idempotency_key(headers)?,
        _ => given_key,
    };
    let event_type = match event_type {
        Some(event_type) => event_type,
        None => event_text::event_type(headers, &payload)?,
    };
    let kept_headers = event_text::kept_headers(headers);
    let tags = source.tags.as_ref().map(|rules| tag::taken(rules, &kept_headers, &payload));
    let event = Event {
        source_id: Some(source.source_id),
        idempotency_key: provider_id.clone().or(given_key),
        content_type,
        headers: kept_headers,
        tags: tags.unwrap_or_default(),
        ..Event::new(EventId::at(now, app.dice.bits()), source.account_id, event_type, payload, now)
    };
    let scope = source.source_id.uuid();
    let key = event.idempotency_key.as_deref().map(|key| match provider_id {
        Some(_) => provider_key(scope, key),
        None => idempotency_key(scope, key, &event),
    });
    respond(app.admission.admit(event, key, reserved).await, rate_status)
}

/// Ask whether a source's URL is there, as some providers do before they take it. Nothing comes in.
#[utoipa::path(head, path = "/ingest/{token}", tag = "events", operation_id = "look_at_ingest_url", security(()),
    params(("token" = schema::IngestToken, Path)),
    responses((status = 200, description = "It takes events."), problems::LookingForDoor))]
pub(crate) async fn look(
    State(app): State<App>,
    Path(token): Path<String>,
    request: Request,
) -> Result<StatusCode, ApiError> {
    app.source_by_token(&token, ClientAddress::noted(request.extensions())).await.map(|_| StatusCode::OK)
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

/// No event: what the provider waits for before it sends any.
fn shake_hands(answer: HandshakeAnswer) -> Response {
    match answer {
        HandshakeAnswer::Text(text) => {
            let plain = HeaderValue::from_static("text/plain; charset=utf-8");
            ([(header::CONTENT_TYPE, plain)], text).into_response()
        }
        HandshakeAnswer::Nothing => StatusCode::NO_CONTENT.into_response(),
    }
}

/// The headers of a request, as the rules ask for them.
struct Received<'r>(&'r HeaderMap);

impl InboundHeaders for Received<'_> {
    fn first_two<'h>(&'h self, name: &str) -> [Option<&'h [u8]>; 2] {
        let mut values = self.0.get_all(name).iter().map(HeaderValue::as_bytes);
        [values.next(), values.next()]
    }
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
    pub(crate) keep_refused: bool,
    /// None: everybody who knows its URL is let in.
    pub(crate) verifier: Option<Arc<Verifier>>,
}

impl IngestSource {
    /// For whoever comes by its URL.
    async fn of(source: &Source, app: &App) -> Result<Self, ApiError> {
        if source.verification.kind == VerificationKind::None {
            return Ok(Self::of_key(source));
        }
        let key = app.data_key_for(source.account_id, &source.verification.secrets).await?;
        Ok(Self { verifier: Some(sources::verification::verifier(source, &key)?), ..Self::of_key(source) })
    }

    /// For whoever comes with a key that is bound to it, and so has shown who it is.
    fn of_key(source: &Source) -> Self {
        let Source { account_id, id: source_id, enabled, rate_limit, keep_refused, .. } = *source;
        let tags = (!source.tags.is_empty()).then(|| source.tags.as_slice().into());
        Self { account_id, source_id, enabled, rate_limit, tags, keep_refused, verifier: None }
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
                let read = Box::pin(async {
                    let found = bounded_lookup(self.store.source_by_token(&hash)).await?;
                    match found {
                        Some(source) => IngestSource::of(&source, self).await.map(Some),
                        None => Ok(None),
                    }
                });
                let found = self.guesses.find(client, seen.last(&hash).flatten().is_none(), read).await?;
                seen.put(hash, found.clone());
                found
            }
        };
        let is_there = found.is_some();
        let source = IngestSource::require_enabled(found);
        if is_there { source } else { source.map_err(|error| self.guesses.wrong(client, error)) }
    }

    /// Whether the source believes that a request comes from whom it should. A caller is not told why it does not. Where that
    /// takes a public key, so many are at it at once, and accounts have their turns: who sends forged ones slows down nobody else.
    async fn verify(
        &self,
        source: &IngestSource,
        parts: &Parts,
        body: &[u8],
        client: ClientAddress,
        now: Timestamp,
    ) -> Result<Verified, ApiError> {
        let Some(verifier) = &source.verifier else { return Ok(Verified::default()) };
        let _turn = match verifier.is_asymmetric() {
            true => Some(Box::pin(self.public_key_turn(source.account_id)).await?),
            false => None,
        };
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{}{path}", self.config.public_url);
        let inbound = Inbound {
            method: parts.method.as_str(),
            url: &url,
            headers: &Received(&parts.headers),
            body,
            client: client.0,
        };
        verifier.verify(&inbound, now).map_err(|reason| {
            self.figures.unverified.count(source.source_id, reason);
            self.keep_refused(source, &parts.headers, body, client, (reason, now));
            let error = if reason.is_malformed() {
                ApiError::invalid_header(
                    "a header that the source verifies its callers by cannot be read, or is there twice",
                )
            } else {
                ApiError::signature_invalid("the source verifies its callers, and does not believe this one")
            };
            self.guesses.wrong(client, error)
        })
    }

    /// 503 if it does not come in time.
    async fn public_key_turn(&self, account: AccountId) -> Result<Share, ApiError> {
        let turn = timeout(limits::LOOKUP_PATIENCE, self.public_key_checks.take(account, 1)).await;
        turn.map_err(|_| ApiError::overloaded("too many signatures of this account are checked at once"))
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
        let found = match Box::pin(bounded_lookup(self.store.source(account, id))).await {
            Ok(source) => Some(IngestSource::of_key(&source)),
            Err(store::StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        self.sources.by_id.put((account, id), found.clone());
        IngestSource::require_enabled(found)
    }
}
