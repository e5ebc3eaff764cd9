//! Who may do what: `crates/api/scopes.txt` names every operation of the API with the scope it needs. It is the specification:
//! an operation that is not in it fails the test, as does one that asks for more or for less.

use crate::{
    openapi::operations,
    world::{World, text},
};
use Who::{Account, AccountOrOperator, Nobody, Operator, Platform};
use domain::account::Scope;
use http::Method;
use serde_json::json;
use std::sync::LazyLock;

const FILE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scopes.txt"));

#[derive(Debug, Clone, Copy, PartialEq)]
enum Who {
    Account,
    AccountOrOperator,
    /// Or an operator.
    Platform,
    Operator,
    /// It needs no key.
    Nobody,
}

/// A line of the file. Whoever may, needs all of the scopes.
struct Row {
    method: String,
    path: String,
    who: Who,
    scopes: Vec<Scope>,
}

static MATRIX: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let lines = FILE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| row(line).unwrap_or_else(|| panic!("no line of a matrix: {line}"))).collect()
});

fn row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_lowercase(), words.next()?.to_owned());
    let who = match words.next()? {
        "account" => Account,
        "account,operator" => AccountOrOperator,
        "platform" => Platform,
        "operator" => Operator,
        "nobody" => Nobody,
        _ => return None,
    };
    let scopes = match words.next()? {
        "-" => Vec::new(),
        named => named.split(',').map(str::parse).collect::<Result<_, _>>().ok()?,
    };
    words.next().is_none().then_some(Row { method, path, who, scopes })
}

impl Row {
    /// What a key of an account needs; None: no such key may.
    fn for_account(&self) -> Option<&[Scope]> {
        match self.who {
            Account | AccountOrOperator => Some(&self.scopes),
            Platform | Operator | Nobody => None,
        }
    }

    fn named(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// Those that need a key.
fn guarded() -> impl Iterator<Item = &'static Row> {
    MATRIX.iter().filter(|row| row.who != Nobody)
}

#[test]
fn every_operation_says_what_it_needs() {
    let mut named: Vec<_> = operations().into_iter().map(|(path, method, _)| (method, path)).collect();
    let mut listed: Vec<_> = MATRIX.iter().map(|row| (row.method.clone(), row.path.clone())).collect();
    named.sort();
    listed.sort();
    assert_eq!(named, listed);
}

/// A scope that opens nothing would be one that nobody needs, or a line that says the wrong thing.
#[test]
fn every_scope_opens_something() {
    for scope in Scope::ALL {
        assert!(MATRIX.iter().any(|row| row.scopes.contains(&scope)), "{scope}");
    }
}

#[tokio::test]
async fn a_key_may_do_what_its_scopes_say_and_nothing_else() {
    let world = World::memory().await;
    let with_none = world.key_with(&[]).await;
    for scope in Scope::OF_ACCOUNT {
        let others: Vec<Scope> = Scope::OF_ACCOUNT.into_iter().filter(|other| *other != scope).collect();
        let (with, without) = (world.key_with(&[scope]).await, world.key_with(&others).await);
        for row in guarded() {
            let allowed = |key| may(&world, key, &row.method, &row.path);
            let needed = row.for_account();
            let suffices = needed.is_some_and(|needed| needed.iter().all(|needed| *needed == scope));
            assert_eq!(allowed(&with).await, suffices, "{} with {scope}", row.named());
            let dispensable = needed.is_some_and(|needed| !needed.contains(&scope));
            assert_eq!(allowed(&without).await, dispensable, "{} without {scope}", row.named());
        }
    }
    for row in guarded() {
        assert!(
            may(&world, &world.operator_key, &row.method, &row.path).await,
            "{} as operator",
            row.named()
        );
        let free = row.for_account().is_some_and(<[Scope]>::is_empty);
        assert_eq!(may(&world, &with_none, &row.method, &row.path).await, free, "{}", row.named());
    }
}

#[tokio::test]
async fn a_platform_may_do_what_its_scopes_say_and_nothing_else() {
    let world = World::memory().await;
    let account = world.account.to_string();
    for scope in Scope::ALL {
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|other| *other != scope).collect();
        let (with, without) = (world.platform_with(&[scope]).await, world.platform_with(&others).await);
        for row in guarded() {
            // The nodes are the operator's, whatever a platform may do.
            let (needed, for_whom) = match row.who {
                _ if row.path == "/v1/nodes" => (None, Some(account.as_str())),
                Operator | Nobody => (None, None),
                Platform => (Some(&*row.scopes), None),
                Account | AccountOrOperator if row.scopes.is_empty() => continue,
                Account | AccountOrOperator => (Some(&*row.scopes), Some(account.as_str())),
            };
            let allowed = |key| may_for(&world, key, for_whom, &row.method, &row.path);
            assert_eq!(allowed(&with).await, needed == Some(&[scope]), "{} with {scope}", row.named());
            let others_do = needed.is_some_and(|needed| !needed.contains(&scope));
            assert_eq!(allowed(&without).await, others_do, "{} without {scope}", row.named());
        }
    }
}

#[tokio::test]
async fn a_key_of_a_source_only_brings_events_in() {
    let world = World::memory().await;
    let source = text(&world.post("/v1/sources", json!({ "name": "Shop" })).await.expect(201)["id"]);
    let body = json!({ "name": "door", "kind": "ingest", "source_id": source });
    let key = text(&world.post("/v1/api-keys", body).await.expect(201)["key"]);
    for row in guarded() {
        let brings = row.scopes == [Scope::IngestWrite];
        assert_eq!(may(&world, &key, &row.method, &row.path).await, brings, "{}", row.named());
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
