//! Settling: facts are written and deliveries moved, many in one flush, fenced by the node and by the row.

use super::{
    dead_letters, operational_events,
    planned::{self, Definition, Planned},
    pool::{Connection, Transaction},
    rows::{Rows, Unreadable},
    statement::{Params, Statement, params, sql, sql_file},
    trouble::{Trouble, in_full},
};
use crate::{Consequence, Fact, Settlement, StoreError, detail};
use domain::{
    attempt::Detail,
    delivery::{Ending, Settled},
    id::{AccountId, AttemptId, DestinationId, NodeId},
    operations::OperationalNote,
    outcome::{DeadReason, Outcome},
    time::Timestamp,
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::LazyLock,
};
use uuid::Uuid;

pub(super) static SETTLE: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "settle",
        sql: sql_file!("settle"),
        kept: true,
        settings: planned::LOOKED_UP,
        gives: "attempt_id uuid, late boolean",
    };
    Planned::new(definition, FactColumns::default().params(&Uuid::nil()))
});
/// The same for a batch with dead letters in it, which are counted for those who are told of them: what succeeds does not
/// pay for it.
pub(super) static SETTLE_TOLD: LazyLock<Planned> = LazyLock::new(|| {
    let place = "-- here: settle_dead_letters";
    let sql = sql_file!("settle").replacen(place, sql_file!("settle_dead_letters"), 1);
    let definition = Definition {
        name: "settle_told",
        sql: sql.leak(),
        kept: true,
        settings: planned::LOOKED_UP,
        gives: "attempt_id uuid, late boolean",
    };
    Planned::new(definition, FactColumns::default().params(&Uuid::nil()))
});
/// The same for a batch that ends deliveries of replays, which are counted there: a backfill of many is one statement a flush,
/// as what ingest made.
pub(super) static SETTLE_REPLAYED: LazyLock<Planned> = LazyLock::new(|| {
    let place = "-- here: settle_dead_letters";
    let more = [sql_file!("settle_dead_letters"), sql_file!("settle_replayed")].concat();
    let sql = sql_file!("settle").replacen(place, &more, 1);
    let definition = Definition {
        name: "settle_replayed",
        sql: sql.leak(),
        kept: true,
        settings: planned::LOOKED_UP,
        gives: "attempt_id uuid, late boolean",
    };
    Planned::new(definition, FactColumns::default().params(&Uuid::nil()))
});
static SETTLED_BEFORE: LazyLock<Statement> = sql!("settled_before");
static SWITCH_ACCOUNTS: LazyLock<Statement> = sql!("switch_accounts");
static SWITCH_DESTINATIONS: LazyLock<Statement> = sql!("switch_destinations");

/// Facts that are written now, and whether they moved their delivery.
type MovedByFact = HashMap<Uuid, bool>;

/// One answer per settlement, in order: whether it moved its delivery, now or when it was written first.
pub(super) async fn settle(
    connection: &Connection,
    node: NodeId,
    settlements: &[Settlement],
    now: Timestamp,
) -> Result<Vec<bool>, StoreError> {
    let mut written = MovedByFact::with_capacity(settlements.len());
    let mut begun = false;
    for round in rounds(settlements) {
        // One that cannot be stored never fails the others: halve until it is alone.
        let mut parts = vec![round.as_slice()];
        while let Some(part) = parts.pop() {
            match settle_part(connection, node, part, now).await {
                Ok(part) => written.extend(part),
                Err(Trouble::Culprit { error }) if part.len() == 1 => {
                    written.extend(settle_bare(connection, node, part[0], now, error).await?);
                }
                Err(Trouble::Culprit { .. }) => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                    continue;
                }
                Err(Trouble::Away(error)) if begun => return Err(StoreError::OutcomeUnknown(error)),
                Err(trouble) => return Err(trouble.into()),
            }
            begun = true;
        }
    }
    let before = settled_before(connection, settlements, &written).await?;
    let moved = |fact: &Uuid| written.get(fact).copied().unwrap_or_else(|| before.contains(fact));
    Ok(settlements.iter().map(|settlement| moved(&fact_id(settlement))).collect())
}

