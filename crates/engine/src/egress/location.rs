//! Where a request goes, as it is known now, and which connections may be used for it.

use super::resolutions::{HostKey, Resolution};
use std::{sync::Arc, time::Duration};
use tokio_rustls::TlsConnector;

/// A host that has been found.
pub(crate) struct Location {
    pub(super) host: HostKey,
    pub(super) resolution: Arc<Resolution>,
    /// With the certificate that is to be shown.
    pub(super) tls: Option<TlsConnector>,
    key: ConnectionKey,
    /// How long it had to be looked for.
    pub(crate) waited: Option<Duration>,
}

/// What connections have in common that may be used for the same requests: where they lead, by the number of a resolution,
/// and for whom they speak.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionKey {
    resolution: u64,
    identity: Option<Arc<str>>,
}

impl Location {
    pub(super) fn new(
        host: HostKey,
        resolution: Arc<Resolution>,
        identity: Option<(Arc<str>, TlsConnector)>,
        waited: Option<Duration>,
    ) -> Self {
        let (identity, tls) = identity.unzip();
        let key = ConnectionKey { resolution: resolution.number, identity };
        Self { host, resolution, tls, key, waited }
    }

    pub(crate) fn key(&self) -> &ConnectionKey {
        &self.key
    }
}
