//! A real child process for checks: start it, await its readiness, kill it, freeze it, measure it.
//!
//! Linux only, by way of `/proc` and `kill`. Output goes to a log file, which outlives the node and is what
//! one reads when a check fails.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::peers;

/// Short beside any start-up time worth measuring, long enough to leave the node the CPU.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How to start a process; kept, so that it can be started again just so.
#[derive(Debug, Clone)]
pub struct Launch {
    /// A command that runs it, such as `taskset -c 0`; mostly none.
    pub through: Vec<String>,
    pub binary: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Standard output and error are appended here.
    pub log_file: PathBuf,
}

/// A child process, killed when dropped.
#[derive(Debug)]
pub struct ChildProcess {
    launch: Launch,
    child: Child,
    pid: u32,
    started: Instant,
}

impl ChildProcess {
    pub fn start(
        binary: impl Into<PathBuf>,
        args: &[&str],
        env: &[(&str, &str)],
        log_file: impl Into<PathBuf>,
    ) -> io::Result<ChildProcess> {
        ChildProcess::launch(Launch {
            through: Vec::new(),
            binary: binary.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            log_file: log_file.into(),
        })
    }

    /// Must be called inside a tokio runtime, as all of tokio's processes.
    pub fn launch(launch: Launch) -> io::Result<ChildProcess> {
        let log = OpenOptions::new().create(true).append(true).open(&launch.log_file)?;
        let mut words = launch.through.iter().map(OsStr::new).chain([launch.binary.as_os_str()]);
        let child = Command::new(words.next().unwrap_or_default())
            .args(words)
            .args(&launch.args)
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("the process ended before it began"))?;
        Ok(ChildProcess { launch, child, pid, started: Instant::now() })
    }

    /// How it was started, to start it so again.
    pub fn launched_as(&self) -> &Launch {
        &self.launch
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    pub fn log_file(&self) -> &Path {
        &self.launch.log_file
    }

    /// Asks `GET path` until it answers 200 and says how long that took since the start. Ends early if the
    /// process does.
    pub async fn wait_until_serving(
        &mut self,
        addr: SocketAddr,
        path: &str,
        limit: Duration,
    ) -> io::Result<Duration> {
        while self.started.elapsed() < limit {
            if get_status(addr, path, Duration::from_secs(1)).await.ok() == Some(200) {
                return Ok(self.started.elapsed());
            }
            if let Some(status) = self.child.try_wait()? {
                let log = self.launch.log_file.display();
                return Err(io::Error::other(format!("the process ended with {status}; see {log}")));
            }
            sleep(LOOK_EVERY).await;
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, format!("no 200 from {addr}{path} within {limit:?}")))
    }

    /// SIGKILL, and waits until the kernel has closed its sockets.
    pub async fn kill9(&mut self) -> io::Result<()> {
        if self.is_running() { self.child.kill().await } else { Ok(()) }
    }

    /// SIGTERM, then waits; None if it is still there after `grace`.
    pub async fn stop(&mut self, grace: Duration) -> io::Result<Option<ExitStatus>> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(Some(status));
        }
        self.terminate().await?;
        self.wait(grace).await
    }

    /// SIGTERM, without waiting for anything.
    pub async fn terminate(&self) -> io::Result<()> {
        signal(self.pid, "TERM").await
    }

    /// Waits until it has ended; None if it is still there after `limit`.
    pub async fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        timeout(limit, self.child.wait()).await.ok().transpose()
    }

    /// SIGSTOP: it keeps its sockets and what it believes, and answers nothing. In force on return.
    pub async fn freeze(&self) -> io::Result<()> {
        signal(self.pid, "STOP").await?;
        // A signal is only posted; on a busy machine the process may run on for a while, and would even
        // take a SIGTERM sent later first.
        loop {
            match ProcessStat::of(self.pid)?.state {
                'T' => return Ok(()),
                'Z' | 'X' => return Err(io::Error::other("the process has ended")),
                _ => sleep(LOOK_EVERY).await,
            }
        }
    }

    pub async fn thaw(&self) -> io::Result<()> {
        signal(self.pid, "CONT").await
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub fn cpu_time(&self) -> io::Result<Duration> {
        Ok(ProcessStat::of(self.pid)?.cpu_time)
    }

    pub fn rss_bytes(&self) -> io::Result<u64> {
        rss_bytes(self.pid)
    }
}

/// The status of one `GET`, on a connection of its own.
pub async fn get_status(addr: SocketAddr, path: &str, limit: Duration) -> io::Result<u16> {
    let exchange = async {
        let mut stream = TcpStream::connect(addr).await?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {addr}\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        let status = std::str::from_utf8(&head[9..]).ok().and_then(|status| status.parse().ok());
        status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not an HTTP answer"))
    };
    timeout(limit, exchange).await?
}

/// What `/proc/<pid>/stat` says.
#[derive(Debug, Clone, Copy)]
pub struct ProcessStat {
    /// `T`: stopped; `Z` and `X`: dead.
    pub state: char,
    pub parent: u32,
    /// User and system time of all its threads, in steps of 10 ms.
    pub cpu_time: Duration,
    /// The same of its children that have ended.
    pub reaped_cpu_time: Duration,
}

impl ProcessStat {
    pub fn of(pid: u32) -> io::Result<ProcessStat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // The state is the third field: the name before it may hold anything.
        let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse().ok()).unwrap_or(0u64);
        // USER_HZ is 100 on every Linux, whatever the kernel's own HZ.
        let time = |user: usize| Duration::from_millis((number(user) + number(user + 1)) * 10);
        let state = fields.first().and_then(|state| state.chars().next()).unwrap_or('X');
        let parent = number(1) as u32;
        Ok(ProcessStat { state, parent, cpu_time: time(11), reaped_cpu_time: time(13) })
    }
}

/// Resident memory of a process.
pub fn rss_bytes(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| io::Error::other("no VmRSS: a dead process or not Linux"))
}

/// How many files and sockets a process has open.
pub fn descriptors(pid: u32) -> io::Result<u64> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64)
}

/// The port at the other end of every TCP connection of version 4 that a process has open.
pub fn called_ports(pid: u32) -> Vec<u16> {
    peers::called_ports(pid)
}

/// The process that listens on this port, if we may see it: of several that share it the oldest.
pub fn listener(port: u16) -> Option<u32> {
    peers::listeners(port).into_iter().min()
}

/// CPU time of a process and of all its children, those that have ended included.
pub fn family_cpu_time(parent: u32) -> io::Result<Duration> {
    let own = ProcessStat::of(parent)?;
    let mut sum = own.cpu_time + own.reaped_cpu_time;
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may end while we look.
        match ProcessStat::of(pid) {
            Ok(stat) if stat.parent == parent => sum += stat.cpu_time,
            _ => {}
        }
    }
    Ok(sum)
}

/// CPU time of the calling thread; zero where the kernel does not say.
pub(crate) fn thread_cpu() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

async fn signal(pid: u32, name: &str) -> io::Result<()> {
    // The shell's own kill: a small image may lack the program.
    let status = Command::new("sh").arg("-c").arg(format!("kill -{name} {pid}")).status().await?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("kill -{name} {pid}: {status}"))) }
}
