//! The line of an attempt, written by hand. It is the one line of the log that comes as often as events do, and what writes
//! all the others takes a formatter, a visitor and a serializer for each of its twenty members. What comes out is the same,
//! byte for byte, which a test compares.

use super::lines::Lines;
use crate::clock::SystemClock;
use domain::{
    delivery::{Ending, Settled},
    time::{Clock, Timestamp},
};
use engine::{AttemptLine, AttemptLog};
use std::{cell::RefCell, fmt::Display, io::Write};

/// What `POSTHASTE_LOG` calls it.
pub(super) const TARGET: &str = "posthaste::attempt";
const MESSAGE: &str = "delivery.attempted";

#[derive(Debug, Clone, Copy)]
pub(super) enum LineFormat {
    Json,
    Human { colours: bool },
}

pub(super) struct AttemptLines {
    lines: Lines,
    format: LineFormat,
}

thread_local! {
    /// A line in the making: what is shared is only held to add it to the others.
    static TEXT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What a thread keeps of a line for the next; most have some 700 bytes.
const KEPT_BYTES: usize = 8 * 1024;

impl AttemptLines {
    pub(super) fn new(lines: Lines, format: LineFormat) -> Self {
        Self { lines, format }
    }
}

impl AttemptLog for AttemptLines {
    fn attempted(&self, line: &AttemptLine<'_>) {
        TEXT.with_borrow_mut(|text| {
            write(text, self.format, SystemClock.now(), line);
            self.lines.put(text);
            text.clear();
            text.shrink_to(KEPT_BYTES);
        });
    }
}

fn write(text: &mut Vec<u8>, format: LineFormat, now: Timestamp, line: &AttemptLine<'_>) {
    let AttemptLine { delivery, attempt, settled, trace } = line;
    let (ending, next_attempt_at) = match settled {
        Settled::Ended(ending) => (Some(*ending), None),
        Settled::Waits { due_at, .. } => (None, Some(*due_at)),
    };
    let timing = &attempt.detail.timing;
    let error = attempt.detail.error.as_ref();
    let mut line = LineText { text, format };
    line.begin(now);
    line.plain("account_id", delivery.account_id);
    line.plain("event_id", delivery.event_id);
    line.plain("delivery_id", delivery.id);
    line.plain("destination_id", delivery.destination_id);
    line.plain("attempt_id", attempt.id);
    line.bare("attempt", Some(attempt.number));
    if let Some(trace) = trace {
        line.plain("trace_id", format_args!("{:032x}", trace.trace_id));
    }
    line.words("outcome", Some(attempt.outcome.as_str()));
    line.bare("http_status", attempt.http_status);
    line.bare("duration_us", Some(attempt.duration.as_micros() as u64));
    line.bare("dns_us", timing.dns_us);
    line.bare("connect_us", timing.connect_us);
    line.bare("tls_us", timing.tls_us);
    line.bare("first_byte_us", timing.first_byte_us);
    line.bare("reused", Some(attempt.detail.connection_reused));
    line.words("error_code", error.map(|error| error.code.as_str()));
    line.words("error", error.map(|error| error.message.as_str()));
    line.words("ending", ending.map(|ending| ending.status().as_str()));
    line.words("reason", ending.and_then(Ending::reason));
    if let Some(at) = next_attempt_at {
        line.plain("next_attempt_at", at);
    }
    line.end();
}

/// A line as far as it is written. Nothing is refused by a text in memory, so that results of writing say nothing.
struct LineText<'a> {
    text: &'a mut Vec<u8>,
    format: LineFormat,
}

impl LineText<'_> {
    fn begin(&mut self, now: Timestamp) {
        let Self { text, format } = self;
        let _ = match format {
            LineFormat::Json => {
                write!(text, r#"{{"timestamp":"{now}","level":"INFO","message":"{MESSAGE}""#)
            }
            LineFormat::Human { colours: false } => write!(text, "{now}  INFO {TARGET}: {MESSAGE}"),
            LineFormat::Human { colours: true } => write!(
                text,
                "\x1b[2m{now}\x1b[0m \x1b[32m INFO\x1b[0m \x1b[2m{TARGET}\x1b[0m\x1b[2m:\x1b[0m {MESSAGE}"
            ),
        };
    }

    fn name(&mut self, name: &str) {
        let (before, after): (&[u8], &[u8]) = match self.format {
            LineFormat::Json => (b",\"", b"\":"),
            LineFormat::Human { colours: false } => (b" ", b"="),
            LineFormat::Human { colours: true } => (b" \x1b[3m", b"\x1b[0m\x1b[2m=\x1b[0m"),
        };
        for part in [before, name.as_bytes(), after] {
            self.text.extend_from_slice(part);
        }
    }

    /// What has no character that is written otherwise between quotes: ids and times.
    fn plain(&mut self, name: &str, value: impl Display) {
        self.name(name);
        let _ = match self.format {
            LineFormat::Json => write!(self.text, "\"{value}\""),
            LineFormat::Human { .. } => write!(self.text, "{value}"),
        };
    }

    /// What stands without quotes: numbers, true and false.
    fn bare(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.name(name);
            let _ = write!(self.text, "{value}");
        }
    }

    /// Any text.
    fn words(&mut self, name: &str, value: Option<&str>) {
        let Some(value) = value else { return };
        self.name(name);
        match self.format {
            LineFormat::Json => drop(serde_json::to_writer(&mut *self.text, value)),
            LineFormat::Human { .. } => drop(write!(self.text, "{value:?}")),
        }
    }

    fn end(&mut self) {
        let Self { text, format } = self;
        let _ = match format {
            LineFormat::Json => writeln!(text, r#","target":"{TARGET}"}}"#),
            LineFormat::Human { .. } => writeln!(text),
        };
    }
}

#[cfg(test)]
mod tests;
