//! Every loop of a node, and what becomes of the node when it dies.

use std::fmt;

/// What follows from a loop's death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It is made again.
    Restart,
    /// The process ends with an error, and must be started again.
    EndNode,
}

/// Where a loop is at home; there it is tested too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crate {
    Engine,
    Api,
    Posthaste,
    /// Threads below the supervisor: a store that has lost one says that it has failed, and the owner ends the node.
    Store,
}

/// A line of the table.
#[derive(Debug)]
pub struct LoopEntry {
    pub id: Loop,
    /// In logs, metrics and `/readyz`.
    pub name: &'static str,
    pub home: Crate,
    pub rule: Rule,
    /// Why this rule: what it has in memory.
    pub why: &'static str,
}

/// In the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loop {
    Dispatcher,
    Settler,
    Owner,
    Expander,
    Replayer,
    Rescan,
    Prune,
    Retention,
    Eraser,
    OpenRollup,
    MinuteRollup,
    HourRollup,
    WakeListener,
    Outbox,
    ConfigWatch,
    LanePublisher,
    LaneSampler,
    TestTaker,
    LateHandOver,
    Committer,
    KeyUse,
    BacklogWatch,
    Refusals,
    Teller,
    KeyWatch,
    StreamReader,
    Server,
    AdminServer,
    TraceExporter,
    SqliteWriter,
    SqliteCopier,
}

impl Loop {
    pub fn entry(self) -> &'static LoopEntry {
        &TABLE[self as usize]
    }
}

impl fmt::Display for Loop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().name)
    }
}

/// The table of docs/operations.md; a test holds the two together.
pub const TABLE: [LoopEntry; 31] = [
    LoopEntry {
        id: Loop::Dispatcher,
        name: "dispatcher",
        home: Crate::Engine,
        rule: Rule::EndNode,
        why: "its lanes alone know what is open at each destination; without them a limit would be exceeded",
    },
    LoopEntry {
        id: Loop::Settler,
        name: "settler",
        home: Crate::Engine,
        rule: Rule::EndNode,
        why: "results that are not written yet are in its memory, and lanes wait for each of them",
    },
    LoopEntry {
        id: Loop::Owner,
        name: "owner",
        home: Crate::Engine,
        rule: Rule::EndNode,
        why: "it alone knows which shards drain and for whom; a second one might give away what is in use",
    },
    LoopEntry {
        id: Loop::Expander,
        name: "expander",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "expansions and their cursors are in the store, and the new one takes up all that are open",
    },
    LoopEntry {
        id: Loop::Replayer,
        name: "replayer",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "replays, their cursors and who holds them are in the store, and a node may take its own hold again",
    },
    LoopEntry {
        id: Loop::Rescan,
        name: "rescan",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "which shards were to be looked at may be lost, so the new one looks at all of them",
    },
    LoopEntry {
        id: Loop::Prune,
        name: "prune",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "it keeps nothing between two steps",
    },
    LoopEntry {
        id: Loop::Retention,
        name: "retention",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "where its walks stand is lost, and they begin anew; its term is guarded by the store",
    },
    LoopEntry {
        id: Loop::Eraser,
        name: "eraser",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "what is erased is gone, so it begins anew with what is left; its term is guarded by the store",
    },
    LoopEntry {
        id: Loop::OpenRollup,
        name: "open_rollup",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "what it has added up is read again from the facts, and written over what was there",
    },
    LoopEntry {
        id: Loop::MinuteRollup,
        name: "minute_rollup",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "how far it has come is in the store, and a minute summed up twice is the same",
    },
    LoopEntry {
        id: Loop::HourRollup,
        name: "hour_rollup",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "as for minutes; hours and days",
    },
    LoopEntry {
        id: Loop::WakeListener,
        name: "wake_listener",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "what it had heard may be lost, so the new one has everything looked at, as after a lost connection",
    },
    LoopEntry {
        id: Loop::Outbox,
        name: "outbox",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "what is to be told waits outside of it, and what it had in hand is put back",
    },
    LoopEntry {
        id: Loop::ConfigWatch,
        name: "config_watch",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "which versions are known is the dispatcher's memory; the new one compares all of them at once",
    },
    LoopEntry {
        id: Loop::LanePublisher,
        name: "lane_publisher",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "a lane that was not published is said again within seconds",
    },
    LoopEntry {
        id: Loop::LaneSampler,
        name: "lane_sampler",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "the minute it notes is kept outside of it; what happened to slots in a few seconds may be lost to statistics",
    },
    LoopEntry {
        id: Loop::TestTaker,
        name: "test_taker",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "tests it had taken for other nodes end with it, and whoever waits for one is told to ask again",
    },
    LoopEntry {
        id: Loop::LateHandOver,
        name: "late_hand_over",
        home: Crate::Engine,
        rule: Rule::Restart,
        why: "runs while the node stops; its inbox is kept, and one message that is lost is found by a rescan",
    },
    LoopEntry {
        id: Loop::Committer,
        name: "committer",
        home: Crate::Api,
        rule: Rule::Restart,
        why: "who waits is kept outside of it, and nobody is answered before the flush: what died unanswered is sent again",
    },
    LoopEntry {
        id: Loop::KeyUse,
        name: "key_use",
        home: Crate::Api,
        rule: Rule::Restart,
        why: "a lost note makes `last_used_at` of one key a minute older, or a refused request is not kept",
    },
    LoopEntry {
        id: Loop::BacklogWatch,
        name: "backlog_watch",
        home: Crate::Api,
        rule: Rule::Restart,
        why: "which accounts are full is kept outside of it, and looked at again every two seconds",
    },
    LoopEntry {
        id: Loop::Refusals,
        name: "refusals",
        home: Crate::Api,
        rule: Rule::Restart,
        why: "what was refused is counted outside of it, and the new one writes it down",
    },
    LoopEntry {
        id: Loop::Teller,
        name: "teller",
        home: Crate::Api,
        rule: Rule::Restart,
        why: "what is to be told is in the store, and what was told already is found by its idempotency key",
    },
    LoopEntry {
        id: Loop::KeyWatch,
        name: "key_watch",
        home: Crate::Api,
        rule: Rule::Restart,
        why: "it keeps nothing: the new one looks at all keys that are remembered",
    },
    LoopEntry {
        id: Loop::StreamReader,
        name: "stream_reader",
        home: Crate::Api,
        rule: Rule::Restart,
        why: "how far it had handed out is in doubt, so every follower reads the history from its own mark",
    },
    LoopEntry {
        id: Loop::Server,
        name: "server",
        home: Crate::Posthaste,
        rule: Rule::EndNode,
        why: "its listener goes with it, and a node that takes no connection is of no use",
    },
    LoopEntry {
        id: Loop::AdminServer,
        name: "admin_server",
        home: Crate::Posthaste,
        rule: Rule::EndNode,
        why: "as the server; operators and metrics come in here",
    },
    LoopEntry {
        id: Loop::TraceExporter,
        name: "trace_exporter",
        home: Crate::Posthaste,
        rule: Rule::Restart,
        why: "its queue is kept; a batch of spans may be lost",
    },
    LoopEntry {
        id: Loop::SqliteWriter,
        name: "sqlite_writer",
        home: Crate::Store,
        rule: Rule::EndNode,
        why: "nobody knows what its last transaction wrote; the next start reads it from the log",
    },
    LoopEntry {
        id: Loop::SqliteCopier,
        name: "sqlite_copier",
        home: Crate::Store,
        rule: Rule::EndNode,
        why: "nobody knows whether the database was flushed, and without it the log would grow for ever",
    },
];
