//! Texts as the HTTP binding of CloudEvents writes them into headers: in percent-encoding, maybe in quotes.

use std::borrow::Cow;

/// None if what was encoded is not UTF-8. A percent sign that begins no code stands for itself: many producers encode nothing.
pub(super) fn decoded(value: &[u8]) -> Option<String> {
    let value = unquoted(value);
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = &value[..];
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match (first, after) {
            (b'%', [high, low, beyond @ ..]) => match (digit(*high), digit(*low)) {
                (Some(high), Some(low)) => {
                    rest = beyond;
                    high << 4 | low
                }
                _ => b'%',
            },
            _ => *first,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// What stands in quotes around it all, with its escapes undone.
fn unquoted(value: &[u8]) -> Cow<'_, [u8]> {
    let Some(inner) = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")) else {
        return Cow::Borrowed(value);
    };
    let mut plain = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        plain.push(if *byte == b'\\' { *bytes.next().unwrap_or(byte) } else { *byte });
    }
    Cow::Owned(plain)
}

/// Everything but visible ASCII, and of that quotes and percent signs.
pub(super) fn encoded(text: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'%');
    if text.bytes().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.extend([byte >> 4, byte & 15].map(|half| char::from(b"0123456789ABCDEF"[usize::from(half)])));
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_the_standard() {
        for (text, header) in [
            ("Euro € 😀", "Euro%20%E2%82%AC%20%F0%9F%98%80"),
            ("100% \"sure\"", "100%25%20%22sure%22"),
            ("/plain/source?a=b", "/plain/source?a=b"),
        ] {
            assert_eq!(encoded(text), header);
            assert_eq!(decoded(header.as_bytes()).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_others_write_is_read_too() {
        for (header, text) in [
            (&b"\"a \\\"b\\\" c\""[..], "a \"b\" c"),
            (b"100%", "100%"),
            (b"%zz%4", "%zz%4"),
            (b"%c3%bc", "ü"),
            ("ü".as_bytes(), "ü"),
            (b"\"", "\""),
            (b"", ""),
        ] {
            assert_eq!(decoded(header).as_deref(), Some(text), "{}", String::from_utf8_lossy(header));
        }
        assert_eq!(decoded(b"%ff"), None);
        assert_eq!(decoded(b"%ed%a0%80"), None, "half of a surrogate pair");
    }

    proptest! {
        #[test]
        fn every_text_comes_back(text in "\\PC*") {
            let header = encoded(&text);
            prop_assert!(header.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(decoded(header.as_bytes()), Some(text.clone()));
        }

        #[test]
        fn no_header_makes_it_panic(header in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decoded(&header);
        }
    }
}
