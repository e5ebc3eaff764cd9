//! The lane's rules as sentences; `world` torments it with everything at once.

mod order;
mod test_slots;
mod world;

use super::*;
use crate::{
    delivery::CancelReason,
    id::{AccountId, DestinationId},
    outcome::{DeadReason, Outcome},
    testing,
};

const SECOND: Duration = Duration::from_secs(1);

fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(1_790_000_000_000_000 + millis * 1_000)
}

fn id(n: u128) -> DeliveryId {
    DeliveryId::from_uuid(uuid::Uuid::from_u128(n))
}

/// Delivery `n`, created at 0 and due then.
fn delivery(n: u128) -> Delivery {
    due(n, 0)
}

fn due(n: u128, millis: i64) -> Delivery {
    Delivery {
        position: Position::due(at(millis), id(n)),
        due_at: at(millis),
        created_at: at(0),
        available_at: at(0),
        ..testing::delivery(id(n), &testing::event(AccountId::MIN, at(0), 1), DestinationId::MIN)
    }
}

fn settings(max_concurrency: u32) -> LaneSettings {
    LaneSettings {
        max_concurrency,
        rate_limit: None,
        ordering: Ordering::None,
        mode: LaneMode::Deliver,
        resumed_at: None,
        expire_after: Duration::from_secs(3_600),
        expire_after_by_route: HashMap::new(),
    }
}

fn in_mode(mode: LaneMode) -> LaneSettings {
    LaneSettings { mode, ..settings(2) }
}

const DISABLED: Ending = Ending::DeadLetter(DeadReason::DestinationDisabled);

/// A lane whose destination takes two requests at a time.
fn lane() -> Lane<()> {
    let mut lane = Lane::default();
    lane.configured(settings(2));
    lane
}

/// A lane that has just asked for its first window.
fn fetching_lane() -> Lane<()> {
    let mut lane = lane();
    lane.look(Position::START);
    assert!(lane.wants(at(0)).is_some());
    lane
}

fn met(outcome: Outcome, started: i64) -> MetOutcome {
    MetOutcome { outcome, started_at: at(started), retry_after: None }
}

fn rows(numbers: impl IntoIterator<Item = u128>) -> Vec<(Delivery, ())> {
    numbers.into_iter().map(|n| (delivery(n), ())).collect()
}

fn asked(limit: usize) -> WindowQuery {
    WindowQuery { from: Position::START, last_track: i64::MAX, limit, life: 0 }
}

impl Lane<()> {
    fn tell_flushed(&mut self, n: u128, settled: &Settled) {
        self.flushed(id(n), Position::UNORDERED, settled, at(0));
    }

    /// The answer to a fetch of so many rows.
    fn read(&mut self, rows: Vec<(Delivery, ())>, limit: usize, now: Timestamp) {
        let row = |(delivery, carried)| WindowRow { delivery, carried, track: Position::UNORDERED };
        self.fetched(&asked(limit), rows.into_iter().map(row).collect(), now);
    }

    fn arrive(&mut self, delivery: Delivery, now: i64) {
        self.expected(delivery.id);
        self.arrived(delivery, (), true, at(now));
    }

    /// The delivery that starts now, if one does.
    fn start(&mut self, now: i64) -> Option<DeliveryId> {
        match self.next(u32::MAX, at(now))? {
            LaneAction::Start(loaded) => Some(loaded.delivery.id),
            LaneAction::End(loaded, ending) => panic!("{} ended: {ending:?}", loaded.delivery.id),
            LaneAction::Number(loaded, _) => panic!("{} is to be numbered", loaded.delivery.id),
        }
    }

    fn start_all(&mut self, now: i64) -> Vec<DeliveryId> {
        std::iter::from_fn(|| self.start(now)).collect()
    }

    /// What ends now without an attempt.
    fn end_next(&mut self, now: i64) -> Option<(DeliveryId, Ending)> {
        match self.next(u32::MAX, at(now))? {
            LaneAction::Start(loaded) | LaneAction::Number(loaded, _) => {
                panic!("{} started", loaded.delivery.id)
            }
            LaneAction::End(loaded, ending) => Some((loaded.delivery.id, ending)),
        }
    }

    fn finish(&mut self, n: u128, outcome: Outcome, started: i64, now: i64) {
        self.finished(id(n), met(outcome, started), &GateSettings::default(), at(now));
    }

    fn succeed(&mut self, n: u128, now: i64) {
        self.finish(n, Outcome::Success, now, now);
        self.tell_flushed(n, &Settled::Ended(Ending::Delivered));
    }

    fn live(&self) -> bool {
        self.unseen.is_none() && !self.fetching
    }
}

// --- Arrivals and the mark -----------------------------------------------------------------------------------------

#[test]
fn a_live_lane_takes_what_arrives_and_starts_it_without_a_fetch() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    assert!(lane.live());
    assert_eq!(lane.start(0), Some(id(1)));
    assert_eq!(lane.in_flight(), 1);
    assert_eq!(lane.delivering_since(id(1)), Some(at(0)));
    assert_eq!(lane.wants(at(0)), None);
}

