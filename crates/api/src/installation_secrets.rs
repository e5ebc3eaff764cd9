//! The secrets of the installation: the master keys, and the pepper under which API keys and source tokens are hashed.

use aws_lc_rs::hmac;
use domain::{
    dice::Dice,
    seal::{MasterKeys, SealError, Sealed},
};
use std::{fmt, sync::Arc};
use store::{Catalog, KeptSeals, StoreError};
use zeroize::Zeroizing;

/// The setting that the pepper is kept in, sealed.
pub const PEPPER: &str = "pepper";
const PEPPER_BYTES: usize = 32;
/// Before the name of a master key: a setting by which it is known again, for as long as something may be sealed by it.
pub const KNOWN_MASTER_KEY: &str = "master_key:";

pub struct InstallationSecrets {
    master: Arc<MasterKeys>,
    pepper: hmac::Key,
    cursors: hmac::Key,
}

#[derive(Debug, thiserror::Error)]
pub enum InstallationSecretsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database and the master keys do not belong together.
    #[error(
        "the store's pepper does not open with the configured master keys: {0}; use the keys this store was made with"
    )]
    Pepper(SealError),
    #[error(
        "secrets in the store are sealed by the master key `{0}`, which is not configured: add it to master_keys, behind \
         the active one. It may be left out once `posthaste keys rotate` has said that nothing is sealed by it"
    )]
    MissingMasterKey(String),
    #[error(
        "the configured master key `{0}` is another one than the key of this name by which secrets in the store are \
         sealed: give a new key a name of its own (`posthaste keys master --name`), and keep the old one beside it"
    )]
    OtherMasterKey(String),
}

impl InstallationSecrets {
    /// The first start of an installation makes its pepper; every later one opens it. Whatever is sealed must open with
    /// these keys.
    pub async fn open<S: Catalog + KeptSeals + ?Sized>(
        store: &S,
        master: MasterKeys,
        dice: &dyn Dice,
    ) -> Result<Self, InstallationSecretsError> {
        // First: it names the key, where the pepper can only say that it does not open.
        check_known(&master, &store.settings(KNOWN_MASTER_KEY).await?)?;
        let mut fresh = Zeroizing::new([0u8; PEPPER_BYTES]);
        dice.fill(fresh.as_mut());
        let wrapped = master.wrap(PEPPER, fresh.as_ref(), dice);
        let kept = Sealed(store.setting_or_insert(PEPPER, &wrapped.0).await?);
        let pepper =
            master.unwrap(PEPPER, &kept).map_err(|error| refusal(error, InstallationSecretsError::Pepper))?;
        if kept == wrapped {
            // Of a store that was made just now nothing is sealed by another key.
            know(store, &master, master.active(), dice).await?;
        }
        Ok(Self::new(master, &pepper))
    }

    /// To be called before anything is sealed: from now on the store is not opened without the active key. One that was
    /// last used by a version that did not write keys down may be sealed by any of them.
    pub async fn note_keys<S: Catalog + KeptSeals + ?Sized>(
        &self,
        store: &S,
        dice: &dyn Dice,
    ) -> Result<(), StoreError> {
        let nothing_known = store.settings(KNOWN_MASTER_KEY).await?.is_empty();
        for name in self.master.names().take(if nothing_known { usize::MAX } else { 1 }) {
            know(store, &self.master, name, dice).await?;
        }
        Ok(())
    }

    /// The names of other keys than the active one that something may still be sealed by.
    pub async fn others_needed(&self, store: &(impl KeptSeals + ?Sized)) -> Result<Vec<String>, StoreError> {
        let known = store.settings(KNOWN_MASTER_KEY).await?;
        let names = known.iter().filter_map(|(name, _)| name.strip_prefix(KNOWN_MASTER_KEY));
        Ok(names.filter(|name| *name != self.master.active()).map(str::to_owned).collect())
    }

    /// Whether these keys open what the store has sealed: what it has kept under [`PEPPER`], and the keys it knows.
    pub fn check(
        master: &MasterKeys,
        pepper: Vec<u8>,
        known: &[(String, Vec<u8>)],
    ) -> Result<(), InstallationSecretsError> {
        check_known(master, known)?;
        let opened = master.unwrap(PEPPER, &Sealed(pepper)).map(|_| ());
        opened.map_err(|error| refusal(error, InstallationSecretsError::Pepper))
    }

    fn new(master: MasterKeys, pepper: &[u8]) -> Self {
        let pepper = hmac::Key::new(hmac::HMAC_SHA256, pepper);
        let cursors = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&pepper, b"posthaste cursors").as_ref());
        Self { master: Arc::new(master), pepper, cursors }
    }

    pub fn master(&self) -> &MasterKeys {
        &self.master
    }

    /// The same, to be kept.
    pub fn master_keys(&self) -> Arc<MasterKeys> {
        Arc::clone(&self.master)
    }

    /// What is kept of a secret: enough to recognise it, and of no use for anything else.
    pub fn hash(&self, secret: &[u8]) -> [u8; 32] {
        digest(hmac::sign(&self.pepper, secret))
    }

    pub(crate) fn cursor_tag(&self, text: &[u8]) -> [u8; 32] {
        digest(hmac::sign(&self.cursors, text))
    }
}

/// A key that is missing is told by its name.
fn refusal(
    error: SealError,
    otherwise: impl FnOnce(SealError) -> InstallationSecretsError,
) -> InstallationSecretsError {
    match error {
        SealError::UnknownMasterKey(name) => InstallationSecretsError::MissingMasterKey(name),
        error => otherwise(error),
    }
}

