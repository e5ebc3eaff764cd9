//! `POST /ingest/{token}`: any bytes, as they are, by the door of a source. The hot path.

use crate::{
    app::App,
    body,
    cache::Cache,
    error::{ApiError, Problem},
    event_text,
    rate::{Meter, Meters, Standing},
    views,
};
use axum::{
    Json,
    extract::{Path, Request, State},
    response::{IntoResponse, Response},
};
use contract::{Accepted, AcceptedStatus};
use domain::{
    event::Event,
    id::{AccountId, EventId, SourceId},
    limits,
    source::{Source, Verification},
};
use http::StatusCode;
use ingest::{Answer, bounded_lookup, idempotency_key};

/// Takes an event in by a source's URL. The answer comes when the event and its deliveries are durable.
#[utoipa::path(post, path = "/ingest/{token}", tag = "events", operation_id = "ingest", security(()),
    params(("token" = String, Path, description = "The secret part of the source's `ingest_url`")),
    request_body(content = String, description = "Any bytes, of any content type; delivered as they are",
                 content_type = "application/octet-stream"),
    responses((status = 202, description = "Durable", body = Accepted),
              (status = 200, description = "Seen before: the first event", body = Accepted),
              (status = "4XX", description = "Refused, and nothing stored", body = Problem,
               content_type = "application/problem+json"),
              (status = 503, description = "Ask again after `retry-after`", body = Problem,
               content_type = "application/problem+json")))]
pub(crate) async fn ingest(
    State(app): State<App>,
    Path(token): Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let ((), body) = body::unless(app.admission.check_wait().map_err(ApiError::from), headers, body).await?;
    let body = body::within(headers, body, app.config.body_limit)?;
    let door = app.source_by_token(&token).await?;
    let let_in = app.let_in(door.account_id, &Meters::new(None, door.meter()));
    let (standing, body) = body::unless(let_in, headers, body).await?;
    body::unencoded(headers)?;
    let given_key = event_text::idempotency_key(headers)?;
    let content_type = event_text::content_type(headers)?;
    let (limit, deadlines) = (app.config.body_limit, &app.config.deadlines);
    let (payload, reserved) = body::read(headers, body, limit, deadlines, app.admission.budget()).await?;
    let now = app.now();
    let event_type = event_text::event_type(headers, &payload)?;
    let event = Event {
        source_id: Some(door.source_id),
        idempotency_key: given_key,
        content_type,
        headers: event_text::kept(headers),
        ..Event::new(EventId::at(now, app.dice.bits()), door.account_id, event_type, payload, now)
    };
    let scope = door.source_id.uuid();
    let key = event.idempotency_key.as_deref().map(|key| idempotency_key(scope, key, &event));
    respond(app.admission.admit(event, key, reserved).await, standing)
}

/// 202 for a new event, 200 for one that was seen before.
pub(crate) fn respond(answer: Answer, standing: Standing) -> Result<Response, ApiError> {
    let accepted = views::accepted(answer?);
    let status = match accepted.status {
        AcceptedStatus::Queued => StatusCode::ACCEPTED,
        AcceptedStatus::Duplicate => StatusCode::OK,
    };
    let mut response = (status, Json(accepted)).into_response();
    standing.write(response.headers_mut());
    Ok(response)
}

/// What ingest needs to know of a source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Door {
    pub(crate) account_id: AccountId,
    pub(crate) source_id: SourceId,
    enabled: bool,
    rate_limit: Option<u32>,
}

impl Door {
    fn of(source: &Source) -> Self {
        // A way to verify that is not handled here must not compile: it would let everybody in.
        match source.verification {
            Verification::None => {}
        }
        let Source { account_id, id: source_id, enabled, rate_limit, .. } = *source;
        Self { account_id, source_id, enabled, rate_limit }
    }

    pub(crate) fn meter(&self) -> Option<Meter> {
        Meter::of_source(self.source_id.uuid(), self.rate_limit)
    }

    fn open(found: Option<Self>) -> Result<Self, ApiError> {
        match found {
            Some(door) if door.enabled => Ok(door),
            Some(_) => Err(ApiError::source_disabled("the source is disabled: enable it to take events in")),
            None => Err(ApiError::no_such("source")),
        }
    }
}

/// The sources seen lately, and the tokens that led nowhere.
pub(crate) struct Sources {
    by_token: Cache<[u8; 32], Option<Door>>,
    by_id: Cache<(AccountId, SourceId), Option<Door>>,
}

impl Sources {
    pub(crate) fn new() -> Self {
        Self {
            by_token: Cache::of_credentials(limits::SOURCES_CACHED),
            by_id: Cache::of_credentials(limits::SOURCES_CACHED),
        }
    }

    /// Something about this account's sources may have changed.
    pub(crate) fn forget(&self, account: AccountId) {
        let foreign = |door: &Option<Door>| door.is_none_or(|door| door.account_id != account);
        self.by_token.retain(|_, door| foreign(door));
        self.by_id.retain(|(owner, _), _| *owner != account);
    }
}

impl App {
    async fn source_by_token(&self, token: &str) -> Result<Door, ApiError> {
        let hash = self.vault.hash(token.as_bytes());
        if let Some(found) = self.sources.by_token.get(&hash) {
            return Door::open(found);
        }
        let found = bounded_lookup(self.store.source_by_token(&hash)).await?.as_ref().map(Door::of);
        self.sources.by_token.put(hash, found);
        Door::open(found)
    }

    /// The source a key is bound to, if it takes events.
    pub(crate) async fn open_source(&self, account: AccountId, id: SourceId) -> Result<Door, ApiError> {
        if let Some(found) = self.sources.by_id.get(&(account, id)) {
            return Door::open(found);
        }
        let found = match bounded_lookup(self.store.source(account, id)).await {
            Ok(source) => Some(Door::of(&source)),
            Err(store::StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        self.sources.by_id.put((account, id), found);
        Door::open(found)
    }
}
