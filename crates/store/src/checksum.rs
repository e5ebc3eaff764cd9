//! Whether a payload is still what was accepted.
//!
//! A CRC is made of it at the commit and kept with the event; the read of a payload that is to be sent asks. A disk that
//! turns a bit over, or a hand that changes the row, is found by it; forgery is not what it is against, and so
//! it costs next to nothing beside a commit.

pub(crate) fn of(payload: &[u8]) -> i32 {
    crc32fast::hash(payload).cast_signed()
}

/// Events that were committed before there were checksums have none, and are taken as they are.
pub(crate) fn fits(payload: &[u8], kept: Option<i32>) -> bool {
    kept.is_none_or(|kept| kept == of(payload))
}

/// Of a payload that is sealed. Turned over: whoever takes it for the checksum of a payload finds that it does not fit.
pub(crate) fn of_sealed(sealed: &[u8]) -> i32 {
    !of(sealed)
}

pub(crate) fn fits_sealed(sealed: &[u8], kept: Option<i32>) -> bool {
    kept.is_none_or(|kept| kept == of_sealed(sealed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_is_enough() {
        let payload: Vec<u8> = (0..2_000_u32).map(|n| (n * 7) as u8).collect();
        let kept = Some(of(&payload));
        assert!(fits(&payload, kept));
        for at in 0..payload.len() * 8 {
            let mut altered = payload.clone();
            altered[at / 8] ^= 1 << (at % 8);
            assert!(!fits(&altered, kept), "bit {at}");
        }
    }

    #[test]
    fn what_has_no_checksum_is_taken_as_it_is() {
        assert!(fits(b"{}", None));
    }
}
