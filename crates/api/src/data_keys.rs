//! Changing the data keys of accounts: each gets a new one, its secrets are sealed by that one, and when every node has done
//! with the old one it is forgotten. Where this has come to is seen by the keys themselves: an account that has two is in the
//! middle of it. So it can be broken off anywhere, and whoever begins again ends it.
//!
//! Payloads and answers that an account has encrypted are not sealed anew: an older key stays until all events of its time are
//! forgotten, and a new one may be made meanwhile.

use crate::{
    app::App, auth::OperatorCtx, error::ApiError, master_keys::check_nodes, optional_body::OptionalBody,
    problems,
};
use axum::{Json, extract::State};
use contract::{DataKeyRotationView, RotateDataKeys};
use domain::{
    audit::AuditEntry,
    dice::Dice,
    id::{AccountId, EventId},
    limits,
    seal::{DataKey, MasterKeys, SealError, Sealed},
    time::Timestamp,
};
use std::time::Duration;
use store::{DataKeyChange, KeptDataKey, ResealedRow, Seals, StoreError};

/// What is asked of a step.
#[derive(Debug, Clone, Copy)]
pub struct DataKeyPlan {
    pub now: Timestamp,
    pub after: Option<AccountId>,
    /// Accounts whose key is at least this old get a new one; None: none does.
    pub older_than: Option<Duration>,
}

/// What a step has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataKeyStep {
    pub begun: usize,
    pub resealed: usize,
    pub ended: usize,
    /// Accounts that have two keys still.
    pub waiting: usize,
    /// Accounts that have older keys since events of their time are still there.
    pub kept: usize,
    /// When the last of them can be ended.
    pub wait: Duration,
    /// Rows with something sealed that does not open, and rows that do not read.
    pub unreadable: usize,
    pub next: Option<AccountId>,
}

/// What is done, and with what.
pub struct DataKeyRotation<'a, S: Seals + ?Sized> {
    pub store: &'a S,
    pub master: &'a MasterKeys,
    pub dice: &'a dyn Dice,
    /// What the audit log is told of an account.
    pub entry: &'a (dyn Fn(AccountId) -> AuditEntry + Sync),
}

#[derive(Debug, thiserror::Error)]
pub enum DataKeyRotationError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the data key of {account_id} does not open: {why}")]
    DataKey { account_id: AccountId, why: SealError },
}

