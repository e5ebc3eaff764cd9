//! Days: events and attempts are kept in one partition a day, so that retention drops tables and not rows.
//!
//! A day is a range of UUIDv7s. What has no day of its own goes to the default partition, from which nothing is ever
//! moved: a wrong clock costs some tidiness and no commit.

use super::{
    PostgresStore,
    pool::{Transaction, params},
};
use crate::StoreError;
use domain::{limits, time::Timestamp};
use std::time::Duration;
use uuid::Uuid;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The partitioned tables, with what their partitions are told.
const TABLES: [(&str, &str); 2] = [("events", "with (toast_tuple_target = 8160)"), ("attempts", "")];

impl PostgresStore {
    /// Makes the partitions around `now` that are missing. Any number of nodes may do so at once.
    pub(super) async fn make_partitions(&self, now: Timestamp) -> Result<(), StoreError> {
        for days in -limits::PARTITION_DAYS_BEHIND..=limits::PARTITION_DAYS_AHEAD {
            let moved = DAY * days.unsigned_abs() as u32;
            let day = Day::of(if days < 0 { now.minus(moved) } else { now.plus(moved) });
            for (table, options) in TABLES {
                self.make_partition(table, options, &day).await?;
            }
        }
        Ok(())
    }

    async fn make_partition(&self, table: &str, options: &str, day: &Day) -> Result<(), StoreError> {
        let name = format!("{table}_{}", day.name);
        let mut tries = 0;
        loop {
            let connection = self.pools.general().await?;
            let known =
                connection.read_opt("select to_regclass($1) is not null", params![name => TEXT]).await?;
            if known.is_some_and(|row| row.get(0)) {
                return Ok(());
            }
            let transaction = connection.begin().await?;
            let made = attach(&transaction, table, &name, options, day).await;
            match transaction.end(made).await {
                Ok(()) => return Ok(()),
                // Another node was faster: the next look finds its table.
                Err(StoreError::Unavailable(_) | StoreError::Taken { .. }) if tries < limits::DDL_TRIES => {
                    tries += 1
                }
                Err(StoreError::Refused(error)) => {
                    tracing::warn!(%error, partition = name, "the default partition has rows of this day already");
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Made first and attached then: attaching lets readers and writers of the other days pass.
async fn attach(
    transaction: &Transaction<'_>,
    table: &str,
    name: &str,
    options: &str,
    day: &Day,
) -> Result<(), StoreError> {
    let patience = limits::DDL_LOCK.as_millis();
    transaction.run(&format!("set local lock_timeout = '{patience}ms'"), &[]).await?;
    transaction.run(&format!("create table {name} (like {table} including all) {options}"), &[]).await?;
    let (from, to) = (day.from, day.to);
    let attach =
        format!("alter table {table} attach partition {name} for values from ('{from}') to ('{to}')");
    transaction.run(&attach, &[]).await?;
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

    pub(super) fn ends_at(&self) -> Timestamp {
        Timestamp::from_micros((self.to.as_u128() >> 80) as i64 * 1000)
    }

    fn of(at: Timestamp) -> Self {
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
