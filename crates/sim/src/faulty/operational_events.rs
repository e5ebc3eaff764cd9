//! What is to be told: no world has a teller, so that it is passed on without trouble and nothing is drawn for it.

use super::FaultyStore;
use async_trait::async_trait;
use domain::{
    id::{AccountId, EventId},
    operations::OperationalNote,
    time::Timestamp,
};
use store::{OperationalEvents, StoreError, UntoldNote};

#[async_trait]
impl OperationalEvents for FaultyStore {
    async fn set_operations_account(&self, account: Option<AccountId>) -> Result<(), StoreError> {
        self.inner.set_operations_account(account).await
    }

    async fn note_operational(&self, note: &OperationalNote) -> Result<(), StoreError> {
        self.inner.note_operational(note).await
    }

    async fn sum_up_dead_letters(
        &self,
        before: Timestamp,
        limit: usize,
        chance: u128,
    ) -> Result<usize, StoreError> {
        self.inner.sum_up_dead_letters(before, limit, chance).await
    }

    async fn untold(&self, passed_over: &[AccountId], limit: usize) -> Result<Vec<UntoldNote>, StoreError> {
        self.inner.untold(passed_over, limit).await
    }

    async fn forget_note(&self, told: AccountId, id: EventId) -> Result<(), StoreError> {
        self.inner.forget_note(told, id).await
    }

    async fn prune_notes(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        self.inner.prune_notes(before, limit).await
    }

    async fn note_written(&self) {
        self.inner.note_written().await;
    }
}
