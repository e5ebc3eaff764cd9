//! The API as its users meet it: every request goes through the whole router, in process. One file a resource.
//!
//! `cargo test -p api --test v1`. Each test runs on the memory store and on SQLite.

mod accounts;
mod acting_for;
mod api_keys;
mod audit;
mod backfills;
mod dead_letters;
mod deliveries;
mod destination_auth;
mod destinations;
mod doctor;
mod encrypted_payloads;
mod erasure;
mod events;
mod every_endpoint;
mod finding;
mod isolation;
mod key_rotation;
mod lists;
mod loops;
mod nodes;
mod openapi;
mod operational_events;
mod portal_links;
mod replays;
mod revealing;
mod routes;
mod scopes;
mod sessions;
mod shared;
mod sources;
mod stats;
mod stream;
mod strictness;
mod tenants;
mod world;

/// Writes each test once and runs it on every store.
macro_rules! on_every_store {
    ($(async fn $name:ident($world:ident) $body:block)*) => {
        $(async fn $name($world: crate::world::World) $body)*

        mod memory {
            $(#[tokio::test] async fn $name() { super::$name(crate::world::World::memory().await).await })*
        }

        mod sqlite {
            $(#[tokio::test] async fn $name() { super::$name(crate::world::World::sqlite().await).await })*
        }
    };
}

pub(crate) use on_every_store;
