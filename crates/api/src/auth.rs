//! Which key asks, or whose session (`session.rs`) stands in for one. Handlers learn it from an [`AccountCtx`], an
//! [`OperatorCtx`] or a [`TenantsCtx`], which only this module can make.
//!
//! A presented key is parsed, its checksum is checked (fakes cost no lookup), it is looked up through a cache of half a
//! second, and its secret's hash is compared in constant time, against a dummy if there is no such key. What is none is
//! counted by the address it came from (`guesses.rs`), and answered alike whether its lookup exists or not: it costs a
//! read too, though the key is in the cache because its owner uses it.

#[cfg(test)]
mod timing;

use crate::{
    app::App,
    audit::{AuditOrigin, refusals::Recognised},
    cache::Cache,
    client_address::ClientAddress,
    error::ApiError,
    keys::{LOOKUP_LENGTH, PresentedKey},
    place::Place,
    query::Parameters,
    rate::{RateMeter, RateMeters},
    refused,
    router::ListenAddress,
    session::{self, BySession, KnownSession},
    validate::is_uid,
};
use axum::extract::FromRequestParts;
use domain::{
    account::{ApiKey, KeyKind, Scope},
    audit::{Actor, AuditEntry},
    id::{AccountId, ApiKeyId, SessionId, SourceId, looks_like_id},
    limits,
    refused_request::RefusedRequest,
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
use store::{Catalog, StoreError};
use subtle::ConstantTimeEq;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Names the account that an operator or a platform acts for.
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

    /// It acts for an account that is not its own, and is no operator.
    pub(crate) fn is_platform(&self) -> bool {
        self.credential.kind() == KeyKind::Platform
    }

    pub fn scopes(&self) -> &[Scope] {
        self.credential.scopes()
    }

    pub fn has(&self, scope: Scope) -> bool {
        self.scopes().contains(&scope)
    }

    /// Whether the key has been revoked or has expired meanwhile, the session is over, or the account was deleted. A store
    /// that is away says nothing about it.
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
            Ok(Some(known)) if known.key.id != key.id || known.usable(app.now()).is_err() => true,
            // An operator's outlives the account that it acts for.
            Ok(Some(_)) => {
                matches!(app.store.account(self.account_id).await, Err(StoreError::NotFound { .. }))
            }
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// The account, or 403 unless the caller may see how its deliveries are signed: by the scope for secrets, or by a portal
    /// link, which shows these alone of all that is secret.
    pub(crate) fn require_signing_secrets(&self) -> Result<AccountId, ApiError> {
        match &self.credential {
            Credential::Session(known) if known.reveals_signing_secrets() => Ok(self.account_id),
            _ => self.require(Scope::SecretsReveal),
        }
    }

    /// The account, or 403 unless the key has this scope.
    pub fn require(&self, scope: Scope) -> Result<AccountId, ApiError> {
        self.credential.require(scope).map(|()| self.account_id)
    }

    /// The key that asks, or whose session does; None of a user.
    pub(crate) fn key(&self) -> Option<&ApiKey> {
        self.credential.key()
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
    credential: Credential,
    origin: AuditOrigin,
}

impl OperatorCtx {
    fn new(credential: Credential, parts: &request::Parts) -> Self {
        let origin = AuditOrigin::of(parts, credential.actor());
        Self { credential, origin }
    }

    /// The key that asks, or whose session does; None of a user.
    pub(crate) fn key(&self) -> Option<&ApiKey> {
        self.credential.key()
    }

    pub(crate) fn origin(&self) -> &AuditOrigin {
        &self.origin
    }

    /// What the audit log is to say of this request.
    pub(crate) fn entry(&self, app: &App, object_id: impl Display, difference: Option<String>) -> AuditEntry {
        self.origin.entry(app, object_id, difference)
    }
}

/// A caller that has to do with accounts as such: an operator, or a platform within its scopes.
#[derive(Debug, Clone)]
pub(crate) struct TenantsCtx {
    credential: Credential,
    origin: AuditOrigin,
}

impl TenantsCtx {
    /// The key or the user that asks.
    pub(crate) fn holder(&self) -> Holder {
        self.credential.holder()
    }

    /// 403 unless the key has this scope.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), ApiError> {
        self.credential.require(scope)
    }

    pub(crate) fn origin(&self) -> &AuditOrigin {
        &self.origin
    }

    /// What the audit log is to say of this request.
    pub(crate) fn entry(&self, app: &App, object_id: impl Display, difference: Option<String>) -> AuditEntry {
        self.origin.entry(app, object_id, difference)
    }
}

