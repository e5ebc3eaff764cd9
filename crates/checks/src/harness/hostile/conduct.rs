//! What a hostile receiver does with a connection, as data: how it is entered, and the steps that follow.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use super::HostileLog;
use super::request::{Incoming, RequestHead};

/// In what is said, this becomes the delivery and the attempt that it answers: `dlv_…/2`.
pub(crate) const NONCE: &str = "@NONCE@";
/// The first byte of every TLS handshake.
const HANDSHAKE: u8 = 0x16;

#[derive(Clone)]
pub(crate) struct Conduct {
    pub(crate) door: Door,
    pub(crate) steps: Vec<Step>,
}

/// How a connection is entered.
#[derive(Clone)]
pub(crate) enum Door {
    /// Calls are neither taken nor refused.
    NeverOpens,
    Plain,
    /// TLS is expected; the steps see and say its bytes.
    RawTls,
    /// After a handshake of its own; the steps are spoken through TLS.
    Tls(Arc<ServerConfig>),
}

#[derive(Clone)]
pub(crate) enum Step {
    /// Reads the head of a request, and no more.
    ReadHead,
    /// Reads a whole request.
    ReadRequest,
    /// Waits for the first bytes of whatever comes.
    AwaitBytes,
    Say(Bytes),
    /// Says it unless something has come meanwhile: after that nobody could tell that it was no answer to it.
    SayUnasked(Bytes),
    /// Says it again and again, as fast as it is taken.
    Flood(Bytes),
    /// Says it again and again, a byte at a time.
    Drip(&'static [u8], Duration),
    Pause(Duration),
    /// Takes in whatever comes and says nothing, until the other side has had enough.
    Listen,
    /// Says nothing and reads nothing, until the other side has had enough.
    Ignore,
    /// Throws the connection away. Without it, it is closed after the last step.
    Reset,
    /// From the first step again, on the same connection.
    Again,
}

impl Conduct {
    pub(crate) fn plain(steps: impl Into<Vec<Step>>) -> Conduct {
        Conduct { door: Door::Plain, steps: steps.into() }
    }

    /// Reads a request, says this, and waits for the next one.
    pub(crate) fn says(text: impl Into<Bytes>) -> Conduct {
        Conduct::plain([Step::ReadRequest, Step::Say(text.into()), Step::Again])
    }

    /// Reads a request, says this, and closes.
    pub(crate) fn says_last(text: impl Into<Bytes>) -> Conduct {
        Conduct::plain([Step::ReadRequest, Step::Say(text.into())])
    }

    pub(crate) fn behind(self, door: Door) -> Conduct {
        Conduct { door, ..self }
    }

    pub(super) async fn play(&self, stream: TcpStream, log: &HostileLog) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut connection = Connection { wire: Box::new(stream), incoming: Incoming::default(), head: None };
        if let Door::RawTls | Door::Tls(_) = self.door {
            let mut first = [0];
            let peeked = connection.wire.tcp().peek(&mut first).await?;
            if peeked == 1 && first[0] != HANDSHAKE {
                log.in_the_clear.fetch_add(1, Relaxed);
            }
        }
        if let Door::Tls(config) = &self.door {
            let acceptor = TlsAcceptor::from(config.clone());
            connection.wire = Box::new(acceptor.accept(connection.wire).await?);
        }
        let mut at = 0;
        while let Some(step) = self.steps.get(at) {
            at += 1;
            match step {
                Step::Again => at = 0,
                Step::Reset => {
                    connection.wire.tcp().set_zero_linger()?;
                    return Ok(());
                }
                step => connection.take(step, log).await?,
            }
        }
        connection.wire.shutdown().await
    }
}

impl Door {
    pub(super) fn scheme(&self) -> &'static str {
        match self {
            Door::NeverOpens | Door::Plain => "http",
            Door::RawTls | Door::Tls(_) => "https",
        }
    }
}

struct Connection {
    wire: Box<dyn Wire>,
    incoming: Incoming,
    /// Of the request that was read last.
    head: Option<RequestHead>,
}

impl Connection {
    async fn take(&mut self, step: &Step, log: &HostileLog) -> io::Result<()> {
        match step {
            Step::ReadHead => self.read_head(log).await,
            Step::ReadRequest => {
                self.read_head(log).await?;
                let head = self.head.clone().unwrap_or_default();
                self.incoming.body(&mut self.wire, &head).await
            }
            Step::AwaitBytes => self.incoming.something(&mut self.wire).await,
            Step::Say(text) => {
                let text = self.with_nonce(text);
                self.wire.write_all(&text).await?;
                self.wire.flush().await
            }
            Step::SayUnasked(text) => {
                let waits = recv(self.wire.tcp(), &mut [0u8; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
                if waits == Err(Errno::AGAIN) {
                    self.wire.write_all(text).await?;
                }
                Ok(())
            }
            Step::Flood(text) => loop {
                self.wire.write_all(text).await?;
            },
            Step::Drip(text, every) => loop {
                for byte in *text {
                    self.wire.write_all(&[*byte]).await?;
                    self.wire.flush().await?;
                    sleep(*every).await;
                }
            },
            Step::Pause(pause) => {
                sleep(*pause).await;
                Ok(())
            }
            Step::Listen => {
                let mut sunk = [0; 4096];
                while self.wire.read(&mut sunk).await? > 0 {}
                Ok(())
            }
            Step::Ignore => {
                // The end of it shows as an error, or not at all: nothing is read.
                self.wire.tcp().ready(Interest::ERROR).await?;
                Ok(())
            }
            Step::Reset | Step::Again => Ok(()),
        }
    }

    async fn read_head(&mut self, log: &HostileLog) -> io::Result<()> {
        let head = self.incoming.head(&mut self.wire).await?;
        log.arrived(&head);
        self.head = Some(head);
        Ok(())
    }

    fn with_nonce(&self, text: &Bytes) -> Bytes {
        if !text.windows(NONCE.len()).any(|part| part == NONCE.as_bytes()) {
            return text.clone();
        }
        let head = self.head.clone().unwrap_or_default();
        let nonce = format!("{}/{}", head.delivery, head.attempt);
        // What is not text has no place for one.
        String::from_utf8_lossy(text).replace(NONCE, &nonce).into()
    }
}

/// A connection, with or without TLS.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {
    fn tcp(&self) -> &TcpStream;
}

impl Wire for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Wire for TlsStream<Box<dyn Wire>> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0.tcp()
    }
}
