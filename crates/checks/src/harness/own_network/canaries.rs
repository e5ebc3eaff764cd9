//! Listeners at every address, for whoever calls what must not be called.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::harness::becomes;

pub(crate) struct Canaries {
    called: Arc<Mutex<Vec<SocketAddr>>>,
    _listening: JoinSet<()>,
}

impl Canaries {
    /// At these ports of all addresses where nobody else listens. They are called once each, to be heard.
    pub(super) async fn listen(ports: Vec<u16>) -> Result<Canaries> {
        const FORBIDDEN: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
        let (called, mut listening) = (Arc::<Mutex<Vec<SocketAddr>>>::default(), JoinSet::new());
        for port in &ports {
            let listener = listen_beside((Ipv6Addr::UNSPECIFIED, *port).into())?;
            listening.spawn(write_down(listener, called.clone()));
            TcpStream::connect((FORBIDDEN, *port)).await?;
        }
        let canaries = Canaries { called, _listening: listening };
        let heard =
            becomes(Duration::from_secs(5), 5, async || Ok(canaries.called().len() == ports.len())).await?;
        ensure!(heard, "canaries do not hear who calls them");
        canaries.called.lock().expect("no panic while it is locked").clear();
        Ok(canaries)
    }

    /// Every address that was called, as often as it was.
    pub(crate) fn called(&self) -> Vec<SocketAddr> {
        self.called.lock().expect("no panic while it is locked").clone()
    }
}

async fn write_down(listener: TcpListener, called: Arc<Mutex<Vec<SocketAddr>>>) {
    while let Ok((stream, _)) = listener.accept().await {
        let addr = stream.local_addr().unwrap_or_else(|_| (Ipv6Addr::UNSPECIFIED, 0).into());
        called.lock().expect("no panic while it is locked").push(addr);
    }
}

/// Listens at an address although somebody listens at all of them, or the other way round: the nearer one is called.
pub(crate) fn listen_beside(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseport(true)?;
    socket.bind(addr)?;
    socket.listen(1_024)
}
