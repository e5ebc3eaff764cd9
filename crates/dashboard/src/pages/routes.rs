//! Which events go where, and why one did not.

use crate::{
    command_line,
    destination_names::DestinationNames,
    format,
    frame::Screen,
    name,
    page_error::PageError,
    params::link,
    status,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{DestinationView, EventQuery, EventView, RouteView, SourceView};
use domain::{account::Scope, id::SourceId, limits, time::Timestamp};
use maud::{Markup, html};

/// Events to try a route with.
const RECENT: usize = 20;

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit).await;
    visit.show(Screen::Routes, made).await
}

async fn made(visit: &Visit) -> Result<Page, PageError> {
    let account = visit.require(Scope::DestinationsRead)?;
    let app = &visit.app;
    let found = read::routes(
        app,
        account,
        &read::Wanted::default(),
        store::Page { before: visit.params.parse("before"), limit: limits::PAGE_DEFAULT },
    )
    .await?;
    let names =
        DestinationNames::of(visit, account, found.data.iter().map(|route| route.destination_id)).await;
    let sources = read::sources(
        app,
        account,
        &read::Wanted::default(),
        store::Page { before: None, limit: limits::PAGE_MAX },
    )
    .await?
    .data;
    let may = visit.may(Scope::DestinationsWrite);
    let destinations = if may {
        read::destinations(
            app,
            account,
            &read::Wanted::default(),
            store::Page { before: None, limit: limits::PAGE_MAX },
        )
        .await?
        .data
    } else {
        Vec::new()
    };
    let recent = if visit.may(Scope::EventsRead) {
        let page = store::Page { before: None, limit: RECENT };
        Some(read::events(app, account, &EventQuery::default(), page).await?.data)
    } else {
        None
    };
    let now = visit.now();
    let body = html! {
        @if may { (create(&sources, &destinations, recent.is_some())) }
        @if let Some(recent) = recent.as_ref().filter(|_| !visit.visitor.only_looks()) { (preview(now, &sources, recent)) }
        // Once for all forms: each would have it again.
        datalist #known-destinations { @for destination in &destinations { option value=(destination.id) { (destination.name) } } }
        div #rows data-region {
            @if found.data.is_empty() { div.empty { h2 { "No route yet" } p { "Without a route no event goes anywhere." } @if may && destinations.is_empty() { p { a.button.primary href="/destinations/new" { "Add a destination" } } } } }
            @else { table.list {
                thead { tr { th scope="col" { "State" } th scope="col" { "From" } th scope="col" { "Types" } th scope="col" { "Filter" } th scope="col" { "To" } th scope="col" {} } }
                tbody { @for route in &found.data { (row(route, &names, &sources, may, recent.is_some())) } }
            } }
            @if let Some(next) = found.next { p.more { a.button href=(link("/routes", &[("before", Some(&next.to_string()))])) { "Older" } } }
        }
    };
    let curl = command_line::curl(visit, "/v1/routes");
    Ok(Page::new("Routes", body).with_actions(name::copy_commands(&curl, None)))
}

fn source_name(sources: &[SourceView], id: Option<SourceId>) -> String {
    match id {
        None => "published by API".into(),
        Some(id) => sources
            .iter()
            .find(|source| source.id == id)
            .map_or_else(|| format::short_id(id), |source| source.name.clone()),
    }
}

/// `tries`: whether what is typed may be tried on events that came.
fn row(
    route: &RouteView,
    names: &DestinationNames,
    sources: &[SourceView],
    may: bool,
    tries: bool,
) -> Markup {
    let id = route.id;
    let types: Vec<&str> = route.event_types.iter().map(|pattern| pattern.as_str()).collect();
    let filter = route
        .filter
        .as_ref()
        .and_then(|filter| serde_json::to_string_pretty(filter).ok())
        .unwrap_or_default();
    html! {
        tr data-key=(id) tabindex="-1" {
            td { (status::enabled(route.enabled)) @if let Some(name) = &route.name { div.quiet { (name) } } }
            td { (source_name(sources, route.source_id)) }
            td.wide { @for pattern in &types { code.type { (pattern) } " " }
                @if route.retry_policy.is_some() || route.timeout_seconds.is_some() || route.signing.is_some() { span.quiet { " · with settings of its own" } } }
            td { @if filter.is_empty() { span.quiet { "everything" } } @else { details { summary { "filter" } pre.box { (filter) } } } }
            td { (names.link(route.destination_id)) }
            td.act { @if may {
                details.edit {
                    summary.button.small { "Edit" }
                    form.sheet data-form={ "/v1/routes/" (id) } data-method="PATCH" data-done="Saved" {
                        p.quiet { (name::copied_id(id)) }
                        label { "Name" input name="name" maxlength="200" value=[route.name.as_deref()] data-empty="null"; }
                        label { "To, by id" input name="destination_id" required list="known-destinations" value=(route.destination_id) spellcheck="false"; }
                        label { "Types" input name="event_types" data-type="list" value=(types.join(", ")) required list="known-types"; }
                        label { "Filter (JSON, or empty)" textarea name="filter" data-type="json" data-empty="null" rows="5" spellcheck="false" { (filter) } }
                        div data-form-problems role="alert" {}
                        div.acts {
                            button.button.primary type="submit" { "Save" }
                            @if tries { button.button type="button" data-try-draft data-source=(route.source_id.map(|id| id.to_string()).unwrap_or_default()) { "Try on the last events" } }
                            @if route.enabled { button.button type="button" data-action={ "/v1/routes/" (id) } data-method="PATCH" data-body="{\"enabled\":false}" data-done="Disabled" { "Disable" } }
                            @else { button.button type="button" data-action={ "/v1/routes/" (id) } data-method="PATCH" data-body="{\"enabled\":true}" data-done="Enabled" { "Enable" } }
                            button.button.danger type="button" data-action={ "/v1/routes/" (id) } data-method="DELETE" data-confirm="Delete this route?" data-confirm-text="Events that come from now on no longer go there by it. What waits is delivered." data-done="Deleted" { "Delete" }
                        }
                        div data-tried-draft role="status" {}
                    }
                }
            } }
        }
    }
}

