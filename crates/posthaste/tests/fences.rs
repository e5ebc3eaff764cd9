//! The crates' fences: who may depend on what, and why. A crate earns its place by a line it leaves out of
//! its `Cargo.toml`; this file holds those lines, and reads the real ones from `cargo metadata`.
//!
//! What a crate may not *call* is another fence, in the `clippy.toml` of its folder.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};

/// What one crate of the workspace may see.
struct Fence {
    name: &'static str,
    /// The only crates of the workspace it may depend on.
    sees: &'static [&'static str],
    /// Crates of others it must do without, and why.
    without: &'static [(&'static str, &'static str)],
}

const FENCES: &[Fence] = &[
    Fence {
        name: "domain",
        sees: &[], // the rules stand below everything
        without: &[
            ("tokio", "the rules have no tools for I/O"),
            ("hyper", "the rules have no tools for I/O"),
            ("axum", "a rule does not know that it was asked over HTTP"),
            ("rusqlite", "a rule does not know where its values are kept"),
            ("tokio-postgres", "a rule does not know where its values are kept"),
            ("rand", "jitter is a number handed in: same input, same answer"),
        ],
    },
    Fence {
        name: "contract",
        sees: &["domain"], // what is said is made of values of the domain; how it is read is the server's business
        without: &[
            ("axum", "a page and a client read the same types as a request"),
            ("hyper", "what is said does not depend on how it travels"),
            ("tokio", "types have nothing to wait for"),
        ],
    },
    Fence {
        name: "sharing",
        sees: &["domain"], // shares are those of accounts
        without: &[
            ("hyper", "what is shared out does not matter here"),
            ("axum", "what is shared out does not matter here"),
        ],
    },
    Fence {
        name: "store",
        sees: &["domain"], // it remembers values of the domain
        without: &[
            ("axum", "the memory has no opinion on HTTP"),
            ("hyper", "the memory has no opinion on HTTP"),
            ("hyper-util", "the memory has no opinion on HTTP"),
        ],
    },
    Fence {
        name: "supervisor",
        sees: &["domain"], // its bounds are named there, and how a metric is written
        without: &[
            ("axum", "it keeps loops alive, whatever they do"),
            ("hyper", "it keeps loops alive, whatever they do"),
        ],
    },
    Fence {
        name: "engine",
        sees: &["domain", "sharing", "store", "supervisor"], // it carries out the rules on what is remembered, in watched loops
        without: &[("axum", "the engine is driven by the binary or a simulator, never by a request")],
    },
    Fence {
        name: "ingest",
        // It makes events durable, in a loop that is watched; what is committed is announced through the store's traits.
        sees: &["domain", "sharing", "store", "supervisor"],
        without: &[
            ("axum", "the committer runs in a simulator, where nobody speaks HTTP"),
            ("hyper", "the committer runs in a simulator, where nobody speaks HTTP"),
            ("http", "what an answer is in HTTP is decided by the api, in one place"),
            ("rand", "chance comes from the Dice: the seed's, in a simulator"),
        ],
    },
    Fence {
        name: "api",
        // Without engine: the committed row is the truth, so that api and worker can be one process or twenty.
        sees: &["contract", "domain", "ingest", "sharing", "store", "supervisor"],
        without: &[],
    },
    Fence {
        name: "dashboard",
        // It renders the views that `api::read` gives; of the store it knows how a page of a list is asked for, nothing else.
        sees: &["api", "contract", "domain", "store"],
        without: &[
            ("tokio", "a page is rendered and starts nothing of its own"),
            ("hyper", "how a page travels is the api's business"),
        ],
    },
    Fence {
        name: "client",
        sees: &["contract", "domain"], // it speaks the public API and knows what everybody can know
        without: &[("axum", "a client serves nobody")],
    },
    Fence {
        name: "lab",
        sees: &[], // it judges the product from outside, and must not share its mistakes
        without: &[],
    },
    Fence {
        name: "posthaste",
        sees: &["api", "client", "dashboard", "domain", "engine", "lab", "store", "supervisor"], // it ties all together
        without: &[],
    },
    Fence {
        name: "sim",
        // A world around what admits and delivers, judged by the sentences of the lab; nobody in it speaks HTTP.
        sees: &["domain", "engine", "ingest", "lab", "store", "supervisor"],
        without: &[
            ("axum", "events come in without a server, so that nothing but the seed decides"),
            ("hyper", "its internet is simulated"),
            ("rand", "chance comes from the seed"),
        ],
    },
    Fence {
        name: "checks",
        sees: &["client", "domain", "lab"], // they try the built binary, as its users do
        without: &[],
    },
];

