//! Erasing: a step is one transaction, which holds the chore's term.

use super::{
    PostgresStore, audit_log, catalog, chores,
    pool::{Connection, Transaction},
    retention::FORGET_DELIVERIES,
    rows::{Cells, Unreadable},
    statement::{Statement, params, sql},
    trouble::Trouble,
};
use crate::{
    Erased, Erasure, ErasurePhase, ErasureStep, Erasures, StoreError, Term,
    detail::{self, StoredDetail},
    erasure::{tombstone, without_answer},
};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    id::{AccountId, DeliveryId, EventId},
    limits,
    time::Timestamp,
};
use std::sync::LazyLock;
use uuid::Uuid;

static ERASURE: LazyLock<Statement> = sql!("erasures", "where e.account_id = :account_id");
static OPEN_ERASURES: LazyLock<Statement> =
    sql!("erasures", "where e.finished_at is null order by e.account_id limit :limit");
static DELETE_ACCOUNT: LazyLock<Statement> = sql!(
    "delete_account": "update accounts set deleted_at = :now, uid = null, doc = :doc where id = :account_id"
);
static CANCEL_REPLAYS: LazyLock<Statement> = sql!(
    "cancel_replays": "update replays set status = 'cancelled', finished_at = :now, held_by = null, \
    held_until = null where account_id = :account_id and finished_at is null"
);
static INSERT_ERASURE: LazyLock<Statement> = sql!(
    "insert_erasure": "insert into erasures (account_id, requested_at, phase) values (:account_id, :now, :phase)"
);
static LOCK_ERASURE: LazyLock<Statement> = sql!(
    "lock_erasure": "select from erasures where account_id = :account_id and finished_at is null for update"
);
static NOTE_ERASED: LazyLock<Statement> = sql!(
    "note_erased": "update erasures set phase = :phase, erased_rows = erased_rows + :rows \
    where account_id = :account_id"
);
static END_ERASURE: LazyLock<Statement> = sql!(
    "end_erasure": "update erasures set finished_at = coalesce(finished_at, :now) where account_id = :account_id"
);
static ATTEMPTS_OF_DESTINATIONS: LazyLock<Statement> = sql!("attempts_of_destinations");
static ERASE_HOLDS: LazyLock<Statement> = sql!("erase_holds");
static ERASE_DESTINATIONS: LazyLock<Statement> = sql!("erase_destinations");
static ERASE_MADE: LazyLock<Statement> = sql!("erase_made");
static ERASE_REPLAYS: LazyLock<Statement> = sql!("erase_replays");
static ERASE_KEYS: LazyLock<Statement> = sql!("erase_keys");
static ERASE_EVENTS: LazyLock<Statement> = sql!("erase_events");
static ERASE_TAGS: LazyLock<Statement> = sql!("erase_tags");
static LOCK_PAYLOAD: LazyLock<Statement> = sql!("lock_payload");
static PAYLOAD_IN_USE: LazyLock<Statement> = sql!("payload_in_use");
static ERASE_PAYLOAD: LazyLock<Statement> = sql!("erase_payload");
static ANSWERS_OF_EVENT: LazyLock<Statement> = sql!("answers_of_event");
static ANSWERS: LazyLock<Statement> = sql!("answers");
static ERASE_ANSWERS: LazyLock<Statement> = sql!("erase_answers");
static PAYLOAD_ERASURES: LazyLock<Statement> = sql!(
    "payload_erasures": "select event_id from payload_erasures where erased_at < :before limit :limit"
);
static END_PAYLOAD_ERASURE: LazyLock<Statement> =
    sql!("end_payload_erasure": "delete from payload_erasures where event_id = :event_id");