/// Whoever has a key that is more than one of a source.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A key of an account, or one that acts for it.
    Account(AccountCtx),
    Operator(OperatorCtx),
    /// A platform that does not say for whom it acts.
    Platform,
}

/// A caller that may bring events in: an account's key with `ingest:write`, or a key bound to one source.
#[derive(Debug, Clone)]
pub(crate) struct PublishCtx {
    pub(crate) account_id: AccountId,
    /// Events of a key that is bound to a source are that source's.
    pub(crate) source_id: Option<SourceId>,
    /// The limits of the key, and of its source.
    pub(crate) meters: RateMeters,
    /// The account is not there yet, and is to be made with its first event.
    pub(crate) new_account: Option<NewTenant>,
}

/// An account that was named by a uid that is new.
#[derive(Debug, Clone)]
pub(crate) struct NewTenant {
    pub(crate) uid: String,
    pub(crate) origin: AuditOrigin,
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let credential = authenticate(app, parts).await?;
        let acts_for = acts_for(app, parts, &credential).await?;
        match (credential.kind(), acts_for.or(credential.account_id())) {
            (KeyKind::Account | KeyKind::Operator | KeyKind::Platform, Some(account_id)) => {
                // Whose share of the node the body takes, which is read after this.
                parts.extensions.insert(account_id);
                let place = Place::take(&app.requests, account_id).await?;
                parts.extensions.insert(place.clone());
                let origin = AuditOrigin::of(parts, credential.actor());
                Ok(Self::Account(AccountCtx { account_id, credential, origin, _place: Some(place) }))
            }
            (KeyKind::Operator, None) => Ok(Self::Operator(OperatorCtx::new(credential, parts))),
            (KeyKind::Platform, None) => Ok(Self::Platform),
            _ => Err(ApiError::scope_missing("an ingest key can only bring events in")),
        }
    }
}

impl FromRequestParts<App> for AccountCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        match Caller::from_request_parts(parts, app).await? {
            Caller::Account(ctx) => Ok(ctx),
            Caller::Operator(_) | Caller::Platform => Err(no_account()),
        }
    }
}

impl FromRequestParts<App> for OperatorCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let credential = authenticate(app, parts).await?;
        match credential.kind() {
            KeyKind::Operator => {
                about_the_installation(parts, &credential).map(|()| Self::new(credential, parts))
            }
            _ => Err(ApiError::scope_missing("this needs an operator's key")),
        }
    }
}

impl FromRequestParts<App> for TenantsCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let credential = authenticate(app, parts).await?;
        if !credential.kind().is_of_installation() {
            return Err(ApiError::scope_missing("this needs a key of an operator or a platform"));
        }
        about_the_installation(parts, &credential)?;
        let origin = AuditOrigin::of(parts, credential.actor());
        Ok(Self { credential, origin })
    }
}

/// 400 for an account that is named where there is none to act for. With a session an empty name is none.
fn about_the_installation(parts: &request::Parts, credential: &Credential) -> Result<(), ApiError> {
    let is_session = matches!(credential, Credential::Session(_));
    let named = parts.headers.get(POSTHASTE_ACCOUNT);
    match named.is_some_and(|named| !(named.is_empty() && is_session)) {
        true => Err(ApiError::invalid_header(
            "this is about the installation: `Posthaste-Account` has no meaning here, leave it out",
        )),
        false => Ok(()),
    }
}

impl FromRequestParts<App> for PublishCtx {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, ApiError> {
        let credential = authenticate(app, parts).await?;
        let (acts_for, new_account) = match creates_account(parts)? {
            false => (acts_for(app, parts, &credential).await?, None),
            true => {
                credential.require(Scope::AccountsWrite)?;
                Box::pin(acts_for_new(app, parts, &credential)).await?
            }
        };
        let key = credential.key();
        let meter = RateMeter::of_key(credential.holder().uuid(), key.and_then(|key| key.rate_limit));
        let account = acts_for.or(credential.account_id());
        match (credential.kind(), account, key.and_then(|key| key.source_id)) {
            (KeyKind::Account | KeyKind::Operator | KeyKind::Platform, Some(account_id), _) => {
                credential.require(Scope::IngestWrite)?;
                let meters = RateMeters::new(meter, None);
                Ok(Self { account_id, source_id: None, meters, new_account })
            }
            (KeyKind::Ingest, Some(account_id), Some(source_id)) => {
                let source = app.open_source(account_id, source_id).await?;
                let meters = RateMeters::new(meter, source.meter());
                Ok(Self { account_id, source_id: Some(source_id), meters, new_account })
            }
            (KeyKind::Operator | KeyKind::Platform, None, _) => Err(no_account()),
            _ => Err(ApiError::scope_missing("this needs the key of an account or of a source")),
        }
    }
}

