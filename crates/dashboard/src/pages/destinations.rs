//! The destinations, the worst first.

use crate::{
    chart::sparkline,
    format,
    frame::Screen,
    hold, moment,
    page_error::PageError,
    params::link,
    reads::together,
    series, status,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{DestinationStatsView, DestinationView, StatsQuery};
use domain::{
    account::Scope,
    id::{AccountId, DestinationId},
    limits,
    time::Timestamp,
};
use futures_util::FutureExt;
use maud::{Markup, html};
use std::{cmp::Reverse, collections::HashMap, time::Duration};

const DAY: Duration = Duration::from_secs(86_400);
/// Whose course is drawn: each costs a few reads.
const DRAWN: usize = 50;

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit).await;
    visit.show(Screen::Destinations, made).await
}

async fn made(visit: &Visit) -> Result<Page, PageError> {
    let account = visit.require(Scope::DestinationsRead)?;
    let page = store::Page { before: visit.params.parse("before"), limit: limits::PAGE_MAX };
    let found = read::destinations(&visit.app, account, &read::Wanted::default(), page).await?;
    let mut rows = found.data;
    sort(&mut rows, visit.params.get("sort").unwrap_or("trouble"));
    let courses = courses(visit, account, &rows).await;
    let now = visit.now();
    let may_act = visit.may(Scope::DestinationsWrite);
    let sorted = visit.params.get("sort").unwrap_or("trouble");
    let head = |key: &str, label: &str, numeric: bool| {
        html! {
            th scope="col" class=[numeric.then_some("num")] aria-sort=[(sorted == key).then_some("descending")] { a.sort href=(link("/destinations", &[("sort", Some(key))])) { (label) } }
        }
    };
    let body = html! {
        div.tools {
            div.selection #selection hidden { strong #selection-count {} " selected"
                button.button type="button" data-bulk="/v1/destinations/{}/pause" data-done="Paused" { "Pause" }
                button.button type="button" data-bulk="/v1/destinations/{}/resume" data-done="Resumed" { "Resume" }
                button.button type="button" data-clear-selection { "Clear" } }
        }
        div #rows data-region data-list {
            @if rows.is_empty() {
                div.empty { h2 { "No destination yet" } p { "A destination is a URL that events are delivered to, at its own pace." }
                    @if may_act { p { a.button.primary href="/destinations/new" { "Add a destination" } } } }
            } @else {
                table.list {
                    thead { tr {
                        th.pick { span.sr { "Select" } }
                        (head("name", "Destination", false)) (head("trouble", "State", false)) th scope="col" { "Last 24 h" }
                        (head("success", "Success, 1 h", true)) th.num scope="col" { "p95" } th.num scope="col" { "In flight" } th.num scope="col" { "Rate limit" } (head("backlog", "Waiting", true)) (head("oldest", "Oldest", true))
                    } }
                    tbody { @for destination in &rows { (row(now, destination, courses.get(&destination.id))) } }
                }
            }
            @if let Some(next) = found.next { p.more { a.button href=(link("/destinations", &[("sort", visit.params.get("sort")), ("before", Some(&next.to_string()))])) { "Older destinations" } } }
        }
    };
    let actions = html! { @if may_act { a.button.primary href="/destinations/new" { "Add" } } };
    Ok(Page::new("Destinations", body)
        .with_actions(actions)
        .live("kind=destination.changed&kind=delivery.changed"))
}

/// By what was asked for; what is alike stays in the order of age.
fn sort(rows: &mut [DestinationView], by: &str) {
    match by {
        "name" => rows.sort_by_key(|row| row.name.to_lowercase()),
        "backlog" => rows.sort_by_key(|row| Reverse(row.queued_events)),
        "oldest" => rows.sort_by_key(|row| row.oldest_queued_at.unwrap_or(Timestamp::MAX)),
        "success" => rows.sort_by(|a, b| {
            let rate = |row: &DestinationView| row.success_rate_1h.unwrap_or(2.0);
            rate(a).total_cmp(&rate(b))
        }),
        _ => rows.sort_by_key(|row| {
            let failing = row.success_rate_1h.map_or(0, |rate| ((1.0 - rate) * 1_000.0) as u64);
            Reverse((status::trouble(row.status), row.queued_events, failing))
        }),
    }
}

async fn courses(
    visit: &Visit,
    account: AccountId,
    rows: &[DestinationView],
) -> HashMap<DestinationId, DestinationStatsView> {
    let query = &StatsQuery { since: Some(visit.now().minus(DAY)), until: None };
    let each = rows
        .iter()
        .take(DRAWN)
        .map(|row| read::destination_stats(&visit.app, account, row.id, query).boxed());
    let found = together(each.collect()).await;
    rows.iter().zip(found).filter_map(|(row, stats)| Some((row.id, stats.ok()?))).collect()
}

fn row(now: Timestamp, destination: &DestinationView, stats: Option<&DestinationStatsView>) -> Markup {
    let course = stats.map(|stats| series::of_destination(stats, now, DAY));
    html! {
        tr data-key=(destination.id) tabindex="-1" {
            td.pick { input type="checkbox" data-pick=(destination.id) aria-label={ "Select " (destination.name) }; }
            td.wide { a.row-link href={ "/destinations/" (destination.id) } { (destination.name) } div.quiet.clip { (host(&destination.url)) } }
            td { (status::destination(destination.status))
                @if let Some(until) = destination.hold.as_ref().and_then(|hold| hold.until).filter(|until| *until > now) { span.quiet.why { (moment::countdown(now, until)) } } }
            td.spark { @if let Some(course) = &course {
                div.stack {
                    (sparkline(&format!("{} succeeded in 24 hours", format::number(course.ok())), "ok", &course.points.iter().map(|point| Some(point.ok as f64)).collect::<Vec<_>>()))
                    @if course.failed() > 0 { (sparkline(&format!("{} failed in 24 hours", format::number(course.failed())), "fail", &course.points.iter().map(|point| Some(point.failed as f64)).collect::<Vec<_>>())) }
                }
            } }
            td.num data-label="success" { @match destination.success_rate_1h { Some(rate) => span class=[(rate < 0.95).then_some("bad")] { (format::percent(rate)) }, None => span.quiet { "–" } } }
            td.num data-label="p95" { @match stats.and_then(|stats| stats.latency_ms.p95) { Some(p95) => (format::millis(p95)), None => span.quiet { "–" } } }
            td.num data-label="in flight" { (destination.in_flight) span.quiet { " of " (destination.max_concurrency) } }
            td.num data-label="rate" { @match &destination.rate_limit { Some(limit) => { (limit.requests) span.quiet { " / " (limit.per_seconds) " s" } }, None => span.quiet { "none" } } }
            td.num data-label="waiting" { (hold::waiting(destination)) }
            td.num data-label="oldest" { @match destination.oldest_queued_at { Some(at) => (moment::for_how_long(now, at)), None => span.quiet { "–" } } }
        }
    }
}

/// What tells destinations apart at a glance.
pub(crate) fn host(url: &str) -> String {
    url::Url::parse(url)
        .ok()
        .and_then(|url| {
            Some(format!(
                "{}{}{}",
                url.host_str()?,
                url.port().map(|port| format!(":{port}")).unwrap_or_default(),
                url.path()
            ))
        })
        .unwrap_or_else(|| url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_told_by_its_host_and_path() {
        assert_eq!(host("https://example.com:8443/hooks?x=1"), "example.com:8443/hooks");
        assert_eq!(host("nonsense"), "nonsense");
    }
}
