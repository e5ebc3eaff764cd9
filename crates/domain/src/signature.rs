//! Signing and verifying bytes as Standard Webhooks 1.0.0 asks: HMAC-SHA-256 over `id.timestamp.body`.
//!
//! The body is hashed where it lies and never copied. Ed25519 (`v1a`) has a file of its own, [`key_pair`], and so have the
//! schemes of Stripe and GitHub, [`text`].

pub mod key_pair;
pub mod text;

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use zeroize::Zeroizing;

/// The bounds of the standard, both included.
pub const SECRET_MIN_BYTES: usize = 24;
pub const SECRET_MAX_BYTES: usize = 64;

/// Current and previous secret, doubled; more would only multiply the hashing a stranger can ask of us.
pub const SECRETS_TRIED: usize = 4;

/// A sender in the middle of a rotation presents two or three signatures; a hundred is a guess.
pub const SIGNATURES_TRIED: usize = 8;

const SECRET_PREFIX: &str = "whsec_";
const SCHEME: &str = "v1,";
const TAG_BYTES: usize = 32;

/// The key of one destination (or source). It prints as `***` and is wiped when dropped; only [`expose`] shows it.
///
/// [`expose`]: SigningSecret::expose
#[derive(Clone)]
pub struct SigningSecret {
    bytes: Zeroizing<Vec<u8>>,
    /// Made of them once, for every signature; it is wiped too.
    key: hmac::Key,
}

impl SigningSecret {
    pub fn from_bytes(bytes: &[u8]) -> Result<SigningSecret, SecretError> {
        match bytes.len() {
            SECRET_MIN_BYTES..=SECRET_MAX_BYTES => Ok(SigningSecret {
                bytes: Zeroizing::new(bytes.to_vec()),
                key: hmac::Key::new(hmac::HMAC_SHA256, bytes),
            }),
            length => Err(SecretError::Length { length }),
        }
    }

    /// The text a receiver configures: `whsec_` and the bytes in base64. To be shown only to a key with the scope for it.
    pub fn expose(&self) -> Zeroizing<String> {
        // Sized beforehand: a string that grows leaves copies of its start behind, and those are not wiped.
        let mut text = String::with_capacity(SECRET_PREFIX.len() + SECRET_MAX_BYTES.div_ceil(3) * 4);
        text.push_str(SECRET_PREFIX);
        STANDARD.encode_string(self.bytes.as_slice(), &mut text);
        Zeroizing::new(text)
    }

    fn tag(&self, id: &str, timestamp: &str, body: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            context.update(part);
        }
        context.sign()
    }
}

/// The value of `webhook-signature`: one entry per secret, in the order given (the new one first during rotation).
pub fn sign<'a>(
    secrets: impl IntoIterator<Item = &'a SigningSecret>,
    id: &str,
    timestamp_seconds: i64,
    body: &[u8],
) -> String {
    debug_assert!(!id.contains('.'), "a full stop in the id would make the signed content ambiguous");
    let timestamp = timestamp_seconds.to_string();
    let mut header = String::with_capacity(96);
    for secret in secrets {
        begin_entry(&mut header, SCHEME);
        STANDARD.encode_string(secret.tag(id, &timestamp, body), &mut header);
    }
    header
}

/// Entries stand side by side.
fn begin_entry(header: &mut String, scheme: &str) {
    if !header.is_empty() {
        header.push(' ');
    }
    header.push_str(scheme);
}

/// Checks the three headers of a request against its raw body. `timestamp` and `signature` are as presented.
///
/// One good signature under one of the secrets suffices; entries of other schemes are skipped. Every secret is
/// tried against every entry, so the time taken says nothing about which was close. No secrets: nothing is good.
pub fn verify<'a>(
    secrets: impl IntoIterator<Item = &'a SigningSecret>,
    id: &str,
    timestamp: &str,
    signature: &str,
    body: &[u8],
    now_seconds: i64,
    tolerance_seconds: u64,
) -> Result<(), SignatureError> {
    if id.is_empty() || id.contains('.') {
        return Err(SignatureError::Malformed("the id is empty or contains a full stop"));
    }
    // Digits only: `parse` alone would let `+5` through, which is not what was signed.
    let seconds = Some(timestamp)
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
        .and_then(|text| text.parse::<i64>().ok())
        .ok_or(SignatureError::Malformed("the timestamp is not a number of seconds"))?;
    if now_seconds.abs_diff(seconds) > tolerance_seconds {
        return Err(SignatureError::Stale);
    }

    let mut presented = [[0u8; TAG_BYTES]; SIGNATURES_TRIED];
    let mut count = 0;
    for (index, entry) in signature.split_ascii_whitespace().enumerate() {
        if index == SIGNATURES_TRIED {
            return Err(SignatureError::Malformed("too many signatures"));
        }
        if let Some(tag) = entry.strip_prefix(SCHEME).and_then(decode::<TAG_BYTES>) {
            presented[count] = tag;
            count += 1;
        }
    }

    let mut good = false;
    for secret in secrets.into_iter().take(SECRETS_TRIED) {
        let tag = secret.tag(id, timestamp, body);
        for candidate in &presented[..count] {
            good |= verify_slices_are_equal(tag.as_ref(), candidate).is_ok();
        }
    }
    if good { Ok(()) } else { Err(SignatureError::NoMatch) }
}

