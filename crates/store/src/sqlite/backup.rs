//! A copy of the database, made while it is used or not: one snapshot, copied page by page in small steps.
//!
//! The snapshot is held from the first page to the last, so that what is written meanwhile does not make the copy begin
//! again; the log grows for so long. Each step is flushed by itself and followed by a pause as long as it took: one
//! large flush at the end would stand before those of the server. The copy has its name only when it is complete,
//! checked and on disk.

use super::{integrity, open, readers, trouble};
use crate::{OpenError, StoreError};
use domain::limits;
use rusqlite::{
    Connection, OpenFlags,
    backup::{Backup, StepResult},
};
use rustix::{
    fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with, statvfs},
    io::Errno,
};
use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Instant,
};

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    pub bytes: u64,
    pub of: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{} is there already, and is not overwritten", .0.display())]
    Exists(PathBuf),
    #[error("another backup is writing {}", .0.display())]
    Busy(PathBuf),
    #[error("the copy takes {needed} bytes, and at {} there is room for {free}", .folder.display())]
    NoRoom { folder: PathBuf, needed: u64, free: u64 },
    #[error("the copy is damaged, and so is the database: {0}")]
    Damaged(String),
    #[error("{} cannot be written: {error}", .path.display())]
    Io {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Copies the database at `from` (which may say `?synchronous=…`) to the new file `to`, and says how large it is.
pub async fn backup(
    from: &Path,
    to: &Path,
    progress: impl FnMut(Copied) + Send + 'static,
) -> Result<u64, BackupError> {
    let ((from, _), to) = (open::parse(from)?, to.to_owned());
    let done = tokio::task::spawn_blocking(move || whole(&from, &to, progress)).await;
    done.unwrap_or_else(|panic| Err(StoreError::Unavailable(panic.into()).into()))
}

fn whole(from: &Path, to: &Path, progress: impl FnMut(Copied)) -> Result<u64, BackupError> {
    if to.symlink_metadata().is_ok() {
        return Err(BackupError::Exists(to.into()));
    }
    let mut partial = PartialCopy::begin(to)?;
    let bytes = copy(from, &partial, progress)?;
    let damage = immutable(&partial.path).and_then(|copy| integrity::copy_is_whole(&copy)).map_err(sql)?;
    if !damage.is_empty() {
        return Err(BackupError::Damaged(damage.join("; ")));
    }
    partial.finish(to)?;
    Ok(bytes)
}

fn copy(from: &Path, partial: &PartialCopy, mut progress: impl FnMut(Copied)) -> Result<u64, BackupError> {
    let source = readers::connect(from).map_err(sql)?;
    // From here on it sees one moment, until it is dropped.
    source.execute_batch("begin; select count(*) from sqlite_schema").map_err(sql)?;
    let number = |pragma| {
        let number = source.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
        number.map(|number| number.max(0) as u64).map_err(sql)
    };
    let (page, of) = (number("page_size")?, number("page_count")? * number("page_size")?);
    partial.has_room(of)?;
    let mut copy = Connection::open(&partial.path).map_err(sql)?;
    // It has no name yet: what is half written is thrown away. Little is kept in memory, so that steps reach the file.
    copy.execute_batch("pragma journal_mode = off; pragma synchronous = off; pragma cache_size = -1024")
        .map_err(sql)?;
    {
        let backup = Backup::new(&source, &mut copy).map_err(sql)?;
        loop {
            let began = Instant::now();
            let step = backup.step(limits::BACKUP_STEP_PAGES).map_err(sql)?;
            partial.file.sync_data().map_err(|error| partial.failed(error))?;
            let left = backup.progress().remaining.max(0) as u64 * page;
            progress(Copied { bytes: of.saturating_sub(left), of });
            match step {
                StepResult::Done => break,
                StepResult::More => partial.has_room(left)?,
                // Only another program on the copy could be in the way.
                _ => {}
            }
            std::thread::sleep(began.elapsed().min(limits::BACKUP_PAUSE));
        }
    }
    copy.close().map_err(|(_, error)| sql(error))?;
    Ok(of)
}

/// The copy before it has its name. It goes when it is dropped without being finished; what a killed one has left is
/// written over by the next.
struct PartialCopy {
    path: PathBuf,
    folder: PathBuf,
    file: File,
    finished: bool,
}

impl PartialCopy {
    fn begin(to: &Path) -> Result<Self, BackupError> {
        let mut name: OsString = to.as_os_str().to_owned();
        name.push(".part");
        let (path, folder) = (PathBuf::from(name), open::folder_of(to));
        let failed = |error| BackupError::Io { path: path.clone(), error };
        let file =
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(BackupError::Busy(to.into())),
            Err(error) => return Err(failed(error.into())),
        }
        // A backup that finished it between our opening and our lock has given it its name.
        if to.symlink_metadata().is_ok() {
            let _ = fs::remove_file(&path);
            return Err(BackupError::Exists(to.into()));
        }
        file.set_len(0).map_err(failed)?;
        Ok(Self { path, folder, file, finished: false })
    }

    /// A backup must not fill the disk that the server lives on.
    fn has_room(&self, needed: u64) -> Result<(), BackupError> {
        // A file system that does not say is taken to have room: writing will tell.
        let Ok(found) = statvfs(&self.folder) else { return Ok(()) };
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        let free = free.saturating_sub(limits::INGEST_FREE_BYTES + 2 * limits::STORE_RESERVE_BYTES);
        if free >= needed {
            return Ok(());
        }
        Err(BackupError::NoRoom { folder: self.folder.clone(), needed, free })
    }

    /// On disk first, then its name, then the name on disk.
    fn finish(&mut self, to: &Path) -> Result<(), BackupError> {
        self.file.sync_all().map_err(|error| self.failed(error))?;
        match renameat_with(CWD, &self.path, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Err(BackupError::Exists(to.into())),
            // Not every file system can do it in one step.
            Err(Errno::INVAL | Errno::NOSYS) if to.symlink_metadata().is_err() => {
                fs::rename(&self.path, to).map_err(|error| self.failed(error))?;
            }
            Err(error) => return Err(self.failed(error.into())),
        }
        self.finished = true;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> BackupError {
        BackupError::Io { path: self.path.clone(), error }
    }
}

impl Drop for PartialCopy {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// No other process has it, so no log and no locks are made beside it.
fn immutable(path: &Path) -> rusqlite::Result<Connection> {
    let encoded: String =
        path.as_os_str().as_encoded_bytes().iter().map(|byte| format!("%{byte:02x}")).collect();
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(format!("file:{encoded}?immutable=1"), flags)
}

fn sql(error: rusqlite::Error) -> BackupError {
    match trouble::reach(&error) {
        trouble::Reach::Store => BackupError::Damaged(error.to_string()),
        _ => BackupError::Store(StoreError::Unavailable(error.into())),
    }
}
