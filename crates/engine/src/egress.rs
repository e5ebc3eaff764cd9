//! The only way out of the process: resolve, vet every address, connect to a vetted one, speak TLS to the name.
//!
//! Resolution and judgement are one step, so a name that changes its answer between them has no window. The rule
//! itself is [`domain::address`]; nothing else in the engine or the API may open a connection (a lint says so).

mod link;
mod tls;

pub(crate) use link::Fence;
pub use link::{Duplex, Link, LinkFacts};
pub use tls::TlsFault;

use crate::{membership::Lease, transport::ConnectionFacts};
use async_trait::async_trait;
use domain::{address::AddressPolicy, limits, outcome::Fault};
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::{
    future::Future,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};

/// Turns a name into addresses.
#[async_trait]
pub trait Resolve: Send + Sync {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, EgressError>;
}

/// Opens a connection to an address that has been vetted.
#[async_trait]
pub trait Dial: Send + Sync {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Duplex>>;
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum EgressError {
    #[error("the destination's address is not allowed")]
    Blocked,
    #[error("the destination's name could not be resolved")]
    Dns,
    #[error("the destination could not be reached")]
    Connect,
    #[error("no connection within {0} s")]
    ConnectTimeout(u64),
    #[error("the connection was closed before TLS was agreed on")]
    Cut,
    #[error("TLS: {0}")]
    Tls(TlsFault),
}

impl EgressError {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Self::Blocked => Fault::BlockedTarget,
            Self::Dns => Fault::Dns,
            Self::Connect => Fault::Refused,
            Self::ConnectTimeout(_) => Fault::ConnectTimeout,
            Self::Cut => Fault::Reset,
            Self::Tls(_) => Fault::Tls,
        }
    }
}

/// The connector of the HTTP client, and what the dialers of other kinds connect through.
#[derive(Clone)]
pub struct Egress {
    connector: Arc<GuardedConnector>,
    fence: Option<Fence>,
}

/// How a connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    Plain,
    Tls,
}

struct GuardedConnector {
    policy: Arc<AddressPolicy>,
    resolver: Arc<dyn Resolve>,
    dialer: Arc<dyn Dial>,
    tls: tokio_rustls::TlsConnector,
    /// The same, for a server that may ask what is to be spoken.
    https: tokio_rustls::TlsConnector,
    connect_timeout: Duration,
}

impl Egress {
    pub fn new(
        policy: Arc<AddressPolicy>,
        resolver: Arc<dyn Resolve>,
        dialer: Arc<dyn Dial>,
        connect_timeout: Duration,
    ) -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = tls::client_config(provider)?;
        let mut https = tls.clone();
        https.alpn_protocols = vec![b"http/1.1".to_vec()];
        let [tls, https] = [tls, https].map(|config| tokio_rustls::TlsConnector::from(Arc::new(config)));
        let connector = GuardedConnector { policy, resolver, dialer, tls, https, connect_timeout };
        Ok(Self { connector: Arc::new(connector), fence: None })
    }

    /// Writes nothing once the lease has ended: not the first byte of a request whose connection took long to make,
    /// and not the rest of one that was begun in time.
    pub(crate) fn under(self, lease: Arc<Lease>) -> Self {
        Self { fence: Some(Fence::Lease(lease)), ..self }
    }

    /// A connection for a protocol other than HTTP. The host is judged by the same rules as that of a URL.
    pub(crate) async fn open(
        &self,
        host: &str,
        port: u16,
        security: Security,
        fence: Fence,
    ) -> Result<Link, EgressError> {
        // As the URL of this host would be: an operator that allows it for one protocol allows it for all.
        let scheme = if security == Security::Tls { "https" } else { "http" };
        let url = self.connector.check(&format!("{scheme}://{host}:{port}/"))?;
        self.connector.connect(url, &self.connector.tls, Some(fence)).await
    }
}

impl GuardedConnector {
    /// The URL was checked when the destination was written; a row edited by hand passes here first.
    fn check(&self, url: &str) -> Result<url::Url, EgressError> {
        self.policy.check_url(url).map_err(|_| EgressError::Blocked)
    }

