//! What signatures are checked with: shared secrets and public keys, in each provider's form.

use super::{HmacAlgorithm, VerificationKind, same};
use crate::{limits, signature};
use aws_lc_rs::{
    digest, hmac,
    signature::{ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use std::fmt;
use zeroize::Zeroizing;

/// How a signature is made. A signature is only held against keys of its own algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// Of an entry that no key can match.
    None,
    Sha1,
    Sha256,
    Sha512,
    Ed25519,
    EcdsaP256,
    /// No signature: what is presented is the secret itself.
    Credential,
}

impl Algorithm {
    pub(super) const fn of(algorithm: HmacAlgorithm) -> Self {
        match algorithm {
            HmacAlgorithm::Sha1 => Self::Sha1,
            HmacAlgorithm::Sha256 => Self::Sha256,
            HmacAlgorithm::Sha512 => Self::Sha512,
        }
    }
}

/// One secret, ready to be used. It prints as `***`.
pub struct Key {
    algorithm: Algorithm,
    material: Material,
}

enum Material {
    Hmac(Box<hmac::Key>),
    Public(ParsedPublicKey),
    Digest(digest::Digest),
}

/// What a secret of `bearer` may be at least: fewer could be guessed.
const CREDENTIAL_MIN_BYTES: usize = 8;

/// Whether a text can be a secret of this kind; if not, what one looks like.
pub fn check_secret(kind: VerificationKind, text: &str) -> Result<(), &'static str> {
    Key::new(kind, HmacAlgorithm::default(), text).map(drop)
}

impl Key {
    pub(super) fn new(
        kind: VerificationKind,
        algorithm: HmacAlgorithm,
        text: &str,
    ) -> Result<Self, &'static str> {
        let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if text.is_empty()
            || text.len() > limits::VERIFICATION_SECRET_BYTES
            || !printable
            || text.trim() != text
        {
            return Err("1 to 1024 visible ASCII characters");
        }
        match kind {
            VerificationKind::None => Err("this type has no secrets"),
            VerificationKind::Standard => standard(text),
            VerificationKind::Discord => public(Algorithm::Ed25519, unhex(text).unwrap_or_default())
                .ok_or("the application's public key: 64 hexadecimal digits"),
            VerificationKind::Sendgrid => {
                let lines = text.lines().filter(|line| !line.starts_with("-----"));
                let der = STANDARD.decode(lines.collect::<String>()).unwrap_or_default();
                public(Algorithm::EcdsaP256, der)
                    .ok_or("the verification key, as SendGrid shows it: in base64")
            }
            VerificationKind::Adyen => {
                let bytes = unhex(text).filter(|bytes| !bytes.is_empty()).map(Zeroizing::new);
                let bytes = bytes.ok_or("an HMAC key of Adyen is in hexadecimal digits")?;
                Ok(Self::shared(Algorithm::Sha256, &bytes))
            }
            VerificationKind::Basic => match text.split_once(':') {
                Some((_, password)) if !password.is_empty() => Ok(Self::credential(text)),
                _ => Err("a secret of `basic` is `name:password`"),
            },
            VerificationKind::Bearer if text.len() < CREDENTIAL_MIN_BYTES || text.contains(' ') => {
                Err("a secret of `bearer` has at least 8 characters and no spaces")
            }
            VerificationKind::Bearer => Ok(Self::credential(text)),
            VerificationKind::Twilio | VerificationKind::Intercom | VerificationKind::Vercel => {
                Ok(Self::shared(Algorithm::Sha1, text.as_bytes()))
            }
            VerificationKind::Hmac => Ok(Self::shared(Algorithm::of(algorithm), text.as_bytes())),
            _ => Ok(Self::shared(Algorithm::Sha256, text.as_bytes())),
        }
    }

    pub(super) fn is_asymmetric(&self) -> bool {
        matches!(self.material, Material::Public(_))
    }

    fn shared(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let with = match algorithm {
            Algorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Algorithm::Sha512 => hmac::HMAC_SHA512,
            _ => hmac::HMAC_SHA256,
        };
        Self { algorithm, material: Material::Hmac(Box::new(hmac::Key::new(with, bytes))) }
    }

    fn credential(text: &str) -> Self {
        let digest = digest::digest(&digest::SHA256, text.as_bytes());
        Self { algorithm: Algorithm::Credential, material: Material::Digest(digest) }
    }

    /// Whether one of the signatures is this key's, over these parts one after the other. All are tried. `whole` are the parts
    /// in one piece, made for the first key that cannot do without.
    pub(super) fn matches(
        &self,
        signed: &[&[u8]],
        whole: &mut Option<Vec<u8>>,
        presented: &[(Algorithm, Vec<u8>)],
    ) -> bool {
        let mine = presented.iter().filter(|(algorithm, _)| *algorithm == self.algorithm);
        match &self.material {
            Material::Hmac(key) => {
                let mut context = hmac::Context::with_key(key);
                signed.iter().for_each(|part| context.update(part));
                let tag = context.sign();
                mine.fold(false, |good, (_, signature)| good | same(tag.as_ref(), signature))
            }
            Material::Public(key) => {
                let whole = whole.get_or_insert_with(|| signed.concat());
                mine.fold(false, |good, (_, signature)| good | key.verify_sig(whole, signature).is_ok())
            }
            // Of both a digest, so that the time says nothing of the secret's length.
            Material::Digest(secret) => {
                let presented = digest::digest(&digest::SHA256, &signed.concat());
                mine.fold(false, |good, _| good | same(secret.as_ref(), presented.as_ref()))
            }
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// `whsec_` and a shared secret, or `whpk_` and a public key. The prefix of a shared secret is left out by some.
fn standard(text: &str) -> Result<Key, &'static str> {
    const WRONG: &str =
        "`whsec_` and 24 to 64 bytes in base64, or `whpk_` and an Ed25519 public key in base64";
    if let Some(text) = text.strip_prefix("whpk_") {
        let bytes = STANDARD.decode(text).map_err(|_| WRONG)?;
        return public(Algorithm::Ed25519, bytes).ok_or(WRONG);
    }
    let bytes = STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).map_err(|_| WRONG)?;
    let bytes = Zeroizing::new(bytes);
    let fits = (signature::SECRET_MIN_BYTES..=signature::SECRET_MAX_BYTES).contains(&bytes.len());
    if fits { Ok(Key::shared(Algorithm::Sha256, &bytes)) } else { Err(WRONG) }
}

fn public(algorithm: Algorithm, bytes: Vec<u8>) -> Option<Key> {
    let key = match algorithm {
        Algorithm::Ed25519 => ParsedPublicKey::new(&ED25519, bytes).ok()?,
        _ => ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, bytes).ok()?,
    };
    Some(Key { algorithm, material: Material::Public(key) })
}

/// Hexadecimal digits of either case.
pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}
