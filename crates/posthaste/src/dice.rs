//! Chance, from the operating system: ids, secrets and nonces must not be guessed.

use domain::dice::Dice;
use rand::Rng;

/// Each thread's own ChaCha generator, seeded by the kernel and reseeded as it goes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemDice;

impl Dice for SystemDice {
    fn bits(&self) -> u128 {
        rand::random()
    }

    fn fill(&self, bytes: &mut [u8]) {
        rand::rng().fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_is_another() {
        let (mut one, mut two) = ([0; 32], [0; 32]);
        SystemDice.fill(&mut one);
        SystemDice.fill(&mut two);
        assert_ne!(one, two);
        assert_ne!(SystemDice.bits(), SystemDice.bits());
        assert!((0.0..1.0).contains(&SystemDice.unit()));
    }
}
