//! One destination: why it waits, how it did, what it is told, and everything that can be done about it.

use super::{destination_form, events};
use crate::{
    chart::{Chart, Line, Mark, Unit},
    destination_names::DestinationNames,
    format,
    frame::Screen,
    hold, moment, name,
    page_error::PageError,
    params::link,
    series::{self, Series},
    status,
    visit::{Page, Visit},
};
use api::read;
use axum::{extract::Path, response::Response};
use contract::{
    AttemptView, DeliveryQuery, DestinationStatsView, DestinationStatus, DestinationView, HoldRecordView,
    StatsQuery,
};
use domain::{
    account::Scope,
    gate::HoldReason,
    id::{AccountId, DestinationId},
    time::Timestamp,
};
use maud::{Markup, html};
use std::time::Duration;

const ATTEMPTS: usize = 30;
const HOLDS: usize = 50;
const DELIVERIES: usize = 20;

pub(crate) async fn page(visit: Visit, Path(id): Path<String>) -> Response {
    let made = made(&visit, &id).await;
    visit.show(Screen::Destinations, made).await
}

async fn made(visit: &Visit, id: &str) -> Result<Page, PageError> {
    let account = visit.require(Scope::DestinationsRead)?;
    let id: DestinationId = id.parse().map_err(|_| api::error::ApiError::no_such("destination"))?;
    let (app, now) = (&visit.app, visit.now());
    let found = read::destination(app, account, id).await?;
    let destination = &found.view;
    let (over, word) = over(visit.params.get("over"));
    let holds =
        read::destination_holds(app, account, id, store::Page { before: None, limit: HOLDS }).await?.data;
    let query = StatsQuery { since: Some(now.minus(over)), until: None };
    let stats = read::destination_stats(app, account, id, &query).await?;
    let (attempts, deliveries) = if visit.may(Scope::DeliveriesRead) {
        let attempts =
            read::destination_attempts(app, account, id, store::Page { before: None, limit: ATTEMPTS })
                .await?
                .data;
        (attempts, recent(visit, account, destination).await?)
    } else {
        (Vec::new(), html! { p.quiet { "Your key may not see deliveries." } })
    };
    let body = html! {
        div #destination data-region {
            @if let Some(held) = &destination.hold { (hold::banner(now, destination, held, visit.may(Scope::DestinationsWrite))) }
            (facts(now, destination, &stats))
            (charts(id, &stats, &holds, now, over, word))
            @if !attempts.is_empty() { (timeline(now, &attempts, &holds)) }
        }
        section.tabbed data-tabs {
            div.tabs role="tablist" {
                button type="button" role="tab" aria-controls="deliveries" aria-selected="true" { "Deliveries" }
                button type="button" role="tab" aria-controls="settings" { "Settings" }
                button type="button" role="tab" aria-controls="signing" { "Signing" }
                button type="button" role="tab" aria-controls="test" { "Test" }
                button type="button" role="tab" aria-controls="history" { "History" }
            }
            div #deliveries role="tabpanel" { div #rows data-region data-list { (deliveries) } }
            div #settings role="tabpanel" { (destination_form::edit(visit, destination, found.version)) }
            div #signing role="tabpanel" { (signing(visit, destination)) }
            div #test role="tabpanel" { (test(visit, destination)) }
            div #history role="tabpanel" { (history(now, &holds)) }
        }
    };
    Ok(Page::new(destination.name.clone(), body)
        .with_actions(actions(visit, destination))
        .live(format!("destination_id={id}&kind=destination.changed&kind=delivery.changed")))
}

fn over(asked: Option<&str>) -> (Duration, &'static str) {
    match asked {
        Some("6h") => (Duration::from_secs(6 * 3_600), "6h"),
        Some("24h") => (Duration::from_secs(86_400), "24h"),
        _ => (Duration::from_secs(3_600), "1h"),
    }
}

fn actions(visit: &Visit, destination: &DestinationView) -> Markup {
    let id = destination.id;
    html! { @if visit.may(Scope::DestinationsWrite) {
        @match destination.status {
            DestinationStatus::Paused => button.button.primary type="button" data-action={ "/v1/destinations/" (id) "/resume" } data-done="Resumed" { "Resume" },
            DestinationStatus::Disabled => button.button.primary type="button" data-action={ "/v1/destinations/" (id) "/enable" } data-done="Enabled" { "Enable" },
            _ => button.button type="button" data-action={ "/v1/destinations/" (id) "/pause" } data-done="Paused" data-confirm={ "Pause " (destination.name) "?" }
                data-confirm-text="Its deliveries wait until it is resumed. Nothing is lost, and what is under way ends." { "Pause" },
        }
        button.button type="button" data-test { "Test " kbd { "t" } }
    } }
}

