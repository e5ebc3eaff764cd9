//! What this machine offers: open files, the data folder, room on disk, the master key.

use super::finding::{Finding, Level};
use crate::{
    commands::{bootstrap, keys, open},
    config::Config,
    progress::size,
    surroundings::{self, Concern},
};
use domain::limits;
use rustix::{
    fs::{Access, access, statvfs},
    process::{Resource, getrlimit},
};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

/// With fewer a server gets into trouble before it is busy.
const FILES_LEAST: u64 = 1_024;
/// For the store, the log and the node's own business.
const FILES_BESIDE: u64 = 256;
/// Less room than this is worth a look, long before events are refused.
const ROOM: u64 = 1024 * 1024 * 1024;

/// `serve` takes all it is allowed to.
pub(super) fn open_files(config: &Config) -> Finding {
    let check = "open_files";
    let Some(allowed) = getrlimit(Resource::Nofile).maximum else {
        return Finding::ok(check, "as many as needed");
    };
    let wanted = (limits::CONNECTIONS + config.max_in_flight) as u64 + FILES_BESIDE;
    let fix =
        format!("Raise the hard limit to {wanted}: `ulimit -Hn {wanted}`, or LimitNOFILE={wanted} of a unit");
    let level = match allowed {
        few if few < FILES_LEAST => Level::Problem,
        some if some < wanted => Level::Warning,
        _ => return Finding::ok(check, format!("{allowed} may be open, {wanted} may be needed")),
    };
    Finding::bad(check, level, format!("only {allowed} may be open, {wanted} may be needed"), fix)
}

pub(super) fn data_folder(config: &Config) -> Finding {
    let (check, path) = ("data_folder", &config.data_dir);
    let Ok(found) = fs::metadata(path) else {
        return Finding::ok(check, format!("{} is made by the first start", path.display()));
    };
    if !found.is_dir() || access(path, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let detail = format!("{} cannot be written to", path.display());
        return Finding::bad(
            check,
            Level::Problem,
            detail,
            "Name another folder with --data-dir, or run as its owner",
        );
    }
    Finding::ok(check, path.display().to_string())
}

/// Whether there is one. Whether it is the right one is the store's to say.
pub(super) fn master_keys(config: &Config) -> Finding {
    let check = "master_key";
    match keys::configured_or_dev(config).and_then(|text| bootstrap::master_keys(&text)) {
        Ok(keys) => Finding::ok(check, format!("{} is the active one", keys.active())),
        Err(failure) => {
            let why = failure.to_string();
            let why = why.lines().next().unwrap_or_default();
            Finding::bad(
                check,
                Level::Problem,
                why.to_owned(),
                "Set POSTHASTE_MASTER_KEYS, or POSTHASTE_MASTER_KEYS_FILE, to the keys this store was made with",
            )
        }
    }
}

/// What is worth a warning at a start too.
pub(super) fn surroundings(config: &Config) -> Vec<Finding> {
    let concerns = surroundings::concerns(config).into_iter();
    let found: Vec<Finding> = concerns
        .map(|Concern { check, detail, fix }| Finding::bad(check, Level::Warning, detail, fix))
        .collect();
    if found.is_empty() { vec![Finding::ok("surroundings", "nothing unusual")] } else { found }
}

/// Of an embedded store: which other users can read it, and how much room it has.
pub(super) fn files(config: &Config) -> Vec<Finding> {
    let Some(path) = open::file(config) else { return Vec::new() };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut findings = Vec::new();
    findings.extend(private(&path));
    findings.extend(room(folder));
    findings
}

/// Payloads are for the store's owner alone.
fn private(path: &Path) -> Option<Finding> {
    let check = "file_modes";
    let mode = fs::metadata(path).ok()?.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Some(Finding::ok(check, format!("{mode:o}: for its owner alone")));
    }
    let detail = format!("{} has mode {mode:o}: others can read payloads", path.display());
    Some(Finding::bad(check, Level::Warning, detail, format!("`chmod 600 {}*`", path.display())))
}

fn room(folder: &Path) -> Option<Finding> {
    let check = "disk_space";
    let found = statvfs(folder).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let detail = format!("{} free at {}", size(free), folder.display());
    let fix = "Make room, or move the store to a larger disk";
    Some(match free {
        none if none < limits::INGEST_FREE_BYTES + limits::STORE_RESERVE_BYTES => {
            Finding::bad(check, Level::Problem, format!("{detail}: events are refused"), fix)
        }
        little if little < ROOM => Finding::bad(check, Level::Warning, detail, fix),
        _ => Finding::ok(check, detail),
    })
}
