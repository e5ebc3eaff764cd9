//! The audit log: what is written down about a request, and the list of it.
//!
//! Every method of the store that changes something takes an entry, and writes it in the same transaction. An entry is
//! made of the caller, who is known to `auth` alone, so a handler says only what it was done to and what changed.

pub(crate) mod refusals;

use crate::{
    app::App,
    auth::{Caller, no_account},
    client_address::ClientAddress,
    error::ApiError,
    page::List,
    page_params::PageParams,
    problems, read,
};
use axum::{
    extract::{MatchedPath, State},
    response::Response,
};
use contract::{AuditEntryView, AuditQuery, ListBody};
use domain::{
    account::Scope,
    audit::{Actor, AuditEntry},
    id::{AuditId, RequestId},
    session::Holder,
};
use http::request;
use std::{collections::HashMap, fmt::Display, net::IpAddr, sync::LazyLock};
use store::{AuditActor, AuditFilter};

/// Who asks for what, and from where.
#[derive(Debug, Clone)]
pub(crate) struct AuditOrigin {
    actor: Actor,
    action: &'static str,
    client: IpAddr,
    request_id: Option<RequestId>,
}

impl AuditOrigin {
    pub(crate) fn of(parts: &request::Parts, actor: Actor) -> Self {
        let path = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        Self {
            actor,
            action: operation(parts.method.as_str(), path),
            client: ClientAddress::noted(&parts.extensions).0,
            request_id: parts.extensions.get().copied(),
        }
    }

    /// For what is done beside the operation that was asked for: the name of the one that does it alone.
    pub(crate) fn with_action(self, action: &'static str) -> Self {
        Self { action, ..self }
    }

    /// Of what is none of the API's operations.
    pub(crate) fn of_session(parts: &request::Parts, actor: Actor, action: &'static str) -> Self {
        Self { action, ..Self::of(parts, actor) }
    }

    /// What is to be written down. `difference` is that of [`domain::audit::Told`].
    pub(crate) fn entry(&self, app: &App, object_id: impl Display, difference: Option<String>) -> AuditEntry {
        let now = app.now();
        AuditEntry {
            id: AuditId::at(now, app.dice.bits()),
            at: now,
            actor: self.actor,
            action: self.action.into(),
            object_id: Some(object_id.to_string()),
            client: Some(self.client.to_string()),
            request_id: self.request_id,
            difference,
            count: None,
        }
    }
}

/// The operation's name in the API's own description.
fn operation(method: &str, path: &str) -> &'static str {
    static NAMES: LazyLock<HashMap<(String, String), String>> = LazyLock::new(|| {
        let document = crate::router::document();
        let paths = document["paths"].as_object().into_iter().flatten();
        let operations = paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().into_iter().flatten();
            methods.filter_map(move |(method, operation)| {
                let name = operation["operationId"].as_str()?;
                Some(((method.to_uppercase(), path.clone()), name.to_owned()))
            })
        });
        operations.collect()
    });
    NAMES.get(&(method.to_owned(), path.to_owned())).map_or("unknown", String::as_str)
}

/// List what was done, newest first. Filters narrow. Scope `audit:read`; an operator sees the entries of all accounts,
/// and the installation's own.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "list_audit_entries", tag = "audit log",
    params(PageParams, AuditQuery),
    responses((status = 200, description = "A page.", body = ListBody<AuditEntryView>), problems::Listing),
)]
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    list: List<AuditQuery>,
) -> Result<Response, ApiError> {
    // The account that asks, and the one that is asked about.
    let (asking, about) = match &caller {
        Caller::Account(ctx) => {
            let account = ctx.require(Scope::AuditRead)?;
            if list.filter.account_id.is_some() {
                let detail = "a key sees its own account; only an operator names one";
                return Err(ApiError::invalid_field("/account_id", "not_allowed", detail));
            }
            (Some(account), Some(account))
        }
        Caller::Operator(_) => (None, list.filter.account_id),
        Caller::Platform => return Err(no_account()),
    };
    let filter = filter(&list.filter)?;
    let room = app.answers.page(asking).await?;
    let found = read::audit_entries(&app, about, &filter, list.page(&app, asking)?).await?;
    room.json(&list.body(&app, asking, found))
}

fn filter(query: &AuditQuery) -> Result<AuditFilter, ApiError> {
    let actor = query.actor.as_deref().map(|text| match text {
        "operator" => Ok(AuditActor::AnyOperator),
        "platform" => Ok(AuditActor::AnyPlatform),
        "system" => Ok(AuditActor::System),
        id => match id.parse() {
            Ok(Holder::Key(id)) => Ok(AuditActor::Key(id)),
            Ok(Holder::User(id)) => Ok(AuditActor::User(id)),
            Ok(Holder::PortalLink(id)) => Ok(AuditActor::PortalLink(id)),
            Err(_) => {
                let detail =
                    "expected the id of a key, a user or a portal link, `operator`, `platform` or `system`";
                Err(ApiError::invalid_field("/actor", "invalid_value", detail))
            }
        },
    });
    Ok(AuditFilter {
        since: query.since,
        until: query.until,
        action: query.action.clone(),
        actor: actor.transpose()?,
        object_id: query.object_id.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_known_by_its_method_and_path() {
        assert_eq!(operation("PATCH", "/v1/destinations/{id}"), "update_destination");
        assert_eq!(operation("GET", "/v1/destinations/{id}/secret"), "get_destination_secret");
        assert_eq!(operation("PUT", "/v1/destinations/{id}"), "unknown");
    }
}
