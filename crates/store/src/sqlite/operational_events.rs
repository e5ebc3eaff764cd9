//! What is to be told: notes, and dead letters that are not summed up yet.

use super::{
    SqliteStore,
    statement::{bound, sql},
    trouble::Trouble,
    writer::Priority,
};
use crate::{
    OperationalEvents, StoreError, UntoldNote,
    operational_events::{data_of, data_text},
};
use async_trait::async_trait;
use domain::{
    destination::Destination,
    id::{AccountId, DestinationId, EventId},
    operations::{DeadLetterCount, DeadLetterMinute, OperationalKind, OperationalNote},
    time::Timestamp,
};
use rusqlite::Connection;
use std::collections::BTreeMap;

const NOTE_OPERATIONAL: &str = sql!("note_operational");
const NOTE_DISABLED: &str = sql!("note_disabled");
const UNTOLD: &str = sql!("untold");
const DEAD_LETTER_MINUTES: &str = sql!("dead_letter_minutes");

#[async_trait]
impl OperationalEvents for SqliteStore {
    async fn set_operations_account(&self, account: Option<AccountId>) -> Result<(), StoreError> {
        self.write(Priority::Api, move |connection| {
            bound!("update told_accounts set whole_installation = 0 where whole_installation")
                .execute(connection)?;
            let Some(account) = account else { return Ok(()) };
            bound!(
                "insert into told_accounts (account_id, whole_installation) values (:account_id, 1) \
                 on conflict (account_id) do update set whole_installation = 1",
                account_id: account,
            )
            .execute(connection)?;
            Ok(())
        })
        .await
    }

    async fn note_operational(&self, given: &OperationalNote) -> Result<(), StoreError> {
        let given = given.clone();
        self.write(Priority::Api, move |connection| note(connection, &given)).await?;
        self.note_signal.notify();
        Ok(())
    }

    async fn sum_up_dead_letters(
        &self,
        before: Timestamp,
        limit: usize,
        chance: u128,
    ) -> Result<usize, StoreError> {
        // Usually there is none, and nothing to write.
        let any = self
            .read(move |connection| {
                let any = bound!("select 1 from dead_letter_minutes where minute < :before", before: before);
                Ok(any.exists(connection)?)
            })
            .await?;
        if !any {
            return Ok(0);
        }
        self.write(Priority::Bulk, move |connection| sum_up(connection, before, limit, chance)).await
    }

    async fn untold(&self, passed_over: &[AccountId], limit: usize) -> Result<Vec<UntoldNote>, StoreError> {
        let hex = |id: &AccountId| id.uuid().simple().to_string();
        let passed_over: Vec<String> = passed_over.iter().map(hex).collect();
        let passed_over = serde_json::to_string(&passed_over).expect("texts are always JSON");
        self.read(move |connection| {
            let notes =
                bound!(UNTOLD, passed_over: passed_over, limit: limit).all(connection, |columns| {
                    let (id, told, account_id) = (columns.id()?, columns.id()?, columns.id()?);
                    let (destination_id, kind) = (columns.optional_id()?, columns.text()?);
                    let data = data_of(columns.text()?);
                    // A newer version's words are none.
                    let note = kind.parse().ok().map(|kind: OperationalKind| OperationalNote {
                        id,
                        kind,
                        account_id,
                        destination_id,
                        data,
                    });
                    Ok(note.map(|note| UntoldNote { told, note }))
                })?;
            Ok(notes.into_iter().flatten().collect())
        })
        .await
    }

    async fn forget_note(&self, told: AccountId, id: EventId) -> Result<(), StoreError> {
        self.write(Priority::Api, move |connection| {
            bound!("delete from operational_notes where id = :id and account_id = :told", id: id, told: told)
                .execute(connection)?;
            Ok(())
        })
        .await
    }

    async fn prune_notes(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let before = EventId::at(before, 0);
        self.write(Priority::Bulk, move |connection| {
            Ok(bound!(
                "delete from operational_notes where (id, account_id) in \
                 (select id, account_id from operational_notes where id < :before order by id limit :limit)",
                before: before,
                limit: limit,
            )
            .execute(connection)?)
        })
        .await
    }

    async fn note_written(&self) {
        self.note_signal.notified().await;
    }
}

/// For every account that is told; written twice it is one.
pub(super) fn note(connection: &Connection, note: &OperationalNote) -> Result<(), Trouble> {
    bound!(
        NOTE_OPERATIONAL,
        id: note.id,
        about_account_id: note.account_id,
        destination_id: note.destination_id,
        kind: note.kind.as_str(),
        data: data_text(note),
    )
    .execute(connection)?;
    Ok(())
}

/// Before a destination is written that is, or becomes, disabled.
pub(super) fn note_disabled(connection: &Connection, changed: &Destination) -> rusqlite::Result<()> {
    let Some(disabled) = &changed.switch.disabled else { return Ok(()) };
    let note =
        OperationalNote::of_disabled(changed.account_id, changed.id, disabled.reason.as_str(), disabled.at);
    bound!(
        NOTE_DISABLED,
        note_id: note.id,
        kind: note.kind.as_str(),
        data: data_text(&note),
        destination_id: changed.id,
    )
    .execute(connection)?;
    Ok(())
}

/// The account has a route for operational events.
pub(super) fn is_told(connection: &Connection, account: AccountId) -> rusqlite::Result<()> {
    bound!(
        "insert into told_accounts (account_id) values (:account_id) on conflict do nothing",
        account_id: account,
    )
    .execute(connection)?;
    Ok(())
}

fn sum_up(connection: &Connection, before: Timestamp, limit: usize, chance: u128) -> Result<usize, Trouble> {
    let rows = bound!(DEAD_LETTER_MINUTES, before: before, limit: limit).all(connection, |columns| {
        let (account, destination) = (columns.id::<AccountId>()?, columns.id::<DestinationId>()?);
        let (minute, reason) = (columns.time()?, columns.get()?);
        let http_status = Some(columns.get::<u16>()?).filter(|status| *status > 0);
        Ok((account, destination, minute, DeadLetterCount { reason, http_status, count: columns.count()? }))
    })?;
    let mut minutes: BTreeMap<(Timestamp, DestinationId), DeadLetterMinute> = BTreeMap::new();
    for (account_id, destination_id, minute, count) in rows {
        let empty = DeadLetterMinute { account_id, destination_id, minute, counts: Vec::new() };
        minutes.entry((minute, destination_id)).or_insert(empty).counts.push(count);
    }
    for ((minute, destination), letters) in &minutes {
        note(connection, &OperationalNote::of_dead_letters(letters, chance))?;
        bound!(
            "delete from dead_letter_minutes where minute = :minute and destination_id = :destination_id",
            minute: *minute,
            destination_id: *destination,
        )
        .execute(connection)?;
    }
    Ok(minutes.len())
}
