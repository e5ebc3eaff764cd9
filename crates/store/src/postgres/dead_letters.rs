//! Dead letters that are settled. Those that are not are counted by the tables themselves, by the day.

use super::{
    PostgresStore, audit_log,
    planned::{self, Definition, Planned},
    pool::Transaction,
    rows::{Cells, Unreadable},
    statement::{Params, Statement, params, sql, sql_file},
    trouble::Trouble,
};
use crate::{DeadLetterGroup, DeadLetters, Dismissal, Fact, GroupFilter, GroupKey, Settlement, StoreError};
use async_trait::async_trait;
use domain::{
    audit::AuditEntry,
    delivery::{Ending, Settled},
    id::{AccountId, DestinationId},
};
use std::sync::LazyLock;
use uuid::Uuid;

static DEAD_LETTER_GROUPS: LazyLock<Statement> = sql!("dead_letter_groups");
static DISMISS: LazyLock<Statement> = sql!("dismiss");
pub(super) static RESOLVE_CHAINS: LazyLock<Planned> = LazyLock::new(|| {
    let definition = Definition {
        name: "resolve_chains",
        sql: sql_file!("resolve_chains"),
        kept: true,
        settings: planned::BY_KEY,
        gives: "delivery_id uuid",
    };
    Planned::new(definition, EndedReplays::default().params())
});

#[async_trait]
impl DeadLetters for PostgresStore {
    async fn dismiss(&self, dismissal: &Dismissal, audit: &AuditEntry) -> Result<u32, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let dismissed = async {
            let Dismissal { account_id, delivery_ids, dismissed_by, note, at } = dismissal;
            let ids: Vec<Uuid> = delivery_ids.iter().map(|id| id.uuid()).collect();
            let params = params![
                account_id: account_id.uuid() => UUID, delivery_ids: ids => UUID_ARRAY,
                resolved_at: at.micros() => INT8, dismissed_by: dismissed_by.to_string() => TEXT, note: note => TEXT,
            ];
            let count = transaction.run(&DISMISS, params).await?.len() as u32;
            if count > 0 {
                let audit = AuditEntry { count: Some(count), ..audit.clone() };
                audit_log::append(&transaction, Some(*account_id), &audit).await?;
            }
            Ok(count)
        };
        let dismissed = dismissed.await;
        transaction.end(dismissed).await
    }

    async fn dead_letter_groups(
        &self,
        account: AccountId,
        filter: GroupFilter,
        after: Option<GroupKey>,
        limit: usize,
    ) -> Result<Vec<DeadLetterGroup>, StoreError> {
        let first = (DestinationId::MIN, "", 0, "");
        let (destination, reason, http_status, outcome) = after.map_or(first, |key| key.sorts());
        let params = params![
            account_id: account.uuid() => UUID, after_destination_id: destination.uuid() => UUID,
            after_reason: reason => TEXT, after_http_status: http_status as i16 => INT2,
            after_outcome: outcome => TEXT, from_day: filter.first_day() => INT4,
            destination_id: filter.destination_id.map(|id| id.uuid()) => UUID, limit: limit as i64 => INT8,
        ];
        let rows = self.pools.general().await?.read(&DEAD_LETTER_GROUPS, params).await?;
        Ok(rows.all(group)?.into_iter().flatten().collect())
    }
}

/// A reason of a newer version has no name here.
fn group(cells: &mut Cells<'_, '_>) -> Result<Option<DeadLetterGroup>, Unreadable> {
    let Some(reason) = cells.known_word("reason")? else { return Ok(None) };
    let (destination_id, http_status) = (cells.get("destination_id")?, cells.get("http_status")?);
    Ok(Some(DeadLetterGroup {
        key: GroupKey { destination_id, reason, http_status, outcome: cells.known_word("outcome")? },
        count: cells.get("count")?,
        oldest: cells.get("oldest")?,
        newest: cells.get("newest")?,
    }))
}

/// What the ends of these deliveries mean to the dead letters of their chains, in the transaction that writes them. Only
/// replays have a chain. Those of one are settled one after the other: they go to one destination, which has one owner, and
/// a node that is none any more moves nothing.
pub(super) async fn resolve<'s>(
    transaction: &Transaction<'_>,
    moved: impl Iterator<Item = &'s Settlement>,
) -> Result<(), Trouble> {
    let mut ended = EndedReplays::default();
    moved.for_each(|settlement| ended.push(settlement));
    if !ended.delivery_id.is_empty() {
        transaction.run(&RESOLVE_CHAINS.call, ended.params()).await?;
    }
    Ok(())
}

/// Whether its end may mean something to dead letters: only replays of something have a chain.
pub(super) fn may_resolve(settlement: &Settlement) -> bool {
    let delivery = &settlement.delivery;
    let ends = matches!(settlement.settled, Settled::Ended(Ending::Delivered | Ending::DeadLetter(_)));
    ends && delivery.replay_id.is_some() && delivery.origin != delivery.id
}

/// Deliveries of replays that were delivered, or died, by columns.
#[derive(Default)]
struct EndedReplays {
    delivery_id: Vec<Uuid>,
    event_id: Vec<Uuid>,
    origin: Vec<Uuid>,
    created_at: Vec<i64>,
    ended_at: Vec<i64>,
    delivered: Vec<bool>,
}

impl EndedReplays {
    fn push(&mut self, settlement: &Settlement) {
        if !may_resolve(settlement) {
            return;
        }
        let delivery = &settlement.delivery;
        let ended_at = match &settlement.fact {
            Fact::Attempted(attempt) => attempt.started_at.plus(attempt.duration),
            Fact::EndedWithout { at, .. } => *at,
        };
        self.delivery_id.push(delivery.id.uuid());
        self.event_id.push(delivery.event_id.uuid());
        self.origin.push(delivery.origin.uuid());
        self.created_at.push(delivery.created_at.micros());
        self.ended_at.push(ended_at.micros());
        self.delivered.push(settlement.settled == Settled::Ended(Ending::Delivered));
    }

    fn params(&self) -> Params<'_, '_> {
        params![
            delivery_id: self.delivery_id => UUID_ARRAY, event_id: self.event_id => UUID_ARRAY,
            origin: self.origin => UUID_ARRAY, created_at: self.created_at => INT8_ARRAY,
            ended_at: self.ended_at => INT8_ARRAY, delivered: self.delivered => BOOL_ARRAY,
        ]
        .owned()
    }
}
