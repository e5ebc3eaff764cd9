use super::*;

const LIMIT: u32 = 8;

struct Bench {
    gate: Gate,
    settings: GateSettings,
}

fn bench() -> Bench {
    Bench { gate: Gate::default(), settings: GateSettings::default() }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(1_790_000_000 + seconds)
}

impl Bench {
    fn met(&mut self, outcome: Outcome, started: i64, ended: i64) -> &mut Self {
        self.met_asking(outcome, started, ended, None)
    }

    fn met_asking(
        &mut self,
        outcome: Outcome,
        started: i64,
        ended: i64,
        retry_after: Option<u64>,
    ) -> &mut Self {
        let met = MetOutcome {
            outcome,
            started_at: at(started),
            retry_after: retry_after.map(Duration::from_secs),
        };
        self.gate.met(met, LIMIT, &self.settings, at(ended));
        self
    }

    fn held(&self, now: i64) -> Option<i64> {
        self.gate.held_until(at(now)).map(|until| until.seconds() - at(0).seconds())
    }
}

#[test]
fn five_429s_in_flight_are_one_step() {
    let mut bench = bench();
    for _ in 0..5 {
        bench.met(Outcome::Throttled, 0, 1);
    }
    assert_eq!(bench.held(1), Some(61));
    assert_eq!(bench.gate.hold(at(1)).unwrap().step, Some(1));
}

#[test]
fn the_ladder_climbs_by_windows_and_success_resets_it() {
    let mut bench = bench();
    bench.met(Outcome::Throttled, 0, 0);
    bench.met(Outcome::Throttled, 60, 60);
    assert_eq!(bench.held(60), Some(360));
    bench.met(Outcome::Success, 360, 361);
    assert_eq!(bench.gate.hold(at(361)), None);
    bench.met(Outcome::Throttled, 362, 362);
    assert_eq!(bench.held(362), Some(422));
}

#[test]
fn a_late_success_of_an_older_request_resets_nothing() {
    let mut bench = bench();
    bench.met(Outcome::Throttled, 0, 0);
    bench.met(Outcome::Success, 0, 2);
    assert_eq!(bench.held(2), Some(60));
}

#[test]
fn retry_after_sets_the_window_at_any_step() {
    let mut bench = bench();
    bench.met_asking(Outcome::Throttled, 0, 0, Some(2));
    assert_eq!(bench.held(0), Some(2));
    bench.met_asking(Outcome::Throttled, 2, 2, Some(3));
    assert_eq!(bench.held(2), Some(5));
    assert_eq!(bench.gate.hold(at(2)).unwrap().step, Some(2));
}

#[test]
fn a_503_does_not_shut_the_throttle() {
    let mut bench = bench();
    bench.met_asking(Outcome::ServerError, 0, 0, Some(60));
    assert_eq!(bench.held(0), None);
}

#[test]
fn a_429_never_feeds_the_breaker() {
    let mut bench = bench();
    for n in 0..20 {
        bench.met_asking(Outcome::Throttled, n * 2, n * 2, Some(1));
    }
    assert_eq!(bench.gate.hold(at(38)).unwrap().reason, HoldReason::Throttle);
    bench.met(Outcome::Success, 40, 40);
    assert!(bench.gate.breaker == Breaker::default());
}

#[test]
fn ten_failures_in_a_row_open_the_breaker_and_every_failed_probe_doubles_it() {
    let mut bench = bench();
    for n in 0..9 {
        bench.met(Outcome::Timeout, n, n);
    }
    assert_eq!(bench.held(8), None);
    bench.met(Outcome::NetworkError, 9, 9);
    assert_eq!(bench.held(9), Some(39));
    bench.met(Outcome::ServerError, 39, 40);
    assert_eq!(bench.held(40), Some(100));
    bench.met(Outcome::Success, 100, 101);
    assert_eq!(bench.gate.hold(at(101)), None);
}

#[test]
fn half_of_twenty_within_a_minute_opens_the_breaker() {
    let mut bench = bench();
    bench.met(Outcome::ServerError, 0, 0);
    for n in 0..18 {
        let outcome = if n % 2 == 0 { Outcome::Success } else { Outcome::ServerError };
        bench.met(outcome, n, n);
    }
    assert_eq!(bench.held(18), None);
    bench.met(Outcome::ServerError, 19, 19);
    assert_eq!(bench.held(19), Some(49));
}

#[test]
fn after_a_hold_one_probe_then_twice_as_many_each_round() {
    let mut bench = bench();
    bench.met_asking(Outcome::Throttled, 0, 0, Some(2));
    let mut round = |from: i64| {
        let mut started = 0;
        while bench.gate.permits(at(from)) && started < LIMIT {
            bench.gate.started();
            started += 1;
        }
        for _ in 0..started {
            bench.met(Outcome::Success, from, from + 1);
        }
        started
    };
    assert_eq!([round(2), round(4), round(6), round(8)], [1, 2, 4, 8]);
}

#[test]
fn a_rejected_probe_ends_the_hold_for_the_destination_answers() {
    for answer in [Outcome::Rejected, Outcome::Gone] {
        for hold in [Outcome::Throttled, Outcome::ServerError] {
            let mut bench = bench();
            for _ in 0..10 {
                bench.met_asking(hold, 0, 0, Some(30));
            }
            bench.met(answer, 0, 1);
            assert_eq!(bench.held(1), Some(30), "it was open before the hold and proves nothing");
            bench.gate.started();
            bench.met(answer, 30, 31);
            assert_eq!(bench.gate.hold(at(31)), None);
            bench.gate.started();
            assert!(bench.gate.permits(at(31)), "two at once, as after a success");
            for _ in 0..LIMIT {
                bench.met(answer, 31, 32);
            }
            assert!(bench.gate.at_rest(&bench.settings, at(32)));
        }
    }
}

