//! The secrets of the installation: the master keys, and the pepper under which API keys and source tokens are hashed.

use aws_lc_rs::hmac;
use domain::{
    dice::Dice,
    seal::{MasterKeys, SealError, Sealed},
};
use std::fmt;
use store::{Catalog, StoreError};
use zeroize::Zeroizing;

/// The setting that the pepper is kept in, sealed.
pub const PEPPER: &str = "pepper";
const PEPPER_BYTES: usize = 32;

pub struct InstallationSecrets {
    master: MasterKeys,
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
}

impl InstallationSecrets {
    /// The first start of an installation makes its pepper; every later one opens it.
    pub async fn open(
        store: &dyn Catalog,
        master: MasterKeys,
        dice: &dyn Dice,
    ) -> Result<Self, InstallationSecretsError> {
        let mut fresh = Zeroizing::new([0u8; PEPPER_BYTES]);
        dice.fill(fresh.as_mut());
        let wrapped = master.wrap(PEPPER, fresh.as_ref(), dice);
        let kept = Sealed(store.setting_or_insert(PEPPER, &wrapped.0).await?);
        let pepper = master.unwrap(PEPPER, &kept).map_err(InstallationSecretsError::Pepper)?;
        Ok(Self::new(master, &pepper))
    }

    /// Whether these keys open what the store has kept under [`PEPPER`].
    pub fn check(master: &MasterKeys, kept: Vec<u8>) -> Result<(), InstallationSecretsError> {
        master.unwrap(PEPPER, &Sealed(kept)).map(|_| ()).map_err(InstallationSecretsError::Pepper)
    }

    fn new(master: MasterKeys, pepper: &[u8]) -> Self {
        let pepper = hmac::Key::new(hmac::HMAC_SHA256, pepper);
        let cursors = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&pepper, b"posthaste cursors").as_ref());
        Self { master, pepper, cursors }
    }

    pub fn master(&self) -> &MasterKeys {
        &self.master
    }

    /// What is kept of a secret: enough to recognise it, and of no use for anything else.
    pub fn hash(&self, secret: &[u8]) -> [u8; 32] {
        digest(hmac::sign(&self.pepper, secret))
    }

    pub(crate) fn cursor_tag(&self, text: &[u8]) -> [u8; 32] {
        digest(hmac::sign(&self.cursors, text))
    }
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
        assert!(matches!(error, InstallationSecretsError::Pepper(SealError::UnknownMasterKey(_))), "{error}");
    }
}
