//! A destination's signing secret and its key pair: made, sealed, revealed and rotated. The private part of a pair is never
//! shown: receivers need the public one.

use super::change;
use crate::{
    app::App,
    auth::AccountCtx,
    changes::{IfMatch, IfMatchParam, Versioned},
    error::ApiError,
    json,
    optional_body::OptionalBody,
    path::Id,
    problems, read,
    validate::Checks,
    views,
};
use axum::{Json, extract::State, response::IntoResponse};
use contract::{DestinationView, RotateSecret, RotatedKey, SecretView, schema};
use domain::{
    account::Scope,
    destination::{Destination, KeptKeyPair, Previous, PreviousKeyPair, Signing},
    dice::Dice,
    id::DestinationId,
    limits,
    seal::{DataKey, Sealed},
    signature::{
        SigningSecret,
        key_pair::{KeyError, KeyPair, SEED_BYTES},
    },
};
use http::header;
use serde_json::{Map, Value};
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

/// Give a destination a new signing secret, or a new key pair. The old one signs as well for a while. Scope
/// `destinations:write`.
#[utoipa::path(
    post, path = "/v1/destinations/{id}/rotate-secret", operation_id = "rotate_destination_secret", tag = "destinations",
    params(("id" = schema::DestinationRef, Path), IfMatchParam), request_body = Option<RotateSecret>,
    responses(
        (status = 200, description = "With the new secret in `signing.secret`, or the new public key in `signing.public_key`.",
         body = DestinationView),
        problems::SwitchingWith,
    ),
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    ctx: AccountCtx,
    Id(id): Id<DestinationId>,
    if_match: IfMatch,
    OptionalBody(body): OptionalBody<Map<String, Value>>,
) -> Result<Versioned<DestinationView>, ApiError> {
    let account = ctx.require(Scope::DestinationsWrite)?;
    let body: RotateSecret = json::from_value(Value::Object(body))?;
    let overlap = body.overlap_seconds.unwrap_or(limits::ROTATION_OVERLAP_DEFAULT.as_secs());
    let mut checks = Checks::default();
    checks.range("/overlap_seconds", overlap, 0..=limits::ROTATION_OVERLAP_MAX.as_secs());
    checks.done()?;
    let key = app.data_key(account).await?;
    let until = app.now().plus(Duration::from_secs(overlap));
    if body.which == Some(RotatedKey::KeyPair) {
        let pair = given_or_new_pair(body.secret.as_deref(), &*app.dice)?;
        let destination = change(&app, &ctx, id, &if_match, |destination| {
            let secret = &mut destination.secret;
            let old = secret.key_pair.replace(seal_pair(&pair, id, &key, &*app.dice));
            let old = old.filter(|_| overlap > 0);
            secret.previous_key_pair = old.map(|pair| PreviousKeyPair { pair, until });
            Ok(true)
        })
        .await?;
        return Ok(Versioned::ok(read::show_destination(&app, &destination).await?));
    }
    let secret = given_or_new(body.secret.as_deref(), &*app.dice)?;
    let destination = change(&app, &ctx, id, &if_match, |destination| {
        let refused = |detail| ApiError::invalid_field("/secret", "invalid_secret", detail);
        destination.signing.scheme.check_secret(&secret).map_err(refused)?;
        let current = seal(&secret, id, &key, &*app.dice);
        let secrets = &mut destination.secret;
        let old = std::mem::replace(&mut secrets.current, current);
        secrets.previous = (overlap > 0).then_some(Previous { secret: old, until });
        Ok(true)
    })
    .await?;
    let mut shown = read::show_destination(&app, &destination).await?;
    shown.view = views::revealing(shown.view, &secret);
    Ok(Versioned::ok(shown))
}

/// The caller's own secret, which its scheme has a word in, or a new one that is fit for all of them.
pub(super) fn given_or_new(given: Option<&str>, dice: &dyn Dice) -> Result<Zeroizing<String>, ApiError> {
    if let Some(text) = given {
        return Ok(Zeroizing::new(text.to_owned()));
    }
    let mut bytes = Zeroizing::new([0u8; SECRET_BYTES]);
    dice.fill(bytes.as_mut());
    SigningSecret::from_bytes(bytes.as_ref()).map(|secret| secret.expose()).map_err(ApiError::from_bug)
}

fn given_or_new_pair(given: Option<&str>, dice: &dyn Dice) -> Result<KeyPair, ApiError> {
    if let Some(text) = given {
        let refused =
            |error: KeyError| ApiError::invalid_field("/secret", "invalid_secret", error.to_string());
        return text.parse().map_err(refused);
    }
    let mut seed = Zeroizing::new([0u8; SEED_BYTES]);
    dice.fill(seed.as_mut());
    Ok(KeyPair::from_seed(&seed))
}

pub(super) fn seal(secret: &str, id: DestinationId, key: &DataKey, dice: &dyn Dice) -> Sealed {
    key.seal(&Destination::secret_place(id), secret.as_bytes(), dice)
}

fn seal_pair(pair: &KeyPair, id: DestinationId, key: &DataKey, dice: &dyn Dice) -> KeptKeyPair {
    let private = key.seal(&Destination::key_pair_place(id), pair.expose().as_bytes(), dice);
    KeptKeyPair { private, public: pair.public().to_string() }
}

/// A destination that is to sign by Ed25519 has something to sign with.
pub(super) fn add_key_pair(destination: &mut Destination, key: &DataKey, dice: &dyn Dice) {
    if !destination.signing.ed25519 || destination.secret.key_pair.is_some() {
        return;
    }
    let mut seed = Zeroizing::new([0u8; SEED_BYTES]);
    dice.fill(seed.as_mut());
    let pair = KeyPair::from_seed(&seed);
    destination.secret.key_pair = Some(seal_pair(&pair, destination.id, key, dice));
}

/// Whether a destination has what it takes to sign like this. Both are `/signing/…` of whatever asks for it.
pub(crate) fn check_fits(
    destination: &Destination,
    signing: &Signing,
    key: &DataKey,
) -> Result<(), ApiError> {
    if signing.ed25519 && destination.secret.key_pair.is_none() {
        let detail = "the destination has no key pair: set `signing.ed25519` of it, or make one by POST …/rotate-secret with \
                      `\"which\":\"key_pair\"`";
        return Err(ApiError::invalid_field("/signing/ed25519", "no_key_pair", detail));
    }
    let place = Destination::secret_place(destination.id);
    let secret = key.open(&place, &destination.secret.current).map_err(ApiError::from_bug)?;
    let secret = std::str::from_utf8(&secret).map_err(ApiError::from_bug)?;
    signing.scheme.check_secret(secret).map_err(|what| {
        let detail = format!(
            "the destination's secret is not fit for this scheme ({what}): change it first, by POST …/rotate-secret"
        );
        ApiError::invalid_field("/signing/scheme", "secret_unfit", detail)
    })
}
