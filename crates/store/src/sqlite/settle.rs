//! Settling: the row decides, then the fact is written.
//!
//! A row that is not there any more, or has another number of attempts behind it, was moved by another settlement or a
//! cancel: then nothing moves, and the attempt is written as late. Unless the fact is there already: then this is a
//! repetition, and the answer is what it was the first time.

use super::{
    Trouble,
    catalog::{next_version, version},
    dead_letters, operational_events, replay,
    statement::{Value, bound, sql},
    tally,
    trouble::Reach,
};
use crate::{Consequence, Fact, Settlement, StoreError, dead_letters::day_of, detail};
use domain::{
    attempt::Attempt,
    delivery::{Delivery, Ending, Settled},
    id::{AccountId, AttemptId, DestinationId, NodeId},
    limits,
    operations::OperationalNote,
    outcome::{DeadReason, Outcome},
    time::Timestamp,
};
use rusqlite::{CachedStatement, Connection, types::ValueRef};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    time::{Duration, Instant},
};

pub(super) const SETTLE_END: &str = sql!("settle_end");
pub(super) const SETTLE_WAIT: &str = sql!("settle_wait");
pub(super) const SETTLE_FACT: &str = sql!("settle_fact");
pub(super) const SETTLED_BEFORE: &str = sql!("settled_before");
const IS_ERASED: &str = sql!("is_erased");
const SETTLE_DEAD_LETTER: &str = sql!("settle_dead_letter");
const COUNT_DEAD_LETTER: &str = sql!("count_dead_letter");

/// What a settlement did.
#[derive(Clone, Copy, PartialEq)]
enum Effect {
    /// To this end, if it ended.
    Moved(Option<Ending>),
    /// It moved its delivery before, and nothing now.
    Repeated,
    Nothing,
}

/// A settlement and what is to be written of it.
pub(super) struct PreparedSettlement {
    /// As it was when its attempt started.
    delivery: Delivery,
    settled: Settled,
    fact: AttemptId,
    ended_at: Timestamp,
    node: Option<NodeId>,
    attempted: Option<Attempted>,
    consequence: Option<Consequence>,
}

/// What most settlements need, ready.
struct SettleStatements<'c> {
    connection: &'c Connection,
    end: CachedStatement<'c>,
    fact: CachedStatement<'c>,
}

impl<'c> SettleStatements<'c> {
    fn new(connection: &'c Connection) -> Result<Self, Trouble> {
        let (end, fact) = (connection.prepare_cached(SETTLE_END)?, connection.prepare_cached(SETTLE_FACT)?);
        Ok(Self { connection, end, fact })
    }
}

struct Attempted {
    number: u32,
    started_at: Timestamp,
    duration_us: i64,
    outcome: Outcome,
    http_status: Option<u16>,
    detail: detail::StoredDetail,
}

impl PreparedSettlement {
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

    fn settle(&self, with: &mut SettleStatements<'_>) -> Result<Effect, Trouble> {
        let connection = with.connection;
        if self.move_row(with)? {
            self.record_on(with.connection, &mut with.fact, true)?;
            let Settled::Ended(ending) = self.settled else { return Ok(Effect::Moved(None)) };
            dead_letters::resolve(connection, &self.delivery, ending, self.ended_at)?;
            return Ok(Effect::Moved(Some(ending)));
        }
        let before = bound!(SETTLED_BEFORE, delivery_id: self.delivery.id, attempt_id: self.fact);
        if before.exists(connection)? {
            return Ok(Effect::Repeated);
        }
        let erased = bound!(
            IS_ERASED,
            account_id: self.delivery.account_id,
            event_id: self.delivery.event_id,
        );
        if !erased.exists(connection)? {
            self.record_on(connection, &mut with.fact, false)?;
        }
        Ok(Effect::Nothing)
    }

    fn move_row(&self, with: &mut SettleStatements<'_>) -> Result<bool, Trouble> {
        let Delivery { id, account_id, attempts, .. } = self.delivery;
        let rows = match self.settled {
            Settled::Ended(_) => {
                let ended = bound!(SETTLE_END, account_id: account_id, delivery_id: id, attempts: attempts)
                    .execute_on(&mut with.end)?;
                if ended == 1 {
                    tally::went(&self.delivery);
                }
                ended
            }
            Settled::Waits { position, due_at, spent } => {
                let tried = self.attempted.as_ref();
                bound!(
                    SETTLE_WAIT,
                    account_id: account_id,
                    delivery_id: id,
                    attempts: attempts,
                    track: position.track,
                    rank: position.rank,
                    due_at: due_at,
                    spent: spent,
                    tried: tried.is_some(),
                    tls_error: tried.is_some_and(|tried| tried.outcome == Outcome::TlsError),
                    outcome: tried.map(|tried| tried.outcome.as_str()),
                    http_status: tried.and_then(|tried| tried.http_status),
                )
                .execute(with.connection)?
            }
        };
        Ok(rows == 1)
    }

