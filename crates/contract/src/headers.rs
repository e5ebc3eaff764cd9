//! Headers.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{collections::BTreeMap, fmt};

/// Headers as an object by lower-case name. One that came twice is shown once, its values joined as HTTP joins them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeadersView(Vec<(String, String)>);

impl HeadersView {
    pub fn new(headers: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut shown: Vec<(String, String)> = Vec::new();
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (name, value) in headers {
            let name = name.to_ascii_lowercase();
            match places.get(&name) {
                Some(place) => {
                    shown[*place].1.push_str(", ");
                    shown[*place].1.push_str(&value);
                }
                None => {
                    places.insert(name.clone(), shown.len());
                    shown.push((name, value));
                }
            }
        }
        Self(shown)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl From<&[(String, String)]> for HeadersView {
    fn from(headers: &[(String, String)]) -> Self {
        Self::new(headers.iter().cloned())
    }
}

impl Serialize for HeadersView {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for HeadersView {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> de::Visitor<'de> for InOrder {
            type Value = HeadersView;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("header values by name")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut members: A) -> Result<HeadersView, A::Error> {
                let mut headers = Vec::new();
                while let Some(header) = members.next_entry()? {
                    headers.push(header);
                }
                Ok(HeadersView::new(headers))
            }
        }

        from.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_came_twice_is_shown_once() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = HeadersView::new([pair("Via", "a"), pair("date", "today"), pair("via", "b")]);
        assert_eq!(serde_json::to_string(&headers).unwrap(), r#"{"via":"a, b","date":"today"}"#);
    }

    #[test]
    fn headers_read_back_in_their_order() {
        let text = r#"{"via":"a, b","date":"today"}"#;
        let headers: HeadersView = serde_json::from_str(text).unwrap();
        assert_eq!(headers.get("date"), Some("today"));
        assert_eq!(serde_json::to_string(&headers).unwrap(), text);
    }
}
