use super::*;
use crate::log::RequestEnd;

/// An event sent at `n` ms, answered half a millisecond later, promised to `a`.
fn event(n: u64) -> Acked {
    Acked {
        event_id: format!("evt_{n}").into(),
        body_hash: n,
        sent_us: n * 1_000,
        answered_us: n * 1_000 + 500,
        destinations: vec!["a".into()],
    }
}

/// A request for event `n` at `a`, answered 200 after 10 ms.
fn request(n: u64, start_us: u64) -> Record {
    Record {
        destination: "a".into(),
        event_id: format!("evt_{n}").into(),
        delivery_id: format!("dlv_{n}").into(),
        attempt: 1,
        sequence: None,
        replay: None,
        sender: None,
        n: Some(n),
        body_hash: Some(n),
        body_bytes: 512,
        end_to_end_us: None,
        start_us,
        end_us: Some(start_us + 10_000),
        end: RequestEnd::Answered(200),
        open_at_start: 1,
        kept: None,
    }
}

fn evidence(received: Vec<Record>) -> Evidence {
    let limits = HashMap::from([("a".into(), 2)]);
    Evidence { acked: vec![event(1), event(2)], received, limits, ..Evidence::default() }
}

fn both() -> Vec<Record> {
    vec![request(1, 100_000), request(2, 200_000)]
}

#[test]
fn everything_delivered_once_holds() {
    let verdict = evidence(both()).judge();
    assert!(verdict.holds, "{verdict}");
    assert_eq!((verdict.acked, verdict.expected, verdict.delivered), (2, 2, 2));
    let line: serde_json::Value = serde_json::from_str(&verdict.to_string()).unwrap();
    assert_eq!((&line["holds"], &line["lost"]), (&true.into(), &0.into()));
}

#[test]
fn an_acked_event_without_a_2xx_is_lost() {
    let mut received = both();
    received[1].end = RequestEnd::Answered(500);
    let verdict = evidence(received).judge();
    assert_eq!((verdict.lost, verdict.holds), (1, false));
    assert_eq!(verdict.broken, ["an acknowledged event was lost (I1), 1 times"]);
    assert!(verdict.examples[0].contains("evt_2"));
}

#[test]
fn an_aborted_or_open_request_does_not_count_as_delivered() {
    for end in [RequestEnd::Aborted, RequestEnd::Open, RequestEnd::Closed, RequestEnd::Reset] {
        let mut received = both();
        received[0].end = end;
        assert_eq!(evidence(received).judge().lost, 1);
    }
}

#[test]
fn a_dead_letter_is_not_a_loss() {
    let mut evidence = evidence(vec![request(1, 0)]);
    evidence.dead.insert(("evt_2".into(), "a".into()));
    let verdict = evidence.judge();
    assert!(verdict.holds, "{verdict}");
    assert_eq!(verdict.dead_lettered, 1);
}

#[test]
fn a_dead_letter_at_another_destination_excuses_nothing() {
    let mut evidence = evidence(vec![request(1, 0)]);
    evidence.dead.insert(("evt_2".into(), "b".into()));
    assert_eq!(evidence.judge().lost, 1);
}

#[test]
fn a_duplicate_without_a_kill_breaks_the_promise() {
    let mut received = both();
    received.push(request(1, 300_000));
    let verdict = evidence(received).judge();
    assert_eq!((verdict.duplicates, verdict.budget, verdict.holds), (1, 0, false));
}

#[test]
fn a_retry_after_a_failure_is_no_duplicate_and_a_replay_is_none_either() {
    let mut received = both();
    received.push(Record { end: RequestEnd::Answered(503), ..request(1, 50_000) });
    received.push(Record { replay: Some("rpl_1".into()), ..request(1, 400_000) });
    let verdict = evidence(received).judge();
    assert_eq!((verdict.duplicates, verdict.holds), (0, true));
}

#[test]
fn a_kill_pays_for_what_was_open_or_just_answered_and_for_no_more() {
    let budget_of = |kill_us| {
        // Events open 100–110 and 200–210 ms.
        let mut received = both();
        received.push(request(1, 900_000));
        let verdict =
            Evidence { faults: vec![Fault::of_all(FaultKind::Kill, kill_us)], ..evidence(received) }.judge();
        (verdict.budget, verdict.holds)
    };
    assert_eq!(budget_of(99_999), (0, false)); // nothing had begun
    assert_eq!(budget_of(105_000), (1, true)); // one open
    assert_eq!(budget_of(360_000), (2, true)); // both answered within 250 ms
    assert_eq!(budget_of(360_001), (1, true)); // the first is now 250 ms and a bit ago
    assert_eq!(budget_of(460_001), (0, false)); // both long settled
}

#[test]
fn settlements_of_unknown_outcome_widen_the_budget() {
    let mut received = both();
    received.push(request(1, 900_000));
    assert!(Evidence { unknown_settlements: 1, ..evidence(received) }.judge().holds);
}

#[test]
fn one_request_more_than_the_limit_breaks_it() {
    let mut received = both();
    received[1].open_at_start = 2;
    assert!(evidence(received.clone()).judge().holds);
    received[1].open_at_start = 4;
    let verdict = evidence(received).judge();
    assert_eq!((verdict.over_limit, verdict.worst_excess, verdict.holds), (1, 2, false));
}

