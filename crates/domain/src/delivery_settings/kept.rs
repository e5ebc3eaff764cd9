//! How settings stand in the documents of destinations and routes.
//!
//! Versions before ours kept every value, also one that was left out, and read nothing else. So the members they know are
//! written as they know them, with the product's defaults where nothing was said and a class of statuses as its codes; what
//! was really said stands beside them (`own`, `own_retry_policy`). A document without that is one of theirs: all it has
//! counts as said.

use super::DeliverySettings;
use crate::{
    limits,
    retry::{RetryPolicy, RetrySettings, RetryStatus},
    time::seconds,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct OfDestination {
    max_concurrency: u32,
    #[serde(rename = "timeout_seconds", with = "seconds")]
    timeout: Duration,
    retry_policy: RetryPolicy,
    #[serde(default)]
    own: Option<DeliverySettings>,
}

/// For `#[serde(flatten, with = "of_destination")]`.
pub(crate) mod of_destination {
    use super::*;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(said: &DeliverySettings, to: S) -> Result<S::Ok, S::Error> {
        let kept = OfDestination {
            max_concurrency: said.max_concurrency.unwrap_or(limits::MAX_CONCURRENCY_DEFAULT),
            timeout: said.timeout.unwrap_or(limits::TIMEOUT_DEFAULT),
            retry_policy: as_before(&said.retry_policy),
            own: Some(said.clone()),
        };
        kept.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DeliverySettings, D::Error> {
        let kept = OfDestination::deserialize(from)?;
        Ok(kept.own.unwrap_or_else(|| DeliverySettings {
            max_concurrency: Some(kept.max_concurrency),
            timeout: Some(kept.timeout),
            retry_policy: kept.retry_policy.into(),
        }))
    }
}

#[derive(Serialize, Deserialize)]
struct OfRoute {
    retry_policy: Option<RetryPolicy>,
    #[serde(default, skip_serializing_if = "RetrySettings::is_empty")]
    own_retry_policy: RetrySettings,
}

/// For `#[serde(flatten, with = "of_route")]`.
pub(crate) mod of_route {
    use super::*;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(said: &RetrySettings, to: S) -> Result<S::Ok, S::Error> {
        let retry_policy = (!said.is_empty()).then(|| as_before(said));
        OfRoute { retry_policy, own_retry_policy: said.clone() }.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RetrySettings, D::Error> {
        let OfRoute { retry_policy, own_retry_policy } = OfRoute::deserialize(from)?;
        let before = || retry_policy.map(RetrySettings::from).unwrap_or_default();
        Ok(if own_retry_policy.is_empty() { before() } else { own_retry_policy })
    }
}

/// With every member, and without classes.
fn as_before(said: &RetrySettings) -> RetryPolicy {
    let policy = said.over(&RetryPolicy::default());
    let codes = policy.retry_statuses.iter().flat_map(|status| status.codes()).map(RetryStatus::Code);
    RetryPolicy { retry_statuses: codes.collect(), ..policy }
}
