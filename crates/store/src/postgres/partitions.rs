//! Days: events, their tags and attempts are kept in one partition a day, so that retention drops tables and not rows.
//!
//! A day is a range of UUIDv7s. What has no day of its own goes to the default partition, from which nothing is ever
//! moved: a wrong clock costs some tidiness and no commit.

use super::{
    PostgresStore,
    pool::Transaction,
    statement::{Params, Statement, params, sql},
};
use crate::StoreError;
use domain::{limits, time::Timestamp};
use std::{sync::LazyLock, time::Duration};
use uuid::Uuid;

static MISSING_PARTITIONS: LazyLock<Statement> = sql!("missing_partitions");

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The partitioned tables, with what their partitions are told.
const TABLES: [(&str, &str); 3] =
    [("events", "with (toast_tuple_target = 8160)"), ("event_tags", ""), ("attempts", "")];

impl PostgresStore {
    /// Makes the partitions around `now` that are missing. Any number of nodes may do so at once.
    pub(super) async fn make_partitions(&self, now: Timestamp) -> Result<(), StoreError> {
        let missing = self.missing(days_around(now)).await?;
        // All at once, as in a new database; if anything stands in the way, one by one.
        if missing.len() > 1 && self.make_all(&missing).await.is_ok() {
            return Ok(());
        }
        for partition in &missing {
            self.make_one(partition).await?;
        }
        Ok(())
    }

    async fn missing(&self, wanted: Vec<Partition>) -> Result<Vec<Partition>, StoreError> {
        let names: Vec<&str> = wanted.iter().map(|partition| partition.name.as_str()).collect();
        let connection = self.pools.general().await?;
        let rows = connection.read(&MISSING_PARTITIONS, params![names: names => TEXT_ARRAY]).await?;
        let missing = |(partition, missing): (Partition, bool)| missing.then_some(partition);
        Ok(wanted.into_iter().zip(rows.column("missing")?).filter_map(missing).collect())
    }

    async fn make_all(&self, partitions: &[Partition]) -> Result<(), StoreError> {
        let connection = self.pools.general().await?;
        let transaction = connection.begin().await?;
        let made = attach_all(&transaction, partitions).await;
        transaction.end(made).await
    }

    async fn make_one(&self, partition: &Partition) -> Result<(), StoreError> {
        let mut tries = 0;
        loop {
            match self.make_all(std::slice::from_ref(partition)).await {
                Ok(()) => return Ok(()),
                // Another node was faster, or is about to be.
                Err(StoreError::Unavailable(_) | StoreError::Taken { .. }) if tries < limits::DDL_TRIES => {
                    tries += 1;
                    if self.missing(vec![partition.clone()]).await?.is_empty() {
                        return Ok(());
                    }
                }
                Err(StoreError::Refused(error)) => {
                    let name = &partition.name;
                    tracing::warn!(%error, partition = name, "the default partition has rows of this day already");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A day of a table.
#[derive(Clone)]
struct Partition {
    name: String,
    table: &'static str,
    options: &'static str,
    from: Uuid,
    to: Uuid,
}

fn days_around(now: Timestamp) -> Vec<Partition> {
    let days = -limits::PARTITION_DAYS_BEHIND..=limits::PARTITION_DAYS_AHEAD;
    let days = days.map(|days| {
        let moved = DAY * days.unsigned_abs() as u32;
        Day::of(if days < 0 { now.minus(moved) } else { now.plus(moved) })
    });
    let of_tables = |Day { name, from, to }: Day| {
        TABLES.map(|(table, options)| Partition { name: format!("{table}_{name}"), table, options, from, to })
    };
    days.flat_map(of_tables).collect()
}

async fn attach_all(transaction: &Transaction<'_>, partitions: &[Partition]) -> Result<(), StoreError> {
    let patience = limits::DDL_LOCK.as_millis();
    transaction.execute(&format!("set local lock_timeout = '{patience}ms'")).await?;
    for partition in partitions {
        attach(transaction, partition).await?;
    }
    Ok(())
}

/// Made first and attached then: attaching lets readers and writers of the other days pass.
async fn attach(transaction: &Transaction<'_>, partition: &Partition) -> Result<(), StoreError> {
    let Partition { name, table, options, from, to } = partition;
    transaction.execute(&format!("create table {name} (like {table} including all) {options}")).await?;
    let attach =
        format!("alter table {table} attach partition {name} for values from ('{from}') to ('{to}')");
    transaction.execute(&attach).await?;
    Ok(())
}

/// A day of UTC, as the ids see it.
pub(super) struct Day {
    pub(super) name: String,
    pub(super) from: Uuid,
    pub(super) to: Uuid,
}

impl Day {
    /// By the name its partitions have; none for the default one.
    pub(super) fn named(name: &str) -> Option<Self> {
        let digits = name.strip_prefix('p').filter(|digits| digits.len() == 8 && digits.is_ascii())?;
        let (year, month, day) = (&digits[..4], &digits[4..6], &digits[6..]);
        Some(Self::of(format!("{year}-{month}-{day}T00:00:00Z").parse().ok()?))
    }

    /// For a statement that asks about its ids.
    pub(super) fn params(&self) -> Params<'_, '_> {
        params![from_id: self.from => UUID, below_id: self.to => UUID].owned()
    }

    pub(super) fn ends_at(&self) -> Timestamp {
        Timestamp::from_micros((self.to.as_u128() >> 80) as i64 * 1000)
    }

    pub(super) fn of(at: Timestamp) -> Self {
        let day = at.seconds().div_euclid(DAY.as_secs() as i64);
        let start = |day: i64| Timestamp::from_seconds(day * DAY.as_secs() as i64);
        // 2026-04-03T…: the first ten characters without the dashes.
        let name = format!("p{}", start(day).to_string()[..10].replace('-', ""));
        // No version and no variant bits: below every id of the first millisecond.
        let first = |at: Timestamp| Uuid::from_u128(((at.micros() / 1000) as u128) << 80);
        Self { name, from: first(start(day)), to: first(start(day + 1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::EventId;

    #[test]
    fn a_day_holds_exactly_the_ids_made_in_it() {
        let noon: Timestamp = "2026-04-03T12:00:00Z".parse().unwrap();
        let day = Day::of(noon);
        assert_eq!(day.name, "p20260403");
        assert_eq!(Day::named("p20260403").map(|day| (day.from, day.to)), Some((day.from, day.to)));
        assert!(Day::named("default").is_none() && Day::named("p20261403").is_none());
        assert_eq!(day.ends_at().to_string(), "2026-04-04T00:00:00.000000Z");
        for (time, inside) in [
            ("2026-04-02T23:59:59.999999Z", false),
            ("2026-04-03T00:00:00Z", true),
            ("2026-04-03T23:59:59.999999Z", true),
            ("2026-04-04T00:00:00Z", false),
        ] {
            for chance in [0, u128::MAX] {
                let id = EventId::at(time.parse().unwrap(), chance).uuid();
                assert_eq!((day.from..day.to).contains(&id), inside, "{time}");
            }
        }
    }
}
