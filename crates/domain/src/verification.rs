//! How a source knows that a request comes from whom it says it comes from: each provider signs in its own way, and what
//! the ways have in common is one table ([`schemes`]).
//!
//! What is verified are the bytes as they came. Nothing of a body is read before its signature is good, but where a provider
//! puts the signature into the body; what the event is called and by what a repeat is known is read afterwards. Every secret
//! is tried with every signature that was presented, so the time taken says nothing about which was close. Without a secret
//! nothing is good.

mod in_body;
mod keys;
mod schemes;
#[cfg(test)]
mod tests;
mod twilio;

pub use keys::{Key, check_secret};

use crate::{
    event::EventType, limits, operations, seal::Sealed, signature::SIGNATURES_TRIED, tag, time::Timestamp,
    word::words,
};
use aws_lc_rs::{constant_time::verify_slices_are_equal, digest};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ipnet::IpNet;
use keys::Algorithm;
use schemes::{Clock, Form, Handshake, Part, Place, Scheme, When};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt, net::IpAddr};

words! {
    "a way to verify",
    /// Whose rule it is.
    #[derive(Default)]
    VerificationKind {
        #[default]
        None = "none",
        Stripe = "stripe",
        Github = "github",
        Shopify = "shopify",
        Slack = "slack",
        Twilio = "twilio",
        Linear = "linear",
        Paddle = "paddle",
        Standard = "standard",
        Hubspot = "hubspot",
        Intercom = "intercom",
        Zendesk = "zendesk",
        Twitch = "twitch",
        Discord = "discord",
        Mailgun = "mailgun",
        Sendgrid = "sendgrid",
        Square = "square",
        Adyen = "adyen",
        Calendly = "calendly",
        Typeform = "typeform",
        Pagerduty = "pagerduty",
        Vercel = "vercel",
        Hmac = "hmac",
        Basic = "basic",
        Bearer = "bearer",
    }
}

words! {
    "an encoding of signatures",
    #[derive(Default)]
    Encoding {
        #[default]
        Hex = "hex",
        Base64 = "base64",
    }
}

words! {
    "an algorithm of signatures",
    #[derive(Default)]
    HmacAlgorithm {
        #[default]
        Sha256 = "sha256",
        Sha512 = "sha512",
        /// For those who have no other.
        Sha1 = "sha1",
    }
}

/// How a source checks that a caller is who it says it is, as it is kept.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Verification {
    #[serde(rename = "type")]
    pub kind: VerificationKind,
    /// At most [`limits::VERIFICATION_SECRETS`]: one of them must fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<Sealed>,
    /// Of `hmac` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hmac: Option<HmacRule>,
    /// None: what is usual with this provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance_seconds: Option<u64>,
    /// Networks that requests may come from, beside being signed; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_addresses: Vec<IpNet>,
}

/// A signature that is no provider's of the table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HmacRule {
    /// Where the signature is.
    pub header: String,
    /// What stands before it there.
    pub prefix: String,
    pub encoding: Encoding,
    pub algorithm: HmacAlgorithm,
    pub timestamp_header: Option<String>,
    /// By what a repeat is known.
    pub id_header: Option<String>,
    /// `{id}.{timestamp}.{body}`; None: the body, led by the timestamp and a full stop if there is one.
    pub signed_content: Option<String>,
}

impl VerificationKind {
    /// How old a request may be, and how far ahead of our clock. None: its scheme has no timestamp.
    pub fn tolerance_seconds(self) -> Option<u64> {
        match self {
            Self::None | Self::Basic | Self::Bearer | Self::Twilio | Self::Adyen => None,
            Self::Mailgun => Some(limits::MAILGUN_TOLERANCE_SECONDS),
            Self::Hmac => Some(limits::VERIFICATION_TOLERANCE_SECONDS),
            kind => {
                schemes::of(kind).filter(|scheme| scheme.timestamp.is_some()).map(|scheme| scheme.tolerance)
            }
        }
    }
}

/// A request as it came in.
pub struct Inbound<'a> {
    pub method: &'a str,
    /// As the world knows it: with scheme, host and query.
    pub url: &'a str,
    pub headers: &'a dyn InboundHeaders,
    pub body: &'a [u8],
    pub client: IpAddr,
}

pub trait InboundHeaders {
    /// The first two values of a header, by its name in lower case.
    fn first_two<'h>(&'h self, name: &str) -> [Option<&'h [u8]>; 2];
}

