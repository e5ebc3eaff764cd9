//! One destination: why it waits, how it did, what it is told, and everything that can be done about it.

use super::{destination_auth, destination_form, destination_signing, events};
use crate::{
    chart::Mark,
    destination_names::DestinationNames,
    format,
    frame::Screen,
    hold, moment, name,
    page_error::PageError,
    params::link,
    series::{Course, Range},
    status,
    timeline::Timeline,
    visit::{Page, Visit},
};
use api::{error::ApiError, read};
use axum::{extract::Path, response::Response};
use contract::{
    AttemptView, AuditEntryView, DeliveryQuery, DeliveryView, DestinationStatus, DestinationView,
    HoldRecordView, SeriesView,
};
use domain::{
    account::Scope,
    gate::HoldReason,
    id::{AccountId, DestinationId},
    time::Timestamp,
};
use futures_util::future::try_join5;
use maud::{Markup, html};

/// Points of the timeline.
const ATTEMPTS: usize = 120;
const HOLDS: usize = 50;
const DELIVERIES: usize = 20;
/// Changes that are told, newest first.
const CHANGES: usize = 30;
/// Members of a change that are told; a change has them all in the audit log.
const MEMBERS: usize = 6;

pub(crate) async fn page(visit: Visit, Path(id): Path<String>) -> Response {
    let made = made(&visit, &id).await;
    visit.show(Screen::Destinations, made).await
}

async fn made(visit: &Visit, id: &str) -> Result<Page, PageError> {
    let account = visit.require(Scope::DestinationsRead)?;
    let id: DestinationId = id.parse().map_err(|_| ApiError::no_such("destination"))?;
    let (app, now) = (&visit.app, visit.now());
    let found = read::destination(app, account, id).await?;
    let destination = &found.view;
    let range = Range::of(visit.params.get("over"));
    let page = store::Page { before: None, limit: HOLDS };
    let (series, holds, attempts, deliveries, changes) = try_join5(
        read::destination_series(app, account, id, &range.query(now)),
        read::destination_holds(app, account, id, page),
        attempts(visit, account, id),
        deliveries(visit, account, id),
        changes(visit, account, id),
    )
    .await?;
    let holds = holds.data;
    let body = html! {
        div #destination data-region {
            @if let Some(held) = &destination.hold { (hold::banner(now, destination, held, visit.may(Scope::DestinationsWrite))) }
            (facts(now, destination, &series, range))
            @if let Some(attempts) = &attempts { @if !attempts.is_empty() {
                section.panel { (Timeline::of(now, attempts, &holds).render()) }
            } }
            (charts(destination, &series, &holds, now, range))
        }
        section.tabbed data-tabs {
            div.tabs role="tablist" {
                button type="button" role="tab" aria-controls="deliveries" aria-selected="true" { "Deliveries" }
                button type="button" role="tab" aria-controls="settings" { "Settings" }
                button type="button" role="tab" aria-controls="filters" { "Filters" }
                button type="button" role="tab" aria-controls="auth" { "Auth" }
                button type="button" role="tab" aria-controls="signing" { "Signing" }
                button type="button" role="tab" aria-controls="test" { "Test" }
                button type="button" role="tab" aria-controls="history" { "History" }
            }
            div #deliveries role="tabpanel" { div #rows data-region data-list { (recent(now, destination, deliveries.as_deref())) } }
            div #settings role="tabpanel" { (destination_form::edit(visit, destination, found.version)) }
            div #filters role="tabpanel" { (filters(visit, id)) }
            div #auth role="tabpanel" { (destination_auth::panel(visit, destination, found.version)) }
            div #signing role="tabpanel" { (destination_signing::panel(visit, destination, found.version)) }
            div #test role="tabpanel" { (test(visit, destination)) }
            div #history role="tabpanel" { (history(now, &holds)) (changed(now, changes.as_deref())) }
        }
    };
    Ok(Page::new(destination.name.clone(), body)
        .with_actions(actions(visit, destination))
        .live(format!("destination_id={id}&kind=destination.changed&kind=delivery.changed")))
}

