//! The only way out of the process: resolve, vet every address, connect to a vetted one, speak TLS to the name.
//!
//! The rule itself is [`domain::address`]; [`resolutions`] asks it of every address a name has, and says which connections
//! may be used again; [`proxy`] is the way through the operator's proxy, if there is one. Nothing else in the engine, the
//! API or the binary may open a connection or resolve a name (a lint says so).

mod dialer;
mod identity;
mod link;
mod location;
mod operator_client;
mod proxy;
mod resolutions;
mod resolver;
mod tls;

pub use dialer::{Dial, TcpDialer};
pub use identity::ClientIdentity;
pub use link::{Duplex, Link, LinkFacts};
pub(crate) use link::{Fence, LinkCount};
pub(crate) use location::{ConnectionKey, Location};
pub use operator_client::{OperatorClient, OperatorClientError};
pub use proxy::{Proxy, ProxyUrlError};
pub use resolver::{HickoryResolver, Resolve, SystemResolver};
pub use tls::TlsFault;

use crate::{membership::Lease, transport::ConnectionFacts};
use domain::{
    address::AddressPolicy,
    outcome::{FailureKind, Fault},
};
use futures_util::future::BoxFuture;
use http::{Uri, uri::Scheme};
use hyper_util::rt::TokioIo;
use identity::Identities;
use proxy::{Endpoint, ProxyTunnels};
use resolutions::{Addresses, HostKey, Resolution, Resolutions};
use rustls::pki_types::ServerName;
use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tls::TlsSettings;
use tokio::time::{Instant, timeout};

#[derive(Debug, Clone, thiserror::Error)]
pub enum EgressError {
    #[error("the destination's address is not allowed")]
    Blocked,
    #[error("the destination's name could not be resolved")]
    Dns,
    #[error("the destination refused the connection")]
    Refused,
    #[error("the destination could not be reached")]
    Connect,
    #[error("no connection within {0} s")]
    ConnectTimeout(u64),
    #[error("the connection was closed before TLS was agreed on")]
    Closed,
    #[error("the destination reset the connection before TLS was agreed on")]
    Reset,
    #[error("TLS: {0}")]
    Tls(TlsFault),
}

impl EgressError {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Self::Blocked => Fault::BlockedTarget,
            Self::Dns => Fault::Dns,
            Self::Refused | Self::Connect => Fault::Refused,
            Self::ConnectTimeout(_) => Fault::ConnectTimeout,
            Self::Closed | Self::Reset => Fault::Reset,
            Self::Tls(_) => Fault::Tls,
        }
    }

    /// What an account hears of it. Before an address has been judged that is nothing more.
    pub(crate) fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Blocked | Self::Dns => None,
            Self::Refused => Some(FailureKind::Refused),
            Self::Connect => Some(FailureKind::Unreachable),
            Self::ConnectTimeout(_) => Some(FailureKind::ConnectTimeout),
            Self::Closed => Some(FailureKind::ClosedEarly),
            Self::Reset => Some(FailureKind::Reset),
            Self::Tls(fault) => Some(fault.kind()),
        }
    }
}

/// What HTTP's connections are made by, and what the dialers of other kinds connect through.
#[derive(Clone)]
pub struct Egress {
    connector: Arc<GuardedConnector>,
    fence: Option<Fence>,
}

/// How a connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Security {
    Plain,
    Tls,
}

impl Security {
    /// Of the URL that is protected like this: an operator that allows it for one protocol allows it for all.
    fn scheme(self) -> &'static str {
        match self {
            Self::Plain => "http",
            Self::Tls => "https",
        }
    }
}

struct GuardedConnector {
    resolutions: Arc<Resolutions>,
    dialer: Arc<dyn Dial>,
    /// None: destinations are reached directly.
    proxy: Option<ProxyTunnels>,
    tls: tokio_rustls::TlsConnector,
    /// The same, for a server that may ask what is to be spoken.
    https: tokio_rustls::TlsConnector,
    /// And for requests that show a client certificate.
    identities: Identities,
    tls_settings: TlsSettings,
    connect_timeout: Duration,
    links: Arc<LinkCount>,
}

