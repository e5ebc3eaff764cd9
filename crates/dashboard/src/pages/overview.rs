//! The first screen: is it working?

use super::quick_start;
use crate::{
    chart::{Chart, Line, Unit, sparkline},
    format,
    frame::Screen,
    hold, moment,
    page_error::{self, PageError},
    series::{self, MINUTE, Series},
    status,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{
    DeadLetterGroupView, DestinationStatus, DestinationView, FanoutStatsView, NodeView, StatsQuery, StatsView,
};
use domain::{account::Scope, limits, time::Timestamp};
use maud::{Markup, html};
use std::{cmp::Reverse, time::Duration};

const HOUR: Duration = Duration::from_secs(3_600);
/// Rows of what needs somebody.
const ATTENTION: usize = 12;

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
    let query = StatsQuery { since: Some(now.minus(HOUR)), until: None };
    let stats = read::stats(app, account, &query).await?;
    // What it is now, and not in the mean of the hour.
    let lately = StatsQuery { since: Some(now.minus(MINUTE * 5)), until: None };
    let lately = read::stats(app, account, &lately).await?;
    let first = store::Page { before: None, limit: limits::PAGE_MAX };
    let (destinations, more) = if visit.may(Scope::DestinationsRead) {
        let found = read::destinations(app, account, &read::Wanted::default(), first).await?;
        (found.data, found.next.is_some())
    } else {
        (Vec::new(), false)
    };
    if stats.totals.events == 0 && stats.totals.waiting == 0 && is_fresh(visit).await? {
        let body = html! { div #overview data-region { (quick_start::body(visit, destinations.len())) } };
        return Ok(Page::new("Overview", body).live("kind=event.received"));
    }
    let groups = if visit.may(Scope::DeliveriesRead) {
        let page = store::Page { before: None, limit: limits::PAGE_MAX };
        read::dead_letter_groups(app, account, store::GroupFilter::default(), page).await?.data
    } else {
        Vec::new()
    };
    let ids: Vec<_> = destinations.iter().map(|destination| destination.id).collect();
    let series = if more { None } else { series::of_account(app, account, &ids, now, HOUR).await? };
    let fanout = read::fanout_stats(app, account, &query).await?;
    let nodes = nodes(visit).await?;
    let body = html! {
        div #overview data-region {
            (numbers(&stats, &lately, series.as_ref(), &fanout))
            (backlog(now, &stats, &destinations))
            (attention(visit, now, &destinations, &groups))
            (course(series.as_ref()))
            (nodes)
        }
    };
    Ok(Page::new("Overview", body).live("kind=delivery.changed&kind=event.received&kind=destination.changed"))
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

fn numbers(
    stats: &StatsView,
    lately: &StatsView,
    series: Option<&Series>,
    fanout: &FanoutStatsView,
) -> Markup {
    let over = lately.until.since(lately.since).max(MINUTE);
    let totals = &stats.totals;
    let line = |pick: &dyn Fn(&series::Point) -> Option<f64>| -> Vec<Option<f64>> {
        series.map(|series| series.points.iter().map(pick).collect()).unwrap_or_default()
    };
    let attempts = line(&|point| Some((point.ok + point.failed) as f64));
    let success = line(&|point| {
        let all = point.ok + point.failed;
        (all > 0).then(|| point.ok as f64 / all as f64)
    });
    let latency = line(&|point| point.p95_ms.map(|p95| p95 as f64));
    let ratio = series.and_then(Series::success_ratio);
    let millis = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), format::millis);
    html! {
        section.numbers aria-label="The last hour" {
            div.number {
                h2 { "Events in" }
                p.big { (format::rate(lately.totals.events, over)) }
                p.quiet { (format::number(totals.events)) " in the last hour" }
            }
            div.number {
                h2 { "Deliveries out" }
                p.big { (format::rate(lately.totals.delivered, over)) }
                (sparkline("Attempts a minute in the last hour", "ok", &attempts))
                p.quiet { (format::number(totals.attempts)) " attempts in the last hour" }
            }
            div.number {
                h2 { "Success" }
                p.big { @match ratio { Some(ratio) => (format::percent(ratio)), None => "–" } }
                (sparkline("Success in the last hour", "ok", &success))
                p.quiet { @match series {
                    Some(series) => { (format::count(series.failed(), "failed attempt", "failed attempts")) },
                    None => "counted by destination: too many to add up here",
                } }
            }
            div.number {
                h2 title="From receipt to the end of the last delivery" { "Latency of events" }
                p.big { (millis(fanout.lag_ms.p95)) span.unit { " p95" } }
                (sparkline("95th percentile of the slowest destination in the last hour", "latency", &latency))
                p.quiet { "p50 " (millis(fanout.lag_ms.p50)) " · p99 " (millis(fanout.lag_ms.p99)) }
            }
        }
    }
}

