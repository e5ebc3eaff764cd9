//! Reading values: durations such as `10s`, sizes such as `5MiB`, lists, networks. Errors say what was expected; who
//! asked adds the name of the setting and where it was set.

use domain::{
    address::{HostPattern, parse_allow_list, parse_host_list},
    retry::{NoRetryStatus, RetrySettings, RetryStatus},
};
use ipnet::IpNet;
use std::{fmt::Display, net::SocketAddr, ops::RangeInclusive, str::FromStr, time::Duration};
use url::Url;

pub(super) type Read<T> = Result<T, String>;

pub(super) fn text(text: &str) -> Read<String> {
    if text.trim().is_empty() { Err("expected a value".into()) } else { Ok(text.trim().to_owned()) }
}

/// `127.0.0.1:8080`, `[::1]:8080`; `localhost` means IPv4.
pub(super) fn address(text: &str) -> Read<SocketAddr> {
    let text = text.trim();
    let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    numeric
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| "expected an address and a port, such as 127.0.0.1:8080".into())
}

/// An http(s) URL, without the slash at its end.
pub(super) fn web_address(text: &str) -> Read<String> {
    let url = Url::parse(text.trim()).map_err(|error| format!("not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.query().is_some() || url.fragment().is_some() {
        return Err("expected a URL such as https://hooks.example.com".into());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

pub(super) fn flag(text: &str) -> Read<bool> {
    match text.trim() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("expected true or false".into()),
    }
}

pub(super) fn number<T: FromStr + PartialOrd + Display>(text: &str, allowed: RangeInclusive<T>) -> Read<T> {
    let number = text.trim().replace('_', "").parse().ok();
    let number = number.filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("expected a whole number from {} to {}", allowed.start(), allowed.end()))
}

/// A number from 0 to 1, or a percentage.
pub(super) fn share(text: &str) -> Read<f64> {
    let text = text.trim();
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    };
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| "expected a share from 0 to 1".into())
}

/// `500ms`, `10s`, `5m`, `24h`, `7d`; a bare number is seconds.
pub(super) fn duration(text: &str, allowed: RangeInclusive<Duration>) -> Read<Duration> {
    let (number, unit) = split_unit(text);
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("expected a duration such as 500ms, 10s, 5m or 24h".into()),
    };
    let number: u64 = number.parse().map_err(|_| "expected a duration such as 500ms, 10s, 5m or 24h")?;
    let found = Duration::from_millis(number.saturating_mul(millis));
    if allowed.contains(&found) {
        Ok(found)
    } else {
        Err(format!("expected a duration from {:?} to {:?}", allowed.start(), allowed.end()))
    }
}

pub(super) fn durations(text: &str, allowed: RangeInclusive<Duration>) -> Read<Vec<Duration>> {
    let steps: Vec<_> =
        list(text).iter().map(|step| duration(step, allowed.clone())).collect::<Result<_, _>>()?;
    if steps.is_empty() { Err("expected at least one duration".into()) } else { Ok(steps) }
}

/// A duration of whole seconds, because the API speaks of seconds.
pub(super) fn seconds(text: &str, allowed: RangeInclusive<Duration>) -> Read<Duration> {
    let found = duration(text, allowed)?;
    if found.subsec_nanos() == 0 { Ok(found) } else { Err("expected whole seconds".into()) }
}

/// A list that has nothing in it, and says so.
pub(super) const NO_PARTS: &str = "[]";

/// The pauses of a schedule; none at all are one attempt.
pub(super) fn pauses(text: &str, allowed: RangeInclusive<Duration>, max: usize) -> Read<Vec<Duration>> {
    let pauses: Vec<_> =
        list(text).iter().map(|pause| seconds(pause, allowed.clone())).collect::<Result<_, _>>()?;
    match pauses.len() {
        0 if text.trim() != NO_PARTS => Err("expected pauses, or [] for one attempt and no retry".into()),
        found if found > max => Err(format!("expected at most {max} pauses")),
        _ => Ok(pauses),
    }
}

/// Codes and classes, each of which can be made retryable.
pub(super) fn retry_statuses(text: &str) -> Read<Vec<RetryStatus>> {
    let statuses: Vec<RetryStatus> = list(text)
        .iter()
        .map(|status| status.parse().map_err(|error: NoRetryStatus| error.to_string()))
        .collect::<Result<_, _>>()?;
    let settings = RetrySettings { retry_statuses: Some(statuses), ..RetrySettings::default() };
    match settings.validate().into_iter().next() {
        Some(problem) => Err(problem.detail),
        None => Ok(settings.retry_statuses.unwrap_or_default()),
    }
}

/// `512`, `64KiB`, `5MiB`, `1GiB`; kB, MB and GB are powers of a thousand.
pub(super) fn size(text: &str, allowed: RangeInclusive<usize>) -> Read<usize> {
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err("expected a size such as 512KiB or 5MiB".into()),
    };
    let number: usize = number.parse().map_err(|_| "expected a size such as 512KiB or 5MiB")?;
    let found = number.saturating_mul(factor);
    if allowed.contains(&found) {
        Ok(found)
    } else {
        Err(format!("expected a size from {} to {} bytes", allowed.start(), allowed.end()))
    }
}

pub(super) fn networks(text: &str) -> Read<Vec<IpNet>> {
    parse_allow_list(parts(text)).map_err(|error| error.to_string())
}

pub(super) fn hosts(text: &str) -> Read<Vec<HostPattern>> {
    parse_host_list(parts(text)).map_err(|error| error.to_string())
}

/// Parts between commas; nothing is an empty list.
fn parts(text: &str) -> &str {
    if text.trim() == NO_PARTS { "" } else { text }
}

fn list(text: &str) -> Vec<String> {
    parts(text).split(',').map(str::trim).filter(|part| !part.is_empty()).map(String::from).collect()
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    (number, unit.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: RangeInclusive<Duration> = Duration::ZERO..=Duration::MAX;

    #[test]
    fn durations_have_a_unit_and_bare_numbers_are_seconds() {
        let cases = [
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
            ("60", 60_000),
        ];
        for (text, millis) in cases {
            assert_eq!(duration(text, ANY), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "ten", "1.5s", "-1s", "10 lightyears"] {
            assert!(duration(text, ANY).is_err(), "{text}");
        }
        assert_eq!(durations("60,300", ANY), Ok(vec![Duration::from_secs(60), Duration::from_secs(300)]));
        assert!(durations("", ANY).is_err());
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        let cases = [("512", 512), ("64KiB", 65_536), ("5MiB", 5_242_880), ("5 MB", 5_000_000)];
        for (text, bytes) in cases {
            assert_eq!(size(text, 0..=usize::MAX), Ok(bytes), "{text}");
        }
        assert!(size("5 stone", 0..=usize::MAX).is_err());
        assert_eq!(size("6MiB", 1..=5), Err("expected a size from 1 to 5 bytes".into()));
    }

    #[test]
    fn a_url_loses_the_slash_at_its_end() {
        assert_eq!(web_address("https://hooks.example.com/"), Ok("https://hooks.example.com".into()));
        assert!(web_address("hooks.example.com").is_err());
        assert!(web_address("ftp://hooks.example.com").is_err());
    }

    #[test]
    fn switches_shares_and_addresses_are_read_as_people_write_them() {
        assert_eq!(flag("yes"), Ok(true));
        assert!(flag("maybe").is_err());
        assert_eq!(share("50%"), Ok(0.5));
        assert!(share("1.5").is_err());
        assert_eq!(address("localhost:80"), Ok(([127, 0, 0, 1], 80).into()));
        assert!(address("8080").is_err());
    }
}
