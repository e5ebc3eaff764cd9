//! What people see: pages rendered on the server from the views of `api::read`, one file a screen, and the few files of our
//! own that a browser needs for what a page cannot do alone.
//!
//! A page has no logic of its own for what it does: its buttons call the JSON API by session (`/ui/v1/…`), which answers as it
//! answers a key. Everything that is shown goes through `maud`, which escapes it; no page has a script or a style in it.

mod assets;
mod chart;
mod command_line;
mod counts;
mod destination_names;
mod format;
mod frame;
mod hold;
mod icon;
mod moment;
mod name;
mod page_error;
mod pages;
mod params;
mod provider;
mod reads;
mod search;
mod series;
mod status;
mod timeline;
mod visit;
mod why;

use api::{App, keys::KeyText, session::Visitor};
use axum::{Extension, Router, routing::get};
use std::sync::Arc;

/// Shown to whoever is signed in with it.
#[derive(Clone)]
pub(crate) struct DevKey(Option<KeyText>);

impl DevKey {
    fn of(&self, visitor: &Visitor) -> Option<&KeyText> {
        self.0.as_ref().filter(|key| visitor.holds(key))
    }
}

/// Every page and every file they load, to be mounted beside the API. `dev_key` is the key of `serve --dev`, which lies open
/// in a file beside the store: whoever is signed in with it finds it filled in.
pub fn router(dev_key: Option<KeyText>) -> Router<App> {
    Router::new()
        .route("/", get(pages::overview::page))
        .route("/events", get(pages::events::page))
        .route("/events/{id}", get(pages::event::page))
        .route("/e/{id}", get(pages::event::short))
        .route("/deliveries/{id}", get(pages::event::of_delivery))
        .route("/destinations", get(pages::destinations::page))
        .route("/destinations/new", get(pages::destination_form::new))
        .route("/destinations/{id}", get(pages::destination::page))
        .route("/dead-letters", get(pages::dead_letters::page))
        .route("/replays", get(pages::replays::page))
        .route("/replays/{id}", get(pages::replays::one))
        .route("/sources", get(pages::sources::page))
        .route("/routes", get(pages::routes::page))
        .route("/settings", get(pages::settings::page))
        .route("/docs", get(pages::docs::page))
        .route("/favicon.ico", get(assets::favicon))
        .route("/assets/{version}/{file}", get(assets::serve))
        .layer(Extension(Arc::<counts::CountCache>::default()))
        .layer(Extension(DevKey(dev_key)))
}

/// What somebody sees who is not signed in. The session handlers of the api show it; `next` is the path to go on to,
/// `problem` what was wrong with the way they came.
pub fn login_page(next: &str, problem: Option<&str>) -> String {
    pages::login::page(next, problem).into_string()
}

/// Where the first user is made, with the token of the link, or what is wrong with it.
pub fn set_up_page(token: &str, problem: Option<&str>) -> String {
    pages::login::set_up(token, problem).into_string()
}

/// Where a portal link is opened, with its token, or what is wrong with it.
pub fn portal_page(token: &str, problem: Option<&str>) -> String {
    pages::login::portal(token, problem).into_string()
}

/// What a browser sees where there is no page, whoever is signed in.
pub fn missing_page() -> String {
    pages::login::missing().into_string()
}
