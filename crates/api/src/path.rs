//! Ids in paths: what is not an id of the right kind is as absent as a foreign one.

use crate::{app::App, error::ApiError};
use axum::extract::{FromRequestParts, RawPathParams};
use domain::id::TypedId;
use http::request;
use std::str::FromStr;

/// The one id of a path, as in `/v1/destinations/{id}/pause`.
pub struct Id<T>(pub T);

impl<T: FromStr + TypedId> FromRequestParts<App> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let absent = || ApiError::no_such(T::NOUN);
        let parameters = RawPathParams::from_request_parts(parts, app).await.map_err(|_| absent())?;
        let text = parameters.iter().find(|(name, _)| *name == "id").map(|(_, value)| value);
        text.and_then(|text| text.parse().ok()).map(Self).ok_or_else(absent)
    }
}
