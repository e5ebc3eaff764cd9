//! What is under trial: nodes of a bench's own, or a server that runs; with a receiver beside it, a source that events go
//! to, and what everything spends.

use super::{BenchArgs, free_address};
use crate::{commands::keys::new_master_key, dice::SystemDice, failure::Failure};
use anyhow::Context;
use api::keys::KeyText;
use client::{Client, NewDestination, NewRoute, NewSource};
use domain::{
    account::KeyKind,
    id::{DestinationId, SourceId},
};
use lab::{ChildProcess, PumpConfig, Receiver, Recording, Script, Target, Until, process};
use rand::Rng as _;
use serde_json::json;
use std::{
    fs,
    time::{Duration, Instant},
};
use store::postgres::SCRATCH;
use tokio::task::JoinSet;
use url::Url;

const STARTS_WITHIN: Duration = Duration::from_secs(30);
const STOPS_WITHIN: Duration = Duration::from_secs(20);
/// Fewer than an account may have under way.
const MADE_AT_ONCE: usize = 16;

/// Call [`Trial::end`] when it is over.
pub(super) struct Trial {
    pub(super) receiver: Receiver,
    pub(super) client: Client,
    nodes: Vec<OwnNode>,
    /// Of a server that runs, if it is on this machine and may be looked at.
    running: Option<u32>,
    /// PostgreSQL, likewise.
    database: Option<u32>,
    base: String,
    also_at: Vec<String>,
    source: SourceId,
    token: String,
    destinations: Vec<DestinationId>,
    size: usize,
    sent: u64,
}

struct OwnNode {
    process: ChildProcess,
    at: std::net::SocketAddr,
}

/// A destination that is to be made, and the events it is to get.
struct Plan {
    client: Client,
    source: SourceId,
    destination: NewDestination,
    event_types: Vec<String>,
}

impl Plan {
    async fn make(self) -> Result<DestinationId, Failure> {
        let id = self.client.create_destination(&self.destination).await?.id;
        let route = NewRoute::from_source(self.source, id);
        self.client.create_route(&NewRoute { event_types: self.event_types, ..route }).await?;
        Ok(id)
    }
}

/// CPU time so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    /// None where nobody may look.
    pub(super) nodes: Option<Duration>,
    pub(super) database: Option<Duration>,
}

impl Trial {
    pub(super) async fn start(
        args: &BenchArgs,
        name: &str,
        settings: &[(&str, &str)],
        scratch: Option<&str>,
    ) -> Result<Self, Failure> {
        let receiver = Receiver::start_with(args.receiver, Script::ok(), Recording::Counts)
            .with_context(|| format!("the receiver cannot listen on {}; see --receiver", args.receiver))?;
        match (&args.url, &args.key) {
            (Some(url), Some(key)) => Self::at_server(args, receiver, url, key).await,
            _ => Self::of_own(args, receiver, name, settings, scratch).await,
        }
    }

    async fn at_server(args: &BenchArgs, receiver: Receiver, url: &str, key: &str) -> Result<Self, Failure> {
        let client = Client::new(url, key)?;
        let parsed = Url::parse(url).map_err(|error| Failure::configuration(format!("--url: {error}")))?;
        let base = url.trim_end_matches('/').to_owned();
        let running = listener_of(&parsed);
        Self::with(args, receiver, client, Vec::new(), base, Vec::new(), running, None).await
    }

