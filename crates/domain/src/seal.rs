//! Secrets at rest: an envelope of two AES-256-GCM layers.
//!
//! A master key (outside the database) wraps the data keys of each account; the newest of these seals each secret, bound to
//! the row and column it belongs to, so that a ciphertext moved elsewhere does not open. Nonces are handed in.
//!
//! Both kinds of keys are changed while the old one still opens: what is wrapped says by which master key, what is sealed
//! by which data key. An account has one data key, and a second one from the moment it is changed until nothing is sealed
//! by the first any more. Until then all is as versions wrote it that knew only one; they cannot read what comes after.
//!
//! Secrets are few. Of what an account has sealed as a whole (payloads, kept answers) there may be as many as events, more
//! than one key may seal with nonces drawn at random: each row of these has a key of its own ([`DataKey::seal_row`]), made of
//! the data key and the row's place, so that no number of rows wears a data key out.

use crate::{dice::Dice, id::AccountId, time::Timestamp};
use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;
use zeroize::Zeroizing;

/// Of what is wrapped: the first data key, or a value of the installation. Of what is sealed: by the first data key.
const FIRST: u8 = 1;
/// Of what is wrapped: several data keys, or another than the first. Of what is sealed: by another than the first.
const NUMBERED: u8 = 2;
const KEY_BYTES: usize = 32;
/// What a sealed value has at most beside the text: which key it is sealed by, nonce and tag.
const SEALED_MORE: usize = 1 + 4 + NONCE_LEN + 16;
/// A data key as it is wrapped beside others: its number, when it was made, the key.
const NUMBERED_KEY_BYTES: usize = 4 + 8 + KEY_BYTES;
/// The number of a data key that was made with its account.
const FIRST_NUMBER: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("a master key is `name:base64`, the name 1 to 16 of a-z 0-9, the base64 of 32 bytes")]
    MalformedMasterKey,
    #[error("no master key is configured")]
    NoMasterKey,
    #[error("sealed with master key `{0}`, which is not configured")]
    UnknownMasterKey(String),
    #[error("sealed with data key {0} of its account, which is not known here")]
    UnknownDataKey(u32),
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

    /// The names of all, the active one first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|key| key.name.as_str())
    }

    /// A new data key for an account, wrapped.
    pub fn new_data_key(&self, account: AccountId, dice: &dyn Dice) -> Sealed {
        let mut key = Zeroizing::new([0u8; KEY_BYTES]);
        dice.fill(key.as_mut());
        self.wrap(&of_first(account), key.as_ref(), dice)
    }

    /// The account's data keys, ready to seal and open its secrets.
    pub fn data_key(&self, account: AccountId, wrapped: &Sealed) -> Result<DataKey, SealError> {
        let keys = self.open_data_keys(account, wrapped)?;
        let keys = keys.iter().map(RawKey::ready).collect::<Option<Vec<_>>>();
        let keys = keys.filter(|keys| !keys.is_empty()).ok_or(SealError::DoesNotOpen)?;
        Ok(DataKey { account, keys })
    }

    /// The same data keys, wrapped by the active master key; None if they are.
    pub fn rewrap_data_key(
        &self,
        account: AccountId,
        wrapped: &Sealed,
        dice: &dyn Dice,
    ) -> Result<Option<Sealed>, SealError> {
        if wrapped.master_key() == Some(self.active()) {
            return Ok(None);
        }
        Ok(Some(self.wrap_data_keys(account, &self.open_data_keys(account, wrapped)?, dice)))
    }

    /// The account's data keys and a new one, which seals from now on.
    pub fn with_new_data_key(
        &self,
        account: AccountId,
        wrapped: &Sealed,
        now: Timestamp,
        dice: &dyn Dice,
    ) -> Result<Sealed, SealError> {
        let mut keys = self.open_data_keys(account, wrapped)?;
        let mut bytes = Zeroizing::new([0u8; KEY_BYTES]);
        dice.fill(bytes.as_mut());
        let number = keys.last().map_or(FIRST_NUMBER, |newest| newest.number + 1);
        keys.push(RawKey { number, made_at: now, bytes });
        Ok(self.wrap_data_keys(account, &keys, dice))
    }

    /// The account's newest data key, and those that sealed at `since` or later: what is sealed by another opens no more.
    /// None: that are all of them.
    pub fn without_data_keys_before(
        &self,
        account: AccountId,
        wrapped: &Sealed,
        since: Timestamp,
        dice: &dyn Dice,
    ) -> Result<Option<Sealed>, SealError> {
        let mut keys = self.open_data_keys(account, wrapped)?;
        // A key seals until the next one is made.
        let needed = |next: &RawKey| next.made_at > since;
        let forgotten = keys.iter().skip(1).take_while(|next| !needed(next)).count();
        if forgotten == 0 {
            return Ok(None);
        }
        keys.drain(..forgotten);
        Ok(Some(self.wrap_data_keys(account, &keys, dice)))
    }

    /// Wraps a value of the installation itself, such as the pepper.
    pub fn wrap(&self, purpose: &str, plain: &[u8], dice: &dyn Dice) -> Sealed {
        self.wrap_as(FIRST, purpose, plain, dice)
    }

    pub fn unwrap(&self, purpose: &str, wrapped: &Sealed) -> Result<Zeroizing<Vec<u8>>, SealError> {
        match wrapped.0.first() {
            Some(&FIRST) => self.unwrap_any(purpose, wrapped),
            _ => Err(SealError::DoesNotOpen),
        }
    }

    /// What only the key of this name opens, so that a key can be recognised; None: there is no such key here.
    pub fn proof_of(&self, name: &str, dice: &dyn Dice) -> Option<Sealed> {
        let key = self.0.iter().find(|key| key.name == name)?;
        Some(wrap_by(key, FIRST, &of_proof(name), &[], dice))
    }

    /// Whether the key of this name is the one that was proven.
    pub fn proves(&self, name: &str, proof: &Sealed) -> Result<(), SealError> {
        self.unwrap(&of_proof(name), proof).map(|_| ())
    }

    fn open_data_keys(&self, account: AccountId, wrapped: &Sealed) -> Result<Vec<RawKey>, SealError> {
        if wrapped.0.first() != Some(&NUMBERED) {
            let key = self.unwrap(&of_first(account), wrapped)?;
            let bytes = <[u8; KEY_BYTES]>::try_from(key.as_slice()).map_err(|_| SealError::DoesNotOpen)?;
            let bytes = Zeroizing::new(bytes);
            return Ok(vec![RawKey { number: FIRST_NUMBER, made_at: account.made_at(), bytes }]);
        }
        let plain = self.unwrap_any(&of_numbered(account), wrapped)?;
        let (keys, rest) = plain.as_chunks::<NUMBERED_KEY_BYTES>();
        if keys.is_empty() || !rest.is_empty() {
            return Err(SealError::DoesNotOpen);
        }
        Ok(keys.iter().map(RawKey::read).collect())
    }

    fn wrap_data_keys(&self, account: AccountId, keys: &[RawKey], dice: &dyn Dice) -> Sealed {
        if let [RawKey { number: FIRST_NUMBER, bytes, .. }] = keys {
            return self.wrap(&of_first(account), bytes.as_ref(), dice);
        }
        let mut plain = Zeroizing::new(Vec::with_capacity(keys.len() * NUMBERED_KEY_BYTES));
        for RawKey { number, made_at, bytes } in keys {
            plain.extend_from_slice(&number.to_be_bytes());
            plain.extend_from_slice(&made_at.micros().to_be_bytes());
            plain.extend_from_slice(bytes.as_ref());
        }
        self.wrap_as(NUMBERED, &of_numbered(account), &plain, dice)
    }

    fn wrap_as(&self, version: u8, purpose: &str, plain: &[u8], dice: &dyn Dice) -> Sealed {
        wrap_by(&self.0[0], version, purpose, plain, dice)
    }

    fn unwrap_any(&self, purpose: &str, wrapped: &Sealed) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let name = wrapped.master_key().ok_or(SealError::DoesNotOpen)?;
        let master = self.0.iter().find(|master| master.name == name);
        let master = master.ok_or_else(|| SealError::UnknownMasterKey(name.to_owned()))?;
        decrypt(&master.key, purpose, &wrapped.0[2 + name.len()..])
    }
}

