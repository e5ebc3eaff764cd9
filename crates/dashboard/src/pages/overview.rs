//! The first screen: is it working?

use super::quick_start;
use crate::{
    chart::{self, Chart, Line, Unit, told_sparkline},
    format,
    frame::Screen,
    hold, moment,
    page_error::{self, PageError},
    series::{self, Course, Range},
    status,
    visit::{Page, Visit},
};
use api::{error::ApiError, read};
use axum::response::Response;
use contract::{
    DeadLetterGroupView, DestinationView, NodeView, SeriesPointView, SeriesTotalsView, SeriesView,
};
use domain::{account::Scope, id::AccountId, limits, member::Role, time::Timestamp};
use futures_util::future::try_join4;
use maud::{Markup, html};
use std::{cmp::Reverse, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// Rows of what needs somebody.
const ATTENTION: usize = 12;
/// What it is now is told by the present minute and the one before; by the present one alone once it is so long.
const TELLS: Duration = Duration::from_secs(20);
/// A backlog that has come so near to its cap is told, in percent.
const NEAR_CAP: u64 = 80;

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit).await;
    visit.show(Screen::Overview, made).await
}

async fn made(visit: &Visit) -> Result<Page, PageError> {
    let chooses = visit.here.starts_with("/?accounts") && visit.visitor.may_choose_account();
    if chooses || visit.visitor.account_id().is_none() {
        return installation(visit).await;
    }
    let account = visit.require(Scope::EventsRead)?;
    let (app, now) = (&visit.app, visit.now());
    let (series, waiting, held, groups) = try_join4(
        read::series(app, account, &Range::Hour.query(now)),
        read::waiting(app, account),
        held(visit, account),
        groups(visit, account),
    )
    .await?;
    if series.totals.events == Some(0) && waiting.waiting == 0 && is_fresh(visit).await? {
        let first = store::Page { before: None, limit: 1 };
        let destinations = match visit.may(Scope::DestinationsRead) {
            true => read::destinations(app, account, &read::Wanted::default(), first).await?.data.len(),
            false => 0,
        };
        let body = html! { div #overview data-region { (quick_start::body(visit, destinations)) } };
        return Ok(Page::new("Overview", body).live("kind=event.received"));
    }
    let nodes = nodes(visit).await?;
    let body = html! {
        div #overview data-region {
            (LastHour::of(&series).render(now, &waiting))
            (attention(visit, now, &waiting, &held, &groups))
            (course(&series))
            (nodes)
        }
    };
    Ok(Page::new("Overview", body).live("kind=delivery.changed&kind=event.received&kind=destination.changed"))
}

/// Destinations that are held, if the visitor may see them.
async fn held(visit: &Visit, account: AccountId) -> Result<Vec<DestinationView>, ApiError> {
    if !visit.may(Scope::DestinationsRead) {
        return Ok(Vec::new());
    }
    let page = store::Page { before: None, limit: limits::PAGE_MAX };
    let found = read::destinations(&visit.app, account, &read::Wanted::held(), page).await?.data;
    // Its lane may know by now that the hold is over.
    Ok(found.into_iter().filter(|destination| destination.hold.is_some()).collect())
}

async fn groups(visit: &Visit, account: AccountId) -> Result<Vec<DeadLetterGroupView>, ApiError> {
    if !visit.may(Scope::DeliveriesRead) {
        return Ok(Vec::new());
    }
    let page = store::Page { before: None, limit: limits::PAGE_MAX };
    Ok(read::dead_letter_groups(&visit.app, account, store::GroupFilter::default(), page).await?.data)
}

/// No event that is kept at all.
async fn is_fresh(visit: &Visit) -> Result<bool, PageError> {
    let account = visit.require(Scope::EventsRead)?;
    let page = store::Page { before: None, limit: 1 };
    Ok(read::events(&visit.app, account, &contract::EventQuery::default(), page).await?.data.is_empty())
}

