//! Documents as earlier versions have kept them: each must still be read. A new member needs `#[serde(default)]`, because
//! a destination that does not read ends its deliveries as undeliverable. Texts are only added here, never changed.

use crate::{
    account::Account,
    delivery_settings::{DeliverySettings, EffectiveSettings, SettingLevel},
    destination::Destination,
    route::Route,
    source::Source,
};
use serde::de::DeserializeOwned;

const ACCOUNTS: &[&str] = &[
    r#"{"id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":null,"name":"first","retention_days":90,
    "data_key":"AQAEljYiqLFyL6MBROXKKihd95MP+OFo/732nkx68fME3z8+bJAMlW2NAKXyeSEdCjdEtjJL3aAcLqe8lg==",
    "created_at":"2026-11-17T23:06:32.398609Z","updated_at":"2026-11-17T23:06:32.398609Z"}"#,
    r#"{"id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":"customer-7","name":"first","retention_days":90,
    "defaults":{"max_concurrency":5},"defaults_version":3,
    "data_key":"AQAEljYiqLFyL6MBROXKKihd95MP+OFo/732nkx68fME3z8+bJAMlW2NAKXyeSEdCjdEtjJL3aAcLqe8lg==",
    "created_at":"2026-11-17T23:06:32.398609Z","updated_at":"2026-11-17T23:06:32.398609Z"}"#,
];

const SOURCES: &[&str] = &[
    r#"{"id":"src_01m7nw64jef6ztsz9tc4qs69wn","account_id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":"in-1","name":"in",
    "enabled":true,"token":"AQAEljYiqLFyL6MBROXKKihd95MP+OFo/732nkx68fME3z8+bJAMlW2NAKXyeSEdCjdEtjJL3aAcLqe8lg==",
    "verification":{"type":"none"},"rate_limit":100,"created_at":"2026-11-17T23:06:32.398609Z",
    "updated_at":"2026-11-17T23:06:32.398609Z"}"#,
    r#"{"id":"src_01m7nw64jef6ztsz9tc4qs69wn","account_id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":"in-2","name":"in",
    "enabled":true,"token":"AQAEljYiqLFyL6MBROXKKihd95MP+OFo/732nkx68fME3z8+bJAMlW2NAKXyeSEdCjdEtjJL3aAcLqe8lg==",
    "verification":{"type":"hmac","secrets":["AQNnRSTbPKFXyPsp12wWFgw5nQUyi4lCTZb/i6a6"],"hmac":{"header":"x-signature",
    "prefix":"","encoding":"hex","algorithm":"sha256","timestamp_header":null,"id_header":"x-id","signed_content":null},
    "tolerance_seconds":60,"allowed_addresses":["192.0.2.0/24"]},"rate_limit":null,
    "created_at":"2026-11-18T20:00:00.000000Z","updated_at":"2026-11-18T20:00:00.000000Z"}"#,
];

