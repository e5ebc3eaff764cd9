//! One keep-alive connection of the pump, and how an event is put into a request.
//!
//! The connection is driven by the task that sends, not by one of its own: a request then costs no hop
//! between tasks.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Target;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const EVENT_TYPE: HeaderName = HeaderName::from_static("x-event-type");

/// What all requests of a pump have in common.
#[derive(Debug)]
pub(super) struct Envelope {
    /// Where the service can be reached: host and port.
    addresses: Vec<(String, u16)>,
    paths: Vec<Uri>,
    headers: HeaderMap,
    kind: TargetKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TargetKind {
    Raw,
    Ingest,
    Publish,
}

impl Envelope {
    pub(super) fn new(target: &Target, also_at: &[String]) -> io::Result<Envelope> {
        let (kind, urls, bearer) = match target {
            Target::Url(url) => (TargetKind::Raw, vec![url.clone()], None),
            Target::Ingest { base, tokens } => {
                let base = base.trim_end_matches('/');
                let urls = tokens.iter().map(|token| format!("{base}/ingest/{token}")).collect();
                (TargetKind::Ingest, urls, None)
            }
            Target::Publish { base, key } => {
                (TargetKind::Publish, vec![format!("{}/v1/events", base.trim_end_matches('/'))], Some(key))
            }
        };
        let urls: Vec<Uri> = urls.iter().map(|url| url.parse()).collect::<Result<_, _>>().map_err(invalid)?;
        let first = urls.first().ok_or_else(|| invalid("no ingest token"))?;
        if first.scheme_str() != Some("http") {
            return Err(invalid(format!("{first} is not an http:// URL")));
        }
        let authority = first.authority().ok_or_else(|| invalid("a URL needs a host"))?;
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(authority.as_str()).map_err(invalid)?);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(key) = bearer {
            headers.insert(header::AUTHORIZATION, format!("Bearer {key}").parse().map_err(invalid)?);
        }
        let mut addresses = vec![address_of(first)?];
        for base in also_at {
            addresses.push(address_of(&base.parse().map_err(invalid)?)?);
        }
        Ok(Envelope { addresses, paths: urls.iter().map(origin_form).collect(), headers, kind })
    }
}

/// A request that can be sent again.
pub(super) struct PreparedRequest {
    path: Uri,
    headers: HeaderMap,
    body: Bytes,
}

pub(super) struct PumpAnswer {
    pub(super) status: u16,
    pub(super) event_id: Option<Box<str>>,
    pub(super) retry_after: Option<Duration>,
}

pub(super) struct PumpConnection {
    envelope: Arc<Envelope>,
    /// Which of the addresses it uses.
    at: usize,
    open: Option<Http1Connection>,
}

struct Http1Connection {
    sender: SendRequest<Full<Bytes>>,
    connection: Pin<Box<Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
    over: bool,
}

impl PumpConnection {
    /// The connections of a pump are spread over the addresses by their number.
    pub(super) fn new(envelope: Arc<Envelope>, number: usize) -> PumpConnection {
        PumpConnection { at: number % envelope.addresses.len(), envelope, open: None }
    }

    /// The next request goes to the next address.
    pub(super) fn use_next_address(&mut self) {
        if self.envelope.addresses.len() > 1 {
            self.at = (self.at + 1) % self.envelope.addresses.len();
            self.open = None;
        }
    }

    pub(super) fn is_raw(&self) -> bool {
        self.envelope.kind == TargetKind::Raw
    }

    pub(super) fn request(&self, n: u64, key: &str, event_type: &str, payload: Bytes) -> PreparedRequest {
        let envelope = &*self.envelope;
        let mut headers = envelope.headers.clone();
        headers.insert(IDEMPOTENCY_KEY, key.parse().expect("keys are of letters, digits and dashes"));
        let body = if envelope.kind == TargetKind::Publish {
            let mut body = BytesMut::with_capacity(payload.len() + event_type.len() + 24);
            body.put_slice(b"{\"type\":\"");
            body.put_slice(event_type.as_bytes());
            body.put_slice(b"\",\"data\":");
            body.put_slice(&payload);
            body.put_slice(b"}");
            body.freeze()
        } else {
            headers.insert(EVENT_TYPE, event_type.parse().expect("event types are dotted words"));
            payload
        };
        let path = envelope.paths[(n % envelope.paths.len() as u64) as usize].clone();
        PreparedRequest { path, headers, body }
    }

