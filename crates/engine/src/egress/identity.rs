//! Client certificates: whose connections they are.
//!
//! A connection that was made with a client certificate speaks for whoever the certificate is, so it is never used for
//! anybody else: connections are kept by the label of their identity as well. A label is a hash over the destination, its
//! chain and its key: two destinations with the same certificate share no connection, and neither does one that has been
//! given another.

use domain::{
    client_certificate::{self, CertificateError, KeyForm},
    id::DestinationId,
};
use rustls::{
    ClientConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer},
    sign::CertifiedKey,
};
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio_rustls::TlsConnector;

/// A client certificate of one destination, ready to be shown.
pub struct ClientIdentity {
    label: Arc<str>,
    certified: Arc<CertifiedKey>,
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

impl ClientIdentity {
    /// From PEM, as it was checked when it was written.
    pub fn new(id: DestinationId, certificate: &str, key: &str) -> Result<Self, CertificateError> {
        let chain = client_certificate::chain(certificate)?;
        let key = client_certificate::private_key(key)?;
        let mut parts: Vec<&[u8]> = vec![id.bytes(), &key.der];
        parts.extend(chain.iter().map(Vec::as_slice));
        let label = client_certificate::fingerprint(&parts).into();
        let chain = chain.into_iter().map(CertificateDer::from).collect();
        let der = key.der.to_vec();
        let der = match key.form {
            KeyForm::Pkcs8 => PrivateKeyDer::from(PrivatePkcs8KeyDer::from(der)),
            KeyForm::Pkcs1 => PrivateKeyDer::from(PrivatePkcs1KeyDer::from(der)),
            KeyForm::Sec1 => PrivateKeyDer::from(PrivateSec1KeyDer::from(der)),
        };
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let certified = certified(chain, der, &provider).map_err(|_| CertificateError::UnusableKey)?;
        Ok(Self { label, certified: Arc::new(certified) })
    }

    pub(super) fn label(&self) -> Arc<str> {
        Arc::clone(&self.label)
    }
}

/// Fails if they are no pair.
fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, rustls::Error> {
    CertifiedKey::from_der(chain, key, provider)
}

/// The identities that requests are made with at the moment, and their TLS.
#[derive(Default)]
pub(super) struct Identities(Mutex<KnownIdentities>);

#[derive(Default)]
struct KnownIdentities {
    by_label: HashMap<Arc<str>, (Weak<ClientIdentity>, TlsConnector)>,
    /// With so many those are forgotten that nobody has any more.
    sweep_at: usize,
}

/// From so many on it is worth a look.
const SWEEP_FROM: usize = 64;

impl Identities {
    /// What connections are made with that show it. It is the same, with the sessions that were begun, for as long as somebody
    /// has the identity.
    pub(super) fn enter(
        &self,
        identity: &Arc<ClientIdentity>,
        config: impl FnOnce(Arc<CertifiedKey>) -> Result<ClientConfig, rustls::Error>,
    ) -> Result<TlsConnector, rustls::Error> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((kept, tls)) = known.by_label.get_mut(&identity.label) {
            // Made ready anew: the same certificate, and the same connections.
            *kept = Arc::downgrade(identity);
            return Ok(tls.clone());
        }
        if known.by_label.len() >= known.sweep_at.max(SWEEP_FROM) {
            known.by_label.retain(|_, (identity, _)| identity.strong_count() > 0);
            known.sweep_at = 2 * known.by_label.len();
        }
        // With sessions of its own: one that was begun with a certificate goes on with it.
        let tls = TlsConnector::from(Arc::new(config(Arc::clone(&identity.certified))?));
        known.by_label.insert(identity.label(), (Arc::downgrade(identity), tls.clone()));
        Ok(tls)
    }
}

#[cfg(test)]
mod tests;
