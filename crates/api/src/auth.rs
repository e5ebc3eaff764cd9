//! Which key asks. Handlers learn it from an [`AccountCtx`] or an [`OperatorCtx`], which only this module can make.
//!
//! A presented key is parsed, its checksum is checked (fakes cost no lookup), it is looked up through a cache of half a
//! second, and its secret's hash is compared in constant time, against a dummy if there is no such key. What is none is
//! counted by the address it came from (`guesses.rs`), and answered alike whether its lookup exists or not.

use crate::{
    app::App,
    cache::Cache,
    client_address::ClientAddress,
    error::ApiError,
    keys::{LOOKUP_LENGTH, PresentedKey},
    place::Place,
    rate::{RateMeter, RateMeters},
    router::ListenAddress,
};
use axum::extract::FromRequestParts;
use domain::{
    account::{ApiKey, KeyKind, Scope},
    id::{AccountId, ApiKeyId, SourceId},
    limits,
    time::Timestamp,
};
use http::{HeaderMap, HeaderValue, header, request};
use ingest::bounded_lookup;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use store::Catalog;
use subtle::ConstantTimeEq;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A caller that acts for an account, within the scopes of its key.
#[derive(Debug, Clone)]
pub struct AccountCtx {
    account_id: AccountId,
    key: Arc<KnownKey>,
    /// Of the requests under way, for as long as the handler has this.
    _place: Option<Place>,
}

impl AccountCtx {
    pub fn account_id(&self) -> AccountId {
        self.account_id
    }

    /// For what goes on for long: it is bounded by itself, and takes no place from other requests.
    pub(crate) fn without_place(self) -> Self {
        Self { _place: None, ..self }
    }

    pub fn key_id(&self) -> ApiKeyId {
        self.key.key.id
    }

    pub fn scopes(&self) -> &[Scope] {
        &self.key.key.scopes
    }

    pub fn has(&self, scope: Scope) -> bool {
        self.scopes().contains(&scope)
    }

    /// Whether the key has been revoked or has expired meanwhile. A store that is away says nothing about it.
    pub(crate) async fn is_revoked(&self, app: &App) -> bool {
        let Ok(lookup) = self.key.key.lookup.as_bytes().try_into() else { return true };
        let known = match app.keys.known.get(lookup) {
            Some(known) => Ok(known),
            None => app.keys.read(&*app.store, lookup).await,
        };
        match known {
            Ok(Some(known)) => known.key.id != self.key.key.id || known.usable(app.now()).is_err(),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// The account, or 403 unless the key has this scope.
    pub fn require(&self, scope: Scope) -> Result<AccountId, ApiError> {
        if self.has(scope) {
            return Ok(self.account_id);
        }
        Err(ApiError::scope_missing(format!("the API key lacks the scope `{}`", scope.as_str())))
    }
}

/// A caller that runs the installation.
#[derive(Debug, Clone)]
pub struct OperatorCtx {
    key_id: ApiKeyId,
}

impl OperatorCtx {
    pub fn key_id(&self) -> ApiKeyId {
        self.key_id
    }
}

/// An account's key or an operator's.
#[derive(Debug, Clone)]
pub enum Caller {
    Account(AccountCtx),
    Operator(OperatorCtx),
}

/// A caller that may bring events in: an account's key with `ingest:write`, or a key bound to one source.
#[derive(Debug, Clone)]
pub(crate) struct PublishCtx {
    pub(crate) account_id: AccountId,
    /// Events of a key that is bound to a source are that source's.
    pub(crate) source_id: Option<SourceId>,
    /// The limits of the key, and of its source.
    pub(crate) meters: RateMeters,
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let key = authenticate(app, parts).await?;
        match (key.key.kind, key.key.account_id) {
            (KeyKind::Account, Some(account_id)) => {
                // Whose share of the node the body takes, which is read after this.
                parts.extensions.insert(account_id);
                let place = Place::take(&app.requests, account_id).await?;
                parts.extensions.insert(place.clone());
                Ok(Self::Account(AccountCtx { account_id, key, _place: Some(place) }))
            }
            (KeyKind::Operator, _) => Ok(Self::Operator(OperatorCtx { key_id: key.key.id })),
            _ => Err(ApiError::scope_missing("an ingest key can only bring events in")),
        }
    }
}

impl FromRequestParts<App> for AccountCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        match Caller::from_request_parts(parts, app).await? {
            Caller::Account(ctx) => Ok(ctx),
            Caller::Operator(_) => {
                Err(ApiError::scope_missing("this needs the key of an account, not an operator's"))
            }
        }
    }
}

impl FromRequestParts<App> for OperatorCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let key = authenticate(app, parts).await?;
        match key.key.kind {
            KeyKind::Operator => Ok(Self { key_id: key.key.id }),
            _ => Err(ApiError::scope_missing("this needs an operator's key")),
        }
    }
}

impl FromRequestParts<App> for PublishCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let key = authenticate(app, parts).await?;
        let meter = RateMeter::of_key(key.key.id.uuid(), key.key.rate_limit);
        match (key.key.kind, key.key.account_id, key.key.source_id) {
            (KeyKind::Account, Some(account_id), _) => {
                AccountCtx { account_id, key, _place: None }.require(Scope::IngestWrite)?;
                Ok(Self { account_id, source_id: None, meters: RateMeters::new(meter, None) })
            }
            (KeyKind::Ingest, Some(account_id), Some(source_id)) => {
                let source = app.open_source(account_id, source_id).await?;
                let meters = RateMeters::new(meter, source.meter());
                Ok(Self { account_id, source_id: Some(source_id), meters })
            }
            _ => Err(ApiError::scope_missing("this needs the key of an account or of a source")),
        }
    }
}

