//! Tags: what an event is found by. A producer gives them, or a source takes them from what comes in.

use crate::{event::Headers, limits};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{borrow::Cow, fmt};

/// Whether a text can be a tag.
pub fn is_tag(text: &str) -> bool {
    let mut characters = text.chars();
    let fits = characters.by_ref().take(limits::TAG_CHARS).all(|character| !character.is_control());
    !text.is_empty() && fits && characters.next().is_none()
}

/// Adds a tag, unless it is there already. False if it is one too many.
pub fn add(tags: &mut Vec<String>, tag: String) -> bool {
    if tags.contains(&tag) {
        return true;
    }
    let fits = tags.len() < limits::TAGS;
    if fits {
        tags.push(tag);
    }
    fits
}

/// Where a source takes a tag from, and what is put before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagRule {
    #[serde(flatten)]
    pub place: TagPlace,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prefix: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TagPlace {
    /// Names of members, and places in lists, with dots between them: `order.items.0.id`.
    Path(String),
    /// In lower case.
    Header(String),
}

/// What the rules find, in their order. What is not there, is no text, number or boolean, or does not fit is left out:
/// what somebody else sends must not be refused for it.
pub fn taken(rules: &[TagRule], headers: &Headers, payload: &[u8]) -> Vec<String> {
    let paths: Vec<Option<Vec<&str>>> = rules
        .iter()
        .map(|rule| match &rule.place {
            TagPlace::Path(path) => Some(path.split('.').collect()),
            TagPlace::Header(_) => None,
        })
        .collect();
    let at_paths = find(&paths, payload);
    let mut tags = Vec::new();
    for (rule, at_path) in rules.iter().zip(at_paths) {
        let value = match &rule.place {
            TagPlace::Path(_) => at_path,
            TagPlace::Header(wanted) => {
                headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
            }
        };
        let tag = value.filter(|value| !value.is_empty()).map(|value| format!("{}{value}", rule.prefix));
        if let Some(tag) = tag.filter(|tag| is_tag(tag)) {
            add(&mut tags, tag);
        }
    }
    tags
}

/// The texts, numbers and truth values at these paths, each as it is written; nothing of a payload that is not JSON.
pub(crate) fn texts_at(paths: &[&str], payload: &[u8]) -> Vec<Option<String>> {
    let paths: Vec<Option<Vec<&str>>> = paths.iter().map(|path| Some(path.split('.').collect())).collect();
    find(&paths, payload)
}

/// One result a path. The payload is walked over once and nothing is built of it.
fn find(paths: &[Option<Vec<&str>>], payload: &[u8]) -> Vec<Option<String>> {
    let mut found = vec![None; paths.len()];
    let wanted: Vec<Wanted<'_>> = paths
        .iter()
        .enumerate()
        .filter_map(|(rule, path)| Some(Wanted { rule, path: path.as_deref()? }))
        .collect();
    if wanted.is_empty() {
        return found;
    }
    let mut input = serde_json::Deserializer::from_slice(payload);
    let walked = Walk { wanted, found: &mut found }.deserialize(&mut input).and_then(|()| input.end());
    if walked.is_err() {
        found.fill(None); // it was not JSON after all
    }
    found
}

/// What is left of a rule's way.
#[derive(Clone, Copy)]
struct Wanted<'p> {
    rule: usize,
    path: &'p [&'p str],
}

/// A value to which some rules lead, or through which they do.
struct Walk<'p, 'f> {
    wanted: Vec<Wanted<'p>>,
    found: &'f mut [Option<String>],
}

