//! Forgetting: whole days by dropping their tables, the rest row by row.

mod replays;

use super::{
    PostgresStore, chores,
    partitions::Day,
    pool::{Connection, Transaction, params},
    trouble::Trouble,
};
use crate::{EventWalk, FactWalk, Pruned, ReplayPlace, ReplayWalk, Retention, StoreError, Term};
use async_trait::async_trait;
use domain::{
    id::{DeliveryId, EventId},
    limits,
    time::Timestamp,
};
use std::collections::BTreeSet;
use tokio_postgres::Row;
use uuid::Uuid;

pub(super) const OLD_EVENTS: &str = include_str!("sql/old_events.sql");
pub(super) const LOCK_EVENTS: &str = include_str!("sql/lock_events.sql");
pub(super) const ENDED_OF_EVENTS: &str = include_str!("sql/ended_of_events.sql");
pub(super) const FORGET_DELIVERIES: &str = "delete from attempts where delivery_id = any($1)";
pub(super) const FORGET_EVENTS: &str = "delete from events where id = any($1)";
pub(super) const PRUNE_FACTS: &str = include_str!("sql/prune_facts.sql");
pub(super) const EVENT_DAY_NEEDED: &str = include_str!("sql/event_day_needed.sql");
pub(super) const DELIVERY_DAY_NEEDED: &str = include_str!("sql/delivery_day_needed.sql");
#[cfg(test)]
pub(super) use replays::FORGET_MADE;
pub(super) const STRAYED_FACTS: &str = include_str!("sql/strayed_facts.sql");

#[async_trait]
impl Retention for PostgresStore {
    async fn prune_events(&self, term: Term, walk: EventWalk) -> Result<Option<Pruned<EventId>>, StoreError> {
        let connection = self.pools.general().await?;
        let before = EventId::at(walk.before, 0);
        let params = params![
            walk.account_id.uuid() => UUID, walk.from.uuid() => UUID, before.uuid() => UUID,
            walk.events as i64 + 1 => INT8,
        ];
        let looked_at = connection.read(OLD_EVENTS, params).await?;
        let next = looked_at.get(walk.events).map(|row| EventId::from_uuid(row.get(0)));
        let going = looked_at.iter().take(walk.events).filter(|row| !row.get::<_, bool>(1));
        let going: Vec<Uuid> = going.map(|row| row.get(0)).collect();
        let transaction = connection.begin().await?;
        let forgotten = forget(&transaction, term, &going, walk.rows).await;
        let forgotten = transaction.end(forgotten).await?;
        Ok(forgotten.map(|(rows, left)| Pruned { rows, next: left.map(EventId::from_uuid).or(next) }))
    }

    async fn prune_facts(
        &self,
        term: Term,
        walk: FactWalk,
    ) -> Result<Option<Pruned<DeliveryId>>, StoreError> {
        let connection = self.pools.general().await?;
        let (name, before) = (term.chore.as_str(), DeliveryId::at(walk.before, 0));
        let params = params![
            name => TEXT, term.node.uuid() => UUID, term.number => INT8, walk.from.uuid() => UUID,
            before.uuid() => UUID, walk.deliveries as i64 => INT8,
        ];
        let rows = connection.write(PRUNE_FACTS, params).await?;
        Ok(rows.first().map(|row| Pruned {
            rows: row.get::<_, i64>(0) as usize,
            next: row.get::<_, Option<Uuid>>(1).map(DeliveryId::from_uuid),
        }))
    }

    async fn prune_replays(
        &self,
        term: Term,
        walk: ReplayWalk,
    ) -> Result<Option<Pruned<ReplayPlace>>, StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let forgotten = replays::forget(&transaction, term, &walk).await;
        Ok(transaction.end(forgotten).await?)
    }

    fn has_days(&self) -> bool {
        true
    }

    async fn prune_days(&self, term: Term, before: Timestamp) -> Result<Option<usize>, StoreError> {
        let connection = self.pools.general().await?;
        let (events, attempts) = (days(&connection, "events").await?, days(&connection, "attempts").await?);
        let old = |days: &BTreeSet<String>| -> Vec<Day> {
            let known = days.iter().filter_map(|name| Day::named(name));
            known.filter(|day| day.ends_at() <= before).collect()
        };
        for day in old(&events) {
            match self.prune_event_day(&connection, term, &day).await? {
                Step::Kept => {}
                step => return Ok(step.told()),
            }
        }
        for day in old(&attempts) {
            match self.prune_delivery_day(&connection, term, &day).await? {
                Step::Kept => {}
                step => return Ok(step.told()),
            }
        }
        Ok(Some(0))
    }
}

