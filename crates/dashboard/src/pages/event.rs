//! One event: a lane for each destination with every attempt, what the next one waits for, and what was carried.

use crate::{
    chart, command_line,
    destination_names::DestinationNames,
    format,
    frame::Screen,
    icon, moment, name,
    page_error::{self, PageError},
    reads::together,
    status,
    visit::{Page, Visit},
    why,
};
use api::read;
use axum::{
    extract::Path,
    response::{IntoResponse, Redirect, Response},
};
use contract::{AttemptView, DeliveryDetailView, EventDetailView, HeadersView, RoutePreviewView};
use domain::{
    account::Scope,
    id::{AccountId, DeliveryId, DestinationId, EventId},
    lane::WaitKind,
    limits,
    time::Timestamp,
};
use futures_util::FutureExt;
use maud::{Markup, html};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Deliveries whose attempts are shown with the event; the others have their status here and their own page.
const LANES: usize = 20;
/// Of a long fan-out, so many in the pane beside the list.
const LANES_IN_PANE: usize = 6;
/// Destinations that did not get it, each with its reason; the others are behind a button.
const REASONS: usize = 8;

pub(crate) async fn page(visit: Visit, Path(id): Path<String>) -> Response {
    let made = made(&visit, &id).await;
    visit.show(Screen::Events, made).await
}

/// What a log line links to.
pub(crate) async fn short(Path(id): Path<String>) -> Response {
    match id.parse::<EventId>() {
        Ok(id) => Redirect::to(&format!("/events/{id}")).into_response(),
        Err(_) => Redirect::to("/events").into_response(),
    }
}

/// A delivery is shown with its event.
pub(crate) async fn of_delivery(visit: Visit, Path(id): Path<String>) -> Response {
    let made = found_delivery(&visit, &id).await;
    visit.show(Screen::Events, made).await
}

async fn found_delivery(visit: &Visit, id: &str) -> Result<Page, PageError> {
    let account = visit.require(Scope::DeliveriesRead)?;
    let id: DeliveryId = id.parse().map_err(|_| api::error::ApiError::no_such("delivery"))?;
    let found = read::delivery(&visit.app, account, id).await?;
    Err(PageError::Elsewhere(format!("/events/{}#{id}", found.delivery.event_id)))
}

