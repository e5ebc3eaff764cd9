//! Chance, from a seed.

/// SplitMix64: small, even, and the same everywhere.
#[derive(Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Milliseconds something takes: mostly nothing, sometimes long.
    pub(super) fn delay(&mut self) -> u64 {
        match self.below(20) {
            0 => self.below(3_000),
            1..=5 => self.below(300),
            _ => self.below(10),
        }
    }
}
