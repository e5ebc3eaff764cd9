//! The two stores are twins: the same files for the same things, and statements of the same name. What only one of them
//! has stands here, with the reason; a file that is forgotten on one side is found by this.

use std::{collections::BTreeSet, fs, path::Path};

type Reasons = &'static [(&'static str, &'static [&'static str])];

const FILES_OF_POSTGRES: Reasons = &[
    (
        "a server is reached by an address, over a network, on connections that are shared",
        &["pool", "tls", "url"],
    ),
    ("its settings can lose what it has acknowledged", &["durability"]),
    ("its owner says what our role may do", &["rights"]),
    ("a schema can be made to try something; an embedded store is a folder", &["scratch"]),
    ("its planner goes by statistics, and would plan each small batch anew", &["planned"]),
    ("it forgets whole days by dropping their tables", &["partitions"]),
    ("many nodes tell each other what they have written", &["wakes/listener", "wakes/note", "wakes/table"]),
];

const FILES_OF_SQLITE: Reasons = &[
    ("one thread writes, and many read", &["readers", "writer", "writer/copier", "writer/job"]),
    (
        "it is a file of ours: no server copies it, looks after its room or reads its pages",
        &["backup", "file_lock", "integrity", "space"],
    ),
    ("it counts waiting deliveries in memory, as the only process that writes", &["tally"]),
    (
        "keys are found by a small fingerprint: a hash of 32 bytes would be spread over the whole file",
        &["idempotency"],
    ),
    ("patterns are texts for glob, and lists that may be long are JSON", &["history/filter"]),
];

const STATEMENTS_OF_POSTGRES: Reasons = &[
    (
        "a batch, or a chunk, is one statement: on SQLite it is a transaction of small ones",
        &[
            "commit",
            "commit_keyed",
            "commit_lost",
            "commit_plain",
            "commit_tags",
            "commit_written",
            "expand",
            "settle",
            "settle_dead_letters",
            "settle_replayed",
            "backfill",
            "resolve_chains",
            "prune_facts",
            "prune_idempotency",
            "forget_made",
            "answers",
            "erase_answers",
            "erase_destinations",
            "erase_events",
            "erase_holds",
            "erase_keys",
            "erase_made",
            "erase_payload",
            "erase_replays",
            "erase_tags",
        ],
    ),
    (
        "a node of the version before may move an expansion while it is taken over",
        &["left_expansions", "reached_by_event"],
    ),
    (
        "what guards a transaction is locked: SQLite has one writer",
        &[
            "lock_chain",
            "lock_events",
            "lock_payload",
            "lock_replay",
            "lock_term",
            "switch_accounts",
            "switch_destinations",
        ],
    ),
    (
        "many nodes: membership, and what they tell each other",
        &["keep_shards", "reap", "renew", "take_chore", "reads_wakes", "tell", "tell_table"],
    ),
    (
        "days are tables",
        &[
            "day_has_kept",
            "days",
            "delivery_day_needed",
            "event_day_needed",
            "missing_partitions",
            "strayed_facts",
            "strayed_settled",
            "strayed_tags",
            "summarise",
        ],
    ),
    ("a snapshot tells what is new: on SQLite the numbers of the rows do", &["sum_fresh"]),
    ("settings and tables of a server", &["extent", "found_tables", "rights", "unsafe_settings"]),
    (
        "one round trip: a list is a scan and a page, and many are asked for together",
        &[
            "account_backlogs",
            "backfill_events",
            "changes",
            "deliveries",
            "deliveries_of_replay",
            "deliveries_page",
            "delivery",
            "events_page",
            "fanout_sizes",
            "fanout_totals",
            "given_ids",
            "originals",
            "originals_given",
            "originals_page",
            "originals_survey",
            "published_lanes",
            "rollups_of_destinations",
            "take_tests",
            "test_progress",
            "versions",
        ],
    ),
    (
        "of a line on SQLite",
        &[
            "accounts",
            "count_unfinished_replays",
            "count_waiting",
            "forget_deliveries",
            "forget_entries",
            "forget_events",
            "forget_tags",
            "insert_account",
            "payload_in_use",
            "probe",
            "replay_of_key",
            "replayed",
            "source_by_token",
        ],
    ),
];

