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

/// Enough for the longest filter a person writes; a list of a thousand customers belongs into metadata.
pub const FILTER_MAX_BYTES: usize = 4 * 1024;
pub const FILTER_MAX_CLAUSES: usize = 64;
pub const FILTER_MAX_DEPTH: usize = 16;
/// Questions asked of array elements while matching one event: 64 clauses over 780 elements, or 10 over 5,000.
/// Without it, 62 clauses over a megabyte of small numbers took half a second of everybody's ingest; with it, the
/// worst found is 4.5 ms (a `$in` of 890 numbers; release build, best of 40 on two busy cores), the rest below 2 ms.
pub const FILTER_MAX_STEPS: usize = 50_000;

const TOP: [&str; 4] = ["type", "data", "headers", "metadata"];
const OPERATORS: &str = "$eq $neq $gt $gte $lt $lte $in $nin $startsWith $endsWith $exist $not $or $and";

/// A compiled match document. It is its document in JSON and in the store; [`Filter::compile`] is the only way in.
#[derive(Debug, Clone)]
pub struct Filter {
    source: Value,
    root: Node,
}

/// What a filter looks at.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub event_type: &'a str,
    /// `None` when the payload is not JSON.
    pub data: Option<&'a Value>,
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
        Ok(Filter { root: compiler.node(document, Place::Top)?, source: document.clone() })
    }

    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        let steps = Steps::new();
        self.root.holds(Seen::Event(subject), &steps) && !steps.are_spent()
    }

    /// `None` exactly when it matches.
    pub fn explain(&self, subject: &Subject<'_>) -> Option<Mismatch> {
        let (seen, steps) = (Seen::Event(subject), Steps::new());
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
struct Node {
    /// Hold together of the value or, if that is an array, of one of its elements.
    parts: Vec<Part>,
    /// Asked of the value as a whole, array or not.
    wholes: Vec<Whole>,
}

#[derive(Debug, Clone)]
enum Part {
    /// `said` is how the user wrote it, for explanations.
    Test {
        said: Value,
        test: Test,
    },
    Field {
        name: Box<str>,
        node: Node,
    },
}

#[derive(Debug, Clone)]
enum Test {
    Equal(Value),
    Compare(Comparison, Operand),
    In(Set),
    StartsWith(Box<str>),
    EndsWith(Box<str>),
}

#[derive(Debug, Clone)]
enum Whole {
    /// `said` tells `{}` from `{"$exist": true}`.
    Exist {
        said: Value,
        wanted: bool,
    },
    /// `$not`, and `$neq` and `$nin` with a single test inside.
    Not {
        word: &'static str,
        node: Node,
    },
    Or(Vec<Node>),
    And(Vec<Node>),
    /// A plain array: the value is an array that has all of these.
    HasAll(Vec<Node>),
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
struct Set {
    texts: Vec<Box<str>>,
    numbers: Vec<Number>,
    yes: bool,
    no: bool,
    null: bool,
}

/// A value of the subject, wherever it lives, without making a `Value` of it.
#[derive(Clone, Copy)]
enum Seen<'a> {
    Event(&'a Subject<'a>),
    Json(&'a Value),
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

impl Node {
    fn holds(&self, seen: Seen<'_>, steps: &Steps) -> bool {
        self.parts_hold(seen, steps) && self.wholes.iter().all(|whole| whole.holds(seen, steps))
    }

    fn parts_hold(&self, seen: Seen<'_>, steps: &Steps) -> bool {
        let all = || self.parts.iter().all(|part| part.holds(seen, steps));
        let Some(elements) = seen.elements() else { return all() };
        // An array has no keys, not even missing ones: nested keys are asked of its elements alone.
        let has_fields = self.parts.iter().any(|part| matches!(part, Part::Field { .. }));
        if self.parts.is_empty() || (!has_fields && all()) {
            return true;
        }
        for element in elements {
            if !steps.spend(self.parts.len()) {
                return false;
            }
            if self.parts_hold(Seen::Json(element), steps) {
                return true;
            }
        }
        false
    }

    fn mismatch<'a>(&'a self, seen: Seen<'_>, path: &mut Vec<&'a str>) -> Option<Mismatch> {
        if !self.parts_hold(seen, &Steps::new()) {
            if seen.elements().is_some() {
                return Some(mismatch_at(path, together(self.parts.iter().map(Part::said)), seen));
            }
            return self.parts.iter().find_map(|part| part.mismatch(seen, path));
        }
        self.wholes.iter().find_map(|whole| whole.mismatch(seen, path))
    }

    fn said(&self) -> Value {
        together(self.parts.iter().map(Part::said).chain(self.wholes.iter().map(Whole::said)))
    }
}

impl Part {
    fn holds(&self, seen: Seen<'_>, steps: &Steps) -> bool {
        match self {
            Part::Test { test, .. } => test.holds(seen),
            Part::Field { name, node } => node.holds(seen.field(name), steps),
        }
    }

    fn mismatch<'a>(&'a self, seen: Seen<'_>, path: &mut Vec<&'a str>) -> Option<Mismatch> {
        match self {
            Part::Test { said, test } => (!test.holds(seen)).then(|| mismatch_at(path, said.clone(), seen)),
            Part::Field { name, node } => {
                path.push(name);
                let found = node.mismatch(seen.field(name), path);
                path.pop();
                found
            }
        }
    }

    fn said(&self) -> Value {
        match self {
            Part::Test { said, .. } => said.clone(),
            Part::Field { name, node } => under(name, node.said()),
        }
    }
}

impl Test {
    fn holds(&self, seen: Seen<'_>) -> bool {
        match self {
            Test::Equal(wanted) => match seen {
                Seen::Json(value) => same(wanted, value),
                Seen::Text(text) => wanted.as_str() == Some(text),
                Seen::Event(_) | Seen::Nothing => false,
            },
            Test::Compare(comparison, operand) => {
                let order = match operand {
                    Operand::Number(number) => seen.number().map(|found| order(found, number)),
                    Operand::Text(text) => seen.text().map(|found| found.cmp(text)),
                };
                order.is_some_and(|order| comparison.accepts(order))
            }
            Test::In(set) => set.has(seen),
            Test::StartsWith(start) => seen.text().is_some_and(|text| text.starts_with(&**start)),
            Test::EndsWith(end) => seen.text().is_some_and(|text| text.ends_with(&**end)),
        }
    }
}

impl Whole {
    fn holds(&self, seen: Seen<'_>, steps: &Steps) -> bool {
        match self {
            Whole::Exist { wanted, .. } => *wanted != matches!(seen, Seen::Nothing),
            Whole::Not { node, .. } => !node.holds(seen, steps),
            Whole::Or(nodes) => nodes.iter().any(|node| node.holds(seen, steps)),
            Whole::And(nodes) => nodes.iter().all(|node| node.holds(seen, steps)),
            Whole::HasAll(nodes) => {
                seen.elements().is_some() && nodes.iter().all(|node| node.holds(seen, steps))
            }
        }
    }

    fn mismatch<'a>(&'a self, seen: Seen<'_>, path: &mut Vec<&'a str>) -> Option<Mismatch> {
        if self.holds(seen, &Steps::new()) {
            return None;
        }
        if let Whole::And(nodes) = self {
            return nodes.iter().find_map(|node| node.mismatch(seen, path));
        }
        Some(mismatch_at(path, self.said(), seen))
    }

    fn said(&self) -> Value {
        let list = |nodes: &[Node]| Value::Array(nodes.iter().map(Node::said).collect());
        match self {
            Whole::Exist { said, .. } => said.clone(),
            Whole::Not { word, node } => under(word, node.said()),
            Whole::Or(nodes) => under("$or", list(nodes)),
            Whole::And(nodes) => under("$and", list(nodes)),
            Whole::HasAll(nodes) => list(nodes),
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

impl Set {
    fn has(&self, seen: Seen<'_>) -> bool {
        if let Some(text) = seen.text() {
            return self.texts.binary_search_by(|known| (**known).cmp(text)).is_ok();
        }
        match seen {
            Seen::Json(Value::Number(number)) => {
                self.numbers.binary_search_by(|known| order(known, number)).is_ok()
            }
            Seen::Json(Value::Bool(value)) => {
                if *value {
                    self.yes
                } else {
                    self.no
                }
            }
            Seen::Json(Value::Null) => self.null,
            _ => false,
        }
    }
}

impl<'a> Seen<'a> {
    fn field(self, name: &str) -> Seen<'a> {
        match self {
            Seen::Event(subject) => match name {
                "type" => Seen::Text(subject.event_type),
                "data" => subject.data.map_or(Seen::Nothing, Seen::Json),
                "headers" => Seen::Json(subject.headers),
                _ => Seen::Json(subject.metadata),
            },
            Seen::Json(Value::Object(members)) => members.get(name).map_or(Seen::Nothing, Seen::Json),
            _ => Seen::Nothing,
        }
    }

    fn elements(self) -> Option<&'a [Value]> {
        match self {
            Seen::Json(Value::Array(elements)) => Some(elements),
            _ => None,
        }
    }

    fn text(self) -> Option<&'a str> {
        match self {
            Seen::Text(text) => Some(text),
            Seen::Json(value) => value.as_str(),
            _ => None,
        }
    }

    fn number(self) -> Option<&'a Number> {
        match self {
            Seen::Json(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    fn to_value(self) -> Option<Value> {
        match self {
            Seen::Json(value) => Some(value.clone()),
            Seen::Text(text) => Some(text.into()),
            Seen::Event(_) | Seen::Nothing => None,
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

fn mismatch_at(path: &[&str], expected: Value, seen: Seen<'_>) -> Mismatch {
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
enum Place {
    Top,
    Headers,
    Inside,
}

struct Compiler {
    pointer: String,
    clauses: usize,
}

impl Compiler {
    fn node(&mut self, document: &Value, place: Place) -> Result<Node, FilterError> {
        let mut node = Node::default();
        match document {
            Value::Object(members) if members.is_empty() => {
                self.count()?;
                node.wholes.push(Whole::Exist { said: document.clone(), wanted: true });
            }
            Value::Object(members) => {
                for (key, value) in members {
                    self.at(key, |this| {
                        if key.starts_with('$') {
                            this.operator(key, value, place, &mut node)
                        } else {
                            this.field(key, value, place, &mut node)
                        }
                    })?;
                }
            }
            _ if place == Place::Top => {
                return Err(self.error(
                    "invalid_value",
                    "a filter is an object with the keys type, data, headers, metadata, $or, $and, $not"
                        .into(),
                ));
            }
            Value::Array(elements) => {
                self.count()?;
                node.wholes.push(Whole::HasAll(self.nodes(elements, place)?));
            }
            plain => {
                self.count()?;
                node.parts.push(Part::Test { said: plain.clone(), test: Test::Equal(plain.clone()) });
            }
        }
        Ok(node)
    }

    fn field(&mut self, key: &str, value: &Value, place: Place, node: &mut Node) -> Result<(), FilterError> {
        let (name, inside) = match place {
            Place::Top if !TOP.contains(&key) => {
                let detail = format!(
                    "`{key}`: at the top a filter has type, data, headers and metadata; the payload is below data"
                );
                return Err(self.error("unknown_field", detail));
            }
            Place::Top if key == "headers" => (key.into(), Place::Headers),
            Place::Headers => (key.to_ascii_lowercase().into(), Place::Inside),
            Place::Top | Place::Inside => (key.into(), Place::Inside),
        };
        node.parts.push(Part::Field { name, node: self.node(value, inside)? });
        Ok(())
    }

    fn operator(
        &mut self,
        word: &str,
        value: &Value,
        place: Place,
        node: &mut Node,
    ) -> Result<(), FilterError> {
        self.count()?;
        match word {
            "$or" => node.wholes.push(Whole::Or(self.alternatives(value, place)?)),
            "$and" => node.wholes.push(Whole::And(self.alternatives(value, place)?)),
            "$not" => node.wholes.push(Whole::Not { word: "$not", node: self.node(value, place)? }),
            _ if !OPERATORS.split(' ').any(|known| known == word) => {
                return Err(self.error(
                    "unknown_operator",
                    format!("`{word}` is not an operator; there are {OPERATORS}"),
                ));
            }
            _ if place == Place::Top => {
                let detail =
                    format!("`{word}` needs a path, as in {{\"data\": {{\"amount\": {{\"{word}\": …}}}}}}");
                return Err(self.error("invalid_value", detail));
            }
            "$exist" => {
                let wanted = value.as_bool().ok_or_else(|| self.operand(word, "true or false"))?;
                node.wholes.push(Whole::Exist { said: under(word, value.clone()), wanted });
            }
            "$neq" => node.wholes.push(denial("$neq", value, Test::Equal(value.clone()))),
            "$nin" => node.wholes.push(denial("$nin", value, Test::In(self.set(word, value)?))),
            _ => {
                let test = self.test(word, value)?;
                node.parts.push(Part::Test { said: under(word, value.clone()), test });
            }
        }
        Ok(())
    }

    fn test(&self, word: &str, value: &Value) -> Result<Test, FilterError> {
        let text = || value.as_str().map(Into::into).ok_or_else(|| self.operand(word, "a string"));
        let compare = |comparison| {
            let operand = match value {
                Value::Number(number) => Operand::Number(number.clone()),
                Value::String(text) => Operand::Text(text.as_str().into()),
                _ => return Err(self.operand(word, "a number or a string")),
            };
            Ok(Test::Compare(comparison, operand))
        };
        match word {
            "$gt" => compare(Comparison::Greater),
            "$gte" => compare(Comparison::GreaterOrEqual),
            "$lt" => compare(Comparison::Less),
            "$lte" => compare(Comparison::LessOrEqual),
            "$in" => Ok(Test::In(self.set(word, value)?)),
            "$startsWith" => Ok(Test::StartsWith(text()?)),
            "$endsWith" => Ok(Test::EndsWith(text()?)),
            _ => Ok(Test::Equal(value.clone())),
        }
    }

    fn set(&self, word: &str, value: &Value) -> Result<Set, FilterError> {
        let wrong = || self.operand(word, "an array of strings, numbers, true, false or null");
        let mut set = Set::default();
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

    fn alternatives(&mut self, value: &Value, place: Place) -> Result<Vec<Node>, FilterError> {
        match value.as_array() {
            Some(documents) if !documents.is_empty() => self.nodes(documents, place),
            _ => {
                Err(self
                    .error("invalid_value", "$or and $and take an array with at least one document".into()))
            }
        }
    }

    fn nodes(&mut self, documents: &[Value], place: Place) -> Result<Vec<Node>, FilterError> {
        let indexed = documents.iter().enumerate();
        indexed
            .map(|(index, document)| self.at(&index.to_string(), |this| this.node(document, place)))
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

fn denial(word: &'static str, value: &Value, test: Test) -> Whole {
    Whole::Not { word, node: Node { parts: vec![Part::Test { said: value.clone(), test }], wholes: vec![] } }
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
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// An `order.created` with a header and some metadata, about this data.
    fn seen<T>(data: Option<&Value>, look: impl FnOnce(&Subject<'_>) -> T) -> T {
        let (headers, metadata) = (json!({"x-tier": "gold"}), json!({"region": "eu"}));
        look(&Subject { event_type: "order.created", data, headers: &headers, metadata: &metadata })
    }

    fn check(filter: Value, data: Value, expected: bool) {
        let compiled = Filter::compile(&filter).unwrap();
        assert_eq!(seen(Some(&data), |subject| compiled.matches(subject)), expected, "{filter} on {data}");
        assert_eq!(seen(Some(&data), |subject| compiled.explain(subject)).is_none(), expected);
    }

    /// What is said of `data.v`, against values that it should hold of and values that it should not.
    fn holds(said: Value, yes: &[Value], no: &[Value]) {
        let filter = json!({"data": {"v": said}});
        yes.iter().for_each(|value| check(filter.clone(), json!({"v": value}), true));
        no.iter().for_each(|value| check(filter.clone(), json!({"v": value}), false));
    }

    fn missing(said: Value, expected: bool) {
        check(json!({"data": {"v": said}}), json!({}), expected);
        check(json!({"data": {"v": {"w": said}}}), json!({"v": 5}), expected);
    }

    fn refused(filter: Value) -> (String, &'static str) {
        let error = Filter::compile(&filter).unwrap_err();
        assert!(!error.detail.is_empty());
        (error.pointer, error.code)
    }

    #[test]
    fn a_plain_value_is_equal_and_of_the_same_type() {
        holds(json!("1"), &[json!("1")], &[json!(1), json!("11"), json!(null), json!({"v": "1"})]);
        holds(json!(1), &[json!(1), json!(1.0)], &[json!("1"), json!(true), json!(1.5)]);
        holds(json!(null), &[json!(null)], &[json!(false), json!(0), json!("")]);
        holds(json!(true), &[json!(true)], &[json!(false), json!("true"), json!(1)]);
    }

    #[test]
    fn numbers_compare_exactly_however_large() {
        let large = 9_007_199_254_740_993_u64; // 2^53 + 1, which no float can say
        holds(json!(large), &[json!(large)], &[json!(large - 1), json!(9_007_199_254_740_992.0)]);
        holds(json!({"$gt": 9_007_199_254_740_992.0}), &[json!(large)], &[json!(large - 1)]);
        holds(json!({"$gt": u64::MAX}), &[json!(1e300)], &[json!(u64::MAX), json!(-1e300), json!(i64::MIN)]);
        holds(json!({"$lt": -0.5}), &[json!(-1), json!(i64::MIN), json!(-1e300)], &[json!(0), json!(-0.5)]);
    }

    #[test]
    fn all_keys_must_hold_and_objects_match_in_part() {
        let data = json!({"a": 1, "b": {"c": "x", "d": 2}, "e": 3});
        check(json!({"data": {"a": 1, "b": {"c": "x"}}}), data.clone(), true);
        check(json!({"data": {"a": 1, "b": {"c": "y"}}}), data.clone(), false);
        check(json!({"data": {"b": {"$eq": {"c": "x"}}}}), data.clone(), false);
        check(json!({"data": {"b": {"$eq": {"d": 2.0, "c": "x"}}}}), data.clone(), true);
        check(json!({}), data.clone(), true);
        check(json!({"data": {"b": {}}}), data.clone(), true);
        check(json!({"data": {"z": {}}}), data, false);
    }

    #[test]
    fn type_headers_and_metadata_are_looked_at_too() {
        for (filter, expected) in [
            (json!({"type": "order.created"}), true),
            (json!({"type": {"$startsWith": "order."}}), true),
            (json!({"type": {"$in": ["a", "b"]}}), false),
            (json!({"type": {"deeper": {"$exist": false}}}), true),
            (json!({"headers": {"x-tier": "gold"}}), true),
            (json!({"headers": {"X-Tier": "gold"}}), true),
            (json!({"headers": {"$or": [{"X-Tier": "gold"}]}}), true),
            (json!({"metadata": {"region": {"$neq": "eu"}}}), false),
        ] {
            check(filter, json!({}), expected);
        }
    }

    #[test]
    fn comparisons_stay_within_their_type() {
        holds(
            json!({"$gte": 100}),
            &[json!(100), json!(100.5)],
            &[json!(99), json!("200"), json!(null), json!({})],
        );
        holds(json!({"$lt": "b"}), &[json!("a"), json!("")], &[json!("b"), json!(1), json!(true)]);
        holds(json!({"$gt": 1, "$lte": 3}), &[json!(2), json!(3)], &[json!(1), json!(4)]);
        holds(json!({"$startsWith": "ab"}), &[json!("abc")], &[json!("b"), json!(12)]);
        holds(json!({"$endsWith": "bc"}), &[json!("abc")], &[json!("b"), json!(null)]);
    }

    #[test]
    fn sets_hold_of_any_of_their_values() {
        let set = json!(["b", "a", 7, 3, null, true]);
        let (yes, no) = (
            [json!("a"), json!(7.0), json!(null), json!(true)],
            [json!("c"), json!(4), json!(false), json!({})],
        );
        holds(json!({"$in": set}), &yes, &no);
        holds(json!({"$nin": set}), &no, &yes);
        holds(json!({"$in": []}), &[], &yes);
    }

    #[test]
    fn an_array_matches_if_one_element_does() {
        holds(json!("a"), &[json!(["b", "a"]), json!([["a"]])], &[json!([]), json!(["b"])]);
        holds(json!({"$gt": 5, "$lt": 10}), &[json!([1, 7])], &[json!([3, 20])]);
        holds(
            json!({"$eq": [1, 2]}),
            &[json!([1, 2]), json!([[1, 2], 3])],
            &[json!([2, 1]), json!([1]), json!(1)],
        );
        holds(
            json!({"sku": "x", "price": {"$gt": 5}}),
            &[json!([{"sku": "x", "price": 6}])],
            &[json!([{"sku": "x", "price": 1}, {"sku": "y", "price": 6}]), json!([])],
        );
    }

    #[test]
    fn a_negation_on_an_array_denies_the_positive() {
        let (without, with) = ([json!(["b"]), json!([]), json!("b")], [json!(["b", "a"]), json!("a")]);
        holds(json!({"$neq": "a"}), &without, &with);
        holds(json!({"$nin": ["a", "z"]}), &without, &with);
        holds(json!({"$not": "a"}), &without, &with);
        holds(json!({"$not": {"s": "bad"}}), &[json!([{"s": "ok"}])], &[json!([{"s": "ok"}, {"s": "bad"}])]);
        holds(
            json!({"s": {"$neq": "bad"}}),
            &[json!([{"s": "ok"}, {"s": "bad"}])],
            &[json!([{"s": "bad"}]), json!([])],
        );
    }

    #[test]
    fn a_plain_array_wants_an_array_that_has_all_of_these() {
        holds(json!(["a", "b"]), &[json!(["b", "x", "a"])], &[json!(["a"]), json!("a"), json!([])]);
        holds(json!([]), &[json!([]), json!([1])], &[json!(1)]);
        missing(json!([]), false);
    }

    #[test]
    fn on_a_missing_path_only_absence_holds() {
        for (said, expected) in [
            (json!({"$exist": false}), true),
            (json!({"$neq": 1}), true),
            (json!({"$nin": [1]}), true),
            (json!({"$not": 1}), true),
            (json!({"$not": {"$gt": 1}}), true),
            (json!({"$exist": true}), false),
            (json!({"$not": {"$exist": false}}), false),
            (json!(null), false),
            (json!({}), false),
            (json!({"$eq": null}), false),
            (json!({"$lt": 1}), false),
            (json!({"$in": [null]}), false),
            (json!({"$startsWith": ""}), false),
            (json!({"$or": [1, 2]}), false),
        ] {
            missing(said, expected);
        }
        holds(json!({"$exist": true}), &[json!(null), json!([]), json!(0)], &[]);
    }

    #[test]
    fn a_payload_that_is_not_json_has_no_data() {
        for (filter, expected) in [
            (json!({"data": {"a": 1}}), false),
            (json!({"data": {"$exist": false}}), true),
            (json!({"data": {}}), false),
        ] {
            let compiled = Filter::compile(&filter).unwrap();
            assert_eq!(seen(None, |subject| compiled.matches(subject)), expected, "{filter}");
        }
    }

    #[test]
    fn logic_works_at_every_level() {
        let data = json!({"a": 1, "b": "x"});
        for (filter, expected) in [
            (json!({"$or": [{"data": {"a": 2}}, {"type": "order.created"}]}), true),
            (json!({"$and": [{"data": {"a": 1}}, {"data": {"b": "y"}}]}), false),
            (json!({"$not": {"data": {"a": 1}}}), false),
            (json!({"data": {"$or": [{"a": 2}, {"b": "x"}]}}), true),
            (json!({"data": {"a": {"$or": [7, {"$lt": 2}]}}}), true),
            (json!({"data": {"a": {"$and": [{"$gt": 0}, {"$not": {"$gte": 1}}]}}}), false),
            (json!({"type": "order.created", "$not": {"metadata": {"region": "us"}}}), true),
        ] {
            check(filter, data.clone(), expected);
        }
    }

    #[test]
    fn a_mismatch_names_the_path_what_was_wanted_and_what_was_there() {
        let data = json!({"amount": 90, "tags": ["a"], "customer": {"country": "DE"}});
        for (filter, path, expected, found) in [
            (
                json!({"type": "order.created", "data": {"amount": {"$gte": 100}}}),
                "data.amount",
                json!({"$gte": 100}),
                json!(90),
            ),
            (
                json!({"data": {"customer": {"country": "CH"}}}),
                "data.customer.country",
                json!("CH"),
                json!("DE"),
            ),
            (json!({"data": {"amount": {"$gt": 1, "$lt": 5}}}), "data.amount", json!({"$lt": 5}), json!(90)),
            (json!({"data": {"tags": {"$neq": "a"}}}), "data.tags", json!({"$neq": "a"}), json!(["a"])),
            (
                json!({"data": {"tags": {"$nin": ["z", "a"]}}}),
                "data.tags",
                json!({"$nin": ["z", "a"]}),
                json!(["a"]),
            ),
            (json!({"data": {"tags": ["a", "b"]}}), "data.tags", json!(["a", "b"]), json!(["a"])),
            (
                json!({"data": {"tags": {"x": 1, "y": {"$gt": 2}}}}),
                "data.tags",
                json!({"x": 1, "y": {"$gt": 2}}),
                json!(["a"]),
            ),
            (json!({"$and": [{"type": "x"}]}), "type", json!("x"), json!("order.created")),
        ] {
            let why = seen(Some(&data), |subject| Filter::compile(&filter).unwrap().explain(subject));
            assert_eq!(why, Some(Mismatch { path: path.into(), expected, found: Some(found) }), "{filter}");
        }
        let filter = json!({"data": {"absent": {"deep": 1}}});
        let why = seen(Some(&data), |subject| Filter::compile(&filter).unwrap().explain(subject)).unwrap();
        assert_eq!((why.path.as_str(), why.found), ("data.absent.deep", None));
        let filter = json!({"$or": [{"type": "a"}, {"data": {"amount": 1}}]});
        let why = seen(Some(&data), |subject| Filter::compile(&filter).unwrap().explain(subject)).unwrap();
        assert_eq!(why, Mismatch { path: "$or".into(), expected: filter, found: None });
    }

    #[test]
    fn a_wrong_document_is_refused_with_its_place() {
        for (filter, pointer, code) in [
            (json!([]), "", "invalid_value"),
            (json!("order.*"), "", "invalid_value"),
            (json!({"amount": 1}), "/amount", "unknown_field"),
            (json!({"$or": [{"type": "a"}, {"b": 1}]}), "/$or/1/b", "unknown_field"),
            (json!({"$or": [1]}), "/$or/0", "invalid_value"),
            (json!({"$or": []}), "/$or", "invalid_value"),
            (json!({"$gt": 1}), "/$gt", "invalid_value"),
            (json!({"data": {"a/b": {"$regex": "x"}}}), "/data/a~1b/$regex", "unknown_operator"),
            (json!({"$nor": []}), "/$nor", "unknown_operator"),
            (json!({"data": {"a": {"$gt": true}}}), "/data/a/$gt", "invalid_value"),
            (json!({"data": {"a": {"$in": "x"}}}), "/data/a/$in", "invalid_value"),
            (json!({"data": {"a": {"$nin": [{}]}}}), "/data/a/$nin", "invalid_value"),
            (json!({"data": {"a": {"$exist": 1}}}), "/data/a/$exist", "invalid_value"),
            (json!({"data": {"a": {"$startsWith": 1}}}), "/data/a/$startsWith", "invalid_value"),
        ] {
            assert_eq!(refused(filter), (pointer.to_string(), code));
        }
        let error = Filter::compile(&json!({"data": {"a": {"$regex": "x"}}})).unwrap_err();
        assert!(error.to_string().contains("`$regex`"), "{error}");
    }

    #[test]
    fn a_filter_has_at_most_4_kib_64_clauses_and_16_levels() {
        let text = |length| json!({"type": "x".repeat(length)});
        assert!(Filter::compile(&text(4096 - 11)).is_ok());
        assert_eq!(refused(text(4096 - 10)).1, "too_large");

        let clauses = |count: usize| json!({"data": (0..count).map(|n| (format!("k{n}"), json!(n))).collect::<Map<_, _>>()});
        assert!(Filter::compile(&clauses(64)).is_ok());
        assert_eq!(refused(clauses(65)), ("/data/k64".to_string(), "too_many_clauses"));

        let nested =
            |levels| json!({"data": (2..levels).fold(json!({"x": 1}), |inside, _| json!({"x": inside}))});
        assert!(Filter::compile(&nested(16)).is_ok());
        assert_eq!(refused(nested(17)).1, "too_deep");
        assert_eq!(refused(nested(100)).1, "too_deep");
    }

    #[test]
    fn an_event_that_takes_too_many_comparisons_does_not_match_and_says_so() {
        let numbers = |count: usize| json!({"v": vec![1; count]});
        check(json!({"data": {"v": {"$neq": 2}}}), numbers(FILTER_MAX_STEPS), true);
        check(json!({"data": {"v": {"$neq": 2}}}), numbers(FILTER_MAX_STEPS + 1), false);
        check(json!({"data": {"v": {"$not": {"$gt": 2, "$lt": 9}}}}), numbers(FILTER_MAX_STEPS), false);
        check(json!({"data": {"v": 1}}), numbers(FILTER_MAX_STEPS + 1), true);
        let filter = Filter::compile(&json!({"data": {"v": 2}})).unwrap();
        let why = seen(Some(&numbers(FILTER_MAX_STEPS + 1)), |subject| filter.explain(subject)).unwrap();
        assert!(why.expected.as_str().unwrap().contains("50000 comparisons"), "{why:?}");
    }

    #[test]
    fn a_filter_is_its_document_in_json() {
        let text = r#"{"type":"a","data":{"b":{"$in":[2,1]}}}"#;
        let filter: Filter = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&filter).unwrap(), text);
        assert_eq!(filter.source()["type"], "a");
        let error = serde_json::from_str::<Filter>(r#"{"data":{"a":{"$x":1}}}"#).unwrap_err();
        assert!(error.to_string().contains("/data/a/$x"), "{error}");
    }

    /// The rules of the module's page, read straight off the document; the event is just an object.
    fn naive(document: &Value, value: Option<&Value>) -> bool {
        let members = match document {
            Value::Object(members) if members.is_empty() => return value.is_some(),
            Value::Object(members) => members,
            Value::Array(wanted) => {
                return value.is_some_and(Value::is_array)
                    && wanted.iter().all(|document| naive(document, value));
            }
            plain => return with_elements(value).into_iter().flatten().any(|one| equal(plain, one)),
        };
        let about_the_whole = |key: &str| matches!(key, "$or" | "$and" | "$not" | "$neq" | "$nin" | "$exist");
        let (whole, one): (Vec<_>, Vec<_>) = members.iter().partition(|(key, _)| about_the_whole(key));
        let list = |said: &Value| said.as_array().unwrap().clone();
        let whole = whole.into_iter().all(|(key, said)| match key.as_str() {
            "$or" => list(said).iter().any(|document| naive(document, value)),
            "$and" => list(said).iter().all(|document| naive(document, value)),
            "$not" => !naive(said, value),
            "$neq" => !naive(&json!({"$eq": said}), value),
            "$nin" => !naive(&json!({"$in": said}), value),
            _ => value.is_some() == said.as_bool().unwrap(),
        });
        let one_holds = |candidate: Option<&Value>| {
            one.iter().all(|(key, said)| match (key.as_str(), candidate) {
                (key, Some(Value::Array(_))) if !key.starts_with('$') => false,
                (key, _) if !key.starts_with('$') => naive(said, candidate.and_then(|value| value.get(key))),
                (_, None) => false,
                ("$eq", Some(found)) => equal(said, found),
                ("$in", Some(found)) => list(said).iter().any(|said| equal(said, found)),
                ("$startsWith", Some(found)) => {
                    found.as_str().is_some_and(|t| t.starts_with(said.as_str().unwrap()))
                }
                ("$endsWith", Some(found)) => {
                    found.as_str().is_some_and(|t| t.ends_with(said.as_str().unwrap()))
                }
                (comparison, Some(found)) => {
                    let order = match (found, said) {
                        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
                        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
                        _ => None,
                    };
                    order.is_some_and(|order| match comparison {
                        "$gt" => order.is_gt(),
                        "$gte" => order.is_ge(),
                        "$lt" => order.is_lt(),
                        _ => order.is_le(),
                    })
                }
            })
        };
        whole && (one.is_empty() || with_elements(value).into_iter().any(one_holds))
    }

    fn with_elements(value: Option<&Value>) -> Vec<Option<&Value>> {
        let mut all = vec![value];
        for element in value.and_then(Value::as_array).into_iter().flatten() {
            all.extend(with_elements(Some(element)));
        }
        all
    }

    fn equal(a: &Value, b: &Value) -> bool {
        fn plain(value: &Value) -> Value {
            match value {
                Value::Number(number) => json!(number.as_f64()),
                Value::Array(elements) => elements.iter().map(plain).collect(),
                Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), plain(v))).collect(),
                other => other.clone(),
            }
        }
        plain(a) == plain(b)
    }

    fn scalar() -> impl Strategy<Value = Value> + Clone {
        prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (-2i64..4).prop_map(Value::from),
            (-3i64..5).prop_map(|n| json!(n as f64 / 2.0)),
            "[ab]{0,2}".prop_map(Value::from),
        ]
    }

    fn value() -> impl Strategy<Value = Value> + Clone {
        scalar().prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec(("[abc]", inner), 0..4)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    fn clause(
        inner: impl Strategy<Value = Value> + Clone + 'static,
    ) -> impl Strategy<Value = (String, Value)> {
        let key = |word: &'static str| move |value: Value| (word.to_string(), value);
        let list =
            |of: BoxedStrategy<Value>, least| proptest::collection::vec(of, least..4).prop_map(Value::from);
        let operand = || {
            prop_oneof![(-2i64..4).prop_map(Value::from), Just(json!(0.5)), "[ab]{0,2}".prop_map(Value::from)]
        };
        let text = || "[ab]{0,1}".prop_map(Value::from);
        prop_oneof![
            4 => ("[abc]", inner.clone()),
            1 => value().prop_map(key("$eq")),
            1 => value().prop_map(key("$neq")),
            1 => operand().prop_map(key("$gt")),
            1 => operand().prop_map(key("$gte")),
            1 => operand().prop_map(key("$lt")),
            1 => operand().prop_map(key("$lte")),
            1 => list(scalar().boxed(), 0).prop_map(key("$in")),
            1 => list(scalar().boxed(), 0).prop_map(key("$nin")),
            1 => text().prop_map(key("$startsWith")),
            1 => text().prop_map(key("$endsWith")),
            1 => any::<bool>().prop_map(|wanted| ("$exist".to_string(), json!(wanted))),
            1 => inner.clone().prop_map(key("$not")),
            1 => list(inner.clone().boxed(), 1).prop_map(key("$or")),
            1 => list(inner.boxed(), 1).prop_map(key("$and")),
        ]
    }

    fn document() -> impl Strategy<Value = Value> {
        let node = scalar().prop_recursive(4, 24, 3, |inner| {
            let object = proptest::collection::vec(clause(inner.clone()), 0..3);
            prop_oneof![
                4 => object.prop_map(|m| Value::Object(m.into_iter().collect())),
                1 => proptest::collection::vec(inner, 0..3).prop_map(Value::from),
            ]
        });
        let top = (prop_oneof![3 => Just("data"), 1 => Just("metadata"), 1 => Just("type")], node);
        proptest::collection::vec(top, 1..3).prop_flat_map(|members| {
            let object =
                Value::Object(members.into_iter().map(|(key, node)| (key.to_string(), node)).collect());
            prop_oneof![
                Just(object.clone()),
                Just(json!({"$not": object})),
                Just(json!({"$or": [object, {"type": "b"}]})),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn agrees_with_a_naive_reading(
            document in document(),
            data in proptest::option::of(value()),
            metadata in value(),
            event_type in "[ab]{1,2}",
        ) {
            let Ok(filter) = Filter::compile(&document) else { return Ok(()) };
            let headers = json!({});
            let subject = Subject { event_type: &event_type, data: data.as_ref(), headers: &headers, metadata: &metadata };
            let mut event = json!({"type": event_type, "headers": {}, "metadata": metadata});
            if let Some(data) = &data {
                event["data"] = data.clone();
            }
            let matches = filter.matches(&subject);
            prop_assert_eq!(matches, naive(&document, Some(&event)), "{} on {}", document, event);
            prop_assert_eq!(filter.explain(&subject).is_none(), matches);
        }

        #[test]
        fn any_json_is_a_filter_or_an_error_and_never_a_panic(document in value()) {
            let _ = Filter::compile(&json!({"data": document}));
            let _ = Filter::compile(&document);
        }
    }
}
