//! nginx before a node, as most installations have it: connections to the node are kept, and bodies are handed on whole
//! (`buffered`) or as they come (`streamed`).

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use lab::ChildProcess;
use tokio::net::TcpStream;

use super::postgres_server::target_dir;
use super::testbed::free_addr;
use super::wait_until;

/// A running proxy, killed when dropped.
pub(crate) struct Nginx {
    pub(crate) buffered: SocketAddr,
    pub(crate) streamed: SocketAddr,
    log: PathBuf,
    _process: ChildProcess,
}

/// What it says when a node breaks off what it should have answered.
const BROKEN: [&str; 3] = ["prematurely closed", "reset by peer", "Broken pipe"];

impl Nginx {
    pub(crate) async fn start(node: SocketAddr, folder: &Path) -> Result<Nginx> {
        fs::create_dir_all(folder)?;
        let (buffered, streamed) = (free_addr()?, free_addr()?);
        ensure!(buffered != streamed, "two ports are needed");
        let (log, settings) = (folder.join("nginx.log"), folder.join("nginx.conf"));
        fs::write(&settings, configuration(node, buffered, streamed, folder))?;
        let path = settings.display().to_string();
        let program = program()?;
        let mut process = ChildProcess::start(&program, &["-e", "stderr", "-c", &path], &[], &log)
            .context("nginx is needed: scripts/check takes it out of Debian's package")?;
        wait_until("nginx does not come up", Duration::from_secs(10), 20, async || {
            let said = fs::read_to_string(&log).unwrap_or_default();
            ensure!(process.is_running(), "nginx does not come up: {said}");
            Ok(TcpStream::connect(buffered).await.is_ok() && TcpStream::connect(streamed).await.is_ok())
        })
        .await?;
        Ok(Nginx { buffered, streamed, log, _process: process })
    }

    /// With their names.
    pub(crate) fn ways(&self) -> [(&'static str, SocketAddr); 2] {
        [("buffered", self.buffered), ("streamed", self.streamed)]
    }

    /// Lines that tell of an answer that was broken off, or never given, on a connection that the node had taken.
    pub(crate) fn broken_answers(&self) -> Vec<String> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let is_broken = |line: &&str| BROKEN.iter().any(|word| line.contains(word));
        log.lines().filter(is_broken).map(str::to_owned).collect()
    }
}

/// On the PATH, or where `scripts/check` has put it.
fn program() -> Result<String> {
    let kept = target_dir()?.join("nginx/nginx");
    Ok(if kept.is_file() { kept.display().to_string() } else { "nginx".into() })
}

fn configuration(node: SocketAddr, buffered: SocketAddr, streamed: SocketAddr, folder: &Path) -> String {
    let folder = folder.display();
    let server = |listen: SocketAddr, buffering: &str| {
        format!(
            "server {{ listen {listen}; location / {{ proxy_pass http://node; proxy_http_version 1.1; \
             proxy_set_header connection \"\"; proxy_set_header host $host; proxy_request_buffering {buffering}; }} }}\n"
        )
    };
    // One process, as whoever runs the check: the folder is nobody else's.
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 1024; }}\nhttp {{\naccess_log off;\nclient_max_body_size 0;\n\
         client_body_temp_path {folder}/body;\nproxy_temp_path {folder}/proxy;\nfastcgi_temp_path {folder}/fastcgi;\n\
         uwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n\
         upstream node {{ server {node}; keepalive 16; }}\n{}{}}}\n",
        server(buffered, "on"),
        server(streamed, "off"),
    )
}