    /// Writes the fact, once whatever happens. An ending that ended nothing is none.
    pub(super) fn record(&self, connection: &Connection, moved: bool) -> Result<(), Trouble> {
        self.record_on(connection, &mut connection.prepare_cached(SETTLE_FACT)?, moved)
    }

    fn record_on(
        &self,
        connection: &Connection,
        insert: &mut CachedStatement<'_>,
        moved: bool,
    ) -> Result<(), Trouble> {
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
        let written = bound!(
            SETTLE_FACT,
            delivery_id: delivery.id,
            attempt_id: self.fact,
            account_id: delivery.account_id,
            event_id: delivery.event_id,
            destination_id: delivery.destination_id,
            route_id: delivery.route_id,
            replay_id: delivery.replay_id,
            origin: delivery.origin,
            number: tried.map(|tried| tried.number),
            spent: spent,
            started_at: tried.map(|tried| tried.started_at),
            duration_us: tried.map(|tried| tried.duration_us),
            outcome: tried.map(|tried| tried.outcome.as_str()),
            http_status: http_status,
            node_id: self.node,
            ending: ending.map(|ending| ending.status().as_str()),
            reason: ending.and_then(Ending::reason),
            ended_at: ending.map(|_| self.ended_at),
            late: !moved,
            detail: tried.map(|tried| &tried.detail),
            sequence: delivery.sequence,
        )
        .execute_on(insert)?;
        if let (1, Some(Ending::DeadLetter(reason))) = (written, ending) {
            bound!(
                COUNT_DEAD_LETTER,
                account_id: delivery.account_id,
                destination_id: delivery.destination_id,
                reason: reason.as_str(),
                http_status: http_status,
                outcome: tried.map_or(delivery.last_outcome, |tried| Some(tried.outcome)).map(Outcome::as_str),
                day: day_of(delivery.id.made_at()),
                delivery_id: delivery.id,
            )
            .execute(connection)?;
            // A delivery of an operational event makes none.
            if !delivery.event_id.is_operational() {
                bound!(
                    SETTLE_DEAD_LETTER,
                    minute: self.ended_at.floor(Duration::from_secs(60)),
                    destination_id: delivery.destination_id,
                    reason: reason.as_str(),
                    http_status: http_status,
                    account_id: delivery.account_id,
                )
                .execute(connection)?;
            }
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
            detail: detail::StoredDetail::of(&attempt.detail),
        }
    }
}

/// Says how many settlements the writer takes in one flush while events come. Rows of one destination lie side by side, those of
/// another on other pages: 256 of a crowd may hold it for much longer than 256 of a few. How much longer depends on which of
/// those pages are in memory, so it is seen by the clock.
pub(super) struct FlushShare {
    begun: Instant,
    destinations: HashSet<DestinationId>,
    hurry: bool,
}

impl FlushShare {
    /// All of them, unless there is a hurry.
    pub(super) fn begin(hurry: bool) -> Self {
        Self { begun: Instant::now(), destinations: HashSet::new(), hurry }
    }

    fn takes(&mut self, destination: DestinationId) -> bool {
        if !self.hurry {
            return true;
        }
        self.destinations.insert(destination);
        self.destinations.len() <= limits::SETTLE_DESTINATIONS_ONE_WRITER
            || self.begun.elapsed() < limits::SETTLE_HURRY_ONE_WRITER
    }
}

/// A blob where it is packed.
impl Value for detail::StoredDetail {
    fn value(&self) -> ValueRef<'_> {
        match self {
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Packed(packed) => ValueRef::Blob(packed),
        }
    }
}

/// As many as are its share, all at once or, where SQLite will not take one of them, one by one. The node is not asked for: one process has the
/// lock, and what it says is the owner's word.
pub(super) fn settle(
    connection: &Connection,
    settlements: &[PreparedSettlement],
    mut share: FlushShare,
    one_by_one: bool,
    now: Timestamp,
) -> Result<Vec<bool>, Trouble> {
    let mut with = SettleStatements::new(connection)?;
    let its_own = settlements.iter().take_while(|settlement| share.takes(settlement.delivery.destination_id));
    let effects: Result<Vec<Effect>, Trouble> = match one_by_one {
        false => its_own.map(|settlement| settlement.settle(&mut with)).collect(),
        true => its_own.map(|settlement| settle_alone(&mut with, settlement, now)).collect(),
    };
    let effects = effects?;
    drop(with);
    let ended = settlements.iter().zip(&effects).filter_map(|(settlement, effect)| match effect {
        Effect::Moved(Some(ending)) => Some((settlement.delivery.replay_id?, *ending)),
        _ => None,
    });
    replay::count(connection, ended)?;
    let moved = settlements.iter().zip(&effects).filter(|(_, effect)| matches!(effect, Effect::Moved(_)));
    let consequence =
        |settlement: &PreparedSettlement| Some((settlement.consequence?, settlement.delivery.destination_id));
    switch(connection, moved.filter_map(|(settlement, _)| consequence(settlement)).collect(), now)?;
    Ok(effects.iter().map(|effect| *effect != Effect::Nothing).collect())
}