/// The one line that says "behind".
fn backlog(now: Timestamp, stats: &StatsView, destinations: &[DestinationView]) -> Markup {
    let oldest = destinations.iter().filter_map(|destination| destination.oldest_queued_at).min();
    let in_flight: u64 = destinations.iter().map(|destination| u64::from(destination.in_flight)).sum();
    let late = oldest.is_some_and(|oldest| now.since(oldest) > MINUTE);
    html! {
        section.facts aria-label="Backlog" {
            div { span.quiet { "Waiting" } strong { (format::number(stats.totals.waiting)) } }
            div { span.quiet { "Oldest" } strong class=[late.then_some("warn")] { @match oldest { Some(at) => (moment::for_how_long(now, at)), None => "nothing waits" } } }
            div { span.quiet { "In flight" } strong { (in_flight) } }
            div { span.quiet { "Dead letters, last hour" } strong class=[(stats.totals.dead_letter > 0).then_some("bad")] { (format::number(stats.totals.dead_letter)) } }
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
    destinations: &[DestinationView],
    groups: &[DeadLetterGroupView],
) -> Markup {
    let may_act = visit.may(Scope::DestinationsWrite);
    let held = destinations.iter().filter(|destination| destination.status != DestinationStatus::Active);
    let held = held.map(|destination| {
        let waiting = destination.queued_events.max(0) as u64;
        // What waits counts; among those for which nothing waits, the worse state.
        let impact = waiting * 10 + u64::from(status::trouble(destination.status));
        Need { impact, line: held_line(now, destination, may_act) }
    });
    let recent = groups.iter().filter(|group| now.since(group.last_at) < Duration::from_secs(86_400));
    let dead = recent.map(|group| {
        let name = destinations
            .iter()
            .find(|destination| destination.id == group.destination_id)
            .map(|found| found.name.as_str());
        Need { impact: group.count * 10 + 5, line: dead_line(now, group, name) }
    });
    let mut needs: Vec<Need> = held.chain(dead).collect();
    needs.sort_by_key(|need| Reverse(need.impact));
    let hidden = needs.len().saturating_sub(ATTENTION);
    html! {
        section.panel {
            h2 { "Needs attention" @if !needs.is_empty() { " " span.count { (needs.len()) } } }
            @if needs.is_empty() {
                p.all-well { (crate::icon::check()) "Nothing. Every destination takes its deliveries." }
            } @else {
                ul.needs { @for need in needs.iter().take(ATTENTION) { li { (need.line) } } }
                @if hidden > 0 { p.quiet { "and " (hidden) " more, in " a href="/destinations" { "Destinations" } " and " a href="/dead-letters" { "Dead letters" } } }
            }
        }
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
                    Some(until) if until > now => { " · again in " (moment::countdown(now, until)) },
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

fn dead_line(now: Timestamp, group: &DeadLetterGroupView, name: Option<&str>) -> Markup {
    html! {
        span.need-state { span.status.bad { (crate::icon::cross()) "dead letters" } }
        a.need-name href={ "/destinations/" (group.destination_id) } { @match name { Some(name) => (name), None => (format::short_id(group.destination_id)) } }
        span.need-text { (group.reason.as_str().replace('_', " ")) @if let Some(code) = group.http_status { " · HTTP " (code) } " · last " (moment::ago(now, group.last_at)) }
        span.num { (format::number(group.count)) " dead" }
        a.button href="/dead-letters" { "Replay…" }
    }
}

fn course(series: Option<&Series>) -> Markup {
    let Some(series) = series else { return Markup::default() };
    let Some(first) = series.points.first() else { return Markup::default() };
    let values = |pick: fn(&series::Point) -> u64| {
        series.points.iter().map(|point| Some(pick(point) as f64)).collect()
    };
    let chart = Chart {
        title: "Attempts a minute, last hour",
        from: first.at,
        step: series.step,
        lines: vec![
            Line { name: "succeeded", class: "ok", values: values(|point| point.ok) },
            Line { name: "failed", class: "fail", values: values(|point| point.failed) },
        ],
        stacked: true,
        unit: Unit::Count,
        marks: Vec::new(),
        brush: true,
    };
    html! {
        section.panel {
            (chart.render())
            @if !series.outcomes.is_empty() {
                ul.outcomes aria-label="Outcomes of attempts" { @for (outcome, count) in &series.outcomes {
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

fn nodes_strip(now: Timestamp, nodes: &[NodeView]) -> Markup {
    html! {
        section.panel {
            h2 { (format::count(nodes.len() as u64, "node", "nodes")) }
            ul.nodes { @for node in nodes {
                li {
                    (status::node(node.status)) strong { (node.name) }
                    span.quiet { (node.role.as_str()) " · " (node.version) " · " (node.shards) " of 1,024 shards · up " (moment::for_how_long(now, node.joined_at)) }
                }
            } }
        }
    }
}
