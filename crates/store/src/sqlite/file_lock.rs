//! One file, one server, whatever the path by which it is reached.
//!
//! Two locks, both of the system's `flock` kind, which ends with the process however that ends. One is on a file beside the
//! database, where the database really is: symbolic links are followed first. It says who has it. The other is on the
//! database itself, so that a hard link, or any other name for the same file, leads to the same lock.
//!
//! **The rule that goes with it: nothing in this process opens and closes the database, its `-wal` or its `-shm` beside
//! SQLite.** SQLite's own locks are POSIX record locks: whenever a process closes *any* descriptor of a file, the system
//! drops *all* of its record locks on that file, and another process may then write underneath our connections. So the
//! descriptor here is kept until every connection is closed ([`FileLock`]) or until the process ends ([`is_in_use`]); a
//! file that this process has open as its store is never opened a second time; asking the system about a path (`stat`)
//! is harmless. `flock` and record locks do not see each other on a disk of this machine.
//!
//! On a network file system they do (NFS, SMB and 9P make record locks of both), and SQLite would wait for us for ever.
//! There the lock beside the database is the only one: it holds between machines as far as the file server keeps locks,
//! and a hard link is not recognised. The log says so; such a file system is no place for a database.

use super::open::{beside, folder_of, parse, unavailable};
use crate::OpenError;
use rustix::{
    fs::{FlockOperation, flock, fstatfs},
    io::Errno,
};
use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    fs::{self, File, Metadata},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// A process that only asks whether a file is in use has its lock for a moment.
const LOCK_PATIENCE: Duration = Duration::from_millis(100);

/// Held as long as the store is open.
pub(super) struct FileLock {
    /// Where the database really is.
    pub(super) path: PathBuf,
    /// The database: locked, and used to flush it. Closing it takes the record locks of all our connections along, so
    /// it is closed after them.
    database: File,
    identity: Identity,
    _beside: File,
}

/// Device and inode: two paths lead to one file if these are the same.
type Identity = (u64, u64);

/// Files that this process has open as its stores.
static HELD: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

/// Files that were only asked about: closing them would drop the record locks of whoever reads them in this process.
static LOOKED_AT: Mutex<BTreeMap<Identity, File>> = Mutex::new(BTreeMap::new());

impl FileLock {
    /// Makes the file where it is missing, for its owner alone.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        let mut held = all(&HELD);
        if fs::metadata(path).is_ok_and(|found| held.contains(&identity(&found))) {
            return Err(in_use(&folder_of(path), &format!("process {}", std::process::id())));
        }
        let database =
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let database = database.map_err(unavailable)?;
        let path = fs::canonicalize(path).map_err(unavailable)?;
        let folder = folder_of(&path);
        let lock = beside(&path, "lock");
        let lock = File::options().read(true).write(true).create(true).truncate(false).open(lock);
        let mut lock = lock.map_err(unavailable)?;
        if !taken(&lock).map_err(unavailable)? {
            let mut holder = String::new();
            let _ = lock.read_to_string(&mut holder);
            let who = match holder.trim() {
                "" => "another process".to_owned(),
                holder => format!("process {holder}"),
            };
            return Err(in_use(&folder, &who));
        }
        if flock_is_a_record_lock(&database) {
            let database = path.display();
            tracing::warn!(%database, "the database is on a network file system, which may lose locks and flushes");
        } else if !taken(&database).map_err(unavailable)? {
            return Err(in_use(&folder, "another process, which reaches its database by another path"));
        }
        let identity = identity(&database.metadata().map_err(unavailable)?);
        if fs::metadata(&path).map(|found| self::identity(&found)).ok() != Some(identity) {
            let replaced = format!("{} was replaced while it was opened", path.display());
            return Err(unavailable(io::Error::other(replaced)));
        }
        // For people, and for the message above. Losing it costs nothing.
        let _ = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        held.insert(identity);
        Ok(Self { path, database, identity, _beside: lock })
    }

    /// What was written to the database is on disk.
    pub(super) fn flush_database(&self) -> io::Result<()> {
        self.database.sync_data()
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        all(&HELD).remove(&self.identity);
    }
}

/// Whether a process has the file open as its store, as far as one can tell.
pub fn is_in_use(path: &Path) -> bool {
    let Ok((path, _)) = parse(path) else { return false };
    let path = match fs::canonicalize(&path) {
        Ok(path) => path,
        Err(error) => return error.kind() != ErrorKind::NotFound,
    };
    let Ok(found) = fs::metadata(&path) else { return true };
    if all(&HELD).contains(&identity(&found)) {
        return true;
    }
    match File::open(beside(&path, "lock")) {
        Ok(lock) if !is_free(&lock) => return true,
        Err(error) if error.kind() != ErrorKind::NotFound => return true,
        _ => {}
    }
    let mut looked_at = all(&LOOKED_AT);
    let database = match looked_at.entry(identity(&found)) {
        Entry::Occupied(kept) => kept.into_mut(),
        Entry::Vacant(new) => match File::open(&path) {
            Ok(database) => new.insert(database),
            Err(_) => return true,
        },
    };
    !flock_is_a_record_lock(database) && !is_free(database)
}

/// Given back as soon as it is known.
fn is_free(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockShared).is_ok() && flock(file, FlockOperation::Unlock).is_ok()
}

/// False if another process has it for longer than a moment.
fn taken(file: &File) -> io::Result<bool> {
    let give_up = Instant::now() + LOCK_PATIENCE;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() < give_up => thread::sleep(LOCK_PATIENCE / 10),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

/// NFS, SMB (three numbers) and 9P, as `linux/magic.h` has them.
const MADE_RECORD_LOCKS: [u32; 5] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x0102_1997];

fn flock_is_a_record_lock(file: &File) -> bool {
    fstatfs(file).is_ok_and(|found| MADE_RECORD_LOCKS.contains(&(found.f_type as u32)))
}

fn identity(found: &Metadata) -> Identity {
    (found.dev(), found.ino())
}

fn in_use(folder: &Path, who: &str) -> OpenError {
    let folder = folder.display();
    OpenError::InUse(format!(
        "the data folder {folder} is in use by {who}: stop it, or ask the server by its API"
    ))
}

fn all<T>(files: &Mutex<T>) -> MutexGuard<'_, T> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}
