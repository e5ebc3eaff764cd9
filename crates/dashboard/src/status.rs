//! How something is, as picture, word and colour: never by colour alone.

use crate::icon;
use contract::{DestinationStatus, FanoutView, NodeStatus};
use domain::{delivery::Status, lane::WaitKind, outcome::Outcome, replay::ReplayStatus};
use maud::{Markup, html};

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Warn,
    Busy,
    Quiet,
}

impl Tone {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Warn => "warn",
            Self::Busy => "busy",
            Self::Quiet => "quiet",
        }
    }
}

fn shown(tone: Tone, picture: Markup, word: &str) -> Markup {
    html! { span class={ "status " (tone.class()) } { (picture) (word) } }
}

pub(crate) fn delivery(status: Status) -> Markup {
    match status {
        Status::Queued => shown(Tone::Quiet, icon::clock(), "waiting"),
        Status::Delivering => shown(Tone::Busy, icon::send(), "delivering"),
        Status::RetryScheduled => shown(Tone::Warn, icon::retry(), "retrying"),
        Status::Delivered => shown(Tone::Good, icon::check(), "delivered"),
        Status::DeadLetter => shown(Tone::Bad, icon::cross(), "dead"),
        Status::Cancelled => shown(Tone::Quiet, icon::stop(), "cancelled"),
    }
}

/// What a delivery waits for, beside its status.
pub(crate) fn waits(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Schedule => "next retry",
        WaitKind::DeliverAt => "not before its time",
        WaitKind::Concurrency => "no slot is free",
        WaitKind::Capacity => "the node is full",
        WaitKind::Rate => "rate limit",
        WaitKind::Throttle => "throttled",
        WaitKind::Breaker => "breaker open",
        WaitKind::Order => "behind others",
        WaitKind::Paused => "paused",
        WaitKind::NoWorker => "no worker",
    }
}

/// The worst that can be said of an event's deliveries.
pub(crate) fn event(fanout: &FanoutView) -> Markup {
    if fanout.dead_letter > 0 {
        shown(Tone::Bad, icon::cross(), "dead")
    } else if fanout.expanding {
        shown(Tone::Busy, icon::send(), "fanning out")
    } else if fanout.total == 0 {
        shown(Tone::Quiet, icon::stop(), "no route")
    } else if fanout.waiting > 0 {
        shown(Tone::Warn, icon::clock(), "waiting")
    } else if fanout.delivered == 0 {
        shown(Tone::Quiet, icon::stop(), "cancelled")
    } else {
        shown(Tone::Good, icon::check(), "delivered")
    }
}

pub(crate) fn destination(status: DestinationStatus) -> Markup {
    match status {
        DestinationStatus::Active => shown(Tone::Good, icon::check(), "active"),
        DestinationStatus::Throttled => shown(Tone::Warn, icon::waiting(), "throttled"),
        DestinationStatus::Unhealthy => shown(Tone::Bad, icon::bolt(), "breaker open"),
        DestinationStatus::Paused => shown(Tone::Quiet, icon::pause(), "paused"),
        DestinationStatus::Disabled => shown(Tone::Quiet, icon::stop(), "disabled"),
    }
}

/// The larger, the more it needs somebody.
pub(crate) fn trouble(status: DestinationStatus) -> u8 {
    match status {
        DestinationStatus::Unhealthy => 4,
        DestinationStatus::Throttled => 3,
        DestinationStatus::Disabled => 2,
        DestinationStatus::Paused => 1,
        DestinationStatus::Active => 0,
    }
}

pub(crate) fn outcome_tone(outcome: Outcome) -> Tone {
    match outcome {
        Outcome::Success => Tone::Good,
        Outcome::Throttled => Tone::Warn,
        _ => Tone::Bad,
    }
}

pub(crate) fn outcome_word(outcome: Outcome) -> String {
    outcome.as_str().replace('_', " ")
}

/// A number of HTTP, in the colour of what it says.
pub(crate) fn code(code: Option<u16>) -> Markup {
    let tone = match code {
        Some(200..=299) => Tone::Good,
        Some(429) => Tone::Warn,
        Some(_) => Tone::Bad,
        None => Tone::Quiet,
    };
    html! { @match code {
        Some(code) => span class={ "code " (tone.class()) } { (code) },
        None => span.quiet { "–" },
    } }
}

pub(crate) fn replay(status: ReplayStatus) -> Markup {
    match status {
        ReplayStatus::Running => shown(Tone::Busy, icon::play(), "running"),
        ReplayStatus::Paused => shown(Tone::Quiet, icon::pause(), "paused"),
        ReplayStatus::Completed => shown(Tone::Good, icon::check(), "completed"),
        ReplayStatus::Cancelled => shown(Tone::Quiet, icon::stop(), "cancelled"),
    }
}

pub(crate) fn node(status: NodeStatus) -> Markup {
    match status {
        NodeStatus::Active => shown(Tone::Good, icon::check(), "active"),
        NodeStatus::Expired => shown(Tone::Bad, icon::warning(), "lease ended"),
    }
}

pub(crate) fn enabled(enabled: bool) -> Markup {
    match enabled {
        true => shown(Tone::Good, icon::check(), "enabled"),
        false => shown(Tone::Quiet, icon::stop(), "disabled"),
    }
}
