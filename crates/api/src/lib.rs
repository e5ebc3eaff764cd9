//! The ears of Posthaste: inbound HTTP.
//!
//! A request passes [`server`] (the accept loop and its deadlines), the frame in [`request`](mod@request) (request id,
//! problem documents, panics) and [`router`] (every URL on one page) to a handler. The hot path goes past the router
//! (`service`): `ingest_url` or `publish` makes an event and hands it to the crate `ingest`, which matches it, makes it
//! durable and answers.
//!
//! Nothing here calls a destination: what is committed is announced through [`store::Announce`].

// The hot path.
mod cloud_events;
mod event_text;
mod full_backlogs;
#[cfg(fuzzing)]
pub mod fuzzed;
mod ingest_url;
mod publish;
mod rate;
mod replays;

// The frame.
mod answers;
pub mod app;
pub mod auth;
mod body;
mod cache;
mod client_address;
pub mod data_keys;
mod docs;
pub mod doctor;
mod document;
pub mod error;
mod guesses;
mod hang_up;
mod health;
pub mod installation_secrets;
pub mod json;
mod key_watch;
pub mod keys;
pub mod master_keys;
mod metrics;
mod named;
pub mod page;
pub mod path;
mod place;
pub mod query;
pub mod read;
mod refused;
mod request;
pub mod router;
pub mod server;
mod service;
pub mod session;
mod teller;

// The resources.
mod accounts;
mod api_keys;
mod audit;
mod changes;
mod dead_letters;
mod deliveries;
mod destinations;
mod events;
mod nodes;
mod opening;
mod optional_body;
mod page_params;
mod passwords;
mod patch;
mod payload_body;
mod problems;
mod routes;
mod sources;
mod stats;
mod stream;
mod users;
mod validate;
mod views;

pub use app::{ApiConfig, App, AppParts, Background, Deadlines, NotSent, TestSend};
pub use client_address::TrustedProxies;
pub use router::{ListenAddress, document, router};
pub use server::serve;
pub use service::ApiService;
pub use session::Pages;
pub use teller::Teller;