fn facts(now: Timestamp, destination: &DestinationView, stats: &DestinationStatsView) -> Markup {
    let latency = &stats.latency_ms;
    let millis = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), format::millis);
    html! {
        p.event-id { (status::destination(destination.status)) " " code.clip { (destination.url) } " " (name::copied_id(destination.id)) @if let Some(uid) = &destination.uid { " " span.quiet { "uid " (uid) } } }
        section.facts aria-label="Now" {
            div { span.quiet { "Success" } strong { @match stats.success_ratio.or(destination.success_rate_1h) { Some(ratio) => (format::percent(ratio)), None => "–" } } }
            div { span.quiet { "p50 · p95 · p99" } strong { (millis(latency.p50)) " · " (millis(latency.p95)) " · " (millis(latency.p99)) } }
            div { span.quiet { "In flight" } strong { (destination.in_flight) span.quiet { " of " (destination.max_concurrency) } } }
            div { span.quiet { "Rate limit" } strong { @match &destination.rate_limit { Some(limit) => { (limit.requests) span.quiet { " in " (limit.per_seconds) " s" } }, None => "none" } } }
            div { span.quiet { "Waiting" } strong { (hold::waiting(destination)) } }
            div { span.quiet { "Oldest" } strong { @match destination.oldest_queued_at { Some(at) => (moment::for_how_long(now, at)), None => "–" } } }
        }
    }
}

fn charts(
    id: DestinationId,
    stats: &DestinationStatsView,
    holds: &[HoldRecordView],
    now: Timestamp,
    over: Duration,
    word: &str,
) -> Markup {
    let series = series::of_destination(stats, now, over);
    let Some(first) = series.points.first() else { return Markup::default() };
    let marks: Vec<Mark> = holds
        .iter()
        .map(|held| Mark {
            from: held.since,
            to: held.ended_at.unwrap_or(now),
            class: hold::tone(held.reason).class(),
            label: format!(
                "{} since {}: {}",
                hold::word(held.reason),
                format::exact(held.since),
                held.detail
            ),
        })
        .collect();
    let chart = |title, lines, unit, stacked| Chart {
        title,
        from: first.at,
        step: series.step,
        lines,
        stacked,
        unit,
        marks: marks.clone(),
        brush: false,
    };
    let outcomes = chart(
        "Attempts",
        vec![
            line("succeeded", "ok", &series, |point| Some(point.ok as f64)),
            line("failed", "fail", &series, |point| Some(point.failed as f64)),
        ],
        Unit::Count,
        true,
    );
    let latency = chart(
        "Latency, p95",
        vec![line("p95", "latency", &series, |point| point.p95_ms.map(|p95| p95 as f64))],
        Unit::Millis,
        false,
    );
    html! {
        div.chart-head {
            h2 { "How it did" }
            nav.ranges aria-label="Time" { @for range in ["1h", "6h", "24h"] { a href=(link(&format!("/destinations/{id}"), &[("over", Some(range))])) aria-current=[(range == word).then_some("true")] { (range) } } }
            @if !marks.is_empty() { span.quiet { "shaded: holds" } }
        }
        div.charts { (outcomes.render()) (latency.render()) }
        @if !stats.http_statuses.is_empty() || !stats.outcomes.is_empty() {
            ul.outcomes aria-label="What was answered" {
                @for (code, count) in &stats.http_statuses { li { (status::code(Some(*code))) " " strong.num { (format::number(*count)) } } }
                @for (outcome, count) in stats.outcomes.iter().filter(|(outcome, _)| outcome.as_str() != "success") {
                    li { span class={ "swatch " (status::outcome_tone(*outcome).class()) } {} (status::outcome_word(*outcome)) " " strong.num { (format::number(*count)) } }
                }
            }
        }
    }
}

fn line(
    name: &'static str,
    class: &'static str,
    series: &Series,
    pick: impl Fn(&series::Point) -> Option<f64>,
) -> Line {
    Line { name, class, values: series.points.iter().map(pick).collect() }
}

