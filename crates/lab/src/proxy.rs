//! A TCP proxy on loopback that does to a connection what networks do: cut, stall, delay, throttle, refuse,
//! and lose the reply to a request that was carried out.
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
    counts: Arc<Counts>,
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
    delay: Duration,
    bytes_per_second: Option<u64>,
    cut_after_bytes: Option<u64>,
    /// Grows with each cut; a connection older than it ends.
    cuts: u64,
    lost_reply: Option<Arc<LostReply>>,
}

#[derive(Debug)]
struct LostReply {
    needle: Vec<u8>,
    probability: f64,
}

#[derive(Debug, Default)]
struct Counts {
    open: AtomicU64,
    accepted: AtomicU64,
    lost_replies: AtomicU64,
}

impl Proxy {
    /// Listens on a free port of the loopback address and forwards to `target`.
    pub fn start(target: SocketAddr) -> io::Result<Proxy> {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let (faults, seen) = watch::channel(Faults::default());
        let (now_listening, listening) = watch::channel(true);
        let counts = Arc::new(Counts::default());
        let thread = OwnThread::run("lab-proxy", {
            let counts = counts.clone();
            move || accept(listener, target, seen, now_listening, counts)
        })?;
        Ok(Proxy { addr, faults, listening, counts, _thread: thread })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Connections open now.
    pub fn open(&self) -> u64 {
        self.counts.open.load(SeqCst)
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.counts.accepted.load(SeqCst)
    }

    /// Replies discarded by [`Proxy::cut_reply_after`].
    pub fn lost_replies(&self) -> u64 {
        self.counts.lost_replies.load(SeqCst)
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

    /// Holds back all bytes of a direction, closing included, until [`Proxy::flow`].
    pub fn stall(&self, direction: Direction) {
        self.faults.send_modify(|faults| {
            faults.stall_up |= direction != Direction::Down;
            faults.stall_down |= direction != Direction::Up;
        });
    }

    /// Ends all stalls; what was held back goes on.
    pub fn flow(&self) {
        self.faults.send_modify(|faults| (faults.stall_up, faults.stall_down) = (false, false));
    }

    /// Delays each chunk, in each direction; a ping-pong takes twice this longer.
    pub fn delay(&self, delay: Duration) {
        self.faults.send_modify(|faults| faults.delay = delay);
    }

    /// Limits each direction of each connection.
    pub fn throttle(&self, bytes_per_second: Option<u64>) {
        self.faults.send_modify(|faults| faults.bytes_per_second = bytes_per_second);
    }

    /// Resets a connection once it has carried so many bytes, both directions together, since its beginning.
    pub fn cut_after_bytes(&self, bytes: Option<u64>) {
        self.faults.send_modify(|faults| faults.cut_after_bytes = bytes);
    }

    /// When the client sends `needle`: forwards it, waits for the server to reply, discards the reply and
    /// resets the client; the server sees an ordinary close. So the work is done and nobody was told.
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

    fn pause(&self, bytes: usize) -> Duration {
        let paced = self.bytes_per_second.map(|rate| bytes as f64 / rate.max(1) as f64);
        self.delay + Duration::from_secs_f64(paced.unwrap_or(0.0))
    }
}

async fn accept(
    listener: std::net::TcpListener,
    target: SocketAddr,
    mut faults: watch::Receiver<Faults>,
    listening: watch::Sender<bool>,
    counts: Arc<Counts>,
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
                    // Someone was given our port for a moment; it is ours by right of having been told.
                    Err(_) => sleep(Duration::from_millis(5)).await,
                }
            };
            listening.send_replace(true);
        }
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    tokio::spawn(carry(client, target, faults.clone(), counts.clone()));
                }
                Err(_) => sleep(Duration::from_millis(10)).await,
            },
            changed = faults.changed() => if changed.is_err() { return },
        }
    }
}

/// How a connection ended.
enum End {
    Closed,
    Cut,
    ReplyLost,
}

async fn carry(
    mut client: TcpStream,
    target: SocketAddr,
    mut faults: watch::Receiver<Faults>,
    counts: Arc<Counts>,
) {
    counts.accepted.fetch_add(1, SeqCst);
    let cuts = faults.borrow().cuts;
    let Ok(mut server) = TcpStream::connect(target).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    counts.open.fetch_add(1, SeqCst);
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let pair = Pair { carried: AtomicU64::new(0), lose_reply: AtomicBool::new(false) };
        let up = flow(from_client, to_server, Direction::Up, &pair, faults.clone());
        let down = flow(from_server, to_client, Direction::Down, &pair, faults.clone());
        tokio::select! {
            ended = async { tokio::try_join!(up, down) } => ended.err().unwrap_or(End::Closed),
            _ = faults.wait_for(|faults| faults.cuts != cuts) => End::Cut,
        }
    };
    counts.open.fetch_sub(1, SeqCst);
    match end {
        End::Closed => {}
        End::Cut => {
            let _ = (client.set_zero_linger(), server.set_zero_linger());
        }
        End::ReplyLost => {
            counts.lost_replies.fetch_add(1, SeqCst);
            // Not the server: a reset would throw away what it has not read yet.
            let _ = client.set_zero_linger();
        }
    }
}

/// What the two directions of a connection share.
struct Pair {
    carried: AtomicU64,
    lose_reply: AtomicBool,
}

async fn flow(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    way: Direction,
    pair: &Pair,
    mut faults: watch::Receiver<Faults>,
) -> Result<(), End> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut tail = Vec::new();
    loop {
        let length = from.read(&mut chunk).await.map_err(|_| End::Cut)?;
        let now = faults.borrow().clone();
        sleep_unless_zero(now.pause(length)).await;
        faults.wait_for(|faults| !faults.stalls(way)).await.map_err(|_| End::Cut)?;
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
                    pair.lose_reply.store(true, SeqCst);
                }
            }
            _ if way == Direction::Down && pair.lose_reply.load(SeqCst) => return Err(End::ReplyLost),
            _ => {}
        }
        let carried = pair.carried.fetch_add(length as u64, SeqCst);
        if let Some(limit) = now.cut_after_bytes.filter(|limit| carried + length as u64 > *limit) {
            let rest = limit.saturating_sub(carried) as usize;
            let _ = to.write_all(&bytes[..rest]).await;
            return Err(End::Cut);
        }
        to.write_all(bytes).await.map_err(|_| End::Cut)?;
    }
}

async fn sleep_unless_zero(pause: Duration) {
    if !pause.is_zero() {
        sleep(pause).await;
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
