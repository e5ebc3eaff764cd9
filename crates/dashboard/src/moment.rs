//! Moments as elements: what a reader sees goes on ticking in the browser, on the server's clock; the exact time becomes its title there.

use crate::format;
use domain::time::Timestamp;
use maud::{Markup, html};

/// To the second, in as few letters as there are: a list has hundreds of these.
fn second(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{}Z", text.get(..19).unwrap_or(&text))
}

/// `3s ago`.
pub(crate) fn ago(now: Timestamp, at: Timestamp) -> Markup {
    html! { time datetime=(second(at)) data-relative { (format::relative(now, at)) } }
}

/// How long it has been so: `3 min`.
pub(crate) fn for_how_long(now: Timestamp, since: Timestamp) -> Markup {
    html! { time datetime=(second(since)) data-elapsed { (format::span(now.since(since))) } }
}

/// `40 s`, counting down.
pub(crate) fn countdown(now: Timestamp, until: Timestamp) -> Markup {
    html! { time datetime=(second(until)) data-countdown { (format::span(until.since(now))) } }
}

/// The moment itself, for those who compare.
pub(crate) fn exact(at: Timestamp) -> Markup {
    html! { time datetime=(at) data-exact { (format::exact(at)) } }
}
