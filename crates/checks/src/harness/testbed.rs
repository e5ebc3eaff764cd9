//! A testbed: a node, or several, on a store of their own, with a receiver beside them and a client to set them up.
//!
//! Settings are those of all checks: lease 10 s, rescan 1 s, connect 1 s, breaker off; destinations with a deadline
//! of 3 s and pauses of 1, 2, 4, 8, 8, 8, 8 s. Data lies under cargo's target folder: a real disk, where a flush
//! costs what it costs. Whatever speaks of *the* node means the first one.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use client::{BatchResult, Client, NewDestination, NewRoute, Publish};
use domain::id::DestinationId;
use domain::retry::RetrySettings;
use lab::process::Launch;
use lab::{ChildProcess, Fault, FaultKind, PumpConfig, Receiver, Script, Target, Until};
use tempfile::TempDir;
use tokio::time::sleep;

use super::postgres_server::{PostgresServer, target_dir};
use super::test_node::TestNode;
use super::waiting::becomes;
use super::{Database, Options, Report, StoreKind, raw_http};

/// Well-formed, and of no use to anybody else.
pub(crate) const API_KEY: &str = "phk_ChecksAccnt0_OnlyForTheChecksNeverForAnyoneEl1ZWaBi";
pub(crate) const OPERATOR_KEY: &str = "pho_ChecksOpertr_OnlyForTheChecksNeverForAnyoneEl27obs8";
pub(crate) const MASTER_KEY: &str = "YSBrZXkgZm9yIGNoZWNrczogMzIgYnl0ZXMgbG9uZy4=";

/// Before the second attempt, the third, and so on, in seconds.
pub(super) const PAUSES: [u64; 7] = [1, 2, 4, 8, 8, 8, 8];

/// Below the ports that Linux gives to outgoing connections: a client that dials a node which is down could
/// otherwise be given that very port, and talk to itself.
const PORTS: std::ops::Range<u16> = 21_000..25_000;
/// So many for each process: two checks that run at once do not take each other's.
const PORTS_EACH: u16 = 100;

/// How a testbed is set; start with [`TestbedPlan::new`] and change what the check is about.
pub(crate) struct TestbedPlan {
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

impl TestbedPlan {
    /// One node, with the binary of our own build profile unless told otherwise.
    pub(crate) fn new(options: &Options) -> Result<TestbedPlan> {
        let beside = std::env::current_exe()?.with_file_name("posthaste");
        TestbedPlan::with_binary(options, beside)
    }

    /// Three nodes where there can be several, or as many as were asked for.
    pub(crate) fn of_several(options: &Options) -> Result<TestbedPlan> {
        Ok(TestbedPlan::new(options)?.nodes(options.nodes(3)))
    }

    /// The debug build, which has the failpoints.
    pub(crate) fn with_failpoints(options: &Options) -> Result<TestbedPlan> {
        TestbedPlan::with_binary(options, target_dir()?.join("debug/posthaste"))
    }

    fn with_binary(options: &Options, binary: PathBuf) -> Result<TestbedPlan> {
        let binary = options.posthaste.clone().unwrap_or(binary);
        let missing =
            || format!("{} is not there: build it, or name another by --posthaste", binary.display());
        ensure!(binary.is_file(), missing());
        Ok(TestbedPlan {
            store: options.store(),
            binary,
            keep: options.keep,
            nodes: 1,
            data_dir: None,
            database: None,
            database_addrs: Vec::new(),
            env: Vec::new(),
        })
    }

    /// So many nodes on one store, each with a folder, a port and a name of its own.
    pub(crate) fn nodes(mut self, nodes: usize) -> TestbedPlan {
        self.nodes = nodes;
        self
    }

    /// Keeps the node's files here, and not in a folder of its own.
    pub(crate) fn data_dir(mut self, dir: &Path) -> TestbedPlan {
        self.data_dir = Some(dir.to_owned());
        self
    }

    /// On this store, and not on one of its own.
    pub(crate) fn database(mut self, database: Database) -> TestbedPlan {
        self.database = Some(database);
        self
    }

    /// Reaches PostgreSQL by this address, which is a proxy's. Named again, it is the next node's way.
    pub(crate) fn database_addr(mut self, addr: SocketAddr) -> TestbedPlan {
        self.database_addrs.push(addr);
        self
    }

