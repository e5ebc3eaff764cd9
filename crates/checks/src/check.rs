//! All checks, by name. The letter and number are those of the reliability table where a check has a row there.

mod a01;
mod a02;
mod a03;
mod a05;
mod a06;
mod a09;
mod b03;
mod b06;
mod badinput;
mod c07;
mod c12;
mod c14;
mod coldstart;
mod fanout50;
mod hang20;
mod latency;
mod memory;
mod slots;
mod speed;
mod starvation;

use std::future::Future;
use std::pin::Pin;

use anyhow::Result;

use crate::Ask;
use crate::harness::{Report, StoreKind};

/// A check under way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<Report>>>>;

pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) shows: &'static str,
    pub(crate) stores: &'static [StoreKind],
    pub(crate) run: fn(Ask, StoreKind) -> Running,
}

const BOTH: &[StoreKind] = &[StoreKind::Sqlite, StoreKind::Postgres];
const SQLITE: &[StoreKind] = &[StoreKind::Sqlite];
const POSTGRES: &[StoreKind] = &[StoreKind::Postgres];

macro_rules! check {
    ($name:ident, $stores:expr, $shows:literal) => {
        Check {
            name: stringify!($name),
            shows: $shows,
            stores: $stores,
            run: |ask, store| Box::pin(async move { $name::run(&ask, store).await }),
        }
    };
}

pub(crate) const CHECKS: &[Check] = &[
    check!(a01, BOTH, "killed every two seconds under load, nothing acknowledged is lost"),
    check!(a02, BOTH, "killed at every named place in the code, nothing acknowledged is lost"),
    check!(a03, SQLITE, "no event is acknowledged before its flush has returned"),
    check!(a05, SQLITE, "a flush that fails is never taken for one that did not"),
    check!(a06, SQLITE, "a full disk refuses events, settles deliveries, and recovers by itself"),
    check!(a09, SQLITE, "a second process on the same folder is turned away"),
    check!(b03, POSTGRES, "a database that crashes under load costs time and nothing else"),
    check!(b06, POSTGRES, "a commit whose answer is lost happens once"),
    check!(c07, BOTH, "a delivery that cannot be made ends in a dead letter and harms no other"),
    check!(c12, BOTH, "ten thousand odd bodies arrive byte for byte"),
    check!(c14, BOTH, "one idempotency key is one event, whatever races or dies"),
    check!(starvation, BOTH, "a million waiting at one destination do not slow down a thousand others"),
    check!(hang20, BOTH, "a destination that hangs delays nobody else"),
    check!(slots, BOTH, "every slot of a slow destination is in use all the time"),
    check!(fanout50, BOTH, "one event reaches fifty slow destinations at once"),
    check!(speed, BOTH, "events per second from post to delivered, and what they cost"),
    check!(latency, BOTH, "from post to receiver on an idle node"),
    check!(memory, BOTH, "memory with a million deliveries waiting"),
    check!(coldstart, BOTH, "from start to serving"),
    check!(badinput, BOTH, "each bad input has its answer and no effect"),
];
