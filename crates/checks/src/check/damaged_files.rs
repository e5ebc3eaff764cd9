//! Hazard: a file that was cut or damaged while no node ran.
//!
//! Under load the node is killed, and its database with the log is put aside. (a) The log is cut at twenty random places
//! (`--count`), and a node is started on each. (b) The log is written into the database, and one bit of it is turned
//! over: at twenty random places, and at twenty in the structure of pages. (c) On either store, bits of stored payloads
//! are turned over while their deliveries wait.
//!
//! Holds if (a) each node starts, has exactly what the log holds up to the last whole commit before the cut, and whole
//! fan-outs only; if (b) `doctor` ends with 3 and names the damage wherever SQLite itself can see it, always in the
//! structure; if (c) the deliveries of those events, and no others, end as `undeliverable` and say `payload_altered`, and
//! no byte arrives that was not sent. What else is inside a value SQLite cannot see, and so cannot we: how often that was
//! is told.

mod payloads;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::harness::database::{checkpoint, open_read_only};
use crate::harness::doctor::{diagnose, doctor, node_command};
use crate::harness::prelude::*;

const TIMES: u64 = 20;
const DAMAGED: i32 = 3;
/// The node copies its log into the database when it has 16,000 pages; a check of this size stays far below.
const COPIED_AT: usize = 7_900 * 4_096;
/// Kinds of pages that have a structure: inner and leaf pages of indexes and of tables.
const TREE_PAGES: [u8; 4] = [2, 5, 10, 13];

pub(crate) async fn run(options: &Options, report: &mut Report) -> Result<()> {
    payloads::altered(options, report).await?;
    if options.store() == StoreKind::Sqlite {
        damaged_files(options, report).await?;
    }
    Ok(())
}

async fn damaged_files(options: &Options, report: &mut Report) -> Result<()> {
    let seed = options.seed();
    report.note("seed", seed);
    let mut dice = StdRng::seed_from_u64(seed);
    let mut testbed = TestbedPlan::new(options)?.start().await?;
    let source = RoutedSource::make(&testbed, 5, 4).await?;
    // What is not about events is in the database itself from here on.
    testbed.stop().await?;
    checkpoint(&file_of(&testbed)?)?;
    testbed.start().await?;
    let mut config = source.pump(Until::Stopped).open(options.rate(100.0));
    config.retry_for = Duration::ZERO;
    config.answer_timeout = Duration::from_secs(1);
    let pump = Pump::start(config)?;
    sleep(options.seconds(2)).await;
    testbed.kill().await?;
    pump.finish().await;
    let file = file_of(&testbed)?;
    let aside = testbed.dir().join("aside");
    fs::create_dir(&aside)?;
    let original = aside.join("posthaste.db");
    for ending in ["", "-wal"] {
        fs::copy(with(&file, ending), with(&original, ending)).context("the database and its log")?;
    }
    cut_logs(options, &testbed, &original, &mut dice, report).await?;
    turned_bits(options, &testbed, &original, &mut dice, report).await?;
    testbed.tear_down().await
}

// --- (a) ---------------------------------------------------------------------------------------------------------------

async fn cut_logs(
    options: &Options,
    testbed: &Testbed,
    original: &Path,
    dice: &mut StdRng,
    report: &mut Report,
) -> Result<()> {
    let log = fs::read(with(original, "-wal"))?;
    let commits = commits(&log)?;
    report.note("commits_in_the_log", commits.len());
    ensure!(commits.len() > 20, "the log has only {} commits", commits.len());
    // Of a log that was partly copied no beginning is whole by itself.
    ensure!(log.len() < COPIED_AT, "the log has {} bytes and was copied: ask for fewer events", log.len());
    let (mut least, mut most) = (usize::MAX, 0);
    for place in 0..options.count(TIMES) {
        let cut = dice.random_range(0..log.len());
        let whole = commits.iter().rev().find(|end| **end <= cut).copied().unwrap_or(0);
        let expected = events_at(testbed.dir(), original, &log[..whole])?;
        let dir = testbed.dir().join(format!("cut-{place}"));
        fs::create_dir(&dir)?;
        fs::copy(original, dir.join("posthaste.db"))?;
        fs::write(dir.join("posthaste.db-wal"), &log[..cut])?;
        let mut second = TestbedPlan::new(options)?.data_dir(&dir).build().await?;
        second.start().await.with_context(|| format!("the log was cut at {cut} of {}", log.len()))?;
        let there = events(&dir.join("posthaste.db"))?;
        report.must(
            there == expected,
            format!("cut at {cut}: {} events are there, not {}", there.len(), expected.len()),
        );
        (least, most) = (least.min(there.len()), most.max(there.len()));
        let audit = TableAudit::of(&second.database).await?;
        report.must(
            audit.partial_fan_outs == 0,
            format!("cut at {cut}: {} partial fan-outs", audit.partial_fan_outs),
        );
        second.kill().await?;
        second.tear_down().await?;
        fs::remove_dir_all(&dir)?;
    }
    report.note("cuts", options.count(TIMES));
    report.note("events_after_a_cut", [least, most]);
    Ok(())
}

