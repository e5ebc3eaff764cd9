//! Room on disk: how much there is, and a reserve that is given up when there is none.
//!
//! When the disk fills, events are refused first (503), while there is still room for settlements; when it is full, the
//! reserve is deleted and settlements go on in its place, and so does a start. It is put back when there is room again.

use domain::limits;
use rustix::fs::{FallocateFlags, fallocate, statvfs};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::PathBuf,
    time::Instant,
};

pub(super) struct Space {
    folder: PathBuf,
    reserve: PathBuf,
    held: bool,
    short: bool,
    checked: Option<Instant>,
}

impl Space {
    /// Before anything is opened: a start has to write too, and on a full disk finds the room only here. Nothing is put
    /// aside before [`Self::begin`].
    pub(super) fn at_start(folder: PathBuf, reserve: PathBuf) -> Self {
        let held = fs::metadata(&reserve).is_ok_and(|file| file.len() >= limits::STORE_RESERVE_BYTES);
        let mut space = Self { folder, reserve, held, short: false, checked: None };
        space.make_room(space.free());
        space
    }

    /// The store is open.
    pub(super) fn begin(mut self) -> Self {
        self.look();
        self
    }

    pub(super) fn make_room(&mut self, free: Option<u64>) {
        if free.is_some_and(|free| free < limits::STORE_START_BYTES) {
            self.release();
        }
    }

    /// None where the file system does not say.
    fn free(&self) -> Option<u64> {
        statvfs(&self.folder).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Whether there is too little room to let events in, as of a moment ago.
    pub(super) fn is_short(&mut self) -> bool {
        if self.checked.is_none_or(|checked| checked.elapsed() >= limits::FREE_SPACE_CHECK) {
            self.look();
        }
        self.short
    }

    /// What was known a moment ago, without looking again.
    pub(super) fn was_short(&self) -> bool {
        self.short
    }

    /// The disk turned out to be full.
    pub(super) fn ran_out(&mut self) {
        self.short = true;
        self.checked = Some(Instant::now());
    }

    /// Gives up the reserve; false if it is gone already.
    pub(super) fn release(&mut self) -> bool {
        if !std::mem::take(&mut self.held) {
            return false;
        }
        tracing::warn!(reserve = %self.reserve.display(), "the disk is full: it goes on in the reserve");
        fs::remove_file(&self.reserve).is_ok()
    }

    fn look(&mut self) {
        self.checked = Some(Instant::now());
        // A file system that does not say is taken to have room: the next flush will tell.
        let Some(mut free) = self.free() else { return };
        if !self.held && free >= limits::INGEST_FREE_BYTES + limits::STORE_RESERVE_BYTES {
            match self.put_aside() {
                Ok(()) => free -= limits::STORE_RESERVE_BYTES,
                Err(error) => tracing::warn!(%error, "no room could be put aside for settlements"),
            }
        }
        let short = free < limits::INGEST_FREE_BYTES;
        if short != self.short {
            let folder = self.folder.display();
            match short {
                true => {
                    tracing::error!(%folder, free_bytes = free, "the disk is almost full: no events are let in")
                }
                false => tracing::info!(%folder, free_bytes = free, "there is room on disk again"),
            }
        }
        self.short = short;
    }

    fn put_aside(&mut self) -> io::Result<()> {
        let mut file = File::create(&self.reserve)?;
        let kept = match fallocate(&file, FallocateFlags::empty(), 0, limits::STORE_RESERVE_BYTES) {
            Ok(()) => Ok(()),
            // Not every file system can promise blocks; written ones are promised enough.
            Err(_) => file.write_all(&vec![0x50; limits::STORE_RESERVE_BYTES as usize]),
        };
        match kept.and_then(|()| file.sync_all()) {
            Ok(()) => {
                self.held = true;
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&self.reserve); // half a reserve only takes room away
                Err(error)
            }
        }
    }
}
