//! Replays: how far each is, and new ones.

use crate::{
    chart, command_line,
    destination_names::DestinationNames,
    format,
    frame::Screen,
    moment, name,
    page_error::PageError,
    params::link,
    status,
    visit::{Page, Visit},
};
use api::read;
use axum::{extract::Path, response::Response};
use contract::{DeliveryQuery, DestinationView, ReplayView, SourceView};
use domain::{
    account::Scope,
    delivery::Status,
    id::{AccountId, ReplayId},
    limits,
    time::Timestamp,
};
use maud::{Markup, html};
use std::time::Duration;

pub(crate) async fn page(visit: Visit) -> Response {
    let made = list(&visit).await;
    visit.show(Screen::Replays, made).await
}

pub(crate) async fn one(visit: Visit, Path(id): Path<String>) -> Response {
    let made = single(&visit, &id).await;
    visit.show(Screen::Replays, made).await
}

async fn list(visit: &Visit) -> Result<Page, PageError> {
    let account = visit.require(Scope::DeliveriesRead)?;
    let page = store::Page { before: visit.params.parse("before"), limit: limits::PAGE_DEFAULT };
    let found = read::replays(&visit.app, account, page).await?;
    let names = names(visit, account, &found.data).await;
    let running = found.data.iter().any(|replay| !replay.status.ended());
    let forms =
        if visit.may(Scope::DeliveriesRetry) { forms(visit, account).await? } else { Markup::default() };
    let body = html! {
        (forms)
        div #replays data-region data-refresh[running] {
            @if found.data.is_empty() { div.empty { h2 { "No replay yet" } p { "A replay delivers again what has ended: one delivery from its event, a group from " a href="/dead-letters" { "Dead letters" } ", or whatever a filter finds." } } }
            @else { div.groups { @for replay in &found.data { (card(visit, visit.now(), replay, &names)) } } }
            @if let Some(next) = found.next { p.more { a.button href=(link("/replays", &[("before", Some(&next.to_string()))])) { "Older" } } }
        }
    };
    let actions = name::copy_commands(&command_line::curl(visit, "/v1/replays"), None);
    Ok(Page::new("Replays", body).with_actions(actions).live("kind=delivery.changed"))
}

async fn single(visit: &Visit, id: &str) -> Result<Page, PageError> {
    let account = visit.require(Scope::DeliveriesRead)?;
    let id: ReplayId = id.parse().map_err(|_| api::error::ApiError::no_such("replay"))?;
    let replay = read::replay(&visit.app, account, id).await?;
    let names = names(visit, account, std::slice::from_ref(&replay)).await;
    let text = format!("replay:{id}");
    let body = html! {
        div #replays data-region data-refresh[!replay.status.ended()] { (card(visit, visit.now(), &replay, &names)) }
        p.more { a.button href="/replays" { "All replays" } " " a.button href=(link("/events", &[("q", Some(&text))])) { "Its deliveries" } " " a.button href=(link("/events", &[("q", Some(&format!("{text} status:dead_letter")))])) { "Those that died again" } }
    };
    let actions = name::copy_commands(&command_line::curl(visit, &format!("/v1/replays/{id}")), None);
    let page = Page::new("Replay", body).with_actions(actions);
    Ok(page.live(format!("kind=delivery.changed&replay_id={id}")))
}

async fn names(visit: &Visit, account: AccountId, replays: &[ReplayView]) -> DestinationNames {
    let of_filters = replays
        .iter()
        .filter_map(|replay| replay.filter.as_ref())
        .flat_map(|filter| filter.destination_id.iter().take(3));
    let of_backfills = replays.iter().flat_map(|replay| replay.destination_ids.iter().take(3));
    let ids: Vec<_> = of_filters.chain(of_backfills).copied().collect();
    DestinationNames::of(visit, account, ids).await
}

