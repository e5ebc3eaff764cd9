//! The accounts, for whoever may look at more than one: how each does, and which to open. There may be many thousands, so one
//! looks for a name, and figures are of those that are shown.

use crate::{command_line, format, name, params::link, reads::together, visit::Visit};
use api::{App, read};
use contract::{AccountView, NameQuery, StatsQuery};
use domain::{account::Scope, id::AccountId, limits, time::Timestamp};
use futures_util::FutureExt;
use maud::{Markup, html};
use std::time::Duration;

/// A page of them. Each costs a few reads.
const ACCOUNTS: usize = 25;
const HOUR: Duration = Duration::from_secs(3_600);

struct Found {
    accounts: Vec<AccountView>,
    next: Option<AccountId>,
}

/// Those that the visitor may look at and that have the text in their name, or as their uid or id.
async fn found(visit: &Visit, text: &str) -> Option<Found> {
    if let Some(own) = visit.visitor.own_accounts() {
        let each = own.iter().map(|id| read::account(&visit.app, *id).boxed());
        let accounts = together(each.collect()).await.into_iter().flatten().map(|found| found.view);
        let wanted = text.to_lowercase();
        let accounts =
            accounts.filter(|it| it.name.to_lowercase().contains(&wanted)).take(limits::USER_ACCOUNTS_MAX);
        return Some(Found { accounts: accounts.collect(), next: None });
    }
    if !visit.may(Scope::AccountsRead) || !visit.visitor.may_choose_account() {
        return None;
    }
    if let Ok(id) = text.parse::<AccountId>() {
        let account = read::account(&visit.app, id).await.ok().map(|found| found.view);
        return Some(Found { accounts: account.into_iter().collect(), next: None });
    }
    let page = store::Page { before: visit.params.parse("before"), limit: ACCOUNTS };
    let named = |name: Option<&str>, uid: Option<&str>| NameQuery {
        name: name.map(str::to_owned),
        uid: uid.map(str::to_owned),
    };
    let text = Some(text).filter(|text| !text.is_empty());
    let by_name = read::Wanted::try_from(&named(text, None)).ok()?;
    let listed = read::accounts(&visit.app, &by_name, page).await.ok()?;
    let mut accounts = listed.data;
    if let Some(uid) = text
        && page.before.is_none()
        && let Ok(by_uid) = read::Wanted::try_from(&named(None, Some(uid)))
        && let Ok(known) = read::accounts(&visit.app, &by_uid, page).await
    {
        let new = known.data.into_iter().filter(|it| accounts.iter().all(|other| other.id != it.id));
        let new: Vec<AccountView> = new.collect();
        accounts.splice(0..0, new);
    }
    Some(Found { accounts, next: listed.next })
}

/// How an account does, in the last hour and now.
#[derive(Default)]
struct Figures {
    events: u64,
    delivered: u64,
    waiting: u64,
    dead_letters: u64,
}

impl Figures {
    async fn of(app: &App, account: AccountId, now: Timestamp) -> Option<Self> {
        let query = StatsQuery { since: Some(now.minus(HOUR)), until: None };
        let totals = read::stats(app, account, &query).await.ok()?.totals;
        let page = store::Page { before: None, limit: limits::PAGE_MAX };
        let groups =
            read::dead_letter_groups(app, account, store::GroupFilter::default(), page).await.ok()?;
        Some(Self {
            events: totals.events,
            delivered: totals.delivered,
            waiting: totals.waiting,
            dead_letters: groups.data.iter().map(|group| group.count).sum(),
        })
    }
}

pub(crate) async fn choose(visit: &Visit) -> Markup {
    let text = visit.params.get("account").unwrap_or_default();
    let Some(Found { accounts, next }) = found(visit, text).await else {
        return html! { div.empty { h2 { "No account" } p { "This session belongs to no account." } } };
    };
    let now = visit.now();
    let each = accounts.iter().take(ACCOUNTS).map(|account| Figures::of(&visit.app, account.id, now).boxed());
    let figures = together(each.collect()).await;
    let curl = command_line::curl_installation(visit, "/v1/accounts");
    html! {
        div.tools {
            form.find action="/" method="get" role="search" {
                // The first page of a session that looks at an account is that account's.
                input type="hidden" name="accounts" value="";
                input #account-search type="search" name="account" value=(text) placeholder="Name, uid or acc_…" aria-label="Find an account" autocomplete="off" spellcheck="false" maxlength=(limits::SEARCHED_TEXT_CHARS);
                button.button type="submit" { "Find" }
            }
            span.grow {}
            @if visit.visitor.own_accounts().is_none() { (name::copy_commands(&curl, None)) }
        }
        @if accounts.is_empty() {
            div.empty {
                @if text.is_empty() { h2 { "There is no account yet" } p { "Make one with " code { "POST /v1/accounts" } "." } }
                @else { h2 { "No account is called that" } p { a.button href="/?accounts" { "All accounts" } } }
            }
        } @else {
            table.list {
                thead { tr { th scope="col" { "Account" } th scope="col" { "uid" } th.num scope="col" { "Events, 1 h" } th.num scope="col" { "Delivered, 1 h" } th.num scope="col" { "Waiting" } th.num scope="col" { "Dead letters" } th.num scope="col" { "Keeps" } th scope="col" {} } }
                tbody { @for (place, account) in accounts.iter().enumerate() { (row(account, figures.get(place).and_then(Option::as_ref))) } }
            }
            @if let Some(next) = next { p.more { a.button href=(link("/", &[("accounts", Some("more")), ("account", Some(text)), ("before", Some(&next.to_string()))])) { "Older accounts" } } }
        }
    }
}

fn row(account: &AccountView, figures: Option<&Figures>) -> Markup {
    let number =
        |pick: fn(&Figures) -> u64| figures.map_or_else(|| "–".into(), |known| format::number(pick(known)));
    html! {
        tr data-key=(account.id) tabindex="-1" {
            td.wide { button.link.row-link type="button" data-account=(account.id) title=(account.id) { (account.name) } }
            td { (account.uid.as_deref().unwrap_or("–")) }
            td.num data-label="events" { (number(|known| known.events)) }
            td.num data-label="delivered" { (number(|known| known.delivered)) }
            td.num data-label="waiting" { (number(|known| known.waiting)) }
            td.num data-label="dead letters" { span class=[figures.is_some_and(|known| known.dead_letters > 0).then_some("bad")] { (number(|known| known.dead_letters)) } }
            td.num data-label="keeps" { (format::count(account.retention_days.into(), "day", "days")) }
            td.act { button.button.small type="button" data-account=(account.id) { "Open" } }
        }
    }
}
