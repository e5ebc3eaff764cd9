//! Changing the master key: everything that another one wraps is wrapped anew by the active one, in small steps. Where the
//! steps have come to is not kept anywhere: what is done is done, and a walk that is begun again finds the rest.
//!
//! What is wrapped are the data keys of the accounts and, last, the pepper; secrets themselves are sealed by data keys and
//! stay as they are. Only when nothing is left are the other keys forgotten: until then no node starts without them.

use crate::{
    app::App,
    auth::OperatorCtx,
    error::ApiError,
    installation_secrets::{InstallationSecrets, KNOWN_MASTER_KEY, PEPPER},
    optional_body::OptionalBody,
    problems,
};
use axum::{Json, extract::State};
use contract::{MasterKeyView, MasterKeysView, RotateMasterKey, RotationView};
use domain::{
    audit::AuditEntry,
    dice::Dice,
    id::AccountId,
    limits,
    seal::{MasterKeys, SealError, Sealed},
};
use std::collections::{BTreeMap, BTreeSet};
use store::{DataKeyChange, KeptDataKey, KeptSeals, Member, Seals, SettingChange, StoreError};

/// What is wrapped by which master key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MasterKeyUses {
    /// Data keys and the pepper, by the name of the key.
    pub by_key: BTreeMap<String, u64>,
    /// Accounts whose documents, or whose keys, do not read.
    pub unreadable: Vec<AccountId>,
    /// Names that the store knows: nothing starts without these keys.
    pub known: Vec<String>,
}

impl MasterKeyUses {
    pub async fn count(store: &(impl KeptSeals + ?Sized)) -> Result<Self, StoreError> {
        let mut uses = Self::default();
        let mut add = |name: &str| *uses.by_key.entry(name.to_owned()).or_default() += 1;
        for (name, value) in store.settings("").await? {
            if name == PEPPER
                && let Some(key) = Sealed(value).master_key()
            {
                add(key);
            } else if let Some(known) = name.strip_prefix(KNOWN_MASTER_KEY) {
                uses.known.push(known.to_owned());
            }
        }
        let mut after = None;
        loop {
            let page = store.data_keys(after, limits::PAGE_MAX).await?;
            for KeptDataKey { account_id, data_key, .. } in &page {
                match data_key.as_ref().and_then(Sealed::master_key) {
                    Some(key) => add(key),
                    None => uses.unreadable.push(*account_id),
                }
            }
            after = page.last().map(|last| last.account_id);
            if page.len() < limits::PAGE_MAX {
                return Ok(uses);
            }
        }
    }

    /// Wrapped by another key than this.
    pub fn beside(&self, active: &str) -> u64 {
        self.by_key.iter().filter(|(name, _)| *name != active).map(|(_, count)| count).sum()
    }
}

/// One step of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RotationStep {
    /// Wrapped anew in this step.
    pub rewrapped: usize,
    /// Where the next one goes on; None: at the beginning, unless all is done.
    pub next: Option<AccountId>,
    /// Everything is wrapped by the active key, and no other is needed any more.
    pub done: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum RotationError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Node(String),
    #[error("the data key of {account_id} cannot be wrapped anew: {why}")]
    DataKey { account_id: AccountId, why: SealError },
    #[error("the pepper cannot be wrapped anew: {0}")]
    Pepper(SealError),
    #[error(
        "what is kept of {count} accounts does not read, the first of them {first}: their data keys cannot be wrapped \
         anew, so the old master key is still needed; `posthaste doctor --audit` says more of them"
    )]
    Unreadable { count: usize, first: AccountId },
}

/// Every node must know the active key, or what is wrapped by it could not be opened there, and must seal by it, or what is
/// done here would be undone there.
pub fn check_nodes(active: &str, members: &[Member]) -> Result<(), RotationError> {
    for Member { record, .. } in members {
        let mut names = record.master_keys.split(',');
        let first = names.next().unwrap_or_default();
        let what = if first == active {
            continue;
        } else if first.is_empty() {
            "is of a version that does not tell its master keys: start it with this one first".to_owned()
        } else if names.any(|name| name == active) {
            format!(
                "seals by the master key `{first}`: put `{active}` first in its master_keys too, and start it again"
            )
        } else {
            format!("does not know the master key `{active}`: add it to its master_keys, and start it again")
        };
        return Err(RotationError::Node(format!(
            "nothing more was changed: the node {} {what}",
            record.label
        )));
    }
    Ok(())
}

/// Wraps anew what is found in the next part of the walk; the last step looks through everything once more.
pub async fn rotate_some(
    store: &(impl Seals + ?Sized),
    master: &MasterKeys,
    after: Option<AccountId>,
    dice: &dyn Dice,
    audit: &AuditEntry,
) -> Result<RotationStep, RotationError> {
    let page = store.data_keys(after, limits::RESEALED_AT_ONCE).await?;
    let mut changes = Vec::new();
    for KeptDataKey { account_id, data_key, .. } in &page {
        let Some(from) = data_key.clone().filter(|key| key.master_key().is_some()) else { continue };
        let anew = master.rewrap_data_key(*account_id, &from, dice);
        if let Some(to) = anew.map_err(|why| RotationError::DataKey { account_id: *account_id, why })? {
            changes.push(DataKeyChange { account_id: *account_id, from, to });
        }
    }
    let rewrapped = match changes.is_empty() {
        true => 0,
        false => store.replace_data_keys(&changes, audit).await?,
    };
    if page.len() == limits::RESEALED_AT_ONCE {
        let next = page.last().map(|last| last.account_id);
        return Ok(RotationStep { rewrapped, next, done: false });
    }
    let (done, pepper) = finish(store, master, dice, audit).await?;
    Ok(RotationStep { rewrapped: rewrapped + usize::from(pepper), next: None, done })
}

