//! The settings of a destination as a form. It is the input of the API, member for member; what is wrong is said by the API and
//! shown at its field.

use crate::{
    chart, format,
    frame::Screen,
    page_error::PageError,
    visit::{Page, Visit},
};
use axum::response::Response;
use contract::DestinationView;
use domain::{
    account::Scope,
    delivery_settings::SettingLevel,
    destination::{OnDeadLetter, Ordering},
};
use maud::{Markup, html};

pub(crate) async fn new(visit: Visit) -> Response {
    let made = made(&visit);
    visit.show(Screen::Destinations, made).await
}

fn made(visit: &Visit) -> Result<Page, PageError> {
    visit.require(Scope::DestinationsWrite)?;
    let body = html! {
        form.sheet data-form="/v1/destinations" data-method="POST" data-then="destination" data-done="Added" {
            div.fields {
                label { "Name" input name="name" required maxlength="200" autofocus placeholder="billing"; }
                label.grow { "URL" input name="url" type="url" required maxlength="2048" placeholder="https://example.com/hooks" data-suggest="max_concurrency"; }
            }
            label.check { input type="checkbox" data-route-too checked; span { "Deliver every published event to it (makes a route for " code { "*" } "; change it under Routes)" } }
            details open { summary { "Limits" } (limits(None)) }
            p.hint { "A signing secret is made for it; you find it under Signing." }
            div data-form-problems role="alert" {}
            button.button.primary type="submit" { "Add the destination" }
        }
    };
    Ok(Page::new("New destination", body))
}

fn limits(destination: Option<&DestinationView>) -> Markup {
    let said = |from: SettingLevel| from == SettingLevel::Destination;
    let concurrency =
        destination.filter(|it| said(it.settings_from.max_concurrency)).map(|it| it.max_concurrency);
    let timeout =
        destination.filter(|it| said(it.settings_from.timeout_seconds)).map(|it| it.timeout_seconds);
    let rate = destination.and_then(|it| it.rate_limit);
    html! {
        div.fields {
            label { "Requests at once" input type="number" name="max_concurrency" data-type="number" min="1" max="1000" value=[concurrency] placeholder=(placeholder(destination.map(|it| it.max_concurrency)));
                @if let Some(it) = destination { span.hint { (from(it.settings_from.max_concurrency, it.max_concurrency)) } } }
            label { "Timeout, in seconds" input type="number" name="timeout_seconds" data-type="number" min="1" max="30" value=[timeout] placeholder=(placeholder(destination.map(|it| it.timeout_seconds)));
                @if let Some(it) = destination { span.hint { (from(it.settings_from.timeout_seconds, it.timeout_seconds)) } } }
            label { "Rate limit: requests" input type="number" name="rate_limit.requests" data-type="number" min="1" value=[rate.map(|rate| rate.requests)] placeholder="no limit"; }
            label { "in so many seconds" input type="number" name="rate_limit.per_seconds" data-type="number" min="1" value=[rate.map(|rate| rate.per_seconds)] placeholder="1"; }
        }
        (guide(destination.is_none()))
    }
}

/// What holds if nothing is typed; nobody knows it yet of a new one.
fn placeholder(known: Option<impl std::fmt::Display>) -> String {
    known.map_or_else(|| "the default".into(), |value| value.to_string())
}

/// Whom a limit is for, how many requests open at once it takes, and after how many seconds it is given up.
const GUIDE: [(&str, &str, u32, u64); 7] = [
    ("In the same network", "20 to 50", 20, 5),
    ("In another region", "5 to 10", 5, 10),
    ("A third party with known limits", "1 to 3", 2, 10),
    ("A public host that you know nothing of", "3", 3, 10),
    ("Shared hosting", "1 to 2", 1, 15),
    ("One that answers 429, such as Slack", "1", 1, 10),
    ("One that is slow by nature", "1 to 3", 2, 30),
];

fn guide(open: bool) -> Markup {
    html! {
        details.guide open[open] {
            summary { "Which limits to choose?" }
            table.list {
                thead { tr { th scope="col" { "The receiver" } th scope="col" { "At once" } th scope="col" { "Timeout" } th scope="col" { span.sr { "Take it" } } } }
                tbody { @for (whom, many, concurrency, timeout) in GUIDE { tr {
                    td.wide { (whom) } td { (many) } td { (timeout) " s" }
                    td.act { button.button.small type="button" data-fill=(format!("{{\"max_concurrency\":{concurrency},\"timeout_seconds\":{timeout}}}")) { "Take " (concurrency) } }
                } } }
            }
            ul {
                li { "Start low, and raise it while latency stays flat. What gets through is at most requests at once ÷ latency: 5 at 200 ms are 25 a second." }
                li { "A rate is for receivers that say so in their terms (60 a minute: 60 in 60 seconds). One that answers 429 with " code { "Retry-After" } " is obeyed without it." }
                li { "1 at once is one after the other, and not in order: for that there is " strong { "Order" } "." }
            }
        }
    }
}

