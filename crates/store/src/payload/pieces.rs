//! A payload for somebody who downloads it: held as it is kept, and unpacked a piece at a time. Of text that is a fraction of
//! its size, however slowly it is read.
//!
//! The checksum is of what is kept, so it is asked before the first piece is given.

use super::{read, unpack};
use crate::{StoreError, checksum, sealed_event};
use bytes::Bytes;
use domain::{
    id::EventId,
    limits,
    seal::{DataKey, SealError, Sealed},
};
use std::io::{Cursor, Read as _};
use zstd::stream::read::Decoder;

/// How far zstd looks back at the level that payloads are packed with, as a power of two. More is not granted.
const WINDOW_LOG: u32 = 19;

/// How large a payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadSize {
    /// As it was accepted.
    pub accepted: usize,
    /// As it is kept.
    pub kept: usize,
}

impl PayloadSize {
    /// What it takes to hold it and to read it.
    pub fn memory(&self) -> usize {
        match self.kept == self.accepted {
            true => self.kept,
            false => self.kept + self.accepted.min(limits::UNPACKING_BYTES),
        }
    }
}

/// A payload as it is kept, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptPayload {
    pub content_type: String,
    /// As it was accepted.
    pub size: usize,
    kept: Bytes,
    /// Whose it is and the mark of it, as long as it is sealed.
    sealed: Option<(EventId, Sealed)>,
}

impl KeptPayload {
    /// [`StoreError::Altered`] if this is not what was written.
    pub(crate) fn new(
        (id, sealed): (EventId, Option<Sealed>),
        content_type: String,
        size: usize,
        kept: Bytes,
        crc: Option<i32>,
    ) -> Result<Self, StoreError> {
        let fits = match &sealed {
            None => checksum::fits(&kept, crc),
            Some(_) => checksum::fits_sealed(&kept, crc),
        };
        let sealed = sealed.map(|sealed| (id, sealed));
        if fits { Ok(Self { content_type, size, kept, sealed }) } else { Err(StoreError::Altered) }
    }

    /// Names the data key that opens it; None if it is open.
    pub fn seal(&self) -> Option<&Sealed> {
        self.sealed.as_ref().map(|(_, sealed)| sealed)
    }

    /// Whole, as it is kept: it is packed still.
    pub fn open(self, key: &DataKey) -> Result<Self, SealError> {
        let Some((id, _)) = self.sealed else { return Ok(self) };
        let kept = sealed_event::open_payload(id, key, self.kept)?;
        Ok(Self { kept, sealed: None, content_type: self.content_type, size: self.size })
    }

    /// All of it at once, for what is short.
    pub fn whole(&self) -> Result<Bytes, StoreError> {
        self.must_be_open()?;
        read(&self.kept, self.size, None).ok_or(StoreError::Altered)
    }

    /// Byte for byte as it was accepted, in order.
    pub fn pieces(self) -> Result<PayloadPieces, StoreError> {
        self.must_be_open()?;
        let Self { size, kept, .. } = self;
        if kept.len() == size {
            return Ok(PayloadPieces { source: PieceSource::Plain(kept), left: size });
        }
        if size <= limits::UNPACKING_BYTES {
            let whole = unpack(&kept, size).ok_or(StoreError::Altered)?;
            return Ok(PayloadPieces { source: PieceSource::Plain(whole.into()), left: size });
        }
        let mut unpacker = Decoder::with_buffer(Cursor::new(kept)).map_err(|_| StoreError::Altered)?;
        unpacker.window_log_max(WINDOW_LOG).map_err(|_| StoreError::Altered)?;
        Ok(PayloadPieces { source: PieceSource::Packed(Box::new(unpacker)), left: size })
    }
}

impl KeptPayload {
    fn must_be_open(&self) -> Result<(), StoreError> {
        match self.sealed {
            None => Ok(()),
            Some(_) => Err(StoreError::Unreadable("the payload is sealed".into())),
        }
    }
}

/// The pieces of a payload. An error is the last of them: what came before is not all there is.
pub struct PayloadPieces {
    source: PieceSource,
    /// Bytes to come.
    left: usize,
}

enum PieceSource {
    Plain(Bytes),
    Packed(Box<Decoder<'static, Cursor<Bytes>>>),
}

impl PayloadPieces {
    pub fn left(&self) -> usize {
        self.left
    }
}

impl Iterator for PayloadPieces {
    type Item = Result<Bytes, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let size = self.left.min(limits::PAYLOAD_PIECE_BYTES);
        if size == 0 {
            return None;
        }
        let piece = match &mut self.source {
            PieceSource::Plain(rest) => rest.split_to(size),
            PieceSource::Packed(unpacker) => {
                let mut piece = vec![0; size];
                if unpacker.read_exact(&mut piece).is_err() {
                    self.left = 0;
                    return Some(Err(StoreError::Altered));
                }
                piece.into()
            }
        };
        self.left -= size;
        Some(Ok(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{StoredPayload, tests::noise};

    fn kept(payload: &[u8]) -> KeptPayload {
        let stored = StoredPayload::of(payload);
        let bytes = Bytes::copy_from_slice(stored.bytes(payload));
        KeptPayload::new((EventId::MIN, None), "text/plain".into(), payload.len(), bytes, Some(stored.crc))
            .expect("whole")
    }

    /// Packs, and looks far back.
    fn text(size: usize) -> Vec<u8> {
        let lines = (0_u64..).map(|n| format!("{:x};", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 100_003));
        lines.flat_map(String::into_bytes).take(size).collect()
    }

    #[test]
    fn pieces_make_up_the_payload() {
        for size in [0, 1, 1_000, limits::PAYLOAD_PIECE_BYTES, limits::UNPACKING_BYTES, 5_000_001] {
            for payload in [vec![b'x'; size], text(size), noise(size)] {
                let mut together = Vec::new();
                let pieces = kept(&payload).pieces().expect("pieces");
                assert_eq!(pieces.left(), size);
                for piece in pieces {
                    let piece = piece.expect("a piece");
                    assert!(piece.len() <= limits::PAYLOAD_PIECE_BYTES);
                    together.extend_from_slice(&piece);
                }
                assert!(together == payload, "{size} bytes");
            }
        }
    }

    #[test]
    fn what_packs_well_takes_little_memory() {
        let size = |payload: &[u8]| {
            let (kept, accepted) = (kept(payload).kept.len(), payload.len());
            PayloadSize { accepted, kept }.memory()
        };
        assert!(size(&vec![b'x'; 5_000_000]) < 1_100_000);
        assert_eq!(size(&noise(5_000_000)), 5_000_000);
        assert_eq!(size(&noise(1_000)), 1_000);
    }

    #[test]
    fn what_breaks_off_says_so() {
        let whole = kept(&text(3_000_000));
        let cut = KeptPayload { kept: whole.kept.slice(..whole.kept.len() / 2), ..whole };
        let pieces: Vec<_> = cut.pieces().expect("pieces").collect();
        assert!(pieces.len() < 3_000_000 / limits::PAYLOAD_PIECE_BYTES);
        assert!(matches!(pieces.last(), Some(Err(StoreError::Altered))));
    }
}
