//! A session begins: a new id each time, and what the browser had before ends.

use super::{
    KnownSession, Transport,
    cookie::{self, SessionSecret},
    signed_in,
};
use crate::{app::App, audit::AuditOrigin, client_address::ClientAddress, error::ApiError};
use domain::{
    audit::{Actor, AuditEntry},
    id::{AccountId, SessionId},
    limits,
    session::{Holder, SecretHash, Session},
};
use http::{HeaderValue, header, request};
use std::time::Duration;
use store::{ChainOwner, NewSession};

/// Who signs in.
pub(super) struct Entrant {
    pub(super) holder: Holder,
    pub(super) actor: Actor,
    /// In whose chain it is written down.
    pub(super) owner: ChainOwner,
    /// The account that is shown first, where there is a choice.
    pub(super) account_id: Option<AccountId>,
    /// How long the session lasts at most.
    pub(super) length: Duration,
}

/// A session that is about to begin.
pub(super) struct Beginning {
    pub(super) new: NewSession,
    pub(super) entry: AuditEntry,
    pub(super) cookie: HeaderValue,
}

/// What is to be kept, written down and handed to the browser. The one it had before goes, whoever's it was.
pub(super) async fn prepare(
    app: &App,
    parts: &request::Parts,
    entrant: &Entrant,
    action: &'static str,
    link: Option<SecretHash>,
) -> Result<Beginning, ApiError> {
    let transport = Transport::of(app, parts);
    transport.check()?;
    let before = signed_in(app, parts).await?.ok();
    let secret = SessionSecret::generate(&*app.dice);
    let now = app.now();
    let id = SessionId::at(now, app.dice.bits());
    let session = Session {
        id,
        hash: secret.hash(&app.secrets),
        holder: entrant.holder,
        account_id: entrant.account_id,
        created_at: now,
        seen_at: now,
        expires_at: now.plus(entrant.length),
        client: ClientAddress::noted(&parts.extensions).0.to_string(),
        user_agent: user_agent(parts),
    };
    let entry = AuditOrigin::of_session(parts, entrant.actor, action).entry(app, id, None);
    let replaces = before.as_deref().map(KnownSession::session).map(|session| session.id);
    let new = NewSession { session, owner: entrant.owner, link, replaces };
    Ok(Beginning { new, entry, cookie: cookie::set(transport, &secret) })
}

/// Prepared, kept and written down.
pub(super) async fn begin(
    app: &App,
    parts: &request::Parts,
    entrant: &Entrant,
    link: Option<SecretHash>,
) -> Result<HeaderValue, ApiError> {
    let Beginning { new, entry, cookie } = prepare(app, parts, entrant, "sign_in", link).await?;
    app.store.create_session(&new, &entry).await?;
    if let Some(id) = new.replaces {
        app.sessions.forget(id);
    }
    Ok(cookie)
}

/// Enough to recognise a browser by.
fn user_agent(parts: &request::Parts) -> Option<String> {
    let text = parts.headers.get(header::USER_AGENT)?.to_str().ok()?;
    Some(text.chars().take(limits::USER_AGENT_KEPT).collect())
}
