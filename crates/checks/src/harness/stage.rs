//! A stage: a node, or several, on a store of their own, with a receiver beside them and a client to set them up.
//!
//! Settings are those of all checks: lease 10 s, rescan 1 s, connect 1 s, breaker off; destinations with a deadline
//! of 3 s and pauses of 1, 2, 4, 8, 8, 8, 8 s. Data lies under cargo's target folder: a real disk, where a flush
//! costs what it costs. Whatever speaks of *the* node means the first one.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use client::{Client, NewDestination};
use lab::process::Launch;
use lab::{Fault, FaultKind, Node, Receiver, Script};
use tempfile::TempDir;
use tokio::time::sleep;

use super::member::Member;
use super::server::{Server, target_dir};
use super::{Database, StoreKind};
use crate::Ask;

/// Well-formed, and of no use to anybody else.
pub(crate) const API_KEY: &str = "phk_ChecksAccnt0_OnlyForTheChecksNeverForAnyoneEl1ZWaBi";
pub(crate) const OPERATOR_KEY: &str = "pho_ChecksOpertr_OnlyForTheChecksNeverForAnyoneEl27obs8";
pub(super) const MASTER_KEY: &str = "YSBrZXkgZm9yIGNoZWNrczogMzIgYnl0ZXMgbG9uZy4=";

/// Below the ports that Linux gives to outgoing connections: a client that dials a node which is down could
/// otherwise be given that very port, and talk to itself.
const PORTS: std::ops::Range<u16> = 21_000..25_000;