    /// A setting of all nodes.
    pub(crate) fn env(mut self, name: &str, value: &str) -> TestbedPlan {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A day of retention is so many seconds (None: a day), and what is old is looked for so often.
    pub(crate) fn short_retention(self, day_seconds: Option<u64>, every_seconds: u64) -> TestbedPlan {
        let plan = self.env("POSTHASTE_TEST", "1");
        let plan = plan.env("POSTHASTE_TEST_PRUNE_EVERY_SECONDS", &every_seconds.to_string());
        match day_seconds {
            Some(day) => plan.env("POSTHASTE_TEST_RETENTION_DAY_SECONDS", &day.to_string()),
            None => plan,
        }
    }

    /// Everything is there; no node is started yet.
    pub(crate) async fn build(self) -> Result<Testbed> {
        let parent = target_dir()?.join("checks");
        std::fs::create_dir_all(&parent)?;
        let mut dir = tempfile::Builder::new().prefix("testbed-").tempdir_in(&parent)?;
        dir.disable_cleanup(self.keep);
        let data_dir = self.data_dir.clone().unwrap_or_else(|| dir.path().join("data"));
        let database = match (&self.database, self.store) {
            (Some(database), _) => database.clone(),
            (None, StoreKind::Sqlite) => Database::Sqlite { file: data_dir.join("posthaste.db") },
            (None, StoreKind::Postgres) => Database::Postgres {
                server: PostgresServer::start().await?,
                schema: Some(format!("check_{:016x}", rand::random::<u64>())),
            },
        };
        let settings = dir.path().join("posthaste.toml");
        std::fs::write(&settings, "")?;
        let mut nodes = Vec::new();
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
            nodes.push(TestNode::new(format!("node-{at}"), addr, launch, client));
        }
        let (addr, client) = (nodes[0].addr, nodes[0].client.clone());
        let receiver = Receiver::local(Script::ok());
        Ok(Testbed { dir, database, addr, client, receiver, nodes, keep: self.keep })
    }

    /// Builds the testbed and starts every node.
    pub(crate) async fn start(self) -> Result<Testbed> {
        let mut testbed = self.build().await?;
        testbed.start_all().await?;
        Ok(testbed)
    }

    /// The same, and waits until the nodes share the shards.
    pub(crate) async fn start_balanced(self) -> Result<Testbed> {
        let mut testbed = self.start().await?;
        testbed.wait_until_balanced(Duration::from_secs(30)).await?;
        Ok(testbed)
    }

    fn database_url(&self, database: &Database, at: usize) -> Result<String> {
        let own = self.database_addrs.get(at).or(self.database_addrs.first());
        let (Some(server), Some(proxy)) = (database.server(), own) else { return Ok(database.url()) };
        Ok(database.url().replace(&server.addr()?.to_string(), &proxy.to_string()))
    }
}

/// Nodes with everything around them. Call [`Testbed::tear_down`] at the end.
pub(crate) struct Testbed {
    dir: TempDir,
    pub(crate) database: Database,
    pub(crate) addr: SocketAddr,
    pub(crate) client: Client,
    pub(crate) receiver: Receiver,
    pub(crate) nodes: Vec<TestNode>,
    keep: bool,
}

impl Testbed {
    /// Starts the node and says how long it took until it was ready.
    pub(crate) async fn start(&mut self) -> Result<Duration> {
        self.start_node(0).await
    }

    pub(crate) async fn start_node(&mut self, at: usize) -> Result<Duration> {
        self.launch_node(at)?;
        self.nodes[at].ready().await
    }

    /// Starts a node and does not wait for it.
    pub(crate) fn launch_node(&mut self, at: usize) -> Result<()> {
        let pid = self.nodes[at].launch(self.receiver.now_us())?;
        if self.nodes.len() > 1 {
            self.receiver.know_sender(pid);
        }
        Ok(())
    }

    /// All nodes; the first makes the schema, so the others wait for it.
    pub(crate) async fn start_all(&mut self) -> Result<()> {
        self.start().await?;
        for at in 1..self.nodes.len() {
            self.launch_node(at)?;
        }
        for node in &mut self.nodes[1..] {
            node.ready().await?;
        }
        Ok(())
    }

    /// kill -9; the fault is of the moment when it is certainly dead.
    pub(crate) async fn kill(&mut self) -> Result<Fault> {
        self.kill_node(0).await
    }