impl<S: Seals + ?Sized> DataKeyRotation<'_, S> {
    /// The next few accounts.
    pub async fn step(&self, plan: &DataKeyPlan) -> Result<DataKeyStep, DataKeyRotationError> {
        let page = self.store.data_keys(plan.after, limits::DATA_KEYS_ROTATED_AT_ONCE).await?;
        let mut step = DataKeyStep::default();
        for kept in &page {
            // What is kept of the account does not read: none of its secrets can be opened either.
            let Some(wrapped) = &kept.data_key else { continue };
            match self.account(plan, kept, wrapped.clone(), &mut step).await {
                // It was deleted meanwhile, and its keys with it.
                Err(DataKeyRotationError::Store(StoreError::NotFound { .. })) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        if page.len() == limits::DATA_KEYS_ROTATED_AT_ONCE {
            step.next = page.last().map(|last| last.account_id);
        }
        Ok(step)
    }

    async fn account(
        &self,
        plan: &DataKeyPlan,
        kept: &KeptDataKey,
        wrapped: Sealed,
        step: &mut DataKeyStep,
    ) -> Result<(), DataKeyRotationError> {
        let account_id = kept.account_id;
        let failed = |why| DataKeyRotationError::DataKey { account_id, why };
        let key = self.master.data_key(account_id, &wrapped).map_err(failed)?;
        let age = plan.now.since(key.newest_made_at());
        let is_due = plan.older_than.is_some_and(|least| age >= least);
        if key.has_older() {
            let is_whole = self.reseal(account_id, &key, step).await?;
            if !self.has_settled(is_whole, age, step) {
                return Ok(());
            }
            let since = self.still_sealed_since(kept, plan.now).await?;
            let left = self.master.without_data_keys_before(account_id, &wrapped, since, self.dice);
            if let Some(left) = left.map_err(failed)? {
                match self.replace(account_id, wrapped, &left).await? {
                    true => step.ended += 1,
                    false => step.waiting += 1,
                }
                step.kept +=
                    usize::from(self.master.data_key(account_id, &left).map_err(failed)?.has_older());
                return Ok(());
            }
            if !is_due || key.count() >= limits::DATA_KEYS_KEPT {
                step.kept += 1;
                return Ok(());
            }
        } else if !is_due {
            return Ok(());
        }
        let with_new = self.master.with_new_data_key(account_id, &wrapped, plan.now, self.dice);
        let with_new = with_new.map_err(failed)?;
        if !self.replace(account_id, wrapped, &with_new).await? {
            // Somebody else is at it.
            step.waiting += 1;
            return Ok(());
        }
        step.begun += 1;
        let key = self.master.data_key(account_id, &with_new).map_err(failed)?;
        let is_whole = self.reseal(account_id, &key, step).await?;
        // It was made just now: what a node that knew the old key alone has written by then is found by the next walk.
        self.has_settled(is_whole, plan.now.since(key.newest_made_at()), step);
        Ok(())
    }

    /// Whether no node seals by an older key any more, and no secret is sealed by one.
    fn has_settled(&self, is_whole: bool, age: Duration, step: &mut DataKeyStep) -> bool {
        if is_whole && age >= limits::DATA_KEY_SETTLED {
            return true;
        }
        step.waiting += 1;
        step.wait = step.wait.max(limits::DATA_KEY_SETTLED.saturating_sub(age));
        false
    }

    /// Nothing that is still there was sealed before this. What is kept of an event is never older than the event, and a node
    /// may have sealed by an older key for a moment after there was a newer one.
    async fn still_sealed_since(&self, kept: &KeptDataKey, now: Timestamp) -> Result<Timestamp, StoreError> {
        let oldest = match kept.seals_events {
            true => self.store.oldest_event_of(kept.account_id).await?.map(EventId::made_at),
            false => None,
        };
        Ok(oldest.map_or(now, |made_at| made_at.min(now)).minus(limits::DATA_KEY_SETTLED))
    }

    async fn replace(
        &self,
        account_id: AccountId,
        from: Sealed,
        to: &Sealed,
    ) -> Result<bool, DataKeyRotationError> {
        let change = DataKeyChange { account_id, from, to: to.clone() };
        Ok(self.store.replace_data_keys(&[change], &(self.entry)(account_id)).await? == 1)
    }

    /// Whether everything of the account is sealed by its newest key now.
    async fn reseal(
        &self,
        account_id: AccountId,
        key: &DataKey,
        step: &mut DataKeyStep,
    ) -> Result<bool, DataKeyRotationError> {
        let (mut after, mut is_whole) = (None, true);
        loop {
            let page = self.store.sealed_rows(account_id, after, limits::RESEALED_AT_ONCE).await?;
            let mut rows = Vec::new();
            for row in &page {
                let replaced = row.sealed.as_ref().and_then(|sealed| self.resealed(key, sealed));
                match replaced {
                    Some(replaced) if replaced.is_empty() => {}
                    Some(replaced) => rows.push(ResealedRow { id: row.id, version: row.version, replaced }),
                    None => {
                        step.unreadable += 1;
                        is_whole = false;
                    }
                }
            }
            if !rows.is_empty() {
                let resealed = self.store.reseal_rows(account_id, &rows, &(self.entry)(account_id)).await?;
                step.resealed += resealed;
                // One that was changed meanwhile is found by the next walk.
                is_whole &= resealed == rows.len();
            }
            after = page.last().map(|row| row.id);
            if page.len() < limits::RESEALED_AT_ONCE {
                return Ok(is_whole);
            }
        }
    }

    /// None: something of it does not open.
    fn resealed(&self, key: &DataKey, sealed: &[(String, Sealed)]) -> Option<Vec<(Sealed, Sealed)>> {
        let mut replaced = Vec::new();
        for (place, from) in sealed {
            if let Some(to) = key.reseal(place, from, self.dice).ok()? {
                replaced.push((from.clone(), to));
            }
        }
        Some(replaced)
    }
}

/// Give accounts new data keys, and seal their secrets by them: the next few accounts behind `after`. It is asked again with
/// the `next` of the answer; when there is none, and accounts still have both keys, once more from the beginning after
/// `wait_seconds`: then what was sealed by the old key meanwhile is found too, and the old one is forgotten.
/// `posthaste keys rotate --data-keys` does all that. Deliveries go on meanwhile, and it can be broken off at any time and
/// begun again. 409 if a node is of a version that does not read such keys. Operators only.
#[utoipa::path(
    post, path = "/v1/data-keys/rotate", operation_id = "rotate_data_keys", tag = "operations",
    request_body = Option<RotateDataKeys>,
    responses((status = 200, description = "What was done.", body = DataKeyRotationView), problems::RotatingKeys),
)]
pub(crate) async fn rotate(
    State(app): State<App>,
    ctx: OperatorCtx,
    OptionalBody(body): OptionalBody<RotateDataKeys>,
) -> Result<Json<DataKeyRotationView>, ApiError> {
    let master = app.secrets.master();
    check_nodes(master.active(), &app.store.roster().await?.members)?;
    let entry = |account: AccountId| ctx.entry(&app, account, None);
    let rotation = DataKeyRotation { store: &*app.store, master, dice: &*app.dice, entry: &entry };
    let older_than = body.older_than_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let plan = DataKeyPlan { now: app.now(), after: body.after, older_than };
    Ok(Json(view(rotation.step(&plan).await?)))
}

fn view(step: DataKeyStep) -> DataKeyRotationView {
    let DataKeyStep { begun, resealed, ended, waiting, kept, wait, unreadable, next } = step;
    DataKeyRotationView {
        begun_count: begun as u64,
        resealed_count: resealed as u64,
        ended_count: ended as u64,
        waiting_count: waiting as u64,
        kept_count: kept as u64,
        wait_seconds: wait.as_secs() + u64::from(wait.subsec_nanos() > 0),
        unreadable_count: unreadable as u64,
        next,
    }
}

impl From<DataKeyRotationError> for ApiError {
    fn from(error: DataKeyRotationError) -> Self {
        match error {
            DataKeyRotationError::Store(error) => error.into(),
            error @ DataKeyRotationError::DataKey { .. } => Self::not_rotated(error.to_string()),
        }
    }
}
