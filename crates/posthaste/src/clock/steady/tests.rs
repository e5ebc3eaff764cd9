//! Days pass here in no time: both clocks are the test's own.

use super::*;
use std::sync::Arc;

const THEN: Timestamp = Timestamp::from_seconds(1_790_000_000);
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// A machine: so many seconds after its start, with its wall clock so many seconds off.
#[derive(Clone, Default)]
struct Machine(Arc<Mutex<(i64, i64)>>);

impl Machine {
    fn clock(&self) -> SteadyClock {
        self.clock_after(None, false)
    }

    fn clock_after(&self, newest: Option<Timestamp>, accepted: bool) -> SteadyClock {
        let machine = self.clone();
        SteadyClock::reading(newest, accepted, move || {
            let (passed, off) = *machine.0.lock().unwrap();
            Reading { monotonic: Duration::from_secs(passed as u64), wall: at(passed + off) }
        })
    }

    fn set_by(&self, seconds: i64) {
        self.0.lock().unwrap().1 += seconds;
    }

    /// Time passes, and every second somebody looks.
    fn pass(&self, clock: &SteadyClock, seconds: i64) {
        for _ in 0..seconds {
            self.0.lock().unwrap().0 += 1;
            clock.sync(Timestamp::MIN);
        }
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(THEN.seconds() + seconds)
}

#[test]
fn while_nothing_jumps_it_is_the_wall_clock() {
    let machine = Machine::default();
    let clock = machine.clock();
    machine.pass(&clock, 100);
    assert_eq!((clock.now(), clock.to_wall(clock.now()), clock.trouble()), (at(100), at(100), None));
}

#[test]
fn small_steps_are_followed_and_never_turn_time_back() {
    let machine = Machine::default();
    let clock = machine.clock();
    machine.set_by(1);
    assert_eq!((clock.now(), clock.trouble()), (at(1), None));
    machine.set_by(-1);
    assert_eq!(
        (clock.now(), clock.trouble()),
        (at(1), None),
        "it stands still until the clock has caught up"
    );
    machine.pass(&clock, 2);
    assert_eq!(clock.now(), at(2));
}

#[test]
fn a_jump_counts_for_nothing_before_it_was_confirmed_for_a_minute() {
    for by in [400 * DAY, 2 * HOUR, -2 * HOUR] {
        let machine = Machine::default();
        let clock = machine.clock();
        machine.set_by(by);
        assert_eq!(clock.trouble(), Some(ClockTrouble::Jumped { seconds: by }));
        machine.pass(&clock, 59);
        assert_eq!((clock.now(), clock.to_wall(clock.now())), (at(59), at(59)), "{by}");
        assert!(clock.trouble().is_some_and(|trouble| !trouble.keeps_from_serving()));
        machine.set_by(-by);
        machine.pass(&clock, 600);
        assert_eq!((clock.now(), clock.trouble()), (at(659), None), "it was only for a moment");
    }
}

#[test]
fn a_clock_that_keeps_jumping_is_not_confirmed() {
    let machine = Machine::default();
    let clock = machine.clock();
    for _ in 0..10 {
        machine.set_by(HOUR);
        machine.pass(&clock, 30);
    }
    assert_eq!(clock.now(), at(300));
}

#[test]
fn a_confirmed_jump_ahead_is_followed() {
    let machine = Machine::default();
    let clock = machine.clock();
    machine.set_by(2 * HOUR);
    machine.pass(&clock, 62);
    assert_eq!((clock.now(), clock.trouble()), (at(2 * HOUR + 62), None));
}

#[test]
fn a_confirmed_jump_back_delays_nothing_and_signatures_go_by_the_clock_as_it_is_now() {
    let machine = Machine::default();
    let clock = machine.clock();
    machine.set_by(-2 * HOUR);
    machine.pass(&clock, 100);
    assert_eq!((clock.now(), clock.to_wall(clock.now())), (at(100), at(100 - 2 * HOUR)));
    assert_eq!(clock.trouble(), Some(ClockTrouble::Ahead { seconds: 2 * HOUR }));
    machine.set_by(2 * HOUR);
    machine.pass(&clock, 100);
    assert_eq!((clock.now(), clock.to_wall(clock.now()), clock.trouble()), (at(200), at(200), None));
}

#[test]
fn a_start_behind_what_is_stored_goes_on_from_there_and_is_not_ready_until_the_clock_has_passed_it() {
    let machine = Machine::default();
    let newest = at(2 * HOUR);
    let clock = machine.clock_after(Some(newest), false);
    machine.pass(&clock, 100);
    assert_eq!(clock.now(), at(2 * HOUR + 100), "what is due by the times in the store is due");
    let trouble = clock.trouble().unwrap();
    assert_eq!(trouble, ClockTrouble::Behind { newest, wall: at(100) });
    assert!(trouble.keeps_from_serving() && trouble.to_string().contains(&newest.to_string()), "{trouble}");
    // A time service sets it right.
    machine.set_by(3 * HOUR);
    assert!(clock.trouble().is_some_and(|trouble| !trouble.keeps_from_serving()));
    machine.pass(&clock, 62);
    assert_eq!((clock.now(), clock.trouble()), (at(3 * HOUR + 162), None));
}

#[test]
fn an_operator_may_accept_a_start_behind_what_is_stored() {
    let machine = Machine::default();
    let clock = machine.clock_after(Some(at(2 * HOUR)), true);
    assert_eq!(clock.now(), at(2 * HOUR));
    assert_eq!(clock.trouble(), Some(ClockTrouble::Ahead { seconds: 2 * HOUR }));
}

#[test]
fn a_start_a_little_behind_is_ready() {
    let machine = Machine::default();
    let clock = machine.clock_after(Some(at(3)), false);
    assert_eq!((clock.now(), clock.trouble()), (at(3), None));
}
