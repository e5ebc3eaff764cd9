//! Looking for canaries in what a store keeps: every table as it is read, and every file there is.

use super::canaries::Canaries;
use super::prelude::*;

/// The tables as they are read, and every file there is.
pub(crate) async fn look_through(
    testbed: &Testbed,
    canaries: &Canaries,
    temporary: &std::path::Path,
    report: &mut Report,
) -> Result<()> {
    let (mut found, cells) = found_in_tables(&testbed.database, canaries).await?;
    report.note("cells_looked_at", cells);
    let mut bytes = 0;
    let mut folders = vec![testbed.dir().to_owned(), temporary.to_owned()];
    if let Some(server) = testbed.database.server() {
        server.execute("checkpoint").await?;
        folders.push(server.home().to_owned());
    }
    for folder in folders {
        let (more, size) = canaries.found_in_files(&folder)?;
        found.extend(more);
        bytes += size;
    }
    report.note("bytes_looked_through", bytes);
    report.must(bytes > 0 && cells > 0, "nothing was looked through");
    found.sort();
    found.dedup();
    report.must_be("secrets_found", found.len(), 0);
    found.truncate(20);
    for found in found {
        report.must(false, found);
    }
    Ok(())
}

/// What is found in the tables, and how many cells there are.
pub(crate) async fn found_in_tables(database: &Database, canaries: &Canaries) -> Result<(Vec<String>, u64)> {
    let (mut found, mut cells) = (Vec::new(), 0u64);
    for table in tables(database).await? {
        let columns = match database.kind() {
            StoreKind::Sqlite => "*".to_owned(),
            // Whatever its types are.
            StoreKind::Postgres => format!("t::text from {table} t"),
        };
        let sql = match database.kind() {
            StoreKind::Sqlite => format!("select {columns} from {table}"),
            StoreKind::Postgres => format!("select {columns}"),
        };
        for cell in database.rows(&sql).await?.into_iter().flatten() {
            cells += 1;
            let bytes = match cell {
                SqlValue::Text(text) => text.into_bytes(),
                SqlValue::Bytes(bytes) => bytes,
                SqlValue::Number(_) | SqlValue::Null => continue,
            };
            found.extend(canaries.found_in(&bytes).iter().map(|what| format!("{what} in the table {table}")));
        }
    }
    Ok((found, cells))
}

async fn tables(database: &Database) -> Result<Vec<String>> {
    let sql = match database.kind() {
        StoreKind::Sqlite => {
            "select name from sqlite_schema where type = 'table' and name not like 'sqlite%'"
        }
        StoreKind::Postgres => "select tablename::text from pg_tables where schemaname = current_schema()",
    };
    let rows = database.rows(sql).await?;
    Ok(rows.iter().filter_map(|row| row[0].text()).map(str::to_owned).collect())
}