    pub(crate) async fn kill_node(&mut self, at: usize) -> Result<Fault> {
        let process = self.nodes[at].process_mut()?;
        let pid = process.pid();
        process.kill9().await?;
        Ok(Fault::new(FaultKind::Kill, self.receiver.now_us(), Some(pid)))
    }

    /// SIGSTOP; in force on return.
    pub(crate) async fn freeze_node(&self, at: usize) -> Result<Fault> {
        let process = self.nodes[at].process()?;
        process.freeze().await?;
        Ok(Fault::new(FaultKind::Freeze, self.receiver.now_us(), Some(process.pid())))
    }

    pub(crate) async fn thaw_node(&self, at: usize, freeze: &mut Fault) -> Result<()> {
        freeze.until_us = Some(self.receiver.now_us());
        Ok(self.nodes[at].process()?.thaw().await?)
    }

    /// SIGTERM, and waits for the end.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.nodes[0].stop().await
    }

    pub(crate) fn process(&self) -> Result<&ChildProcess> {
        self.nodes[0].process()
    }

    pub(crate) fn process_mut(&mut self) -> Result<&mut ChildProcess> {
        self.nodes[0].process_mut()
    }

    /// Whether every node that should be there is.
    pub(crate) fn is_running(&mut self) -> bool {
        self.nodes.iter_mut().all(TestNode::is_running)
    }

    pub(crate) fn must_be_running(&mut self, report: &mut Report) {
        report.must(self.is_running(), "a node exited");
    }

    /// The server of a check that is about PostgreSQL.
    pub(crate) fn server(&self) -> Result<PostgresServer> {
        self.database.server().cloned().context("this check needs PostgreSQL")
    }

    pub(crate) async fn wait_for_exit(&mut self, limit: Duration) -> bool {
        self.nodes[0].wait_for_exit(limit).await
    }

    /// Settings for the node's next start; None takes one away.
    pub(crate) fn set_env(&mut self, name: &str, value: Option<&str>) {
        self.nodes[0].set_env(name, value);
    }

    /// From its next start on, the node aborts when this failpoint is reached for the `at_hit`th time.
    pub(crate) fn abort_at(&mut self, failpoint: &str, at_hit: u64) {
        self.set_env("POSTHASTE_FAIL", Some(&format!("{failpoint}:abort:{at_hit}")));
    }

    /// Waits for that, and starts the node again without the failpoint. Says whether it was reached, and until when the
    /// node can have sent anything.
    pub(crate) async fn restart_after_abort(
        &mut self,
        failpoint: &str,
        limit: Duration,
        report: &mut Report,
    ) -> Result<(bool, u64)> {
        let died = self.wait_for_exit(limit).await;
        let at_us = self.receiver.now_us();
        let named = self.log().contains(&format!("failpoint {failpoint}"));
        report.must(!died || named, "it died of something else");
        self.set_env("POSTHASTE_FAIL", None);
        if !died {
            self.stop().await?;
        }
        self.start().await?;
        Ok((died, at_us))
    }