/// The newest attempts in the order of time, with the holds between them, so that one sees the gap that they left.
fn timeline(now: Timestamp, attempts: &[AttemptView], holds: &[HoldRecordView]) -> Markup {
    enum Happened<'a> {
        Attempt(&'a AttemptView),
        Hold(&'a HoldRecordView),
    }
    let mut attempts: Vec<&AttemptView> = attempts.iter().collect();
    attempts.sort_by_key(|attempt| attempt.started_at);
    let from = attempts.first().map_or(now, |attempt| attempt.started_at);
    let mut happened: Vec<(Timestamp, Happened<'_>)> =
        attempts.into_iter().map(|attempt| (attempt.started_at, Happened::Attempt(attempt))).collect();
    happened.extend(
        holds.iter().filter(|held| held.since >= from).map(|held| (held.since, Happened::Hold(held))),
    );
    happened.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    html! {
        details.panel open {
            summary { h2 { "The last attempts" } }
            ol.strip { @for (at, what) in &happened { @match what {
                Happened::Attempt(attempt) => li class={ "strip-attempt " (status::outcome_tone(attempt.outcome).class()) } {
                    (moment::ago(now, *at))
                    a href={ "/events/" (attempt.event_id) "#" (attempt.delivery_id) } { @match attempt.http_status { Some(code) => { "HTTP " (code) }, None => (status::outcome_word(attempt.outcome)) } }
                    span.num { (format::millis(attempt.duration_ms)) }
                    span.quiet { "attempt " (attempt.number) @if attempt.connection_reused { " · reused" } @if let Some(error) = &attempt.error { " · " (error.message) } }
                },
                Happened::Hold(held) => li class={ "strip-hold " (hold::tone(held.reason).class()) } {
                    (moment::ago(now, *at))
                    strong { (hold::picture(held.reason)) (hold::word(held.reason)) }
                    span.num { @match held.ended_at { Some(end) => (format::span(end.since(held.since))), None => "goes on" } }
                    span.quiet { (held.detail) }
                },
            } } }
        }
    }
}

async fn recent(
    visit: &Visit,
    account: AccountId,
    destination: &DestinationView,
) -> Result<Markup, PageError> {
    let query = DeliveryQuery { destination_id: vec![destination.id], ..DeliveryQuery::default() };
    let found =
        read::deliveries(&visit.app, account, &query, store::Page { before: None, limit: DELIVERIES })
            .await?;
    let names = DestinationNames::of(visit, account, [destination.id]).await;
    let text = format!("destination:{}", destination.id);
    Ok(html! {
        @if found.data.is_empty() { p.quiet { "Nothing was delivered here yet." } } @else {
            (events::delivery_table(visit.now(), &text, &found.data, &names))
            p.more { a.button href=(link("/events", &[("q", Some(&text))])) { "All its deliveries" } " "
                a.button href=(link("/events", &[("q", Some(&format!("{text} status:dead_letter")))])) { "Its dead letters" } }
        }
    })
}

fn signing(visit: &Visit, destination: &DestinationView) -> Markup {
    let id = destination.id;
    html! {
        p { "Requests are signed by the " strong { (destination.signing.scheme.as_str()) } " scheme: the headers " code { "webhook-id" } ", " code { "webhook-timestamp" } " and " code { "webhook-signature" } " of Standard Webhooks." }
        @if visit.visitor.may_reveal_signing_secrets() {
            p { button.button type="button" data-reveal={ "/v1/destinations/" (id) "/secret" } data-member="secret" { "Reveal the secret" } " " span.quiet { "It is written into the audit log who did." } }
            div.revealed data-revealed hidden {}
        } @else { p.quiet { "You may not reveal the secret." } }
        @if visit.may(Scope::DestinationsWrite) {
            form.inline data-form={ "/v1/destinations/" (id) "/rotate-secret" } data-method="POST" data-done="The secret was changed" {
                label { "The old one signs as well for "
                    select name="overlap_seconds" data-type="number" { option value="3600" { "1 hour" } option value="86400" selected { "24 hours" } option value="604800" { "7 days" } option value="0" { "no time at all" } } }
                button.button type="submit" { "Rotate the secret" }
            }
        }
    }
}

fn test(visit: &Visit, destination: &DestinationView) -> Markup {
    html! { @if visit.may(Scope::DestinationsWrite) {
        form #test-form data-form={ "/v1/destinations/" (destination.id) "/test" } data-method="POST" data-result="test" {
            div.fields {
                label { "Type" input name="type" value="test" maxlength="128" pattern="[A-Za-z0-9._\\-]{1,128}"; }
                label.check { input type="checkbox" name="force" value="true"; " Although it is held, paused or disabled" }
            }
            label { "Payload (JSON)" textarea name="data" data-type="json" rows="4" spellcheck="false" { "{\"hello\": \"from Posthaste\"}" } }
            button.button.primary type="submit" { "Send test event" }
            p.hint { "It is sent once, in a slot of the destination, and stored nowhere." }
            div data-form-result role="status" {}
        }
    } @else { p.quiet { "You may not send tests." } } }
}

fn history(now: Timestamp, holds: &[HoldRecordView]) -> Markup {
    html! {
        @if holds.is_empty() { p.quiet { "It was never held." } } @else {
            table.list {
                thead { tr { th scope="col" { "Hold" } th scope="col" { "Why" } th.num scope="col" { "In a row" } th.num scope="col" { "Since" } th.num scope="col" { "Lasted" } } }
                tbody { @for held in holds { tr {
                    td { span class={ "status " (hold::tone(held.reason).class()) } { (hold::picture(held.reason)) (hold_word(held.reason)) } }
                    td.wide { (held.detail) }
                    td.num { @match held.step { Some(step) => (step), None => "–" } }
                    td.num { (moment::ago(now, held.since)) }
                    td.num { @match held.ended_at { Some(end) => (format::span(end.since(held.since))), None => span.warn { "goes on" } } }
                } } }
            }
        }
    }
}

fn hold_word(reason: HoldReason) -> &'static str {
    match reason {
        HoldReason::Throttle => "throttled",
        HoldReason::Breaker => "breaker open",
        HoldReason::Paused => "paused",
        HoldReason::Disabled => "disabled",
    }
}
