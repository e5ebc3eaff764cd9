//! The producer: sends numbered events, repeats those that got no answer with the same key, logs each.
//!
//! Open loop: event *n* is due at start + *n* ÷ rate, whatever became of the others; it needs enough
//! connections to hold all that may be unanswered at once, and `lag` in the report tells when they were too
//! few. Closed loop: each connection sends the next event when it has its answer. Latency runs from an
//! event's first send to its final answer, repeats and pauses included.

mod connection;
mod report;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::body::{self, Stamp};
use crate::process::thread_cpu;
use crate::thread::OwnThread;
use connection::{Envelope, PumpConnection};
pub use report::{PumpReport, Sent};

/// Where events go. Plain HTTP only.
#[derive(Debug, Clone)]
pub enum Target {
    /// `POST {base}/ingest/{token}`; with several tokens event *n* goes to token *n* mod their number.
    Ingest { base: String, tokens: Vec<String> },
    /// `POST {base}/v1/events` with a bearer key; the payload is `data`.
    Publish { base: String, key: String },
    /// Any URL, taken as it is; every 2xx counts as accepted.
    Url(String),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    Open { per_second: f64 },
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    Count(u64),
    /// Begins nothing after this; an open loop that lags leaves the rest of its events unsent.
    Elapsed(Duration),
    /// Until [`Pump::finish`].
    Stopped,
}

#[derive(Debug, Clone)]
pub struct PumpConfig {
    pub target: Target,
    /// The same service at other addresses (`http://host:port`). Connections are spread over all of them, and one that
    /// gets no answer, or a 503, goes on to the next.
    pub also_at: Vec<String>,
    pub load: Load,
    pub until: Until,
    pub connections: usize,
    pub body_bytes: usize,
    /// Event *n* is of type *n* mod their number.
    pub event_types: Vec<String>,
    /// Keys are `<prefix>-<n>`. Drawn at random by default, so that two runs never meet.
    pub key_prefix: String,
    /// The first sequence number; several pumps of one run want ranges that do not overlap.
    pub first_n: u64,
    /// How long to repeat an event that got no answer, 429 or 503; zero: not at all.
    pub retry_for: Duration,
    /// The longest pause between two tries, whatever `Retry-After` says.
    pub max_pause: Duration,
    /// An answer later than this is none.
    pub answer_timeout: Duration,
    /// Whether to keep a [`Sent`] for each event; a long speed run does not want to.
    pub keep_log: bool,
}

impl PumpConfig {
    /// Closed loop, 16 connections, 512 bytes, repeats for up to 60 s.
    pub fn new(target: Target, until: Until) -> PumpConfig {
        PumpConfig {
            target,
            also_at: Vec::new(),
            load: Load::Closed,
            until,
            connections: 16,
            body_bytes: 512,
            event_types: vec!["lab.event".into()],
            key_prefix: format!("{:016x}", rand::random::<u64>()),
            first_n: 0,
            retry_for: Duration::from_secs(60),
            max_pause: Duration::from_millis(500),
            answer_timeout: Duration::from_secs(10),
            keep_log: true,
        }
    }

    /// Open loop at this rate, with connections for half a second of unanswered events.
    pub fn open(mut self, per_second: f64) -> PumpConfig {
        self.load = Load::Open { per_second };
        self.connections = ((per_second / 2.0) as usize).clamp(16, 1024);
        self
    }

    pub fn connections(mut self, connections: usize) -> PumpConfig {
        self.connections = connections;
        self
    }
}

/// A pump at work. Dropping it stops it at once, mid-request.
#[derive(Debug)]
pub struct Pump {
    shared: Arc<Shared>,
    report: oneshot::Receiver<PumpReport>,
    _thread: OwnThread,
}

/// Pumps until the end and reports.
pub async fn run(config: PumpConfig) -> io::Result<PumpReport> {
    Ok(Pump::start(config)?.report().await)
}

impl Pump {
    /// Fails on a target that is no `http://` URL.
    pub fn start(config: PumpConfig) -> io::Result<Pump> {
        let envelope = Arc::new(Envelope::new(&config.target, &config.also_at)?);
        let shared = Arc::new(Shared {
            next: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            stop: Notify::new(),
            config,
        });
        let (send, report) = oneshot::channel();
        let thread = OwnThread::run("lab-pump", {
            let shared = shared.clone();
            move || async move {
                let _ = send.send(pump(shared, envelope).await);
            }
        })?;
        Ok(Pump { shared, report, _thread: thread })
    }

    /// Waits for the end set in the configuration.
    pub async fn report(self) -> PumpReport {
        self.report.await.expect("the pump's thread reports before it ends")
    }

