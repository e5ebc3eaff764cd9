//! The hands of Posthaste: the only crate that calls destinations.
//!
//! The [`dispatcher`] runs the lanes: a delivery is handed over after its commit or fetched from the queue, [`sender`]
//! has one attempt made of it by its destination's [`sink`], [`settler`] makes the result durable together with many others. [`owner`] keeps this
//! node's place among the others and its share of the shards, [`wakes`] and [`watch`] bring what happens on other nodes,
//! [`egress`] is the only way out of the process.

mod attempt_log;
mod backoff;
mod batch_interval;
mod carried;
mod chores;
pub mod credentials;
mod data_keys;
mod destination;
mod dispatcher;
pub mod egress;
mod fetcher;
#[cfg(fuzzing)]
pub mod fuzzed;
mod handle;
mod lane_sampler;
mod large_payloads;
mod membership;
mod metrics;
mod owner;
mod ownership_view;
mod publish;
mod sender;
mod settler;
pub mod sink;
mod start;
mod test_sends;
pub mod transport;
mod wakes;
mod watch;

pub use attempt_log::{AttemptLine, AttemptLog, AttemptLogger};
pub use handle::EngineHandle;
pub use owner::StartError;
pub use start::{Engine, EngineParts, EngineSettings};
pub use test_sends::{TestSend, TestSendError};
