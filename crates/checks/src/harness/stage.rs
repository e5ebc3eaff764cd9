//! A stage: a node on a store of its own, with a receiver beside it and a client to set it up.
//!
//! Settings are those of all checks: lease 10 s, rescan 1 s, connect 1 s, breaker off; destinations with a deadline
//! of 3 s and pauses of 1, 2, 4, 8, 8, 8, 8 s. Data lies under cargo's target folder: a real disk, where a flush
//! costs what it costs.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{Client, NewDestination};
use lab::process::Launch;
use lab::{Node, Receiver, Script};
use tempfile::TempDir;
use tokio::time::sleep;

use super::server::{Server, target_dir};
use super::{Database, StoreKind};
use crate::Ask;

/// Well-formed, and of no use to anybody else.
pub(crate) const API_KEY: &str = "phk_ChecksAccnt0_OnlyForTheChecksNeverForAnyoneEl1ZWaBi";
pub(crate) const OPERATOR_KEY: &str = "pho_ChecksOpertr_OnlyForTheChecksNeverForAnyoneEl27obs8";
const MASTER_KEY: &str = "YSBrZXkgZm9yIGNoZWNrczogMzIgYnl0ZXMgbG9uZy4=";

/// Below the ports that Linux gives to outgoing connections: a client that dials a node which is down could
/// otherwise be given that very port, and talk to itself.
const PORTS: std::ops::Range<u16> = 21_000..25_000;

/// How long anything may take to come up before the check is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How a stage is set; start with [`Plan::new`] and change what the check is about.
pub(crate) struct Plan {
    store: StoreKind,
    binary: PathBuf,
    keep: bool,
    data_dir: Option<PathBuf>,
    database_addr: Option<SocketAddr>,
}

impl Plan {
    /// The binary of our own build profile, unless told otherwise.
    pub(crate) fn new(ask: &Ask, store: StoreKind) -> Result<Plan> {
        let beside = std::env::current_exe()?.with_file_name("posthaste");
        Plan::with_binary(ask, store, beside)
    }

    /// The debug build, which has the failpoints.
    pub(crate) fn with_failpoints(ask: &Ask, store: StoreKind) -> Result<Plan> {
        Plan::with_binary(ask, store, target_dir()?.join("debug/posthaste"))
    }

    fn with_binary(ask: &Ask, store: StoreKind, binary: PathBuf) -> Result<Plan> {
        let binary = ask.posthaste.clone().unwrap_or(binary);
        let missing =
            || format!("{} is not there: build it, or name another by --posthaste", binary.display());
        ensure!(binary.is_file(), missing());
        let keep = ask.keep;
        Ok(Plan { store, binary, keep, data_dir: None, database_addr: None })
    }

    /// Keeps the node's files here, and not in a folder of its own.
    pub(crate) fn data_dir(mut self, dir: &Path) -> Plan {
        self.data_dir = Some(dir.to_owned());
        self
    }

    /// Reaches PostgreSQL by this address, which is a proxy's.
    pub(crate) fn database_addr(mut self, addr: SocketAddr) -> Plan {
        self.database_addr = Some(addr);
        self
    }

