//! Standard output and standard error: either may be a pipe whose reader has seen enough. The macros of the standard library
//! panic then.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write as _},
    process,
};

/// As a shell reports a program that ended because nobody read it.
const NOBODY_READS: i32 = 128 + 13;

/// A line of a command's answer. Where nobody reads it there is nothing more to do: the process ends, without a word.
pub(crate) fn line(text: impl Display) {
    written(writeln!(io::stdout().lock(), "{text}"));
}

/// The same for a text that has its line ends.
pub(crate) fn whole(text: impl Display) {
    written(write!(io::stdout().lock(), "{text}"));
}

/// A line from a program that goes on whether it is read or not.
pub(crate) fn offer(text: impl Display) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// A line beside the answer, on standard error.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// The same without a line end.
pub(crate) fn scribble(text: impl Display) {
    let mut out = io::stderr().lock();
    let _ = write!(out, "{text}").and_then(|()| out.flush());
}

fn written(result: io::Result<()>) {
    let Err(error) = result.and_then(|()| io::stdout().flush()) else { return };
    if error.kind() != ErrorKind::BrokenPipe {
        note(format_args!("posthaste: the answer cannot be written: {error}"));
        process::exit(1);
    }
    process::exit(NOBODY_READS);
}