impl Egress {
    /// To what accounts name: wherever the policy permits, through the operator's proxy if there is one.
    pub fn new(
        policy: Arc<AddressPolicy>,
        resolver: Arc<dyn Resolve>,
        dialer: Arc<dyn Dial>,
        connect_timeout: Duration,
        proxy: Option<Proxy>,
    ) -> Result<Self, rustls::Error> {
        let by_proxy = proxy.as_ref().is_some_and(Proxy::resolves);
        let resolutions = Resolutions::new(Some(policy), Arc::clone(&resolver), by_proxy);
        let proxy = proxy.map(|proxy| ProxyTunnels::new(proxy, resolver, Arc::clone(&dialer)));
        Self::with(resolutions, dialer, proxy, connect_timeout)
    }

    /// To what the operator names, such as a collector of traces: directly, and by names as the system knows them.
    pub fn to_operators_addresses(connect_timeout: Duration) -> Result<Self, rustls::Error> {
        let resolutions = Resolutions::new(None, Arc::new(SystemResolver), false);
        Self::with(resolutions, Arc::new(TcpDialer), None, connect_timeout)
    }

    fn with(
        resolutions: Arc<Resolutions>,
        dialer: Arc<dyn Dial>,
        proxy: Option<ProxyTunnels>,
        connect_timeout: Duration,
    ) -> Result<Self, rustls::Error> {
        Self::with_tls(resolutions, dialer, proxy, connect_timeout, TlsSettings::new()?)
    }

    fn with_tls(
        resolutions: Arc<Resolutions>,
        dialer: Arc<dyn Dial>,
        proxy: Option<ProxyTunnels>,
        connect_timeout: Duration,
        tls_settings: TlsSettings,
    ) -> Result<Self, rustls::Error> {
        let configs = [tls_settings.client_config(None)?, tls_settings.https_config(None)?];
        let [tls, https] = configs.map(|config| tokio_rustls::TlsConnector::from(Arc::new(config)));
        let (links, identities) = (Arc::default(), Identities::default());
        let connector = GuardedConnector {
            resolutions,
            dialer,
            proxy,
            tls,
            https,
            identities,
            tls_settings,
            connect_timeout,
            links,
        };
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
        let authority = format!("{host}:{port}").parse().map_err(|_| EgressError::Blocked)?;
        let key = HostKey { security, authority };
        self.connector.connect(&key, &self.connector.tls, Some(fence)).await
    }

    #[cfg(test)]
    pub(crate) fn links(&self) -> usize {
        self.connector.links.get()
    }

    /// Where this host is now, for requests that show this identity.
    pub(crate) async fn locate(
        &self,
        uri: &Uri,
        identity: Option<&Arc<ClientIdentity>>,
    ) -> Result<Location, EgressError> {
        let host = host_key(uri)?;
        let (resolution, waited) = self.connector.resolutions.of(&host).await?;
        let identity = match identity {
            None => None,
            // Without TLS it would not be shown, and whoever answers would not be who it was meant for.
            Some(_) if host.security == Security::Plain => return Err(EgressError::Tls(TlsFault::NotTls)),
            Some(identity) => {
                let settings = &self.connector.tls_settings;
                let entered =
                    self.connector.identities.enter(identity, |key| settings.https_config(Some(key)));
                let tls = entered.map_err(|_| EgressError::Tls(TlsFault::Protocol))?;
                Some((identity.label(), tls))
            }
        };
        Ok(Location::new(host, resolution, identity, waited))
    }

    /// A connection for HTTP to where a host was found.
    pub(crate) fn connect_to(&self, location: &Location) -> BoxFuture<'static, Result<Link, EgressError>> {
        let (connector, fence) = (Arc::clone(&self.connector), self.fence.clone());
        let (host, resolution) = (location.host.clone(), Arc::clone(&location.resolution));
        let tls = location.tls.clone();
        Box::pin(async move {
            let tls = tls.as_ref().unwrap_or(&connector.https);
            let link = connector.connect_to(&host, &resolution, tls, fence, None).await?;
            Ok(link.reading_early_answers())
        })
    }
}

