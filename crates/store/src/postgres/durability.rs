//! A server that forgets is no place for promises: which of its settings can lose what it has acknowledged.

use super::{
    rows::{Rows, Unreadable},
    statement::{Statement, sql},
};
use crate::UnsafeSetting;
use std::sync::LazyLock;

pub(super) static UNSAFE_SETTINGS: LazyLock<Statement> = sql!("unsafe_settings");

const LOST: &str = "a crash of the database loses events that were acknowledged";

pub(super) fn unsafe_settings(rows: &Rows) -> Result<Vec<UnsafeSetting>, Unreadable> {
    let settings: Vec<(&str, &str)> = rows.all(|cells| Ok((cells.get("name")?, cells.get("value")?)))?;
    let standbys =
        settings.iter().any(|(name, value)| *name == "synchronous_standby_names" && !value.is_empty());
    Ok(settings.into_iter().filter_map(|(name, value)| judge(name, value, standbys)).collect())
}

fn judge(name: &str, value: &str, standbys: bool) -> Option<UnsafeSetting> {
    let found = |harm, fix: String| Some(UnsafeSetting { setting: format!("{name} = {value}"), harm, fix });
    let alter =
        |wanted: &str| format!("Run `alter system set {name} = {wanted}` and `select pg_reload_conf()`");
    match (name, value) {
        // Also of a role or a database, which an ALTER SYSTEM does not change.
        ("synchronous_commit", "off") => found(
            LOST,
            "Set it to on, for the server (`alter system set synchronous_commit = on`, `select pg_reload_conf()`) and \
             wherever it was set for the role, the database or in the URL (`alter role … reset synchronous_commit`)"
                .into(),
        ),
        // Flushed here: that is a promise kept, unless another machine was to keep it too.
        ("synchronous_commit", "local") if standbys => found(
            "the synchronous standby is not waited for, and a failover loses events that were acknowledged",
            "Set it to on, or empty synchronous_standby_names".into(),
        ),
        ("fsync", "off") => found("a power cut loses events that were acknowledged, or all of them", alter("on")),
        ("full_page_writes", "off") => found(
            "a power cut in the middle of a page can damage what was acknowledged, unless the file system writes pages \
             whole",
            alter("on"),
        ),
        ("default_transaction_isolation", value) if value != "read committed" => found(
            "the statements here are made for read committed, and fail under another isolation",
            alter("'read committed'"),
        ),
        ("unlogged table", table) => found(LOST, format!("Run `alter table {table} set logged`")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loses_acknowledged_events_is_named_and_nothing_else() {
        let unsafe_ones = [
            ("synchronous_commit", "off", false),
            ("synchronous_commit", "local", true),
            ("fsync", "off", false),
            ("full_page_writes", "off", false),
            ("default_transaction_isolation", "serializable", false),
            ("unlogged table", "queue", false),
        ];
        for (name, value, standbys) in unsafe_ones {
            let found =
                judge(name, value, standbys).unwrap_or_else(|| panic!("{name} = {value} was accepted"));
            assert_eq!(found.setting, format!("{name} = {value}"));
        }
        let safe_ones = [
            ("synchronous_commit", "on", true),
            ("synchronous_commit", "local", false),
            ("synchronous_commit", "remote_write", true),
            ("synchronous_commit", "remote_apply", true),
            ("synchronous_standby_names", "a", true),
            ("fsync", "on", false),
            ("full_page_writes", "on", false),
            ("default_transaction_isolation", "read committed", false),
        ];
        for (name, value, standbys) in safe_ones {
            assert_eq!(judge(name, value, standbys), None, "{name} = {value}");
        }
    }
}
