//! What becomes of a delivery, whatever it meets.

use super::*;
use crate::{
    outcome::{Fault, ResponseFacts, classify, classify_fault},
    testing,
};
use proptest::prelude::*;

const DAY: Duration = Duration::from_secs(86_400);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(1_790_000_000 + seconds)
}

fn delivery() -> Delivery {
    let id = DeliveryId::at(at(0), 1);
    testing::delivery(id, &testing::event(AccountId::MIN, at(0), 1), DestinationId::MIN)
}

fn policy(schedule: &[u64]) -> RetryPolicy {
    RetryPolicy {
        schedule: schedule.iter().copied().map(Duration::from_secs).collect(),
        jitter: 0.2,
        expire_after: 90 * DAY,
        retry_statuses: vec![],
    }
}

fn on(policy: &RetryPolicy, now: Timestamp) -> Circumstances<'_> {
    Circumstances { policy, now, resumed_at: None, ordered: false, jitter: 0.5 }
}

fn status(status: u16, retry_after: Option<u64>) -> Classified {
    let retry_after = retry_after.map(Duration::from_secs);
    classify(&ResponseFacts { status, retry_after, delivery_control: None }, &RetryPolicy::default())
}

fn any_met() -> impl Strategy<Value = Classified> {
    let answer = (100..=599u16, prop::option::of(1..86_400u64)).prop_map(|(code, after)| status(code, after));
    let common = prop::sample::select(vec![200, 429, 500, 503, 408, 404, 410])
        .prop_flat_map(|code| prop::option::of(1..600u64).prop_map(move |after| status(code, after)));
    let fault = prop::sample::select(vec![
        Fault::ConnectTimeout,
        Fault::ReadTimeout,
        Fault::Dns,
        Fault::Reset,
        Fault::Protocol,
        Fault::Tls,
        Fault::BlockedTarget,
        Fault::Panic,
        Fault::Unbuildable,
        Fault::Altered,
        Fault::NoCredential,
    ])
    .prop_map(classify_fault);
    prop_oneof![answer, common, fault]
}

/// What does not end a delivery by itself.
fn any_failure() -> impl Strategy<Value = Classified> {
    let status_or_fault = prop_oneof![
        prop::sample::select(vec![500, 502, 503, 504, 408, 425]).prop_map(|code| status(code, None)),
        prop::sample::select(vec![Fault::ReadTimeout, Fault::Dns, Fault::Reset, Fault::Panic])
            .prop_map(classify_fault),
    ];
    status_or_fault.boxed()
}

fn any_policy() -> impl Strategy<Value = RetryPolicy> {
    (prop::collection::vec(1..86_400u64, 0..=20), 0.0..=1.0f64, 1..7_776_000u64).prop_map(
        |(schedule, jitter, expire_after)| RetryPolicy {
            jitter,
            expire_after: Duration::from_secs(expire_after),
            ..policy(&schedule)
        },
    )
}

/// The row of one delivery, as a store keeps it.
#[derive(Debug, Clone, PartialEq)]
enum Row {
    Waits(Box<Delivery>),
    Ended(Ending),
}

impl Row {
    /// The row decides: a settlement that was made from another state of it moves nothing.
    fn apply(&mut self, from: &Delivery, met: &Classified, settled: &Settled) {
        let Self::Waits(row) = self else { return };
        if row.attempts != from.attempts {
            return;
        }
        match *settled {
            Settled::Ended(ending) => *self = Self::Ended(ending),
            Settled::Waits { position, due_at, spent } => {
                let tls_errors = row.tls_errors + u32::from(met.outcome == Outcome::TlsError);
                **row = Delivery {
                    position,
                    due_at,
                    spent,
                    tls_errors,
                    attempts: row.attempts + 1,
                    last_outcome: Some(met.outcome),
                    ..Delivery::clone(row)
                };
            }
        }
    }
}

/// Attempts until the end when each is made as soon as it is due, and the end.
fn run(policy: &RetryPolicy, mut next: impl FnMut(u32) -> Classified) -> (u32, Ending) {
    let mut row = Row::Waits(Box::new(delivery()));
    let mut now = at(0);
    loop {
        match row.clone() {
            Row::Ended(ending) => panic!("ended without an attempt: {ending:?}"),
            Row::Waits(waiting) => {
                now = now.max(waiting.due_at);
                let met = next(waiting.attempts);
                let settled = settle(&waiting, &met, on(policy, now));
                row.apply(&waiting, &met, &settled);
                if let Row::Ended(ending) = row {
                    return (waiting.attempts + 1, ending);
                }
            }
        }
    }
}

#[test]
fn attempts_are_one_more_than_the_pauses() {
    for schedule in [&[][..], &[1], &[30, 120, 600, 3_600, 21_600]] {
        let (attempts, ending) = run(&policy(schedule), |_| status(500, None));
        assert_eq!(attempts as usize, 1 + schedule.len());
        assert_eq!(ending, Ending::DeadLetter(DeadReason::Exhausted));
    }
}

