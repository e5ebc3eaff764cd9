//! The checks' own PostgreSQL server: `scripts/postgres` with a folder apart from the tests', because a check may
//! crash it at any moment.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::process::{ProcessStat, family_cpu_time};
use tokio::process::Command;

/// A running server.
#[derive(Debug, Clone)]
pub(crate) struct PostgresServer {
    url: String,
    home: PathBuf,
}

impl PostgresServer {
    /// Starts it unless it runs; it stays up afterwards, `scripts/check` stops it.
    pub(crate) async fn start() -> Result<PostgresServer> {
        let home = target_dir()?.join("checks-postgres");
        let url = script(&home, "start").await?;
        Ok(PostgresServer { url, home })
    }

    /// `postgres://user@host:port/name`
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The folder with its files.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    pub(crate) fn addr(&self) -> Result<SocketAddr> {
        let (_, rest) = self.url.split_once('@').context("the server's URL has a user")?;
        let (addr, _) = rest.split_once('/').context("the server's URL has a database")?;
        Ok(addr.parse()?)
    }

    /// As a power cut would.
    pub(crate) async fn crash(&self) -> Result<()> {
        script(&self.home, "crash").await.map(|_| ())
    }

    /// Returns when the server takes connections.
    pub(crate) async fn resume(&self) -> Result<()> {
        script(&self.home, "resume").await.map(|_| ())
    }

    /// The same server with another, new database.
    pub(crate) async fn with_new_database(&self) -> Result<PostgresServer> {
        let name = format!("check_{:016x}", rand::random::<u64>());
        self.execute(&format!("create database {name}")).await?;
        let (place, _) = self.url.rsplit_once('/').context("the server's URL has a database")?;
        Ok(PostgresServer { url: format!("{place}/{name}"), home: self.home.clone() })
    }

    /// Drops the database that [`PostgresServer::with_new_database`] has made, whatever connections it still has.
    pub(crate) async fn drop_database(&self) -> Result<()> {
        let (place, name) = self.url.rsplit_once('/').context("the server's URL has a database")?;
        let other = PostgresServer { url: format!("{place}/postgres"), home: self.home.clone() };
        other.execute(&format!("drop database if exists {name} with (force)")).await
    }

    /// A statement for the server itself, such as `alter system`: each by itself, outside any transaction.
    pub(crate) async fn execute(&self, sql: &str) -> Result<()> {
        let client = super::database::connect(&self.url).await?;
        client.batch_execute(sql).await.with_context(|| sql.to_owned())
    }

    /// The one number a statement gives.
    pub(crate) async fn number(&self, sql: &str) -> Result<i64> {
        let client = super::database::connect(&self.url).await?;
        Ok(client.query_one(sql, &[]).await.with_context(|| sql.to_owned())?.get(0))
    }

    /// CPU time of the whole server since its start.
    pub(crate) async fn cpu_time(&self) -> Result<Duration> {
        let client = super::database::connect(&self.url).await?;
        let backend: i32 = client.query_one("select pg_backend_pid()", &[]).await?.get(0);
        let postmaster = ProcessStat::of(backend as u32)?.parent;
        Ok(family_cpu_time(postmaster)?)
    }
}

async fn script(home: &Path, command: &str) -> Result<String> {
    let script = root().join("scripts/postgres");
    let run = Command::new(&script).arg(command).env("POSTHASTE_TEST_PG_DIR", home).output().await?;
    let complaint = String::from_utf8_lossy(&run.stderr);
    ensure!(run.status.success(), "scripts/postgres {command}: {}", complaint.trim());
    Ok(String::from_utf8_lossy(&run.stdout).trim().to_owned())
}

/// The repository: checks are run from its build output and never shipped.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Where cargo put us, profile and all left out.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let exe = std::env::current_exe()?;
    let dir = exe.ancestors().nth(2).context("the checks are run from cargo's target folder")?;
    Ok(dir.to_owned())
}
