//! What a kind of destination must do to be delivered to, one floor above HTTP.
//!
//! A [`SinkKind`] is chosen by the scheme of a destination's URL (see [`Sinks`]) and makes its destinations ready: a
//! [`Sink`] each, once per change. A sink is given a delivery with its event and makes one attempt of it: what it met, how
//! long that took, and what is shown of the request and of the answer. It decides nothing: lanes, order, holds, retries
//! and endings follow from what it says, by the rules of `domain`, as they do for every other kind.
//!
//! What follows holds for every kind, because [`attempt`] sees to it:
//! - **The fence.** The lease is looked at after the last thing that was waited for and before the sink is asked; a
//!   connection refuses to write once it has ended; what is open then is dropped.
//! - **The address guard.** A sink has no way out but the [`Dialer`] it is given, which resolves, vets and connects
//!   (`egress`). A lint keeps this crate from opening a socket anywhere else.
//! - **A slot is free when the socket is.** The attempt is over when every connection that the dialer has opened for it
//!   is closed, whatever the sink has done with it.
//! - **The deadline.** A sink that is not done by then is dropped, unless it [keeps to it itself](Sink::keeps_deadline).
//! - **A panic** is this attempt's fault: it is recorded and retried, and its lane goes on.
//! - **Credentials** are asked for before the sink is, within the deadline and under the node's lease (`credentials`).
//!
//! HTTP ([`http`]) is the first kind. It alone keeps connections for the next request: they are made by the egress, under the
//! lease, and driven by the attempt itself, so that a connection is at rest or closed when its attempt is over.

mod http;
mod redaction;
mod signer;

use crate::{
    credentials::{Credential, CredentialError, Credentials},
    egress::{Egress, EgressError, Fence, Link, LinkFacts, Security},
    membership::Membership,
    transport::{HttpFailure, Transport},
};
use async_trait::async_trait;
use bytes::Bytes;
use domain::{
    attempt::{AttemptError, Detail},
    delivery::Delivery,
    destination::{Destination, Signing},
    event::Event,
    id::AttemptId,
    outcome::{Classified, DeadReason, FailureKind, Fault, Next, classify_fault},
    retry::RetryPolicy,
    seal::DataKey,
    time::{Clock, Timestamp},
    trace::{Attribute, TraceContext},
};
use futures_util::FutureExt;
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use store::failpoint;
use tokio::time::{Instant, timeout_at};

pub use http::HttpKind;
pub(crate) use http::USER_AGENT;

/// A kind of destination.
pub trait SinkKind: Send + Sync {
    /// Makes a destination of this kind ready: done once per change, used for every attempt. What cannot be made ready
    /// is not delivered to: its deliveries end as `undeliverable`, with this reason.
    fn prepare(&self, destination: &Destination, key: &DataKey) -> Result<Box<dyn Sink>, String>;
}

/// A destination, ready to be delivered to.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Makes one attempt, over connections of this dialer. Never fails: trouble is a [`Fault`] in what it says.
    async fn attempt(&self, attempt: SinkAttempt<'_>, dialer: Dialer<'_>) -> AttemptFacts;

    /// The credentials it is sent.
    fn credentials(&self) -> &Credentials {
        const NONE: &Credentials = &Credentials::None;
        NONE
    }

    /// Whether an attempt ends at its deadline by itself: then it is spared a timer, and can say more of what it met.
    fn keeps_deadline(&self) -> bool {
        false
    }

    /// What an attempt takes of memory for a payload of so many bytes: more than that, if it is written anew.
    fn memory_for(&self, payload_bytes: usize) -> usize {
        payload_bytes
    }

    /// Adds what is told of each attempt to the collector of traces.
    fn describe(&self, _attributes: &mut Vec<(&'static str, Attribute)>) {}
}

/// One attempt of a delivery, as a sink is asked to make it.
pub struct SinkAttempt<'a> {
    pub id: AttemptId,
    /// From 1 on.
    pub number: u32,
    pub delivery: &'a Delivery,
    /// To be let go of, with the payload, when the request is written: a large one counts against what fits in memory.
    pub event: Arc<Event>,
    /// The event's payload, byte for byte.
    pub payload: Bytes,
    pub trace: TraceContext,
    /// When the attempt was begun, for whatever is dated or signed.
    pub started_at: Timestamp,
    /// For everything: credential, name, connection, request, answer …
    pub deadline: Instant,
    /// … and how long that was at the beginning.
    pub timeout: Duration,
    pub signing: &'a Signing,
    pub policy: &'a RetryPolicy,
    /// To be shown, if there is one.
    pub credential: Option<&'a Credential>,
    /// Whether what was begun may still be sent.
    pub permit: Permit,
    pub clock: &'a dyn Clock,
}