/// Crates of others that only some of ours may depend on: the crate, who may, and why nobody else.
const RESERVED: &[(&str, &[&str], &str)] = &[
    ("rusqlite", &["store", "checks"], "a query cannot appear outside the store"),
    ("tokio-postgres", &["store", "checks"], "a query cannot appear outside the store"),
    ("deadpool-postgres", &["store", "checks"], "a query cannot appear outside the store"),
    ("hickory-resolver", &["engine"], "names are resolved by egress alone, where their addresses are judged"),
    ("anyhow", &["posthaste", "checks", "sim"], "a library's errors are types its callers can act on"),
    ("clap", &["posthaste", "checks", "sim"], "only the programs have arguments"),
    ("maud", &["dashboard"], "markup is made in one place, where everything is escaped"),
];

/// Crates that are nowhere in the graph, not even behind others.
const BANNED: &[(&str, &str)] = &[
    ("openssl", "TLS is rustls: one stack, and nothing of the system to match"),
    ("openssl-sys", "TLS is rustls: one stack, and nothing of the system to match"),
    ("native-tls", "TLS is rustls, the same on every platform"),
    ("reqwest", "our own connector sees the address before a byte is sent; this one hides it"),
];

#[test]
fn every_crate_of_the_workspace_has_a_fence() {
    let fenced: BTreeSet<&str> = FENCES.iter().map(|fence| fence.name).collect();
    let tree = tree();
    let present: BTreeSet<&str> = tree.keys().map(String::as_str).collect();
    assert_eq!(present, fenced, "left: the crates in the workspace, right: those in the table above");
}

#[test]
fn crates_of_the_workspace_see_only_what_their_fence_allows() {
    let tree = tree();
    check(FENCES.iter().flat_map(|fence| over_the_fence(fence, dependencies(&tree, fence.name))));
}

#[test]
fn crates_do_without_what_their_fence_forbids() {
    let tree = tree();
    check(FENCES.iter().flat_map(|fence| forbidden(fence, dependencies(&tree, fence.name))));
}

#[test]
fn only_the_store_knows_the_databases_and_only_the_programs_know_anyhow_and_clap() {
    check(tree().iter().flat_map(|(name, dependencies)| reserved(name, dependencies)));
}

#[test]
fn nothing_depends_on_the_checks_or_the_simulator_not_even_a_test() {
    let metadata = metadata();
    check(metadata.workspace_packages().into_iter().flat_map(|package| {
        let unshipped = |name: &str| name == "checks" || name == "sim";
        let to_them = package.dependencies.iter().filter(move |dependency| unshipped(&dependency.name));
        to_them.map(|to| format!("{} depends on {}: it is never shipped", package.name, to.name))
    }));
}

#[test]
fn no_server_is_built_with_the_model_of_the_store() {
    let metadata = metadata();
    check(metadata.workspace_packages().into_iter().filter(|package| package.name != "sim").flat_map(
        |package| {
            let shipped = |kind: DependencyKind| kind != DependencyKind::Development;
            let with_model = package.dependencies.iter().filter(move |dependency| {
                dependency.name == "store"
                    && shipped(dependency.kind)
                    && dependency.features.iter().any(|it| it == "memory")
            });
            with_model
                .map(|_| format!("{} switches on `memory`: it is for tests and the simulator", package.name))
        },
    ));
}

#[test]
fn no_banned_crate_is_anywhere_in_the_graph() {
    let metadata = metadata();
    check(BANNED.iter().filter_map(|(banned, reason)| {
        let path = path_to(&metadata, banned)?;
        Some(format!("{}: {reason}", path.join(" -> ")))
    }));
}

