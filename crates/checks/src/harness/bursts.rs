//! A destination's requests in bursts: what was under way together, and how long it was left alone until the next.
//!
//! What a throttle and a breaker promise is seen from here: a burst, a pause, one probe, a pause, one probe, and so on.

use lab::Receiver;

use super::figures::rounded;

/// An answer is read and acted upon by then; whatever starts later does so in spite of it.
const SAME_BURST_US: u64 = 100_000;
/// The receiver notes an answer just before it writes it, and a hang-up just after it happened.
const NOTICED_WITHIN_US: u64 = 20_000;
/// Never early, and at most so late.
const LATE_US: u64 = 1_000_000;

/// Times are on the receiver's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Burst {
    pub(crate) requests: u64,
    start_us: u64,
    first_end_us: u64,
    last_end_us: u64,
}

/// Until the first success, which is the last burst: a probe by itself.
pub(crate) fn until_success(receiver: &Receiver, destination: &str, from_us: u64) -> Vec<Burst> {
    let records = receiver.records(destination);
    let mut bursts: Vec<Burst> = Vec::new();
    for record in records.iter().filter(|record| record.start_us >= from_us) {
        let end_us = record.end_us.unwrap_or(u64::MAX - SAME_BURST_US);
        match bursts.last_mut().filter(|burst| record.start_us <= burst.last_end_us + SAME_BURST_US) {
            Some(burst) => {
                burst.requests += 1;
                burst.first_end_us = burst.first_end_us.min(end_us);
                burst.last_end_us = burst.last_end_us.max(end_us);
            }
            None => bursts.push(Burst {
                requests: 1,
                start_us: record.start_us,
                first_end_us: end_us,
                last_end_us: end_us,
            }),
        }
        if record.succeeded() {
            break;
        }
    }
    bursts
}

/// The pauses between bursts against what they should be.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    pub(crate) seconds: Vec<f64>,
    pub(crate) too_short: u64,
    pub(crate) too_long: u64,
    /// Bursts after the first that were more than one probe.
    pub(crate) with_company: u64,
}

impl Pauses {
    pub(crate) fn between(bursts: &[Burst], wanted_seconds: &[u64]) -> Pauses {
        let mut pauses = Pauses::default();
        for (at, pair) in bursts.windows(2).enumerate() {
            // Counted from the first answer of a burst at the earliest, and from its last at the latest.
            let longest = pair[1].start_us.saturating_sub(pair[0].first_end_us);
            let shortest = pair[1].start_us.saturating_sub(pair[0].last_end_us);
            pauses.seconds.push(rounded(longest as f64 / 1e6));
            // A pause too many is too short whatever it is: there should be no request at all.
            let wanted_us = wanted_seconds.get(at).map_or(u64::MAX / 2, |seconds| seconds * 1_000_000);
            pauses.too_short += u64::from(longest + NOTICED_WITHIN_US < wanted_us);
            pauses.too_long += u64::from(shortest > wanted_us + LATE_US);
            pauses.with_company += u64::from(pair[1].requests > 1);
        }
        pauses
    }
}
