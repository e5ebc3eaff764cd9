//! Dead letters like issues: what went wrong, where, and how often.

use crate::{
    chart::{Line, Unit, told_sparkline},
    command_line,
    destination_names::DestinationNames,
    format,
    frame::Screen,
    icon, moment, name,
    page_error::PageError,
    params::link,
    reads::together,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{DeadLetterGroupView, DeliveryQuery};
use domain::{
    account::Scope,
    delivery::Status,
    id::{AccountId, DestinationId},
    limits,
    outcome::{DeadReason, Outcome},
    time::Timestamp,
};
use futures_util::FutureExt;
use maud::{Markup, html};
use std::{cmp::Reverse, collections::HashMap, time::Duration};

const DAY: Duration = Duration::from_secs(86_400);
/// Days of a group's course. Groups are counted by the day.
const DAYS: u32 = 7;
/// Groups that are read at once.
const FIRST: store::Page<store::GroupKey> = store::Page { before: None, limit: limits::PAGE_MAX };

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit).await;
    visit.show(Screen::DeadLetters, made).await
}

async fn made(visit: &Visit) -> Result<Page, PageError> {
    let account = visit.require(Scope::DeliveriesRead)?;
    let found = read::dead_letter_groups(&visit.app, account, store::GroupFilter::default(), FIRST).await?;
    let mut groups = found.data;
    groups.sort_by_key(|group| Reverse(group.last_at));
    let names = DestinationNames::of(visit, account, groups.iter().map(|group| group.destination_id)).await;
    let total: u64 = groups.iter().map(|group| group.count).sum();
    let now = visit.now();
    let courses =
        if groups.is_empty() { Courses::default() } else { Courses::read(visit, account, now).await };
    let may_replay = visit.may(Scope::DeliveriesRetry);
    let body = html! {
        div #groups data-region {
            @if groups.is_empty() {
                div.empty.good-news { (icon::check()) h2 { "No dead letters" } p { "Every delivery that ended has been delivered, or was cancelled by somebody." } }
            } @else {
                p.lead { strong { (format::count(total, "delivery", "deliveries")) } " could not be delivered, in " (format::count(groups.len() as u64, "group", "groups")) ". What a replay delivers, and what is dismissed, leaves this page and stays in the history." }
                @if found.next.is_some() { p.note { "These are the first " (limits::PAGE_MAX) " groups; there are more." } }
                div.groups { @for group in &groups { (one(visit, now, group, &names, &courses, may_replay)) } }
            }
        }
    };
    // Also what is delivered: a replay takes dead letters from here.
    Ok(Page::new("Dead letters", body).live("kind=delivery.changed&status=dead_letter&status=delivered"))
}

/// What a group has in common.
type Key = (DestinationId, DeadReason, Option<u16>, Option<Outcome>);

fn key(group: &DeadLetterGroupView) -> Key {
    (group.destination_id, group.reason, group.http_status, group.outcome)
}

/// How many of each group were created on each of the last days, the oldest first.
#[derive(Default)]
struct Courses(HashMap<Key, [u64; DAYS as usize]>);

impl Courses {
    /// Counted from each day on: what is between two of these is of one day. Without them a group is shown all the same.
    async fn read(visit: &Visit, account: AccountId, now: Timestamp) -> Self {
        let days = (0..DAYS).rev().map(|back| now.floor(DAY).minus(DAY * back));
        let each = days.map(|day| {
            let filter = store::GroupFilter { since: Some(day), ..store::GroupFilter::default() };
            read::dead_letter_groups(&visit.app, account, filter, FIRST).boxed()
        });
        let found = together(each.collect()).await;
        let mut courses: HashMap<Key, [u64; DAYS as usize]> = HashMap::new();
        for (day, groups) in found.into_iter().enumerate() {
            for group in groups.into_iter().flat_map(|groups| groups.data) {
                courses.entry(key(&group)).or_default()[day] = group.count;
            }
        }
        for course in courses.values_mut() {
            for day in 1..course.len() {
                course[day - 1] = course[day - 1].saturating_sub(course[day]);
            }
        }
        Self(courses)
    }

