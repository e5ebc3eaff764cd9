//! The way to the server: a socket, with TLS where the URL asks for it, trusting the authorities that the system trusts.

use crate::{Error, error::BoxError};
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use rustls::{ClientConfig, crypto::aws_lc_rs, pki_types::ServerName};
use rustls_platform_verifier::BuilderVerifierExt;
use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower_service::Service;

#[derive(Clone)]
pub(crate) struct Connector {
    tcp: HttpConnector,
    tls: TlsConnector,
}

impl Connector {
    pub(crate) fn new() -> Result<Self, Error> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_platform_verifier())
            .map_err(|error| Error::Tls(error.into()))?
            .with_no_client_auth();
        Ok(Self { tcp, tls: Arc::new(config).into() })
    }
}

impl Service<Uri> for Connector {
    type Response = ServerStream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<ServerStream, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = (uri.scheme_str() == Some("https")).then(|| self.tls.clone());
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let connecting = self.tcp.call(uri);
        Box::pin(async move {
            let plain = connecting.await?;
            let Some(tls) = tls else { return Ok(ServerStream::Plain(plain)) };
            let name = ServerName::try_from(host)?;
            Ok(ServerStream::Tls(TokioIo::new(Box::new(tls.connect(name, plain.into_inner()).await?))))
        })
    }
}

pub(crate) enum ServerStream {
    Plain(TokioIo<TcpStream>),
    Tls(TokioIo<Box<TlsStream<TcpStream>>>),
}

impl Connection for ServerStream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for ServerStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl Write for ServerStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
