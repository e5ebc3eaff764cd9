//! Small bodies that are huge once they are unpacked, written by hand: no program is needed to make them, and none that
//! takes a gigabyte to try.

/// Gzip: after one zero, copies of 258 bytes from one byte before, thirteen bits each. 1 MiB of it are 160 MiB.
pub(crate) fn gzip(size: usize) -> Vec<u8> {
    const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut bits = Bits::default();
    // Not the last block, fixed codes, the literal 0.
    bits.push(0, 1);
    bits.push(1, 2);
    bits.push_code(0b0011_0000, 8);
    let mut bytes = HEADER.to_vec();
    while bytes.len() + bits.bytes.len() < size {
        // Length 258, distance 1.
        bits.push_code(0b1100_0101, 8);
        bits.push_code(0, 5);
    }
    bytes.append(&mut bits.bytes);
    bytes.truncate(size);
    bytes
}

/// Zstandard: blocks of 128 KiB that are one byte repeated, four bytes each. 16 KiB of it are 512 MiB.
pub(crate) fn zstd(size: usize) -> Vec<u8> {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    const NO_SIZE: u8 = 0;
    const WINDOW_OF_128_KIB: u8 = 7 << 3;
    const REPEATED: u32 = 1 << 1;
    const BLOCK: u32 = 128 * 1024;
    let mut bytes = [&MAGIC[..], &[NO_SIZE, WINDOW_OF_128_KIB]].concat();
    let header = (REPEATED | BLOCK << 3).to_le_bytes();
    while bytes.len() + 4 <= size {
        bytes.extend_from_slice(&[header[0], header[1], header[2], 0]);
    }
    bytes
}

/// Bits as deflate has them: the lowest of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn push(&mut self, value: u32, count: u32) {
        for at in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = (value >> at & 1) as u8;
            let last = self.bytes.len() - 1;
            self.bytes[last] |= bit << (self.used % 8);
            self.used += 1;
        }
    }

    /// A code is written from its highest bit on.
    fn push_code(&mut self, code: u32, count: u32) {
        for at in (0..count).rev() {
            self.push(code >> at & 1, 1);
        }
    }
}
