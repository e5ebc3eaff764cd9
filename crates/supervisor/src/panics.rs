//! One line for every panic of the process: which loop, where, and on what way there.

use crate::CURRENT;
use std::{
    backtrace::Backtrace,
    panic::{PanicHookInfo, set_hook},
};

/// From now on panics are logged, by whatever thread or task.
pub fn log_panics() {
    set_hook(Box::new(log));
}

/// What was said only if it is part of the program: words that were put together may hold a payload or a secret.
fn log(panic: &PanicHookInfo<'_>) {
    let in_loop = CURRENT.try_with(|(_, id)| id.entry().name).ok();
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let said = panic.payload().downcast_ref::<&'static str>().copied();
    let thread = std::thread::current();
    tracing::error!(
        r#loop = in_loop,
        place,
        said,
        thread = thread.name(),
        backtrace = %Backtrace::force_capture(),
        "a panic: this is a fault of the program"
    );
}
