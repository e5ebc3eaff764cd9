//! The rules of Posthaste: what matches, what comes next, when, and why.
//!
//! Nothing here reads a clock, draws a random number or does I/O: time and chance come in as arguments, decisions go
//! out as values, and the crates around this one act on them. Start with [`lane`].

pub mod account;
pub mod address;
pub mod attempt;
pub mod audit;
pub mod aws_signature;
pub mod bucket;
pub mod client_certificate;
pub mod cloud_event;
pub mod delivery;
pub mod delivery_settings;
pub mod destination;
pub mod dice;
pub mod erasure;
pub mod event;
pub mod filter;
pub mod gate;
pub mod id;
pub mod json;
#[cfg(test)]
mod kept_documents;
pub mod lane;
pub mod limits;
pub mod member;
pub mod metrics;
pub mod oauth2;
pub mod operations;
pub mod outcome;
pub mod ownership;
pub mod pattern;
pub mod portal_link;
pub mod refused_request;
pub mod replay;
pub mod retry;
pub mod rollup;
pub mod route;
pub mod seal;
pub mod session;
pub mod signature;
pub mod source;
pub mod tag;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod time;
pub mod trace;
pub mod verification;
pub mod word;