/// Where the commits of a log end. A frame is a page with a header of 24 bytes, whose second word is the database's size
/// if it ends a commit; frames with another salt are from an earlier round of the log.
fn commits(log: &[u8]) -> Result<Vec<usize>> {
    ensure!(log.len() > 32, "there is no log");
    let word = |at: usize| u32::from_be_bytes([log[at], log[at + 1], log[at + 2], log[at + 3]]);
    let (frame, salt) = (24 + word(8) as usize, &log[16..24]);
    let whole = (32..).step_by(frame).take_while(|at| at + frame <= log.len());
    let ours = whole.take_while(|at| log[at + 8..at + 16] == *salt);
    Ok(ours.filter(|at| word(at + 4) != 0).map(|at| at + frame).collect())
}

/// The events of a database with this log, in the order of their commits.
fn events_at(dir: &Path, original: &Path, log: &[u8]) -> Result<Vec<Vec<u8>>> {
    let dir = dir.join("expected");
    fs::create_dir_all(&dir)?;
    let file = dir.join("posthaste.db");
    fs::copy(original, &file)?;
    let _ = fs::remove_file(with(&file, "-shm"));
    fs::write(with(&file, "-wal"), log)?;
    let events = events(&file)?;
    fs::remove_dir_all(&dir)?;
    Ok(events)
}

fn events(file: &Path) -> Result<Vec<Vec<u8>>> {
    of_events(file, "id")
}

/// One column of all events, in the order of their commits.
fn of_events(file: &Path, column: &str) -> Result<Vec<Vec<u8>>> {
    let connection = open_read_only(file)?;
    let mut select = connection.prepare(&format!("select {column} from events order by rowid"))?;
    Ok(select.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?)
}

// --- (b) ---------------------------------------------------------------------------------------------------------------

async fn turned_bits(
    options: &Options,
    testbed: &Testbed,
    original: &Path,
    dice: &mut StdRng,
    report: &mut Report,
) -> Result<()> {
    checkpoint(original)?;
    let page: i64 = open_read_only(original)?.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let page = page as usize;
    let bytes = fs::read(original)?;
    let copy = testbed.dir().join("turned.db");
    let url = format!("sqlite:{}", copy.display());
    let (mut named, mut unseen, mut altered) = (0u64, 0u64, 0u64);
    for place in 0..options.count(TIMES) * 2 {
        let structure = place % 2 == 1;
        let at =
            if structure { in_a_structure(&bytes, page, dice) } else { dice.random_range(0..bytes.len()) };
        write_turned(&copy, &bytes, at, dice.random_range(0..8))?;
        let command = node_command(testbed, &["doctor", "--json", "--database", &url]);
        let found = diagnose(command).await.with_context(|| format!("byte {at}"))?;
        let what = found.finding("integrity").or_else(|| found.finding("schema"));
        match found.code {
            Some(DAMAGED) => {
                named += 1;
                let helps = found
                    .troubles()
                    .iter()
                    .any(|finding| !finding.examples.is_empty() && finding.fix.is_some());
                report.must(helps, format!("byte {at}: doctor does not say what is damaged: {what:?}"));
            }
            _ => {
                report.must(!structure, format!("byte {at} of a page's structure: doctor says {what:?}"));
                let sqlite = integrity(&copy);
                report.must(sqlite == "ok", format!("byte {at}: SQLite says {sqlite}, doctor {what:?}"));
                unseen += 1;
                altered += u64::from(of_events(&copy, "payload")? != of_events(original, "payload")?);
            }
        }
        remove(&copy);
    }
    report.note("bits_turned", options.count(TIMES) * 2);
    report.note("named", named);
    report.note("inside_values_or_free_space", unseen);
    report.note("of_these_in_a_payload", altered);
    let clean = doctor(testbed, &["--database", &format!("sqlite:{}", original.display())]).await?;
    report.must(clean.code == Some(0), format!("the undamaged file: {:?}", clean.troubles()));
    Ok(())
}

/// The kind or the number of cells of a random page of a tree.
fn in_a_structure(bytes: &[u8], page: usize, dice: &mut StdRng) -> usize {
    loop {
        let start = dice.random_range(0..bytes.len() / page) * page;
        // The first page begins with the file's own header.
        let start = if start == 0 { 100 } else { start };
        let cells = u16::from_be_bytes([bytes[start + 3], bytes[start + 4]]);
        if TREE_PAGES.contains(&bytes[start]) && cells > 0 {
            return start + [0, 3, 4][dice.random_range(0..3)];
        }
    }
}

fn write_turned(copy: &Path, bytes: &[u8], at: usize, bit: u32) -> Result<()> {
    remove(copy);
    let mut file = fs::File::create_new(copy)?;
    file.write_all(bytes)?;
    Ok(file.write_all_at(&[bytes[at] ^ (1 << bit)], at as u64)?)
}

fn file_of(testbed: &Testbed) -> Result<PathBuf> {
    let Database::Sqlite { file } = &testbed.database else { anyhow::bail!("this check is about a file") };
    Ok(file.clone())
}

fn integrity(file: &Path) -> String {
    let asked = open_read_only(file).and_then(|connection| {
        Ok(connection.query_row("pragma integrity_check(1)", [], |row| row.get::<_, String>(0))?)
    });
    asked.unwrap_or_else(|error| error.to_string())
}

fn remove(file: &Path) {
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(with(file, ending));
    }
}

fn with(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(ending);
    name.into()
}