/// `None` for anything that is not exactly so many bytes in strict base64, at most 64. They may be a private key's.
fn decode<const BYTES: usize>(text: &str) -> Option<[u8; BYTES]> {
    // Some bytes of room: the decoder counts whole groups of four characters before it looks at the padding.
    let mut room = Zeroizing::new([0u8; 68]);
    match STANDARD.decode_slice(text, room.as_mut()) {
        Ok(length) if length == BYTES => room[..BYTES].try_into().ok(),
        _ => None,
    }
}

/// Why a text or some bytes are not a signing secret. Never repeats them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SecretError {
    #[error("a signing secret starts with `whsec_`")]
    Prefix,
    #[error("after `whsec_` a signing secret is standard base64, with padding")]
    Base64,
    #[error("a signing secret has {SECRET_MIN_BYTES} to {SECRET_MAX_BYTES} bytes, this one has {length}")]
    Length { length: usize },
}

/// Why a request is not believed. `Malformed` is a 400, the others are a 401 that does not say which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SignatureError {
    #[error("malformed signature headers: {0}")]
    Malformed(&'static str),
    #[error("the timestamp is too far from now")]
    Stale,
    #[error("no signature matches")]
    NoMatch,
}

impl FromStr for SigningSecret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<SigningSecret, SecretError> {
        let encoded = text.strip_prefix(SECRET_PREFIX).ok_or(SecretError::Prefix)?;
        let bytes = Zeroizing::new(STANDARD.decode(encoded).map_err(|_| SecretError::Base64)?);
        SigningSecret::from_bytes(&bytes)
    }
}

