//! The schema as the migrations leave it, beside the code: a change of it is a change that is read.
//!
//! `POSTHASTE_UPDATE=1 scripts/postgres with cargo test -p store schema` writes it anew.

use super::World;
use std::{fmt::Write as _, fs, path::Path};

const V1_CRC: u32 = 0x1a3f_9cb3;

#[tokio::test]
async fn the_schema_is_the_committed_one() {
    let world = World::new().await;
    let found = describe(&world).await;
    world.clean_up().await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/postgres.sql");
    if std::env::var_os("POSTHASTE_UPDATE").is_some() {
        fs::write(&file, &found).expect("the schema is written");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == committed,
        "{} is out of date; POSTHASTE_UPDATE=1 writes it anew. Found:\n{found}",
        file.display()
    );
}

/// Stores were made by it. What is to change is changed by another migration.
#[test]
fn the_first_migration_stays_as_it_is() {
    let text = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/postgres/V1__initial.sql"));
    assert_eq!(crc32fast::hash(text), V1_CRC, "a migration is only added, never changed");
}

/// From the catalogs, in the order of names; without the days' partitions, which come and go.
async fn describe(world: &World) -> String {
    let mut text = String::from(
        "-- The schema on PostgreSQL, as the catalogs tell it: written by a test, for people to read and compare.\n",
    );
    let tables = "select c.relname::text, coalesce(pg_get_partkeydef(c.oid), ''), \
                  coalesce(array_to_string(c.reloptions, ', '), ''), c.oid \
                  from pg_class c \
                  where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') \
                  and c.relname !~ '_p[0-9]{8}$' and c.relname <> 'posthaste_migrations' order by 1";
    for table in world.client.query(tables, &[]).await.expect("tables") {
        let (name, partitioned, options, oid): (&str, &str, &str, u32) =
            (table.get(0), table.get(1), table.get(2), table.get(3));
        let columns = "select a.attname::text, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
                       coalesce(pg_get_expr(d.adbin, d.adrelid), ''), \
                       case when a.attstorage <> t.typstorage then a.attstorage::text else '' end \
                       from pg_attribute a join pg_type t on t.oid = a.atttypid \
                       left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum \
                       where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped order by a.attnum";
        let _ = writeln!(text, "\ntable {name}");
        for row in world.client.query(columns, &[&oid]).await.expect("columns") {
            let (column, kind, not_null): (&str, &str, bool) = (row.get(0), row.get(1), row.get(2));
            let (default, storage): (&str, &str) = (row.get(3), row.get(4));
            let mut line = format!("    {column} {kind}");
            line += if not_null { " not null" } else { "" };
            line += &(if default.is_empty() { String::new() } else { format!(" default {default}") });
            line += &(if storage.is_empty() { String::new() } else { format!(" storage {storage}") });
            let _ = writeln!(text, "{line}");
        }
        let details = "select 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) \
                       from pg_constraint where conrelid = $1 and contype <> 'n' \
                       union all \
                       select 'index ' || i.indexrelid::regclass || substring(pg_get_indexdef(i.indexrelid) from ' USING.*') \
                       from pg_index i where i.indrelid = $1 \
                       and not exists (select from pg_constraint c where c.conindid = i.indexrelid and c.contype in ('p', 'u')) \
                       order by 1";
        for row in world.client.query(details, &[&oid]).await.expect("constraints and indexes") {
            let _ = writeln!(text, "    {}", row.get::<_, &str>(0));
        }
        if !partitioned.is_empty() {
            let _ = writeln!(text, "    partition by {partitioned}");
        }
        if !options.is_empty() {
            let _ = writeln!(text, "    with {options}");
        }
    }
    text
}
