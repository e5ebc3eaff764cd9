//! The minutes that a node has noted and not left behind: the present one, the one before, and what could not be written.

use crate::dispatcher::LaneSample;
use domain::{
    id::{AccountId, DestinationId, NodeId},
    limits,
    rollup::{BacklogSample, LaneSums, Span},
    time::Timestamp,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use store::LaneRollup;

#[derive(Debug, Default)]
pub(crate) struct SampledMinutes {
    /// Under which id they are written: another one begins anew, beside what was written under the last.
    node: Option<NodeId>,
    /// When samples were last taken.
    sampled_at: Option<Timestamp>,
    minutes: BTreeMap<Timestamp, Minute>,
    /// Not written yet as they are.
    changed: BTreeSet<(Timestamp, Place)>,
    /// The lane that was counted last of those that have their turns.
    counted_last: Option<DestinationId>,
}

#[derive(Debug, Default)]
struct Minute {
    accounts: BTreeMap<Place, LaneSums>,
    destinations: BTreeMap<Place, LaneSums>,
}

/// A destination, or an account as a whole.
type Place = (AccountId, Option<DestinationId>);

impl Minute {
    fn group(&mut self, place: Place) -> &mut BTreeMap<Place, LaneSums> {
        if place.1.is_none() { &mut self.accounts } else { &mut self.destinations }
    }
}

impl SampledMinutes {
    pub(super) fn begin(&mut self, node: NodeId, now: Timestamp) {
        let goes_back = self.sampled_at.is_some_and(|at| at > now);
        if self.node != Some(node) || goes_back {
            *self = Self { node: Some(node), counted_last: self.counted_last, ..Self::default() };
        }
    }

    /// What has happened since the last time, in the minutes since.
    pub(super) fn add(&mut self, samples: &[LaneSample], now: Timestamp) {
        let since = self.sampled_at.replace(now).unwrap_or(now);
        let current = Span::Minute.start_of(now);
        // The busiest first: of too many newcomers those are noted.
        let mut samples: Vec<&LaneSample> = samples.iter().collect();
        samples.sort_by_key(|sample| (Reverse((sample.denied, sample.busy_us)), sample.destination_id));
        let mut slots: BTreeMap<AccountId, u64> = BTreeMap::new();
        for sample in samples {
            for place in [(sample.account_id, None), (sample.account_id, Some(sample.destination_id))] {
                for (minute, busy_us) in shares(sample.busy_us, since, now) {
                    self.change(minute, place, |sums| sums.busy_us += busy_us);
                }
                self.change(current, place, |sums| sums.denied += sample.denied);
            }
            let of_lane = (sample.account_id, Some(sample.destination_id));
            self.change(current, of_lane, |sums| sums.slots = sums.slots.max(sample.slots.into()));
            *slots.entry(sample.account_id).or_default() += u64::from(sample.slots);
        }
        for (account, slots) in slots {
            self.change(current, (account, None), |sums| sums.slots = sums.slots.max(slots));
        }
        while self.minutes.len() > limits::LANE_ROLLUP_MINUTES_HELD {
            let Some((gone, _)) = self.minutes.pop_first() else { break };
            self.changed.retain(|(minute, _)| *minute != gone);
        }
    }

    /// So many deliveries have not ended.
    pub(super) fn waits(
        &mut self,
        account: AccountId,
        destination: Option<DestinationId>,
        rows: u64,
        now: Timestamp,
    ) {
        // With the time since when: a lane that stands still is written once a minute.
        self.change(Span::Minute.start_of(now), (account, destination), |sums| {
            if sums.backlog.is_none_or(|known| known.rows != rows) {
                sums.backlog = Some(BacklogSample { rows, at: now });
            }
        });
    }

    /// Whether this destination is among those that are noted.
    pub(super) fn has(&self, account: AccountId, destination: DestinationId, now: Timestamp) -> bool {
        let minute = self.minutes.get(&Span::Minute.start_of(now));
        minute.is_some_and(|minute| minute.destinations.contains_key(&(account, Some(destination))))
    }

    /// These, beginning after the one that was counted last.
    pub(super) fn in_turn(&self, lanes: &BTreeMap<DestinationId, AccountId>) -> Vec<DestinationId> {
        let (before, after): (Vec<_>, Vec<_>) =
            lanes.keys().copied().partition(|id| self.counted_last.is_some_and(|last| *id <= last));
        after.into_iter().chain(before).collect()
    }

    pub(super) fn counted_last(&mut self, destination: DestinationId) {
        self.counted_last = Some(destination);
    }

    pub(super) fn unwritten(&mut self) -> Vec<LaneRollup> {
        let Self { minutes, changed, .. } = self;
        let row = |(starts_at, place): &(Timestamp, Place)| {
            let sums = minutes.get_mut(starts_at)?.group(*place).get(place)?;
            let ((account_id, destination_id), doc) = (*place, sums.doc());
            Some(LaneRollup { account_id, destination_id, starts_at: *starts_at, doc })
        };
        changed.iter().filter_map(row).collect()
    }

    /// All of it is durable; a minute that nothing more comes to is left behind.
    pub(super) fn written(&mut self, now: Timestamp) {
        self.changed.clear();
        let first = Span::Minute.start_of(now.minus(Span::Minute.length()));
        self.minutes.retain(|minute, _| *minute >= first);
    }

    fn change(&mut self, minute: Timestamp, place: Place, change: impl FnOnce(&mut LaneSums)) {
        let group = self.minutes.entry(minute).or_default().group(place);
        if group.len() >= limits::LANE_ROLLUP_PLACES && !group.contains_key(&place) {
            return;
        }
        let sums = group.entry(place).or_default();
        let before = sums.clone();
        change(sums);
        if *sums != before {
            self.changed.insert((minute, place));
        }
    }
}

/// Evenly over the minutes between, the last few of them.
fn shares(busy_us: u64, since: Timestamp, now: Timestamp) -> Vec<(Timestamp, u64)> {
    let current = Span::Minute.start_of(now);
    let all = now.since(since).as_micros();
    if all == 0 {
        return vec![(current, busy_us)];
    }
    let held = Span::Minute.length() * (limits::LANE_ROLLUP_MINUTES_HELD as u32 - 1);
    let mut minute = Span::Minute.start_of(since).max(current.minus(held));
    let mut shares = Vec::new();
    while minute <= current {
        let end = minute.plus(Span::Minute.length());
        let within = end.min(now).since(minute.max(since)).as_micros();
        shares.push((minute, (u128::from(busy_us) * within / all) as u64));
        minute = end;
    }
    shares.retain(|(_, busy_us)| *busy_us > 0);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOON: Timestamp = Timestamp::from_seconds(1_790_000_040);

    fn at(seconds: u64) -> Timestamp {
        NOON.plus(Duration::from_secs(seconds))
    }

    fn sample(n: u128, busy_us: u64, denied: u64) -> LaneSample {
        LaneSample {
            account_id: AccountId::at(NOON, 1),
            destination_id: DestinationId::at(NOON, n),
            slots: 4,
            busy_us,
            denied,
            waiting: Some(0),
        }
    }

    fn read(rows: &[LaneRollup], destination: Option<u128>, seconds: u64) -> Option<LaneSums> {
        let wanted = destination.map(|n| DestinationId::at(NOON, n));
        let row = rows.iter().find(|row| row.destination_id == wanted && row.starts_at == at(seconds));
        row.and_then(|row| LaneSums::read(&row.doc))
    }

    fn begun() -> SampledMinutes {
        let mut minutes = SampledMinutes::default();
        minutes.begin(NodeId::at(NOON, 1), at(0));
        minutes.add(&[], at(0));
        minutes
    }

    #[test]
    fn lanes_add_up_to_their_account_and_time_goes_to_the_minute_it_was_of() {
        assert_eq!(NOON, Span::Minute.start_of(NOON));
        let mut minutes = begun();
        minutes.add(&[sample(1, 3_000, 2), sample(2, 1_000, 0)], at(55));
        minutes.add(&[sample(1, 10_000, 1)], at(65));
        let rows = minutes.unwritten();
        let sums = |busy_us, slots, denied| Some(LaneSums { busy_us, slots, denied, backlog: None });
        assert_eq!(read(&rows, Some(1), 0), sums(8_000, 4, 2));
        assert_eq!(read(&rows, Some(1), 60), sums(5_000, 4, 1));
        assert_eq!(read(&rows, Some(2), 0), sums(1_000, 4, 0));
        assert_eq!(read(&rows, None, 0), sums(9_000, 8, 2));
        assert_eq!(read(&rows, None, 60), sums(5_000, 4, 1));
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn a_lane_that_stands_still_is_written_once_a_minute() {
        let mut minutes = begun();
        let account = AccountId::at(NOON, 1);
        let mut written = Vec::new();
        for seconds in (5..=120).step_by(5) {
            minutes.add(&[sample(1, 0, 0)], at(seconds));
            minutes.waits(account, Some(DestinationId::at(NOON, 1)), 7, at(seconds));
            written.extend(minutes.unwritten());
            minutes.written(at(seconds));
        }
        assert_eq!(written.iter().filter(|row| row.destination_id.is_some()).count(), 3, "{written:?}");
        let backlog = Some(BacklogSample { rows: 7, at: at(60) });
        assert_eq!(read(&written, Some(1), 60).unwrap().backlog, backlog);
    }

    #[test]
    fn of_too_many_destinations_those_that_are_noted_stay_and_the_account_has_all() {
        let mut minutes = begun();
        let most = limits::LANE_ROLLUP_PLACES as u128;
        minutes.add(&[sample(0, 1, 0)], at(1));
        let many: Vec<LaneSample> = (0..most + 10).map(|n| sample(n, 10 + n as u64, 0)).collect();
        minutes.add(&many, at(2));
        let rows = minutes.unwritten();
        assert_eq!(rows.len(), limits::LANE_ROLLUP_PLACES + 1);
        assert!(read(&rows, Some(0), 0).is_some() && read(&rows, Some(most + 9), 0).is_some());
        assert_eq!(read(&rows, None, 0).unwrap().busy_us, 1 + many.iter().map(|it| it.busy_us).sum::<u64>());
    }

    #[test]
    fn what_cannot_be_written_is_kept_for_some_minutes_and_another_node_begins_anew() {
        let mut minutes = begun();
        for minute in 0..10 {
            minutes.add(&[sample(1, 60, 0)], at(60 * minute + 59));
        }
        let starts: BTreeSet<Timestamp> = minutes.unwritten().iter().map(|row| row.starts_at).collect();
        assert_eq!(starts, (5..10).map(|minute| at(60 * minute)).collect());
        minutes.begin(NodeId::at(NOON, 2), at(601));
        assert!(minutes.unwritten().is_empty());
    }

    #[test]
    fn lanes_that_must_be_counted_have_their_turns() {
        let mut minutes = begun();
        let account = AccountId::at(NOON, 1);
        let lanes: BTreeMap<_, _> = (0..4).map(|n| (DestinationId::at(NOON, n), account)).collect();
        let ids: Vec<_> = lanes.keys().copied().collect();
        assert_eq!(minutes.in_turn(&lanes), ids);
        minutes.counted_last(ids[1]);
        assert_eq!(minutes.in_turn(&lanes), [ids[2], ids[3], ids[0], ids[1]]);
    }
}
