//! Why a destination's deliveries wait, as a banner with its remedy.

use crate::{format, icon, moment, status::Tone};
use contract::{DestinationView, HoldView};
use domain::{gate::HoldReason, time::Timestamp};
use maud::{Markup, html};

pub(crate) fn tone(reason: HoldReason) -> Tone {
    match reason {
        HoldReason::Throttle => Tone::Warn,
        HoldReason::Breaker => Tone::Bad,
        HoldReason::Paused | HoldReason::Disabled => Tone::Quiet,
    }
}

pub(crate) fn word(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Throttle => "throttled",
        HoldReason::Breaker => "held by its breaker",
        HoldReason::Paused => "paused",
        HoldReason::Disabled => "disabled",
    }
}

pub(crate) fn picture(reason: HoldReason) -> Markup {
    match reason {
        HoldReason::Throttle => icon::waiting(),
        HoldReason::Breaker => icon::bolt(),
        HoldReason::Paused => icon::pause(),
        HoldReason::Disabled => icon::stop(),
    }
}

/// The button that ends it, if there is one: what is called, and what it says.
pub(crate) fn remedy(reason: HoldReason) -> (&'static str, &'static str) {
    match reason {
        HoldReason::Throttle | HoldReason::Breaker => ("probe", "Probe now"),
        HoldReason::Paused => ("resume", "Resume"),
        HoldReason::Disabled => ("enable", "Enable"),
    }
}

/// The banner over a destination's page and over a list that it keeps waiting.
pub(crate) fn banner(
    now: Timestamp,
    destination: &DestinationView,
    hold: &HoldView,
    may_act: bool,
) -> Markup {
    let (action, label) = remedy(hold.reason);
    html! {
        div class={ "banner " (tone(hold.reason).class()) } role="status" {
            span.banner-head { (picture(hold.reason))
                span { a href={ "/destinations/" (destination.id) } { (destination.name) } " is " (word(hold.reason)) } }
            span.banner-text {
                (hold.detail)
                @if let Some(step) = hold.step.filter(|step| *step > 1) { " · " (step) " holds in a row" }
                " · for " (moment::for_how_long(now, hold.since))
                " · " strong { (waiting(destination)) } " waiting"
                @if hold.probing { " · a probe is under way" }
                @else if let Some(until) = hold.until {
                    @if until > now { " · next probe: " strong { (moment::countdown(now, until)) } } @else { " · next probe: any moment" }
                }
            }
            @if may_act {
                button.button type="button" data-action={ "/v1/destinations/" (destination.id) "/" (action) }
                    data-done={ (label) ": done" } { (label) }
            }
        }
    }
}

/// How much waits, with a plus where it was not counted to the end.
pub(crate) fn waiting(destination: &DestinationView) -> String {
    let count = format::number(destination.queued_events.max(0) as u64);
    if destination.queued_events_exact { count } else { format!("{count}+") }
}