/// For an operator who looks at no account: all of them, and the nodes.
async fn installation(visit: &Visit) -> Result<Page, PageError> {
    let nodes = nodes(visit).await?;
    let body = html! {
        @if visit.visitor.is_operator() && visit.visitor.account_id().is_some() { p.more { button.button type="button" data-account="" { "Look at no account" } } }
        (page_error::choose(visit).await)
        (nodes)
    };
    Ok(Page::new("Installation", body))
}

/// What happened in the last hour, minute by minute, as numbers with their courses.
struct LastHour<'a> {
    totals: &'a SeriesTotalsView,
    course: Course,
    /// Since when what is told as now has been counted.
    lately: Timestamp,
    until: Timestamp,
    events: Line,
    delivered: Line,
    success: Line,
    latency: [Line; 3],
    backlog: Line,
}

impl<'a> LastHour<'a> {
    fn of(series: &'a SeriesView) -> Self {
        let course = Course::from_its_beginning(series);
        let line = |name, class, pick: &dyn Fn(&SeriesPointView) -> Option<f64>| {
            Line::new(name, class, course.values(pick))
        };
        let millis = |value: Option<u64>| value.map(|millis| millis as f64);
        let first = course.points.iter().find(|point| point.attempts > 0 || point.events > Some(0));
        let first = first.map_or(series.since, |first| first.at);
        let present = course.points.last().map_or(series.since, |point| point.at);
        let before = course.points.iter().rev().nth(1).map_or(present, |point| point.at);
        // Nobody knows when in its first minute it began.
        let tells = first < before || series.until.since(present) < TELLS;
        Self {
            totals: &series.totals,
            lately: if tells { before.max(first) } else { present },
            until: series.until,
            events: course.sums("events", "ok", |point| point.events.unwrap_or(0)),
            delivered: course.sums("delivered", "ok", |point| point.delivered),
            success: line("success", "ok", &series::success_ratio),
            latency: [
                line("p50", "p50", &|point| millis(point.latency_ms.deliveries.p50)),
                line("p95", "p95", &|point| millis(point.latency_ms.deliveries.p95)),
                line("p99", "p99", &|point| millis(point.latency_ms.deliveries.p99)),
            ],
            backlog: line("waiting", "waiting", &|point| point.backlog.map(|rows| rows as f64)),
            course,
        }
    }

    /// How many a second, now and not in the mean of the hour.
    fn rate(&self, pick: impl Fn(&SeriesPointView) -> u64) -> String {
        let lately = self.course.points.iter().filter(|point| point.at >= self.lately);
        format::rate(lately.map(pick).sum(), self.until.since(self.lately).max(Duration::from_secs(1)))
    }

    fn sparkline(&self, label: &str, unit: Unit, lines: &[Line]) -> Markup {
        told_sparkline(label, self.course.from, self.course.step, unit, lines)
    }

