//! Words: enums that are stored, shown and read as one word each. An enum's words stand in one list, from which
//! everything that names them is made: JSON, the databases, the API's own description.

/// A word that is none of an enum's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} is one of {}", known.join(", "))]
pub struct UnknownWord {
    pub what: &'static str,
    pub known: &'static [&'static str],
}

/// Defines an enum by its words: `"an outcome", Outcome { Success = "success", … }`.
macro_rules! words {
    ($what:literal, $(#[$about:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$each])* #[serde(rename = $word)] $variant,)+ }

        impl $name {
            /// In the order in which they are declared.
            pub const ALL: [Self; Self::WORDS.len()] = [$(Self::$variant),+];
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::word::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::word::UnknownWord { what: $what, known: Self::WORDS }),
                }
            }
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    use crate::{
        account::{KeyKind, Scope},
        audit::ActorKind,
        delivery::{CancelReason, Status},
        delivery_settings::SettingLevel,
        destination::{DisabledReason, Format, OnDeadLetter, Ordering, Scheme},
        gate::HoldReason,
        lane::WaitKind,
        member::Role,
        operations::OperationalKind,
        outcome::{DeadReason, FailureKind, Outcome},
        portal_link::PortalLinkStatus,
        replay::ReplayStatus,
        verification::{Encoding, HmacAlgorithm, RefusalReason, VerificationKind},
    };

    macro_rules! check {
        ($($name:ident)+) => {$(
            let words = $name::ALL.map($name::as_str);
            assert_eq!(words, $name::WORDS);
            assert_eq!(serde_json::to_value($name::ALL).unwrap(), serde_json::to_value(words).unwrap());
            for one in $name::ALL {
                assert_eq!(one.to_string().parse(), Ok(one));
                assert!(one.as_str().to_uppercase().parse::<$name>().is_err(), "words are in lower case");
                assert_eq!(serde_json::from_value::<$name>(one.as_str().into()).unwrap(), one);
            }
            let error = "no such word".parse::<$name>().unwrap_err();
            assert!(error.to_string().ends_with(&words.join(", ")), "{error}");
        )+};
    }

    #[test]
    fn a_word_is_the_same_in_json_in_text_and_in_the_list() {
        check!(ActorKind CancelReason DeadReason DisabledReason FailureKind HoldReason KeyKind OnDeadLetter Ordering Outcome);
        check!(OperationalKind PortalLinkStatus ReplayStatus Role Scheme Scope SettingLevel Status WaitKind);
        check!(Encoding Format HmacAlgorithm RefusalReason VerificationKind);
    }
}