    fn of(&self, group: &DeadLetterGroupView) -> [u64; DAYS as usize] {
        self.0.get(&key(group)).copied().unwrap_or_default()
    }
}

/// The last days of a group, and whether it goes on.
fn course(now: Timestamp, days: &[u64; DAYS as usize]) -> Markup {
    let today = days[days.len() - 1];
    let before = &days[..days.len() - 1];
    let mean = before.iter().sum::<u64>() / before.len() as u64;
    let said = format!(
        "{} created today, {} in the 6 days before",
        format::number(today),
        format::number(before.iter().sum())
    );
    let values = days.iter().map(|count| Some(*count as f64)).collect();
    let line = Line::new("created", "fail", values).going_on(true);
    let from = now.floor(DAY).minus(DAY * (DAYS - 1));
    html! {
        span.course title=(said) {
            (told_sparkline(&format!("Created by day: {said}"), from, DAY, Unit::Count, &[line]))
            @if today == 0 { span.quiet { "none today" } }
            @else if today > mean { span.bad { "↑ " (format::number(today)) " today" } }
            @else { span.quiet { (format::number(today)) " today" } }
        }
    }
}

fn one(
    visit: &Visit,
    now: Timestamp,
    group: &DeadLetterGroupView,
    names: &DestinationNames,
    courses: &Courses,
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
    let curl = command_line::curl_post(
        visit,
        "/v1/replays",
        &serde_json::json!({ "filter": lean(&query), "dry_run": true }).to_string(),
    );
    let tail = command_line::tail(
        visit,
        &[
            ("kind", "delivery.changed".to_owned()),
            ("status", "dead_letter".to_owned()),
            ("destination", group.destination_id.to_string()),
        ],
    );
    html! {
        article.group data-key=(text) tabindex="-1" {
            div.group-head {
                span.status.bad { (icon::cross()) (group.reason.as_str().replace('_', " ")) @if let Some(outcome) = group.outcome.filter(|outcome| outcome.as_str() != group.reason.as_str()) { " · " (outcome.as_str().replace('_', " ")) } @if let Some(code) = group.http_status { " · HTTP " (code) } }
                h2 { (names.link(group.destination_id)) }
                span.grow {}
                (course(now, &courses.of(group)))
                strong.big-count { (format::number(group.count)) }
            }
            p { (remedy(group.reason)) }
            p.quiet { "first " (moment::ago(now, group.first_at)) " · last " (moment::ago(now, group.last_at)) }
            details.samples data-samples=(samples(&query)) {
                summary { "Samples" }
                div data-samples-shown { p.quiet { a href={ "/deliveries/" (group.sample_delivery_id) } { (name::id(group.sample_delivery_id)) } } }
            }
            div.acts {
                @if may_replay {
                    button.button.primary type="button" data-replay data-replay-filter=(filter) { "Replay… " kbd { "r" } }
                    button.button type="button" data-dismiss-filter=(filter) data-count=(format::count(group.count, "dead letter", "dead letters")) { "Dismiss…" }
                }
                a.button.row-link href=(link("/events", &[("q", Some(&text))])) { "Look at them" }
                (name::copy_commands(&curl, Some(&tail)))
            }
        }
    }
}

/// Without what it does not say.
fn lean(query: &DeliveryQuery) -> serde_json::Value {
    let mut value = serde_json::to_value(query).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members
            .retain(|_, value| !value.is_null() && value.as_array().is_none_or(|values| !values.is_empty()));
    }
    value
}

/// The newest of a group, as the list of deliveries gives them: read when somebody opens it.
fn samples(query: &DeliveryQuery) -> String {
    let destination = query.destination_id.first().map(ToString::to_string);
    let code = query.http_status.first().map(ToString::to_string);
    let parameters = [
        ("status", Some("dead_letter")),
        ("resolved", Some("false")),
        ("reason", query.reason.first().map(String::as_str)),
        ("destination_id", destination.as_deref()),
        ("http_status", code.as_deref()),
        ("limit", Some("5")),
    ];
    link("/v1/deliveries", &parameters)
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
