//! A destination's signing secret: made, sealed, revealed and rotated.

use super::change;
use crate::{
    app::App,
    auth::AccountCtx,
    changes::{IfMatch, IfMatchParam, Versioned},
    error::ApiError,
    optional_body::OptionalBody,
    path::Id,
    problems, read,
    validate::Checks,
    views,
};
use axum::{Json, extract::State, response::IntoResponse};
use contract::{DestinationView, RotateSecret, SecretView, schema};
use domain::{
    account::Scope,
    destination::{Destination, Previous, Secrets},
    dice::Dice,
    id::DestinationId,
    limits,
    seal::{DataKey, Sealed},
    signature::SigningSecret,
};
use http::header;
use std::time::Duration;
use zeroize::Zeroizing;

const SECRET_BYTES: usize = 32;

/// Show a destination's signing secret, unless the operator has switched that off (`secrets.reveal`): then only the answer
/// that makes one shows it. Scope `secrets:reveal`.
#[utoipa::path(
    get, path = "/v1/destinations/{id}/secret", operation_id = "get_destination_secret", tag = "destinations",
    params(("id" = schema::DestinationRef, Path)),
    responses((status = 200, description = "The secret.", body = SecretView), problems::Revealing),
)]
pub(crate) async fn reveal(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
) -> Result<impl IntoResponse, ApiError> {
    let account = ctx.require_signing_secrets()?;
    app.may_reveal()?;
    let view = read::destination_secret(&app, account, id).await?;
    // Written down before it is told: what cannot be is not shown.
    app.store.write_audit(Some(account), &ctx.entry(&app, id, None)).await?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(view)))
}

/// Give a destination a new signing secret. The old one signs as well for a while. Scope `destinations:write`.
#[utoipa::path(
    post, path = "/v1/destinations/{id}/rotate-secret", operation_id = "rotate_destination_secret", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), IfMatchParam), request_body = Option<RotateSecret>,
    responses(
        (status = 200, description = "With the new secret in `signing.secret`.", body = DestinationView),
        problems::SwitchingWith,
    ),
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    if_match: IfMatch,
    OptionalBody(body): OptionalBody<RotateSecret>,
) -> Result<Versioned<DestinationView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    let overlap = body.overlap_seconds.unwrap_or(limits::ROTATION_OVERLAP_DEFAULT.as_secs());
    let mut checks = Checks::default();
    checks.range("/overlap_seconds", overlap, 0..=limits::ROTATION_OVERLAP_MAX.as_secs());
    if let Some(Err(error)) = body.secret.as_deref().map(str::parse::<SigningSecret>) {
        checks.refuse("/secret", "invalid_secret", error.to_string());
    }
    checks.done()?;
    let secret = given_or_new(body.secret.as_deref(), &*app.dice)?;
    let key = app.data_key(account).await?;
    let until = app.now().plus(Duration::from_secs(overlap));
    let destination = change(&app, &ctx, id, &if_match, |destination| {
        let current = seal(&secret, id, &key, &*app.dice);
        let old = std::mem::replace(&mut destination.secret, Secrets { current, previous: None }).current;
        destination.secret.previous = (overlap > 0).then_some(Previous { secret: old, until });
        Ok(true)
    })
    .await?;
    let mut shown = read::show_destination(&app, &destination).await?;
    shown.view = views::revealing(shown.view, &secret.expose());
    Ok(Versioned::ok(shown))
}

/// The caller's own secret, checked before, or a new one.
pub(super) fn given_or_new(given: Option<&str>, dice: &dyn Dice) -> Result<SigningSecret, ApiError> {
    if let Some(text) = given {
        return text.parse().map_err(|error: domain::signature::SecretError| {
            ApiError::invalid_field("/secret", "invalid_secret", error.to_string())
        });
    }
    let mut bytes = Zeroizing::new([0u8; SECRET_BYTES]);
    dice.fill(bytes.as_mut());
    SigningSecret::from_bytes(bytes.as_ref()).map_err(ApiError::from_bug)
}

pub(super) fn seal(secret: &SigningSecret, id: DestinationId, key: &DataKey, dice: &dyn Dice) -> Sealed {
    key.seal(&Destination::secret_place(id), secret.expose().as_bytes(), dice)
}
