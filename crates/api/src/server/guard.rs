//! Stands between a socket and hyper: no byte of a request passes before its head is whole and was judged.
//!
//! So hyper never sees a head that it would refuse without a word, or take although it should not, and of requests that
//! come together it sees one at a time. Usually a head comes whole, in one piece, straight into hyper's buffer; only
//! one in pieces is copied.

use super::head::{self, Framing, HeadFault};
use bytes::{Buf, BytesMut};
use memchr::memchr;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, ReadBuf},
    net::TcpStream,
};

/// What is read at once of a head that comes in pieces.
const PIECE_BYTES: usize = 2 * 1024;

/// What has been read of a connection, and what comes next on it.
#[derive(Default)]
pub(super) struct RequestGuard {
    next: NextBytes,
    /// Read from the socket and not passed yet.
    held: BytesMut,
    fault: Option<HeadFault>,
}

/// What the next bytes are part of.
#[derive(Debug, Clone, Copy)]
enum NextBytes {
    Head {
        /// How far it has been looked at.
        scanned: usize,
    },
    /// So many bytes that belong to a request whose head was judged, and then its chunks or the next head.
    Judged {
        left: u64,
        chunked: bool,
    },
    Chunks(ChunkPart),
    /// Chunks that are none. hyper reads the same, says so and ends; should it not, it has a request whose head was never
    /// judged.
    Unknown,
}

impl Default for NextBytes {
    fn default() -> Self {
        Self::Head { scanned: 0 }
    }
}

/// What a read came to.
pub(super) struct Passed {
    /// Something was read from the socket.
    pub(super) heard: bool,
    /// A head was judged, and may be answered.
    pub(super) head: bool,
}

