//! The body of an action that needs none: left out, or JSON as everywhere else.

use crate::{app::App, error::ApiError, json::Body};
use axum::{
    body::HttpBody,
    extract::{FromRequest, Request},
};
use serde::de::DeserializeOwned;

/// `T::default()` if the request has no body. Generated clients name a content type all the same.
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<App> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        if request.body().is_end_stream() {
            return Ok(Self(T::default()));
        }
        Body::from_request(request, app).await.map(|Body(body)| Self(body))
    }
}
