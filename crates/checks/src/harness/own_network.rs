//! A network of the check's own, with nothing but loopback in it, and every address there is on that: what must never
//! be called can be listened at, the public internet can be played, and nothing leaves the machine.
//!
//! | module | what it is |
//! |---|---|
//! | [`canaries`] | listeners at every address: whoever calls one is written down |
//! | [`name_server`] | a name server that says what a check has it say |

pub(crate) mod canaries;
pub(crate) mod name_server;

use std::convert::Infallible;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use tokio_rustls::rustls::ServerConfig;

use super::hostile::HostileReceiver;
use super::hostile::certificates::Certificates;
use super::hostile::conduct::{Conduct, Door};
use super::{Options, Report, Testbed, TestbedPlan};
use canaries::Canaries;
use name_server::{NameServer, Said};

/// Addresses that the guard takes for the public internet.
pub(crate) const PUBLIC: Ipv4Addr = Ipv4Addr::new(11, 22, 33, 44);
pub(crate) const PUBLIC_TOO: Ipv4Addr = Ipv4Addr::new(11, 22, 33, 45);
pub(crate) const PUBLIC_V6: Ipv6Addr = Ipv6Addr::new(0x2600, 0, 0, 0, 0, 0, 0, 0x44);
/// A name that leads there.
pub(crate) const GOOD_NAME: &str = "good.example";
/// Of https.
pub(crate) const PORT: u16 = 443;

/// Says that this process is to find itself in a network of its own.
const INSIDE: &str = "CHECKS_OWN_NETWORK";

/// Everything around a node that must be kept from calling what it may not: canaries wherever it may not call, a
/// receiver where it may, a name server and an authority that it trusts.
pub(crate) struct OwnNetwork {
    pub(crate) canaries: Canaries,
    pub(crate) names: NameServer,
    pub(crate) receiver: HostileReceiver,
    certificates: Certificates,
    tls: Arc<ServerConfig>,
}

impl OwnNetwork {
    /// Starts this program again in a network of its own, unless it is there; needs root. Canaries listen at these
    /// ports, and at that of https; the certificates are good for these names too. [`GOOD_NAME`] needs no script.
    pub(crate) async fn enter(
        ports: &[u16],
        names: &[&str],
        script: impl Fn(&str, u64) -> Said + Send + 'static,
    ) -> Result<OwnNetwork> {
        if std::env::var_os(INSIDE).is_none() {
            match start_again_inside()? {}
        }
        set_up()?;
        let names_server = NameServer::start(move |name, nth| match name {
            GOOD_NAME => Said::addresses([PUBLIC.into()]),
            name => script(name, nth),
        })
        .await?;
        let certificates = Certificates::make()?;
        let own = [PUBLIC.to_string(), PUBLIC_TOO.to_string(), PUBLIC_V6.to_string(), GOOD_NAME.to_owned()];
        let tls =
            certificates.good_for(own.into_iter().chain(names.iter().map(|name| (*name).to_owned())))?;
        let canaries = Canaries::listen([&[PORT], ports].concat()).await?;
        let ok = ok().behind(Door::Tls(tls.clone()));
        let receiver = HostileReceiver::start_at(&ok, SocketAddr::from((PUBLIC, PORT))).await?;
        Ok(OwnNetwork { canaries, names: names_server, receiver, certificates, tls })
    }

    /// Another receiver, at an address of its own, that answers like this over TLS.
    pub(crate) async fn receiver_at(&self, addr: SocketAddr, conduct: Conduct) -> Result<HostileReceiver> {
        Ok(HostileReceiver::start_at(&conduct.behind(Door::Tls(self.tls.clone())), addr).await?)
    }

    /// A node with the rules for addresses that it has when it is told nothing about them.
    pub(crate) fn plan(&self, options: &Options) -> Result<TestbedPlan> {
        let plan = TestbedPlan::new(options)?.env("SSL_CERT_FILE", self.certificates.file()?);
        Ok(plan.env("POSTHASTE_EGRESS_ALLOW", "").env("POSTHASTE_EGRESS_ALLOW_HTTP", "false"))
    }

    /// The end of each check in here.
    pub(crate) fn must_be_silent(&self, testbed: &mut Testbed, report: &mut Report) {
        let called = self.canaries.called();
        report.must_be("connections_to_canaries", called.len(), 0);
        report.must(called.is_empty(), format!("called: {:?}", &called[..called.len().min(12)]));
        testbed.must_be_running(report);
        report.must(!testbed.log().contains("panicked"), "something panicked: see the log");
    }
}

/// Answers each request with 200 and keeps the connection.
pub(crate) fn ok() -> Conduct {
    Conduct::says("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
}

fn start_again_inside() -> Result<Infallible> {
    let is_root = std::fs::metadata("/proc/self")?.uid() == 0;
    ensure!(is_root, "this check makes a network of its own, for which it has to be run as root");
    let mut again = Command::new("unshare");
    again.args(["--net", "--mount", "--"]).arg(std::env::current_exe()?).args(std::env::args_os().skip(1));
    Err(again.env(INSIDE, "1").exec()).context("unshare could not be started")
}

/// All addresses lead to loopback, and questions for names to our own server.
fn set_up() -> Result<()> {
    let interfaces = std::fs::read_to_string("/proc/net/dev")?;
    let others = interfaces.lines().skip(2).any(|line| !line.trim_start().starts_with("lo:"));
    ensure!(!others, "{INSIDE} is set, and this is not a network of our own");
    run("ip", &["link", "set", "lo", "up"])?;
    run("ip", &["route", "add", "local", "0.0.0.0/0", "dev", "lo"])?;
    run("ip", &["-6", "route", "add", "local", "::/0", "dev", "lo"])?;
    let settings = tempfile::NamedTempFile::new()?;
    std::fs::write(settings.path(), format!("nameserver {}\n", name_server::ADDR.ip()))?;
    // Only in our own mount namespace; what is mounted stays when the file has gone.
    run("mount", &["--bind", settings.path().to_str().context("a path of text")?, "/etc/resolv.conf"])
}

fn run(program: &str, args: &[&str]) -> Result<()> {
    let run = Command::new(program).args(args).output().with_context(|| program.to_owned())?;
    if !run.status.success() {
        bail!("{program} {}: {}", args.join(" "), String::from_utf8_lossy(&run.stderr).trim());
    }
    Ok(())
}