/// What an attempt met.
#[derive(Debug)]
pub struct AttemptFacts {
    /// Judged by the domain: `classify` knows HTTP's answers, `classify_reply` those of other kinds.
    pub classified: Classified,
    /// None for other kinds, and without an answer.
    pub http_status: Option<u16>,
    /// What is shown of the request and of the answer. An error if there was no answer, or a redirect; the URL is filled in
    /// later.
    pub detail: Detail,
    /// The answer says that the credential is none, or none any more.
    pub credential_refused: bool,
}

impl AttemptFacts {
    /// There was no answer. The message is for the account's eyes: no address, no resolver text.
    pub fn of_fault(fault: Fault, message: String) -> Self {
        Self::of_failure(fault, fault.kind(), message)
    }

    pub(crate) fn of_failure(fault: Fault, kind: Option<FailureKind>, message: String) -> Self {
        let error = Some(AttemptError::new(fault, kind, message));
        let detail = Detail { error, ..Detail::default() };
        Self { classified: classify_fault(fault), http_status: None, detail, credential_refused: false }
    }

    pub fn of_connecting(error: &EgressError) -> Self {
        Self::of_failure(error.fault(), error.kind(), error.to_string())
    }

    fn of_timeout(timeout: Duration) -> Self {
        let HttpFailure { fault, kind, message } = HttpFailure::timed_out(timeout);
        Self::of_failure(fault, kind, message)
    }

    pub(crate) fn of_panic(delivery: &Delivery) -> Self {
        tracing::error!(delivery_id = %delivery.id, "an attempt panicked; it is recorded and retried");
        Self::of_fault(Fault::Panic, "an internal fault".into())
    }

    fn is_fault(&self) -> bool {
        self.http_status.is_none() && self.detail.error.is_some()
    }
}

/// Whether this node still may send what it has begun: its lease may end while a connection is being made.
#[derive(Debug, Clone)]
pub struct Permit(Option<Arc<Membership>>);

impl Permit {
    pub(crate) fn of(membership: &Arc<Membership>) -> Self {
        Self(Some(Arc::clone(membership)))
    }

    /// Of what is no attempt and outlives one. Its connection is under the node's lease all the same.
    pub(crate) fn of_none() -> Self {
        Self(None)
    }

    pub fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|membership| membership.stands())
    }
}

/// A sink's way out: connections to vetted addresses, which refuse to write once the lease has ended.
pub struct Dialer<'a> {
    egress: Option<&'a Egress>,
    membership: &'a Arc<Membership>,
    /// What the destination sees of this attempt.
    opened: &'a mut Vec<LinkFacts>,
}

/// A connection of one attempt.
pub type SinkConnection = Link;

impl Dialer<'_> {
    /// Connects to a host, by name or by address (that of IPv6 in brackets); over TLS it must prove that it is called that. A connection without TLS
    /// is made only where the operator has allowed `http`.
    pub async fn connect(
        &mut self,
        host: &str,
        port: u16,
        security: Security,
    ) -> Result<SinkConnection, EgressError> {
        // An engine on a simulated internet has no other.
        let egress = self.egress.ok_or(EgressError::Connect)?;
        let link = egress.open(host, port, security, Fence::Membership(Arc::clone(self.membership))).await?;
        self.opened.push(link.facts());
        Ok(link)
    }
}

/// The kinds of destinations this engine can deliver to, by the scheme of their URLs.
#[derive(Default)]
pub struct Sinks {
    kinds: Vec<(&'static str, Arc<dyn SinkKind>)>,
    egress: Option<Egress>,
}

impl Sinks {
    /// HTTP over this transport, and nothing else.
    pub fn http<T: Transport + 'static>(transport: Arc<T>) -> Self {
        let http = Arc::new(HttpKind::new(transport));
        Self::default().with("http", http.clone()).with("https", http)
    }

    /// Destinations with this scheme are of this kind, whatever it was before.
    pub fn with(mut self, scheme: &'static str, kind: Arc<dyn SinkKind>) -> Self {
        self.kinds.retain(|(known, _)| *known != scheme);
        self.kinds.push((scheme, kind));
        self
    }