#[test]
fn a_lane_that_is_behind_only_marks_what_arrives() {
    let mut lane = lane();
    lane.look(delivery(1).position);
    lane.arrive(delivery(2), 0);
    assert_eq!((lane.loaded(), lane.unseen), (0, Some(delivery(1).position)));
    lane.arrive(due(3, -5), 0);
    assert_eq!(lane.wants(at(0)).map(|query| query.from), Some(due(3, -5).position));
}

#[test]
fn a_retry_that_waits_for_tomorrow_does_not_stand_in_todays_way() {
    let mut lane = lane();
    lane.look(due(1, 86_400_000).position);
    lane.arrive(delivery(2), 0);
    assert_eq!(lane.start(0), Some(id(2)));
}

#[test]
fn what_arrives_without_room_waits_in_the_store() {
    let mut lane = lane();
    lane.arrived(delivery(1), (), false, at(0));
    assert_eq!((lane.loaded(), lane.unseen), (0, Some(delivery(1).position)));
}

#[test]
fn a_rate_limit_spreads_the_starts_and_is_explained() {
    let rate_limit = Some(RateLimit { requests: 2, per_seconds: 1 });
    let mut lane = Lane::default();
    lane.configured(LaneSettings { rate_limit, ..settings(10) });
    (1..=3).for_each(|n| lane.arrive(delivery(n), 0));
    assert_eq!(lane.start_all(0), [id(1)]);
    assert_eq!(lane.wake_at(at(0)), Some(at(500)));
    let waits = lane.explain(&delivery(2), at(0)).waits().expect("it waits");
    assert_eq!((waits.kind, waits.until), (WaitKind::Rate, Some(at(500))));
    assert_eq!(lane.start_all(499), []);
    assert_eq!(lane.start_all(500), [id(2)]);
    lane.outdated();
    lane.configured(settings(10));
    assert_eq!(lane.start_all(501), [id(3)], "the limit was taken away");
}

#[test]
fn a_lane_is_not_forgotten_before_its_rate_limit_lets_the_next_start() {
    let (mut lane, gate) = (Lane::default(), GateSettings::default());
    lane.configured(LaneSettings {
        rate_limit: Some(RateLimit { requests: 1, per_seconds: 600 }),
        ..settings(2)
    });
    lane.arrive(delivery(1), 0);
    assert_eq!(lane.start_all(0), [id(1)]);
    lane.finished(id(1), met(Outcome::Success, 0), &gate, at(1));
    lane.tell_flushed(1, &Settled::Ended(Ending::Delivered));
    assert!(!lane.is_idle(&gate, at(599_999)));
    assert!(lane.is_idle(&gate, at(600_000)));
}

#[test]
fn the_next_owner_keeps_to_the_rate_of_the_one_before() {
    let mut lane = Lane::default();
    lane.owned_since(at(0));
    lane.configured(LaneSettings {
        rate_limit: Some(RateLimit { requests: 1, per_seconds: 1 }),
        ..settings(2)
    });
    lane.arrive(delivery(1), 0);
    assert_eq!((lane.start_all(999), lane.wake_at(at(999))), (vec![], Some(at(1_000))));
    assert_eq!(lane.start_all(1_000), [id(1)]);
}

#[test]
fn what_arrives_without_having_been_expected_may_be_over_and_is_looked_for_in_the_store() {
    let mut lane = lane();
    lane.arrived(delivery(1), (), true, at(0));
    assert_eq!((lane.loaded(), lane.unseen), (0, Some(delivery(1).position)));
    lane.read(vec![], 10, at(0));
    assert_eq!(lane.start(0), None, "it has been seen to");
}

#[test]
fn what_is_due_later_waits_in_the_store() {
    let mut lane = lane();
    lane.arrive(due(1, 60_000), 0);
    assert_eq!(lane.loaded(), 0);
    assert_eq!(lane.wants(at(0)), None);
    assert_eq!(lane.wake_at(at(0)), Some(at(60_000)));
    assert!(lane.wants(at(60_000)).is_some());
}

#[test]
fn an_arrival_during_a_fetch_sets_the_mark_again() {
    let mut lane = fetching_lane();
    assert_eq!(lane.unseen, None);
    lane.arrive(delivery(1), 1);
    lane.read(vec![], 16, at(2));
    assert!(!lane.live());
    assert_eq!(lane.wants(at(2)).map(|query| query.from), Some(delivery(1).position));
}

#[test]
fn a_short_read_makes_the_lane_live() {
    let mut lane = fetching_lane();
    lane.read(rows([1]), 16, at(1));
    assert!(lane.live());
    assert_eq!(lane.start(1), Some(id(1)));
}

