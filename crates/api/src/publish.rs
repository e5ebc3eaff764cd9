//! `POST /v1/events` and `POST /v1/events/batch`: events an account publishes itself.
//!
//! The bytes of `data`, as they were written, are the payload: nothing is parsed and written again.

use crate::{
    accounts,
    app::App,
    auth::PublishCtx,
    body,
    cloud_events::{self, Door, ReceivedEvent},
    error::ApiError,
    event_text,
    ingest_url::respond,
    json, problems,
    rate::{RateMeters, RateStatus},
    views,
};
use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use contract::{Accepted, BatchAnswer, BatchResult, Publish, Refused, schema};
use domain::{
    cloud_event::Mode,
    event::{Event, EventType, EventTypeError, Headers},
    id::{EventId, RequestId},
    limits, tag,
    time::Timestamp,
};
use http::StatusCode;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Map, Value, value::RawValue};
use std::{fmt, time::Duration};
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

/// Up to 1,000 events.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = PublishBatch)]
pub(crate) struct PublishBatch<'a> {
    #[serde(borrow)]
    #[schema(value_type = Vec<schema::Publish>, min_items = 1, max_items = 1000)]
    events: EventList<'a>,
}

/// Publish an event. The answer comes when the event and its deliveries are durable. CloudEvents are taken too: one in binary
/// mode (`ce-…` headers) or in structured mode (`application/cloudevents+json`), or a batch
/// (`application/cloudevents-batch+json`), which is answered like a batch. Scope `ingest:write`.
#[utoipa::path(post, path = "/v1/events", tag = "events", operation_id = "publish",
    params(CreateAccountParam, ("idempotency-key" = Option<schema::IdempotencyKeyHeader>, Header,
            description = "The same as `idempotency_key` of the body.")),
    request_body = schema::Publish,
    responses((status = 202, description = "Durable.", body = Accepted),
              (status = 200, description = "Seen before: the first event.", body = Accepted),
              problems::Publishing))]
pub(crate) async fn publish(
    State(app): State<App>,
    mut by: PublishCtx,
    request: Request,
) -> Result<Response, ApiError> {
    let header_key = event_text::publish_key(request.headers())?;
    let mode = cloud_events::mode(request.headers())?;
    if header_key.is_some() && mode.is_some() {
        return Err(ApiError::invalid_header(
            "the key of a CloudEvent are its `source` and `id`: leave out `idempotency-key`",
        ));
    }
    let ((rate_status, meters), request) = check_before_body(&app, &by, request).await?;
    let headers = event_text::kept_publish_headers(request.headers());
    if let Some(mode) = mode {
        let rate = (rate_status, meters);
        return Box::pin(publish_cloud_events(&app, by, request, mode, headers, rate)).await;
    }
    let (bytes, reserved) = json::read(request, &app, by.account_id, app.config.body_limit).await?;
    json::check_shape(&bytes, None)?;
    let publish: Publish<'_> = json::parse(&bytes)?;
    if let Some(new) = by.new_account.take() {
        // An event that is refused makes no account.
        let tried = json::parse(&bytes)?;
        checked_event(tried, &by, headers.clone(), header_key.clone(), app.now(), app.dice.bits())?;
        by.account_id = Box::pin(accounts::of_new_uid(&app, by.account_id, &new)).await?;
    }
    let (event, key) = checked_event(publish, &by, headers, header_key, app.now(), app.dice.bits())?;
    drop(bytes);
    respond(app.admission.admit(event, key, reserved).await, rate_status)
}

/// The same with CloudEvents in the request, in any of their modes.
async fn publish_cloud_events(
    app: &App,
    mut by: PublishCtx,
    request: Request,
    mode: Mode,
    headers: Headers,
    rate: (RateStatus, RateMeters),
) -> Result<Response, ApiError> {
    body::check_unencoded(request.headers())?;
    let (parts, body) = request.into_parts();
    let (limit, deadlines, budget) = (app.config.body_limit, &app.config.deadlines, app.admission.budget());
    let (body, reserved) = body::read(body, limit, deadlines, budget, by.account_id).await?;
    let one = match mode {
        Mode::Batched => None,
        mode => Some(ReceivedEvent::one(mode, &parts.headers, body.clone())?),
    };
    let many = if one.is_none() { cloud_events::read_batch(&body)? } else { Vec::new() };
    drop(body);
    // Events that are refused make no account.
    if let Some(new) = by.new_account.take().filter(|_| one.is_some() || !many.is_empty()) {
        by.account_id = accounts::of_new_uid(app, by.account_id, &new).await?;
    }
    let door = Door {
        account_id: by.account_id,
        source_id: by.source_id,
        tags: None,
        headers,
        event_type: None,
        provider_id: None,
    };
    match one {
        Some(one) => cloud_events::admit_one(app, one, &door, reserved, rate.0).await,
        None => {
            let request_id = cloud_events::request_id(&parts.extensions);
            cloud_events::admit_batch(app, many, &door, rate, request_id).await
        }
    }
}

