//! Who may do what: every operation of the API with the scope it needs. The table is the specification: an operation that
//! is not in it fails the test, as does one that asks for more or for less.

use crate::{openapi::operations, world::World};
use Needs::{Anything, Operator, OperatorOr, PlatformScoped, PlatformScopedAll, Scoped};
use domain::account::Scope;
use http::Method;
use serde_json::json;
use std::slice;

#[derive(Clone, Copy, PartialEq)]
enum Needs {
    /// A key of an account with this scope.
    Scoped(Scope),
    /// A key of an account, whatever its scopes.
    Anything,
    /// An operator, or a platform with this scope.
    PlatformScoped(Scope),
    /// The same with all of these.
    PlatformScopedAll(&'static [Scope]),
    /// An operator, or a key of an account with this scope.
    OperatorOr(Scope),
    Operator,
}

const MATRIX: &[(&str, &str, Needs)] = &[
    ("get", "/v1/account", Anything),
    ("patch", "/v1/account", Scoped(Scope::AccountAdmin)),
    ("get", "/v1/accounts", PlatformScoped(Scope::AccountsRead)),
    ("post", "/v1/accounts", PlatformScoped(Scope::AccountsWrite)),
    ("get", "/v1/accounts/{id}", PlatformScoped(Scope::AccountsRead)),
    ("patch", "/v1/accounts/{id}", PlatformScoped(Scope::AccountsWrite)),
    ("delete", "/v1/accounts/{id}", PlatformScoped(Scope::AccountsWrite)),
    ("get", "/v1/accounts/{id}/api-keys", PlatformScoped(Scope::AccountsRead)),
    ("delete", "/v1/accounts/{id}/api-keys/{key_id}", PlatformScoped(Scope::AccountsWrite)),
    ("get", "/v1/accounts/{id}/portal-links", PlatformScoped(Scope::AccountsRead)),
    (
        "post",
        "/v1/accounts/{id}/portal-links",
        // What it shows is no more than its maker may see.
        PlatformScopedAll(&[
            Scope::AccountsWrite,
            Scope::EventsRead,
            Scope::DeliveriesRead,
            Scope::DestinationsRead,
        ]),
    ),
    ("delete", "/v1/accounts/{id}/portal-links/{link_id}", PlatformScoped(Scope::AccountsWrite)),
    ("get", "/v1/api-keys", OperatorOr(Scope::KeysManage)),
    ("post", "/v1/api-keys", OperatorOr(Scope::KeysManage)),
    ("delete", "/v1/api-keys/{id}", OperatorOr(Scope::KeysManage)),
    ("get", "/v1/audit", OperatorOr(Scope::AuditRead)),
    ("post", "/v1/data-keys/rotate", Operator),
    ("post", "/v1/dead-letters/dismiss", Scoped(Scope::DeliveriesRetry)),
    ("get", "/v1/dead-letters/groups", Scoped(Scope::DeliveriesRead)),
    ("get", "/v1/deliveries", Scoped(Scope::DeliveriesRead)),
    ("get", "/v1/deliveries/{id}", Scoped(Scope::DeliveriesRead)),
    ("post", "/v1/deliveries/{id}/cancel", Scoped(Scope::DeliveriesRetry)),
    ("post", "/v1/deliveries/{id}/replay", Scoped(Scope::DeliveriesRetry)),
    ("post", "/v1/deliveries/{id}/retry", Scoped(Scope::DeliveriesRetry)),
    ("get", "/v1/destinations", Scoped(Scope::DestinationsRead)),
    ("post", "/v1/destinations", Scoped(Scope::DestinationsWrite)),
    ("get", "/v1/destinations/{id}", Scoped(Scope::DestinationsRead)),
    ("delete", "/v1/destinations/{id}", Scoped(Scope::DestinationsWrite)),
    ("patch", "/v1/destinations/{id}", Scoped(Scope::DestinationsWrite)),
    ("get", "/v1/destinations/{id}/attempts", Scoped(Scope::DeliveriesRead)),
    ("post", "/v1/destinations/{id}/disable", Scoped(Scope::DestinationsWrite)),
    ("post", "/v1/destinations/{id}/enable", Scoped(Scope::DestinationsWrite)),
    ("get", "/v1/destinations/{id}/holds", Scoped(Scope::DestinationsRead)),
    ("post", "/v1/destinations/{id}/pause", Scoped(Scope::DestinationsWrite)),
    ("post", "/v1/destinations/{id}/probe", Scoped(Scope::DestinationsWrite)),
    ("post", "/v1/destinations/{id}/resume", Scoped(Scope::DestinationsWrite)),
    ("post", "/v1/destinations/{id}/rotate-secret", Scoped(Scope::DestinationsWrite)),
    ("get", "/v1/destinations/{id}/secret", Scoped(Scope::SecretsReveal)),
    ("get", "/v1/destinations/{id}/stats", Scoped(Scope::DestinationsRead)),
    ("get", "/v1/destinations/{id}/stats/series", Scoped(Scope::DestinationsRead)),
    ("post", "/v1/destinations/{id}/test", Scoped(Scope::DestinationsWrite)),
    ("get", "/v1/doctor", Operator),
    ("get", "/v1/events", Scoped(Scope::EventsRead)),
    ("post", "/v1/events", Scoped(Scope::IngestWrite)),
    ("post", "/v1/events/batch", Scoped(Scope::IngestWrite)),
    ("get", "/v1/events/{id}", Scoped(Scope::EventsRead)),
    ("get", "/v1/events/{id}/payload", Scoped(Scope::EventsRead)),
    ("delete", "/v1/events/{id}/payload", Scoped(Scope::AccountAdmin)),
    ("post", "/v1/events/{id}/replay", Scoped(Scope::DeliveriesRetry)),
    ("get", "/v1/master-keys", Operator),
    ("post", "/v1/master-keys/rotate", Operator),
    ("get", "/v1/nodes", OperatorOr(Scope::AccountAdmin)),
    ("get", "/v1/replays", Scoped(Scope::DeliveriesRead)),
    ("post", "/v1/replays", Scoped(Scope::DeliveriesRetry)),
    ("get", "/v1/replays/{id}", Scoped(Scope::DeliveriesRead)),
    ("post", "/v1/replays/{id}/cancel", Scoped(Scope::DeliveriesRetry)),
    ("post", "/v1/replays/{id}/pause", Scoped(Scope::DeliveriesRetry)),
    ("post", "/v1/replays/{id}/resume", Scoped(Scope::DeliveriesRetry)),
    ("get", "/v1/routes", Scoped(Scope::DestinationsRead)),
    ("post", "/v1/routes", Scoped(Scope::DestinationsWrite)),
    ("post", "/v1/routes/preview", Scoped(Scope::EventsRead)),
    ("get", "/v1/routes/{id}", Scoped(Scope::DestinationsRead)),
    ("delete", "/v1/routes/{id}", Scoped(Scope::DestinationsWrite)),
    ("patch", "/v1/routes/{id}", Scoped(Scope::DestinationsWrite)),
    ("get", "/v1/sources", Scoped(Scope::DestinationsRead)),
    ("post", "/v1/sources", Scoped(Scope::DestinationsWrite)),
    ("get", "/v1/sources/{id}", Scoped(Scope::DestinationsRead)),
    ("delete", "/v1/sources/{id}", Scoped(Scope::DestinationsWrite)),
    ("patch", "/v1/sources/{id}", Scoped(Scope::DestinationsWrite)),
    ("get", "/v1/sources/{id}/ingest-url", Scoped(Scope::SecretsReveal)),
    ("post", "/v1/sources/{id}/rotate-token", Scoped(Scope::DestinationsWrite)),
    ("get", "/v1/stats", Scoped(Scope::EventsRead)),
    ("get", "/v1/stats/fanout", Scoped(Scope::EventsRead)),
    ("get", "/v1/stats/series", Scoped(Scope::EventsRead)),
    ("get", "/v1/stream", Scoped(Scope::DeliveriesRead)),
    ("get", "/v1/users", Operator),
    ("post", "/v1/users", Operator),
    ("delete", "/v1/users/{id}", Operator),
];

#[test]
fn every_operation_says_what_it_needs() {
    let mut named: Vec<_> = operations().into_iter().map(|(path, method, _)| (method, path)).collect();
    named.retain(|(_, path)| path.starts_with("/v1/"));
    let mut listed: Vec<_> =
        MATRIX.iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    named.sort();
    listed.sort();
    assert_eq!(named, listed);
}

#[tokio::test]
async fn a_key_may_do_what_its_scopes_say_and_nothing_else() {
    let world = World::memory().await;
    let with_none = world.key_with(&[]).await;
    for scope in Scope::OF_ACCOUNT {
        let others: Vec<Scope> = Scope::OF_ACCOUNT.into_iter().filter(|other| *other != scope).collect();
        let (with, without) = (world.key_with(&[scope]).await, world.key_with(&others).await);
        for (method, path, needs) in MATRIX {
            let allowed = |key| may(&world, key, method, path);
            let (needs_it, needs_none) = match needs {
                Scoped(needed) | OperatorOr(needed) => (*needed == scope, false),
                Anything => (false, true),
                PlatformScoped(_) | PlatformScopedAll(_) | Operator => (false, false),
            };
            let needs_other = matches!(needs, Scoped(_) | OperatorOr(_)) && !needs_it;
            assert_eq!(allowed(&with).await, needs_it || needs_none, "{method} {path} with {scope:?}");
            assert_eq!(
                allowed(&without).await,
                needs_other || needs_none,
                "{method} {path} without {scope:?}"
            );
        }
    }
    for (method, path, needs) in MATRIX {
        assert!(may(&world, &world.operator_key, method, path).await, "{method} {path} as operator");
        assert_eq!(may(&world, &with_none, method, path).await, *needs == Anything, "{method} {path}");
    }
}

#[tokio::test]
async fn a_platform_may_do_what_its_scopes_say_and_nothing_else() {
    let world = World::memory().await;
    let account = world.account.to_string();
    for scope in Scope::ALL {
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|other| *other != scope).collect();
        let (with, without) = (world.platform_with(&[scope]).await, world.platform_with(&others).await);
        for (method, path, needs) in MATRIX {
            // The nodes are the operator's, whatever a platform may do.
            let (needed, for_whom) = match needs {
                _ if *path == "/v1/nodes" => (None, Some(account.as_str())),
                Operator => (None, None),
                PlatformScoped(needed) => (Some(slice::from_ref(needed)), None),
                PlatformScopedAll(needed) => (Some(*needed), None),
                Scoped(needed) | OperatorOr(needed) => {
                    (Some(slice::from_ref(needed)), Some(account.as_str()))
                }
                Anything => continue,
            };
            let allowed = |key| may_for(&world, key, for_whom, method, path);
            assert_eq!(allowed(&with).await, needed == Some(&[scope]), "{method} {path} with {scope:?}");
            let others_do = needed.is_some_and(|needed| !needed.contains(&scope));
            assert_eq!(allowed(&without).await, others_do, "{method} {path} without {scope:?}");
        }
    }
}

