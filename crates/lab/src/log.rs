//! The receiver's log: one compact record a request, and per destination how many are open.
//!
//! A request is open from the moment its headers are read until just before its answer is handed to the
//! socket, or until the other side closes. Ending it *before* the write is deliberate: a client that has
//! its answer may start the next request at once, and must not be seen with one too many. For the same reason
//! a request that would be one more than ever before makes us ask the open connections whether the other side
//! has closed: it may have, and we may be about to read it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::body;
use crate::peers::Peers;
use crate::script::Script;
use crate::seen::Seen;
use crate::socket::Socket;
use crate::stats::Histogram;
use crate::tally::Tally;

/// How much to remember of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recording {
    /// Counters, the end-to-end latency and which events have come only: for speed.
    Counts,
    /// One [`Record`] a request.
    Full,
    /// Records with all headers and the body.
    FullWithBodies,
}

/// One request, as the destination saw it. Times are microseconds since the receiver's start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub destination: Arc<str>,
    /// `webhook-id`; empty if missing, as are the others.
    pub event_id: Arc<str>,
    /// `posthaste-delivery`.
    pub delivery_id: Arc<str>,
    /// `posthaste-attempt`; 0 if missing.
    pub attempt: u32,
    /// `posthaste-sequence`, on ordered destinations.
    pub sequence: Option<u64>,
    /// `posthaste-replay`, on replays.
    pub replay: Option<Arc<str>>,
    /// The process that sent it, if it is one of [`crate::Receiver::know_sender`].
    pub sender: Option<u32>,
    /// Number within the pump, from the body.
    pub n: Option<u64>,
    /// None until the whole body was read.
    pub body_hash: Option<u64>,
    pub body_bytes: u32,
    /// From the body's `at` until the body was read.
    pub end_to_end_us: Option<u64>,
    pub start_us: u64,
    /// None while it is open.
    pub end_us: Option<u64>,
    #[serde(alias = "ending")]
    pub end: RequestEnd,
    /// Requests open for this destination at the start, this one included.
    pub open_at_start: u32,
    /// Only with [`Recording::FullWithBodies`].
    #[serde(skip)]
    pub kept: Option<Arc<KeptRequest>>,
}

impl Record {
    pub fn succeeded(&self) -> bool {
        matches!(self.end, RequestEnd::Answered(200..=299))
    }
}

