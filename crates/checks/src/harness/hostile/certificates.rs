//! Certificates with something wrong, and an authority that the node under test knows: only so can a certificate be wrong
//! in one way alone.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType, IsCa, KeyPair,
    date_time_ymd,
};
use tempfile::NamedTempFile;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;

/// As large as nobody's certificate is.
const GIANT: usize = 10 * 1024 * 1024;

pub(crate) struct Certificates {
    known: CertifiedIssuer<'static, KeyPair>,
    unknown: CertifiedIssuer<'static, KeyPair>,
    file: NamedTempFile,
}

impl Certificates {
    pub(crate) fn make() -> Result<Certificates> {
        let known = authority("an authority for checks")?;
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), pem(known.der()))?;
        Ok(Certificates { known, unknown: authority("an authority that nobody knows")?, file })
    }

    /// What the node is told to trust, by `SSL_CERT_FILE`.
    pub(crate) fn file(&self) -> Result<&str> {
        let path: &Path = self.file.path();
        path.to_str().context("the path of a temporary file is text")
    }

    pub(crate) fn good(&self) -> Result<Arc<ServerConfig>> {
        self.signed(|_| {})
    }

    /// Of all these names and addresses.
    pub(crate) fn good_for(&self, names: impl IntoIterator<Item = String>) -> Result<Arc<ServerConfig>> {
        let (mut params, key) = leaf("127.0.0.1")?;
        params.subject_alt_names =
            CertificateParams::new(names.into_iter().collect::<Vec<_>>())?.subject_alt_names;
        let certificate = params.signed_by(&key, &self.known)?;
        server(vec![certificate.der().clone()], key, &[])
    }

    pub(crate) fn expired(&self) -> Result<Arc<ServerConfig>> {
        self.signed(|params| params.not_after = date_time_ymd(2020, 1, 1))
    }

    pub(crate) fn not_yet_valid(&self) -> Result<Arc<ServerConfig>> {
        self.signed(|params| params.not_before = date_time_ymd(2200, 1, 1))
    }

    pub(crate) fn of_unknown_authority(&self) -> Result<Arc<ServerConfig>> {
        let (params, key) = leaf("127.0.0.1")?;
        let certificate = params.signed_by(&key, &self.unknown)?;
        server(vec![certificate.der().clone()], key, &[])
    }

    pub(crate) fn self_signed(&self) -> Result<Arc<ServerConfig>> {
        let (params, key) = leaf("127.0.0.1")?;
        let certificate = params.self_signed(&key)?;
        server(vec![certificate.der().clone()], key, &[])
    }

    pub(crate) fn of_another_name(&self) -> Result<Arc<ServerConfig>> {
        let (params, key) = leaf("elsewhere.example")?;
        let certificate = params.signed_by(&key, &self.known)?;
        server(vec![certificate.der().clone()], key, &[])
    }

    /// A good one that comes with another of ten megabytes.
    pub(crate) fn giant(&self) -> Result<Arc<ServerConfig>> {
        let (params, key) = leaf("127.0.0.1")?;
        let certificate = params.signed_by(&key, &self.known)?;
        let (mut large, large_key) = leaf("large.example")?;
        let content = vec![4; GIANT];
        large.custom_extensions.push(CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 1], content));
        let large = large.signed_by(&large_key, &self.known)?;
        server(vec![certificate.der().clone(), large.der().clone()], key, &[])
    }

    /// A good one, of a server that speaks only HTTP/2.
    pub(crate) fn http2_only(&self) -> Result<Arc<ServerConfig>> {
        let (params, key) = leaf("127.0.0.1")?;
        let certificate = params.signed_by(&key, &self.known)?;
        server(vec![certificate.der().clone()], key, &[b"h2"])
    }

    fn signed(&self, change: impl FnOnce(&mut CertificateParams)) -> Result<Arc<ServerConfig>> {
        let (mut params, key) = leaf("127.0.0.1")?;
        change(&mut params);
        let certificate = params.signed_by(&key, &self.known)?;
        server(vec![certificate.der().clone()], key, &[])
    }
}

fn authority(name: &str) -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn leaf(name: &str) -> Result<(CertificateParams, KeyPair)> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, "a receiver of the checks");
    Ok((params, KeyPair::generate()?))
}

fn server(
    chain: Vec<CertificateDer<'static>>,
    key: KeyPair,
    protocols: &[&[u8]],
) -> Result<Arc<ServerConfig>> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key.into())?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(Arc::new(config))
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let text = STANDARD.encode(certificate);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
