//! Forgetting: whole days by dropping their tables, the rest row by row.

mod replays;

use super::{
    PostgresStore, chores,
    partitions::Day,
    pool::{Connection, Transaction},
    rows::{Rows, Unreadable},
    statement::{Params, Statement, params, sql, sql_file},
    trouble::Trouble,
};
use crate::{EventWalk, FactWalk, Pruned, ReplayPlace, ReplayWalk, Retention, StoreError, Term, tags};
use async_trait::async_trait;
use domain::{
    id::{AccountId, DeliveryId, EventId},
    limits,
    time::Timestamp,
};
use std::{collections::BTreeSet, sync::LazyLock};
use uuid::Uuid;

pub(super) static OLD_EVENTS: LazyLock<Statement> = sql!("old_events");
static LOCK_EVENTS: LazyLock<Statement> = sql!("lock_events");
pub(super) static ENDED_OF_EVENTS: LazyLock<Statement> = sql!("ended_of_events");
pub(super) static FORGET_DELIVERIES: LazyLock<Statement> = sql!("forget_deliveries");
pub(super) static FORGET_EVENTS: LazyLock<Statement> = sql!("forget_events");
pub(super) static PRUNE_FACTS: LazyLock<Statement> = sql!("prune_facts");
pub(super) static EVENT_DAY_NEEDED: LazyLock<Statement> = sql!("event_day_needed");
pub(super) static DELIVERY_DAY_NEEDED: LazyLock<Statement> = sql!("delivery_day_needed");
pub(super) static STRAYED_FACTS: LazyLock<Statement> = sql!("strayed_facts");
static FORGET_TAGS: LazyLock<Statement> = sql!("forget_tags");
static STRAYED_TAGS: LazyLock<Statement> = sql!("strayed_tags");
static OLDEST_SETTLED: LazyLock<Statement> = sql!("oldest_settled": "select delivery_id from settled_dead_letters where delivery_id >= :from_delivery_id order by delivery_id limit 1");
static STRAYED_SETTLED: LazyLock<Statement> = sql!("strayed_settled");
static DAYS: LazyLock<Statement> = sql!("days");
static FORGET_DAY_COUNTS: LazyLock<Statement> =
    sql!("forget_day_counts": "delete from dead_letter_counts where day = day_of(:from_id)");
#[cfg(test)]
pub(super) use replays::FORGET_MADE;

#[async_trait]
impl Retention for PostgresStore {
    async fn prune_events(&self, term: Term, walk: EventWalk) -> Result<Option<Pruned<EventId>>, StoreError> {
        let connection = self.pools.general().await?;
        let before = EventId::at(walk.before, 0);
        let params = params![
            account_id: walk.account_id.uuid() => UUID, from_event_id: walk.from.uuid() => UUID,
            below_event_id: before.uuid() => UUID, limit: walk.events as i64 + 1 => INT8,
        ];
        let looked_at = connection.read(&OLD_EVENTS, params).await?;
        let looked_at: Vec<(EventId, bool)> =
            looked_at.all(|cells| Ok((cells.get("id")?, cells.get("needed")?)))?;
        let next = looked_at.get(walk.events).map(|(id, _)| *id);
        let going = looked_at.iter().take(walk.events).filter(|(_, needed)| !needed);
        let going: Vec<EventId> = going.map(|(id, _)| *id).collect();
        let transaction = connection.begin().await?;
        let forgotten = forget(&transaction, term, walk.account_id, &going, walk.rows).await;
        let forgotten = transaction.end(forgotten).await?;
        Ok(forgotten.map(|(rows, left)| Pruned { rows, next: left.or(next) }))
    }

