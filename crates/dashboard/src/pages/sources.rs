//! Where events come in.

use super::verification_form;
use crate::{
    command_line, format,
    frame::Screen,
    moment, name,
    page_error::PageError,
    params::link,
    provider,
    reads::together,
    status,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{EventQuery, EventView, SourceTag, SourceView};
use domain::{
    account::Scope,
    id::{AccountId, SourceId},
    limits,
};
use futures_util::FutureExt;
use maud::{Markup, html};
use std::collections::HashMap;

/// Sources whose last events are shown: each costs a read.
const WITH_EVENTS: usize = 20;
const LAST_EVENTS: usize = 3;
const PAYLOAD: &str = r#"{"type": "invoice.paid", "data": {"id": "in_1", "amount": 1299}}"#;

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit).await;
    visit.show(Screen::Sources, made).await
}

async fn made(visit: &Visit) -> Result<Page, PageError> {
    visit.require_beyond_portal()?;
    let account = visit.require(Scope::DestinationsRead)?;
    let page = store::Page { before: visit.params.parse("before"), limit: limits::PAGE_MAX };
    let found = read::sources(&visit.app, account, &read::Wanted::default(), page).await?;
    let may = visit.may(Scope::DestinationsWrite);
    let last = last_events(visit, account, &found.data).await;
    let publish = command_line::curl_post(visit, "/v1/events", PAYLOAD);
    let send = command_line::send(visit, "invoice.paid", r#"{"id": "in_1", "amount": 1299}"#);
    let body = html! {
        section.panel {
            h2 { "Your own events, by API" }
            p { "What you publish with a key needs no source:" }
            (name::command(&publish))
            p.quiet { "The same by the command line:" }
            (name::command(&send))
        }
        @if may {
            (verification_form::template())
            details.panel open[found.data.is_empty()] {
                summary { h2 { "New source" } }
                form.sheet data-form="/v1/sources" data-method="POST" data-result="source" {
                    div.fields {
                        label { "Name" input name="name" required maxlength="200" placeholder="stripe"; }
                        label { "Your own id (uid)" input name="uid" maxlength="200" placeholder="none"; }
                        label { "Events a second, at most" input type="number" name="rate_limit" data-type="number" min="1" placeholder="no limit"; }
                    }
                    (verification_form::place(None))
                    (kept_refused(false))
                    (tags(&[]))
                    div data-form-problems role="alert" {}
                    button.button.primary type="submit" { "Make the source" }
                    p.hint { "It gets an ingest URL of its own. Where nobody verifies, whoever knows the URL can bring events in." }
                    div data-form-result role="status" {}
                }
            }
        }
        div #sources data-region {
            @if found.data.is_empty() { div.empty { h2 { "No source yet" } p { "A source is a URL that somebody else's webhooks are sent to." } } }
            @else { div.groups { @for source in &found.data { (one(visit, source, last.get(&source.id), may)) } } }
            @if let Some(next) = found.next { p.more { a.button href=(link("/sources", &[("before", Some(&next.to_string()))])) { "Older" } } }
        }
    };
    let curl = command_line::curl(visit, "/v1/sources");
    let page = Page::new("Sources", body).with_actions(name::copy_commands(&curl, None));
    Ok(page.live("kind=event.received"))
}

/// Of the first sources; none where the visitor may not see events.
async fn last_events(
    visit: &Visit,
    account: AccountId,
    sources: &[SourceView],
) -> HashMap<SourceId, Vec<EventView>> {
    if !visit.may(Scope::EventsRead) {
        return HashMap::new();
    }
    let sources = &sources[..sources.len().min(WITH_EVENTS)];
    let each = sources.iter().map(|source| {
        let page = store::Page { before: None, limit: LAST_EVENTS };
        async move {
            let query = EventQuery { source_id: vec![source.id], ..EventQuery::default() };
            read::events(&visit.app, account, &query, page).await
        }
        .boxed()
    });
    let found = together(each.collect()).await;
    sources.iter().zip(found).filter_map(|(source, found)| Some((source.id, found.ok()?.data))).collect()
}

fn kept_refused(kept: bool) -> Markup {
    html! { label.check { input type="checkbox" name="keep_refused" value="true" data-unchecked="false" checked[kept]; span { "Keep the last ten requests that were not believed, to see why" } } }
}

fn tags(tags: &[SourceTag]) -> Markup {
    let text = if tags.is_empty() { String::new() } else { serde_json::to_string(tags).unwrap_or_default() };
    html! {
        label { "Tags of its events (JSON, or empty)"
            textarea name="tags" data-type="json" rows="2" spellcheck="false" placeholder="[{\"path\": \"order.id\", \"prefix\": \"order-\"}]" { (text) }
        }
    }
}

