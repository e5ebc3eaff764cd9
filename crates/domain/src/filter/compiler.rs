//! From a document to a filter: every word is known and has an operand it can work with, or the document is refused.

use super::{
    FILTER_MAX_CLAUSES, FilterError,
    node::{Comparison, FilterNode, Operand, ValueClause, ValueSet, ValueTest, WholeClause, under},
    subject::order,
};
use serde_json::Value;

const TOP: [&str; 4] = ["type", "data", "headers", "metadata"];
pub(super) const OPERATORS: &str =
    "$eq $neq $gt $gte $lt $lte $in $nin $startsWith $endsWith $exist $not $or $and";

/// Where in the document we are, as far as it changes which keys are allowed and how they are read.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum DocumentLevel {
    Top,
    Headers,
    Inside,
}

pub(super) struct Compiler {
    pointer: String,
    clauses: usize,
    /// Of a filter that was kept: by a version that took words with a dollar inside of values for names.
    is_kept: bool,
}

impl Compiler {
    pub(super) fn new(is_kept: bool) -> Self {
        Self { pointer: String::new(), clauses: 0, is_kept }
    }

    pub(super) fn node(&mut self, document: &Value, level: DocumentLevel) -> Result<FilterNode, FilterError> {
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
            _ if !is_operator(word) => return Err(self.unknown(word)),
            _ if level == DocumentLevel::Top => {
                let detail =
                    format!("`{word}` needs a path, as in {{\"data\": {{\"amount\": {{\"{word}\": …}}}}}}");
                return Err(self.error("invalid_value", detail));
            }
            _ => self.question(word, value, node)?,
        }
        Ok(())
    }

    /// What is asked of a value, and has itself a plain value beside it.
    fn question(&mut self, word: &str, value: &Value, node: &mut FilterNode) -> Result<(), FilterError> {
        if !self.is_kept {
            self.plain(word, value)?;
        }
        match word {
            "$exist" => {
                let wanted = value.as_bool().ok_or_else(|| self.operand(word, "true or false"))?;
                node.wholes.push(WholeClause::Exist { said: under(word, value.clone()), wanted });
            }
            "$neq" => {
                let test = ValueTest::Equal(value.clone());
                let parts = vec![ValueClause::Test { said: value.clone(), test }];
                let node_inside = FilterNode { parts, wholes: vec![] };
                node.wholes.push(WholeClause::Not { word: "$neq", node: node_inside });
            }
            "$in" => self.membership(word, value, under(word, value.clone()), node)?,
            "$nin" => {
                let mut inside = FilterNode::default();
                self.membership(word, value, value.clone(), &mut inside)?;
                node.wholes.push(WholeClause::Not { word: "$nin", node: inside });
            }
            _ => {
                let test = self.test(word, value)?;
                node.parts.push(ValueClause::Test { said: under(word, value.clone()), test });
            }
        }
        Ok(())
    }

    fn test(&self, word: &str, value: &Value) -> Result<ValueTest, FilterError> {
        let texts = || {
            let alone = std::slice::from_ref(value);
            let texts = value.as_array().map_or(alone, Vec::as_slice).iter();
            let texts: Option<_> = texts.map(|text| text.as_str().map(Into::into)).collect();
            texts.ok_or_else(|| self.operand(word, "a string or an array of strings"))
        };
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
            "$startsWith" => Ok(ValueTest::StartsWith(texts()?)),
            "$endsWith" => Ok(ValueTest::EndsWith(texts()?)),
            _ => Ok(ValueTest::Equal(value.clone())),
        }
    }

    /// A string is looked for inside of the value; of an array the value is one.
    fn membership(
        &self,
        word: &str,
        value: &Value,
        said: Value,
        node: &mut FilterNode,
    ) -> Result<(), FilterError> {
        match value.as_str() {
            Some(text) => node.wholes.push(WholeClause::Contains { said, text: text.into() }),
            None => {
                let test = ValueTest::In(self.set(word, value)?);
                node.parts.push(ValueClause::Test { said, test });
            }
        }
        Ok(())
    }

    fn set(&self, word: &str, value: &Value) -> Result<ValueSet, FilterError> {
        let wrong = || self.operand(word, "a string, or an array of strings, numbers, true, false or null");
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

    fn unknown(&self, word: &str) -> FilterError {
        self.error("unknown_operator", format!("`{word}` is not an operator; there are {OPERATORS}"))
    }

    /// A word with a dollar inside of what `word` compares with would otherwise be the name of a member.
    fn plain(&mut self, word: &str, value: &Value) -> Result<(), FilterError> {
        match value {
            Value::Object(members) => members.iter().try_for_each(|(key, value)| {
                self.at(key, |this| match key.starts_with('$') {
                    true if is_operator(key) => {
                        let detail = format!("`{key}` cannot stand here: {word} compares with a plain value");
                        Err(this.error("invalid_value", detail))
                    }
                    true => Err(this.unknown(key)),
                    false => this.plain(word, value),
                })
            }),
            Value::Array(elements) => elements
                .iter()
                .enumerate()
                .try_for_each(|(index, value)| self.at(&index.to_string(), |this| this.plain(word, value))),
            _ => Ok(()),
        }
    }

    fn operand(&self, word: &str, wanted: &str) -> FilterError {
        self.error("invalid_value", format!("{word} takes {wanted}"))
    }

    fn error(&self, code: &'static str, detail: String) -> FilterError {
        FilterError { pointer: self.pointer.clone(), code, detail }
    }
}

fn is_operator(word: &str) -> bool {
    OPERATORS.split(' ').any(|known| known == word)
}
