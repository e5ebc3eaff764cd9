//! Takes the tests that other nodes ask for of lanes of this one, and ends those that nobody waits for any more. A node that
//! is alone has nothing to take.

use super::{AskedTest, TestEnd, TestSend, no_worker};
use crate::{dispatcher::Message, ownership_view::OwnershipView};
use domain::{event::Event, id::DeliveryId, limits, time::Clock};
use std::{collections::HashMap, sync::Arc};
use store::{Store, StoreError, TestAnswer};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::task::AbortOnDropHandle;

#[derive(Clone)]
pub(crate) struct TestTaker {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ownership_view: Arc<OwnershipView>,
    pub(crate) dispatcher: mpsc::Sender<Message>,
}

impl TestTaker {
    /// Takes for ever.
    pub(crate) async fn run(self) {
        // With a task that is aborted its test ends.
        let mut in_hand: HashMap<DeliveryId, AbortOnDropHandle<()>> = HashMap::new();
        let mut forget_at = Instant::now();
        // What was asked for before this node was alone is still waited for.
        let mut look_until = Instant::now() + limits::TEST_TAKES;
        loop {
            sleep(limits::TESTS_LOOK).await;
            supervisor::failpoint();
            in_hand.retain(|_, test| !test.is_finished());
            if !self.ownership_view.is_alone() {
                look_until = Instant::now() + limits::TEST_TAKES;
            } else if look_until < Instant::now() && in_hand.is_empty() {
                continue;
            }
            if let Err(error) = self.look(&mut in_hand).await {
                tracing::debug!(%error, "tests could not be looked for");
            }
            if forget_at <= Instant::now() {
                forget_at = Instant::now() + limits::TESTS_KEPT;
                let before = self.clock.now().minus(limits::TESTS_KEPT);
                if let Err(error) = self.store.forget_tests_before(before).await {
                    tracing::debug!(%error, "old tests could not be forgotten");
                }
            }
        }
    }

    async fn look(&self, in_hand: &mut HashMap<DeliveryId, AbortOnDropHandle<()>>) -> Result<(), StoreError> {
        if !in_hand.is_empty() {
            let ids: Vec<DeliveryId> = in_hand.keys().copied().collect();
            for (id, progress) in ids.iter().zip(self.store.tests(&ids).await?) {
                if progress.is_none() {
                    in_hand.remove(id);
                }
            }
        }
        let (owned, room) = (self.ownership_view.owned(), limits::TESTS_PER_NODE - in_hand.len());
        if owned.is_empty() || room == 0 {
            return Ok(());
        }
        for test in self.store.take_tests(&owned, room).await? {
            let taker = self.clone();
            in_hand
                .insert(test.id, AbortOnDropHandle::new(tokio::spawn(async move { taker.make(test).await })));
        }
        Ok(())
    }

    /// Has the dispatcher make it, and writes down how it went.
    async fn make(self, asked: store::AskedTest) {
        let now = self.clock.now();
        let store::AskedTest { id, destination_id, account_id, event_id, event_type, forced, .. } = asked;
        let event = Event::new(event_id, account_id, event_type, asked.payload.into(), asked.received_at);
        let (test, answered) =
            AskedTest::new(id, &TestSend { destination_id, event: Arc::new(event), forced }, now);
        let _ = self.dispatcher.send(Message::Test(Box::new(test))).await;
        let answer = match answered.await {
            Ok(TestEnd::Answered(answer)) => answer,
            // The lane has just gone to another node: whoever asked may ask again.
            Ok(TestEnd::Elsewhere) | Err(_) => TestAnswer::Waits(no_worker(now)),
        };
        if let Err(error) = self.store.answer_test(id, &answer).await {
            tracing::debug!(%error, "a test could not be answered");
        }
    }
}
