//! HTTP by hand, for what no client would send, and for seeing exactly what came back.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

/// What came back on a connection until it was closed, or until we gave up.
#[derive(Debug)]
pub(crate) struct RawAnswer {
    /// None: not a word.
    pub(crate) status: Option<u16>,
    pub(crate) text: String,
    pub(crate) took: Duration,
    /// By the other side, in good order; otherwise we gave up, or it was cut.
    pub(crate) closed: bool,
}

impl RawAnswer {
    pub(crate) fn new(bytes: &[u8], took: Duration, closed: bool) -> RawAnswer {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let status = text.get(9..12).and_then(|status| status.parse().ok());
        RawAnswer { status, text, took, closed }
    }

    /// Of every answer that came, one after the other.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        let starts = self.text.match_indices("HTTP/1.1 ").map(|(at, start)| at + start.len());
        starts.filter_map(|at| self.text.get(at..at + 3)?.parse().ok()).collect()
    }

    /// A header of the answer, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let head = self.text.split("\r\n\r\n").next()?;
        let named = |line: &&str| line.split_once(':').is_some_and(|(key, _)| key.eq_ignore_ascii_case(name));
        Some(head.lines().find(named)?.split_once(':')?.1.trim())
    }

    /// The `code` of a problem document.
    pub(crate) fn code(&self) -> Option<String> {
        let problem: serde_json::Value = serde_json::from_str(self.body()).ok()?;
        Some(problem.get("code")?.as_str()?.to_owned())
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }
}

/// A whole request, with the length of its body and `connection: close` written in.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: checks\r\nconnection: close\r\n");
    head.push_str(&format!("content-length: {}\r\n", body.len()));
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

/// The same with a key and a body of JSON.
pub(crate) fn json_request(method: &str, path: &str, key: &str, body: &str) -> Vec<u8> {
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    request(method, path, &headers, body.as_bytes())
}

/// Sends the bytes and reads until the other side closes.
pub(crate) async fn exchange(addr: SocketAddr, bytes: &[u8], limit: Duration) -> io::Result<RawAnswer> {
    let began = Instant::now();
    exchange_over(TcpStream::connect(addr).await?, began, bytes, limit).await
}

/// The same as a client of another address would.
pub(crate) async fn exchange_from(
    client: Ipv4Addr,
    addr: SocketAddr,
    bytes: &[u8],
    limit: Duration,
) -> io::Result<RawAnswer> {
    let began = Instant::now();
    let socket = TcpSocket::new_v4()?;
    socket.bind((client, 0).into())?;
    exchange_over(socket.connect(addr).await?, began, bytes, limit).await
}

async fn exchange_over(
    mut stream: TcpStream,
    began: Instant,
    bytes: &[u8],
    limit: Duration,
) -> io::Result<RawAnswer> {
    let (mut from, mut to) = stream.split();
    let mut text = Vec::new();
    let both = async {
        // A server that refuses a body early may close before it has read it all.
        let write = async {
            let _ = to.write_all(bytes).await;
        };
        tokio::join!(write, from.read_to_end(&mut text)).1.is_ok()
    };
    let closed = timeout(limit, both).await.unwrap_or(false);
    Ok(RawAnswer::new(&text, began.elapsed(), closed))
}

/// Sends all the bytes before it reads one, as simple clients do.
pub(crate) async fn written_first(addr: SocketAddr, bytes: &[u8], limit: Duration) -> io::Result<RawAnswer> {
    let began = Instant::now();
    let mut stream = TcpStream::connect(addr).await?;
    let mut text = Vec::new();
    let both = async { stream.write_all(bytes).await.is_ok() && stream.read_to_end(&mut text).await.is_ok() };
    let closed = timeout(limit, both).await.unwrap_or(false);
    Ok(RawAnswer::new(&text, began.elapsed(), closed))
}

/// [`exchange`] by the thread that calls it: a runtime that has its hands full is not taken for a slow server.
pub(crate) fn exchange_blocking(addr: SocketAddr, bytes: &[u8], limit: Duration) -> io::Result<RawAnswer> {
    let began = Instant::now();
    let mut stream = std::net::TcpStream::connect_timeout(&addr, limit)?;
    stream.set_read_timeout(Some(limit))?;
    stream.write_all(bytes)?;
    let mut text = Vec::new();
    let closed = stream.read_to_end(&mut text).is_ok();
    Ok(RawAnswer::new(&text, began.elapsed(), closed))
}

/// Sends a beginning, then a little more every so often and never the end; what the server makes of it.
pub(crate) async fn trickle(
    addr: SocketAddr,
    beginning: &[u8],
    more: &[u8],
    every: Duration,
    limit: Duration,
) -> io::Result<RawAnswer> {
    let mut stream = TcpStream::connect(addr).await?;
    let began = Instant::now();
    let (mut from, mut to) = stream.split();
    let mut text = Vec::new();
    to.write_all(beginning).await?;
    let drip = async {
        loop {
            tokio::time::sleep(every).await;
            if to.write_all(more).await.is_err() {
                // Closed: the reader will see it too.
                std::future::pending::<()>().await;
            }
        }
    };
    let ended = timeout(limit, async {
        tokio::select! {
            () = drip => false,
            read = from.read_to_end(&mut text) => read.is_ok(),
        }
    })
    .await;
    Ok(RawAnswer::new(&text, began.elapsed(), ended.unwrap_or(false)))
}
