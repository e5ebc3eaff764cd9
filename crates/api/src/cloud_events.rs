//! Events that come in as CloudEvents, by a source's URL or published, one at a time or in a batch.
//!
//! What is broken is refused before anything is done. A batch is taken as a whole or not at all: its producers look at the
//! status and not at the body, and since source and id name each event, sending all of it again repeats none.

use crate::{
    app::App,
    error::{ApiError, FieldError},
    event_text,
    ingest_url::respond,
    publish::{self, Checked},
    rate::{RateMeters, RateStatus},
};
use axum::response::Response;
use bytes::Bytes;
use contract::{Accepted, BatchAnswer, BatchResult};
use domain::{
    cloud_event::{CloudEvent, Mode, PREFIX, Structured, WrongAttribute, WrongDocument, batch},
    event::{Event, EventType, Headers},
    id::{AccountId, EventId, RequestId, SourceId},
    limits,
    tag::{self, TagRule},
    time::Timestamp,
};
use http::{HeaderMap, StatusCode, header};
use ingest::{ReservedBytes, idempotency_key, provider_key};
use std::{borrow::Cow, time::Duration};

/// How the request carries CloudEvents, if it does.
pub(crate) fn mode(headers: &HeaderMap) -> Result<Option<Mode>, ApiError> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    Mode::of(content_type, |name| headers.contains_key(name)).map_err(|_| {
        ApiError::unsupported_media_type(
            "of the formats of CloudEvents send JSON: `application/cloudevents+json` or \
             `application/cloudevents-batch+json`",
        )
    })
}

/// What the answer names the request by, wherever in the frame it is made.
pub(crate) fn request_id(extensions: &http::Extensions) -> RequestId {
    extensions.get().copied().unwrap_or(RequestId::MIN)
}

/// Whose events they are, and what else is known of each.
pub(crate) struct Door<'a> {
    pub(crate) account_id: AccountId,
    pub(crate) source_id: Option<SourceId>,
    pub(crate) tags: Option<&'a [TagRule]>,
    /// What is kept of the request's headers beside the attributes.
    pub(crate) headers: Headers,
    /// Said by the request of its event, whatever the attributes say. A batch is of many.
    pub(crate) event_type: Option<EventType>,
    /// Told by whoever has verified a request whose attributes no signature covers.
    pub(crate) provider_id: Option<String>,
}

/// One CloudEvent with its data.
pub(crate) struct ReceivedEvent {
    event: CloudEvent,
    content_type: String,
    payload: Bytes,
}

impl ReceivedEvent {
    /// Of a request that is not a batch.
    pub(crate) fn one(mode: Mode, headers: &HeaderMap, body: Bytes) -> Result<Self, ApiError> {
        if mode == Mode::Structured {
            crate::json::check_shape(&body, None)?;
            return Self::of_document(&body).map_err(|wrong| ApiError::invalid_or_malformed(wrong, ""));
        }
        let named = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let event =
            CloudEvent::of_headers(named).map_err(|WrongAttribute { name, detail, .. }| match &*name {
                "" => ApiError::invalid_header(format!("the headers `{PREFIX}…` {detail}")),
                name => ApiError::invalid_header(format!("the header `{PREFIX}{name}` {detail}")),
            })?;
        Ok(Self { event, content_type: event_text::content_type(headers)?, payload: body })
    }

    fn of_document(document: &[u8]) -> Result<Self, WrongDocument> {
        let Structured { event, content_type, payload } = Structured::parse(document)?;
        if content_type.len() > limits::CONTENT_TYPE_BYTES || !event_text::is_media_type(&content_type) {
            let detail = Cow::Borrowed("is not a content type");
            let name = "datacontenttype".into();
            return Err(WrongAttribute { name, code: "invalid_value", detail }.into());
        }
        // Its own memory: one event of a batch must not keep the whole batch alive.
        Ok(Self { event, content_type, payload: Bytes::from(payload.into_owned()) })
    }

    /// The event, as it comes in by this door.
    pub(crate) fn admitted(self, door: &Door<'_>, now: Timestamp, chance: u128) -> Checked {
        let Self { event: attributes, content_type, payload } = self;
        let event_type = door.event_type.clone().unwrap_or_else(|| attributes.event_type());
        let headers = kept(&attributes, &door.headers);
        let tags = door.tags.map(|rules| tag::taken(rules, &headers, &payload)).unwrap_or_default();
        let key = door.provider_id.clone().unwrap_or_else(|| attributes.idempotency_key());
        let size = payload.len();
        let event = Event {
            source_id: door.source_id,
            idempotency_key: Some(key.clone()),
            content_type,
            headers,
            tags,
            ..Event::new(EventId::at(now, chance), door.account_id, event_type, payload, now)
        };
        let scope = door.source_id.map_or(door.account_id.uuid(), |source| source.uuid());
        let key = match door.provider_id {
            Some(_) => provider_key(scope, &key),
            None => idempotency_key(scope, &key, &event),
        };
        Checked { event, key: Some(key), size }
    }
}