/// Of the facts that were not written now, because they were there: those that moved their delivery then. It is asked
/// only when a batch is run again; its answer lost, the whole batch may be.
async fn settled_before(
    connection: &Connection,
    settlements: &[Settlement],
    written: &MovedByFact,
) -> Result<HashSet<Uuid>, StoreError> {
    let there = settlements.iter().filter(|settlement| !written.contains_key(&fact_id(settlement)));
    let (deliveries, facts): (Vec<Uuid>, Vec<Uuid>) =
        there.map(|settlement| (settlement.delivery.id.uuid(), fact_id(settlement))).unzip();
    if facts.is_empty() {
        return Ok(HashSet::new());
    }
    let params = params![delivery_id: deliveries => UUID_ARRAY, attempt_id: facts => UUID_ARRAY];
    match connection.read(&SETTLED_BEFORE, params).await {
        Ok(rows) => Ok(rows.column("attempt_id").map_err(Trouble::after_write)?.into_iter().collect()),
        Err(Trouble::Away(error)) => Err(StoreError::OutcomeUnknown(error)),
        Err(trouble) => Err(trouble.into()),
    }
}

/// A statement sees every row as it was before, so a delivery may come only once in it. Sorted by delivery: all
/// statements lock in this order.
fn rounds(settlements: &[Settlement]) -> Vec<Vec<&Settlement>> {
    let mut rounds: Vec<Vec<&Settlement>> = Vec::new();
    let mut seen = HashMap::with_capacity(settlements.len());
    for settlement in settlements {
        let before = seen.entry(settlement.delivery.id).or_insert(0);
        if rounds.len() == *before {
            rounds.push(Vec::new());
        }
        rounds[*before].push(settlement);
        *before += 1;
    }
    for round in &mut rounds {
        round.sort_unstable_by_key(|settlement| settlement.delivery.id);
    }
    rounds
}

async fn settle_part(
    connection: &Connection,
    node: NodeId,
    part: &[&Settlement],
    now: Timestamp,
) -> Result<MovedByFact, Trouble> {
    let facts = FactColumns::of(part);
    let node = node.uuid();
    // What resolves nothing, and has no consequence, costs one statement and nothing else.
    if part.iter().any(|settlement| settlement.consequence.is_some() || dead_letters::may_resolve(settlement))
    {
        let transaction = connection.begin().await?;
        let settled = settle_with_consequences(&transaction, &node, &facts, part, now).await;
        transaction.end(settled).await
    } else {
        let rows = connection.write(&statement(part).call, facts.params(&node)).await?;
        written(&rows).map_err(Trouble::after_write)
    }
}

/// A destination is disabled or paused in the transaction that says why, and only by the node that still owns it.
async fn settle_with_consequences(
    transaction: &Transaction<'_>,
    node: &Uuid,
    facts: &FactColumns,
    part: &[&Settlement],
    now: Timestamp,
) -> Result<MovedByFact, Trouble> {
    let written = written(&transaction.run(&statement(part).call, facts.params(node)).await?)?;
    let moved = |settlement: &Settlement| written.get(&fact_id(settlement)) == Some(&true);
    let destinations = |consequence| -> BTreeSet<Uuid> {
        let wanted =
            |settlement: &&&Settlement| settlement.consequence == Some(consequence) && moved(settlement);
        part.iter().filter(wanted).map(|settlement| settlement.delivery.destination_id.uuid()).collect()
    };
    let (gone, paused) = (destinations(Consequence::Disables), destinations(Consequence::Pauses));
    if !gone.is_empty() || !paused.is_empty() {
        // What is disabled is not paused.
        let paused: Vec<Uuid> = paused.difference(&gone).copied().collect();
        switch(transaction, &Vec::from_iter(gone), &paused, now).await?;
    }
    dead_letters::resolve(transaction, part.iter().copied().filter(|it| moved(it))).await?;
    Ok(written)
}

fn statement(part: &[&Settlement]) -> &'static Planned {
    let ends = |settlement: &Settlement| matches!(settlement.settled, Settled::Ended(_));
    let is_dead =
        |settlement: &&Settlement| matches!(settlement.settled, Settled::Ended(Ending::DeadLetter(_)));
    if part.iter().any(|settlement| settlement.delivery.replay_id.is_some() && ends(settlement)) {
        &SETTLE_REPLAYED
    } else if part.iter().any(is_dead) {
        &SETTLE_TOLD
    } else {
        &SETTLE
    }
}

async fn switch(
    transaction: &Transaction<'_>,
    gone: &[Uuid],
    paused: &[Uuid],
    now: Timestamp,
) -> Result<(), Trouble> {
    let params = params![disable_ids: gone => UUID_ARRAY, pause_ids: paused => UUID_ARRAY];
    let rows = transaction.run(&SWITCH_ACCOUNTS, params).await?;
    let (accounts, versions): (Vec<Uuid>, Vec<i64>) = (rows.column("id")?, rows.column("version")?);
    let params = params![
        disable_ids: gone => UUID_ARRAY, pause_ids: paused => UUID_ARRAY, now: now.micros() => INT8,
        account_id: accounts => UUID_ARRAY, version: versions => INT8_ARRAY,
    ];
    let rows = transaction.run(&SWITCH_DESTINATIONS, params).await?;
    let disabled = rows.all(|cells| {
        let (id, account): (DestinationId, AccountId) = (cells.get("id")?, cells.get("account_id")?);
        Ok(gone.contains(&id.uuid()).then(|| OperationalNote::of_disabled(account, id, "gone", now)))
    })?;
    let disabled: Vec<OperationalNote> = disabled.into_iter().flatten().collect();
    operational_events::note(transaction, &disabled).await
}

