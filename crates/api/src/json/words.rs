//! What serde says, in words for people who do not write Rust.

const VALUE: &str = "invalid value: ";

/// `invalid type: integer `1`, expected a string` as `expected a string, found 1`, and the like.
pub(super) fn plain(message: &str) -> String {
    let kinds = ["invalid type: ", VALUE, "invalid length "];
    if let Some(rest) = kinds.iter().find_map(|kind| message.strip_prefix(kind))
        && let Some((found, expected)) = rest.rsplit_once(", expected ")
    {
        // Of the right kind, and yet not one of them.
        let range = range(expected).filter(|_| found.starts_with("integer ") && message.starts_with(VALUE));
        return format!("expected {}, found {}", range.unwrap_or(wanted(expected)), given(found));
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        return rest.replacen(", expected ", " is not known here: expected ", 1);
    }
    // Of a list without filters; the page is asked for elsewhere.
    message.strip_suffix(", there are no fields").unwrap_or(message).to_owned()
}

fn range(expected: &str) -> Option<&'static str> {
    match expected {
        "u8" => Some("a whole number from 0 to 255"),
        "u16" => Some("a whole number from 0 to 65535"),
        "u32" => Some("a whole number from 0 to 4294967295"),
        _ => None,
    }
}

fn wanted(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a map" => "an object",
        "a sequence" => "a list",
        "string or map" => "a string",
        _ if expected.starts_with("struct ") => "an object",
        _ => expected,
    }
}

fn given(found: &str) -> &str {
    match found {
        "map" => "an object",
        "sequence" => "a list",
        "unit value" => "null",
        // Not repeated: where another type is wanted, it may still be a secret.
        _ if found.starts_with("string ") => "a string",
        _ => found
            .strip_prefix("integer ")
            .or_else(|| found.strip_prefix("floating point "))
            .or_else(|| found.strip_prefix("boolean "))
            .map_or(found, |value| value.trim_matches('`')),
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn no_message_speaks_of_rust() {
        let table = [
            ("invalid type: integer `1`, expected a string", "expected a string, found 1"),
            ("invalid type: map, expected f64", "expected a number, found an object"),
            ("invalid type: null, expected struct Publish", "expected an object, found null"),
            ("invalid type: string \"x\", expected a sequence", "expected a list, found a string"),
            (
                "invalid value: integer `-1`, expected u32",
                "expected a whole number from 0 to 4294967295, found -1",
            ),
            (
                "invalid value: integer `5000000000`, expected u32",
                "expected a whole number from 0 to 4294967295, found 5000000000",
            ),
            (
                "invalid value: integer `70000`, expected u16",
                "expected a whole number from 0 to 65535, found 70000",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "expected a whole number that is not negative, found -1",
            ),
            ("invalid type: sequence, expected an object", "expected an object, found a list"),
            (
                "unknown variant `x`, expected `continue` or `pause`",
                "`x` is not known here: expected `continue` or `pause`",
            ),
            ("unknown field `foo`, there are no fields", "unknown field `foo`"),
            ("a batch has at most 1,000 events", "a batch has at most 1,000 events"),
        ];
        for (serde, ours) in table {
            assert_eq!(plain(serde), ours);
        }
    }
}