/// The body of a request that is refused is not read. Gives the limits that count, the account's with them.
async fn check_before_body(
    app: &App,
    by: &PublishCtx,
    request: Request,
) -> Result<((RateStatus, RateMeters), Request), ApiError> {
    let admitted = match app.admission.check_wait_of(by.account_id) {
        // An account that is to be made has no limits yet.
        Ok(()) if by.new_account.is_some() => app.rates.take(&by.meters).map(|status| (status, by.meters)),
        Ok(()) => app.check_limits(by.account_id, by.meters).await,
        Err(error) => Err(error.into()),
    };
    let (parts, body) = request.into_parts();
    let (within, body) = body::keep_if_admitted(admitted, &parts.headers, body).await?;
    Ok((within, Request::from_parts(parts, body)))
}

/// What publishing takes besides, for the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what auth::PublishCtx reads")]
struct CreateAccountParam {
    /// Makes the account if the uid in `Posthaste-Account` is new, when an event is accepted; its name is the uid. Scope
    /// `accounts:write`.
    #[param(default = false)]
    create_account: Option<bool>,
}

/// Publish up to 1,000 events at once: each is accepted or refused for itself. Scope `ingest:write`.
#[utoipa::path(post, path = "/v1/events/batch", tag = "events", operation_id = "publish_batch",
    params(CreateAccountParam),
    request_body = PublishBatch<'_>,
    responses((status = 202, description = "One result per event, in order.", body = BatchAnswer),
              problems::Publishing))]
pub(crate) async fn publish_batch(
    State(app): State<App>,
    Extension(request_id): Extension<RequestId>,
    mut by: PublishCtx,
    request: Request,
) -> Result<Response, ApiError> {
    if event_text::publish_key(request.headers())?.is_some() {
        return Err(ApiError::invalid_header(
            "a batch has no key of its own: give each event an `idempotency_key`",
        ));
    }
    let ((_, meters), request) = check_before_body(&app, &by, request).await?;
    let headers = event_text::kept_publish_headers(request.headers());
    let (bytes, _reserved) = json::read(request, &app, by.account_id, app.config.body_limit).await?;
    json::check_shape(&bytes, None)?;
    let batch: PublishBatch<'_> = json::parse(&bytes)?;
    if batch.events.0.is_empty() {
        return Err(ApiError::invalid_field("/events", "invalid_length", "expected 1 to 1,000 events"));
    }
    // Before anything is done, which could not be told then.
    let room = app.answers.room(by.account_id, batch.events.0.len() * limits::BATCH_RESULT_BYTES).await?;
    // One has been paid for before the body was read.
    let rate_status = app.rates.charge(&meters, batch.events.0.len() - 1);
    let now = app.now();
    if let Some(new) = by.new_account.take() {
        // Events that are all refused make no account.
        let is_sound = |raw: &&RawValue| {
            json::parse::<Publish<'_>>(raw.get().as_bytes())
                .and_then(|publish| checked_event(publish, &by, headers.clone(), None, now, app.dice.bits()))
                .is_ok()
        };
        if batch.events.0.iter().any(is_sound) {
            by.account_id = accounts::of_new_uid(&app, by.account_id, &new).await?;
        }
    }
    let checked = batch.events.0.into_iter().enumerate().map(|(place, raw)| {
        // A microsecond apart, so that they are listed in the order they were given in.
        let at = now.plus(Duration::from_micros(place as u64));
        json::parse::<Publish<'_>>(raw.get().as_bytes())
            .and_then(|publish| checked_event(publish, &by, headers.clone(), None, at, app.dice.bits()))
            .map(|(event, key)| Checked { event, key, size: raw.get().len() })
    });
    let answers = admit_all(&app, checked).await;
    if let Some(trouble) = server_failure(&answers) {
        return Err(trouble);
    }
    let results = answers.into_iter().map(|answer| batch_result(answer, request_id)).collect();
    let mut response = room.json_as(StatusCode::ACCEPTED, &BatchAnswer { results })?;
    rate_status.write(response.headers_mut());
    Ok(response)
}