impl Sealed {
    /// The name of the master key that wraps this; None of what is sealed by a data key, or is neither.
    pub fn master_key(&self) -> Option<&str> {
        let [FIRST | NUMBERED, length, rest @ ..] = self.0.as_slice() else { return None };
        let name = std::str::from_utf8(rest.get(..usize::from(*length))?).ok()?;
        is_name(name).then_some(name)
    }

    /// The number of the data key that seals this; None of what is no sealed value.
    pub fn data_key_number(&self) -> Option<u32> {
        numbered(&self.0).ok().map(|(number, _)| number)
    }
}

fn wrap_by(
    MasterKey { name, key }: &MasterKey,
    version: u8,
    purpose: &str,
    plain: &[u8],
    dice: &dyn Dice,
) -> Sealed {
    let mut out = vec![version, name.len() as u8];
    out.extend_from_slice(name.as_bytes());
    encrypt(key, purpose, plain, dice, &mut out);
    Sealed(out)
}

fn of_proof(name: &str) -> String {
    format!("master_key|{name}")
}

fn of_first(account: AccountId) -> String {
    format!("{account}|data_key")
}

fn of_numbered(account: AccountId) -> String {
    format!("{account}|data_keys|{NUMBERED}")
}

/// A data key in the clear, on its way from one wrapping to the next.
struct RawKey {
    number: u32,
    made_at: Timestamp,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl RawKey {
    fn read(entry: &[u8; NUMBERED_KEY_BYTES]) -> Self {
        let (number, rest) = entry.split_first_chunk().expect("44 bytes");
        let (made_at, key) = rest.split_first_chunk().expect("40 bytes");
        let bytes = Zeroizing::new(key.try_into().expect("32 bytes"));
        let made_at = Timestamp::from_micros(i64::from_be_bytes(*made_at));
        Self { number: u32::from_be_bytes(*number), made_at, bytes }
    }

    fn ready(&self) -> Option<NumberedKey> {
        let Self { number, made_at, ref bytes } = *self;
        let rows = hmac::Key::new(hmac::HMAC_SHA256, bytes.as_ref());
        Some(NumberedKey { number, made_at, key: aes_key(bytes.as_ref())?, rows })
    }
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKeys(***)")
    }
}

