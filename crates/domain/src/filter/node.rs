//! A compiled filter: what holds of an event, and what of it did not. Nothing is allocated while matching.

use super::{
    FILTER_MAX_STEPS, FILTER_STEP_TEXT_BYTES, Mismatch,
    subject::{SubjectValue, order, same, same_data},
};
use serde_json::{Map, Number, Value};
use std::{cell::Cell, cmp::Ordering};

/// One object of the document (or one plain value), compiled.
#[derive(Debug, Clone, Default)]
pub(super) struct FilterNode {
    /// Hold together of the value or, if that is an array, of one of its elements.
    pub(super) parts: Vec<ValueClause>,
    /// Asked of the value as a whole, array or not.
    pub(super) wholes: Vec<WholeClause>,
}

#[derive(Debug, Clone)]
pub(super) enum ValueClause {
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
pub(super) enum ValueTest {
    Equal(Value),
    Compare(Comparison, Operand),
    In(ValueSet),
    /// Any of them.
    StartsWith(Vec<Box<str>>),
    EndsWith(Vec<Box<str>>),
}

#[derive(Debug, Clone)]
pub(super) enum WholeClause {
    /// `said` tells `{}` from `{"$exist": true}`.
    Exist {
        said: Value,
        wanted: bool,
    },
    /// `$in` with a string: a text that has it inside, or an array that has it as an element.
    Contains {
        said: Value,
        text: Box<str>,
    },
    /// `$not`, and `$neq` and `$nin` with a single question inside.
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
pub(super) enum Comparison {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
}

#[derive(Debug, Clone)]
pub(super) enum Operand {
    Number(Number),
    Text(Box<str>),
}

/// The values of a `$in`, sorted: a long list costs a few compares, not one for each.
#[derive(Debug, Clone, Default)]
pub(super) struct ValueSet {
    pub(super) texts: Vec<Box<str>>,
    pub(super) numbers: Vec<Number>,
    pub(super) yes: bool,
    pub(super) no: bool,
    pub(super) null: bool,
}

/// What is left of [`FILTER_MAX_STEPS`] for one event; once short, it stays at nothing.
pub(super) struct Steps(Cell<usize>);

impl Steps {
    pub(super) fn new() -> Steps {
        // One more than may be used, so that zero always means "tried to use more".
        Steps(Cell::new(FILTER_MAX_STEPS + 1))
    }

    fn spend(&self, count: usize) -> bool {
        self.0.set(self.0.get().saturating_sub(count));
        !self.are_spent()
    }

    pub(super) fn are_spent(&self) -> bool {
        self.0.get() == 0
    }
}

impl FilterNode {
    pub(super) fn holds(&self, seen: SubjectValue<'_>, steps: &Steps) -> bool {
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

    pub(super) fn mismatch<'a>(
        &'a self,
        seen: SubjectValue<'_>,
        path: &mut Vec<&'a str>,
    ) -> Option<Mismatch> {
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
            ValueClause::Test { test, .. } => test.holds(seen, steps),
            ValueClause::Field { name, node } => node.holds(seen.field(name), steps),
        }
    }

    fn mismatch<'a>(&'a self, seen: SubjectValue<'_>, path: &mut Vec<&'a str>) -> Option<Mismatch> {
        match self {
            ValueClause::Test { said, test } => {
                (!test.holds(seen, &Steps::new())).then(|| mismatch_at(path, said.clone(), seen))
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
    fn holds(&self, seen: SubjectValue<'_>, steps: &Steps) -> bool {
        let any = |texts: &[Box<str>], is: fn(&str, &str) -> bool| {
            // The first of a list is in the step of its clause.
            let found = seen.text().filter(|_| steps.spend(texts.len().saturating_sub(1)));
            found.is_some_and(|found| texts.iter().any(|text| is(found, text)))
        };
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
            ValueTest::StartsWith(starts) => any(starts, |text, start| text.starts_with(start)),
            ValueTest::EndsWith(ends) => any(ends, |text, end| text.ends_with(end)),
        }
    }
}

impl WholeClause {
    fn holds(&self, seen: SubjectValue<'_>, steps: &Steps) -> bool {
        match self {
            WholeClause::Exist { wanted, .. } => *wanted != matches!(seen, SubjectValue::Nothing),
            WholeClause::Contains { text, .. } => contains(seen, text, steps),
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
            WholeClause::Exist { said, .. } | WholeClause::Contains { said, .. } => said.clone(),
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

fn contains(seen: SubjectValue<'_>, text: &str, steps: &Steps) -> bool {
    if let Some(found) = seen.text() {
        return steps.spend(1 + found.len() / FILTER_STEP_TEXT_BYTES) && found.contains(text);
    }
    let Some(mut elements) = seen.elements() else { return false };
    elements.any(|element| {
        let equal = |found: &str| found == text;
        steps.spend(1) && element.text().map_or_else(|| contains(element, text, steps), equal)
    })
}

fn mismatch_at(path: &[&str], expected: Value, seen: SubjectValue<'_>) -> Mismatch {
    let top = || expected.as_object().and_then(|said| said.keys().next()).cloned().unwrap_or_default();
    let path = if path.is_empty() { top() } else { path.join(".") };
    Mismatch { path, expected, found: seen.to_value() }
}

pub(super) fn under(name: &str, value: Value) -> Value {
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
