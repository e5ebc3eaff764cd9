//! Who opens sockets.

use super::Duplex;
use async_trait::async_trait;
use std::{io, net::SocketAddr};
use tokio::net::TcpStream;

/// Opens a connection to an address that has been vetted.
#[async_trait]
pub trait Dial: Send + Sync {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Duplex>>;
}

/// Plain TCP, without Nagle's delay.
pub struct TcpDialer;

#[async_trait]
impl Dial for TcpDialer {
    async fn dial(&self, address: SocketAddr) -> io::Result<Box<dyn Duplex>> {
        #[expect(clippy::disallowed_methods, reason = "this is the one place: the address has been vetted")]
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        // The rule was about this very address; a transparent redirect would lead to another.
        if stream.peer_addr()? != address {
            return Err(io::Error::other("connected to another address than the one vetted"));
        }
        Ok(Box::new(stream))
    }
}