#[derive(Debug)]
pub struct KeptRequest {
    pub method: http::Method,
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestEnd {
    Open,
    Answered(u16),
    /// The other side closed before we answered.
    Aborted,
    /// We closed without an answer.
    Closed,
    Reset,
}

/// Everything the receiver knows, shared between its thread and the check's.
#[derive(Debug)]
pub(crate) struct Log {
    started: Instant,
    recording: AtomicU8,
    destinations: RwLock<HashMap<Arc<str>, Arc<DestinationLog>>>,
    pub(crate) default: RwLock<Arc<Script>>,
    pub(crate) arrived: Tally,
    pub(crate) succeeded: Tally,
    pub(crate) ended: Tally,
    pub(crate) peers: Peers,
    first_us: AtomicU64,
    last_us: AtomicU64,
    pub(crate) end_to_end: Mutex<Histogram>,
}

impl Log {
    /// Of a receiver on this port.
    pub(crate) fn new(port: u16, default: Script, recording: Recording) -> Log {
        Log {
            started: Instant::now(),
            recording: AtomicU8::new(recording as u8),
            destinations: RwLock::default(),
            default: RwLock::new(Arc::new(default)),
            arrived: Tally::default(),
            succeeded: Tally::default(),
            ended: Tally::default(),
            peers: Peers::of(port),
            first_us: AtomicU64::new(u64::MAX),
            last_us: AtomicU64::new(0),
            end_to_end: Mutex::default(),
        }
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    pub(crate) fn recording(&self) -> Recording {
        match self.recording.load(Relaxed) {
            0 => Recording::Counts,
            1 => Recording::Full,
            _ => Recording::FullWithBodies,
        }
    }

    pub(crate) fn set_recording(&self, recording: Recording) {
        self.recording.store(recording as u8, Relaxed);
    }

    pub(crate) fn of(&self, destination: &str) -> Arc<DestinationLog> {
        if let Some(destination) = self.known(destination) {
            return destination;
        }
        let name: Arc<str> = destination.into();
        let mut destinations = self.destinations.write().expect("no panic while the destinations are locked");
        destinations.entry(name.clone()).or_insert_with(|| Arc::new(DestinationLog::new(name))).clone()
    }

    pub(crate) fn known(&self, destination: &str) -> Option<Arc<DestinationLog>> {
        self.destinations
            .read()
            .expect("no panic while the destinations are locked")
            .get(destination)
            .cloned()
    }

    pub(crate) fn destinations(&self) -> Vec<Arc<DestinationLog>> {
        self.destinations
            .read()
            .expect("no panic while the destinations are locked")
            .values()
            .cloned()
            .collect()
    }

    /// First and last arrival.
    pub(crate) fn span_us(&self) -> Option<Range<u64>> {
        let first = self.first_us.load(Relaxed);
        (first != u64::MAX).then(|| first..self.last_us.load(Relaxed))
    }

    fn arrival(&self, now_us: u64, end_to_end_us: Option<u64>) {
        self.first_us.fetch_min(now_us, Relaxed);
        self.last_us.fetch_max(now_us, Relaxed);
        if let Some(latency) = end_to_end_us {
            self.end_to_end.lock().expect("no panic while recording").record(latency);
        }
        self.arrived.add();
    }

    pub(crate) fn clear(&self) {
        for destination in self.destinations() {
            destination.clear();
        }
        for tally in [&self.arrived, &self.succeeded, &self.ended] {
            tally.clear();
        }
        self.first_us.store(u64::MAX, Relaxed);
        self.last_us.store(0, Relaxed);
        *self.end_to_end.lock().expect("no panic while recording") = Histogram::default();
    }
}

/// One destination's part of the log.
#[derive(Debug)]
pub(crate) struct DestinationLog {
    pub(crate) name: Arc<str>,
    pub(crate) arrived: Tally,
    pub(crate) succeeded: Tally,
    state: Mutex<DestinationState>,
}

#[derive(Debug, Default)]
pub(crate) struct DestinationState {
    pub(crate) script: Option<Arc<Script>>,
    pub(crate) records: Vec<Record>,
    pub(crate) seen: Seen,
    /// Grows with each clear, so that a request begun before it does not write into a record after it.
    era: u64,
    pub(crate) open: u32,
    pub(crate) max_open: u32,
    /// The connections of the open requests, by the number of the request.
    sockets: HashMap<u64, Socket>,
    begun: u64,
}

impl DestinationState {
    /// One more is open: its number, and how many there are now.
    fn begin(&mut self, socket: Socket) -> (u64, u32) {
        self.open += 1;
        let mut open = self.open;
        if open > self.max_open {
            open -= self.sockets.values().filter(|socket| socket.is_hung_up()).count() as u32;
            self.max_open = self.max_open.max(open);
        }
        self.begun += 1;
        self.sockets.insert(self.begun, socket);
        (self.begun, open)
    }

