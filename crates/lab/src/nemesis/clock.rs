//! A wall clock that is wrong, for one process: libfaketime, preloaded.
//!
//! The shift is read from a file, so that a clock can jump while its process runs. Monotonic time stays true: a
//! machine whose wall clock was set wrong has a monotonic clock that was not.

use std::io;
use std::path::{Path, PathBuf};

const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

#[derive(Debug)]
pub struct ShiftedClock {
    library: PathBuf,
    file: PathBuf,
}

impl ShiftedClock {
    /// A clock that is right until it is shifted; `file` is where the shift is written.
    pub fn new(file: &Path) -> io::Result<ShiftedClock> {
        let library = LIBRARIES.iter().map(Path::new).find(|file| file.is_file());
        let library = library.ok_or_else(|| io::Error::other("libfaketime was not found"))?.to_owned();
        let clock = ShiftedClock { library, file: file.to_owned() };
        clock.shift(0)?;
        Ok(clock)
    }

    /// The environment of the process that is to believe it.
    pub fn env(&self) -> Vec<(String, String)> {
        let file = self.file.display().to_string();
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", file),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            // Otherwise the file is read every ten seconds only.
            ("FAKETIME_CACHE_DURATION", "1".into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// From now on (within a second) the clock is off by so many seconds.
    pub fn shift(&self, seconds: i64) -> io::Result<()> {
        // In one piece: the process may read it at any moment.
        let next = self.file.with_extension("next");
        std::fs::write(&next, format!("{seconds:+}s\n"))?;
        std::fs::rename(&next, &self.file)
    }
}