fn card(visit: &Visit, now: Timestamp, replay: &ReplayView, names: &DestinationNames) -> Markup {
    let id = replay.id;
    let may = visit.may(Scope::DeliveriesRetry);
    let under_way = replay.created.saturating_sub(replay.delivered + replay.dead_letter);
    let rest = replay.matched.saturating_sub(replay.created + replay.skipped);
    let parts = [
        ("ok", format!("{} delivered", format::number(replay.delivered)), replay.delivered as f64),
        ("fail", format!("{} dead again", format::number(replay.dead_letter)), replay.dead_letter as f64),
        ("busy", format!("{} under way", format::number(under_way)), under_way as f64),
        ("omit", format!("{} skipped", format::number(replay.skipped)), replay.skipped as f64),
        ("todo", format!("{} to make", format::number(rest)), rest as f64),
    ];
    let drawn: Vec<(&str, &str, f64)> =
        parts.iter().map(|(class, label, size)| (*class, label.as_str(), *size)).collect();
    let ended = replay.delivered + replay.dead_letter + replay.skipped;
    let done = (replay.matched > 0).then(|| ended.min(replay.matched) as f64 / replay.matched as f64);
    html! {
        article.group data-key=(id) tabindex="-1" {
            div.group-head {
                (status::replay(replay.status))
                h2 { a.plain.row-link href={ "/replays/" (id) } { (what(replay, names)) } }
                span.grow {}
                @if let Some(done) = done { strong.big-count { (format::percent(done)) } }
                @if may && !replay.status.ended() {
                    @if replay.status.as_str() == "paused" { button.button.small type="button" data-action={ "/v1/replays/" (id) "/resume" } data-done="Goes on" { "Resume" } }
                    @else { button.button.small type="button" data-action={ "/v1/replays/" (id) "/pause" } data-done="Paused" { "Pause" } }
                    button.button.small type="button" data-action={ "/v1/replays/" (id) "/cancel" } data-confirm="Cancel this replay?"
                        data-confirm-text={ "The " (format::number(replay.created)) " deliveries it has made stay and go on; " (format::number(rest)) " more are not made. It cannot be undone." } data-done="Cancelled" { "Cancel" }
                }
            }
            (chart::bar("Progress", &drawn))
            ul.outcomes { @for (class, label, size) in &parts { @if *size > 0.0 { li { span class={ "swatch " (class) } {} (label) } } } }
            p.quiet {
                (format::number(replay.created)) " of " (format::number(replay.matched)) @if !replay.matched_exact { "+" } " made"
                " · at most " (replay.rate) " a second" (pace(now, replay))
                @if let Some(waiting) = &replay.waiting_for { " · waits: " (waiting.detail) }
                " · begun " (moment::ago(now, replay.created_at)) " by " (name::id(replay.created_by))
                @if let Some(at) = replay.finished_at { " · all made " (moment::ago(now, at)) }
            }
        }
    }
}

/// How fast it went, and until when it will go on. One that was paused in between went faster than this says.
fn pace(now: Timestamp, replay: &ReplayView) -> Markup {
    let over = replay.finished_at.unwrap_or(now).since(replay.created_at).max(Duration::from_secs(1));
    html! {
        @if replay.created > 0 { ", " (format::rate(replay.created, over)) " so far" }
        @if let Some(seconds) = replay.estimated_seconds {
            " · " strong { (format::span(Duration::from_secs(seconds))) " left" }
            ", until about " (moment::exact(now.plus(Duration::from_secs(seconds))))
        }
    }
}

/// What it replays, in words.
fn what(replay: &ReplayView, names: &DestinationNames) -> String {
    if let Some(event) = replay.event_id {
        return format!("Backfill of {}", format::short_id(event));
    }
    if replay.events.is_some() {
        return "Backfill of events by the routes of now".into();
    }
    match &replay.filter {
        None => format::count(replay.matched, "delivery by its id", "deliveries by their ids"),
        Some(filter) => filter_words(filter, names),
    }
}

fn filter_words(filter: &DeliveryQuery, names: &DestinationNames) -> String {
    let mut words = Vec::new();
    // A replay that is told no status takes dead letters alone.
    let statuses = if filter.status.is_empty() { &[Status::DeadLetter][..] } else { &filter.status };
    let statuses = statuses.iter().map(|status| match status {
        Status::DeadLetter => "dead letters".to_owned(),
        Status::Cancelled => "what was cancelled".to_owned(),
        Status::Delivered => "what was delivered".to_owned(),
        status => status.as_str().replace('_', " "),
    });
    words.push(statuses.collect::<Vec<_>>().join(", "));
    words.extend(filter.reason.iter().map(|reason| reason.replace('_', " ")));
    words.extend(filter.http_status.iter().map(|code| format!("HTTP {code}")));
    words.extend(filter.types.iter().map(|pattern| pattern.as_str().to_owned()));
    words.extend(filter.destination_id.iter().take(3).map(|id| format!("to {}", names.name(*id))));
    let mut text = words.join(" · ");
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text
}

