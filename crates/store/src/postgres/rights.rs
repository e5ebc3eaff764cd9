//! Whether our role may make tables: at the first start, and every day after it, when the partitions of the days to come
//! are made. PostgreSQL lets nobody but its owner do so in the schema `public`.

use super::{
    rows::{Rows, Unreadable},
    statement::{Statement, sql},
};
use crate::MissingRight;
use std::sync::LazyLock;

pub(super) static RIGHTS: LazyLock<Statement> = sql!("rights");

pub(super) fn missing(rows: &Rows) -> Result<Option<MissingRight>, Unreadable> {
    let found = rows.all(|cells| {
        let [role, database, schema]: [&str; 3] =
            [cells.get("role")?, cells.get("database")?, cells.get("schema")?];
        let (has_schema, may_make_schemas): (bool, bool) =
            (cells.get("has_schema")?, cells.get("may_make_schemas")?);
        Ok(if has_schema && !cells.get::<bool>("may_make_tables")? {
            Some(MissingRight {
                what: format!(
                    "the role {role} may not make tables in the schema {schema} of the database {database}"
                ),
                grant: format!("GRANT CREATE, USAGE ON SCHEMA {schema} TO {role};"),
            })
        } else if !has_schema && !may_make_schemas {
            Some(MissingRight {
                what: format!(
                    "the database {database} has no schema {schema}, and the role {role} may not make it"
                ),
                grant: format!("CREATE SCHEMA {schema} AUTHORIZATION {role};"),
            })
        } else {
            None
        })
    })?;
    Ok(found.into_iter().flatten().next())
}