#[test]
fn a_full_read_goes_on_behind_its_last_row() {
    let mut lane = fetching_lane();
    lane.read(rows(1..=16), 16, at(1));
    assert_eq!(lane.unseen, Some(delivery(16).position.after()));
    assert!(lane.unseen < Some(delivery(17).position.after()));
    assert_eq!(lane.wants(at(1)), None, "there is enough to do");
}

#[test]
fn one_fetch_at_a_time() {
    let mut lane = fetching_lane();
    lane.look(Position::START);
    assert_eq!(lane.wants(at(1)), None);
}

#[test]
fn a_fetch_that_failed_is_asked_for_again() {
    let mut lane = fetching_lane();
    lane.fetch_failed(&asked(16));
    assert_eq!(lane.wants(at(1)).map(|query| query.from), Some(Position::START));
}

#[test]
fn an_expected_delivery_is_ignored_by_a_fetch_and_taken_when_it_arrives() {
    let mut lane = fetching_lane();
    lane.expected(id(1));
    lane.read(rows([1]), 16, at(1));
    assert_eq!((lane.loaded(), lane.start(1)), (0, None));
    lane.arrive(delivery(1), 2);
    assert_eq!(lane.start_all(2), [id(1)]);
}

#[test]
fn what_was_rolled_back_is_forgotten() {
    let mut lane = lane();
    lane.expected(id(1));
    assert!(!lane.is_idle(&GateSettings::default(), at(0)));
    lane.forgotten(id(1));
    assert!(lane.is_idle(&GateSettings::default(), at(0)));
}

#[test]
fn a_delivery_in_hand_is_never_forgotten_by_a_rollback() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.start(0);
    lane.forgotten(id(1));
    assert_eq!(lane.delivering_since(id(1)), Some(at(0)));
}

#[test]
fn a_delivery_in_hand_is_not_taken_twice() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.arrive(delivery(2), 0);
    lane.start(0);
    lane.look(Position::START);
    lane.wants(at(0));
    lane.read(rows([1, 2]), 16, at(1));
    lane.arrive(delivery(1), 1);
    assert_eq!(lane.start_all(1), [id(2)]);
    lane.finish(1, Outcome::ServerError, 0, 2);
    lane.look(Position::START);
    lane.wants(at(2));
    lane.read(rows([1]), 16, at(3));
    assert_eq!(lane.start(3), None, "its settlement is on its way");
}

#[test]
fn a_row_settled_while_a_fetch_was_under_way_is_not_taken_again() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.start(0);
    lane.look(Position::START);
    lane.wants(at(0));
    lane.succeed(1, 1);
    lane.read(rows([1]), 16, at(2)); // as the row was before
    assert_eq!(lane.start(2), None);
    lane.look(Position::START);
    lane.wants(at(3));
    lane.read(rows([1]), 16, at(4)); // a read that began later is believed
    assert_eq!(lane.start(4), Some(id(1)));
}

#[test]
fn a_retry_settled_while_a_fetch_was_under_way_is_read_again_at_its_new_place() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.start(0);
    lane.look(Position::START);
    lane.wants(at(0));
    lane.finish(1, Outcome::ServerError, 0, 1);
    let place = Position::due(at(30_000), id(1));
    lane.tell_flushed(1, &Settled::Waits { position: place, due_at: at(30_000), spent: 1 });
    lane.read(rows([1]), 16, at(2)); // as the row was before, or as it was moved since: it looks again
    assert_eq!(lane.start(2), None);
    assert!(lane.wants(at(2)).is_some());
    lane.read(vec![(due(1, 30_000), ())], 16, at(3));
    assert_eq!((lane.start(3), lane.unseen), (None, Some(place)));
    assert_eq!(lane.wake_at(at(3)), Some(at(30_000)));
}

/// "Retry now" moves a row in the store; whatever the lane has of it by then, it finds it at its new place.
fn moved(n: u128) -> (Delivery, ()) {
    (due(n, 100), ())
}

#[test]
fn a_row_that_moved_while_it_was_held_is_taken_at_its_new_place() {
    let mut lane = lane();
    lane.arrive(due(1, 900), 0);
    lane.look(moved(1).0.position);
    lane.wants(at(100));
    lane.read(vec![moved(1)], 16, at(101));
    assert_eq!((lane.loaded(), lane.start(101)), (1, Some(id(1))));
}

#[test]
fn a_row_that_moved_while_it_was_open_is_found_when_its_request_is_abandoned() {
    let mut lane = lane();
    lane.arrive(due(1, 900), 0);
    lane.start(900);
    lane.look(moved(1).0.position);
    lane.wants(at(900));
    lane.read(vec![moved(1)], 16, at(901));
    lane.abandoned(id(1), due(1, 900).position);
    assert_eq!(lane.unseen, Some(moved(1).0.position));
}

