//! All checks: what each is called, what it shows, and on which stores. The alias is what it was called before, and the
//! number of the reliability table where it has a row there; it works wherever the name does.

mod attempts_told_apart;
mod audit_finds_faults;
mod backfilled_once;
mod backup_under_load;
mod bad_input;
mod behind_a_proxy;
mod behind_pgbouncer;
mod blocked_tells_nothing;
mod bodies_unaltered;
mod breaker;
mod changed_audit_log;
mod changes_obeyed;
mod clock_jumps;
mod cold_start;
mod compressed_ingest;
mod connections_cut;
mod cost_of_growth;
mod cost_of_more_nodes;
mod cost_of_refusing;
mod customers_under_kills;
mod damaged_files;
mod database_crash;
mod database_network_cut;
mod deep_backlog;
mod dying_loops;
mod every_outcome;
mod everything_hostile;
mod failed_flush;
mod fanout_to_100k;
mod fanout_to_50;
mod fanout_to_5k;
mod flushed_before_answered;
mod forbidden_targets;
mod foreign_ids;
mod frozen_chore;
mod frozen_node;
mod full_disk;
mod graceful_stop;
mod guessing;
mod hanging_destination;
mod header_injection;
mod held_million;
mod hostile_receivers;
mod idempotency_race;
mod idle_latency;
mod json_bombs;
mod judge_all_logs;
mod key_handling;
mod key_over_its_limit;
mod killed_at_every_failpoint;
mod killed_under_load;
mod killed_while_expanding;
mod large_payloads_unread;
mod limit_across_nodes;
mod limits_exactly;
mod long_history;
mod lost_commit_answer;
mod master_key_rotated;
mod memory_of_a_million;
mod memory_of_json;
mod metrics_agree;
mod minute_without_database;
mod no_deadlocks;
mod nodes_killed;
mod nodes_killed_while_expanding;
mod one_account_takes_all;
mod order_by_key;
mod order_under_faults;
mod outage_is_no_denial;
mod overload;
mod oversize_bodies;
mod panics;
mod payloads_at_rest;
mod provider_signatures;
mod read_only_database;
mod rebinding;
mod replay_under_kills;
mod replayed_provider_requests;
mod request_smuggling;
mod retention_keeps_waiting;
mod retry_after_obeyed;
mod retry_race;
mod rolling_restart;
mod rotation_gap;
mod scope_matrix;
mod second_process_refused;
mod secrets_at_rest;
mod secrets_in_output;
mod slots_in_use;
mod slow_backlog;
mod slow_disk;
mod sql_injection;
mod starvation;
mod statistics_in_time;
mod throughput;
mod too_few_connections;
mod undeliverable_rows;
mod unfinished_connections;
mod unknown_limits;
mod unsafe_settings_refused;
mod windowed_receiver;
mod wrong_clocks;

use std::future::Future;
use std::pin::Pin;

use anyhow::Result;

use crate::harness::{Options, Report, StoreKind};

/// A check under way.
pub(crate) type RunningCheck<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) shows: &'static str,
    pub(crate) stores: &'static [StoreKind],
    pub(crate) run: for<'a> fn(&'a Options, &'a mut Report) -> RunningCheck<'a>,
}

/// The check that is called so, by its name or an alias.
pub(crate) fn named(word: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == word || check.aliases.contains(&word))
}

const BOTH: &[StoreKind] = &[StoreKind::Sqlite, StoreKind::Postgres];
const SQLITE: &[StoreKind] = &[StoreKind::Sqlite];
const POSTGRES: &[StoreKind] = &[StoreKind::Postgres];

/// A check has a file of its own, or is one of a family that shares one.
macro_rules! run {
    ($name:ident) => {
        |options, report| Box::pin($name::run(options, report))
    };
    ($name:ident $family:ident) => {
        |options, report| Box::pin($family::run(stringify!($name), options, report))
    };
}

macro_rules! checks {
    ($($name:ident $(of $family:ident)? [$($alias:literal)*] $stores:ident => $shows:literal;)*) => {
        pub(crate) const CHECKS: &[Check] = &[$(Check {
            name: stringify!($name),
            aliases: &[$($alias),*],
            shows: $shows,
            stores: $stores,
            run: run!($name $($family)?),
        }),*];
    };
}