    async fn prune_facts(
        &self,
        term: Term,
        walk: FactWalk,
    ) -> Result<Option<Pruned<DeliveryId>>, StoreError> {
        let connection = self.pools.general().await?;
        let before = DeliveryId::at(walk.before, 0);
        let params = params![
            chore: term.chore.as_str() => TEXT, node_id: term.node.uuid() => UUID, term: term.number => INT8,
            from_delivery_id: walk.from.uuid() => UUID, below_delivery_id: before.uuid() => UUID,
            limit: walk.deliveries as i64 => INT8,
        ];
        let pruned = connection.write(&PRUNE_FACTS, params).await?;
        Ok(pruned
            .first(|cells| Ok(Pruned { rows: cells.get("gone")?, next: cells.get("next_delivery_id")? }))?)
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
        let tags = days(&connection, "event_tags").await?;
        let old = |days: &BTreeSet<String>| -> Vec<Day> {
            let known = days.iter().filter_map(|name| Day::named(name));
            known.filter(|day| day.ends_at() <= before).collect()
        };
        for day in old(&events) {
            match self.prune_event_day(&connection, term, &day, tags.contains(&day.name)).await? {
                DayStep::Needed => {}
                step => return Ok(step.rows()),
            }
        }
        // What a node of the version before has left of a day that it dropped.
        for day in old(&tags).into_iter().filter(|day| !events.contains(&day.name)) {
            match self.drop_day(&connection, term, &["event_tags"], &day, &EVENT_DAY_NEEDED).await? {
                DayStep::Needed => {}
                step => return Ok(step.rows()),
            }
        }
        for day in old(&attempts) {
            match self.prune_delivery_day(&connection, term, &day).await? {
                DayStep::Needed => {}
                step => return Ok(step.rows()),
            }
        }
        forget_settled(&connection, term, &attempts, before).await
    }
}

/// What became of a day.
enum DayStep {
    /// Something needs it.
    Needed,
    /// So much of it is gone.
    Gone(usize),
    /// It is being read: then the next one is not asked for either.
    InUse,
    TermOver,
}