async fn authenticate(app: &App, parts: &request::Parts) -> Result<Credential, ApiError> {
    if parts.extensions.get::<BySession>().is_some() {
        let known = Box::pin(session::authenticate(app, parts)).await?;
        session::portal::check(&known, parts)?;
        return Ok(Credential::Session(known));
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
    key_allows(&known.key, client)?;
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
            Holder::PortalLink(_) => "the portal link lacks",
        };
        Err(ApiError::scope_missing(format!("{lacks} the scope `{}`", scope.as_str())))
    }
}

/// Whether `create_account=true` is asked for. Nearly always there is no query, and nothing to read.
fn creates_account(parts: &request::Parts) -> Result<bool, ApiError> {
    let Some(query) = parts.uri.query() else { return Ok(false) };
    match Parameters::of(Some(query)).take("create_account")?.as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(ApiError::invalid_field("/create_account", "invalid_value", "expected true or false")),
    }
}

/// The account that a key of the installation acts for: named by its id or its uid, and an id counts first. A user may name
/// one of its own.
async fn acts_for(
    app: &App,
    parts: &request::Parts,
    credential: &Credential,
) -> Result<Option<AccountId>, ApiError> {
    let Some(named) = named_account(parts, credential)? else { return Ok(None) };
    let account = find_account(app, named).await?.ok_or_else(|| ApiError::no_such("account"))?;
    if own_accounts(credential).is_some_and(|own| !own.contains(&account)) {
        return Err(ApiError::no_such("account"));
    }
    recognise(parts, account);
    Ok(Some(account))
}

/// The same; what has a uid that is new is to be made, under an id that it gets now.
async fn acts_for_new(
    app: &App,
    parts: &request::Parts,
    credential: &Credential,
) -> Result<(Option<AccountId>, Option<NewTenant>), ApiError> {
    let Some(named) = named_account(parts, credential)? else { return Ok((None, None)) };
    if let Some(account) = find_account(app, named).await? {
        recognise(parts, account);
        return Ok((Some(account), None));
    }
    if looks_like_id(named) {
        return Err(ApiError::no_such("account"));
    }
    if !is_uid(named) {
        let detail = format!("an account's uid has 1 to {} of A-Z a-z 0-9 . _ -", limits::UID_BYTES);
        return Err(ApiError::invalid_header(detail));
    }
    let origin = AuditOrigin::of(parts, credential.actor()).with_action("create_account");
    let id = AccountId::at(app.now(), app.dice.bits());
    Ok((Some(id), Some(NewTenant { uid: named.to_owned(), origin })))
}

fn recognise(parts: &request::Parts, account: AccountId) {
    if let Some(recognised) = parts.extensions.get::<Recognised>() {
        recognised.acting_for(account);
    }
}

/// The accounts of a user that is no operator.
fn own_accounts(credential: &Credential) -> Option<&[AccountId]> {
    match credential {
        Credential::Session(known) => known.own_accounts(),
        Credential::Key(_) => None,
    }
}

/// What the header says, of a key that may act for others, or of a user. With a session an empty name is none.
fn named_account<'p>(
    parts: &'p request::Parts,
    credential: &Credential,
) -> Result<Option<&'p str>, ApiError> {
    let mut named = parts.headers.get_all(POSTHASTE_ACCOUNT).iter();
    let (named, None) = (named.next(), named.next()) else {
        return Err(ApiError::invalid_header("`posthaste-account` names one account"));
    };
    let Some(named) = named else { return Ok(None) };
    if named.is_empty() && matches!(credential, Credential::Session(_)) {
        return Ok(None);
    }
    if !credential.kind().is_of_installation() && own_accounts(credential).is_none() {
        let detail = "this key acts for its own account: leave `posthaste-account` out, or use a key of an operator or a \
                      platform";
        return Err(ApiError::scope_missing(detail));
    }
    named.to_str().map(Some).map_err(|_| ApiError::invalid_header("`posthaste-account` is an id or a uid"))
}

