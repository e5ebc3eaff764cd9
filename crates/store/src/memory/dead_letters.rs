//! Dead letters that are settled.

use super::{EndedDelivery, MemoryStore, Tables};
use crate::{
    DeadLetterGroup, DeadLetters, Dismissal, GroupFilter, GroupKey, Resolution, ResolvedBy, StoreError,
    dead_letters::day_of,
};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    delivery::{Delivery, Ending},
    id::AccountId,
    time::Timestamp,
};
use std::collections::BTreeMap;

#[async_trait]
impl DeadLetters for MemoryStore {
    async fn dismiss(&self, dismissal: &Dismissal, audit: &AuditEntry) -> Result<u32, StoreError> {
        let mut tables = self.tables();
        let Dismissal { account_id, delivery_ids, key_id, note, at } = dismissal;
        let mut count = 0;
        for id in delivery_ids {
            let is_dead = |ended: &EndedDelivery| {
                ended.delivery.account_id == *account_id && matches!(ended.ending, Ending::DeadLetter(_))
            };
            if tables.ended.get(id).is_some_and(is_dead) && !tables.settled.contains_key(id) {
                let by = ResolvedBy::Dismissal { key_id: *key_id, note: note.clone() };
                tables.settled.insert(*id, Resolution { at: *at, by });
                count += 1;
            }
        }
        if count > 0 {
            tables.append(Some(*account_id), &AuditEntry { count: Some(count), ..audit.clone() });
        }
        Ok(count)
    }

    async fn dead_letter_groups(
        &self,
        account: AccountId,
        filter: GroupFilter,
        after: Option<GroupKey>,
        limit: usize,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        let tables = self.tables();
        let mut groups = BTreeMap::<_, DeadLetterGroup>::new();
        let open = tables.ended.values().filter(|ended| {
            let Delivery { id, account_id, destination_id, .. } = ended.delivery;
            account_id == account
                && !tables.settled.contains_key(&id)
                && filter.destination_id.is_none_or(|wanted| wanted == destination_id)
                && day_of(id.made_at()) >= filter.first_day()
        });
        for ended in open {
            let Ending::DeadLetter(reason) = ended.ending else { continue };
            let Delivery { id, destination_id, last_http_status: http_status, .. } = ended.delivery;
            let key = GroupKey { destination_id, reason, http_status, outcome: ended.delivery.last_outcome };
            let first = DeadLetterGroup { key, count: 0, oldest: id, newest: id };
            let group = groups.entry(key.sorts()).or_insert(first);
            (group.count, group.newest) = (group.count + 1, id);
        }
        let behind = |group: &DeadLetterGroup| after.is_none_or(|after| group.key.sorts() > after.sorts());
        Ok(groups.into_values().filter(behind).take(limit).collect())
    }
}

impl Tables {
    /// What the end of a delivery means to the dead letters of its chain. Only replays have one.
    pub(super) fn resolve(&mut self, delivery: &Delivery, ending: Ending, at: Timestamp) {
        let Delivery { id, origin, created_at, .. } = *delivery;
        if delivery.replay_id.is_none() || origin == id {
            return;
        }
        let chain = || self.ended.values().filter(|ended| ended.delivery.origin == origin);
        match ending {
            Ending::Delivered => {
                let dead = chain().filter(|ended| matches!(ended.ending, Ending::DeadLetter(_)));
                // Of several that were delivered, the first; of which the store may hear last.
                let open = |ended: &&EndedDelivery| match self.settled.get(&ended.delivery.id) {
                    Some(Resolution { at: known, by: ResolvedBy::Delivery(by) }) => (at, id) < (*known, *by),
                    Some(_) | None => true,
                };
                let dead: Vec<_> = dead.filter(open).map(|ended| ended.delivery.id).collect();
                let resolution = Resolution { at, by: ResolvedBy::Delivery(id) };
                self.settled.extend(dead.into_iter().map(|dead| (dead, resolution.clone())));
            }
            Ending::DeadLetter(_) => {
                let delivered = chain().filter(|ended| {
                    let replay = ended.delivery.replay_id.is_some() && ended.delivery.id != origin;
                    replay && ended.ending == Ending::Delivered && ended.at >= created_at
                });
                let first = delivered.min_by_key(|ended| (ended.at, ended.delivery.id));
                let resolution =
                    first.map(|by| Resolution { at: by.at, by: ResolvedBy::Delivery(by.delivery.id) });
                self.settled.extend(resolution.map(|resolution| (id, resolution)));
            }
            Ending::Cancelled(_) => {}
        }
    }
}