async fn made(visit: &Visit, id: &str) -> Result<Page, PageError> {
    let account = visit.require(Scope::EventsRead)?;
    let id: EventId = id.parse().map_err(|_| api::error::ApiError::no_such("event"))?;
    let shown = Shown::read(visit, account, id, LANES).await?;
    let body = html! { div.event-page #detail data-region { (head(visit, &shown, false)) (lanes(visit, &shown)) (carried(&shown)) } };
    Ok(Page::new(shown.event.event.event_type.as_str(), body).live("kind=delivery.changed"))
}

/// The same beside the list.
pub(crate) async fn pane(visit: &Visit, account: AccountId, id: EventId) -> Result<Markup, PageError> {
    match Shown::read(visit, account, id, LANES_IN_PANE).await {
        Ok(shown) => Ok(html! { (head(visit, &shown, true)) (lanes(visit, &shown)) (carried(&shown)) }),
        // Forgotten since the list was read, or a link from elsewhere.
        Err(PageError::Api(error)) if error.status().is_client_error() => {
            Ok(html! { div.empty { h2 { (error.code().title()) } p { (page_error::detail(&error)) } } })
        }
        Err(error) => Err(error),
    }
}

struct Shown {
    event: EventDetailView,
    lanes: Vec<DeliveryDetailView>,
    /// What the routes of now say to it; None where that is not judged at sight.
    judged: Option<Vec<RoutePreviewView>>,
    names: DestinationNames,
}

impl Shown {
    async fn read(visit: &Visit, account: AccountId, id: EventId, lanes: usize) -> Result<Self, PageError> {
        let event = read::event(&visit.app, account, id).await?;
        let ids: Vec<DeliveryId> = if visit.may(Scope::DeliveriesRead) {
            event.deliveries.iter().take(lanes).map(|delivery| delivery.id).collect()
        } else {
            Vec::new()
        };
        let found =
            together(ids.into_iter().map(|id| read::delivery(&visit.app, account, id).boxed()).collect())
                .await;
        // The event is what is looked at: it is shown without, too.
        let judged = read::matching(&visit.app, account, id).await.unwrap_or_default();
        let refusing =
            judged.iter().flatten().filter(|route| is_of_its_source(route)).take(limits::PAGE_DEFAULT);
        let names = DestinationNames::of(
            visit,
            account,
            event
                .deliveries
                .iter()
                .take(limits::PAGE_DEFAULT)
                .map(|it| it.destination_id)
                .chain(refusing.map(|route| route.destination_id)),
        )
        .await;
        Ok(Self { lanes: found.into_iter().flatten().collect(), event, judged, names })
    }
}

/// Routes of other sources have nothing to say to an event.
fn is_of_its_source(route: &RoutePreviewView) -> bool {
    route.why.as_ref().is_none_or(|why| why.path != "source_id")
}

fn head(visit: &Visit, shown: &Shown, in_pane: bool) -> Markup {
    let event = &shown.event.event;
    let id = event.id.to_string();
    let may_replay = visit.may(Scope::DeliveriesRetry);
    let ended = shown.event.deliveries.iter().any(|delivery| delivery.status.ended());
    let curl = command_line::curl(visit, &format!("/v1/events/{id}"));
    // Another one like it: what reads an event, the command line does not have.
    let payload = shown.event.payload.as_deref().filter(|text| serde_json::from_str::<Value>(text).is_ok());
    let send = payload.map(|data| command_line::send(visit, event.event_type.as_str(), data));
    html! {
        div.event-head {
            @if in_pane {
                div.pane-title {
                    h2 { a href={ "/events/" (id) } { (event.event_type.as_str()) } }
                    button.icon-button type="button" data-close-pane aria-label="Close" { (icon::cross()) }
                }
            }
            p.event-id { (status::event(&event.fanout)) " " (name::copied_id(&id)) }
            dl.meta {
                dt { "Received" } dd { (moment::ago(visit.now(), event.received_at)) " " span.quiet { (moment::exact(event.received_at)) } }
                dt { "Source" } dd { @match event.source_id { Some(source) if visit.visitor.is_portal() => (name::id(source)), Some(source) => { a href="/sources" { (name::id(source)) } }, None => "published by API" } }
                @if let Some(key) = &event.idempotency_key { dt { "Idempotency key" } dd { code { (key) } } }
                @if let Some(key) = &event.ordering_key { dt { "Ordering key" } dd { code { (key) } } }
                @if let Some(at) = event.deliver_at { dt { "Not before" } dd { (moment::exact(at)) } }
                @if !event.tags.is_empty() { dt { "Tags" } dd { @for tag in &event.tags { a.tag href=(crate::params::link("/events", &[("q", Some(&format!("tag:\"{}\"", tag.replace('\\', "\\\\").replace('"', "\\\""))))])) { (tag) } " " } } }
            }
            div.acts {
                @if may_replay && ended {
                    button.button.primary type="button" data-replay data-action={ "/v1/events/" (id) "/replay" } data-body="{}"
                        data-confirm="Replay this event?" data-confirm-text={ "Every destination that had it gets it again: " (format::count(event.fanout.total.into(), "delivery", "deliveries")) ". What still waits is left alone." }
                        data-done="Replaying" { "Replay " kbd { "r" } }
                }
                (name::copy_commands(&curl, send.as_deref()))
                (name::copy_as(&format!("{}/events/{id}", visit.origin), "Copy link"))
            }
        }
    }
}

fn lanes(visit: &Visit, shown: &Shown) -> Markup {
    let rest = shown.event.deliveries.get(shown.lanes.len()..).unwrap_or_default();
    html! {
        (matching(shown))
        @for lane in &shown.lanes { (one_lane(visit, shown, lane)) }
        @if !rest.is_empty() {
            section {
                h3.caps { "Also to" }
                ul.rest { @for delivery in rest.iter().take(limits::PAGE_DEFAULT) { li { (status::delivery(delivery.status)) " " (shown.names.link(delivery.destination_id)) " " (status::code(delivery.last_http_status)) } } }
                @let text = format!("event:{}", shown.event.event.id);
                p { a href=(crate::params::link("/events", &[("q", Some(&text))])) { "All deliveries of this event" } }
            }
        }
    }
}

/// Where it went, and why nowhere else.
fn matching(shown: &Shown) -> Markup {
    let event = &shown.event.event;
    let sent: BTreeSet<DestinationId> = shown.event.deliveries.iter().map(|it| it.destination_id).collect();
    let mut others: BTreeMap<DestinationId, &RoutePreviewView> = BTreeMap::new();
    let mut would_take = BTreeSet::new();
    let judged = shown.judged.iter().flatten().filter(|route| is_of_its_source(route));
    for route in judged.filter(|route| !sent.contains(&route.destination_id)) {
        if route.matches {
            would_take.insert(route.destination_id);
        } else {
            others.entry(route.destination_id).or_insert(route);
        }
    }
    others.retain(|id, _| !would_take.contains(id));
    let all = sent.len() + others.len() + would_take.len();
    // Of a long fan-out not all deliveries are listed, and replays are among them.
    let counted = (event.fanout.total as usize) <= shown.event.deliveries.len();
    html! {
        div.matching {
            p {
                @if event.fanout.expanding { "Its deliveries are still being made. " }
                @else if sent.is_empty() { strong { "No route led it anywhere. " } }
                @else if counted && shown.judged.is_some() {
                    "Sent to " strong { (sent.len()) " of " (format::count(all as u64, "destination", "destinations")) } ". "
                } @else { "Sent to " strong { (format::number(event.fanout.total.into())) } ". " }
                @if shown.judged.is_none() || others.len() > REASONS {
                    button.link type="button" data-preview=(event.id) { "What each route says" }
                }
            }
            div data-preview-result {}
            @if !others.is_empty() || !would_take.is_empty() {
                ul.reasons {
                    @for id in would_take.iter().take(REASONS) { li { (shown.names.link(*id)) " would take it by the routes of now: a " a href="/replays#backfill" { "backfill" } " brings it there" } }
                    @for (id, route) in others.iter().take(REASONS) { @if let Some(said) = &route.why {
                        li { (shown.names.link(*id)) " did not match: " (why::sentence(said)) }
                    } }
                }
            }
        }
    }
}

fn one_lane(visit: &Visit, shown: &Shown, lane: &DeliveryDetailView) -> Markup {
    let now = visit.now();
    let delivery = &lane.delivery;
    let may_act = visit.may(Scope::DeliveriesRetry);
    html! {
        section.lane id=(delivery.id) {
            div.lane-head {
                h3.caps { "Delivery to " (shown.names.link(delivery.destination_id)) }
                (status::delivery(delivery.status))
                @if let Some(reason) = &delivery.reason { span.quiet { (reason.as_str().replace('_', " ")) } }
                span.grow {}
                @if may_act && delivery.status.ended() {
                    button.button.small type="button" data-action={ "/v1/deliveries/" (delivery.id) "/replay" } data-done="Replayed" { "Replay to this one" }
                }
                @if may_act && !delivery.status.ended() {
                    button.button.small type="button" data-action={ "/v1/deliveries/" (delivery.id) "/cancel" }
                        data-confirm="Cancel this delivery?" data-confirm-text="It will not be tried again; it can be replayed later." data-done="Cancelled" { "Cancel" }
                }
            }
            @if let Some(of) = delivery.replay_of { p.quiet { "A replay of " a href={ "/deliveries/" (of) } { (name::id(of)) } } }
            ol.timeline {
                @for attempt in &lane.attempts { (one_attempt(shown, delivery.created_at, attempt)) }
                (next(now, lane, may_act))
            }
        }
    }
}

fn one_attempt(shown: &Shown, created_at: Timestamp, attempt: &AttemptView) -> Markup {
    let tone = status::outcome_tone(attempt.outcome);
    html! {
        li class={ "attempt " (tone.class()) } {
            div.attempt-head {
                strong { "Attempt " (attempt.number) }
                @match (attempt.http_status, &attempt.error) {
                    (Some(code), _) => span class=(tone.class()) { "HTTP " (code) },
                    (None, Some(error)) => span class=(tone.class()) { (error.code.replace('_', " ")) @if let Some(kind) = &error.kind { " · " (kind.replace('_', " ")) } },
                    (None, None) => span class=(tone.class()) { (status::outcome_word(attempt.outcome)) },
                }
                span.num { (format::millis(attempt.duration_ms)) }
                @if attempt.late { span.quiet { "late: it changed nothing" } }
                span.grow {}
                span.quiet title=(format::exact(attempt.started_at)) { (after(attempt.started_at.since(created_at))) }
            }
            (waterfall(attempt))
            @if let Some(error) = &attempt.error { @if !error.message.is_empty() { p.attempt-error { (error.message) } } }
            @if let Some(seconds) = attempt.retry_after_seconds { p.quiet { "Retry-After: " (seconds) " s" } }
            details.exchange {
                summary { "Request and response" span.quiet { " · node " (format::short_id(attempt.node)) } }
                div.exchange-acts { (name::copy_as(&as_curl(attempt, shown.event.payload.as_deref()), "Copy as curl")) }
                h4 { "Request" }
                pre.box { (attempt.request.method) " " (attempt.request.url) "\n" (headers(&attempt.request.headers)) "\n(" (format::bytes(shown.event.event.size_bytes)) " of body: the payload below, byte for byte)" }
                h4 { "Response" }
                @match &attempt.response {
                    None => p.quiet { "There was none." },
                    Some(response) => {
                        pre.box {
                            @if let Some(code) = attempt.http_status { "HTTP " (code) "\n" }
                            (headers(&response.headers))
                            @match (&response.body, &response.body_base64) {
                                (Some(body), _) if !body.is_empty() => { "\n" (body) },
                                (None, Some(base64)) => { "\n(not text, in base64)\n" (base64) },
                                _ => { "\n(no body)" },
                            }
                        }
                        @if response.truncated { p.quiet { "The first 16 KiB; there was more." } }
                    },
                }
            }
        }
    }
}

/// How long after its delivery was made an attempt began: `+2 ms`, `+1.2 s`, `+5 min`.
fn after(passed: Duration) -> String {
    match passed.as_millis() as u64 {
        0 => "at once".into(),
        millis => format!("+{}", format::millis(millis)),
    }
}

fn headers(headers: &HeadersView) -> String {
    headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
}

/// Where the time went. Phases end one after the other; what is left is the body of the answer.
fn waterfall(attempt: &AttemptView) -> Markup {
    let timing = &attempt.timing_ms;
    let ends = [
        ("dns", "dns", timing.dns),
        ("connect", "connect", timing.connect),
        ("tls", "tls", timing.tls),
        ("wait", "wait", timing.first_byte),
    ];
    let mut spent = 0;
    let mut parts: Vec<(&str, String, f64)> = Vec::new();
    for (class, label, millis) in ends {
        if let Some(millis) = millis {
            spent += u64::from(millis);
            parts.push((class, format!("{label} {}", format::millis(millis.into())), f64::from(millis)));
        }
    }
    let rest = attempt.duration_ms.saturating_sub(spent);
    if rest > 0 || parts.is_empty() {
        let label = if parts.is_empty() { "in all" } else { "body" };
        parts.push(("body", format!("{label} {}", format::millis(rest)), rest as f64));
    }
    let words: Vec<&str> = parts.iter().map(|(_, label, _)| label.as_str()).collect();
    let words = words.join(" · ");
    let drawn: Vec<(&str, &str, f64)> =
        parts.iter().map(|(class, label, size)| (*class, label.as_str(), *size)).collect();
    html! {
        (chart::bar(&words, &drawn))
        p.phases { (words) @if attempt.connection_reused { " · reused connection" } }
    }
}

/// What the next attempt waits for.
fn next(now: Timestamp, lane: &DeliveryDetailView, may_act: bool) -> Markup {
    let delivery = &lane.delivery;
    if delivery.status.ended() {
        return Markup::default();
    }
    html! {
        li.attempt.next {
            div.attempt-head {
                @match (&delivery.waiting_for, delivery.next_attempt_at) {
                    (Some(waiting), due) => {
                        strong { "Next attempt" }
                        @match waiting.until.or(due).filter(|until| *until > now) {
                            Some(until) => span.warn { "in " (moment::countdown(now, until)) },
                            None => span.warn { (wait_word(waiting.kind)) },
                        }
                    },
                    (None, Some(due)) if due > now => { strong { "Next attempt" } span.warn { "in " (moment::countdown(now, due)) } },
                    (None, _) => { strong { "Under way" } },
                }
                span.grow {}
                @if may_act && delivery.waiting_for.is_some() {
                    button.button.small type="button" data-action={ "/v1/deliveries/" (delivery.id) "/retry" } data-done="On its way" { "Now" }
                }
            }
            @if let Some(waiting) = &delivery.waiting_for {
                p.quiet { (waiting.detail) @if let Some(behind) = waiting.behind { " · behind " a href={ "/deliveries/" (behind) } { (name::id(behind)) } } }
            }
        }
    }
}

fn wait_word(kind: WaitKind) -> &'static str {
    match kind {
        WaitKind::Schedule => "by its schedule",
        WaitKind::DeliverAt => "at the time it was asked for",
        WaitKind::Concurrency => "when a slot is free",
        WaitKind::Capacity => "when the node has room",
        WaitKind::Rate => "when the rate allows it",
        WaitKind::Throttle => "when the throttle ends",
        WaitKind::Breaker => "when the breaker closes",
        WaitKind::Order => "when those before it have ended",
        WaitKind::Paused => "when the destination is resumed",
        WaitKind::NoWorker => "when a worker is there",
    }
}

