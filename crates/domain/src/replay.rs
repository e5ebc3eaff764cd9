//! Replays: new deliveries of what has ended. Here is only how far one may be; `store` keeps them.

use crate::word::words;

words! {
    "the status of a replay",
    ReplayStatus {
        Running = "running",
        Paused = "paused",
        /// Every delivery has been made.
        Completed = "completed",
        Cancelled = "cancelled",
    }
}

impl ReplayStatus {
    pub const fn ended(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }

    /// A word of a newer version is an end: a node that does not know it leaves the replay alone.
    pub fn read(word: &str) -> Self {
        word.parse().unwrap_or(Self::Cancelled)
    }
}
