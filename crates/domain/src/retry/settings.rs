//! What is said of a retry policy at one place, and what it is laid over.

use super::{
    EXPIRE_AFTER_MAX, EXPIRE_AFTER_MIN, PAUSE_MAX, PAUSE_MIN, PolicyProblem, RETRY_STATUSES_MAX, RetryPolicy,
    RetryStatus, SCHEDULE_MAX_STEPS,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The members of a retry policy that somebody has set; None is left to others. Read from JSON as written; [`validate`]
/// judges it.
///
/// [`validate`]: RetrySettings::validate
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrySettings {
    #[serde(
        rename = "schedule_seconds",
        with = "maybe_list_of_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub schedule: Option<Vec<Duration>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    #[serde(
        rename = "expire_after_seconds",
        with = "crate::time::maybe_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub expire_after: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_statuses: Option<Vec<RetryStatus>>,
}

impl RetrySettings {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The policy that holds where this is said on top of `policy`.
    pub fn over(&self, policy: &RetryPolicy) -> RetryPolicy {
        let said = self.clone();
        RetryPolicy {
            schedule: said.schedule.unwrap_or_else(|| policy.schedule.clone()),
            jitter: said.jitter.unwrap_or(policy.jitter),
            expire_after: said.expire_after.unwrap_or(policy.expire_after),
            retry_statuses: said.retry_statuses.unwrap_or_else(|| policy.retry_statuses.clone()),
        }
    }

    /// All pauses together, without jitter; the API holds it against the account's retention.
    pub fn total_pause(&self) -> Duration {
        let pauses = self.schedule.iter().flatten();
        pauses.fold(Duration::ZERO, |sum, pause| sum.saturating_add(*pause))
    }

    /// Everything that is wrong with it; an empty list means it may be used.
    pub fn validate(&self) -> Vec<PolicyProblem> {
        let mut problems = Vec::new();
        let mut wrong = |pointer: String, code: &'static str, detail: String| {
            problems.push(PolicyProblem { pointer, code, detail });
        };

        let schedule = self.schedule.as_deref().unwrap_or_default();
        if schedule.len() > SCHEDULE_MAX_STEPS {
            let detail = format!("at most {SCHEDULE_MAX_STEPS} pauses, found {}", schedule.len());
            wrong("/schedule_seconds".into(), "too_many", detail);
        } else {
            for (index, pause) in schedule.iter().enumerate() {
                if !(PAUSE_MIN..=PAUSE_MAX).contains(pause) {
                    let detail = format!("a pause is 1 to {} seconds", PAUSE_MAX.as_secs());
                    wrong(format!("/schedule_seconds/{index}"), "out_of_range", detail);
                }
            }
        }
        if self.jitter.is_some_and(|jitter| !(0.0..=1.0).contains(&jitter)) {
            wrong("/jitter".into(), "out_of_range", "jitter is a number from 0 to 1".into());
        }
        if self.expire_after.is_some_and(|age| !(EXPIRE_AFTER_MIN..=EXPIRE_AFTER_MAX).contains(&age)) {
            let detail = format!("1 to {} seconds (90 days)", EXPIRE_AFTER_MAX.as_secs());
            wrong("/expire_after_seconds".into(), "out_of_range", detail);
        }
        let statuses = self.retry_statuses.as_deref().unwrap_or_default();
        if statuses.len() > RETRY_STATUSES_MAX {
            let detail = format!("at most {RETRY_STATUSES_MAX} codes and classes, found {}", statuses.len());
            wrong("/retry_statuses".into(), "too_many", detail);
        } else {
            for (index, status) in statuses.iter().enumerate() {
                let detail = match status {
                    RetryStatus::Code(429) => "429 holds the destination and spends no retry",
                    RetryStatus::Code(410) => "410 always disables the destination",
                    RetryStatus::Code(300..=499) | RetryStatus::Class(3 | 4) => continue,
                    _ => {
                        "only codes from 300 to 499, 3xx and 4xx can be made retryable; 5xx are retried anyway"
                    }
                };
                wrong(format!("/retry_statuses/{index}"), "out_of_range", detail.into());
            }
        }
        problems
    }
}

/// All that a policy says.
impl From<RetryPolicy> for RetrySettings {
    fn from(policy: RetryPolicy) -> Self {
        Self {
            schedule: Some(policy.schedule),
            jitter: Some(policy.jitter),
            expire_after: Some(policy.expire_after),
            retry_statuses: Some(policy.retry_statuses),
        }
    }
}

mod maybe_list_of_seconds {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(values: &Option<Vec<Duration>>, to: S) -> Result<S::Ok, S::Error> {
        match values {
            Some(values) => super::super::list_of_seconds::serialize(values, to),
            None => to.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Duration>>, D::Error> {
        let values = Option::<Vec<u64>>::deserialize(from)?;
        Ok(values.map(|values| values.into_iter().map(Duration::from_secs).collect()))
    }
}