    fn render(&self, now: Timestamp, waiting: &read::Waiting) -> Markup {
        let totals = self.totals;
        let latency = &totals.latency_ms.deliveries;
        let millis = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), format::millis);
        let failed: u64 = self.course.points.iter().map(series::failed).sum();
        let throttled: u64 = self.course.points.iter().map(series::throttled).sum();
        let one = std::slice::from_ref::<Line>;
        let columns = [
            (&self.events, Unit::Count),
            (&self.delivered, Unit::Count),
            (&self.success, Unit::Percent),
            (&self.latency[0], Unit::Millis),
            (&self.latency[1], Unit::Millis),
            (&self.latency[2], Unit::Millis),
            (&self.backlog, Unit::Count),
        ];
        html! {
            section.numbers aria-label="The last hour" {
                div.number {
                    h2 { "Events in" }
                    p.big { (self.rate(|point| point.events.unwrap_or(0))) }
                    (self.sparkline("Events a minute in the last hour", Unit::Count, one(&self.events)))
                    p.quiet { (format::number(totals.events.unwrap_or(0))) " in the last hour" }
                }
                div.number {
                    h2 { "Deliveries out" }
                    p.big { (self.rate(|point| point.delivered)) }
                    (self.sparkline("Deliveries a minute in the last hour", Unit::Count, one(&self.delivered)))
                    p.quiet { (format::number(totals.delivered)) " in " (format::count(totals.attempts, "attempt", "attempts")) }
                }
                div.number {
                    h2 { "Success" }
                    p.big { @match totals.success_ratio { Some(ratio) => (format::percent(ratio)), None => "–" } }
                    (self.sparkline("Success in the last hour", Unit::Percent, one(&self.success)))
                    p.quiet { (format::number(failed)) " failed" @if throttled > 0 { " · " (format::number(throttled)) " throttled" } }
                }
                div.number {
                    h2 title="From when a delivery was made to the end of the attempt that delivered it" { "Latency of deliveries" }
                    p.big { (millis(latency.p95)) span.unit { " p95" } }
                    (self.sparkline("Latency of deliveries in the last hour", Unit::Millis, &self.latency))
                    p.quiet { "p50 " (millis(latency.p50)) " · p99 " (millis(latency.p99)) }
                }
            }
            (self.behind(now, waiting))
            (chart::table(self.course.from, self.course.step, &columns))
        }
    }

    /// The line that says "behind".
    fn behind(&self, now: Timestamp, waiting: &read::Waiting) -> Markup {
        let late = waiting.oldest_due_at.is_some_and(|due| now.since(due) > MINUTE);
        let (in_flight, slots) = self
            .course
            .points
            .iter()
            .rev()
            .find_map(|point| Some((point.in_flight, point.max_concurrency?)))
            .unwrap_or((0.0, 0));
        let dead = self.totals.dead_letter;
        html! {
            section.behind aria-label="Backlog" {
                div { span.quiet { "Waiting" } strong.big { (format::number(waiting.waiting)) } }
                (self.sparkline("Deliveries that wait, in the last hour", Unit::Count, std::slice::from_ref(&self.backlog)))
                div { span.quiet title="For how long something has been due that has not been delivered" { "Oldest due" }
                    strong class=[late.then_some("warn")] { @match waiting.oldest_due_at { Some(due) => (moment::for_how_long(now, due)), None => "nothing is due" } } }
                div { span.quiet { "Slots in use" } strong { (format::compact(in_flight)) @if slots > 0 { span.quiet { " of " (format::number(slots)) } } } }
                div { span.quiet { "Dead letters, last hour" } strong class=[(dead > 0).then_some("bad")] { (format::number(dead)) } }
            }
        }
    }
}

/// One line of what needs somebody.
struct Need {
    impact: u64,
    line: Markup,
}

fn attention(
    visit: &Visit,
    now: Timestamp,
    waiting: &read::Waiting,
    held: &[DestinationView],
    groups: &[DeadLetterGroupView],
) -> Markup {
    let may_act = visit.may(Scope::DestinationsWrite);
    let near = waiting.waiting.saturating_mul(100) >= waiting.waiting_max.saturating_mul(NEAR_CAP);
    // Beyond the cap events are refused: nothing is worse.
    let full = near.then(|| Need { impact: u64::MAX, line: full_line(waiting) });
    let held = held.iter().map(|destination| {
        let waiting = destination.queued_events.max(0) as u64;
        // What waits counts; among those for which nothing waits, the worse state.
        let impact = waiting * 10 + u64::from(status::trouble(destination.status));
        Need { impact, line: held_line(now, destination, may_act) }
    });
    let growing = groups.iter().filter(|group| now.since(group.last_at) < HOUR);
    let dead = growing.map(|group| Need { impact: group.count * 10 + 5, line: dead_line(now, group) });
    let mut needs: Vec<Need> = full.into_iter().chain(held).chain(dead).collect();
    needs.sort_by_key(|need| Reverse(need.impact));
    let hidden = needs.len().saturating_sub(ATTENTION);
    html! {
        section.panel {
            h2 { "Needs attention" @if !needs.is_empty() { " " span.count { (needs.len()) } } }
            @if needs.is_empty() {
                p.all-well { (crate::icon::check()) "Nothing. Every destination takes its deliveries." }
            } @else {
                ul.needs { @for need in needs.iter().take(ATTENTION) { li { (need.line) } } }
                @if hidden > 0 { p.quiet { "and " (hidden) " more, in " a href="/destinations?held=true" { "Destinations" } " and " a href="/dead-letters" { "Dead letters" } } }
            }
        }
    }
}

