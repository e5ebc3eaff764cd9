//! Nobody is called who may not be, directly or through a proxy, and accounts do not learn why.
//!
//! 127.0.0.2 stands for the public internet; whatever else is on loopback is forbidden, the proxy's own address too.

use crate::bench::{Bench, bench_with, schedule};
use async_trait::async_trait;
use domain::{
    address::{AddressPolicy, parse_allow_list, parse_host_list},
    attempt::{AttemptError, Timing},
    delivery::Status,
    destination::{Auth, Destination},
    id::DestinationId,
    limits,
    oauth2::{ClientAuth, OAuth2Client},
    outcome::Outcome,
};
use engine::{
    EngineSettings,
    egress::{Egress, EgressError, Proxy, Resolve, TcpDialer},
    sink::Sinks,
    transport::HttpTransport,
};
use lab::{Receiver, Recording, Script, TunnelManners, TunnelProtocol, TunnelProxy};
use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::net::TcpListener;

/// Counts who comes.
struct Canary {
    addr: SocketAddr,
    callers: Arc<AtomicUsize>,
}

impl Canary {
    async fn start(addr: &str) -> Self {
        let listener = TcpListener::bind(addr).await.unwrap();
        let (addr, callers) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&callers);
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { addr, callers }
    }

    fn callers(&self) -> usize {
        self.callers.load(Ordering::SeqCst)
    }
}

/// Knows a few names.
struct Names;

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, EgressError> {
        let addresses: &[&str] = match host {
            "good.example.com" | "denied.example.com" => &["127.0.0.2"],
            "bad.example.com" => &["127.0.0.1"],
            "mixed.example.com" => &["127.0.0.2", "127.0.0.1"],
            "mixed6.example.com" => &["127.0.0.2", "::1"],
            "metadata.example.com" => &["169.254.169.254"],
            "proxy" => &["127.0.0.1"],
            "void.example.com" => &[],
            _ => return Err(EgressError::Dns),
        };
        Ok(addresses.iter().map(|address| address.parse().unwrap()).collect())
    }
}

async fn guarded_bench(proxy: Option<Proxy>) -> Bench {
    let policy = AddressPolicy {
        allow: parse_allow_list("127.0.0.2").unwrap(),
        allow_http: true,
        deny_hosts: parse_host_list("denied.example.com").unwrap(),
        ..AddressPolicy::default()
    };
    let (resolver, dialer) = (Arc::new(Names), Arc::new(TcpDialer));
    let egress = Egress::new(Arc::new(policy), resolver, dialer, limits::CONNECT_TIMEOUT, proxy).unwrap();
    let sinks = Sinks::http(Arc::new(HttpTransport::new(egress.clone()))).through(egress);
    bench_with(EngineSettings::default(), Some(sinks)).await
}

fn proxy_at(scheme: &str, tunnel: &TunnelProxy) -> Proxy {
    format!("{scheme}://me:sesame@proxy:{}", tunnel.addr().port()).parse().unwrap()
}

impl Bench {
    /// Sends one event to this URL, as it stands in the table, and waits for the end of its delivery.
    async fn tried(&self, url: &str, change: impl FnOnce(&mut Destination)) -> DestinationId {
        let destination = self
            .destination("guarded", |it| {
                it.url = url.into();
                it.settings.retry_policy = schedule(&[]);
                change(it);
            })
            .await;
        self.send(&[destination], b"{}").await;
        self.ended(destination).await;
        destination
    }

    async fn error_of(&self, destination: DestinationId) -> AttemptError {
        self.attempts(destination).await.remove(0).detail.error.expect("it failed")
    }
}

fn public_receiver() -> Receiver {
    let receiver = Receiver::start(([127, 0, 0, 2], 0).into(), Script::ok()).unwrap();
    receiver.recording(Recording::FullWithBodies);
    receiver
}

/// What stands in the table, and may not be called.
fn forbidden_urls(canary: SocketAddr, canary6: SocketAddr) -> Vec<String> {
    let port = canary.port();
    let hosts = [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "127。0。0。1",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "bad.example.com",
        "mixed.example.com",
        "mixed6.example.com",
        "metadata.example.com",
        "denied.example.com",
        "DENIED.example.com.",
        "intranet",
        "printer.local",
        "user@good.example.com",
        "good.example.com@127.0.0.1",
    ];
    let plain = hosts.iter().map(|host| format!("http://{host}:{port}/hook"));
    let tls = hosts.iter().map(|host| format!("https://{host}:{port}/hook"));
    plain.chain(tls).chain([format!("http://{canary6}/"), format!("https://{canary6}/hook")]).collect()
}

