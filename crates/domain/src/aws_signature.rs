//! AWS Signature Version 4 over a request: what services of AWS, and others that took it over, ask of whoever calls them.
//!
//! What is signed is made of the request as it is sent: its path and query are taken from the URL that is called, and the
//! payload's hash is of the bytes that follow. Two things differ by service. S3 takes a path as it is; all others take
//! it without empty and dotted segments, and encoded once more.

use crate::time::Timestamp;
use aws_lc_rs::{digest, hmac};
use std::fmt::{self, Write as _};
use zeroize::Zeroizing;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The end of every scope, and of every chain of keys.
const TERMINATOR: &str = "aws4_request";
/// The one whose paths are not encoded twice.
const S3: &str = "s3";

/// Who signs, and for which service in which region.
pub struct AwsSigner {
    pub access_key_id: String,
    pub secret_access_key: Zeroizing<String>,
    pub region: String,
    pub service: String,
}

/// A request as far as it is signed.
#[derive(Debug, Clone, Copy)]
pub struct RequestToSign<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Without its question mark.
    pub query: &'a str,
    /// Those that are signed, `host` and `x-amz-date` among them; names in lower case.
    pub headers: &'a [(&'a str, &'a str)],
    /// As [`payload_hash`] says it.
    pub payload_hash: &'a str,
    pub at: Timestamp,
}

impl fmt::Debug for AwsSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsSigner").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

impl AwsSigner {
    /// The value of `authorization`.
    pub fn authorization(&self, request: &RequestToSign<'_>) -> String {
        let headers = canonical_headers(request.headers);
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let date = amz_date(request.at);
        let day = &date[..8];
        let scope = format!("{day}/{}/{}/{TERMINATOR}", self.region, self.service);
        let canonical = self.canonical_request(request, &headers, &names);
        let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{}", payload_hash(canonical.as_bytes()));
        let signature = hex(mac(&self.key(day), &to_sign).as_ref());
        let id = &self.access_key_id;
        format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={names}, Signature={signature}")
    }

    fn canonical_request(
        &self,
        request: &RequestToSign<'_>,
        headers: &[(&str, String)],
        names: &str,
    ) -> String {
        let mut text = format!("{}\n{}\n", request.method, canonical_path(request.path, &self.service));
        text.push_str(&canonical_query(request.query));
        text.push('\n');
        for (name, value) in headers {
            let _ = writeln!(text, "{name}:{value}");
        }
        let _ = write!(text, "\n{names}\n{}", request.payload_hash);
        text
    }

    /// Of one day, region and service.
    fn key(&self, day: &str) -> hmac::Tag {
        let first = Zeroizing::new(format!("AWS4{}", self.secret_access_key.as_str()));
        let first = hmac::Key::new(hmac::HMAC_SHA256, first.as_bytes());
        [self.region.as_str(), self.service.as_str(), TERMINATOR]
            .into_iter()
            .fold(hmac::sign(&first, day.as_bytes()), |key, part| mac(&key, part))
    }
}

/// `x-amz-content-sha256`: of what is sent.
pub fn payload_hash(payload: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, payload).as_ref())
}

/// `x-amz-date`, to the second.
pub fn amz_date(at: Timestamp) -> String {
    let at = at.clamp(Timestamp::MIN, Timestamp::MAX);
    let time = jiff::Timestamp::from_second(at.seconds()).expect("a time between these two can be printed");
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn mac(key: &hmac::Tag, text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()), text.as_bytes())
}

/// By name; of one that stands there twice the values in their order, with a comma between them.
fn canonical_headers<'a>(headers: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
    let mut sorted = headers.to_vec();
    sorted.sort_by_key(|(name, _)| *name);
    let mut found: Vec<(&str, String)> = Vec::with_capacity(sorted.len());
    for (name, value) in sorted {
        let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        match found.last_mut() {
            Some((last, values)) if *last == name => {
                values.push(',');
                values.push_str(&value);
            }
            _ => found.push((name, value)),
        }
    }
    found
}

