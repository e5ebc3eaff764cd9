//! The throttle: the destination asked us to slow down.

use super::{Hold, HoldReason, MetOutcome};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Counts throttled windows, not responses: five 429s that were in flight together are one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Throttle {
    pub(super) window: Option<ThrottleWindow>,
}

/// Shut from the first 429 until the destination may be asked again, and remembered until it has said yes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct ThrottleWindow {
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) step: u32,
}

impl ThrottleWindow {
    /// Shown until a probe has succeeded, with `until` in the past once it may be sent.
    pub(super) fn hold(&self) -> Hold {
        Hold {
            reason: HoldReason::Throttle,
            since: self.since,
            until: Some(self.until),
            detail: "429 Too Many Requests".into(),
            step: Some(self.step),
            probing: false,
        }
    }
}

impl Throttle {
    pub(super) fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.window.as_ref().map(|window| window.until).filter(|until| *until > now)
    }

    pub(super) fn throttled(&mut self, met: &MetOutcome, proves: bool, ladder: &[Duration], now: Timestamp) {
        let asked = met.retry_after.map(|pause| now.plus(pause));
        match &mut self.window {
            // Sent before the window ended: no new step, but a longer wish is granted.
            Some(window) if !proves || met.started_at < window.until => {
                window.until = asked.map_or(window.until, |asked| asked.max(window.until));
            }
            previous => {
                let step = previous.as_ref().map_or(0, |window| window.step).saturating_add(1);
                let rung = (step as usize).min(ladder.len()).saturating_sub(1);
                let pause = ladder.get(rung).copied().unwrap_or(Duration::from_secs(60));
                *previous = Some(ThrottleWindow {
                    since: now,
                    until: asked.unwrap_or_else(|| now.plus(pause)),
                    step,
                });
            }
        }
    }

    pub(super) fn end(&mut self, now: Timestamp) {
        if let Some(window) = &mut self.window {
            window.until = window.until.min(now);
        }
    }
}