fn from(level: SettingLevel, value: impl std::fmt::Display) -> String {
    match level {
        SettingLevel::Destination => "set here; empty it to leave it to the account".to_owned(),
        SettingLevel::Account => format!("{value}, from the account"),
        SettingLevel::Installation => format!("{value}, from the installation"),
        SettingLevel::BuiltIn => format!("{value}, the default"),
    }
}

/// On the destination's page. Sent with the version it was read at, so that nobody's change is undone unseen.
pub(crate) fn edit(visit: &Visit, destination: &DestinationView, version: i64) -> Markup {
    let id = destination.id;
    let may = visit.may(Scope::DestinationsWrite);
    html! {
        form.sheet data-form={ "/v1/destinations/" (id) } data-method="PATCH" data-version=(version) data-done="Saved" {
            fieldset disabled[!may] {
                div.fields {
                    label { "Name" input name="name" required maxlength="200" value=(destination.name); }
                    label { "Your own id (uid)" input name="uid" maxlength="200" value=[destination.uid.as_deref()] data-empty="null" placeholder="none"; }
                    label.grow { "URL" input name="url" type="url" required maxlength="2048" value=(destination.url); }
                }
                (limits(Some(destination)))
                (retries(destination))
                div.fields {
                    label { "Order" select name="ordering" { @for ordering in Ordering::ALL { option value=(ordering.as_str()) selected[ordering == destination.ordering] { (ordering_word(ordering)) } } } }
                    label { "After a dead letter" select name="on_dead_letter" { @for what in OnDeadLetter::ALL { option value=(what.as_str()) selected[what == destination.on_dead_letter] { (what.as_str()) } } } }
                    label.check { input type="checkbox" name="sequence" value="true" data-unchecked="false" checked[destination.sequence]; " Number deliveries" }
                }
                div data-form-problems role="alert" {}
                @if may {
                    div.acts {
                        button.button.primary type="submit" { "Save" }
                        span.grow {}
                        button.button.danger type="button" data-action={ "/v1/destinations/" (id) } data-method="DELETE" data-then="/destinations"
                            data-confirm={ "Delete " (destination.name) "?" } data-confirm-text={ "Its routes go with it, and what waits for it (" (crate::hold::waiting(destination)) ") is cancelled. This cannot be undone." } { "Delete" }
                    }
                } @else { p.quiet { "You may look at this and not change it." } }
            }
        }
    }
}

fn retries(destination: &DestinationView) -> Markup {
    let policy = &destination.retry_policy;
    let levels = &destination.settings_from.retry_policy;
    let own = |level: SettingLevel| level == SettingLevel::Destination;
    let schedule: Vec<String> = policy.schedule.iter().map(|pause| pause.as_secs().to_string()).collect();
    let schedule = schedule.join(", ");
    let expires = policy.expire_after.as_secs();
    html! {
        div.fields {
            label.grow { "Retry after so many seconds"
                input name="retry_policy.schedule_seconds" data-type="numbers" data-ruler="retry-ruler" value=[own(levels.schedule_seconds).then_some(&schedule)] placeholder=(schedule);
                span.hint { (from(levels.schedule_seconds, format::count(policy.schedule.len() as u64, "retry", "retries"))) }
            }
            label { "Give up after, in seconds"
                input type="number" name="retry_policy.expire_after_seconds" data-type="number" min="1" value=[own(levels.expire_after_seconds).then_some(expires)] placeholder=(expires);
                span.hint { (from(levels.expire_after_seconds, format::span(policy.expire_after))) }
            }
            label { "Jitter, 0 to 1"
                input type="number" name="retry_policy.jitter" data-type="number" min="0" max="1" step="0.05" value=[own(levels.jitter).then_some(policy.jitter)] placeholder=(policy.jitter);
                span.hint { (from(levels.jitter, policy.jitter)) }
            }
        }
        div #retry-ruler { (chart::ruler(&policy.schedule)) }
    }
}

fn ordering_word(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::None => "none: as fast as it takes them",
        Ordering::Strict => "strict: one after the other",
        Ordering::Key => "by ordering key",
    }
}
