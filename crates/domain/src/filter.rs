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
//! | `{"$startsWith": "…"}` `$endsWith` | a string |
//! | `{"$neq": …}` `{"$nin": […]}` `{"$not": …}` | whatever `$eq`, `$in` or the document inside does **not** hold of |
//! | `{"$exist": true}` | anything that is there, `null` too; so does `{}` |
//! | `{"$or": […]}` `{"$and": […]}` | what one, or each, of the documents inside holds of |
//! | `["a", "b"]` | an array that has all of these (as Hookdeck does; `{"$eq": […]}` is the exact array) |
//!
//! **Arrays.** An array matches if one of its elements does, and it is the same element for all the comparisons and
//! nested keys of one object: `{"items": {"sku": "x", "price": {"$gt": 5}}}` wants an item that is both. The words
//! of logic and of absence (`$not $neq $nin $exist $or $and`) are asked of the array as a whole, so that
//! `{"tags": {"$neq": "a"}}` means that no tag is `a`. An empty array has no element that could match.
//!
//! **Missing paths.** Nothing holds there but `$exist: false`, `$neq`, `$nin`, and a `$not` around what does not
//! hold. A payload that is not JSON has no `data`.
//!
//! It is a total language: no regular expressions, no recursion, no scripts, and nothing is allocated while matching.
//! The work for one event is bounded ([`FILTER_MAX_STEPS`]); what would take more does not match, and says so.

use std::cell::Cell;
use std::cmp::Ordering;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Number, Value};
use thiserror::Error;

use crate::json::{Document, JsonKind, JsonValue};

/// Enough for the longest filter a person writes; a list of a thousand customers belongs into metadata.
pub const FILTER_MAX_BYTES: usize = 4 * 1024;
pub const FILTER_MAX_CLAUSES: usize = 64;
pub const FILTER_MAX_DEPTH: usize = 16;
/// Questions asked of array elements while matching one event: 64 clauses over 780 elements, or 10 over 5,000.
/// Without it, 62 clauses over a megabyte of small numbers took half a second of all ingest; with it, the
/// worst found is 4.5 ms (a `$in` of 890 numbers; release build, best of 40 on two busy cores), the rest below 2 ms.
pub const FILTER_MAX_STEPS: usize = 50_000;

const TOP: [&str; 4] = ["type", "data", "headers", "metadata"];
const OPERATORS: &str = "$eq $neq $gt $gte $lt $lte $in $nin $startsWith $endsWith $exist $not $or $and";

/// A compiled match document. It is its document in JSON and in the store; [`Filter::compile`] is the only way in.
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
        let whole = |code, detail| FilterError { pointer: String::new(), code, detail };
        if deeper_than(document, FILTER_MAX_DEPTH) {
            return Err(whole("too_deep", format!("a filter nests at most {FILTER_MAX_DEPTH} levels")));
        }
        let bytes = document.to_string().len();
        if bytes > FILTER_MAX_BYTES {
            let detail = format!("a filter has at most {FILTER_MAX_BYTES} bytes, this one has {bytes}");
            return Err(whole("too_large", detail));
        }
        let mut compiler = Compiler { pointer: String::new(), clauses: 0 };
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
            let bound = format!("arrays that take at most {FILTER_MAX_STEPS} comparisons");
            return Some(Mismatch { path: "data".into(), expected: bound.into(), found: None });
        }
        if holds { None } else { self.root.mismatch(seen, &mut Vec::new()) }
    }

    /// The document as it was given.
    pub fn source(&self) -> &Value {
        &self.source
    }
}

/// One object of the document (or one plain value), compiled.
#[derive(Debug, Clone, Default)]
struct FilterNode {
    /// Hold together of the value or, if that is an array, of one of its elements.
    parts: Vec<ValueClause>,
    /// Asked of the value as a whole, array or not.
    wholes: Vec<WholeClause>,
}

#[derive(Debug, Clone)]
enum ValueClause {
    /// `said` is how the user wrote it, for explanations.
    Test {
        said: Value,
        test: ValueTest,
    },
    Field {
        name: Box<str>,
        node: FilterNode,
    },
}

#[derive(Debug, Clone)]
enum ValueTest {
    Equal(Value),
    Compare(Comparison, Operand),
    In(ValueSet),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
}

