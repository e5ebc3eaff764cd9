//! A value of an event, wherever it lives, and when two values are the same.

use super::Subject;
use crate::json::{JsonKind, JsonValue};
use serde_json::{Number, Value};
use std::cmp::Ordering;

/// A value of the subject, wherever it lives, without making a `Value` of it.
#[derive(Clone, Copy)]
pub(super) enum SubjectValue<'a> {
    Event(&'a Subject<'a>),
    /// Of headers or metadata.
    Json(&'a Value),
    /// Of the payload.
    Data(JsonValue<'a>),
    Text(&'a str),
    Nothing,
}
impl<'a> SubjectValue<'a> {
    pub(super) fn field(self, name: &str) -> SubjectValue<'a> {
        match self {
            SubjectValue::Event(subject) => match name {
                "type" => SubjectValue::Text(subject.event_type),
                "data" => subject.data.map_or(SubjectValue::Nothing, |data| SubjectValue::Data(data.root())),
                "headers" => SubjectValue::Json(subject.headers),
                _ => SubjectValue::Json(subject.metadata),
            },
            SubjectValue::Json(Value::Object(members)) => {
                members.get(name).map_or(SubjectValue::Nothing, SubjectValue::Json)
            }
            SubjectValue::Data(value) => value.field(name).map_or(SubjectValue::Nothing, SubjectValue::Data),
            _ => SubjectValue::Nothing,
        }
    }

    pub(super) fn elements(self) -> Option<impl Iterator<Item = SubjectValue<'a>>> {
        let (tree, data) = match self {
            SubjectValue::Json(Value::Array(elements)) => (Some(elements.iter()), None),
            SubjectValue::Data(value) => (None, Some(value.elements()?)),
            _ => return None,
        };
        let tree = tree.into_iter().flatten().map(SubjectValue::Json);
        Some(tree.chain(data.into_iter().flatten().map(SubjectValue::Data)))
    }

    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            SubjectValue::Text(text) => Some(text),
            SubjectValue::Json(value) => value.as_str(),
            SubjectValue::Data(value) => match value.kind() {
                JsonKind::Text(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn number(self) -> Option<Number> {
        match self {
            SubjectValue::Json(Value::Number(number)) => Some(number.clone()),
            SubjectValue::Data(value) => match value.kind() {
                JsonKind::Number(number) => Some(number),
                _ => None,
            },
            _ => None,
        }
    }

    /// True, false or null.
    pub(super) fn plain(self) -> Option<Value> {
        match self {
            SubjectValue::Json(value @ (Value::Bool(_) | Value::Null)) => Some(value.clone()),
            SubjectValue::Data(value) => match value.kind() {
                JsonKind::Bool(value) => Some(value.into()),
                JsonKind::Null => Some(Value::Null),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn to_value(self) -> Option<Value> {
        match self {
            SubjectValue::Json(value) => Some(value.clone()),
            SubjectValue::Data(value) => Some(value.to_value()),
            SubjectValue::Text(text) => Some(text.into()),
            SubjectValue::Event(_) | SubjectValue::Nothing => None,
        }
    }
}

/// Equal as JSON, with numbers equal by value and members in any order.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order(a, b).is_eq(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// The same, of a value of the payload.
pub(super) fn same_data(wanted: &Value, found: JsonValue<'_>) -> bool {
    match (wanted, found.kind()) {
        (Value::Null, JsonKind::Null) => true,
        (Value::Bool(wanted), JsonKind::Bool(found)) => *wanted == found,
        (Value::String(wanted), JsonKind::Text(found)) => wanted == found,
        (Value::Number(wanted), JsonKind::Number(found)) => order(wanted, &found).is_eq(),
        (Value::Array(wanted), JsonKind::Array) => {
            let mut found = found.elements().into_iter().flatten();
            let alike =
                wanted.iter().all(|wanted| found.next().is_some_and(|found| same_data(wanted, found)));
            alike && found.next().is_none()
        }
        (Value::Object(wanted), JsonKind::Object) => {
            let alike = |(name, wanted): (&String, &Value)| {
                found.field(name).is_some_and(|found| same_data(wanted, found))
            };
            wanted.iter().all(alike) && found.members().all(|(name, _)| wanted.contains_key(name))
        }
        _ => false,
    }
}

/// Exact over integers and floats alike: through `f64` alone, 2^53 would equal 2^53 + 1.
pub(super) fn order(a: &Number, b: &Number) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return a.cmp(&b); // nearly always, and the cheaper way
    }
    let whole = |n: &Number| n.as_i64().map(i128::from).or_else(|| n.as_u64().map(i128::from));
    let float = |n: &Number| n.as_f64().unwrap_or_default();
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => order_mixed(a, float(b)),
        (None, Some(b)) => order_mixed(b, float(a)).reverse(),
        // JSON has no NaN.
        (None, None) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

fn order_mixed(whole: i128, float: f64) -> Ordering {
    // The cast saturates, and beyond ±2^64 no integer of JSON's is on that side: the answer stays right.
    let below = float.floor();
    match whole.cmp(&(below as i128)) {
        Ordering::Equal if float > below => Ordering::Less,
        order => order,
    }
}
