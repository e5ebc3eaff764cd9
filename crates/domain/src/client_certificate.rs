//! Client certificates: what a destination that asks for one is shown, read from PEM and checked before it is kept.
//!
//! A certificate that does not fit its key, or that is over, would fail in every handshake, and there the reason is known to
//! the other side alone. So it is looked for when it is written, in words that say what to do.

use crate::{limits, seal::Sealed, time::Timestamp};
use aws_lc_rs::digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RsaKeyPair,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use x509_cert::{Certificate, der::Decode as _};
use zeroize::Zeroizing;

/// As it is kept: what it says of itself in the clear, for people to see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientCertificate {
    /// The chain as PEM, the client's own certificate first.
    pub certificate: String,
    /// PEM.
    pub private_key: Sealed,
    pub subject: String,
    /// When the first of the chain is over.
    pub expires_at: Timestamp,
}

/// What was found in a chain that can be used.
#[derive(Debug, Clone, PartialEq)]
pub struct CertificateFacts {
    /// The chain alone, whatever stood around it.
    pub certificate: String,
    pub subject: String,
    pub expires_at: Timestamp,
}

/// What is wrong, and with which of the two.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error(
        "there is no `-----BEGIN CERTIFICATE-----` in it: give the chain as PEM, your own certificate first"
    )]
    NoCertificate,
    #[error("certificate {0} of the chain cannot be read: give each as PEM, as it was issued")]
    Unreadable(usize),
    #[error(
        "at most {} certificates, and {} bytes in all",
        limits::CERTIFICATE_CHAIN,
        limits::CERTIFICATE_BYTES
    )]
    TooLarge,
    #[error("certificate {0} of the chain has expired, at {1}: have it issued anew")]
    Expired(usize, Timestamp),
    #[error("certificate {0} of the chain is not valid before {1}")]
    NotYetValid(usize, Timestamp),
    #[error(
        "certificate {0} of the chain was not issued by the one after it: give your own first, then its issuer, and so on"
    )]
    OutOfOrder(usize),
    #[error("there is no private key in it: give one as PEM (`-----BEGIN PRIVATE KEY-----`)")]
    NoKey,
    #[error("there is more than one private key in it")]
    ManyKeys,
    #[error("the private key is encrypted: take its passphrase off first (`openssl pkey -in key.pem`)")]
    EncryptedKey,
    #[error(
        "the private key cannot be used: RSA of 2,048 to 8,192 bits, ECDSA on P-256, P-384 or P-521, or Ed25519"
    )]
    UnusableKey,
    #[error("at most {} bytes", limits::PRIVATE_KEY_BYTES)]
    LargeKey,
    #[error("the private key does not belong to the first certificate of the chain")]
    Mismatch,
}

impl CertificateError {
    /// Whether it is the key that is to blame.
    pub fn is_of_the_key(&self) -> bool {
        matches!(
            self,
            Self::NoKey
                | Self::ManyKeys
                | Self::EncryptedKey
                | Self::UnusableKey
                | Self::LargeKey
                | Self::Mismatch
        )
    }
}

