//! Destinations that speak TLS badly, or not at all: each kind of it is said in plain words.

use super::{
    PATIENCE,
    bench::{bench, schedule},
};
use domain::{attempt::AttemptError, outcome::Outcome};
use rcgen::{Certificate, CertificateParams, CertifiedIssuer, KeyPair};
use std::{future::Future, net::SocketAddr, sync::Arc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    time::timeout,
};
use tokio_rustls::{
    LazyConfigAcceptor, TlsAcceptor,
    rustls::{ServerConfig, server::Acceptor},
};

async fn listen<F: Future<Output = ()> + Send>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            serve(stream).await;
        }
    });
    addr
}

/// Shows this certificate, signed by itself, and hangs up.
async fn listen_with(change: impl FnOnce(&mut CertificateParams)) -> SocketAddr {
    let mut params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    listen_as(params.self_signed(&key).unwrap(), key).await
}

/// Shows this certificate, and hangs up.
async fn listen_as(certificate: Certificate, key: KeyPair) -> SocketAddr {
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    listen(move |stream| {
        let accepting = acceptor.accept(stream);
        async move {
            let _ = accepting.await;
        }
    })
    .await
}

fn said(error: &AttemptError) -> (&str, &str, &str) {
    (&error.code, error.kind.as_deref().unwrap_or_default(), &error.message)
}

/// What two attempts at this address met, and what was said of the first.
async fn met(addr: SocketAddr) -> (Vec<Outcome>, AttemptError) {
    let bench = bench().await;
    let destination = bench
        .destination("a", |it| {
            it.url = format!("https://{addr}/");
            it.settings.retry_policy = schedule(&[1, 1]);
        })
        .await;
    bench.send(&[destination], b"{}").await;
    bench.ended(destination).await;
    let error = bench.attempts(destination).await.remove(0).detail.error.unwrap();
    (bench.outcomes(destination).await, error)
}

#[tokio::test]
async fn a_certificate_that_is_signed_by_itself_is_called_that() {
    let (outcomes, error) = met(listen_with(|_| {}).await).await;
    assert_eq!(outcomes, [Outcome::TlsError; 2], "tried once more, and no third time");
    assert_eq!(said(&error), ("tls_error", "self_signed", "TLS: its certificate is signed by itself"));
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_called_that() {
    let addr = listen_with(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1)).await;
    let (_, error) = met(addr).await;
    assert_eq!(said(&error), ("tls_error", "expired", "TLS: its certificate has expired"));
}

#[tokio::test]
async fn a_certificate_that_is_not_valid_yet_is_called_that() {
    let addr = listen_with(|params| params.not_before = rcgen::date_time_ymd(4000, 1, 1)).await;
    let (_, error) = met(addr).await;
    assert_eq!(said(&error), ("tls_error", "not_yet_valid", "TLS: its certificate is not valid yet"));
}

#[tokio::test]
async fn a_certificate_of_an_unknown_authority_is_called_that_and_nothing_it_says_is_told() {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "a secret of the house");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    let (_, error) = met(listen_as(params.signed_by(&key, &authority).unwrap(), key).await).await;
    let message = "TLS: its certificate is signed by an authority that is not known here";
    assert_eq!(said(&error), ("tls_error", "unknown_authority", message));
}

#[tokio::test]
async fn a_port_that_does_not_speak_tls_is_called_that() {
    let addr = listen(async |mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        // Until the other side has had enough of it.
        let _ = stream.readable().await;
    })
    .await;
    let (outcomes, error) = met(addr).await;
    assert_eq!(outcomes[0], Outcome::TlsError);
    assert_eq!(said(&error), ("tls_error", "not_tls", "TLS: it does not speak TLS on this port"));
}

#[tokio::test]
async fn a_handshake_that_is_cut_off_is_trouble_of_the_network_and_has_its_whole_schedule() {
    let closes = listen(async |mut stream| {
        // All of it, or the socket is reset.
        let _ = stream.read(&mut [0; 16 * 1024]).await;
    });
    let (outcomes, error) = met(closes.await).await;
    assert_eq!(outcomes, [Outcome::NetworkError; 3]);
    let message = "the connection was closed before TLS was agreed on";
    assert_eq!(said(&error), ("connect_error", "closed_early", message));

    let resets = listen(async |mut stream| {
        let _ = stream.read(&mut [0; 1]).await;
        let _ = stream.set_zero_linger();
    });
    let (outcomes, error) = met(resets.await).await;
    assert_eq!(outcomes, [Outcome::NetworkError; 3]);
    let message = "the destination reset the connection before TLS was agreed on";
    assert_eq!(said(&error), ("connect_error", "reset", message));
}

/// Whoever speaks HTTP/2 as well speaks HTTP/1.1 to us: what could be done with the frames of the one is not met.
#[tokio::test]
async fn only_http_1_is_offered() {
    let (told, offered) = oneshot::channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let hello = LazyConfigAcceptor::new(Acceptor::default(), stream).await.unwrap();
        let offered = hello.client_hello().alpn().into_iter().flatten().map(<[u8]>::to_vec).collect();
        told.send(offered).unwrap();
    });
    let bench = bench().await;
    let destination = bench.destination("a", |it| it.url = format!("https://{addr}/")).await;
    bench.send(&[destination], b"{}").await;
    let offered: Vec<Vec<u8>> = timeout(PATIENCE, offered).await.unwrap().unwrap();
    assert_eq!(offered, [b"http/1.1"]);
}
