//! A TCP proxy on loopback that does to a connection what networks do: cut, stall, refuse, and lose the reply to a
//! request that was carried out.
//!
//! It knows bytes and no protocol. Settings change at run time and hold for connections old and new. A
//! stalled direction keeps its sockets and acknowledges what fits the kernel's buffers, so it looks like a
//! frozen peer rather than a pulled cable.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::thread::OwnThread;

const CHUNK_BYTES: usize = 16 * 1024;

/// A running proxy; dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    faults: watch::Sender<Faults>,
    listening: watch::Receiver<bool>,
    lost_replies: Arc<AtomicU64>,
    _thread: OwnThread,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Up,
    /// From the server to the client.
    Down,
    Both,
}

#[derive(Debug, Clone, Default)]
struct Faults {
    refuse: bool,
    stall_up: bool,
    stall_down: bool,
    /// Grows with each cut; a connection older than it ends.
    cuts: u64,
    lost_reply: Option<Arc<LostReply>>,
}

#[derive(Debug)]
struct LostReply {
    needle: Vec<u8>,
    probability: f64,
}

impl Proxy {
    /// Listens on a free port of the loopback address and forwards to `target`.
    pub fn start(target: SocketAddr) -> io::Result<Proxy> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (faults, seen) = watch::channel(Faults::default());
        let (now_listening, listening) = watch::channel(true);
        let lost_replies = Arc::new(AtomicU64::new(0));
        let thread = OwnThread::run("lab-proxy", {
            let lost_replies = lost_replies.clone();
            move || accept(listener, target, seen, now_listening, lost_replies)
        })?;
        Ok(Proxy { addr, faults, listening, lost_replies, _thread: thread })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Replies discarded by [`Proxy::cut_reply_after`].
    pub fn lost_replies(&self) -> u64 {
        self.lost_replies.load(SeqCst)
    }

    /// Resets every connection, both sides of it. New ones are welcome.
    pub fn cut_all(&self) {
        self.faults.send_modify(|faults| faults.cuts += 1);
    }

    /// Refuses new connections, truly (the port is closed), or takes them again. In force on return.
    pub async fn refuse(&self, refuse: bool) {
        self.faults.send_modify(|faults| faults.refuse = refuse);
        let mut listening = self.listening.clone();
        let _ = listening.wait_for(|listening| *listening != refuse).await;
    }

    /// Holds back all bytes of a direction, closing included, until [`Proxy::heal`].
    pub fn stall(&self, direction: Direction) {
        self.faults.send_modify(|faults| {
            faults.stall_up |= direction != Direction::Down;
            faults.stall_down |= direction != Direction::Up;
        });
    }

    /// When the client sends `needle`: forwards it, waits for the server to reply, discards the reply and
    /// resets the client; the server sees an ordinary close. So the work is done and the client is not told.
    /// One draw per occurrence; an empty needle ends it.
    pub fn cut_reply_after(&self, needle: &[u8], probability: f64) {
        let lost = LostReply { needle: needle.to_vec(), probability };
        self.faults.send_modify(|faults| {
            faults.lost_reply = (!needle.is_empty()).then(|| Arc::new(lost));
        });
    }

    /// Ends every fault; what was cut stays cut.
    pub async fn heal(&self) {
        self.faults.send_modify(|faults| *faults = Faults { cuts: faults.cuts, ..Faults::default() });
        self.refuse(false).await;
    }
}

impl Faults {
    fn stalls(&self, way: Direction) -> bool {
        if way == Direction::Up { self.stall_up } else { self.stall_down }
    }
}

async fn accept(
    listener: std::net::TcpListener,
    target: SocketAddr,
    mut faults: watch::Receiver<Faults>,
    listening: watch::Sender<bool>,
    lost_replies: Arc<AtomicU64>,
) {
    let mut listener = TcpListener::from_std(listener).expect("a non-blocking listener inside a runtime");
    let addr = listener.local_addr().expect("a bound listener has an address");
    loop {
        if faults.borrow_and_update().refuse {
            drop(listener);
            listening.send_replace(false);
            if faults.wait_for(|faults| !faults.refuse).await.is_err() {
                return;
            }
            listener = loop {
                match TcpListener::bind(addr).await {
                    Ok(listener) => break listener,
                    // Another program was given this port for a moment; we wait, because the nodes know us by it.
                    Err(_) => sleep(Duration::from_millis(5)).await,
                }
            };
            listening.send_replace(true);
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    tokio::spawn(carry(client, target, faults.clone(), lost_replies.clone()));
                }
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            changed = faults.changed() => if changed.is_err() { return },
        }
    }
}

