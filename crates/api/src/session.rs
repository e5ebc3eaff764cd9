//! Sessions of the dashboard: a signed-in browser stands in for an API key or a user.
//!
//! The cookie has 256 random bits; what is kept of them is a hash, in a row that every node reads. A session that is used is
//! remembered for half a second, as keys are, so one that has ended is refused everywhere within a second. Pages are
//! rendered for a [`Visitor`]. What they do goes to `/ui/v1/…`, which is the JSON API with a session in place of a key: the
//! service takes `/ui` off, and `auth` asks here instead of looking for a key. `/v1` itself never looks at a cookie.
//!
//! What changes something must come from a page of ours ([`origin`]) and name the session's token, which a page of another
//! site cannot read.

mod begin;
mod cookie;
mod doors;
pub(crate) mod headers;
mod links;
mod login;
mod origin;
mod own;
pub(crate) mod portal;
mod transport;

pub(crate) use doors::{doors, nothing_there};
pub use login::Pages;
pub(crate) use transport::Transport;

use crate::{
    app::App,
    audit::refusals::Recognised,
    auth::{self, ToNote},
    cache::Cache,
    client_address::ClientAddress,
    error::ApiError,
    keys::KeyText,
    place::Place,
    router::ListenAddress,
};
use axum::{
    extract::FromRequestParts,
    response::{IntoResponse, Redirect, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use cookie::SessionSecret;
use domain::{
    account::{ApiKey, KeyKind, Scope},
    audit::Actor,
    id::{AccountId, SessionId},
    limits,
    portal_link::PortalLink,
    session::{Holder, SecretHash, Session, User, UserRole},
    time::Timestamp,
};
use http::{HeaderName, request};
use ingest::bounded_lookup;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use store::{ChainOwner, HeldSession, Maker, SessionOf};
use subtle::ConstantTimeEq;
use url::form_urlencoded;

const X_CSRF_TOKEN: HeaderName = HeaderName::from_static("x-csrf-token");

/// Marks a request that came by `/ui/v1/…`: its cookie counts, and no key does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BySession;

/// Whom a page is rendered for. Whoever is not signed in is sent to sign in, and back.
#[derive(Debug, Clone)]
pub struct Visitor {
    known: Arc<KnownSession>,
    csrf_token: String,
    now: Timestamp,
    /// Of the requests under way, for as long as the page is made.
    _place: Option<Place>,
}

impl Visitor {
    /// The account that is looked at; None: an operator who has not chosen one.
    pub fn account_id(&self) -> Option<AccountId> {
        self.known.shown_account()
    }

    /// Those among which the visitor may choose; None: all there are, or there is no choice.
    pub fn own_accounts(&self) -> Option<&[AccountId]> {
        self.known.own_accounts()
    }

    /// Whether there is more than one account to be looked at.
    pub fn may_choose_account(&self) -> bool {
        self.known.kind().is_of_installation() || self.own_accounts().is_some_and(|own| own.len() > 1)
    }

    pub fn scopes(&self) -> &[Scope] {
        self.known.scopes()
    }

    pub fn has(&self, scope: Scope) -> bool {
        self.scopes().contains(&scope)
    }

    /// Of no account: an operator, or a platform.
    pub fn is_of_installation(&self) -> bool {
        self.known.kind().is_of_installation()
    }

    pub fn is_operator(&self) -> bool {
        self.known.kind() == KeyKind::Operator
    }

    /// Whether the visitor has a password, which `/ui/password` changes.
    pub fn is_user(&self) -> bool {
        matches!(self.known.holder(), Holder::User(_))
    }

    /// Whether the visitor came by a portal link: it sees one account, and nothing of how that is run.
    pub fn is_portal(&self) -> bool {
        self.known.portal_link().is_some()
    }

    /// Whether the visitor came by one that changes nothing.
    pub fn only_looks(&self) -> bool {
        self.known.portal_link().is_some_and(|link| link.read_only)
    }

    /// Whether the visitor may see how deliveries are signed.
    pub fn may_reveal_signing_secrets(&self) -> bool {
        self.has(Scope::SecretsReveal) || self.known.reveals_signing_secrets()
    }

    /// When the session ends, however much it is used.
    pub fn ends_at(&self) -> Timestamp {
        self.known.session().expires_at
    }

    /// The name of the key, or of the user.
    pub fn key_name(&self) -> &str {
        self.known.name()
    }

    /// Whether it is this key that is signed in.
    pub fn holds(&self, key: &KeyText) -> bool {
        self.known.key().is_some_and(|known| known.lookup == key.parts().lookup())
    }

    pub fn session_id(&self) -> SessionId {
        self.known.held.session.id
    }

    /// What a script sends as `x-csrf-token` with whatever changes something.
    pub fn csrf_token(&self) -> &str {
        &self.csrf_token
    }

    /// When the page was asked for.
    pub fn now(&self) -> Timestamp {
        self.now
    }
}

impl FromRequestParts<App> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, Response> {
        let known = match signed_in(app, parts).await.map_err(IntoResponse::into_response)? {
            Ok(known) => known,
            Err(_) => return Err(to_login(parts)),
        };
        let place = match known.shown_account() {
            Some(account) => Some(Place::take(&app.requests, account).await),
            None => None,
        };
        let place = place.transpose().map_err(IntoResponse::into_response)?;
        Ok(Self { csrf_token: csrf_token(app, &known), known, now: app.now(), _place: place })
    }
}

fn to_login(parts: &request::Parts) -> Response {
    let here = parts.uri.path_and_query().map_or("/", |here| here.as_str());
    if here == "/" {
        return Redirect::to("/login").into_response();
    }
    let next: String = form_urlencoded::byte_serialize(here.as_bytes()).collect();
    Redirect::to(&format!("/login?next={next}")).into_response()
}

/// A session as it was less than a second ago.
#[derive(Debug)]
pub(crate) struct KnownSession {
    held: HeldSession,
    scopes: Vec<Scope>,
    /// It is to be noted that it was used.
    noted: AtomicBool,
}

impl KnownSession {
    fn new(held: HeldSession) -> Self {
        let scopes = match &held.of {
            SessionOf::Key(key) => auth::scopes_of(key).to_vec(),
            SessionOf::User(user) => user.role.scopes().to_vec(),
            SessionOf::PortalLink(held) => held.link.scopes(scopes_of_maker(&held.maker)),
        };
        Self { held, scopes, noted: AtomicBool::new(false) }
    }

    fn session(&self) -> &Session {
        &self.held.session
    }

    pub(crate) fn key(&self) -> Option<&ApiKey> {
        match &self.held.of {
            SessionOf::Key(key) => Some(key),
            SessionOf::User(_) | SessionOf::PortalLink(_) => None,
        }
    }

    fn user(&self) -> Option<&User> {
        match &self.held.of {
            SessionOf::User(user) => Some(user),
            SessionOf::Key(_) | SessionOf::PortalLink(_) => None,
        }
    }

    fn portal_link(&self) -> Option<&PortalLink> {
        match &self.held.of {
            SessionOf::PortalLink(held) => Some(&held.link),
            SessionOf::Key(_) | SessionOf::User(_) => None,
        }
    }

    /// Of a portal link alone: all others need the scope for it.
    pub(crate) fn reveals_signing_secrets(&self) -> bool {
        match &self.held.of {
            SessionOf::PortalLink(held) => held.link.reveals_signing_secrets(scopes_of_maker(&held.maker)),
            SessionOf::Key(_) | SessionOf::User(_) => false,
        }
    }

    pub(crate) fn holder(&self) -> Holder {
        self.session().holder
    }

    fn name(&self) -> &str {
        match &self.held.of {
            SessionOf::Key(key) => &key.name,
            SessionOf::User(user) => &user.name,
            SessionOf::PortalLink(_) => "Portal",
        }
    }

    pub(crate) fn kind(&self) -> KeyKind {
        match &self.held.of {
            SessionOf::Key(key) => key.kind,
            SessionOf::User(user) => kind_of(user.role),
            SessionOf::PortalLink(_) => KeyKind::Account,
        }
    }

    pub(crate) fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    pub(crate) fn actor(&self) -> Actor {
        match &self.held.of {
            SessionOf::Key(key) => auth::actor_of(key),
            SessionOf::User(user) => Actor::User(user.id),
            SessionOf::PortalLink(held) => Actor::PortalLink(held.link.id),
        }
    }

    /// Those a user who is no operator may see.
    pub(crate) fn own_accounts(&self) -> Option<&[AccountId]> {
        self.user().filter(|user| user.role != UserRole::Operator).map(|user| &*user.accounts)
    }

    /// The account that is meant where a request names none. What is the installation's own (`OperatorCtx`) does not ask.
    pub(crate) fn account_id(&self) -> Option<AccountId> {
        self.shown_account()
    }

    fn shown_account(&self) -> Option<AccountId> {
        if let Some(link) = self.portal_link() {
            return Some(link.account_id);
        }
        let chosen = self.session().account_id;
        match (self.key().and_then(|key| key.account_id), self.own_accounts()) {
            (Some(account), _) => Some(account),
            // The choice may be older than the list.
            (None, Some(own)) => chosen.filter(|chosen| own.contains(chosen)).or(own.first().copied()),
            (None, None) => chosen,
        }
    }

    /// In whose chain it is written down.
    fn owner(&self) -> ChainOwner {
        let of_key = self.key().and_then(|key| key.account_id);
        of_key.or(self.portal_link().map(|link| link.account_id))
    }

    /// 401 of one that is over, or whose key is.
    fn usable(&self, now: Timestamp) -> Result<(), ApiError> {
        if self.session().is_over(now) {
            return Err(ApiError::unauthorized("the session is over: sign in again"));
        }
        match &self.held.of {
            SessionOf::Key(key) => auth::key_usable(key, now),
            SessionOf::User(_) => Ok(()),
            SessionOf::PortalLink(held) => portal::maker_usable(&held.maker, now),
        }
    }
}

fn scopes_of_maker(maker: &Maker) -> &[Scope] {
    match maker {
        Maker::Key(key) => auth::scopes_of(key),
        Maker::User(user) => user.role.scopes(),
    }
}

fn kind_of(role: UserRole) -> KeyKind {
    match role {
        UserRole::Operator => KeyKind::Operator,
        UserRole::Editor | UserRole::Viewer => KeyKind::Account,
    }
}

/// The sessions seen lately, and those that were not there.
pub(crate) struct SessionCache(Cache<SecretHash, Option<Arc<KnownSession>>>);

impl SessionCache {
    pub(crate) fn new() -> Self {
        Self(Cache::of_credentials(limits::SESSIONS_CACHED))
    }

    fn forget(&self, id: SessionId) {
        self.0.retain(|_, known| known.as_ref().is_none_or(|known| known.session().id != id));
    }

    /// And those of portal links that the holder has made.
    pub(crate) fn forget_of(&self, holder: Holder) {
        let is_of = |known: &KnownSession| {
            known.holder() == holder || known.portal_link().is_some_and(|link| link.maker == holder)
        };
        self.0.retain(|_, known| !known.as_deref().is_some_and(is_of));
    }

    /// Those that look at an account.
    pub(crate) fn forget_about(&self, account: AccountId) {
        let looks_at = |known: &KnownSession| known.shown_account() == Some(account);
        self.0.retain(|_, known| !known.as_deref().is_some_and(looks_at));
    }

    async fn read(&self, app: &App, hash: SecretHash) -> Result<Option<Arc<KnownSession>>, ApiError> {
        let found = bounded_lookup(app.store.session(&hash)).await?;
        let known = found.map(|held| Arc::new(KnownSession::new(held)));
        self.0.put(hash, known.clone());
        Ok(known)
    }

    async fn find(
        &self,
        app: &App,
        hash: SecretHash,
        client: ClientAddress,
    ) -> Result<Option<Arc<KnownSession>>, ApiError> {
        if let Some(known) = self.0.get(&hash) {
            return Ok(known);
        }
        let is_new = self.0.last(&hash).flatten().is_none();
        app.guesses.find(client, is_new, self.read(app, hash)).await
    }
}

/// Who is signed in, or why nobody is. The error outside is trouble of ours.
async fn signed_in(
    app: &App,
    parts: &request::Parts,
) -> Result<Result<Arc<KnownSession>, ApiError>, ApiError> {
    let nobody = || Ok(Err(ApiError::unauthorized("nobody is signed in here, or the session is over")));
    let transport = Transport::of(app, parts);
    let Some(secret) = SessionSecret::presented(transport, &parts.headers) else { return nobody() };
    let client = ClientAddress::noted(&parts.extensions);
    let Some(known) = app.sessions.find(app, secret.hash(&app.secrets), client).await? else {
        return nobody();
    };
    let now = app.now();
    if let Err(over) = known.usable(now) {
        return Ok(Err(over));
    }
    if let Some(Err(refused)) = known.key().map(|key| auth::key_allows(key, client)) {
        return Ok(Err(refused));
    }
    let checked = match known.portal_link() {
        Some(_) => portal::check_address(parts),
        None => check_address(known.kind(), parts),
    };
    if let Err(refused) = checked {
        return Ok(Err(refused));
    }
    if let Some(recognised) = parts.extensions.get::<Recognised>() {
        recognised.as_key_of(known.owner());
        if let Some(account) = known.shown_account() {
            recognised.acting_for(account);
        }
    }
    let fresh = now.since(known.session().seen_at) < limits::SESSION_USE_NOTED;
    if !fresh && !known.noted.swap(true, Ordering::Relaxed) {
        app.keys.note(ToNote::SessionUsed(known.session().id));
        if let Some(key) = known.key() {
            app.keys.note(ToNote::KeyUsed(key.id));
        }
    }
    Ok(Ok(known))
}

/// 401 of an operator who comes by the address that is not theirs.
fn check_address(kind: KeyKind, parts: &request::Parts) -> Result<(), ApiError> {
    if kind == KeyKind::Operator && parts.extensions.get() == Some(&ListenAddress::Public) {
        return Err(ApiError::sign_in_refused("operators sign in on the admin address only"));
    }
    Ok(())
}

/// For `auth`, and for what is under `/ui` itself: the session, and of what changes something that it comes from us.
pub(crate) async fn authenticate(app: &App, parts: &request::Parts) -> Result<Arc<KnownSession>, ApiError> {
    let known = signed_in(app, parts).await??;
    if !parts.method.is_safe() {
        origin::check(app, parts)?;
        let given = parts.headers.get(X_CSRF_TOKEN).map_or(&[][..], |value| value.as_bytes());
        if !bool::from(given.ct_eq(csrf_token(app, &known).as_bytes())) {
            let detail = "the header `x-csrf-token` is not that of this session: load the page anew";
            return Err(ApiError::cross_site(detail));
        }
    }
    Ok(known)
}

/// Whether it has ended meanwhile. A store that is away says nothing about it.
pub(crate) async fn is_over(app: &App, known: &KnownSession) -> bool {
    let hash = known.session().hash;
    let now_known = match app.sessions.0.get(&hash) {
        Some(known) => Ok(known),
        None => app.sessions.read(app, hash).await,
    };
    match now_known {
        Ok(Some(known)) => known.usable(app.now()).is_err(),
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Made of what is kept under the pepper: nobody who reads the one without the other knows it.
fn csrf_token(app: &App, known: &KnownSession) -> String {
    URL_SAFE_NO_PAD.encode(app.secrets.hash(&[b"csrf ", &known.session().hash[..]].concat()))
}

/// A path of ours, or the first page: never another host.
fn safe_next(next: Option<&str>) -> &str {
    let ours = |next: &&str| {
        next.starts_with('/')
            && !next.starts_with("//")
            && next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
            && !next.starts_with("/login")
    };
    next.filter(ours).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_on_stays_on_the_origin() {
        for path in ["/", "/events", "/events?q=type:a.*&since=1h", "/e/evt_1"] {
            assert_eq!(safe_next(Some(path)), path);
        }
        for elsewhere in [
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "evil",
            "",
            "/\t/evil",
            "/ü",
            "/login",
        ] {
            assert_eq!(safe_next(Some(elsewhere)), "/", "{elsewhere}");
        }
        assert_eq!(safe_next(None), "/");
    }
}