/// An event that may come in, and what it takes of memory while it waits.
pub(crate) struct Checked {
    pub(crate) event: Event,
    pub(crate) key: Option<store::IdempotencyKey>,
    pub(crate) size: usize,
}

/// Takes in what is sound, and says of each what became of it, in order.
pub(crate) async fn admit_all(
    app: &App,
    events: impl Iterator<Item = Result<Checked, ApiError>>,
) -> Vec<Result<Accepted, ApiError>> {
    let mut submitted = Vec::with_capacity(events.size_hint().0);
    for checked in events {
        let checked = checked.and_then(|Checked { event, key, size }| {
            let reserved = app.admission.budget().reserve(event.account_id, size)?;
            Ok((event, key, reserved))
        });
        submitted.push(match checked {
            Ok((event, key, reserved)) => {
                app.admission.submit(event, key, reserved).await.map_err(ApiError::from)
            }
            Err(error) => Err(error),
        });
        // Matching a thousand events must not keep the others from their turn.
        tokio::task::consume_budget().await;
    }
    let until = Instant::now() + limits::ANSWER_PATIENCE;
    let mut answers = Vec::with_capacity(submitted.len());
    for pending in submitted {
        answers.push(match pending {
            Ok(pending) => pending.wait_until(until).await.map(views::accepted).map_err(ApiError::from),
            Err(error) => Err(error),
        });
    }
    answers
}

/// If nothing was accepted because of us, the batch as a whole should be sent again.
fn server_failure(answers: &[Result<Accepted, ApiError>]) -> Option<ApiError> {
    let ours =
        |answer: &Result<_, ApiError>| answer.as_ref().is_err_and(|error| error.status().is_server_error());
    answers.iter().all(ours).then(|| answers[0].clone().err()).flatten()
}

pub(crate) fn batch_result(answer: Result<Accepted, ApiError>, request_id: RequestId) -> BatchResult {
    match answer {
        Ok(accepted) => BatchResult::Accepted(accepted),
        Err(error) => {
            BatchResult::Refused(Refused { status: "refused".into(), error: error.problem(request_id) })
        }
    }
}

/// From what was sent to an event; every field is looked at here, and nowhere else.
fn checked_event(
    publish: Publish<'_>,
    by: &PublishCtx,
    headers: Headers,
    header_key: Option<String>,
    now: Timestamp,
    chance: u128,
) -> Result<(Event, Option<store::IdempotencyKey>), ApiError> {
    let event_type: EventType = publish.event_type.parse().map_err(|error: EventTypeError| {
        ApiError::invalid_field("/type", "invalid_event_type", error.to_string())
    })?;
    let (payload, content_type) =
        payload(publish.data.as_deref(), publish.data_base64.as_deref(), publish.content_type)?;
    let idempotency_key = agreed_key(publish.idempotency_key, header_key)?;
    let ordering_key = publish.ordering_key.map(checked_ordering_key).transpose()?;
    if publish.deliver_at.is_some_and(|at| at > now.plus(LATEST_DELIVERY)) {
        let detail = format!("cannot be more than {} days ahead", limits::RETENTION_DAYS_DEFAULT);
        return Err(ApiError::invalid_field("/deliver_at", "out_of_range", detail));
    }
    let event = Event {
        source_id: by.source_id,
        idempotency_key,
        content_type,
        headers,
        ordering_key,
        metadata: publish.metadata.as_deref().map(metadata).transpose()?.unwrap_or_default(),
        tags: publish.tags.map(checked_tags).transpose()?.unwrap_or_default(),
        deliver_at: publish.deliver_at,
        ..Event::new(EventId::at(now, chance), by.account_id, event_type, payload, now)
    };
    let scope = by.source_id.map_or(by.account_id.uuid(), |source| source.uuid());
    let key = event.idempotency_key.as_deref().map(|key| ingest::idempotency_key(scope, key, &event));
    Ok((event, key))
}