#[tokio::test]
async fn a_forbidden_url_in_the_table_is_blocked_and_all_look_alike_with_a_proxy_too() {
    let (canary, canary6) = (Canary::start("127.0.0.1:0").await, Canary::start("[::1]:0").await);
    let connect = TunnelProxy::local(TunnelProtocol::Connect, TunnelManners::Connects);
    let socks5 = TunnelProxy::local(TunnelProtocol::Socks5, TunnelManners::Connects);
    for proxy in [None, Some(proxy_at("http", &connect)), Some(proxy_at("socks5", &socks5))] {
        let bench = guarded_bench(proxy.clone()).await;
        let mut seen = Vec::new();
        for url in forbidden_urls(canary.addr, canary6.addr) {
            let destination = bench.tried(&url, |_| {}).await;
            assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("blocked")), "{url}");
            let attempt = bench.attempts(destination).await.remove(0);
            let detail = attempt.detail;
            assert_eq!(
                detail.timing,
                Timing::default(),
                "{url}: how long a name took tells whether there is one"
            );
            let names: Vec<String> = detail.request_headers.into_iter().map(|(name, _)| name).collect();
            seen.push((attempt.outcome, attempt.http_status, detail.error, detail.response.is_some(), names));
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{proxy:?}: {seen:?}");
        let error = seen[0].2.clone().unwrap();
        assert_eq!(
            (&*error.code, error.kind, &*error.message),
            ("blocked_target", None, "the destination's address is not allowed")
        );
    }
    assert_eq!((canary.callers(), canary6.callers()), (0, 0));
    assert_eq!((connect.heard().connections, socks5.heard().connections), (0, 0), "not even the proxy is");
}

#[tokio::test]
async fn a_token_endpoint_that_may_not_be_called_is_not_and_nothing_is_sent_without_its_token() {
    let (canary, canary6) = (Canary::start("127.0.0.1:0").await, Canary::start("[::1]:0").await);
    let receiver = public_receiver();
    let bench = guarded_bench(None).await;
    let mut said = Vec::new();
    for token_url in forbidden_urls(canary.addr, canary6.addr) {
        let destination = bench
            .destination_sealing("tokened", |it, seal| {
                it.url = receiver.url("/hook").replace("127.0.0.1", "127.0.0.2");
                it.auth = Auth::OAuth2(OAuth2Client {
                    token_url: token_url.clone(),
                    client_id: "me".into(),
                    client_secret: seal("sesame"),
                    scope: None,
                    audience: None,
                    client_auth: ClientAuth::Basic,
                    params: Vec::new(),
                });
            })
            .await;
        bench.send(&[destination], b"{}").await;
        assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("blocked")), "{token_url}");
        said.push(bench.error_of(destination).await);
    }
    assert_eq!((canary.callers(), canary6.callers(), receiver.total()), (0, 0, 0));
    assert!(said.windows(2).all(|pair| pair[0] == pair[1]), "{said:?}");
    let message = "no credential can be had: the address of the token endpoint is not allowed";
    assert_eq!((&*said[0].code, &*said[0].message), ("blocked_target", message));
}

#[tokio::test]
async fn what_cannot_be_reached_says_nothing_of_addresses_ports_or_resolvers() {
    let closed = TcpListener::bind("127.0.0.2:0").await.unwrap().local_addr().unwrap().port();
    let refusing = TunnelProxy::local(TunnelProtocol::Connect, TunnelManners::Refuses);
    let refusing5 = TunnelProxy::local(TunnelProtocol::Socks5, TunnelManners::Refuses);
    let gone: Proxy = "http://127.0.0.1:1".parse().unwrap();
    let nameless: Proxy = "http://nobody:1".parse().unwrap();
    let refused = ("connect_error", Some("refused"), "the destination refused the connection");
    let unreached = ("connect_error", Some("unreachable"), "the destination could not be reached");
    let unresolved = ("dns_error", None, "the destination's name could not be resolved");
    for (proxy, host, expected) in [
        (None, "good.example.com", refused),
        (None, "127.0.0.2", refused),
        (None, "unknown.example.com", unresolved),
        (None, "void.example.com", unresolved),
        (Some(proxy_at("http", &refusing)), "good.example.com", unreached),
        (Some(proxy_at("socks5", &refusing5)), "good.example.com", unreached),
        (Some(proxy_at("http", &refusing)), "unknown.example.com", unresolved),
        (Some(gone), "good.example.com", unreached),
        (Some(nameless), "good.example.com", unreached),
    ] {
        let bench = guarded_bench(proxy).await;
        let destination = bench.tried(&format!("http://{host}:{closed}/"), |_| {}).await;
        assert_eq!(bench.outcomes(destination).await, [Outcome::NetworkError]);
        let error = bench.error_of(destination).await;
        assert_eq!((&*error.code, error.kind.as_deref(), &*error.message), expected, "{host}");
    }
    assert_eq!(refusing.heard().targets.len(), 1, "a name that cannot be resolved is not the proxy's");
}