fn one(visit: &Visit, source: &SourceView, last: Option<&Vec<EventView>>, may: bool) -> Markup {
    let id = source.id;
    let text = format!("source:{id}");
    html! {
        article.group data-key=(id) tabindex="-1" {
            div.group-head {
                (status::enabled(source.enabled))
                h2 { (source.name) }
                @if let Some(uid) = &source.uid { span.quiet { "uid " (uid) } }
                span.grow {}
                a.button.small.row-link href=(link("/events", &[("q", Some(&text))])) { "Its last events" }
            }
            p.quiet { (name::copied_id(id)) " · " @match source.rate_limit { Some(limit) => { (limit) " events a second" }, None => "no rate limit" } " · made " (moment::ago(visit.now(), source.created_at)) }
            @match provider::of(source.verification.kind) {
                Some(provider) => p.quiet { "Verified: " strong { (provider.name) } ", " (format::count(source.verification.secret_count as u64, "secret", "secrets"))
                    @if let Some(seconds) = source.verification.tolerance_seconds { ", good for " (seconds) " s" }
                    @if !source.verification.allowed_addresses.is_empty() { ", only from " code { (source.verification.allowed_addresses.join(", ")) } } },
                None => p.quiet { "Not verified: whoever knows its URL can send." },
            }
            @if !source.tags.is_empty() { p.quiet { "Tags from " @for tag in &source.tags { code { (tag.path.as_deref().or(tag.header.as_deref()).unwrap_or_default()) } " " } } }
            @match last.map(Vec::as_slice) {
                Some([]) => p.quiet { "No event has come in by it yet." },
                Some(events) => ul.last-events { @for event in events { li {
                    (status::event(&event.fanout)) a.plain href={ "/events/" (event.id) } { (event.event_type.as_str()) }
                    span.quiet { (name::id(event.id)) " · " (moment::ago(visit.now(), event.received_at)) }
                } } },
                None => (Markup::default()),
            }
            @if source.keep_refused && visit.may(Scope::EventsRead) {
                details data-refused={ "/v1/sources/" (id) "/refused" } { summary { "Refused requests" } div data-refused-shown role="status" { p.quiet { "Looking…" } } }
            }
            div.acts {
                @if visit.may(Scope::SecretsReveal) && visit.app.reveals() { button.button type="button" data-reveal={ "/v1/sources/" (id) "/ingest-url" } data-member="ingest_url" data-curl { "Show the ingest URL" } }
                @if may {
                    details.edit {
                        summary.button { "Edit" }
                        form.sheet data-form={ "/v1/sources/" (id) } data-method="PATCH" data-done="Saved" {
                            div.fields {
                                label { "Name" input name="name" required maxlength="200" value=(source.name); }
                                label { "Your own id (uid)" input name="uid" maxlength="200" value=[source.uid.as_deref()] data-empty="null" placeholder="none"; }
                                label { "Events a second, at most" input type="number" name="rate_limit" data-type="number" data-empty="null" min="1" value=[source.rate_limit] placeholder="no limit"; }
                            }
                            (verification_form::place(Some(&source.verification)))
                            (kept_refused(source.keep_refused))
                            (tags(&source.tags))
                            div data-form-problems role="alert" {}
                            button.button.primary type="submit" { "Save" }
                        }
                    }
                    @if source.enabled { button.button type="button" data-action={ "/v1/sources/" (id) } data-method="PATCH" data-body="{\"enabled\":false}" data-done="Disabled" data-confirm={ "Disable " (source.name) "?" } data-confirm-text="What is sent to its URL is refused until it is enabled again." { "Disable" } }
                    @else { button.button type="button" data-action={ "/v1/sources/" (id) } data-method="PATCH" data-body="{\"enabled\":true}" data-done="Enabled" { "Enable" } }
                    button.button type="button" data-action={ "/v1/sources/" (id) "/rotate-token" } data-confirm={ "A new URL for " (source.name) "?" } data-confirm-text="The old one stops working at once." data-done="The URL was changed" { "New URL" }
                    button.button.danger type="button" data-action={ "/v1/sources/" (id) } data-method="DELETE" data-confirm={ "Delete " (source.name) "?" } data-confirm-text="Its routes go with it. Events that came in stay." data-done="Deleted" { "Delete" }
                }
            }
            div.revealed data-revealed hidden {}
        }
    }
}