    fn end(&mut self, number: u64) {
        self.open -= 1;
        self.sockets.remove(&number);
    }
}

impl DestinationLog {
    fn new(name: Arc<str>) -> DestinationLog {
        DestinationLog {
            name,
            arrived: Tally::default(),
            succeeded: Tally::default(),
            state: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, DestinationState> {
        self.state.lock().expect("no panic while a destination is locked")
    }

    fn clear(&self) {
        self.arrived.clear();
        self.succeeded.clear();
        let mut state = self.state();
        state.records.clear();
        state.seen = Seen::default();
        state.era += 1;
        state.max_open = state.open;
    }
}

/// A request from start to end. Dropped without an end, it was aborted by the other side.
pub(crate) struct OpenRequest {
    log: Arc<Log>,
    pub(crate) destination: Arc<DestinationLog>,
    number: u64,
    /// Where its record is, and in which era.
    record: Option<(u64, usize)>,
    pub(crate) open_at_start: u32,
    pub(crate) arrival: u64,
    pub(crate) attempt: u32,
    ended: bool,
}

impl OpenRequest {
    /// Opens the request and says which script its destination plays, if it has one of its own.
    pub(crate) fn begin(
        log: Arc<Log>,
        destination: Arc<DestinationLog>,
        head: &HeaderMap,
        sender: Option<u32>,
        socket: Socket,
    ) -> (Self, Option<Arc<Script>>) {
        let attempt = count(head, "posthaste-attempt").unwrap_or(0) as u32;
        let full = log.recording() != Recording::Counts;
        let now_us = log.now_us();
        let mut state = destination.state();
        let (number, open_at_start) = state.begin(socket);
        let record = full.then(|| {
            state.records.push(Record {
                destination: destination.name.clone(),
                event_id: text(head, "webhook-id").unwrap_or_default().into(),
                delivery_id: text(head, "posthaste-delivery").unwrap_or_default().into(),
                attempt,
                sequence: count(head, "posthaste-sequence"),
                replay: text(head, "posthaste-replay").map(Arc::from),
                sender,
                n: None,
                body_hash: None,
                body_bytes: 0,
                end_to_end_us: None,
                start_us: now_us,
                end_us: None,
                end: RequestEnd::Open,
                open_at_start,
                kept: None,
            });
            (state.era, state.records.len() - 1)
        });
        let script = state.script.clone();
        drop(state);
        (
            OpenRequest {
                log,
                destination,
                number,
                record,
                open_at_start,
                arrival: 0,
                attempt,
                ended: false,
            },
            script,
        )
    }

    /// The whole body is here (or none was waited for): now it counts as arrived.
    pub(crate) fn arrived(&mut self, body: Option<&Bytes>, keep: impl FnOnce() -> Option<Arc<KeptRequest>>) {
        let stamp = body.and_then(|body| body::stamp(body));
        let end_to_end_us = stamp.map(|stamp| crate::clock::unix_us().saturating_sub(stamp.at_us));
        self.edit(|record| {
            record.n = stamp.map(|stamp| stamp.n);
            record.body_hash = body.map(|body| body::hash(body));
            record.body_bytes = body.map_or(0, |body| body.len() as u32);
            record.end_to_end_us = end_to_end_us;
            record.kept = keep();
        });
        if let Some(stamp) = stamp {
            self.destination.state().seen.add(stamp.n);
        }
        self.destination.arrived.add();
        self.arrival = self.destination.arrived.get();
        self.log.arrival(self.log.now_us(), end_to_end_us);
    }

    pub(crate) fn end(mut self, end: RequestEnd) {
        self.close(end);
    }

    fn close(&mut self, end: RequestEnd) {
        self.ended = true;
        let now_us = self.log.now_us();
        self.destination.state().end(self.number);
        self.edit(|record| {
            record.end_us = Some(now_us);
            record.end = end;
        });
        if matches!(end, RequestEnd::Answered(200..=299)) {
            self.destination.succeeded.add();
            self.log.succeeded.add();
        }
        self.log.ended.add();
    }

    fn edit(&self, change: impl FnOnce(&mut Record)) {
        let Some((era, at)) = self.record else { return };
        let mut state = self.destination.state();
        if state.era == era {
            change(&mut state.records[at]);
        }
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if !self.ended {
            self.close(RequestEnd::Aborted);
        }
    }
}

fn text<'a>(head: &'a HeaderMap, name: &str) -> Option<&'a str> {
    head.get(name)?.to_str().ok()
}

fn count(head: &HeaderMap, name: &str) -> Option<u64> {
    text(head, name)?.parse().ok()
}

#[cfg(test)]
mod tests;