/// What became of a day.
enum Step {
    /// Something needs it.
    Kept,
    /// So much of it is gone.
    Gone(usize),
    /// Somebody reads it: then nobody asks for the next one either.
    InUse,
    TermOver,
}

impl Step {
    fn told(self) -> Option<usize> {
        match self {
            Self::Kept | Self::InUse => Some(0),
            Self::Gone(rows) => Some(rows),
            Self::TermOver => None,
        }
    }
}

impl PostgresStore {
    async fn prune_event_day(
        &self,
        connection: &Connection,
        term: Term,
        day: &Day,
    ) -> Result<Step, StoreError> {
        let range = params![day.from => UUID, day.to => UUID];
        if yes(connection.read(EVENT_DAY_NEEDED, range).await?) {
            return Ok(Step::Kept);
        }
        // What lies elsewhere of this day's events goes first: a day that is gone has nothing to find it by.
        let limit = limits::PRUNE_EVENTS as i64;
        let strayed =
            connection.read(STRAYED_FACTS, params![day.from => UUID, day.to => UUID, limit => INT8]).await?;
        if !strayed.is_empty() {
            let strayed: Vec<Uuid> = strayed.iter().map(|row| row.get(0)).collect();
            let transaction = connection.begin().await?;
            let forgotten = forget_deliveries(&transaction, term, &strayed).await;
            return Ok(transaction.end(forgotten).await?.map_or(Step::TermOver, Step::Gone));
        }
        self.drop_day(connection, term, "events", day, EVENT_DAY_NEEDED).await
    }

    async fn prune_delivery_day(
        &self,
        connection: &Connection,
        term: Term,
        day: &Day,
    ) -> Result<Step, StoreError> {
        let needed =
            yes(connection.read(DELIVERY_DAY_NEEDED, params![day.from => UUID, day.to => UUID]).await?);
        if needed || self.has_kept(connection, day).await? {
            return Ok(Step::Kept); // what can go of it goes row by row
        }
        self.drop_day(connection, term, "attempts", day, DELIVERY_DAY_NEEDED).await
    }

    /// Whether an event that is still there has anything in this day of attempts.
    async fn has_kept(&self, connection: &Connection, day: &Day) -> Result<bool, StoreError> {
        let table = format!("attempts_{}", day.name);
        let sql = format!(
            "select count(*) > $2
                    or coalesce(bool_or(exists (
                           select from {table} a where a.event_id = e.id and a.ending is not null
                       )), false)
                    or exists (select from {table} a where a.event_id >= $1 and a.ending is not null)
             from (select events.id from events where events.id < $1 order by events.id limit $2 + 1) e"
        );
        let params = params![day.to => UUID, limits::PRUNE_KEPT_ASKED => INT8];
        Ok(yes(connection.read(&sql, params).await?))
    }

    /// Takes the day away and drops it, in one transaction: nobody ever finds it half gone. PostgreSQL does not detach
    /// concurrently where there is a default partition, so everybody has to let us in for some milliseconds; whoever is
    /// in our way for longer is let pass, and we come again. Asked once more inside: by then nobody else has the table
    /// open, so that whatever came to need the day meanwhile is seen.
    async fn drop_day(
        &self,
        connection: &Connection,
        term: Term,
        table: &str,
        day: &Day,
        needed: &str,
    ) -> Result<Step, StoreError> {
        let partition = format!("{table}_{}", day.name);
        for _ in 0..limits::DAY_TRIES {
            let transaction = connection.begin().await?;
            let dropped = detach_and_drop(&transaction, term, table, &partition, day, needed).await;
            match transaction.end(dropped).await {
                Ok(Gone::Dropped) => {
                    tracing::info!(partition, "a day has had its time");
                    return Ok(Step::Gone(1));
                }
                Ok(Gone::TermOver) => return Ok(Step::TermOver),
                Err(NotDropped::Needed) => return Ok(Step::Kept),
                Err(NotDropped::Trouble(trouble)) => match StoreError::from(trouble) {
                    StoreError::Unavailable(error) => tracing::debug!(%error, partition, "not now"),
                    error => return Err(error),
                },
            }
            tokio::time::sleep(limits::DAY_PAUSE).await;
        }
        tracing::info!(partition, "a day that has had its time is in use; it will be dropped later");
        Ok(Step::InUse)
    }
}