impl DayStep {
    /// How many rows went; None once the term is over.
    fn rows(self) -> Option<usize> {
        match self {
            Self::Needed | Self::InUse => Some(0),
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
        tagged: bool,
    ) -> Result<DayStep, StoreError> {
        if is_needed(connection.read(&EVENT_DAY_NEEDED, day.params()).await?)? {
            return Ok(DayStep::Needed);
        }
        // What lies elsewhere of this day's events goes first: a day that is gone has nothing to find it by.
        let params = params![
            from_id: day.from => UUID, below_id: day.to => UUID, limit: limits::PRUNE_EVENTS as i64 => INT8,
        ];
        let strayed: Vec<DeliveryId> =
            connection.read(&STRAYED_FACTS, params).await?.column("delivery_id")?;
        if !strayed.is_empty() {
            let transaction = connection.begin().await?;
            let forgotten = forget_deliveries(&transaction, term, &strayed).await;
            return Ok(transaction.end(forgotten).await?.map_or(DayStep::TermOver, DayStep::Gone));
        }
        let params = params![
            from_id: day.from => UUID, below_id: day.to => UUID, limit: limits::PRUNE_EVENTS as i64 => INT8,
        ];
        let transaction = connection.begin().await?;
        let strayed = forget_strayed_tags(&transaction, term, params).await;
        match transaction.end(strayed).await? {
            None => return Ok(DayStep::TermOver),
            Some(0) => {}
            Some(gone) => return Ok(DayStep::Gone(gone)),
        }
        let tables: &[&str] = if tagged { &["events", "event_tags"] } else { &["events"] };
        self.drop_day(connection, term, tables, day, &EVENT_DAY_NEEDED).await
    }

    async fn prune_delivery_day(
        &self,
        connection: &Connection,
        term: Term,
        day: &Day,
    ) -> Result<DayStep, StoreError> {
        let needed = is_needed(connection.read(&DELIVERY_DAY_NEEDED, day.params()).await?)?;
        if needed || self.has_kept(connection, day).await? {
            return Ok(DayStep::Needed); // what can go of it goes row by row
        }
        self.drop_day(connection, term, &["attempts"], day, &DELIVERY_DAY_NEEDED).await
    }

    /// Whether an event that is still there has anything in this day of attempts.
    async fn has_kept(&self, connection: &Connection, day: &Day) -> Result<bool, StoreError> {
        let table = format!("attempts_{}", day.name);
        let statement =
            Statement::new("day_has_kept", &sql_file!("day_has_kept").replace("ATTEMPTS_OF_DAY", &table));
        let params = params![below_id: day.to => UUID, limit: limits::PRUNE_KEPT_ASKED => INT8];
        Ok(is_needed(connection.read(&statement, params).await?)?)
    }

    /// Takes the day of these tables away and drops it, in one transaction: nothing ever finds it half gone. PostgreSQL does not detach
    /// concurrently where there is a default partition, so all others have to wait for some milliseconds; a statement
    /// that takes longer is let pass, and the day is tried again. Asked once more inside: by then no other has the
    /// table open, so that whatever came to need the day meanwhile is seen.
    async fn drop_day(
        &self,
        connection: &Connection,
        term: Term,
        tables: &[&str],
        day: &Day,
        needed: &Statement,
    ) -> Result<DayStep, StoreError> {
        let partition = format!("{}_{}", tables[0], day.name);
        for _ in 0..limits::DAY_TRIES {
            let transaction = connection.begin().await?;
            let dropped = detach_and_drop(&transaction, term, tables, day, needed).await;
            match transaction.end(dropped).await {
                Ok(DayDropped::Dropped) => {
                    tracing::info!(partition, "a day has had its time");
                    return Ok(DayStep::Gone(1));
                }
                Ok(DayDropped::TermOver) => return Ok(DayStep::TermOver),
                Err(NotDropped::Needed) => return Ok(DayStep::Needed),
                Err(NotDropped::Trouble(trouble)) => match StoreError::from(trouble) {
                    StoreError::Unavailable(error) => tracing::debug!(%error, partition, "not now"),
                    error => return Err(error),
                },
            }
            tokio::time::sleep(limits::DAY_PAUSE).await;
        }
        tracing::info!(partition, "a day that has had its time is in use; it will be dropped later");
        Ok(DayStep::InUse)
    }
}

enum DayDropped {
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
    tables: &[&str],
    day: &Day,
    needed: &Statement,
) -> Result<DayDropped, NotDropped> {
    if !chores::stands(transaction, term).await? {
        return Ok(DayDropped::TermOver);
    }
    let patience = limits::DAY_LOCK.as_millis();
    transaction.execute(&format!("set local lock_timeout = '{patience}ms'")).await?;
    for table in tables {
        transaction.execute(&format!("alter table {table} detach partition {table}_{}", day.name)).await?;
    }
    if is_needed(transaction.run(needed, day.params()).await?).map_err(Trouble::from)? {
        return Err(NotDropped::Needed);
    }
    for table in tables {
        transaction.execute(&format!("drop table {table}_{}", day.name)).await?;
    }
    if tables.contains(&"attempts") {
        transaction.run(&FORGET_DAY_COUNTS, params![from_id: day.from => UUID]).await?;
    }
    Ok(DayDropped::Dropped)
}

/// Rows that were removed, and the event to go on with if they were too many for one step. None: the term is over.
async fn forget(
    transaction: &Transaction<'_>,
    term: Term,
    account: AccountId,
    going: &[EventId],
    most: usize,
) -> Result<Option<(usize, Option<EventId>)>, Trouble> {
    if !chores::stands(transaction, term).await? {
        return Ok(None);
    }
    let Some(first) = going.first() else { return Ok(Some((0, None))) };
    // A delivery's id is made after its event's, give or take what clocks differ.
    let from = DeliveryId::at(first.made_at().minus(limits::ID_SLACK), 0).uuid();
    let going: Vec<Uuid> = going.iter().map(|id| id.uuid()).collect();
    let locked = transaction.run(&LOCK_EVENTS, params![event_ids: going => UUID_ARRAY]).await?;
    let locked: Vec<Uuid> = locked.column("id")?;
    let params = params![
        event_ids: locked => UUID_ARRAY, from_delivery_id: from => UUID, limit: most as i64 => INT8,
    ];
    let found = transaction.run(&ENDED_OF_EVENTS, params).await?;
    let found: Vec<(EventId, Option<DeliveryId>)> =
        found.all(|cells| Ok((cells.get("event_id")?, cells.get("delivery_id")?)))?;
    // The last one may have more.
    let left = if found.len() == most { found.last().map(|(event, _)| *event) } else { None };
    let deliveries: Vec<DeliveryId> = found.iter().filter_map(|(_, delivery)| *delivery).collect();
    let complete = found.iter().map(|(event, _)| *event).filter(|event| Some(*event) != left);
    let mut events: Vec<Uuid> = complete.map(|event| event.uuid()).collect();
    events.dedup();
    let facts = forget_facts(transaction, &deliveries).await?;
    if events.is_empty() {
        return Ok(Some((facts, left)));
    }
    let params = params![event_ids: events => UUID_ARRAY];
    let forgotten = transaction.run(&FORGET_EVENTS, params).await?;
    let (gone, tagged) =
        forgotten.one(|cells| Ok((cells.get::<usize>("gone")?, cells.get::<Option<Vec<&str>>>("tags")?)))?;
    let tags: Vec<String> = tagged.iter().flatten().flat_map(|kept| tags::read(Some(kept))).collect();
    if !tags.is_empty() {
        let params = params![
            account_id: account.uuid() => UUID, tags: tags => TEXT_ARRAY, event_ids: events => UUID_ARRAY,
        ];
        transaction.run(&FORGET_TAGS, params).await?;
    }
    Ok(Some((facts + gone, left)))
}

/// That dead letters were settled whose day is gone: a million of them would keep the table of facts locked for long if they
/// went with it. Nobody sees them any more. How many of one day went; None once the term is over.
async fn forget_settled(
    connection: &Connection,
    term: Term,
    days: &BTreeSet<String>,
    before: Timestamp,
) -> Result<Option<usize>, StoreError> {
    let mut from = Uuid::nil();
    loop {
        let params = params![from_delivery_id: from => UUID];
        let oldest: Option<DeliveryId> =
            connection.read(&OLDEST_SETTLED, params).await?.first_value("delivery_id")?;
        let Some(day) = oldest.map(|id| Day::of(id.made_at())).filter(|day| day.ends_at() <= before) else {
            return Ok(Some(0));
        };
        from = day.to;
        if days.contains(&day.name) {
            continue;
        }
        let transaction = connection.begin().await?;
        let gone = async {
            if !chores::stands(&transaction, term).await? {
                return Ok(None);
            }
            let params = params![
                from_id: day.from => UUID, below_id: day.to => UUID, limit: limits::PRUNE_ROWS as i64 => INT8,
            ];
            Ok::<_, Trouble>(Some(transaction.run(&STRAYED_SETTLED, params).await?.value::<usize>("gone")?))
        };
        let gone = gone.await;
        match transaction.end(gone).await? {
            Some(0) => {}
            gone => return Ok(gone),
        }
    }
}

async fn forget_deliveries(
    transaction: &Transaction<'_>,
    term: Term,
    deliveries: &[DeliveryId],
) -> Result<Option<usize>, Trouble> {
    match chores::stands(transaction, term).await? {
        true => forget_facts(transaction, deliveries).await.map(Some),
        false => Ok(None),
    }
}

/// How many went; None if the term is over.
async fn forget_strayed_tags(
    transaction: &Transaction<'_>,
    term: Term,
    day: Params<'_, '_>,
) -> Result<Option<usize>, Trouble> {
    if !chores::stands(transaction, term).await? {
        return Ok(None);
    }
    Ok(Some(transaction.run(&STRAYED_TAGS, day).await?.value("gone")?))
}

/// All facts of these deliveries; how many went.
async fn forget_facts(transaction: &Transaction<'_>, deliveries: &[DeliveryId]) -> Result<usize, Trouble> {
    if deliveries.is_empty() {
        return Ok(0);
    }
    let ids: Vec<Uuid> = deliveries.iter().map(|id| id.uuid()).collect();
    let params = params![delivery_ids: ids => UUID_ARRAY];
    Ok(transaction.run(&FORGET_DELIVERIES, params).await?.value("gone")?)
}

/// The days a table has, by their names.
async fn days(connection: &Connection, table: &str) -> Result<BTreeSet<String>, StoreError> {
    let rows = connection.read(&DAYS, params![table_name: table => TEXT]).await?;
    let prefix = format!("{table}_");
    let names: Vec<&str> = rows.column("name")?;
    Ok(names.into_iter().filter_map(|name| name.strip_prefix(&prefix).map(str::to_owned)).collect())
}

fn is_needed(rows: Rows) -> Result<bool, Unreadable> {
    rows.value("needed")
}
