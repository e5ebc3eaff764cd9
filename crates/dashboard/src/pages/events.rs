//! Events, or deliveries, as a list: the live tail with its search box, and the one that is looked at beside it.

mod histogram;

use super::event;
use crate::{
    command_line,
    destination_names::DestinationNames,
    format,
    frame::Screen,
    hold, moment, name,
    page_error::{self, PageError},
    params::link,
    search::{self, Mistake, Names, Wanted},
    status,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{DeliveryQuery, DeliveryView, EventQuery, EventView};
use domain::{
    account::Scope,
    delivery::Status,
    id::{AccountId, DeliveryId, DestinationId, EventId, ReplayId, RouteId, SourceId},
    limits,
    pattern::Pattern,
    time::Timestamp,
};
use maud::{Markup, html};
use serde_json::Value;
use url::form_urlencoded::Serializer;

const ROWS: usize = 50;
/// Banners over the list of everything.
const HELD: usize = 3;
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
    let body = html! {
        div.split data-open[selected.is_some()] {
            div.split-list {
                (listed.notice)
                (listed.course)
                (tools(visit, text, &listed))
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

/// Where an id alone leads, pasted with what stood around it.
fn jump(text: &str) -> Option<String> {
    let text = text.trim();
    if text.parse::<EventId>().is_ok() {
        Some(format!("/events/{text}"))
    } else if text.parse::<DeliveryId>().is_ok() {
        Some(format!("/deliveries/{text}"))
    } else if text.parse::<DestinationId>().is_ok() {
        Some(format!("/destinations/{text}"))
    } else if text.parse::<ReplayId>().is_ok() {
        Some(format!("/replays/{text}"))
    } else if text.parse::<SourceId>().is_ok() {
        Some(link("/events", &[("q", Some(&format!("source:{text}")))]))
    } else if text.parse::<RouteId>().is_ok() {
        Some(link("/events", &[("q", Some(&format!("route:{text}")))]))
    } else {
        None
    }
}

struct Listing {
    title: &'static str,
    of_deliveries: bool,
    /// What is wrong, or in the way.
    notice: Markup,
    /// How much there is of it, over time.
    course: Markup,
    rows: Markup,
    live: Option<&'static str>,
    /// What a replay of everything that matches would be given.
    replay_filter: Option<DeliveryQuery>,
    /// The same list by the API, and what of it the command line can follow.
    curl: String,
    tail: Option<String>,
}

async fn list(visit: &Visit, account: AccountId, text: &str) -> Result<Listing, PageError> {
    let asked = match asked(visit, account, text).await? {
        Ok(asked) => asked,
        Err(mistake) => return Ok(mistaken("Events", &mistake)),
    };
    let found = match &asked {
        Wanted::Events(query) => events(visit, account, text, query).await,
        Wanted::Deliveries(query) => deliveries(visit, account, text, query).await,
    };
    match found {
        // A page further back stands still, and so would a chart over it be of something else.
        Ok(listed) if visit.params.get("before").is_none() => {
            Ok(Listing { course: histogram::histogram(visit, account, &asked).await?, ..listed })
        }
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
    Listing {
        title,
        of_deliveries: false,
        notice,
        course: Markup::default(),
        rows: Markup::default(),
        live: None,
        replay_filter: None,
        curl: String::new(),
        tail: None,
    }
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
    query: &EventQuery,
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
    Ok(Listing {
        title: "Events",
        of_deliveries: false,
        notice: if text.is_empty() { held(visit, account).await? } else { Markup::default() },
        course: Markup::default(),
        rows,
        live: Some("kind=event.received&kind=delivery.changed"),
        replay_filter: Some(query).filter(|_| !text.is_empty()).and_then(their_deliveries),
        curl: command_line::curl(visit, &path_of("/v1/events", event_parameters(query))),
        tail: followed(query).map(|types| {
            let kind = [("kind", "event.received".to_owned())];
            command_line::tail(visit, &kind.into_iter().chain(types).collect::<Vec<_>>())
        }),
    })
}

/// The deliveries of those events, as a filter of deliveries can say it.
fn their_deliveries(query: &EventQuery) -> Option<DeliveryQuery> {
    let EventQuery { types, source_id, idempotency_key, tag, metadata, since, until, fanout, q } = query;
    let said = idempotency_key.is_empty() && tag.is_empty() && metadata.is_empty() && fanout.is_none();
    (said && q.is_none()).then(|| DeliveryQuery {
        status: ENDED.to_vec(),
        types: types.clone(),
        source_id: source_id.clone(),
        since: *since,
        until: *until,
        ..DeliveryQuery::default()
    })
}

/// What can be delivered again.
const ENDED: [Status; 3] = [Status::Delivered, Status::DeadLetter, Status::Cancelled];

/// What `posthaste tail` can be told of it; None where it would show more than the list.
fn followed(query: &EventQuery) -> Option<Vec<(&'static str, String)>> {
    let only_types = EventQuery { types: query.types.clone(), ..EventQuery::default() };
    (*query == only_types).then(|| types_of(&query.types))
}

fn types_of(types: &[Pattern]) -> Vec<(&'static str, String)> {
    types.iter().map(|pattern| ("type", pattern.as_str().to_owned())).collect()
}

fn path_of(path: &str, parameters: Vec<(String, String)>) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(parameters);
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// The filters as parameters of the API: a query writes itself as JSON, whose members are their names.
fn event_parameters(query: &EventQuery) -> Vec<(String, String)> {
    let mut parameters = parameters(serde_json::to_value(query));
    let metadata = query.metadata.iter();
    parameters.extend(metadata.map(|is| (format!("metadata.{}", is.key), is.value.clone())));
    parameters
}

fn parameters(query: serde_json::Result<Value>) -> Vec<(String, String)> {
    let Ok(Value::Object(members)) = query else { return Vec::new() };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut found = Vec::new();
    for (name, value) in members {
        match value {
            Value::Null => {}
            Value::Array(values) => found.extend(values.iter().map(|value| (name.clone(), text(value)))),
            value => found.push((name, text(&value))),
        }
    }
    found
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
            td.num.size { (format::bytes(event.size_bytes)) }
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
    query: &DeliveryQuery,
) -> Result<Listing, PageError> {
    visit.require(Scope::DeliveriesRead)?;
    let page = store::Page { before: visit.params.parse("before"), limit: ROWS };
    let found = read::deliveries(&visit.app, account, query, page).await?;
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
    Ok(Listing {
        title: "Deliveries",
        of_deliveries: true,
        notice,
        course: Markup::default(),
        rows,
        live: Some("kind=delivery.changed"),
        replay_filter: may_be_replayed(query),
        curl: command_line::curl(visit, &path_of("/v1/deliveries", parameters(serde_json::to_value(query)))),
        tail: changes(query).map(|filters| {
            let kind = [("kind", "delivery.changed".to_owned())];
            command_line::tail(visit, &kind.into_iter().chain(filters).collect::<Vec<_>>())
        }),
    })
}

/// The same, if all of it has ended or what has not is left out: a replay that is told no status takes dead letters alone.
fn may_be_replayed(query: &DeliveryQuery) -> Option<DeliveryQuery> {
    match query.status.as_slice() {
        [] => Some(DeliveryQuery { status: ENDED.to_vec(), ..query.clone() }),
        some if some.iter().all(|status| status.ended()) => Some(query.clone()),
        _ => None,
    }
}

/// What `posthaste tail` can be told of it; None where it would show more than the list.
fn changes(query: &DeliveryQuery) -> Option<Vec<(&'static str, String)>> {
    let told = DeliveryQuery {
        status: query.status.clone(),
        destination_id: query.destination_id.clone(),
        types: query.types.clone(),
        ..DeliveryQuery::default()
    };
    (*query == told).then(|| {
        let statuses = query.status.iter().map(|status| ("status", status.as_str().to_owned()));
        let destinations = query.destination_id.iter().map(|id| ("destination", id.to_string()));
        statuses.chain(destinations).chain(types_of(&query.types)).collect()
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
            (status::waits(waiting.kind))
            @if let Some(until) = waiting.until.filter(|until| *until > now) { " · " (moment::countdown(now, until)) }
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

fn tools(visit: &Visit, text: &str, listed: &Listing) -> Markup {
    let may_act = visit.may(Scope::DeliveriesRetry);
    let filter = listed.replay_filter.as_ref().and_then(|query| serde_json::to_string(query).ok());
    let filter = filter.filter(|_| may_act);
    html! {
        div.tools {
            button.pill #pill type="button" hidden { span #pill-count {} " new" }
            div.selection #selection hidden {
                strong { span #selection-count {} " selected" }
                @if may_act {
                    button.button.small type="button" data-replay-selected { "Replay " kbd { "r" } }
                    @if listed.of_deliveries {
                        button.button.small type="button" data-bulk="/v1/deliveries/{}/retry" data-done="On their way" { "Try now" }
                        button.button.small type="button" data-bulk="/v1/deliveries/{}/cancel" data-done="Cancelled" { "Cancel" }
                        button.button.small type="button" data-dismiss-selected { "Dismiss…" }
                    }
                    @if let Some(filter) = &filter {
                        button.button.small type="button" data-replay-filter=(filter) { "All that match…" }
                    }
                }
                button.link type="button" data-clear-selection { "Clear" }
            }
            span.grow {}
            @if let Some(filter) = &filter {
                button.button type="button" data-replay-filter=(filter) title={ "What " (text) " finds, counted first" } { "Replay all that match…" }
            }
            @if listed.live.is_some() { button.button type="button" data-pause-live { "Pause " kbd { "p" } } }
            @if !listed.curl.is_empty() { (name::copy_commands(&listed.curl, listed.tail.as_deref())) }
        }
    }
}

/// What keeps deliveries waiting, over the list of everything.
async fn held(visit: &Visit, account: AccountId) -> Result<Markup, PageError> {
    if !visit.may(Scope::DestinationsRead) {
        return Ok(Markup::default());
    }
    let page = store::Page { before: None, limit: limits::PAGE_MAX };
    let found = read::destinations(&visit.app, account, &read::Wanted::held(), page).await?;
    let waiting = found.data.iter().filter(|destination| destination.queued_events > 0);
    let held = waiting.filter_map(|destination| Some((destination, destination.hold.as_ref()?)));
    let (now, may_act) = (visit.now(), visit.may(Scope::DestinationsWrite));
    Ok(html! {
        div #held data-region { @for (destination, hold) in held.take(HELD) { (hold::banner(now, destination, hold, may_act)) } }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::FanoutState;

    #[test]
    fn the_filters_of_a_list_are_the_parameters_of_the_api() {
        let query = DeliveryQuery {
            status: vec![Status::DeadLetter, Status::Cancelled],
            http_status: vec![503],
            types: vec!["order.*".parse().unwrap()],
            ..DeliveryQuery::default()
        };
        assert_eq!(
            path_of("/v1/deliveries", parameters(serde_json::to_value(&query))),
            "/v1/deliveries?status=dead_letter&status=cancelled&type=order.*&http_status=503"
        );
        let all = serde_json::to_value(DeliveryQuery::default());
        assert_eq!(path_of("/v1/deliveries", parameters(all)), "/v1/deliveries");
        let metadata = vec![contract::MetadataIs { key: "team".into(), value: "a b".into() }];
        let query = EventQuery { metadata, fanout: Some(FanoutState::Unmatched), ..EventQuery::default() };
        assert_eq!(
            path_of("/v1/events", event_parameters(&query)),
            "/v1/events?fanout=unmatched&metadata.team=a+b"
        );
    }

    #[test]
    fn a_replay_takes_what_the_list_shows_and_nothing_that_waits() {
        let of = |status: Vec<Status>| {
            may_be_replayed(&DeliveryQuery { status, ..DeliveryQuery::default() }).map(|query| query.status)
        };
        assert_eq!(of(Vec::new()), Some(ENDED.to_vec()));
        assert_eq!(of(vec![Status::DeadLetter]), Some(vec![Status::DeadLetter]));
        assert_eq!(of(vec![Status::DeadLetter, Status::Queued]), None);
        let tagged = EventQuery { tag: vec!["a".into()], ..EventQuery::default() };
        assert_eq!(their_deliveries(&tagged), None, "no filter of deliveries says it");
    }

    #[test]
    fn the_command_line_is_offered_only_where_it_shows_the_same() {
        let types = vec!["order.*".parse::<Pattern>().unwrap()];
        let query = DeliveryQuery { types: types.clone(), ..DeliveryQuery::default() };
        assert_eq!(changes(&query), Some(vec![("type", "order.*".to_owned())]));
        assert_eq!(changes(&DeliveryQuery { http_status: vec![503], ..query }), None);
        assert_eq!(followed(&EventQuery { types, q: Some("x".into()), ..EventQuery::default() }), None);
    }
}