fn refuses(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

fn host_key(uri: &Uri) -> Result<HostKey, EgressError> {
    let security = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => Security::Tls,
        Some(scheme) if *scheme == Scheme::HTTP => Security::Plain,
        _ => return Err(EgressError::Blocked),
    };
    Ok(HostKey { security, authority: uri.authority().ok_or(EgressError::Blocked)?.clone() })
}

impl GuardedConnector {
    async fn connect(
        &self,
        key: &HostKey,
        tls: &tokio_rustls::TlsConnector,
        fence: Option<Fence>,
    ) -> Result<Link, EgressError> {
        let (resolution, dns) = self.resolutions.of(key).await?;
        self.connect_to(key, &resolution, tls, fence, dns).await
    }

    async fn connect_to(
        &self,
        key: &HostKey,
        resolution: &Arc<Resolution>,
        tls: &tokio_rustls::TlsConnector,
        fence: Option<Fence>,
        dns: Option<Duration>,
    ) -> Result<Link, EgressError> {
        let started = Instant::now();
        let stream = match self.dial(resolution).await {
            Ok(stream) => stream,
            Err(error) => {
                self.resolutions.doubt(key, resolution);
                return Err(error);
            }
        };
        let connect = Some(started.elapsed());
        if key.security == Security::Plain {
            let facts = ConnectionFacts { reused: false, dns, connect, tls: None };
            return Ok(Link::new(stream, facts, fence, &self.links));
        }
        let started = Instant::now();
        let name = match &resolution.host {
            url::Host::Domain(name) => {
                ServerName::try_from(name.clone()).map_err(|_| EgressError::Tls(TlsFault::WrongName))?
            }
            url::Host::Ipv4(address) => ServerName::from(IpAddr::V4(*address)),
            url::Host::Ipv6(address) => ServerName::from(IpAddr::V6(*address)),
        };
        let stream = tls.connect(name, stream).await.map_err(|error| tls::handshake_error(&error))?;
        let tls = Some(started.elapsed());
        let facts = ConnectionFacts { reused: false, dns, connect, tls };
        Ok(Link::new(Box::new(stream), facts, fence, &self.links))
    }

    /// The first address that answers. They share the time there is.
    async fn dial(&self, resolution: &Resolution) -> Result<Box<dyn Duplex>, EgressError> {
        let port = resolution.port;
        let endpoints: Vec<Endpoint<'_>> = match &resolution.addresses {
            Addresses::Vetted(addresses) => {
                addresses.iter().map(|address| Endpoint::Vetted(SocketAddr::new(*address, port))).collect()
            }
            Addresses::ByProxy(name) => vec![Endpoint::Named(name, port)],
        };
        let attempts = async {
            let mut last = EgressError::Connect;
            for (tried, endpoint) in endpoints.iter().enumerate() {
                let share = self.connect_timeout / (endpoints.len() - tried) as u32;
                match timeout(share, self.reach(*endpoint)).await {
                    Ok(Ok(stream)) => return Ok(stream),
                    // What a proxy met, or whether it is there itself, is not said of the destination.
                    Ok(Err(error)) if refuses(&error) && self.proxy.is_none() => last = EgressError::Refused,
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

    async fn reach(&self, endpoint: Endpoint<'_>) -> io::Result<Box<dyn Duplex>> {
        match (&self.proxy, endpoint) {
            (Some(proxy), endpoint) => proxy.open(endpoint).await,
            (None, Endpoint::Vetted(address)) => self.dialer.dial(address).await,
            (None, Endpoint::Named(..)) => Err(io::Error::other("there is no proxy to resolve it")),
        }
    }
}

/// For the client of what the operator names, which keeps its connections itself.
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
            let link = connector.connect(&host_key(&uri)?, &connector.https, fence).await?;
            Ok(TokioIo::new(link.reading_early_answers()))
        })
    }
}

#[cfg(test)]
mod tests;
