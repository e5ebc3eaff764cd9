//! The destinations, the worst first.

use crate::{
    chart::{Unit, told_sparkline},
    format,
    frame::Screen,
    hold, moment,
    page_error::PageError,
    params::link,
    series::{self, Course},
    status,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{DestinationView, SeriesView};
use domain::{account::Scope, id::DestinationId, limits, time::Timestamp};
use maud::{Markup, html};
use std::{cmp::Reverse, collections::HashMap};

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit).await;
    visit.show(Screen::Destinations, made).await
}

async fn made(visit: &Visit) -> Result<Page, PageError> {
    let account = visit.require(Scope::DestinationsRead)?;
    let page = store::Page { before: visit.params.parse("before"), limit: limits::PAGE_MAX };
    let held = visit.params.get("held") == Some("true");
    let wanted = if held { read::Wanted::held() } else { read::Wanted::default() };
    let found = read::destinations(&visit.app, account, &wanted, page).await?;
    let mut rows = found.data;
    let sorted = visit.params.get("sort").unwrap_or("trouble");
    sort(&mut rows, sorted);
    // Those at the top: the rest has its numbers.
    let drawn: Vec<_> = rows.iter().take(limits::SERIES_AT_ONCE).map(|row| row.id).collect();
    let series = read::destinations_series(&visit.app, account, &drawn).await?;
    let now = visit.now();
    let may_act = visit.may(Scope::DestinationsWrite);
    let held_word = held.then_some("true");
    let address = |sort: Option<&str>, held: Option<&str>, before: Option<&str>| {
        link("/destinations", &[("sort", sort), ("held", held), ("before", before)])
    };
    let head = |key: &str, label: &str, numeric: bool| {
        html! {
            th scope="col" class=[numeric.then_some("num")] aria-sort=[(sorted == key).then_some("descending")] { a.sort href=(address(Some(key), held_word, None)) { (label) } }
        }
    };
    let by = visit.params.get("sort");
    let body = html! {
        div.tools {
            nav.ranges aria-label="Which" {
                a href=(address(by, None, None)) aria-current=[(!held).then_some("true")] { "All" }
                a href=(address(by, Some("true"), None)) aria-current=[held.then_some("true")] { "Held" }
            }
            @if may_act { div.selection #selection hidden { strong #selection-count {} " selected"
                button.button type="button" data-bulk="/v1/destinations/{}/pause" data-done="Paused"
                    data-bulk-text="Their deliveries wait until they are resumed. Nothing is lost, and what is under way ends." { "Pause" }
                button.button type="button" data-bulk="/v1/destinations/{}/resume" data-done="Resumed"
                    data-bulk-text="What waits is delivered, at each destination's own pace." { "Resume" }
                button.button type="button" data-clear-selection { "Clear" } } }
        }
        div #rows data-region data-list {
            @if rows.is_empty() && held {
                div.empty.good-news { (crate::icon::check()) h2 { "None is held" } p { "Every destination takes its deliveries." } }
            } @else if rows.is_empty() {
                div.empty { h2 { "No destination yet" } p { "A destination is a URL that events are delivered to, at its own pace." }
                    @if may_act { p { a.button.primary href="/destinations/new" { "Add a destination" } } } }
            } @else {
                table.list.destinations {
                    thead { tr {
                        th.pick { @if may_act { input type="checkbox" data-pick-all aria-label="Select all on this page"; } @else { span.sr { "Select" } } }
                        (head("name", "Destination", false)) (head("trouble", "State", false)) th scope="col" { "Last 24 h" }
                        (head("success", "Success, 1 h", true)) th.num scope="col" { "p95, 24 h" } th.num scope="col" { "In flight" } th.num scope="col" { "Rate limit" } (head("backlog", "Waiting", true)) (head("oldest", "Oldest", true))
                    } }
                    tbody { @for destination in &rows { (row(now, destination, series.get(&destination.id), may_act)) } }
                }
            }
            @if let Some(next) = found.next { p.more { a.button href=(address(by, held_word, Some(&next.to_string()))) { "Older destinations" } } }
        }
        div #courses data-region { (courses(&rows, &series)) }
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

fn row(now: Timestamp, destination: &DestinationView, series: Option<&SeriesView>, may_act: bool) -> Markup {
    html! {
        tr data-key=(destination.id) tabindex="-1" {
            td.pick { @if may_act { input type="checkbox" data-pick=(destination.id) aria-label={ "Select " (destination.name) }; } }
            td.wide { a.row-link href={ "/destinations/" (destination.id) } { (destination.name) } div.quiet.clip { (host(&destination.url)) } }
            td { (status::destination(destination.status))
                @if let Some(until) = destination.hold.as_ref().and_then(|hold| hold.until).filter(|until| *until > now) { span.quiet.why { (moment::countdown(now, until)) } } }
            td.spark { @if let Some(series) = series { (course(series)) } }
            td.num data-label="success" { @match destination.success_rate_1h { Some(rate) => span class=[(rate < 0.95).then_some("bad")] { (format::percent(rate)) }, None => span.quiet { "–" } } }
            td.num data-label="p95" { @match series.and_then(|series| series.totals.latency_ms.attempts.p95) { Some(p95) => (format::millis(p95)), None => span.quiet { "–" } } }
            td.num data-label="in flight" { (destination.in_flight) span.quiet { " of " (destination.max_concurrency) } }
            td.num data-label="rate" { @match &destination.rate_limit { Some(limit) => { (limit.requests) span.quiet { " / " (limit.per_seconds) " s" } }, None => span.quiet { "none" } } }
            td.num data-label="waiting" { (hold::waiting(destination)) }
            td.num data-label="oldest" { @match destination.oldest_queued_at { Some(at) => (moment::for_how_long(now, at)), None => span.quiet { "–" } } }
        }
    }
}

fn course(series: &SeriesView) -> Markup {
    let course = Course::of(series);
    let mut lines = vec![course.sums("succeeded", "ok", series::succeeded)];
    let (good, bad): (u64, u64) =
        course.points.iter().fold((0, 0), |(a, b), at| (a + series::succeeded(at), b + series::failed(at)));
    if bad > 0 {
        lines.push(course.sums("failed", "fail", series::failed));
    }
    let label = format!("In 24 hours {} succeeded, {} failed", format::number(good), format::number(bad));
    told_sparkline(&label, course.from, course.step, Unit::Count, &lines)
}

/// What the sparklines show: what succeeded, and what failed, hour by hour.
fn courses(rows: &[DestinationView], series: &HashMap<DestinationId, SeriesView>) -> Markup {
    let courses: Vec<_> =
        rows.iter().filter_map(|row| Some((row, Course::of(series.get(&row.id)?)))).collect();
    let Some((_, first)) = courses.first() else { return Markup::default() };
    html! {
        details.chart-table {
            summary { "The last 24 hours as a table" }
            div.scroll { table {
                thead { tr { th scope="col" { "Hour (UTC)" } @for point in &first.points { th scope="col" { (format::hour_and_minute(point.at)) } } } }
                tbody { @for (row, course) in &courses { tr {
                    th scope="row" { (row.name) }
                    @for point in &course.points {
                        @let failed = series::failed(point);
                        td { (format::number(series::succeeded(point))) @if failed > 0 { " (" (format::number(failed)) " failed)" } }
                    }
                } } }
            } }
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
