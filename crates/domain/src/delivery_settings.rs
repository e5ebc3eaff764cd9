//! How a destination is delivered to where it is not its own word alone that counts: what it leaves out its account says,
//! then the installation, then the product. Each value for itself, the members of a retry policy too.
//!
//! Nothing is copied when a destination is made: what is left out is resolved here, whenever it is needed, so that a
//! default that changes is obeyed by everybody who left it at that. A route says more on top ([`EffectiveSettings::timeout_by`],
//! [`EffectiveSettings::policy_by`]).

pub(crate) mod kept;

use crate::{
    limits,
    retry::{RetryPolicy, RetrySettings},
    route::Route,
    time::maybe_seconds,
    word::words,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What one place says; None is left to the next one. Kept with accounts and destinations: a new member has a default.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct DeliverySettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    #[serde(rename = "timeout_seconds", with = "maybe_seconds", skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    #[serde(skip_serializing_if = "RetrySettings::is_empty")]
    pub retry_policy: RetrySettings,
}

words! {
    "where a setting comes from",
    /// The strongest first.
    SettingLevel {
        Destination = "destination",
        Account = "account",
        Installation = "installation",
        /// The product's own default.
        BuiltIn = "built_in",
    }
}

/// A value, and who has said it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting<T> {
    pub value: T,
    pub from: SettingLevel,
}

/// What holds for a destination.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveSettings {
    pub max_concurrency: Setting<u32>,
    pub timeout: Setting<Duration>,
    pub schedule: Setting<Vec<Duration>>,
    pub jitter: Setting<f64>,
    pub expire_after: Setting<Duration>,
    pub retry_statuses: Setting<Vec<crate::retry::RetryStatus>>,
}

impl EffectiveSettings {
    /// Within bounds, whatever is kept: a row that no longer fits must not stop a lane.
    pub fn new(
        destination: &DeliverySettings,
        account: &DeliverySettings,
        installation: &DeliverySettings,
    ) -> Self {
        let levels = Levels { destination, account, installation };
        let built_in = RetryPolicy::default();
        let max_concurrency = levels.first(|said| said.max_concurrency, limits::MAX_CONCURRENCY_DEFAULT);
        let timeout = levels.first(|said| said.timeout, limits::TIMEOUT_DEFAULT);
        Self {
            max_concurrency: max_concurrency.map(|slots| slots.clamp(1, limits::MAX_CONCURRENCY_MAX)),
            timeout: timeout.map(within_bounds),
            schedule: levels.first(|said| said.retry_policy.schedule.clone(), built_in.schedule),
            jitter: levels.first(|said| said.retry_policy.jitter, built_in.jitter),
            expire_after: levels.first(|said| said.retry_policy.expire_after, built_in.expire_after),
            retry_statuses: levels
                .first(|said| said.retry_policy.retry_statuses.clone(), built_in.retry_statuses),
        }
    }

    pub fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy {
            schedule: self.schedule.value.clone(),
            jitter: self.jitter.value,
            expire_after: self.expire_after.value,
            retry_statuses: self.retry_statuses.value.clone(),
        }
    }

    /// The policy for what comes by this route.
    pub fn policy_by(&self, route: &Route) -> RetryPolicy {
        route.retry_policy.over(&self.retry_policy())
    }

    /// The timeout for what comes by this route.
    pub fn timeout_by(&self, route: &Route) -> Duration {
        route.timeout().map_or(self.timeout.value, within_bounds)
    }
}

fn within_bounds(timeout: Duration) -> Duration {
    timeout.clamp(limits::TIMEOUT_MIN, limits::TIMEOUT_MAX)
}

struct Levels<'a> {
    destination: &'a DeliverySettings,
    account: &'a DeliverySettings,
    installation: &'a DeliverySettings,
}

impl Levels<'_> {
    fn first<T>(&self, said: impl Fn(&DeliverySettings) -> Option<T>, built_in: T) -> Setting<T> {
        let levels = [
            (SettingLevel::Destination, self.destination),
            (SettingLevel::Account, self.account),
            (SettingLevel::Installation, self.installation),
        ];
        let mut found =
            levels.into_iter().filter_map(|(from, level)| Some(Setting { value: said(level)?, from }));
        found.next().unwrap_or(Setting { value: built_in, from: SettingLevel::BuiltIn })
    }
}

impl<T> Setting<T> {
    fn map(self, change: impl FnOnce(T) -> T) -> Self {
        Self { value: change(self.value), from: self.from }
    }
}

#[cfg(test)]
mod tests;
