//! Which key asks, or whose session (`session.rs`) stands in for one. Handlers learn it from an [`AccountCtx`] or an [`OperatorCtx`], which only this module can make.
//!
//! A presented key is parsed, its checksum is checked (fakes cost no lookup), it is looked up through a cache of half a
//! second, and its secret's hash is compared in constant time, against a dummy if there is no such key. What is none is
//! counted by the address it came from (`guesses.rs`), and answered alike whether its lookup exists or not: it costs a
//! read too, though the key is in the cache because its owner uses it.

use crate::{
    app::App,
    audit::{AuditOrigin, refusals::Recognised},
    cache::Cache,
    client_address::ClientAddress,
    error::ApiError,
    keys::{LOOKUP_LENGTH, PresentedKey},
    place::Place,
    rate::{RateMeter, RateMeters},
    router::ListenAddress,
    session::{self, BySession, KnownSession},
};
use axum::extract::FromRequestParts;
use domain::{
    account::{ApiKey, KeyKind, Scope},
    audit::{Actor, AuditEntry},
    id::{AccountId, ApiKeyId, SessionId, SourceId},
    limits,
    session::Holder,
    time::Timestamp,
};
use http::{HeaderMap, HeaderName, HeaderValue, header, request};
use ingest::bounded_lookup;
use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use store::Catalog;
use subtle::ConstantTimeEq;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Names the account that an operator acts for.
const POSTHASTE_ACCOUNT: HeaderName = HeaderName::from_static("posthaste-account");

/// A caller that acts for an account, within the scopes of its key.
#[derive(Debug, Clone)]
pub struct AccountCtx {
    account_id: AccountId,
    credential: Credential,
    origin: AuditOrigin,
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

    /// The key or the user that asks.
    pub fn holder(&self) -> Holder {
        self.credential.holder()
    }

    pub fn scopes(&self) -> &[Scope] {
        self.credential.scopes()
    }

    pub fn has(&self, scope: Scope) -> bool {
        self.scopes().contains(&scope)
    }

    /// Whether the key has been revoked or has expired meanwhile, or the session is over. A store that is away says
    /// nothing about it.
    pub(crate) async fn is_revoked(&self, app: &App) -> bool {
        let key = match &self.credential {
            Credential::Key(known) => &known.key,
            Credential::Session(known) => return session::is_over(app, known).await,
        };
        let Ok(lookup) = key.lookup.as_bytes().try_into() else { return true };
        let known = match app.keys.known.get(lookup) {
            Some(known) => Ok(known),
            None => app.keys.read(&*app.store, lookup).await,
        };
        match known {
            Ok(Some(known)) => known.key.id != key.id || known.usable(app.now()).is_err(),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// The account, or 403 unless the key has this scope.
    pub fn require(&self, scope: Scope) -> Result<AccountId, ApiError> {
        self.credential.require(scope).map(|()| self.account_id)
    }

    pub(crate) fn origin(&self) -> &AuditOrigin {
        &self.origin
    }

    /// What the audit log is to say of this request.
    pub(crate) fn entry(&self, app: &App, object_id: impl Display, difference: Option<String>) -> AuditEntry {
        self.origin.entry(app, object_id, difference)
    }
}

/// A caller that runs the installation.
#[derive(Debug, Clone)]
pub struct OperatorCtx {
    origin: AuditOrigin,
}

impl OperatorCtx {
    fn new(credential: &Credential, parts: &request::Parts) -> Self {
        Self { origin: AuditOrigin::of(parts, credential.actor()) }
    }

    pub(crate) fn origin(&self) -> &AuditOrigin {
        &self.origin
    }

    /// What the audit log is to say of this request.
    pub(crate) fn entry(&self, app: &App, object_id: impl Display, difference: Option<String>) -> AuditEntry {
        self.origin.entry(app, object_id, difference)
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
        let credential = authenticate(app, parts).await?;
        let acts_for = acts_for(app, parts, &credential).await?;
        match (credential.kind(), acts_for.or(credential.account_id())) {
            (KeyKind::Account | KeyKind::Operator, Some(account_id)) => {
                // Whose share of the node the body takes, which is read after this.
                parts.extensions.insert(account_id);
                let place = Place::take(&app.requests, account_id).await?;
                parts.extensions.insert(place.clone());
                let origin = AuditOrigin::of(parts, credential.actor());
                Ok(Self::Account(AccountCtx { account_id, credential, origin, _place: Some(place) }))
            }
            (KeyKind::Operator, _) => Ok(Self::Operator(OperatorCtx::new(&credential, parts))),
            _ => Err(ApiError::scope_missing("an ingest key can only bring events in")),
        }
    }
}

impl FromRequestParts<App> for AccountCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        match Caller::from_request_parts(parts, app).await? {
            Caller::Account(ctx) => Ok(ctx),
            Caller::Operator(_) => Err(no_account()),
        }
    }
}

