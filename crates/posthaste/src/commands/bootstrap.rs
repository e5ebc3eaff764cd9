//! The first keys of an installation: read, checked, and entered into the store once.

use crate::{dice::SystemDice, failure::Failure};
use api::{
    installation_secrets::{InstallationSecrets, InstallationSecretsError},
    keys::KeyText,
};
use domain::{
    account::{Account, KeyKind},
    audit::AuditEntry,
    dice::Dice,
    id::{AccountId, ApiKeyId, AuditId},
    seal::MasterKeys,
    time::Timestamp,
};
use std::{collections::HashMap, fmt::Display, sync::Arc};
use store::{Store, StoreError};

/// What the first account is called until it is given a name.
const FIRST_ACCOUNT: &str = "Default";

pub(crate) fn master_keys(text: &str) -> Result<MasterKeys, Failure> {
    let keys =
        MasterKeys::parse(text).map_err(|error| Failure::configuration(format!("master_keys: {error}")))?;
    // A secret says by which key it is sealed: the second key of a name would never be tried.
    let mut seen = HashMap::new();
    for key in text.split(',').map(str::trim).filter(|key| !key.is_empty()) {
        let name = key.split_once(':').map_or("k1", |(name, _)| name);
        if seen.insert(name, key).is_some_and(|other| other != key) {
            return Err(Failure::configuration(format!(
                "master_keys: two different keys are called {name}; `posthaste keys master --name` gives a key another name"
            )));
        }
    }
    Ok(keys)
}

pub(crate) fn no_master_key() -> Failure {
    Failure::configuration(
        "there is no master key, and without one no secret can be kept safe.\n\
         \n\
         Make one and keep it somewhere safe:      posthaste keys master > master.key\n\
         Then start with it:                       POSTHASTE_MASTER_KEYS_FILE=master.key posthaste serve\n\
         To try Posthaste without any set-up:      posthaste serve --dev",
    )
}

pub(crate) fn secrets_failure(error: InstallationSecretsError) -> Failure {
    match error {
        InstallationSecretsError::Store(error) => error.into(),
        error @ (InstallationSecretsError::Pepper(_)
        | InstallationSecretsError::MissingMasterKey(_)
        | InstallationSecretsError::OtherMasterKey(_)) => Failure::configuration(error),
    }
}

/// A key given by the settings, refused if it is malformed or of the wrong kind.
pub(crate) fn given_key(setting: &str, kind: KeyKind, text: &str) -> Result<KeyText, Failure> {
    let key = KeyText::parse(text).ok_or_else(|| {
        Failure::configuration(format!(
            "{setting} is not a well-formed key (prefix, length or checksum are wrong): `posthaste keys generate` \
             prints one that is"
        ))
    })?;
    if key.parts().kind != kind {
        let prefix = api::keys::prefix(kind);
        return Err(Failure::configuration(format!("{setting} must be a key that begins with {prefix}")));
    }
    Ok(key)
}

/// Enters a key unless the store has it: for an account key, into the first account, which is made if need be.
/// A key that was revoked stays revoked: then it says false.
pub(crate) async fn enter(
    key: &KeyText,
    store: &Arc<dyn Store>,
    secrets: &InstallationSecrets,
) -> Result<bool, Failure> {
    let parts = key.parts();
    if let Some(known) = store.api_key_by_lookup(parts.lookup()).await? {
        if known.hash != secrets.hash(parts.secret.as_bytes()) || known.kind != parts.kind {
            let shown = api::keys::shown(known.kind, &known.lookup);
            return Err(Failure::configuration(format!(
                "the store knows another key that begins with {shown}"
            )));
        }
        if known.revoked_at.is_some() {
            tracing::warn!(key = %known.id, "the bootstrap key is revoked, and stays so");
        }
        return Ok(known.revoked_at.is_none());
    }
    let now = now(store).await?;
    let account = match parts.kind {
        KeyKind::Operator | KeyKind::Platform => None,
        KeyKind::Account | KeyKind::Ingest => Some(first_account(store, secrets, now).await?),
    };
    let id = ApiKeyId::at(now, SystemDice.bits());
    let key = key.kept(id, account, "bootstrap", secrets, now);
    match store.create_api_key(&key, &entry(now, "create_api_key", id)).await {
        // Another node was faster with the same key.
        Ok(()) | Err(StoreError::Taken { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

async fn first_account(
    store: &Arc<dyn Store>,
    secrets: &InstallationSecrets,
    now: Timestamp,
) -> Result<AccountId, Failure> {
    if let Some(account) = store.first_account().await? {
        return Ok(account.id);
    }
    let id = AccountId::at(now, SystemDice.bits());
    let data_key = secrets.master().new_data_key(id, &SystemDice);
    let account = Account::new(id, FIRST_ACCOUNT, data_key, now);
    Ok(store.create_account(&account, &entry(now, "create_account", id)).await?.id)
}

/// What the audit log is to say of what is done beside the API.
pub(crate) fn entry(now: Timestamp, action: &str, object: impl Display) -> AuditEntry {
    AuditEntry::system(AuditId::at(now, SystemDice.bits()), action, Some(object.to_string()))
}

/// The store's time: ids are made by it.
pub(crate) async fn now(store: &Arc<dyn Store>) -> Result<Timestamp, Failure> {
    Ok(store.now().await?)
}
