//! Which process is at the other end of a loopback connection.
//!
//! A request does not say which node sent it, and must not: so the receiver asks the kernel. `/proc/net/tcp` has the
//! inode of the socket with the peer's port, and the process that has that socket among its descriptors is the sender.
//! Asked once a connection, while it is open. Linux only; a stranger is simply not known.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::sync::{Mutex, MutexGuard};

/// The processes that may call, and the ports they call from.
#[derive(Debug)]
pub(crate) struct Peers {
    /// Where they call. Two processes may use one port of their own to call different places.
    called: u16,
    state: Mutex<PeerTable>,
}

#[derive(Debug, Default)]
struct PeerTable {
    pids: Vec<u32>,
    /// Connections that are open here: their ports are spoken for until they are closed.
    open: HashSet<u16>,
    /// Connections that were seen and have not been accepted yet. One look serves a whole burst of them.
    seen: HashMap<u16, u32>,
}

impl Peers {
    pub(crate) fn of(called: u16) -> Self {
        Self { called, state: Mutex::default() }
    }

    pub(crate) fn know(&self, pid: u32) {
        self.state().pids.push(pid);
    }

    /// The process that calls from `port`; to be paired with [`Peers::closed`].
    pub(crate) fn opened(&self, port: u16) -> Option<u32> {
        let mut state = self.state();
        if state.pids.is_empty() {
            return None;
        }
        if !state.seen.contains_key(&port) {
            state.look(self.called);
        }
        state.open.insert(port);
        state.seen.remove(&port)
    }

    pub(crate) fn closed(&self, port: u16) {
        let mut state = self.state();
        state.open.remove(&port);
        state.seen.remove(&port);
    }

    fn state(&self) -> MutexGuard<'_, PeerTable> {
        self.state.lock().expect("no panic while the peers are locked")
    }
}

impl PeerTable {
    fn look(&mut self, called: u16) {
        let ports = ports_by_inode(called);
        self.seen.clear();
        // The dead have no descriptors, and their numbers may be given to others.
        self.pids.retain(|pid| fs::exists(format!("/proc/{pid}")).unwrap_or(false));
        for pid in &self.pids {
            for inode in sockets_of(*pid) {
                if let Some(port) = ports.get(&inode).filter(|port| !self.open.contains(port)) {
                    self.seen.insert(*port, *pid);
                }
            }
        }
    }
}

/// The local port of every TCP socket of version 4 that has called this port, by the socket's inode.
fn ports_by_inode(called: u16) -> HashMap<u64, u16> {
    let sockets = tcp_sockets().into_iter().filter(|socket| socket.other == called);
    sockets.map(|socket| (socket.inode, socket.own)).collect()
}

/// The port at the other end of every TCP socket of version 4 that this process has open.
pub(crate) fn called_ports(pid: u32) -> Vec<u16> {
    let own: HashSet<u64> = sockets_of(pid).into_iter().collect();
    tcp_sockets().iter().filter(|socket| own.contains(&socket.inode)).map(|socket| socket.other).collect()
}

/// The processes that listen on this port of any local address, as far as we may look into them.
pub(crate) fn listeners(port: u16) -> Vec<u32> {
    const LISTEN: &str = "0A";
    let listening: HashSet<u64> = tables(&["/proc/net/tcp", "/proc/net/tcp6"])
        .into_iter()
        .filter(|socket| socket.own == port && socket.state == LISTEN)
        .map(|socket| socket.inode)
        .collect();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| sockets_of(*pid).iter().any(|inode| listening.contains(inode))).collect()
}

struct TcpSocket {
    own: u16,
    other: u16,
    state: String,
    inode: u64,
}

fn tcp_sockets() -> Vec<TcpSocket> {
    tables(&["/proc/net/tcp"])
}

fn tables(files: &[&str]) -> Vec<TcpSocket> {
    let port = |address: &str| u16::from_str_radix(address.split_once(':')?.1, 16).ok();
    let entry = |line: &str| {
        let mut fields = line.split_whitespace();
        let (own, other) = (port(fields.nth(1)?)?, port(fields.next()?)?);
        let state = fields.next()?.to_owned();
        Some(TcpSocket { own, other, state, inode: fields.nth(5)?.parse().ok()? })
    };
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    texts.flat_map(|text| text.lines().skip(1).filter_map(entry).collect::<Vec<_>>()).collect()
}

fn sockets_of(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let inode = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    entries.flatten().filter_map(inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_connection_is_traced_to_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, peer) = listener.accept().unwrap();
        let peers = Peers::of(listener.local_addr().unwrap().port());
        assert_eq!(peers.opened(peer.port()), None, "nobody is known yet");
        peers.closed(peer.port());
        peers.know(std::process::id());
        let other = TcpStream::connect(elsewhere.local_addr().unwrap()).unwrap();
        assert_eq!(peers.opened(other.local_addr().unwrap().port()), None, "a call of somebody else");
        peers.closed(other.local_addr().unwrap().port());
        assert_eq!(peers.opened(peer.port()), Some(std::process::id()));
        assert!(called_ports(std::process::id()).contains(&listener.local_addr().unwrap().port()));
        assert_eq!(listeners(listener.local_addr().unwrap().port()), [std::process::id()]);
        assert!(listeners(client.local_addr().unwrap().port()).is_empty(), "a caller does not listen");
        drop(client);
        peers.closed(peer.port());
        assert!(peers.state().open.is_empty());
    }
}