/// Both ask first how many there are; nothing is made before.
async fn forms(visit: &Visit, account: AccountId) -> Result<Markup, PageError> {
    let app = &visit.app;
    let (destinations, sources) = if visit.may(Scope::DestinationsRead) {
        let wanted = read::Wanted::default();
        let page = store::Page { before: None, limit: limits::PAGE_MAX };
        let destinations = read::destinations(app, account, &wanted, page).await?;
        let page = store::Page { before: None, limit: limits::PAGE_MAX };
        (destinations.data, read::sources(app, account, &wanted, page).await?.data)
    } else {
        (Vec::new(), Vec::new())
    };
    Ok(html! { (create(&destinations)) (backfill(&destinations, &sources)) })
}

fn one_destination(name: &str, any: &str, destinations: &[DestinationView]) -> Markup {
    html! {
        label { "Destination"
            select name=(name) data-type="list" {
                option value="" { (any) }
                @for destination in destinations { option value=(destination.id) { (destination.name) } }
            }
        }
    }
}

fn rate() -> Markup {
    html! { label { "A second, at most" input type="number" name="rate" data-type="number" min="1" max=(limits::REPLAY_RATE_MAX) value=(limits::REPLAY_RATE_DEFAULT); } }
}

fn create(destinations: &[DestinationView]) -> Markup {
    html! {
        details.panel #replay {
            summary { h2 { "New replay" } span.quiet { " of what has ended" } }
            form.sheet data-form="/v1/replays" data-method="POST" data-replay-form {
                div.fields {
                    label { "Which" select name="filter.status" data-type="list" { option value="dead_letter" { "dead letters" } option value="cancelled" { "cancelled" } option value="dead_letter,cancelled" { "both" } option value="delivered" { "delivered (sends them again)" } } }
                    (one_destination("filter.destination_id", "all of them", destinations))
                    label { "Type" input name="filter.type" data-type="list" placeholder="invoice.*" list="known-types"; }
                    label { "HTTP status" input name="filter.http_status" data-type="numbers" placeholder="503"; }
                    label { "Since" input name="filter.since" data-type="moment" placeholder="1d"; }
                    label { "Until" input name="filter.until" data-type="moment" placeholder="now"; }
                    (rate())
                }
                div data-form-problems role="alert" {}
                button.button.primary type="submit" { "Count them first" }
                p.hint { "Nothing is made before you have seen how many there are, and for which destinations. Or search in " a href="/events?q=status%3Adead_letter" { "Events" } " and replay what you see." }
            }
        }
    }
}

/// For a destination that was added, or a route that was mended, after the events came.
fn backfill(destinations: &[DestinationView], sources: &[SourceView]) -> Markup {
    html! {
        details.panel #backfill {
            summary { h2 { "New backfill" } span.quiet { " of events that never went there" } }
            form.sheet data-form="/v1/replays" data-method="POST" data-replay-form="backfill" {
                div.fields {
                    (one_destination("destination_ids", "wherever the routes lead", destinations))
                    label { "Type" input name="events.type" data-type="list" placeholder="invoice.*" list="known-types"; }
                    label { "From" select name="events.source_id" data-type="list" { option value="" { "all sources, and by API" } @for source in sources { option value=(source.id) { (source.name) } } } }
                    label { "Tag" input name="events.tag" data-type="list" placeholder="order-4711"; }
                    label { "Since" input name="events.since" data-type="moment" placeholder="7d"; }
                    label { "Until" input name="events.until" data-type="moment" placeholder="now"; }
                    (rate())
                    label.check { input type="checkbox" name="events.fanout" value="unmatched" data-type="word"; " Only those that went nowhere" }
                }
                div data-form-problems role="alert" {}
                button.button.primary type="submit" { "Count them first" }
                p.hint { "Stored events go through the routes as they are now, and only to destinations that never had them." }
            }
        }
    }
}
