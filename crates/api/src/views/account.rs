use contract::{AccountView, DefaultsView, ErasureView, QuotasView, RetrySettingsView};
use domain::{account::Account, retry::RetrySettings, seal::Sealed};
use std::time::Duration;
use store::Erasure;

pub(crate) fn account(account: &Account) -> AccountView {
    AccountView {
        id: account.id,
        uid: account.uid.clone(),
        name: account.name.clone(),
        retention_days: account.retention_days,
        defaults: DefaultsView {
            max_concurrency: account.defaults.max_concurrency,
            timeout_seconds: account.defaults.timeout.map(|timeout| timeout.as_secs()),
            retry_policy: retry_settings(&account.defaults.retry_policy),
        },
        rate_limit: account.rate_limit,
        quotas: QuotasView {
            destinations: account.quotas.destinations,
            routes: account.quotas.routes,
            backlog_rows: account.quotas.backlog_rows,
            backlog_bytes: account.quotas.backlog_bytes,
        },
        encrypt_payloads: account.encrypt_payloads,
        created_at: account.created_at,
        updated_at: account.updated_at,
        erasure: None,
    }
}

/// What is left of an account that was deleted.
pub(crate) fn erased_account(erasure: &Erasure) -> AccountView {
    let created_at = erasure.account_id.made_at();
    let left = Account::new(erasure.account_id, "", Sealed::default(), created_at);
    let shown = ErasureView {
        requested_at: erasure.requested_at,
        phase: erasure.finished_at.is_none().then_some(erasure.phase),
        erased_rows: erasure.erased_rows,
        finished_at: erasure.finished_at,
    };
    AccountView {
        retention_days: 0,
        updated_at: erasure.requested_at,
        erasure: Some(shown),
        ..account(&left)
    }
}

/// Null where nothing is said.
pub(super) fn retry_settings(said: &RetrySettings) -> Option<RetrySettingsView> {
    let seconds = |pauses: &Vec<Duration>| pauses.iter().map(Duration::as_secs).collect();
    (!said.is_empty()).then(|| RetrySettingsView {
        schedule_seconds: said.schedule.as_ref().map(seconds),
        jitter: said.jitter,
        expire_after_seconds: said.expire_after.map(|age| age.as_secs()),
        retry_statuses: said.retry_statuses.clone(),
    })
}
