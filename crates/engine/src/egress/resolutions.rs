//! The addresses of hosts, resolved and vetted in one step, and known for half a minute.
//!
//! They also decide which connections may be used again. Every resolution has a number, and connections are kept by the
//! number of the one that led to them. A resolution that names all the addresses of the last one goes on under its number;
//! any other takes a new one, and what is kept under the old number is never asked for again and closed when it has been
//! idle for long enough. So a connection is used only while the newest resolution names its address; nothing under way is
//! cut.
//!
//! How old a resolution may be: it is chosen until [`limits::RESOLUTION_GOOD`], and whoever has chosen it has sent its
//! request or given up within [`limits::TIMEOUT_MAX`]. Together that is [`limits::RESOLUTION_AGE_MAX`].

use super::{EgressError, Resolve, Security};
use domain::{address::AddressPolicy, limits};
use http::uri::Authority;
use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::{Instant, timeout},
};
use url::{Host, Url};

pub(super) struct Resolutions {
    /// None: for addresses that the operator has named, and no account.
    policy: Option<Arc<AddressPolicy>>,
    resolver: Arc<dyn Resolve>,
    /// Names are left to the proxy.
    by_proxy: bool,
    known: Mutex<KnownHosts>,
}

/// A host as a URI names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HostKey {
    pub(super) security: Security,
    pub(super) authority: Authority,
}

impl HostKey {
    /// What is taken from a URI keeps all of the URI in memory.
    fn in_its_own_bytes(&self) -> Self {
        let authority = self.authority.as_str().parse().unwrap_or_else(|_| self.authority.clone());
        Self { security: self.security, authority }
    }
}

/// Where a host is to be found.
#[derive(Debug)]
pub(super) struct Resolution {
    pub(super) host: Host,
    pub(super) port: u16,
    pub(super) addresses: Addresses,
    /// What its connections are kept under. No other host has it.
    pub(super) number: u64,
}

#[derive(Debug, Clone)]
pub(super) enum Addresses {
    /// All of them are permitted.
    Vetted(Vec<IpAddr>),
    /// This name is for the proxy to resolve.
    ByProxy(String),
}

#[derive(Default)]
struct KnownHosts {
    hosts: HashMap<HostKey, KnownHost>,
    /// The number of the last resolution.
    number: u64,
    /// With so many hosts those are forgotten that nobody asks for any more.
    sweep_at: usize,
}

#[derive(Default)]
struct KnownHost {
    resolved: Option<Resolved>,
    /// What was found instead, and when.
    failed: Option<(Instant, EgressError)>,
    /// Held by the one that asks.
    asking: Arc<AsyncMutex<()>>,
}

struct Resolved {
    resolution: Arc<Resolution>,
    /// Until then it may be chosen.
    good_until: Instant,
    /// From then on the next request has it asked for again, and does not wait for that.
    renew_at: Instant,
}

/// What is known of a host without asking.
enum Known {
    Good(Arc<Resolution>),
    /// The same, and this is the one that asks again.
    GoodAndAging(Arc<Resolution>, OwnedMutexGuard<()>),
    Nothing(Arc<AsyncMutex<()>>),
}

impl Resolutions {
    pub(super) fn new(
        policy: Option<Arc<AddressPolicy>>,
        resolver: Arc<dyn Resolve>,
        by_proxy: bool,
    ) -> Arc<Self> {
        Arc::new(Self { policy, resolver, by_proxy, known: Mutex::default() })
    }

    /// Where this host is, and how long that had to be waited for. At any time one asks, and the others hear what it hears.
    pub(super) async fn of(
        self: &Arc<Self>,
        key: &HostKey,
    ) -> Result<(Arc<Resolution>, Option<Duration>), EgressError> {
        let came_at = Instant::now();
        let asking = match self.look_up(key, came_at) {
            Known::Good(resolution) => return Ok((resolution, None)),
            Known::GoodAndAging(resolution, asking) => {
                let (this, key) = (Arc::clone(self), key.clone());
                tokio::spawn(async move { this.ask(&key, asking).await });
                return Ok((resolution, None));
            }
            Known::Nothing(asking) => asking,
        };
        let asking = asking.lock_owned().await;
        let heard = match self.heard_since(came_at, key) {
            Some(heard) => heard,
            None => self.ask(key, asking).await,
        };
        heard.map(|resolution| (resolution, Some(came_at.elapsed())))
    }

    /// Has it asked for again by the next request, because nobody answered there.
    pub(super) fn doubt(&self, key: &HostKey, resolution: &Arc<Resolution>) {
        let mut known = self.known();
        let resolved = known.hosts.get_mut(key).and_then(|host| host.resolved.as_mut());
        if let Some(resolved) = resolved.filter(|it| Arc::ptr_eq(&it.resolution, resolution)) {
            resolved.good_until = Instant::now();
        }
    }

    fn look_up(&self, key: &HostKey, now: Instant) -> Known {
        let mut known = self.known();
        if let Some(host) = known.hosts.get_mut(key) {
            let Some(resolved) = host.resolved.as_mut().filter(|it| now < it.good_until) else {
                return Known::Nothing(Arc::clone(&host.asking));
            };
            let resolution = Arc::clone(&resolved.resolution);
            if now >= resolved.renew_at
                && let Ok(asking) = Arc::clone(&host.asking).try_lock_owned()
            {
                // A resolver that fails at once is not asked by every request.
                resolved.renew_at = now + limits::RESOLUTION_RENEW_PAUSE;
                return Known::GoodAndAging(resolution, asking);
            }
            return Known::Good(resolution);
        }
        known.make_room(now);
        Known::Nothing(Arc::clone(&known.hosts.entry(key.in_its_own_bytes()).or_default().asking))
    }