#[test]
fn overtaking_matters_only_where_order_is_promised() {
    let overtaken = vec![request(2, 100_000), request(1, 200_000)];
    assert!(evidence(overtaken.clone()).judge().holds);
    let ordered = HashSet::from(["a".into()]);
    let verdict = Evidence { ordered, ..evidence(overtaken) }.judge();
    assert_eq!((verdict.inversions, verdict.holds), (1, false));
}

#[test]
fn events_in_flight_together_have_no_order_but_their_sequence() {
    let mut evidence = evidence(vec![request(2, 100_000), request(1, 200_000)]);
    evidence.ordered.insert("a".into());
    evidence.acked[0].answered_us = 5_000; // after event 2 was sent
    assert!(evidence.judge().holds);
    evidence.received[0].sequence = Some(8);
    evidence.received[1].sequence = Some(7);
    assert_eq!(evidence.judge().inversions, 1);
}

#[test]
fn a_repeat_is_no_inversion() {
    let mut received = both();
    received.insert(0, Record { end: RequestEnd::Answered(500), ..request(1, 50_000) });
    received.push(Record { end: RequestEnd::Answered(500), ..request(1, 250_000) });
    let ordered = HashSet::from(["a".into()]);
    assert_eq!(Evidence { ordered, ..evidence(received) }.judge().inversions, 0);
}

#[test]
fn an_altered_body_is_seen_and_one_never_read_is_not_blamed() {
    let mut received = both();
    received.push(Record { body_hash: None, end: RequestEnd::Aborted, ..request(1, 90_000) });
    assert!(evidence(received.clone()).judge().holds);
    received[0].body_hash = Some(77);
    let verdict = evidence(received).judge();
    assert_eq!((verdict.altered, verdict.holds), (1, false));
}

#[test]
fn an_event_at_the_wrong_destination_is_misrouted() {
    let mut received = both();
    received.push(Record { destination: "b".into(), ..request(1, 90_000) });
    let verdict = evidence(received).judge();
    assert_eq!((verdict.misrouted, verdict.holds), (1, false));
}

#[test]
fn one_key_stored_as_two_events_is_seen_by_its_body() {
    let mut received = both();
    received.push(Record { event_id: "evt_other".into(), ..request(1, 90_000) });
    let verdict = evidence(received).judge();
    assert_eq!((verdict.twins, verdict.holds), (1, false));
}

#[test]
fn two_keys_answered_with_one_event_are_seen() {
    let mut evidence = evidence(both());
    evidence.acked.push(Acked { event_id: "evt_1".into(), ..event(1) });
    assert_eq!(evidence.judge().merged, 1);
}

#[test]
fn delivering_what_was_never_acked_is_allowed_and_counted() {
    let mut received = both();
    received.push(request(3, 300_000));
    let verdict = evidence(received).judge();
    assert_eq!((verdict.unacked_delivered, verdict.holds), (1, true));
}

#[test]
fn a_fault_excuses_the_requests_of_the_node_it_struck() {
    let mut received = both();
    received.push(request(1, 300_000));
    for (at, record) in received.iter_mut().enumerate() {
        record.sender = Some(at as u32 % 2 + 1);
    }
    let mut evidence = evidence(received);
    evidence.faults = vec![Fault::new(FaultKind::Kill, 105_000, Some(2))];
    let verdict = evidence.judge();
    assert_eq!((verdict.duplicates, verdict.budget, verdict.holds), (1, 0, false));
    evidence.faults[0].sender = Some(1);
    let verdict = evidence.judge();
    assert_eq!((verdict.duplicates, verdict.budget, verdict.holds), (1, 1, true));
}

#[test]
fn what_a_frozen_node_left_open_is_not_held_against_its_heir() {
    let mut received = both();
    for (record, sender) in received.iter_mut().zip([1, 2]) {
        record.sender = Some(sender);
        record.end_us = Some(1_000_000);
    }
    received[1].open_at_start = 3;
    let mut evidence = evidence(received);
    assert_eq!(evidence.judge().over_limit, 1);
    evidence.faults = vec![Fault::new(FaultKind::Freeze, 150_000, Some(1))];
    assert_eq!(evidence.judge().over_limit, 0);
    evidence.faults[0].at_us = 50_000;
    assert_eq!(evidence.judge().over_limit, 1, "it began after the freeze");
}

#[test]
fn only_the_owner_of_a_lane_may_send() {
    let mut received = both();
    for record in &mut received {
        record.sender = Some(1);
    }
    let mut evidence = evidence(received);
    let tenure = |sender, from_us, until_us| Tenure { destination: "a".into(), sender, from_us, until_us };
    evidence.tenures = vec![tenure(1, 0, 150_000), tenure(2, 150_000, u64::MAX)];
    let verdict = evidence.judge();
    assert_eq!((verdict.strangers, verdict.holds), (1, false));
    evidence.tenures.push(tenure(1, 190_000, u64::MAX));
    assert!(evidence.judge().holds);
}
