//! What all checks share.
//!
//! | module | what it is |
//! |---|---|
//! | [`stage`] | nodes on a store of their own, with a receiver and a client beside them |
//! | [`member`] | one of these nodes |
//! | [`ownership`] | who owned which shard and when, written down by the database itself |
//! | [`fleet`] | a source and its destinations, and which event must reach which |
//! | [`database`] | where a stage keeps its rows, and reading them without asking the node |
//! | [`scrape`] | what a node says of itself at `/metrics` |
//! | [`server`] | the checks' own PostgreSQL server: start, crash, resume, CPU |
//! | [`audit`] | what the tables must look like when all is done |
//! | [`logbook`] | what every check leaves behind: both logs, the faults, and the facts of the tables |
//! | [`backlog`] | a million waiting deliveries, written straight into the tables |
//! | [`bursts`] | a destination's requests in bursts, and how long it was left alone between them |
//! | [`disk`] | how long the disk alone takes, beside whatever else writes to it |
//! | [`doctor`] | the installation as `posthaste doctor` sees it, and its audit at the end of any check |
//! | [`history`] | a million events that have ended, written straight into the tables |
//! | [`leftovers`] | rows whose owner is gone |
//! | [`sums`] | whether what was summed up is what happened |
//! | [`crowd`] | thousands of destinations, for large fan-outs |
//! | [`others`] | nineteen destinations beside one in trouble: do they notice? |
//! | [`outsider`] | asks every node's door all the while |
//! | [`pooler`] | PgBouncer before the server |
//! | [`report`] | counts and broken rules, as one line of JSON |
//! | [`wire`] | HTTP by hand, for what no client would send |
//! | [`several`] | the beginning and the end of checks on several nodes |
//! | [`strace`] | watching and failing system calls |

pub(crate) mod audit;
pub(crate) mod backlog;
pub(crate) mod bursts;
pub(crate) mod crowd;
pub(crate) mod database;
pub(crate) mod disk;
pub(crate) mod doctor;
pub(crate) mod fleet;
pub(crate) mod history;
pub(crate) mod leftovers;
pub(crate) mod logbook;
pub(crate) mod member;
pub(crate) mod others;
pub(crate) mod outsider;
pub(crate) mod ownership;
pub(crate) mod pooler;
pub(crate) mod report;
pub(crate) mod scrape;
pub(crate) mod server;
pub(crate) mod several;
pub(crate) mod stage;
pub(crate) mod strace;
pub(crate) mod sums;
pub(crate) mod wire;

pub(crate) use audit::Audit;
pub(crate) use database::{Cell, Database, StoreKind};
pub(crate) use fleet::Fleet;
pub(crate) use report::Report;
pub(crate) use stage::{Plan, Stage};
