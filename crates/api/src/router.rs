//! Every URL of the product on one page, with the OpenAPI document that is made from it.

use crate::{
    accounts,
    answers::share_of_all,
    api_keys,
    app::App,
    audit, data_keys, dead_letters, deliveries, destinations, docs, doctor,
    error::ApiError,
    events, health, ingest_url, master_keys, metrics, nodes, publish, replays, request, routes,
    session::{self, Pages},
    sources, stats, stream, users,
};
use axum::{
    Extension, Router,
    extract::{Request, State},
    http::header,
    middleware,
    response::IntoResponse,
    routing,
};
use bytes::Bytes;
use contract::schema;
use utoipa::{
    Modify, OpenApi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Which of the node's addresses a request came in by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenAddress {
    /// There is one address for everything.
    Only,
    /// There is another one for operators: here their keys are not known, and nothing is told of the node.
    Public,
    /// That one.
    Admin,
}

/// The whole API, ready to be served or to be asked in process.
pub fn router(app: App) -> Router {
    router_at(ListenAddress::Only, app, None)
}

/// What this address answers.
pub(crate) fn router_at(address: ListenAddress, app: App, pages: Option<Pages>) -> Router {
    let (router, described) = urls().split_for_parts();
    let document = Bytes::from(crate::document::finish(described).to_string());
    let openapi = move || async move {
        share_of_all(([(header::CONTENT_TYPE, "application/json")], document).into_response())
    };
    let router = router
        .route("/openapi.json", routing::get(openapi))
        .route("/docs/errors", routing::get(docs::errors));
    let router = match pages {
        Some(pages) => {
            let missing = pages.missing;
            let nothing = async move |State(app): State<App>, request: Request| {
                session::nothing_there(&app, missing, request)
            };
            router.merge(session::doors(&app, pages)).fallback(nothing)
        }
        None => router.fallback(async || ApiError::no_such("page")),
    };
    router.framed(address, app)
}

/// What a node that only delivers answers: whether it is alive and ready, and how it does. A balancer that sends it anything
/// else by mistake may take that elsewhere: nothing is missing, it is only not here.
pub(crate) fn worker_router(address: ListenAddress, app: App) -> Router {
    let (router, _) = probes().split_for_parts();
    router
        .fallback(async || {
            ApiError::only_delivers("this node only delivers: ask one of the role `api` or `all`")
        })
        .framed(address, app)
}

trait Framed {
    fn framed(self, address: ListenAddress, app: App) -> Router;
}

impl Framed for Router<App> {
    /// With metrics where they belong, and the frame around every request.
    fn framed(self, address: ListenAddress, app: App) -> Router {
        let with_metrics = match address {
            ListenAddress::Public => self,
            ListenAddress::Only | ListenAddress::Admin => {
                self.route("/metrics", routing::get(metrics::metrics))
            }
        };
        with_metrics
            .method_not_allowed_fallback(async || {
                ApiError::method_not_allowed("the `allow` header names what is")
            })
            .layer(middleware::from_fn_with_state(app.clone(), request::frame))
            .layer(Extension(address))
            .with_state(app)
    }
}

/// The OpenAPI document.
pub fn document() -> serde_json::Value {
    crate::document::finish(urls().split_for_parts().1)
}

