//! Erasing, in steps of a few milliseconds: all that is written waits behind each of them.

use super::{
    SqliteStore, audit_log, catalog,
    rows::Columns,
    statement::{bound, sql},
    tally,
    trouble::{Trouble, unreadable},
    writer::Priority,
};
use crate::{
    Erased, Erasure, ErasurePhase, ErasureStep, Erasures, StoreError, Term,
    detail::{self, StoredDetail},
    erasure::{tombstone, without_answer},
};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, ReplayId},
    limits,
    time::Timestamp,
};
use rusqlite::{Connection, types::ValueRef};

const ERASURE: &str = concat!(sql!("erasures"), "where e.account_id = :account_id");
const OPEN_ERASURES: &str =
    concat!(sql!("erasures"), "where e.finished_at is null order by e.account_id limit :limit");
const ANSWERS_OF_EVENT: &str = sql!("answers_of_event");
const ATTEMPTS_OF_DESTINATIONS: &str = sql!("attempts_of_destinations");

/// Removes some rows of an account, found by the key of their table.
macro_rules! erase_rows {
    ($table:literal, $key:literal) => {
        concat!(
            "delete from ",
            $table,
            " where (",
            $key,
            ") in (select ",
            $key,
            " from ",
            $table,
            " where account_id = :account_id limit :limit)"
        )
    };
}

/// What is removed by nothing but its account, with the phase it is removed in.
pub(super) const TABLES: &[(ErasurePhase, &str, &str)] = &[
    (ErasurePhase::Waiting, "expanding_events", erase_rows!("expanding_events", "event_id")),
    (ErasurePhase::Waiting, "expansions", erase_rows!("expansions", "event_id")),
    (ErasurePhase::Events, "payload_erasures", erase_rows!("payload_erasures", "event_id")),
    (ErasurePhase::Events, "event_tags", erase_rows!("event_tags", "account_id, tag, event_id")),
    (ErasurePhase::Events, "events", erase_rows!("events", "id")),
    (ErasurePhase::Routes, "routes", erase_rows!("routes", "id")),
    (ErasurePhase::Sources, "sources", erase_rows!("sources", "id")),
    (ErasurePhase::Sources, "api_keys", erase_rows!("api_keys", "id")),
    // Whoever has chosen the account signs in again.
    (ErasurePhase::Sources, "sessions", erase_rows!("sessions", "id")),
    (ErasurePhase::Sources, "portal_links", erase_rows!("portal_links", "id")),
    (ErasurePhase::Sources, "refused_requests", erase_rows!("refused_requests", "source_id, at")),
    (ErasurePhase::Sums, "rollups", erase_rows!("rollups", "account_id, destination_id, span, starts_at")),
    (
        ErasurePhase::Sums,
        "lane_rollups",
        erase_rows!("lane_rollups", "account_id, destination_id, span, starts_at, node_id"),
    ),
    (
        ErasurePhase::Sums,
        "dead_letter_counts",
        erase_rows!("dead_letter_counts", "account_id, destination_id, reason, http_status, outcome, day"),
    ),
    (
        ErasurePhase::Sums,
        "dead_letter_minutes",
        erase_rows!("dead_letter_minutes", "minute, destination_id, reason, http_status"),
    ),
    (ErasurePhase::Sums, "operational_notes", erase_rows!("operational_notes", "id, account_id")),
    (
        ErasurePhase::Sums,
        "operational_notes",
        "delete from operational_notes where (id, account_id) in \
         (select id, account_id from operational_notes where about_account_id = :account_id limit :limit)",
    ),
    (ErasurePhase::Sums, "told_accounts", erase_rows!("told_accounts", "account_id")),
];

