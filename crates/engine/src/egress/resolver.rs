//! Who turns names into addresses.

use super::EgressError;
use async_trait::async_trait;
use domain::limits;
use hickory_resolver::{ResolverBuilder, net::runtime::TokioRuntimeProvider};
use std::{net::IpAddr, time::Duration};

/// Turns a name into addresses.
#[async_trait]
pub trait Resolve: Send + Sync {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, EgressError>;
}

/// Our own resolver: asynchronous, without search list or hosts file.
pub struct HickoryResolver(hickory_resolver::TokioResolver);

impl HickoryResolver {
    #[expect(clippy::disallowed_methods, reason = "egress alone resolves names")]
    pub fn from_system() -> Option<Self> {
        Self::build(hickory_resolver::TokioResolver::builder_tokio().ok()?)
    }

    fn build(mut builder: ResolverBuilder<TokioRuntimeProvider>) -> Option<Self> {
        let options = builder.options_mut();
        options.use_hosts_file = hickory_resolver::config::ResolveHosts::Never;
        // What was found is kept by `Resolutions`, and not for as long as the other side likes.
        options.positive_max_ttl = Some(Duration::ZERO);
        options.negative_max_ttl = Some(limits::RESOLUTION_GOOD);
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
    #[expect(clippy::disallowed_methods, reason = "egress alone resolves names")]
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, EgressError> {
        let found = tokio::net::lookup_host((host, 0)).await.map_err(|_| EgressError::Dns)?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hickory_resolver::{
        TokioResolver,
        config::{NameServerConfig, ResolverConfig},
    };
    use std::sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    };
    use tokio::net::UdpSocket;

    /// Answers every question for an IPv4 address with one more than the last time, good for a day.
    #[expect(clippy::disallowed_methods, reason = "a name server of this test")]
    async fn name_server(asked: Arc<AtomicU8>) -> u16 {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut query = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut query).await {
                // A name ends with an empty label, a question four bytes later.
                let name = query[12..length].iter().position(|byte| *byte == 0).unwrap();
                let end = 12 + name + 5;
                let for_ipv4 = query[end - 3] == 1;
                let mut answer = query[..end].to_vec();
                (answer[2], answer[3]) = (0x81, 0x80);
                (answer[7], answer[11]) = (u8::from(for_ipv4), 0);
                if for_ipv4 {
                    let count = asked.fetch_add(1, Ordering::SeqCst) + 1;
                    answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 1, 0x51, 0x80, 0, 4, 127, 0, 0, count]);
                }
                let _ = socket.send_to(&answer, from).await;
            }
        });
        port
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "the resolver under test, at another name server")]
    async fn whoever_asks_again_hears_what_is_so_now_however_long_it_was_to_be_kept() {
        let asked = Arc::<AtomicU8>::default();
        let mut server = NameServerConfig::udp([127, 0, 0, 1].into());
        server.connections[0].port = name_server(Arc::clone(&asked)).await;
        let config = ResolverConfig::from_name_servers(vec![server]);
        let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let resolver = HickoryResolver::build(builder).unwrap();
        for count in 1..=3 {
            let found = resolver.resolve("hooks.example.com").await.unwrap();
            assert_eq!(found, [IpAddr::from([127, 0, 0, count])]);
        }
    }
}
