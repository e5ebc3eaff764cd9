//! How a store's tables come to be: numbered steps, the same numbers and names on both stores, only ever added.
//!
//! A step is run in one transaction with its entry in the list of them, so a store that was killed in the middle has all
//! of it or nothing. That no other process does the same meanwhile is for the store to see to. (A library for this brings
//! a regular expression engine along, twice.)

use crate::FoundTables;

/// Where a store writes down which migrations it has had. Versions from before the first release had another list, under
/// another name: their tables are told apart by this one being missing, and are refused.
pub(crate) const MIGRATIONS_TABLE: &str = "posthaste_migrations";

pub(crate) struct Migration {
    version: i64,
    name: &'static str,
    sql: &'static str,
}

macro_rules! migrations {
    ($($version:literal $name:literal),+ $(,)?) => {
        pub(crate) const SQLITE: &[Migration] = &[$(migrations!("sqlite", $version, $name)),+];
        pub(crate) const POSTGRES: &[Migration] = &[$(migrations!("postgres", $version, $name)),+];
    };
    ($store:literal, $version:literal, $name:literal) => {
        Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../migrations/", $store, "/V", $version, "__", $name, ".sql")),
        }
    };
}

// The newest comes last.
migrations! {
    1 "initial",
    2 "test_sends",
    3 "one_delivery_a_destination",
    4 "audit_log",
    5 "event_tags",
    6 "operational_events",
    7 "backfills",
    8 "settled_dead_letters",
    9 "platform_keys",
    10 "erasures",
    11 "sessions",
    12 "lane_rollups",
    13 "portal_links",
    14 "master_keys_of_nodes",
    15 "key_addresses",
    16 "refused_requests",
    17 "sealed_events",
}

/// The first version whose nodes open what is sealed of events and attempts. A node that was made for an earlier one must be
/// given none.
pub const SEALED_EVENTS_VERSION: i64 = 17;

/// The version of the tables that this program works with.
pub(crate) const KNOWN_VERSION: i64 = SQLITE[SQLITE.len() - 1].version;

impl Migration {
    /// What makes the tables of this version of those before, and writes it down.
    pub(crate) fn script(&self) -> String {
        let Self { version, name, sql } = self;
        format!(
            "create table if not exists {MIGRATIONS_TABLE} (version bigint primary key, name text not null, \
             applied_at text not null default current_timestamp);\n{sql}\n;\n\
             insert into {MIGRATIONS_TABLE} (version, name) values ({version}, '{name}');"
        )
    }
}

/// What is yet to be run where these tables were found.
pub(crate) fn missing(
    migrations: &'static [Migration],
    found: &FoundTables,
) -> impl Iterator<Item = &'static Migration> {
    let last = match found {
        FoundTables::Version(version) => *version,
        FoundTables::None | FoundTables::Unreleased => 0,
    };
    migrations.iter().filter(move |migration| migration.version > last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn migrations_are_in_order_and_every_file_is_one_of_them() {
        assert!(SQLITE.is_sorted_by_key(|migration| migration.version));
        assert_eq!(missing(SQLITE, &FoundTables::Version(KNOWN_VERSION)).count(), 0);
        for store in ["sqlite", "postgres"] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(store);
            let files = std::fs::read_dir(folder).expect("a folder").count();
            assert_eq!(files, SQLITE.len(), "{store}: a file that is not in the list is never run");
        }
    }
}