const DESTINATIONS: &[&str] = &[
    r#"{"id":"dst_01m7nw64k7e8msq77c4j2xymj9","account_id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":"billing-1",
    "name":"billing","url":"http://127.0.0.1:9/hook","max_concurrency":7,"timeout_seconds":20,
    "rate_limit":{"requests":10,"per_seconds":1},"ordering":"key","on_dead_letter":"pause",
    "retry_policy":{"schedule_seconds":[30,60],"jitter":0.1,"expire_after_seconds":3600,"retry_statuses":[409]},
    "headers":[["x-a","b"]],"forward_headers":["x-request-id"],
    "auth":{"type":"basic","username":"u","password":"AQNnRSTbPKFXyPsp12wWFgw5nQUyi4lCTZb/i6a6"},
    "signing":{"scheme":"standard","ed25519":false,"svix_headers":false},
    "secret":{"current":"AcxSis3I9aCcFxNCgaDu2Pqn6ujwlKgV4UWVqkUsAuukKQpnUenlL6Y9kJkyou14B1iQ1UPxmbdyFZ7B4voO7B4oWDtegsFq",
    "previous":{"secret":"AT6aVsigafM7Cg/jI8hrGA7h90vwsmkTRGDWfoJYFta5f/f129lkB1W5YGczsAdL9kY0Vd2cdqQyhTjxuzdr2Y5A",
    "until":"2026-11-18T23:06:32.472561Z"}},"created_at":"2026-11-17T23:06:32.423135Z",
    "updated_at":"2026-11-17T23:06:32.473905Z"}"#,
    r#"{"id":"dst_01m7nw64k7e8msq77c4j2xymj9","account_id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":null,"name":"n",
    "url":"https://example.com/hook","max_concurrency":7,"timeout_seconds":20,"rate_limit":null,"ordering":"none","sequence":false,
    "on_dead_letter":"continue","retry_policy":{"schedule_seconds":[30,60],"jitter":0.1,"expire_after_seconds":3600,
    "retry_statuses":[409]},"headers":[],"forward_headers":[],
    "auth":{"type":"oauth2","token_url":"https://auth.example.com/token","client_id":"me","client_secret":"AQNnRSTbPKFXyPsp",
    "scope":"a b","audience":null,"client_auth":"client_secret_post","params":[["resource","AQNnRSTbPKFXyPsp"]]},
    "signing":{"scheme":"standard","ed25519":false,"svix_headers":false},
    "secret":{"current":"AcxSis3I9aCcFxNCgaDu2Pqn6ujwlKgV4UWVqkUsAuukKQpnUenlL6Y9kJkyou14B1iQ1UPxmbdyFZ7B4voO7B4oWDtegsFq",
    "previous":null},"created_at":"2026-11-19T04:00:00.000000Z","updated_at":"2026-11-19T04:00:00.000000Z"}"#,
    r#"{"id":"dst_01m7nw64k7e8msq77c4j2xymj9","account_id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":null,"name":"n",
    "url":"https://example.com/hook","max_concurrency":7,"timeout_seconds":20,"rate_limit":null,"ordering":"none","sequence":false,
    "on_dead_letter":"continue","retry_policy":{"schedule_seconds":[30,60],"jitter":0.1,"expire_after_seconds":3600,
    "retry_statuses":[409]},"headers":[],"forward_headers":[],
    "auth":{"type":"mtls","certificate":"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n","private_key":"AQNnRSTbPKFXyPsp",
    "subject":"CN=billing","expires_at":"2036-11-19T04:00:00.000000Z"},
    "signing":{"scheme":"standard","ed25519":false,"svix_headers":false},
    "secret":{"current":"AcxSis3I9aCcFxNCgaDu2Pqn6ujwlKgV4UWVqkUsAuukKQpnUenlL6Y9kJkyou14B1iQ1UPxmbdyFZ7B4voO7B4oWDtegsFq",
    "previous":null},"created_at":"2026-11-19T04:00:00.000000Z","updated_at":"2026-11-19T04:00:00.000000Z"}"#,
    r#"{"id":"dst_01m7nw64k7e8msq77c4j2xymj9","account_id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":null,"name":"n",
    "url":"https://example.com/hook","max_concurrency":7,"timeout_seconds":20,"rate_limit":null,"ordering":"none","sequence":false,
    "on_dead_letter":"continue","retry_policy":{"schedule_seconds":[30,60],"jitter":0.1,"expire_after_seconds":3600,
    "retry_statuses":[409]},"headers":[],"forward_headers":[],
    "auth":{"type":"aws_sigv4","access_key_id":"AKIDEXAMPLE","secret_access_key":"AQNnRSTbPKFXyPsp","session_token":null,
    "region":"eu-central-1","service":"lambda"},
    "signing":{"scheme":"standard","ed25519":false,"svix_headers":false},
    "secret":{"current":"AcxSis3I9aCcFxNCgaDu2Pqn6ujwlKgV4UWVqkUsAuukKQpnUenlL6Y9kJkyou14B1iQ1UPxmbdyFZ7B4voO7B4oWDtegsFq",
    "previous":null},"created_at":"2026-11-19T04:00:00.000000Z","updated_at":"2026-11-19T04:00:00.000000Z"}"#,
];