#[test]
fn a_dependency_over_the_fence_is_reported_with_its_reason() {
    let fence = Fence { name: "api", sees: &["store"], without: &[("left-pad", "it can be written")] };
    let of = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<BTreeSet<_>>();

    assert_eq!(over_the_fence(&fence, &of(&["store", "tokio"])), [""; 0]);
    assert_eq!(
        over_the_fence(&fence, &of(&["engine", "store"])),
        ["api depends on engine; it may see store"]
    );
    assert_eq!(forbidden(&fence, &of(&["left-pad"])), ["api depends on left-pad: it can be written"]);
    assert_eq!(reserved("store", &of(&["rusqlite"])), [""; 0]);
    assert_eq!(
        reserved("api", &of(&["rusqlite"])),
        ["api depends on rusqlite: a query cannot appear outside the store"]
    );
}

#[test]
fn a_crate_behind_others_is_found_with_the_way_to_it() {
    let path = path_to(&metadata(), "libsqlite3-sys").expect("rusqlite brings it");
    assert_eq!(path[path.len() - 2..], ["rusqlite", "libsqlite3-sys"]);
    assert!(tree().contains_key(&path[0]), "{path:?} begins in the workspace");
}

fn over_the_fence(fence: &Fence, dependencies: &BTreeSet<String>) -> Vec<String> {
    let ours: BTreeSet<&str> = FENCES.iter().map(|fence| fence.name).collect();
    let beyond = dependencies.iter().map(String::as_str).filter(|name| ours.contains(name));
    let beyond = beyond.filter(|name| !fence.sees.contains(name));
    let sees = if fence.sees.is_empty() { "none of the others".to_owned() } else { fence.sees.join(", ") };
    beyond.map(|name| format!("{} depends on {name}; it may see {sees}", fence.name)).collect()
}

fn forbidden(fence: &Fence, dependencies: &BTreeSet<String>) -> Vec<String> {
    let found = fence.without.iter().filter(|(name, _)| dependencies.contains(*name));
    found.map(|(name, reason)| format!("{} depends on {name}: {reason}", fence.name)).collect()
}

fn reserved(name: &str, dependencies: &BTreeSet<String>) -> Vec<String> {
    let found =
        RESERVED.iter().filter(|(reserved, may, _)| dependencies.contains(*reserved) && !may.contains(&name));
    found.map(|(reserved, _, reason)| format!("{name} depends on {reserved}: {reason}")).collect()
}

#[track_caller]
fn check(findings: impl Iterator<Item = String>) {
    let findings: Vec<String> = findings.collect();
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// What each crate of the workspace names in its own `Cargo.toml`. Tests may borrow what they like.
fn tree() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let shipped = |package: &cargo_metadata::Package| {
        let all = package.dependencies.iter();
        let shipped = all.filter(|dependency| dependency.kind != DependencyKind::Development);
        shipped.map(|dependency| dependency.name.clone()).collect()
    };
    metadata
        .workspace_packages()
        .into_iter()
        .map(|package| (package.name.to_string(), shipped(package)))
        .collect()
}

fn dependencies<'a>(tree: &'a BTreeMap<String, BTreeSet<String>>, name: &str) -> &'a BTreeSet<String> {
    tree.get(name).unwrap_or_else(|| panic!("the fence of {name} stands around nothing"))
}

/// The shortest way from a crate of the workspace to the named one, through every kind of dependency and on
/// every platform.
fn path_to(metadata: &Metadata, name: &str) -> Option<Vec<String>> {
    let resolve = metadata.resolve.as_ref().expect("cargo metadata resolves unless told otherwise");
    let next: BTreeMap<&PackageId, &[PackageId]> =
        resolve.nodes.iter().map(|node| (&node.id, node.dependencies.as_slice())).collect();

    let mut came_from: BTreeMap<&PackageId, Option<&PackageId>> =
        metadata.workspace_members.iter().map(|id| (id, None)).collect();
    let mut waiting: VecDeque<&PackageId> = metadata.workspace_members.iter().collect();
    while let Some(id) = waiting.pop_front() {
        if metadata[id].name.as_str() == name {
            let way_back = std::iter::successors(Some(id), |id| came_from[id]);
            let mut path: Vec<String> = way_back.map(|id| metadata[id].name.to_string()).collect();
            path.reverse();
            return Some(path);
        }
        for dependency in next[id] {
            came_from.entry(dependency).or_insert_with(|| {
                waiting.push_back(dependency);
                Some(id)
            });
        }
    }
    None
}

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .other_options(["--locked".to_owned()])
        .exec()
        .expect("cargo metadata answers; `cargo fetch --locked` brings what it may miss")
}
