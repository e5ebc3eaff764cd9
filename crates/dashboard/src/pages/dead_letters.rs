//! Dead letters like issues: what went wrong, where, and how often.

use crate::{
    destination_names::DestinationNames,
    format,
    frame::Screen,
    icon, moment, name,
    page_error::PageError,
    params::link,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{DeadLetterGroupView, DeliveryQuery};
use domain::{account::Scope, delivery::Status, limits, outcome::DeadReason, time::Timestamp};
use maud::{Markup, html};
use std::cmp::Reverse;

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit).await;
    visit.show(Screen::DeadLetters, made).await
}

async fn made(visit: &Visit) -> Result<Page, PageError> {
    let account = visit.require(Scope::DeliveriesRead)?;
    let page = store::Page { before: None, limit: limits::PAGE_MAX };
    let found = read::dead_letter_groups(&visit.app, account, store::GroupFilter::default(), page).await?;
    let mut groups = found.data;
    groups.sort_by_key(|group| Reverse(group.last_at));
    let names = DestinationNames::of(visit, account, groups.iter().map(|group| group.destination_id)).await;
    let total: u64 = groups.iter().map(|group| group.count).sum();
    let now = visit.now();
    let may_replay = visit.may(Scope::DeliveriesRetry);
    let body = html! {
        div #groups data-region {
            @if groups.is_empty() {
                div.empty.good-news { (icon::check()) h2 { "No dead letters" } p { "Every delivery that ended has been delivered, or was cancelled by somebody." } }
            } @else {
                p.lead { strong { (format::count(total, "delivery", "deliveries")) } " could not be delivered, in " (format::count(groups.len() as u64, "group", "groups")) ". What a replay delivers, and what is dismissed, leaves this page and stays in the history." }
                @if found.next.is_some() { p.note { "These are the first " (limits::PAGE_MAX) " groups; there are more." } }
                div.groups { @for group in &groups { (one(visit, now, group, &names, may_replay)) } }
            }
        }
    };
    Ok(Page::new("Dead letters", body).live("kind=delivery.changed&status=dead_letter"))
}

fn one(
    visit: &Visit,
    now: Timestamp,
    group: &DeadLetterGroupView,
    names: &DestinationNames,
    may_replay: bool,
) -> Markup {
    let query = DeliveryQuery {
        status: vec![Status::DeadLetter],
        reason: vec![group.reason.as_str().to_owned()],
        destination_id: vec![group.destination_id],
        http_status: group.http_status.into_iter().collect(),
        ..DeliveryQuery::default()
    };
    let filter = serde_json::to_string(&query).unwrap_or_default();
    let code = group.http_status.map(|code| format!(" http_status:{code}")).unwrap_or_default();
    let text = format!(
        "status:dead_letter destination:{} reason:{}{code}",
        group.destination_id,
        group.reason.as_str()
    );
    let curl = format!(
        "curl '{}/v1/replays' -H \"authorization: Bearer $POSTHASTE_KEY\" -H 'content-type: application/json' \\\n  -d '{{\"filter\": {filter}, \"dry_run\": true}}'",
        visit.origin
    );
    html! {
        article.group data-key=(text) {
            div.group-head {
                span.status.bad { (icon::cross()) (group.reason.as_str().replace('_', " ")) @if let Some(outcome) = group.outcome { " · " (outcome.as_str().replace('_', " ")) } @if let Some(code) = group.http_status { " · HTTP " (code) } }
                h2 { (names.link(group.destination_id)) }
                span.grow {}
                strong.big-count { (format::number(group.count)) }
            }
            p { (remedy(group.reason)) }
            p.quiet { "first " (moment::ago(now, group.first_at)) " · last " (moment::ago(now, group.last_at)) " · sample " a href={ "/deliveries/" (group.sample_delivery_id) } { (name::id(group.sample_delivery_id)) } }
            div.acts {
                @if may_replay {
                    button.button.primary type="button" data-replay-filter=(filter) { "Replay…" }
                    button.button type="button" data-dismiss-filter=(filter) data-count=(format::count(group.count, "dead letter", "dead letters")) { "Dismiss…" }
                }
                a.button href=(link("/events", &[("q", Some(&text))])) { "Look at them" }
                (name::copy_as(&curl, "Copy curl"))
            }
        }
    }
}

/// What to do before a replay, in one sentence.
fn remedy(reason: DeadReason) -> &'static str {
    match reason {
        DeadReason::Exhausted => "Every retry failed. See that the destination is well again, then replay.",
        DeadReason::Rejected => {
            "The destination refused them for good. Mend what it does not like, at either end, then replay."
        }
        DeadReason::Gone => {
            "The destination said that it is gone, and was disabled. Enable it or give it a new URL, then replay."
        }
        DeadReason::Tls => {
            "The certificate could not be trusted. See that it is valid for this host, then replay."
        }
        DeadReason::Blocked => {
            "The address may not be called from here. Give the destination another URL, or ask the operator."
        }
        DeadReason::Undeliverable => "No request could be made of it: look at the attempt for the reason.",
        DeadReason::Expired => {
            "They waited longer than a delivery may. See why the destination was held, then replay."
        }
        DeadReason::DestinationDisabled => {
            "The destination was disabled while they waited. Enable it, then replay."
        }
    }
}