    /// What another that asked has heard while this one waited for its turn.
    fn heard_since(&self, came_at: Instant, key: &HostKey) -> Option<Result<Arc<Resolution>, EgressError>> {
        let known = self.known();
        let host = known.hosts.get(key)?;
        let good = host.resolved.as_ref().filter(|resolved| Instant::now() < resolved.good_until);
        let failed = host.failed.as_ref().filter(|(at, _)| *at > came_at);
        good.map(|resolved| Ok(Arc::clone(&resolved.resolution)))
            .or_else(|| failed.map(|(_, error)| Err(error.clone())))
    }

    async fn ask(&self, key: &HostKey, _asking: OwnedMutexGuard<()>) -> Result<Arc<Resolution>, EgressError> {
        let asked_at = Instant::now();
        let found = self.resolve(key).await;
        let mut known = self.known();
        let known = &mut *known;
        let host = known.hosts.entry(key.in_its_own_bytes()).or_default();
        let (name, port, addresses) = match found {
            Ok(found) => found,
            Err(error) => {
                // One that could not be asked may still be right; one that leads elsewhere is not.
                if matches!(error, EgressError::Blocked) {
                    host.resolved = None;
                }
                host.failed = Some((Instant::now(), error.clone()));
                return Err(error);
            }
        };
        let last = host.resolved.as_ref().map(|resolved| &resolved.resolution);
        let number = match last.filter(|last| addresses.include(&last.addresses)) {
            Some(last) => last.number,
            None => {
                known.number += 1;
                known.number
            }
        };
        let resolution = Arc::new(Resolution { host: name, port, addresses, number });
        host.failed = None;
        host.resolved = Some(Resolved {
            resolution: Arc::clone(&resolution),
            good_until: asked_at + limits::RESOLUTION_GOOD,
            renew_at: asked_at + limits::RESOLUTION_GOOD / 2,
        });
        Ok(resolution)
    }

    /// Resolution and judgement are one step, so that a name which changes its answer between them has no window.
    async fn resolve(&self, key: &HostKey) -> Result<(Host, u16, Addresses), EgressError> {
        let url = self.check(&format!("{}://{}/", key.security.scheme(), key.authority))?;
        let port = url.port_or_known_default().ok_or(EgressError::Blocked)?;
        let host = url.host().ok_or(EgressError::Blocked)?.to_owned();
        let mut addresses = match &host {
            Host::Ipv4(address) => vec![IpAddr::V4(*address)],
            Host::Ipv6(address) => vec![IpAddr::V6(*address)],
            Host::Domain(name) if self.by_proxy => {
                let by_proxy = Addresses::ByProxy(name.clone());
                return Ok((host, port, by_proxy));
            }
            Host::Domain(name) => self.addresses_of(name).await?,
        };
        if addresses.is_empty() {
            return Err(EgressError::Dns);
        }
        // One forbidden answer rejects the whole name, also where it is one that would not have been tried.
        let forbidden = |address: &&IpAddr| self.policy.as_ref().is_some_and(|it| !it.permits(**address));
        if let Some(address) = addresses.iter().find(forbidden) {
            tracing::info!(%host, %address, "a destination's name leads to an address that is not allowed");
            return Err(EgressError::Blocked);
        }
        addresses.truncate(limits::DNS_ADDRESSES);
        Ok((host, port, Addresses::Vetted(addresses)))
    }

    /// The URL was checked when the destination was written; a row edited by hand passes here first.
    fn check(&self, url: &str) -> Result<Url, EgressError> {
        match &self.policy {
            Some(policy) => policy.check_url(url).map_err(|_| EgressError::Blocked),
            None => Url::parse(url).map_err(|_| EgressError::Blocked),
        }
    }

    async fn addresses_of(&self, name: &str) -> Result<Vec<IpAddr>, EgressError> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name == "localhost" {
            return Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        }
        let asked = timeout(limits::DNS_TIMEOUT, self.resolver.resolve(name)).await;
        asked.map_err(|_| EgressError::Dns)?
    }

    #[cfg(test)]
    pub(super) fn known_count(&self) -> usize {
        self.known().hosts.len()
    }

    fn known(&self) -> MutexGuard<'_, KnownHosts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Addresses {
    /// Whether connections that were made to those lead to one of these.
    fn include(&self, those: &Self) -> bool {
        match (self, those) {
            (Self::Vetted(these), Self::Vetted(those)) => those.iter().all(|address| these.contains(address)),
            (Self::ByProxy(name), Self::ByProxy(other)) => name == other,
            _ => false,
        }
    }
}

/// From so many hosts on it is worth a look which of them are still called.
const SWEEP_FROM: usize = 1_024;

impl KnownHosts {
    fn make_room(&mut self, now: Instant) {
        if self.hosts.len() < self.sweep_at.max(SWEEP_FROM) {
            return;
        }
        // As long as the pool may have a connection to it, or somebody waits for its addresses.
        self.hosts.retain(|_, host| {
            let resolved = host.resolved.as_ref();
            resolved.is_some_and(|it| now < it.good_until + limits::IDLE_TIMEOUT)
                || Arc::strong_count(&host.asking) > 1
        });
        // To forget a host costs new connections to it, and nothing else.
        if self.hosts.len() >= limits::RESOLUTIONS_MAX {
            self.hosts.clear();
        }
        self.sweep_at = limits::RESOLUTIONS_MAX.min(2 * self.hosts.len());
    }
}