    async fn of_own(
        args: &BenchArgs,
        receiver: Receiver,
        name: &str,
        settings: &[(&str, &str)],
        scratch: Option<&str>,
    ) -> Result<Self, Failure> {
        let dir = args.data_dir.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("{} cannot be made", dir.display()))?;
        let binary = match &args.binary {
            Some(binary) => binary.clone(),
            None => std::env::current_exe().context("this program cannot be found")?,
        };
        let key = KeyText::generate(KeyKind::Account, &SystemDice).expose().to_owned();
        let (master, no_file) = (new_master_key("k1"), dir.join("none.toml"));
        fs::write(&no_file, "").with_context(|| format!("{} cannot be written", no_file.display()))?;
        let embedded = || format!("sqlite:{}/posthaste.db", dir.display());
        let database = scratch.map_or_else(embedded, str::to_owned);
        let mut nodes: Vec<OwnNode> = Vec::new();
        for number in 0..usize::from(args.nodes) {
            let at = free_address()?;
            let data = dir.join(format!("node-{number}"));
            let mut env = vec![
                ("POSTHASTE_CONFIG", no_file.display().to_string()),
                ("POSTHASTE_LISTEN", at.to_string()),
                ("POSTHASTE_DATA_DIR", data.display().to_string()),
                ("POSTHASTE_DATABASE", database.clone()),
                ("POSTHASTE_NODE_NAME", format!("bench-{number}")),
                ("POSTHASTE_MASTER_KEYS", master.clone()),
                ("POSTHASTE_BOOTSTRAP_API_KEY", key.clone()),
                ("POSTHASTE_EGRESS_ALLOW", "127.0.0.0/8,::1/128".to_owned()),
                ("POSTHASTE_EGRESS_ALLOW_HTTP", "true".to_owned()),
            ];
            env.extend(settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
            let launch = process::Launch {
                through: without_others(&env),
                binary: binary.clone(),
                args: vec!["serve".into()],
                env: env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
                log_file: dir.join(format!("node-{number}.log")),
            };
            let started = ChildProcess::launch(launch);
            let mut process = started.with_context(|| format!("{} cannot be started", binary.display()))?;
            process
                .wait_until_serving(at, "/readyz", STARTS_WITHIN)
                .await
                .context("a node does not start")?;
            nodes.push(OwnNode { process, at });
        }
        let addresses: Vec<String> = nodes.iter().map(|node| format!("http://{}", node.at)).collect();
        let client = Client::new(&addresses[0], &key)?;
        let server = args.database.as_deref().and_then(|url| Url::parse(url).ok());
        let server = server.as_ref().and_then(listener_of);
        let (base, also_at) = (addresses[0].clone(), addresses[1..].to_vec());
        Self::with(args, receiver, client, nodes, base, also_at, None, server).await
    }

    #[expect(clippy::too_many_arguments, reason = "the two ways to begin, put together in one place")]
    async fn with(
        args: &BenchArgs,
        receiver: Receiver,
        client: Client,
        nodes: Vec<OwnNode>,
        base: String,
        also_at: Vec<String>,
        running: Option<u32>,
        database: Option<u32>,
    ) -> Result<Self, Failure> {
        let source = client.create_source(&NewSource::new("posthaste bench")).await?;
        let url = source.ingest_url.unwrap_or_default();
        let token = url.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(Self {
            receiver,
            client,
            nodes,
            running,
            database,
            base,
            also_at,
            source: source.id,
            token,
            destinations: Vec::new(),
            size: args.size as usize,
            sent: 0,
        })
    }

    /// A destination at the receiver that gets the events of this type.
    pub(super) async fn destination(
        &mut self,
        name: &str,
        slots: u32,
        event_type: &str,
    ) -> Result<(), Failure> {
        let url = self.receiver.url(&format!("/d/{name}"));
        self.destination_at(name, &url, slots, event_type).await
    }

    pub(super) async fn destination_at(
        &mut self,
        name: &str,
        url: &str,
        slots: u32,
        event_type: &str,
    ) -> Result<(), Failure> {
        self.destinations.push(self.plan(name, url, slots, event_type).make().await?);
        Ok(())
    }

    /// Many destinations at the receiver that get the same events; several at once, so that changes share flushes.
    pub(super) async fn destinations(
        &mut self,
        names: &[String],
        slots: u32,
        event_type: &str,
    ) -> Result<(), Failure> {
        let (mut names, mut making) = (names.iter(), JoinSet::new());
        loop {
            while making.len() < MADE_AT_ONCE
                && let Some(name) = names.next()
            {
                let url = self.receiver.url(&format!("/d/{name}"));
                making.spawn(self.plan(name, &url, slots, event_type).make());
            }
            let Some(made) = making.join_next().await else { return Ok(()) };
            self.destinations.push(made.context("a destination is not made")??);
        }
    }

    fn plan(&self, name: &str, url: &str, slots: u32, event_type: &str) -> Plan {
        let destination = NewDestination { max_concurrency: Some(slots), ..NewDestination::new(name, url) };
        Plan {
            client: self.client.clone(),
            source: self.source,
            destination,
            event_types: vec![event_type.to_owned()],
        }
    }

    /// Another limit for the only destination.
    pub(super) async fn set_slots(&self, slots: u32) -> Result<(), Failure> {
        for id in &self.destinations {
            self.client.update_destination(*id, &json!({ "max_concurrency": slots })).await?;
        }
        Ok(())
    }

    /// The destination that was made last is paused, or goes on.
    pub(super) async fn hold_newest(&self, held: bool) -> Result<(), Failure> {
        if let Some(id) = self.destinations.last() {
            if held {
                self.client.pause(*id).await?
            } else {
                self.client.resume(*id).await?
            };
        }
        Ok(())
    }

