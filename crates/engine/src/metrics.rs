//! What the engine counts of itself, and how it is told. Counters are raised where a result has become durable, so that
//! they say what the tables say; what is about one destination is kept by its lane and read when metrics are asked for.

use crate::dispatcher::{LaneFigure, LaneFigures};
use domain::{
    delivery::{Delivery, Ending, Settled},
    gate::HoldReason,
    limits,
    metrics::{Counter, Histogram, MetricKind, Text},
    outcome::{DeadReason, Outcome},
    time::Timestamp,
};
use std::cmp::Reverse;
use store::{Fact, Settlement};

/// In microseconds: from a delivery at once to one that was retried for half a day.
const LATENCY: [u64; 17] = [
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    7_200_000_000,
    43_200_000_000,
];
/// In microseconds: no attempt takes longer than its deadline.
const DURATION: [u64; 15] = [
    1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    10_000_000, 30_000_000, 60_000_000,
];

pub(crate) struct Metrics {
    attempts: [Counter; Outcome::ALL.len()],
    dead_letters: [Counter; DeadReason::ALL.len()],
    retries: Counter,
    latency: Histogram<{ LATENCY.len() }>,
    duration: Histogram<{ DURATION.len() }>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            attempts: Default::default(),
            dead_letters: Default::default(),
            retries: Counter::new(),
            latency: Histogram::new(LATENCY),
            duration: Histogram::new(DURATION),
        }
    }
}

impl Metrics {
    /// These are durable; of each, whether it moved its delivery. What did not was late, and is an attempt all the same.
    pub(crate) fn settled(&self, settlements: &[Settlement], moved: &[bool]) {
        for (Settlement { delivery, fact, settled, .. }, moved) in settlements.iter().zip(moved) {
            if let Fact::Attempted(attempt) = fact {
                self.attempts[attempt.outcome as usize].add(1);
                self.duration.observe(attempt.duration);
            }
            match (settled, fact) {
                _ if !moved => {}
                (Settled::Waits { .. }, _) => self.retries.add(1),
                (Settled::Ended(Ending::DeadLetter(reason)), _) => self.dead_letters[*reason as usize].add(1),
                (Settled::Ended(Ending::Delivered), Fact::Attempted(attempt)) => {
                    let ended_at = attempt.started_at.plus(attempt.duration);
                    self.latency.observe(ended_at.since(received_at(delivery)));
                }
                (Settled::Ended(_), _) => {}
            }
        }
    }

    pub(crate) fn write(&self, text: &mut Text) {
        let mut attempts = text.family(
            "posthaste_delivery_attempts_total",
            MetricKind::Counter,
            "Attempts that have become durable, by what they met.",
        );
        for outcome in Outcome::ALL {
            attempts.value(&[("outcome", outcome.as_str())], self.attempts[outcome as usize].get());
        }
        text.single(
            "posthaste_delivery_retries_total",
            MetricKind::Counter,
            "Attempts after which the delivery waits for another one.",
            self.retries.get(),
        );
        let mut dead_letters = text.family(
            "posthaste_dead_letters_total",
            MetricKind::Counter,
            "Deliveries that ended undelivered, by reason.",
        );
        for reason in DeadReason::ALL {
            dead_letters.value(&[("reason", reason.as_str())], self.dead_letters[reason as usize].get());
        }
        text.family(
            "posthaste_delivery_latency_seconds",
            MetricKind::Histogram,
            "From an event's receipt (or the time it was to be delivered at) to the end of the attempt that delivered it.",
        )
        .histogram(&self.latency);
        text.family(
            "posthaste_attempt_duration_seconds",
            MetricKind::Histogram,
            "How long attempts took, whatever they met.",
        )
        .histogram(&self.duration);
    }
}

/// When its event came in; of one that was to wait or to be delivered again, when that was to begin.
fn received_at(delivery: &Delivery) -> Timestamp {
    if delivery.replay_id.is_some() || delivery.available_at > delivery.created_at {
        delivery.available_at
    } else {
        delivery.event_id.made_at()
    }
}

impl LaneFigures {
    /// With destinations by name, or all of them as `other` for a caller that may not know them.
    pub(crate) fn write(&self, named: bool, now: Timestamp, text: &mut Text) {
        let oldest = self.due_since.map_or(0.0, |since| now.since(since).as_secs_f64());
        text.single(
            "posthaste_queue_oldest_seconds",
            MetricKind::Gauge,
            "How long the delivery that has been due longest has been waiting, in the lanes of this node; those of paused \
             destinations left out.",
            oldest,
        );
        self.write_denied(named, text);
        self.write_in_flight(named, text);
        self.write_success(named, text);
        self.write_held(named, text);
        self.write_oldest(named, now, text);
    }

