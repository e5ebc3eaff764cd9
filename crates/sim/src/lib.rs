//! A seeded world around the real engine: years of deliveries from one number.
//!
//! [`run`] makes a world from a seed: some nodes, each the real engine in a runtime of its own whose time is paused;
//! one store that all of them share, met through trouble ([`faulty`]); receivers with tempers ([`internet`]);
//! producers that repeat themselves until they are confirmed ([`door`]). Nodes are killed, frozen, stopped and cut
//! off; then calm returns, and every promise is held against what happened ([`book`] at the moment, [`verdict`] at
//! the end). The same seed tells the same story, to the byte.

mod book;
mod chance;
mod door;
mod faulty;
mod internet;
mod log;
mod node;
mod plan;
mod plant;
mod scene;
mod time;
mod verdict;
mod world;

pub use book::Violation;
pub use plant::Plant;
pub use world::{Options, Told, run};