/// None where the visitor may not see them; so with the next two.
async fn attempts(
    visit: &Visit,
    account: AccountId,
    id: DestinationId,
) -> Result<Option<Vec<AttemptView>>, ApiError> {
    if !visit.may(Scope::DeliveriesRead) {
        return Ok(None);
    }
    read::destination_timeline(&visit.app, account, id, ATTEMPTS).await.map(Some)
}

async fn deliveries(
    visit: &Visit,
    account: AccountId,
    id: DestinationId,
) -> Result<Option<Vec<DeliveryView>>, ApiError> {
    if !visit.may(Scope::DeliveriesRead) {
        return Ok(None);
    }
    let query = DeliveryQuery { destination_id: vec![id], ..DeliveryQuery::default() };
    let page = store::Page { before: None, limit: DELIVERIES };
    Ok(Some(read::deliveries(&visit.app, account, &query, page).await?.data))
}

async fn changes(
    visit: &Visit,
    account: AccountId,
    id: DestinationId,
) -> Result<Option<Vec<AuditEntryView>>, ApiError> {
    if !visit.may(Scope::AuditRead) {
        return Ok(None);
    }
    let filter = store::AuditFilter { object_id: Some(id.to_string()), ..store::AuditFilter::default() };
    let page = store::Page { before: None, limit: CHANGES };
    Ok(Some(read::audit_entries(&visit.app, Some(account), &filter, page).await?.data))
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

fn facts(now: Timestamp, destination: &DestinationView, series: &SeriesView, range: Range) -> Markup {
    let latency = &series.totals.latency_ms.attempts;
    let millis = |value: Option<u64>| value.map_or_else(|| "–".to_owned(), format::millis);
    html! {
        p.event-id { (status::destination(destination.status)) " " code.clip { (destination.url) } " " (name::copied_id(destination.id)) @if let Some(uid) = &destination.uid { " " span.quiet { "uid " (uid) } } }
        section.facts aria-label="Now" {
            div { span.quiet { "Success, " (range.last()) } strong { @match series.totals.success_ratio { Some(ratio) => (format::percent(ratio)), None => "–" } } }
            div { span.quiet { "p50 · p95 · p99" } strong { (millis(latency.p50)) " · " (millis(latency.p95)) " · " (millis(latency.p99)) } }
            div { span.quiet { "In flight" } strong { (destination.in_flight) span.quiet { " of " (destination.max_concurrency) } } }
            div { span.quiet { "Rate limit" } strong { @match &destination.rate_limit { Some(limit) => { (limit.requests) span.quiet { " in " (limit.per_seconds) " s" } }, None => "none" } } }
            div { span.quiet { "Waiting" } strong { (hold::waiting(destination)) } }
            div { span.quiet { "Oldest" } strong { @match destination.oldest_queued_at { Some(at) => (moment::for_how_long(now, at)), None => "–" } } }
        }
    }
}

fn charts(
    destination: &DestinationView,
    series: &SeriesView,
    holds: &[HoldRecordView],
    now: Timestamp,
    range: Range,
) -> Markup {
    let course = Course::from_its_beginning(series);
    let mark = |held: &HoldRecordView| Mark {
        from: held.since,
        to: held.ended_at.unwrap_or(now),
        class: hold::tone(held.reason).class(),
        label: format!("{} since {}: {}", hold::word(held.reason), format::exact(held.since), held.detail),
    };
    let marks: Vec<Mark> = holds.iter().map(mark).filter(|mark| mark.to > course.from).collect();
    let address =
        |range: Range| link(&format!("/destinations/{}", destination.id), &[("over", Some(range.word()))]);
    html! {
        div.chart-head {
            h2 { "How it did" }
            nav.ranges aria-label="Time" { @for each in Range::ALL { a href=(address(each)) aria-current=[(each == range).then_some("true")] { (each.word()) } } }
            @if !marks.is_empty() { span.hold-key.quiet { "held" } }
        }
        div.charts {
            (course.outcomes("Attempts", &marks).render())
            (course.latency("How long attempts took", &marks, |latency| &latency.attempts).render())
            (course.slots(destination.max_concurrency, &marks).render())
            (course.denied(&marks).render())
            (course.codes(&marks).render())
            (course.backlog("Backlog", &marks).render())
        }
        @let totals = &series.totals;
        @if totals.attempts > 0 {
            ul.outcomes aria-label="What was answered" {
                @for (code, count) in &totals.http_statuses { li { (status::code(Some(*code))) " " strong.num { (format::number(*count)) } } }
                @for (outcome, count) in totals.outcomes.iter().filter(|(outcome, _)| outcome.as_str() != "success") {
                    li { span class={ "swatch " (status::outcome_tone(*outcome).class()) } {} (status::outcome_word(*outcome)) " " strong.num { (format::number(*count)) } }
                }
                @if totals.slot_denied > 0 { li { "due and every slot taken " strong.num { (format::number(totals.slot_denied)) } } }
            }
        }
    }
}

fn recent(now: Timestamp, destination: &DestinationView, deliveries: Option<&[DeliveryView]>) -> Markup {
    let Some(deliveries) = deliveries else {
        return html! { p.quiet { "Your key may not see deliveries." } };
    };
    let text = format!("destination:{}", destination.id);
    html! {
        @if deliveries.is_empty() { p.quiet { "Nothing was delivered here yet." } } @else {
            (events::delivery_table(now, &text, deliveries, &DestinationNames::of_one(destination)))
            p.more { a.button href=(link("/events", &[("q", Some(&text))])) { "All its deliveries" } " "
                a.button href=(link("/events", &[("q", Some(&format!("{text} status:dead_letter")))])) { "Its dead letters" } }
        }
    }
}

/// The filters of its routes on the last events that came. The browser asks for them: the answer is the preview's.
fn filters(visit: &Visit, id: DestinationId) -> Markup {
    html! {
        p { "Which of the last events the " a href="/routes" { "routes" } " bring here, and what keeps the others away. Nothing is sent." }
        @if visit.may(Scope::EventsRead) {
            p.more { button.button type="button" data-try-filters=(id) { "Try on the last events" } }
            div data-tried-filters role="status" {}
        } @else { p.quiet { "Your key may not see events." } }
    }
}

fn test(visit: &Visit, destination: &DestinationView) -> Markup {
    html! { @if visit.may(Scope::DestinationsWrite) {
        form.sheet #test-form data-form={ "/v1/destinations/" (destination.id) "/test" } data-method="POST" data-result="test" {
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
        h3 { "Holds" }
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

/// From the audit log; None where the visitor may not see it.
fn changed(now: Timestamp, entries: Option<&[AuditEntryView]>) -> Markup {
    html! {
        h3 { "Changes" }
        @match entries {
            None => p.quiet { "Your key may not see who changed what: it lacks " code { "audit:read" } "." },
            Some([]) => p.quiet { "Nothing was changed as far back as the audit log goes." },
            Some(entries) => table.list {
                thead { tr { th scope="col" { "What" } th scope="col" { "Before and after" } th scope="col" { "By" } th.num scope="col" { "When" } } }
                tbody { @for entry in entries { tr {
                    td { (entry.action.replace('_', " ")) @if let Some(count) = entry.count { " × " (count) } }
                    td.wide { (difference(entry)) }
                    td { @match (entry.actor.key_id, entry.actor.user_id) { (Some(id), _) => (name::id(id)), (None, Some(id)) => (name::id(id)), _ => (entry.actor.kind.as_str()) } }
                    td.num { (moment::ago(now, entry.at)) }
                } } }
            }
        }
    }
}

/// `max_concurrency 5 → 2`, member by member; of what is secret only that it was changed.
fn difference(entry: &AuditEntryView) -> Markup {
    let Some(serde_json::Value::Object(members)) = &entry.difference else { return Markup::default() };
    let shown = |value: Option<&serde_json::Value>| match value {
        None | Some(serde_json::Value::Null) => "–".to_owned(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    // Before it there was nothing.
    let is_new = entry.action.starts_with("create");
    html! {
        ul.difference {
            @for (member, change) in members.iter().take(MEMBERS) {
                li { code { (member) } " " @match change.as_object() {
                    Some(change) if is_new => (shown(change.get("to"))),
                    Some(change) => { (shown(change.get("from"))) " → " (shown(change.get("to"))) },
                    None => (shown(Some(change))),
                } }
            }
            @if members.len() > MEMBERS { li.quiet { "and " (members.len() - MEMBERS) " more" } }
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
