//! A test of a destination whose lane is another node's: asked for by a row, which is looked at until it has an answer.

use super::{TestSend, no_worker};
use crate::handle::EngineHandle;
use domain::{id::DeliveryId, limits};
use std::sync::Arc;
use store::{AskedTest, Store, StoreError, TestAnswer, TestProgress};
use tokio::time::{Instant, sleep};

impl EngineHandle {
    pub(super) async fn test_elsewhere(
        &self,
        id: DeliveryId,
        test: &TestSend,
    ) -> Result<TestAnswer, StoreError> {
        let (store, now) = (&self.sender.store, self.sender.clock.now());
        let row = AskedTest {
            id,
            destination_id: test.destination_id,
            account_id: test.event.account_id,
            event_id: test.event.id,
            event_type: test.event.event_type.clone(),
            payload: String::from_utf8_lossy(&test.event.payload).into_owned(),
            received_at: test.event.received_at,
            forced: test.forced,
        };
        // Before it is written: whoever asked may go away meanwhile.
        let _forgotten = ForgottenTest { id, store: Arc::clone(store) };
        store.ask_test(&row, now).await?;
        let begun = Instant::now();
        loop {
            sleep(limits::TESTS_LOOK).await;
            let progress = store.tests(&[id]).await?.pop().flatten();
            let waited = begun.elapsed();
            match progress {
                Some(TestProgress::Answered(answer)) => return Ok(answer),
                Some(TestProgress::Asked) if waited > limits::TEST_SLOT_WAIT => {
                    return Ok(TestAnswer::Waits(no_worker(now)));
                }
                Some(_) if waited < limits::TEST_TAKES => {}
                _ => return Ok(TestAnswer::Abandoned),
            }
        }
    }
}

/// The row goes with whoever waits for it: by that the owner knows.
struct ForgottenTest {
    id: DeliveryId,
    store: Arc<dyn Store>,
}

impl Drop for ForgottenTest {
    fn drop(&mut self) {
        let (id, store) = (self.id, Arc::clone(&self.store));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            if let Err(error) = store.forget_test(id).await {
                tracing::debug!(%error, "a test could not be forgotten; it will be in a minute");
            }
        });
    }
}
