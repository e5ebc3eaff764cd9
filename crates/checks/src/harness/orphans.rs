//! Rows whose owner is gone: there must never be any.

use anyhow::Result;

use super::Database;

const PAIRS: [(&str, &str, &str, &str); 8] = [
    ("queue", "event_id", "events", "id"),
    ("attempts", "event_id", "events", "id"),
    ("expanding_events", "event_id", "events", "id"),
    ("event_tags", "event_id", "events", "id"),
    ("settled_dead_letters", "delivery_id", "attempts", "delivery_id"),
    ("replayed", "replay_id", "replays", "id"),
    ("queue", "replay_id", "replays", "id"),
    ("replay_counts", "replay_id", "replays", "id"),
];

pub(crate) async fn count(database: &Database) -> Result<u64> {
    let there = |table: &str| database.kind() == super::StoreKind::Postgres || table != "replay_counts";
    let counts = PAIRS.iter().filter(|(table, ..)| there(table)).map(|(table, column, owners, key)| {
        format!(
            "(select count(*) from {table} t where t.{column} is not null
              and not exists (select 1 from {owners} o where o.{key} = t.{column}))"
        )
    });
    database.number(&format!("select {}", counts.collect::<Vec<_>>().join(" + "))).await
}