enum Gone {
    Dropped,
    TermOver,
}

/// Why nothing was done after all.
enum NotDropped {
    Needed,
    Trouble(Trouble),
}

impl From<Trouble> for NotDropped {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

async fn detach_and_drop(
    transaction: &Transaction<'_>,
    term: Term,
    table: &str,
    partition: &str,
    day: &Day,
    needed: &str,
) -> Result<Gone, NotDropped> {
    if !chores::stands(transaction, term).await? {
        return Ok(Gone::TermOver);
    }
    let patience = limits::DAY_LOCK.as_millis();
    transaction.run(&format!("set local lock_timeout = '{patience}ms'"), &[]).await?;
    transaction.run(&format!("alter table {table} detach partition {partition}"), &[]).await?;
    if yes(transaction.run(needed, params![day.from => UUID, day.to => UUID]).await?) {
        return Err(NotDropped::Needed);
    }
    transaction.run(&format!("drop table {partition}"), &[]).await?;
    if table == "attempts" {
        let counts = "delete from dead_letter_counts where day = day_of($1)";
        transaction.run(counts, params![day.from => UUID]).await?;
    }
    Ok(Gone::Dropped)
}

/// Rows that were removed, and the event to go on with if they were too many for one step. None: the term is over.
async fn forget(
    transaction: &Transaction<'_>,
    term: Term,
    going: &[Uuid],
    most: usize,
) -> Result<Option<(usize, Option<Uuid>)>, Trouble> {
    if !chores::stands(transaction, term).await? {
        return Ok(None);
    }
    let Some(first) = going.first() else { return Ok(Some((0, None))) };
    let locked = transaction.run(LOCK_EVENTS, params![going => UUID_ARRAY]).await?;
    let locked: Vec<Uuid> = locked.iter().map(|row| row.get(0)).collect();
    // A delivery's id is made after its event's, give or take what clocks differ.
    let from = DeliveryId::at(EventId::from_uuid(*first).made_at().minus(limits::ID_SLACK), 0).uuid();
    let limit = most as i64;
    let params = params![locked => UUID_ARRAY, from => UUID, limit => INT8];
    let found = transaction.run(ENDED_OF_EVENTS, params).await?;
    // The last one may have more.
    let left: Option<Uuid> = if found.len() == most { found.last().map(|row| row.get(0)) } else { None };
    let deliveries: Vec<Uuid> = found.iter().filter_map(|row| row.get(1)).collect();
    let mut events: Vec<Uuid> = found.iter().map(|row| row.get(0)).filter(|id| Some(*id) != left).collect();
    events.dedup();
    let facts = count(transaction, FORGET_DELIVERIES, &deliveries).await?;
    let gone = count(transaction, FORGET_EVENTS, &events).await?;
    Ok(Some((facts + gone, left)))
}

async fn forget_deliveries(
    transaction: &Transaction<'_>,
    term: Term,
    deliveries: &[Uuid],
) -> Result<Option<usize>, Trouble> {
    match chores::stands(transaction, term).await? {
        true => count(transaction, FORGET_DELIVERIES, deliveries).await.map(Some),
        false => Ok(None),
    }
}

/// Runs a delete for these ids, and says how many rows went.
async fn count(transaction: &Transaction<'_>, sql: &str, ids: &[Uuid]) -> Result<usize, Trouble> {
    if ids.is_empty() {
        return Ok(0);
    }
    let counted = format!("with gone as ({sql} returning 1) select count(*) from gone");
    let rows = transaction.run(&counted, params![ids => UUID_ARRAY]).await?;
    Ok(rows[0].get::<_, i64>(0) as usize)
}

/// The days a table has, by their names.
async fn days(connection: &Connection, table: &str) -> Result<BTreeSet<String>, StoreError> {
    let rows = connection.read(include_str!("sql/days.sql"), params![table => TEXT]).await?;
    let prefix = format!("{table}_");
    Ok(rows.iter().filter_map(|row| row.get::<_, &str>(0).strip_prefix(&prefix).map(str::to_owned)).collect())
}

fn yes(rows: Vec<Row>) -> bool {
    rows.first().is_some_and(|row| row.get(0))
}