/// Seals and opens the secrets of one account, by its newest data key and by all of them.
pub struct DataKey {
    account: AccountId,
    /// Never empty; the newest comes last.
    keys: Vec<NumberedKey>,
}

struct NumberedKey {
    number: u32,
    made_at: Timestamp,
    key: LessSafeKey,
    /// What the keys of rows are made with.
    rows: hmac::Key,
}

impl DataKey {
    /// `place` names table, column and row, as in `destinations|secret|dst_…`.
    pub fn seal(&self, place: &str, plain: &[u8], dice: &dyn Dice) -> Sealed {
        let NumberedKey { number, key, .. } = self.newest();
        let mut out = sealed_by(*number, plain.len());
        encrypt(key, &self.bind(place, *number), plain, dice, &mut out);
        Sealed(out)
    }

    /// What is sealed as often as there are events: by a key that is this row's alone. `place` names table, column and row.
    pub fn seal_row(&self, place: &str, plain: &[u8], dice: &dyn Dice) -> Sealed {
        let newest = self.newest();
        let bound_to = self.bind(place, newest.number);
        let mut out = sealed_by(newest.number, plain.len());
        encrypt(&newest.row_key(&bound_to), &bound_to, plain, dice, &mut out);
        Sealed(out)
    }

    /// What [`Self::seal_row`] has sealed. It is no secret of ours, and as large as an event may be: nothing wipes it.
    /// Opened where it is, so that a large one is not there twice.
    pub fn open_row(&self, place: &str, mut sealed: Vec<u8>) -> Result<Vec<u8>, SealError> {
        let (number, text) = numbered(&sealed)?;
        let bound_to = self.bind(place, number);
        let key = self.numbered(number)?.row_key(&bound_to);
        let (nonce, text) = text.split_at_checked(NONCE_LEN).ok_or(SealError::DoesNotOpen)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::DoesNotOpen)?;
        let from = sealed.len() - text.len();
        let opened = key.open_within(nonce, Aad::from(bound_to.as_bytes()), &mut sealed, from..);
        let plain = opened.map_err(|_| SealError::DoesNotOpen)?.len();
        sealed.truncate(plain);
        Ok(sealed)
    }

    pub fn open(&self, place: &str, sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (number, text) = numbered(&sealed.0)?;
        decrypt(&self.numbered(number)?.key, &self.bind(place, number), text)
    }

    /// The same secret, sealed by the newest key; None if it is.
    pub fn reseal(&self, place: &str, sealed: &Sealed, dice: &dyn Dice) -> Result<Option<Sealed>, SealError> {
        if numbered(&sealed.0)?.0 == self.newest().number {
            return Ok(None);
        }
        Ok(Some(self.seal(place, &self.open(place, sealed)?, dice)))
    }

    /// Whether the key that this was sealed by is among them. What is no sealed value opens with none: that is not for
    /// other keys to mend.
    pub fn knows(&self, sealed: &Sealed) -> bool {
        sealed.data_key_number().is_none_or(|number| self.numbered(number).is_ok())
    }

    /// Whether this is sealed by the newest.
    pub fn is_newest_of(&self, sealed: &Sealed) -> bool {
        sealed.data_key_number() == Some(self.newest().number)
    }

    fn numbered(&self, number: u32) -> Result<&NumberedKey, SealError> {
        self.keys.iter().find(|key| key.number == number).ok_or(SealError::UnknownDataKey(number))
    }

    /// There is an older one beside the newest.
    pub fn has_older(&self) -> bool {
        self.keys.len() > 1
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.keys.len()
    }

    /// When the one that seals was made.
    pub fn newest_made_at(&self) -> Timestamp {
        self.newest().made_at
    }

    fn newest(&self) -> &NumberedKey {
        self.keys.last().expect("never empty")
    }

    /// The number is part of what is bound to; of the first key alone it never was, and none of another has its form.
    fn bind(&self, place: &str, number: u32) -> String {
        match number {
            FIRST_NUMBER => format!("{}|{place}", self.account),
            number => format!("{}|{place}|{number}", self.account),
        }
    }
}

