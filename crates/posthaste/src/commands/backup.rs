//! `posthaste backup`: a copy of the embedded store, made while the server runs or not.

use crate::{
    commands::{open, print_json},
    config::{Dev, SettingFlags},
    failure::{Code, Failure},
    output,
    progress::{Progress, size},
};
use clap::Args;
use std::{path::PathBuf, time::Instant};
use store::sqlite::{BackupError, Copied};

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The copy; a file that is there already is not overwritten
    path: PathBuf,
    #[command(flatten)]
    settings: SettingFlags,
}

/// Below the server: a copy has time.
const NICE: i32 = 10;

pub(crate) async fn run(args: BackupArgs, json: bool) -> Result<(), Failure> {
    let config = args.settings.config(Dev::No)?;
    let Some(from) = open::url_path(&config) else {
        return Err(Failure::configuration(
            "this store is on PostgreSQL, which has better ways: `pg_dump --format=custom` for a copy, continuous \
             archiving (pg_basebackup and the write-ahead log) to go back to any moment",
        ));
    };
    open::must_exist(&config)?;
    // Should the system not like it, it is only less polite.
    let _ = rustix::process::nice(NICE);
    let (began, mut progress) = (Instant::now(), Progress::new(json));
    let say = move |Copied { bytes, of }: Copied| {
        progress.say(|| match bytes < of {
            true => format!("copied {} of {}", size(bytes), size(of)),
            false => "copied; looking it through".into(),
        });
    };
    let bytes = store::sqlite::backup(&from, &args.path, say).await.map_err(failure)?;
    let seconds = began.elapsed().as_secs_f64();
    if json {
        let seconds = (seconds * 1000.0).round() / 1000.0;
        return print_json(&serde_json::json!({ "path": args.path, "bytes": bytes, "seconds": seconds }));
    }
    let (copy, size) = (args.path.display(), size(bytes));
    output::line(format_args!("{copy} holds {size} as of {seconds:.1} s ago, and is whole."));
    Ok(())
}

fn failure(error: BackupError) -> Failure {
    match error {
        BackupError::Exists(_) => Failure::configuration(format!("{error}: name another file")),
        BackupError::Damaged(_) => Failure::new(Code::Damaged, error),
        BackupError::Open(error) => error.into(),
        BackupError::Store(error) => error.into(),
        error @ (BackupError::Busy(_) | BackupError::NoRoom { .. } | BackupError::Io { .. }) => {
            Failure::failed(error)
        }
    }
}
