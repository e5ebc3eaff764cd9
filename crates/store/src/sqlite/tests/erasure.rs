//! Erasing knows every table.

use super::Fixture;
use crate::sqlite::erasure::TABLES;
use std::collections::BTreeSet;

/// Removed in a way of their own; what says that dead letters are settled goes with their attempts.
const OTHERWISE: &[&str] = &["queue", "replays", "attempts", "settled_dead_letters", "destinations"];
/// What is left of an account.
const STAYS: &[&str] = &["audit_chains", "audit_entries", "erasures"];

#[tokio::test]
async fn every_table_that_says_whose_its_rows_are_is_erased_or_stays_on_purpose() {
    let fixture = Fixture::new().await;
    let tables = "select distinct m.name from sqlite_master m join pragma_table_info(m.name) c \
                  where m.type = 'table' and c.name = 'account_id'";
    let connection = fixture.outsider();
    let mut tables = connection.prepare(tables).expect("a statement");
    let found = tables.query_map([], |row| row.get::<_, String>(0)).expect("tables");
    let found: BTreeSet<String> = found.map(|name| name.expect("a name")).collect();
    let known = TABLES.iter().map(|(_, table, _)| *table).chain(OTHERWISE.iter().copied());
    let known: BTreeSet<String> = known.chain(STAYS.iter().copied()).map(str::to_owned).collect();
    assert_eq!(found, known);
}