const STATEMENTS_OF_SQLITE: Reasons = &[
    (
        "a transaction of small statements: on PostgreSQL a batch, or a chunk, is one",
        &[
            "awaits_time",
            "backfill_is_held",
            "make_backfilled",
            "write_backfill",
            "claim_key",
            "count_dead_letter",
            "end_expansion",
            "insert_delivery",
            "insert_event",
            "insert_expansion",
            "may_be_paused",
            "move_chain",
            "move_cursor",
            "next_sequence",
            "note_replayed",
            "old_facts",
            "resolve_chain",
            "resolve_late",
            "settle_dead_letter",
            "settle_end",
            "settle_fact",
            "settle_wait",
            "made",
            "is_erased",
            "is_held",
            "is_needed",
        ],
    ),
    (
        "keys are found by a fingerprint",
        &["key_by_fingerprint", "key_by_number", "keys_of_account", "oldest_keys", "unindexed_keys"],
    ),
    (
        "a list walks one index at a time, and what a row shows is looked up",
        &[
            "changed_routes",
            "ended_deliveries",
            "event_payload",
            "looked_up_of_replay",
            "members",
            "overrides",
            "waiting_deliveries",
            "waiting_delivery",
            "waiting_of_event",
            "wanted_delivery",
        ],
    ),
    ("rows are numbered as they are committed", &["feed_end", "nearby_facts"]),
];

#[test]
fn the_stores_have_the_same_files_but_for_those_that_are_named() {
    let (postgres, sqlite) = (files("postgres", "", "rs"), files("sqlite", "", "rs"));
    compare(&postgres, &sqlite, FILES_OF_POSTGRES);
    compare(&sqlite, &postgres, FILES_OF_SQLITE);
}

#[test]
fn the_stores_have_the_same_statements_but_for_those_that_are_named() {
    let (postgres, sqlite) = (files("postgres/sql", "", "sql"), files("sqlite/sql", "", "sql"));
    compare(&postgres, &sqlite, STATEMENTS_OF_POSTGRES);
    compare(&sqlite, &postgres, STATEMENTS_OF_SQLITE);
}

#[track_caller]
fn compare(these: &BTreeSet<String>, others: &BTreeSet<String>, named: Reasons) {
    let named: BTreeSet<String> =
        named.iter().flat_map(|(_, names)| *names).map(|name| (*name).to_owned()).collect();
    let alone: BTreeSet<String> = these.difference(others).cloned().collect();
    let unnamed: Vec<_> = alone.difference(&named).collect();
    let outdated: Vec<_> = named.difference(&alone).collect();
    assert!(
        unnamed.is_empty() && outdated.is_empty(),
        "without a reason: {unnamed:?}; no more: {outdated:?}"
    );
}

/// By their paths, without the ending; all but the tests.
fn files(folder: &str, within: &str, kind: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(folder).join(within);
    let mut found = BTreeSet::new();
    for file in fs::read_dir(path).expect("a folder") {
        let (file, name) = match file {
            Ok(file) => (file.path(), file.file_name().into_string().expect("a plain name")),
            Err(error) => panic!("{error}"),
        };
        let name = if within.is_empty() { name } else { format!("{within}/{name}") };
        if file.is_dir() {
            if name != "tests" && name != "sql" {
                found.extend(files(folder, &name, kind));
            }
        } else if let Some(name) = name.strip_suffix(kind).and_then(|name| name.strip_suffix('.')) {
            found.extend((name != "tests").then(|| name.to_owned()));
        }
    }
    found
}