#[test]
fn a_row_that_moved_before_we_were_told_of_its_settlement_is_found() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.start(0);
    lane.finish(1, Outcome::ServerError, 0, 1);
    lane.look(moved(1).0.position);
    lane.wants(at(100));
    lane.read(vec![moved(1)], 16, at(101));
    let place = Position::due(at(30_000), id(1));
    lane.tell_flushed(1, &Settled::Waits { position: place, due_at: at(30_000), spent: 1 });
    assert_eq!(lane.unseen, Some(moved(1).0.position));
}

#[test]
fn a_row_that_moved_while_it_was_expected_is_found_when_it_arrives() {
    for told in [true, false] {
        let mut lane = lane();
        lane.expected(id(1));
        lane.look(moved(1).0.position);
        lane.wants(at(100));
        lane.read(vec![moved(1)], 16, at(101));
        if told {
            lane.arrive(due(1, 900), 102)
        } else {
            lane.forgotten(id(1))
        };
        assert_eq!((lane.loaded(), lane.unseen), (0, Some(moved(1).0.position)));
    }
}

#[test]
fn windows_grow_while_they_are_used_up_quickly() {
    let mut lane: Lane<()> = Lane::default();
    lane.configured(settings(1_000));
    lane.look(Position::START);
    let first = lane.wants(at(0)).expect("behind").limit;
    lane.read(rows(1..=first as u128), first, at(1));
    assert_eq!(lane.start_all(2).len(), 1_000);
    let second = lane.wants(at(3)).expect("half used up").limit;
    assert!(second > first && second <= limits::WINDOW_MAX, "{first} then {second}");
}

// --- Fresh or read again -------------------------------------------------------------------------------------------

#[test]
fn a_window_older_than_a_second_is_dropped_and_read_again() {
    let mut lane = fetching_lane();
    lane.read(rows([1, 2, 3]), 16, at(0));
    lane.start_all(0);
    lane.succeed(1, 1_001);
    assert_eq!(lane.start(1_001), None);
    assert_eq!(lane.loaded(), 0);
    assert_eq!(lane.wants(at(1_001)).map(|query| query.from), Some(delivery(3).position));
    lane.read(rows([2, 3]), 16, at(1_002));
    assert_eq!(lane.start_all(1_002), [id(3)]);
}

#[test]
fn a_second_is_still_fresh() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.refresh(at(1_000));
    assert_eq!(lane.start(1_000), Some(id(1)));
}

#[test]
fn a_hold_drops_the_window_and_its_end_reads_it_again() {
    let mut lane = lane();
    (1..=3).for_each(|n| lane.arrive(delivery(n), 0));
    assert_eq!(lane.start_all(0), [id(1), id(2)]);
    lane.finish(1, Outcome::Throttled, 0, 1);
    assert_eq!(lane.start(1), None);
    assert_eq!((lane.loaded(), lane.unseen), (0, Some(delivery(3).position)));
    assert_eq!(lane.wants(at(59_000)), None);
    assert_eq!(lane.wake_at(at(1)), Some(at(60_001)));
    assert!(lane.wants(at(60_001)).is_some());
}

// --- Switches ------------------------------------------------------------------------------------------------------

#[test]
fn nothing_starts_before_the_destination_has_been_read() {
    let mut lane = Lane::default();
    lane.arrive(delivery(1), 0);
    assert_eq!((lane.start(0), lane.wants(at(0)), lane.is_configured()), (None, None, false));
    lane.configured(settings(1));
    assert_eq!(lane.start(1), Some(id(1)));
}

#[test]
fn nothing_starts_while_the_destination_is_being_read_again() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.outdated();
    assert_eq!(lane.start(0), None);
    lane.configured(settings(1));
    assert_eq!(lane.start(1), Some(id(1)));
}

#[test]
fn a_success_while_the_destination_is_being_read_again_does_not_end_the_ramp() {
    let mut lane = throttled_lane();
    lane.configured(settings(8));
    lane.wants(at(60_000));
    lane.read(rows(2..=9), 16, at(60_000));
    lane.start_all(60_000);
    lane.outdated();
    lane.finish(2, Outcome::Success, 60_000, 60_100);
    lane.configured(settings(8));
    assert_eq!(lane.start_all(60_100).len(), 2);
}

#[test]
fn a_word_from_another_life_of_the_lane_touches_nothing_in_hand() {
    let mut lane = lane();
    (1..=2).for_each(|n| lane.arrive(delivery(n), 0));
    lane.configured(settings(1));
    lane.start(0);
    lane.tell_flushed(1, &Settled::Ended(Ending::Delivered));
    lane.tell_flushed(2, &Settled::Ended(Ending::Delivered));
    lane.abandoned(id(2), delivery(2).position);
    assert_eq!((lane.in_flight(), lane.loaded(), lane.known.len()), (1, 1, 2));
}