/// Whether this is refused for want of a scope, or for some other reason, or not at all. The ids were never given out, and
/// only the head of an answer is awaited: a stream has no end.
async fn may(world: &World, key: &str, method: &str, path: &str) -> bool {
    may_for(world, key, None, method, path).await
}

/// The same, for an account that is named.
async fn may_for(world: &World, key: &str, account: Option<&str>, method: &str, path: &str) -> bool {
    let kinds = [
        ("/v1/accounts", "acc"),
        ("/v1/api-keys", "key"),
        ("/v1/deliveries", "dlv"),
        ("/v1/destinations", "dst"),
        ("/v1/events", "evt"),
        ("/v1/replays", "rpl"),
        ("/v1/routes", "rte"),
        ("/v1/sources", "src"),
        ("/v1/users", "usr"),
    ];
    let kind = kinds.iter().find(|(list, _)| path.starts_with(list)).map_or("", |(_, kind)| kind);
    let id = |kind: &str| format!("{kind}_01h455vb4pex5vsknk084sn02q");
    let path =
        path.replace("{id}", &id(kind)).replace("{key_id}", &id("key")).replace("{link_id}", &id("ptl"));
    let method: Method = method.to_uppercase().parse().expect("a method");
    let mut request = http::Request::builder()
        .uri(path)
        .header(http::header::AUTHORIZATION, format!("Bearer {key}"))
        .header(http::header::CONTENT_TYPE, "application/json");
    if let Some(account) = account {
        request = request.header("posthaste-account", account);
    }
    let body = if method == Method::GET { String::new() } else { json!({}).to_string() };
    request = request.method(method);
    world.begin(request.body(body.into()).expect("a request")).await.status() != 403
}
