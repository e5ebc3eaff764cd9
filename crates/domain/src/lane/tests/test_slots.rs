//! Tests of destinations: they share the slots, and leave nothing behind.

use super::*;

const NODE: u32 = 1_000;

/// A lane with this delivery in memory.
fn lane_with(n: u128) -> Lane<()> {
    let mut lane = lane();
    lane.arrive(delivery(n), 0);
    lane
}

fn throttled(lane: &mut Lane<()>, n: u128, seconds: u64) {
    let met = MetOutcome { retry_after: Some(SECOND * seconds as u32), ..met(Outcome::Throttled, 0) };
    lane.finished(id(n), met, &GateSettings::default(), at(0));
}

#[test]
fn a_test_takes_a_slot_and_gives_it_back() {
    let mut lane = lane_with(1);
    let slot = lane.start_test(id(100), false, NODE, at(0)).expect("there are two");
    assert!(lane.start(0).is_some());
    lane.arrive(delivery(2), 0);
    assert!(lane.start(0).is_none(), "the test has the other slot");
    assert_eq!(
        lane.start_test(id(101), true, NODE, at(0)),
        None,
        "nor is there one for a test, forced or not"
    );
    let waits = lane.test_waits_for(&delivery(101), true, at(0));
    assert_eq!((waits.kind, lane.in_flight()), (WaitKind::Concurrency, 2));
    lane.test_ended(id(100), slot);
    assert!(lane.start(0).is_some());
}

#[test]
fn a_test_asks_for_its_share_of_the_node() {
    let mut lane = lane();
    assert!(lane.start_test(id(100), false, 1, at(0)).is_some());
    assert_eq!(lane.start_test(id(101), true, 1, at(0)), None);
}

#[test]
fn a_test_obeys_switches_gate_and_rate_unless_it_is_forced() {
    let paused = LaneMode::Paused { since: at(0) };
    let disabled = LaneMode::End { with: DISABLED, since: at(0) };
    let mut held = lane_with(1);
    assert!(held.start(0).is_some());
    throttled(&mut held, 1, 60);
    let mut paced = Lane::<()>::default();
    let rate_limit = Some(RateLimit { requests: 1, per_seconds: 60 });
    paced.configured(LaneSettings { rate_limit, ..settings(2) });
    assert!(paced.start_test(id(99), false, NODE, at(0)).is_some());
    let lanes = [
        (in_the_mode(paused), WaitKind::Paused, Timestamp::MAX),
        (in_the_mode(disabled), WaitKind::Capacity, Timestamp::MAX),
        (held, WaitKind::Throttle, at(60_000)),
        (paced, WaitKind::Rate, at(60_000)),
    ];
    for (mut lane, kind, not_before) in lanes {
        assert_eq!(lane.start_test(id(100), false, NODE, at(1)), None, "{kind}");
        assert_eq!(lane.test_waits_for(&due(100, 1), false, at(1)).kind, kind);
        assert_eq!(lane.test_not_before(at(1)), Some(not_before), "{kind}");
        assert!(lane.start_test(id(100), true, NODE, at(1)).is_some(), "{kind}");
    }
}

fn in_the_mode(mode: LaneMode) -> Lane<()> {
    let mut lane = Lane::default();
    lane.configured(in_mode(mode));
    lane
}

#[test]
fn a_forced_test_leaves_the_probe_after_a_hold_to_the_deliveries() {
    let mut lane = lane_with(1);
    assert!(lane.start(0).is_some());
    throttled(&mut lane, 1, 1);
    let slot = lane.start_test(id(100), true, NODE, at(0)).expect("it is forced");
    for n in [2, 3] {
        lane.arrive(delivery(n), 0);
    }
    let fetched = |lane: &mut Lane<()>| {
        let query = lane.wants(at(1_000)).expect("the hold is over");
        let rows = [2, 3].map(|n| WindowRow { delivery: delivery(n), carried: (), track: 0 });
        lane.fetched(&query, rows.into(), at(1_000));
    };
    fetched(&mut lane);
    assert!(lane.start(1_000).is_some(), "the probe");
    assert!(lane.start(1_000).is_none());
    lane.test_ended(id(100), slot);
    assert!(lane.start(1_000).is_none(), "its end is not that of the probe");
}

#[test]
fn a_test_that_has_the_slot_of_the_probe_gives_it_back() {
    let mut lane = lane_with(1);
    assert!(lane.start(0).is_some());
    throttled(&mut lane, 1, 1);
    let slot = lane.start_test(id(100), false, NODE, at(1_000)).expect("the hold is over");
    assert_eq!(lane.start_test(id(101), false, NODE, at(1_000)), None, "one at a time");
    assert_eq!(lane.test_waits_for(&due(101, 1_000), false, at(1_000)).kind, WaitKind::Throttle);
    lane.test_ended(id(100), slot);
    assert!(lane.start_test(id(101), false, NODE, at(1_001)).is_some());
    assert!(lane.destination_hold(at(1_001)).is_some(), "what it met says nothing");
}

#[test]
fn a_lane_with_an_open_test_is_not_idle() {
    let (mut lane, gate) = (lane(), GateSettings::default());
    let slot = lane.start_test(id(100), false, NODE, at(0)).expect("a slot");
    assert!(!lane.is_idle(&gate, at(0)));
    lane.test_ended(id(100), slot);
    assert!(lane.is_idle(&gate, at(0)));
    lane.test_ended(id(100), slot);
    assert_eq!(lane.in_flight(), 0, "of another life of this lane");
}

#[test]
fn a_test_waits_until_its_destination_has_been_read() {
    let mut lane = Lane::<()>::default();
    assert_eq!(lane.start_test(id(100), true, NODE, at(0)), None);
    assert_eq!(
        (lane.test_not_before(at(0)), lane.test_waits_for(&delivery(100), false, at(0)).kind),
        (None, WaitKind::Capacity)
    );
}
