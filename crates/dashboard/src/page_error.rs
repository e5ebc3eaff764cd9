//! Why a page cannot be shown, as a page.

use crate::visit::{Page, Visit};
use api::error::ApiError;
use domain::{account::Scope, id::RequestId};
use http::StatusCode;
use maud::{Markup, html};

pub(crate) use crate::pages::accounts::choose;

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