/// What waits longer would outlive what is kept about it.
const LATEST_DELIVERY: Duration = Duration::from_secs(limits::RETENTION_DAYS_DEFAULT as u64 * 24 * 3600);

fn payload(
    data: Option<&RawValue>,
    base64: Option<&str>,
    content_type: Option<String>,
) -> Result<(Bytes, String), ApiError> {
    match (data, base64, content_type) {
        (None, None, _) => {
            Err(ApiError::invalid_field("/data", "missing_field", "`data` or `data_base64` is needed"))
        }
        (Some(_), Some(_), _) => {
            Err(ApiError::invalid_field("/data_base64", "conflict", "`data` is given already"))
        }
        (Some(_), None, Some(_)) => {
            Err(ApiError::invalid_field("/content_type", "conflict", "`data` is always application/json"))
        }
        // Its own memory: one event of a batch must not keep the whole batch alive.
        (Some(data), None, None) => {
            Ok((Bytes::copy_from_slice(data.get().as_bytes()), "application/json".to_owned()))
        }
        (None, Some(_), None) => Err(ApiError::invalid_field(
            "/content_type",
            "missing_field",
            "`data_base64` needs a `content_type`",
        )),
        (None, Some(text), Some(content_type)) => {
            let sendable = (1..=limits::CONTENT_TYPE_BYTES).contains(&content_type.len())
                && event_text::is_media_type(&content_type);
            if !sendable {
                return Err(ApiError::invalid_field("/content_type", "invalid_value", "not a content type"));
            }
            let payload = STANDARD.decode(text).map_err(|_| {
                let detail = "expected standard base64, with padding";
                ApiError::invalid_field("/data_base64", "invalid_value", detail)
            })?;
            Ok((payload.into(), content_type))
        }
    }
}

fn agreed_key(in_body: Option<String>, in_header: Option<String>) -> Result<Option<String>, ApiError> {
    let refuse = |detail| Err(ApiError::invalid_field("/idempotency_key", "invalid_value", detail));
    match (in_body, in_header) {
        (Some(body), Some(header)) if body != header => refuse("differs from the `idempotency-key` header"),
        (Some(body), _) if !event_text::is_idempotency_key(&body) => {
            refuse("must be 1 to 255 printable ASCII characters")
        }
        (body, header) => Ok(body.or(header)),
    }
}

fn checked_ordering_key(key: String) -> Result<String, ApiError> {
    let fits = (1..=limits::ORDERING_KEY_BYTES).contains(&key.len()) && !key.chars().any(char::is_control);
    if fits {
        return Ok(key);
    }
    let detail = format!("must be 1 to {} bytes without control characters", limits::ORDERING_KEY_BYTES);
    Err(ApiError::invalid_field("/ordering_key", "invalid_value", detail))
}

fn checked_tags(given: Vec<String>) -> Result<Vec<String>, ApiError> {
    let mut tags = Vec::new();
    for (place, tag) in given.into_iter().enumerate() {
        if !tag::is_tag(&tag) {
            let detail = format!("must be 1 to {} characters without control characters", limits::TAG_CHARS);
            return Err(ApiError::invalid_field(format!("/tags/{place}"), "invalid_value", detail));
        }
        if !tag::add(&mut tags, tag) {
            let detail = format!("an event has at most {} tags", limits::TAGS);
            return Err(ApiError::invalid_field("/tags", "too_many", detail));
        }
    }
    Ok(tags)
}

fn metadata(raw: &RawValue) -> Result<Map<String, Value>, ApiError> {
    let refuse = |code, detail| ApiError::invalid_field("/metadata", code, detail);
    if raw.get().len() > limits::METADATA_BYTES {
        return Err(refuse("too_long", "must fit into 16 KiB"));
    }
    serde_json::from_str(raw.get()).map_err(|_| refuse("invalid_type", "expected an object"))
}

/// The events of a batch as they were written; the one too many ends the reading.
struct EventList<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for EventList<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct EventListVisitor;

        impl<'de> de::Visitor<'de> for EventListVisitor {
            type Value = Vec<&'de RawValue>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of events")
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
                let mut few = Vec::new();
                while let Some(item) = items.next_element()? {
                    if few.len() == limits::BATCH_EVENTS {
                        return Err(de::Error::custom("a batch has at most 1,000 events"));
                    }
                    few.push(item);
                }
                Ok(few)
            }
        }

        from.deserialize_seq(EventListVisitor).map(Self)
    }
}
