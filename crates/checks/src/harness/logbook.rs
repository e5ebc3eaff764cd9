//! What every check leaves behind for `judge_all_logs`: the producer's log, the receiver's log, the faults,
//! the owners of the shards, and the facts of the tables. One file a check and store, the latest run; under cargo's target folder.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context, Result};
use domain::id::DeliveryId;
use lab::Evidence;
use serde::{Deserialize, Serialize};

use super::database::SqlValue;
use super::postgres_server::target_dir;
use super::{Database, StoreKind};

/// More requests than this are a figure, not a history: reading them again would take longer than making them.
const MOST_REQUESTS: usize = 300_000;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Logbook {
    pub(crate) check: String,
    #[serde(alias = "case")]
    pub(crate) evidence: Evidence,
    pub(crate) attempts: Vec<AttemptRow>,
}

/// A row of `attempts`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AttemptRow {
    pub(crate) delivery: String,
    pub(crate) number: Option<i64>,
    pub(crate) outcome: Option<String>,
    pub(crate) ending: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) late: bool,
}

/// The check that runs now: one at a time.
static RUNNING: Mutex<String> = Mutex::new(String::new());

pub(crate) fn begin(check: &str, store: StoreKind) {
    let name = format!("{check}-{}", if store == StoreKind::Sqlite { "sqlite" } else { "postgres" });
    *RUNNING.lock().expect("no panic while the name is locked") = name;
}

pub(crate) async fn keep(database: &Database, evidence: Evidence) -> Result<()> {
    if evidence.received.len() > MOST_REQUESTS {
        return Ok(());
    }
    let check = RUNNING.lock().expect("no panic while the name is locked").clone();
    let text = |cell: &SqlValue| cell.text().map(str::to_owned);
    let rows =
        database.rows("select delivery_id, number, outcome, ending, reason, late from attempts").await?;
    let attempt = |row: &Vec<SqlValue>| {
        Some(AttemptRow {
            delivery: DeliveryId::from_bytes(row[0].id()?).to_string(),
            number: row[1].number(),
            outcome: text(&row[2]),
            ending: text(&row[3]),
            reason: text(&row[4]),
            late: row[5].number() == Some(1),
        })
    };
    let attempts = rows.iter().filter_map(attempt).collect();
    let folder = folder()?;
    fs::create_dir_all(&folder)?;
    let file = fs::File::create(folder.join(format!("{check}.json")))?;
    let book = Logbook { check, evidence, attempts };
    Ok(serde_json::to_writer(std::io::BufWriter::new(file), &book)?)
}

/// The names of all that are there.
pub(crate) fn all() -> Result<Vec<PathBuf>> {
    let Ok(entries) = fs::read_dir(folder()?) else { return Ok(Vec::new()) };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    Ok(files)
}

pub(crate) fn read(file: &PathBuf) -> Result<Logbook> {
    let text = fs::read(file)?;
    serde_json::from_slice(&text).with_context(|| file.display().to_string())
}

fn folder() -> Result<PathBuf> {
    Ok(target_dir()?.join("checks/logbooks"))
}
