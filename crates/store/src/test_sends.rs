//! Tests of destinations that are asked for on one node and made by another, which owns the lane. A row is there as long as
//! somebody waits for the answer. A node that is alone does not write any.

use crate::StoreError;
use async_trait::async_trait;
use domain::{
    attempt::Attempt,
    event::EventType,
    id::{AccountId, DeliveryId, DestinationId, EventId},
    lane::WaitingFor,
    time::Timestamp,
};
use serde::{Deserialize, Serialize};

#[async_trait]
pub trait TestSends: Send + Sync {
    /// Asks for a test. Whoever asks forgets it too, however it ends.
    async fn ask_test(&self, test: &AskedTest, now: Timestamp) -> Result<(), StoreError>;

    /// Takes tests that were asked for in these shards, the oldest first. Each is taken once.
    async fn take_tests(&self, shards: &[u16], limit: usize) -> Result<Vec<AskedTest>, StoreError>;

    /// Says how a test ended. One that was forgotten stays so.
    async fn answer_test(&self, id: DeliveryId, answer: &TestAnswer) -> Result<(), StoreError>;

    /// How far tests are, in the order asked for; None where one was forgotten.
    async fn tests(&self, ids: &[DeliveryId]) -> Result<Vec<Option<TestProgress>>, StoreError>;

    async fn forget_test(&self, id: DeliveryId) -> Result<(), StoreError>;

    /// Forgets what was asked for before: whoever waited for it is gone.
    async fn forget_tests_before(&self, before: Timestamp) -> Result<(), StoreError>;
}

/// A test as it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AskedTest {
    /// The delivery as which it is shown; there is no other trace of one.
    pub id: DeliveryId,
    pub destination_id: DestinationId,
    pub account_id: AccountId,
    pub event_id: EventId,
    pub event_type: EventType,
    /// JSON, as the API made it.
    pub payload: String,
    pub received_at: Timestamp,
    /// Asks for a slot alone, whatever else holds the lane.
    pub forced: bool,
}

/// What came of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum TestAnswer {
    Attempted(Box<Attempt>),
    /// It was not sent, for want of this.
    Waits(WaitingFor),
    /// Given up: nothing is known of it.
    Abandoned,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TestProgress {
    Asked,
    Taken,
    Answered(TestAnswer),
}

impl TestProgress {
    /// From what is kept. A newer version's words are none.
    pub(crate) fn read(taken: bool, answer: Option<&str>) -> Self {
        match answer {
            Some(text) => Self::Answered(serde_json::from_str(text).unwrap_or(TestAnswer::Abandoned)),
            None if taken => Self::Taken,
            None => Self::Asked,
        }
    }
}

pub(crate) fn text(what: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(what).map_err(|error| StoreError::Refused(error.into()))
}
