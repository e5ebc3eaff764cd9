//! The hands of Posthaste: the only crate that calls destinations.
//!
//! The [`dispatcher`] runs the lanes: a delivery is handed over after its commit or fetched from the queue, [`sender`]
//! makes one HTTP attempt of it, [`settler`] makes the result durable together with many others. [`owner`] keeps this
//! node's claim on its lanes, [`egress`] is the only way out of the process.

mod backoff;
mod budget;
mod chores;
mod dispatcher;
pub mod egress;
mod fetcher;
mod handle;
mod owner;
mod sender;
mod settler;
mod start;
mod target;
pub mod transport;

pub use handle::{EngineHandle, TestSendError};
pub use owner::StartError;
pub use start::{Engine, EngineParts, EngineSettings};
