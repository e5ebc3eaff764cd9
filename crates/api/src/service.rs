//! Who answers a request. The two that bring an event in are handed straight to their handlers: they come as often as events
//! do, and a router with its layers, each of which boxes what it passes on, costs more than they do. Whatever is unusual about
//! one of them, and everything else, goes by the router. The frame around both is the same (`request.rs`).

use crate::{
    app::App,
    auth::PublishCtx,
    ingest_url, publish,
    request::framed,
    router::{ListenAddress, router_at, worker_router},
    session::{BySession, Pages, Transport, headers},
};
use axum::{
    Router,
    extract::{FromRequestParts as _, Path, Request, State},
    response::{IntoResponse as _, Response},
};
use http::{Method, Uri, uri::PathAndQuery};
use tower::Service as _;

/// All that one of the node's addresses answers.
#[derive(Clone)]
pub struct ApiService {
    router: Router,
    app: App,
    /// None where no events are taken in.
    takes_events: Option<ListenAddress>,
    /// The API answers sessions too.
    has_pages: bool,
}

impl ApiService {
    /// The whole API, and the dashboard if there are pages for it.
    pub fn new(address: ListenAddress, app: App, pages: Option<Pages>) -> Self {
        let has_pages = pages.is_some();
        let router = router_at(address, app.clone(), pages);
        Self { router, app, takes_events: Some(address), has_pages }
    }

    /// Of a node that only delivers.
    pub fn of_worker(address: ListenAddress, app: App) -> Self {
        Self { router: worker_router(address, app.clone()), app, takes_events: None, has_pages: false }
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    pub async fn answer(self, mut request: Request) -> Response {
        if !(self.has_pages && take_ui_off(request.uri_mut())) {
            return self.answer_api(request).await;
        }
        request.extensions_mut().insert(BySession);
        let (parts, body) = request.into_parts();
        let transport = Transport::of(&self.app, &parts);
        let mut answer = Box::pin(self.answer_api(Request::from_parts(parts, body))).await;
        headers::of_data(answer.headers_mut(), transport);
        answer
    }

    async fn answer_api(mut self, mut request: Request) -> Response {
        let way = self.takes_events.and_then(|address| Some((WayIn::of(&request)?, address)));
        let Some((way, address)) = way else {
            let Ok(answer) = self.router.call(request).await;
            return answer;
        };
        request.extensions_mut().insert(address);
        let Self { app, .. } = self;
        match way {
            WayIn::Ingest(token) => framed(&app, request, |request| ingest(&app, token, request)).await,
            WayIn::Publish => framed(&app, request, |request| publish(&app, request)).await,
        }
    }
}

/// `/ui/v1/…` is `/v1/…` by session. False of any other.
fn take_ui_off(uri: &mut Uri) -> bool {
    let Some(rest) = uri.path_and_query().and_then(|path| path.as_str().strip_prefix("/ui")) else {
        return false;
    };
    if !rest.starts_with("/v1/") {
        return false;
    }
    let Ok(path) = rest.parse::<PathAndQuery>() else { return false };
    let mut parts = std::mem::take(uri).into_parts();
    parts.path_and_query = Some(path);
    *uri = Uri::from_parts(parts).expect("it was a URI with another path");
    true
}

/// A request that brings one event in.
#[derive(Debug, PartialEq, Eq)]
enum WayIn {
    Ingest(String),
    Publish,
}

impl WayIn {
    /// None of what the router has to look at: any other URL, or one that is not as we write it.
    fn of(request: &Request) -> Option<Self> {
        if request.method() != Method::POST {
            return None;
        }
        let path = request.uri().path();
        if path == "/v1/events" {
            return Some(Self::Publish);
        }
        let token = path.strip_prefix("/ingest/")?;
        let is_plain = !token.is_empty() && !token.contains(['/', '%']);
        is_plain.then(|| Self::Ingest(token.to_owned()))
    }
}

async fn ingest(app: &App, token: String, request: Request) -> Response {
    ingest_url::ingest(State(app.clone()), Path(token), request).await.into_response()
}

async fn publish(app: &App, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    match Box::pin(PublishCtx::from_request_parts(&mut parts, app)).await {
        Ok(by) => {
            let request = Request::from_parts(parts, body);
            publish::publish(State(app.clone()), by, request).await.into_response()
        }
        Err(refused) => refused.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn way_in(method: &str, uri: &str) -> Option<WayIn> {
        WayIn::of(&Request::builder().method(method).uri(uri).body(Body::empty()).unwrap())
    }

    #[test]
    fn only_the_api_is_reached_by_session() {
        let taken = |uri: &str| {
            let mut uri: Uri = uri.parse().unwrap();
            take_ui_off(&mut uri).then(|| uri.to_string())
        };
        assert_eq!(taken("/ui/v1/events?limit=1"), Some("/v1/events?limit=1".into()));
        assert_eq!(taken("http://host/ui/v1/stream"), Some("http://host/v1/stream".into()));
        for uri in ["/v1/events", "/ui/sign-in", "/ui/v1", "/uiv1/x", "/ui//v1/x", "/", "/ui/ingest/x", "*"] {
            assert_eq!(taken(uri), None, "{uri}");
        }
    }

    #[test]
    fn only_what_brings_one_event_in_goes_past_the_router() {
        let ingest = |token: &str| Some(WayIn::Ingest(token.into()));
        assert_eq!(way_in("POST", "/ingest/token"), ingest("token"));
        assert_eq!(way_in("POST", "/ingest/token?query=1"), ingest("token"));
        assert_eq!(way_in("POST", "http://host/ingest/token"), ingest("token"));
        assert_eq!(way_in("POST", "/v1/events"), Some(WayIn::Publish));
        assert_eq!(way_in("POST", "/v1/events?query=1"), Some(WayIn::Publish));
        for (method, uri) in [
            ("GET", "/ingest/token"),
            ("PUT", "/v1/events"),
            ("GET", "/v1/events"),
            ("OPTIONS", "*"),
            ("POST", "*"),
            ("POST", "/"),
            ("POST", "/ingest"),
            ("POST", "/ingest/"),
            ("POST", "/ingest/token/"),
            ("POST", "/ingest/to/ken"),
            ("POST", "/ingest/%74oken"),
            ("POST", "//ingest/token"),
            ("POST", "/v1/events/"),
            ("POST", "/v1/events/batch"),
            ("POST", "/v1//events"),
            ("POST", "/V1/events"),
        ] {
            assert_eq!(way_in(method, uri), None, "{method} {uri}");
        }
    }
}