    /// None when there was no answer in time, for whatever reason; the next one gets a new connection.
    pub(super) async fn post(&mut self, request: &PreparedRequest, within: Duration) -> Option<PumpAnswer> {
        let answer = timeout(within, self.exchange(request)).await.ok().flatten();
        if answer.is_none() {
            self.open = None;
        }
        answer
    }

    async fn exchange(&mut self, prepared: &PreparedRequest) -> Option<PumpAnswer> {
        if let Some(open) = &mut self.open {
            open.look().await;
        }
        let open = match &mut self.open {
            Some(open) if !open.over => open,
            gone => gone.insert(Http1Connection::connect(&self.envelope.addresses[self.at]).await.ok()?),
        };
        let mut request = Request::new(Full::new(prepared.body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = prepared.path.clone();
        *request.headers_mut() = prepared.headers.clone();
        open.send(request).await
    }
}

impl Http1Connection {
    async fn connect((host, port): &(String, u16)) -> io::Result<Http1Connection> {
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(io::Error::other)?;
        Ok(Http1Connection { sender, connection: Box::pin(connection), over: false })
    }

    /// Notices a close that happened since the last request.
    async fn look(&mut self) {
        poll_fn(|cx| {
            self.over |= self.connection.as_mut().poll(cx).is_ready();
            Poll::Ready(())
        })
        .await;
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Option<PumpAnswer> {
        let Http1Connection { sender, connection, over } = self;
        let mut exchange = pin!(async {
            sender.ready().await.ok()?;
            let (head, body) = sender.send_request(request).await.ok()?.into_parts();
            let retry_after = head.headers.get(header::RETRY_AFTER);
            let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
            let body = body.collect().await.ok()?.to_bytes();
            Some(PumpAnswer {
                status: head.status.as_u16(),
                event_id: event_id(&body),
                retry_after: retry_after.map(Duration::from_secs),
            })
        });
        poll_fn(|cx| {
            if let Poll::Ready(answer) = exchange.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            if !*over {
                *over = connection.as_mut().poll(cx).is_ready();
            }
            // The connection may just have brought the answer, or its own end.
            exchange.as_mut().poll(cx)
        })
        .await
    }
}

/// The value of the first `"id"`, without parsing the rest.
fn event_id(body: &[u8]) -> Option<Box<str>> {
    const FIELD: &[u8] = b"\"id\":";
    let at = body.windows(FIELD.len()).position(|window| window == FIELD)? + FIELD.len();
    let value = body[at..].trim_ascii_start().strip_prefix(b"\"")?;
    let end = value.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&value[..end]).ok().map(Box::from)
}

fn address_of(url: &Uri) -> io::Result<(String, u16)> {
    let authority = url.authority().ok_or_else(|| invalid("a URL needs a host"))?;
    // Brackets belong to the URL, not to the address.
    let host = authority.host().trim_matches(['[', ']']).to_owned();
    Ok((host, authority.port_u16().unwrap_or(80)))
}

fn origin_form(url: &Uri) -> Uri {
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    path.parse().expect("it was part of a valid URL")
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_id_is_read_without_parsing() {
        let id = |text: &str| event_id(text.as_bytes());
        assert_eq!(id(r#"{"id":"evt_1","status":"queued"}"#).as_deref(), Some("evt_1"));
        assert_eq!(id(r#"{ "id": "evt_2" }"#).as_deref(), Some("evt_2"));
        assert_eq!(id(""), None);
        assert_eq!(id(r#"{"id":null}"#), None);
        assert_eq!(id(r#"{"id":"cut"#), None);
    }

    #[test]
    fn targets_become_paths_and_headers() {
        let ingest = Target::Ingest { base: "http://h:81/".into(), tokens: vec!["a".into(), "b".into()] };
        let envelope = Envelope::new(&ingest, &["http://i:82".into()]).unwrap();
        assert_eq!(envelope.addresses, [("h".into(), 81), ("i".into(), 82)]);
        assert_eq!(envelope.paths, ["/ingest/a", "/ingest/b"]);

        let publish = Target::Publish { base: "http://[::1]".into(), key: "phk_x".into() };
        let connection = PumpConnection::new(Arc::new(Envelope::new(&publish, &[]).unwrap()), 0);
        let request = connection.request(0, "k-0", "order.paid", Bytes::from_static(b"{\"n\":0}"));
        assert_eq!(request.headers["authorization"], "Bearer phk_x");
        assert_eq!(request.body, r#"{"type":"order.paid","data":{"n":0}}"#);
        assert_eq!(connection.envelope.addresses, [("::1".into(), 80)]);
        assert!(Envelope::new(&Target::Url("https://h/".into()), &[]).is_err());
    }
}
