//! Dead letters that are settled. Those that are not are counted as they come and go, by the day.

use super::{
    SqliteStore, Trouble, audit_log,
    statement::{bound, sql},
    writer::Priority,
};
use crate::{DeadLetterGroup, DeadLetters, Dismissal, GroupFilter, GroupKey, StoreError};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    delivery::{Delivery, Ending},
    id::{AccountId, DestinationId},
    outcome::{DeadReason, Outcome},
    time::Timestamp,
};
use rusqlite::Connection;
use std::ops::ControlFlow;

pub(super) const DEAD_LETTER_GROUPS: &str = sql!("dead_letter_groups");
const DISMISS: &str = sql!("dismiss");
pub(super) const RESOLVE_CHAIN: &str = sql!("resolve_chain");
pub(super) const RESOLVE_LATE: &str = sql!("resolve_late");

#[async_trait]
impl DeadLetters for SqliteStore {
    async fn dismiss(&self, dismissal: &Dismissal, audit: &AuditEntry) -> Result<u32, StoreError> {
        let (dismissal, audit) = (dismissal.clone(), audit.clone());
        self.write(Priority::Api, move |connection| dismiss(connection, &dismissal, &audit)).await
    }

    async fn dead_letter_groups(
        &self,
        account: AccountId,
        filter: GroupFilter,
        after: Option<GroupKey>,
        limit: usize,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        self.read(move |connection| groups(connection, account, filter, after, limit)).await
    }
}

fn dismiss(connection: &Connection, dismissal: &Dismissal, audit: &AuditEntry) -> Result<u32, Trouble> {
    let Dismissal { account_id, delivery_ids, key_id, note, at } = dismissal;
    let mut count = 0;
    for id in delivery_ids {
        count += bound!(
            DISMISS,
            delivery_id: id,
            account_id: account_id,
            resolved_at: at,
            dismissed_by: key_id,
            note: note,
        )
        .execute(connection)? as u32;
    }
    if count > 0 {
        let audit = AuditEntry { count: Some(count), ..audit.clone() };
        audit_log::append(connection, Some(*account_id), &audit)?;
    }
    Ok(count)
}

fn groups(
    connection: &Connection,
    account: AccountId,
    filter: GroupFilter,
    after: Option<GroupKey>,
    limit: usize,
) -> Result<Vec<DeadLetterGroup>, Trouble> {
    let first = (DestinationId::MIN, "", 0, "");
    let (destination, reason, http_status, outcome) = after.map_or(first, |key| key.sorts());
    let mut groups = Vec::new();
    bound!(
        DEAD_LETTER_GROUPS,
        account_id: account,
        after_destination_id: destination,
        after_reason: reason,
        after_http_status: http_status,
        after_outcome: outcome,
        destination_id: filter.destination_id,
        from_day: filter.first_day(),
        limit: limit,
    )
    .each(connection, |columns| {
        let (destination_id, reason) = (columns.id()?, columns.text()?.parse::<DeadReason>());
        let (http_status, outcome) = (columns.get()?, columns.optional_text()?);
        let outcome = outcome.and_then(|word| word.parse::<Outcome>().ok());
        let (count, oldest, newest) = (columns.count()?, columns.id()?, columns.id()?);
        // A reason of a newer version has no name here.
        if let Ok(reason) = reason {
            let key = GroupKey { destination_id, reason, http_status, outcome };
            groups.push(DeadLetterGroup { key, count, oldest, newest });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(groups)
}

/// What the end of a delivery means to the dead letters of its chain, in the transaction that writes it. Only replays have
/// one.
pub(super) fn resolve(
    connection: &Connection,
    delivery: &Delivery,
    ending: Ending,
    ended_at: Timestamp,
) -> Result<(), Trouble> {
    let Delivery { id, event_id, origin, created_at, .. } = *delivery;
    if delivery.replay_id.is_none() || origin == id {
        return Ok(());
    }
    match ending {
        Ending::Delivered => bound!(
            RESOLVE_CHAIN,
            event_id: event_id,
            origin: origin,
            resolved_at: ended_at,
            delivered_by: id,
        )
        .execute(connection)?,
        Ending::DeadLetter(_) => {
            bound!(RESOLVE_LATE, delivery_id: id, event_id: event_id, origin: origin, created_at: created_at)
                .execute(connection)?
        }
        Ending::Cancelled(_) => 0,
    };
    Ok(())
}
