//! A proxy as companies have them, on loopback: told by CONNECT or SOCKS5 where to connect to, it does so or refuses, and
//! remembers every word it was told. Without one who speaks to it, it is a canary: it counts who comes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::thread::OwnThread;

/// A running proxy.
#[derive(Debug)]
pub struct TunnelProxy {
    addr: SocketAddr,
    heard: Arc<Mutex<Heard>>,
    _thread: OwnThread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelProtocol {
    Connect,
    /// Any login will do.
    Socks5,
}

/// What it does when it knows where to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelManners {
    Connects,
    /// Whatever it was told to connect to.
    ConnectsTo(SocketAddr),
    Refuses,
    /// Says nothing more.
    Hangs,
}

/// What a proxy was told.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    pub connections: usize,
    /// Where to connect to, as `127.0.0.2:80` or `name:80`.
    pub targets: Vec<String>,
    /// All that was said before the tunnel was open.
    pub words: Vec<u8>,
}

impl TunnelProxy {
    /// On a free port of the loopback address.
    ///
    /// # Panics
    /// If no port is free; for tests, where there is nothing better to do.
    pub fn local(protocol: TunnelProtocol, manners: TunnelManners) -> TunnelProxy {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port on loopback");
        listener.set_nonblocking(true).expect("a listener can be made non-blocking");
        let addr = listener.local_addr().expect("a bound listener has an address");
        let heard = Arc::new(Mutex::new(Heard::default()));
        let hears = heard.clone();
        let thread = OwnThread::run("lab-tunnel", move || accept(listener, protocol, manners, hears));
        TunnelProxy { addr, heard, _thread: thread.expect("a thread") }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn heard(&self) -> Heard {
        self.heard.lock().expect("no panic while it is locked").clone()
    }
}

async fn accept(
    listener: std::net::TcpListener,
    protocol: TunnelProtocol,
    manners: TunnelManners,
    heard: Arc<Mutex<Heard>>,
) {
    let listener = TcpListener::from_std(listener).expect("a non-blocking listener inside a runtime");
    while let Ok((client, _)) = listener.accept().await {
        heard.lock().expect("no panic while it is locked").connections += 1;
        let heard = heard.clone();
        tokio::spawn(async move {
            let _ = carry(Client { stream: client, heard }, protocol, manners).await;
        });
    }
}

/// One that came, and what is remembered of it.
struct Client {
    stream: TcpStream,
    heard: Arc<Mutex<Heard>>,
}

impl Client {
    async fn read(&mut self, count: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).await?;
        self.heard.lock().expect("no panic while it is locked").words.extend_from_slice(&bytes);
        Ok(bytes)
    }

    async fn port(&mut self) -> io::Result<u16> {
        let bytes = self.read(2).await?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}

async fn carry(mut client: Client, protocol: TunnelProtocol, manners: TunnelManners) -> io::Result<()> {
    let target = match protocol {
        TunnelProtocol::Connect => connect_target(&mut client).await?,
        TunnelProtocol::Socks5 => socks5_target(&mut client).await?,
    };
    client.heard.lock().expect("no panic while it is locked").targets.push(target.clone());
    let server = match manners {
        TunnelManners::Connects => TcpStream::connect(target).await.ok(),
        TunnelManners::ConnectsTo(addr) => TcpStream::connect(addr).await.ok(),
        TunnelManners::Refuses => None,
        TunnelManners::Hangs => return client.stream.read_to_end(&mut Vec::new()).await.map(drop),
    };
    let answer: &[u8] = match (protocol, &server) {
        (TunnelProtocol::Connect, Some(_)) => b"HTTP/1.1 200 Connection established\r\n\r\n",
        (TunnelProtocol::Connect, None) => b"HTTP/1.1 403 Forbidden\r\ncontent-length: 9\r\n\r\n10.9.8.7!",
        (TunnelProtocol::Socks5, Some(_)) => b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00",
        (TunnelProtocol::Socks5, None) => b"\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00",
    };
    client.stream.write_all(answer).await?;
    if let Some(mut server) = server {
        copy_bidirectional(&mut client.stream, &mut server).await?;
    }
    Ok(())
}

async fn connect_target(client: &mut Client) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(client.read(1).await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
    target.map(str::to_owned).ok_or_else(|| io::Error::other("not a CONNECT"))
}

async fn socks5_target(client: &mut Client) -> io::Result<String> {
    let greeting = client.read(2).await?;
    let methods = client.read(greeting[1].into()).await?;
    if methods.contains(&2) {
        client.stream.write_all(b"\x05\x02").await?;
        let user = client.read(2).await?[1];
        client.read(user.into()).await?;
        let password = client.read(1).await?[0];
        client.read(password.into()).await?;
        client.stream.write_all(b"\x01\x00").await?;
    } else {
        client.stream.write_all(b"\x05\x00").await?;
    }
    let request = client.read(4).await?;
    Ok(match request[3] {
        1 => {
            let octets: [u8; 4] = client.read(4).await?.try_into().expect("as many as were read");
            SocketAddr::new(IpAddr::V4(Ipv4Addr::from(octets)), client.port().await?).to_string()
        }
        4 => {
            let octets: [u8; 16] = client.read(16).await?.try_into().expect("as many as were read");
            SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)), client.port().await?).to_string()
        }
        _ => {
            let length = client.read(1).await?[0];
            let name = String::from_utf8_lossy(&client.read(length.into()).await?).into_owned();
            format!("{name}:{}", client.port().await?)
        }
    })
}
