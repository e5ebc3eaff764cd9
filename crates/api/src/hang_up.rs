//! Whether a client has hung up while its request is being answered, for the few requests that end then.
//!
//! Usually nobody looks: a client may close its side when it has asked, and still hear the answer. So what a handler
//! watches for here is that it has nothing more to say, which is also how one looks that has gone.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio_util::sync::CancellationToken;

/// Of one connection; with every request, where there is a connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct HangUp(Arc<Watched>);

#[derive(Debug, Default)]
struct Watched {
    is_wanted: AtomicBool,
    happened: CancellationToken,
}

impl HangUp {
    /// None if the client hangs up before it has come to its end.
    pub(crate) async fn run_until<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.0.is_wanted.store(true, Ordering::Relaxed);
        let done = self.0.happened.run_until_cancelled(work).await;
        self.0.is_wanted.store(false, Ordering::Relaxed);
        done
    }

    /// Whether the connection is to look for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_wanted.load(Ordering::Relaxed)
    }

    pub(crate) fn happened(&self) {
        self.0.happened.cancel();
    }
}
