//! When to try again: a policy's schedule of pauses, and what a destination says by `Retry-After`.
//!
//! A policy is made of what a route, its destination, their account and the installation have set of it
//! (`delivery_settings.rs`). It knows pauses and the last age; whether an outcome is worth a retry at all is `outcome.rs`,
//! and how a whole destination is held back is the lane's affair.

mod settings;
mod status;

pub use settings::RetrySettings;
pub use status::{NoRetryStatus, RetryStatus};

use std::time::{Duration, UNIX_EPOCH};

use crate::limits;
use serde::{Deserialize, Serialize};

/// Attempts are one more than the steps.
pub const SCHEDULE_MAX_STEPS: usize = 20;
pub const PAUSE_MIN: Duration = Duration::from_secs(1);
pub const PAUSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
pub const EXPIRE_AFTER_MIN: Duration = Duration::from_secs(1);
pub const EXPIRE_AFTER_MAX: Duration = Duration::from_secs(90 * 24 * 60 * 60);
pub const RETRY_STATUSES_MAX: usize = 32;

/// How often and for how long a delivery is tried, with every member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// The pause before each retry; empty means one attempt.
    #[serde(rename = "schedule_seconds", with = "list_of_seconds")]
    pub schedule: Vec<Duration>,
    /// The part of a pause that chance may add or take away, 0 to 1.
    pub jitter: f64,
    /// The age at which a delivery is given up, whatever the schedule has left.
    #[serde(rename = "expire_after_seconds", with = "crate::time::seconds")]
    pub expire_after: Duration,
    /// Answers from 300 to 499 that are worth a retry here although they usually are final.
    pub retry_statuses: Vec<RetryStatus>,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            schedule: [30, 120, 600, 3_600, 21_600].map(Duration::from_secs).to_vec(),
            jitter: 0.2,
            expire_after: Duration::from_secs(72 * 60 * 60),
            retry_statuses: Vec::new(),
        }
    }
}

impl RetryPolicy {
    /// Whether this answer is worth a retry although it usually is final.
    pub fn retries(&self, status: u16) -> bool {
        self.retry_statuses.iter().any(|retried| retried.covers(status))
    }

    /// The pause before the next retry, or `None` when the schedule is spent.
    /// `jitter` is a number from 0 to 1: 0.5 gives the pause as written, 0 the shortest, 1 the longest.
    pub fn pause_after(&self, retries_spent: u32, jitter: f64) -> Option<Duration> {
        let pause = *self.schedule.get(usize::try_from(retries_spent).ok()?)?;
        let part = |number: f64| if number.is_nan() { 0.0 } else { number.clamp(0.0, 1.0) };
        let seconds = pause.as_secs_f64() * (1.0 + part(self.jitter) * (2.0 * part(jitter) - 1.0));
        Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

/// One thing wrong with a policy: where (a JSON pointer below the policy), a stable word, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    pub pointer: String,
    pub code: &'static str,
    pub detail: String,
}

/// How long the destination asks us to wait, by all the `Retry-After` lines of one answer.
///
/// Seconds or an HTTP date, brought into [1 s, 24 h]; a date gone by is a second. Anything else (negative, a
/// fraction, words, nothing, two lines that differ) is not an answer, and the caller falls back on its own schedule.
pub fn parse_retry_after(values: &[&str], now_unix_seconds: i64) -> Option<Duration> {
    let (first, others) = values.split_first()?;
    let value = first.trim();
    if others.iter().any(|other| other.trim() != value) {
        return None;
    }
    let seconds = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        value.parse::<u64>().unwrap_or(u64::MAX) // only digits, so the one error left is "too many of them"
    } else {
        let date = httpdate::parse_http_date(value).ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let ahead = i128::from(date) - i128::from(now_unix_seconds);
        u64::try_from(ahead.max(0)).unwrap_or(u64::MAX)
    };
    Some(Duration::from_secs(seconds).clamp(limits::RETRY_AFTER_MIN, limits::RETRY_AFTER_MAX))
}

