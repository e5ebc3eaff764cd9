//! Which events have come to a destination, in a bit each: whether one was lost or doubled can be told at full speed.

/// Events with a higher number are not looked at: two mebibytes a destination.
const MAX_EVENTS: u64 = 1 << 24;

#[derive(Debug, Default)]
pub(crate) struct Seen {
    bits: Vec<u64>,
    distinct: u64,
    again: u64,
}

impl Seen {
    pub(crate) fn add(&mut self, n: u64) {
        if n >= MAX_EVENTS {
            return;
        }
        let (word, bit) = (n as usize / 64, 1 << (n % 64));
        if word >= self.bits.len() {
            self.bits.resize(word + 1, 0);
        }
        if self.bits[word] & bit == 0 {
            self.bits[word] |= bit;
            self.distinct += 1;
        } else {
            self.again += 1;
        }
    }

    pub(crate) fn has(&self, n: u64) -> bool {
        self.bits.get(n as usize / 64).is_some_and(|word| word & (1 << (n % 64)) != 0)
    }

    pub(crate) fn distinct(&self) -> u64 {
        self.distinct
    }

    pub(crate) fn again(&self) -> u64 {
        self.again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_twice_is_told_from_what_comes_once() {
        let mut seen = Seen::default();
        for n in [0, 63, 64, 1_000, 64, MAX_EVENTS, u64::MAX] {
            seen.add(n);
        }
        assert_eq!((seen.distinct(), seen.again()), (4, 1));
        assert_eq!([0, 1, 64, 1_000, MAX_EVENTS].map(|n| seen.has(n)), [true, false, true, true, false]);
    }
}
