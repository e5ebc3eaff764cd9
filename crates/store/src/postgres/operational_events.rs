//! What is to be told: notes, and dead letters that are not summed up yet.

use super::{
    PostgresStore,
    pool::Transaction,
    statement::{Params, Statement, params, sql},
    trouble::Trouble,
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
use std::{collections::BTreeMap, sync::LazyLock};
use uuid::Uuid;

static NOTE_OPERATIONAL: LazyLock<Statement> = sql!("note_operational");
static NOTE_DISABLED: LazyLock<Statement> = sql!("note_disabled");
static UNTOLD: LazyLock<Statement> = sql!("untold");
static DEAD_LETTER_MINUTES: LazyLock<Statement> = sql!("dead_letter_minutes");
static NO_OPERATOR: LazyLock<Statement> =
    sql!("no_operator": "update told_accounts set whole_installation = false where whole_installation");
static OPERATOR: LazyLock<Statement> = sql!("operator": "insert into told_accounts (account_id, whole_installation) values (:account_id, true) on conflict (account_id) do update set whole_installation = true");
static IS_TOLD: LazyLock<Statement> =
    sql!("is_told": "insert into told_accounts (account_id) values (:account_id) on conflict do nothing");
static FORGET_NOTE: LazyLock<Statement> =
    sql!("forget_note": "delete from operational_notes where id = :id and account_id = :account_id");
static PRUNE_NOTES: LazyLock<Statement> = sql!("prune_notes": "delete from operational_notes where (id, account_id) in (select id, account_id from operational_notes where id < :before order by id limit :limit) returning id");

#[async_trait]
impl OperationalEvents for PostgresStore {
    async fn set_operations_account(&self, account: Option<AccountId>) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let set = async {
            transaction.run(&NO_OPERATOR, params![]).await?;
            if let Some(account) = account {
                transaction.run(&OPERATOR, params![account_id: account.uuid() => UUID]).await?;
            }
            Ok::<(), Trouble>(())
        };
        let set = set.await;
        Ok(transaction.end(set).await?)
    }

    async fn note_operational(&self, note: &OperationalNote) -> Result<(), StoreError> {
        let notes = NoteColumns::of([note]);
        self.pools.general().await?.write(&NOTE_OPERATIONAL, notes.params()).await?;
        self.note_signal.notify();
        Ok(())
    }

    async fn sum_up_dead_letters(
        &self,
        before: Timestamp,
        limit: usize,
        chance: u128,
    ) -> Result<usize, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let summed = sum_up(&transaction, before, limit, chance).await;
        Ok(transaction.end(summed).await?)
    }

    async fn untold(&self, passed_over: &[AccountId], limit: usize) -> Result<Vec<UntoldNote>, StoreError> {
        let passed_over: Vec<Uuid> = passed_over.iter().map(|id| id.uuid()).collect();
        let params = params![passed_over: passed_over => UUID_ARRAY, limit: limit as i64 => INT8];
        let rows = self.pools.general().await?.read(&UNTOLD, params).await?;
        let notes = rows.all(|cells| {
            // A newer version's words are none.
            let Some(kind) = cells.known_word::<OperationalKind>("kind")? else { return Ok(None) };
            let note = OperationalNote {
                id: cells.get("id")?,
                kind,
                account_id: cells.get("about_account_id")?,
                destination_id: cells.get("destination_id")?,
                data: data_of(cells.get("data")?),
            };
            Ok(Some(UntoldNote { told: cells.get("account_id")?, note }))
        })?;
        Ok(notes.into_iter().flatten().collect())
    }

    async fn forget_note(&self, told: AccountId, id: EventId) -> Result<(), StoreError> {
        let params = params![id: id.uuid() => UUID, account_id: told.uuid() => UUID];
        self.pools.general().await?.write(&FORGET_NOTE, params).await?;
        Ok(())
    }

    async fn prune_notes(&self, before: Timestamp, limit: usize) -> Result<usize, StoreError> {
        let before = EventId::at(before, 0).uuid();
        let params = params![before: before => UUID, limit: limit as i64 => INT8];
        let pruned: Vec<Uuid> =
            self.pools.general().await?.write(&PRUNE_NOTES, params).await?.column("id")?;
        Ok(pruned.len())
    }

    async fn note_written(&self) {
        self.note_signal.notified().await;
    }
}

