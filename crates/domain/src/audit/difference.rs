//! What an act has changed, told without secrets.

use crate::limits;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What the log tells of an object: its members as they are; of those that are secret only that they changed.
#[derive(Debug, Clone, Default)]
pub struct Told {
    open: Map<String, Value>,
    /// Compared, and never told.
    secret: BTreeMap<&'static str, Vec<u8>>,
}

impl Told {
    /// Of a JSON object.
    pub fn of(members: Value) -> Self {
        match members {
            Value::Object(open) => Self { open, ..Self::default() },
            _ => Self::default(),
        }
    }

    pub fn with(mut self, member: &'static str, value: impl Into<Value>) -> Self {
        self.open.insert(member.into(), value.into());
        self
    }

    /// This member is told no more than that it changed. `bytes` are the same only if it did not.
    pub fn with_secret(mut self, member: &'static str, bytes: impl Into<Vec<u8>>) -> Self {
        self.secret.insert(member, bytes.into());
        self
    }

    /// Of what was not there before.
    pub fn made(&self) -> Option<String> {
        self.since(&Self::default())
    }

    /// The members that differ, each with what it was and what it is; None without any.
    pub fn since(&self, before: &Self) -> Option<String> {
        let mut difference = Map::new();
        let members = self.open.keys().chain(before.open.keys());
        for member in members {
            let (from, to) = (&before.open.get(member), &self.open.get(member));
            let value = |value: &Option<&Value>| value.filter(|value| !value.is_null()).cloned();
            let told = match (value(from), value(to)) {
                (from, to) if from == to => continue,
                (None, Some(to)) => json!({ "to": to }),
                (Some(from), None) => json!({ "from": from }),
                (from, to) => json!({ "from": from, "to": to }),
            };
            difference.insert(member.clone(), told);
        }
        let secrets = self.secret.keys().chain(before.secret.keys());
        for member in secrets.filter(|member| self.secret.get(**member) != before.secret.get(**member)) {
            // What is told of it openly says more.
            difference.entry(*member).or_insert_with(changed);
        }
        if difference.is_empty() {
            return None;
        }
        let text = Value::Object(difference.clone()).to_string();
        if text.len() <= limits::AUDIT_DIFFERENCE_BYTES {
            return Some(text);
        }
        // Which members they were is told in any case: their names are ours, and few.
        difference.values_mut().for_each(|told| *told = changed());
        Some(Value::Object(difference).to_string())
    }
}

fn changed() -> Value {
    Value::from("changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, secret: &[u8]) -> Told {
        Told::of(json!({ "name": name, "uid": null })).with_secret("token", secret)
    }

    fn read(text: Option<String>) -> Value {
        text.map_or(Value::Null, |text| serde_json::from_str(&text).expect("JSON"))
    }

    #[test]
    fn what_differs_is_told_with_both_values_and_a_secret_is_not() {
        let (before, after) = (told("Orders", b"hunter2"), told("Refunds", b"hunter3").with("uid", "r"));
        let difference = read(after.since(&before));
        let expected = json!({
            "name": { "from": "Orders", "to": "Refunds" }, "uid": { "to": "r" }, "token": "changed",
        });
        assert_eq!(difference, expected);
        assert!(!difference.to_string().contains("hunter"));
        assert_eq!(read(before.since(&after))["uid"], json!({ "from": "r" }));
    }

    #[test]
    fn what_is_the_same_is_not_told() {
        assert_eq!(told("Orders", b"a").since(&told("Orders", b"a")), None);
        assert_eq!(
            read(told("Orders", b"a").made()),
            json!({ "name": { "to": "Orders" }, "token": "changed" })
        );
    }

    #[test]
    fn a_large_difference_names_its_members_only() {
        let large = "x".repeat(limits::AUDIT_DIFFERENCE_BYTES);
        let text = told(&large, b"a").since(&told("Orders", b"a")).expect("a difference");
        assert_eq!(read(Some(text)), json!({ "name": "changed" }));
    }
}