#[test]
fn what_never_reached_the_destination_ends_no_hold() {
    for outcome in [
        Outcome::TlsError,
        Outcome::Blocked,
        Outcome::InternalError,
        Outcome::Undeliverable,
        Outcome::TokenError,
    ] {
        let mut bench = bench();
        bench.met(Outcome::Throttled, 0, 0);
        bench.gate.started();
        bench.met(outcome, 60, 61);
        assert!(bench.gate.hold(at(61)).is_some(), "{outcome}");
        bench.gate.started();
        assert!(!bench.gate.permits(at(61)), "{outcome}: one probe at a time still");
    }
}

#[test]
fn a_rejection_weighs_nothing_while_nothing_is_held() {
    let mut bench = bench();
    for n in 0..9 {
        bench.met(Outcome::ServerError, n, n);
        bench.met(Outcome::Rejected, n, n);
    }
    bench.met(Outcome::ServerError, 9, 9);
    assert_eq!(bench.held(9), Some(39), "ten failures in a row");
}

#[test]
fn what_was_open_before_the_hold_does_not_take_the_probes_place() {
    let mut bench = bench();
    bench.met_asking(Outcome::Throttled, 0, 0, Some(2));
    assert!(!bench.gate.permits(at(1)));
    assert!(bench.gate.permits(at(2)));
    bench.gate.started();
    assert!(!bench.gate.permits(at(2)));
    bench.met(Outcome::Success, 0, 3); // an old one ends: still exactly one probe
    assert!(!bench.gate.permits(at(3)));
}

#[test]
fn probe_now_ends_the_hold_but_not_the_probe() {
    let mut bench = bench();
    bench.met(Outcome::Throttled, 0, 0);
    bench.gate.probe_now(at(5));
    assert!(bench.gate.permits(at(5)));
    bench.gate.started();
    assert!(!bench.gate.permits(at(5)));
}

#[test]
fn a_healthy_gate_is_at_rest() {
    let mut bench = bench();
    bench.met(Outcome::Success, 0, 0);
    assert!(bench.gate.at_rest(&bench.settings, at(0)));
}

#[test]
fn a_failure_is_forgotten_when_its_window_has_passed() {
    let mut bench = bench();
    bench.met(Outcome::ServerError, 0, 0);
    bench.met(Outcome::Success, 1, 1);
    assert!(!bench.gate.at_rest(&bench.settings, at(30)));
    assert!(bench.gate.at_rest(&bench.settings, at(90)));
}

#[test]
fn a_longer_window_is_honoured_by_successes_too() {
    let mut bench = bench();
    bench.settings.breaker =
        BreakerSettings { window: Duration::from_secs(300), min: 4, ..BreakerSettings::default() };
    bench.met(Outcome::ServerError, 0, 0);
    bench.met(Outcome::ServerError, 1, 1);
    bench.met(Outcome::Success, 120, 120);
    bench.met(Outcome::ServerError, 240, 240);
    assert_eq!(bench.held(240), Some(270), "three of four within five minutes");
}

#[test]
fn the_next_owner_keeps_the_hold_and_ends_it_with_one_probe() {
    let mut before = bench();
    before.met_asking(Outcome::Throttled, 0, 0, Some(60));
    let mut after = bench();
    after.gate.restore(&before.gate.record().unwrap(), at(10));
    assert_eq!(after.held(10), Some(60));
    assert_eq!(after.gate.hold(at(10)), before.gate.hold(at(10)));
    assert!(after.gate.permits(at(60)));
    after.gate.started();
    assert!(!after.gate.permits(at(60)), "one probe, not all");

    let mut late = bench();
    late.gate.restore(&before.gate.record().unwrap(), at(70));
    late.gate.started();
    assert!(!late.gate.permits(at(70)), "the hold was over, its probe was not");
}

#[test]
fn a_ramp_is_remembered_until_it_is_over() {
    let mut bench = bench();
    assert_eq!(bench.gate.record(), None);
    bench.met_asking(Outcome::Throttled, 0, 0, Some(60));
    bench.gate.started();
    bench.met(Outcome::Success, 60, 61);
    assert_eq!(bench.gate.record(), Some(GateRecord::default()), "two slots of eight");
    let mut next = Bench { gate: Gate::default(), ..self::bench() };
    next.gate.restore(&GateRecord::default(), at(62));
    next.gate.started();
    assert!(!next.gate.permits(at(62)), "the ramp begins again with one");
    for _ in 0..LIMIT {
        bench.met(Outcome::Success, 62, 63);
    }
    assert_eq!(bench.gate.record(), None);
}

#[test]
fn an_open_breaker_goes_on_doubling_under_its_next_owner() {
    let mut before = bench();
    for _ in 0..10 {
        before.met(Outcome::ServerError, 0, 0);
    }
    assert_eq!(before.held(0), Some(30));
    let mut after = bench();
    after.gate.restore(&before.gate.record().unwrap(), at(30));
    after.gate.started();
    after.met(Outcome::ServerError, 30, 31);
    assert_eq!(after.held(31), Some(91));
    assert_eq!(after.gate.hold(at(31)).unwrap().detail, "10 failures in a row");
}