impl FromRequestParts<App> for OperatorCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let credential = authenticate(app, parts).await?;
        let names_account = parts
            .headers
            .get(POSTHASTE_ACCOUNT)
            .is_some_and(|named| !(named.is_empty() && matches!(credential, Credential::Session(_))));
        match credential.kind() {
            KeyKind::Operator if names_account => Err(ApiError::invalid_header(
                "this is about the installation: `Posthaste-Account` has no meaning here, leave it out",
            )),
            KeyKind::Operator => Ok(Self::new(&credential, parts)),
            _ => Err(ApiError::scope_missing("this needs an operator's key")),
        }
    }
}

impl FromRequestParts<App> for PublishCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let credential = authenticate(app, parts).await?;
        let acts_for = acts_for(app, parts, &credential).await?;
        let key = credential.key();
        let meter = RateMeter::of_key(credential.holder().uuid(), key.and_then(|key| key.rate_limit));
        let account = acts_for.or(credential.account_id());
        match (credential.kind(), account, key.and_then(|key| key.source_id)) {
            (KeyKind::Account | KeyKind::Operator, Some(account_id), _) => {
                credential.require(Scope::IngestWrite)?;
                Ok(Self { account_id, source_id: None, meters: RateMeters::new(meter, None) })
            }
            (KeyKind::Ingest, Some(account_id), Some(source_id)) => {
                let source = app.open_source(account_id, source_id).await?;
                let meters = RateMeters::new(meter, source.meter());
                Ok(Self { account_id, source_id: Some(source_id), meters })
            }
            (KeyKind::Operator, None, _) => Err(no_account()),
            _ => Err(ApiError::scope_missing("this needs the key of an account or of a source")),
        }
    }
}

async fn authenticate(app: &App, parts: &request::Parts) -> Result<Credential, ApiError> {
    if parts.extensions.get::<BySession>().is_some() {
        return session::authenticate(app, parts).await.map(Credential::Session);
    }
    let presented = bearer(&parts.headers)?;
    let client = ClientAddress::noted(&parts.extensions);
    let wrong = |detail| app.guesses.wrong(client, refuse(detail));
    let presented = PresentedKey::parse(presented).ok_or_else(|| wrong("the API key is malformed"))?;
    let known = app.presented_key(&presented, client).await?;
    let known = known.ok_or_else(|| wrong("there is no such API key"))?;
    let now = app.now();
    if let Some(recognised) = parts.extensions.get::<Recognised>() {
        recognised.as_key_of(known.key.account_id);
    }
    known.usable(now)?;
    if known.key.kind == KeyKind::Operator && parts.extensions.get() == Some(&ListenAddress::Public) {
        return Err(refuse("an operator's key is taken on the admin address only"));
    }
    app.keys.used(&known, now);
    Ok(Credential::Key(known))
}

/// Who asks.
#[derive(Debug, Clone)]
enum Credential {
    Key(Arc<KnownKey>),
    Session(Arc<KnownSession>),
}