/// How a stage is set; start with [`Plan::new`] and change what the check is about.
pub(crate) struct Plan {
    store: StoreKind,
    binary: PathBuf,
    keep: bool,
    nodes: usize,
    data_dir: Option<PathBuf>,
    database: Option<Database>,
    /// One for each node, or one for all.
    database_addrs: Vec<SocketAddr>,
    env: Vec<(String, String)>,
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
        Ok(Plan {
            store,
            binary,
            keep: ask.keep,
            nodes: 1,
            data_dir: None,
            database: None,
            database_addrs: Vec::new(),
            env: Vec::new(),
        })
    }

    /// So many nodes on one store, each with a folder, a port and a name of its own.
    pub(crate) fn nodes(mut self, nodes: usize) -> Plan {
        self.nodes = nodes;
        self
    }

    /// Keeps the node's files here, and not in a folder of its own.
    pub(crate) fn data_dir(mut self, dir: &Path) -> Plan {
        self.data_dir = Some(dir.to_owned());
        self
    }

    /// On this store, and not on one of its own.
    pub(crate) fn database(mut self, database: Database) -> Plan {
        self.database = Some(database);
        self
    }

    /// Reaches PostgreSQL by this address, which is a proxy's. Named again, it is the next node's way.
    pub(crate) fn database_addr(mut self, addr: SocketAddr) -> Plan {
        self.database_addrs.push(addr);
        self
    }

    /// A setting of all nodes.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Plan {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A day of retention is so many seconds (None: a day), and what is old is looked for so often.
    pub(crate) fn forgetting(self, day_seconds: Option<u64>, every_seconds: u64) -> Plan {
        let plan = self.env("POSTHASTE_TEST", "1");
        let plan = plan.env("POSTHASTE_TEST_PRUNE_EVERY_SECONDS", &every_seconds.to_string());
        match day_seconds {
            Some(day) => plan.env("POSTHASTE_TEST_RETENTION_DAY_SECONDS", &day.to_string()),
            None => plan,
        }
    }

    /// Everything is there; no node is started yet.
    pub(crate) async fn set(self) -> Result<Stage> {
        let parent = target_dir()?.join("checks");
        std::fs::create_dir_all(&parent)?;
        let mut dir = tempfile::Builder::new().prefix("stage-").tempdir_in(&parent)?;
        dir.disable_cleanup(self.keep);
        let data_dir = self.data_dir.clone().unwrap_or_else(|| dir.path().join("data"));
        let database = match (&self.database, self.store) {
            (Some(database), _) => database.clone(),
            (None, StoreKind::Sqlite) => Database::Sqlite { file: data_dir.join("posthaste.db") },
            (None, StoreKind::Postgres) => Database::Postgres {
                server: Server::start().await?,
                schema: Some(format!("check_{:016x}", rand::random::<u64>())),
            },
        };
        let settings = dir.path().join("posthaste.toml");
        std::fs::write(&settings, "")?;
        let mut members = Vec::new();
        for at in 0..self.nodes {
            let addr = free_addr()?;
            let own = if at == 0 { data_dir.clone() } else { dir.path().join(format!("data-{at}")) };
            let mut env: Vec<(String, String)> = [
                ("POSTHASTE_CONFIG", settings.display().to_string()),
                ("POSTHASTE_LISTEN", addr.to_string()),
                ("POSTHASTE_DATA_DIR", own.display().to_string()),
                ("POSTHASTE_DATABASE", self.database_url(&database, at)?),
                ("POSTHASTE_NODE_NAME", format!("node-{at}")),
                ("POSTHASTE_NODE_LEASE", "10s".into()),
                ("POSTHASTE_RESCAN", "1s".into()),
                ("POSTHASTE_BREAKER_ENABLED", "false".into()),
                ("POSTHASTE_DELIVERY_CONNECT_TIMEOUT", "1s".into()),
                ("POSTHASTE_EGRESS_ALLOW", "127.0.0.0/8".into()),
                ("POSTHASTE_EGRESS_ALLOW_HTTP", "true".into()),
                ("POSTHASTE_MASTER_KEY", MASTER_KEY.into()),
                ("POSTHASTE_BOOTSTRAP_API_KEY", API_KEY.into()),
                ("POSTHASTE_BOOTSTRAP_OPERATOR_KEY", OPERATOR_KEY.into()),
                ("POSTHASTE_LOG", std::env::var("POSTHASTE_LOG").unwrap_or_else(|_| "warn".into())),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
            env.retain(|(name, _)| self.env.iter().all(|(own, _)| own != name));
            env.extend(self.env.clone());
            let log = if at == 0 { "node.log".to_owned() } else { format!("node-{at}.log") };
            let launch = Launch {
                through: Vec::new(),
                binary: self.binary.clone(),
                args: vec!["serve".into()],
                env,
                log_file: dir.path().join(log),
            };
            let client = Client::new(&format!("http://{addr}"), API_KEY)?;
            members.push(Member::new(format!("node-{at}"), addr, launch, client));
        }
        let (addr, client) = (members[0].addr, members[0].client.clone());
        let receiver = Receiver::local(Script::ok());
        Ok(Stage { dir, database, addr, client, receiver, members, keep: self.keep })
    }

    /// Sets the stage and starts every node.
    pub(crate) async fn start(self) -> Result<Stage> {
        let mut stage = self.set().await?;
        stage.start_all().await?;
        Ok(stage)
    }

    fn database_url(&self, database: &Database, at: usize) -> Result<String> {
        let own = self.database_addrs.get(at).or(self.database_addrs.first());
        let (Some(server), Some(proxy)) = (database.server(), own) else { return Ok(database.url()) };
        Ok(database.url().replace(&server.addr()?.to_string(), &proxy.to_string()))
    }
}

/// Nodes with everything around them. Call [`Stage::strike`] at the end.
pub(crate) struct Stage {
    dir: TempDir,
    pub(crate) database: Database,
    pub(crate) addr: SocketAddr,
    pub(crate) client: Client,
    pub(crate) receiver: Receiver,
    pub(crate) members: Vec<Member>,
    keep: bool,
}

impl Stage {
    /// Starts the node and says how long it took until it was ready.
    pub(crate) async fn start(&mut self) -> Result<Duration> {
        self.start_one(0).await
    }

    pub(crate) async fn start_one(&mut self, at: usize) -> Result<Duration> {
        self.launch_one(at)?;
        self.members[at].ready().await
    }

    /// Starts a node and does not wait for it.
    pub(crate) fn launch_one(&mut self, at: usize) -> Result<()> {
        let pid = self.members[at].launch(self.receiver.now_us())?;
        if self.members.len() > 1 {
            self.receiver.know_sender(pid);
        }
        Ok(())
    }

    /// All nodes; the first makes the schema, so the others wait for it.
    pub(crate) async fn start_all(&mut self) -> Result<()> {
        self.start().await?;
        for at in 1..self.members.len() {
            self.launch_one(at)?;
        }
        for member in &mut self.members[1..] {
            member.ready().await?;
        }
        Ok(())
    }

