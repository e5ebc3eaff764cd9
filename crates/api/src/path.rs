//! Ids in paths, or uids that stand for them (`named.rs`): what is neither is as absent as a foreign one.

use crate::{app::App, error::ApiError, named::Named, validate::is_uid};
use axum::extract::{FromRequestParts, RawPathParams};
use http::request;

/// The one id of a path, as in `/v1/destinations/{id}/pause`, or the first of two.
pub struct Id<T>(pub T);

/// The second id of a path, of something that belongs to the first: `/v1/accounts/{id}/api-keys/{key_id}`.
pub struct IdWithin<T>(pub T);

impl<T: Named> FromRequestParts<App> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        nth_id(parts, app, 0).await.map(Self)
    }
}

impl<T: Named> FromRequestParts<App> for IdWithin<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        nth_id(parts, app, 1).await.map(Self)
    }
}

async fn nth_id<T: Named>(parts: &mut request::Parts, app: &App, place: usize) -> Result<T, ApiError> {
    let absent = || ApiError::no_such(T::NOUN);
    let parameters = RawPathParams::from_request_parts(parts, app).await.map_err(|_| absent())?;
    let text = parameters.iter().nth(place).map(|(_, value)| value.to_owned()).ok_or_else(absent)?;
    // The account is known by now: the caller is asked for before the id in every handler.
    let found = T::find(app, parts.extensions.get().copied(), &text).await?;
    found.or(T::NEVER_GIVEN.filter(|_| is_uid(&text))).ok_or_else(absent)
}