fn check_known(master: &MasterKeys, known: &[(String, Vec<u8>)]) -> Result<(), InstallationSecretsError> {
    for (setting, proof) in known {
        let name = setting.strip_prefix(KNOWN_MASTER_KEY).unwrap_or(setting);
        let proven = master.proves(name, &Sealed(proof.clone()));
        proven
            .map_err(|error| refusal(error, |_| InstallationSecretsError::OtherMasterKey(name.to_owned())))?;
    }
    Ok(())
}

async fn know<S: Catalog + ?Sized>(
    store: &S,
    master: &MasterKeys,
    name: &str,
    dice: &dyn Dice,
) -> Result<(), StoreError> {
    let proof = master.proof_of(name, dice).expect("a name of theirs");
    store.setting_or_insert(&format!("{KNOWN_MASTER_KEY}{name}"), &proof.0).await?;
    Ok(())
}

fn digest(tag: hmac::Tag) -> [u8; 32] {
    tag.as_ref().try_into().expect("SHA-256 gives 32 bytes")
}

impl fmt::Debug for InstallationSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstallationSecrets(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use domain::{
        testing::{CountingDice, StandingClock},
        time::Timestamp,
    };
    use std::sync::Arc;
    use store::memory::MemoryStore;

    fn store_and_dice() -> (MemoryStore, CountingDice) {
        (MemoryStore::new(Arc::new(StandingClock(Timestamp::MIN))), CountingDice::default())
    }

    fn master(byte: u8) -> MasterKeys {
        MasterKeys::parse(&format!("k{byte}:{}", STANDARD.encode([byte; 32]))).unwrap()
    }

    #[tokio::test]
    async fn the_pepper_is_made_once_and_kept() {
        let (store, dice) = store_and_dice();
        let first = InstallationSecrets::open(&store, master(1), &dice).await.unwrap();
        let second = InstallationSecrets::open(&store, master(1), &dice).await.unwrap();
        assert_eq!(first.hash(b"secret"), second.hash(b"secret"));
        assert_ne!(first.hash(b"secret"), first.cursor_tag(b"secret"));
    }

    #[tokio::test]
    async fn other_master_keys_do_not_open_the_store() {
        let (store, dice) = store_and_dice();
        InstallationSecrets::open(&store, master(1), &dice).await.unwrap();
        let error = InstallationSecrets::open(&store, master(2), &dice).await.unwrap_err();
        assert!(
            matches!(&error, InstallationSecretsError::MissingMasterKey(name) if name == "k1"),
            "{error}"
        );
    }

    fn both(first: u8, second: u8) -> MasterKeys {
        let key = |byte: u8| format!("k{byte}:{}", STANDARD.encode([byte; 32]));
        MasterKeys::parse(&format!("{},{}", key(first), key(second))).unwrap()
    }

    #[tokio::test]
    async fn a_key_that_something_may_be_sealed_by_is_not_left_out() {
        let (store, dice) = store_and_dice();
        InstallationSecrets::open(&store, master(1), &dice).await.unwrap();
        InstallationSecrets::open(&store, both(1, 2), &dice)
            .await
            .unwrap()
            .note_keys(&store, &dice)
            .await
            .unwrap();
        InstallationSecrets::open(&store, master(1), &dice).await.expect("nothing was sealed by the second");

        InstallationSecrets::open(&store, both(2, 1), &dice)
            .await
            .unwrap()
            .note_keys(&store, &dice)
            .await
            .unwrap();
        for (keys, missing) in [(master(1), "k2"), (master(2), "k1")] {
            let error = InstallationSecrets::open(&store, keys, &dice).await.unwrap_err();
            assert!(
                matches!(&error, InstallationSecretsError::MissingMasterKey(name) if name == missing),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn of_a_store_that_does_not_know_its_keys_none_is_left_out() {
        let (store, dice) = store_and_dice();
        let wrapped = both(2, 1).wrap(PEPPER, &[7; 32], &dice);
        store.setting_or_insert(PEPPER, &wrapped.0).await.unwrap();
        InstallationSecrets::open(&store, both(2, 1), &dice)
            .await
            .unwrap()
            .note_keys(&store, &dice)
            .await
            .unwrap();
        let error = InstallationSecrets::open(&store, master(2), &dice).await.unwrap_err();
        assert!(
            matches!(&error, InstallationSecretsError::MissingMasterKey(name) if name == "k1"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn another_key_of_the_same_name_is_refused_before_it_seals_anything() {
        let (store, dice) = store_and_dice();
        InstallationSecrets::open(&store, both(1, 2), &dice).await.unwrap();
        InstallationSecrets::open(&store, both(2, 1), &dice)
            .await
            .unwrap()
            .note_keys(&store, &dice)
            .await
            .unwrap();
        let key = |name: &str, byte: u8| format!("{name}:{}", STANDARD.encode([byte; 32]));
        let other = MasterKeys::parse(&format!("{},{}", key("k1", 1), key("k2", 9))).unwrap();
        let error = InstallationSecrets::open(&store, other, &dice).await.unwrap_err();
        assert!(matches!(&error, InstallationSecretsError::OtherMasterKey(name) if name == "k2"), "{error}");
        let told = error.to_string();
        assert!(told.contains("`k2`") && !told.contains(&STANDARD.encode([9; 32])), "{told}");
    }
}
