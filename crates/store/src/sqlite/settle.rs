//! Settling: the row decides, then the fact is written.
//!
//! A row that is not there any more, or has another number of attempts behind it, was moved by somebody else: then
//! nothing moves, and the attempt is written as late. Unless the fact is there already: then this is a repetition, and
//! the answer is what it was the first time.

use super::{
    Trouble,
    catalog::next_version,
    replay,
    row::{Key as _, blob},
    tally,
    trouble::Reach,
};
use crate::{Consequence, Fact, Settlement, StoreError, detail};
use domain::{
    attempt::Attempt,
    delivery::{Delivery, Ending, Settled},
    id::{AccountId, AttemptId, DestinationId, NodeId},
    limits,
    outcome::{DeadReason, Outcome},
    time::Timestamp,
};
use rusqlite::{
    Connection, OptionalExtension as _, params,
    types::{ToSqlOutput, ValueRef},
};
use std::collections::{BTreeSet, HashMap, HashSet};

pub(super) const END: &str = include_str!("sql/settle_end.sql");
pub(super) const WAIT: &str = include_str!("sql/settle_wait.sql");
pub(super) const FACT: &str = include_str!("sql/settle_fact.sql");
const COUNT_DEAD_LETTER: &str = include_str!("sql/count_dead_letter.sql");

pub(super) const SETTLED_BEFORE: &str =
    "select 1 from attempts where delivery_id = ?1 and attempt_id = ?2 and not late";

/// What a settlement did.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    Moved,
    /// It moved its delivery before, and nothing now.
    Repeated,
    Nothing,
}

/// A settlement and what is to be written of it.
pub(super) struct Entry {
    /// As it was when its attempt started.
    delivery: Delivery,
    settled: Settled,
    fact: AttemptId,
    ended_at: Timestamp,
    node: Option<NodeId>,
    attempted: Option<Attempted>,
    consequence: Option<Consequence>,
}

struct Attempted {
    number: u32,
    started_at: Timestamp,
    duration_us: i64,
    outcome: Outcome,
    http_status: Option<u16>,
    detail: detail::Kept,
}

impl Entry {
    pub(super) fn new(settlement: &Settlement) -> Self {
        let delivery = &settlement.delivery;
        match &settlement.fact {
            Fact::Attempted(attempt) => Self {
                delivery: delivery.clone(),
                settled: settlement.settled,
                fact: attempt.id,
                ended_at: attempt.started_at.plus(attempt.duration),
                node: Some(attempt.node),
                attempted: Some(Attempted::new(attempt)),
                consequence: settlement.consequence,
            },
            Fact::EndedWithout { id, at, node, ending } => Self {
                settled: settlement.settled,
                consequence: settlement.consequence,
                ..Self::ended_without(delivery, *id, *at, Some(*node), *ending)
            },
        }
    }

    pub(super) fn ended_without(
        delivery: &Delivery,
        fact: AttemptId,
        at: Timestamp,
        node: Option<NodeId>,
        ending: Ending,
    ) -> Self {
        Self {
            delivery: delivery.clone(),
            settled: Settled::Ended(ending),
            fact,
            ended_at: at,
            node,
            attempted: None,
            consequence: None,
        }
    }

    fn settle(&self, connection: &Connection) -> Result<Effect, Trouble> {
        if self.move_row(connection)? {
            self.record(connection, true)?;
            if let (Some(id), Settled::Ended(ending)) = (self.delivery.replay_id, self.settled) {
                replay::count(connection, id, ending)?;
            }
            return Ok(Effect::Moved);
        }
        let fact = params![self.delivery.id.blob(), self.fact.blob()];
        if connection.prepare_cached(SETTLED_BEFORE)?.exists(fact)? {
            return Ok(Effect::Repeated);
        }
        self.record(connection, false)?;
        Ok(Effect::Nothing)
    }

