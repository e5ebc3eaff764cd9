//! Signatures as Stripe and GitHub make them, for receivers who verify those already. Their keys are the characters of the
//! secret as they stand, whatever they look like.

use crate::limits;
use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};
use std::{fmt, fmt::Write as _};
use thiserror::Error;

/// A secret as such receivers know it. It prints as `***`.
#[derive(Clone)]
pub struct TextSecret(hmac::Key);

/// Why a text is none. Never repeats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a secret of this scheme has {} to {} visible ASCII characters, and spaces only between them",
    limits::TEXT_SECRET_MIN_BYTES,
    limits::TEXT_SECRET_MAX_BYTES
)]
pub struct TextSecretError;

impl TextSecret {
    pub fn new(text: &str) -> Result<Self, TextSecretError> {
        let fits = (limits::TEXT_SECRET_MIN_BYTES..=limits::TEXT_SECRET_MAX_BYTES).contains(&text.len())
            && text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
            && text.trim() == text;
        if fits { Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()))) } else { Err(TextSecretError) }
    }

    fn tag(&self, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        context.sign()
    }
}

impl fmt::Debug for TextSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// `t=…,v1=…`: one `v1` for each secret, the new one first.
pub fn stripe<'a>(
    secrets: impl IntoIterator<Item = &'a TextSecret>,
    timestamp_seconds: i64,
    body: &[u8],
) -> String {
    let timestamp = timestamp_seconds.to_string();
    let mut header = String::with_capacity(160);
    header.push_str("t=");
    header.push_str(&timestamp);
    for secret in secrets {
        header.push_str(",v1=");
        hex(secret.tag(&[timestamp.as_bytes(), b".", body]).as_ref(), &mut header);
    }
    header
}

/// `sha256=…`: there is room for one.
pub fn github(secret: &TextSecret, body: &[u8]) -> String {
    let mut header = String::with_capacity(72);
    header.push_str("sha256=");
    hex(secret.tag(&[body]).as_ref(), &mut header);
    header
}

/// Whether two signatures are the same, in a time that does not tell where they differ.
pub fn is_same(ours: &str, presented: &str) -> bool {
    verify_slices_are_equal(ours.as_bytes(), presented.as_bytes()).is_ok()
}

fn hex(bytes: &[u8], to: &mut String) {
    for byte in bytes {
        let _ = write!(to, "{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> TextSecret {
        TextSecret::new(text).unwrap()
    }

    /// From GitHub's documentation, "Validating webhook deliveries".
    #[test]
    fn the_vector_that_github_publishes() {
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let spoken = secret("It's a Secret to Everybody");
        assert_eq!(github(&spoken, b"Hello, World!"), signature);
        assert!(is_same(signature, &github(&spoken, b"Hello, World!")));
        assert!(!is_same(signature, &github(&spoken, b"Hello, World?")));
        assert!(!is_same(signature, &signature[..20]));
    }

    #[test]
    fn stripes_has_a_v1_for_each_secret() {
        let (new, old) = (secret("whsec_a-new-one-of-stripe"), secret("whsec_the-old-one-of-stripe"));
        let both = stripe([&new, &old], 1_700_000_000, b"{}");
        let of_old = stripe([&old], 1_700_000_000, b"{}");
        let of_new = stripe([&new], 1_700_000_000, b"{}");
        assert!(of_new.starts_with("t=1700000000,v1="), "{of_new}");
        assert_eq!(both, format!("{of_new}{}", of_old.strip_prefix("t=1700000000").unwrap()));
        assert_ne!(stripe([&new], 1_700_000_001, b"{}")[15..], of_new[15..], "the timestamp is signed");
    }

    #[test]
    fn a_text_secret_is_visible_and_bounded() {
        for text in ["0123456789abcdef", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", &"x".repeat(255)] {
            assert!(TextSecret::new(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "0123456789abcde",
            " 0123456789abcdef",
            "0123456789abcdefü",
            "0123456789abcdef\n",
            &"x".repeat(256),
        ] {
            assert!(TextSecret::new(text).is_err(), "{text}");
        }
        assert_eq!(format!("{:?}", secret("0123456789abcdef")), "***");
    }
}
