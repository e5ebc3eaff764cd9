//! What is to be told.

use super::{MemoryStore, Tables};
use crate::{OperationalEvents, StoreError, UntoldNote};
use async_trait::async_trait;
use domain::{
    delivery::Delivery,
    id::{AccountId, DestinationId, EventId},
    operations::{DeadLetterCount, DeadLetterMinute, OperationalNote},
    outcome::DeadReason,
    time::Timestamp,
};
use std::{collections::BTreeMap, time::Duration};

/// By minute and destination, then by reason and status.
pub(super) type DeadLetterMinutes =
    BTreeMap<(Timestamp, DestinationId), (AccountId, BTreeMap<(&'static str, Option<u16>), u64>)>;

#[async_trait]
impl OperationalEvents for MemoryStore {
    async fn set_operations_account(&self, account: Option<AccountId>) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.told_accounts.extend(account);
        tables.operations_account = account;
        Ok(())
    }

    async fn note_operational(&self, note: &OperationalNote) -> Result<(), StoreError> {
        self.interrupted("note_operational")?;
        self.tables().note_operational(note);
        self.note_signal.notify();
        Ok(())
    }

    async fn sum_up_dead_letters(
        &self,
        before: Timestamp,
        limit: usize,
        chance: u128,
    ) -> Result<usize, StoreError> {
        let mut tables = self.tables();
        let over: Vec<_> =
            tables.dead_letter_minutes.keys().take_while(|key| key.0 < before).take(limit).copied().collect();
        for key in &over {
            let (account_id, counts) = tables.dead_letter_minutes.remove(key).expect("found above");
            let count = |((reason, http_status), count): ((&str, _), _)| DeadLetterCount {
                reason: reason.into(),
                http_status,
                count,
            };
            let letters = DeadLetterMinute {
                account_id,
                destination_id: key.1,
                minute: key.0,
                counts: counts.into_iter().map(count).collect(),
            };
            tables.note_operational(&OperationalNote::of_dead_letters(&letters, chance));
        }
        Ok(over.len())
    }

    async fn untold(&self, passed_over: &[AccountId], limit: usize) -> Result<Vec<UntoldNote>, StoreError> {
        let tables = self.tables();
        let notes = tables.operational_notes.iter().filter(|((_, told), _)| !passed_over.contains(told));
        Ok(notes
            .take(limit)
            .map(|((_, told), note)| UntoldNote { told: *told, note: note.clone() })
            .collect())
    }

    async fn forget_note(&self, told: AccountId, id: EventId) -> Result<(), StoreError> {
        self.tables().operational_notes.remove(&(id, told));
        Ok(())
    }

    async fn prune_notes(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let mut tables = self.tables();
        let old = tables.operational_notes.range(..(EventId::at(before, 0), AccountId::MIN));
        let old: Vec<_> = old.take(limit).map(|(key, _)| *key).collect();
        old.iter().for_each(|key| drop(tables.operational_notes.remove(key)));
        Ok(old.len())
    }

    async fn note_written(&self) {
        self.note_signal.notified().await;
    }
}

impl Tables {
    /// For every account that is told.
    pub(super) fn note_operational(&mut self, note: &OperationalNote) {
        let own = self.told_accounts.get(&note.account_id).copied();
        for told in own.into_iter().chain(self.operations_account) {
            self.operational_notes.entry((note.id, told)).or_insert_with(|| note.clone());
        }
    }

    /// A dead letter of an account that is told of it. A delivery of an operational event makes none.
    pub(super) fn count_dead_letter(&mut self, delivery: &Delivery, reason: DeadReason, at: Timestamp) {
        let told = self.operations_account.is_some() || self.told_accounts.contains(&delivery.account_id);
        if !told || delivery.event_id.is_operational() {
            return;
        }
        let minute = at.floor(Duration::from_secs(60));
        let key = (minute, delivery.destination_id);
        let counts = self.dead_letter_minutes.entry(key).or_insert((delivery.account_id, BTreeMap::new()));
        *counts.1.entry((reason.as_str(), delivery.last_http_status)).or_default() += 1;
    }
}
