//! Why a route did not take an event, as a sentence.

use contract::WhyView;
use maud::{Markup, html};
use serde_json::Value;

/// Longer values are cut: the payload is beside it.
const SHOWN: usize = 80;

/// `data.amount` is 90, wanted ≥ 100.
pub(crate) fn sentence(why: &WhyView) -> Markup {
    match why.path.as_str() {
        "enabled" => html! { "its route is disabled" },
        "source_id" => html! { "its route is of another source" },
        "type" => html! { "takes " code { (wanted(&why.expected)) } },
        // A choice as a whole: there is no one thing that was found.
        path if path.starts_with('$') => html! { "none of " code { (shown(&why.expected)) } " holds" },
        path => html! {
            code { (path) } " "
            @if why.found.is_null() { "is not there" } @else { "is " code { (shown(&why.found)) } }
            ", wanted " code { (wanted(&why.expected)) }
        },
    }
}

/// What was wanted, with the signs that people read.
fn wanted(expected: &Value) -> String {
    match expected {
        Value::Object(members) => {
            let each = members.iter().map(|(operator, value)| match sign(operator) {
                Some(sign) => format!("{sign} {}", shown(value)),
                None => format!("{operator} {}", shown(value)),
            });
            cut(&each.collect::<Vec<_>>().join(" and "))
        }
        Value::Array(values) => cut(&values.iter().map(shown).collect::<Vec<_>>().join(" or ")),
        value => shown(value),
    }
}

fn sign(operator: &str) -> Option<&'static str> {
    Some(match operator {
        "$eq" => "=",
        "$neq" => "≠",
        "$gt" => ">",
        "$gte" => "≥",
        "$lt" => "<",
        "$lte" => "≤",
        "$in" => "one of",
        "$nin" => "none of",
        "$startsWith" => "that begins with",
        "$endsWith" => "that ends with",
        "$exist" => "that it is there:",
        "$not" => "not",
        _ => return None,
    })
}

/// Text as it is, all else as JSON.
fn shown(value: &Value) -> String {
    cut(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(path: &str, expected: Value, found: Value) -> String {
        sentence(&WhyView { path: path.into(), expected, found }).into_string()
    }

    #[test]
    fn a_mismatch_is_a_sentence() {
        assert_eq!(
            said("data.amount", json!({"$gte": 100}), json!(90)),
            "<code>data.amount</code> is <code>90</code>, wanted <code>≥ 100</code>"
        );
        assert_eq!(
            said("type", json!(["order.*", "invoice.paid"]), json!("a")),
            "takes <code>order.* or invoice.paid</code>"
        );
        assert_eq!(
            said("data.country", json!("DE"), Value::Null),
            "<code>data.country</code> is not there, wanted <code>DE</code>"
        );
        assert_eq!(said("enabled", json!(true), json!(false)), "its route is disabled");
    }

    #[test]
    fn what_somebody_wrote_is_text_and_not_too_long() {
        let long = said("data.<b>", json!("x".repeat(500)), json!("<i>"));
        assert!(long.len() < 400 && !long.contains("<b>") && !long.contains("<i>"), "{long}");
    }
}