impl Credential {
    /// A session has that of the key it stands in for. A user that is no operator is to an account what its key is.
    fn kind(&self) -> KeyKind {
        match self {
            Self::Key(known) => known.key.kind,
            Self::Session(known) => known.kind(),
        }
    }

    fn key(&self) -> Option<&ApiKey> {
        match self {
            Self::Key(known) => Some(&known.key),
            Self::Session(known) => known.key(),
        }
    }

    /// The account that is meant where none is named.
    fn account_id(&self) -> Option<AccountId> {
        match self {
            Self::Key(known) => known.key.account_id,
            Self::Session(known) => known.account_id(),
        }
    }

    fn scopes(&self) -> &[Scope] {
        match self {
            Self::Key(known) => scopes_of(&known.key),
            Self::Session(known) => known.scopes(),
        }
    }

    fn actor(&self) -> Actor {
        match self {
            Self::Key(known) => actor_of(&known.key),
            Self::Session(known) => known.actor(),
        }
    }

    fn holder(&self) -> Holder {
        match self {
            Self::Key(known) => Holder::Key(known.key.id),
            Self::Session(known) => known.holder(),
        }
    }

    /// 403 unless it has this scope.
    fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes().contains(&scope) {
            return Ok(());
        }
        let lacks = match self.holder() {
            Holder::Key(_) => "the API key lacks",
            Holder::User(_) => "the role lacks",
        };
        Err(ApiError::scope_missing(format!("{lacks} the scope `{}`", scope.as_str())))
    }
}

/// The account that an operator acts for: named by its id or its uid, and an id counts first. A user may name one of its
/// own. With a session an empty name is none.
async fn acts_for(
    app: &App,
    parts: &request::Parts,
    credential: &Credential,
) -> Result<Option<AccountId>, ApiError> {
    let mut named = parts.headers.get_all(POSTHASTE_ACCOUNT).iter();
    let (named, None) = (named.next(), named.next()) else {
        return Err(ApiError::invalid_header("`posthaste-account` names one account"));
    };
    let Some(named) = named else { return Ok(None) };
    let own = match credential {
        Credential::Session(_) if named.is_empty() => return Ok(None),
        Credential::Session(known) => known.own_accounts(),
        Credential::Key(_) => None,
    };
    if credential.kind() != KeyKind::Operator && own.is_none() {
        let detail =
            "this key acts for its own account: leave `posthaste-account` out, or use an operator's key";
        return Err(ApiError::scope_missing(detail));
    }
    let named =
        named.to_str().map_err(|_| ApiError::invalid_header("`posthaste-account` is an id or a uid"))?;
    let account = named_account(app, named).await?;
    if own.is_some_and(|own| !own.contains(&account)) {
        return Err(ApiError::no_such("account"));
    }
    if let Some(recognised) = parts.extensions.get::<Recognised>() {
        recognised.acting_for(account);
    }
    Ok(Some(account))
}

/// By its id or its uid.
pub(crate) async fn named_account(app: &App, named: &str) -> Result<AccountId, ApiError> {
    match named.parse() {
        Ok(id) if app.acted_for.get(&id).is_some() => Ok(id),
        Ok(id) => {
            let found = bounded_lookup(app.store.account(id)).await?;
            app.acted_for.put(found.id, ());
            Ok(found.id)
        }
        Err(_) => {
            let found = bounded_lookup(app.store.account_by_uid(named)).await?;
            Ok(found.ok_or_else(|| ApiError::no_such("account"))?.id)
        }
    }
}

/// 400: an operator who does not say for whom.
fn no_account() -> ApiError {
    ApiError::invalid_header(
        "this is about an account: name the one you act for by its id or uid in the header `Posthaste-Account`",
    )
}

