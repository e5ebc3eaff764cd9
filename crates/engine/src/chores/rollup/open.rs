//! Minutes that are not summed up for good yet. What has become durable is added to them every few seconds and written
//! where the final sums will be, so that statistics are a few seconds old at any rate, and nobody who asks for them reads
//! facts.
//!
//! A fact is read once, as it appears; the sums are in memory, and whole when they are written: a node that dies, or
//! writes twice, leaves nothing behind that does not mend itself. The next one begins anew with the minutes that are open
//! then, and says so only once all before them are summed up for good.

use super::breathe;
use crate::chores::term::{ChoreTerm, Stopped};
use domain::{
    id::{AccountId, DestinationId},
    limits,
    rollup::{Span, Sums},
    time::{Clock, Timestamp},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store::{Rollup, RollupKind, RollupMark, Store, SumPlace};
use tokio::time::Instant;

pub(in crate::chores) struct OpenMinutes {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    chore_term: ChoreTerm,
    every: Duration,
    added_up: Option<AddedUp>,
}

/// What a node has added up since it took the chore.
struct AddedUp {
    /// The first minute that is open.
    first: Timestamp,
    /// Which facts are in it.
    place: Option<SumPlace>,
    accounts: OpenSums,
    destinations: OpenSums,
    /// The first slice whose events are counted again, and what was counted from there on.
    counted_from: Timestamp,
    counted: BTreeMap<(Timestamp, AccountId), (u64, u64)>,
}

/// Sums of open minutes, by where and when.
struct OpenSums {
    /// Minutes before this one are not here, or not whole.
    since: Timestamp,
    sums: BTreeMap<OpenPlace, Sums>,
    /// Not written yet as they are.
    changed: BTreeSet<OpenPlace>,
}

/// A minute of a destination, or of an account as a whole.
type OpenPlace = (Timestamp, AccountId, Option<DestinationId>);

impl OpenMinutes {
    pub(in crate::chores) fn new(chore_term: ChoreTerm, every: Duration) -> Self {
        let (store, clock) = (Arc::clone(&chore_term.store), Arc::clone(&chore_term.clock));
        Self { store, clock, chore_term, every, added_up: None }
    }

    pub(in crate::chores) async fn run(mut self) {
        loop {
            supervisor::failpoint();
            tokio::time::sleep(self.every).await;
            match self.round().await {
                Ok(()) => {}
                // Another node goes on with it: what is here grows old.
                Err(Stopped::TermOver) => self.added_up = None,
                Err(Stopped::Trouble(error)) => {
                    tracing::warn!(%error, "the last minutes could not be summed up; trying again later");
                }
            }
        }
    }

    async fn round(&mut self) -> Result<(), Stopped> {
        self.chore_term.term().await?;
        let now = self.clock.now();
        let first = Span::Minute.start_after(now.minus(limits::OPEN_MINUTE));
        let mut added_up = AddedUp::carried_on(self.added_up.take(), first);
        // What is added up by a step stays, whatever becomes of the next one.
        let stopped = self.add_up(&mut added_up, first, now).await;
        self.added_up = Some(added_up);
        stopped
    }

    async fn add_up(
        &mut self,
        added_up: &mut AddedUp,
        first: Timestamp,
        now: Timestamp,
    ) -> Result<(), Stopped> {
        let current = Span::Minute.start_of(now);
        let end = current.plus(Span::Minute.length());
        loop {
            self.chore_term.term().await?;
            let began = Instant::now();
            let fresh = self.store.sum_fresh(first, end, added_up.place.clone()).await?;
            added_up.place = Some(fresh.place);
            for ((minute, account, destination), found) in &fresh.sums {
                added_up.accounts.add((*minute, *account, None), found);
                added_up.destinations.add((*minute, *account, Some(*destination)), found);
            }
            breathe(began).await;
            if !fresh.more {
                break;
            }
        }
        self.count_events(added_up, now).await?;
        self.write(added_up).await?;
        let closed = match self.store.mark(RollupMark::Sums(Span::Minute)).await? {
            Some(closed) => closed,
            // Nothing was ever summed up: all there is must be in the open minutes.
            None => Span::Minute.start_of(self.store.oldest_event().await?.unwrap_or(now)),
        };
        for (mark, sums) in [
            (RollupMark::OpenAccounts, &added_up.accounts),
            (RollupMark::OpenDestinations, &added_up.destinations),
        ] {
            // Where nothing has happened lately nobody needs it, and nothing is written.
            if sums.since > closed || sums.sums.is_empty() {
                continue;
            }
            let term = self.chore_term.term().await?;
            if !self.store.write_mark(term, mark, now).await? {
                return Err(Stopped::TermOver);
            }
        }
        Ok(())
    }

    /// An event may be written a while after its id was made, so that the last slices are counted again.
    async fn count_events(&mut self, added_up: &mut AddedUp, now: Timestamp) -> Result<(), Stopped> {
        let mut slice = added_up.counted_from;
        while slice <= now {
            self.chore_term.term().await?;
            let (began, end) = (Instant::now(), slice.plus(limits::OPEN_SLICE));
            for count in self.store.count_events(slice, end).await? {
                added_up.count(slice, count.account_id, (count.events, count.deliveries));
            }
            breathe(began).await;
            slice = end;
        }
        added_up.finish_slices(now);
        Ok(())
    }

    async fn write(&mut self, added_up: &mut AddedUp) -> Result<(), Stopped> {
        loop {
            let places = added_up.changed(limits::ROLLUP_ROWS);
            if places.is_empty() {
                return Ok(());
            }
            // A round may take long, or the node was frozen in it: what may be summed up for good by now is left alone.
            let open_from = self.clock.now().minus(limits::OPEN_MINUTE + limits::OPEN_LATE);
            let open = places.iter().filter(|(starts_at, ..)| *starts_at >= open_from);
            let rows: Vec<Rollup> = open.map(|place| added_up.row(*place)).collect();
            let (term, began) = (self.chore_term.term().await?, Instant::now());
            if !self.store.write_rollups(term, &rows).await? {
                return Err(Stopped::TermOver);
            }
            added_up.written(&places);
            breathe(began).await;
            if places.len() == limits::ROLLUP_ROWS {
                tokio::time::sleep(limits::OPEN_WRITE_PAUSE).await;
            }
        }
    }
}

impl AddedUp {
    fn since(first: Timestamp) -> Self {
        Self {
            first,
            place: None,
            accounts: OpenSums::since(first),
            destinations: OpenSums::since(first),
            counted_from: first,
            counted: BTreeMap::new(),
        }
    }

    /// What is older than the first minute is summed up for good soon, and not touched here any more. With a clock that
    /// goes back, minutes are open again of which some is forgotten already: then all is added up anew.
    fn carried_on(known: Option<Self>, first: Timestamp) -> Self {
        let Some(mut known) = known.filter(|known| known.first <= first) else { return Self::since(first) };
        known.first = first;
        known.accounts.close_before(first);
        known.destinations.close_before(first);
        known.counted_from = known.counted_from.max(first);
        known
    }

    fn count(&mut self, slice: Timestamp, account: AccountId, (events, deliveries): (u64, u64)) {
        let known = self.counted.entry((slice, account)).or_default();
        let more = Sums {
            events: events.saturating_sub(known.0),
            deliveries: deliveries.saturating_sub(known.1),
            ..Sums::default()
        };
        *known = (events.max(known.0), deliveries.max(known.1));
        if more != Sums::default() {
            self.accounts.add((Span::Minute.start_of(slice), account, None), &more);
        }
    }

    /// Slices that have been over for long enough are not counted again.
    fn finish_slices(&mut self, now: Timestamp) {
        while self.counted_from.plus(2 * limits::OPEN_SLICE) <= now {
            self.counted_from = self.counted_from.plus(limits::OPEN_SLICE);
        }
        let from = self.counted_from;
        self.counted.retain(|(slice, _), _| *slice >= from);
    }

    fn changed(&self, limit: usize) -> Vec<OpenPlace> {
        self.accounts.changed.iter().chain(&self.destinations.changed).take(limit).copied().collect()
    }

    fn row(&self, place: OpenPlace) -> Rollup {
        let (starts_at, account_id, destination_id) = place;
        let group = if destination_id.is_none() { &self.accounts } else { &self.destinations };
        let doc = group.sums.get(&place).cloned().unwrap_or_default().doc();
        Rollup { account_id, destination_id, kind: RollupKind::Sums(Span::Minute), starts_at, doc }
    }

    fn written(&mut self, places: &[OpenPlace]) {
        for place in places {
            self.accounts.changed.remove(place);
            self.destinations.changed.remove(place);
        }
    }
}

impl OpenSums {
    fn since(since: Timestamp) -> Self {
        Self { since, sums: BTreeMap::new(), changed: BTreeSet::new() }
    }

    fn add(&mut self, place: OpenPlace, found: &Sums) {
        if place.0 < self.since {
            return;
        }
        self.sums.entry(place).or_default().add(found);
        self.changed.insert(place);
        if self.sums.len() > limits::OPEN_PLACES {
            let newest = self.sums.last_key_value().map_or(place.0, |(place, _)| place.0);
            *self = Self::since(newest.plus(Span::Minute.length()));
        }
    }

    fn close_before(&mut self, first: Timestamp) {
        self.sums.retain(|place, _| place.0 >= first);
        self.changed.retain(|place| place.0 >= first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_seconds(1_790_000_040);

    fn place(minute: u64, destination: u128) -> OpenPlace {
        let at = NOON.plus(Duration::from_secs(60 * minute));
        (at, AccountId::at(NOON, 1), Some(DestinationId::at(NOON, destination)))
    }

    #[test]
    fn more_places_than_memory_is_given_are_not_kept_and_not_claimed() {
        let mut open = OpenSums::since(NOON);
        let one = Sums { delivered: 1, ..Sums::default() };
        for destination in 0..limits::OPEN_PLACES as u128 {
            open.add(place(0, destination), &one);
        }
        assert_eq!((open.sums.len(), open.since), (limits::OPEN_PLACES, NOON));
        open.add(place(1, 0), &one);
        assert_eq!((open.sums.len(), open.changed.len()), (0, 0));
        open.add(place(1, 0), &one);
        assert!(open.sums.is_empty(), "a part of a minute is none");
        open.add(place(2, 0), &one);
        assert_eq!((open.sums.len(), open.since), (1, place(2, 0).0));
    }

    #[test]
    fn a_clock_that_goes_back_has_everything_added_up_anew() {
        let one = Sums { delivered: 1, ..Sums::default() };
        let mut added_up = AddedUp::since(NOON);
        for minute in [0, 1, 2] {
            added_up.destinations.add(place(minute, 1), &one);
        }
        let on = AddedUp::carried_on(Some(added_up), place(1, 1).0);
        assert_eq!((on.destinations.sums.len(), on.destinations.changed.len()), (2, 2));
        assert_eq!(on.destinations.since, NOON, "it has seen all of them since");
        let anew = AddedUp::carried_on(Some(on), NOON);
        assert_eq!((anew.destinations.sums.len(), anew.place), (0, None));
    }

    #[test]
    fn events_that_are_counted_again_count_once() {
        let mut added_up = AddedUp::since(NOON);
        let account = AccountId::at(NOON, 1);
        for (seconds, counted) in [(0, (3, 3)), (0, (5, 9)), (0, (5, 9)), (5, (1, 1))] {
            added_up.count(NOON.plus(Duration::from_secs(seconds)), account, counted);
        }
        let sums = &added_up.accounts.sums[&(NOON, account, None)];
        assert_eq!((sums.events, sums.deliveries), (6, 10));
        added_up.finish_slices(NOON.plus(Duration::from_secs(9)));
        assert_eq!(added_up.counted_from, NOON, "its events may still be on their way");
        added_up.finish_slices(NOON.plus(Duration::from_secs(12)));
        assert_eq!((added_up.counted_from, added_up.counted.len()), (NOON.plus(limits::OPEN_SLICE), 1));
    }
}
