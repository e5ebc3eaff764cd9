//! A node under test: the binary in a temporary folder, on a free port, on SQLite or in a schema of its own.

use client::{Client, DeliveryView, NewDestination, NewRoute};
use domain::{delivery::Status, id::EventId};
use std::{
    path::{Path, PathBuf},
    process::{ExitStatus, Output, Stdio},
    time::Duration,
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

/// Generous: the machine may be busy with other tests. Promises about time say their own.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Database {
    Sqlite,
    Postgres,
}

/// A folder to run in. What the surrounding environment says about Posthaste does not count here.
pub(crate) struct Place {
    folder: TempDir,
    database: Option<String>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::on(Database::Sqlite)
    }

    pub(crate) fn on(database: Database) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let database = (database == Database::Postgres).then(|| {
            let name = folder.path().file_name().and_then(|name| name.to_str()).expect("a plain name");
            let schema: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
            format!("{}?schema=binary_{}", postgres(), schema.to_lowercase())
        });
        Self { folder, database }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.path().join("posthaste-data")
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null()).kill_on_drop(true);
        for (name, _) in std::env::vars().filter(|(name, _)| {
            name.starts_with("POSTHASTE_") || name.starts_with("OTEL_") || name == "DATABASE_URL"
        }) {
            command.env_remove(name);
        }
        command.env("POSTHASTE_LOG", "warn");
        if let Some(database) = &self.database {
            command.env("POSTHASTE_DATABASE", database);
        }
        command
    }

    /// Runs a command to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        output(self.command(arguments)).await
    }

    /// Runs it and gives its first line; it must have ended well.
    pub(crate) async fn line(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        text(&output.stdout).lines().next().unwrap_or_default().to_owned()
    }

    /// `serve --dev`, until it says that it is serving.
    pub(crate) async fn dev(&self) -> Node {
        Node::start(self.command(&["serve", "--dev", "--listen", "127.0.0.1:0"])).await
    }
}

impl Drop for Place {
    /// A schema left behind would be in nobody's way, but there are many tests.
    fn drop(&mut self) {
        let Some((server, schema)) = self.database.as_ref().and_then(|url| url.split_once("?schema=")) else {
            return;
        };
        let (server, drop_schema) = (server.to_owned(), format!("drop schema if exists {schema} cascade"));
        let dropped = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&server, tokio_postgres::NoTls).await?;
                tokio::spawn(connection);
                client.batch_execute(&drop_schema).await
            })
        });
        if let Ok(Err(error)) = dropped.join() {
            eprintln!("a schema stays behind: {error}");
        }
    }
}

fn postgres() -> String {
    std::env::var("POSTHASTE_TEST_POSTGRES").expect(
        "these tests need PostgreSQL: run `scripts/postgres with cargo test`, which sets POSTHASTE_TEST_POSTGRES",
    )
}

pub(crate) async fn output(mut command: Command) -> Output {
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
    timeout(LONG, running).await.expect("the command ends").expect("the command starts")
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("what the binary prints is text")
}

/// A running server.
pub(crate) struct Node {
    child: Child,
    /// Kept open: a process whose reader is gone would stumble over its next line.
    stdout: Lines<BufReader<ChildStdout>>,
    /// Empty if it was asked to greet in JSON.
    pub(crate) url: String,
    /// Everything it printed until it was serving.
    pub(crate) greeting: Vec<String>,
}

impl Node {
    /// Starts a `serve` and reads its greeting; with `--dev` this ends with the curl line.
    pub(crate) async fn start(command: Command) -> Self {
        let asked = |flag| command.as_std().get_args().any(|argument| argument == flag);
        let last = match (asked("--json"), asked("--dev")) {
            (true, _) => "{",
            (false, true) => "curl ",
            (false, false) => "Posthaste ",
        };
        Self::start_until(command, last).await
    }

    /// Starts it and reads what it prints, up to the line that begins like this.
    pub(crate) async fn start_until(mut command: Command, last: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("piped above")).lines();
        let mut greeting = Vec::new();
        timeout(LONG, async {
            while !greeting.last().is_some_and(|line: &String| line.starts_with(last)) {
                let line = stdout.next_line().await.expect("its output is text");
                greeting.push(line.unwrap_or_else(|| panic!("it ended early, after {greeting:?}")));
            }
        })
        .await
        .expect("it serves in time");
        let url = greeting.iter().find_map(|line| line.split_once("listening on "));
        let url = url.map(|(_, url)| url.to_owned()).unwrap_or_default();
        Self { child, stdout, url, greeting }
    }

    /// The key in the curl line of `--dev`.
    pub(crate) fn key(&self) -> String {
        let line = self.greeting.last().expect("the curl line");
        let (_, rest) = line.split_once("Bearer ").expect("it has a key");
        rest.split('\'').next().expect("the key is quoted").to_owned()
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.url, &self.key()).expect("the URL is one")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().expect("it is running")
    }

    /// SIGKILL: nothing is said, nothing is flushed.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it was running");
    }

    /// SIGTERM, or another; gives its last word.
    pub(crate) async fn signal(&mut self, name: &str) -> ExitStatus {
        self.tell(name).await;
        self.ended().await
    }

    pub(crate) async fn tell(&self, name: &str) {
        let killed = Command::new("sh").args(["-c", &format!("kill -{name} {}", self.pid())]).status().await;
        assert!(killed.expect("a shell").success());
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let ended = timeout(LONG, async {
            while let Ok(Some(_)) = self.stdout.next_line().await {}
            self.child.wait().await
        });
        ended.await.expect("it ends").expect("it was a child of ours")
    }
}

/// A destination at this URL and a route for everything published.
pub(crate) async fn deliver_to(client: &Client, url: &str) -> client::DestinationView {
    let destination =
        client.create_destination(&NewDestination::new("test", url)).await.expect("a destination");
    client.create_route(&NewRoute::to(destination.id)).await.expect("a route");
    destination
}

/// Waits until every delivery of an event has ended, and gives them.
pub(crate) async fn ended(client: &Client, event: EventId) -> Vec<DeliveryView> {
    let asking = async {
        loop {
            let deliveries = client.event(event).await.expect("the event is there").deliveries;
            let open = |delivery: &DeliveryView| {
                matches!(delivery.status, Status::Queued | Status::Delivering | Status::RetryScheduled)
            };
            if !deliveries.iter().any(open) {
                return deliveries;
            }
            // The API has no signal for this yet: ask again.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, asking).await.expect("the deliveries end")
}