#[test]
fn a_paused_lane_starts_nothing_and_forgets_nothing() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.configured(in_mode(LaneMode::Paused { since: at(1) }));
    assert_eq!(lane.start(1), None);
    lane.arrive(delivery(2), 2);
    assert_eq!((lane.loaded(), lane.wants(at(2)), lane.wake_at(at(2))), (0, None, None));
    assert!(!lane.is_idle(&GateSettings::default(), at(0)));
    lane.configured(settings(2));
    assert_eq!(lane.wants(at(3)).map(|query| query.from), Some(delivery(1).position));
    lane.read(rows([1, 2]), 16, at(4));
    assert_eq!(lane.start_all(4), [id(1), id(2)]);
}

#[test]
fn a_disabled_lane_ends_everything_also_what_is_due_tomorrow() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.arrive(due(2, 86_400_000), 0);
    lane.configured(in_mode(LaneMode::End { with: DISABLED, since: at(1) }));
    assert_eq!(lane.end_next(1), Some((id(1), DISABLED)));
    assert_eq!(lane.end_next(1), None);
    assert!(lane.wants(at(1)).is_some());
    lane.read(vec![(due(2, 86_400_000), ())], 2_048, at(2));
    lane.arrive(delivery(3), 2);
    assert_eq!(lane.end_next(2), Some((id(3), DISABLED)));
    assert_eq!(lane.end_next(2), Some((id(2), DISABLED)));
    assert_eq!(lane.in_flight(), 0);
    (1..=3).for_each(|n| lane.tell_flushed(n, &Settled::Ended(DISABLED)));
    assert!(lane.is_idle(&GateSettings::default(), at(0)));
}

#[test]
fn a_deleted_destination_cancels_what_waits() {
    let ending = Ending::Cancelled(CancelReason::DestinationDeleted);
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.configured(in_mode(LaneMode::End { with: ending, since: at(1) }));
    assert_eq!(lane.end_next(1), Some((id(1), ending)));
}

#[test]
fn an_enabled_lane_lets_go_of_what_was_to_be_ended() {
    let mut lane = lane();
    lane.configured(in_mode(LaneMode::End { with: DISABLED, since: at(0) }));
    lane.look(Position::START);
    lane.wants(at(0));
    lane.read(vec![(due(1, 86_400_000), ())], 2_048, at(1));
    lane.outdated();
    lane.configured(settings(2));
    assert_eq!((lane.loaded(), lane.wake_at(at(1))), (0, Some(at(86_400_000))));
}

// --- Slots and pace ------------------------------------------------------------------------------------------------

#[test]
fn never_more_than_the_limit_and_always_the_limit() {
    let mut lane = lane();
    (1..=5).for_each(|n| lane.arrive(delivery(n), 0));
    assert_eq!(lane.start_all(0), [id(1), id(2)]);
    lane.succeed(2, 1);
    assert_eq!(lane.start_all(1), [id(3)]);
    lane.configured(settings(1));
    lane.succeed(1, 2);
    assert_eq!(lane.start_all(2), [], "one is still open, and one is the limit now");
    lane.configured(settings(3));
    assert_eq!(lane.start_all(3), [id(4), id(5)]);
}

#[test]
fn a_lane_takes_no_more_than_its_share_of_the_node() {
    let mut lane = lane();
    (1..=2).for_each(|n| lane.arrive(delivery(n), 0));
    assert!(lane.next(0, at(0)).is_none());
    assert!(lane.next(1, at(0)).is_some());
    assert!(lane.next(1, at(0)).is_none());
    assert!(lane.next(2, at(0)).is_some());
}

#[test]
fn open_and_unflushed_together_are_at_most_twice_the_limit() {
    let mut lane = lane();
    (1..=9).for_each(|n| lane.arrive(delivery(n), 0));
    lane.start_all(0);
    for n in 1..=2 {
        lane.finish(n, Outcome::Success, 0, 1);
    }
    assert_eq!(lane.start_all(1), [id(3), id(4)]);
    lane.finish(3, Outcome::Success, 1, 2);
    assert_eq!(lane.start_all(2), [], "three are not durable yet and one is open");
    lane.tell_flushed(1, &Settled::Ended(Ending::Delivered));
    assert_eq!(lane.start_all(2), [id(5)]);
}

#[test]
fn what_is_too_old_ends_without_an_attempt_and_says_why() {
    let mut lane = lane();
    lane.arrive(delivery(1), 3_600_000 - 1);
    lane.arrive(delivery(2), 3_600_000 - 1);
    assert_eq!(lane.start(3_600_000 - 1), Some(id(1)));
    assert_eq!(lane.end_next(3_600_000), Some((id(2), Ending::DeadLetter(DeadReason::Expired))));
}

#[test]
fn a_routes_own_age_limit_counts_more_than_its_destinations() {
    let mut lane = lane();
    let expire_after_by_route = HashMap::from([(RouteId::MIN, SECOND)]);
    lane.configured(LaneSettings { expire_after_by_route, ..settings(2) });
    lane.arrive(delivery(1), 1_000);
    assert_eq!(lane.end_next(1_000), Some((id(1), Ending::DeadLetter(DeadReason::Expired))));
}

