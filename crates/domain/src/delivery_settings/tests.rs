//! Who is heard first, and what stays in the documents.

use super::*;
use crate::{
    destination::Destination,
    id::{AccountId, DestinationId, RouteId},
    retry::RetryStatus,
    time::Timestamp,
};
use serde_json::{Value, json};

const SECOND: Duration = Duration::from_secs(1);
const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

fn said(json: Value) -> DeliverySettings {
    serde_json::from_value(json).unwrap()
}

#[test]
fn without_a_word_the_products_defaults_hold() {
    let nothing = DeliverySettings::default();
    let found = EffectiveSettings::new(&nothing, &nothing, &nothing);
    assert_eq!(found.retry_policy(), RetryPolicy::default());
    let max_concurrency = Setting { value: limits::MAX_CONCURRENCY_DEFAULT, from: SettingLevel::BuiltIn };
    assert_eq!(found.max_concurrency, max_concurrency);
    assert_eq!(found.timeout, Setting { value: limits::TIMEOUT_DEFAULT, from: SettingLevel::BuiltIn });
    assert_eq!(found.retry_statuses.from, SettingLevel::BuiltIn);
}

#[test]
fn each_value_is_the_nearest_word_for_itself() {
    let destination = said(json!({ "max_concurrency": 1, "retry_policy": { "schedule_seconds": [] } }));
    let account =
        said(json!({ "max_concurrency": 2, "timeout_seconds": 2, "retry_policy": { "jitter": 0.0 } }));
    let installation = said(json!({
        "max_concurrency": 3, "timeout_seconds": 3,
        "retry_policy": { "schedule_seconds": [3], "jitter": 0.3, "retry_statuses": ["4xx"] },
    }));
    let found = EffectiveSettings::new(&destination, &account, &installation);
    assert_eq!(found.max_concurrency, Setting { value: 1, from: SettingLevel::Destination });
    assert_eq!(found.timeout, Setting { value: 2 * SECOND, from: SettingLevel::Account });
    assert_eq!(found.schedule, Setting { value: vec![], from: SettingLevel::Destination });
    assert_eq!(found.jitter, Setting { value: 0.0, from: SettingLevel::Account });
    let statuses = Setting { value: vec![RetryStatus::Class(4)], from: SettingLevel::Installation };
    assert_eq!(found.retry_statuses, statuses);
    assert_eq!(found.expire_after.from, SettingLevel::BuiltIn);
}

#[test]
fn a_route_counts_before_them_all_with_what_it_says() {
    let destination = said(json!({ "timeout_seconds": 7, "retry_policy": { "jitter": 0.5 } }));
    let nothing = DeliverySettings::default();
    let found = EffectiveSettings::new(&destination, &nothing, &nothing);
    let mut route = Route::new(RouteId::MIN, AccountId::MIN, DestinationId::MIN, NOW);
    assert_eq!((found.policy_by(&route), found.timeout_by(&route)), (found.retry_policy(), 7 * SECOND));
    route.timeout_seconds = Some(3);
    route.retry_policy.schedule = Some(vec![SECOND]);
    assert_eq!(found.timeout_by(&route), 3 * SECOND);
    assert_eq!(found.policy_by(&route), RetryPolicy { schedule: vec![SECOND], ..found.retry_policy() });
    assert_eq!(found.policy_by(&route).jitter, 0.5);
}

#[test]
fn what_is_kept_is_brought_within_bounds() {
    let wild = said(json!({ "max_concurrency": 0, "timeout_seconds": 86_400 }));
    let nothing = DeliverySettings::default();
    let found = EffectiveSettings::new(&nothing, &wild, &nothing);
    assert_eq!((found.max_concurrency.value, found.timeout.value), (1, limits::TIMEOUT_MAX));
}

fn kept(settings: DeliverySettings) -> (Value, Destination) {
    let id = DestinationId::at(NOW, 1);
    let blank = Destination::new(id, AccountId::at(NOW, 2), "a", "https://example.com/", NOW);
    let document = serde_json::to_value(Destination { settings, ..blank }).unwrap();
    let read = serde_json::from_value(document.clone()).unwrap();
    (document, read)
}

#[test]
fn a_destination_keeps_what_was_said_and_no_copy_of_a_default() {
    let own = said(json!({ "timeout_seconds": 3, "retry_policy": { "retry_statuses": ["4xx", 307] } }));
    let (document, read) = kept(own.clone());
    assert_eq!(read.settings, own);
    assert_eq!(document["own"], serde_json::to_value(&own).unwrap());
    assert_eq!(kept(DeliverySettings::default()).1.settings, DeliverySettings::default());
}

/// As the version before ours read them.
#[derive(Deserialize)]
struct Before {
    max_concurrency: u32,
    timeout_seconds: u64,
    retry_policy: PolicyBefore,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyBefore {
    schedule_seconds: Vec<u64>,
    jitter: f64,
    expire_after_seconds: u64,
    retry_statuses: Vec<u16>,
}

#[test]
fn the_version_before_reads_what_this_one_keeps() {
    let own = said(json!({ "timeout_seconds": 3, "retry_policy": { "retry_statuses": ["4xx", 307] } }));
    let before: Before = serde_json::from_value(kept(own).0).unwrap();
    assert_eq!((before.max_concurrency, before.timeout_seconds), (limits::MAX_CONCURRENCY_DEFAULT, 3));
    let PolicyBefore { schedule_seconds, jitter, expire_after_seconds, retry_statuses } = before.retry_policy;
    assert_eq!((schedule_seconds.len(), jitter, expire_after_seconds), (5, 0.2, 259_200));
    assert_eq!((retry_statuses.len(), retry_statuses.contains(&404)), (101, true));

    let mut route = Route::new(RouteId::MIN, AccountId::MIN, DestinationId::MIN, NOW);
    let nothing = serde_json::to_value(&route).unwrap();
    assert_eq!(nothing["retry_policy"], Value::Null);
    route.retry_policy.schedule = Some(vec![SECOND]);
    let document = serde_json::to_value(&route).unwrap();
    let before: PolicyBefore = serde_json::from_value(document["retry_policy"].clone()).unwrap();
    assert_eq!(before.schedule_seconds, [1]);
    assert_eq!(serde_json::from_value::<Route>(document).unwrap().retry_policy, route.retry_policy);
}
