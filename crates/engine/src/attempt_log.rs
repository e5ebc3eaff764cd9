//! The one wide line of the log per attempt: what is said of it. How it is written is the binary's business, because a line
//! for every attempt costs as much as its formatting and its way out do.

use domain::{attempt::Attempt, delivery::Delivery, delivery::Settled, trace::TraceContext};
use std::{fmt, sync::Arc};

/// Takes what there is to say. It is called once an attempt, on the threads that send, and must not wait.
pub trait AttemptLog: Send + Sync {
    fn attempted(&self, line: &AttemptLine<'_>);
}

/// Which attempt, where, how it went, how long it took, and what comes next. Never a payload, a header, or a URL, which may
/// hold a secret: what is written is chosen from these by name.
pub struct AttemptLine<'a> {
    pub delivery: &'a Delivery,
    pub attempt: &'a Attempt,
    pub settled: Settled,
    /// What the destination was told of the trace.
    pub trace: Option<TraceContext>,
}

/// Where lines of attempts go; nowhere, if nobody wants them.
#[derive(Clone, Default)]
pub struct AttemptLogger(Option<Arc<dyn AttemptLog>>);

impl AttemptLogger {
    pub fn new(log: Arc<dyn AttemptLog>) -> Self {
        Self(Some(log))
    }

    pub(crate) fn attempted(&self, line: &AttemptLine<'_>) {
        if let Some(log) = &self.0 {
            log.attempted(line);
        }
    }
}

impl fmt::Debug for AttemptLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "AttemptLogger(on)" } else { "AttemptLogger(off)" })
    }
}