/// What is removed by nothing but its account, with the phase it is removed in and the order in which an index has it. The
/// rows of one statement are found by where they lie: one that is moved meanwhile is found by the next.
pub(super) const TABLES: &[(ErasurePhase, &str, &str)] = &[
    (ErasurePhase::Waiting, "expanding_events", "account_id = :account_id"),
    (ErasurePhase::Waiting, "expansions", "account_id = :account_id"),
    (ErasurePhase::Waiting, "queue", "account_id = :account_id order by account_id, delivery_id"),
    (ErasurePhase::Events, "payload_erasures", "account_id = :account_id"),
    (ErasurePhase::Routes, "routes", "account_id = :account_id order by account_id, id desc"),
    (ErasurePhase::Sources, "sources", "account_id = :account_id order by account_id, id desc"),
    (ErasurePhase::Sources, "api_keys", "account_id = :account_id order by account_id, id desc"),
    // Whoever has chosen the account signs in again.
    (ErasurePhase::Sources, "sessions", "account_id = :account_id"),
    (ErasurePhase::Sources, "portal_links", "account_id = :account_id order by account_id, id desc"),
    (ErasurePhase::Sources, "refused_requests", "account_id = :account_id"),
    (
        ErasurePhase::Sums,
        "rollups",
        "account_id = :account_id order by account_id, destination_id, span, starts_at",
    ),
    (
        ErasurePhase::Sums,
        "lane_rollups",
        "account_id = :account_id order by account_id, destination_id, span, starts_at, node_id",
    ),
    (
        ErasurePhase::Sums,
        "dead_letter_counts",
        "account_id = :account_id order by account_id, destination_id, reason, http_status, day",
    ),
    (ErasurePhase::Sums, "dead_letter_minutes", "account_id = :account_id"),
    (ErasurePhase::Sums, "operational_notes", "account_id = :account_id or about_account_id = :account_id"),
    (ErasurePhase::Sums, "told_accounts", "account_id = :account_id"),
];

static ERASE_ROWS: LazyLock<Vec<(ErasurePhase, Statement)>> = LazyLock::new(|| {
    let statement = |table: &'static str, rows: &str| {
        let text = format!(
            "with gone as (delete from {table} where ctid = any(array(select ctid from {table} where {rows} \
             limit :limit)) returning 1) select count(*) as gone from gone"
        );
        Statement::new(table, &text)
    };
    TABLES.iter().map(|(phase, table, rows)| (*phase, statement(table, rows))).collect()
});

#[async_trait]
impl Erasures for PostgresStore {
    async fn delete_account(
        &self,
        id: AccountId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Erasure, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let deleted = delete(&transaction, id, now, audit).await;
        match transaction.end(deleted).await {
            // It never was, or was deleted before.
            Err(StoreError::NotFound { .. }) => self.erasure(id).await,
            deleted => deleted,
        }
    }

    async fn erasure(&self, id: AccountId) -> Result<Erasure, StoreError> {
        let connection = self.pools.general().await?;
        let found =
            connection.read(&ERASURE, params![account_id: id.uuid() => UUID]).await?.first(erasure)?;
        found.ok_or(StoreError::NotFound { what: "account" })
    }

    async fn open_erasures(&self, limit: usize) -> Result<Vec<Erasure>, StoreError> {
        let connection = self.pools.general().await?;
        Ok(connection.read(&OPEN_ERASURES, params![limit: limit as i64 => INT8]).await?.all(erasure)?)
    }

    async fn erase(&self, term: Term, step: &ErasureStep) -> Result<Option<Erased>, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let erased = erase(&transaction, term, step).await;
        Ok(transaction.end(erased).await?)
    }

    async fn end_erasure(&self, term: Term, id: AccountId, now: Timestamp) -> Result<bool, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let ended = async {
            if !chores::stands(&transaction, term).await? {
                return Ok::<_, Trouble>(false);
            }
            let params = params![account_id: id.uuid() => UUID, now: now.micros() => INT8];
            transaction.run(&END_ERASURE, params).await?;
            Ok(true)
        };
        let ended = ended.await;
        Ok(transaction.end(ended).await?)
    }

    async fn erase_payload(
        &self,
        account: AccountId,
        id: EventId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let erased = erase_payload(&transaction, account, id, now, audit).await;
        transaction.end(erased).await
    }

    async fn erase_answers(
        &self,
        id: EventId,
        after: Option<DeliveryId>,
        deliveries: usize,
    ) -> Result<Option<DeliveryId>, StoreError> {
        erase_answers(&self.pools.general().await?, id, after, deliveries).await
    }

    async fn payload_erasures(&self, before: Timestamp, limit: usize) -> Result<Vec<EventId>, StoreError> {
        let connection = self.pools.general().await?;
        let params = params![before: before.micros() => INT8, limit: limit as i64 => INT8];
        Ok(connection.read(&PAYLOAD_ERASURES, params).await?.column("event_id")?)
    }

    async fn end_payload_erasure(&self, id: EventId) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        connection.write(&END_PAYLOAD_ERASURE, params![event_id: id.uuid() => UUID]).await?;
        Ok(())
    }
}