fn urls() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Contract::openapi())
        // Accounts and their keys.
        .routes(routes!(accounts::create, accounts::list))
        .routes(routes!(accounts::get, accounts::update, accounts::delete))
        .routes(routes!(accounts::keys::list))
        .routes(routes!(accounts::keys::revoke))
        .routes(routes!(accounts::portal_links::create, accounts::portal_links::list))
        .routes(routes!(accounts::portal_links::revoke))
        .routes(routes!(accounts::get_own, accounts::update_own))
        .routes(routes!(api_keys::create, api_keys::list))
        .routes(routes!(api_keys::revoke))
        // Who may sign in to the dashboard.
        .routes(routes!(users::create, users::list))
        .routes(routes!(users::delete))
        // Where events come from, where they go, and which.
        .routes(routes!(sources::create, sources::list))
        .routes(routes!(sources::get, sources::update, sources::delete))
        .routes(routes!(sources::reveal_url))
        .routes(routes!(sources::refused))
        .routes(routes!(sources::rotate_token))
        .routes(routes!(destinations::create, destinations::list))
        .routes(routes!(destinations::get, destinations::update, destinations::delete))
        .routes(routes!(destinations::actions::pause))
        .routes(routes!(destinations::actions::resume))
        .routes(routes!(destinations::actions::enable))
        .routes(routes!(destinations::actions::disable))
        .routes(routes!(destinations::actions::probe))
        .routes(routes!(destinations::actions::attempts))
        .routes(routes!(destinations::holds::list))
        .routes(routes!(destinations::secret::reveal))
        .routes(routes!(destinations::secret::rotate))
        .routes(routes!(routes::create, routes::list))
        .routes(routes!(routes::get, routes::update, routes::delete))
        .routes(routes!(routes::preview::preview))
        // What happened.
        .routes(routes!(events::list))
        .routes(routes!(events::get))
        .routes(routes!(events::payload, events::erase_payload))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::get))
        .routes(routes!(deliveries::retry))
        .routes(routes!(deliveries::cancel))
        .routes(routes!(deliveries::replay))
        .routes(routes!(events::replay))
        .routes(routes!(dead_letters::groups))
        .routes(routes!(dead_letters::dismiss))
        .routes(routes!(replays::create, replays::list))
        .routes(routes!(replays::get))
        .routes(routes!(replays::pause))
        .routes(routes!(replays::resume))
        .routes(routes!(replays::cancel))
        .routes(routes!(stats::account))
        .routes(routes!(stats::fanout))
        .routes(routes!(stats::destination))
        .routes(routes!(stats::series))
        .routes(routes!(stats::destination_series))
        // What is happening.
        .routes(routes!(stream::follow))
        // What was done.
        .routes(routes!(audit::list))
        // The nodes.
        .routes(routes!(nodes::list))
        // The keys that encrypt what is secret.
        .routes(routes!(master_keys::list))
        .routes(routes!(master_keys::rotate))
        .routes(routes!(data_keys::rotate))
        // Everything above changes things in several steps; below, the committer takes care of that.
        .route_layer(middleware::from_fn(request::finish_despite_disconnect))
        // These change nothing, and end with their client.
        .routes(routes!(destinations::test::test))
        .routes(routes!(doctor::examine))
        // Events come in.
        .routes(routes!(ingest_url::ingest, ingest_url::look))
        .routes(routes!(publish::publish))
        .routes(routes!(publish::publish_batch))
        .merge(probes())
}

fn probes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(health::healthz)).routes(routes!(health::readyz))
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Posthaste",
        description = "Webhook delivery engine: events come in, are made durable, and are delivered to every destination that wants them.\n\n\
Whatever is refused, or fails, is answered with a problem document (RFC 9457), whose `code` is stable; `/docs/errors` explains them. \
A body of JSON is an object without a member given twice, of at most 256 KiB, 64 levels and 10,000 members; a replay may have \
512 KiB, and events are as large as the operator allows, 5 MiB as a rule. Whole numbers are written without a fraction. A URL has at most 8 KiB.\n\n\
A key of an operator or a platform acts for any account, where it names it by id or uid in the header `Posthaste-Account`; without \
it what is an account's is answered with 400 `invalid_header`, an account that is not there with 404 `not_found`. Accounts, sources, \
destinations and routes may be named by their `uid` wherever they are by their id.",
        version = "1"
    ),
    servers((url = "/", description = "The node that this document was read from.")),
    tags(
        (name = "accounts", description = "The tenants, each with everything that is its own."),
        (name = "api keys", description = "Who may do what."),
        (name = "sources", description = "Where events of others come in."),
        (name = "destinations", description = "Where deliveries go, at what pace, and how they do."),
        (name = "routes", description = "Which events go where."),
        (name = "events", description = "What happened: taken in, listed, read."),
        (name = "deliveries", description = "What became of events, destination by destination."),
        (name = "dead letters", description = "Deliveries that were given up: in groups, and settled by hand."),
        (name = "replays", description = "Ended deliveries, once more."),
        (name = "stats", description = "What happened, counted."),
        (name = "live", description = "What happens, as it happens."),
        (name = "audit log", description = "What was done, by whom and from where."),
        (name = "operations", description = "For whoever runs the installation."),
    ),
    // What only parameters and patches refer to is not found by itself.
    components(schemas(
        schema::AuthPatch, schema::ChangedStatus, schema::Cursor, schema::IdempotencyKeyHeader, schema::IfMatch,
        schema::IngestToken,
        schema::ReadinessFor, schema::SigningChoice,
    )),
    modifiers(&BearerKeys),
    security(("api_key" = [])),
)]
struct Contract;

struct BearerKeys;

impl Modify for BearerKeys {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("phk_…").build();
        document
            .components
            .get_or_insert_default()
            .add_security_scheme("api_key", SecurityScheme::Http(scheme));
    }
}
