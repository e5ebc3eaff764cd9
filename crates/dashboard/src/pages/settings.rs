//! Keys, the account, who is signed in, the nodes, and what was done.

mod keys;
mod users;

use super::overview;
use crate::{
    command_line, format,
    frame::Screen,
    moment, name,
    page_error::PageError,
    visit::{Page, Visit},
};
use api::read;
use axum::response::Response;
use contract::{AccountView, AuditEntryView, EventQuery, StatsQuery};
use domain::{account::Scope, id::AccountId, limits, time::Timestamp};
use maud::{Markup, html};
use store::AuditFilter;

const AUDITED: usize = 30;
/// Events whose size stands for that of all.
const SAMPLED: usize = 50;

pub(crate) async fn page(visit: Visit) -> Response {
    let made = made(&visit).await;
    visit.show(Screen::Settings, made).await
}

async fn made(visit: &Visit) -> Result<Page, PageError> {
    let (app, now) = (&visit.app, visit.now());
    if visit.visitor.is_portal() {
        return Ok(Page::new("Settings", of_portal(visit)));
    }
    let account = visit.visitor.account_id();
    let own = match account {
        Some(id) => Some(read::account(app, id).await?),
        None => None,
    };
    let audited = match account {
        Some(id) if visit.may(Scope::AuditRead) => Some(
            read::audit_entries(
                app,
                Some(id),
                &AuditFilter::default(),
                store::Page { before: None, limit: AUDITED },
            )
            .await?
            .data,
        ),
        None if visit.visitor.is_operator() => Some(
            read::audit_entries(
                app,
                None,
                &AuditFilter::default(),
                store::Page { before: None, limit: AUDITED },
            )
            .await?
            .data,
        ),
        _ => None,
    };
    let projected = match account {
        Some(id) => projected(visit, id).await?,
        None => None,
    };
    let nodes = overview::nodes(visit).await?;
    let body = html! {
        @if let Some(own) = &own { (of_account(visit, &own.view, own.version, projected)) }
        (keys::panel(visit).await?)
        @if visit.visitor.is_user() { (of_password()) }
        (users::panel(visit).await?)
        section.panel #sessions { h2 { "Sessions" } p.quiet { "Browsers that are signed in to this dashboard. One that is ended is out at its next request." } div data-sessions { p.quiet { "Loading…" } } }
        (nodes)
        @if visit.visitor.is_operator() { (of_master_keys()) }
        // What the doctor finds comes last and is long: a button below it would jump away from who is about to press it.
        (of_installation(visit))
        @if let Some(entries) = &audited { (of_audit(now, entries)) }
    };
    let actions = match account {
        Some(_) => name::copy_commands(&command_line::curl(visit, "/v1/account"), None),
        None => Markup::default(),
    };
    Ok(Page::new("Settings", body).with_actions(actions))
}

/// The version; and for an operator what the doctor finds, which is asked for when the page is there: it takes its time.
fn of_installation(visit: &Visit) -> Markup {
    html! {
        section.panel #doctor {
            div.panel-head {
                h2 { "Installation" }
                @if visit.visitor.is_operator() {
                    button.button.small type="button" data-look-again { "Look again" }
                    (name::copy_commands(&command_line::curl_installation(visit, "/v1/doctor"), Some("posthaste doctor")))
                } @else { (name::copy_commands(&command_line::curl_installation(visit, "/readyz"), Some(&command_line::health(visit)))) }
            }
            p { "Posthaste " strong { (env!("CARGO_PKG_VERSION")) } " · " a href="/docs" { "API" } " · " a href="/openapi.json" { "OpenAPI document" } " · " a href="/docs/errors" { "Problems" } }
            @if visit.visitor.is_operator() { div data-doctor { p.quiet { "Looking…" } } }
            @else { p.quiet { "Store, files and clocks are the operator's to look at." } }
        }
    }
}

/// By which master keys anything is sealed; asked for when the page is there, as what the doctor finds.
fn of_master_keys() -> Markup {
    html! {
        section.panel #master-keys {
            h2 { "Master keys" }
            p.quiet { "Secrets are sealed by data keys of their accounts, and those by the master keys that the nodes are started with. A key that nothing is sealed by may be left out of " code { "master_keys" } "." }
            div data-master-keys { p.quiet { "Looking…" } }
        }
    }
}

/// How many bytes of payload are kept when everything goes on as in the last day. None without events to go by.
async fn projected(visit: &Visit, account: AccountId) -> Result<Option<(u64, u64)>, PageError> {
    if !visit.may(Scope::EventsRead) {
        return Ok(None);
    }
    let sample = read::events(
        &visit.app,
        account,
        &EventQuery::default(),
        store::Page { before: None, limit: SAMPLED },
    )
    .await?
    .data;
    let query =
        StatsQuery { since: Some(visit.now().minus(std::time::Duration::from_secs(86_400))), until: None };
    let a_day = read::stats(&visit.app, account, &query).await?.totals.events;
    if sample.is_empty() || a_day == 0 {
        return Ok(None);
    }
    let mean = sample.iter().map(|event| event.size_bytes).sum::<u64>() / sample.len() as u64;
    Ok(Some((a_day, mean)))
}

