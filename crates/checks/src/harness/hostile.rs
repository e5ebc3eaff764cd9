//! Receivers that mean no good, on loopback: sockets by hand, for what no HTTP server would do.
//!
//! | module | what it is |
//! |---|---|
//! | [`conduct`] | what a receiver does with a connection, as data: a door and a list of steps |
//! | [`request`] | what it reads of a request |
//! | [`certificates`] | certificates with something wrong, and an authority that the node knows |
//! | [`expectation`] | what must become of what is sent to one |
//! | [`kinds`] | every kind of hostility: its cases, and what must become of each |
//! | [`malformed`] | the cases of answers that are not HTTP, or barely |
//! | [`bombs`] | small bodies that are huge once they are unpacked |
//! | [`destinations`] | destinations at such receivers, what is sent to them and how it ended |

pub(crate) mod bombs;
pub(crate) mod certificates;
pub(crate) mod conduct;
pub(crate) mod destinations;
pub(crate) mod expectation;
pub(crate) mod kinds;
pub(crate) mod malformed;
mod request;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use lab::BlackHole;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use conduct::{Conduct, Door};
use request::RequestHead;

use super::own_network::canaries::listen_beside;

/// A running one; dropping it closes its port and all its connections.
pub(crate) struct HostileReceiver {
    addr: SocketAddr,
    scheme: &'static str,
    pub(crate) log: Arc<HostileLog>,
    accepting: Option<JoinHandle<()>>,
    _black_hole: Option<BlackHole>,
}

/// What it has seen.
#[derive(Debug, Default)]
pub(crate) struct HostileLog {
    pub(crate) connections: AtomicU64,
    /// Heads that ask for another encoding than none.
    pub(crate) asked_for_encodings: AtomicU64,
    /// Requests without TLS where TLS is expected.
    pub(crate) in_the_clear: AtomicU64,
    /// How often each attempt of each delivery has come: by the delivery's id and the attempt's number.
    requests: Mutex<HashMap<(String, u32), u32>>,
}

impl HostileLog {
    fn arrived(&self, head: &RequestHead) {
        if !head.asks_for_no_encoding {
            self.asked_for_encodings.fetch_add(1, Relaxed);
        }
        *self.requests().entry((head.delivery.clone(), head.attempt)).or_default() += 1;
    }

    /// How often each attempt has come.
    pub(crate) fn requests(&self) -> MutexGuard<'_, HashMap<(String, u32), u32>> {
        self.requests.lock().expect("no panic while the log is locked")
    }
}

impl HostileReceiver {
    pub(crate) async fn start(conduct: &Conduct) -> io::Result<HostileReceiver> {
        if matches!(conduct.door, Door::NeverOpens) {
            let black_hole = BlackHole::open().await?;
            let (addr, scheme, log) = (black_hole.addr()?, conduct.door.scheme(), Arc::default());
            return Ok(HostileReceiver { addr, scheme, log, accepting: None, _black_hole: Some(black_hole) });
        }
        HostileReceiver::accepting(TcpListener::bind(("127.0.0.1", 0)).await?, conduct)
    }

    /// At this address, although canaries listen at all of them.
    pub(crate) async fn start_at(conduct: &Conduct, addr: SocketAddr) -> io::Result<HostileReceiver> {
        HostileReceiver::accepting(listen_beside(addr)?, conduct)
    }

    fn accepting(listener: TcpListener, conduct: &Conduct) -> io::Result<HostileReceiver> {
        let (addr, scheme, log) =
            (listener.local_addr()?, conduct.door.scheme(), Arc::<HostileLog>::default());
        let accepting = tokio::spawn(accept(listener, conduct.clone(), log.clone()));
        Ok(HostileReceiver { addr, scheme, log, accepting: Some(accepting), _black_hole: None })
    }

    /// The URL of a path that begins with `/`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.addr)
    }

    pub(crate) fn close(&self) {
        // Its connections go with it: they are its own tasks.
        self.accepting.iter().for_each(JoinHandle::abort);
    }

    pub(crate) fn port(&self) -> u16 {
        self.addr.port()
    }
}

impl Drop for HostileReceiver {
    fn drop(&mut self) {
        self.close();
    }
}

async fn accept(listener: TcpListener, conduct: Conduct, log: Arc<HostileLog>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        log.connections.fetch_add(1, Relaxed);
        let (conduct, log) = (conduct.clone(), log.clone());
        connections.spawn(async move {
            // However it ends: the other side may have had enough of it.
            let _ = conduct.play(stream, &log).await;
        });
        while connections.try_join_next().is_some() {}
    }
}
