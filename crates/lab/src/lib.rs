//! Try it: make load, play a receiver with faults, cut the network, kill the process, judge what happened.
//!
//! Nothing here knows the engine or the store. A run is always the same walk:
//! [`script`] → [`receiver`] ← the node under test ← [`pump`], with a [`proxy`] or a [`process`] to
//! hurt on the way, and at the end the [`judge`], which reads only the two logs.
//!
//! | module | what it is |
//! |---|---|
//! | [`pump`] | producer: open or closed loop, repeats unanswered events with the same key, logs each |
//! | [`receiver`] | destination: plays a script per destination, logs every request and how many were open |
//! | [`script`] | what a receiver answers: status, latency, hang, close, reset, fail for a while |
//! | [`log`] | the receiver's log: one record a request |
//! | [`relay`] | the least that anybody who passes requests on can do, to compare with |
//! | [`black_hole`] | a port whose queue is full: nobody gets in, nobody is told |
//! | [`body`] | the payload both ends agree on, and its hash |
//! | [`judge`] | pure: two logs in, a verdict out |
//! | [`promises`] | what is promised, I1 to I16, as data |
//! | [`proxy`] | TCP between two parties: cut, stall, refuse, lose a reply |
//! | [`tunnel`] | a proxy that is told where to connect to, by CONNECT or SOCKS5, and remembers it |
//! | [`process`] | a real child process: start, await readiness, kill -9, freeze, measure |
//! | [`nemesis`] | what is done to the nodes: a schedule from a seed, a log of faults, a wrong clock |
//! | [`stats`] | latency histogram |
//! | [`clock`] | one wall clock for a whole process, which never jumps |
//!
//! Receiver, pump and proxy each run on a thread of their own with a single-threaded runtime: cheapest on
//! a small machine, independent of the caller's runtime, and requests are counted in the order in which the
//! kernel reported them. They live in real time; a test that pauses tokio's clock cannot wait for them.

pub mod black_hole;
pub mod body;
pub mod clock;
pub mod judge;
pub mod log;
pub mod nemesis;
mod peers;
pub mod process;
pub mod promises;
pub mod proxy;
pub mod pump;
pub mod receiver;
pub mod relay;
pub mod script;
mod seen;
mod socket;
pub mod stats;
mod tally;
mod thread;
pub mod tunnel;

pub use black_hole::BlackHole;
pub use judge::{Evidence, Verdict};
pub use log::{KeptRequest, Record, Recording, RequestEnd};
pub use nemesis::{Fault, FaultKind};
pub use process::ChildProcess;
pub use proxy::{Direction, Proxy};
pub use pump::{Load, Pump, PumpConfig, PumpReport, Sent, Target, Until};
pub use receiver::Receiver;
pub use script::{Answer, Latency, Reply, Script, ScriptedRequest};
pub use stats::Histogram;
pub use tunnel::{TunnelManners, TunnelProtocol, TunnelProxy};