mod list_of_seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(values: &[Duration], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(values.iter().map(Duration::as_secs))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Duration>, D::Error> {
        Ok(Vec::<u64>::deserialize(input)?.into_iter().map(Duration::from_secs).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const DAY: Duration = PAUSE_MAX;

    #[test]
    fn the_default_is_the_one_in_the_contract() {
        let json = r#"{"schedule_seconds":[30,120,600,3600,21600],"jitter":0.2,"expire_after_seconds":259200,"retry_statuses":[]}"#;
        assert_eq!(serde_json::to_string(&RetryPolicy::default()).unwrap(), json);
        assert_eq!(serde_json::from_str::<RetryPolicy>(json).unwrap(), RetryPolicy::default());
        assert_eq!(serde_json::from_str::<RetryPolicy>("{}").unwrap(), RetryPolicy::default());
        assert_eq!(RetrySettings::from(RetryPolicy::default()).validate(), []);
        assert_eq!(RetrySettings::default().validate(), []);
    }

    #[test]
    fn unknown_members_and_wrong_types_are_refused() {
        for json in [r#"{"schedule":[1]}"#, r#"{"schedule_seconds":[-1]}"#, r#"{"expire_after_seconds":1.5}"#]
        {
            assert!(serde_json::from_str::<RetryPolicy>(json).is_err(), "{json}");
            assert!(serde_json::from_str::<RetrySettings>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn the_pauses_follow_the_schedule_and_then_end() {
        let policy = RetryPolicy::default();
        let pauses: Vec<_> = (0..).map_while(|spent| policy.pause_after(spent, 0.5)).collect();
        assert_eq!(pauses, policy.schedule);
        assert_eq!(policy.pause_after(5, 0.5), None);
        assert_eq!(policy.pause_after(u32::MAX, 0.5), None);
        assert_eq!(RetryPolicy { schedule: vec![], ..policy }.pause_after(0, 0.5), None);
    }

    #[test]
    fn jitter_is_a_fifth_both_ways() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.pause_after(0, 0.0), Some(Duration::from_secs(24)));
        assert_eq!(policy.pause_after(0, 1.0), Some(Duration::from_secs(36)));
        assert_eq!(RetrySettings::from(policy).total_pause(), Duration::from_secs(25_950));
    }

    #[test]
    fn validation_names_every_problem_and_its_place() {
        let policy = RetryPolicy {
            schedule: vec![SECOND, Duration::ZERO, DAY, DAY + SECOND],
            jitter: 1.5,
            expire_after: Duration::from_secs(90 * 86_400 + 1),
            retry_statuses: [404, 429, 410, 500, 299, 300, 499]
                .map(RetryStatus::Code)
                .into_iter()
                .chain([3, 4, 5, 2].map(RetryStatus::Class))
                .collect(),
        };
        let places: Vec<_> = RetrySettings::from(policy).validate().into_iter().map(|p| p.pointer).collect();
        assert_eq!(
            places,
            [
                "/schedule_seconds/1",
                "/schedule_seconds/3",
                "/jitter",
                "/expire_after_seconds",
                "/retry_statuses/1",
                "/retry_statuses/2",
                "/retry_statuses/3",
                "/retry_statuses/4",
                "/retry_statuses/9",
                "/retry_statuses/10",
            ]
        );
    }

    #[test]
    fn lists_that_are_too_long_are_one_problem_each() {
        let policy = RetryPolicy {
            schedule: vec![Duration::ZERO; 21],
            jitter: f64::NAN,
            expire_after: Duration::ZERO,
            retry_statuses: vec![RetryStatus::Code(200); 33],
        };
        let found: Vec<_> =
            RetrySettings::from(policy).validate().into_iter().map(|p| (p.pointer, p.code)).collect();
        let expected = [
            ("/schedule_seconds", "too_many"),
            ("/jitter", "out_of_range"),
            ("/expire_after_seconds", "out_of_range"),
            ("/retry_statuses", "too_many"),
        ];
        assert_eq!(found, expected.map(|(pointer, code)| (pointer.to_string(), code)));
        let widest = RetryPolicy {
            schedule: vec![DAY; 20],
            jitter: 1.0,
            expire_after: EXPIRE_AFTER_MAX,
            retry_statuses: vec![RetryStatus::Code(404); 32],
        };
        assert_eq!(RetrySettings::from(widest).validate(), []);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_within_bounds() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = 784_111_777;
        let check = |values: &[&str], expected: Option<u64>| {
            assert_eq!(parse_retry_after(values, now), expected.map(Duration::from_secs), "{values:?}");
        };
        check(&["2"], Some(2));
        check(&[" 120 "], Some(120));
        check(&["0"], Some(1));
        check(&["1000000000000"], Some(86_400));
        check(&["99999999999999999999999999"], Some(86_400));
        check(&["Sun, 06 Nov 1994 08:49:39 GMT"], Some(2));
        check(&["Sunday, 06-Nov-94 08:49:39 GMT"], Some(2));
        check(&["Sun Nov  6 08:49:39 1994"], Some(2));
        check(&["Sun, 06 Nov 1994 08:49:37 GMT"], Some(1));
        check(&["Sat, 05 Nov 1994 08:49:37 GMT"], Some(1));
        check(&["Fri, 31 Dec 9999 23:59:59 GMT"], Some(86_400));
        check(&["5", "5"], Some(5));
        for garbage in [
            &[][..],
            &[""],
            &[" "],
            &["-5"],
            &["+5"],
            &["abc"],
            &["1.5"],
            &["1e3"],
            &["5", "6"],
            &["5, 6"],
            &["٣"],
        ] {
            check(garbage, None);
        }
    }

    proptest! {
        #[test]
        fn a_pause_stays_within_its_jitter(seconds in 1u64..=86_400, spread in 0.0..=1.0f64, chance in 0.0..=1.0f64) {
            let policy = RetryPolicy { schedule: vec![Duration::from_secs(seconds)], jitter: spread, ..RetryPolicy::default() };
            let pause = policy.pause_after(0, chance).unwrap().as_secs_f64();
            let base = seconds as f64;
            prop_assert!(pause >= base * (1.0 - spread) - 1e-6 && pause <= base * (1.0 + spread) + 1e-6);
        }

        #[test]
        fn no_policy_however_wrong_makes_it_panic(seconds in any::<u64>(), spread in any::<f64>(), chance in any::<f64>()) {
            let schedule = vec![Duration::from_secs(seconds); 2];
            let policy = RetryPolicy { schedule, jitter: spread, ..RetryPolicy::default() };
            prop_assert!(policy.pause_after(1, chance).is_some());
            let settings = RetrySettings::from(policy);
            settings.validate();
            settings.total_pause();
        }

        #[test]
        fn no_retry_after_makes_it_panic_or_leave_its_bounds(text in "\\PC{0,40}", now in any::<i64>()) {
            if let Some(pause) = parse_retry_after(&[&text], now) {
                prop_assert!((PAUSE_MIN..=PAUSE_MAX).contains(&pause));
            }
        }
    }
}