/// How a connection ended.
enum ConnectionEnd {
    Closed,
    Cut,
    ReplyLost,
}

async fn carry(
    mut client: TcpStream,
    target: SocketAddr,
    mut faults: watch::Receiver<Faults>,
    lost_replies: Arc<AtomicU64>,
) {
    let cuts = faults.borrow().cuts;
    let Ok(mut server) = TcpStream::connect(target).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        // Set by one direction, obeyed by the other.
        let lose_reply = AtomicBool::new(false);
        let up = flow(from_client, to_server, Direction::Up, &lose_reply, faults.clone());
        let down = flow(from_server, to_client, Direction::Down, &lose_reply, faults.clone());
        tokio::select! {
            ended = async { tokio::try_join!(up, down) } => ended.err().unwrap_or(ConnectionEnd::Closed),
            _ = faults.wait_for(|faults| faults.cuts != cuts) => ConnectionEnd::Cut,
        }
    };
    match end {
        ConnectionEnd::Closed => {}
        ConnectionEnd::Cut => {
            let _ = (client.set_zero_linger(), server.set_zero_linger());
        }
        ConnectionEnd::ReplyLost => {
            lost_replies.fetch_add(1, SeqCst);
            // Not the server: a reset would throw away what it has not read yet.
            let _ = client.set_zero_linger();
        }
    }
}

async fn flow(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    way: Direction,
    lose_reply: &AtomicBool,
    mut faults: watch::Receiver<Faults>,
) -> Result<(), ConnectionEnd> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut tail = Vec::new();
    loop {
        let length = from.read(&mut chunk).await.map_err(|_| ConnectionEnd::Cut)?;
        let now = faults.borrow().clone();
        faults.wait_for(|faults| !faults.stalls(way)).await.map_err(|_| ConnectionEnd::Cut)?;
        if length == 0 {
            let _ = to.shutdown().await;
            return Ok(());
        }
        let bytes = &chunk[..length];
        match &now.lost_reply {
            Some(lost) if way == Direction::Up => {
                let hits = occurrences(&mut tail, bytes, &lost.needle);
                if (0..hits).any(|_| rand::random::<f64>() < lost.probability) {
                    // Before it is forwarded, so that no reply slips through.
                    lose_reply.store(true, SeqCst);
                }
            }
            _ if way == Direction::Down && lose_reply.load(SeqCst) => return Err(ConnectionEnd::ReplyLost),
            _ => {}
        }
        to.write_all(bytes).await.map_err(|_| ConnectionEnd::Cut)?;
    }
}

/// How often `needle` ends within `bytes`, counting those that began in earlier chunks; `tail` is the memory.
fn occurrences(tail: &mut Vec<u8>, bytes: &[u8], needle: &[u8]) -> usize {
    tail.extend_from_slice(bytes);
    let starts = tail.iter().enumerate().filter(|(_, byte)| **byte == needle[0]);
    let found = starts.filter(|(at, _)| tail[*at..].starts_with(needle)).count();
    let keep = tail.len().min(needle.len() - 1);
    tail.drain(..tail.len() - keep);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_needle_is_found_across_chunks_and_once_each() {
        let mut tail = Vec::new();
        let mut count = |bytes: &[u8]| occurrences(&mut tail, bytes, b"COMMIT");
        assert_eq!(count(b"xxCOM"), 0);
        assert_eq!(count(b"MITyCOMMIT"), 2);
        assert_eq!(count(b"C"), 0);
        assert_eq!(count(b"O"), 0);
        assert_eq!(count(b"MMIT"), 1);
        assert_eq!(count(b"nothing"), 0);
    }
}
