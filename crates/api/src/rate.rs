//! How fast a key, a source or an account may bring events in: a bucket for each that has a limit, in the memory of this
//! node.
//!
//! Asked before the body is read, so that a key that is too fast costs a look at a map. A batch is admitted if one event
//! would be, and pays for all of its events.
//!
//! A bucket in memory needs no round trip; behind a balancer a key may bring in as many times its limit as there are nodes.

use crate::error::ApiError;
use domain::{
    bucket::{Bucket, Left},
    limits,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;
use uuid::Uuid;

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// A limit, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RateMeter {
    /// What the headers call it.
    what: &'static str,
    id: Uuid,
    per_second: u32,
}

impl RateMeter {
    pub(crate) fn of_key(id: Uuid, per_second: Option<u32>) -> Option<Self> {
        per_second.map(|per_second| Self { what: "key", id, per_second })
    }

    pub(crate) fn of_source(id: Uuid, per_second: Option<u32>) -> Option<Self> {
        per_second.map(|per_second| Self { what: "source", id, per_second })
    }

    pub(crate) fn of_account(id: Uuid, per_second: Option<u32>) -> Option<Self> {
        per_second.map(|per_second| Self { what: "account", id, per_second })
    }
}

/// The limits an event has to keep: those of its key, of its source and of its account.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RateMeters([Option<RateMeter>; 3]);

impl RateMeters {
    pub(crate) fn new(key: Option<RateMeter>, source: Option<RateMeter>) -> Self {
        Self([key, source, None])
    }

    pub(crate) fn with_account(self, account: Option<RateMeter>) -> Self {
        let [key, source, _] = self.0;
        Self([key, source, account])
    }

    fn iter(&self) -> impl Iterator<Item = RateMeter> {
        self.0.into_iter().flatten()
    }
}

/// The buckets of the keys, sources and accounts that brought something in lately.
pub(crate) struct RateBuckets {
    started: Instant,
    buckets: Mutex<HashMap<Uuid, Bucket>>,
}

impl RateBuckets {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), buckets: Mutex::default() }
    }

    /// Admits one event, or says when to come back.
    pub(crate) fn take(&self, meters: &RateMeters) -> Result<RateStatus, ApiError> {
        self.each(meters, |bucket, meter, now| bucket.take(meter.per_second, 1, now))
    }

    /// For the further events of a batch that has been admitted.
    pub(crate) fn charge(&self, meters: &RateMeters, count: usize) -> RateStatus {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let charged = self.each(meters, |bucket, meter, now| Ok(bucket.charge(meter.per_second, count, now)));
        charged.unwrap_or_default()
    }

    fn each(
        &self,
        meters: &RateMeters,
        take: impl Fn(&mut Bucket, RateMeter, Duration) -> Result<Left, Duration>,
    ) -> Result<RateStatus, ApiError> {
        let mut rate_status = RateStatus::default();
        if meters.iter().next().is_none() {
            return Ok(rate_status);
        }
        let now = self.started.elapsed();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        for (shown, meter) in rate_status.0.iter_mut().zip(meters.iter()) {
            make_room(&mut buckets, &meter.id, now);
            let bucket = buckets.entry(meter.id).or_default();
            let left = take(bucket, meter, now);
            *shown = Some((meter, left.unwrap_or_else(|_| bucket.left(meter.per_second, now))));
            if let Err(wait) = left {
                return Err(refuse(meter, wait).with_rate(rate_status));
            }
        }
        Ok(rate_status)
    }
}

/// A full bucket is as good as none. If none is full, those that will be soonest go: they have the least to forget.
fn make_room(buckets: &mut HashMap<Uuid, Bucket>, newcomer: &Uuid, now: Duration) {
    if buckets.len() < limits::BUCKETS || buckets.contains_key(newcomer) {
        return;
    }
    buckets.retain(|_, bucket| !bucket.is_full(now));
    let mut soon = Duration::from_millis(100);
    while buckets.len() >= limits::BUCKETS {
        buckets.retain(|_, bucket| !bucket.is_full(now + soon));
        soon *= 2;
    }
}

fn refuse(meter: RateMeter, wait: Duration) -> ApiError {
    let seconds = whole_seconds(wait).clamp(1, limits::RETRY_AFTER_TOLD_MAX_SECONDS);
    let RateMeter { what, per_second, .. } = meter;
    ApiError::rate_limited(format!("this {what} may bring in {per_second} events a second"))
        .retry_after(seconds)
}