    /// What the dialers of all kinds connect through.
    pub fn through(self, egress: Egress) -> Self {
        Self { egress: Some(egress), ..self }
    }

    pub(crate) fn egress(&self) -> Option<&Egress> {
        self.egress.as_ref()
    }

    /// Makes a destination ready, by its kind.
    pub(crate) fn prepare(&self, destination: &Destination, key: &DataKey) -> Result<Box<dyn Sink>, Unready> {
        let unusable = || Unready::new(Fault::Unbuildable, "its URL cannot be used");
        let (scheme, _) = destination.url.split_once("://").ok_or_else(unusable)?;
        let kind = self.kinds.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme));
        // The API takes only schemes that have a kind: this row was edited by hand, or kept by a version that had another.
        let (_, kind) = kind.ok_or(EgressError::Blocked)?;
        let prepared = std::panic::catch_unwind(AssertUnwindSafe(|| kind.prepare(destination, key)));
        match prepared {
            Ok(prepared) => prepared.map_err(|reason| Unready::new(Fault::Unbuildable, reason)),
            Err(_) => {
                tracing::error!(destination_id = %destination.id, "making a destination ready panicked");
                Err(Unready::new(Fault::Panic, "an internal fault"))
            }
        }
    }
}

/// Why a destination could not be made ready: what every attempt to deliver to it meets.
#[derive(Debug)]
pub(crate) struct Unready {
    fault: Fault,
    reason: String,
}

impl Unready {
    pub(crate) fn new(fault: Fault, reason: impl Into<String>) -> Self {
        Self { fault, reason: reason.into() }
    }

    pub(crate) fn facts(&self) -> AttemptFacts {
        AttemptFacts::of_fault(self.fault, self.reason.clone())
    }
}

impl From<EgressError> for Unready {
    fn from(error: EgressError) -> Self {
        Self::new(error.fault(), error.to_string())
    }
}

/// Has a sink make one attempt under this membership. None: it was given up, and it is not known how much was sent.
pub(crate) async fn attempt(
    sink: &dyn Sink,
    egress: Option<&Egress>,
    membership: &Arc<Membership>,
    attempt: SinkAttempt<'_>,
) -> Option<AttemptFacts> {
    let credentials = sink.credentials();
    let SinkAttempt { delivery, deadline, timeout, .. } = attempt;
    let asked;
    let credential = match credentials {
        Credentials::None | Credentials::Signed(_) | Credentials::Certificate(_) => None,
        Credentials::Fixed(credential) => Some(credential),
        Credentials::Asked(source) => {
            let now = attempt.started_at;
            asked = match source.at_hand(now) {
                Some(credential) => credential,
                None => match timeout_at(deadline, source.obtain(now)).await {
                    Ok(Ok(credential)) => credential,
                    Ok(Err(error)) => return Some(error.facts()),
                    Err(_) => return Some(CredentialError::within(timeout).facts()),
                },
            };
            Some(&*asked)
        }
    };
    // The last look before the first byte: a node whose lease has ended, or whose row is gone, sends nothing.
    if !membership.may_start() {
        return None;
    }
    failpoint::hit("send.first_byte");
    let mut opened = Vec::new();
    let dialer = Dialer { egress, membership, opened: &mut opened };
    let made = AssertUnwindSafe(sink.attempt(SinkAttempt { credential, ..attempt }, dialer)).catch_unwind();
    let made = match sink.keeps_deadline() {
        true => made.await,
        false => timeout_at(deadline, made).await.unwrap_or_else(|_| Ok(AttemptFacts::of_timeout(timeout))),
    };
    for link in opened {
        link.closed().await;
    }
    failpoint::hit("send.answered");
    let mut facts = made.unwrap_or_else(|_| AttemptFacts::of_panic(delivery));
    // What fails once our time is up was cut off by ourselves, or may have been: that is no fault of theirs.
    if facts.is_fault() && !membership.stands() {
        return None;
    }
    // Where the policy retries such an answer, its schedule counts.
    let ends = facts.classified.next == Next::DeadLetter(DeadReason::Rejected);
    if facts.credential_refused
        && let (Credentials::Asked(source), Some(credential)) = (credentials, credential)
        && source.refused(credential)
        && ends
    {
        facts.classified.next = Next::RetryRenewed;
    }
    Some(facts)
}
