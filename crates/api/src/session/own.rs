//! What a session is told about itself and others: the account it looks at, and where else its holder is signed in.

use super::{KnownSession, authenticate};
use crate::{app::App, audit::AuditOrigin, auth::find_account, error::ApiError, json::Body, path::Id};
use axum::{
    Json,
    extract::{FromRequest as _, FromRequestParts as _, Request, State},
};
use domain::{
    account::KeyKind,
    id::{AccountId, SessionId},
    limits,
    session::{Holder, HolderKind},
    time::Timestamp,
};
use http::{StatusCode, request};
use serde::{Deserialize, Serialize};
use store::Page;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChosenAccount {
    /// An id or a uid; null or empty: none, as operators may have it.
    account: Option<String>,
}

#[derive(Serialize)]
pub(super) struct Chosen {
    account_id: Option<AccountId>,
}

pub(super) async fn choose_account(
    State(app): State<App>,
    request: Request,
) -> Result<Json<Chosen>, ApiError> {
    let (parts, body) = request.into_parts();
    let known = authenticate(&app, &parts).await?;
    let request = Request::from_parts(parts, body);
    let Body(ChosenAccount { account }) = Body::from_request(request, &app).await?;
    let is_operator = known.kind().is_of_installation();
    let own = known.own_accounts();
    if !is_operator && own.is_none() {
        return Err(ApiError::scope_missing("a key acts for its own account: there is none to choose"));
    }
    let account_id = match account.as_deref().map(str::trim).filter(|named| !named.is_empty()) {
        Some(named) => Some(find_account(&app, named).await?.ok_or_else(|| ApiError::no_such("account"))?),
        None if is_operator => None,
        None => {
            return Err(ApiError::invalid_field(
                "/account",
                "missing_field",
                "one of your accounts is shown",
            ));
        }
    };
    if let (Some(own), Some(account)) = (own, account_id)
        && !own.contains(&account)
    {
        return Err(ApiError::no_such("account"));
    }
    let id = known.session().id;
    app.store.choose_account(id, account_id).await?;
    app.sessions.forget(id);
    Ok(Json(Chosen { account_id }))
}

#[derive(Serialize)]
struct SessionView {
    id: SessionId,
    /// A key or a user.
    holder: Holder,
    kind: HolderKind,
    /// It is the one that asks.
    current: bool,
    created_at: Timestamp,
    /// To the minute or so.
    seen_at: Timestamp,
    expires_at: Timestamp,
    client: String,
    user_agent: Option<String>,
}

#[derive(Serialize)]
pub(super) struct SessionList {
    data: Vec<SessionView>,
}

/// The holder's own; an operator sees everybody's. The newest, as many as are shown at once.
pub(super) async fn sessions(
    State(app): State<App>,
    parts: request::Parts,
) -> Result<Json<SessionList>, ApiError> {
    let known = authenticate(&app, &parts).await?;
    let page = Page { before: None, limit: limits::SESSIONS_LISTED };
    let found = app.store.sessions(whose(&known), page).await?;
    let now = app.now();
    let data = found.into_iter().filter(|session| !session.is_over(now)).map(|session| SessionView {
        current: session.id == known.session().id,
        id: session.id,
        holder: session.holder,
        kind: session.holder.kind(),
        created_at: session.created_at,
        seen_at: session.seen_at,
        expires_at: session.expires_at,
        client: session.client,
        user_agent: session.user_agent,
    });
    Ok(Json(SessionList { data: data.collect() }))
}

pub(super) async fn end_session(
    State(app): State<App>,
    mut parts: request::Parts,
) -> Result<StatusCode, ApiError> {
    let known = authenticate(&app, &parts).await?;
    let Id(id): Id<SessionId> = Id::from_request_parts(&mut parts, &app).await?;
    let entry = AuditOrigin::of_session(&parts, known.actor(), "end_session").entry(&app, id, None);
    app.store.end_session(whose(&known), id, known.owner(), &entry).await?;
    app.sessions.forget(id);
    Ok(StatusCode::NO_CONTENT)
}

/// None: anybody's.
fn whose(known: &KnownSession) -> Option<Holder> {
    match known.kind() {
        KeyKind::Operator => None,
        KeyKind::Account | KeyKind::Ingest | KeyKind::Platform => Some(known.holder()),
    }
}
