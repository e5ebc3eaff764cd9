//! Checks of bodies: everything that is wrong with a body is found at once and said with its place.

use crate::error::{ApiError, FieldError};
use domain::{address::network, delivery_settings::DeliverySettings, id, limits, retry::RetrySettings};
use std::{borrow::Cow, collections::BTreeSet, fmt::Display, ops::RangeInclusive, time::Duration};

/// Collects what is wrong; [`Checks::done`] turns it into one answer.
#[derive(Debug, Default)]
pub(crate) struct Checks(Vec<FieldError>);

impl Checks {
    pub(crate) fn refuse(
        &mut self,
        pointer: impl Into<String>,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) {
        self.0.push(FieldError::new(pointer, code, detail));
    }

    pub(crate) fn done(self) -> Result<(), ApiError> {
        if self.0.is_empty() { Ok(()) } else { Err(ApiError::invalid(self.0)) }
    }

    pub(crate) fn name(&mut self, pointer: &str, name: &str) {
        let printable = !name.chars().any(char::is_control);
        if name.trim().is_empty() || name.chars().count() > limits::NAME_CHARS || !printable {
            let detail =
                format!("a name has 1 to {} characters and no control characters", limits::NAME_CHARS);
            self.refuse(pointer, "invalid_name", detail);
        }
    }

    pub(crate) fn uid(&mut self, uid: Option<&str>, current: Option<&str>) {
        if uid.is_some_and(|uid| !is_uid(uid)) {
            let detail = format!("a uid has 1 to {} of A-Z a-z 0-9 . _ -", limits::UID_BYTES);
            self.refuse("/uid", "invalid_uid", detail);
        }
        if uid != current && uid.is_some_and(id::looks_like_id) {
            self.refuse("/uid", "invalid_uid", "it has the form of an id of ours; choose another");
        }
    }

    pub(crate) fn range<T: PartialOrd + Display>(
        &mut self,
        pointer: &str,
        value: T,
        range: RangeInclusive<T>,
    ) {
        if !range.contains(&value) {
            self.refuse(pointer, "out_of_range", format!("{} to {}", range.start(), range.end()));
        }
    }

    /// Events a second of a key, a source or an account.
    pub(crate) fn rate_limit(&mut self, per_second: Option<u32>) {
        if let Some(per_second) = per_second {
            self.range("/rate_limit", per_second, 1..=limits::RATE_LIMIT_MAX);
        }
    }

    /// Addresses and networks that a key or a source is used from.
    pub(crate) fn networks(&mut self, pointer: &str, networks: &[String]) {
        if networks.len() > limits::ALLOWED_ADDRESSES {
            self.refuse(pointer, "too_many", format!("at most {}", limits::ALLOWED_ADDRESSES));
        }
        for (place, text) in networks.iter().enumerate().take(limits::ALLOWED_ADDRESSES) {
            if network(text).is_none() {
                let detail = "an address or a network, such as 192.0.2.0/24";
                self.refuse(format!("{pointer}/{place}"), "invalid_value", detail);
            }
        }
    }

    pub(crate) fn timeout(&mut self, pointer: &str, seconds: u64) {
        self.range(pointer, seconds, 1..=limits::TIMEOUT_MAX.as_secs());
    }

    /// How often a filter of a list is repeated.
    pub(crate) fn filter_values(&mut self, pointer: &str, count: usize) {
        if count > limits::FILTER_VALUES {
            self.refuse(pointer, "too_many", format!("at most {} values", limits::FILTER_VALUES));
        }
    }

    /// What a destination says of its deliveries, or its account for all that say nothing; `current` is what it replaces.
    pub(crate) fn delivery_settings(
        &mut self,
        pointer: &str,
        settings: &DeliverySettings,
        current: Option<&DeliverySettings>,
        retention_days: u32,
    ) {
        if let Some(slots) = settings.max_concurrency {
            self.range(&format!("{pointer}/max_concurrency"), slots, 1..=limits::MAX_CONCURRENCY_MAX);
        }
        if let Some(timeout) = settings.timeout {
            self.timeout(&format!("{pointer}/timeout_seconds"), timeout.as_secs());
        }
        let current = current.map(|current| &current.retry_policy);
        self.retry_policy(
            &format!("{pointer}/retry_policy"),
            &settings.retry_policy,
            current,
            retention_days,
        );
    }