    fn move_row(&self, connection: &Connection) -> Result<bool, Trouble> {
        let delivery = &self.delivery;
        let (account, id) = (delivery.account_id.blob(), delivery.id.blob());
        let rows = match self.settled {
            Settled::Ended(_) => {
                let ended =
                    connection.prepare_cached(END)?.execute(params![account, id, delivery.attempts])?;
                if ended == 1 {
                    tally::went(delivery);
                }
                ended
            }
            Settled::Waits { position, due_at, spent } => {
                let tried = self.attempted.as_ref();
                connection.prepare_cached(WAIT)?.execute(params![
                    account,
                    id,
                    delivery.attempts,
                    position.track,
                    position.rank,
                    due_at.micros(),
                    spent,
                    tried.is_some(),
                    tried.is_some_and(|tried| tried.outcome == Outcome::TlsError),
                    tried.map(|tried| tried.outcome.as_str()),
                    tried.and_then(|tried| tried.http_status),
                ])?
            }
        };
        Ok(rows == 1)
    }

    /// Writes the fact, once whatever happens. An ending that ended nothing is none.
    pub(super) fn record(&self, connection: &Connection, moved: bool) -> Result<(), Trouble> {
        let ending = match self.settled {
            Settled::Ended(ending) if moved => Some(ending),
            _ => None,
        };
        if self.attempted.is_none() && ending.is_none() {
            return Ok(());
        }
        let (delivery, tried) = (&self.delivery, self.attempted.as_ref());
        let spent = match self.settled {
            Settled::Ended(_) => delivery.spent,
            Settled::Waits { spent, .. } => spent,
        };
        // Without an attempt: of the last one before.
        let http_status = tried.map_or(delivery.last_http_status, |tried| tried.http_status);
        let written = connection.prepare_cached(FACT)?.execute(params![
            delivery.id.blob(),
            self.fact.blob(),
            delivery.account_id.blob(),
            delivery.event_id.blob(),
            delivery.destination_id.blob(),
            delivery.route_id.blob(),
            blob(delivery.replay_id),
            delivery.origin.blob(),
            tried.map(|tried| tried.number),
            spent,
            tried.map(|tried| tried.started_at.micros()),
            tried.map(|tried| tried.duration_us),
            tried.map(|tried| tried.outcome.as_str()),
            http_status,
            blob(self.node),
            ending.map(|ending| ending.status().as_str()),
            ending.and_then(Ending::reason),
            ending.map(|_| self.ended_at.micros()),
            !moved,
            tried.map(|tried| written(&tried.detail)),
            delivery.sequence,
        ])?;
        if let (1, Some(Ending::DeadLetter(reason))) = (written, ending) {
            let (account, destination) = (delivery.account_id.blob(), delivery.destination_id.blob());
            let group = params![account, destination, reason.as_str(), http_status];
            connection.prepare_cached(COUNT_DEAD_LETTER)?.execute(group)?;
        }
        Ok(())
    }
}

impl Attempted {
    fn new(attempt: &Attempt) -> Self {
        Self {
            number: attempt.number,
            started_at: attempt.started_at,
            duration_us: i64::try_from(attempt.duration.as_micros()).unwrap_or(i64::MAX),
            outcome: attempt.outcome,
            http_status: attempt.http_status,
            detail: detail::Kept::of(&attempt.detail),
        }
    }
}

/// How many of them the writer takes in one flush. Rows of one destination lie side by side, those of another on other
/// pages: 256 of a crowd would hold it for much longer than 256 of a few.
pub(super) fn part(entries: &[Entry]) -> usize {
    let mut destinations = HashSet::new();
    let mut fits = |entry: &Entry| {
        destinations.insert(entry.delivery.destination_id);
        destinations.len() <= limits::SETTLE_DESTINATIONS_ONE_WRITER
    };
    entries.iter().take_while(|entry| fits(entry)).count()
}

