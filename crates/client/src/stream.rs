//! The live stream: server-sent events, one after the other.

use crate::{Client, Error};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::Value;
use std::{collections::VecDeque, time::Duration};
use tokio::time::timeout;
use url::form_urlencoded::Serializer;

/// A server shows a sign of life every fifteen seconds: one that does not is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// Longer than any line the server writes.
const LINE_BYTES: usize = 1024 * 1024;
const PROBLEM_BYTES: usize = 1024 * 1024;

/// Which changes: filters by name and value, as the API has them.
#[derive(Debug, Clone, Default)]
pub struct StreamFilters(pub Vec<(&'static str, String)>);

/// One event of the stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StreamedChange {
    /// Where to go on from.
    pub id: String,
    /// `event.received`, `delivery.changed`, `destination.changed` or `reset`.
    pub event: String,
    pub data: Value,
}

/// A stream that is open.
pub struct ChangeStream {
    server: String,
    body: Incoming,
    lines: SseReader,
    last_id: Option<String>,
}

impl Client {
    /// Follows what happens from now on, or from the last `id` that was heard.
    pub async fn follow(
        &self,
        changes: &StreamFilters,
        last_id: Option<&str>,
    ) -> Result<ChangeStream, Error> {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(changes.0.iter().map(|(name, value)| (*name, value.as_str())));
        let mut request = self.request(Method::GET, &format!("/v1/stream?{}", query.finish()), None);
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(id) = last_id {
            let value = HeaderValue::try_from(id).map_err(|_| Error::BadHeader("last-event-id".into()))?;
            headers.insert(HeaderName::from_static("last-event-id"), value);
        }
        let server = self.base.to_string();
        let not_reached = |source| Error::NotReached { server: server.clone(), source };
        let asked = timeout(SILENCE, self.http.request(request)).await;
        let answer = asked.map_err(|_| not_reached(silence()))?.map_err(|error| not_reached(error.into()))?;
        if !answer.status().is_success() {
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, PROBLEM_BYTES).collect().await.map_err(not_reached)?;
            return Err(Error::refused(&http::Response::from_parts(head, body.to_bytes())));
        }
        let last_id = last_id.map(str::to_owned);
        Ok(ChangeStream { server, body: answer.into_body(), lines: SseReader::default(), last_id })
    }
}

impl ChangeStream {
    /// The next event; None when the server has ended the stream: come back with the last id.
    pub async fn next(&mut self) -> Result<Option<StreamedChange>, Error> {
        loop {
            if let Some(change) = self.lines.change(&mut self.last_id)? {
                return Ok(Some(change));
            }
            let not_reached = |source| Error::NotReached { server: self.server.clone(), source };
            let frame = timeout(SILENCE, self.body.frame()).await.map_err(|_| not_reached(silence()))?;
            match frame {
                None => return Ok(None),
                Some(frame) => {
                    let frame = frame.map_err(|error| not_reached(error.into()))?;
                    self.lines.push(&frame.into_data().unwrap_or_else(|_| Bytes::new()))?;
                }
            }
        }
    }

    /// Where to go on from: what was heard last, or shown with a sign of life.
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }
}

fn silence() -> crate::error::BoxError {
    format!("no sign of life within {} seconds", SILENCE.as_secs()).into()
}

/// Bytes as they come, and the lines among them.
#[derive(Default)]
struct SseReader {
    rest: Vec<u8>,
    whole: VecDeque<String>,
    event: String,
    data: Option<Value>,
}

impl SseReader {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.rest.extend_from_slice(piece);
            if self.rest.len() > LINE_BYTES {
                return Err(Error::Unexpected("a line of the stream is longer than any should be".into()));
            }
            if self.rest.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&self.rest).trim_end_matches(['\r', '\n']).to_owned();
                self.whole.push_back(line);
                self.rest.clear();
            }
        }
        Ok(())
    }

    /// The next whole event.
    fn change(&mut self, last_id: &mut Option<String>) -> Result<Option<StreamedChange>, Error> {
        while let Some(line) = self.whole.pop_front() {
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if let Some(data) = self.data.take() {
                    let id = last_id.clone().unwrap_or_default();
                    return Ok(Some(StreamedChange { id, event, data }));
                }
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "id" => *last_id = Some(value.to_owned()),
                "event" => value.clone_into(&mut self.event),
                "data" => {
                    let data = serde_json::from_str(value).map_err(|error| {
                        Error::Unexpected(format!("an event of the stream is no JSON: {error}"))
                    })?;
                    self.data = Some(data);
                }
                // Comments, the pause before coming back, and what a newer server says.
                _ => {}
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_however_their_bytes_are_cut() {
        let text = "retry: 2000\n\nid: 1_a\nevent: delivery.changed\ndata: {\"n\":1}\n\n: still here\nid: 1_b\n\n\
                    id: 1_c\r\nevent: destination.changed\r\ndata: {\"n\":2}\r\n\r\n";
        for size in 1..text.len() {
            let (mut lines, mut last, mut heard) = (SseReader::default(), None, Vec::new());
            for piece in text.as_bytes().chunks(size) {
                lines.push(piece).unwrap();
                while let Some(change) = lines.change(&mut last).unwrap() {
                    heard.push((change.id, change.event, change.data["n"].clone()));
                }
            }
            let expected = [
                ("1_a".into(), "delivery.changed".into(), 1.into()),
                ("1_c".into(), "destination.changed".into(), 2.into()),
            ];
            assert_eq!(heard, expected, "{size} bytes at a time");
        }
    }

    #[test]
    fn a_sign_of_life_says_where_to_go_on_from() {
        let (mut lines, mut last) = (SseReader::default(), None);
        lines.push(b": still here\nid: 2_b\n\n").unwrap();
        assert_eq!(lines.change(&mut last).unwrap(), None);
        assert_eq!(last.as_deref(), Some("2_b"));
    }

    #[test]
    fn a_line_without_an_end_is_not_waited_for() {
        let mut lines = SseReader::default();
        assert!(lines.push(&vec![b'x'; LINE_BYTES + 1]).is_err());
    }
}
