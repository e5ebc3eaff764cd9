//! All checks, by name. The letter and number are those of the reliability table where a check has a row there.

mod a01;
mod a02;
mod a03;
mod a05;
mod a06;
mod a07;
mod a08;
mod a09;
mod a10;
mod a11;
mod b01;
mod b02;
mod b03;
mod b04;
mod b05;
mod b06;
mod b07;
mod b08;
mod b09;
mod b10;
mod b11;
mod b12;
mod b13;
mod b14;
mod badinput;
mod c01;
mod c02;
mod c03;
mod c04;
mod c05;
mod c06;
mod c07;
mod c08;
mod c09;
mod c10;
mod c12;
mod c13;
mod c14;
mod c15;
mod c16;
mod c17;
mod c19;
mod c20;
mod coldstart;
mod e01;
mod e02;
mod e08;
mod e11;
mod e12;
mod fanout50;
mod fanout5k;
mod g06;
mod hang20;
mod heldmillion;
mod history;
mod keys_order;
mod latency;
mod memory;
mod outage60;
mod rolling;
mod scale;
mod slack;
mod slots;
mod speed;
mod starvation;
mod window429;

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
        check!($name as $name, $stores, $shows)
    };
    ($name:ident as $file:ident, $stores:expr, $shows:literal) => {
        Check {
            name: stringify!($name),
            shows: $shows,
            stores: $stores,
            run: |ask, store| Box::pin(async move { $file::run(&ask, store).await }),
        }
    };
}

pub(crate) const CHECKS: &[Check] = &[
    check!(a01, BOTH, "killed every two seconds under load, nothing acknowledged is lost"),
    check!(a02, BOTH, "killed at every named place in the code, nothing acknowledged is lost"),
    check!(a03, SQLITE, "no event is acknowledged before its flush has returned"),
    check!(a05, SQLITE, "a flush that fails is never taken for one that did not"),
    check!(a06, SQLITE, "a full disk refuses events, settles deliveries, and recovers by itself"),
    check!(
        a07,
        BOTH,
        "a cut log costs its tail and no more, damage is named, and no altered payload is sent"
    ),
    check!(a08, SQLITE, "a backup made under load has everything, and events hardly notice it"),
    check!(a09, SQLITE, "a second process on the same folder is turned away"),
    check!(a10, SQLITE, "a disk on which every flush takes 200 ms costs time and nothing else"),
    check!(a11, BOTH, "a store that may forget is refused, unless that is accepted for all to see"),
    check!(b01, POSTGRES, "nodes killed under load lose nothing, and their lanes go on"),
    check!(b02, POSTGRES, "a node that slept through its lease sends nothing and moves nothing"),
    check!(b03, POSTGRES, "a database that crashes under load costs time and nothing else"),
    check!(b04, POSTGRES, "connections to the database cut one by one cost nothing"),
    check!(b05, POSTGRES, "a network to the database that is cut or silent is noticed and survived"),
    check!(b06, POSTGRES, "a commit whose answer is lost happens once"),
    check!(b07, POSTGRES, "through a pooler in transaction mode everything still holds"),
    check!(b08, POSTGRES, "clocks that are hours off or jump change nothing"),
    check!(b09, POSTGRES, "a database with too few connections slows down and harms nothing"),
    check!(b10, POSTGRES, "three nodes together keep to the limit of a destination"),
    check!(
        b11,
        POSTGRES,
        "order survives failures, stalls and killed nodes, and one that is blocked blocks no other"
    ),
    check!(b12, POSTGRES, "a chore whose node falls asleep is ended by another, once"),
    check!(b13, POSTGRES, "a database that is read-only for a while refuses events and loses none"),
    check!(b14, POSTGRES, "changes of configuration and large fan-outs never lock each other out"),
    check!(outage60, POSTGRES, "a database that is away for a minute costs no lane its owner"),
    check!(
        rolling,
        POSTGRES,
        "a rolling restart delays nothing by more than two seconds and doubles nothing"
    ),
    check!(scale, POSTGRES, "four nodes cost what one costs"),
    check!(
        c01,
        BOTH,
        "a node killed while it expands a large fan-out leaves no delivery out and makes none twice"
    ),
    check!(c02, BOTH, "one event for a hundred thousand destinations holds up nobody else"),
    check!(
        c03,
        BOTH,
        "a destination that says 429 is left alone as long as it asks, and nobody else notices"
    ),
    check!(c04, BOTH, "a breaker opens, probes and closes as it should, over restarts and all nodes"),
    check!(c05, BOTH, "a slow destination with a long backlog delays none of the quiet ones"),
    check!(c06, BOTH, "every outcome has its attempts, its pauses and its ending"),
    check!(c07, BOTH, "a delivery that cannot be made ends in a dead letter and harms no other"),
    check!(c08, BOTH, "a replay that many ask for at once, on nodes that die, makes each delivery once"),
    check!(c09, BOTH, "a retry asked for at the moment of the automatic one is still one attempt"),
    check!(c10, BOTH, "a change of a destination is obeyed by every node within a second"),
    check!(c12, BOTH, "ten thousand odd bodies arrive byte for byte"),
    check!(c13, BOTH, "attempts and replays of an event can be told apart, and each verifies"),
    check!(c14, BOTH, "one idempotency key is one event, whatever races or dies"),
    check!(c15, BOTH, "retention never touches what waits, and leaves nothing of what has gone"),
    check!(c16, BOTH, "a node that is told to stop ends what it has and hands over the rest"),
    check!(c17, BOTH, "a panic in the middle of a delivery harms nothing else"),
    check!(c19, BOTH, "work that nobody will ever do, and facts that do not fit, are found by the audit"),
    check!(c20, BOTH, "metrics agree with the tables and with the receivers, to the last one"),
    check!(e01, BOTH, "three times too much is refused in time, and nothing accepted is lost"),
    check!(e02, BOTH, "connections that never finish harm nobody who does"),
    check!(e08, BOTH, "a key that is far too fast is held to its limit and no other key notices"),
    check!(e11, BOTH, "a million waiting deliveries slow down neither the start nor the rest"),
    check!(e12, POSTGRES, "a database that is away is never taken for a denial"),
    check!(g06, POSTGRES, "everything the other checks have logged, judged once more by all rules"),
    check!(starvation, BOTH, "a million waiting at one destination do not slow down a thousand others"),
    check!(hang20, BOTH, "a destination that hangs delays nobody else"),
    check!(heldmillion, BOTH, "a million waiting for a destination that is held cost the others nothing"),
    check!(history, BOTH, "a million events of history slow down no list, and a day of them goes unnoticed"),
    check!(
        keyorder as keys_order,
        BOTH,
        "order by key: a key that is blocked holds up no other, and no key is ever out of order"
    ),
    check!(
        window429,
        BOTH,
        "a receiver that counts by windows gets everything and little more than it allows"
    ),
    check!(slack, BOTH, "one slot and no other setting are enough for a receiver with unknown limits"),
    check!(slots, BOTH, "every slot of a slow destination is in use all the time"),
    check!(fanout50, BOTH, "one event reaches fifty slow destinations at once"),
    check!(fanout5k, BOTH, "twenty events a second for five thousand destinations are accepted at once"),
    check!(speed, BOTH, "events per second from post to delivered, and what they cost"),
    check!(latency, BOTH, "from post to receiver on an idle node"),
    check!(memory, BOTH, "memory with a million deliveries waiting"),
    check!(coldstart, BOTH, "from start to serving"),
    check!(badinput, BOTH, "each bad input has its answer and no effect"),
];
