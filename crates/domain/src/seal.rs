//! Secrets at rest: an envelope of two AES-256-GCM layers.
//!
//! A master key (outside the database) wraps one data key per account; the data key seals each secret, bound to the
//! row and column it belongs to, so that a ciphertext moved elsewhere does not open. Nonces are handed in.

use crate::{dice::Dice, id::AccountId};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use zeroize::Zeroizing;

const VERSION: u8 = 1;
const KEY_BYTES: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("a master key is `name:base64`, the name 1 to 16 of a-z 0-9, the base64 of 32 bytes")]
    MalformedMasterKey,
    #[error("no master key is configured")]
    NoMasterKey,
    #[error("sealed with master key `{0}`, which is not configured")]
    UnknownMasterKey(String),
    #[error("the sealed value does not open: damaged, moved from another row, or sealed with another key")]
    DoesNotOpen,
}

/// A secret that only its own row can open. Base64 in documents, `***` in logs.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Sealed(pub Vec<u8>);

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Sealed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        STANDARD.decode(text.as_bytes()).map(Self).map_err(D::Error::custom)
    }
}

/// The keys of the installation; the first one seals, all of them open.
pub struct MasterKeys(Vec<MasterKey>);

struct MasterKey {
    name: String,
    key: LessSafeKey,
}

impl MasterKeys {
    /// `k2:<base64>,k1:<base64>`; a bare base64 value is called `k1`.
    pub fn parse(text: &str) -> Result<Self, SealError> {
        let keys = text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(parse_master_key);
        let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
        if keys.is_empty() { Err(SealError::NoMasterKey) } else { Ok(Self(keys)) }
    }

    /// The name of the key that seals.
    pub fn active(&self) -> &str {
        &self.0[0].name
    }

    /// A new data key for an account, wrapped.
    pub fn new_data_key(&self, account: AccountId, dice: &dyn Dice) -> Sealed {
        let mut key = Zeroizing::new([0u8; KEY_BYTES]);
        dice.fill(key.as_mut());
        self.wrap(&format!("{account}|data_key"), key.as_ref(), dice)
    }

    /// The account's data key, ready to seal and open its secrets.
    pub fn data_key(&self, account: AccountId, wrapped: &Sealed) -> Result<DataKey, SealError> {
        let key = self.unwrap(&format!("{account}|data_key"), wrapped)?;
        Ok(DataKey { account, key: aes_key(&key).ok_or(SealError::DoesNotOpen)? })
    }

    /// Wraps a value of the installation itself, such as the pepper.
    pub fn wrap(&self, purpose: &str, plain: &[u8], dice: &dyn Dice) -> Sealed {
        let MasterKey { name, key } = &self.0[0];
        let mut out = vec![VERSION, name.len() as u8];
        out.extend_from_slice(name.as_bytes());
        encrypt(key, purpose, plain, dice, &mut out);
        Sealed(out)
    }

    pub fn unwrap(&self, purpose: &str, wrapped: &Sealed) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (name, rest) = match wrapped.0.as_slice() {
            [VERSION, length, rest @ ..] if rest.len() >= usize::from(*length) => {
                rest.split_at(usize::from(*length))
            }
            _ => return Err(SealError::DoesNotOpen),
        };
        let name = String::from_utf8_lossy(name);
        let master = self.0.iter().find(|master| master.name == name);
        let master = master.ok_or_else(|| SealError::UnknownMasterKey(name.into_owned()))?;
        decrypt(&master.key, purpose, rest)
    }
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKeys(***)")
    }
}

/// Seals and opens the secrets of one account.
pub struct DataKey {
    account: AccountId,
    key: LessSafeKey,
}

impl DataKey {
    /// `place` names table, column and row, as in `destinations|secret|dst_…`.
    pub fn seal(&self, place: &str, plain: &[u8], dice: &dyn Dice) -> Sealed {
        let mut out = vec![VERSION];
        encrypt(&self.key, &self.bind(place), plain, dice, &mut out);
        Sealed(out)
    }

