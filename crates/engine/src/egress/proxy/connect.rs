//! `CONNECT`, as HTTP proxies have it (RFC 9110, 9.3.6).

use super::{super::Duplex, Endpoint, Login};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::limits;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub(super) async fn shake_hands(
    stream: &mut dyn Duplex,
    to: Endpoint<'_>,
    login: Option<&Login>,
) -> io::Result<()> {
    let mut request = format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n");
    if let Some(Login { user, password }) = login {
        let credentials = STANDARD.encode(format!("{user}:{password}"));
        request += &format!("proxy-authorization: Basic {credentials}\r\n");
    }
    request += "\r\n";
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let head = read_head(stream).await?;
    match status(&head) {
        Some(200..=299) => Ok(()),
        Some(status) => Err(io::Error::other(format!("it answered {status}"))),
        None => Err(io::Error::other("its answer is not HTTP")),
    }
}

/// Byte by byte, and not one more than the head: what follows is the destination's. It is some hundred bytes, once a
/// connection.
async fn read_head(stream: &mut dyn Duplex) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(256);
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == limits::PROXY_HEAD_BYTES {
            return Err(io::Error::other("its answer has no end"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(head)
}

/// `HTTP/1.1 200 Connection established`.
fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let version = words.next()?;
    let status = words.next()?;
    let well_formed = matches!(version, "HTTP/1.1" | "HTTP/1.0") && status.len() == 3;
    status.parse().ok().filter(|_| well_formed)
}