async fn authenticate(app: &App, parts: &request::Parts) -> Result<Arc<KnownKey>, ApiError> {
    let presented = bearer(&parts.headers)?;
    let client = ClientAddress::noted(&parts.extensions);
    let wrong = |detail| app.guesses.wrong(client, refuse(detail));
    let presented = PresentedKey::parse(presented).ok_or_else(|| wrong("the API key is malformed"))?;
    let known = app.presented_key(presented.lookup, client).await?;
    let expected = known.as_ref().map_or(&[0; 32][..], |known| &known.key.hash);
    let same = bool::from(app.secrets.hash(presented.secret.as_bytes())[..].ct_eq(expected));
    let now = app.now();
    match known {
        Some(known) if same && known.key.kind == presented.kind => {
            known.usable(now)?;
            if known.key.kind == KeyKind::Operator && parts.extensions.get() == Some(&ListenAddress::Public) {
                return Err(refuse("an operator's key is taken on the admin address only"));
            }
            app.keys.used(&known, now);
            Ok(known)
        }
        _ => Err(wrong("there is no such API key")),
    }
}

impl App {
    async fn presented_key(
        &self,
        lookup: &[u8; LOOKUP_LENGTH],
        client: ClientAddress,
    ) -> Result<Option<Arc<KnownKey>>, ApiError> {
        let keys = &self.keys;
        if let Some(known) = keys.known.get(lookup) {
            return Ok(known);
        }
        let is_new = keys.known.last(lookup).flatten().is_none();
        self.guesses.find(client, is_new, keys.read(&*self.store, lookup)).await
    }
}

/// Whose key that is, if it is an account's: for bookkeeping, after the request was let in.
pub(crate) async fn account_behind(app: &App, shown: Option<HeaderValue>) -> Option<AccountId> {
    let shown = shown?;
    let presented = PresentedKey::parse(key_in(&shown).ok()?)?;
    let known = match app.keys.known.get(presented.lookup) {
        Some(known) => known,
        None => app.keys.read(&*app.store, presented.lookup).await.ok()?,
    };
    known?.key.account_id
}

fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(refuse("send `Authorization: Bearer` with an API key"));
    };
    key_in(value)
}

fn key_in(value: &HeaderValue) -> Result<&str, ApiError> {
    let (scheme, key) = value.to_str().ok().and_then(|text| text.split_once(' ')).unwrap_or_default();
    if scheme.eq_ignore_ascii_case("bearer") {
        Ok(key.trim())
    } else {
        Err(refuse("the scheme must be Bearer"))
    }
}

fn refuse(detail: &'static str) -> ApiError {
    ApiError::unauthorized(detail)
}

/// A key as it was less than a second ago.
#[derive(Debug)]
pub(crate) struct KnownKey {
    key: ApiKey,
    /// It is to be noted that it was used.
    noted: AtomicBool,
}

impl KnownKey {
    fn usable(&self, now: Timestamp) -> Result<(), ApiError> {
        if self.key.revoked_at.is_some() {
            return Err(refuse("the API key has been revoked"));
        }
        if self.key.expires_at.is_some_and(|until| until <= now) {
            return Err(refuse("the API key has expired"));
        }
        Ok(())
    }
}

/// The keys seen lately, and those that were not there: a fake costs a lookup in half a second, not one each.
pub(crate) struct Keys {
    known: Cache<[u8; LOOKUP_LENGTH], Option<Arc<KnownKey>>>,
    touched: mpsc::Sender<ApiKeyId>,
}

impl Keys {
    pub(crate) fn new() -> (Self, mpsc::Receiver<ApiKeyId>) {
        let (touched, receiver) = mpsc::channel(limits::KEYS_TOUCHED);
        (Self { known: Cache::of_credentials(limits::KEYS_CACHED), touched }, receiver)
    }

    async fn read(
        &self,
        store: &dyn Catalog,
        lookup: &[u8; LOOKUP_LENGTH],
    ) -> Result<Option<Arc<KnownKey>>, ApiError> {
        let text = std::str::from_utf8(lookup).expect("a lookup is base62");
        let found = bounded_lookup(store.api_key_by_lookup(text)).await?;
        let known = found.map(|key| Arc::new(KnownKey { key, noted: AtomicBool::new(false) }));
        self.known.put(*lookup, known.clone());
        Ok(known)
    }

    pub(crate) fn forget(&self, id: ApiKeyId) {
        self.known.retain(|_, known| known.as_ref().is_none_or(|known| known.key.id != id));
    }

    /// Notes the use if the last one is a minute old. A full channel loses a note, and nothing else.
    fn used(&self, known: &KnownKey, now: Timestamp) {
        let fresh = known.key.last_used_at.is_some_and(|at| now.since(at) < limits::KEY_USE_NOTED);
        if !fresh && !known.noted.swap(true, Ordering::Relaxed) {
            let _ = self.touched.try_send(known.key.id);
        }
    }
}

/// Writes down when keys were used; no request waits for it.
pub(crate) async fn note_use(app: &App, touched: &mut mpsc::Receiver<ApiKeyId>, stop: CancellationToken) {
    supervisor::failpoint();
    while let Some(Some(id)) = stop.run_until_cancelled(touched.recv()).await {
        supervisor::failpoint();
        if let Err(error) = app.store.touch_api_key(id, app.now()).await {
            tracing::debug!(key_id = %id, %error, "the use of an API key could not be noted");
        }
    }
}
