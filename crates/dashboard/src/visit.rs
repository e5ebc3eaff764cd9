//! One look at one page: who looks, at which account, and what the frame around the page says. A page asks it for what it may
//! see; nothing is read before the scope for it was asked for.

use crate::{
    DevKey,
    counts::{CountCache, Counts},
    frame::{self, Screen},
    page_error::PageError,
    params::Params,
};
use api::{App, keys::KeyText, session::Visitor};
use axum::{
    Extension,
    extract::FromRequestParts,
    response::{IntoResponse, Response},
};
use domain::{account::Scope, id::AccountId, time::Timestamp};
use http::{HeaderMap, StatusCode, header, request};
use maud::Markup;
use std::sync::Arc;

pub(crate) struct Visit {
    pub(crate) app: App,
    pub(crate) visitor: Visitor,
    pub(crate) params: Params,
    pub(crate) counts: Arc<Counts>,
    /// Path and query, to come back to.
    pub(crate) here: String,
    /// The key of `serve --dev`, if it is signed in.
    pub(crate) dev_key: Option<KeyText>,
    /// Where this very page was asked for, as a client would: `http://127.0.0.1:8080`.
    pub(crate) origin: String,
}

/// A page without its frame.
pub(crate) struct Page {
    pub(crate) title: String,
    /// Beside the title.
    pub(crate) actions: Markup,
    pub(crate) body: Markup,
    /// What the page follows live, as parameters of the stream; None: it stays as it is.
    pub(crate) live: Option<String>,
}

impl Page {
    pub(crate) fn new(title: impl Into<String>, body: Markup) -> Self {
        Self { title: title.into(), actions: Markup::default(), body, live: None }
    }

    pub(crate) fn with_actions(self, actions: Markup) -> Self {
        Self { actions, ..self }
    }

    pub(crate) fn live(self, parameters: impl Into<String>) -> Self {
        Self { live: Some(parameters.into()), ..self }
    }
}

impl Visit {
    pub(crate) fn now(&self) -> Timestamp {
        self.visitor.now()
    }

    pub(crate) fn may(&self, scope: Scope) -> bool {
        self.visitor.has(scope)
    }

    /// The account that is looked at, if the visitor may see this of it.
    pub(crate) fn require(&self, scope: Scope) -> Result<AccountId, PageError> {
        let account = self.visitor.account_id().ok_or(PageError::NoAccount)?;
        if !self.may(scope) {
            self.require_beyond_portal()?;
            return Err(PageError::Scope(scope));
        }
        Ok(account)
    }

    /// The same of a page that no portal link opens.
    pub(crate) fn require_beyond_portal(&self) -> Result<(), PageError> {
        if self.visitor.is_portal() { Err(PageError::NotInPortal) } else { Ok(()) }
    }

    /// The page in its frame, or what kept it from being made.
    pub(crate) async fn show(self, screen: Screen, made: Result<Page, PageError>) -> Response {
        let (status, page) = match made {
            Ok(page) => (StatusCode::OK, page),
            Err(PageError::Elsewhere(path)) => {
                return (StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response();
            }
            Err(error) => error.page(&self).await,
        };
        html(status, frame::around(&self, screen, &page))
    }
}

/// What is an account's is kept by nobody on the way.
pub(crate) fn html(status: StatusCode, page: Markup) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8"), (header::CACHE_CONTROL, "no-store, private")];
    (status, headers, page.into_string()).into_response()
}

impl FromRequestParts<App> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut request::Parts, app: &App) -> Result<Self, Response> {
        let visitor = Visitor::from_request_parts(parts, app).await.map_err(IntoResponse::into_response)?;
        let cache = Extension::<Arc<CountCache>>::from_request_parts(parts, app).await;
        let counts = match (visitor.account_id(), cache) {
            (Some(account), Ok(Extension(cache))) => cache.of(app, &visitor, account).await,
            _ => Arc::default(),
        };
        let dev_key = Extension::<DevKey>::from_request_parts(parts, app).await.ok();
        let dev_key = dev_key.and_then(|Extension(dev)| dev.of(&visitor).cloned());
        let here = parts.uri.path_and_query().map_or("/", |here| here.as_str()).to_owned();
        Ok(Self {
            app: app.clone(),
            params: Params::of(parts.uri.query()),
            counts,
            here,
            dev_key,
            origin: origin(&parts.headers),
            visitor,
        })
    }
}

/// By the name the visitor knows us by. Only ever shown to the one who sent it.
fn origin(headers: &HeaderMap) -> String {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("host").unwrap_or("127.0.0.1:8080");
    let scheme = match text("x-forwarded-proto") {
        Some("https") => "https",
        _ => "http",
    };
    format!("{scheme}://{host}")
}
