//! Where events come in.

use crate::{
    frame::Screen,
    moment, name,
    page_error::PageError,
    params::link,
    status,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::SourceView;
use domain::{account::Scope, limits};
use maud::{Markup, html};

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
    let publish = format!(
        "curl {}/v1/events \\\n  -H \"authorization: Bearer $POSTHASTE_KEY\" -H \"content-type: application/json\" \\\n  -d '{{\"type\": \"invoice.paid\", \"data\": {{\"id\": \"in_1\"}}}}'",
        visit.origin
    );
    let body = html! {
        section.panel {
            h2 { "Your own events, by API" }
            p { "What you publish with a key needs no source:" }
            (name::command(&publish))
        }
        @if may {
            details.panel open[found.data.is_empty()] {
                summary { h2 { "New source" } }
                form.sheet data-form="/v1/sources" data-method="POST" data-result="source" {
                    div.fields {
                        label { "Name" input name="name" required maxlength="200" placeholder="stripe"; }
                        label { "Events a second" input type="number" name="rate_limit" data-type="number" min="1" placeholder="no limit"; }
                    }
                    div data-form-problems role="alert" {}
                    button.button.primary type="submit" { "Make it" }
                    p.hint { "It gets an ingest URL of its own: whoever knows the URL can bring events in." }
                    div data-form-result role="status" {}
                }
            }
        }
        div #sources data-region {
            @if found.data.is_empty() { div.empty { h2 { "No source yet" } p { "A source is a URL that somebody else's webhooks are sent to." } } }
            @else { div.groups { @for source in &found.data { (one(visit, source, may)) } } }
            @if let Some(next) = found.next { p.more { a.button href=(link("/sources", &[("before", Some(&next.to_string()))])) { "Older" } } }
        }
    };
    Ok(Page::new("Sources", body))
}

fn one(visit: &Visit, source: &SourceView, may: bool) -> Markup {
    let id = source.id;
    let text = format!("source:{id}");
    html! {
        article.group data-key=(id) {
            div.group-head {
                (status::enabled(source.enabled))
                h2 { (source.name) }
                @if let Some(uid) = &source.uid { span.quiet { "uid " (uid) } }
                span.grow {}
                a.button.small href=(link("/events", &[("q", Some(&text))])) { "Its last events" }
            }
            p.quiet { (name::copied_id(id)) " · " @match source.rate_limit { Some(limit) => { (limit) " events a second" }, None => "no rate limit" } " · made " (moment::ago(visit.now(), source.created_at)) }
            @if !source.tags.is_empty() { p.quiet { "Tags from " @for tag in &source.tags { code { (tag.path.as_deref().or(tag.header.as_deref()).unwrap_or_default()) } " " } } }
            div.acts {
                @if visit.may(Scope::SecretsReveal) { button.button type="button" data-reveal={ "/v1/sources/" (id) "/ingest-url" } data-member="ingest_url" data-curl { "Show the ingest URL" } }
                @if may {
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