fn canonical_path(path: &str, service: &str) -> String {
    if service == S3 {
        return encoded(&decoded(path), b"/");
    }
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                kept.pop();
            }
            segment => kept.push(segment),
        }
    }
    let end = if path.ends_with('/') && !kept.is_empty() { "/" } else { "" };
    encoded(format!("/{}{end}", kept.join("/")).as_bytes(), b"/")
}

/// Decoded and encoded again, so that it is the same however it was written.
fn canonical_query(query: &str) -> String {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (encoded(&decoded(name), b""), encoded(&decoded(value), b""))
    };
    let mut pairs: Vec<_> = query.split('&').filter(|text| !text.is_empty()).map(pair).collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// What RFC 3986 calls unreserved stays as it is, and what is named here.
fn encoded(bytes: &[u8], also: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || also.contains(byte) {
            text.push(char::from(*byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &after[2..] } else { after };
    }
    bytes
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    /// A request that was signed elsewhere: by AWS, as it has published it, or by its library for Python. See scripts/aws-vectors.
    #[derive(Deserialize)]
    struct Vector {
        name: String,
        access_key_id: String,
        secret_access_key: String,
        region: String,
        service: String,
        method: String,
        path: String,
        query: String,
        headers: Vec<(String, String)>,
        payload: String,
        at: i64,
        authorization: String,
    }

    fn vectors() -> Vec<Vector> {
        serde_json::from_str(include_str!("aws_signature/vectors.json"))
            .expect("as scripts/aws-vectors writes it")
    }

    fn signed(vector: &Vector, change: impl FnOnce(&mut RequestToSign<'_>)) -> String {
        let signer = AwsSigner {
            access_key_id: vector.access_key_id.clone(),
            secret_access_key: Zeroizing::new(vector.secret_access_key.clone()),
            region: vector.region.clone(),
            service: vector.service.clone(),
        };
        let headers: Vec<(&str, &str)> =
            vector.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let hash = payload_hash(vector.payload.as_bytes());
        let mut request = RequestToSign {
            method: &vector.method,
            path: &vector.path,
            query: &vector.query,
            headers: &headers,
            payload_hash: &hash,
            at: Timestamp::from_seconds(vector.at),
        };
        change(&mut request);
        signer.authorization(&request)
    }

    #[test]
    fn what_was_signed_elsewhere_is_signed_alike() {
        let vectors = vectors();
        assert!(vectors.len() >= 20, "{}", vectors.len());
        for vector in vectors {
            assert_eq!(signed(&vector, |_| {}), vector.authorization, "{}", vector.name);
        }
    }

    #[test]
    fn whatever_is_altered_alters_the_signature() {
        let vectors = vectors();
        let vector = vectors.iter().find(|it| it.name == "lambda-url-post").expect("it is there");
        let changes: [fn(&mut RequestToSign<'_>); 6] = [
            |it| it.method = "PUT",
            |it| it.path = "/other",
            |it| it.query = "a=b",
            |it| it.payload_hash = "00",
            |it| it.at = it.at.plus(std::time::Duration::from_secs(1)),
            |it| it.headers = &it.headers[1..],
        ];
        for (place, change) in changes.into_iter().enumerate() {
            assert_ne!(signed(vector, change), vector.authorization, "{place}");
        }
    }

    #[test]
    fn a_query_is_the_same_however_it_was_written() {
        assert_eq!(canonical_query("b=2&a=x%3Ay&&a=x:%2b&c"), "a=x%3A%2B&a=x%3Ay&b=2&c=");
        assert_eq!(canonical_query(""), "");
        assert_eq!(canonical_query("100%&%zz=%4"), "%25zz=%254&100%25=");
    }

    #[test]
    fn a_path_is_encoded_once_more_except_at_s3() {
        assert_eq!(canonical_path("/a%20b//./c/../d/", "lambda"), "/a%2520b/d/");
        assert_eq!(canonical_path("/a%20b//c:d", S3), "/a%20b//c%3Ad");
        assert_eq!(canonical_path("", "lambda"), "/");
    }
}