words! {
    "a reason to refuse a request",
    /// Why a request is not believed. It is for the source's owner: callers are not told.
    RefusalReason {
        /// The header or member that should carry it is not there.
        MissingSignature = "missing_signature",
        WrongSignature = "wrong_signature",
        Stale = "stale",
        /// Signature or timestamp cannot be read as one.
        Malformed = "malformed",
        /// A header that counts is there twice.
        RepeatedHeader = "repeated_header",
        AddressNotAllowed = "address_not_allowed",
    }
}

impl RefusalReason {
    /// The request is not well formed, whatever its secret: 400 and not 401.
    pub fn is_malformed(self) -> bool {
        matches!(self, Self::Malformed | Self::RepeatedHeader)
    }
}

/// What is known of a request that is believed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verified {
    /// By what a repeat is known: the provider's id, else a digest of what was signed if that is never the same twice.
    pub id: Option<String>,
    /// In the provider's own words, made to fit.
    pub event_type: Option<EventType>,
    /// It is no event: the provider wants to hear this.
    pub handshake: Option<HandshakeAnswer>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeAnswer {
    /// 200, as plain text.
    Text(String),
    /// 204.
    Nothing,
}

/// The rule of one source with its keys, ready to be used.
pub struct Verifier {
    kind: VerificationKind,
    keys: Vec<Key>,
    hmac: HmacRule,
    tolerance_ms: u64,
    allowed_addresses: Vec<IpNet>,
}