    /// A schedule that outlives what we keep could never be looked up. `current` is the policy it replaces: an account
    /// that has come to keep less does not keep its destinations and routes from being renamed.
    pub(crate) fn retry_policy(
        &mut self,
        pointer: &str,
        policy: &RetrySettings,
        current: Option<&RetrySettings>,
        retention_days: u32,
    ) {
        for problem in policy.validate() {
            self.refuse(format!("{pointer}{}", problem.pointer), problem.code, problem.detail);
        }
        let retention = Duration::from_secs(u64::from(retention_days) * 24 * 3600);
        let as_it_was = current.is_some_and(|current| current.schedule == policy.schedule);
        if !as_it_was && policy.total_pause() > retention {
            let detail =
                format!("all pauses together exceed the account's retention of {retention_days} days");
            self.refuse(format!("{pointer}/schedule_seconds"), "out_of_range", detail);
        }
    }

    /// Headers that are sent with every request, in the clear; gives them with their names in lower case.
    pub(crate) fn headers<'h>(
        &mut self,
        pointer: &str,
        headers: impl IntoIterator<Item = (&'h String, &'h String)>,
    ) -> Vec<(String, String)> {
        let mut kept = Vec::new();
        let mut seen = BTreeSet::new();
        for (name, value) in headers {
            let place = format!("{pointer}/{}", escaped(name));
            if self.header_name(&place, name, CREDENTIALS) && !seen.insert(name.to_ascii_lowercase()) {
                self.refuse(&place, "duplicate", "header names are the same in any case");
            }
            self.header_value(&place, value, limits::CUSTOM_HEADER_VALUE_BYTES);
            kept.push((name.to_ascii_lowercase(), value.clone()));
        }
        if kept.len() > limits::CUSTOM_HEADERS {
            self.refuse(pointer, "too_many", format!("at most {} headers", limits::CUSTOM_HEADERS));
        }
        kept
    }

    /// Names of inbound headers that are passed on; gives them in lower case.
    pub(crate) fn forward_headers(&mut self, pointer: &str, names: &[String]) -> Vec<String> {
        let mut kept: Vec<String> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let place = format!("{pointer}/{index}");
            let lower = name.to_ascii_lowercase();
            if self.header_name(&place, name, CREDENTIALS) && kept.contains(&lower) {
                self.refuse(&place, "duplicate", "header names are the same in any case");
            }
            kept.push(lower);
        }
        if kept.len() > limits::CUSTOM_HEADERS {
            self.refuse(pointer, "too_many", format!("at most {} headers", limits::CUSTOM_HEADERS));
        }
        kept
    }

    /// `barred` comes on top of the names that are ours in any case. Says whether it may be used.
    pub(crate) fn header_name(&mut self, pointer: &str, name: &str, barred: &[&str]) -> bool {
        let lower = name.to_ascii_lowercase();
        let well_formed =
            name.len() <= limits::CUSTOM_HEADER_NAME_BYTES && http::HeaderName::try_from(name).is_ok();
        if !well_formed {
            let detail =
                format!("a header name has 1 to {} token characters", limits::CUSTOM_HEADER_NAME_BYTES);
            self.refuse(pointer, "invalid_header_name", detail);
        } else if is_reserved(&lower) {
            self.refuse(
                pointer,
                "reserved_header",
                format!("`{lower}` is set by Posthaste or by HTTP itself"),
            );
        } else if barred.contains(&lower.as_str()) {
            let detail = format!("`{lower}` is a credential: set it by `auth`, where it is kept as a secret");
            self.refuse(pointer, "reserved_header", detail);
        } else {
            return true;
        }
        false
    }

    pub(crate) fn header_value(&mut self, pointer: &str, value: &str, max_bytes: usize) {
        let visible = value.bytes().all(|byte| matches!(byte, b' '..=b'~')) && value.trim() == value;
        if !visible || value.len() > max_bytes {
            let detail = format!("a header value has at most {max_bytes} visible ASCII characters");
            self.refuse(pointer, "invalid_header_value", detail);
        }
    }
}