/// The payload, the metadata and the headers it came with.
fn carried(shown: &Shown) -> Markup {
    let event = &shown.event.event;
    let download = format!("/ui/v1/events/{}/payload", event.id);
    let pretty = shown.event.payload.as_deref().and_then(pretty);
    html! {
        section.carried data-tabs {
            div.tabs {
                div.tablist role="tablist" {
                    button type="button" role="tab" aria-controls="payload" aria-selected="true" { "Payload" }
                    @if pretty.is_some() { button type="button" role="tab" aria-controls="raw" { "Raw" } }
                    @if !event.metadata.is_empty() { button type="button" role="tab" aria-controls="metadata" { "Metadata" } }
                    button type="button" role="tab" aria-controls="headers" { "Headers" }
                }
                span.grow {}
                span.quiet { (event.content_type) " · " (format::bytes(event.size_bytes)) }
                a.link href=(download) download { "Download" }
            }
            div #payload role="tabpanel" { @match (&pretty, &shown.event.payload) {
                (Some(pretty), _) => pre.box { (pretty) },
                (None, Some(text)) if !text.is_empty() => pre.box { (text) },
                (None, Some(_)) => p.quiet { "It is empty." },
                (None, None) => p.quiet { "Too long to show, or not text: download it." },
            } }
            @if pretty.is_some() { div #raw role="tabpanel" { pre.box.wrap { (shown.event.payload.as_deref().unwrap_or_default()) } } }
            @if !event.metadata.is_empty() { div #metadata role="tabpanel" { pre.box { (serde_json::to_string_pretty(&event.metadata).unwrap_or_default()) } } }
            div #headers role="tabpanel" { @let headers = headers(&shown.event.headers); @if headers.is_empty() { p.quiet { "None were kept." } } @else { pre.box { (headers) } } }
        }
    }
}

/// Indented, if it is JSON.
fn pretty(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    (value.is_object() || value.is_array()).then(|| serde_json::to_string_pretty(&value).ok())?
}

/// The request once more, as a shell would send it. Redacted credentials stay redacted.
fn as_curl(attempt: &AttemptView, payload: Option<&str>) -> String {
    let mut text =
        format!("curl -X {} {}", attempt.request.method, command_line::quoted(&attempt.request.url));
    for (name, value) in
        attempt.request.headers.iter().filter(|(name, _)| *name != "host" && *name != "content-length")
    {
        text.push_str(&format!(" \\\n  -H {}", command_line::quoted(&format!("{name}: {value}"))));
    }
    if let Some(payload) = payload {
        text.push_str(&format!(" \\\n  --data-binary {}", command_line::quoted(payload)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_members_is_indented() {
        assert_eq!(pretty("{\"b\":1,\"a\":[]}").as_deref(), Some("{\n  \"b\": 1,\n  \"a\": []\n}"));
        assert_eq!(pretty("7"), None);
        assert_eq!(pretty("<html>"), None);
    }
}
