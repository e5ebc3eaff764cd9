//! Destinations that are called by HTTP: one signed POST an attempt.

use super::{
    AttemptFacts, Dialer, Sink, SinkAttempt, SinkKind,
    redaction::{HIDDEN, Redaction},
    signer::{Signer, Stamp},
};
use crate::{
    credentials::{Credential, Credentials, TokenKeeper, append},
    transport::{AnswerRoom, HttpAnswer, HttpFailure, HttpRequest, HttpResponse, Transport},
};
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use domain::{
    attempt::{AttemptError, Detail, Response, Timing},
    cloud_event::{self, CloudEvent},
    destination::{Destination, Format},
    limits,
    outcome::{Fault, ResponseFacts, classify},
    retry::{RetryPolicy, parse_retry_after},
    seal::DataKey,
    time::Timestamp,
    trace::{self, Attribute, TRACEPARENT, TRACESTATE},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use std::{sync::Arc, time::Duration};

pub(crate) const USER_AGENT: &str = concat!("Posthaste/", env!("CARGO_PKG_VERSION"));

/// HTTP, over a transport.
pub struct HttpKind<T> {
    transport: Arc<T>,
    credentials: Box<CredentialsOf>,
}

/// Where a destination's credentials come from.
type CredentialsOf = dyn Fn(&Destination, &DataKey) -> Result<Credentials, String> + Send + Sync;

impl<T: Transport + 'static> HttpKind<T> {
    pub fn new(transport: Arc<T>) -> Self {
        let tokens = TokenKeeper::over(&transport);
        let credentials = move |it: &Destination, key: &DataKey| Credentials::of(it, key, &tokens);
        Self { transport, credentials: Box::new(credentials) }
    }

    /// With credentials of another origin than the destinations' settings.
    pub fn with_credentials(
        self,
        credentials: impl Fn(&Destination, &DataKey) -> Result<Credentials, String> + Send + Sync + 'static,
    ) -> Self {
        Self { credentials: Box::new(credentials), ..self }
    }
}

impl<T: Transport + 'static> SinkKind for HttpKind<T> {
    fn prepare(&self, destination: &Destination, key: &DataKey) -> Result<Box<dyn Sink>, String> {
        // Read as the API has read it: what two parsers understand differently goes where only one has looked.
        let url = url::Url::parse(&destination.url).map_err(|_| "its URL cannot be used")?;
        let uri = url.as_str().parse::<Uri>().map_err(|_| "its URL cannot be used")?;
        let mut headers = HeaderMap::new();
        let mut shown = Vec::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        for (name, value) in &destination.headers {
            append(&mut headers, name, value)?;
            shown.push((name.clone(), value.clone()));
        }
        let credentials = (self.credentials)(destination, key)?;
        if let Credentials::Fixed(credential) = &credentials {
            shown.extend_from_slice(&credential.shown);
        }
        let forward = destination.forward_headers.iter().map(|name| name.parse::<HeaderName>());
        let forward =
            forward.collect::<Result<_, _>>().map_err(|_| "a forwarded header's name is not valid")?;
        let signer = Signer::of(destination, key)?;
        let transport = Arc::clone(&self.transport);
        let format = destination.format;
        Ok(Box::new(HttpSink { transport, uri, headers, shown, credentials, forward, format, signer }))
    }
}

/// What every request to this destination has in common.
struct HttpSink<T> {
    transport: Arc<T>,
    uri: Uri,
    headers: HeaderMap,
    /// The same headers as people may see them, with those of a credential that is known.
    shown: Vec<(String, String)>,
    credentials: Credentials,
    forward: Vec<HeaderName>,
    format: Format,
    signer: Signer,
}

#[async_trait]
impl<T: Transport> Sink for HttpSink<T> {
    async fn attempt(&self, attempt: SinkAttempt<'_>, _: Dialer<'_>) -> AttemptFacts {
        let (policy, clock, started_at) = (attempt.policy, attempt.clock, attempt.started_at);
        let credential = attempt.credential;
        // The event goes with what it was asked for: when the request has been written, the answer is waited for without.
        let (mut request, mut shown) = match self.request(attempt) {
            Ok(built) => built,
            Err(reason) => return AttemptFacts::of_fault(Fault::Unbuildable, reason),
        };
        // Last, over what is sent.
        let proof = match self.sign(&mut request, &mut shown, clock.to_wall(started_at)) {
            Ok(proof) => proof,
            Err(reason) => return AttemptFacts::of_fault(Fault::Unbuildable, reason),
        };
        let redaction = Redaction::of(proof.as_ref().or(credential));
        let answer = self.transport.send(request).await;
        let mut facts = facts(answer, shown, policy, clock.to_wall(clock.now()));
        if let Some(response) = &mut facts.detail.response {
            redact(response, &redaction);
        }
        facts
    }

    fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    fn keeps_deadline(&self) -> bool {
        true
    }