impl NumberedKey {
    /// The key of one row. The data key is used for nothing else with HMAC.
    fn row_key(&self, bound_to: &str) -> LessSafeKey {
        let tag = hmac::sign(&self.rows, bound_to.as_bytes());
        aes_key(tag.as_ref()).expect("SHA-256 gives as many bytes as a key has")
    }
}

/// The beginning of what is sealed by the data key of this number, with room for the rest.
fn sealed_by(number: u32, plain_bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(SEALED_MORE + plain_bytes);
    match number {
        FIRST_NUMBER => out.push(FIRST),
        number => {
            out.push(NUMBERED);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
    out
}

/// The number of the data key that this was sealed by, and the rest.
fn numbered(sealed: &[u8]) -> Result<(u32, &[u8]), SealError> {
    match sealed {
        [FIRST, text @ ..] => Ok((FIRST_NUMBER, text)),
        [NUMBERED, rest @ ..] => match rest.split_first_chunk() {
            Some((number, text)) => Ok((u32::from_be_bytes(*number), text)),
            None => Err(SealError::DoesNotOpen),
        },
        _ => Err(SealError::DoesNotOpen),
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey({}, ***)", self.account)
    }
}

fn parse_master_key(text: &str) -> Result<MasterKey, SealError> {
    let (name, value) = text.split_once(':').unwrap_or(("k1", text));
    let named = is_name(name);
    let bytes = Zeroizing::new(STANDARD.decode(value.trim()).unwrap_or_default());
    match aes_key(&bytes) {
        Some(key) if named => Ok(MasterKey { name: name.into(), key }),
        _ => Err(SealError::MalformedMasterKey),
    }
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=16).contains(&name.len()) && name.bytes().all(is_plain)
}

fn aes_key(bytes: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, bytes).ok().map(LessSafeKey::new)
}

