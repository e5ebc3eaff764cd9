//! Chance: ids, secrets and jitter are drawn outside of the rules and handed in.

/// Draws. The binary has a cryptographic one, the simulator a seeded one.
pub trait Dice: Send + Sync {
    /// 128 even bits: enough for an id.
    fn bits(&self) -> u128;
    /// Fills a secret, a nonce or a key.
    fn fill(&self, bytes: &mut [u8]);
    /// A number in 0..1, for jitter.
    fn unit(&self) -> f64 {
        (self.bits() >> 75) as f64 / (1u64 << 53) as f64
    }
}
