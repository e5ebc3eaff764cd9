//! One file has one user, by whatever path; and no look at it costs SQLite its locks.

use super::{Fixture, open};
use crate::{
    OpenError,
    sqlite::{Depth, check_integrity, is_in_use},
};
use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Paths to the file beside its own: by a link to its folder, a link to it, a second name of it.
fn other_paths(path: &Path, beside: &Path) -> [PathBuf; 3] {
    let folder = path.parent().expect("a folder");
    symlink(folder, beside.join("folder")).expect("a link to the folder");
    symlink(path, beside.join("link.db")).expect("a link to the file");
    fs::hard_link(path, beside.join("name.db")).expect("another name");
    [beside.join("folder/posthaste.db"), beside.join("link.db"), beside.join("name.db")]
}

#[tokio::test]
async fn a_second_opener_is_refused_by_whatever_path_it_comes() {
    let first = Fixture::new().await;
    let beside = tempfile::tempdir().expect("a temporary folder");
    for path in other_paths(&first.path(), beside.path()) {
        assert!(is_in_use(&path), "{path:?}");
        let refused = open(&path, false).await.err();
        assert!(matches!(refused, Some(OpenError::InUse(_))), "{path:?}: {refused:?}");
    }
    let left: Vec<_> =
        fs::read_dir(beside.path()).expect("a folder").map(|it| it.expect("it").file_name()).collect();
    assert_eq!(left.len(), 3, "nothing was made beside them: {left:?}");
}

/// The same from another process, which does not know what this one has open.
#[tokio::test]
async fn another_process_finds_the_lock_on_the_file_itself() {
    let first = Fixture::new().await;
    let beside = tempfile::tempdir().expect("a temporary folder");
    for path in other_paths(&first.path(), beside.path()) {
        let locked = Command::new("flock").arg("-n").arg(&path).arg("true").status().expect("flock");
        assert!(!locked.success(), "{path:?}");
    }
}

#[tokio::test]
async fn after_looks_refusals_and_checks_sqlite_still_has_its_locks() {
    let first = Fixture::new().await;
    let path = first.path();
    let beside = tempfile::tempdir().expect("a temporary folder");
    for other in other_paths(&path, beside.path()) {
        open(&other, false).await.err().expect("it is in use");
        assert!(is_in_use(&other));
    }
    open(&path, false).await.err().expect("it is in use");
    let long = Duration::from_secs(60);
    check_integrity(&path, Depth::ByTable, long, |_, _, _| ()).await.expect("an examination");
    let copy = beside.path().join("copy.db");
    crate::sqlite::backup(&path, &copy, |_| ()).await.expect("a copy");
    let shm = path.with_extension("db-shm");
    assert!(has_record_lock(&path, SHARED) && has_record_lock(&shm, OPEN_MARK));
    // What all of the above must not do: to close the file once is to have no locks.
    drop(File::open(&path).expect("the file"));
    assert!(!has_record_lock(&path, SHARED));
}

/// Where SQLite locks: the bytes of the readers in the database, and the mark of an open one in the `-shm`.
const SHARED: u64 = 0x4000_0002;
const OPEN_MARK: u64 = 128;

/// As the system has it: a process that asks by `fcntl` does not see its own locks.
fn has_record_lock(file: &Path, at: u64) -> bool {
    let listed = fs::read_to_string("/proc/locks").expect("the locks of this machine");
    let inode = fs::metadata(file).expect("the file").ino();
    listed.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of_file = words.get(5).is_some_and(|file| file.ends_with(&format!(":{inode}")));
        let range = (words.get(6), words.get(7));
        let (Some(from), Some(to)) = range else { return false };
        let from: u64 = from.parse().unwrap_or(u64::MAX);
        let to: u64 = to.parse().unwrap_or(u64::MAX);
        words.get(1) == Some(&"POSIX") && of_file && (from..=to).contains(&at)
    })
}
