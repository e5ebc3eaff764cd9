//! Where an event is matched with its account's routes: in the task of its request, unless that could take long.
//!
//! A filter may look at every element of a large payload, and an account may have a hundred thousand of them. Such work
//! gets threads of its own, a few, so that it can neither keep the runtime from its other tasks nor take all the cores:
//! leases are renewed and others are answered while it runs. Whoever finds them all busy for too long is turned away.

use crate::error::ApiError;
use domain::limits;
use std::sync::Arc;
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

/// The threads for matching that takes long.
#[derive(Clone)]
pub(crate) struct Matching(Arc<Semaphore>);

impl Default for Matching {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(limits::LONG_MATCHES)))
    }
}

impl Matching {
    /// Runs `matching`, here if it looks at little: `routes` routes, at a payload of so many bytes.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        routes: usize,
        payload: usize,
        matching: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        // A route costs something even if it looks at nothing of the payload.
        if routes.saturating_mul(payload + 256) <= limits::MATCH_INLINE_BYTES {
            return Ok(matching());
        }
        let free = timeout(limits::MATCH_PATIENCE, self.0.clone().acquire_owned()).await;
        let Ok(Ok(thread)) = free else {
            return Err(ApiError::overloaded(
                "too many events with large payloads or many routes are being matched: send it again in a moment",
            ));
        };
        let matched = spawn_blocking(move || {
            let matched = matching();
            drop(thread);
            matched
        });
        matched.await.map_err(ApiError::from_bug)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use std::sync::mpsc;

    const LONG: usize = limits::MATCH_INLINE_BYTES;

    #[tokio::test]
    async fn long_matching_leaves_the_runtime_alone() {
        // One thread runs everything but the matching: that this test goes on at all is the proof.
        let matching = Matching::default();
        let (go, wait) = mpsc::channel();
        let long = tokio::spawn({
            let matching = matching.clone();
            async move { matching.run(1, LONG, move || wait.recv()).await.unwrap() }
        });
        assert_eq!(matching.run(10, 1_000, || 7).await.ok(), Some(7), "short work goes on");
        go.send(8).unwrap();
        assert_eq!(long.await.unwrap(), Ok(8));
    }

    #[tokio::test(start_paused = true)]
    async fn who_finds_every_thread_busy_is_turned_away() {
        let matching = Matching::default();
        let all = matching.0.clone().acquire_many_owned(limits::LONG_MATCHES as u32).await.unwrap();
        let refused = matching.run(1, LONG, || ()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Overloaded);
        drop(all);
        assert!(matching.run(1, LONG, || ()).await.is_ok());
    }

    #[tokio::test]
    async fn a_panic_in_matching_gives_its_thread_back() {
        let matching = Matching::default();
        for _ in 0..limits::LONG_MATCHES {
            let broken = matching.run(1, LONG, || panic!("a filter")).await;
            let broken: Result<(), _> = broken;
            assert_eq!(broken.unwrap_err().code(), Code::Internal);
        }
        assert!(matching.run(1, LONG, || ()).await.is_ok());
    }
}
