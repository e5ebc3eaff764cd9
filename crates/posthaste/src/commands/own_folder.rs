//! The folder of a command that makes one of its own: made by it, known by a mark, and removed only with that mark in it.

use crate::{data_dir::DataDir, failure::Failure};
use anyhow::Context;
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
};

/// What the folders of one command have in common.
pub(super) struct OwnFolder {
    /// As it is typed.
    pub(super) command: &'static str,
    /// The file by which a folder is known to be its own.
    pub(super) mark: &'static str,
    /// What stands in that file.
    pub(super) says: &'static str,
}

impl OwnFolder {
    /// Makes the folder, or takes one that this command made earlier. Any other is somebody's, and refused.
    pub(super) fn claim(&self, folder: &Path) -> Result<(), Failure> {
        if self.made(folder) {
            return Ok(());
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .with_context(|| format!("{} cannot be made", folder.display()))?;
        let mut entries =
            fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
        if entries.next().is_some() {
            return Err(self.not_ours(folder));
        }
        let written = fs::write(folder.join(self.mark), self.says);
        Ok(written.with_context(|| format!("{} cannot be written to", folder.display()))?)
    }

    /// False if there is none. One that is used keeps its folder, and one without the mark is not touched.
    pub(super) fn remove(&self, folder: &Path) -> Result<bool, Failure> {
        match fs::symlink_metadata(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Ok(found) if found.is_dir() && self.made(folder) => {}
            _ => return Err(self.not_ours(folder)),
        }
        let lock = DataDir::claim(folder)?;
        lock.keep();
        let removed = fs::remove_dir_all(folder);
        removed.with_context(|| format!("{} cannot be removed", folder.display()))?;
        Ok(true)
    }

    fn made(&self, folder: &Path) -> bool {
        folder.join(self.mark).is_file()
    }

    fn not_ours(&self, folder: &Path) -> Failure {
        Failure::configuration(format!(
            "{} was not made by `{}`, and is left alone: name another folder with --data-dir",
            folder.display(),
            self.command
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: OwnFolder = OwnFolder { command: "posthaste demo", mark: "demo.toml", says: "" };

    #[test]
    fn a_folder_that_is_not_its_own_is_neither_used_nor_removed() {
        let place = tempfile::tempdir().unwrap();
        let (own, foreign) = (place.path().join("demo"), place.path().join("posthaste-data"));
        assert!(!DEMO.remove(&own).unwrap(), "there is none");
        DEMO.claim(&own).unwrap();
        DEMO.claim(&own).unwrap();
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("posthaste.db"), "everything").unwrap();
        assert!(DEMO.claim(&foreign).is_err() && DEMO.remove(&foreign).is_err());
        assert_eq!(fs::read_to_string(foreign.join("posthaste.db")).unwrap(), "everything");

        let running = DataDir::claim(&own).unwrap();
        running.keep();
        assert!(DEMO.remove(&own).is_err(), "it is in use");
        drop(running);
        assert!(DEMO.remove(&own).unwrap() && !own.exists());
    }
}
