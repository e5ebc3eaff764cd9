//! Events, or deliveries, as a list: the live tail with its search box, and the one that is looked at beside it.

use super::event;
use crate::{
    chart::Chart,
    destination_names::DestinationNames,
    format,
    frame::Screen,
    hold, moment, name,
    page_error::{self, PageError},
    params::link,
    search::{self, Mistake, Names, Wanted},
    series::{Course, Range},
    status,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{DeliveryQuery, DeliveryView, EventView};
use domain::{
    account::Scope,
    id::{AccountId, DeliveryId, DestinationId, EventId, ReplayId},
    limits,
    time::Timestamp,
};
use maud::{Markup, html};

const ROWS: usize = 50;
/// Pages of 200 that are looked through for a name.
const NAME_PAGES: usize = 5;

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit).await;
    visit.show(Screen::Events, made).await
}

async fn made(visit: &Visit) -> Result<Page, PageError> {
    let text = visit.params.get("q").unwrap_or_default();
    if let Some(path) = jump(text) {
        return Err(PageError::Elsewhere(path));
    }
    let account = visit.require(Scope::EventsRead)?;
    let listed = list(visit, account, text).await?;
    let selected = match visit.params.parse::<EventId>("selected") {
        Some(id) => Some(event::pane(visit, account, id).await?),
        None => None,
    };
    let histogram = if text.is_empty() { histogram(visit, account).await? } else { Markup::default() };
    let body = html! {
        div.split data-open[selected.is_some()] {
            div.split-list {
                (listed.notice)
                (histogram)
                (tools(visit, &listed))
                div #rows data-region data-list { (listed.rows) }
            }
            aside #detail.split-detail aria-label="The selected event" data-region hidden[selected.is_none()] {
                @if let Some(pane) = selected { (pane) }
            }
        }
    };
    let page = Page::new(listed.title, body);
    // A page further back stands still.
    Ok(match (visit.params.get("before"), listed.live) {
        (None, Some(live)) => page.live(live),
        _ => page,
    })
}

/// Where an id alone leads.
fn jump(text: &str) -> Option<String> {
    if text.parse::<EventId>().is_ok() {
        Some(format!("/events/{text}"))
    } else if text.parse::<DeliveryId>().is_ok() {
        Some(format!("/deliveries/{text}"))
    } else if text.parse::<DestinationId>().is_ok() {
        Some(format!("/destinations/{text}"))
    } else if text.parse::<ReplayId>().is_ok() {
        Some(format!("/replays/{text}"))
    } else {
        None
    }
}

struct Listing {
    title: &'static str,
    /// What is wrong, or in the way.
    notice: Markup,
    rows: Markup,
    live: Option<&'static str>,
    /// What a replay of everything that matches would be given.
    replay_filter: Option<DeliveryQuery>,
    /// The same list by the API.
    curl: String,
}

async fn list(visit: &Visit, account: AccountId, text: &str) -> Result<Listing, PageError> {
    let asked = match asked(visit, account, text).await? {
        Ok(asked) => asked,
        Err(mistake) => return Ok(mistaken("Events", &mistake)),
    };
    let found = match asked {
        Wanted::Events(query) => events(visit, account, text, &query).await,
        Wanted::Deliveries(query) => deliveries(visit, account, text, query).await,
    };
    match found {
        // The filters are the visitor's, and so is what is wrong with them.
        Err(PageError::Api(error)) if error.status() == 422 => {
            Ok(mistaken("Events", &Mistake { typed: text.to_owned(), said: page_error::detail(&error) }))
        }
        found => found,
    }
}

fn mistaken(title: &'static str, mistake: &Mistake) -> Listing {
    let notice = html! {
        div.banner.bad role="alert" {
            span.banner-head { (crate::icon::warning()) code { (mistake.typed) } }
            span.banner-text { (mistake.said) }
            button.button type="button" data-help { "Words" }
        }
    };
    Listing { title, notice, rows: Markup::default(), live: None, replay_filter: None, curl: String::new() }
}