#[derive(Debug, Clone)]
enum WholeClause {
    /// `said` tells `{}` from `{"$exist": true}`.
    Exist {
        said: Value,
        wanted: bool,
    },
    /// `$not`, and `$neq` and `$nin` with a single test inside.
    Not {
        word: &'static str,
        node: FilterNode,
    },
    Or(Vec<FilterNode>),
    And(Vec<FilterNode>),
    /// A plain array: the value is an array that has all of these.
    HasAll(Vec<FilterNode>),
}

#[derive(Debug, Clone, Copy)]
enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

#[derive(Debug, Clone)]
enum Operand {
    Number(Number),
    Text(Box<str>),
}

/// The values of a `$in`, sorted: a long list costs a few compares, not one for each.
#[derive(Debug, Clone, Default)]
struct ValueSet {
    texts: Vec<Box<str>>,
    numbers: Vec<Number>,
    yes: bool,
    no: bool,
    null: bool,
}

/// A value of the subject, wherever it lives, without making a `Value` of it.
#[derive(Clone, Copy)]
enum SubjectValue<'a> {
    Event(&'a Subject<'a>),
    /// Of headers or metadata.
    Json(&'a Value),
    /// Of the payload.
    Data(JsonValue<'a>),
    Text(&'a str),
    Nothing,
}

/// What is left of [`FILTER_MAX_STEPS`] for one event; once short, it stays at nothing.
struct Steps(Cell<usize>);

impl Steps {
    fn new() -> Steps {
        // One more than may be used, so that zero always means "tried to use more".
        Steps(Cell::new(FILTER_MAX_STEPS + 1))
    }

    fn spend(&self, count: usize) -> bool {
        self.0.set(self.0.get().saturating_sub(count));
        !self.are_spent()
    }

    fn are_spent(&self) -> bool {
        self.0.get() == 0
    }
}

impl FilterNode {
    fn holds(&self, seen: SubjectValue<'_>, steps: &Steps) -> bool {
        self.parts_hold(seen, steps) && self.wholes.iter().all(|whole| whole.holds(seen, steps))
    }

    fn parts_hold(&self, seen: SubjectValue<'_>, steps: &Steps) -> bool {
        let all = || self.parts.iter().all(|part| part.holds(seen, steps));
        let Some(elements) = seen.elements() else { return all() };
        // An array has no keys, not even missing ones: nested keys are asked of its elements alone.
        let has_fields = self.parts.iter().any(|part| matches!(part, ValueClause::Field { .. }));
        if self.parts.is_empty() || (!has_fields && all()) {
            return true;
        }
        for element in elements {
            if !steps.spend(self.parts.len()) {
                return false;
            }
            if self.parts_hold(element, steps) {
                return true;
            }
        }
        false
    }

    fn mismatch<'a>(&'a self, seen: SubjectValue<'_>, path: &mut Vec<&'a str>) -> Option<Mismatch> {
        if !self.parts_hold(seen, &Steps::new()) {
            if seen.elements().is_some() {
                return Some(mismatch_at(path, together(self.parts.iter().map(ValueClause::said)), seen));
            }
            return self.parts.iter().find_map(|part| part.mismatch(seen, path));
        }
        self.wholes.iter().find_map(|whole| whole.mismatch(seen, path))
    }

    fn said(&self) -> Value {
        together(self.parts.iter().map(ValueClause::said).chain(self.wholes.iter().map(WholeClause::said)))
    }
}

impl ValueClause {
    fn holds(&self, seen: SubjectValue<'_>, steps: &Steps) -> bool {
        match self {
            ValueClause::Test { test, .. } => test.holds(seen),
            ValueClause::Field { name, node } => node.holds(seen.field(name), steps),
        }
    }

    fn mismatch<'a>(&'a self, seen: SubjectValue<'_>, path: &mut Vec<&'a str>) -> Option<Mismatch> {
        match self {
            ValueClause::Test { said, test } => {
                (!test.holds(seen)).then(|| mismatch_at(path, said.clone(), seen))
            }
            ValueClause::Field { name, node } => {
                path.push(name);
                let found = node.mismatch(seen.field(name), path);
                path.pop();
                found
            }
        }
    }

    fn said(&self) -> Value {
        match self {
            ValueClause::Test { said, .. } => said.clone(),
            ValueClause::Field { name, node } => under(name, node.said()),
        }
    }
}

