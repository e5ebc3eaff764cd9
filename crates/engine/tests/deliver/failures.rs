//! What is said of a destination that does not answer as it should, over real sockets: a code, a kind, and a plain sentence.

use crate::bench::{bench, schedule};
use domain::{attempt::AttemptError, outcome::Outcome};
use std::{future::Future, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// Hears a request, and then does this with the connection.
async fn once_asked<F: Future<Output = ()> + Send>(
    then: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut heard = Vec::new();
            // The payload is `{}`, and the last there is.
            while !heard.ends_with(b"\r\n\r\n{}")
                && stream.read_buf(&mut heard).await.is_ok_and(|read| read > 0)
            {}
            then(stream).await;
        }
    });
    addr
}

/// What one attempt at this address met.
async fn met(addr: SocketAddr) -> (Outcome, Option<u16>, AttemptError) {
    let bench = bench().await;
    let destination = bench
        .destination("a", |it| {
            it.url = format!("http://{addr}/");
            it.settings.retry_policy = schedule(&[]);
            it.settings.timeout = Some(Duration::from_secs(1));
        })
        .await;
    bench.send(&[destination], b"{}").await;
    bench.ended(destination).await;
    let attempt = bench.attempts(destination).await.remove(0);
    (attempt.outcome, attempt.http_status, attempt.detail.error.expect("it failed"))
}

async fn fails(addr: SocketAddr, outcome: Outcome, said: (&str, &str, &str)) {
    let (met, status, error) = met(addr).await;
    assert_eq!((met, status), (outcome, None), "{error:?}");
    assert_eq!((&*error.code, error.kind.as_deref().unwrap_or_default(), &*error.message), said);
}

#[tokio::test]
async fn a_closed_port_has_refused() {
    let addr = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let said = ("connect_error", "refused", "the destination refused the connection");
    fails(addr, Outcome::NetworkError, said).await;
}

#[tokio::test]
async fn a_connection_that_is_reset_is_told_from_one_that_is_closed() {
    let message = "the destination reset the connection before the answer was complete";
    let resets = once_asked(async |stream| drop(stream.set_zero_linger())).await;
    fails(resets, Outcome::NetworkError, ("connect_error", "reset", message)).await;

    let message = "the connection was closed before the answer was complete";
    let closes = once_asked(async |stream| drop(stream)).await;
    fails(closes, Outcome::NetworkError, ("connect_error", "closed_early", message)).await;
    let stops = once_asked(async |mut stream| drop(stream.write_all(b"HTTP/1.1 200 OK\r\n").await)).await;
    fails(stops, Outcome::NetworkError, ("connect_error", "closed_early", message)).await;
}

#[tokio::test]
async fn what_is_not_http_is_called_that() {
    let babbles =
        once_asked(async |mut stream| drop(stream.write_all(b"220 mail.example.com\r\n\r\n").await));
    let said = ("protocol_error", "protocol", "the answer is not well-formed HTTP");
    fails(babbles.await, Outcome::NetworkError, said).await;
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_told_from_a_connection_that_does_not() {
    let hangs = once_asked(async |mut stream| drop(stream.read(&mut [0]).await)).await;
    fails(hangs, Outcome::Timeout, ("timeout", "answer_timeout", "no answer within 1 s")).await;
}

#[tokio::test]
async fn a_redirect_says_that_it_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let answer = format!(
        "HTTP/1.1 302 Found\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
        elsewhere.local_addr().unwrap()
    );
    let addr = once_asked(move |mut stream| {
        let answer = answer.clone();
        async move { drop(stream.write_all(answer.as_bytes()).await) }
    });
    let (outcome, status, error) = met(addr.await).await;
    assert_eq!((outcome, status), (Outcome::Rejected, Some(302)));
    assert_eq!((&*error.code, error.kind), ("redirect", None));
    assert!(error.message.contains("redirects are not followed"), "{}", error.message);
}
