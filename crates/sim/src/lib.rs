//! A seeded world around the real committer and the real engine: years of deliveries from one number.
//!
//! [`run`] makes a world from a seed: some nodes, each the real `ingest` and the real `engine` in a runtime of its own
//! whose time is paused; one store that all of them share, met through trouble ([`faulty`]); receivers that behave or do
//! not ([`internet`]); producers that repeat themselves until they are confirmed ([`intake`] is where they meet a node);
//! people who pause, cancel and replay ([`commands`]). Nodes are killed, frozen, stopped and cut off; then calm returns,
//! and every promise is held against what happened ([`observations`] at the moment, [`verdict`] at the end). The same
//! seed tells the same story, to the byte.

/// An enum, and the list of all its variants.
macro_rules! listed_enum {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident,)* }) => {
        $(#[$about])*
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),*];
        }
    };
}

mod announcements;
mod chance;
mod commands;
mod faulty;
mod intake;
mod internet;
mod log;
mod node;
mod observations;
mod plan;
mod planted_bug;
mod promise;
mod shared_world;
mod time;
mod verdict;
mod world;

pub use observations::Violation;
pub use planted_bug::PlantedBug;
pub use promise::Promise;
pub use world::{Options, WorldReport, run};