impl<'p> Walk<'p, '_> {
    /// The rules that lead on by this name.
    fn by(&self, name: &str) -> Vec<Wanted<'p>> {
        let by = |wanted: &Wanted<'p>| {
            let (first, rest) = wanted.path.split_first()?;
            (*first == name).then_some(Wanted { path: rest, ..*wanted })
        };
        self.wanted.iter().filter_map(by).collect()
    }

    /// Those that end here have this, or nothing: of members with the same name the last counts.
    fn ends_with(&mut self, value: Option<String>) {
        for wanted in &self.wanted {
            self.found[wanted.rule] = value.clone().filter(|_| wanted.path.is_empty());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self.wanted.is_empty() {
            true => from.deserialize_ignored_any(IgnoredAny).map(drop),
            false => from.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Walk<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        self.ends_with(None);
        while let Some(name) = members.next_key::<Cow<'de, str>>()? {
            members.next_value_seed(Walk { wanted: self.by(&name), found: self.found })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        self.ends_with(None);
        let last = self.wanted.iter().filter_map(|wanted| wanted.path.first()?.parse::<usize>().ok()).max();
        for place in 0_usize.. {
            let wanted = if last >= Some(place) { self.by(&place.to_string()) } else { Vec::new() };
            if elements.next_element_seed(Walk { wanted, found: self.found })?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        // A longer one is no tag.
        let short = text.len() <= 4 * limits::TAG_CHARS;
        self.ends_with(short.then(|| text.to_owned()));
        Ok(())
    }

    fn visit_bool<E>(mut self, value: bool) -> Result<(), E> {
        self.ends_with(Some(value.to_string()));
        Ok(())
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<(), E> {
        self.ends_with(Some(number.to_string()));
        Ok(())
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<(), E> {
        self.ends_with(Some(number.to_string()));
        Ok(())
    }

    fn visit_f64<E>(mut self, number: f64) -> Result<(), E> {
        self.ends_with(serde_json::Number::from_f64(number).map(|number| number.to_string()));
        Ok(())
    }

    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.ends_with(None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str, prefix: &str) -> TagRule {
        TagRule { place: TagPlace::Path(path.into()), prefix: prefix.into() }
    }

    fn header(name: &str) -> TagRule {
        TagRule { place: TagPlace::Header(name.into()), prefix: String::new() }
    }

    #[test]
    fn a_tag_is_1_to_128_characters_without_control_characters() {
        assert!(is_tag("order-7") && is_tag(&"ü".repeat(128)));
        for not in ["", "a\nb", "\0", &"a".repeat(129)] {
            assert!(!is_tag(not), "{not:?}");
        }
    }

    #[test]
    fn rules_find_members_elements_and_headers_in_their_order() {
        let payload = br#"{"data":{"order":{"id":7,"paid":true,"total":12.5}},"items":[{"id":"a"},{"id":"b"}],"x":"top"}"#;
        let headers = vec![("x-order".into(), "o-1".into()), ("x-order".into(), "o-2".into())];
        let rules = [
            path("data.order.id", "order-"),
            header("x-order"),
            path("items.1.id", ""),
            path("data.order.paid", "paid-"),
            path("data.order.total", ""),
            path("x", ""),
        ];
        assert_eq!(taken(&rules, &headers, payload), ["order-7", "o-1", "b", "paid-true", "12.5", "top"]);
    }

    #[test]
    fn what_is_not_there_or_does_not_fit_is_left_out() {
        let long = format!(
            r#"{{"a":"{}","b":null,"c":[1],"d":{{}},"e":"","f":"twice","g":"twice"}}"#,
            "a".repeat(129)
        );
        let rules = ["a", "b", "c", "d", "e", "f", "g", "nowhere", "f.deeper"].map(|at| path(at, ""));
        assert_eq!(taken(&rules, &Vec::new(), long.as_bytes()), ["twice"]);
        assert_eq!(taken(&rules, &Vec::new(), br#"{"f":"once","f":"twice"}"#), ["twice"], "the last counts");
        assert!(taken(&[path("f", "")], &Vec::new(), br#"{"f":"cut"#).is_empty());
        assert!(taken(&[path("f", "")], &Vec::new(), b"plain text").is_empty());
    }

    #[test]
    fn an_event_has_8_tags_and_each_once() {
        let mut tags = Vec::new();
        assert!((0..8).all(|number| add(&mut tags, number.to_string())));
        assert!(add(&mut tags, "7".into()), "it is there");
        assert!(!add(&mut tags, "8".into()));
        assert_eq!(tags.len(), limits::TAGS);
    }

    #[test]
    fn a_rule_is_kept_in_a_form_that_reads_back() {
        let rule = path("data.id", "order-");
        let text = serde_json::to_string(&rule).unwrap();
        assert_eq!(text, r#"{"path":"data.id","prefix":"order-"}"#);
        assert_eq!(serde_json::from_str::<TagRule>(&text).unwrap(), rule);
        assert_eq!(serde_json::from_str::<TagRule>(r#"{"header":"x-id"}"#).unwrap(), header("x-id"));
    }
}