    /// kill -9; the moment, on the receiver's clock, when it is certainly dead.
    pub(crate) async fn kill(&mut self) -> Result<u64> {
        Ok(self.kill_one(0).await?.at_us)
    }

    pub(crate) async fn kill_one(&mut self, at: usize) -> Result<Fault> {
        let node = self.members[at].node_mut()?;
        let pid = node.pid();
        node.kill9().await?;
        Ok(Fault::new(FaultKind::Kill, self.receiver.now_us(), Some(pid)))
    }

    /// SIGSTOP; in force on return.
    pub(crate) async fn freeze_one(&self, at: usize) -> Result<Fault> {
        let node = self.members[at].node()?;
        node.freeze().await?;
        Ok(Fault::new(FaultKind::Freeze, self.receiver.now_us(), Some(node.pid())))
    }

    pub(crate) async fn thaw_one(&self, at: usize, freeze: &mut Fault) -> Result<()> {
        freeze.until_us = Some(self.receiver.now_us());
        Ok(self.members[at].node()?.thaw().await?)
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.members[0].stop().await
    }

    pub(crate) fn node(&self) -> Result<&Node> {
        self.members[0].node()
    }

    pub(crate) fn node_mut(&mut self) -> Result<&mut Node> {
        self.members[0].node_mut()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.members[0].is_running()
    }

    /// Every node that should be there is.
    pub(crate) fn all_running(&mut self) -> bool {
        self.members.iter_mut().all(Member::is_running)
    }

    pub(crate) async fn wait_for_end(&mut self, limit: Duration) -> bool {
        self.members[0].wait_for_end(limit).await
    }

    /// Settings for the node's next start; None takes one away.
    pub(crate) fn set_env(&mut self, name: &str, value: Option<&str>) {
        self.members[0].set_env(name, value);
    }

    pub(crate) fn launch(&self) -> &Launch {
        &self.members[0].launch
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn base(&self) -> String {
        self.members[0].base()
    }

    pub(crate) fn log(&self) -> String {
        self.members[0].log()
    }

    /// A destination of this name at the receiver, with the deadline and the pauses of all checks.
    pub(crate) fn destination(&self, name: &str) -> NewDestination {
        let mut destination = NewDestination::new(name, &self.receiver.url(&format!("/d/{name}")));
        destination.timeout_seconds = 3;
        destination.retry_policy = domain::retry::RetryPolicy {
            schedule: [1, 2, 4, 8, 8, 8, 8].map(Duration::from_secs).to_vec(),
            ..Default::default()
        };
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

    /// How many shards each node owns, by the tables.
    pub(crate) async fn shares(&self) -> Result<Vec<u64>> {
        let sql = "select n.label, count(*) from shards s join nodes n on n.id = s.node_id group by n.label";
        let rows = self.database.rows(sql).await?;
        let share = |member: &Member| {
            let own = rows.iter().find(|row| row[0].text() == Some(&member.name));
            own.and_then(|row| row[1].number()).unwrap_or(0) as u64
        };
        Ok(self.members.iter().map(share).collect())
    }

    /// Waits until the running nodes share all shards evenly, and says how long that took.
    pub(crate) async fn balanced(&mut self, limit: Duration) -> Result<Duration> {
        let began = Instant::now();
        if self.members.len() == 1 {
            return Ok(began.elapsed());
        }
        let running: Vec<bool> = self.members.iter_mut().map(Member::is_running).collect();
        loop {
            let shares = self.shares().await?;
            let live: Vec<u64> =
                shares.iter().zip(&running).filter(|(_, runs)| **runs).map(|(share, _)| *share).collect();
            let (least, most) = (live.iter().min().unwrap_or(&0), live.iter().max().unwrap_or(&0));
            if live.iter().sum::<u64>() == 1_024 && most - least <= 1 {
                return Ok(began.elapsed());
            }
            ensure!(began.elapsed() < limit, "the shards are shared {shares:?} after {limit:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Ends it all and clears up.
    pub(crate) async fn strike(mut self) -> Result<()> {
        for member in &mut self.members {
            if let Ok(node) = member.node_mut() {
                node.kill9().await?;
            }
        }
        if self.keep {
            eprintln!("kept: {} and {}", self.dir.path().display(), self.database.url());
            return Ok(());
        }
        self.database.drop_schema().await
    }
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