/// None: no account has this id or uid.
pub(crate) async fn find_account(app: &App, named: &str) -> Result<Option<AccountId>, ApiError> {
    let Ok(id) = named.parse() else { return app.account_of_uid(named).await };
    if app.acted_for.get(&id).is_some() {
        return Ok(Some(id));
    }
    match bounded_lookup(app.store.account(id)).await {
        Ok(found) => {
            app.acted_for.put(found.id, ());
            Ok(Some(found.id))
        }
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// 400: somebody who acts for others and does not say for whom.
pub(crate) fn no_account() -> ApiError {
    ApiError::invalid_header(
        "this is about an account: name the one you act for by its id or uid in the header `Posthaste-Account`",
    )
}

impl App {
    /// Whose uid that is. Remembered as long as a key is: an account that gives its uid up, and the one that gets it, are told
    /// apart at once by the node where that was done, and within a second by the others.
    pub(crate) async fn account_of_uid(&self, uid: &str) -> Result<Option<AccountId>, ApiError> {
        if let Some(id) = self.acted_for_uids.get(uid) {
            return Ok(Some(id));
        }
        let found = bounded_lookup(self.store.account_by_uid(uid)).await?.map(|account| account.id);
        if let Some(id) = found {
            self.acted_for_uids.put(uid.to_owned(), id);
        }
        Ok(found)
    }

    /// The key that was presented; None if it is none.
    pub(crate) async fn presented_key(
        &self,
        presented: &PresentedKey<'_>,
        client: ClientAddress,
    ) -> Result<Option<Arc<KnownKey>>, ApiError> {
        let (keys, lookup) = (&self.keys, presented.lookup);
        let hash = self.secrets.hash(presented.secret.as_bytes());
        let if_right = |known: Option<Arc<KnownKey>>| {
            let right = is_of(presented, &hash, known.as_ref().map(|known| &known.key));
            known.filter(|_| right)
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

/// Whether that is the key that is kept, by the hash of its secret: in a time that says nothing of how much of it is right, or
/// whether there is one.
fn is_of(presented: &PresentedKey<'_>, hash: &[u8; 32], kept: Option<&ApiKey>) -> bool {
    let expected = kept.map_or(&[0; 32][..], |kept| &kept.hash);
    let same = bool::from(hash[..].ct_eq(expected));
    same & kept.is_some_and(|kept| kept.kind == presented.kind)
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

/// An operator may do whatever there is a scope for.
pub(crate) fn scopes_of(key: &ApiKey) -> &[Scope] {
    match key.kind {
        KeyKind::Operator => &Scope::ALL,
        KeyKind::Account | KeyKind::Ingest | KeyKind::Platform => &key.scopes,
    }
}

pub(crate) fn actor_of(key: &ApiKey) -> Actor {
    match key.kind {
        KeyKind::Operator => Actor::Operator(key.id),
        KeyKind::Platform => Actor::Platform(key.id),
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

/// 401 of a key that is used elsewhere than it may be.
pub(crate) fn key_allows(key: &ApiKey, client: ClientAddress) -> Result<(), ApiError> {
    match key.allows(client.0) {
        true => Ok(()),
        false => {
            Err(refuse("the API key is not taken from this address: its `allowed_addresses` say from where"))
        }
    }
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
    touched: mpsc::Sender<ToNote>,
}

impl Keys {
    pub(crate) fn new() -> (Self, mpsc::Receiver<ToNote>) {
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

    /// Those of an account.
    pub(crate) fn forget_of(&self, account: AccountId) {
        let own = |known: &Arc<KnownKey>| known.key.account_id == Some(account);
        self.known.retain(|_, known| !known.as_ref().is_some_and(own));
    }

    /// Notes the use if the last one is a minute old. A full channel loses a note, and nothing else.
    fn used(&self, known: &KnownKey, now: Timestamp) {
        let fresh = known.key.last_used_at.is_some_and(|at| now.since(at) < limits::KEY_USE_NOTED);
        if !fresh && !known.noted.swap(true, Ordering::Relaxed) {
            self.note(ToNote::KeyUsed(known.key.id));
        }
    }

    pub(crate) fn note(&self, note: ToNote) {
        let _ = self.touched.try_send(note);
    }
}

/// What is to be noted.
#[derive(Debug)]
pub(crate) enum ToNote {
    KeyUsed(ApiKeyId),
    SessionUsed(SessionId),
    Refused(Box<RefusedRequest>),
}

/// Writes down when keys and sessions were used, and which requests sources did not believe; no request waits for it.
pub(crate) async fn note_use(app: &App, touched: &mut mpsc::Receiver<ToNote>, stop: CancellationToken) {
    supervisor::failpoint();
    while let Some(Some(note)) = stop.run_until_cancelled(touched.recv()).await {
        supervisor::failpoint();
        let noted = match &note {
            ToNote::KeyUsed(id) => app.store.touch_api_key(*id, app.now()).await,
            ToNote::SessionUsed(id) => app.store.touch_session(*id, app.now()).await,
            ToNote::Refused(request) => refused::write_refused(app, request).await,
        };
        if let Err(error) = noted {
            tracing::debug!(?note, %error, "what is noted beside requests could not be written down");
        }
    }
}
