//! Why a page cannot be shown, as a page.

use crate::{
    reads::together,
    visit::{Page, Visit},
};
use api::{error::ApiError, read};
use contract::AccountView;
use domain::{
    account::Scope,
    id::{AccountId, RequestId},
};
use futures_util::FutureExt;
use http::StatusCode;
use maud::{Markup, html};

/// Accounts to choose from that are shown at once.
const ACCOUNTS: usize = 200;

#[derive(Debug)]
pub(crate) enum PageError {
    Api(ApiError),
    /// The visitor's key may not see this.
    Scope(Scope),
    /// It is none of those that a portal link opens.
    NotInPortal,
    /// An operator has to say first which account is meant.
    NoAccount,
    /// It is shown there.
    Elsewhere(String),
}

impl From<ApiError> for PageError {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl PageError {
    pub(crate) async fn page(self, visit: &Visit) -> (StatusCode, Page) {
        match self {
            Self::Api(error) => (error.status(), of_problem(&error)),
            Self::Scope(scope) => {
                let body = html! {
                    div.empty {
                        h2 { "Not with this key" }
                        p { "The key you signed in with (" strong { (visit.visitor.key_name()) } ") does not have the scope "
                            code { (scope.as_str()) } ", which this page needs." }
                        p { "Sign in with a key that has it, or ask whoever manages the keys of this account." }
                    }
                };
                (StatusCode::FORBIDDEN, Page::new("Not allowed", body))
            }
            Self::NotInPortal => {
                let body = html! {
                    div.empty {
                        h2 { "Not by this link" }
                        p { "The link you came by opens other pages than this one." }
                        p { a.button href="/" { "Overview" } }
                    }
                };
                (StatusCode::FORBIDDEN, Page::new("Not allowed", body))
            }
            Self::NoAccount => (StatusCode::OK, Page::new("Accounts", choose(visit).await)),
            Self::Elsewhere(_) => (StatusCode::OK, Page::new("", Markup::default())),
        }
    }
}

/// What happened this time, for people.
pub(crate) fn detail(error: &ApiError) -> String {
    error.problem(RequestId::MIN).detail.into_owned()
}

fn of_problem(error: &ApiError) -> Page {
    let code = error.code();
    let detail = detail(error);
    let body = html! {
        div.empty {
            h2 { (code.title()) }
            @if !detail.is_empty() { p { (detail) } }
            p.quiet { code { (code.as_str()) } " · " (code.status()) }
            p { a.button href="/" { "Overview" } " " button.button type="button" data-back { "Back" } }
        }
    };
    Page::new(code.title(), body)
}

/// Those that the visitor may look at: all there are, for an operator or a platform.
async fn accounts(visit: &Visit) -> Option<(Vec<AccountView>, Option<AccountId>)> {
    if let Some(own) = visit.visitor.own_accounts() {
        let each = own.iter().take(ACCOUNTS).map(|id| read::account(&visit.app, *id).boxed());
        let found = together(each.collect()).await.into_iter().flatten();
        return Some((found.map(|found| found.view).collect(), None));
    }
    let page = store::Page { before: visit.params.parse("before"), limit: ACCOUNTS };
    let found = read::accounts(&visit.app, &read::Wanted::default(), page)
        .await
        .ok()
        .filter(|_| visit.visitor.has(Scope::AccountsRead))?;
    Some((found.data, found.next))
}

/// The accounts, for whoever has more than one and has not chosen.
pub(crate) async fn choose(visit: &Visit) -> Markup {
    let Some((accounts, next)) = accounts(visit).await else {
        return html! { div.empty { h2 { "No account" } p { "This session belongs to no account." } } };
    };
    html! {
        p.lead { "Choose the account to look at; you can change it at the bottom left at any time." }
        @if accounts.is_empty() {
            div.empty { h2 { "There is no account yet" } p { "Make one with " code { "POST /v1/accounts" } "." } }
        } @else {
            table.list {
                thead { tr { th scope="col" { "Account" } th scope="col" { "uid" } th scope="col" { "Id" } th scope="col" { "Keeps" } th scope="col" {} } }
                tbody { @for account in &accounts {
                    tr {
                        td { strong { (account.name) } }
                        td { (account.uid.as_deref().unwrap_or("–")) }
                        td { code.id { (account.id) } }
                        td.num { (account.retention_days) " days" }
                        td.act { button.button type="button" data-account=(account.id) { "Open" } }
                    }
                } }
            }
            @if let Some(next) = next { a.button href=(format!("?before={next}")) { "Older accounts" } }
        }
    }
}