#[test]
fn the_age_counts_from_the_last_resume() {
    let mut lane = lane();
    lane.configured(LaneSettings { resumed_at: Some(at(3_000_000)), ..settings(2) });
    lane.arrive(delivery(1), 6_000_000);
    assert_eq!(lane.start(6_000_000), Some(id(1)));
}

#[test]
fn an_abandoned_request_frees_its_slot_and_its_row_is_read_again() {
    let mut lane = lane();
    (1..=3).for_each(|n| lane.arrive(delivery(n), 0));
    lane.start_all(0);
    lane.abandoned(id(1), delivery(1).position);
    lane.abandoned(id(1), delivery(1).position); // saying it twice frees one slot only
    assert_eq!((lane.in_flight(), lane.unseen), (1, Some(delivery(1).position)));
    assert_eq!(lane.start_all(1), [id(3)]);
}

// --- Holds ---------------------------------------------------------------------------------------------------------

/// A lane that met a 429 at 0 and is held for a minute, with deliveries 2… in the store.
fn throttled_lane() -> Lane<()> {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.start(0);
    lane.finish(1, Outcome::Throttled, 0, 0);
    lane.tell_flushed(1, &Settled::Ended(Ending::Delivered));
    lane.look(delivery(2).position);
    lane
}

#[test]
fn a_throttled_delivery_keeps_its_place() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.start(0);
    lane.finish(1, Outcome::Throttled, 0, 1);
    let place = Position::due(Timestamp::from_micros(at(0).micros() + 1), id(1));
    lane.tell_flushed(1, &Settled::Waits { position: place, due_at: at(0), spent: 0 });
    assert_eq!((lane.unseen, lane.wake_at(at(1))), (Some(place), Some(at(60_001))));
    assert_eq!(lane.wants(at(60_001)).map(|query| query.from), Some(place));
}

#[test]
fn after_a_hold_there_is_one_probe_and_then_the_ramp() {
    let mut lane = throttled_lane();
    assert!(lane.wants(at(60_000)).is_some());
    lane.read(rows(2..=5), 16, at(60_000));
    assert_eq!(lane.start_all(60_000), [id(2)]);
    assert!(lane.destination_hold(at(60_000)).is_some_and(|hold| hold.probing));
    lane.finish(2, Outcome::Success, 60_000, 60_100);
    assert_eq!(lane.start_all(60_100), [id(3), id(4)]);
}

#[test]
fn an_abandoned_probe_makes_room_for_another() {
    let mut lane = throttled_lane();
    lane.wants(at(60_000));
    lane.read(rows(2..=5), 16, at(60_000));
    lane.start_all(60_000);
    lane.abandoned(id(2), delivery(2).position);
    assert_eq!(lane.start_all(60_001), [id(3)]);
}

#[test]
fn probe_now_does_not_wait_for_the_end_of_the_hold() {
    let mut lane = throttled_lane();
    assert_eq!(lane.wants(at(5_000)), None);
    lane.probe_now(at(5_000));
    assert!(lane.wants(at(5_000)).is_some());
    lane.read(rows(2..=5), 16, at(5_001));
    assert_eq!(lane.start_all(5_001), [id(2)], "one probe, not all");
}

// --- When to ask again ---------------------------------------------------------------------------------------------

#[test]
fn wake_at_is_the_schedule_or_the_end_of_the_hold_whichever_is_later() {
    let lane = throttled_lane();
    assert_eq!(lane.wake_at(at(0)), Some(at(60_000)));
    assert_eq!(lane.wake_at(at(60_000)), None, "now is not later: ask now");
    let mut lane = lane_with_retry_at(90_000);
    lane.finish(1, Outcome::Throttled, 0, 0);
    assert_eq!(lane.wake_at(at(0)), Some(at(90_000)));
}

fn lane_with_retry_at(millis: i64) -> Lane<()> {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.start(0);
    lane.look(due(2, millis).position);
    lane
}

#[test]
fn a_lane_with_nothing_to_do_does_not_wake() {
    assert_eq!(lane().wake_at(at(0)), None);
    assert!(lane().is_idle(&GateSettings::default(), at(0)));
}

#[test]
fn a_delivery_held_for_its_moment_wakes_the_lane_even_while_another_is_overdue_in_the_store() {
    let mut lane = lane();
    lane.arrive(due(1, 500), 0);
    lane.arrived(delivery(2), (), false, at(0));
    assert_eq!((lane.start(0), lane.wants(at(0))), (None, None));
    assert_eq!(lane.wake_at(at(0)), Some(at(500)));
    assert_eq!(lane.start(500), Some(id(1)));
    assert!(lane.wants(at(500)).is_some());
}

// --- Why not yet ---------------------------------------------------------------------------------------------------

/// Kind, since and until of what a delivery waits for.
fn waits(lane: &Lane<()>, delivery: &Delivery, now: i64) -> Option<(WaitKind, Timestamp, Option<Timestamp>)> {
    let waiting = lane.explain(delivery, at(now)).waits()?;
    assert!(!waiting.detail.is_empty());
    Some((waiting.kind, waiting.since, waiting.until))
}

