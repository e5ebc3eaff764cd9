//! The data folder, and the lock that keeps a second process out of it.

use crate::{
    commands::dev::DevKeys,
    failure::{Code, Failure},
};
use anyhow::Context;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// A folder that this process alone uses, until it is dropped or the process ends in whatever way. One that was made for a
/// start that came to nothing is taken away again.
#[derive(Debug)]
pub(crate) struct DataDir {
    /// The kernel releases the lock with the last of its descriptors.
    lock: File,
    /// The folder and those above it that were not there, the innermost first.
    made: Vec<PathBuf>,
    is_kept: AtomicBool,
}

const LOCK_FILE: &str = "posthaste.lock";

impl DataDir {
    /// Makes the folder if need be and takes its lock; exit code 5 if another process has it.
    pub(crate) fn claim(path: &Path) -> Result<Self, Failure> {
        loop {
            let claimed = Self::claim_once(path)?;
            if claimed.is_at(path) {
                return Ok(claimed);
            }
            // Its last owner was about to take the folder away: this lock keeps nobody out.
            claimed.keep();
        }
    }

    fn claim_once(path: &Path) -> Result<Self, Failure> {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = path.ancestors().take_while(missing).map(Path::to_owned).collect();
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("the data folder {} cannot be made", path.display()))?;
        let file = path.join(LOCK_FILE);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&file)
            .with_context(|| format!("{} cannot be opened", file.display()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = lock.read_to_string(&mut holder);
                let holder = holder.trim();
                let who =
                    if holder.is_empty() { "another process".into() } else { format!("process {holder}") };
                return Err(Failure::new(
                    Code::InUse,
                    format!(
                        "{} is in use by {who}: stop it, or name another folder with --data-dir",
                        path.display()
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => {
                return Err(anyhow::Error::new(error)
                    .context(format!("{} cannot be locked", file.display()))
                    .into());
            }
        }
        // For people, and for the message above. Losing it costs nothing.
        let _ = lock.set_len(0).and_then(|()| lock.rewind());
        let _ = writeln!(lock, "{}", std::process::id());
        Ok(Self { lock, made, is_kept: AtomicBool::new(false) })
    }

    fn is_at(&self, path: &Path) -> bool {
        let place = |found: fs::Metadata| (found.dev(), found.ino());
        let (locked, there) =
            (self.lock.metadata().map(place), fs::metadata(path.join(LOCK_FILE)).map(place));
        matches!((locked, there), (Ok(locked), Ok(there)) if locked == there)
    }

    /// Something is about to depend on what is in it.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Equal only for processes that held this very lock on this very boot of this machine: the process that holds it now may
    /// conclude that the others are dead. A host name would prove nothing in containers.
    pub(crate) fn proof(&self) -> anyhow::Result<String> {
        let file = self.lock.metadata().context("the lock file cannot be examined")?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("this boot has no id")?;
        Ok(format!("{}:{}:{}", boot.trim(), file.dev(), file.ino()))
    }
}

impl Drop for DataDir {
    /// While the lock is held. A folder goes only if it is empty but for what a start puts into it before it opens the store.
    fn drop(&mut self) {
        let Some(folder) = self.made.first().filter(|_| !self.is_kept.load(Ordering::Relaxed)) else {
            return;
        };
        let is_ours =
            |name: &Path| [folder.join(LOCK_FILE), DevKeys::path(folder)].iter().any(|ours| ours == name);
        let Ok(mut entries) = fs::read_dir(folder) else { return };
        if !entries.all(|entry| entry.is_ok_and(|entry| is_ours(&entry.path()))) {
            return;
        }
        let _ = fs::remove_file(DevKeys::path(folder));
        let _ = fs::remove_file(folder.join(LOCK_FILE));
        // The first that is not empty ends it.
        let _ = self.made.iter().try_for_each(fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_user_at_a_time_and_the_next_has_the_same_proof() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let first = DataDir::claim(&path).unwrap();
        first.keep();
        let proof = first.proof().unwrap();
        assert!(DataDir::claim(&path).is_err());
        drop(first);
        assert_eq!(DataDir::claim(&path).unwrap().proof().unwrap(), proof);
    }

    #[test]
    fn a_folder_of_a_start_that_came_to_nothing_goes_unless_something_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        let (outer, path) = (place.path().join("a"), place.path().join("a/b"));
        let claimed = DataDir::claim(&path).unwrap();
        fs::write(DevKeys::path(&path), "").unwrap();
        drop(claimed);
        assert!(!outer.exists());

        let claimed = DataDir::claim(&path).unwrap();
        fs::write(path.join("posthaste.db"), "").unwrap();
        drop(claimed);
        assert!(path.join("posthaste.db").exists() && path.join(LOCK_FILE).exists());
        fs::remove_file(path.join("posthaste.db")).unwrap();
        drop(DataDir::claim(&path).unwrap());
        assert!(path.exists(), "it was there before");
    }
}
