//! Against a server that wants a certificate, over real sockets: what it sees is whose request it is.

use super::*;
use crate::{
    egress::{Egress, Resolutions, SystemResolver, TcpDialer, TlsSettings},
    sink::Permit,
    transport::{AnswerRoom, HttpAnswer, HttpRequest, HttpTransport, Transport},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::{
    address::{AddressPolicy, parse_allow_list},
    limits,
    outcome::{FailureKind, Fault},
    time::Timestamp,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig, SupportedProtocolVersion,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    version::{TLS12, TLS13},
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    time::Instant,
};
use tokio_rustls::TlsAcceptor;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// A certificate for this name, and its key, as PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()))
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

fn destination(n: u128) -> DestinationId {
    DestinationId::at(Timestamp::from_seconds(1_790_000_000), n)
}

/// Says in its answers which connection they came by, from 1, and for whom: `2 CN=billing`.
async fn serve(
    clients: &Authority,
    own: &Authority,
    version: &'static SupportedProtocolVersion,
    asks: bool,
) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(clients.der()).unwrap();
    let verifier: Arc<dyn ClientCertVerifier> = match asks {
        true => WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap(),
        false => WebPkiClientVerifier::no_client_auth(),
    };
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".into(), "localhost".into()]).unwrap();
    let certificate = params.signed_by(&key, &own.0).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for number in 1.. {
            let (stream, _) = listener.accept().await.unwrap();
            let accepting = acceptor.accept(stream);
            tokio::spawn(async move {
                let Ok(mut stream) = accepting.await else { return };
                let shown = stream.get_ref().1.peer_certificates();
                let whose = shown.map_or_else(|| "nobody".into(), |shown| subject(&shown[0]));
                let body = format!("{number} {whose}");
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                let mut heard = Vec::new();
                while stream.read_buf(&mut heard).await.is_ok_and(|read| read > 0) {
                    if heard.ends_with(b"\r\n\r\n{}") {
                        heard.clear();
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    addr
}

fn subject(der: &[u8]) -> String {
    use x509_cert::der::Decode as _;
    x509_cert::Certificate::from_der(der).unwrap().tbs_certificate.subject.to_string()
}

fn transport(trusted: &Authority) -> HttpTransport {
    let policy = AddressPolicy {
        allow: parse_allow_list("127.0.0.0/8").unwrap(),
        allow_http: true,
        ..AddressPolicy::default()
    };
    let resolutions = Resolutions::new(Some(Arc::new(policy)), Arc::new(SystemResolver), false);
    let tls = TlsSettings::trusting(vec![trusted.der()]);
    let egress =
        Egress::with_tls(resolutions, Arc::new(TcpDialer), None, limits::CONNECT_TIMEOUT, tls).unwrap();
    HttpTransport::new(egress)
}

async fn send(
    transport: &HttpTransport,
    scheme: &str,
    addr: SocketAddr,
    identity: Option<&Arc<ClientIdentity>>,
) -> HttpAnswer {
    let request = HttpRequest {
        uri: format!("{scheme}://{addr}/hook").parse().unwrap(),
        headers: http::HeaderMap::new(),
        body: "{}".into(),
        deadline: Instant::now() + limits::TIMEOUT_DEFAULT,
        timeout: limits::TIMEOUT_DEFAULT,
        permit: Permit::of_none(),
        identity: identity.cloned(),
        room: AnswerRoom::DESTINATION,
    };
    transport.send(request).await
}

async fn said(transport: &HttpTransport, addr: SocketAddr, identity: Option<&Arc<ClientIdentity>>) -> String {
    let answer = send(transport, "https", addr, identity).await;
    String::from_utf8(answer.result.expect("it was taken").body.to_vec()).unwrap()
}

fn identity(id: DestinationId, (certificate, key): &(String, String)) -> Arc<ClientIdentity> {
    Arc::new(ClientIdentity::new(id, certificate, key).unwrap())
}

#[tokio::test]
async fn a_connection_that_was_made_with_a_certificate_is_used_for_its_destination_alone() {
    let (clients, own) = (Authority::new("clients"), Authority::new("servers"));
    for version in [&TLS13, &TLS12] {
        let addr = serve(&clients, &own, version, true).await;
        let transport = transport(&own);
        let (billing, orders) = (clients.issue("billing"), clients.issue("orders"));
        let first = identity(destination(1), &billing);
        assert_eq!(said(&transport, addr, Some(&first)).await, "1 CN=billing");
        assert_eq!(said(&transport, addr, Some(&first)).await, "1 CN=billing", "its own is kept");
        // Made ready anew, as after a change of its name.
        let again = identity(destination(1), &billing);
        assert_eq!(said(&transport, addr, Some(&again)).await, "1 CN=billing");
        let other_destination = identity(destination(2), &billing);
        assert_eq!(said(&transport, addr, Some(&other_destination)).await, "2 CN=billing");
        let other_certificate = identity(destination(1), &orders);
        assert_eq!(said(&transport, addr, Some(&other_certificate)).await, "3 CN=orders");
        assert_eq!(said(&transport, addr, Some(&first)).await, "1 CN=billing");
        assert!(send(&transport, "https", addr, None).await.result.is_err(), "and nobody else's is");
    }
}

#[tokio::test]
async fn who_wants_no_certificate_is_shown_none_and_its_connections_are_apart_all_the_same() {
    let (clients, own) = (Authority::new("clients"), Authority::new("servers"));
    let addr = serve(&clients, &own, &TLS13, false).await;
    let transport = transport(&own);
    let billing = identity(destination(1), &clients.issue("billing"));
    assert_eq!(said(&transport, addr, None).await, "1 nobody");
    assert_eq!(said(&transport, addr, Some(&billing)).await, "2 nobody");
    assert_eq!(said(&transport, addr, None).await, "1 nobody");
}

#[tokio::test]
async fn a_certificate_that_is_missing_or_of_the_wrong_authority_is_called_that() {
    let (clients, own) = (Authority::new("clients"), Authority::new("servers"));
    let stranger = identity(destination(1), &Authority::new("strangers").issue("billing"));
    for version in [&TLS13, &TLS12] {
        let addr = serve(&clients, &own, version, true).await;
        let transport = transport(&own);
        let shown = send(&transport, "https", addr, Some(&stranger)).await.result.unwrap_err();
        assert_eq!(
            (shown.fault, shown.kind),
            (Fault::Tls, Some(FailureKind::ClientCertificate)),
            "{version:?}"
        );
        let said = "TLS: it wants a client certificate, or did not accept the one it was shown";
        assert_eq!(shown.message, said);
    }
    // In TLS 1.2 whoever shows none is told of a failed handshake, and no more.
    let addr = serve(&clients, &own, &TLS13, true).await;
    let none = send(&transport(&own), "https", addr, None).await.result.unwrap_err();
    assert_eq!((none.fault, none.kind), (Fault::Tls, Some(FailureKind::ClientCertificate)));
}

#[tokio::test]
async fn a_certificate_is_not_forgotten_where_there_is_no_tls() {
    let (clients, own) = (Authority::new("clients"), Authority::new("servers"));
    let addr = serve(&clients, &own, &TLS13, true).await;
    let billing = identity(destination(1), &clients.issue("billing"));
    let failed = send(&transport(&own), "http", addr, Some(&billing)).await.result.unwrap_err();
    assert_eq!(failed.kind, Some(FailureKind::NotTls));
}

#[test]
fn identities_that_nobody_has_any_more_are_forgotten() {
    let clients = Authority::new("clients");
    let settings = TlsSettings::trusting(vec![clients.der()]);
    let identities = Identities::default();
    let config = |key| settings.https_config(Some(key));
    let issued = clients.issue("many");
    for n in 0..10 * SWEEP_FROM as u128 {
        let _ = identities.enter(&identity(destination(n), &issued), config).unwrap();
    }
    let known = identities.0.lock().unwrap().by_label.len();
    assert!(known <= SWEEP_FROM, "{known} are remembered");
}

#[test]
fn what_is_no_pair_is_no_identity() {
    let clients = Authority::new("clients");
    let ((certificate, _), (_, key)) = (clients.issue("a"), clients.issue("b"));
    assert_eq!(
        ClientIdentity::new(destination(1), &certificate, &key).unwrap_err(),
        CertificateError::UnusableKey
    );
    assert!(ClientIdentity::new(destination(1), "", &key).is_err());
}