/// Whether it could be a uid. An id could, and is refused where one is given.
pub(crate) fn is_uid(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    // Clients take `.` and `..` out of a path before they send it.
    (1..=limits::UID_BYTES).contains(&text.len()) && text.bytes().all(allowed) && !matches!(text, "." | "..")
}

/// Names that are credentials wherever they occur.
pub(crate) const CREDENTIALS: &[&str] = &["authorization", "cookie"];

/// Ours, or HTTP's own: a destination's setting cannot replace them.
fn is_reserved(lower: &str) -> bool {
    const NAMES: [&str; 18] = [
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "traceparent",
        "tracestate",
        "upgrade",
        "user-agent",
        "via",
        "forwarded",
        "http2-settings",
    ];
    const FAMILIES: [&str; 4] = ["webhook-", "posthaste-", "svix-", "proxy-"];
    NAMES.contains(&lower) || FAMILIES.iter().any(|family| lower.starts_with(family))
}

/// A member's name as a part of a JSON pointer (RFC 6901).
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(checks: &Checks) -> Vec<(&str, &str)> {
        checks.0.iter().map(|error| (error.pointer.as_str(), error.code.as_ref())).collect()
    }

    fn check_header(name: &str, value: &str, expected: &[&str]) {
        let mut checks = Checks::default();
        checks.headers("/headers", [(&name.to_owned(), &value.to_owned())]);
        let found: Vec<_> = codes(&checks).into_iter().map(|(_, code)| code).collect();
        assert_eq!(found, expected, "{name}: {value}");
    }

    #[test]
    fn custom_headers_are_plain_and_not_ours() {
        check_header("X-Team", "fulfillment", &[]);
        check_header("X-Team", "", &[]);
        check_header("Webhook-Id", "1", &["reserved_header"]);
        check_header("posthaste-anything", "1", &["reserved_header"]);
        check_header("Content-Length", "1", &["reserved_header"]);
        check_header("Authorization", "Bearer x", &["reserved_header"]);
        check_header("x team", "1", &["invalid_header_name"]);
        check_header("", "1", &["invalid_header_name"]);
        check_header(&"x".repeat(65), "1", &["invalid_header_name"]);
        check_header("x-team", "a\r\nb: c", &["invalid_header_value"]);
        check_header("x-team", "ü", &["invalid_header_value"]);
        check_header("x-team", &"v".repeat(1025), &["invalid_header_value"]);
    }

    #[test]
    fn a_header_given_in_two_cases_is_given_twice() {
        let mut checks = Checks::default();
        let headers = [("X-A".to_owned(), "1".to_owned()), ("x-a".to_owned(), "2".to_owned())];
        checks.headers("/headers", headers.iter().map(|(name, value)| (name, value)));
        assert_eq!(codes(&checks), [("/headers/x-a", "duplicate")]);
    }

    #[test]
    fn twenty_headers_are_enough() {
        let mut checks = Checks::default();
        let names: Vec<_> = (0..21).map(|n| format!("x-{n}")).collect();
        checks.forward_headers("/forward_headers", &names);
        assert_eq!(codes(&checks), [("/forward_headers", "too_many")]);
    }

    #[test]
    fn a_schedule_fits_into_the_retention() {
        let mut checks = Checks::default();
        let schedule = Some(vec![Duration::from_secs(86_400); 2]);
        let policy = RetrySettings { schedule, ..RetrySettings::default() };
        checks.retry_policy("/retry_policy", &policy, None, 2);
        assert_eq!(codes(&checks), []);
        checks.retry_policy("/retry_policy", &policy, None, 1);
        assert_eq!(codes(&checks), [("/retry_policy/schedule_seconds", "out_of_range")]);
    }

    #[test]
    fn names_and_uids_are_bounded() {
        let mut checks = Checks::default();
        checks.name("/name", "Order Fulfillment Service");
        checks.uid(Some("order-1"), None);
        checks.uid(None, None);
        let id = "dst_01h455vb4pex5vsknk084sn02q";
        checks.uid(Some(id), Some(id));
        assert_eq!(codes(&checks), []);
        checks.name("/name", "  ");
        checks.name("/name", &"n".repeat(limits::NAME_CHARS + 1));
        checks.uid(Some("a b"), None);
        checks.uid(Some(""), None);
        checks.uid(Some(id), Some("order-1"));
        assert_eq!(checks.0.len(), 5);
    }
}