/// For every account that is told; written twice they are one.
pub(super) async fn note(
    transaction: &Transaction<'_>,
    notes: impl IntoIterator<Item = &OperationalNote>,
) -> Result<(), Trouble> {
    let notes = NoteColumns::of(notes);
    if !notes.id.is_empty() {
        transaction.run(&NOTE_OPERATIONAL, notes.params()).await?;
    }
    Ok(())
}

/// Before a destination is written that is, or becomes, disabled.
pub(super) async fn note_disabled(
    transaction: &Transaction<'_>,
    changed: &Destination,
) -> Result<(), Trouble> {
    let Some(disabled) = &changed.switch.disabled else { return Ok(()) };
    let note =
        OperationalNote::of_disabled(changed.account_id, changed.id, disabled.reason.as_str(), disabled.at);
    let data = data_text(&note);
    let params = params![
        note_id: note.id.uuid() => UUID, kind: note.kind.as_str() => TEXT, data: data => TEXT,
        destination_id: changed.id.uuid() => UUID,
    ];
    transaction.run(&NOTE_DISABLED, params).await?;
    Ok(())
}

/// The account has a route for operational events.
pub(super) async fn is_told(transaction: &Transaction<'_>, account: AccountId) -> Result<(), Trouble> {
    transaction.run(&IS_TOLD, params![account_id: account.uuid() => UUID]).await?;
    Ok(())
}

async fn sum_up(
    transaction: &Transaction<'_>,
    before: Timestamp,
    limit: usize,
    chance: u128,
) -> Result<usize, Trouble> {
    let params = params![before: before.micros() => INT8, limit: limit as i64 => INT8];
    let rows = transaction.run(&DEAD_LETTER_MINUTES, params).await?;
    let counts = rows.all(|cells| {
        let status: u16 = cells.get("http_status")?;
        let count = DeadLetterCount {
            reason: cells.get("reason")?,
            http_status: Some(status).filter(|status| *status > 0),
            count: cells.get("count")?,
        };
        let place: (Timestamp, DestinationId) = (cells.get("minute")?, cells.get("destination_id")?);
        Ok((place, cells.get::<AccountId>("account_id")?, count))
    })?;
    let mut minutes: BTreeMap<(Timestamp, DestinationId), DeadLetterMinute> = BTreeMap::new();
    for ((minute, destination_id), account_id, count) in counts {
        let empty = DeadLetterMinute { account_id, destination_id, minute, counts: Vec::new() };
        minutes.entry((minute, destination_id)).or_insert(empty).counts.push(count);
    }
    for letters in minutes.values_mut() {
        letters
            .counts
            .sort_by(|one, other| (&one.reason, one.http_status).cmp(&(&other.reason, other.http_status)));
    }
    let notes: Vec<OperationalNote> =
        minutes.values().map(|letters| OperationalNote::of_dead_letters(letters, chance)).collect();
    note(transaction, &notes).await?;
    Ok(notes.len())
}

/// Notes, by columns.
#[derive(Default)]
pub(super) struct NoteColumns {
    pub(super) id: Vec<Uuid>,
    pub(super) account_id: Vec<Uuid>,
    pub(super) destination_id: Vec<Option<Uuid>>,
    pub(super) kind: Vec<&'static str>,
    pub(super) data: Vec<String>,
}

impl NoteColumns {
    pub(super) fn of<'a>(notes: impl IntoIterator<Item = &'a OperationalNote>) -> Self {
        let mut columns = Self::default();
        for note in notes {
            columns.id.push(note.id.uuid());
            columns.account_id.push(note.account_id.uuid());
            columns.destination_id.push(note.destination_id.map(|id| id.uuid()));
            columns.kind.push(note.kind.as_str());
            columns.data.push(data_text(note));
        }
        columns
    }

    fn params(&self) -> Params<'_, '_> {
        params![
            note_id: self.id => UUID_ARRAY, note_account_id: self.account_id => UUID_ARRAY,
            note_destination_id: self.destination_id => UUID_ARRAY, note_kind: self.kind => TEXT_ARRAY,
            note_data: self.data => TEXT_ARRAY,
        ]
        .owned()
    }
}
