//! The accounting at the end: the judge over the two logs, and the tables against themselves.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use domain::id::{DestinationId, EventId};
use lab::{Evidence, Fault, FaultKind, Verdict};
use serde::Serialize;

use super::doctor;
use super::logbook;
use super::ownership::OwnershipLog;
use super::{Database, Report, RoutedSource, Testbed};

/// What the tables say of themselves; every field but the first three should be zero once all is delivered.
#[derive(Debug, Default, Serialize)]
pub(crate) struct TableAudit {
    pub(crate) events: u64,
    pub(crate) delivered: u64,
    pub(crate) dead_letters: u64,
    pub(crate) waiting: u64,
    /// Deliveries that have ended more than once.
    pub(crate) ended_twice: u64,
    /// Deliveries that both wait and have ended.
    pub(crate) ended_and_waiting: u64,
    /// Deliveries whose attempts are not numbered 1..n.
    pub(crate) gaps: u64,
    /// Events whose deliveries are not as many as were committed with them.
    pub(crate) partial_fan_outs: u64,
    /// Idempotency keys that more than one event of a source has, or of an account if published.
    pub(crate) keys_stored_twice: u64,
}

impl TableAudit {
    pub(crate) async fn of(database: &Database) -> Result<TableAudit> {
        let number = |sql: &'static str| database.number(sql);
        Ok(TableAudit {
            events: number("select count(*) from events").await?,
            delivered: number("select count(*) from attempts where ending = 'delivered'").await?,
            dead_letters: number("select count(*) from attempts where ending = 'dead_letter'").await?,
            waiting: number("select count(*) from queue").await?,
            ended_twice: number(
                "select count(*) from (select delivery_id from attempts where ending is not null
                 group by delivery_id having count(*) > 1) twice",
            )
            .await?,
            ended_and_waiting: number(
                "select count(*) from queue q join attempts a on a.delivery_id = q.delivery_id
                 where a.ending is not null",
            )
            .await?,
            gaps: number(
                "select count(*) from (select delivery_id from attempts where number is not null and not late
                 group by delivery_id having count(*) <> max(number) or count(distinct number) <> count(*)) gaps",
            )
            .await?,
            partial_fan_outs: number(
                "select count(*) from events e left join (
                     select event_id, count(*) as n from (
                         select event_id, delivery_id from queue where replay_id is null
                         union select event_id, delivery_id from attempts where replay_id is null
                     ) known group by event_id
                 ) made on made.event_id = e.id
                 where coalesce(e.deliveries, -1) <> coalesce(made.n, 0)",
            )
            .await?,
            keys_stored_twice: number(
                "select count(*) from (select source_id, idempotency_key from events
                 where idempotency_key is not null group by account_id, source_id, idempotency_key having count(*) > 1) twice",
            )
            .await?,
        })
    }

    pub(crate) fn must_hold(&self, report: &mut Report) {
        report.note("tables", self);
        report.must_be_kept(
            1,
            "an event has not the deliveries it was committed with",
            self.partial_fan_outs,
        );
        report.must_be_kept(3, "a delivery ended twice", self.ended_twice);
        report.must_be_kept(3, "a delivery has ended and waits", self.ended_and_waiting);
        report.must_be_kept(12, "the attempts of a delivery are not numbered from 1 without gaps", self.gaps);
        report.must_be_kept(13, "one idempotency key is stored with two events", self.keys_stored_twice);
    }
}

/// Everything was delivered, and no delivery spent a retry on the way.
pub(crate) async fn must_all_be_delivered_unspent(testbed: &Testbed, report: &mut Report) -> Result<()> {
    let spent = "select count(*) from attempts where spent > 0";
    report.must_be("retries_spent", testbed.database.number(spent).await?, 0);
    let audit = TableAudit::of(&testbed.database).await?;
    audit.must_hold(report);
    report.must_be("dead_letters", audit.dead_letters, 0);
    Ok(())
}

/// (event, destination) of dead letters whose attempts are all recorded.
pub(crate) async fn dead_letters(
    database: &Database,
    source: &RoutedSource,
) -> Result<HashSet<(Arc<str>, Arc<str>)>> {
    let rows = database
        .rows(
            "select d.event_id, d.destination_id from attempts d
             where d.ending = 'dead_letter' and coalesce(d.number, 0) = (
                 select count(*) from attempts a
                 where a.delivery_id = d.delivery_id and a.number is not null and not a.late)",
        )
        .await?;
    let pair = |row: &Vec<super::database::SqlValue>| {
        let event: Arc<str> = EventId::from_bytes(row[0].id()?).to_string().into();
        Some((event, source.name_of(DestinationId::from_bytes(row[1].id()?))?))
    };
    Ok(rows.iter().filter_map(pair).collect())
}

/// Everything has had its time by then.
const DRAINED_WITHIN: Duration = Duration::from_secs(60);

/// Lets everything drain; then the judge's verdict and the tables' own are rules of the report. The evidence has what was
/// promised and the faults; what arrived, and what is dead, is read here.
pub(crate) async fn settle_accounts(
    testbed: &Testbed,
    source: &RoutedSource,
    evidence: Evidence,
    report: &mut Report,
) -> Result<Verdict> {
    testbed.must_drain(DRAINED_WITHIN, report).await?;
    let evidence = Evidence {
        received: testbed.receiver.snapshot(),
        dead: dead_letters(&testbed.database, source).await?,
        limits: source.limits(),
        ordered: source.ordered.clone(),
        ..evidence
    };
    let verdict = evidence.judge();
    logbook::keep(&testbed.database, evidence).await?;
    report.note("verdict", &verdict);
    for broken in &verdict.broken {
        report.must(false, broken);
    }
    let audit = TableAudit::of(&testbed.database).await?;
    audit.must_hold(report);
    report.must_be_kept(2, "a delivery has not ended", audit.waiting);
    doctor::audit(testbed, report).await?;
    Ok(verdict)
}

/// The same for several nodes: which of them owned what is read too, and no other may have sent.
pub(crate) async fn settle_accounts_of_all(
    testbed: &Testbed,
    source: &RoutedSource,
    mut evidence: Evidence,
    report: &mut Report,
) -> Result<(Verdict, OwnershipLog)> {
    testbed.must_drain(DRAINED_WITHIN, report).await?;
    let ownership = OwnershipLog::read(testbed).await?;
    ownership.must_hold(report);
    evidence.faults.extend(ownership.losses(testbed, &evidence.faults));
    report.note("faults", count_by_kind(&evidence.faults));
    evidence.tenures = ownership.tenures(testbed, source);
    let verdict = settle_accounts(testbed, source, evidence, report).await?;
    Ok((verdict, ownership))
}

fn count_by_kind(faults: &[Fault]) -> BTreeMap<FaultKind, u64> {
    let mut counts = BTreeMap::new();
    for fault in faults {
        *counts.entry(fault.kind).or_default() += 1;
    }
    counts
}
