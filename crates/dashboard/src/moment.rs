//! Moments as elements: what a reader sees goes on ticking in the browser, on the server's clock; the exact time is its title.

use crate::format;
use domain::time::Timestamp;
use maud::{Markup, html};

/// `3s ago`.
pub(crate) fn ago(now: Timestamp, at: Timestamp) -> Markup {
    html! { time datetime=(at) data-relative title=(format::exact(at)) { (format::relative(now, at)) } }
}

/// How long it has been so: `3 min`.
pub(crate) fn for_how_long(now: Timestamp, since: Timestamp) -> Markup {
    html! { time datetime=(since) data-elapsed title=(format::exact(since)) { (format::span(now.since(since))) } }
}

/// `40 s`, counting down.
pub(crate) fn countdown(now: Timestamp, until: Timestamp) -> Markup {
    html! { time datetime=(until) data-countdown title=(format::exact(until)) { (format::span(until.since(now))) } }
}

/// The moment itself, for those who compare.
pub(crate) fn exact(at: Timestamp) -> Markup {
    html! { time datetime=(at) data-exact { (format::exact(at)) } }
}
