//! Which events a page of routes may take, by their type alone: sure where it says no.
//!
//! Most routes name the types they want, so an event of an account with a hundred thousand of them need not be held against each:
//! a page that names its type nowhere, and has no pattern with a star, is passed over. Of other types one in forty at most is not
//! told apart, and then the routes themselves say no.

use super::Route;
use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

/// Bits for each type that is named: fewer tell less apart, more take more room and time to make.
const BITS_A_TYPE: usize = 12;

/// An event type, as sieves know it.
#[derive(Debug, Clone, Copy)]
pub(super) struct TypeMark(u64);

impl TypeMark {
    pub(super) fn of(event_type: &str) -> Self {
        // Its keys are fixed: the same type has the same mark everywhere.
        let mut hasher = DefaultHasher::new();
        hasher.write(event_type.as_bytes());
        Self(hasher.finish())
    }

    /// Two places of so many, which are a power of two.
    fn places(self, bits: usize) -> [usize; 2] {
        [self.0, self.0.rotate_left(32)].map(|hash| hash as usize & (bits - 1))
    }
}

#[derive(Debug, Clone)]
pub(super) struct TypeSieve {
    /// Some pattern has a star.
    takes_any: bool,
    words: Box<[u64]>,
}

impl TypeSieve {
    pub(super) fn of(routes: &[Arc<Route>]) -> Self {
        let patterns = || routes.iter().flat_map(|route| &route.event_types);
        if patterns().any(|pattern| pattern.exact().is_none()) {
            return Self { takes_any: true, words: Box::default() };
        }
        let bits = (patterns().count() * BITS_A_TYPE).next_power_of_two().max(64);
        let mut words = vec![0_u64; bits / 64].into_boxed_slice();
        for place in
            patterns().filter_map(|pattern| pattern.exact()).flat_map(|name| TypeMark::of(name).places(bits))
        {
            words[place / 64] |= 1 << (place % 64);
        }
        Self { takes_any: false, words }
    }

    pub(super) fn may_take(&self, mark: TypeMark) -> bool {
        let bits = self.words.len() * 64;
        self.takes_any
            || mark.places(bits).into_iter().all(|place| self.words[place / 64] >> (place % 64) & 1 == 1)
    }
}
