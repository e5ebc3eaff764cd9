//! Keys in URLs, where logs and histories keep them: found wherever they stand in path or query, and however they are
//! written. A client encodes a URL, a library that builds on it once more.

use super::{ALPHABET, KINDS, LOOKUP_LENGTH, PREFIX_LENGTH, prefix};
use http::Uri;
use std::borrow::Cow;

/// Of the secret, as much must be there: a key that was cut off is found too, and an ingest token, which has 32 characters
/// in all, can never be taken for one.
const SECRET_SEEN: usize = 16;
/// Encoded, and encoded once more.
const ENCODED_AT_MOST: usize = 2;

pub(crate) fn is_key_in_url(uri: &Uri) -> bool {
    let Some(text) = uri.path_and_query() else { return false };
    let mut text = Cow::Borrowed(text.as_str().as_bytes());
    for _ in 0..ENCODED_AT_MOST {
        if holds_key(&text) {
            return true;
        }
        if !text.contains(&b'%') {
            return false;
        }
        text = Cow::Owned(decoded(&text));
    }
    holds_key(&text)
}

/// Whether something in it wants to be a key, well-formed or not.
fn holds_key(text: &[u8]) -> bool {
    text.windows(PREFIX_LENGTH + LOOKUP_LENGTH + 1 + SECRET_SEEN).any(|window| {
        let (begin, rest) = window.split_at(PREFIX_LENGTH);
        let (lookup, rest) = rest.split_at(LOOKUP_LENGTH);
        KINDS.into_iter().any(|kind| begin == prefix(kind).as_bytes())
            && rest[0] == b'_'
            && lookup.iter().chain(&rest[1..]).all(|byte| ALPHABET.contains(byte))
    })
}

/// Takes percent-encoding away once; what is none stays as it is.
fn decoded(text: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let pair = after.first_chunk::<2>().filter(|_| *first == b'%');
        let byte = pair.and_then(|[high, low]| Some(digit(high)? << 4 | digit(low)?));
        decoded.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyText;
    use domain::testing::CountingDice;

    fn found(url: &str) -> bool {
        is_key_in_url(&url.parse().unwrap_or_else(|error| panic!("{url}: {error}")))
    }

    fn encoded(text: &str) -> String {
        text.bytes().map(|byte| format!("%{byte:02X}")).collect()
    }

    #[test]
    fn a_key_is_found_however_it_is_written_and_wherever_it_stands() {
        for kind in KINDS {
            let key = KeyText::generate(kind, &CountingDice::default());
            let key = key.expose();
            let spellings = [
                key.to_owned(),
                key.replacen('p', "%70", 1),
                key.replace('_', "%5F"),
                key.replace('_', "%5f"),
                key.replace('_', "%255F"),
                encoded(key),
                encoded(&encoded(key)),
                format!("Bearer+{key}"),
                format!("Bearer%20{key}"),
                format!("%22{key}%22"),
                format!("%{key}"),
                format!("%7{key}"),
                format!("x{key}"),
                key[..key.len() - 6].to_owned(),
            ];
            for spelling in spellings {
                for place in [
                    "/v1/events?api_key=",
                    "/v1/events?a=1&",
                    "/v1/events?a;",
                    "/v1/destinations/",
                    "/",
                    "/ingest/",
                ] {
                    assert!(found(&format!("{place}{spelling}")), "{place}{spelling}");
                    assert!(found(&format!("{place}{spelling}/test?limit=1")), "{place}{spelling}/test");
                }
            }
        }
    }

    #[test]
    fn an_ordinary_url_holds_no_key() {
        for url in [
            "/v1/events?q=phk_4fGh",
            "/v1/events?q=phk_abcdefghijkl",
            "/v1/events?q=phi_and_theta_are_greek_letters_of_long_names",
            "/v1/events?q=100%25+sure&type=order.*",
            "/v1/events?q=%",
            "/v1/events?q=%7",
            "/v1/events?q=%zz%%%",
            "/v1/events?cursor=phk_abcdefghijkl-0123456789abcdefghijkl",
            "/v1/deliveries/dlv_01h455vb4pex5vsknk084sn02q",
            "/ingest/phk_abcdefghijkl_0123456789ABCDE",
            "/",
        ] {
            assert!(!found(url), "{url}");
        }
    }
}