    fn write_denied(&self, named: bool, text: &mut Text) {
        let mut family = text.family(
            "posthaste_delivery_concurrency_slot_denied_total",
            MetricKind::Counter,
            "Deliveries that were due and found every slot of their destination taken, once each time they fell due.",
        );
        let mut other = self.denied_other;
        for (id, name, count) in &self.denied {
            if named {
                let id = id.to_string();
                family.value(&[("destination_id", &*id), ("destination_name", &**name)], count);
            } else {
                other += count;
            }
        }
        family.value(&[("destination_id", OTHER), ("destination_name", OTHER)], other);
    }

    fn write_in_flight(&self, named: bool, text: &mut Text) {
        let mut family = text.family(
            "posthaste_delivery_inflight_per_destination",
            MetricKind::Gauge,
            "Requests open to a destination from this node, which runs its lane: the 200 with the most, the rest as other.",
        );
        let (first, rest) = self.first_by(named, |lane| lane.in_flight);
        for lane in first {
            let (id, limit) = (lane.destination.to_string(), lane.max_concurrency.to_string());
            let labels =
                [("destination_id", &*id), ("destination_name", &*lane.name), ("max_concurrency", &*limit)];
            family.value(&labels, lane.in_flight);
        }
        let labels = [("destination_id", OTHER), ("destination_name", OTHER), ("max_concurrency", "")];
        family.value(&labels, rest.iter().map(|lane| u64::from(lane.in_flight)).sum::<u64>());
    }

    fn write_success(&self, named: bool, text: &mut Text) {
        let mut family = text.family(
            "posthaste_destination_success_ratio",
            MetricKind::Gauge,
            "Share of successes among a destination's attempts from this node in the last 5 to 10 minutes, throttled ones \
             left out: the 200 with the most attempts, the rest as other. Absent without attempts.",
        );
        let (first, rest) = self.first_by(named, |lane| lane.attempts);
        for lane in first.iter().filter(|lane| lane.attempts > 0) {
            let id = lane.destination.to_string();
            let labels = [("destination_id", &*id), ("destination_name", &*lane.name)];
            family.value(&labels, f64::from(lane.successes) / f64::from(lane.attempts));
        }
        let sum = |of: fn(&LaneFigure) -> u32| rest.iter().map(|lane| f64::from(of(lane))).sum::<f64>();
        let attempts = sum(|lane| lane.attempts);
        if attempts > 0.0 {
            let labels = [("destination_id", OTHER), ("destination_name", OTHER)];
            family.value(&labels, sum(|lane| lane.successes) / attempts);
        }
    }

    fn write_held(&self, named: bool, text: &mut Text) {
        let mut family = text.family(
            "posthaste_destination_held",
            MetricKind::Gauge,
            "1 for a destination that its throttle (429) or its breaker keeps from being tried now: 200 by name, the rest \
             counted as other.",
        );
        for reason in [HoldReason::Throttle, HoldReason::Breaker] {
            let (first, rest) = self.first_by(named, |lane| u32::from(lane.held == Some(reason)));
            for lane in first.iter().filter(|lane| lane.held == Some(reason)) {
                let id = lane.destination.to_string();
                let labels = [
                    ("destination_id", &*id),
                    ("destination_name", &*lane.name),
                    ("reason", reason.as_str()),
                ];
                family.value(&labels, 1);
            }
            let labels =
                [("destination_id", OTHER), ("destination_name", OTHER), ("reason", reason.as_str())];
            family.value(&labels, rest.iter().filter(|lane| lane.held == Some(reason)).count());
        }
    }

    /// By its age a backlog that is not counted tells whether it grows: what comes faster than it goes makes the first in
    /// line wait longer and longer.
    fn write_oldest(&self, named: bool, now: Timestamp, text: &mut Text) {
        let mut family = text.family(
            "posthaste_destination_oldest_seconds",
            MetricKind::Gauge,
            "How long the delivery to a destination that has been due longest has been waiting, in the lanes of this node; \
             paused ones left out: the 200 that wait longest, the longest of the rest as other. Absent where nothing waits.",
        );
        let age = |lane: &LaneFigure| lane.due_since.map(|since| now.since(since));
        let most = |lane: &LaneFigure| age(lane).map_or(0, |age| age.as_millis().min(u32::MAX.into()) as u32);
        let (first, rest) = self.first_by(named, most);
        for lane in first {
            let Some(age) = age(lane) else { continue };
            let id = lane.destination.to_string();
            let labels = [("destination_id", &*id), ("destination_name", &*lane.name)];
            family.value(&labels, age.as_secs_f64());
        }
        let other = rest.into_iter().filter_map(age).max().unwrap_or_default();
        family.value(&[("destination_id", OTHER), ("destination_name", OTHER)], other.as_secs_f64());
    }

    /// The lanes to be named, those with the most first, and the others.
    fn first_by(
        &self,
        named: bool,
        most: impl Fn(&LaneFigure) -> u32,
    ) -> (Vec<&LaneFigure>, Vec<&LaneFigure>) {
        let mut lanes: Vec<&LaneFigure> = self.lanes.iter().collect();
        let count = if named { lanes.len().min(limits::METRIC_DESTINATIONS) } else { 0 };
        // Of equals always the same: a series that comes and goes is of no use.
        lanes.sort_unstable_by_key(|lane| (Reverse(most(lane)), lane.destination));
        let rest = lanes.split_off(count);
        (lanes, rest)
    }
}