fn full_line(waiting: &read::Waiting) -> Markup {
    let full = waiting.waiting >= waiting.waiting_max;
    html! {
        span.need-state { span.status.bad { (crate::icon::warning()) @if full { "backlog full" } @else { "backlog" } } }
        span.need-name { "The whole account" }
        span.need-text { @if full { "Events are refused until less waits" } @else { "Events are refused once " (format::number(waiting.waiting_max)) " deliveries wait" } }
        span.num { (format::number(waiting.waiting)) " waiting" }
        a.button href="/destinations?sort=backlog" { "See where" }
    }
}

fn held_line(now: Timestamp, destination: &DestinationView, may_act: bool) -> Markup {
    html! {
        span.need-state { (status::destination(destination.status)) }
        a.need-name href={ "/destinations/" (destination.id) } { (destination.name) }
        span.need-text {
            @if let Some(hold) = &destination.hold {
                (hold.detail)
                @match hold.until {
                    Some(until) if until > now => { " · next probe: " (moment::countdown(now, until)) },
                    _ => { " · for " (moment::for_how_long(now, hold.since)) },
                }
            }
        }
        span.num { (hold::waiting(destination)) " waiting" }
        @match (&destination.hold, may_act) {
            (Some(held), true) => {
                @let (action, label) = hold::remedy(held.reason);
                button.button type="button" data-action={ "/v1/destinations/" (destination.id) "/" (action) } data-done={ (label) ": done" } { (label) }
            },
            _ => a.button href={ "/destinations/" (destination.id) } { "Open" },
        }
    }
}

fn dead_line(now: Timestamp, group: &DeadLetterGroupView) -> Markup {
    html! {
        span.need-state { span.status.bad { (crate::icon::cross()) "dead letters" } }
        a.need-name href={ "/destinations/" (group.destination_id) } { @match &group.destination_name { Some(name) => (name), None => (format::short_id(group.destination_id)) } }
        span.need-text { (group.reason.as_str().replace('_', " ")) @if let Some(code) = group.http_status { " · HTTP " (code) } " · last " (moment::ago(now, group.last_at)) }
        span.num { (format::number(group.count)) " dead" }
        a.button href="/dead-letters" { "Replay…" }
    }
}

fn course(series: &SeriesView) -> Markup {
    let course = Course::from_its_beginning(series);
    let chart = Chart { brush: true, ..course.outcomes("Attempts a minute, last hour", &[]) };
    html! {
        section.panel {
            (chart.render())
            @if !series.totals.outcomes.is_empty() {
                ul.outcomes aria-label="Outcomes of attempts" { @for (outcome, count) in &series.totals.outcomes {
                    li { span class={ "swatch " (status::outcome_tone(*outcome).class()) } {} (status::outcome_word(*outcome)) " " strong.num { (format::number(*count)) } }
                } }
            }
        }
    }
}

/// The nodes, for whoever may see them.
pub(crate) async fn nodes(visit: &Visit) -> Result<Markup, PageError> {
    if !visit.visitor.is_operator() && !visit.may(Scope::AccountAdmin) {
        return Ok(Markup::default());
    }
    Ok(nodes_strip(visit.now(), &read::nodes(&visit.app).await?))
}

fn role(role: Role) -> &'static str {
    match role {
        Role::All => "listens and delivers",
        Role::Api => "listens",
        Role::Worker => "delivers",
    }
}

fn nodes_strip(now: Timestamp, nodes: &[NodeView]) -> Markup {
    html! {
        section.panel {
            h2 { (format::count(nodes.len() as u64, "node", "nodes")) }
            ul.nodes { @for node in nodes {
                li {
                    (status::node(node.status)) strong { (node.name) }
                    span.quiet { (role(node.role)) " · version " (node.version) " · " (format::number(node.shards.into())) " of 1,024 shards · up " (moment::for_how_long(now, node.joined_at)) }
                }
            } }
        }
    }
}
