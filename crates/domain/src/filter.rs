//! JSON match documents: which events a route wants, by what is in them.
//!
//! ```json
//! { "type": "order.created",
//!   "data": { "amount": { "$gte": 100 }, "customer": { "country": { "$in": ["CH", "FR"] } } },
//!   "$or": [ { "headers": { "x-tier": "gold" } }, { "metadata": { "vip": true } } ] }
//! ```
//! Every key must hold. A nested object matches in part. What is said of a value:
//!
//! | written | holds of |
//! |---|---|
//! | `"CH"`, `7`, `true`, `null`, `{"$eq": …}` | an equal value. Types count: `"1"` is not `1`; numbers compare as numbers: `1` is `1.0` |
//! | `{"$gt": …}` `$gte` `$lt` `$lte` | a number beside a number, a string beside a string; nothing else |
//! | `{"$in": […]}` | a value equal to one of them |
//! | `{"$in": "…"}` | a string that has it inside, an array that has it as an element |
//! | `{"$startsWith": "…"}` `$endsWith` | a string; of a list, any of them will do |
//! | `{"$neq": …}` `{"$nin": …}` `{"$not": …}` | whatever `$eq`, `$in` or the document inside does **not** hold of |
//! | `{"$exist": true}` | anything that is there, `null` too; so does `{}` |
//! | `{"$or": […]}` `{"$and": […]}` | what one, or each, of the documents inside holds of |
//! | `["a", "b"]` | an array that has all of these (as Hookdeck does; `{"$eq": […]}` is the exact array) |
//!
//! **Arrays.** An array matches if one of its elements does, and it is the same element for all the comparisons and
//! nested keys of one object: `{"items": {"sku": "x", "price": {"$gt": 5}}}` wants an item that is both. The words
//! of logic and of absence (`$not $neq $nin $exist $or $and`), and a `$in` with a string, are asked of the array as a
//! whole, so that `{"tags": {"$neq": "a"}}` means that no tag is `a`. An empty array has no element that could match.
//!
//! **Missing paths.** Nothing holds there but `$exist: false`, `$neq`, `$nin`, and a `$not` around what does not
//! hold. A payload that is not JSON has no `data`.
//!
//! It is a total language: no regular expressions, no recursion, no scripts, and nothing is allocated while matching.
//! The work for one event is bounded ([`FILTER_MAX_STEPS`]); what would take more does not match, and says so.

mod compiler;
mod node;
mod subject;

use crate::json::Document;
use compiler::{Compiler, DocumentLevel};
use node::{FilterNode, Steps};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;
use subject::SubjectValue;
use thiserror::Error;

/// Enough for the longest filter a person writes; a list of a thousand customers belongs into metadata.
pub const FILTER_MAX_BYTES: usize = 4 * 1024;
pub const FILTER_MAX_CLAUSES: usize = 64;
pub const FILTER_MAX_DEPTH: usize = 16;
/// Questions asked of array elements while matching one event: 64 clauses over 780 elements, or 10 over 5,000.
/// Without it, 62 clauses over a megabyte of small numbers took half a second of all ingest; with it, the
/// worst found is 4.5 ms (a `$in` of 890 numbers; release build, best of 40 on two busy cores), the rest below 2 ms.
pub const FILTER_MAX_STEPS: usize = 50_000;
/// Bytes of a text that are searched for another one in one such step: 1.6 MB in all, below 4 ms however they are chosen.
pub const FILTER_STEP_TEXT_BYTES: usize = 32;

/// A compiled match document. It is its document in JSON and in the store; [`Filter::compile`] is the only way in for
/// one that is new.
#[derive(Debug, Clone)]
pub struct Filter {
    source: Value,
    root: FilterNode,
}

/// What a filter looks at.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub event_type: &'a str,
    /// `None` when the payload is not JSON.
    pub data: Option<&'a Document<'a>>,
    /// An object by lower-case name; a header that came twice may be an array.
    pub headers: &'a Value,
    pub metadata: &'a Value,
}

/// The first thing that did not hold: where, what was wanted of it, and what was there instead.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mismatch {
    /// As in `data.customer.country`; for a `$or` or `$not` at the top, that word.
    pub path: String,
    pub expected: Value,
    /// `None` when there is nothing at the path, or when the path is the whole event.
    pub found: Option<Value>,
}

/// Why a document is not a filter.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{detail}")]
pub struct FilterError {
    /// A JSON pointer into the document; empty for the document as a whole.
    pub pointer: String,
    /// A stable word: `too_large`, `too_deep`, `too_many_clauses`, `unknown_operator`, `unknown_field`, `invalid_value`.
    pub code: &'static str,
    pub detail: String,
}

impl Filter {
    pub fn compile(document: &Value) -> Result<Filter, FilterError> {
        Self::compiled(document, Compiler::new(false))
    }

    fn compiled(document: &Value, mut compiler: Compiler) -> Result<Filter, FilterError> {
        let whole = |code, detail| FilterError { pointer: String::new(), code, detail };
        if deeper_than(document, FILTER_MAX_DEPTH) {
            return Err(whole("too_deep", format!("a filter nests at most {FILTER_MAX_DEPTH} levels")));
        }
        let bytes = document.to_string().len();
        if bytes > FILTER_MAX_BYTES {
            let detail = format!("a filter has at most {FILTER_MAX_BYTES} bytes, this one has {bytes}");
            return Err(whole("too_large", detail));
        }
        Ok(Filter { root: compiler.node(document, DocumentLevel::Top)?, source: document.clone() })
    }

    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        let steps = Steps::new();
        self.root.holds(SubjectValue::Event(subject), &steps) && !steps.are_spent()
    }

    /// `None` exactly when it matches.
    pub fn explain(&self, subject: &Subject<'_>) -> Option<Mismatch> {
        let (seen, steps) = (SubjectValue::Event(subject), Steps::new());
        let holds = self.root.holds(seen, &steps);
        if steps.are_spent() {
            let bound = format!("data that takes at most {FILTER_MAX_STEPS} comparisons");
            return Some(Mismatch { path: "data".into(), expected: bound.into(), found: None });
        }
        if holds { None } else { self.root.mismatch(seen, &mut Vec::new()) }
    }

    /// The document as it was given.
    pub fn source(&self) -> &Value {
        &self.source
    }
}

fn deeper_than(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return value.is_object() || value.is_array() };
    match value {
        Value::Object(members) => members.values().any(|value| deeper_than(value, left)),
        Value::Array(elements) => elements.iter().any(|value| deeper_than(value, left)),
        _ => false,
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Filter) -> bool {
        self.source == other.source
    }
}

impl Serialize for Filter {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(out)
    }
}

impl<'de> Deserialize<'de> for Filter {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Filter, D::Error> {
        let document = Value::deserialize(input)?;
        Filter::compiled(&document, Compiler::new(true))
            .map_err(|error| de::Error::custom(format!("filter{}: {error}", error.pointer)))
    }
}

#[cfg(test)]
mod tests;
