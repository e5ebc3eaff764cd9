//! What the pump says at the end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::stats::Histogram;

/// One event, from first send to last answer.
#[derive(Debug, Clone, Serialize)]
pub struct Sent {
    pub n: u64,
    pub key: Box<str>,
    /// First send, [`crate::clock::unix_us`]; also in the body.
    pub at_us: u64,
    /// From the first send to the last answer.
    pub latency_us: u64,
    /// Of the last answer; 0 if there was none.
    pub status: u16,
    pub event_id: Option<Box<str>>,
    /// Of the payload as the destination should see it.
    pub body_hash: u64,
    pub tries: u32,
}

impl Sent {
    /// Answered 2xx with an event id: from here on it must not be lost.
    pub fn acked(&self) -> bool {
        (200..300).contains(&self.status) && self.event_id.is_some()
    }

    /// When its last answer came, on the clock of `at_us`.
    pub fn answered_us(&self) -> u64 {
        self.at_us + self.latency_us
    }
}

/// Displays as one line of JSON without the log.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PumpReport {
    /// Events begun.
    pub offered: u64,
    /// 202 (any 2xx at a raw URL).
    pub accepted: u64,
    /// 200: the event was known already, usually because an earlier try was committed but not answered.
    pub duplicates: u64,
    /// Final answers that were neither, by status.
    pub refused: BTreeMap<u16, u64>,
    /// Events given up without any answer.
    pub unanswered: u64,
    /// Tries beyond the first.
    pub retries: u64,
    pub elapsed_us: u64,
    /// Accepted and duplicates per second.
    pub rate: f64,
    /// Of the accepted, first send to answer.
    pub latency: Histogram,
    /// Open loop: how late events were begun. More than a few milliseconds: too few connections.
    pub lag: Histogram,
    /// CPU time of the pump's thread.
    #[serde(skip)]
    pub cpu: Duration,
    /// By sequence number.
    #[serde(skip)]
    pub sent: Vec<Sent>,
}

impl PumpReport {
    /// All connections of a pump together.
    pub(super) fn sum(elapsed: Duration, connections: Vec<PumpReport>) -> PumpReport {
        let mut sum = PumpReport::default();
        for one in connections {
            sum.offered += one.offered;
            sum.accepted += one.accepted;
            sum.duplicates += one.duplicates;
            sum.unanswered += one.unanswered;
            sum.retries += one.retries;
            for (status, count) in one.refused {
                *sum.refused.entry(status).or_default() += count;
            }
            sum.latency.merge(&one.latency);
            sum.lag.merge(&one.lag);
            sum.sent.extend(one.sent);
        }
        sum.sent.sort_unstable_by_key(|sent| sent.n);
        sum.elapsed_us = elapsed.as_micros() as u64;
        sum.rate = (sum.accepted + sum.duplicates) as f64 / elapsed.as_secs_f64().max(1e-6);
        sum
    }

    /// One more event has its final answer; at a raw URL every 2xx is an acceptance.
    pub(super) fn count(&mut self, sent: &Sent, raw: bool) {
        self.offered += 1;
        self.retries += u64::from(sent.tries - 1);
        match sent.status {
            0 => self.unanswered += 1,
            200 if !raw => self.duplicates += 1,
            200..=299 => self.accepted += 1,
            status => *self.refused.entry(status).or_default() += 1,
        }
    }

    /// The events that must arrive.
    pub fn acked(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(|sent| sent.acked())
    }

    pub fn cpu_us_per_event(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (self.offered.max(1) as f64)
    }
}

impl fmt::Display for PumpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}