const OTHER: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;
    use domain::id::DestinationId;

    fn lane(n: u128, in_flight: u32, attempts: u32) -> LaneFigure {
        LaneFigure {
            destination: DestinationId::at(Timestamp::MIN, n),
            name: format!("d{n}").into(),
            max_concurrency: 10,
            in_flight,
            successes: attempts / 2,
            attempts,
            held: (n == 2).then_some(HoldReason::Throttle),
            due_since: (n == 1).then_some(Timestamp::from_seconds(40)),
        }
    }

    fn text(figures: &LaneFigures, named: bool) -> String {
        let mut text = Text::default();
        figures.write(named, Timestamp::from_seconds(100), &mut text);
        text.into_string()
    }

    #[test]
    fn words_stand_in_the_order_of_their_numbers() {
        for (place, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, place);
        }
        for (place, reason) in DeadReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place);
        }
    }

    #[test]
    fn two_hundred_destinations_have_a_name_and_the_rest_are_others() {
        let most = limits::METRIC_DESTINATIONS as u128;
        let lanes = (1..=most + 5).map(|n| lane(n, n as u32, 4)).collect();
        let figures = LaneFigures { lanes, ..LaneFigures::default() };
        let text = text(&figures, true);
        let in_flight = text.lines().filter(|line| line.starts_with("posthaste_delivery_inflight_per"));
        assert_eq!(in_flight.count(), limits::METRIC_DESTINATIONS + 1);
        assert!(text.contains("destination_name=\"other\",max_concurrency=\"\"} 15\n"), "{text}");
        assert!(text.contains("destination_name=\"d205\",max_concurrency=\"10\"} 205\n"), "{text}");
    }

    #[test]
    fn a_destination_that_is_held_is_named_with_the_reason() {
        let figures = LaneFigures { lanes: vec![lane(1, 2, 4), lane(2, 0, 0)], ..LaneFigures::default() };
        let told = text(&figures, true);
        let held: Vec<&str> =
            told.lines().filter(|line| line.starts_with("posthaste_destination_held{")).collect();
        let second = DestinationId::at(Timestamp::MIN, 2);
        let named = format!("destination_id=\"{second}\",destination_name=\"d2\",reason=\"throttle\"");
        let other = "destination_id=\"other\",destination_name=\"other\"";
        assert_eq!(
            held,
            [
                format!("posthaste_destination_held{{{named}}} 1"),
                format!("posthaste_destination_held{{{other},reason=\"throttle\"}} 0"),
                format!("posthaste_destination_held{{{other},reason=\"breaker\"}} 0"),
            ]
        );
    }

    #[test]
    fn a_destination_where_something_waits_is_named_with_how_long() {
        let figures = LaneFigures { lanes: vec![lane(1, 2, 4), lane(2, 0, 0)], ..LaneFigures::default() };
        let told = text(&figures, true);
        let waits: Vec<&str> =
            told.lines().filter(|line| line.starts_with("posthaste_destination_oldest_seconds{")).collect();
        let first = DestinationId::at(Timestamp::MIN, 1);
        let other = "destination_id=\"other\",destination_name=\"other\"";
        assert_eq!(
            waits,
            [
                format!(
                    "posthaste_destination_oldest_seconds{{destination_id=\"{first}\",destination_name=\"d1\"}} 60"
                ),
                format!("posthaste_destination_oldest_seconds{{{other}}} 0"),
            ]
        );
    }

    #[test]
    fn who_may_not_know_them_sees_sums() {
        let denied = vec![(DestinationId::at(Timestamp::MIN, 1), "d1".into(), 3)];
        let due_since = Some(Timestamp::from_seconds(97));
        let lanes = vec![lane(1, 2, 4), lane(2, 1, 0)];
        let figures = LaneFigures { lanes, denied, denied_other: 4, due_since };
        let text = text(&figures, false);
        assert!(!text.contains("d1") && !text.contains("dst_"), "{text}");
        let other = "destination_id=\"other\",destination_name=\"other\"";
        for (name, labels, value) in [
            ("posthaste_delivery_concurrency_slot_denied_total", format!("{{{other}}}"), "7"),
            ("posthaste_delivery_inflight_per_destination", format!("{{{other},max_concurrency=\"\"}}"), "3"),
            ("posthaste_destination_success_ratio", format!("{{{other}}}"), "0.5"),
            ("posthaste_destination_held", format!("{{{other},reason=\"throttle\"}}"), "1"),
            ("posthaste_destination_held", format!("{{{other},reason=\"breaker\"}}"), "0"),
            ("posthaste_destination_oldest_seconds", format!("{{{other}}}"), "60"),
            ("posthaste_queue_oldest_seconds", String::new(), "3"),
        ] {
            assert!(text.contains(&format!("\n{name}{labels} {value}\n")), "{name}: {text}");
        }
    }
}
