//! TLS to a destination, and what is said when it fails: why, in plain words, and nothing of what a certificate says.

use super::EgressError;
use domain::outcome::FailureKind;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, InvalidMessage, OtherError,
    SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    sign::{CertifiedKey, SingleCertAndKey},
};
use std::{io, sync::Arc};
use x509_cert::der::Decode as _;

/// Why TLS was not agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TlsFault {
    #[error("its certificate has expired")]
    Expired,
    #[error("its certificate is not valid yet")]
    NotYetValid,
    #[error("its certificate is for another name")]
    WrongName,
    #[error("its certificate is signed by an authority that is not known here")]
    UnknownAuthority,
    #[error("its certificate is signed by itself")]
    SelfSigned,
    #[error("its certificate cannot be used")]
    BadCertificate,
    #[error("it does not speak TLS on this port")]
    NotTls,
    #[error("it and we could not agree on how to speak TLS")]
    Protocol,
    #[error("it wants a client certificate, or did not accept the one it was shown")]
    ClientCertificate,
}

impl TlsFault {
    pub(super) fn kind(self) -> FailureKind {
        match self {
            Self::Expired => FailureKind::Expired,
            Self::NotYetValid => FailureKind::NotYetValid,
            Self::WrongName => FailureKind::WrongName,
            Self::UnknownAuthority => FailureKind::UnknownAuthority,
            Self::SelfSigned => FailureKind::SelfSigned,
            Self::BadCertificate => FailureKind::BadCertificate,
            Self::NotTls => FailureKind::NotTls,
            Self::Protocol => FailureKind::Protocol,
            Self::ClientCertificate => FailureKind::ClientCertificate,
        }
    }
}

/// How TLS is spoken with destinations.
pub(super) struct TlsSettings {
    provider: Arc<CryptoProvider>,
    verifier: Arc<ExplainingVerifier>,
}

impl TlsSettings {
    /// Trusting whom the system trusts.
    pub(super) fn new() -> Result<Self, rustls::Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        Ok(Self::by(rustls_platform_verifier::Verifier::new(Arc::clone(&provider))?, provider))
    }

    /// Trusting these authorities too.
    #[cfg(test)]
    pub(super) fn trusting(roots: Vec<CertificateDer<'static>>) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier =
            rustls_platform_verifier::Verifier::new_with_extra_roots(roots, Arc::clone(&provider)).unwrap();
        Self::by(verifier, provider)
    }

    fn by(verifier: rustls_platform_verifier::Verifier, provider: Arc<CryptoProvider>) -> Self {
        Self { provider, verifier: Arc::new(ExplainingVerifier(verifier)) }
    }

    /// What connections are made with, showing this certificate where one is asked for.
    pub(super) fn client_config(
        &self,
        identity: Option<Arc<CertifiedKey>>,
    ) -> Result<ClientConfig, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier.clone());
        Ok(match identity {
            Some(certified) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified))),
            None => builder.with_no_client_auth(),
        })
    }

    /// The same, for a server that may ask what is to be spoken.
    pub(super) fn https_config(
        &self,
        identity: Option<Arc<CertifiedKey>>,
    ) -> Result<ClientConfig, rustls::Error> {
        let mut config = self.client_config(identity)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// What a failed handshake was.
pub(super) fn handshake_error(error: &io::Error) -> EgressError {
    let fault = match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(error)) => certificate_fault(error),
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => TlsFault::NotTls,
        Some(rustls::Error::AlertReceived(alert)) if blames_the_client(*alert) => TlsFault::ClientCertificate,
        Some(_) => TlsFault::Protocol,
        // The connection broke, and says nothing about TLS.
        None if error.kind() == io::ErrorKind::ConnectionReset => return EgressError::Reset,
        None => return EgressError::Closed,
    };
    EgressError::Tls(fault)
}

/// Whether a connection broke because of the certificate that we showed, or did not show: in TLS 1.3 that is said when we
/// have begun to write.
pub(super) fn refuses_the_client(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(inner, Some(rustls::Error::AlertReceived(alert)) if blames_the_client(*alert))
}

fn blames_the_client(alert: AlertDescription) -> bool {
    use AlertDescription::{
        AccessDenied, BadCertificate, CertificateExpired, CertificateRequired, CertificateRevoked,
        CertificateUnknown, NoCertificate, UnknownCA, UnsupportedCertificate,
    };
    matches!(
        alert,
        AccessDenied
            | BadCertificate
            | CertificateExpired
            | CertificateRequired
            | CertificateRevoked
            | CertificateUnknown
            | NoCertificate
            | UnknownCA
            | UnsupportedCertificate
    )
}

fn certificate_fault(error: &CertificateError) -> TlsFault {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsFault::NotYetValid,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TlsFault::WrongName
        }
        CertificateError::UnknownIssuer => TlsFault::UnknownAuthority,
        CertificateError::Other(OtherError(other)) => {
            other.downcast_ref().copied().unwrap_or(TlsFault::BadCertificate)
        }
        _ => TlsFault::BadCertificate,
    }
}

/// The platform's verifier; of a certificate without a known issuer it says whether that is itself.
#[derive(Debug)]
struct ExplainingVerifier(rustls_platform_verifier::Verifier);

impl ServerCertVerifier for ExplainingVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.0.verify_server_cert(certificate, intermediates, name, ocsp_response, now);
        match verified {
            Err(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))
                if is_its_own(certificate) =>
            {
                Err(CertificateError::Other(OtherError(Arc::new(TlsFault::SelfSigned))).into())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn is_its_own(certificate: &CertificateDer<'_>) -> bool {
    x509_cert::Certificate::from_der(certificate)
        .is_ok_and(|certificate| certificate.tbs_certificate.issuer == certificate.tbs_certificate.subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
    use rustls::ServerConfig;
    use tokio::net::{TcpListener, TcpStream};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    /// Of an authority that is known, over a real socket: the name is looked at after it.
    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a destination of this test")]
    async fn a_certificate_for_another_name_is_called_that() {
        let mut authority = CertificateParams::new(vec![]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "an authority");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["elsewhere.example.com".into()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let _ = TlsAcceptor::from(Arc::new(config)).accept(stream).await;
        });

        let settings = TlsSettings::trusting(vec![authority.der().clone()]);
        let connector = TlsConnector::from(Arc::new(settings.client_config(None).unwrap()));
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::from(address.ip());
        let error = handshake_error(&connector.connect(name, stream).await.unwrap_err());
        assert_eq!(error.kind(), Some(FailureKind::WrongName));
        assert_eq!(error.to_string(), "TLS: its certificate is for another name");
    }

    #[test]
    fn what_is_wrong_with_a_certificate_has_a_kind() {
        let faults = [
            (CertificateError::Expired, TlsFault::Expired),
            (CertificateError::NotValidYet, TlsFault::NotYetValid),
            (CertificateError::NotValidForName, TlsFault::WrongName),
            (CertificateError::UnknownIssuer, TlsFault::UnknownAuthority),
            (CertificateError::Other(OtherError(Arc::new(TlsFault::SelfSigned))), TlsFault::SelfSigned),
            (CertificateError::Revoked, TlsFault::BadCertificate),
        ];
        for (error, fault) in faults {
            assert_eq!(certificate_fault(&error), fault, "{error:?}");
        }
    }
}