impl ValueTest {
    fn holds(&self, seen: SubjectValue<'_>) -> bool {
        match self {
            ValueTest::Equal(wanted) => match seen {
                SubjectValue::Json(value) => same(wanted, value),
                SubjectValue::Data(value) => same_data(wanted, value),
                SubjectValue::Text(text) => wanted.as_str() == Some(text),
                SubjectValue::Event(_) | SubjectValue::Nothing => false,
            },
            ValueTest::Compare(comparison, operand) => {
                let order = match operand {
                    Operand::Number(number) => seen.number().map(|found| order(&found, number)),
                    Operand::Text(text) => seen.text().map(|found| found.cmp(text)),
                };
                order.is_some_and(|order| comparison.accepts(order))
            }
            ValueTest::In(set) => set.has(seen),
            ValueTest::StartsWith(start) => seen.text().is_some_and(|text| text.starts_with(&**start)),
            ValueTest::EndsWith(end) => seen.text().is_some_and(|text| text.ends_with(&**end)),
        }
    }
}

impl WholeClause {
    fn holds(&self, seen: SubjectValue<'_>, steps: &Steps) -> bool {
        match self {
            WholeClause::Exist { wanted, .. } => *wanted != matches!(seen, SubjectValue::Nothing),
            WholeClause::Not { node, .. } => !node.holds(seen, steps),
            WholeClause::Or(nodes) => nodes.iter().any(|node| node.holds(seen, steps)),
            WholeClause::And(nodes) => nodes.iter().all(|node| node.holds(seen, steps)),
            WholeClause::HasAll(nodes) => {
                seen.elements().is_some() && nodes.iter().all(|node| node.holds(seen, steps))
            }
        }
    }

    fn mismatch<'a>(&'a self, seen: SubjectValue<'_>, path: &mut Vec<&'a str>) -> Option<Mismatch> {
        if self.holds(seen, &Steps::new()) {
            return None;
        }
        if let WholeClause::And(nodes) = self {
            return nodes.iter().find_map(|node| node.mismatch(seen, path));
        }
        Some(mismatch_at(path, self.said(), seen))
    }

    fn said(&self) -> Value {
        let list = |nodes: &[FilterNode]| Value::Array(nodes.iter().map(FilterNode::said).collect());
        match self {
            WholeClause::Exist { said, .. } => said.clone(),
            WholeClause::Not { word, node } => under(word, node.said()),
            WholeClause::Or(nodes) => under("$or", list(nodes)),
            WholeClause::And(nodes) => under("$and", list(nodes)),
            WholeClause::HasAll(nodes) => list(nodes),
        }
    }
}

impl Comparison {
    fn accepts(self, order: Ordering) -> bool {
        match self {
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
        }
    }
}

impl ValueSet {
    fn has(&self, seen: SubjectValue<'_>) -> bool {
        if let Some(text) = seen.text() {
            return self.texts.binary_search_by(|known| (**known).cmp(text)).is_ok();
        }
        if let Some(number) = seen.number() {
            return self.numbers.binary_search_by(|known| order(known, &number)).is_ok();
        }
        match seen.plain() {
            Some(Value::Bool(true)) => self.yes,
            Some(Value::Bool(false)) => self.no,
            Some(Value::Null) => self.null,
            _ => false,
        }
    }
}

impl<'a> SubjectValue<'a> {
    fn field(self, name: &str) -> SubjectValue<'a> {
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