#[test]
fn a_delivery_under_way_waits_for_nothing() {
    let mut lane = lane();
    lane.arrive(delivery(1), 0);
    lane.start(0);
    assert_eq!(waits(&lane, &delivery(1), 0), None);
}

#[test]
fn a_delivery_waits_for_its_schedule_or_its_first_moment() {
    let retried = Delivery { attempts: 1, spent: 1, ..due(1, 30_000) };
    assert_eq!(waits(&lane(), &retried, 0), Some((WaitKind::Schedule, at(0), Some(at(30_000)))));
    assert_eq!(waits(&lane(), &due(1, 30_000), 0), Some((WaitKind::DeliverAt, at(0), Some(at(30_000)))));
}

#[test]
fn a_delivery_waits_for_a_slot_since_the_slots_were_full() {
    let mut lane = lane();
    (1..=3).for_each(|n| lane.arrive(delivery(n), 0));
    lane.start_all(5);
    assert_eq!(waits(&lane, &delivery(3), 9), Some((WaitKind::Concurrency, at(5), None)));
}

#[test]
fn a_delivery_waits_for_the_throttle_the_breaker_and_the_pause() {
    let lane = throttled_lane();
    assert_eq!(waits(&lane, &delivery(2), 1), Some((WaitKind::Throttle, at(0), Some(at(60_000)))));
    let mut lane = self::lane();
    for n in 1..=10 {
        lane.arrive(delivery(n), 0);
        lane.start(0);
        lane.finish(n, Outcome::Timeout, 0, 0);
        lane.tell_flushed(n, &Settled::Ended(DISABLED));
    }
    assert_eq!(waits(&lane, &delivery(11), 1), Some((WaitKind::Breaker, at(0), Some(at(30_000)))));
    lane.configured(in_mode(LaneMode::Paused { since: at(7) }));
    assert_eq!(waits(&lane, &delivery(11), 8), Some((WaitKind::Paused, at(7), None)));
}

#[test]
fn a_delivery_scheduled_beyond_a_hold_waits_for_its_schedule() {
    let retried = Delivery { attempts: 1, spent: 1, ..due(2, 90_000) };
    assert_eq!(waits(&throttled_lane(), &retried, 1), Some((WaitKind::Schedule, at(0), Some(at(90_000)))));
}

#[test]
fn a_delivery_waits_for_the_ramp_after_a_hold() {
    let mut lane = throttled_lane();
    lane.configured(settings(4));
    lane.wants(at(60_000));
    lane.read(rows(2..=9), 16, at(60_000));
    lane.start_all(60_000);
    lane.finish(2, Outcome::Success, 60_000, 60_100);
    lane.start_all(60_100);
    assert_eq!(lane.in_flight(), 2);
    assert_eq!(waits(&lane, &delivery(9), 60_101), Some((WaitKind::Concurrency, at(0), None)));
}

#[test]
fn a_delivery_waits_for_the_node_the_destination_row_or_its_end() {
    assert_eq!(waits(&lane(), &delivery(1), 1), Some((WaitKind::Capacity, at(0), None)));
    assert_eq!(waits(&Lane::default(), &delivery(1), 1), Some((WaitKind::Capacity, at(0), None)));
    let mut lane = lane();
    lane.configured(in_mode(LaneMode::End { with: DISABLED, since: at(3) }));
    assert_eq!(waits(&lane, &delivery(1), 4), Some((WaitKind::Capacity, at(3), None)));
}

// --- What is told of it --------------------------------------------------------------------------------------------

#[test]
fn a_delivery_that_finds_every_slot_taken_is_counted_once() {
    let mut lane = lane();
    (1..=5).for_each(|n| lane.arrive(delivery(n), 0));
    assert_eq!(lane.start_all(0).len(), 2);
    assert_eq!(lane.take_denied(), 3, "the three that wait, whichever of them is the first");
    (0..10).for_each(|now| assert_eq!(lane.start(now), None));
    lane.succeed(1, 20);
    assert_eq!(lane.start_all(20), [id(3)]);
    assert_eq!(lane.take_denied(), 0, "asked again, they are the same");
    lane.arrive(due(6, 25), 25);
    assert_eq!(lane.start(25), None);
    assert_eq!(lane.take_denied(), 1);
}

#[test]
fn one_that_was_denied_and_is_read_again_is_not_counted_again() {
    let mut lane = lane();
    (1..=4).for_each(|n| lane.arrive(delivery(n), 0));
    lane.start_all(0);
    assert_eq!(lane.take_denied(), 2);
    lane.refresh(at(2_000));
    assert_eq!(lane.loaded(), 0);
    lane.succeed(1, 2_000);
    assert!(lane.wants(at(2_000)).is_some());
    lane.read(rows(3..=4), 16, at(2_001));
    assert_eq!(lane.start_all(2_001), [id(3)]);
    assert_eq!(lane.take_denied(), 0);
}