/// A private key as it stands in its PEM.
pub struct PrivateKey {
    pub form: KeyForm,
    pub der: Zeroizing<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyForm {
    Pkcs8,
    /// Of RSA alone.
    Pkcs1,
    /// Of elliptic curves.
    Sec1,
}

/// Reads a chain with its key, and says what is wrong with them.
pub fn check(certificate: &str, key: &str, now: Timestamp) -> Result<CertificateFacts, CertificateError> {
    let chain = chain(certificate)?;
    let read =
        |at: usize| Certificate::from_der(&chain[at]).map_err(|_| CertificateError::Unreadable(at + 1));
    let read: Vec<Certificate> = (0..chain.len()).map(read).collect::<Result<_, _>>()?;
    let mut expires_at = Timestamp::MAX;
    for (at, certificate) in read.iter().enumerate() {
        let validity = &certificate.tbs_certificate.validity;
        let [from, until] = [&validity.not_before, &validity.not_after].map(instant);
        if until <= now {
            return Err(CertificateError::Expired(at + 1, until));
        }
        if from > now {
            return Err(CertificateError::NotYetValid(at + 1, from));
        }
        expires_at = expires_at.min(until);
    }
    let out_of_order =
        read.windows(2).position(|pair| pair[0].tbs_certificate.issuer != pair[1].tbs_certificate.subject);
    if let Some(at) = out_of_order {
        return Err(CertificateError::OutOfOrder(at + 1));
    }
    let own = &read[0].tbs_certificate;
    if public_key(&private_key(key)?)? != own.subject_public_key_info.subject_public_key.raw_bytes() {
        return Err(CertificateError::Mismatch);
    }
    let mut subject = own.subject.to_string();
    if let Some((end, _)) = subject.char_indices().nth(limits::CERTIFICATE_SUBJECT_CHARACTERS) {
        subject.truncate(end);
        subject.push('…');
    }
    Ok(CertificateFacts { certificate: chain.iter().map(|der| pem(der)).collect(), subject, expires_at })
}

/// The certificates of a chain, as DER.
pub fn chain(text: &str) -> Result<Vec<Vec<u8>>, CertificateError> {
    if text.len() > limits::CERTIFICATE_BYTES {
        return Err(CertificateError::TooLarge);
    }
    let mut chain = Vec::new();
    for block in Blocks(text).filter(|block| block.label == "CERTIFICATE") {
        let der = block.decoded().ok_or(CertificateError::Unreadable(chain.len() + 1))?;
        chain.push(der.to_vec());
    }
    match chain.len() {
        0 => Err(CertificateError::NoCertificate),
        count if count > limits::CERTIFICATE_CHAIN => Err(CertificateError::TooLarge),
        _ => Ok(chain),
    }
}

/// The one private key in a PEM.
pub fn private_key(text: &str) -> Result<PrivateKey, CertificateError> {
    if text.len() > limits::PRIVATE_KEY_BYTES {
        return Err(CertificateError::LargeKey);
    }
    let mut found = None;
    for block in Blocks(text) {
        let form = match block.label {
            "PRIVATE KEY" => KeyForm::Pkcs8,
            // As older tools encrypt it, it is called what it is when it is not.
            "RSA PRIVATE KEY" | "EC PRIVATE KEY" if block.body.contains("ENCRYPTED") => {
                return Err(CertificateError::EncryptedKey);
            }
            "RSA PRIVATE KEY" => KeyForm::Pkcs1,
            "EC PRIVATE KEY" => KeyForm::Sec1,
            "ENCRYPTED PRIVATE KEY" => return Err(CertificateError::EncryptedKey),
            // The parameters of a curve that `openssl ecparam` puts before its key, or the certificate in the same file.
            _ => continue,
        };
        let der = block.decoded().ok_or(CertificateError::UnusableKey)?;
        if found.replace(PrivateKey { form, der }).is_some() {
            return Err(CertificateError::ManyKeys);
        }
    }
    found.ok_or(CertificateError::NoKey)
}

/// What tells one set of these from every other, and nothing about them.
pub fn fingerprint(parts: &[&[u8]]) -> String {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let hash = context.finish();
    hash.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The public half, as it stands in a certificate.
fn public_key(key: &PrivateKey) -> Result<Vec<u8>, CertificateError> {
    let der = key.der.as_slice();
    let rsa = match key.form {
        KeyForm::Pkcs8 => RsaKeyPair::from_pkcs8(der).ok(),
        KeyForm::Pkcs1 => RsaKeyPair::from_der(der).ok(),
        KeyForm::Sec1 => None,
    };
    if let Some(rsa) = rsa {
        return Ok(rsa.public_key().as_ref().to_vec());
    }
    if key.form == KeyForm::Pkcs8
        && let Ok(edwards) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der)
    {
        return Ok(edwards.public_key().as_ref().to_vec());
    }
    let curves =
        [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING, &ECDSA_P521_SHA512_ASN1_SIGNING];
    let found = curves.into_iter().find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, der).ok());
    found.map(|pair| pair.public_key().as_ref().to_vec()).ok_or(CertificateError::UnusableKey)
}

fn instant(time: &x509_cert::time::Time) -> Timestamp {
    Timestamp::from_seconds(i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(0)).min(Timestamp::MAX)
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}

/// What stands between `-----BEGIN …-----` and `-----END …-----`.
struct Blocks<'t>(&'t str);

struct Block<'t> {
    label: &'t str,
    body: &'t str,
}

impl<'t> Iterator for Blocks<'t> {
    type Item = Block<'t>;

    /// One that does not end is none.
    fn next(&mut self) -> Option<Block<'t>> {
        let (_, rest) = self.0.split_once("-----BEGIN ")?;
        let (label, rest) = rest.split_once("-----")?;
        let (body, rest) = rest.split_once("-----END ")?;
        self.0 = rest;
        Some(Block { label, body })
    }
}

impl Block<'_> {
    fn decoded(&self) -> Option<Zeroizing<Vec<u8>>> {
        let mut text = Zeroizing::new(Vec::with_capacity(self.body.len()));
        text.extend(self.body.bytes().filter(|byte| !byte.is_ascii_whitespace()));
        STANDARD.decode(text.as_slice()).ok().filter(|der| !der.is_empty()).map(Zeroizing::new)
    }
}

#[cfg(test)]
mod tests;