fn erasure(cells: &mut Cells<'_, '_>) -> Result<Erasure, Unreadable> {
    Ok(Erasure {
        account_id: cells.get("account_id")?,
        version: cells.get("version")?,
        requested_at: cells.get("requested_at")?,
        phase: cells.word("phase")?,
        erased_rows: cells.get("erased_rows")?,
        finished_at: cells.get("finished_at")?,
    })
}

/// The account's row is locked first, as by any change of what it owns: what is being written for it comes before.
async fn delete(
    transaction: &Transaction<'_>,
    id: AccountId,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<Erasure, StoreError> {
    let version = catalog::next_version(transaction, id, "account").await?;
    let left = serde_json::to_string(&tombstone(id, now)).expect("texts and numbers are always JSON");
    let (account, at) = (id.uuid(), now.micros());
    let params = params![account_id: account => UUID, now: at => INT8, doc: left => TEXT];
    transaction.run(&DELETE_ACCOUNT, params).await?;
    transaction.run(&CANCEL_REPLAYS, params![account_id: account => UUID, now: at => INT8]).await?;
    let phase = ErasurePhase::FIRST;
    let params = params![account_id: account => UUID, now: at => INT8, phase: phase.as_str() => TEXT];
    transaction.run(&INSERT_ERASURE, params).await?;
    audit_log::append(transaction, Some(id), audit).await?;
    Ok(Erasure { account_id: id, version, requested_at: now, phase, erased_rows: 0, finished_at: None })
}

/// None: the term is over, or there is nothing to be erased.
async fn erase(
    transaction: &Transaction<'_>,
    term: Term,
    step: &ErasureStep,
) -> Result<Option<Erased>, Trouble> {
    let account = step.account_id.uuid();
    if !chores::stands(transaction, term).await?
        || transaction.run(&LOCK_ERASURE, params![account_id: account => UUID]).await?.is_empty()
    {
        return Ok(None);
    }
    let mut erased = StepRows { transaction, account, most: step.rows, rows: 0 };
    match step.phase {
        ErasurePhase::Replays => {
            erased.by(&ERASE_MADE).await?;
            erased.by(&ERASE_REPLAYS).await?;
        }
        ErasurePhase::Events => {
            erased.by(&ERASE_TAGS).await?;
            erased.by(&ERASE_EVENTS).await?;
        }
        ErasurePhase::Destinations => erased.destinations().await?,
        ErasurePhase::IdempotencyKeys => erased.by(&ERASE_KEYS).await?,
        ErasurePhase::Waiting | ErasurePhase::Routes | ErasurePhase::Sources | ErasurePhase::Sums => {}
    }
    for (_, statement) in ERASE_ROWS.iter().filter(|(phase, _)| *phase == step.phase) {
        erased.by(statement).await?;
    }
    let rows = erased.rows;
    let params = params![
        account_id: account => UUID, phase: step.phase.as_str() => TEXT, rows: rows as i64 => INT8,
    ];
    transaction.run(&NOTE_ERASED, params).await?;
    Ok(Some(Erased::found(rows)))
}

/// What a step has removed, and may.
struct StepRows<'t> {
    transaction: &'t Transaction<'t>,
    account: Uuid,
    most: usize,
    rows: usize,
}

impl StepRows<'_> {
    fn room(&self) -> i64 {
        self.most.saturating_sub(self.rows) as i64
    }

    /// What follows goes only once nothing of this is left.
    async fn by(&mut self, statement: &Statement) -> Result<(), Trouble> {
        if self.room() > 0 {
            let params = params![account_id: self.account => UUID, limit: self.room() => INT8];
            self.rows += self.transaction.run(statement, params).await?.value::<usize>("gone")?;
        }
        Ok(())
    }

    /// First what was tried there, some deliveries at a time; then, of those that have nothing left, all the rest.
    async fn destinations(&mut self) -> Result<(), Trouble> {
        let destinations = limits::ERASED_DESTINATIONS as i64;
        let found = params![
            account_id: self.account => UUID, destinations: destinations => INT8, limit: self.room() => INT8,
        ];
        let tried = self.transaction.run(&ATTEMPTS_OF_DESTINATIONS, found).await?;
        let tried: Vec<Uuid> = tried.column("delivery_id")?;
        if !tried.is_empty() {
            let params = params![delivery_ids: tried => UUID_ARRAY];
            self.rows += self.transaction.run(&FORGET_DELIVERIES, params).await?.value::<usize>("gone")?;
            return Ok(());
        }
        let held = params![
            account_id: self.account => UUID, destinations: destinations => INT8, limit: self.room() => INT8,
        ];
        self.rows += self.transaction.run(&ERASE_HOLDS, held).await?.value::<usize>("gone")?;
        if self.room() > 0 {
            let params = params![account_id: self.account => UUID, destinations: destinations => INT8];
            self.rows += self.transaction.run(&ERASE_DESTINATIONS, params).await?.value::<usize>("gone")?;
        }
        Ok(())
    }
}

