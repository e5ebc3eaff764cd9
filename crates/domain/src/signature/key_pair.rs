//! Ed25519, `v1a` of Standard Webhooks: signed with a key that nobody else has, verified with one that anybody may have.
//!
//! The standard leaves the layout of the private key open; it is that of Svix: `whsk_` and the base64 of seed and public key,
//! 64 bytes. Ed25519 wants what is signed in one piece, so the body is copied, once for all keys.

use super::decode;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, ParsedPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::{fmt, str::FromStr};
use thiserror::Error;
use zeroize::Zeroizing;

pub const SEED_BYTES: usize = 32;

const PRIVATE_PREFIX: &str = "whsk_";
const PUBLIC_PREFIX: &str = "whpk_";
pub(super) const SCHEME: &str = "v1a,";
const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;

/// It prints as `***` and is wiped when dropped; only [`expose`] shows its private part.
///
/// [`expose`]: KeyPair::expose
pub struct KeyPair {
    seed: Zeroizing<[u8; SEED_BYTES]>,
    pair: Ed25519KeyPair,
}

impl KeyPair {
    /// Every seed is one.
    pub fn from_seed(seed: &[u8; SEED_BYTES]) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("32 bytes are a seed");
        Self { seed: Zeroizing::new(*seed), pair }
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.pair.public_key().as_ref().try_into().expect("a public key has 32 bytes"))
    }

    /// The text an owner may bring along: `whsk_`. Not to be shown to receivers, who have no use for it.
    pub fn expose(&self) -> Zeroizing<String> {
        let mut bytes = Zeroizing::new([0; SEED_BYTES + KEY_BYTES]);
        bytes[..SEED_BYTES].copy_from_slice(self.seed.as_ref());
        bytes[SEED_BYTES..].copy_from_slice(&self.public().0);
        let mut text = String::with_capacity(PRIVATE_PREFIX.len() + bytes.len().div_ceil(3) * 4);
        text.push_str(PRIVATE_PREFIX);
        STANDARD.encode_string(bytes.as_ref(), &mut text);
        Zeroizing::new(text)
    }

    /// Adds its entry to a `webhook-signature`.
    pub fn sign(&self, content: &SignedContent, header: &mut String) {
        super::begin_entry(header, SCHEME);
        STANDARD.encode_string(self.pair.sign(&content.0), header);
    }
}

/// `{id}.{timestamp}.{body}`, in one piece.
pub struct SignedContent(Vec<u8>);

impl SignedContent {
    pub fn new(id: &str, timestamp: &str, body: &[u8]) -> Self {
        Self([id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat())
    }
}

/// What receivers verify `v1a` with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; KEY_BYTES]);

impl PublicKey {
    /// Whether one entry of a `webhook-signature` is its pair's.
    pub fn matches(&self, content: &SignedContent, entry: &str) -> bool {
        let Some(signature) = entry.strip_prefix(SCHEME).and_then(decode::<SIGNATURE_BYTES>) else {
            return false;
        };
        let key = ParsedPublicKey::new(&ED25519, self.0);
        key.is_ok_and(|key| key.verify_sig(&content.0, &signature).is_ok())
    }
}

/// Why a text is no key. Never repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    #[error(
        "a private key is `whsk_` and the base64 of 64 bytes, the seed and the public key that belongs to it"
    )]
    Private,
    #[error("a public key is `whpk_` and the base64 of 32 bytes")]
    Public,
}

impl FromStr for KeyPair {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let encoded = text.strip_prefix(PRIVATE_PREFIX).ok_or(KeyError::Private)?;
        let bytes =
            decode::<{ SEED_BYTES + KEY_BYTES }>(encoded).map(Zeroizing::new).ok_or(KeyError::Private)?;
        let seed = bytes[..SEED_BYTES].try_into().map_err(|_| KeyError::Private)?;
        let pair = Self::from_seed(seed);
        // Of two that do not belong together receivers would be told the wrong one.
        if pair.public().0 == bytes[SEED_BYTES..] { Ok(pair) } else { Err(KeyError::Private) }
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = text.strip_prefix(PUBLIC_PREFIX).and_then(decode).ok_or(KeyError::Public)?;
        ParsedPublicKey::new(&ED25519, bytes).map_err(|_| KeyError::Public)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC_PREFIX}{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published by Svix with its libraries' tests.
    const PRIVATE: &str =
        "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==";
    const PUBLIC: &str = "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=";
    const SIGNATURE: &str =
        "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==";

    fn content(body: &[u8]) -> SignedContent {
        SignedContent::new("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)
    }

    fn signed(pair: &KeyPair, body: &[u8]) -> String {
        let mut header = String::new();
        pair.sign(&content(body), &mut header);
        header
    }

    #[test]
    fn the_published_vector_is_signed_and_verified() {
        let pair: KeyPair = PRIVATE.parse().unwrap();
        let body = br#"{"test": 2432232314}"#;
        assert_eq!(signed(&pair, body), SIGNATURE);
        assert_eq!(pair.public().to_string(), PUBLIC);
        let public: PublicKey = PUBLIC.parse().unwrap();
        assert!(public.matches(&content(body), SIGNATURE));
    }

    #[test]
    fn what_is_not_its_signature_does_not_match() {
        let pair = KeyPair::from_seed(&[7; SEED_BYTES]);
        let good = signed(&pair, b"{}");
        assert!(pair.public().matches(&content(b"{}"), &good));
        assert!(!pair.public().matches(&content(b"{} "), &good), "an altered body");
        assert!(!KeyPair::from_seed(&[8; SEED_BYTES]).public().matches(&content(b"{}"), &good));
        for entry in ["", "v1a,", &good[4..], &good.replace("v1a", "v1"), &format!("{good}A"), &good[..20]] {
            assert!(!pair.public().matches(&content(b"{}"), entry), "{entry}");
        }
    }

    #[test]
    fn keys_come_back_as_they_were_given() {
        let pair: KeyPair = PRIVATE.parse().unwrap();
        assert_eq!(pair.expose().as_str(), PRIVATE);
        assert_eq!(format!("{pair:?}"), "***");
        let mismatched = KeyPair::from_seed(&[7; SEED_BYTES]).expose();
        let mismatched = format!("{}{}", &mismatched[..45], &PRIVATE[45..]);
        for text in ["", "whsk_", PUBLIC, "whsk_AAAA", &PRIVATE[5..], &mismatched] {
            assert_eq!(text.parse::<KeyPair>().unwrap_err(), KeyError::Private, "{text}");
        }
        for text in ["", "whpk_", PRIVATE, "whpk_AAAA", &PUBLIC[5..]] {
            assert_eq!(text.parse::<PublicKey>().unwrap_err(), KeyError::Public, "{text}");
        }
    }
}