/// Whoever seals everything anew asks a row for what it has sealed: what it does not name would be lost with the old key.
#[test]
fn every_sealed_value_of_a_document_is_named() {
    use crate::{
        destination::{KeptKeyPair, PreviousKeyPair},
        seal::Sealed,
        time::Timestamp,
    };
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use serde_json::Value;

    fn is_sealed(text: &str) -> bool {
        STANDARD.decode(text).is_ok_and(|bytes| bytes.len() >= 12 && bytes[0] == 1)
    }
    fn left(value: &Value) -> Vec<String> {
        match value {
            Value::String(text) if is_sealed(text) => vec![text.clone()],
            Value::Array(all) => all.iter().flat_map(left).collect(),
            Value::Object(all) => all.values().flat_map(left).collect(),
            _ => Vec::new(),
        }
    }
    let mut destinations: Vec<Destination> =
        DESTINATIONS.iter().map(|document| serde_json::from_str(document).unwrap()).collect();
    let sealed = destinations[0].secret.current.clone();
    let pair = KeptKeyPair { private: sealed, public: "whpk_x".into() };
    destinations[0].secret.key_pair = Some(pair.clone());
    destinations[0].secret.previous_key_pair =
        Some(PreviousKeyPair { pair, until: Timestamp::from_micros(9) });
    for mut destination in destinations {
        assert!(!left(&serde_json::to_value(&destination).unwrap()).is_empty());
        destination.sealed_mut().into_iter().for_each(|(_, sealed)| *sealed = Sealed(Vec::new()));
        assert_eq!(left(&serde_json::to_value(&destination).unwrap()), [""; 0]);
    }
    for document in SOURCES {
        let mut source: Source = serde_json::from_str(document).unwrap();
        source.sealed_mut().into_iter().for_each(|(_, sealed)| *sealed = Sealed(Vec::new()));
        assert_eq!(left(&serde_json::to_value(&source).unwrap()), [""; 0]);
    }
}

/// How SQL tells whether a destination without order numbers its deliveries: by this text.
#[test]
fn a_destination_that_numbers_is_found_by_its_text() {
    let mut destination: Destination = serde_json::from_str(DESTINATIONS[0]).expect("a destination");
    assert!(!destination.sequence, "which is how it was before");
    destination.sequence = true;
    destination.headers = vec![("x".into(), "\"sequence\":true".into())];
    let text = serde_json::to_string(&destination).expect("a document");
    assert_eq!(text.matches("\"sequence\":true").count(), 1);
}

const ROUTES: &[&str] = &[
    r#"{"id":"rte_01m7nw64p8eb2ssea91sbr79mr","account_id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":"r-1","name":"r",
    "enabled":true,"source_id":"src_01m7nw64jef6ztsz9tc4qs69wn","destination_id":"dst_01m7nw64k7e8msq77c4j2xymj9",
    "event_types":["invoice.*","payment.**"],"filter":{"data":{"amount":{"$gte":100}}},
    "retry_policy":{"schedule_seconds":[5],"jitter":0.2,"expire_after_seconds":3600,"retry_statuses":[]},
    "timeout_seconds":9,"signing":null,"created_at":"2026-11-17T23:06:32.423135Z",
    "updated_at":"2026-11-17T23:06:32.473905Z"}"#,
    r#"{"id":"rte_01m7nw64p8eb2ssea91sbr79mr","account_id":"acc_01m7nw5qz4e008jvqnpgtax9gq","uid":null,"name":null,
    "enabled":true,"source_id":null,"destination_id":"dst_01m7nw64k7e8msq77c4j2xymj9","event_types":["*"],
    "filter":{"data":{"amount":{"$eq":{"$ref":"total"}}}},"retry_policy":null,"timeout_seconds":null,"signing":null,
    "created_at":"2026-11-17T23:06:32.423135Z","updated_at":"2026-11-17T23:06:32.473905Z"}"#,
];

#[test]
fn what_earlier_versions_have_kept_is_still_read() {
    fn read_all<T: DeserializeOwned>(documents: &[&str]) {
        for document in documents {
            serde_json::from_str::<T>(document).unwrap_or_else(|error| panic!("{error}: {document}"));
        }
    }
    read_all::<Account>(ACCOUNTS);
    read_all::<Source>(SOURCES);
    read_all::<Destination>(DESTINATIONS);
    read_all::<Route>(ROUTES);
}

#[test]
fn values_that_earlier_versions_have_kept_count_as_said() {
    let destination: Destination = serde_json::from_str(DESTINATIONS[0]).unwrap();
    let nothing = DeliverySettings::default();
    let found = EffectiveSettings::new(&destination.settings, &nothing, &nothing);
    assert_eq!((found.max_concurrency.value, found.timeout.value.as_secs()), (7, 20));
    assert_eq!(found.retry_policy().jitter, 0.1);
    assert!(found.retry_policy().retries(409));
    let levels =
        [found.max_concurrency.from, found.timeout.from, found.schedule.from, found.retry_statuses.from];
    assert_eq!(levels, [SettingLevel::Destination; 4]);

    let route: Route = serde_json::from_str(ROUTES[0]).unwrap();
    assert_eq!(found.policy_by(&route).jitter, 0.2);
    let silent: Route = serde_json::from_str(ROUTES[1]).unwrap();
    assert!(silent.retry_policy.is_empty());
}