    /// Begins no more events, brings those begun to their end, and reports.
    pub async fn finish(self) -> PumpReport {
        self.shared.stopped.store(true, Relaxed);
        self.shared.stop.notify_waiters();
        self.report().await
    }
}

#[derive(Debug)]
struct Shared {
    config: PumpConfig,
    next: AtomicU64,
    stopped: AtomicBool,
    stop: Notify,
}

async fn pump(shared: Arc<Shared>, envelope: Arc<Envelope>) -> PumpReport {
    let cpu = thread_cpu();
    let started = Instant::now();
    let mut workers = JoinSet::new();
    for at in 0..shared.config.connections.max(1) {
        workers.spawn(work(shared.clone(), PumpConnection::new(envelope.clone(), at), started));
    }
    let results = workers.join_all().await;
    let mut report = PumpReport::sum(started.elapsed(), results);
    report.cpu = thread_cpu().saturating_sub(cpu);
    report
}

/// What one connection has to say at the end.
async fn work(shared: Arc<Shared>, mut connection: PumpConnection, started: Instant) -> PumpReport {
    let mut results = PumpReport::default();
    while let Some(ticket) = shared.ticket(started).await {
        if let Load::Open { per_second } = shared.config.load {
            let due = started + Duration::from_secs_f64(ticket as f64 / per_second);
            results.lag.record(due.elapsed().as_micros() as u64);
        }
        let sent = one_event(&shared, &mut connection, shared.config.first_n + ticket).await;
        if (200..300).contains(&sent.status) {
            results.latency.record(sent.latency_us);
        }
        results.count(&sent, connection.is_raw());
        if shared.config.keep_log {
            results.sent.push(sent);
        }
    }
    results
}

impl Shared {
    /// The next event's number, when it is due; None at the end.
    async fn ticket(&self, started: Instant) -> Option<u64> {
        // Before looking at `stopped`, so that a stop in between is not slept through.
        let stop = self.stop.notified();
        if self.over(started.elapsed(), self.next.load(Relaxed)) {
            return None;
        }
        let Load::Open { per_second } = self.config.load else {
            return Some(self.next.fetch_add(1, Relaxed)).filter(|ticket| !self.past_count(*ticket));
        };
        // Claim first, then sleep: tickets are sent in order and each by one connection only.
        let ticket = self.next.fetch_add(1, Relaxed);
        let due = Duration::from_secs_f64(ticket as f64 / per_second);
        if self.over(due, ticket) {
            return None;
        }
        if started.elapsed() < due {
            tokio::select! {
                () = tokio::time::sleep_until(started + due) => {}
                () = stop => {}
            }
        }
        (!self.stopped.load(Relaxed)).then_some(ticket)
    }

    fn over(&self, elapsed: Duration, ticket: u64) -> bool {
        self.stopped.load(Relaxed)
            || self.past_count(ticket)
            || matches!(self.config.until, Until::Elapsed(limit) if elapsed >= limit)
    }

    fn past_count(&self, ticket: u64) -> bool {
        matches!(self.config.until, Until::Count(count) if ticket >= count)
    }
}

/// Sends event `n` until it has a final answer or its time is up.
async fn one_event(shared: &Shared, connection: &mut PumpConnection, n: u64) -> Sent {
    let config = &shared.config;
    let event_type = match config.event_types.len() {
        0 => "lab.event",
        types => &config.event_types[(n % types as u64) as usize],
    };
    let key = format!("{}-{n}", config.key_prefix);
    let at_us = crate::clock::unix_us();
    let payload = body::make(Stamp { n, at_us }, event_type, config.body_bytes);
    let body_hash = body::hash(&payload);
    let request = connection.request(n, &key, event_type, payload);

    let began = Instant::now();
    let mut pause = Duration::from_millis(20);
    let mut tries = 0;
    let (status, event_id) = loop {
        tries += 1;
        let answer = connection.post(&request, config.answer_timeout).await;
        let (status, retry_after) = match &answer {
            Some(answer) => (answer.status, answer.retry_after),
            None => (0, None),
        };
        if !matches!(status, 0 | 429 | 503) || began.elapsed() >= config.retry_for {
            break (status, answer.and_then(|answer| answer.event_id));
        }
        connection.use_next_address();
        tokio::time::sleep(retry_after.unwrap_or(pause).min(config.max_pause)).await;
        pause = (pause * 2).min(config.max_pause);
    };
    let latency_us = began.elapsed().as_micros() as u64;
    Sent { n, key: key.into(), at_us, latency_us, status, event_id, body_hash, tries }
}
