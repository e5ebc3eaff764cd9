//! What happens to the lane: the store, the destination, people and other nodes.

use super::*;
use crate::{
    delivery::{Circumstances, settle},
    outcome::{Classified, Fault, ResponseFacts, classify, classify_fault},
};

impl World {
    pub(super) fn happen(&mut self, happening: Happening) -> Result<(), String> {
        tell!(self, "{}", brief(&happening));
        match happening {
            Happening::Publish => self.publish(),
            Happening::Commit(delivery, word) => {
                if !matches!(word, Word::RolledBack | Word::UnknownRolledBack) {
                    let mut row = delivery.clone();
                    if row.position.rank == Position::END {
                        self.number(&mut row);
                    }
                    self.rows.insert(row.id, row);
                }
                let after = self.dice.delay();
                self.plan(after, Happening::Announce(delivery, word, self.now));
            }
            Happening::Announce(delivery, word, written_at) => self.announce(delivery, word, written_at),
            Happening::Read(read) => self.look_into_the_store(read),
            Happening::Answer(read) => self.answer(read),
            Happening::Sweep(query) => self.sweep(query),
            Happening::Swept(query, heads, failed) => {
                self.sweeping -= 1;
                match failed {
                    true => self.lane.sweep_failed(&query),
                    false => self.lane.swept(&query, &heads, heads.len() < SWEPT, self.now),
                }
            }
            Happening::Numbering(delivery, track) => self.give_number(&delivery, track),
            Happening::Numbered(id, place) => {
                self.numbering -= 1;
                self.lane.numbered(id, place);
            }
            Happening::Respond(id) => self.respond(id)?,
            Happening::Abandon(id) => {
                let (delivery, _) = self.open.remove(&id).ok_or("abandoned what is not open")?;
                self.lane.abandoned(id, delivery.position);
                self.seen.abandoned += 1;
            }
            Happening::Durable(index) => self.make_durable(index),
            Happening::Told(index) => {
                let settling = &self.settling[index];
                self.unflushed.remove(&settling.delivery.id);
                self.seen.settled_meanwhile += u64::from(self.lane.fetching);
                let track = settling.delivery.position.track;
                self.lane.flushed(settling.delivery.id, track, &settling.settled, self.now);
            }
            Happening::Meddle => self.meddle(),
            Happening::Configured => self.lane.configured(self.settings.clone()),
            Happening::Refresh => self.lane.refresh(self.now),
            Happening::Wake => self.wake_at = None,
            Happening::Round => {}
        }
        Ok(())
    }

    fn publish(&mut self) {
        for _ in 0..self.dice.between(1, 4) {
            let word = match self.dice.below(20) {
                0 => Word::RolledBack,
                1 => Word::UnknownCommitted,
                2 => Word::UnknownRolledBack,
                3 | 4 => Word::Look,
                _ => Word::Arrived,
            };
            let later = match self.dice.below(10) {
                0 => self.dice.below(20_000),
                1 => self.dice.below(1_500),
                _ => 0,
            };
            self.made += 1;
            let id = DeliveryId::at(self.now, self.dice.next().into());
            let due_at = self.now.plus(Duration::from_millis(later));
            let track = self.track();
            let position = match self.settings.ordering {
                Ordering::None => Position::due(due_at, id),
                _ if later > 0 => Position::awaits_time(due_at, id),
                _ => Position::ordered(track, Position::END, id),
            };
            let delivery = Delivery {
                id,
                origin: id,
                position,
                due_at,
                available_at: due_at,
                created_at: self.now,
                ..super::delivery(0)
            };
            if word != Word::Look {
                self.lane.expected(id);
            }
            self.unannounced += 1;
            let after = self.dice.delay();
            self.plan(after, Happening::Commit(delivery, word));
        }
    }

    fn announce(&mut self, delivery: Delivery, word: Word, written_at: Timestamp) {
        self.unannounced -= 1;
        match word {
            Word::Arrived => {
                let room = self.dice.chance(90);
                self.lane.arrived(delivery, written_at, room, self.now);
            }
            Word::RolledBack => self.lane.forgotten(delivery.id),
            Word::UnknownCommitted | Word::UnknownRolledBack => {
                self.lane.forgotten(delivery.id);
                self.lane.look_at(delivery.position);
            }
            Word::Look if self.dice.chance(50) => self.lane.look(delivery.position),
            Word::Look => self.lane.look_at(delivery.position),
        }
        // The destination is read soon after its lane is first heard of.
        self.lane.configured(self.settings.clone());
    }