#[async_trait]
impl Erasures for SqliteStore {
    async fn delete_account(
        &self,
        id: AccountId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<Erasure, StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| delete(connection, id, now, &audit)).await
    }

    async fn erasure(&self, id: AccountId) -> Result<Erasure, StoreError> {
        let found = self.read(move |connection| find(connection, id)).await?;
        found.ok_or(StoreError::NotFound { what: "account" })
    }

    async fn open_erasures(&self, limit: usize) -> Result<Vec<Erasure>, StoreError> {
        self.read_for_engine(move |connection| bound!(OPEN_ERASURES, limit: limit).all(connection, erasure))
            .await
    }

    async fn erase(&self, _term: Term, step: &ErasureStep) -> Result<Option<Erased>, StoreError> {
        let (step, keys) = (*step, self.keys.clone());
        self.write(Priority::Bulk, move |connection| {
            let open = find(connection, step.account_id)?;
            if open.is_none_or(|erasure| erasure.finished_at.is_some()) {
                return Ok(None);
            }
            let erased = match step.phase {
                ErasurePhase::IdempotencyKeys => {
                    let (rows, next) = keys.erase(connection, step.account_id, step.from, step.rows)?;
                    Erased { rows, next }
                }
                _ => Erased::found(erase(connection, &step)?),
            };
            bound!(
                "update erasures set phase = :phase, erased_rows = erased_rows + :rows \
                 where account_id = :account_id",
                account_id: step.account_id,
                phase: step.phase.as_str(),
                rows: erased.rows,
            )
            .execute(connection)?;
            Ok(Some(erased))
        })
        .await
    }

    async fn end_erasure(&self, _term: Term, id: AccountId, now: Timestamp) -> Result<bool, StoreError> {
        self.write(Priority::Bulk, move |connection| {
            bound!(
                "update erasures set finished_at = coalesce(finished_at, :now) where account_id = :account_id",
                account_id: id,
                now: now,
            )
            .execute(connection)?;
            Ok(true)
        })
        .await
    }

    async fn erase_payload(
        &self,
        account: AccountId,
        id: EventId,
        now: Timestamp,
        audit: &AuditEntry,
    ) -> Result<(), StoreError> {
        let audit = audit.clone();
        self.write(Priority::Api, move |connection| erase_payload(connection, account, id, now, &audit)).await
    }

    async fn erase_answers(
        &self,
        id: EventId,
        after: Option<DeliveryId>,
        deliveries: usize,
    ) -> Result<Option<DeliveryId>, StoreError> {
        self.write(Priority::Bulk, move |connection| erase_answers(connection, id, after, deliveries)).await
    }

    async fn payload_erasures(&self, before: Timestamp, limit: usize) -> Result<Vec<EventId>, StoreError> {
        self.read_for_engine(move |connection| {
            bound!(
                "select event_id from payload_erasures where erased_at < :before limit :limit",
                before: before,
                limit: limit,
            )
            .all(connection, |columns| Ok(columns.id()?))
        })
        .await
    }

    async fn end_payload_erasure(&self, id: EventId) -> Result<(), StoreError> {
        self.write(Priority::Bulk, move |connection| {
            bound!("delete from payload_erasures where event_id = :event_id", event_id: id)
                .execute(connection)?;
            Ok(())
        })
        .await
    }
}

fn find(connection: &Connection, id: AccountId) -> Result<Option<Erasure>, Trouble> {
    bound!(ERASURE, account_id: id).first(connection, erasure)
}

fn erasure(columns: &mut Columns<'_>) -> Result<Erasure, Trouble> {
    Ok(Erasure {
        account_id: columns.id()?,
        version: columns.get()?,
        requested_at: columns.time()?,
        phase: columns.text()?.parse().map_err(|error| unreadable("phase of an erasure", error))?,
        erased_rows: columns.count()?,
        finished_at: columns.optional_time()?,
    })
}

