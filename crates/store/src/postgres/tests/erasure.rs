//! Erasing knows every table.

use super::World;
use crate::postgres::erasure::TABLES;
use std::collections::BTreeSet;

/// Removed in a way of their own; what says that dead letters are settled goes with their attempts.
const OTHERWISE: &[&str] =
    &["replays", "events", "event_tags", "attempts", "settled_dead_letters", "destinations"];
/// What is left of an account.
const STAYS: &[&str] = &["audit_chains", "audit_entries", "erasures"];

#[tokio::test]
async fn every_table_that_says_whose_its_rows_are_is_erased_or_stays_on_purpose() {
    let world = World::new().await;
    let tables = "select c.relname::text from pg_class c join pg_attribute a on a.attrelid = c.oid \
                  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') \
                  and not c.relispartition and a.attname = 'account_id'";
    let found = world.client.query(tables, &[]).await.expect("tables");
    let found: BTreeSet<String> = found.iter().map(|row| row.get(0)).collect();
    world.clean_up().await;
    let known = TABLES.iter().map(|(_, table, _)| *table).chain(OTHERWISE.iter().copied());
    let known: BTreeSet<String> = known.chain(STAYS.iter().copied()).map(str::to_owned).collect();
    assert_eq!(found, known);
}