impl App {
    /// The key that was presented; None if it is none.
    pub(crate) async fn presented_key(
        &self,
        presented: &PresentedKey<'_>,
        client: ClientAddress,
    ) -> Result<Option<Arc<KnownKey>>, ApiError> {
        let (keys, lookup) = (&self.keys, presented.lookup);
        let hash = self.secrets.hash(presented.secret.as_bytes());
        let if_right = |known: Option<Arc<KnownKey>>| {
            let expected = known.as_ref().map_or(&[0; 32][..], |known| &known.key.hash);
            let same = bool::from(hash[..].ct_eq(expected));
            known.filter(|known| same && known.key.kind == presented.kind)
        };
        if let Some(known) = keys.known.get(lookup) {
            let right = if_right(known);
            if right.is_some() || keys.missed.get(lookup).is_some() {
                return Ok(right);
            }
        }
        let is_new = if_right(keys.known.last(lookup).flatten()).is_none();
        let read = async { keys.read(&*self.store, lookup).await.map(if_right) };
        let found = self.guesses.find(client, is_new, read).await?;
        if found.is_none() {
            keys.missed.put(*lookup, ());
        }
        Ok(found)
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
    pub(crate) key: ApiKey,
    /// It is to be noted that it was used.
    noted: AtomicBool,
}

/// An operator may do in an account whatever a key of its own may.
pub(crate) fn scopes_of(key: &ApiKey) -> &[Scope] {
    match key.kind {
        KeyKind::Operator => &Scope::ALL,
        KeyKind::Account | KeyKind::Ingest => &key.scopes,
    }
}

pub(crate) fn actor_of(key: &ApiKey) -> Actor {
    match key.kind {
        KeyKind::Operator => Actor::Operator(key.id),
        KeyKind::Account | KeyKind::Ingest => Actor::Key(key.id),
    }
}

/// 401 of a key that has been revoked, or has expired.
pub(crate) fn key_usable(key: &ApiKey, now: Timestamp) -> Result<(), ApiError> {
    if key.revoked_at.is_some() {
        return Err(refuse("the API key has been revoked"));
    }
    if key.expires_at.is_some_and(|until| until <= now) {
        return Err(refuse("the API key has expired"));
    }
    Ok(())
}

impl KnownKey {
    fn usable(&self, now: Timestamp) -> Result<(), ApiError> {
        key_usable(&self.key, now)
    }
}

/// The keys seen lately, and those that were not there: a fake costs a lookup in half a second, not one each.
pub(crate) struct Keys {
    known: Cache<[u8; LOOKUP_LENGTH], Option<Arc<KnownKey>>>,
    /// Those that were presented with a wrong secret lately, or that were not there.
    missed: Cache<[u8; LOOKUP_LENGTH], ()>,
    touched: mpsc::Sender<Used>,
}

impl Keys {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Used>) {
        let (touched, receiver) = mpsc::channel(limits::KEYS_TOUCHED);
        let known = Cache::of_credentials(limits::KEYS_CACHED);
        let missed = Cache::new(limits::KEYS_CACHED, limits::CREDENTIAL_FRESH);
        (Self { known, missed, touched }, receiver)
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
            self.note(Used::Key(known.key.id));
        }
    }

    pub(crate) fn note(&self, used: Used) {
        let _ = self.touched.try_send(used);
    }
}

/// What was used, and is to be noted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Used {
    Key(ApiKeyId),
    Session(SessionId),
}

/// Writes down when keys and sessions were used; no request waits for it.
pub(crate) async fn note_use(app: &App, touched: &mut mpsc::Receiver<Used>, stop: CancellationToken) {
    supervisor::failpoint();
    while let Some(Some(used)) = stop.run_until_cancelled(touched.recv()).await {
        supervisor::failpoint();
        let noted = match used {
            Used::Key(id) => app.store.touch_api_key(id, app.now()).await,
            Used::Session(id) => app.store.touch_session(id, app.now()).await,
        };
        if let Err(error) = noted {
            tracing::debug!(?used, %error, "the use of an API key or a session could not be noted");
        }
    }
}
