//! A payload as the tables keep it: packed where that makes it smaller, with a checksum of what is kept.
//!
//! Nothing but its length says that a payload is packed: what is kept is shorter than what was accepted. So rows of
//! before need no mark, and a row takes no more room than its payload.
//!
//! A kilobyte of JSON takes 0.6 KB, for 5 to 7 µs at ingest, in the task of its request; PostgreSQL itself packs nothing as
//! small as that.

mod pieces;

pub use pieces::{KeptPayload, PayloadPieces, PayloadSize};

use crate::checksum;
use bytes::Bytes;
use domain::limits;
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// The quickest level that makes less of text in which nothing is repeated, as of ids and signatures: 1 KB of JSON
/// takes 0.6 KB, for 5 to 7 µs. Levels below 0 take half the time, and keep such a text as it is.
const LEVEL: i32 = 1;

thread_local! {
    static PACKER: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static UNPACKER: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// What is written of a payload, besides the payload itself.
#[derive(Debug)]
pub(crate) struct StoredPayload {
    packed: Option<Vec<u8>>,
    pub(crate) crc: i32,
}

impl StoredPayload {
    pub(crate) fn of(payload: &[u8]) -> Self {
        let packed = pack(payload);
        Self { crc: checksum::of(packed.as_deref().unwrap_or(payload)), packed }
    }

    /// With the payload it is of.
    pub(crate) fn bytes<'a>(&'a self, payload: &'a [u8]) -> &'a [u8] {
        self.packed.as_deref().unwrap_or(payload)
    }

    pub(crate) fn packed_bytes(&self) -> usize {
        self.packed.as_ref().map_or(0, Vec::len)
    }
}

/// The payload of `size` bytes that this was made of. None: it is not what was written.
pub(crate) fn read(stored: &[u8], size: usize, crc: Option<i32>) -> Option<Bytes> {
    if !checksum::fits(stored, crc) {
        return None;
    }
    match stored.len() == size {
        true => Some(Bytes::copy_from_slice(stored)),
        false => unpack(stored, size).map(Bytes::from),
    }
}

/// As much as can be made of it, for a person to look at.
pub(crate) fn shown(stored: &[u8], size: usize) -> Bytes {
    read(stored, size, None).unwrap_or_else(|| Bytes::copy_from_slice(stored))
}

/// None if it is not worth it.
pub(crate) fn pack(payload: &[u8]) -> Option<Vec<u8>> {
    if payload.len() < limits::PACKED_FROM_BYTES {
        return None;
    }
    let mut packed = PACKER.with_borrow_mut(|packer| {
        let packer = match packer {
            Some(packer) => packer,
            none => none.insert(Compressor::new(LEVEL).ok()?),
        };
        packer.compress(payload).ok()
    })?;
    // There was room for all of it; it may wait a while, and others with it.
    packed.shrink_to_fit();
    (packed.len() <= payload.len() / 8 * 7).then_some(packed)
}

/// Never more than `size` bytes, whatever it says of itself.
fn unpack(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    if packed.len() > size {
        return None;
    }
    let payload = UNPACKER.with_borrow_mut(|unpacker| {
        let unpacker = match unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(Decompressor::new().ok()?),
        };
        unpacker.decompress(packed, size).ok()
    })?;
    (payload.len() == size).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(payload: &[u8]) -> (Vec<u8>, Option<i32>) {
        let kept = StoredPayload::of(payload);
        (kept.bytes(payload).to_vec(), Some(kept.crc))
    }

    fn round(payload: &[u8]) -> usize {
        let (bytes, crc) = kept(payload);
        assert_eq!(read(&bytes, payload.len(), crc).as_deref(), Some(payload));
        assert_eq!(shown(&bytes, payload.len()), payload);
        bytes.len()
    }

    /// Nothing in it is repeated, and every byte comes up.
    pub(super) fn noise(size: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut byte = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..size).map(|_| byte()).collect()
    }

    #[test]
    fn what_is_kept_gives_the_payload_back_and_is_smaller_where_it_can_be() {
        for size in [0, 1, 100, 1_023] {
            assert_eq!(round(&vec![b'x'; size]), size, "too short to be worth it");
        }
        assert!(round(&[b'x'; 1_024]) < 50);
        let hex: String = noise(512).iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(round(hex.as_bytes()) < 650);
        for size in [1_024, 2_000, 100_000] {
            assert_eq!(round(&noise(size)), size, "noise stays as it is");
        }
        assert!(round(&vec![0; 1 << 20]) < 200);
    }

    #[test]
    fn one_bit_is_enough_packed_too() {
        let original = vec![b'x'; 1_024];
        let (bytes, crc) = kept(&original);
        for at in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[at / 8] ^= 1 << (at % 8);
            assert_eq!(read(&altered, original.len(), crc), None, "bit {at}");
            assert!(shown(&altered, original.len()).len() <= original.len(), "bit {at}");
        }
    }

    #[test]
    fn no_more_comes_out_than_was_put_in() {
        let (bytes, crc) = kept(&[b'x'; 100_000]);
        for other in [1, 99_999, 100_001] {
            assert_eq!(read(&bytes, other, crc), None);
        }
    }

    #[test]
    fn what_was_packed_at_another_level_or_is_shorter_than_what_is_packed_now_is_read() {
        for (level, size) in [(1, 256), (-3, 2_000), (9, 100_000)] {
            let payload = "0123456789abcdef".repeat(size / 16);
            let packed = zstd::bulk::compress(payload.as_bytes(), level).unwrap();
            let read = read(&packed, payload.len(), Some(checksum::of(&packed)));
            assert_eq!(read.as_deref(), Some(payload.as_bytes()), "level {level}");
        }
    }

    #[test]
    fn rows_of_before_are_taken_as_they_are() {
        assert_eq!(read(b"{}", 2, None).as_deref(), Some(&b"{}"[..]));
    }
}
