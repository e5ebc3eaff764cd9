//! Ids in paths: what is not an id of the right kind is as absent as a foreign one.

use crate::{app::App, error::ApiError};
use axum::extract::{FromRequestParts, RawPathParams};
use domain::id::TypedId;
use http::request;
use std::str::FromStr;

/// The one id of a path, as in `/v1/destinations/{id}/pause`, or the first of two.
pub struct Id<T>(pub T);

/// The second id of a path, of something that belongs to the first: `/v1/accounts/{id}/api-keys/{key_id}`.
pub struct IdWithin<T>(pub T);

impl<T: FromStr + TypedId> FromRequestParts<App> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        nth_id(parts, app, 0).await.map(Self)
    }
}

impl<T: FromStr + TypedId> FromRequestParts<App> for IdWithin<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        nth_id(parts, app, 1).await.map(Self)
    }
}

async fn nth_id<T: FromStr + TypedId>(
    parts: &mut request::Parts,
    app: &App,
    place: usize,
) -> Result<T, ApiError> {
    let absent = || ApiError::no_such(T::NOUN);
    let parameters = RawPathParams::from_request_parts(parts, app).await.map_err(|_| absent())?;
    let text = parameters.iter().nth(place).map(|(_, value)| value);
    text.and_then(|text| text.parse().ok()).ok_or_else(absent)
}