impl RequestGuard {
    /// Reads as [`AsyncRead`] does; for a head that is refused nothing comes any more, as if the client had closed.
    pub(super) fn poll_read(
        &mut self,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> (Passed, Poll<io::Result<()>>) {
        let mut passed = Passed { heard: false, head: false };
        let read = self.read(stream, cx, buffer, &mut passed);
        (passed, read)
    }

    fn read(
        &mut self,
        stream: &mut TcpStream,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
        passed: &mut Passed,
    ) -> Poll<io::Result<()>> {
        while self.fault.is_none() && buffer.remaining() > 0 {
            if self.held.is_empty() {
                let before = buffer.filled().len();
                ready!(Pin::new(&mut *stream).poll_read(cx, buffer))?;
                let came = &buffer.filled()[before..];
                passed.heard |= !came.is_empty();
                let count = self.admit(came, came.len(), passed);
                self.held.extend_from_slice(&came[count..]);
                let at_end = came.is_empty();
                buffer.set_filled(before + count);
                if count > 0 || at_end {
                    break;
                }
            } else {
                // The next request, which may have begun while the one before was answered.
                passed.heard = true;
                let held = std::mem::take(&mut self.held);
                let count = self.admit(&held, buffer.remaining(), passed);
                self.held = held;
                if count > 0 {
                    buffer.put_slice(&self.held[..count]);
                    self.held.advance(count);
                    if self.held.is_empty() {
                        self.held = BytesMut::new();
                    }
                    break;
                }
                if self.fault.is_none() {
                    let mut piece = [0; PIECE_BYTES];
                    let mut piece = ReadBuf::new(&mut piece);
                    ready!(Pin::new(&mut *stream).poll_read(cx, &mut piece))?;
                    if piece.filled().is_empty() {
                        break;
                    }
                    self.held.extend_from_slice(piece.filled());
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// How many of these bytes may pass, at most `room` and not beyond the end of a request. None may of a head that is
    /// not whole, or that is refused.
    fn admit(&mut self, bytes: &[u8], room: usize, passed: &mut Passed) -> usize {
        let room = room.min(bytes.len());
        let mut count = 0;
        while count < room {
            let rest = &bytes[count..room];
            self.next = match self.next {
                NextBytes::Head { .. } if count > 0 => break,
                NextBytes::Head { mut scanned } => match judged(bytes, &mut scanned) {
                    Ok(None) => {
                        self.next = NextBytes::Head { scanned };
                        break;
                    }
                    Ok(Some(next)) => {
                        passed.head = true;
                        next
                    }
                    Err(fault) => {
                        self.fault = Some(fault);
                        break;
                    }
                },
                NextBytes::Judged { left: 0, chunked: false } => NextBytes::default(),
                NextBytes::Judged { left: 0, chunked: true } => NextBytes::Chunks(ChunkPart::FIRST),
                NextBytes::Judged { left, chunked } => {
                    let taken = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    count += taken;
                    NextBytes::Judged { left: left - taken as u64, chunked }
                }
                NextBytes::Chunks(ChunkPart::Over) => NextBytes::default(),
                NextBytes::Chunks(part) => {
                    let (taken, part) = part.after(rest);
                    count += taken;
                    part.map_or(NextBytes::Unknown, NextBytes::Chunks)
                }
                NextBytes::Unknown => {
                    count = room;
                    NextBytes::Unknown
                }
            };
        }
        count
    }

    /// Why nothing comes any more.
    pub(super) fn fault(&self) -> Option<HeadFault> {
        self.fault
    }

    /// Whether the client has more to say of the request it has begun.
    pub(super) fn is_midway(&self) -> bool {
        !matches!(
            self.next,
            NextBytes::Head { .. }
                | NextBytes::Judged { left: 0, chunked: false }
                | NextBytes::Chunks(ChunkPart::Over)
        )
    }

    /// Whether it has said, or is about to say, what nobody reads.
    pub(super) fn is_unread(&self) -> bool {
        self.is_midway() || !self.held.is_empty()
    }
}

/// What comes after the head that these bytes begin with, if it is whole.
fn judged(bytes: &[u8], scanned: &mut usize) -> Result<Option<NextBytes>, HeadFault> {
    let Some(end) = head::end(bytes, scanned)? else { return Ok(None) };
    Ok(Some(match head::judge(&bytes[..end])? {
        Framing::Sized(length) => {
            NextBytes::Judged { left: length.saturating_add(end as u64), chunked: false }
        }
        Framing::Chunked => NextBytes::Judged { left: end as u64, chunked: true },
    }))
}

/// What the next byte of a chunked body is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkPart {
    Size {
        size: u64,
        digits: u8,
    },
    Extension {
        size: u64,
    },
    SizeLineFeed {
        size: u64,
    },
    /// With the two bytes of the line end that follows.
    Data {
        left: u64,
    },
    TrailerStart,
    Trailer,
    LastLineFeed,
    Over,
}

impl ChunkPart {
    const FIRST: Self = Self::Size { size: 0, digits: 0 };
    /// Of a size: sixteen would be more than any body has.
    const DIGITS: u8 = 15;

    /// What follows these bytes, or as many of them as are of one part; None if they cannot be what they should.
    fn after(self, bytes: &[u8]) -> (usize, Option<Self>) {
        let first = bytes[0];
        match self {
            Self::Data { left } => {
                let taken = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - taken as u64;
                (taken, Some(if left == 0 { Self::FIRST } else { Self::Data { left } }))
            }
            Self::Trailer => match memchr(b'\n', bytes) {
                Some(end) => (end + 1, Some(Self::TrailerStart)),
                None => (bytes.len(), Some(self)),
            },
            _ => (1, self.after_one(first)),
        }
    }

    fn after_one(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Size { size, digits }, byte) if byte.is_ascii_hexdigit() => {
                let digit = (byte as char).to_digit(16).map(u64::from)?;
                (digits < Self::DIGITS).then_some(Self::Size { size: size * 16 + digit, digits: digits + 1 })
            }
            (Self::Size { digits: 0, .. }, _) => None,
            (Self::Size { size, .. } | Self::Extension { size }, b'\r') => Some(Self::SizeLineFeed { size }),
            (Self::Size { size, .. }, b';' | b' ' | b'\t') => Some(Self::Extension { size }),
            (Self::Extension { .. }, b'\n') => None,
            (Self::Extension { .. }, _) => Some(self),
            (Self::SizeLineFeed { size: 0 }, b'\n') => Some(Self::TrailerStart),
            (Self::SizeLineFeed { size }, b'\n') => Some(Self::Data { left: size + 2 }),
            (Self::TrailerStart, b'\r') => Some(Self::LastLineFeed),
            (Self::TrailerStart, _) => Some(Self::Trailer),
            (Self::LastLineFeed, b'\n') => Some(Self::Over),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What passes of these bytes, in pieces of so many and with so much room for each.
    fn pieces(bytes: &[u8], step: usize, room: usize) -> (Vec<Vec<u8>>, Option<HeadFault>) {
        let (mut guard, mut all) = (RequestGuard::default(), Vec::new());
        for piece in bytes.chunks(step) {
            guard.held.extend_from_slice(piece);
            loop {
                let mut passed = Passed { heard: false, head: false };
                let held = guard.held.clone();
                let count = guard.admit(&held, room, &mut passed);
                if passed.head {
                    all.push(Vec::new());
                }
                if count == 0 {
                    break;
                }
                all.last_mut().expect("nothing passes before a head").extend_from_slice(&held[..count]);
                guard.held.advance(count);
            }
        }
        (all, guard.fault())
    }

    #[test]
    fn requests_are_told_apart_in_whatever_pieces_they_come() {
        let requests = [
            "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello",
            "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nA;x=\"\"\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
            "\r\nGET /last HTTP/1.1\r\nhost: x\r\n\r\n",
        ];
        let whole: Vec<Vec<u8>> = requests.iter().map(|request| request.as_bytes().to_vec()).collect();
        for step in 1..64 {
            for room in [1, 7, 1_000] {
                assert_eq!(pieces(&whole.concat(), step, room), (whole.clone(), None), "{step} {room}");
            }
        }
    }

    #[test]
    fn nothing_passes_of_a_head_that_is_refused_nor_after_it() {
        let good = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        let bad = "GET / HTTP/1.1\r\nhost: x\r\nhost: x\r\n\r\n";
        for step in 1..64 {
            let (passed, fault) = pieces([good, bad, good].concat().as_bytes(), step, 1_000);
            assert_eq!(passed, [good.as_bytes()], "{step}");
            assert!(matches!(fault, Some(HeadFault::Malformed(_))));
        }
    }

    #[test]
    fn chunks_that_are_none_are_left_to_hyper() {
        let head = "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        for chunks in ["zz\r\n", "\r\n", "5\nhello", "0000000000000005\r\nhello", "5;\n", "0\r\n\rx"] {
            let sent = [head, chunks, head].concat();
            assert_eq!(pieces(sent.as_bytes(), 1_000, 1_000).0, [sent.as_bytes()], "{chunks:?}");
        }
    }
}
