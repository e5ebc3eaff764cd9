//! Every statement on the hot path walks its key, also in a database that was never analysed.

use super::{
    super::{audit, catalog, dead_letters, history, idempotency, order, queue, settle},
    Fixture,
};

/// The plan, one step a line.
async fn plan(statement: &str) -> String {
    let fixture = Fixture::new().await;
    let connection = fixture.outsider();
    let mut explain = connection.prepare(&format!("explain query plan {statement}")).expect("a statement");
    let nothing = vec![rusqlite::types::Value::Null; explain.parameter_count()];
    let steps = explain
        .query_map(rusqlite::params_from_iter(nothing), |row| row.get::<_, String>(3))
        .expect("a plan");
    steps.map(|step| step.expect("a step") + "\n").collect()
}

async fn check(statement: &str, step: &str) {
    let plan = plan(statement).await;
    assert!(plan.contains(step), "expected `{step}` in:\n{plan}");
    assert!(
        !plan.contains("SCAN queue") && !plan.contains("SCAN attempts") && !plan.contains("SCAN events"),
        "{plan}"
    );
    // What is looked up for a single row may be sorted: that is a handful.
    let walk = plan.split("CORRELATED").next().unwrap_or_default();
    assert!(!walk.contains("TEMP B-TREE FOR ORDER BY"), "{plan}");
}

#[tokio::test]
async fn fetch_reads_a_range_of_the_queues_key() {
    check(
        queue::FETCH,
        "SEARCH queue USING PRIMARY KEY (shard=? AND destination_id=? AND (track,rank,delivery_id)>",
    )
    .await;
}

#[tokio::test]
async fn what_is_carried_is_found_by_the_events_key() {
    check(queue::FETCH_EVENTS, "SEARCH events USING INDEX sqlite_autoindex_events_1 (id=?)").await;
}

#[tokio::test]
async fn settle_finds_its_row_by_account_and_delivery() {
    let step = "SEARCH queue USING COVERING INDEX queue_delivery (account_id=? AND delivery_id=?)";
    let by_key = "SEARCH queue USING INDEX queue_delivery (account_id=? AND delivery_id=?)";
    for statement in [
        settle::SETTLE_END,
        settle::SETTLE_WAIT,
        queue::CANCEL,
        queue::RETRY_NOW,
        order::AWAITS_TIME,
        order::TAKE_TURNS,
    ] {
        let plan = plan(statement).await;
        assert!(plan.contains(step) || plan.contains(by_key), "{plan}");
    }
    let fact = plan(settle::SETTLED_BEFORE).await;
    assert!(fact.contains("SEARCH attempts") && fact.contains("(delivery_id=? AND attempt_id=?)"), "{fact}");
    assert_eq!(plan(settle::SETTLE_FACT).await, "", "an insert looks for nothing");
}

#[tokio::test]
async fn a_key_is_found_by_its_number_or_its_fingerprint() {
    let number = plan(idempotency::KEY_BY_NUMBER).await;
    assert!(number.starts_with("SEARCH idempotency USING INTEGER PRIMARY KEY (rowid=?)"), "{number}");
    let fingerprint = plan(idempotency::KEY_BY_FINGERPRINT).await;
    assert!(fingerprint.starts_with("SEARCH x USING PRIMARY KEY (fingerprint=?)"), "{fingerprint}");
    assert!(fingerprint.contains("SEARCH i USING INTEGER PRIMARY KEY (rowid=?)"), "{fingerprint}");
}

#[tokio::test]
async fn a_rescan_steps_from_lane_to_lane() {
    check(queue::LANES, "SEARCH queue USING PRIMARY KEY ((shard,destination_id,track,rank)>(?,?,?,?))").await;
}

#[tokio::test]
async fn tracks_are_stepped_over_by_the_key() {
    check(order::TRACKS, "SEARCH queue USING PRIMARY KEY (shard=? AND destination_id=? AND track>?)").await;
}

#[tokio::test]
async fn a_backlog_is_counted_within_its_lane() {
    check(queue::BACKLOG, "SEARCH queue USING PRIMARY KEY (shard=? AND destination_id=?)").await;
}

#[tokio::test]
async fn lists_walk_their_index() {
    check(
        history::WAITING_BY_ACCOUNT.sql,
        "SEARCH q USING INDEX queue_delivery (account_id=? AND delivery_id>? AND delivery_id<?)",
    )
    .await;
    check(
        history::WAITING_BY_EVENT.sql,
        "SEARCH q USING INDEX queue_event (event_id=? AND delivery_id>? AND delivery_id<?)",
    )
    .await;
    check(
        history::ENDED_BY_ACCOUNT.sql,
        "SEARCH a USING INDEX attempts_ending_account (account_id=? AND delivery_id>?",
    )
    .await;
    check(
        history::ENDED_BY_DESTINATION.sql,
        "SEARCH a USING INDEX attempts_destination (destination_id=? AND delivery_id>?",
    )
    .await;
    check(
        history::ENDED_BY_EVENT.sql,
        "SEARCH a USING INDEX attempts_ending_event (event_id=? AND delivery_id>?",
    )
    .await;
    check(history::EVENTS, "SEARCH e USING INDEX events_account (account_id=? AND id>? AND id<?)").await;
    check(history::TAGGED_EVENTS, "SEARCH t USING PRIMARY KEY (account_id=? AND tag=? AND event_id<?)").await;
    check(
        history::ATTEMPTS_OF_DESTINATION,
        "SEARCH attempts USING INDEX attempts_destination (destination_id=? AND delivery_id<?)\n\
         USE TEMP B-TREE FOR LAST TERM OF ORDER BY",
    )
    .await;
}