impl fmt::Debug for SigningSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
    const ID: &str = "msg_27UH4WbU6Z5A5EzD8u03UvzRbpk";
    const NOW: i64 = 1_649_367_553;
    const BODY: &[u8] = br#"{"email":"test@example.com","username":"test_user"}"#;
    const SIGNATURE: &str = "v1,tZ1I4/hDygAJgO5TYxiSd6Sd0kDW6hPenDe+bTa3Kkw=";

    fn secret() -> SigningSecret {
        SECRET.parse().unwrap()
    }

    fn other() -> SigningSecret {
        SigningSecret::from_bytes(&[7; 32]).unwrap()
    }

    fn check(signature: &str, expected: Result<(), SignatureError>) {
        let answer = verify([&secret()], ID, &NOW.to_string(), signature, BODY, NOW, 300);
        assert_eq!(answer, expected, "{signature}");
    }

    #[test]
    fn the_published_vector_is_signed_and_verified() {
        assert_eq!(sign([&secret()], ID, NOW, BODY), SIGNATURE);
        check(SIGNATURE, Ok(()));
    }

    #[test]
    fn a_secret_signs_as_often_as_it_is_asked_to() {
        let (kept, copy) = (secret(), secret().clone());
        for _ in 0..3 {
            assert_eq!(sign([&kept], ID, NOW, BODY), SIGNATURE);
            assert_eq!(sign([&copy, &other()], ID, NOW, b""), sign([&secret(), &other()], ID, NOW, b""));
        }
    }

    #[test]
    fn rotation_signs_with_the_new_and_then_the_old_secret() {
        let (new, old) = (other(), secret());
        let header = sign([&new, &old], ID, NOW, BODY);
        assert_eq!(header, format!("{} {SIGNATURE}", sign([&new], ID, NOW, BODY)));
        for known in [[&new], [&old]] {
            assert_eq!(verify(known, ID, &NOW.to_string(), &header, BODY, NOW, 300), Ok(()));
        }
        assert_eq!(verify([&new, &old], ID, &NOW.to_string(), SIGNATURE, BODY, NOW, 300), Ok(()));
    }

    #[test]
    fn unknown_schemes_are_skipped() {
        check(&format!("v1a,AAAA v2,x nonsense {SIGNATURE}"), Ok(()));
        check("v1a,AAAA", Err(SignatureError::NoMatch));
    }

    #[test]
    fn what_is_not_exactly_the_signature_does_not_match() {
        let tag = &SIGNATURE[3..];
        for wrong in [
            "".into(),
            "v1,".into(),
            tag.into(),
            format!("V1,{tag}"),
            format!("v1,{}", &tag[..40]),
            format!("v1,{}", tag.trim_end_matches('=')),
            format!("v1,AAAA{tag}"),
            format!("v1,{}", tag.to_lowercase()),
            format!("v1,{}", "A".repeat(10_000)),
        ] as [String; 9]
        {
            check(&wrong, Err(SignatureError::NoMatch));
        }
        assert_eq!(
            verify([&other()], ID, &NOW.to_string(), SIGNATURE, BODY, NOW, 300),
            Err(SignatureError::NoMatch)
        );
        assert_eq!(verify([], ID, &NOW.to_string(), SIGNATURE, BODY, NOW, 300), Err(SignatureError::NoMatch));
    }

    #[test]
    fn the_ninth_signature_is_one_too_many() {
        check(&format!("{}{SIGNATURE}", "v1,x ".repeat(7)), Ok(()));
        check(
            &format!("{}{SIGNATURE}", "v1,x ".repeat(8)),
            Err(SignatureError::Malformed("too many signatures")),
        );
    }

    #[test]
    fn five_minutes_are_believed_and_a_second_more_is_not() {
        for (now, expected) in [
            (NOW + 300, Ok(())),
            (NOW - 300, Ok(())),
            (NOW + 301, Err(SignatureError::Stale)),
            (NOW - 301, Err(SignatureError::Stale)),
            (i64::MIN, Err(SignatureError::Stale)),
        ] {
            assert_eq!(
                verify([&secret()], ID, &NOW.to_string(), SIGNATURE, BODY, now, 300),
                expected,
                "{now}"
            );
        }
    }

    #[test]
    fn ambiguous_ids_and_odd_timestamps_are_malformed() {
        for (id, timestamp) in [
            ("", "1649367553"),
            ("msg.1", "1649367553"),
            (ID, ""),
            (ID, "+1649367553"),
            (ID, "-1"),
            (ID, " 1649367553"),
            (ID, "1649367553.0"),
            (ID, "99999999999999999999"),
        ] {
            let answer = verify([&secret()], id, timestamp, SIGNATURE, BODY, NOW, 300);
            assert!(matches!(answer, Err(SignatureError::Malformed(_))), "{id} {timestamp}: {answer:?}");
        }
    }

    #[test]
    fn a_secret_has_24_to_64_bytes_and_comes_back_as_it_was_given() {
        for length in [24, 32, 64] {
            let text = SigningSecret::from_bytes(&vec![0xA5; length]).unwrap().expose();
            assert_eq!(*text.parse::<SigningSecret>().unwrap().expose(), *text);
        }
        assert_eq!(*secret().expose(), SECRET);
        for length in [0, 23, 65] {
            assert_eq!(
                SigningSecret::from_bytes(&vec![0; length]).unwrap_err(),
                SecretError::Length { length }
            );
        }
        assert_eq!(
            "C2FVsBQIhrscChlQIMV+b5sSYspob7oD".parse::<SigningSecret>().unwrap_err(),
            SecretError::Prefix
        );
        assert_eq!("whsec_C2FV-BQI".parse::<SigningSecret>().unwrap_err(), SecretError::Base64);
    }

    #[test]
    fn a_secret_prints_as_three_stars() {
        assert_eq!(format!("{:?} {:?}", secret(), Some(secret())), "*** Some(***)");
    }

    proptest! {
        #[test]
        fn an_altered_byte_is_noticed(
            mut body in proptest::collection::vec(any::<u8>(), 1..200),
            at in any::<proptest::sample::Index>(),
            flip in 1u8..,
        ) {
            let header = sign([&other()], ID, NOW, &body);
            prop_assert_eq!(verify([&other()], ID, &NOW.to_string(), &header, &body, NOW, 300), Ok(()));
            let at = at.index(body.len());
            body[at] ^= flip;
            prop_assert_eq!(
                verify([&other()], ID, &NOW.to_string(), &header, &body, NOW, 300),
                Err(SignatureError::NoMatch)
            );
        }

        #[test]
        fn no_header_makes_it_panic(id in "\\PC*", timestamp in "[0-9]{0,25}", signature in "(v1,)?\\PC*") {
            let _ = verify([&secret()], &id, &timestamp, &signature, BODY, NOW, 300);
        }
    }
}
