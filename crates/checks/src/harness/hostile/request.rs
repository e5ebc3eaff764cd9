//! What a hostile receiver reads of a request: enough to know which attempt it was and where it ends.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

const HEAD_END: &[u8] = b"\r\n\r\n";

/// The head of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestHead {
    pub(crate) delivery: String,
    pub(crate) attempt: u32,
    pub(crate) asks_for_no_encoding: bool,
    content_length: usize,
}

/// What has come in and was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    bytes: Vec<u8>,
}

impl Incoming {
    pub(crate) async fn head(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<RequestHead> {
        loop {
            if let Some(at) = self.bytes.windows(HEAD_END.len()).position(|end| end == HEAD_END) {
                let head: Vec<u8> = self.bytes.drain(..at + HEAD_END.len()).collect();
                return Ok(parse(&String::from_utf8_lossy(&head)));
            }
            self.more(from).await?;
        }
    }

    pub(crate) async fn body(
        &mut self,
        from: &mut (impl AsyncRead + Unpin),
        head: &RequestHead,
    ) -> io::Result<()> {
        while self.bytes.len() < head.content_length {
            self.more(from).await?;
        }
        self.bytes.drain(..head.content_length);
        Ok(())
    }

    /// Waits until there is at least a byte.
    pub(crate) async fn something(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        if self.bytes.is_empty() { self.more(from).await } else { Ok(()) }
    }

    async fn more(&mut self, from: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
        match from.read_buf(&mut self.bytes).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn parse(text: &str) -> RequestHead {
    let mut head = RequestHead::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "posthaste-delivery" => head.delivery = value.to_owned(),
            "posthaste-attempt" => head.attempt = value.parse().unwrap_or(0),
            "content-length" => head.content_length = value.parse().unwrap_or(0),
            "accept-encoding" => head.asks_for_no_encoding = value == "identity",
            _ => {}
        }
    }
    head
}
