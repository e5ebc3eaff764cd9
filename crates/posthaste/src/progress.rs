//! How far a long command is: one line on a terminal, written over and over; elsewhere a line now and then. On standard
//! error, so that standard output is the answer alone.

use crate::output;
use std::{
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

const ON_A_TERMINAL: Duration = Duration::from_millis(200);
const IN_A_LOG: Duration = Duration::from_secs(10);

pub(crate) struct Progress {
    terminal: bool,
    /// It is not read.
    silent: bool,
    next: Instant,
    /// Characters that stand on the line.
    shown: usize,
}

impl Progress {
    /// With `--json` it says nothing.
    pub(crate) fn new(json: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        // A quick command has nothing to say about itself.
        let next = Instant::now() + if terminal { ON_A_TERMINAL } else { IN_A_LOG };
        Self { terminal, silent: json, next, shown: 0 }
    }

    /// Says it, unless something was said a moment ago.
    pub(crate) fn say(&mut self, text: impl FnOnce() -> String) {
        if self.silent || Instant::now() < self.next {
            return;
        }
        self.next = Instant::now() + if self.terminal { ON_A_TERMINAL } else { IN_A_LOG };
        let text = text();
        if self.terminal {
            let width = text.chars().count();
            output::scribble(format_args!("\r{text}{}", " ".repeat(self.shown.saturating_sub(width))));
            self.shown = width;
        } else {
            output::note(text);
        }
    }

    /// Makes room for the answer.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) > 0 {
            output::scribble("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `12.3 MiB`
pub(crate) fn size(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_for_people() {
        let told = [0, 1023, 1024, 1536 * 1024, u64::MAX].map(size);
        assert_eq!(told, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "16777216.0 TiB"]);
    }
}