async fn asked(visit: &Visit, account: AccountId, text: &str) -> Result<Result<Wanted, Mistake>, PageError> {
    let words = match search::words(text) {
        Ok(words) => words,
        Err(mistake) => return Ok(Err(mistake)),
    };
    let names = names(visit, account, search::names_wanted(&words)).await?;
    Ok(search::read(&words, visit.now(), &names))
}

/// What the words name, looked up once.
async fn names(
    visit: &Visit,
    account: AccountId,
    (destinations, sources, routes): (bool, bool, bool),
) -> Result<Names, PageError> {
    let (app, limit) = (&visit.app, limits::PAGE_MAX);
    let mut names = Names::default();
    if !visit.may(Scope::DestinationsRead) {
        return Ok(names);
    }
    if destinations {
        let mut before = None;
        for _ in 0..NAME_PAGES {
            let found =
                read::destinations(app, account, &read::Wanted::default(), store::Page { before, limit })
                    .await?;
            for each in found.data {
                names.destinations.entry(each.name).or_default().push(each.id);
                names.destinations.extend(each.uid.map(|uid| (uid, vec![each.id])));
            }
            before = found.next;
            if before.is_none() {
                break;
            }
        }
    }
    if sources {
        for each in read::sources(app, account, &read::Wanted::default(), store::Page { before: None, limit })
            .await?
            .data
        {
            names.sources.entry(each.name).or_default().push(each.id);
            names.sources.extend(each.uid.map(|uid| (uid, vec![each.id])));
        }
    }
    if routes {
        for each in read::routes(app, account, &read::Wanted::default(), store::Page { before: None, limit })
            .await?
            .data
        {
            if let Some(name) = each.name {
                names.routes.entry(name).or_default().push(each.id);
            }
            names.routes.extend(each.uid.map(|uid| (uid, vec![each.id])));
        }
    }
    Ok(names)
}

async fn events(
    visit: &Visit,
    account: AccountId,
    text: &str,
    query: &contract::EventQuery,
) -> Result<Listing, PageError> {
    let page = store::Page { before: visit.params.parse("before"), limit: ROWS };
    let found = read::events(&visit.app, account, query, page).await?;
    let now = visit.now();
    let older =
        found.next.map(|next| link("/events", &[("q", Some(text)), ("before", Some(&next.to_string()))]));
    let rows = html! {
        @if found.data.is_empty() { (nothing(visit, text)) } @else {
            table.list.events {
                thead { tr { th.pick { span.sr { "Select" } } th scope="col" { "Status" } th scope="col" { "Type" } th scope="col" { "Deliveries" } th scope="col" { "Event" } th.num scope="col" { "Size" } th.num scope="col" { "When" } } }
                tbody { @for event in &found.data { (event_row(now, text, event)) } }
            }
        }
        @if let Some(older) = older { p.more { a.button href=(older) { "Older" } } }
    };
    let mut curl = url::form_urlencoded::Serializer::new(String::new());
    for pattern in &query.types {
        curl.append_pair("type", pattern.as_str());
    }
    for tag in &query.tag {
        curl.append_pair("tag", tag);
    }
    for source in &query.source_id {
        curl.append_pair("source_id", &source.to_string());
    }
    for is in &query.metadata {
        curl.append_pair(&format!("metadata.{}", is.key), &is.value);
    }
    if let Some(since) = query.since {
        curl.append_pair("since", &since.to_string());
    }
    if let Some(until) = query.until {
        curl.append_pair("until", &until.to_string());
    }
    if let Some(q) = &query.q {
        curl.append_pair("q", q);
    }
    Ok(Listing {
        title: "Events",
        notice: Markup::default(),
        rows,
        live: Some("kind=event.received&kind=delivery.changed"),
        replay_filter: None,
        curl: curl_of(visit, "/v1/events", &curl.finish()),
    })
}

