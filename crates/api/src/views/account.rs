use contract::{AccountView, DefaultsView, QuotasView, RetrySettingsView};
use domain::{account::Account, retry::RetrySettings};
use std::time::Duration;

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
        created_at: account.created_at,
        updated_at: account.updated_at,
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