    pub fn open(&self, place: &str, sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, SealError> {
        match sealed.0.as_slice() {
            [VERSION, rest @ ..] => decrypt(&self.key, &self.bind(place), rest),
            _ => Err(SealError::DoesNotOpen),
        }
    }

    fn bind(&self, place: &str) -> String {
        format!("{}|{place}", self.account)
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey({}, ***)", self.account)
    }
}

fn parse_master_key(text: &str) -> Result<MasterKey, SealError> {
    let (name, value) = text.split_once(':').unwrap_or(("k1", text));
    let named = (1..=16).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = Zeroizing::new(STANDARD.decode(value.trim()).unwrap_or_default());
    match aes_key(&bytes) {
        Some(key) if named => Ok(MasterKey { name: name.into(), key }),
        _ => Err(SealError::MalformedMasterKey),
    }
}

fn aes_key(bytes: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, bytes).ok().map(LessSafeKey::new)
}

fn encrypt(key: &LessSafeKey, bound_to: &str, plain: &[u8], dice: &dyn Dice, out: &mut Vec<u8>) {
    let mut nonce = [0u8; NONCE_LEN];
    dice.fill(&mut nonce);
    let mut text = plain.to_vec();
    key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(bound_to.as_bytes()),
        &mut text,
    )
    .expect("AES-GCM seals any text this short");
    out.extend_from_slice(&nonce);
    out.append(&mut text);
}

fn decrypt(key: &LessSafeKey, bound_to: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
    let (nonce, text) = sealed.split_at_checked(NONCE_LEN).ok_or(SealError::DoesNotOpen)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::DoesNotOpen)?;
    let mut text = Zeroizing::new(text.to_vec());
    let plain = key
        .open_in_place(nonce, Aad::from(bound_to.as_bytes()), &mut text)
        .map_err(|_| SealError::DoesNotOpen)?
        .len();
    text.truncate(plain);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{testing::CountingDice, time::Timestamp};

    fn account(n: u128) -> AccountId {
        AccountId::at(Timestamp::MIN, n)
    }

    fn master(name: &str, byte: u8) -> String {
        format!("{name}:{}", STANDARD.encode([byte; 32]))
    }

    #[test]
    fn a_secret_opens_only_in_its_own_row_and_account() {
        let keys = MasterKeys::parse(&master("k1", 7)).unwrap();
        let wrapped = keys.new_data_key(account(1), &CountingDice::default());
        let key = keys.data_key(account(1), &wrapped).unwrap();
        let sealed = key.seal("destinations|secret|dst_1", b"whsec", &CountingDice::default());

        assert_eq!(key.open("destinations|secret|dst_1", &sealed).unwrap().as_slice(), b"whsec");
        assert_eq!(key.open("destinations|secret|dst_2", &sealed), Err(SealError::DoesNotOpen));
        assert!(keys.data_key(account(2), &wrapped).is_err());
        assert_eq!(key.open("destinations|secret|dst_1", &Sealed::default()), Err(SealError::DoesNotOpen));
        assert!(!sealed.0.windows(5).any(|window| window == b"whsec"));
    }

    #[test]
    fn an_older_master_key_still_opens_what_it_sealed() {
        let old = MasterKeys::parse(&master("k1", 1)).unwrap();
        let wrapped = old.new_data_key(account(1), &CountingDice::default());
        let both = MasterKeys::parse(&format!("{},{}", master("k2", 2), master("k1", 1))).unwrap();
        assert!(both.data_key(account(1), &wrapped).is_ok());
        assert_eq!(both.active(), "k2");
        let new = MasterKeys::parse(&master("k2", 2)).unwrap();
        assert_eq!(new.data_key(account(1), &wrapped).unwrap_err(), SealError::UnknownMasterKey("k1".into()));
    }

    #[test]
    fn a_malformed_master_key_is_refused() {
        for text in ["k1:abc", "K 1:aaaa", "short"] {
            assert_eq!(MasterKeys::parse(text).unwrap_err(), SealError::MalformedMasterKey);
        }
        assert_eq!(MasterKeys::parse("").unwrap_err(), SealError::NoMasterKey);
    }
}