fn event_row(now: Timestamp, text: &str, event: &EventView) -> Markup {
    let id = event.id.to_string();
    let open = link("/events", &[("q", Some(text)), ("selected", Some(&id))]);
    html! {
        tr data-key=(id) data-event=(id) tabindex="-1" {
            td.pick { input type="checkbox" data-pick=(id) aria-label="Select"; }
            td { (status::event(&event.fanout)) }
            td.wide { a.row-link href=(open) { (event.event_type.as_str()) } @for tag in &event.tags { " " span.tag { (tag) } } }
            td.num-left { (fanned(event)) }
            td { (name::id(&id)) }
            td.num { (format::bytes(event.size_bytes)) }
            td.num { (moment::ago(now, event.received_at)) }
        }
    }
}

fn fanned(event: &EventView) -> Markup {
    let fanout = &event.fanout;
    html! { @if fanout.total == 0 { span.quiet { "–" } } @else {
        (format::number(fanout.delivered.into())) span.quiet { " of " (format::number(fanout.total.into())) @if !fanout.exact { "+" } }
        @if fanout.dead_letter > 0 { " · " span.bad { (fanout.dead_letter) " dead" } }
        @if fanout.waiting > 0 { " · " span.warn { (fanout.waiting) " waiting" } }
    } }
}

async fn deliveries(
    visit: &Visit,
    account: AccountId,
    text: &str,
    query: DeliveryQuery,
) -> Result<Listing, PageError> {
    visit.require(Scope::DeliveriesRead)?;
    let page = store::Page { before: visit.params.parse("before"), limit: ROWS };
    let found = read::deliveries(&visit.app, account, &query, page).await?;
    let names =
        DestinationNames::of(visit, account, found.data.iter().map(|delivery| delivery.destination_id)).await;
    let now = visit.now();
    let older =
        found.next.map(|next| link("/events", &[("q", Some(text)), ("before", Some(&next.to_string()))]));
    let rows = html! {
        @if found.data.is_empty() { (nothing(visit, text)) } @else { (delivery_table(now, text, &found.data, &names)) }
        @if let Some(older) = older { p.more { a.button href=(older) { "Older" } } }
    };
    let may_act = visit.may(Scope::DestinationsWrite);
    let notice = html! { @for destination in names.held().take(3) { @if let Some(held) = &destination.hold { (hold::banner(now, destination, held, may_act)) } } };
    let mut curl = url::form_urlencoded::Serializer::new(String::new());
    for status in &query.status {
        curl.append_pair("status", status.as_str());
    }
    for reason in &query.reason {
        curl.append_pair("reason", reason);
    }
    for id in &query.destination_id {
        curl.append_pair("destination_id", &id.to_string());
    }
    for pattern in &query.types {
        curl.append_pair("type", pattern.as_str());
    }
    for code in &query.http_status {
        curl.append_pair("http_status", &code.to_string());
    }
    if let Some(since) = query.since {
        curl.append_pair("since", &since.to_string());
    }
    if let Some(until) = query.until {
        curl.append_pair("until", &until.to_string());
    }
    Ok(Listing {
        title: "Deliveries",
        notice,
        rows,
        live: Some("kind=delivery.changed"),
        curl: curl_of(visit, "/v1/deliveries", &curl.finish()),
        replay_filter: Some(query),
    })
}

/// Also on the pages of a destination and of a group of dead letters.
pub(crate) fn delivery_table(
    now: Timestamp,
    text: &str,
    deliveries: &[DeliveryView],
    names: &DestinationNames,
) -> Markup {
    html! {
        table.list.deliveries {
            thead { tr { th.pick { span.sr { "Select" } } th scope="col" { "Status" } th scope="col" { "Type" } th scope="col" { "Destination" } th scope="col" { "Event" } th.num scope="col" { "Code" } th.num scope="col" { "Attempts" } th.num scope="col" { "When" } } }
            tbody { @for delivery in deliveries {
                @let event = delivery.event_id.to_string();
                tr data-key=(delivery.id) data-event=(event) tabindex="-1" {
                    td.pick { input type="checkbox" data-pick=(delivery.id) aria-label="Select"; }
                    td { (status::delivery(delivery.status)) (why(now, delivery)) }
                    td.wide { a.row-link href=(link("/events", &[("q", Some(text)), ("selected", Some(&event))])) { (delivery.event_type) } }
                    td { (names.link(delivery.destination_id)) }
                    td { (name::id(&event)) }
                    td.num { (status::code(delivery.last_http_status)) }
                    td.num data-label="attempts" { (delivery.attempt_count) }
                    td.num { (moment::ago(now, delivery.created_at)) }
                }
            } }
        }
    }
}