/// A fact that was there before is not among them: this time nothing moved.
fn written(rows: &Rows) -> Result<MovedByFact, Unreadable> {
    let moved = rows.all(|cells| Ok((cells.get("attempt_id")?, !cells.get::<bool>("late")?)))?;
    Ok(moved.into_iter().collect())
}

/// What a person would have liked to see is not worth a delivery that is sent for ever: without it the fact fits.
async fn settle_bare(
    connection: &Connection,
    node: NodeId,
    settlement: &Settlement,
    now: Timestamp,
    why: tokio_postgres::Error,
) -> Result<MovedByFact, StoreError> {
    let delivery_id = settlement.delivery.id;
    tracing::error!(%delivery_id, error = %in_full(&why), "the store refused an attempt; writing it without its detail");
    let mut bare = settlement.clone();
    if let Fact::Attempted(attempt) = &mut bare.fact {
        attempt.detail = Detail::default();
    }
    match settle_part(connection, node, &[&bare], now).await {
        Err(Trouble::Culprit { error }) => {
            tracing::error!(%delivery_id, error = %in_full(&error), "the store refused an attempt; its delivery is ended without it");
            settle_least(connection, node, settlement, now).await
        }
        other => Ok(other?),
    }
}

/// Left in the queue, the delivery would be sent again for ever: it ends with the least that can be said.
async fn settle_least(
    connection: &Connection,
    node: NodeId,
    settlement: &Settlement,
    now: Timestamp,
) -> Result<MovedByFact, StoreError> {
    let delivery = settlement.delivery.clone();
    let ending = Ending::DeadLetter(DeadReason::Undeliverable);
    let id = AttemptId::from_uuid(fact_id(settlement));
    let least = Settlement {
        shard: settlement.shard,
        fact: Fact::EndedWithout { id, at: now, node, ending },
        settled: Settled::Ended(ending),
        consequence: None,
        delivery,
    };
    match settle_part(connection, node, &[&least], now).await {
        Err(Trouble::Culprit { error }) => {
            tracing::error!(delivery_id = %least.delivery.id, %error, "the store refused a delivery's end");
            Ok(MovedByFact::new())
        }
        other => Ok(other?),
    }
}

fn fact_id(settlement: &Settlement) -> Uuid {
    match &settlement.fact {
        Fact::Attempted(attempt) => attempt.id.uuid(),
        Fact::EndedWithout { id, .. } => id.uuid(),
    }
}

/// Settlements, by columns.
#[derive(Default)]
struct FactColumns {
    delivery_id: Vec<Uuid>,
    attempt_id: Vec<Uuid>,
    account_id: Vec<Uuid>,
    event_id: Vec<Uuid>,
    destination_id: Vec<Uuid>,
    route_id: Vec<Uuid>,
    replay_id: Vec<Option<Uuid>>,
    origin: Vec<Uuid>,
    attempts_before: Vec<i32>,
    number: Vec<Option<i32>>,
    attempts: Vec<i32>,
    spent: Vec<i32>,
    started_at: Vec<Option<i64>>,
    duration_us: Vec<Option<i64>>,
    outcome: Vec<Option<&'static str>>,
    http_status: Vec<Option<i16>>,
    /// Empty where it is packed, and so is all a node of the version before sees.
    detail: Vec<Option<String>>,
    detail_packed: Vec<Option<Vec<u8>>>,
    node_id: Vec<Uuid>,
    ending: Vec<Option<&'static str>>,
    reason: Vec<Option<&'static str>>,
    ended_at: Vec<i64>,
    track: Vec<i64>,
    rank: Vec<i64>,
    due_at: Vec<i64>,
    tls_errors: Vec<i32>,
    sequence: Vec<Option<i64>>,
}

impl FactColumns {
    fn of(part: &[&Settlement]) -> Self {
        let mut facts = Self::default();
        for settlement in part {
            facts.push(settlement);
        }
        facts
    }

