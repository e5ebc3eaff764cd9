//! Opening the store: at once for a command, with patience for a server.

use crate::{config::Config, dice::SystemDice, failure::Failure};
use anyhow::Context;
use domain::{dice::Dice, limits};
use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};
use store::{OpenOptions, Store};

/// Opens it now or says why not.
pub(crate) async fn open(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    if let Some(path) = file(config) {
        make_folder(&path)?;
    }
    Ok(store::open(&options(config)).await?)
}

/// The same for a command that makes no store where there is none.
pub(crate) async fn open_existing(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    must_exist(config)?;
    open(config).await
}

/// The file of an embedded store is there; a server is asked when it is spoken to.
pub(crate) fn must_exist(config: &Config) -> Result<(), Failure> {
    match file(config) {
        Some(path) if !path.exists() => Err(Failure::configuration(format!(
            "there is no store at {}: name its folder with --data-dir, or its URL with --database",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Does what needs the store, again and again while a database server is not there (yet): an operator who starts everything at
/// once must not have to think about the order. An embedded store has no server to wait for.
pub(crate) async fn retry_while_unavailable<T, F: Future<Output = Result<T, Failure>>>(
    config: &Config,
    work: impl Fn() -> F,
) -> Result<T, Failure> {
    let mut pause = limits::BACKOFF_MIN;
    let mut notice = WaitingNotice::default();
    loop {
        match work().await {
            Err(failure) if failure.is_passing() && !config.database.starts_with("sqlite:") => {
                let why = failure.to_string();
                if notice.is_due(&why, Instant::now()) {
                    tracing::warn!(why, "the database is not there; waiting for it");
                }
                // Full jitter, so that many nodes do not knock in step.
                tokio::time::sleep(pause.mul_f64(SystemDice.unit())).await;
                pause = (pause * 2).min(limits::BACKOFF_MAX);
            }
            done => return done,
        }
    }
}

/// What was said last while something is waited for: a new reason is told at once, the same one now and then, so that whoever
/// looks at the end of the log sees what the node does.
#[derive(Default)]
struct WaitingNotice {
    told: Option<(String, Instant)>,
}

impl WaitingNotice {
    fn is_due(&mut self, why: &str, now: Instant) -> bool {
        let is_new = self
            .told
            .as_ref()
            .is_none_or(|(told, at)| told != why || now.duration_since(*at) >= limits::WAITING_TOLD_AGAIN);
        if is_new {
            self.told = Some((why.to_owned(), now));
        }
        is_new
    }
}

pub(crate) fn options(config: &Config) -> OpenOptions {
    OpenOptions {
        url: config.database.clone(),
        pool: config.pool,
        listen_url: config.listen_url.clone(),
        accept_data_loss: config.accept_data_loss,
    }
}

/// Of an embedded store, with what the URL says behind it.
pub(crate) fn url_path(config: &Config) -> Option<PathBuf> {
    let path = config.database.strip_prefix("sqlite:")?;
    Some(path.strip_prefix("//").unwrap_or(path).into())
}

/// Of an embedded store.
pub(crate) fn file(config: &Config) -> Option<PathBuf> {
    let path = url_path(config)?;
    let plain = path.to_str().and_then(|text| text.split_once('?')).map(|(file, _)| PathBuf::from(file));
    Some(plain.unwrap_or(path))
}

/// An embedded store may live outside the data folder: payloads are for its owner alone. The file itself is made so by the
/// store, which keeps it open: nobody else may open and close it. What SQLite puts beside it has its mode.
fn make_folder(path: &Path) -> Result<(), Failure> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("the folder {} cannot be made", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_waits_says_so_every_minute_and_a_new_reason_at_once() {
        let (mut notice, start) = (WaitingNotice::default(), Instant::now());
        let mut said = Vec::new();
        for second in 0..200 {
            let why = if second < 130 { "refused" } else { "starting up" };
            if notice.is_due(why, start + Duration::from_secs(second)) {
                said.push(second);
            }
        }
        assert_eq!(said, [0, 60, 120, 130, 190]);
    }
}