    /// A closed loop; its events have numbers that none had before.
    pub(super) fn pump(&self, until: Until, connections: usize, event_types: &[String]) -> PumpConfig {
        let target = Target::Ingest { base: self.base.clone(), tokens: vec![self.token.clone()] };
        PumpConfig {
            keep_log: false,
            body_bytes: self.size,
            connections,
            event_types: event_types.to_vec(),
            also_at: self.also_at.clone(),
            first_n: self.sent,
            ..PumpConfig::new(target, until)
        }
    }

    pub(super) async fn send(&mut self, config: PumpConfig) -> Result<lab::PumpReport, Failure> {
        let report = lab::pump::run(config).await.context("the producer")?;
        self.sent += report.offered;
        Ok(report)
    }

    /// Events whose numbers are taken, although somebody else sent them.
    pub(super) fn took(&mut self, events: u64) {
        self.sent += events;
    }

    pub(super) fn spent(&self) -> Spent {
        let of = |pid: u32| process::ProcessStat::of(pid).ok().map(|stat| stat.cpu_time);
        let nodes = match self.nodes.as_slice() {
            [] => self.running.and_then(of),
            own => own.iter().map(|node| of(node.process.pid())).sum(),
        };
        let database = self.database.and_then(|pid| process::family_cpu_time(pid).ok());
        Spent { nodes, database }
    }

    /// Of all nodes together.
    pub(super) fn memory(&self) -> Option<u64> {
        match self.nodes.as_slice() {
            [] => self.running.and_then(|pid| process::rss_bytes(pid).ok()),
            own => own.iter().map(|node| node.process.rss_bytes().ok()).sum(),
        }
    }

    /// kill -9 of the first node, and its next start; how long until it is ready.
    pub(super) async fn crash(&mut self) -> Result<Duration, Failure> {
        let node = self.nodes.first_mut().context("there is no node of our own")?;
        node.process.kill9().await.context("the node does not end")?;
        let began = Instant::now();
        let again = node.process.launched_as().clone();
        node.process = ChildProcess::launch(again).context("the node does not start again")?;
        let ready = node.process.wait_until_serving(node.at, "/readyz", STARTS_WITHIN).await;
        ready.context("the node does not come back")?;
        Ok(began.elapsed())
    }

    /// Takes away what was made for it.
    pub(super) async fn end(mut self) -> Result<(), Failure> {
        if self.nodes.is_empty() {
            for id in &self.destinations {
                self.client.delete_destination(*id).await?;
            }
            self.client.delete_source(self.source).await?;
            return Ok(());
        }
        for node in &mut self.nodes {
            if node.process.stop(STOPS_WITHIN).await.context("a node does not stop")?.is_none() {
                node.process.kill9().await.context("a node does not end")?;
            }
        }
        Ok(())
    }
}

impl Spent {
    /// What was spent since then, in microseconds for each of so many.
    pub(super) fn since(self, before: Spent, events: u64) -> (Option<f64>, Option<f64>) {
        let each = |now: Option<Duration>, then: Option<Duration>| {
            Some(now?.saturating_sub(then?).as_secs_f64() * 1e6 / events.max(1) as f64)
        };
        (each(self.nodes, before.nodes), each(self.database, before.database))
    }
}

/// The same database, in a schema that nobody has.
pub(super) fn scratch_schema(url: &str) -> Result<String, Failure> {
    let mut url = Url::parse(url).map_err(|error| Failure::configuration(format!("--database: {error}")))?;
    if url.query_pairs().any(|(name, _)| name == "schema") {
        return Err(Failure::configuration("--database names a schema: bench makes one of its own"));
    }
    let schema = format!("{SCRATCH}{:016x}", rand::rng().next_u64());
    url.query_pairs_mut().append_pair("schema", &schema);
    Ok(url.into())
}

/// Settings of the person's installation are not those of a bench.
fn without_others(own: &[(&str, String)]) -> Vec<String> {
    let all = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let is_own = |name: &str| name == "POSTHASTE_LOG" || own.iter().any(|(own, _)| *own == name);
    let mut words = vec!["env".to_owned()];
    for name in all.filter(|name| name.starts_with("POSTHASTE_") && !is_own(name)) {
        words.extend(["-u".to_owned(), name]);
    }
    words
}

/// The process behind a URL of this machine.
fn listener_of(url: &Url) -> Option<u32> {
    let host = url.host_str()?;
    let here = host == "localhost"
        || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
    let port =
        url.port_or_known_default().or_else(|| url.scheme().starts_with("postgres").then_some(5432))?;
    if here { process::listener(port) } else { None }
}