#[tokio::test]
async fn a_success_rate_is_chosen_from_the_index_alone() {
    check(
        history::SUCCESS_RATES,
        "SEARCH attempts USING COVERING INDEX attempts_destination (destination_id=? AND delivery_id>?)",
    )
    .await;
}

#[tokio::test]
async fn a_replay_walks_the_same_indexes_upwards() {
    for (statement, step) in [
        (history::ENDED_AFTER_BY_ACCOUNT.sql, "attempts_ending_account (account_id=? AND delivery_id>?"),
        (history::ENDED_AFTER_BY_DESTINATION.sql, "attempts_destination (destination_id=? AND delivery_id>?"),
        (history::ENDED_AFTER_BY_EVENT.sql, "attempts_ending_event (event_id=? AND delivery_id>?"),
        (history::DEAD_AFTER_BY_ACCOUNT.sql, "attempts_dead_letter (account_id=? AND delivery_id>?"),
        (history::DEAD_BY_ACCOUNT.sql, "attempts_dead_letter (account_id=? AND delivery_id>?"),
    ] {
        check(statement, step).await;
    }
    // A page of the replay's own ids, each looked up.
    for (statement, step) in [
        (
            history::WAITING_BY_REPLAY.sql,
            "SEARCH q USING INDEX queue_delivery (account_id=? AND delivery_id=?)",
        ),
        (history::ENDED_BY_REPLAY.sql, "SEARCH a USING INDEX sqlite_autoindex_attempts_1 (delivery_id=?)"),
    ] {
        let plan = plan(statement).await;
        assert!(
            plan.contains(step) && !plan.contains("SCAN queue") && !plan.contains("SCAN attempts"),
            "{plan}"
        );
        assert!(
            plan.contains("replayed_delivery (replay_id=? AND delivery_id>? AND delivery_id<?)"),
            "{plan}"
        );
    }
}

#[tokio::test]
async fn groups_of_dead_letters_are_read_by_key() {
    let groups = "SEARCH dead_letter_counts USING PRIMARY KEY (account_id=? AND \
                  (destination_id,reason,http_status,outcome)>(?,?,?,?))";
    check(dead_letters::DEAD_LETTER_GROUPS, groups).await;
}

#[tokio::test]
async fn a_chain_is_found_by_its_event() {
    for statement in [dead_letters::RESOLVE_CHAIN, dead_letters::RESOLVE_LATE] {
        let plan = plan(statement).await;
        assert!(plan.contains("attempts_ending_event (event_id=?"), "{plan}");
        assert!(!plan.contains("SCAN attempts"), "{plan}");
    }
}

#[tokio::test]
async fn changed_destinations_are_found_by_their_versions() {
    let plan = plan(catalog::CHANGED_DESTINATIONS).await;
    for step in
        ["destinations_version (account_id=? AND version>?)", "routes_version (account_id=? AND version>?)"]
    {
        assert!(plan.contains(step), "expected `{step}` in:\n{plan}");
    }
}

#[tokio::test]
async fn an_audit_walks_by_key() {
    check(audit::AUDIT_HEADS, "SEARCH queue USING PRIMARY KEY ((shard,destination_id,track,rank)>(?,?,?,?))")
        .await;
    let fan_outs = plan(audit::AUDIT_FAN_OUTS).await;
    for step in [
        "SEARCH e USING INDEX sqlite_autoindex_events_1 (id>?)",
        "SEARCH q USING COVERING INDEX queue_event (event_id=?)",
        "SEARCH a USING COVERING INDEX attempts_ending_event (event_id=?)",
    ] {
        assert!(fan_outs.contains(step), "expected `{step}` in:\n{fan_outs}");
    }
    let facts = plan(audit::AUDIT_FACTS).await;
    for step in [
        "SEARCH a USING INDEX sqlite_autoindex_attempts_1 ((delivery_id,attempt_id)>(?,?))",
        "(account_id=? AND delivery_id=?)",
        "SEARCH x USING INDEX sqlite_autoindex_attempts_1 (delivery_id=?)",
    ] {
        assert!(facts.contains(step), "expected `{step}` in:\n{facts}");
    }
    assert!(!facts.contains("SCAN") && !facts.contains("TEMP B-TREE"), "{facts}");
}
