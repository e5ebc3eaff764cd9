//! The signatures of a request, made ready once per change of the destination.
//!
//! Every secret can sign by every scheme it is fit for, since a route may ask for another than its destination. What cannot be
//! signed as it was asked for is not sent.

use domain::{
    destination::{Destination, Scheme, Signing, header_of_new},
    seal::{DataKey, Sealed},
    signature::{
        self, SigningSecret,
        key_pair::{KeyPair, SignedContent},
        text::{self, TextSecret},
    },
    time::Timestamp,
};
use http::HeaderName;

const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const SVIX_ID: HeaderName = HeaderName::from_static("svix-id");
const SVIX_TIMESTAMP: HeaderName = HeaderName::from_static("svix-timestamp");
const SVIX_SIGNATURE: HeaderName = HeaderName::from_static("svix-signature");

pub(super) struct Signer {
    secrets: Rotating<Secret>,
    pairs: Option<Rotating<KeyPair>>,
}

/// What signs, and what was before it and signs as well for a while.
struct Rotating<T> {
    current: T,
    previous: Option<(T, Timestamp)>,
}

struct Secret {
    standard: Option<SigningSecret>,
    text: Option<TextSecret>,
}

/// What is signed beside the body.
#[derive(Clone, Copy)]
pub(super) struct Stamp<'a> {
    pub(super) id: &'a str,
    /// By our own time, which tells what still signs.
    pub(super) started_at: Timestamp,
    /// In seconds, as receivers have it.
    pub(super) signed_at: i64,
}

impl Signer {
    pub(super) fn of(destination: &Destination, key: &DataKey) -> Result<Self, String> {
        let kept = &destination.secret;
        let open = |place: &str, sealed: &Sealed, what: &str| -> Result<_, String> {
            let plain = key.open(place, sealed).map_err(|error| format!("{what}: {error}"))?;
            std::str::from_utf8(&plain).map_err(|_| format!("{what} is not text"))?;
            Ok(plain)
        };
        let place = Destination::secret_place(destination.id);
        let secret = |sealed| -> Result<Secret, String> {
            let plain = open(&place, sealed, "its signing secret")?;
            Secret::new(std::str::from_utf8(&plain).unwrap_or_default())
        };
        let previous = kept.previous.as_ref().map(|old| Ok::<_, String>((secret(&old.secret)?, old.until)));
        let secrets = Rotating { current: secret(&kept.current)?, previous: previous.transpose()? };
        let place = Destination::key_pair_place(destination.id);
        let pair = |sealed| -> Result<KeyPair, String> {
            let plain = open(&place, sealed, "its key pair")?;
            let text = std::str::from_utf8(&plain).unwrap_or_default();
            text.parse().map_err(|error| format!("its key pair: {error}"))
        };
        let pairs = match &kept.key_pair {
            None => None,
            Some(current) => {
                let previous = kept.previous_key_pair.as_ref();
                let previous = previous.map(|old| Ok::<_, String>((pair(&old.pair.private)?, old.until)));
                Some(Rotating { current: pair(&current.private)?, previous: previous.transpose()? })
            }
        };
        Ok(Self { secrets, pairs })
    }

    /// The headers that prove who sends this body. The new secret signs first; the old one signs too until the overlap ends.
    pub(super) fn sign(
        &self,
        signing: &Signing,
        stamp: Stamp<'_>,
        body: &[u8],
    ) -> Result<Vec<(HeaderName, String)>, String> {
        let mut headers = Vec::new();
        if signing.has_standard_signature() {
            let signature = self.standard(signing, stamp, body)?;
            if signing.svix_headers {
                headers.push((SVIX_ID, stamp.id.to_owned()));
                headers.push((SVIX_TIMESTAMP, stamp.signed_at.to_string()));
                headers.push((SVIX_SIGNATURE, signature.clone()));
            }
            headers.push((SIGNATURE, signature));
        }
        if let Some(header) = signing.own_header() {
            self.of_others(signing.scheme, header, stamp, body, &mut headers)?;
        }
        Ok(headers)
    }

    fn standard(&self, signing: &Signing, stamp: Stamp<'_>, body: &[u8]) -> Result<String, String> {
        let mut signature = String::new();
        if signing.scheme == Scheme::Standard {
            let (current, previous) = self.secrets.at(stamp.started_at);
            let current =
                current.standard.as_ref().ok_or("its signing secret is none of the scheme `standard`")?;
            // An old one that is of another scheme has nothing to say in this one.
            let previous = previous.and_then(|secret| secret.standard.as_ref());
            let secrets = std::iter::once(current).chain(previous);
            signature = signature::sign(secrets, stamp.id, stamp.signed_at, body);
        }
        if signing.ed25519 {
            let pairs = self.pairs.as_ref().ok_or("it has no key pair to sign with")?;
            let content = SignedContent::new(stamp.id, &stamp.signed_at.to_string(), body);
            let (current, previous) = pairs.at(stamp.started_at);
            std::iter::once(current).chain(previous).for_each(|pair| pair.sign(&content, &mut signature));
        }
        Ok(signature)
    }

    fn of_others(
        &self,
        scheme: Scheme,
        header: &str,
        stamp: Stamp<'_>,
        body: &[u8],
        headers: &mut Vec<(HeaderName, String)>,
    ) -> Result<(), String> {
        let named = |name: &str| {
            name.parse::<HeaderName>()
                .map_err(|_| "the name of its signature's header is not valid".to_owned())
        };
        let (current, previous) = self.secrets.at(stamp.started_at);
        let current = current.text.as_ref().ok_or("its signing secret is none of its scheme")?;
        let previous = previous.and_then(|secret| secret.text.as_ref());
        if scheme == Scheme::Stripe {
            let secrets = std::iter::once(current).chain(previous);
            headers.push((named(header)?, text::stripe(secrets, stamp.signed_at, body)));
            return Ok(());
        }
        // There is room for one signature: the old secret keeps the header for as long as it signs, so that nothing changes
        // for a receiver who has not heard of the new one yet.
        headers.push((named(header)?, text::github(previous.unwrap_or(current), body)));
        if previous.is_some() {
            headers.push((named(&header_of_new(header))?, text::github(current, body)));
        }
        Ok(())
    }
}

impl<T> Rotating<T> {
    fn at(&self, now: Timestamp) -> (&T, Option<&T>) {
        let previous = self.previous.as_ref().filter(|(_, until)| now < *until);
        (&self.current, previous.map(|(previous, _)| previous))
    }
}

impl Secret {
    fn new(text: &str) -> Result<Self, String> {
        let (standard, as_text) = (text.parse::<SigningSecret>(), TextSecret::new(text));
        match (standard, as_text) {
            (Err(error), Err(_)) => Err(format!("its signing secret: {error}")),
            (standard, text) => Ok(Self { standard: standard.ok(), text: text.ok() }),
        }
    }
}