/// All there is for whoever came by a link: when that ends.
fn of_portal(visit: &Visit) -> Markup {
    let ends_at = visit.visitor.ends_at();
    html! {
        section.panel #session {
            h2 { "Signed in" }
            p { "You came by a link, which has opened these pages in this browser. That ends in " (moment::countdown(visit.now(), ends_at)) " (" (moment::exact(ends_at)) "), after half an hour without a request, and when you sign out." }
            @if visit.visitor.only_looks() { p.quiet { "You may look at everything here, and change nothing." } }
            p.more { button.button type="button" data-sign-out { "Sign out" } }
        }
    }
}

fn of_account(visit: &Visit, account: &AccountView, version: i64, projected: Option<(u64, u64)>) -> Markup {
    let may = visit.may(Scope::AccountAdmin);
    html! {
        section.panel #account {
            h2 { "Account" }
            p.quiet { (name::copied_id(account.id)) @if let Some(uid) = &account.uid { " · uid " (uid) } " · made " (moment::ago(visit.now(), account.created_at)) }
            form.sheet data-form="/v1/account" data-method="PATCH" data-version=(version) data-done="Saved" {
                fieldset disabled[!may] {
                    div.fields {
                        label { "Name" input name="name" required maxlength="200" value=(account.name); }
                        label { "Days events are kept" input type="number" name="retention_days" data-type="number" min="1" max=(limits::RETENTION_DAYS_MAX) value=(account.retention_days) data-projected=[projected.map(|(a_day, mean)| a_day.saturating_mul(mean))]; }
                        label { "Requests at once, by default" input type="number" name="defaults.max_concurrency" data-type="number" data-empty="null" min="1" max="1000" value=[account.defaults.max_concurrency] placeholder="the installation’s"; }
                        label { "Timeout in seconds, by default" input type="number" name="defaults.timeout_seconds" data-type="number" data-empty="null" min="1" max="30" value=[account.defaults.timeout_seconds] placeholder="the installation’s"; }
                    }
                    @if let Some((a_day, mean)) = projected {
                        p.hint { "Kept so long, payloads take about " strong data-projection { (format::bytes(a_day.saturating_mul(mean).saturating_mul(account.retention_days.into()))) } ": "
                            (format::number(a_day)) " events in the last day × " (format::bytes(mean)) ", the mean of the newest " (SAMPLED) ", × the days. They are packed, which takes off; deliveries, attempts and answers come on top." }
                    }
                    @let retries = &account.defaults.retry_policy;
                    @let schedule = retries.as_ref().and_then(|policy| policy.schedule_seconds.as_ref());
                    @let schedule = schedule.map(|pauses| pauses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
                    label { "Retry after so many seconds, by default" input name="defaults.retry_policy.schedule_seconds" data-type="numbers" data-empty="null" value=[schedule] placeholder="the installation’s: 5, 300, 1800, …"; }
                    label.check { input type="checkbox" name="encrypt_payloads" value="true" data-unchecked="false" checked[account.encrypt_payloads]; span { "Encrypt payloads, headers and kept answers in the store from now on: deleting the account makes them unreadable" } }
                    div data-form-problems role="alert" {}
                    @if may { button.button.primary type="submit" { "Save" } } @else { p.quiet { "Your key may look at this and not change it." } }
                }
            }
        }
    }
}

fn of_password() -> Markup {
    html! {
        section.panel #password {
            h2 { "Password" }
            form.sheet data-form="/ui/password" data-method="POST" data-done="Changed" {
                div.fields {
                    label { "Now" input type="password" name="current" autocomplete="current-password" required; }
                    label { "From now on" input type="password" name="new" autocomplete="new-password" required; }
                }
                div data-form-problems role="alert" {}
                button.button.primary type="submit" { "Change it" }
            }
        }
    }
}

fn of_audit(now: Timestamp, entries: &[AuditEntryView]) -> Markup {
    html! {
        section.panel #audit {
            h2 { "Audit log" }
            @if entries.is_empty() { p.quiet { "Nothing yet." } } @else {
                div.scroll { table.list {
                    thead { tr { th scope="col" { "What" } th scope="col" { "To" } th scope="col" { "By" } th scope="col" { "From" } th.num scope="col" { "When" } } }
                    tbody { @for entry in entries { tr data-key=(entry.id) {
                        td { (entry.action.replace('_', " ")) @if let Some(count) = entry.count { " × " (count) } }
                        td { @match &entry.object_id { Some(id) => (name::id(id)), None => "–" } }
                        td { @match (entry.actor.key_id, entry.actor.user_id, entry.actor.portal_link_id) { (Some(id), ..) => (name::id(id)), (_, Some(id), _) => (name::id(id)), (.., Some(id)) => (name::id(id)), _ => (entry.actor.kind.as_str()) } }
                        td { (entry.client.as_deref().unwrap_or("–")) }
                        td.num { (moment::ago(now, entry.at)) }
                    } } }
                } }
            }
        }
    }
}