#[test]
fn the_second_tls_error_ends_it_whatever_the_schedule_has_left() {
    let tls = Ending::DeadLetter(DeadReason::Tls);
    let policy = policy(&[1; 20]);
    assert_eq!(run(&policy, |_| classify_fault(Fault::Tls)), (2, tls));
    let among_others = |n| if n == 3 || n == 9 { classify_fault(Fault::Tls) } else { status(500, None) };
    assert_eq!(run(&policy, among_others), (10, tls));
}

#[test]
fn a_tls_error_without_a_retry_left_says_tls() {
    let ending = run(&policy(&[]), |_| classify_fault(Fault::Tls));
    assert_eq!(ending, (1, Ending::DeadLetter(DeadReason::Tls)));
}

#[test]
fn a_credential_is_renewed_once_and_that_spends_no_retry() {
    let rejected = Ending::DeadLetter(DeadReason::Rejected);
    let refused = Classified { outcome: Outcome::Rejected, next: Next::RetryRenewed };
    assert_eq!(run(&policy(&[]), |_| refused), (2, rejected));
    let accepted = |n| if n == 1 { status(200, None) } else { refused };
    assert_eq!(run(&policy(&[]), accepted), (2, Ending::Delivered));
    // It had been accepted meanwhile: another one may have expired.
    let another = |n| if n == 1 { status(500, None) } else { refused };
    assert_eq!(run(&policy(&[1]), another), (4, rejected));
}

#[test]
fn a_503_is_not_tried_again_before_it_asks_and_not_before_the_schedule_either() {
    let policy = policy(&[60]);
    for (asks, expected) in [(None, 60), (Some(5), 60), (Some(600), 600)] {
        let settled = settle(&delivery(), &status(503, asks), on(&policy, at(10)));
        let due_at = at(10 + expected);
        let position = Position::due(due_at, delivery().id);
        assert_eq!(settled, Settled::Waits { position, due_at, spent: 1 });
    }
}

#[test]
fn a_throttled_delivery_stands_one_microsecond_behind_where_it_stood() {
    let policy = policy(&[60]);
    let Settled::Waits { position, due_at, spent } =
        settle(&delivery(), &status(429, None), on(&policy, at(9)))
    else {
        panic!("ended");
    };
    assert_eq!((due_at, spent, position.rank), (at(0), 0, at(0).micros() + 1));
    let ordered = Circumstances { ordered: true, ..on(&policy, at(9)) };
    let kept = Settled::Waits { position: delivery().position, due_at: at(0), spent: 0 };
    assert_eq!(settle(&delivery(), &status(429, None), ordered), kept);
}

#[test]
fn an_ordered_delivery_keeps_its_place_while_it_retries() {
    let policy = policy(&[60]);
    let ordered = Circumstances { ordered: true, ..on(&policy, at(0)) };
    let expected = Settled::Waits { position: delivery().position, due_at: at(60), spent: 1 };
    assert_eq!(settle(&delivery(), &status(500, None), ordered), expected);
}

#[test]
fn the_age_counts_from_the_latest_of_creation_deliver_at_and_resume() {
    let policy = RetryPolicy { expire_after: DAY, ..policy(&[60]) };
    let later = Delivery { available_at: at(500), ..delivery() };
    assert_eq!(expires_at(&delivery(), policy.expire_after, None), at(86_400));
    assert_eq!(expires_at(&later, policy.expire_after, None), at(86_900));
    assert_eq!(expires_at(&later, policy.expire_after, Some(at(100))), at(86_900));
    assert_eq!(expires_at(&later, policy.expire_after, Some(at(1_000))), at(87_400));
}

#[test]
fn endings_read_back_as_they_were_written() {
    let dead = DeadReason::ALL.map(Ending::DeadLetter);
    let cancelled = [CancelReason::Requested, CancelReason::DestinationDeleted].map(Ending::Cancelled);
    for ending in dead.into_iter().chain(cancelled).chain([Ending::Delivered]) {
        assert!(ending.status().ended());
        assert_eq!(Ending::read(ending.status().as_str(), ending.reason()), Some(ending));
    }
    assert_eq!(Ending::read("queued", None), None);
    assert_eq!(Ending::read("dead_letter", Some("boredom")), None);
}