    fn look_into_the_store(&mut self, number: u64) {
        let Some(read) = self.reads.get_mut(&number) else { return };
        let WindowQuery { from, last_track, limit, .. } = read.query;
        let asked = |row: &&Delivery| row.position >= from && row.position.track <= last_track;
        let mut rows: Vec<_> = self.rows.values().filter(asked).cloned().collect();
        rows.sort_by_key(|row| row.position);
        rows.truncate(limit);
        read.rows = rows.into_iter().map(|row| (row, self.now)).collect();
        let after = self.dice.delay();
        self.plan(after, Happening::Answer(number));
    }

    fn answer(&mut self, number: u64) {
        let Some(read) = self.reads.remove(&number) else { return };
        self.seen.fetches += 1;
        self.seen.full_fetches += u64::from(read.rows.len() == read.query.limit);
        let expected = |(row, _): &&(Delivery, Timestamp)| {
            self.lane.known.get(&row.id).is_some_and(|known| known.stage == DeliveryStage::Expected)
        };
        self.seen.ignored_while_expected += read.rows.iter().filter(expected).count() as u64;
        if read.fails {
            self.lane.fetch_failed(&read.query);
        } else {
            // As the dispatcher does: by what the lane says of itself.
            let ordering = self.lane.ordering();
            let row = |(delivery, carried): (Delivery, Timestamp)| {
                let track = match ordering {
                    Ordering::None => Position::UNORDERED,
                    Ordering::Strict => Position::STRICT,
                    Ordering::Key => key_of(delivery.id),
                };
                WindowRow { delivery, carried, track }
            };
            self.lane.fetched(&read.query, read.rows.into_iter().map(row).collect(), self.now);
        }
    }

    /// The first row of each track, from this one on.
    fn sweep(&mut self, query: TrackQuery) {
        let mut heads = BTreeMap::<i64, TrackHead>::new();
        for row in self.rows.values().filter(|row| row.position.track >= query.from) {
            let head = TrackHead { first: row.position, due_at: row.due_at };
            let lowest = heads.entry(row.position.track).or_insert(head);
            if head.first < lowest.first {
                *lowest = head;
            }
        }
        let heads = heads.into_values().take(SWEPT).collect();
        let failed = !self.calm && self.dice.chance(8);
        let after = self.dice.delay();
        self.plan(after, Happening::Swept(query, heads, failed));
    }

    /// The destination's next number.
    fn number(&mut self, row: &mut Delivery) {
        self.sequence += 1;
        row.sequence = Some(self.sequence);
        row.position.rank = self.sequence;
    }

    fn give_number(&mut self, delivery: &Delivery, track: i64) {
        let mut place = delivery.position;
        let fails = !self.calm && self.dice.chance(8);
        let waits = |row: &Delivery| row.position.track == Position::AWAITS_TIME;
        if let Some(mut row) = self.rows.get(&delivery.id).filter(|row| !fails && waits(row)).cloned() {
            row.position.track = track;
            self.number(&mut row);
            place = Position::ordered(track, Position::END, row.id);
            self.rows.insert(row.id, row);
            self.seen.numbered += 1;
        }
        let after = self.dice.delay();
        self.plan(after, Happening::Numbered(delivery.id, place));
    }

    fn track(&mut self) -> i64 {
        match self.settings.ordering {
            Ordering::None => Position::UNORDERED,
            Ordering::Strict => Position::STRICT,
            Ordering::Key => self.dice.between(2, 4) as i64,
        }
    }

    fn respond(&mut self, id: DeliveryId) -> Result<(), String> {
        let (delivery, started_at) = self.open.remove(&id).ok_or("an answer without a request")?;
        let (met, retry_after) = self.answer_of_the_destination();
        tell!(self, "  meets {:?}", met.outcome);
        match met.outcome {
            Outcome::Throttled => self.note_throttle(started_at, retry_after),
            Outcome::Success | Outcome::Rejected | Outcome::Gone
                if self.probing_from.is_some_and(|from| started_at >= from && self.now >= from) =>
            {
                self.probing_from = None;
            }
            _ => {}
        }
        let on = Circumstances {
            policy: &self.policy,
            now: self.now,
            resumed_at: self.settings.resumed_at,
            ordered: self.settings.ordering != Ordering::None,
            jitter: 0.5,
        };
        let settled = settle(&delivery, &met, on);
        let met = MetOutcome { outcome: met.outcome, started_at, retry_after };
        self.lane.finished(id, met, &self.gate, self.now);
        self.settle_later(delivery, settled);
        Ok(())
    }

    fn answer_of_the_destination(&mut self) -> (Classified, Option<Duration>) {
        let roll = if self.calm { 99 } else { self.dice.below(100) };
        let retry_after = Some(Duration::from_secs(self.dice.between(1, 6))).filter(|_| roll % 2 == 0);
        let status = match roll {
            0..=7 => 429,
            8..=29 => 503,
            30..=33 => 400,
            34..=36 => return (classify_fault(Fault::Tls), None),
            37..=43 => return (classify_fault(Fault::Reset), None),
            _ => 200,
        };
        let retry_after = retry_after.filter(|_| status == 429);
        let facts = ResponseFacts { status, retry_after, delivery_control: None };
        (classify(&facts, &self.policy), retry_after)
    }