impl Verifier {
    /// With the secrets of `verification`, opened. One that cannot be used leaves the others; without any nothing is good.
    pub fn new<'s>(verification: &Verification, secrets: impl IntoIterator<Item = &'s [u8]>) -> Self {
        let hmac = verification.hmac.clone().unwrap_or_default();
        let kind = verification.kind;
        let text = |secret: &'s [u8]| std::str::from_utf8(secret).ok();
        let keys = secrets.into_iter().take(limits::VERIFICATION_SECRETS).filter_map(text);
        let keys = keys.filter_map(|secret| Key::new(kind, hmac.algorithm, secret).ok()).collect();
        let tolerance = verification.tolerance_seconds.or(kind.tolerance_seconds()).unwrap_or_default();
        let allowed_addresses = verification.allowed_addresses.clone();
        Self { kind, keys, hmac, tolerance_ms: tolerance.saturating_mul(1000), allowed_addresses }
    }

    /// The header that a rule of one's own has the signature in.
    pub fn own_header(&self) -> Option<&str> {
        (self.kind == VerificationKind::Hmac).then_some(&*self.hmac.header)
    }

    /// Whether it costs as much as a public key does: some ten times a hash.
    pub fn is_asymmetric(&self) -> bool {
        self.keys.iter().any(Key::is_asymmetric)
    }

    pub fn verify(&self, inbound: &Inbound<'_>, now: Timestamp) -> Result<Verified, RefusalReason> {
        let client = inbound.client.to_canonical();
        if !self.allowed_addresses.is_empty()
            && !self.allowed_addresses.iter().any(|network| network.contains(&client))
        {
            return Err(RefusalReason::AddressNotAllowed);
        }
        match self.kind {
            VerificationKind::None => Ok(Verified::default()),
            VerificationKind::Basic | VerificationKind::Bearer => self.verify_credential(inbound),
            VerificationKind::Twilio => twilio::verify(self, inbound),
            VerificationKind::Mailgun => in_body::verify_mailgun(self, inbound, now),
            VerificationKind::Adyen => in_body::verify_adyen(self, inbound),
            VerificationKind::Hmac => {
                let hmac = &self.hmac;
                let parts = hmac.signed_parts().map_err(|_| RefusalReason::WrongSignature)?;
                self.verify_scheme(&hmac.scheme(&parts), inbound, now)
            }
            VerificationKind::Standard => {
                let is_svix = inbound.headers.first_two("webhook-signature")[0].is_none();
                self.verify_scheme(if is_svix { &schemes::SVIX } else { &schemes::STANDARD }, inbound, now)
            }
            kind => {
                let scheme = schemes::of(kind).ok_or(RefusalReason::WrongSignature)?;
                self.verify_scheme(scheme, inbound, now)
            }
        }
    }

    fn verify_credential(&self, inbound: &Inbound<'_>) -> Result<Verified, RefusalReason> {
        let text = needed(inbound, "authorization")?;
        let (scheme, credential) = text.split_once(' ').ok_or(RefusalReason::WrongSignature)?;
        let credential = credential.trim_start();
        let presented = if self.kind == VerificationKind::Basic {
            let right = scheme.eq_ignore_ascii_case("basic");
            right.then(|| STANDARD.decode(credential).ok()).flatten()
        } else {
            scheme.eq_ignore_ascii_case("bearer").then(|| credential.as_bytes().to_vec())
        };
        let presented = presented.ok_or(RefusalReason::WrongSignature)?;
        let algorithm = Algorithm::Credential;
        self.require_match(&[&presented], &[(algorithm, Vec::new())]).map(|()| Verified::default())
    }

    fn verify_scheme(
        &self,
        scheme: &Scheme<'_>,
        inbound: &Inbound<'_>,
        now: Timestamp,
    ) -> Result<Verified, RefusalReason> {
        let Signatures { presented, paired_timestamp } =
            Signatures::read(scheme, needed(inbound, scheme.header)?)?;
        let timestamp = match scheme.timestamp {
            Some(When::Header(name, clock)) => Some((needed(inbound, name)?, clock)),
            Some(When::Paired) => Some((paired_timestamp.unwrap_or_default(), Clock::Seconds)),
            Some(When::Member(..)) | None => None,
        };
        if let Some((text, clock)) = timestamp {
            self.require_fresh(text, clock, now)?;
        }
        let id = match scheme.id {
            Some(Place::Header(name)) => single(inbound, name)?,
            _ => None,
        };
        let url = if scheme.signed.contains(&Part::DecodedUrl) {
            schemes::decoded(inbound.url)
        } else {
            Cow::Borrowed(inbound.url)
        };
        let mut signed: Vec<&[u8]> = Vec::with_capacity(scheme.signed.len());
        for part in scheme.signed {
            signed.push(match part {
                Part::Text(text) => text.as_bytes(),
                Part::Id => id.ok_or(RefusalReason::MissingSignature)?.as_bytes(),
                Part::UnambiguousId => {
                    let id = id.ok_or(RefusalReason::MissingSignature)?;
                    if id.is_empty() || id.contains('.') {
                        return Err(RefusalReason::Malformed);
                    }
                    id.as_bytes()
                }
                Part::Timestamp => timestamp.map_or(&b""[..], |(text, _)| text.as_bytes()),
                Part::Method => inbound.method.as_bytes(),
                Part::Url | Part::DecodedUrl => url.as_bytes(),
                Part::Body => inbound.body,
            });
        }
        self.require_match(&signed, &presented)?;
        self.read_believed(scheme, inbound, id, &signed, now)
    }

    /// What is told by the body of a request whose signature is good.
    fn read_believed(
        &self,
        scheme: &Scheme<'_>,
        inbound: &Inbound<'_>,
        id: Option<&str>,
        signed: &[&[u8]],
        now: Timestamp,
    ) -> Result<Verified, RefusalReason> {
        let mut paths = Vec::new();
        let mut want = |path| {
            paths.push(path);
            paths.len() - 1
        };
        let in_body = |place: &Place<'static>| match place {
            Place::Path(path) | Place::Behind { path, .. } => Some(*path),
            Place::Header(_) | Place::Shared(_) => None,
        };
        let timestamp_at = match scheme.timestamp {
            Some(When::Member(path, clock)) => Some((want(path), clock)),
            _ => None,
        };
        let id_at = match scheme.id {
            Some(Place::Path(path)) => Some(want(path)),
            _ => None,
        };
        let types_at: Vec<Option<usize>> =
            scheme.types.iter().map(|place| in_body(place).map(&mut want)).collect();
        let handshake_at = match scheme.handshake {
            Some(Handshake::Slack) => Some((want("type"), want("challenge"))),
            Some(Handshake::Twitch) => Some((want("challenge"), 0)),
            Some(Handshake::Discord) => Some((want("type"), 0)),
            None => None,
        };
        let mut found = tag::texts_at(&paths, inbound.body);
        if let Some((at, clock)) = timestamp_at {
            let text = found[at].as_deref().ok_or(RefusalReason::MissingSignature)?;
            self.require_fresh(text, clock, now)?;
        }
        let handshake = handshake_at.and_then(|(first, second)| match scheme.handshake? {
            Handshake::Slack => {
                let asked = found[first].as_deref() == Some("url_verification");
                asked.then(|| HandshakeAnswer::Text(found[second].clone().unwrap_or_default()))
            }
            Handshake::Twitch => {
                let asked = inbound.headers.first_two("twitch-eventsub-message-type")[0]
                    == Some(b"webhook_callback_verification");
                asked.then(|| HandshakeAnswer::Text(found[first].clone().unwrap_or_default()))
            }
            Handshake::Discord => (found[first].as_deref() == Some("0")).then_some(HandshakeAnswer::Nothing),
        });
        let event_type = scheme.types.iter().zip(types_at).find_map(|(place, at)| {
            let text = match place {
                Place::Header(name) => text_of(inbound.headers.first_two(name)[0])?.to_owned(),
                Place::Path(_) => found[at?].clone()?,
                Place::Behind { prefix, .. } => found[at?].as_deref()?.strip_prefix(prefix)?.to_owned(),
                Place::Shared(name) => shared(name, inbound.body)?,
            };
            Some(provider_type(&text))
        });
        let id = id.map(str::to_owned).or_else(|| found[id_at?].take()).filter(|id| !id.is_empty());
        let id = id.map(fitting).or_else(|| scheme.is_unique().then(|| digest_of(signed)));
        Ok(Verified { id, event_type, handshake })
    }

    fn require_fresh(&self, text: &str, clock: Clock, now: Timestamp) -> Result<(), RefusalReason> {
        let ms = clock.read(text).ok_or(RefusalReason::Malformed)?;
        let now_ms = now.micros().div_euclid(1000);
        if now_ms.abs_diff(ms) > self.tolerance_ms { Err(RefusalReason::Stale) } else { Ok(()) }
    }

    /// One good signature under one of the keys suffices. All are tried.
    fn require_match(
        &self,
        signed: &[&[u8]],
        presented: &[(Algorithm, Vec<u8>)],
    ) -> Result<(), RefusalReason> {
        let mut good = false;
        let mut whole = None;
        for key in &self.keys {
            good |= key.matches(signed, &mut whole, presented);
        }
        if good { Ok(()) } else { Err(RefusalReason::WrongSignature) }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({}, ***)", self.kind)
    }
}