    /// Everything is there; the node is not started yet.
    pub(crate) async fn set(self) -> Result<Stage> {
        let parent = target_dir()?.join("checks");
        std::fs::create_dir_all(&parent)?;
        let mut dir = tempfile::Builder::new().prefix("stage-").tempdir_in(&parent)?;
        dir.disable_cleanup(self.keep);
        let data_dir = self.data_dir.unwrap_or_else(|| dir.path().join("data"));
        let database = match self.store {
            StoreKind::Sqlite => Database::Sqlite { file: data_dir.join("posthaste.db") },
            StoreKind::Postgres => Database::Postgres {
                server: Server::start().await?,
                schema: format!("check_{:016x}", rand::random::<u64>()),
            },
        };
        let addr = free_addr()?;
        let url = match (&database, self.database_addr) {
            (Database::Postgres { server, schema }, Some(proxy)) => {
                let direct = server.addr()?.to_string();
                format!("{}?schema={schema}", server.url().replace(&direct, &proxy.to_string()))
            }
            _ => database.url(),
        };
        let settings = dir.path().join("posthaste.toml");
        std::fs::write(&settings, "")?;
        let env: Vec<(String, String)> = [
            ("POSTHASTE_CONFIG", settings.display().to_string()),
            ("POSTHASTE_LISTEN", addr.to_string()),
            ("POSTHASTE_DATA_DIR", data_dir.display().to_string()),
            ("POSTHASTE_DATABASE", url),
            ("POSTHASTE_NODE_LEASE", "10s".into()),
            ("POSTHASTE_RESCAN", "1s".into()),
            ("POSTHASTE_BREAKER_ENABLED", "false".into()),
            ("POSTHASTE_DELIVERY_CONNECT_TIMEOUT", "1s".into()),
            ("POSTHASTE_EGRESS_ALLOW", "127.0.0.0/8".into()),
            ("POSTHASTE_EGRESS_ALLOW_HTTP", "true".into()),
            ("POSTHASTE_MASTER_KEY", MASTER_KEY.into()),
            ("POSTHASTE_BOOTSTRAP_API_KEY", API_KEY.into()),
            ("POSTHASTE_BOOTSTRAP_OPERATOR_KEY", OPERATOR_KEY.into()),
            ("POSTHASTE_LOG", "warn".into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let launch = Launch {
            binary: self.binary,
            args: vec!["serve".into()],
            env,
            log_file: dir.path().join("node.log"),
        };
        let client = Client::new(&format!("http://{addr}"), API_KEY)?;
        let receiver = Receiver::local(Script::ok());
        Ok(Stage { dir, database, addr, launch, client, receiver, node: None, keep: self.keep })
    }

    pub(crate) async fn start(self) -> Result<Stage> {
        let mut stage = self.set().await?;
        stage.start().await?;
        Ok(stage)
    }
}

/// A node with everything around it. Call [`Stage::strike`] at the end.
pub(crate) struct Stage {
    dir: TempDir,
    pub(crate) database: Database,
    pub(crate) addr: SocketAddr,
    pub(crate) launch: Launch,
    pub(crate) client: Client,
    pub(crate) receiver: Receiver,
    node: Option<Node>,
    keep: bool,
}

impl Stage {
    /// Starts the node and says how long it took until it was ready.
    pub(crate) async fn start(&mut self) -> Result<Duration> {
        let node = self.node.insert(Node::launch(self.launch.clone())?);
        let ready = node.wait_until_serving(self.addr, "/readyz", PATIENCE).await;
        ready.with_context(|| format!("the node's log says: {}", tail(&self.launch.log_file)))
    }

    /// kill -9; the moment, on the receiver's clock, when it is certainly dead.
    pub(crate) async fn kill(&mut self) -> Result<u64> {
        self.node_mut()?.kill9().await?;
        Ok(self.receiver.now_us())
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        let status = self.node_mut()?.stop(Duration::from_secs(30)).await?;
        ensure!(status.is_some(), "the node did not stop within 30 s");
        Ok(())
    }

    pub(crate) fn node(&self) -> Result<&Node> {
        self.node.as_ref().context("the node was never started")
    }

    pub(crate) fn node_mut(&mut self) -> Result<&mut Node> {
        self.node.as_mut().context("the node was never started")
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.node.as_mut().is_some_and(Node::is_running)
    }

    /// Waits for the node to end by itself.
    pub(crate) async fn wait_for_end(&mut self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.is_running() && Instant::now() < deadline {
            sleep(Duration::from_millis(2)).await;
        }
        !self.is_running()
    }

    /// Settings for the next start; None takes one away.
    pub(crate) fn set_env(&mut self, name: &str, value: Option<&str>) {
        self.launch.env.retain(|(known, _)| known != name);
        self.launch.env.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.addr)
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.launch.log_file).unwrap_or_default()
    }

    /// A destination of this name at the receiver, with the deadline and the pauses of all checks.
    pub(crate) fn destination(&self, name: &str) -> NewDestination {
        let mut destination = NewDestination::new(name, &self.receiver.url(&format!("/d/{name}")));
        destination.timeout_seconds = Some(3);
        destination.retry_policy = Some(domain::retry::RetryPolicy {
            schedule: [1, 2, 4, 8, 8, 8, 8].map(Duration::from_secs).to_vec(),
            ..Default::default()
        });
        destination
    }

    /// Waits until nothing waits any more; what is left when time is up.
    pub(crate) async fn quiesce(&self, limit: Duration) -> Result<u64> {
        let deadline = Instant::now() + limit;
        loop {
            let left = self.database.number("select count(*) from queue").await?;
            if left == 0 || Instant::now() >= deadline {
                return Ok(left);
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Ends it all and clears up.
    pub(crate) async fn strike(mut self) -> Result<()> {
        if let Some(mut node) = self.node.take() {
            node.kill9().await?;
        }
        if self.keep {
            eprintln!("kept: {} and {}", self.dir.path().display(), self.database.url());
            return Ok(());
        }
        self.database.drop_schema().await
    }
}

pub(crate) fn tail(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join(" ⏎ ")
}

pub(crate) fn free_addr() -> Result<SocketAddr> {
    for _ in 0..100 {
        let port = PORTS.start + rand::random::<u16>() % (PORTS.end - PORTS.start);
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(addr).is_ok() {
            return Ok(addr);
        }
    }
    bail!("no free port between {} and {}", PORTS.start, PORTS.end)
}
