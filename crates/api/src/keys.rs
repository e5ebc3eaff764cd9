//! The text of API keys: `phk_` + 12 characters to look it up by + `_` + 32 of secret + 6 of checksum, all base62.
//!
//! The prefix is for secret scanners, the checksum turns typos and fakes away without a lookup, and the secret holds
//! 190 bits.

mod in_url;

pub(crate) use in_url::is_key_in_url;

use crate::installation_secrets::InstallationSecrets;
use domain::{
    account::{ApiKey, KeyKind, Scope},
    dice::Dice,
    id::{AccountId, ApiKeyId},
    time::Timestamp,
};
use std::fmt;
use zeroize::Zeroizing;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const PREFIX_LENGTH: usize = 4;
pub const LOOKUP_LENGTH: usize = 12;
const SECRET_LENGTH: usize = 32;
const CHECKSUM_LENGTH: usize = 6;
const LENGTH: usize = PREFIX_LENGTH + LOOKUP_LENGTH + 1 + SECRET_LENGTH + CHECKSUM_LENGTH;

/// A whole key, to be shown once.
#[derive(Clone)]
pub struct KeyText(Zeroizing<String>);

impl KeyText {
    pub fn generate(kind: KeyKind, dice: &dyn Dice) -> Self {
        let mut text = Zeroizing::new(String::with_capacity(LENGTH));
        text.push_str(prefix(kind));
        draw(&mut text, LOOKUP_LENGTH, dice);
        text.push('_');
        draw(&mut text, SECRET_LENGTH, dice);
        let checksum = checksum(&text);
        text.push_str(std::str::from_utf8(&checksum).expect("base62 is ASCII"));
        Self(text)
    }

    /// Nothing if it is not a well-formed key, checksum included.
    pub fn parse(text: &str) -> Option<Self> {
        PresentedKey::parse(text).map(|_| Self(Zeroizing::new(text.to_owned())))
    }

    pub fn parts(&self) -> PresentedKey<'_> {
        PresentedKey::parse(&self.0).expect("checked when it was made")
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    /// As it is kept, with every scope of its kind.
    pub fn kept(
        &self,
        id: ApiKeyId,
        account_id: Option<AccountId>,
        name: &str,
        secrets: &InstallationSecrets,
        now: Timestamp,
    ) -> ApiKey {
        let PresentedKey { kind, secret, .. } = self.parts();
        ApiKey {
            id,
            account_id,
            name: name.into(),
            kind,
            lookup: self.parts().lookup().into(),
            hash: secrets.hash(secret.as_bytes()).to_vec(),
            scopes: match kind {
                KeyKind::Account => Scope::OF_ACCOUNT.to_vec(),
                KeyKind::Ingest => vec![Scope::IngestWrite],
                KeyKind::Operator => Vec::new(),
                KeyKind::Platform => Scope::ALL.to_vec(),
            },
            source_id: None,
            rate_limit: None,
            expires_at: None,
            allowed_addresses: Vec::new(),
            last_used_at: None,
            revoked_at: None,
            created_at: now,
        }
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.parts(), f)
    }
}

/// A well-formed key, in its parts.
#[derive(Clone, Copy)]
pub struct PresentedKey<'a> {
    pub kind: KeyKind,
    pub lookup: &'a [u8; LOOKUP_LENGTH],
    pub secret: &'a str,
}

impl<'a> PresentedKey<'a> {
    pub fn parse(text: &'a str) -> Option<Self> {
        let well_formed =
            text.len() == LENGTH && text.bytes().all(|byte| byte == b'_' || ALPHABET.contains(&byte));
        if !well_formed {
            return None;
        }
        let kind = KINDS.into_iter().find(|kind| text.starts_with(prefix(*kind)))?;
        let (body, presented) = text.split_at(LENGTH - CHECKSUM_LENGTH);
        let (lookup, secret) = body[PREFIX_LENGTH..].split_once('_')?;
        let fits = !secret.contains('_') && presented.as_bytes() == checksum(body);
        let lookup = lookup.as_bytes().try_into().ok()?;
        fits.then_some(Self { kind, lookup, secret })
    }

    pub fn lookup(&self) -> &'a str {
        std::str::from_utf8(self.lookup).expect("base62 is ASCII")
    }
}

impl fmt::Debug for PresentedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}_***", prefix(self.kind), self.lookup())
    }
}

const KINDS: [KeyKind; 4] = KeyKind::ALL;

pub const fn prefix(kind: KeyKind) -> &'static str {
    match kind {
        KeyKind::Account => "phk_",
        KeyKind::Ingest => "phi_",
        KeyKind::Operator => "pho_",
        KeyKind::Platform => "php_",
    }
}

/// How a key is shown after the first time.
pub fn shown(kind: KeyKind, lookup: &str) -> String {
    format!("{}{}…", prefix(kind), lookup.get(..4).unwrap_or(lookup))
}

/// Characters drawn evenly: bytes that would favour some of them are drawn again.
fn draw(text: &mut String, mut count: usize, dice: &dyn Dice) {
    let mut bytes = Zeroizing::new([0u8; 64]);
    while count > 0 {
        dice.fill(bytes.as_mut());
        for byte in bytes.iter().filter(|byte| **byte < 248).take(count) {
            text.push(char::from(ALPHABET[usize::from(byte % 62)]));
            count -= 1;
        }
    }
}

fn checksum(text: &str) -> [u8; CHECKSUM_LENGTH] {
    let mut sum = crc32fast::hash(text.as_bytes());
    let mut digits = [0; CHECKSUM_LENGTH];
    for digit in digits.iter_mut().rev() {
        *digit = ALPHABET[(sum % 62) as usize];
        sum /= 62;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::testing::CountingDice;

    #[test]
    fn a_key_reads_back_in_its_parts() {
        let dice = CountingDice::default();
        for kind in KINDS {
            let key = KeyText::generate(kind, &dice);
            assert_eq!((key.expose().len(), key.parts().kind), (55, kind));
            assert!(key.expose().contains(key.parts().lookup()) && key.expose().contains(key.parts().secret));
            assert_eq!(key.parts().secret.len(), 32);
        }
    }

    #[test]
    fn a_typo_does_not_pass_the_checksum() {
        let key = KeyText::generate(KeyKind::Account, &CountingDice::default());
        for at in 0..LENGTH {
            let mut typo = key.expose().as_bytes().to_vec();
            typo[at] = if typo[at] == b'x' { b'y' } else { b'x' };
            assert!(PresentedKey::parse(std::str::from_utf8(&typo).unwrap()).is_none(), "at {at}");
        }
        assert!(PresentedKey::parse("").is_none());
        assert!(PresentedKey::parse(&key.expose()[1..]).is_none());
        assert!(PresentedKey::parse(&"é".repeat(55)).is_none());
    }

    #[test]
    fn a_key_is_not_printed() {
        let key = KeyText::generate(KeyKind::Operator, &CountingDice::default());
        assert!(!format!("{key:?}").contains(key.parts().secret));
        assert!(shown(KeyKind::Account, "abcdefghijkl") == "phk_abcd…");
    }
}