    fn elements(self) -> Option<impl Iterator<Item = SubjectValue<'a>>> {
        let (tree, data) = match self {
            SubjectValue::Json(Value::Array(elements)) => (Some(elements.iter()), None),
            SubjectValue::Data(value) => (None, Some(value.elements()?)),
            _ => return None,
        };
        let tree = tree.into_iter().flatten().map(SubjectValue::Json);
        Some(tree.chain(data.into_iter().flatten().map(SubjectValue::Data)))
    }

    fn text(self) -> Option<&'a str> {
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

    fn number(self) -> Option<Number> {
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
    fn plain(self) -> Option<Value> {
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

    fn to_value(self) -> Option<Value> {
        match self {
            SubjectValue::Json(value) => Some(value.clone()),
            SubjectValue::Data(value) => Some(value.to_value()),
            SubjectValue::Text(text) => Some(text.into()),
            SubjectValue::Event(_) | SubjectValue::Nothing => None,
        }
    }
}

/// Equal as JSON, with numbers equal by value and members in any order.
fn same(a: &Value, b: &Value) -> bool {
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
fn same_data(wanted: &Value, found: JsonValue<'_>) -> bool {
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
fn order(a: &Number, b: &Number) -> Ordering {
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

fn mismatch_at(path: &[&str], expected: Value, seen: SubjectValue<'_>) -> Mismatch {
    let top = || expected.as_object().and_then(|said| said.keys().next()).cloned().unwrap_or_default();
    let path = if path.is_empty() { top() } else { path.join(".") };
    Mismatch { path, expected, found: seen.to_value() }
}

fn under(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

/// One object from several; a plain value is always alone.
fn together(mut said: impl Iterator<Item = Value>) -> Value {
    let mut first = said.next().unwrap_or_else(|| Value::Object(Map::new()));
    for more in said {
        if let (Value::Object(first), Value::Object(more)) = (&mut first, more) {
            first.extend(more);
        }
    }
    first
}

fn deeper_than(value: &Value, levels: usize) -> bool {
    let Some(left) = levels.checked_sub(1) else { return value.is_object() || value.is_array() };
    match value {
        Value::Object(members) => members.values().any(|value| deeper_than(value, left)),
        Value::Array(elements) => elements.iter().any(|value| deeper_than(value, left)),
        _ => false,
    }
}

/// Where in the document we are, as far as it changes which keys are allowed and how they are read.
#[derive(Clone, Copy, PartialEq)]
enum DocumentLevel {
    Top,
    Headers,
    Inside,
}

struct Compiler {
    pointer: String,
    clauses: usize,
}

impl Compiler {
    fn node(&mut self, document: &Value, level: DocumentLevel) -> Result<FilterNode, FilterError> {
        let mut node = FilterNode::default();
        match document {
            Value::Object(members) if members.is_empty() => {
                self.count()?;
                node.wholes.push(WholeClause::Exist { said: document.clone(), wanted: true });
            }
            Value::Object(members) => {
                for (key, value) in members {
                    self.at(key, |this| {
                        if key.starts_with('$') {
                            this.operator(key, value, level, &mut node)
                        } else {
                            this.field(key, value, level, &mut node)
                        }
                    })?;
                }
            }
            _ if level == DocumentLevel::Top => {
                return Err(self.error(
                    "invalid_value",
                    "a filter is an object with the keys type, data, headers, metadata, $or, $and, $not"
                        .into(),
                ));
            }
            Value::Array(elements) => {
                self.count()?;
                node.wholes.push(WholeClause::HasAll(self.nodes(elements, level)?));
            }
            plain => {
                self.count()?;
                node.parts
                    .push(ValueClause::Test { said: plain.clone(), test: ValueTest::Equal(plain.clone()) });
            }
        }
        Ok(node)
    }

    fn field(
        &mut self,
        key: &str,
        value: &Value,
        level: DocumentLevel,
        node: &mut FilterNode,
    ) -> Result<(), FilterError> {
        let (name, inside) = match level {
            DocumentLevel::Top if !TOP.contains(&key) => {
                let detail = format!(
                    "`{key}`: at the top a filter has type, data, headers and metadata; the payload is below data"
                );
                return Err(self.error("unknown_field", detail));
            }
            DocumentLevel::Top if key == "headers" => (key.into(), DocumentLevel::Headers),
            DocumentLevel::Headers => (key.to_ascii_lowercase().into(), DocumentLevel::Inside),
            DocumentLevel::Top | DocumentLevel::Inside => (key.into(), DocumentLevel::Inside),
        };
        node.parts.push(ValueClause::Field { name, node: self.node(value, inside)? });
        Ok(())
    }

    fn operator(
        &mut self,
        word: &str,
        value: &Value,
        level: DocumentLevel,
        node: &mut FilterNode,
    ) -> Result<(), FilterError> {
        self.count()?;
        match word {
            "$or" => node.wholes.push(WholeClause::Or(self.alternatives(value, level)?)),
            "$and" => node.wholes.push(WholeClause::And(self.alternatives(value, level)?)),
            "$not" => node.wholes.push(WholeClause::Not { word: "$not", node: self.node(value, level)? }),
            _ if !OPERATORS.split(' ').any(|known| known == word) => {
                return Err(self.error(
                    "unknown_operator",
                    format!("`{word}` is not an operator; there are {OPERATORS}"),
                ));
            }
            _ if level == DocumentLevel::Top => {
                let detail =
                    format!("`{word}` needs a path, as in {{\"data\": {{\"amount\": {{\"{word}\": …}}}}}}");
                return Err(self.error("invalid_value", detail));
            }
            "$exist" => {
                let wanted = value.as_bool().ok_or_else(|| self.operand(word, "true or false"))?;
                node.wholes.push(WholeClause::Exist { said: under(word, value.clone()), wanted });
            }
            "$neq" => node.wholes.push(denial("$neq", value, ValueTest::Equal(value.clone()))),
            "$nin" => node.wholes.push(denial("$nin", value, ValueTest::In(self.set(word, value)?))),
            _ => {
                let test = self.test(word, value)?;
                node.parts.push(ValueClause::Test { said: under(word, value.clone()), test });
            }
        }
        Ok(())
    }

    fn test(&self, word: &str, value: &Value) -> Result<ValueTest, FilterError> {
        let text = || value.as_str().map(Into::into).ok_or_else(|| self.operand(word, "a string"));
        let compare = |comparison| {
            let operand = match value {
                Value::Number(number) => Operand::Number(number.clone()),
                Value::String(text) => Operand::Text(text.as_str().into()),
                _ => return Err(self.operand(word, "a number or a string")),
            };
            Ok(ValueTest::Compare(comparison, operand))
        };
        match word {
            "$gt" => compare(Comparison::Greater),
            "$gte" => compare(Comparison::GreaterOrEqual),
            "$lt" => compare(Comparison::Less),
            "$lte" => compare(Comparison::LessOrEqual),
            "$in" => Ok(ValueTest::In(self.set(word, value)?)),
            "$startsWith" => Ok(ValueTest::StartsWith(text()?)),
            "$endsWith" => Ok(ValueTest::EndsWith(text()?)),
            _ => Ok(ValueTest::Equal(value.clone())),
        }
    }

    fn set(&self, word: &str, value: &Value) -> Result<ValueSet, FilterError> {
        let wrong = || self.operand(word, "an array of strings, numbers, true, false or null");
        let mut set = ValueSet::default();
        for value in value.as_array().ok_or_else(wrong)? {
            match value {
                Value::String(text) => set.texts.push(text.as_str().into()),
                Value::Number(number) => set.numbers.push(number.clone()),
                Value::Bool(true) => set.yes = true,
                Value::Bool(false) => set.no = true,
                Value::Null => set.null = true,
                Value::Array(_) | Value::Object(_) => return Err(wrong()),
            }
        }
        set.texts.sort_unstable();
        set.numbers.sort_unstable_by(order);
        Ok(set)
    }

    fn alternatives(&mut self, value: &Value, level: DocumentLevel) -> Result<Vec<FilterNode>, FilterError> {
        match value.as_array() {
            Some(documents) if !documents.is_empty() => self.nodes(documents, level),
            _ => {
                Err(self
                    .error("invalid_value", "$or and $and take an array with at least one document".into()))
            }
        }
    }

    fn nodes(&mut self, documents: &[Value], level: DocumentLevel) -> Result<Vec<FilterNode>, FilterError> {
        let indexed = documents.iter().enumerate();
        indexed
            .map(|(index, document)| self.at(&index.to_string(), |this| this.node(document, level)))
            .collect()
    }

    fn at<T>(
        &mut self,
        key: &str,
        inside: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let result = inside(self);
        self.pointer.truncate(length);
        result
    }

    fn count(&mut self) -> Result<(), FilterError> {
        self.clauses += 1;
        if self.clauses > FILTER_MAX_CLAUSES {
            return Err(
                self.error("too_many_clauses", format!("a filter has at most {FILTER_MAX_CLAUSES} clauses"))
            );
        }
        Ok(())
    }

    fn operand(&self, word: &str, wanted: &str) -> FilterError {
        self.error("invalid_value", format!("{word} takes {wanted}"))
    }

    fn error(&self, code: &'static str, detail: String) -> FilterError {
        FilterError { pointer: self.pointer.clone(), code, detail }
    }
}

fn denial(word: &'static str, value: &Value, test: ValueTest) -> WholeClause {
    WholeClause::Not {
        word,
        node: FilterNode { parts: vec![ValueClause::Test { said: value.clone(), test }], wholes: vec![] },
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
        Filter::compile(&document)
            .map_err(|error| de::Error::custom(format!("filter{}: {error}", error.pointer)))
    }
}

#[cfg(test)]
mod tests;