fn create(sources: &[SourceView], destinations: &[DestinationView], tries: bool) -> Markup {
    html! {
        details.panel {
            summary { h2 { "New route" } }
            @if destinations.is_empty() { p { "A route needs a destination: " a href="/destinations/new" { "add one" } "." } } @else {
                form.sheet data-form="/v1/routes" data-method="POST" data-done="Made" {
                    div.fields {
                        label { "From" select name="source_id" data-empty="leave" { option value="" { "published by API" } @for source in sources { option value=(source.id) { (source.name) } } } }
                        label { "Types" input name="event_types" data-type="list" placeholder="*  or  invoice.*, order.paid" list="known-types"; }
                        label { "To" select name="destination_id" required { @for destination in destinations { option value=(destination.id) { (destination.name) } } } }
                        label { "Name" input name="name" maxlength="200"; }
                    }
                    label { "Filter (JSON, or empty for everything)" textarea name="filter" data-type="json" rows="4" spellcheck="false" placeholder="{\"data\": {\"amount\": {\"$gte\": 100}}}" {} }
                    div data-form-problems role="alert" {}
                    div.acts {
                        button.button.primary type="submit" { "Make the route" }
                        @if tries { button.button type="button" data-try-draft { "Try on the last events" } }
                    }
                    div data-tried-draft role="status" {}
                }
            }
        }
    }
}

/// A filter that is not saved, to be tried beside the routes.
fn draft() -> Markup {
    html! {
        details {
            summary { "With a filter that is not saved" }
            div.fields {
                label { "Types" input name="draft.event_types" data-type="list" placeholder="*" list="known-types"; }
                label.grow { "Filter (JSON)" textarea name="draft.filter" data-type="json" rows="4" spellcheck="false" placeholder="{\"data\": {\"amount\": {\"$gte\": 100}}}" {} }
            }
        }
    }
}

fn preview(now: Timestamp, sources: &[SourceView], recent: &[EventView]) -> Markup {
    html! {
        details.panel #preview {
            summary { h2 { "Try an event" } span.quiet { " which routes take it, and what keeps it from the others" } }
            @if !recent.is_empty() {
                form.sheet data-form="/v1/routes/preview" data-method="POST" data-result="preview" {
                    div.fields {
                        label.grow { "An event that came"
                            select name="event_id" required { @for event in recent {
                                option value=(event.id) { (event.event_type.as_str()) " · " (source_name(sources, event.source_id)) " · " (format::relative(now, event.received_at)) " · " (format::short_id(event.id)) }
                            } }
                        }
                    }
                    (draft())
                    div data-form-problems role="alert" {}
                    button.button type="submit" { "Which routes does it take?" }
                    div data-form-result role="status" {}
                }
                p.or-else { "or one that you make up:" }
            }
            form.sheet data-form="/v1/routes/preview" data-method="POST" data-result="preview" {
                div.fields {
                    label { "Type" input name="type" required placeholder="invoice.paid" list="known-types"; }
                    label { "From" select name="source_id" data-empty="leave" { option value="" { "published by API" } @for source in sources { option value=(source.id) { (source.name) } } } }
                }
                label { "with this payload (JSON)" textarea name="data" data-type="json" rows="3" spellcheck="false" placeholder="{\"amount\": 90}" {} }
                (draft())
                div data-form-problems role="alert" {}
                button.button type="submit" { "Which routes would it take?" }
                div data-form-result role="status" {}
            }
        }
    }
}