/// What the header of the signature says.
struct Signatures<'h> {
    /// Decoded; what does not decode is none.
    presented: Vec<(Algorithm, Vec<u8>)>,
    paired_timestamp: Option<&'h str>,
}

impl<'h> Signatures<'h> {
    fn read(scheme: &Scheme<'_>, header: &'h str) -> Result<Self, RefusalReason> {
        let mut read = Self { presented: Vec::with_capacity(1), paired_timestamp: None };
        let mut count = 0;
        let mut present = |algorithm, text: &str| {
            count += 1;
            if count > SIGNATURES_TRIED {
                return Err(RefusalReason::Malformed);
            }
            read.presented.extend(scheme.encoding.decode(text).map(|bytes| (algorithm, bytes)));
            Ok(())
        };
        match scheme.form {
            Form::Whole { prefix } => {
                if let Some(text) = header.strip_prefix(prefix) {
                    present(scheme.algorithm, text.trim())?;
                }
            }
            Form::List { separator, prefix } => {
                for entry in header.split(separator) {
                    match entry.trim().strip_prefix(prefix) {
                        Some(text) => present(scheme.algorithm, text)?,
                        None => present(Algorithm::None, "")?,
                    }
                }
            }
            Form::Pairs { separator, timestamp, signature } => {
                for pair in header.split(separator) {
                    let Some((name, value)) = pair.split_once('=') else { continue };
                    if name.trim() == signature {
                        present(scheme.algorithm, value.trim())?;
                    } else if name.trim() == timestamp
                        && read_once(&mut read.paired_timestamp, value.trim()).is_none()
                    {
                        return Err(RefusalReason::Malformed);
                    }
                }
                if read.paired_timestamp.is_none() {
                    return Err(RefusalReason::Malformed);
                }
            }
            Form::Standard => {
                for entry in header.split_ascii_whitespace() {
                    match entry.split_once(',') {
                        Some(("v1", text)) => present(Algorithm::Sha256, text)?,
                        Some(("v1a", text)) => present(Algorithm::Ed25519, text)?,
                        _ => present(Algorithm::None, "")?,
                    }
                }
            }
        }
        Ok(read)
    }
}

/// None if it was there already.
fn read_once<'h>(place: &mut Option<&'h str>, value: &'h str) -> Option<()> {
    place.is_none().then(|| *place = Some(value))
}

impl Encoding {
    fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Hex => keys::unhex(text),
            Self::Base64 => STANDARD.decode(text).ok(),
        }
    }
}