pub(crate) fn whole_seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// What the caller is told about its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RateStatus([Option<(RateMeter, Left)>; 3]);

impl RateStatus {
    /// The fields of the IETF's draft: the limit for each second, what is left of it, and when all of it is back.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        let list = |item: fn(&RateMeter, &Left) -> String| {
            self.0.iter().flatten().map(|(meter, left)| item(meter, left)).collect::<Vec<_>>().join(", ")
        };
        if self.0.iter().all(Option::is_none) {
            return;
        }
        let policy = list(|meter, _| format!("\"{}\";q={};w=1", meter.what, meter.per_second));
        let left = list(|meter, left| {
            format!("\"{}\";r={};t={}", meter.what, left.tokens, whole_seconds(left.full_in))
        });
        for (name, value) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, left)] {
            headers.insert(name, HeaderValue::try_from(value).expect("words and numbers"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    fn key(id: u128, per_second: u32) -> Option<RateMeter> {
        RateMeter::of_key(Uuid::from_u128(id), Some(per_second))
    }

    fn shown(rate_status: RateStatus) -> (String, String) {
        let mut headers = HeaderMap::new();
        rate_status.write(&mut headers);
        let text = |name: HeaderName| headers[name].to_str().unwrap().to_owned();
        (text(RATE_LIMIT_POLICY), text(RATE_LIMIT))
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_too_fast_is_told_when_to_come_back_and_no_other_is() {
        let rates = RateBuckets::new();
        let (fast, other) = (RateMeters::new(key(1, 2), None), RateMeters::new(key(2, 2), None));
        for _ in 0..2 {
            rates.take(&fast).unwrap();
        }
        assert_eq!(rates.take(&fast).unwrap_err().code(), Code::RateLimited);
        rates.take(&other).unwrap();
        tokio::time::advance(Duration::from_millis(500)).await;
        rates.take(&fast).unwrap();
        assert!(rates.take(&fast).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_counts_beside_its_key() {
        let rates = RateBuckets::new();
        let source = RateMeter::of_source(Uuid::from_u128(9), Some(1));
        let both = RateMeters::new(key(1, 10), source);
        let (policy, left) = shown(rates.take(&both).unwrap());
        assert_eq!(policy, "\"key\";q=10;w=1, \"source\";q=1;w=1");
        assert_eq!(left, "\"key\";r=9;t=1, \"source\";r=0;t=1");
        assert!(rates.take(&both).is_err());
        assert!(rates.take(&RateMeters::default()).is_ok(), "no limit is no limit");
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_counts_beside_its_keys_and_sources() {
        let rates = RateBuckets::new();
        let account = RateMeter::of_account(Uuid::from_u128(7), Some(2));
        let by_key = RateMeters::new(key(1, 10), None).with_account(account);
        let by_source = RateMeters::new(None, None).with_account(account);
        rates.take(&by_key).unwrap();
        let (policy, left) = shown(rates.take(&by_source).unwrap());
        assert_eq!((policy.as_str(), left.as_str()), ("\"account\";q=2;w=1", "\"account\";r=0;t=1"));
        assert_eq!(rates.take(&by_key).unwrap_err().code(), Code::RateLimited);
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_pays_for_all_of_its_events() {
        let rates = RateBuckets::new();
        let meters = RateMeters::new(key(1, 10), None);
        rates.take(&meters).unwrap();
        let (_, left) = shown(rates.charge(&meters, 99));
        assert_eq!(left, "\"key\";r=0;t=10");
        tokio::time::advance(Duration::from_millis(9_000)).await;
        assert!(rates.take(&meters).is_err());
        tokio::time::advance(Duration::from_millis(100)).await;
        assert!(rates.take(&meters).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_never_more_buckets_than_there_may_be() {
        let rates = RateBuckets::new();
        let limit = limits::BUCKETS as u128;
        for id in 0..limit {
            rates.charge(&RateMeters::new(key(id, 1), None), 1 + usize::from(id % 2 == 0));
        }
        rates.charge(&RateMeters::new(key(limit, 1), None), 1);
        let buckets = rates.buckets.lock().unwrap();
        assert!(buckets.len() <= limits::BUCKETS);
        let deep_in_debt = |id: u128| buckets.contains_key(&Uuid::from_u128(id));
        assert!(deep_in_debt(0) && deep_in_debt(2) && !deep_in_debt(1), "what owes most is kept longest");
    }
}
