//! What is held against what happened: the promises of the product, by the names and sentences that judge and checks use.

use lab::promises::PROMISES;
use std::fmt;

listed_enum! {
    /// In the order of their numbers, I1 to I16.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Promise {
        StoredWhole,
        EverythingEnds,
        EndsOnce,
        DeliveredMeansAnswered,
        DeadMeansTried,
        WithinLimits,
        InOrder,
        DoubledOnlyByFaults,
        OnlyTheOwnerSends,
        FormerOwnersMoveNothing,
        NotBeforeItsTime,
        EveryAttemptOnRecord,
        OneKeyOneEvent,
        ForgetsOnlyWhatHasEnded,
        TroubleStaysWhereItIs,
        AccountsApart,
    }
}

impl Promise {
    /// `I1` to `I16`.
    pub fn number(self) -> String {
        format!("I{}", PROMISES[self as usize].number)
    }

    pub fn name(self) -> &'static str {
        PROMISES[self as usize].name
    }

    pub fn sentence(self) -> &'static str {
        PROMISES[self as usize].sentence
    }
}

/// The sentence, with the number beside it.
impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.sentence().trim_end_matches('.'), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_has_the_name_it_has_everywhere() {
        assert_eq!(Promise::ALL.len(), PROMISES.len());
        for promise in Promise::ALL {
            let letters = |text: &str| text.replace([' ', ','], "").to_lowercase();
            assert_eq!(letters(&format!("{promise:?}")), letters(promise.name()));
        }
    }
}
