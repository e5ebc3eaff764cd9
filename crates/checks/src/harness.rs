//! What all checks share.
//!
//! | module | what it is |
//! |---|---|
//! | [`options`] | what is asked for on the command line |
//! | [`testbed`] | nodes on a store of their own, with a receiver and a client beside them |
//! | [`test_node`] | one of these nodes |
//! | [`source`] | a source and its destinations, and which event must reach which |
//! | [`multi_node`] | the beginning and the end of checks on several nodes |
//! | [`ownership`] | which node owned which shard and when, written down by the database itself |
//! | [`database`] | where a testbed keeps its rows, and reading them without asking the node |
//! | [`postgres_server`] | the checks' own PostgreSQL server: start, crash, resume, CPU |
//! | [`pooler`] | PgBouncer before the server |
//! | [`nginx`] | nginx before a node |
//! | [`report`] | counts and broken rules, as one line of JSON |
//! | [`figures`] | medians, memory, CPU time an event |
//! | [`visitor`] | a browser that has signed in, as far as pages and their time are concerned |
//! | [`canaries`] | secrets that can be found again, and looking for them |
//! | [`at_rest`] | looking for these in the tables and files of a store |
//! | [`waiting`] | waiting for something to become true, and work that goes on meanwhile |
//! | [`audit`] | what the tables must look like when all is done |
//! | [`logbook`] | what every check leaves behind: both logs, the faults, and the attempts of the tables |
//! | [`doctor`] | the installation as `posthaste doctor` sees it, and its audit at the end of any check |
//! | [`scrape`] | what a node says of itself at `/metrics` |
//! | [`backlog`] | a million waiting deliveries, written straight into the tables |
//! | [`history`] | a million events that have ended, written straight into the tables |
//! | [`large_fanout`] | thousands of destinations, for large fan-outs |
//! | [`bystanders`] | nineteen destinations beside one in trouble: do they notice? |
//! | [`bursts`] | a destination's requests in bursts, and how long it was left alone between them |
//! | [`other_account`] | an account beside the testbed's own |
//! | [`hostile`] | receivers that mean no good, by kind, and what must become of what is sent to them |
//! | [`own_network`] | a network of the check's own, where every address is this machine, with canaries and names |
//! | [`node_watch`] | memory, descriptors and tasks of a node: the most, and what is left |
//! | [`ingest_probe`] | asks the ingest URL of every node all the while |
//! | [`orphans`] | rows whose owner is gone |
//! | [`rollup_sums`] | whether what was summed up is what happened |
//! | [`disk`] | how long the disk alone takes, beside whatever else writes to it |
//! | [`raw_http`] | HTTP by hand, for what no client would send |
//! | [`providers`] | providers that sign what they send, and requests of theirs |
//! | [`strace`] | watching and failing system calls |
//! | [`prelude`] | the words that most checks use: what a check imports by name besides is what is special about it |

pub(crate) mod at_rest;
pub(crate) mod audit;
pub(crate) mod backlog;
pub(crate) mod bursts;
pub(crate) mod bystanders;
pub(crate) mod canaries;
pub(crate) mod database;
pub(crate) mod disk;
pub(crate) mod doctor;
pub(crate) mod figures;
pub(crate) mod history;
pub(crate) mod hostile;
pub(crate) mod ingest_probe;
pub(crate) mod large_fanout;
pub(crate) mod logbook;
pub(crate) mod multi_node;
pub(crate) mod nginx;
pub(crate) mod node_watch;
pub(crate) mod options;
pub(crate) mod orphans;
pub(crate) mod other_account;
pub(crate) mod own_network;
pub(crate) mod ownership;
pub(crate) mod pooler;
pub(crate) mod postgres_server;
pub(crate) mod providers;
pub(crate) mod raw_http;
pub(crate) mod report;
pub(crate) mod rollup_sums;
pub(crate) mod routed_source;
pub(crate) mod scrape;
pub(crate) mod strace;
pub(crate) mod test_node;
pub(crate) mod testbed;
pub(crate) mod visitor;
pub(crate) mod waiting;

pub(crate) use audit::{TableAudit, settle_accounts};
pub(crate) use database::{Database, SqlValue, StoreKind};
pub(crate) use figures::{CpuTime, Pairs, median, mib, rounded, us_per_event};
pub(crate) use options::Options;
pub(crate) use report::Report;
pub(crate) use routed_source::{RoutedSource, pump_all};
pub(crate) use testbed::{Testbed, TestbedPlan, retry_policy};
pub(crate) use waiting::{Background, becomes, wait_until};

pub(crate) mod prelude {
    pub(crate) use std::time::{Duration, Instant};

    pub(crate) use anyhow::{Context, Result, ensure};
    pub(crate) use client::{NewDestination, Publish};
    pub(crate) use lab::{
        Evidence, Fault, FaultKind, Pump, PumpConfig, Record, Recording, Reply, Script, Until,
    };
    pub(crate) use serde_json::json;
    pub(crate) use tokio::time::sleep;

    pub(crate) use super::{
        Background, CpuTime, Database, Options, Pairs, Report, RoutedSource, SqlValue, StoreKind, TableAudit,
        Testbed, TestbedPlan, becomes, median, mib, pump_all, raw_http, retry_policy, rounded,
        settle_accounts, us_per_event, wait_until,
    };
}