/// One that SQLite will not take ends its delivery with the least that can be said: left in the queue, it would be sent
/// again for ever.
fn settle_alone(
    with: &mut SettleStatements<'_>,
    settlement: &PreparedSettlement,
    now: Timestamp,
) -> Result<Effect, Trouble> {
    if let Some(effect) = try_to_settle(with, settlement)? {
        return Ok(effect);
    }
    let ending = Ending::DeadLetter(DeadReason::Undeliverable);
    let least = PreparedSettlement::ended_without(
        &settlement.delivery,
        settlement.fact,
        now,
        settlement.node,
        ending,
    );
    Ok(try_to_settle(with, &least)?.unwrap_or(Effect::Nothing))
}

/// None if SQLite will not take it: then nothing of it is written, and its neighbours go on.
fn try_to_settle(
    with: &mut SettleStatements<'_>,
    settlement: &PreparedSettlement,
) -> Result<Option<Effect>, Trouble> {
    let connection = with.connection;
    connection.prepare_cached("savepoint settlement")?.execute([])?;
    let mark = tally::mark();
    let effect = match settlement.settle(with) {
        Err(trouble) if trouble.reach() == Reach::Row && !connection.is_autocommit() => {
            connection.prepare_cached("rollback to settlement")?.execute([])?;
            tally::back_to(mark);
            let error = StoreError::from(trouble);
            tracing::error!(delivery_id = %settlement.delivery.id, %error, "a settlement was refused");
            None
        }
        effect => Some(effect?),
    };
    connection.prepare_cached("release settlement")?.execute([])?;
    Ok(effect)
}

const NOT_DISABLED: &str = "select account_id from destinations where id = :id and disabled_at is null";
const MAY_BE_PAUSED: &str = sql!("may_be_paused");
const DISABLE: &str =
    "update destinations set disabled_at = :now, disabled_reason = 'gone', version = :version where id = :id";
const PAUSE: &str = "update destinations set paused_at = :now, version = :version where id = :id";

/// One change per account, however many of its destinations it is about. Disabling comes first: what is disabled is not
/// paused.
fn switch(
    connection: &Connection,
    consequences: BTreeSet<(Consequence, DestinationId)>,
    now: Timestamp,
) -> Result<(), Trouble> {
    let mut versions: HashMap<AccountId, i64> = HashMap::new();
    for (consequence, id) in consequences {
        let account = match consequence {
            Consequence::Disables => bound!(NOT_DISABLED, id: id).first(connection, |it| Ok(it.id()?))?,
            Consequence::Pauses => bound!(MAY_BE_PAUSED, id: id).first(connection, |it| Ok(it.id()?))?,
        };
        let Some(account) = account else { continue };
        let next = match versions.get(&account) {
            Some(known) => *known,
            None => match version(connection, account)? {
                Some(_) => next_version(connection, account)?,
                // Nothing of an account that was deleted changes any more.
                None => continue,
            },
        };
        versions.insert(account, next);
        match consequence {
            Consequence::Disables => {
                let note = OperationalNote::of_disabled(account, id, "gone", now);
                operational_events::note(connection, &note)?;
                bound!(DISABLE, id: id, now: now, version: next).execute(connection)?
            }
            Consequence::Pauses => bound!(PAUSE, id: id, now: now, version: next).execute(connection)?,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(mut share: FlushShare) -> usize {
        let destinations = (0..256).map(|number| DestinationId::at(Timestamp::MIN, number));
        destinations.take_while(|destination| share.takes(*destination)).count()
    }

    #[test]
    fn while_events_come_a_flush_has_what_is_written_soon_and_that_of_a_few_destinations_in_any_case() {
        let long_ago =
            Instant::now().checked_sub(Duration::from_secs(1)).expect("a machine that runs for a second");
        let slow = |hurry| FlushShare { begun: long_ago, ..FlushShare::begin(hurry) };
        assert_eq!(taken(slow(true)), limits::SETTLE_DESTINATIONS_ONE_WRITER);
        assert_eq!(taken(slow(false)), 256, "nobody waits");
        let soon = FlushShare { begun: Instant::now() + Duration::from_secs(60), ..FlushShare::begin(true) };
        assert_eq!(taken(soon), 256);
    }
}