fn encrypt(key: &LessSafeKey, bound_to: &str, plain: &[u8], dice: &dyn Dice, out: &mut Vec<u8>) {
    let mut nonce = [0u8; NONCE_LEN];
    dice.fill(&mut nonce);
    out.extend_from_slice(&nonce);
    let from = out.len();
    out.extend_from_slice(plain);
    let (nonce, bound_to) = (Nonce::assume_unique_for_key(nonce), Aad::from(bound_to.as_bytes()));
    let tag = key.seal_in_place_separate_tag(nonce, bound_to, &mut out[from..]);
    out.extend_from_slice(tag.expect("AES-GCM seals any text this short").as_ref());
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
    fn a_master_key_is_known_again_and_no_other_is_taken_for_it() {
        let dice = CountingDice::default();
        let both = MasterKeys::parse(&format!("{},{}", master("k2", 2), master("k1", 1))).unwrap();
        assert_eq!(both.names().collect::<Vec<_>>(), ["k2", "k1"]);
        let proof = both.proof_of("k1", &dice).expect("it is there");
        assert_eq!(both.proves("k1", &proof), Ok(()));
        assert_eq!(both.proof_of("k3", &dice), None);
        let without = MasterKeys::parse(&master("k2", 2)).unwrap();
        assert_eq!(without.proves("k1", &proof), Err(SealError::UnknownMasterKey("k1".into())));
        let another = MasterKeys::parse(&master("k1", 9)).unwrap();
        assert_eq!(another.proves("k1", &proof), Err(SealError::DoesNotOpen));
    }

    #[test]
    fn a_malformed_master_key_is_refused() {
        for text in ["k1:abc", "K 1:aaaa", "short"] {
            assert_eq!(MasterKeys::parse(text).unwrap_err(), SealError::MalformedMasterKey);
        }
        assert_eq!(MasterKeys::parse("").unwrap_err(), SealError::NoMasterKey);
    }

    #[test]
    fn data_keys_are_wrapped_anew_without_being_changed() {
        let dice = CountingDice::default();
        let old = MasterKeys::parse(&master("k1", 1)).unwrap();
        let wrapped = old.new_data_key(account(1), &dice);
        let sealed = old.data_key(account(1), &wrapped).unwrap().seal("sources|token|src_1", b"token", &dice);

        let both = MasterKeys::parse(&format!("{},{}", master("k2", 2), master("k1", 1))).unwrap();
        assert_eq!(wrapped.master_key(), Some("k1"));
        let anew = both.rewrap_data_key(account(1), &wrapped, &dice).unwrap().expect("it was another's");
        assert_eq!(anew.master_key(), Some("k2"));
        assert_eq!(both.rewrap_data_key(account(1), &anew, &dice), Ok(None));
        assert_eq!(old.data_key(account(1), &anew).unwrap_err(), SealError::UnknownMasterKey("k2".into()));

        let new = MasterKeys::parse(&master("k2", 2)).unwrap();
        let key = new.data_key(account(1), &anew).unwrap();
        assert_eq!(key.open("sources|token|src_1", &sealed).unwrap().as_slice(), b"token");
        assert!(new.data_key(account(2), &anew).is_err());
        assert_eq!(Sealed::default().master_key(), None);
    }

    #[test]
    fn a_new_data_key_seals_and_the_old_one_opens_until_it_is_taken_away() {
        let (dice, place) = (CountingDice::default(), "destinations|secret|dst_1");
        let keys = MasterKeys::parse(&master("k1", 1)).unwrap();
        let first = keys.new_data_key(account(1), &dice);
        let with_first = keys.data_key(account(1), &first).unwrap();
        let by_first = with_first.seal(place, b"whsec", &dice);
        assert_eq!(by_first.0[0], FIRST, "as versions before can read it");

        let now = Timestamp::from_micros(7);
        let both = keys.with_new_data_key(account(1), &first, now, &dice).unwrap();
        let with_both = keys.data_key(account(1), &both).unwrap();
        assert_eq!((with_both.has_older(), with_both.newest_made_at()), (true, now));
        let by_second = with_both.reseal(place, &by_first, &dice).unwrap().expect("it was by the first");
        assert_eq!(with_both.reseal(place, &by_second, &dice), Ok(None));
        for sealed in [&by_first, &by_second] {
            assert_eq!(with_both.open(place, sealed).unwrap().as_slice(), b"whsec");
            assert_eq!(with_both.open("destinations|auth|dst_1", sealed), Err(SealError::DoesNotOpen));
        }
        assert!(!with_first.knows(&by_second) && with_first.knows(&by_first));
        assert_eq!(with_first.open(place, &by_second), Err(SealError::UnknownDataKey(2)));

        let before = Timestamp::from_micros(6);
        assert_eq!(
            keys.without_data_keys_before(account(1), &both, before, &dice),
            Ok(None),
            "it sealed then"
        );
        let second = keys.without_data_keys_before(account(1), &both, now, &dice).unwrap().expect("one less");
        let with_second = keys.data_key(account(1), &second).unwrap();
        assert!(!with_second.has_older());
        assert_eq!(with_second.open(place, &by_second).unwrap().as_slice(), b"whsec");
        assert_eq!(with_second.open(place, &by_first), Err(SealError::UnknownDataKey(1)));
        let third = keys.with_new_data_key(account(1), &second, now, &dice).unwrap();
        let by_third = keys.data_key(account(1), &third).unwrap().seal(place, b"whsec", &dice);
        assert_eq!(by_third.data_key_number(), Some(3), "no number is taken twice");
    }

    #[test]
    fn a_number_that_was_altered_opens_nothing() {
        let (dice, place) = (CountingDice::default(), "destinations|secret|dst_1");
        let keys = MasterKeys::parse(&master("k1", 1)).unwrap();
        let wrapped = keys.new_data_key(account(1), &dice);
        let wrapped = keys.with_new_data_key(account(1), &wrapped, Timestamp::MIN, &dice).unwrap();
        let wrapped = keys.with_new_data_key(account(1), &wrapped, Timestamp::MIN, &dice).unwrap();
        let key = keys.data_key(account(1), &wrapped).unwrap();
        let mut sealed = key.seal(place, b"whsec", &dice);
        sealed.0[4] = 2;
        assert_eq!(key.open(place, &sealed), Err(SealError::DoesNotOpen));
        for cut in 0..sealed.0.len() {
            assert!(key.open(place, &Sealed(sealed.0[..cut].to_vec())).is_err(), "cut at {cut}");
            let mut wrapped = wrapped.clone();
            wrapped.0.truncate(cut);
            assert!(keys.data_key(account(1), &wrapped).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_row_has_a_key_of_its_own_and_opens_in_its_place_alone() {
        let (dice, place) = (CountingDice::default(), "events|payload|evt_1");
        let keys = MasterKeys::parse(&master("k1", 1)).unwrap();
        let wrapped = keys.new_data_key(account(1), &dice);
        let first = keys.data_key(account(1), &wrapped).unwrap();
        let by_first = first.seal_row(place, b"a canary", &dice);
        let both = keys.with_new_data_key(account(1), &wrapped, Timestamp::from_micros(7), &dice).unwrap();
        let both = keys.data_key(account(1), &both).unwrap();
        let by_second = both.seal_row(place, b"a canary", &dice);
        for sealed in [&by_first, &by_second] {
            assert_eq!(both.open_row(place, sealed.0.clone()).unwrap(), b"a canary");
            assert_eq!(both.open_row("events|payload|evt_2", sealed.0.clone()), Err(SealError::DoesNotOpen));
            assert!(both.open(place, sealed).is_err(), "it is no secret's");
            assert!(!sealed.0.windows(6).any(|window| window == b"canary"));
        }
        assert!(both.open_row(place, both.seal(place, b"whsec", &dice).0).is_err(), "no secret is a row's");
        assert!(both.is_newest_of(&by_second) && !both.is_newest_of(&by_first));
        assert_eq!(first.open_row(place, by_second.0.clone()), Err(SealError::UnknownDataKey(2)));
        let another = keys.data_key(account(2), &keys.new_data_key(account(2), &dice)).unwrap();
        assert_eq!(another.open_row(place, by_first.0.clone()), Err(SealError::DoesNotOpen));
        let mut renumbered = by_second.0.clone();
        renumbered.splice(..5, [FIRST]);
        assert_eq!(both.open_row(place, renumbered), Err(SealError::DoesNotOpen));
    }

    #[test]
    fn data_keys_stay_as_long_as_something_may_be_sealed_by_them() {
        let dice = CountingDice::default();
        let at = Timestamp::from_micros;
        let keys = MasterKeys::parse(&master("k1", 1)).unwrap();
        let mut wrapped = keys.new_data_key(account(1), &dice);
        for made_at in [10, 20, 30] {
            wrapped = keys.with_new_data_key(account(1), &wrapped, at(made_at), &dice).unwrap();
        }
        let left = |since| {
            let left = keys.without_data_keys_before(account(1), &wrapped, at(since), &dice).unwrap();
            keys.data_key(account(1), left.as_ref().unwrap_or(&wrapped)).unwrap().count()
        };
        assert_eq!([5, 9, 10, 15, 20, 30, 99].map(left), [4, 4, 3, 3, 2, 1, 1]);
    }
}
