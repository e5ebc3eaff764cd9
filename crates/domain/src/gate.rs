//! The gate of a destination: throttle, breaker and the ramp after them. May we try now, with how many requests, and
//! if not, why and until when.
//!
//! The two never mix: 429 moves the throttle and never the breaker; 5xx, timeouts and network errors move the breaker
//! and never the throttle. Pause and disable are switches of the destination and live with the lane.

mod breaker;
mod record;
mod throttle;

use crate::{
    outcome::{Outcome, feeds_breaker},
    time::Timestamp,
    word::words,
};
use breaker::Breaker;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use throttle::Throttle;

pub use breaker::BreakerSettings;
pub use record::{GateRecord, HoldRecord};

/// How an installation judges its destinations.
#[derive(Debug, Clone, PartialEq)]
pub struct GateSettings {
    /// Pauses for a 429 without Retry-After, by consecutive throttled windows.
    pub ladder: Vec<Duration>,
    pub breaker: BreakerSettings,
}

impl Default for GateSettings {
    fn default() -> Self {
        let ladder = [60, 300, 900, 3_600, 21_600].map(Duration::from_secs).to_vec();
        Self { ladder, breaker: BreakerSettings::default() }
    }
}

/// Why a destination waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    pub reason: HoldReason,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    pub detail: String,
    pub step: Option<u32>,
    pub probing: bool,
}

words! {
    "the reason of a hold",
    HoldReason {
        Throttle = "throttle",
        Breaker = "breaker",
        Paused = "paused",
        Disabled = "disabled",
    }
}

/// What an attempt that has just ended tells the gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MetOutcome {
    pub outcome: Outcome,
    pub started_at: Timestamp,
    pub retry_after: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Gate {
    throttle: Throttle,
    breaker: Breaker,
    ramp: Option<Ramp>,
}

/// After a hold: one probe, then one more slot for every success or rejection, which doubles the pace at every round trip.
#[derive(Debug, Clone, PartialEq)]
struct Ramp {
    /// Only requests started after the hold count: what was open before it proves nothing.
    from: Timestamp,
    slots: u32,
    open: u32,
}

impl Gate {
    /// Whether one more request may start now.
    pub fn permits(&self, now: Timestamp) -> bool {
        self.held_until(now).is_none() && self.ramp.as_ref().is_none_or(|ramp| ramp.open < ramp.slots)
    }

    /// Until when nothing may start; None if something may, a probe at least.
    pub fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.throttle.until(now).into_iter().chain(self.breaker.until(now)).max()
    }

    /// The hold to show: the throttle before the breaker, as long as the first probe has not been answered.
    pub fn hold(&self, now: Timestamp) -> Option<Hold> {
        let probing = self.ramp.as_ref().is_some_and(|ramp| ramp.open > 0);
        let throttle = self.throttle.window.as_ref().map(throttle::ThrottleWindow::hold);
        let hold = throttle.or_else(|| self.breaker.opened.as_ref().map(breaker::OpenBreaker::hold))?;
        let is_over = hold.until.is_some_and(|until| until <= now);
        Some(Hold { probing: probing && is_over, ..hold })
    }

    /// Nothing to remember: as good as new.
    pub fn at_rest(&self, settings: &GateSettings, now: Timestamp) -> bool {
        self.ramp.is_none()
            && self.throttle == Throttle::default()
            && self.breaker.at_rest(&settings.breaker, now)
    }

    pub fn started(&mut self) {
        if let Some(ramp) = &mut self.ramp {
            ramp.open += 1;
        }
    }

    /// A request was given up and met nothing: if it was a probe, another may take its place.
    pub fn abandoned(&mut self, started_at: Timestamp) {
        if let Some(ramp) = self.ramp.as_mut().filter(|ramp| started_at >= ramp.from) {
            ramp.open = ramp.open.saturating_sub(1);
        }
    }

    /// Takes in what an attempt met.
    pub fn met(&mut self, met: MetOutcome, max_concurrency: u32, settings: &GateSettings, now: Timestamp) {
        let proves = self.ramp.as_ref().is_none_or(|ramp| met.started_at >= ramp.from);
        if let Some(ramp) = self.ramp.as_mut().filter(|_| proves) {
            ramp.open = ramp.open.saturating_sub(1);
        }
        let held_before = self.held_until(now);
        match met.outcome {
            Outcome::Throttled => self.throttle.throttled(&met, proves, &settings.ladder, now),
            Outcome::Success if proves => self.answered(max_concurrency, settings, now),
            // It is back: whether it likes what it is sent is the delivery's matter. While nothing is held, a rejection
            // weighs nothing.
            Outcome::Rejected | Outcome::Gone if proves && self.ramp.is_some() => {
                self.answered(max_concurrency, settings, now);
            }
            outcome if feeds_breaker(outcome) && proves => self.breaker.failed(&settings.breaker, now),
            _ => {}
        }
        let held = self.held_until(now);
        if let Some(until) = held.filter(|until| held_before.is_none_or(|before| before < *until)) {
            self.ramp = Some(Ramp { from: until, slots: 1, open: 0 });
        }
    }

    /// What the next owner must know; None if there is nothing to remember.
    pub fn record(&self) -> Option<GateRecord> {
        let record = GateRecord::new(self.throttle.window.clone(), self.breaker.opened.clone());
        (self.ramp.is_some() || !record.is_empty()).then_some(record)
    }

    /// Goes on from what the last owner wrote: with one probe when the holds are over, for it is not known how far its
    /// ramp had come.
    pub fn restore(&mut self, record: &GateRecord, now: Timestamp) {
        self.throttle.window.clone_from(&record.throttle);
        self.breaker.opened.clone_from(&record.breaker);
        let from = self.held_until(now).unwrap_or(now);
        self.ramp = Some(Ramp { from, slots: 1, open: 0 });
    }

    /// "Probe now": the hold ends at this moment, the probe and the ramp still follow.
    pub fn probe_now(&mut self, now: Timestamp) {
        if self.held_until(now).is_some() {
            self.throttle.end(now);
            self.breaker.end(now);
            self.ramp = Some(Ramp { from: now, slots: 1, open: 0 });
        }
    }

    fn answered(&mut self, max_concurrency: u32, settings: &GateSettings, now: Timestamp) {
        if self.held_until(now).is_some() {
            return; // a late answer to an older request says nothing about a newer hold
        }
        self.throttle = Throttle::default();
        self.breaker.succeeded(&settings.breaker, now);
        if let Some(ramp) = &mut self.ramp {
            ramp.slots += 1;
            if ramp.slots >= max_concurrency {
                self.ramp = None;
            }
        }
    }
}

#[cfg(test)]
mod tests;