async fn erase_payload(
    transaction: &Transaction<'_>,
    account: AccountId,
    id: EventId,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<(), StoreError> {
    let params = params![account_id: account.uuid() => UUID, event_id: id.uuid() => UUID];
    let found = transaction.run(&LOCK_PAYLOAD, params).await?;
    match found.first(|cells| cells.get::<Option<Timestamp>>("payload_erased_at"))? {
        None => return Err(StoreError::NotFound { what: "event" }),
        Some(Some(_)) => return Ok(()),
        Some(None) => {}
    }
    let params = params![event_id: id.uuid() => UUID];
    if transaction.run(&PAYLOAD_IN_USE, params).await?.value("in_use")? {
        return Err(StoreError::PayloadInUse);
    }
    let params =
        params![account_id: account.uuid() => UUID, event_id: id.uuid() => UUID, now: now.micros() => INT8];
    transaction.run(&ERASE_PAYLOAD, params).await?;
    audit_log::append(transaction, Some(account), audit).await
}

async fn erase_answers(
    connection: &Connection,
    id: EventId,
    after: Option<DeliveryId>,
    deliveries: usize,
) -> Result<Option<DeliveryId>, StoreError> {
    // A delivery's id is made after its event's, give or take what clocks differ: days before need not be looked at.
    let first = DeliveryId::at(id.made_at().minus(limits::ID_SLACK), 0);
    let params = params![
        event_id: id.uuid() => UUID, after_delivery_id: after.unwrap_or(first).uuid() => UUID,
        limit: deliveries as i64 => INT8,
    ];
    let some: Vec<DeliveryId> = connection.read(&ANSWERS_OF_EVENT, params).await?.column("delivery_id")?;
    let Some(last) = some.last().copied() else { return Ok(None) };
    let ids: Vec<Uuid> = some.iter().map(|id| id.uuid()).collect();
    let kept = connection.read(&ANSWERS, params![delivery_ids: ids => UUID_ARRAY]).await?;
    let (mut delivery_ids, mut attempt_ids) = (Vec::<Uuid>::new(), Vec::<Uuid>::new());
    let (mut texts, mut packed) = (Vec::<String>::new(), Vec::<Option<Vec<u8>>>::new());
    for answer in kept.each(|cells| {
        let detail = match cells.get::<Option<&[u8]>>("detail_packed")? {
            Some(packed) => detail::of_packed(packed),
            None => detail::of_text(cells.get::<&str>("detail")?.as_bytes()),
        };
        Ok((cells.get::<Uuid>("delivery_id")?, cells.get::<Uuid>("attempt_id")?, without_answer(detail)))
    }) {
        let (delivery, attempt, Some(left)) = answer? else { continue };
        delivery_ids.push(delivery);
        attempt_ids.push(attempt);
        match StoredDetail::of(&left) {
            StoredDetail::Text(text) => {
                texts.push(text);
                packed.push(None);
            }
            StoredDetail::Packed(bytes) => {
                texts.push(String::new());
                packed.push(Some(bytes));
            }
        }
    }
    if !delivery_ids.is_empty() {
        let params = params![
            delivery_id: delivery_ids => UUID_ARRAY, attempt_id: attempt_ids => UUID_ARRAY,
            detail: texts => TEXT_ARRAY, detail_packed: packed => BYTEA_ARRAY,
        ];
        connection.write(&ERASE_ANSWERS, params).await?;
    }
    Ok(Some(last))
}