checks! {
    killed_under_load ["a01"] BOTH => "killed every two seconds under load, nothing acknowledged is lost";
    killed_at_every_failpoint ["a02"] BOTH =>
        "killed at every named place in the code, nothing acknowledged is lost";
    flushed_before_answered ["a03"] SQLITE => "no event is acknowledged before its flush has returned";
    failed_flush ["a05"] SQLITE => "a flush that fails is never taken for one that did not";
    full_disk ["a06"] SQLITE => "a full disk refuses events, settles deliveries, and recovers by itself";
    damaged_files ["a07"] BOTH =>
        "a cut log costs its tail and no more, damage is named, and no altered payload is sent";
    backup_under_load ["a08"] SQLITE =>
        "a backup made under load has everything, and events hardly notice it";
    second_process_refused ["a09"] SQLITE => "a second process on the same file is turned away, by whatever path it comes";
    slow_disk ["a10"] SQLITE => "a disk on which every flush takes 200 ms costs time and nothing else";
    unsafe_settings_refused ["a11"] BOTH =>
        "a store that may forget is refused, unless that is accepted for all to see";
    nodes_killed ["b01"] POSTGRES => "nodes killed under load lose nothing, and their lanes go on";
    frozen_node ["b02"] POSTGRES => "a node that slept through its lease sends nothing and moves nothing";
    database_crash ["b03"] POSTGRES => "a database that crashes under load costs time and nothing else";
    connections_cut ["b04"] POSTGRES => "connections to the database cut one by one cost nothing";
    database_network_cut ["b05"] POSTGRES =>
        "a network to the database that is cut or silent is noticed and survived";
    lost_commit_answer ["b06"] POSTGRES => "a commit whose answer is lost happens once";
    behind_pgbouncer ["b07"] POSTGRES => "through a pooler in transaction mode everything still holds";
    clock_jumps ["a12"] SQLITE =>
        "a clock that jumps delays no retry and expires nothing, and a start behind what is stored says so";
    wrong_clocks ["b08"] POSTGRES => "clocks that are hours off or jump change nothing";
    too_few_connections ["b09"] POSTGRES =>
        "a database with too few connections slows down and harms nothing";
    limit_across_nodes ["b10"] POSTGRES => "three nodes together keep to the limit of a destination";
    order_under_faults ["b11"] POSTGRES =>
        "order survives failures, stalls and killed nodes, and one that is blocked blocks no other";
    frozen_chore ["b12"] POSTGRES => "a chore whose node falls asleep is ended by another, once";
    read_only_database ["b13"] POSTGRES =>
        "a database that is read-only for a while refuses events and loses none";
    no_deadlocks ["b14"] POSTGRES => "changes of configuration and large fan-outs never lock each other out";
    minute_without_database ["outage60"] POSTGRES =>
        "a database that is away for a minute costs no lane its owner";
    rolling_restart ["rolling"] POSTGRES =>
        "a rolling restart delays nothing by more than two seconds and doubles nothing";
    cost_of_more_nodes ["scale"] POSTGRES =>
        "four nodes spend no more CPU time on an event than one, within 15 %";
    cost_of_growth [] BOTH =>
        "an event costs the same however much is stored, waits or is configured, within 15 %";
    killed_while_expanding ["c01"] BOTH =>
        "a node killed while it expands a large fan-out leaves no delivery out and makes none twice";
    nodes_killed_while_expanding [] POSTGRES =>
        "three nodes killed while one event goes to a hundred thousand destinations: each has it once";
    fanout_to_100k ["c02"] BOTH => "one event for a hundred thousand destinations holds up no other account";
    retry_after_obeyed ["c03"] BOTH =>
        "a destination that says 429 is left alone as long as it asks, and no other notices";
    breaker ["c04"] BOTH => "a breaker opens, probes and closes as it should, over restarts and all nodes";
    slow_backlog ["c05"] BOTH => "a slow destination with a long backlog delays none of the quiet ones";
    every_outcome ["c06"] BOTH => "every outcome has its attempts, its pauses and its ending";
    undeliverable_rows ["c07"] BOTH =>
        "a delivery that cannot be made ends in a dead letter and harms no other";
    customers_under_kills [] BOTH =>
        "a platform's customers on nodes that die: each event to its own, and of a deleted one nothing is left";
    replay_under_kills ["c08"] BOTH =>
        "a replay that many ask for at once, on nodes that die, makes each delivery once";
    backfilled_once [] BOTH =>
        "stored events get to a new destination once, on nodes that die, and for little more than ordinary ones";
    retry_race ["c09"] BOTH => "a retry asked for at the moment of the automatic one is still one attempt";
    changes_obeyed ["c10"] BOTH => "a change of a destination is obeyed by every node within a second";
    rotation_gap ["c11"] BOTH =>
        "a secret that is changed under load costs nobody a request, and the old one signs no longer than it may";
    header_injection ["f13"] BOTH => "nothing that is written anywhere puts a line into a request, or takes the place of ours";
    bodies_unaltered ["c12"] BOTH => "ten thousand odd bodies arrive byte for byte";
    attempts_told_apart ["c13"] BOTH =>
        "attempts and replays of an event can be told apart, and each verifies";
    idempotency_race ["c14"] BOTH => "one idempotency key is one event, whatever races or dies";
    retention_keeps_waiting ["c15"] BOTH =>
        "retention never touches what waits, and leaves nothing of what has gone";
    graceful_stop ["c16"] BOTH => "a node that is told to stop ends what it has and hands over the rest";
    dying_loops [] BOTH => "a panic in any loop of a node restarts it or ends the node, and loses nothing";
    panics ["c17"] BOTH => "a panic in the middle of a delivery harms nothing else";
    audit_finds_faults ["c19"] BOTH =>
        "work that no node will ever do, and rows that do not fit together, are found by the audit";
    metrics_agree ["c20"] BOTH => "metrics agree with the tables and with the receivers, to the last one";
    statistics_in_time [] BOTH => "statistics tell what happened ten seconds ago, at any rate, and nothing twice";
    call_never_taken of hostile_receivers ["d01"] SQLITE =>
        "a destination that takes no calls is given up in time, and no other notices";
    answer_never_comes of hostile_receivers ["d02"] SQLITE =>
        "a destination that never answers is given up at its deadline, and no other notices";
    dripping_head of hostile_receivers ["d03"] SQLITE =>
        "an answer that begins and never ends is given up at its deadline";
    endless_body of hostile_receivers ["d04"] SQLITE =>
        "a body without end changes nothing of what its status said";
    huge_body of hostile_receivers ["d05"] SQLITE => "ten gigabytes of answer cost no memory";
    decompression_bomb of hostile_receivers ["d06"] SQLITE => "what is packed stays packed";
    answer_cut_off of hostile_receivers ["d07"] SQLITE =>
        "an answer that is cut off is an answer from the end of its head on, and no attempt is sent twice";
    broken_tls of hostile_receivers ["d08" "d11"] SQLITE =>
        "every kind of broken TLS is told apart, and nothing is sent without";
    redirects of hostile_receivers ["d09"] SQLITE => "no redirect is followed anywhere";
    malformed_answers of hostile_receivers ["d10"] SQLITE =>
        "what is not HTTP is no answer, and no answer is taken for that to another request";
    everything_hostile ["d12"] BOTH =>
        "two hundred hostile destinations of every kind at once harm no healthy one and no other account";
    stale_connection of hostile_receivers ["d13"] SQLITE =>
        "a connection that is closed as it is used again costs an attempt and doubles nothing";
    body_not_read of hostile_receivers ["d14"] SQLITE =>
        "a destination that answers without reading has answered, and memory is given back";
    large_payloads_unread ["unread"] BOTH =>
        "an account whose destination does not read large payloads holds up no other account";
    memory_of_json ["jsonmemory"] BOTH =>
        "large documents that are matched by their contents take no memory and no time from other accounts";
    forbidden_targets of forbidden_targets ["f01" "f05"] SQLITE =>
        "no spelling of a forbidden target is ever called, whichever way it gets to the node";
    forbidden_by_proxy of forbidden_targets ["f04"] SQLITE =>
        "with a proxy nothing else is called than without, and none that the environment names";
    rebinding ["f02" "f03"] SQLITE =>
        "a name that changes where it leads leads to nothing forbidden, by no connection that was kept either";
    blocked_tells_nothing ["f06"] SQLITE =>
        "how a request to a forbidden address fails tells nothing of what is there";
    overload ["e01"] BOTH => "three times too much is refused in time, and nothing accepted is lost";
    unfinished_connections ["e02"] BOTH => "connections that never finish do not harm those that do";
    oversize_bodies ["e03"] BOTH => "a body that is far too large is refused in time and costs nothing";
    behind_a_proxy [] BOTH =>
        "through a proxy that keeps its connections, a refusal and a stop are told in the node's own words";
    json_bombs ["e04"] BOTH => "JSON made to hurt its reader is kept as bytes, and refused where it is read";
    request_smuggling ["e05"] BOTH => "a request that can be read in two ways is refused, with all behind it";
    compressed_ingest ["e06"] BOTH => "nothing that was packed is unpacked";
    limits_exactly ["e07"] BOTH =>
        "every limit holds to the byte, with its status and its code, and nothing is answered with 500";
    key_over_its_limit ["e08"] BOTH =>
        "a key that is far too fast is held to its limit and no other key notices";
    guessing ["f18"] BOTH =>
        "whoever guesses credentials learns nothing and is slowed down, and no right one is refused for it";
    secrets_at_rest ["f11"] BOTH =>
        "no secret is found in the tables or in any file, and one that was moved to another row opens nothing";
    payloads_at_rest [] BOTH =>
        "of an account that encrypts nothing of its payloads and answers is found, and its key goes with the account";
    secrets_in_output ["f12"] BOTH =>
        "no secret is found in logs, metrics, traces, answers, the audit log or the list of processes";
    provider_signatures ["f07"] BOTH =>
        "a request comes in if its provider has signed it, and else not, whatever is done to it";
    replayed_provider_requests ["f20"] BOTH =>
        "a provider's request that is sent again makes no second event, and is none when it is old";
    key_handling ["f08"] BOTH =>
        "nothing of a key is stored, none is taken from a URL, and one that is over is refused everywhere within a second";
    scope_matrix ["f10"] BOTH => "a key may do what its scopes say, and nothing else";
    foreign_ids ["f09"] BOTH => "what another account has is as absent as what never was";
    sql_injection ["f16"] BOTH => "what somebody searches for is never read as SQL";
    changed_audit_log ["f19"] BOTH =>
        "every act leaves one entry, and an entry that is changed or taken out afterwards is named";
    cost_of_refusing [] BOTH =>
        "a forged request costs no more than a real one, and takes the processor from nobody else";
    one_account_takes_all ["fair"] BOTH =>
        "an account that takes all it can get of what accounts share takes nothing from another";
    deep_backlog ["e11"] BOTH => "a million waiting deliveries slow down neither the start nor the rest";
    outage_is_no_denial ["e12"] POSTGRES => "a database that is away is never taken for a denial";
    judge_all_logs ["g06"] POSTGRES =>
        "everything the other checks have logged, judged once more by all rules";
    starvation [] BOTH => "a million waiting at one destination do not slow down a thousand others";
    hanging_destination ["hang20"] BOTH => "a destination that hangs delays no other";
    held_million ["heldmillion"] BOTH =>
        "a million waiting for a destination that is held cost the others nothing";
    long_history ["history"] BOTH =>
        "a million events of history slow down no list, and a day of them goes unnoticed";
    order_by_key ["keyorder"] BOTH =>
        "order by key: a key that is blocked holds up no other, and no key is ever out of order";
    windowed_receiver ["window429"] BOTH =>
        "a receiver that counts by windows gets everything and little more than it allows";
    unknown_limits ["slack"] BOTH =>
        "one slot and no other setting are enough for a receiver with unknown limits";
    slots_in_use ["slots"] BOTH => "every slot of a slow destination is in use all the time";
    fanout_to_50 ["fanout50"] BOTH => "one event reaches fifty slow destinations at once";
    fanout_to_5k ["fanout5k"] BOTH =>
        "twenty events a second for five thousand destinations are accepted at once";
    throughput ["speed"] BOTH => "thousands of events a second go through, and what each costs is told";
    idle_latency ["latency"] BOTH =>
        "on an idle node half of all events reach their receiver within ten milliseconds";
    master_key_rotated [] BOTH =>
        "master keys and data keys are changed under load, through kills: nothing fails, and the old one can go";
    memory_of_a_million ["memory"] BOTH => "a million waiting deliveries are not kept in memory";
    cold_start ["coldstart"] BOTH => "a node serves within a second of its start";
    bad_input ["badinput"] BOTH => "each bad input has its answer and no effect";
}

#[cfg(test)]
mod tests;