    fn memory_for(&self, payload_bytes: usize) -> usize {
        match self.format {
            Format::Standard | Format::CloudeventsBinary => payload_bytes,
            // The payload, and the document that has it in it, in base64 at worst.
            Format::CloudeventsStructured => payload_bytes / 3 * 7 + cloud_event::DOCUMENT_ROOM_BYTES,
        }
    }

    fn describe(&self, attributes: &mut Vec<(&'static str, Attribute)>) {
        attributes.push(("http.request.method", "POST".into()));
    }
}

impl<T> HttpSink<T> {
    /// The request, and the headers of it that are kept with the attempt: those that `EveryRequest` of the API cannot tell
    /// from the event and the attempt.
    fn request(&self, attempt: SinkAttempt<'_>) -> Result<(HttpRequest, Vec<(String, String)>), String> {
        let SinkAttempt { delivery, event, mut payload, credential, started_at, .. } = attempt;
        let asked = credential.filter(|_| matches!(self.credentials, Credentials::Asked(_)));
        let known = self.headers.len() + credential.map_or(0, |credential| credential.headers.len());
        let mut headers = HeaderMap::with_capacity(known + 12);
        let mut shown = self.shown.clone();
        shown.extend_from_slice(asked.map_or(&[], |credential| &credential.shown));
        let id = event.id.to_string();
        let mut set = |name: HeaderName, value: &str| match HeaderValue::from_str(value) {
            Ok(value) => {
                headers.insert(name, value);
                Ok(())
            }
            Err(_) => Err(format!("the value of header `{name}` is not valid")),
        };
        match self.format {
            Format::Standard => set(header::CONTENT_TYPE, &event.content_type)?,
            Format::CloudeventsBinary => {
                set(header::CONTENT_TYPE, &event.content_type)?;
                for (name, value) in CloudEvent::of_event(&event).headers() {
                    let known = name
                        .parse::<HeaderName>()
                        .map_err(|_| "a CloudEvent has an attribute that is none")?;
                    set(known, &value)?;
                    shown.push((name, value));
                }
            }
            Format::CloudeventsStructured => {
                set(header::CONTENT_TYPE, CloudEvent::DOCUMENT_TYPE)?;
                shown.push((header::CONTENT_TYPE.to_string(), CloudEvent::DOCUMENT_TYPE.into()));
                let document = CloudEvent::of_event(&event).document(&event.content_type, &payload);
                payload = Bytes::from_owner(Document { document, _payload: payload });
            }
        }
        set(HeaderName::from_static("webhook-id"), &id)?;
        // Receivers compare it with their clocks, which a clock of ours that was set back agrees with and our own time does
        // not.
        let signed_at = attempt.clock.to_wall(started_at).seconds();
        set(HeaderName::from_static("webhook-timestamp"), &signed_at.to_string())?;
        if signed_at != started_at.seconds() {
            shown.push(("webhook-timestamp".into(), signed_at.to_string()));
        }
        set(HeaderName::from_static("posthaste-event-type"), event.event_type.as_str())?;
        set(HeaderName::from_static("posthaste-delivery"), &delivery.id.to_string())?;
        set(HeaderName::from_static("posthaste-attempt"), &attempt.number.to_string())?;
        if let Some(sequence) = delivery.sequence {
            set(HeaderName::from_static("posthaste-sequence"), &sequence.to_string())?;
            shown.push(("posthaste-sequence".into(), sequence.to_string()));
        }
        if let Some(replay) = delivery.replay_id {
            set(HeaderName::from_static("posthaste-replay"), &replay.to_string())?;
        }
        let stamp = Stamp { id: &id, started_at, signed_at };
        let signatures = self.signer.sign(attempt.signing, stamp, &payload)?;
        for (name, value) in &signatures {
            set(name.clone(), value)?;
        }
        let trace = attempt.trace.to_string();
        set(HeaderName::from_static(TRACEPARENT), &trace)?;
        if let Some(state) = trace::state(&event) {
            set(HeaderName::from_static(TRACESTATE), &state)?;
            shown.push((TRACESTATE.into(), state));
        }
        for (name, value) in &event.headers {
            // The trace goes on, with the attempt as its next span.
            if name == TRACEPARENT {
                shown.push((name.clone(), trace.clone()));
                continue;
            }
            if name == TRACESTATE {
                continue;
            }
            // What is set here is sent as it is set, whatever comes in.
            let is_set = || {
                self.headers.contains_key(name.as_str())
                    || signatures.iter().any(|(signed, _)| signed == name.as_str())
                    || credential.is_some_and(|it| it.headers.contains_key(name.as_str()))
                    || (self.format == Format::CloudeventsBinary && name.starts_with(cloud_event::PREFIX))
            };
            let forwarded = self.forward.iter().any(|wanted| wanted == name.as_str()) && !is_set();
            // Whoever sends events in says what stands in it: that must not end a delivery.
            if forwarded
                && let (Ok(name), Ok(sent)) =
                    (name.parse::<HeaderName>(), HeaderValue::from_bytes(value.as_bytes()))
            {
                headers.insert(name.clone(), sent);
                shown.push((name.to_string(), value.clone()));
            }
        }
        shown.extend(signatures.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)));
        for (name, value) in self.headers.iter().chain(credential.into_iter().flat_map(|it| &it.headers)) {
            headers.entry(name).or_insert_with(|| value.clone());
        }
        let SinkAttempt { deadline, timeout, permit, .. } = attempt;
        let (uri, identity) = (self.uri.clone(), self.credentials.identity(started_at).cloned());
        let room = AnswerRoom::DESTINATION;
        let request = HttpRequest { uri, headers, body: payload, deadline, timeout, permit, identity, room };
        Ok((request, shown))
    }

    /// If its requests are signed as a whole. Given back is what proves who sends.
    fn sign(
        &self,
        request: &mut HttpRequest,
        shown: &mut Vec<(String, String)>,
        at: Timestamp,
    ) -> Result<Option<Credential>, String> {
        let Credentials::Signed(signature) = &self.credentials else { return Ok(None) };
        let proof = signature.sign(&request.uri, &mut request.headers, &request.body, at, shown)?;
        shown.extend_from_slice(&proof.shown);
        Ok(Some(proof))
    }
}

