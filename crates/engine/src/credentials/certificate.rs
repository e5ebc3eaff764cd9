//! A client certificate in use: shown with every connection, and told of before it ends.

use crate::egress::ClientIdentity;
use domain::{client_certificate::ClientCertificate, id::DestinationId, limits, time::Timestamp};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub struct ShownCertificate {
    destination_id: DestinationId,
    identity: Arc<ClientIdentity>,
    expires_at: Timestamp,
    is_told: AtomicBool,
}

impl ShownCertificate {
    pub(super) fn new(
        destination_id: DestinationId,
        kept: &ClientCertificate,
        key: &str,
    ) -> Result<Self, String> {
        let identity = ClientIdentity::new(destination_id, &kept.certificate, key)
            .map_err(|error| format!("its client certificate: {error}"))?;
        let is_told = AtomicBool::new(false);
        Ok(Self { destination_id, identity: Arc::new(identity), expires_at: kept.expires_at, is_told })
    }

    /// For a request of now. Of one that ends soon the log is told, once each time its destination is made ready.
    pub(crate) fn identity(&self, now: Timestamp) -> &Arc<ClientIdentity> {
        if self.ends_soon(now) && !self.is_told.swap(true, Ordering::Relaxed) {
            let (destination_id, expires_at) = (self.destination_id, self.expires_at);
            tracing::warn!(%destination_id, %expires_at, "certificate.expires");
        }
        &self.identity
    }

    fn ends_soon(&self, now: Timestamp) -> bool {
        self.expires_at <= now.plus(limits::CERTIFICATE_WARNING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use domain::seal::Sealed;
    use rcgen::{CertificateParams, KeyPair};
    use std::time::Duration;

    #[test]
    fn a_certificate_that_ends_within_a_month_is_told_of_once() {
        let key = KeyPair::generate().unwrap();
        let pem = |label: &str, der: &[u8]| {
            format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
        };
        let own = CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap();
        let expires_at = Timestamp::from_seconds(1_800_000_000);
        let kept = ClientCertificate {
            certificate: pem("CERTIFICATE", own.der()),
            private_key: Sealed::default(),
            subject: String::new(),
            expires_at,
        };
        let key = pem("PRIVATE KEY", &key.serialize_der());
        let shown = ShownCertificate::new(DestinationId::MIN, &kept, &key).unwrap();
        let early = expires_at.minus(limits::CERTIFICATE_WARNING + Duration::from_secs(1));
        shown.identity(early);
        assert!(!shown.is_told.load(Ordering::Relaxed));
        shown.identity(early.plus(Duration::from_secs(1)));
        assert!(shown.is_told.load(Ordering::Relaxed));
    }
}