fn delete(
    connection: &Connection,
    id: AccountId,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<Erasure, Trouble> {
    if let Some(erasure) = find(connection, id)? {
        return Ok(erasure);
    }
    let version = catalog::next_version(connection, id)?;
    let left = serde_json::to_string(&tombstone(id, now)).expect("texts and numbers are always JSON");
    bound!(
        "update accounts set deleted_at = :now, uid = null, doc = :doc where id = :id",
        id: id,
        now: now,
        doc: left,
    )
    .execute(connection)?;
    bound!(
        "update replays set status = 'cancelled', finished_at = :now, held_by = null, held_until = null \
         where account_id = :account_id and finished_at is null",
        account_id: id,
        now: now,
    )
    .execute(connection)?;
    let phase = ErasurePhase::FIRST;
    bound!(
        "insert into erasures (account_id, requested_at, phase) values (:account_id, :now, :phase)",
        account_id: id,
        now: now,
        phase: phase.as_str(),
    )
    .execute(connection)?;
    audit_log::append(connection, Some(id), audit)?;
    Ok(Erasure { account_id: id, version, requested_at: now, phase, erased_rows: 0, finished_at: None })
}

/// How many rows it removed.
fn erase(connection: &Connection, step: &ErasureStep) -> Result<usize, Trouble> {
    let (account, most) = (step.account_id, step.rows);
    let mut rows = match step.phase {
        ErasurePhase::Waiting => erase_waiting(connection, account, most)?,
        ErasurePhase::Replays => erase_replays(connection, account, most)?,
        ErasurePhase::Destinations => erase_destinations(connection, account, most)?,
        _ => 0,
    };
    for (_, _, statement) in TABLES.iter().filter(|(phase, ..)| *phase == step.phase) {
        if rows >= most {
            break;
        }
        rows += connection.prepare_cached(statement)?.execute(
            rusqlite::named_params! { ":account_id": account.bytes(), ":limit": (most - rows) as i64 },
        )?;
    }
    Ok(rows)
}

fn erase_waiting(connection: &Connection, account: AccountId, most: usize) -> Result<usize, Trouble> {
    let bytes = bound!(
        "delete from queue where (account_id, delivery_id) in \
         (select account_id, delivery_id from queue where account_id = :account_id order by delivery_id limit :limit) \
         returning payload_bytes",
        account_id: account,
        limit: most,
    )
    .all(connection, |columns| Ok(columns.get::<i64>()?))?;
    tally::erased(account, bytes.len(), bytes.iter().sum());
    Ok(bytes.len())
}

fn erase_replays(connection: &Connection, account: AccountId, most: usize) -> Result<usize, Trouble> {
    let replays = bound!(
        "select id from replays where account_id = :account_id order by id limit :limit",
        account_id: account,
        limit: most,
    )
    .all(connection, |columns| Ok(columns.id::<ReplayId>()?))?;
    let mut rows = 0;
    for id in replays {
        if rows >= most {
            break;
        }
        let made = bound!(
            "delete from replayed where (replay_id, origin) in \
             (select replay_id, origin from replayed where replay_id = :replay_id limit :limit)",
            replay_id: id,
            limit: most - rows,
        )
        .execute(connection)?;
        rows += made;
        if rows < most {
            rows += bound!("delete from replays where id = :id", id: id).execute(connection)?;
        }
    }
    Ok(rows)
}

/// First what was tried there, some deliveries at a time; then, of those that have nothing left, all the rest.
fn erase_destinations(connection: &Connection, account: AccountId, most: usize) -> Result<usize, Trouble> {
    let tried = bound!(
        ATTEMPTS_OF_DESTINATIONS,
        account_id: account,
        destinations: limits::ERASED_DESTINATIONS,
        limit: most,
    )
    .all(connection, |columns| Ok(columns.id::<DeliveryId>()?))?;
    let mut rows = 0;
    for id in &tried {
        if rows >= most {
            return Ok(rows);
        }
        rows += bound!("delete from attempts where delivery_id = :id", id: id).execute(connection)?;
    }
    if !tried.is_empty() {
        return Ok(rows);
    }
    let own = bound!(
        "select id from destinations indexed by destinations_version where account_id = :account_id limit :limit",
        account_id: account,
        limit: limits::ERASED_DESTINATIONS,
    )
    .all(connection, |columns| Ok(columns.id::<DestinationId>()?))?;
    for id in own {
        let held = bound!(
            "delete from holds where (destination_id, since, reason) in \
             (select destination_id, since, reason from holds where destination_id = :id limit :limit)",
            id: id,
            limit: most,
        )
        .execute(connection)?;
        rows += held;
        if rows >= most {
            return Ok(rows);
        }
        rows += bound!("delete from gates where destination_id = :id", id: id).execute(connection)?;
        rows += bound!("delete from lanes where destination_id = :id", id: id).execute(connection)?;
        rows += bound!("delete from sequences where destination_id = :id", id: id).execute(connection)?;
        rows += bound!("delete from destinations where id = :id", id: id).execute(connection)?;
    }
    Ok(rows)
}

fn erase_payload(
    connection: &Connection,
    account: AccountId,
    id: EventId,
    now: Timestamp,
    audit: &AuditEntry,
) -> Result<(), Trouble> {
    let erased_at = bound!(
        "select payload_erased_at from events where id = :id and account_id = :account_id",
        id: id,
        account_id: account,
    )
    .first(connection, |columns| Ok(columns.optional_time()?))?;
    match erased_at {
        None => return Err(StoreError::NotFound { what: "event" }.into()),
        Some(Some(_)) => return Ok(()),
        Some(None) => {}
    }
    let in_use = bound!(super::retention::IS_NEEDED, event_id: id);
    if in_use.one(connection, |columns| Ok(columns.get::<bool>()?))? {
        return Err(StoreError::PayloadInUse.into());
    }
    bound!(
        "update events set payload = x'', headers = '[]', payload_crc = null, sealed_headers = null, \
         payload_erased_at = :now where id = :id",
        id: id,
        now: now,
    )
    .execute(connection)?;
    bound!(
        "insert into payload_erasures (event_id, account_id, erased_at) values (:id, :account_id, :now)",
        id: id,
        account_id: account,
        now: now,
    )
    .execute(connection)?;
    audit_log::append(connection, Some(account), audit)
}

fn erase_answers(
    connection: &Connection,
    id: EventId,
    after: Option<DeliveryId>,
    deliveries: usize,
) -> Result<Option<DeliveryId>, Trouble> {
    let erased = bound!("select 1 from events where id = :id and payload_erased_at is not null", id: id);
    if !erased.exists(connection)? {
        return Ok(None);
    }
    let after = after.unwrap_or(DeliveryId::MIN);
    let some = bound!(ANSWERS_OF_EVENT, event_id: id, after: after, limit: deliveries)
        .all(connection, |columns| Ok(columns.id::<DeliveryId>()?))?;
    for delivery in &some {
        let kept = bound!(
            "select attempt_id, detail from attempts where delivery_id = :delivery_id and detail is not null",
            delivery_id: delivery,
        )
        .all(connection, |columns| {
            let (attempt, kept) = (columns.id::<AttemptId>()?, columns.value()?);
            let detail = match kept {
                ValueRef::Blob(packed) => detail::of_packed(packed),
                kept => detail::of_text(kept.as_bytes().unwrap_or_default()),
            };
            Ok((attempt, without_answer(detail)))
        })?;
        for (attempt, left) in kept {
            let Some(left) = left else { continue };
            bound!(
                "update attempts set detail = :detail where delivery_id = :delivery_id and attempt_id = :attempt_id",
                delivery_id: delivery,
                attempt_id: attempt,
                detail: StoredDetail::of(&left),
            )
            .execute(connection)?;
        }
    }
    Ok(some.last().copied())
}
