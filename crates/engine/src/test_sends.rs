//! Tests of a destination: one request that somebody waits for, without a trace in the store.
//!
//! It takes a slot of the destination's lane, so the node that owns the lane makes it. Here that is a message to the
//! dispatcher; of another node it is asked for by a row in the store (`elsewhere`), which that node takes (`taker`). It ends
//! when whoever asked goes away: the answer's receiver is dropped, or the row is gone.

mod elsewhere;
mod taker;

pub(crate) use taker::TestTaker;

use crate::{dispatcher::Message, handle::EngineHandle, sender::AttemptEnd};
use domain::{
    attempt::Attempt,
    delivery::{Delivery, Position},
    event::Event,
    id::{DeliveryId, DestinationId, RouteId},
    lane::{WaitKind, WaitingFor},
    limits,
    time::Timestamp,
};
use std::sync::Arc;
use store::{Fact, StoreError, TestAnswer};
use tokio::{sync::oneshot, time::timeout};

/// What is to be sent, and where.
#[derive(Debug, Clone)]
pub struct TestSend {
    pub destination_id: DestinationId,
    pub event: Arc<Event>,
    /// Asks for a slot alone: rate, gate, pause and disabling do not count.
    pub forced: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum TestSendError {
    #[error("it was not sent: {}", .0.detail)]
    Waits(WaitingFor),
    #[error("the attempt was given up")]
    Abandoned,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A test on its way through the dispatcher.
#[derive(Debug)]
pub(crate) struct AskedTest {
    /// In the form of a delivery, of which there is no row.
    pub(crate) delivery: Delivery,
    pub(crate) event: Arc<Event>,
    pub(crate) forced: bool,
    /// How long it may wait for its slot.
    pub(crate) wait_until: Timestamp,
    /// Closed when whoever asked has gone.
    pub(crate) answer: oneshot::Sender<TestEnd>,
}

#[derive(Debug)]
pub(crate) enum TestEnd {
    Answered(TestAnswer),
    /// The lane is not this node's; nothing was sent.
    Elsewhere,
}

impl AskedTest {
    pub(crate) fn new(id: DeliveryId, test: &TestSend, now: Timestamp) -> (Self, oneshot::Receiver<TestEnd>) {
        let (answer, answered) = oneshot::channel();
        let place = Position::due(now, id);
        let delivery = Delivery::new(id, &test.event, test.destination_id, RouteId::MIN, place, now);
        let wait_until = now.plus(limits::TEST_SLOT_WAIT);
        let event = Arc::clone(&test.event);
        (Self { delivery, event, forced: test.forced, wait_until, answer }, answered)
    }

    pub(crate) fn end(self, end: TestEnd) {
        // Nobody waits any more.
        let _ = self.answer.send(end);
    }
}

impl TestEnd {
    pub(crate) fn waits(waiting_for: WaitingFor) -> Self {
        Self::Answered(TestAnswer::Waits(waiting_for))
    }

    /// Of what is otherwise settled, the attempt alone.
    pub(crate) fn of(sent: Option<AttemptEnd>) -> Self {
        Self::Answered(match sent {
            Some(AttemptEnd::Attempted { settlement, .. }) => match settlement.fact {
                Fact::Attempted(attempt) => TestAnswer::Attempted(attempt),
                Fact::EndedWithout { .. } => TestAnswer::Abandoned,
            },
            Some(AttemptEnd::Abandoned(_)) | None => TestAnswer::Abandoned,
        })
    }
}

impl EngineHandle {
    /// One attempt at a destination, in a slot of its lane, wherever that runs. Dropping the future ends it.
    pub async fn test_send(&self, test: TestSend) -> Result<Attempt, TestSendError> {
        let now = self.sender.clock.now();
        let id = DeliveryId::at(now, self.sender.dice.bits());
        let (asked, answered) = AskedTest::new(id, &test, now);
        self.tell(Message::Test(Box::new(asked))).await;
        let answer = match timeout(limits::TEST_TAKES, answered).await {
            Ok(Ok(TestEnd::Answered(answer))) => answer,
            // Given back unsent, or dropped with a lane that went to another node.
            Ok(Ok(TestEnd::Elsewhere) | Err(_)) => self.test_elsewhere(id, &test).await?,
            Err(_) => TestAnswer::Abandoned,
        };
        match answer {
            TestAnswer::Attempted(attempt) => Ok(*attempt),
            TestAnswer::Waits(waiting_for) => Err(TestSendError::Waits(waiting_for)),
            TestAnswer::Abandoned => Err(TestSendError::Abandoned),
        }
    }
}

fn no_worker(since: Timestamp) -> WaitingFor {
    let detail = "no worker runs its destination's lane at the moment".into();
    WaitingFor { kind: WaitKind::NoWorker, since, until: None, behind: None, detail }
}
