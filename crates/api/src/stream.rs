//! `GET /v1/stream`: events, deliveries and destinations, as server-sent events that can be resumed on any node.
//!
//! Everything is read from what is durable anyway ([`store::Feed`]); while there are no followers, nothing is read. While
//! there are, one reader a node ([`hub`]) looks at the feed for all accounts that are followed: at once when
//! something was written here, twice a second for what others write. It hands each change, written down once, to every
//! follower's bounded queue and never waits. A follower ([`follower`]) that resumes, or whose queue was full, reads
//! the history itself, a page at a time, until it is up to date, and only then listens: so a slow client costs itself
//! time, and misses nothing.
//!
//! The `id` of an event is where to go on from ([`position`]): a place in the feed and a version of the account's
//! configuration, by which pauses and disablings are found. What was told before a cut may be told again after it,
//! seldom; nothing is left out that is still kept.

mod destinations;
mod filter;
mod follower;
mod frame;
mod hub;
mod item;
mod position;

pub(crate) use hub::{Hub, read};

use crate::{app::App, auth::AccountCtx, error::ApiError, named::Filters as _, problems, query::Parameters};
use axum::{
    body::Body,
    extract::{FromRequestParts, State},
    response::{IntoResponse, Response},
};
use contract::StreamQuery;
use domain::limits;
use filter::StreamFilter;
use follower::Follower;
use frame::Reset;
use http::{HeaderMap, HeaderName, HeaderValue, header, request};
use hub::StreamPermit;
use position::StreamPosition;
use store::Resumption;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Follow what happens: server-sent events `event.received`, `delivery.changed` and `destination.changed`. Each has an
/// `id`; send the last one as `Last-Event-ID` to go on from there, on any node. An event `reset` says that something in
/// between is no longer kept. Different filters narrow, a repeated one widens; what does not have what a filter asks
/// about is not told. Scope `deliveries:read`; events are told with `events:read`, destinations with
/// `destinations:read`.
#[utoipa::path(
    get, path = "/v1/stream", operation_id = "follow_stream", tag = "live",
    params(
        StreamQuery,
        ("last-event-id" = Option<String>, Header, description = "The `id` of the last event that was received."),
        ("last_event_id" = Option<String>, Query, description = "The same, for clients that cannot send headers."),
    ),
    responses(
        (status = 200, description = "Events, until one side hangs up.", body = String,
            content_type = "text/event-stream"),
        problems::Following,
    ),
)]
pub(crate) async fn follow(
    State(app): State<App>,
    ctx: AccountCtx,
    asked: StreamRequest,
) -> Result<Response, ApiError> {
    let filter = StreamFilter::checked(asked.query, &ctx)?;
    let permit = StreamPermit::take(&app, ctx.account_id())?;
    let (position, reset) = begin(&app, &ctx, asked.last).await?;
    let body = Follower::new(app, ctx.without_place(), filter, position, permit).start(reset);
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // A proxy that gathers answers would hold events back.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(body)).into_response())
}

/// Where to begin, and what is missing before it.
async fn begin(
    app: &App,
    ctx: &AccountCtx,
    last: Option<String>,
) -> Result<(StreamPosition, Option<Reset>), ApiError> {
    let account = ctx.account_id();
    let Some(last) = last else { return Ok((StreamPosition::now(app, account).await?, None)) };
    let malformed = || ApiError::invalid_cursor("`Last-Event-ID` is not the id of an event of this stream");
    let (version, place) = StreamPosition::split(&last).ok_or_else(malformed)?;
    match app.store.feed_place(place).await? {
        Resumption::At(place) => {
            let reset = (place.at() < app.kept_since(account).await?).then_some(Reset::Pruned);
            Ok((StreamPosition { version, place }, reset))
        }
        Resumption::Lost => Ok((StreamPosition::now(app, account).await?, Some(Reset::Lost))),
        Resumption::Malformed => Err(malformed()),
    }
}

/// What a client asks for.
pub(crate) struct StreamRequest {
    query: StreamQuery,
    last: Option<String>,
}

impl FromRequestParts<App> for StreamRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let mut parameters = Parameters::of(parts.uri.query());
        let given = parameters.take("last_event_id")?;
        StreamQuery::resolve(app, parts.extensions.get().copied(), &mut parameters).await?;
        let query = parameters.read()?;
        // A client that reconnects to the same URL has the later one in its header.
        let last = of_header(&parts.headers)?.or(given).filter(|last| !last.is_empty());
        if last.as_ref().is_some_and(|last| last.len() > limits::STREAM_ID_BYTES) {
            return Err(ApiError::invalid_cursor("no event of this stream has an id this long"));
        }
        Ok(Self { query, last })
    }
}

fn of_header(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let text = |value: &HeaderValue| value.to_str().map(str::to_owned);
    let malformed = |_| ApiError::invalid_header("`last-event-id` is the id of an event, as it was sent");
    headers.get(LAST_EVENT_ID).map(text).transpose().map_err(malformed)
}