impl HmacRule {
    fn scheme<'s>(&'s self, signed: &'s [Part<'s>]) -> Scheme<'s> {
        let timestamp = self.timestamp_header.as_deref().map(|name| When::Header(name, Clock::Any));
        Scheme {
            header: &self.header,
            form: Form::Whole { prefix: &self.prefix },
            encoding: self.encoding,
            algorithm: Algorithm::of(self.algorithm),
            signed,
            timestamp,
            tolerance: limits::VERIFICATION_TOLERANCE_SECONDS,
            id: self.id_header.as_deref().map(Place::Header),
            types: &[],
            handshake: None,
        }
    }

    /// What `signed_content` says; Err says what is wrong with it.
    pub fn check_signed_content(&self) -> Result<(), &'static str> {
        self.signed_parts().map(drop)
    }

    fn signed_parts(&self) -> Result<Vec<Part<'_>>, &'static str> {
        let Some(mut rest) = self.signed_content.as_deref() else {
            let led: &[Part<'_>] = &[Part::Timestamp, Part::Text("."), Part::Body];
            let from = if self.timestamp_header.is_some() { 0 } else { 2 };
            return Ok(led[from..].to_vec());
        };
        let mut parts = Vec::new();
        while !rest.is_empty() {
            let (before, behind) = rest.split_once('{').unwrap_or((rest, ""));
            if !before.is_empty() {
                parts.push(Part::Text(before));
            }
            if before.len() == rest.len() {
                break;
            }
            let (name, behind) = behind.split_once('}').ok_or("a `{` without its `}`")?;
            parts.push(match name {
                "body" => Part::Body,
                "timestamp" => Part::Timestamp,
                "id" => Part::Id,
                _ => return Err("between braces stands `id`, `timestamp` or `body`"),
            });
            rest = behind;
        }
        let count = |wanted| parts.iter().filter(|part| **part == wanted).count();
        if count(Part::Body) != 1 {
            return Err("`{body}` must be in it, once");
        }
        if (count(Part::Timestamp) == 1) != self.timestamp_header.is_some() || count(Part::Timestamp) > 1 {
            return Err("`{timestamp}` must be in it, once, if there is a `timestamp_header`, and else not");
        }
        if count(Part::Id) > 1 || count(Part::Id) == 1 && self.id_header.is_none() {
            return Err("`{id}` may be in it, once, if there is an `id_header`");
        }
        Ok(parts)
    }
}

/// The one value of a header.
fn single<'a>(inbound: &Inbound<'a>, name: &str) -> Result<Option<&'a str>, RefusalReason> {
    match inbound.headers.first_two(name) {
        [None, _] => Ok(None),
        [Some(value), None] => text_of(Some(value)).map(Some).ok_or(RefusalReason::Malformed),
        [Some(_), Some(_)] => Err(RefusalReason::RepeatedHeader),
    }
}

fn needed<'a>(inbound: &Inbound<'a>, name: &str) -> Result<&'a str, RefusalReason> {
    single(inbound, name)?.ok_or(RefusalReason::MissingSignature)
}

/// Printable ASCII, which is all that these headers can have.
fn text_of(value: Option<&[u8]>) -> Option<&str> {
    let text = std::str::from_utf8(value?).ok()?;
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte)).then_some(text)
}

/// A provider cannot tell of us in our own words.
fn provider_type(text: &str) -> EventType {
    if operations::is_operational(text) { EventType::unknown() } else { EventType::of_provider(text) }
}

/// An id that can be an idempotency key.
fn fitting(id: String) -> String {
    let fits =
        id.len() <= limits::IDEMPOTENCY_KEY_BYTES && id.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    if fits { id } else { digest_of(&[id.as_bytes()]) }
}

/// What was signed, as a name: each part is led by its length, so that no two contents have the same bytes.
fn digest_of(signed: &[&[u8]]) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in signed {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut text = String::from("sha256:");
    for byte in context.finish().as_ref() {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// Equal, in a time that depends on the lengths alone.
fn same(one: &[u8], other: &[u8]) -> bool {
    verify_slices_are_equal(one, other).is_ok()
}

/// The text that this member has in all elements of an array. None if they differ.
fn shared(name: &'static str, body: &[u8]) -> Option<String> {
    let mut input = serde_json::Deserializer::from_slice(body);
    Elements(name).deserialize(&mut input).ok()?
}

/// An array of objects.
struct Elements(&'static str);

impl<'de> DeserializeSeed<'de> for Elements {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Elements {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let (mut all, mut agree) = (None, true);
        while let Some(one) = elements.next_element_seed(Member(self.0))? {
            agree &= one.is_some() && (all.is_none() || all == one);
            all = all.or(one);
        }
        Ok(all.filter(|_| agree))
    }
}

/// A member of an object, if it is a text.
struct Member(&'static str);

impl<'de> DeserializeSeed<'de> for Member {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Member {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            if name == self.0 {
                found = Some(members.next_value::<String>()?);
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}
