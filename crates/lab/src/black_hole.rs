//! A port whose queue is full: whoever calls gets no answer, not even a refusal.
//!
//! The kernel drops a call for which there is no place in the queue, and the caller tries again until it has had enough.
//! What an unroutable address does, without leaving the machine.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

/// On loopback a call that is answered at all is answered at once.
const ANSWERED_WITHIN: Duration = Duration::from_millis(200);
/// With a queue of length 0 one gets in, or two.
const CALLERS: usize = 8;

#[derive(Debug)]
pub struct BlackHole {
    listener: TcpListener,
    /// They are in the queue and never leave it.
    _callers: Vec<TcpStream>,
}

impl BlackHole {
    pub async fn open() -> io::Result<BlackHole> {
        BlackHole::open_at(([127, 0, 0, 1], 0).into()).await
    }

    pub async fn open_at(addr: SocketAddr) -> io::Result<BlackHole> {
        let listener = TcpListener::bind(addr)?;
        rustix::net::listen(&listener, 0)?;
        let addr = listener.local_addr()?;
        let mut callers = Vec::new();
        for _ in 0..CALLERS {
            match timeout(ANSWERED_WITHIN, TcpStream::connect(addr)).await {
                Ok(caller) => callers.push(caller?),
                Err(_) => return Ok(BlackHole { listener, _callers: callers }),
            }
        }
        Err(io::Error::other("a queue of length 0 takes all callers in"))
    }

    pub fn addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}