    fn push(&mut self, settlement: &Settlement) {
        let delivery = &settlement.delivery;
        self.delivery_id.push(delivery.id.uuid());
        self.account_id.push(delivery.account_id.uuid());
        self.event_id.push(delivery.event_id.uuid());
        self.destination_id.push(delivery.destination_id.uuid());
        self.route_id.push(delivery.route_id.uuid());
        self.replay_id.push(delivery.replay_id.map(|id| id.uuid()));
        self.origin.push(delivery.origin.uuid());
        self.attempts_before.push(delivery.attempts as i32);
        self.sequence.push(delivery.sequence);
        let settled = self.push_fact(settlement);
        let (ending, position, due_at, spent) = match settled {
            Settled::Ended(ending) => (Some(ending), delivery.position, delivery.due_at, delivery.spent),
            Settled::Waits { position, due_at, spent } => (None, position, due_at, spent),
        };
        self.ending.push(ending.map(|ending| ending.status().as_str()));
        self.reason.push(ending.and_then(Ending::reason));
        self.spent.push(spent as i32);
        self.track.push(position.track);
        self.rank.push(position.rank);
        self.due_at.push(due_at.micros());
    }

    /// An attempt counts; an ending without one keeps what the delivery met last.
    fn push_fact(&mut self, settlement: &Settlement) -> Settled {
        let delivery = &settlement.delivery;
        match &settlement.fact {
            Fact::Attempted(attempt) => {
                let number = delivery.attempts as i32 + 1;
                self.attempt_id.push(attempt.id.uuid());
                self.number.push(Some(number));
                self.attempts.push(number);
                self.started_at.push(Some(attempt.started_at.micros()));
                self.duration_us.push(Some(i64::try_from(attempt.duration.as_micros()).unwrap_or(i64::MAX)));
                self.outcome.push(Some(attempt.outcome.as_str()));
                self.http_status.push(attempt.http_status.map(|status| status as i16));
                let (text, packed) = match detail::StoredDetail::of(&attempt.detail) {
                    detail::StoredDetail::Text(text) => (text, None),
                    detail::StoredDetail::Packed(packed) => (String::new(), Some(packed)),
                };
                self.detail.push(Some(text));
                self.detail_packed.push(packed);
                self.node_id.push(attempt.node.uuid());
                self.ended_at.push(attempt.started_at.plus(attempt.duration).micros());
                self.tls_errors
                    .push(delivery.tls_errors as i32 + i32::from(attempt.outcome == Outcome::TlsError));
                settlement.settled
            }
            Fact::EndedWithout { id, at, node, ending } => {
                self.attempt_id.push(id.uuid());
                self.number.push(None);
                self.attempts.push(delivery.attempts as i32);
                self.started_at.push(None);
                self.duration_us.push(None);
                self.outcome.push(delivery.last_outcome.map(Outcome::as_str));
                self.http_status.push(delivery.last_http_status.map(|status| status as i16));
                self.detail.push(None);
                self.detail_packed.push(None);
                self.node_id.push(node.uuid());
                self.ended_at.push(at.micros());
                self.tls_errors.push(delivery.tls_errors as i32);
                Settled::Ended(*ending)
            }
        }
    }

    fn params<'a>(&'a self, node: &'a Uuid) -> Params<'a, 'a> {
        params![
            settling_node_id: *node => UUID,
            delivery_id: self.delivery_id => UUID_ARRAY,
            attempt_id: self.attempt_id => UUID_ARRAY,
            account_id: self.account_id => UUID_ARRAY,
            event_id: self.event_id => UUID_ARRAY,
            destination_id: self.destination_id => UUID_ARRAY,
            route_id: self.route_id => UUID_ARRAY,
            replay_id: self.replay_id => UUID_ARRAY,
            origin: self.origin => UUID_ARRAY,
            attempts_before: self.attempts_before => INT4_ARRAY,
            number: self.number => INT4_ARRAY,
            attempts: self.attempts => INT4_ARRAY,
            spent: self.spent => INT4_ARRAY,
            started_at: self.started_at => INT8_ARRAY,
            duration_us: self.duration_us => INT8_ARRAY,
            outcome: self.outcome => TEXT_ARRAY,
            http_status: self.http_status => INT2_ARRAY,
            detail: self.detail => TEXT_ARRAY,
            detail_packed: self.detail_packed => BYTEA_ARRAY,
            node_id: self.node_id => UUID_ARRAY,
            ending: self.ending => TEXT_ARRAY,
            reason: self.reason => TEXT_ARRAY,
            ended_at: self.ended_at => INT8_ARRAY,
            track: self.track => INT8_ARRAY,
            rank: self.rank => INT8_ARRAY,
            due_at: self.due_at => INT8_ARRAY,
            tls_errors: self.tls_errors => INT4_ARRAY,
            sequence: self.sequence => INT8_ARRAY,
        ]
        .owned()
    }
}
