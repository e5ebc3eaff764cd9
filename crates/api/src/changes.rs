//! Changing a row that others may change too: read it, decide, write it if it is still the same, else decide again.
//!
//! A row's version is its entity tag. A client that sends `If-Match` wants to decide itself and gets a 412 instead.

use crate::{
    app::App,
    error::{ApiError, Code},
    read::Revision,
};
use axum::{
    Json,
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use domain::{dice::Dice, limits};
use http::{HeaderMap, HeaderValue, StatusCode, header, request};
use serde::Serialize;
use tokio::time::sleep;
use utoipa::IntoParams;

/// The versions a caller will have changed; none: any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IfMatch(Option<Vec<i64>>);

/// How it is described in the OpenAPI document.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes what IfMatch reads")]
pub(crate) struct IfMatchParam {
    #[param(rename = "if-match", value_type = Option<contract::schema::IfMatch>)]
    if_match: Option<String>,
}

impl FromRequestParts<App> for IfMatch {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, _: &App) -> Result<Self, ApiError> {
        Self::of(&parts.headers)
    }
}

impl IfMatch {
    fn of(headers: &HeaderMap) -> Result<Self, ApiError> {
        let malformed =
            || ApiError::invalid_header("`if-match` is `*` or a list of entity tags such as \"42\"");
        let mut versions: Option<Vec<i64>> = None;
        for value in headers.get_all(header::IF_MATCH) {
            let value = value.to_str().map_err(|_| malformed())?.trim();
            if value == "*" {
                return Ok(Self(None));
            }
            for tag in value.split(',') {
                let tag = tag.trim();
                let tag = tag.strip_prefix("W/").unwrap_or(tag);
                let tag =
                    tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).ok_or_else(malformed)?;
                // A tag that none of ours can be matches nothing.
                versions.get_or_insert_default().extend(tag.parse::<i64>());
            }
        }
        Ok(Self(versions))
    }

    /// 412 unless the caller means this version.
    pub(crate) fn check(&self, version: i64) -> Result<(), ApiError> {
        match &self.0 {
            Some(versions) if !versions.contains(&version) => {
                Err(ApiError::version_mismatch("it has changed since you read it: read it again"))
            }
            _ => Ok(()),
        }
    }
}

/// Runs a change until it meets an unchanged row. `change` reads, checks `if_match`, decides and writes.
pub(crate) async fn until_unchanged<T, F>(
    dice: &dyn Dice,
    if_match: &IfMatch,
    mut change: impl FnMut() -> F,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, ApiError>>,
{
    for round in 1..limits::UPDATE_ROUNDS {
        match change().await {
            Err(error) if error.code() == Code::VersionMismatch && if_match.0.is_none() => {}
            answer => return answer,
        }
        sleep((limits::UPDATE_PAUSE * round).mul_f64(dice.unit())).await;
    }
    change().await
}

/// An object with its version as `ETag`.
#[derive(Debug)]
pub(crate) struct Versioned<T> {
    status: StatusCode,
    revision: Revision<T>,
}

impl<T> Versioned<T> {
    pub(crate) fn ok(revision: Revision<T>) -> Self {
        Self { status: StatusCode::OK, revision }
    }

    pub(crate) fn created(revision: Revision<T>) -> Self {
        Self { status: StatusCode::CREATED, revision }
    }

    pub(crate) fn accepted(revision: Revision<T>) -> Self {
        Self { status: StatusCode::ACCEPTED, revision }
    }
}

impl<T: Serialize> IntoResponse for Versioned<T> {
    fn into_response(self) -> Response {
        let Revision { version, view } = self.revision;
        let tag = HeaderValue::try_from(format!("\"{version}\"")).expect("digits are visible ASCII");
        (self.status, [(header::ETAG, tag)], Json(view)).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::testing::CountingDice;
    use futures_util::future::join_all;
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
    use tokio::task::yield_now;

    fn if_match(values: &[&'static str]) -> Result<IfMatch, Code> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::IF_MATCH, HeaderValue::from_static(value));
        }
        IfMatch::of(&headers).map_err(|error| error.code())
    }

    #[test]
    fn if_match_takes_strong_and_weak_tags_and_lists() {
        assert_eq!(if_match(&[]), Ok(IfMatch(None)));
        assert_eq!(if_match(&["*"]), Ok(IfMatch(None)));
        assert_eq!(if_match(&["\"7\", W/\"8\"", "\"9\""]), Ok(IfMatch(Some(vec![7, 8, 9]))));
        assert_eq!(if_match(&["\"seven\""]), Ok(IfMatch(Some(vec![]))));
        assert_eq!(if_match(&["7"]), Err(Code::InvalidHeader));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_decided_again_unless_the_caller_named_a_version() {
        let rounds = |if_match: IfMatch| async move {
            let (mut rounds, dice) = (0, CountingDice::default());
            let answer = until_unchanged(&dice, &if_match, || {
                rounds += 1;
                let done = rounds == 3;
                async move { if done { Ok(()) } else { Err(ApiError::version_mismatch("")) } }
            });
            (answer.await.is_ok(), rounds)
        };
        assert_eq!(rounds(IfMatch(None)).await, (true, 3));
        assert_eq!(rounds(IfMatch(Some(vec![7]))).await, (false, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_that_name_no_version_none_is_turned_away() {
        let row = AtomicI64::new(0);
        // All read before any writes, and one of them gets through: as unlucky as it can be.
        let one = || async {
            let change = || async {
                let version = row.load(Relaxed);
                yield_now().await;
                let written = row.compare_exchange(version, version + 1, Relaxed, Relaxed);
                written.map_err(|_| ApiError::version_mismatch(""))
            };
            until_unchanged(&CountingDice::default(), &IfMatch(None), change).await
        };
        let answers = join_all((0..limits::UPDATE_ROUNDS).map(|_| one())).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(row.into_inner(), i64::from(limits::UPDATE_ROUNDS));
    }
}