/// The attributes first, which fit; the other headers have what room is left.
fn kept(attributes: &CloudEvent, others: &Headers) -> Headers {
    let mut kept = attributes.headers();
    let taken: usize = kept.iter().map(|(name, value)| name.len() + value.len()).sum();
    let mut room = limits::EVENT_HEADERS_BYTES.saturating_sub(taken);
    for (name, value) in others {
        let Some(left) = room.checked_sub(name.len() + value.len()) else { continue };
        if !name.starts_with(PREFIX) {
            room = left;
            kept.push((name.clone(), value.clone()));
        }
    }
    kept
}

/// Takes one in.
pub(crate) async fn admit_one(
    app: &App,
    received: ReceivedEvent,
    door: &Door<'_>,
    reserved: ReservedBytes,
    rate_status: RateStatus,
) -> Result<Response, ApiError> {
    let Checked { event, key, .. } = received.admitted(door, app.now(), app.dice.bits());
    respond(app.admission.admit(event, key, reserved).await, rate_status)
}

/// The events of a batch, each of them sound.
pub(crate) fn read_batch(body: &[u8]) -> Result<Vec<ReceivedEvent>, ApiError> {
    crate::json::check_shape(body, None)?;
    let documents =
        batch(body, limits::BATCH_EVENTS).map_err(|wrong| ApiError::invalid_or_malformed(wrong, ""))?;
    let (mut sound, mut wrong) = (Vec::with_capacity(documents.len()), Vec::new());
    for (place, document) in documents.into_iter().enumerate() {
        if wrong.len() == limits::CLOUD_EVENT_ERRORS {
            break;
        }
        match ReceivedEvent::of_document(document.get().as_bytes()) {
            Ok(received) => sound.push(received),
            Err(WrongDocument::Attribute(attribute)) => {
                wrong.push(field_error(attribute, &format!("/{place}")))
            }
            Err(WrongDocument::Malformed(detail)) => {
                wrong.push(FieldError::new(
                    format!("/{place}"),
                    "invalid_type",
                    format!("is no CloudEvent: {detail}"),
                ));
            }
        }
    }
    if wrong.is_empty() { Ok(sound) } else { Err(ApiError::invalid(wrong)) }
}

/// Takes all of them in. What could not be stored for a reason that passes is told by the status, with what was stored: all of it
/// is to be sent again.
pub(crate) async fn admit_batch(
    app: &App,
    received: Vec<ReceivedEvent>,
    door: &Door<'_>,
    (rate_status, meters): (RateStatus, RateMeters),
    request_id: RequestId,
) -> Result<Response, ApiError> {
    let count = received.len();
    // Before anything is done, which could not be told then.
    let room = app.answers.room(door.account_id, count * limits::BATCH_RESULT_BYTES).await?;
    // One has been paid for before the body was read.
    let rate_status = match count {
        0 => rate_status,
        count => app.rates.charge(&meters, count - 1),
    };
    let now = app.now();
    let mut checked = Vec::with_capacity(count);
    for (place, one) in received.into_iter().enumerate() {
        // A microsecond apart, so that they are listed in the order they were given in.
        let at = now.plus(Duration::from_micros(place as u64));
        checked.push(one.admitted(door, at, app.dice.bits()));
    }
    let answers = publish::admit_all(app, checked.into_iter().map(Ok)).await;
    if let Some(passing) =
        answers.iter().filter_map(|answer| answer.as_ref().err()).find(|error| passes(error))
    {
        return Err(passing.clone());
    }
    let results: Vec<BatchResult> = answers
        .into_iter()
        .map(|answer: Result<Accepted, _>| publish::batch_result(answer, request_id))
        .collect();
    let mut response = room.json_as(StatusCode::ACCEPTED, &BatchAnswer { results })?;
    rate_status.write(response.headers_mut());
    Ok(response)
}

fn passes(error: &ApiError) -> bool {
    error.status().is_server_error() || error.status() == StatusCode::TOO_MANY_REQUESTS
}

fn field_error(WrongAttribute { name, code, detail }: WrongAttribute, below: &str) -> FieldError {
    let place = if name.is_empty() {
        below.to_owned()
    } else {
        format!("{below}/{}", crate::validate::escaped(&name))
    };
    FieldError::new(
        place,
        code,
        if name.is_empty() { format!("its attributes {detail}").into() } else { detail },
    )
}

impl ApiError {
    fn invalid_or_malformed(wrong: WrongDocument, below: &str) -> Self {
        match wrong {
            WrongDocument::Malformed(detail) => Self::invalid_json(detail),
            WrongDocument::Attribute(wrong) => Self::invalid(vec![field_error(wrong, below)]),
        }
    }
}
