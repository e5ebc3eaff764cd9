//! Publishes events at a steady rate, through the API as any producer does.

use client::{Client, Publish};
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

pub(super) const EVENTS_A_SECOND: u64 = 20;
/// How long until everything repeats: with every round comes a burst for the receiver that counts.
const ROUND_SECONDS: u64 = 12;
const BURST_SECONDS: u64 = 2;

/// For the healthy receiver alone.
const PLAIN: &str = "customer.updated";
/// For the others too, each for one of them.
pub(super) const FOR_SLOW: &str = "invoice.created";
pub(super) const FOR_FLAKY: &str = "order.paid";
pub(super) const FOR_LIMITED: &str = "message.sent";

/// Until it is told to stop. A server that is busy, or stopping, misses some.
pub(super) async fn run(client: Client, stop: CancellationToken) {
    let mut ticks = interval(Duration::from_secs(1) / EVENTS_A_SECOND as u32);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut number = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        number += 1;
        let data = format!("{{\"number\":{number},\"amount\":{}}}", 100 + number * 37 % 9_900);
        let Ok(event) = Publish::json(event_type(number), data) else { continue };
        if let Err(error) = client.publish(&event).await
            && !stop.is_cancelled()
        {
            tracing::warn!(%error, "an event of the demo was not accepted");
        }
    }
}

/// Some for each: as much as it takes, so that nothing grows for ever.
fn event_type(number: u64) -> &'static str {
    let in_burst = (number - 1) % (ROUND_SECONDS * EVENTS_A_SECOND) < BURST_SECONDS * EVENTS_A_SECOND;
    match number {
        _ if number.is_multiple_of(2) && in_burst => FOR_LIMITED,
        _ if number % 9 == 1 => FOR_SLOW,
        _ if number % 4 == 3 => FOR_FLAKY,
        _ => PLAIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_receiver_has_its_share_in_a_round_and_no_more_than_it_takes() {
        let round = 1..=ROUND_SECONDS * EVENTS_A_SECOND;
        let count = |of: &str| round.clone().filter(|number| event_type(*number) == of).count();
        assert_eq!(count(FOR_LIMITED), 20);
        assert!((20..=27).contains(&count(FOR_SLOW)), "{}", count(FOR_SLOW));
        assert!((40..=60).contains(&count(FOR_FLAKY)), "{}", count(FOR_FLAKY));
    }
}