proptest! {
    /// Settlements come late, twice, and from states that are long gone; the row takes one per attempt and, once
    /// ended, none.
    #[test]
    fn no_sequence_of_outcomes_leaves_a_terminal_state(
        policy in any_policy(),
        story in prop::collection::vec((any_met(), 0..100_000i64, 0.0..1.0f64, any::<prop::sample::Index>()), 1..60),
    ) {
        let mut row = Row::Waits(Box::new(delivery()));
        let mut now = at(0);
        let mut made: Vec<(Delivery, Classified, Settled)> = vec![];
        let mut ended = None;
        let mut latest = delivery();
        for (met, passes, jitter, repeats) in story {
            now = now.plus(Duration::from_secs(passes as u64));
            if let Row::Waits(waiting) = &row {
                latest = Delivery::clone(waiting);
            }
            let settled = settle(&latest, &met, Circumstances { jitter, ..on(&policy, now) });
            made.push((latest.clone(), met, settled));
            row.apply(&latest, &met, &settled);
            let (from, met, settled) = repeats.get(&made);
            row.apply(from, met, settled);
            match (&row, ended) {
                (Row::Ended(ending), None) => ended = Some(*ending),
                (row, Some(before)) => prop_assert_eq!(row, &Row::Ended(before)),
                (Row::Waits(waiting), None) => prop_assert_eq!(waiting.attempts as usize, made.len()),
            }
        }
    }

    #[test]
    fn always_failing_makes_as_many_attempts_as_the_schedule_says(
        schedule in prop::collection::vec(1..86_400u64, 0..=20),
        failures in prop::collection::vec(any_failure(), 21),
    ) {
        let (attempts, ending) = run(&policy(&schedule), |n| failures[n as usize]);
        prop_assert_eq!(attempts as usize, 1 + schedule.len());
        prop_assert_eq!(ending, Ending::DeadLetter(DeadReason::Exhausted));
    }

    #[test]
    fn throttling_spends_no_retry(
        schedule in prop::collection::vec(1..86_400u64, 0..=20),
        throttled in prop::collection::vec(any::<bool>(), 0..60),
    ) {
        let met = |n: u32| throttled.get(n as usize).is_some_and(|it| *it);
        let (attempts, _) = run(&policy(&schedule), |n| status(if met(n) { 429 } else { 500 }, None));
        let throttled = (0..attempts).filter(|n| met(*n)).count();
        prop_assert_eq!(attempts as usize, 1 + schedule.len() + throttled);
    }

    #[test]
    fn a_retry_is_due_by_its_schedule_within_the_jitter(
        policy in any_policy(),
        spent in 0..20u32,
        jitter in 0.0..1.0f64,
        asks in prop::option::of(1..86_400u64),
    ) {
        let delivery = Delivery { spent, attempts: spent, ..delivery() };
        let settled = settle(&delivery, &status(503, asks), Circumstances { jitter, ..on(&policy, at(7)) });
        let Some(pause) = policy.schedule.get(spent as usize).map(Duration::as_secs_f64) else {
            prop_assert_eq!(settled, Settled::Ended(Ending::DeadLetter(DeadReason::Exhausted)));
            return Ok(());
        };
        if let Settled::Waits { due_at, spent: now_spent, position } = settled {
            let waits = due_at.since(at(7)).as_secs_f64();
            let floor = asks.unwrap_or(0) as f64;
            let (least, most) = (pause * (1.0 - policy.jitter), pause * (1.0 + policy.jitter));
            prop_assert!(waits >= least.max(floor) - 1e-5 && waits <= most.max(floor) + 1e-5, "{waits}");
            prop_assert_eq!((now_spent, position), (spent + 1, Position::due(due_at, delivery.id)));
        }
    }

    #[test]
    fn nothing_waits_beyond_its_last_age(
        policy in any_policy(),
        met in any_met(),
        age in 0..10_000_000i64,
        resumed in prop::option::of(0..10_000_000i64),
        spent in 0..20u32,
        jitter in 0.0..1.0f64,
    ) {
        let delivery = Delivery { spent, attempts: spent, ..delivery() };
        let resumed_at = resumed.filter(|resumed| *resumed <= age).map(at);
        let circumstances = Circumstances { resumed_at, jitter, ..on(&policy, at(age)) };
        let expires_at = expires_at(&delivery, policy.expire_after, resumed_at);
        match settle(&delivery, &met, circumstances) {
            // A throttled delivery is due already; it is asked for its age again when the hold has ended.
            Settled::Waits { due_at, .. } if met.outcome == Outcome::Throttled => {
                prop_assert!(at(age) < expires_at && due_at == delivery.due_at);
            }
            Settled::Waits { due_at, .. } => prop_assert!(at(age) < due_at && due_at < expires_at),
            Settled::Ended(Ending::DeadLetter(DeadReason::Expired)) => {
                let latest = at(age).plus(2 * DAY + Duration::from_secs(1)); // the longest pause with all its jitter
                prop_assert!(latest >= expires_at, "expired long before its time");
            }
            Settled::Ended(_) => {}
        }
    }

    #[test]
    fn the_next_place_comes_right_behind(rank: i64, id: u128, other: u128) {
        prop_assume!(id < u128::MAX);
        let place = |id| Position { track: 0, rank, delivery_id: DeliveryId::from_uuid(uuid::Uuid::from_u128(id)) };
        let next = place(id).after();
        prop_assert!(next > place(id));
        prop_assert!(place(other) <= place(id) || place(other) >= next);
    }
}