    async fn connect(
        &self,
        url: url::Url,
        tls: &tokio_rustls::TlsConnector,
        fence: Option<Fence>,
    ) -> Result<Link, EgressError> {
        let port = url.port_or_known_default().ok_or(EgressError::Blocked)?;
        let host = url.host().ok_or(EgressError::Blocked)?.to_owned();
        let started = Instant::now();
        let (addresses, dns) = match &host {
            url::Host::Ipv4(address) => (vec![IpAddr::V4(*address)], None),
            url::Host::Ipv6(address) => (vec![IpAddr::V6(*address)], None),
            url::Host::Domain(name) => (self.resolve(name).await?, Some(started.elapsed())),
        };
        if addresses.is_empty() {
            return Err(EgressError::Dns);
        }
        // One forbidden answer rejects the whole name.
        if !addresses.iter().all(|address| self.policy.permits(*address)) {
            return Err(EgressError::Blocked);
        }
        let started = Instant::now();
        let stream = self.dial(&addresses, port).await?;
        let connect = Some(started.elapsed());
        if url.scheme() != "https" {
            let facts = ConnectionFacts { reused: false, dns, connect, tls: None };
            return Ok(Link::new(stream, facts, fence));
        }
        let started = Instant::now();
        let name = match host {
            url::Host::Domain(name) => {
                ServerName::try_from(name).map_err(|_| EgressError::Tls(TlsFault::WrongName))?
            }
            url::Host::Ipv4(address) => ServerName::from(IpAddr::V4(address)),
            url::Host::Ipv6(address) => ServerName::from(IpAddr::V6(address)),
        };
        let stream = tls.connect(name, stream).await.map_err(|error| tls::handshake_error(&error))?;
        let tls = Some(started.elapsed());
        let facts = ConnectionFacts { reused: false, dns, connect, tls };
        Ok(Link::new(Box::new(stream), facts, fence))
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, EgressError> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name == "localhost" {
            return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        }
        let mut addresses = timeout(limits::DNS_TIMEOUT, self.resolver.resolve(name))
            .await
            .map_err(|_| EgressError::Dns)??;
        addresses.truncate(limits::DNS_ADDRESSES);
        Ok(addresses)
    }

    /// The first address that answers. They share the time there is.
    async fn dial(&self, addresses: &[IpAddr], port: u16) -> Result<Box<dyn Duplex>, EgressError> {
        let attempts = async {
            let mut last = EgressError::Connect;
            for (tried, address) in addresses.iter().enumerate() {
                let share = self.connect_timeout / (addresses.len() - tried) as u32;
                match timeout(share, self.dialer.dial(SocketAddr::new(*address, port))).await {
                    Ok(Ok(stream)) => return Ok(stream),
                    Ok(Err(_)) => last = EgressError::Connect,
                    Err(_) => last = EgressError::ConnectTimeout(self.connect_timeout.as_secs()),
                }
            }
            Err(last)
        };
        timeout(self.connect_timeout, attempts)
            .await
            .unwrap_or(Err(EgressError::ConnectTimeout(self.connect_timeout.as_secs())))
    }
}

impl tower_service::Service<Uri> for Egress {
    type Response = TokioIo<Link>;
    type Error = EgressError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Link>, EgressError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), EgressError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connector, fence) = (Arc::clone(&self.connector), self.fence.clone());
        Box::pin(async move {
            let url = connector.check(&uri.to_string())?;
            let link = connector.connect(url, &connector.https, fence).await?;
            Ok(TokioIo::new(link.reading_early_answers()))
        })
    }
}

/// Plain TCP, without Nagle's delay.
pub struct TcpDialer;

#[async_trait]
impl Dial for TcpDialer {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Duplex>> {
        #[expect(clippy::disallowed_methods, reason = "this is the one place: the address has been vetted")]
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        // The rule was about this very address; a transparent redirect would lead to another.
        if stream.peer_addr()? != address {
            return Err(io::Error::other("connected to another address than the one vetted"));
        }
        Ok(Box::new(stream))
    }
}

/// Our own resolver: asynchronous, cached by TTL, without search list or hosts file.
pub struct HickoryResolver(hickory_resolver::TokioResolver);

impl HickoryResolver {
    pub fn from_system() -> Option<Self> {
        let mut builder = hickory_resolver::TokioResolver::builder_tokio().ok()?;
        builder.options_mut().use_hosts_file = hickory_resolver::config::ResolveHosts::Never;
        builder.build().ok().map(Self)
    }
}

#[async_trait]
impl Resolve for HickoryResolver {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, EgressError> {
        let found = self.0.lookup_ip(format!("{host}.")).await.map_err(|_| EgressError::Dns)?;
        Ok(found.iter().collect())
    }
}

/// The operating system's resolver, for names that only it knows.
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, EgressError> {
        let found = tokio::net::lookup_host((host, 0)).await.map_err(|_| EgressError::Dns)?;
        Ok(found.map(|address| address.ip()).collect())
    }
}