/// Beside the status, in few words: why it ended or what it waits for.
fn why(now: Timestamp, delivery: &DeliveryView) -> Markup {
    html! { @match (&delivery.reason, &delivery.waiting_for) {
        (Some(reason), _) => span.quiet.why { (reason.as_str().replace('_', " ")) },
        (None, Some(waiting)) => span.quiet.why title=(waiting.detail) {
            (waiting.kind.as_str().replace('_', " "))
            @if let Some(until) = waiting.until.filter(|until| *until > now) { " " (moment::countdown(now, until)) }
        },
        (None, None) => (Markup::default()),
    } }
}

fn nothing(visit: &Visit, text: &str) -> Markup {
    html! { div.empty {
        @if visit.params.get("before").is_some() { h2 { "That is all" } p { "There is nothing older." } }
        @else if text.is_empty() { h2 { "No event yet" } p { "The " a href="/" { "quick start" } " has a line to send one." } }
        @else { h2 { "Nothing matches" } p { "Take a word away, or look further back: " code { "since:7d" } "." } p { a.button href="/events" { "All events" } } }
    } }
}

fn curl_of(visit: &Visit, path: &str, query: &str) -> String {
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("curl '{}{path}{query}' -H \"authorization: Bearer $POSTHASTE_KEY\"", visit.origin)
}

fn tools(visit: &Visit, listed: &Listing) -> Markup {
    let may_replay = visit.may(Scope::DeliveriesRetry);
    let filter = listed.replay_filter.as_ref().and_then(|query| serde_json::to_string(query).ok());
    html! {
        div.tools {
            button.pill #pill type="button" hidden { span #pill-count {} " new" }
            div.selection #selection hidden {
                strong #selection-count {} " selected"
                @if may_replay { button.button type="button" data-replay-selected { "Replay" } }
                button.button type="button" data-clear-selection { "Clear" }
            }
            span.grow {}
            @if may_replay && let Some(filter) = &filter {
                button.button type="button" data-replay-filter=(filter) { "Replay all that match…" }
            }
            @if listed.live.is_some() { button.button type="button" data-pause-live { "Pause " kbd { "p" } } }
            @if !listed.curl.is_empty() { (name::copy_as(&listed.curl, "Copy curl")) }
        }
    }
}

/// The last hour over the list, to drag a time over.
async fn histogram(visit: &Visit, account: AccountId) -> Result<Markup, PageError> {
    if !visit.may(Scope::DestinationsRead) || !visit.may(Scope::DeliveriesRead) {
        return Ok(Markup::default());
    }
    let page = store::Page { before: None, limit: limits::PAGE_MAX };
    let held = read::destinations(&visit.app, account, &read::Wanted::held(), page).await?;
    let series = read::series(&visit.app, account, &Range::Hour.query(visit.now())).await?;
    if series.totals.attempts == 0 {
        return Ok(Markup::default());
    }
    let chart = Course::of(&series).outcomes("Attempts a minute", &[]);
    let chart = Chart { stacked: false, brush: true, ..chart };
    let may_act = visit.may(Scope::DestinationsWrite);
    let now = visit.now();
    Ok(html! {
        div #histogram data-region {
            @for destination in held.data.iter().filter(|destination| destination.queued_events > 0) {
                @if let Some(held) = &destination.hold { (hold::banner(now, destination, held, may_act)) }
            }
            (chart.render())
        }
    })
}