#[test]
fn one_that_is_committed_late_is_counted_too() {
    let mut lane = lane();
    (1..=3).for_each(|n| lane.arrive(due(n, 10), 10));
    lane.start_all(10);
    lane.arrive(due(9, 5), 11);
    assert_eq!(lane.start(11), None);
    assert_eq!(lane.take_denied(), 2, "the third, and the one that was made before it");
}

#[test]
fn what_waits_in_the_store_behind_full_slots_is_counted_too_and_once() {
    let mut lane = lane();
    (1..=2).for_each(|n| lane.arrive(delivery(n), 0));
    assert_eq!(lane.start_all(0).len(), 2);
    for n in 3..=294 {
        lane.expected(id(n));
        lane.arrived(delivery(n), (), false, at(1));
    }
    assert_eq!((lane.loaded(), lane.take_denied()), (0, 292), "memory has no room for them");
    let mut started = 2;
    // A window of sixteen at a time, as slots come free.
    while started < 294 {
        lane.succeed(started - 1, 10);
        if lane.wants(at(10)).is_some() {
            lane.read(rows(started + 1..=(started + 16).min(294)), 16, at(10));
        }
        started += lane.start_all(10).len() as u128;
    }
    assert_eq!(lane.take_denied(), 0, "they were counted when they arrived");
}

#[test]
fn what_others_committed_is_counted_when_it_is_read() {
    let mut lane = lane();
    (1..=2).for_each(|n| lane.arrive(delivery(n), 0));
    lane.start_all(0);
    lane.look_at(due(3, 5).position);
    lane.succeed(1, 20);
    assert!(lane.wants(at(20)).is_some());
    let waited = [due(3, 5), due(4, 6), due(5, 21)].map(|delivery| (delivery, ()));
    lane.read(waited.to_vec(), 16, at(21));
    assert_eq!(lane.start_all(21), [id(3)]);
    assert_eq!(lane.take_denied(), 3, "two while every slot was taken, and one behind them");
}

#[test]
fn what_was_cancelled_in_the_store_hides_no_later_one() {
    let mut lane = lane();
    (1..=2).for_each(|n| lane.arrive(delivery(n), 0));
    lane.start_all(0);
    for n in 3..=5 {
        lane.expected(id(n));
        lane.arrived(due(n, 1), (), false, at(1));
    }
    assert_eq!(lane.take_denied(), 3);
    lane.succeed(1, 10);
    assert!(lane.wants(at(10)).is_some());
    lane.read(Vec::new(), 16, at(10));
    (6..=8).for_each(|n| lane.arrive(due(n, 20), 20));
    lane.start_all(20);
    assert_eq!(lane.take_denied(), 2);
}

#[test]
fn a_slot_that_the_node_does_not_leave_to_it_is_not_its_own_limit() {
    let mut lane = lane();
    (1..=3).for_each(|n| lane.arrive(delivery(n), 0));
    assert!(lane.next(1, at(0)).is_some() && lane.next(1, at(0)).is_none());
    assert_eq!(lane.take_denied(), 0);
}

#[test]
fn what_is_not_due_was_not_denied() {
    let mut lane = lane();
    (1..=2).for_each(|n| lane.arrive(delivery(n), 0));
    lane.arrive(due(3, 500), 0);
    lane.start_all(0);
    assert_eq!((lane.start(1), lane.take_denied()), (None, 0));
    assert_eq!((lane.start(500), lane.take_denied()), (None, 1));
}

#[test]
fn it_tells_who_is_throttled_until_that_is_over() {
    let mut lane = lane();
    assert_eq!(lane.held_by_gate(at(0)), None);
    lane.arrive(delivery(1), 0);
    lane.start_all(0);
    lane.finish(1, Outcome::Throttled, 0, 1);
    assert_eq!(lane.held_by_gate(at(2_000)), Some(crate::gate::HoldReason::Throttle));
    assert_eq!(
        lane.held_by_gate(at(3_600_000)),
        None,
        "nothing is sent, and nothing keeps it from being sent"
    );
}

#[test]
fn it_knows_since_when_something_is_due() {
    let mut lane = lane();
    assert_eq!(lane.due_since(at(0)), None);
    (1..=3).for_each(|n| lane.arrive(due(n, 10), 10));
    assert_eq!(lane.due_since(at(10)), Some(at(10)));
    lane.start_all(10);
    lane.refresh(at(2_000));
    assert_eq!(lane.due_since(at(2_000)), Some(at(10)), "it waits in the store");
    assert_eq!(lane.due_since(at(5)), None);
    lane.succeed(1, 2_000);
    assert!(lane.wants(at(2_000)).is_some());
    assert_eq!(lane.due_since(at(2_000)), Some(at(10)), "it is being read");
    lane.configured(in_mode(LaneMode::Paused { since: at(0) }));
    assert_eq!(lane.due_since(at(2_000)), None, "it is not expected to be sent");
}
