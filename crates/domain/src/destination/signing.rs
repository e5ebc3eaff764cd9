//! How requests to a destination are signed, and what with.
//!
//! The scheme says which signature is made with the secret. An Ed25519 signature comes beside it, or alone if the scheme is
//! none: in `webhook-signature` in either case.

use crate::{
    seal::Sealed,
    signature::{SigningSecret, text::TextSecret},
    time::Timestamp,
    word::words,
};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Signing {
    pub scheme: Scheme,
    pub ed25519: bool,
    /// The headers of Standard Webhooks once more, by the names that Svix has for them.
    pub svix_headers: bool,
    /// Where a signature of `stripe` or `github` is; None: where their own libraries look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
}

words! {
    "a scheme to sign by",
    #[derive(Default)]
    Scheme {
        #[default]
        Standard = "standard",
        Stripe = "stripe",
        Github = "github",
        None = "none",
    }
}

impl Scheme {
    /// The header of its own that a scheme has, unless a destination says another.
    pub fn own_header(self) -> Option<&'static str> {
        match self {
            Self::Stripe => Some("stripe-signature"),
            Self::Github => Some("x-hub-signature-256"),
            Self::Standard | Self::None => None,
        }
    }

    /// Whether a text can be a secret of this scheme; if not, what one looks like. Where nothing is signed with it, it has to
    /// be fit for the standard one: that is what it may be used for next.
    pub fn check_secret(self, text: &str) -> Result<(), String> {
        match self {
            Self::Standard | Self::None => {
                text.parse::<SigningSecret>().map(drop).map_err(|error| error.to_string())
            }
            Self::Stripe | Self::Github => TextSecret::new(text).map(drop).map_err(|error| error.to_string()),
        }
    }
}

impl Signing {
    /// The header of its scheme's own.
    pub fn own_header(&self) -> Option<&str> {
        let usual = self.scheme.own_header()?;
        Some(self.header.as_deref().unwrap_or(usual))
    }

    /// Whether there is a `webhook-signature`.
    pub fn has_standard_signature(&self) -> bool {
        self.scheme == Scheme::Standard || self.ed25519
    }
}

/// Where the signature by the new secret is while the old one has the header of a scheme that has room for one only.
pub fn header_of_new(header: &str) -> String {
    format!("{header}-new")
}

/// The signing secret, sealed; during rotation the old one signs beside it. So with the key pair.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Secrets {
    pub current: Sealed,
    pub previous: Option<Previous>,
    /// Made when Ed25519 signatures are asked for the first time, and kept when they are switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_pair: Option<KeptKeyPair>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_key_pair: Option<PreviousKeyPair>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Previous {
    pub secret: Sealed,
    pub until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptKeyPair {
    pub private: Sealed,
    /// `whpk_…`, which anybody may know.
    pub public: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PreviousKeyPair {
    #[serde(flatten)]
    pub pair: KeptKeyPair,
    pub until: Timestamp,
}

impl Secrets {
    /// Everything of it that is sealed: secrets, and private keys of pairs.
    pub(super) fn sealed_mut(&mut self) -> (Vec<&mut Sealed>, Vec<&mut Sealed>) {
        let Self { current, previous, key_pair, previous_key_pair } = self;
        let previous = previous.as_mut().map(|Previous { secret, until: _ }| secret);
        let pair = key_pair.as_mut();
        let previous_pair = previous_key_pair.as_mut().map(|PreviousKeyPair { pair, until: _ }| pair);
        let pairs = pair.into_iter().chain(previous_pair);
        (
            [current].into_iter().chain(previous).collect(),
            pairs.map(|KeptKeyPair { private, public: _ }| private).collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_fits_its_scheme() {
        let (ours, theirs) = ("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "a-secret-of-old-times");
        for scheme in Scheme::ALL {
            assert_eq!(scheme.check_secret(ours), Ok(()), "{scheme}");
            assert_eq!(scheme.check_secret(theirs).is_ok(), scheme.own_header().is_some(), "{scheme}");
            assert!(scheme.check_secret("short").is_err(), "{scheme}");
        }
    }

    #[test]
    fn a_scheme_of_others_has_a_header_of_its_own() {
        let signing = |scheme, header: Option<&str>| Signing {
            scheme,
            header: header.map(str::to_owned),
            ..Signing::default()
        };
        assert_eq!(signing(Scheme::Stripe, None).own_header(), Some("stripe-signature"));
        assert_eq!(signing(Scheme::Stripe, Some("acme-signature")).own_header(), Some("acme-signature"));
        assert_eq!(signing(Scheme::Standard, Some("acme-signature")).own_header(), None);
        assert!(!signing(Scheme::None, None).has_standard_signature());
        assert!(Signing { ed25519: true, ..signing(Scheme::None, None) }.has_standard_signature());
    }
}