#[tokio::test]
async fn a_proxy_is_told_the_vetted_address_and_no_header() {
    let receiver = public_receiver();
    let port = receiver.addr().port();
    for (scheme, protocol) in [("http", TunnelProtocol::Connect), ("socks5", TunnelProtocol::Socks5)] {
        let tunnel = TunnelProxy::local(protocol, TunnelManners::Connects);
        let bench = guarded_bench(Some(proxy_at(scheme, &tunnel))).await;
        let secret = |it: &mut Destination| it.headers = vec![("x-secret".into(), "open-up".into())];
        for _ in 0..3 {
            let destination = bench.tried(&format!("http://good.example.com:{port}/hook"), secret).await;
            assert_eq!(bench.ended(destination).await, (Status::Delivered, None), "{scheme}");
        }
        let heard = tunnel.heard();
        assert_eq!(heard.targets, [format!("127.0.0.2:{port}")], "one connection, kept");
        let words = String::from_utf8_lossy(&heard.words).to_lowercase();
        assert!(
            !words.contains("secret") && !words.contains("open-up") && !words.contains("/hook"),
            "{words}"
        );
        assert!(!words.contains("good.example.com"), "{words}");
        let login =
            if scheme == "http" { "proxy-authorization: basic bwu6c2vzyw1l" } else { "me\u{6}sesame" };
        assert!(words.contains(login), "{words}");
        let record = receiver.snapshot().pop().unwrap().kept.unwrap();
        assert_eq!(record.headers["x-secret"], "open-up");
        assert_eq!(record.headers["host"], format!("good.example.com:{port}"));
        assert!(!record.headers.contains_key("proxy-authorization"));
    }
}

#[tokio::test]
async fn a_proxy_that_resolves_is_told_the_name_and_what_is_forbidden_by_url_stays_so() {
    let (receiver, canary) = (public_receiver(), Canary::start("127.0.0.1:0").await);
    for (scheme, protocol) in [("http", TunnelProtocol::Connect), ("socks5", TunnelProtocol::Socks5)] {
        let tunnel = TunnelProxy::local(protocol, TunnelManners::ConnectsTo(receiver.addr()));
        let bench = guarded_bench(Some(proxy_at(scheme, &tunnel).resolving_names(true))).await;
        let destination = bench.tried("http://only-the-proxy-knows.example.com:81/", |_| {}).await;
        assert_eq!(bench.ended(destination).await, (Status::Delivered, None), "{scheme}");
        assert_eq!(tunnel.heard().targets, ["only-the-proxy-knows.example.com:81"]);
        for host in ["127.0.0.1", "localhost", "denied.example.com", "intranet", "10.0.0.1", "[::1]"] {
            let url = format!("http://{host}:{}/", canary.addr.port());
            let destination = bench.tried(&url, |_| {}).await;
            assert_eq!(bench.ended(destination).await, (Status::DeadLetter, Some("blocked")), "{url}");
        }
        assert_eq!((tunnel.heard().connections, canary.callers()), (1, 0));
    }
}

#[tokio::test]
async fn a_proxy_that_hangs_is_given_up_within_the_time_for_connections() {
    for (scheme, protocol) in [("http", TunnelProtocol::Connect), ("socks5", TunnelProtocol::Socks5)] {
        let tunnel = TunnelProxy::local(protocol, TunnelManners::Hangs);
        let (resolver, dialer) = (Arc::new(Names), Arc::new(TcpDialer));
        let policy = AddressPolicy {
            allow: parse_allow_list("127.0.0.2").unwrap(),
            allow_http: true,
            ..AddressPolicy::default()
        };
        let patience = Duration::from_secs(1);
        let proxy = Some(proxy_at(scheme, &tunnel));
        let egress = Egress::new(Arc::new(policy), resolver, dialer, patience, proxy).unwrap();
        let sinks = Sinks::http(Arc::new(HttpTransport::new(egress.clone()))).through(egress);
        let bench = bench_with(EngineSettings::default(), Some(sinks)).await;
        let destination = bench.tried("http://good.example.com:81/", |_| {}).await;
        assert_eq!(bench.outcomes(destination).await, [Outcome::Timeout]);
        let error = bench.error_of(destination).await;
        let said = (&*error.code, error.kind.as_deref(), &*error.message);
        assert_eq!(said, ("timeout", Some("connect_timeout"), "no connection within 1 s"));
    }
}
