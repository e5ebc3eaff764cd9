//! PgBouncer between the nodes and PostgreSQL: transaction mode, and hardly any connection.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::ChildProcess;
use tokio::net::TcpStream;

use super::postgres_server::PostgresServer;
use super::testbed::free_addr;
use super::wait_until;

/// A running pooler, killed when dropped.
pub(crate) struct Pooler {
    pub(crate) addr: SocketAddr,
    log: PathBuf,
    _process: ChildProcess,
}

impl Pooler {
    /// In front of this server's database, with so many connections for all nodes together.
    pub(crate) async fn start(server: &PostgresServer, folder: &Path, pool: usize) -> Result<Pooler> {
        fs::create_dir_all(folder)?;
        let (addr, database) = (free_addr()?, server.addr()?);
        let log = folder.join("pgbouncer.log");
        let settings = folder.join("pgbouncer.ini");
        fs::write(
            &settings,
            format!(
                "[databases]\n* = host={} port={} user=posthaste\n[pgbouncer]\nlisten_addr = {}\nlisten_port = {}\n\
                 unix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = {pool}\n\
                 max_client_conn = 500\nserver_reset_query = discard all\nverbose = 0\n",
                database.ip(),
                database.port(),
                addr.ip(),
                addr.port(),
            ),
        )?;
        let path = settings.display().to_string();
        // It refuses to be root; root lends it the database's own user, as scripts/postgres does for the server.
        let args = if is_root()? { vec!["-u", "postgres", &path] } else { vec![path.as_str()] };
        if is_root()? {
            readable(folder, &settings)?;
        }
        let mut process = ChildProcess::start("pgbouncer", &args, &[], &log)
            .context("pgbouncer is needed (Debian's package of this name)")?;
        wait_until("pgbouncer does not come up", Duration::from_secs(10), 20, async || {
            let said = fs::read_to_string(&log).unwrap_or_default();
            ensure!(process.is_running(), "pgbouncer does not come up: {said}");
            Ok(TcpStream::connect(addr).await.is_ok())
        })
        .await?;
        Ok(Pooler { addr, log, _process: process })
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

fn is_root() -> Result<bool> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    Ok(line.and_then(|line| line.split_whitespace().nth(1)) == Some("0"))
}

fn readable(folder: &Path, settings: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    Ok(fs::set_permissions(settings, fs::Permissions::from_mode(0o644))?)
}