/// A payload that was written anew. The bytes it was made of are kept as long as it is: with them goes the room for both.
struct Document {
    document: Vec<u8>,
    _payload: Bytes,
}

impl AsRef<[u8]> for Document {
    fn as_ref(&self) -> &[u8] {
        &self.document
    }
}

fn facts(
    answer: HttpAnswer,
    shown: Vec<(String, String)>,
    policy: &RetryPolicy,
    now: Timestamp,
) -> AttemptFacts {
    let timing = timing(&answer);
    let reused = answer.connection.is_some_and(|connection| connection.reused);
    let mut facts = match answer.result {
        Ok(received) => facts_of_response(&received, policy, now),
        Err(HttpFailure { fault, kind, message }) => AttemptFacts::of_failure(fault, kind, message),
    };
    facts.detail.request_headers = shown;
    facts.detail.timing = timing;
    facts.detail.connection_reused = reused;
    facts
}

fn facts_of_response(received: &HttpResponse, policy: &RetryPolicy, now: Timestamp) -> AttemptFacts {
    let asked: Vec<&str> = received
        .headers
        .get_all(header::RETRY_AFTER)
        .iter()
        .map(|value| value.to_str().unwrap_or(""))
        .collect();
    let retry_after = parse_retry_after(&asked, now.seconds());
    let control = received.headers.get("webhook-delivery").and_then(|value| value.to_str().ok());
    let facts = ResponseFacts { status: received.status, retry_after, delivery_control: control };
    let detail = Detail {
        retry_after_seconds: retry_after.map(|pause| pause.as_secs()),
        error: (300..400).contains(&received.status).then(AttemptError::redirect),
        response: Some(response_shown(received)),
        ..Detail::default()
    };
    AttemptFacts {
        classified: classify(&facts, policy),
        http_status: Some(received.status),
        detail,
        // The receiver's own word counts more.
        credential_refused: received.status == StatusCode::UNAUTHORIZED && control.is_none(),
    }
}

fn timing(answer: &HttpAnswer) -> Timing {
    let micros = |pause: Duration| u32::try_from(pause.as_micros()).unwrap_or(u32::MAX);
    let connection = answer.connection.unwrap_or_default();
    Timing {
        dns_us: connection.dns.map(micros),
        connect_us: connection.connect.map(micros),
        tls_us: connection.tls.map(micros),
        first_byte_us: answer.first_byte.map(micros),
    }
}

/// Leaves out what may not be seen: what the receiver gives to a client of its own, and what it repeats of ours.
fn redact(response: &mut Response, redaction: &Redaction) {
    for (name, value) in &mut response.headers {
        *value = match name.as_str() {
            "set-cookie" => HIDDEN.into(),
            _ => redaction.apply(value).into_owned(),
        };
    }
    if let Some(body) = &mut response.body {
        *body = redaction.apply(body).into_owned();
    }
    let bytes = response.body_base64.as_ref().and_then(|body| STANDARD.decode(body).ok());
    if bytes.is_some_and(|bytes| redaction.is_in(&bytes)) {
        (response.body, response.body_base64) = (Some(HIDDEN.into()), None);
    }
}

/// The answer as it is kept: bounded, and text where it is text.
fn response_shown(received: &HttpResponse) -> Response {
    let mut room = limits::RESPONSE_HEADERS_KEPT_BYTES;
    let mut headers = Vec::with_capacity(received.headers.len());
    for (name, value) in &received.headers {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let Some(left) = room.checked_sub(name.as_str().len() + value.len()) else { break };
        room = left;
        headers.push((name.to_string(), value));
    }
    let text = std::str::from_utf8(&received.body).ok().map(str::to_owned);
    let body_base64 = text.is_none().then(|| STANDARD.encode(&received.body));
    Response { headers, body: text, body_base64, truncated: received.truncated }
}
