//! The hot statements, as functions of the database.
//!
//! A statement that is sent is planned each time, and for a small batch that costs more than running it. The plan of a
//! function is kept by the server's session, behind a pooler too, and the settings that keep it on its keys come along
//! without a word on the wire. A function is named after its content: nodes of two versions use each their own.
//!
//! JIT is off in all of them: what is switched off to keep a plan on its keys counts as dear, and a server as it comes
//! compiled a page of routes anew each time. One event for 100,000 destinations was durable after 73 s, and after 9
//! without. What a lane needs of its destination is a function for the same reason: sent as a statement it was compiled on
//! a catalogue that was never analysed, 200 ms a call.

use super::statement::{self, Params, Statement, params, sql};
use std::{fmt::Write as _, sync::LazyLock};
use tokio_postgres::Client;

static FUNCTION_EXISTS: LazyLock<Statement> =
    sql!("function_exists": "select to_regproc(:name) is not null as there");

pub(super) struct Planned {
    name: String,
    create: String,
    /// What a node sends.
    pub(super) call: Statement,
    #[cfg(test)]
    pub(super) definition: Definition,
    /// The statement within it, with its parameters numbered.
    #[cfg(test)]
    pub(super) text: String,
    #[cfg(test)]
    pub(super) takes: Vec<String>,
}

/// A hot statement as it is written in `sql/`.
#[derive(Clone, Copy)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
    /// Whether one plan serves all calls; else each is planned for its values, and so for the days they are of.
    pub(super) kept: bool,
    /// `set … set …`, in force when it is planned: no plan may depend on statistics having caught up.
    pub(super) settings: &'static str,
    /// The columns of its answer and their types.
    pub(super) gives: &'static str,
}

/// For statements that change rows of the queue by their ids. Only bitmaps are left: they are never read without a key.
/// While the table was empty when it was analysed the planner takes it for one row, however full it is, and would
/// rather walk an index from end to end once than look up each of a batch.
pub(super) const LOOKED_UP: &str = "set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off \
                                    set enable_indexscan = off set enable_indexonlyscan = off";

/// For statements that read some rows in the order of a key: else all the others would be read and sorted with them.
pub(super) const IN_ORDER: &str =
    "set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off";

/// For statements that look up some rows by their keys, of tables that may be large and have never been counted.
pub(super) const BY_KEY: &str =
    "set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off";

impl Planned {
    /// With the names and types of these values.
    pub(super) fn new(of: Definition, takes: Params<'_, '_>) -> Self {
        Self::of(of, takes, |text| format!("return query\n{text};"))
    }

    /// Of several statements, as PL/pgSQL has them: each sees what was committed before it began, as if it had been sent by
    /// itself, and all of them are one round trip.
    pub(super) fn of_several(of: Definition, takes: Params<'_, '_>) -> Self {
        Self::of(of, takes, str::to_owned)
    }

    fn of(of: Definition, takes: Params<'_, '_>, body: impl FnOnce(&str) -> String) -> Self {
        let Definition { name: short, sql, kept, settings, gives } = of;
        let (text, names) = statement::numbered(sql);
        assert!(takes.sorted_names().eq(names.iter().map(String::as_str)), "`{short}` takes {names:?}");
        let mode = if kept { "force_generic_plan" } else { "force_custom_plan" };
        let types: Vec<String> = takes.sorted().iter().map(|(_, kind)| kind.name().to_owned()).collect();
        let places: Vec<String> = (1..=types.len()).map(|place| format!("${place}")).collect();
        let (list, places) = (types.join(", "), places.join(", "));
        let body = format!(
            "({list}) returns table ({gives}) language plpgsql set jit = off \
             set plan_cache_mode = {mode} {settings} \
             as $function$\n#variable_conflict use_column\nbegin {}\nend $function$",
            body(&text)
        );
        let name = format!("{short}_{:016x}", content(&body));
        let call = format!("/* posthaste:{short} */ select * from {name}({places})");
        Self {
            create: format!("create function {name} {body}"),
            call: Statement { name: short, text: call, names },
            name,
            #[cfg(test)]
            definition: of,
            #[cfg(test)]
            text,
            #[cfg(test)]
            takes: types,
        }
    }
}

/// Makes those that are missing. Under the lock of the migrations: two nodes that start together make them once.
pub(super) async fn make(client: &Client, all: &[&Planned]) -> Result<(), tokio_postgres::Error> {
    let mut missing = String::new();
    for planned in all {
        let params = params![name: planned.name => TEXT];
        let found = client.query_typed(&FUNCTION_EXISTS.text, &FUNCTION_EXISTS.values(&params)).await?;
        let there = found.first().map(|row| row.try_get::<_, bool>("there")).transpose()?;
        if there != Some(true) {
            let _ = writeln!(missing, "{};", planned.create);
        }
    }
    client.batch_execute(&missing).await
}

/// FNV-1a: to tell versions of our own texts apart, nothing more.
fn content(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