    /// What the destination asked for, kept apart from the gate: its Retry-After, or the first rung of the ladder.
    fn note_throttle(&mut self, started_at: Timestamp, retry_after: Option<Duration>) {
        self.seen.throttled += 1;
        // Without Retry-After only a request that was started after the last hold, of any kind, opens a new window.
        let fresh = started_at >= self.last_hold_ends;
        let pause = retry_after.or(Some(self.gate.ladder[0]).filter(|_| fresh));
        if let Some(until) = pause.map(|pause| self.now.plus(pause)).filter(|until| *until > self.held_until)
        {
            self.held_until = until;
            self.probing_from = Some(until);
        }
    }

    pub(super) fn settle_later(&mut self, delivery: Delivery, settled: Settled) {
        self.unflushed.insert(delivery.id);
        self.settling.push(Settling { delivery, settled });
        let after = self.dice.delay();
        self.plan(after, Happening::Durable(self.settling.len() - 1));
    }

    /// The row decides: what has moved on since is not moved again.
    fn make_durable(&mut self, index: usize) {
        let Settling { delivery, settled, .. } = &self.settling[index];
        let id = delivery.id;
        if let Some(row) = self.rows.get_mut(&id).filter(|row| row.attempts == delivery.attempts) {
            match settled {
                Settled::Waits { position, due_at, spent } => {
                    row.position = *position;
                    row.due_at = *due_at;
                    row.spent = *spent;
                    row.attempts += 1;
                }
                Settled::Ended(ending) => {
                    let delivered = *ending == Ending::Delivered;
                    self.seen.delivered += u64::from(delivered);
                    self.seen.ended_otherwise += u64::from(!delivered);
                    self.rows.remove(&id);
                    self.ended.insert(id, End { at: self.now, cancelled: false });
                }
            }
        } else {
            // As the settler says it.
            self.settling[index].settled = Settled::Ended(Ending::Delivered);
        }
        let after = self.dice.delay();
        self.plan(after, Happening::Told(index));
    }

    /// People and other nodes.
    fn meddle(&mut self) {
        match self.dice.below(12) {
            // Only while nothing waits there.
            0..=6 if self.rows.is_empty() && self.unannounced == 0 => {
                self.settings.ordering = any_ordering(&mut self.dice);
                self.seen.reordered += 1;
            }
            0..=2 => self.settings.max_concurrency = self.dice.between(1, 5) as u32,
            3 | 4 => self.settings.mode = LaneMode::Paused { since: self.now },
            5 | 6 => {
                self.settings.mode = LaneMode::Deliver;
                self.settings.resumed_at = Some(self.now);
            }
            7 if self.dice.chance(30) => {
                self.settings.mode = LaneMode::End { with: DISABLED, since: self.now }
            }
            8 | 9 => return self.cancel_some(),
            10 => return self.retry_one_now(),
            _ => {
                self.lane.probe_now(self.now);
                if self.held_until > self.now {
                    self.held_until = self.now;
                    self.probing_from = Some(self.now);
                }
                return;
            }
        }
        tell!(self, "  settings {:?} {}", self.settings.mode, self.settings.max_concurrency);
        self.lane.outdated();
        let after = self.dice.delay();
        self.plan(after, Happening::Configured);
    }

    /// Directly in the store; the lane is told only if others may wait behind it.
    fn cancel_some(&mut self) {
        for id in self.rows.keys().copied().collect::<Vec<_>>() {
            if self.dice.chance(30) {
                tell!(self, "  cancels {id}");
                let row = self.rows.remove(&id);
                self.ended.insert(id, End { at: self.now, cancelled: true });
                if let Some(row) = row.filter(|row| row.position.track != Position::UNORDERED) {
                    self.unannounced += 1;
                    let after = self.dice.delay();
                    self.plan(after, Happening::Announce(row, Word::Look, self.now));
                }
            }
        }
    }

    fn retry_one_now(&mut self) {
        let (now, pick) = (self.now, self.dice.next() as usize);
        let mut waiting: Vec<_> = self.rows.values_mut().filter(|row| row.due_at > now).collect();
        if waiting.is_empty() {
            return;
        }
        let count = waiting.len();
        let row = &mut waiting[pick % count];
        row.due_at = now;
        if row.sequence.is_none() {
            row.position.rank = now.micros();
        }
        let moved = row.clone();
        self.unannounced += 1;
        let after = self.dice.delay();
        self.plan(after, Happening::Announce(moved, Word::Look, now));
    }
}
