//! Answers while the store is not open yet: alive, but not ready. A database that comes late must not look like a
//! process that hangs, and a caller is told when to come back.

use std::{convert::Infallible, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// A request line and a few headers; the body is not waited for.
const HEAD_BYTES: usize = 8 * 1024;
/// A usual start is over by then, and callers have only waited a moment instead of being sent away.
const FIRST: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);

const ALIVE: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 21\r\n\
    connection: close\r\n\r\n{\"status\":\"starting\"}";
const NOT_READY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
    retry-after: 1\r\ncontent-length: 165\r\nconnection: close\r\n\r\n\
    {\"type\":\"/docs/errors#unavailable\",\"title\":\"Unavailable\",\"status\":503,\"code\":\"unavailable\",\
    \"detail\":\"The node is starting and waits for its database.\",\"ready\":false}";

/// Never ends by itself: dropped when the real server takes over. Connections under way are answered to the end.
pub(super) async fn answer(listener: &TcpListener) -> Infallible {
    tokio::time::sleep(FIRST).await;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(async move {
                    let _ = timeout(PATIENCE, one(stream)).await;
                });
            }
            // Out of file descriptors, mostly.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn one(mut stream: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < HEAD_BYTES {
        match stream.read(&mut part).await? {
            0 => break,
            read => head.extend_from_slice(&part[..read]),
        }
    }
    let answer = if head.starts_with(b"GET /healthz ") { ALIVE } else { NOT_READY };
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing with unread bytes would reset the connection, and the answer with it.
    while stream.read(&mut part).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_are_as_long_as_they_say() {
        for answer in [ALIVE, NOT_READY] {
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
        }
    }
}