/// A blob where it is packed.
fn written(detail: &detail::Kept) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match detail {
        detail::Kept::Text(text) => ValueRef::Text(text.as_bytes()),
        detail::Kept::Packed(packed) => ValueRef::Blob(packed),
    })
}

/// All at once or, where SQLite will not take one of them, one by one. Nobody asks which node it is: one process has the
/// lock, and what it says is the owner's word.
pub(super) fn settle(
    connection: &Connection,
    entries: &[Entry],
    one_by_one: bool,
    now: Timestamp,
) -> Result<Vec<bool>, Trouble> {
    let effects: Result<Vec<Effect>, Trouble> = match one_by_one {
        false => entries.iter().map(|entry| entry.settle(connection)).collect(),
        true => entries.iter().map(|entry| settle_alone(connection, entry, now)).collect(),
    };
    let effects = effects?;
    let moved = entries.iter().zip(&effects).filter(|(_, effect)| **effect == Effect::Moved);
    let consequence = |entry: &Entry| Some((entry.consequence?, entry.delivery.destination_id));
    switch(connection, moved.filter_map(|(entry, _)| consequence(entry)).collect(), now)?;
    Ok(effects.iter().map(|effect| *effect != Effect::Nothing).collect())
}

/// One that SQLite will not take ends its delivery with the least that can be said: left in the queue, it would be sent
/// again for ever.
fn settle_alone(connection: &Connection, entry: &Entry, now: Timestamp) -> Result<Effect, Trouble> {
    if let Some(effect) = try_to_settle(connection, entry)? {
        return Ok(effect);
    }
    let ending = Ending::DeadLetter(DeadReason::Undeliverable);
    let least = Entry::ended_without(&entry.delivery, entry.fact, now, entry.node, ending);
    Ok(try_to_settle(connection, &least)?.unwrap_or(Effect::Nothing))
}

/// None if SQLite will not take it: then nothing of it is written, and its neighbours go on.
fn try_to_settle(connection: &Connection, entry: &Entry) -> Result<Option<Effect>, Trouble> {
    connection.prepare_cached("savepoint settlement")?.execute([])?;
    let mark = tally::mark();
    let effect = match entry.settle(connection) {
        Err(trouble) if trouble.reach() == Reach::Row && !connection.is_autocommit() => {
            connection.prepare_cached("rollback to settlement")?.execute([])?;
            tally::back_to(mark);
            let error = StoreError::from(trouble);
            tracing::error!(delivery_id = %entry.delivery.id, %error, "a settlement was refused");
            None
        }
        effect => Some(effect?),
    };
    connection.prepare_cached("release settlement")?.execute([])?;
    Ok(effect)
}

/// One change per account, however many of its destinations it is about. Disabling comes first: what is disabled is not
/// paused.
fn switch(
    connection: &Connection,
    consequences: BTreeSet<(Consequence, DestinationId)>,
    now: Timestamp,
) -> Result<(), Trouble> {
    let mut versions: HashMap<AccountId, i64> = HashMap::new();
    for (consequence, id) in consequences {
        let (changes, change) = match consequence {
            Consequence::Disables => (
                "select account_id from destinations where id = ?1 and disabled_at is null",
                "update destinations set disabled_at = ?2, disabled_reason = 'gone', version = ?3 where id = ?1",
            ),
            Consequence::Pauses => (
                "select account_id from destinations
                 where id = ?1 and disabled_at is null and paused_at is null and deleted_at is null",
                "update destinations set paused_at = ?2, version = ?3 where id = ?1",
            ),
        };
        let mut select = connection.prepare_cached(changes)?;
        let account = select.query_row([id.blob()], |row| super::row::id(row, 0)).optional()?;
        let Some(account) = account else { continue };
        let version = match versions.get(&account) {
            Some(version) => *version,
            None => next_version(connection, account)?,
        };
        versions.insert(account, version);
        connection.prepare_cached(change)?.execute(params![id.blob(), now.micros(), version])?;
    }
    Ok(())
}