/// The pepper, and that no other key is needed any more, if no data key is wrapped by another. Whether that is so, and
/// whether the pepper was wrapped anew.
async fn finish(
    store: &(impl Seals + ?Sized),
    master: &MasterKeys,
    dice: &dyn Dice,
    audit: &AuditEntry,
) -> Result<(bool, bool), RotationError> {
    let settings = store.settings("").await?;
    let uses = MasterKeyUses::count(store).await?;
    let active = master.active();
    let pepper = settings.iter().find(|(name, _)| name == PEPPER).map(|(_, value)| Sealed(value.clone()));
    let old_pepper = pepper.filter(|pepper| pepper.master_key() != Some(active));
    if uses.beside(active) > u64::from(old_pepper.is_some()) {
        return Ok((false, false));
    }
    if let Some(first) = uses.unreadable.first() {
        return Err(RotationError::Unreadable { count: uses.unreadable.len(), first: *first });
    }
    let mut changes = Vec::new();
    if let Some(from) = &old_pepper {
        let plain = master.unwrap(PEPPER, from).map_err(RotationError::Pepper)?;
        let to = master.wrap(PEPPER, &plain, dice);
        changes.push(SettingChange { name: PEPPER.into(), from: from.0.clone(), to: Some(to.0) });
    }
    for (name, from) in settings {
        if name.strip_prefix(KNOWN_MASTER_KEY).is_some_and(|known| known != active) {
            changes.push(SettingChange { name, from, to: None });
        }
    }
    let replaced = changes.is_empty() || store.replace_settings(&changes, audit).await?;
    Ok((replaced, replaced && old_pepper.is_some()))
}

/// See which master keys are used: which one seals, which others this node knows, and how much is still sealed by each. A
/// key by which nothing is sealed may be taken out of `master_keys`. Operators only.
#[utoipa::path(
    get, path = "/v1/master-keys", operation_id = "list_master_keys", tag = "operations",
    responses((status = 200, description = "All of them, without the keys themselves.", body = MasterKeysView), problems::Asking),
)]
pub(crate) async fn list(State(app): State<App>, _: OperatorCtx) -> Result<Json<MasterKeysView>, ApiError> {
    let uses = MasterKeyUses::count(&*app.store).await?;
    Ok(Json(view(&app.secrets, &uses)))
}

fn view(secrets: &InstallationSecrets, uses: &MasterKeyUses) -> MasterKeysView {
    let master = secrets.master();
    let mut names: Vec<String> = master.names().map(str::to_owned).collect();
    let beside = uses.by_key.keys().chain(&uses.known).filter(|name| !names.contains(name));
    let beside: BTreeSet<String> = beside.cloned().collect();
    let configured = names.len();
    names.extend(beside);
    let keys = names.into_iter().enumerate().map(|(place, name)| MasterKeyView {
        active: place == 0,
        configured: place < configured,
        sealed_count: uses.by_key.get(&name).copied().unwrap_or(0),
        needed: place == 0 || uses.known.contains(&name) || uses.by_key.contains_key(&name),
        name,
    });
    MasterKeysView { keys: keys.collect(), unreadable_count: uses.unreadable.len() as u64 }
}

/// Seal by the active master key what is still sealed by another one: the next few accounts behind `after`. It is asked
/// again with the `next` of the answer, from the beginning where there is none, until it is `done`; `posthaste keys rotate`
/// does that. Deliveries go on meanwhile, and it can be broken off at any time and begun again. 409 if a node does not know
/// the active key, or seals by another. Operators only.
#[utoipa::path(
    post, path = "/v1/master-keys/rotate", operation_id = "rotate_master_key", tag = "operations",
    request_body = Option<RotateMasterKey>,
    responses((status = 200, description = "What was done.", body = RotationView), problems::RotatingKeys),
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    ctx: OperatorCtx,
    OptionalBody(body): OptionalBody<RotateMasterKey>,
) -> Result<Json<RotationView>, ApiError> {
    let master = app.secrets.master();
    check_nodes(master.active(), &app.store.roster().await?.members)?;
    let entry = ctx.entry(&app, master.active(), None);
    let step = rotate_some(&*app.store, master, body.after, &*app.dice, &entry).await?;
    let RotationStep { rewrapped, next, done } = step;
    Ok(Json(RotationView {
        master_key: master.active().to_owned(),
        resealed_count: rewrapped as u64,
        next,
        done,
    }))
}

impl From<RotationError> for ApiError {
    fn from(error: RotationError) -> Self {
        match error {
            RotationError::Store(error) => error.into(),
            error @ (RotationError::Node(_)
            | RotationError::DataKey { .. }
            | RotationError::Unreadable { .. }) => Self::not_rotated(error.to_string()),
            error @ RotationError::Pepper(_) => Self::from_bug(error),
        }
    }
}