    pub(crate) fn launch(&self) -> &Launch {
        &self.nodes[0].launch
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn base_url(&self) -> String {
        self.nodes[0].base_url()
    }

    pub(crate) fn log(&self) -> String {
        self.nodes[0].log()
    }

    /// A destination of this name at the receiver, with the deadline and the pauses of all checks.
    pub(crate) fn destination(&self, name: &str) -> NewDestination {
        NewDestination {
            timeout_seconds: Some(3),
            retry_policy: retry_policy(&PAUSES),
            ..NewDestination::new(name, &self.receiver.url(&format!("/d/{name}")))
        }
    }

    pub(crate) fn destination_with_slots(&self, name: &str, slots: u32) -> NewDestination {
        NewDestination { max_concurrency: Some(slots), ..self.destination(name) }
    }

    /// The node's answer to a plain GET.
    pub(crate) async fn get(&self, path: &str) -> Result<raw_http::RawAnswer> {
        let request = raw_http::request("GET", path, &[], b"");
        Ok(raw_http::exchange(self.addr, &request, Duration::from_secs(3)).await?)
    }

    /// Makes a destination that gets what is published of these types, or everything if none is named.
    pub(crate) async fn add_destination(
        &self,
        plan: &NewDestination,
        event_types: &[&str],
    ) -> Result<DestinationId> {
        add_destination(&self.client, plan, event_types).await
    }

    /// Publishes events in one request, every one of which is accepted.
    pub(crate) async fn publish_all(&self, events: &[Publish<'_>]) -> Result<()> {
        let results = self.client.publish_batch(events).await?;
        let accepted = |result: &BatchResult| matches!(result, BatchResult::Accepted(_));
        ensure!(results.iter().all(accepted), "not all events were accepted");
        Ok(())
    }

    /// The same for so many of one type.
    pub(crate) async fn publish_copies(&self, event_type: &str, count: u64) -> Result<()> {
        self.publish_all(&vec![Publish::json(event_type, "{}")?; count as usize]).await
    }

    /// A producer that publishes with the account's key.
    pub(crate) fn publisher(&self, until: Until) -> PumpConfig {
        PumpConfig::new(Target::Publish { base: self.base_url(), key: API_KEY.into() }, until)
    }

    /// Waits until nothing waits any more, which must be so in time.
    pub(crate) async fn must_drain(&self, limit: Duration, report: &mut Report) -> Result<()> {
        report.must_be("left_in_queue", self.quiesce(limit).await?, 0);
        Ok(())
    }

    /// Waits until nothing waits any more; what is left when time is up.
    pub(crate) async fn quiesce(&self, limit: Duration) -> Result<u64> {
        let mut left = 0;
        becomes(limit, 100, async || {
            left = self.database.count("queue").await?;
            Ok(left == 0)
        })
        .await?;
        Ok(left)
    }

    /// How many shards each node owns, by the tables.
    pub(crate) async fn shards_by_node(&self) -> Result<Vec<u64>> {
        let sql = "select n.label, count(*) from shards s join nodes n on n.id = s.node_id group by n.label";
        let rows = self.database.rows(sql).await?;
        let share = |node: &TestNode| {
            let own = rows.iter().find(|row| row[0].text() == Some(&node.name));
            own.and_then(|row| row[1].number()).unwrap_or(0) as u64
        };
        Ok(self.nodes.iter().map(share).collect())
    }

    /// Waits until the running nodes share all shards evenly, and says how long that took.
    pub(crate) async fn wait_until_balanced(&mut self, limit: Duration) -> Result<Duration> {
        let began = Instant::now();
        if self.nodes.len() == 1 {
            return Ok(began.elapsed());
        }
        let running: Vec<bool> = self.nodes.iter_mut().map(TestNode::is_running).collect();
        loop {
            let shares = self.shards_by_node().await?;
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
    pub(crate) async fn tear_down(mut self) -> Result<()> {
        for node in &mut self.nodes {
            if let Ok(process) = node.process_mut() {
                process.kill9().await?;
            }
        }
        if self.keep {
            eprintln!("kept: {} and {}", self.dir.path().display(), self.database.url());
            return Ok(());
        }
        self.database.drop_schema().await
    }
}

/// Of whatever account the client acts for; see [`Testbed::add_destination`].
pub(crate) async fn add_destination(
    client: &Client,
    plan: &NewDestination,
    event_types: &[&str],
) -> Result<DestinationId> {
    let id = client.create_destination(plan).await?.id;
    let mut route = NewRoute::to(id);
    if !event_types.is_empty() {
        route.event_types = event_types.iter().map(|event_type| (*event_type).to_owned()).collect();
    }
    client.create_route(&route).await?;
    Ok(id)
}

/// With these pauses, in seconds.
pub(crate) fn retry_policy(pauses: &[u64]) -> RetrySettings {
    let schedule = pauses.iter().copied().map(Duration::from_secs).collect();
    RetrySettings { schedule: Some(schedule), ..RetrySettings::default() }
}

pub(crate) fn free_addr() -> Result<SocketAddr> {
    let shares = u32::from((PORTS.end - PORTS.start) / PORTS_EACH);
    let own = PORTS.start + (std::process::id() % shares) as u16 * PORTS_EACH;
    for _ in 0..PORTS_EACH {
        let port = own + rand::random::<u16>() % PORTS_EACH;
        let addr = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(addr).is_ok() {
            return Ok(addr);
        }
    }
    bail!("no free port between {own} and {}", own + PORTS_EACH)
}
