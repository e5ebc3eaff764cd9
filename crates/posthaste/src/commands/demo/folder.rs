//! The demo's folder: made by it, known by a mark, and removed only with that mark in it.

use crate::{data_dir::DataDir, failure::Failure};
use anyhow::Context;
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
};

const MARK: &str = "demo.toml";
const TEXT: &str =
    "# The folder of `posthaste demo`. `posthaste demo --clean` removes it with everything in it.\n";

/// Makes the folder, or takes one that an earlier demo made. Any other is somebody's, and refused.
pub(super) fn claim(folder: &Path) -> Result<(), Failure> {
    if is_ours(folder) {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("{} cannot be made", folder.display()))?;
    let mut entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    if entries.next().is_some() {
        return Err(not_ours(folder));
    }
    let written = fs::write(folder.join(MARK), TEXT);
    Ok(written.with_context(|| format!("{} cannot be written to", folder.display()))?)
}

/// False if there is none. A demo that runs keeps its folder, and one without the mark is not touched.
pub(super) fn remove(folder: &Path) -> Result<bool, Failure> {
    match fs::symlink_metadata(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Ok(found) if found.is_dir() && is_ours(folder) => {}
        _ => return Err(not_ours(folder)),
    }
    let lock = DataDir::claim(folder)?;
    lock.keep();
    let removed = fs::remove_dir_all(folder);
    removed.with_context(|| format!("{} cannot be removed", folder.display()))?;
    Ok(true)
}

fn is_ours(folder: &Path) -> bool {
    folder.join(MARK).is_file()
}

fn not_ours(folder: &Path) -> Failure {
    Failure::configuration(format!(
        "{} was not made by `posthaste demo`, and is left alone: name another folder with --data-dir",
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_its_own_is_neither_used_nor_removed() {
        let place = tempfile::tempdir().unwrap();
        let (own, foreign) = (place.path().join("demo"), place.path().join("posthaste-data"));
        assert!(!remove(&own).unwrap(), "there is none");
        claim(&own).unwrap();
        claim(&own).unwrap();
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("posthaste.db"), "everything").unwrap();
        assert!(claim(&foreign).is_err() && remove(&foreign).is_err());
        assert_eq!(fs::read_to_string(foreign.join("posthaste.db")).unwrap(), "everything");

        let running = DataDir::claim(&own).unwrap();
        running.keep();
        assert!(remove(&own).is_err(), "it is in use");
        drop(running);
        assert!(remove(&own).unwrap() && !own.exists());
    }
}
