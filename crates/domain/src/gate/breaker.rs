//! The breaker: we judged the destination unwell and leave it alone for a while.

use super::{Hold, HoldReason};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// When to judge a destination unwell, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerSettings {
    pub enabled: bool,
    /// So many failures in a row open it …
    pub failures: u32,
    /// … or this share of at least `min` attempts within `window`.
    pub ratio: f64,
    pub min: u32,
    pub window: Duration,
    /// First pause; doubles with every failed probe up to `max_open`.
    pub open: Duration,
    pub max_open: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            failures: 10,
            ratio: 0.5,
            min: 20,
            window: Duration::from_secs(60),
            open: Duration::from_secs(30),
            max_open: Duration::from_secs(900),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Breaker {
    in_a_row: u32,
    recent: Recent,
    pub(super) opened: Option<OpenBreaker>,
}

/// Open until its time, then half-open until a probe has been answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenBreaker {
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) step: u32,
    /// What was judged unwell.
    detail: String,
}

impl OpenBreaker {
    pub(super) fn hold(&self) -> Hold {
        Hold {
            reason: HoldReason::Breaker,
            since: self.since,
            until: Some(self.until),
            detail: self.detail.clone(),
            step: Some(self.step),
            probing: false,
        }
    }
}

impl Breaker {
    pub(super) fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.opened.as_ref().map(|opened| opened.until).filter(|until| *until > now)
    }

    pub(super) fn failed(&mut self, settings: &BreakerSettings, now: Timestamp) {
        if !settings.enabled || self.until(now).is_some() {
            return;
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        let (tried, failed) = self.recent.count(false, settings.window, now);
        let sick = failed as f64 >= settings.ratio * tried as f64;
        let in_a_row = self.in_a_row >= settings.failures;
        let (since, step, detail) = match self.opened.take() {
            Some(OpenBreaker { since, step, detail, .. }) => (since, step.saturating_add(1), detail),
            None if in_a_row => (now, 1, format!("{} failures in a row", self.in_a_row)),
            None if tried >= settings.min && sick => (
                now,
                1,
                format!("{failed} of {tried} requests failed within {} s", settings.window.as_secs()),
            ),
            None => return,
        };
        let pause = settings.open.saturating_mul(1 << (step - 1).min(16)).min(settings.max_open);
        self.opened = Some(OpenBreaker { since, until: now.plus(pause), step, detail });
    }

    pub(super) fn succeeded(&mut self, settings: &BreakerSettings, now: Timestamp) {
        self.in_a_row = 0;
        if self.opened.take().is_some() {
            self.recent = Recent::default();
        } else if self.recent != Recent::default() {
            // Successes are counted only where there are failures to weigh them against: a healthy gate stays at rest.
            self.recent.count(true, settings.window, now);
        }
    }

    /// Closed, and whatever failed lately is so long ago that it no longer counts.
    pub(super) fn at_rest(&self, settings: &BreakerSettings, now: Timestamp) -> bool {
        self.opened.is_none() && self.recent.is_over(settings.window, now)
    }

    pub(super) fn end(&mut self, now: Timestamp) {
        if let Some(opened) = &mut self.opened {
            opened.until = opened.until.min(now);
        }
    }
}

/// Attempts of the last window in six parts, so that old ones fall away without a log.
#[derive(Debug, Clone, PartialEq, Default)]
struct Recent {
    parts: [(u32, u32); PARTS],
    /// Which part of time the newest entry belongs to.
    newest: i64,
}

const PARTS: usize = 6;

impl Recent {
    /// Adds one attempt and gives (tried, failed) within the window.
    fn count(&mut self, ok: bool, window: Duration, now: Timestamp) -> (u32, u32) {
        let part = part_of(window, now);
        let passed = (part - self.newest).clamp(0, PARTS as i64);
        for step in 1..=passed {
            self.parts[((part - passed + step).rem_euclid(PARTS as i64)) as usize] = (0, 0);
        }
        self.newest = self.newest.max(part);
        let current = &mut self.parts[self.newest.rem_euclid(PARTS as i64) as usize];
        current.0 += 1;
        current.1 += u32::from(!ok);
        self.parts.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }

    fn is_over(&self, window: Duration, now: Timestamp) -> bool {
        *self == Self::default() || part_of(window, now) - self.newest > PARTS as i64
    }
}

fn part_of(window: Duration, now: Timestamp) -> i64 {
    let length = (window.as_micros() as i64 / PARTS as i64).max(1);
    now.micros() / length
}
