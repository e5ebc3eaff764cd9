//! The data folder, and the lock that keeps a second process out of it.

use crate::failure::{Code, Failure};
use anyhow::Context;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

/// A folder that this process alone uses, until it is dropped or the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct DataDir {
    /// The kernel releases the lock with the last of its descriptors.
    lock: File,
}

const LOCK_FILE: &str = "posthaste.lock";

impl DataDir {
    /// Makes the folder if need be and takes its lock; exit code 5 if another process has it.
    pub(crate) fn claim(path: &Path) -> Result<Self, Failure> {
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
        Ok(Self { lock })
    }

    /// Equal only for processes that held this very lock on this very boot of this machine: the process that holds it now may
    /// conclude that the others are dead. A host name would prove nothing in containers.
    pub(crate) fn proof(&self) -> anyhow::Result<String> {
        let file = self.lock.metadata().context("the lock file cannot be examined")?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("this boot has no id")?;
        Ok(format!("{}:{}:{}", boot.trim(), file.dev(), file.ino()))
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
        let proof = first.proof().unwrap();
        assert!(DataDir::claim(&path).is_err());
        drop(first);
        assert_eq!(DataDir::claim(&path).unwrap().proof().unwrap(), proof);
    }
}
