//! The table of wake-ups, for servers behind a pooler. Every shard counts its own rounds, under the lock of its row, so
//! that a comparison with the last look overlooks none; a number over all would become visible out of order.

use super::super::{
    pool::{Connection, Pools},
    rows::{Cells, Unreadable},
    statement::{Statement, params, sql},
    trouble::Trouble,
};
use crate::{News, StoreError};
use domain::{id::SHARDS, limits};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{LazyLock, Mutex, MutexGuard},
};
use tokio::time::Instant;

static TELL_TABLE: LazyLock<Statement> = sql!("tell_table");
static READS_WAKES: LazyLock<Statement> = sql!("reads_wakes");
static ROUNDS: LazyLock<Statement> = sql!("rounds": "select shard, round from wakes where shard >= -1");

/// Membership and ownership, beside the shards.
const ROSTER: i16 = -1;

/// The rounds that we told ourselves since the last look, so as not to hear them.
#[derive(Default)]
pub(super) struct ToldRounds {
    own: Mutex<OwnRounds>,
}

#[derive(Default)]
struct OwnRounds {
    /// Whether this node looks at all.
    looking: bool,
    /// The rounds it made itself since it looked last, by row.
    told: RoundsByShard,
}

type RoundsByShard = BTreeMap<i16, Vec<i64>>;

impl ToldRounds {
    pub(super) async fn tell(&self, connection: &Connection, news: &[News]) -> Result<(), Trouble> {
        let rows = Vec::from_iter(rows(news));
        if rows.is_empty() {
            return Ok(());
        }
        let told = connection.write(&TELL_TABLE, params![shards: rows => INT2_ARRAY]).await?;
        let mut own = self.own();
        if own.looking {
            for (shard, round) in told.all(shard_and_round)? {
                own.told.entry(shard).or_default().push(round);
            }
        }
        Ok(())
    }

    fn own(&self) -> MutexGuard<'_, OwnRounds> {
        self.own.lock().expect("counting does not panic")
    }
}

fn shard_and_round(cells: &mut Cells<'_, '_>) -> Result<(i16, i64), Unreadable> {
    Ok((cells.get("shard")?, cells.get("round")?))
}

/// What has to be counted up. An account's change is left out: its version is polled as often as this table is.
fn rows(news: &[News]) -> BTreeSet<i16> {
    let mut rows = BTreeSet::new();
    for piece in news {
        match piece {
            News::Wakes(wakes) => rows.extend(wakes.iter().map(|wake| wake.shard as i16)),
            News::Shards(shards) => rows.extend(shards.iter().map(|shard| *shard as i16)),
            News::Roster => rows.extend([ROSTER]),
            News::Missed => rows.extend(ROSTER..SHARDS as i16),
            News::Changed(_) => {}
        }
    }
    rows
}

/// Compares the table with how it was at the last look.
pub(super) struct TablePoll<'a> {
    pools: &'a Pools,
    rounds: &'a ToldRounds,
    /// None: not looked at yet, or not for a while.
    seen: Option<BTreeMap<i16, i64>>,
    said_at: Option<Instant>,
}

impl<'a> TablePoll<'a> {
    pub(super) fn new(pools: &'a Pools, rounds: &'a ToldRounds) -> Self {
        rounds.own().looking = true;
        Self { pools, rounds, seen: None, said_at: None }
    }

    pub(super) async fn next(&mut self) -> Result<Vec<News>, StoreError> {
        let read = self.read().await;
        let own = std::mem::take(&mut self.rounds.own().told);
        match read {
            Ok(now) => {
                let news = match &self.seen {
                    Some(seen) => compare(seen, &own, &now),
                    None => vec![News::Missed],
                };
                self.seen = Some(now);
                Ok(news)
            }
            Err(error) => {
                self.seen = None;
                Err(error)
            }
        }
    }

    async fn read(&mut self) -> Result<BTreeMap<i16, i64>, StoreError> {
        let connection = self.pools.nodes().await?;
        // Before the first look: a node that does not see this yet has committed what the look will find.
        if self.said_at.is_none_or(|at| at.elapsed() >= limits::WAKES_READER_SEEN) {
            connection.write(&READS_WAKES, params![]).await?;
            self.said_at = Some(Instant::now());
        }
        let rounds = connection.read(&ROUNDS, params![]).await?.all(shard_and_round)?;
        Ok(rounds.into_iter().collect())
    }
}

impl Drop for TablePoll<'_> {
    fn drop(&mut self) {
        *self.rounds.own() = OwnRounds::default();
    }
}

/// An own round that the last look has seen already is not taken for one of this time: it was written down late.
fn compare(seen: &BTreeMap<i16, i64>, own: &RoundsByShard, now: &BTreeMap<i16, i64>) -> Vec<News> {
    let others = |(row, round): &(&i16, &i64)| {
        let before = seen.get(row).copied().unwrap_or_default();
        let ours = own.get(row).map_or(&[][..], Vec::as_slice).iter();
        let ours = ours.filter(|ours| before < **ours && *ours <= *round).count();
        **round > before + ours as i64
    };
    let told: Vec<i16> = now.iter().filter(others).map(|(row, _)| *row).collect();
    let shards: Vec<u16> = told.iter().filter_map(|row| u16::try_from(*row).ok()).collect();
    let mut news = Vec::new();
    news.extend(told.contains(&ROSTER).then_some(News::Roster));
    news.extend((!shards.is_empty()).then_some(News::Shards(shards)));
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_told_since_the_last_look_is_news() {
        let seen = BTreeMap::from([(ROSTER, 4), (7, 2), (8, 2)]);
        let own = RoundsByShard::from([(7, vec![3]), (8, vec![3]), (9, vec![1])]);
        let now = BTreeMap::from([(ROSTER, 5), (7, 3), (8, 4), (9, 1), (10, 1)]);
        assert_eq!(compare(&seen, &own, &now), [News::Roster, News::Shards(vec![8, 10])]);
        assert_eq!(compare(&now, &RoundsByShard::new(), &now), []);
    }

    #[test]
    fn an_own_round_that_is_written_down_late_hides_nobody_elses() {
        let (seen, now) = (BTreeMap::from([(7, 6)]), BTreeMap::from([(7, 7)]));
        assert_eq!(compare(&seen, &RoundsByShard::from([(7, vec![6])]), &now), [News::Shards(vec![7])]);
    }
}
