//! Statements as they are written in `sql/`, with parameters that have names.
//!
//! PostgreSQL numbers its parameters; here nothing has to be counted. A statement says `:name`, its caller says
//! `name: value => TYPE`, and a parameter's number is its place in the order of the names. The statement is numbered
//! when it is first used, the caller's values are put in order when the program is compiled: nothing is looked up by
//! name while a statement runs.

use std::{borrow::Cow, collections::BTreeSet, ops::Range};
use tokio_postgres::types::{ToSql, Type};

pub(super) struct Statement {
    /// Its file in `sql/`, or what it is for: errors tell it.
    pub(super) name: &'static str,
    /// As PostgreSQL takes it.
    pub(super) text: String,
    /// In the order of their numbers.
    pub(super) names: Vec<String>,
}

/// A statement of `sql/`, which may go on in further files or with a last clause; or one of a line, with a name of its
/// own.
macro_rules! sql {
    ($name:literal $(+ $more:literal)*) => {
        std::sync::LazyLock::new(|| {
            $crate::postgres::statement::Statement::new(
                $name,
                $crate::postgres::statement::sql_file!($name $(+ $more)*),
            )
        })
    };
    ($name:literal, $rest:literal) => {
        std::sync::LazyLock::new(|| {
            let text = concat!($crate::postgres::statement::sql_file!($name), $rest);
            $crate::postgres::statement::Statement::new($name, text)
        })
    };
    ($name:literal: $text:literal) => {
        std::sync::LazyLock::new(|| $crate::postgres::statement::Statement::new($name, $text))
    };
}
pub(super) use sql;

/// The text of one or more files in `sql/`, one after the other.
macro_rules! sql_file {
    ($name:literal $(+ $more:literal)*) => {
        concat!(
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/postgres/sql/", $name, ".sql")),
            $(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/postgres/sql/", $more, ".sql")),)*
        )
    };
}
pub(super) use sql_file;

/// What a statement is run with: names, values, and their types as the protocol wants them.
macro_rules! params {
    ($($name:ident: $value:expr => $kind:ident),* $(,)?) => {
        $crate::postgres::statement::Params {
            names: const { &[$(stringify!($name)),*] },
            order: std::borrow::Cow::Borrowed(const {
                &$crate::postgres::statement::in_order([$(stringify!($name)),*])
            }),
            given: std::borrow::Cow::Borrowed(&[$((
                &$value as &(dyn tokio_postgres::types::ToSql + Sync),
                tokio_postgres::types::Type::$kind,
            )),*]),
        }
    };
}
pub(super) use params;

pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

#[derive(Clone)]
pub(super) struct Params<'s, 'v: 's> {
    /// As the caller gives them.
    pub(super) names: &'static [&'static str],
    /// Where the first of the names stands, then the second, and so on.
    pub(super) order: Cow<'static, [usize]>,
    pub(super) given: Cow<'s, [Param<'v>]>,
}

impl<'s, 'v> Params<'s, 'v> {
    /// For a function that returns them.
    pub(super) fn owned(self) -> Params<'v, 'v> {
        let Self { names, order, given } = self;
        Params { names, order, given: Cow::Owned(given.into_owned()) }
    }

    /// For a statement that does not ask for these.
    pub(super) fn without(self, names: &[&str]) -> Self {
        debug_assert!(names.iter().all(|name| self.names.contains(name)), "{names:?} of {:?}", self.names);
        let order = self.order.iter().copied().filter(|place| !names.contains(&self.names[*place])).collect();
        Self { order, ..self }
    }

    pub(super) fn sorted_names(&self) -> impl Iterator<Item = &'static str> {
        self.order.iter().map(|place| self.names[*place])
    }

    /// In the order of their numbers.
    pub(super) fn sorted(&self) -> Vec<Param<'v>> {
        self.order.iter().map(|place| self.given[*place].clone()).collect()
    }
}

impl Statement {
    pub(super) fn new(name: &'static str, source: &str) -> Self {
        let (text, names) = numbered(source);
        Self { name, text, names }
    }

    /// The values as they are sent. That the names agree is looked at in every test that runs the statement, and in one
    /// that reads the sources.
    pub(super) fn values<'v>(&self, params: &Params<'_, 'v>) -> Vec<Param<'v>> {
        debug_assert!(
            params.sorted_names().eq(self.names.iter().map(String::as_str)),
            "`{}` wants {:?} and is given {:?}",
            self.name,
            self.names,
            params.names
        );
        params.sorted()
    }
}

/// The text with numbers in the place of names, and the names in the order of their numbers.
pub(super) fn numbered(source: &str) -> (String, Vec<String>) {
    let places = places(source);
    let name = |place: &Range<usize>| &source[place.start + 1..place.end];
    let names = Vec::from_iter(places.iter().map(name).collect::<BTreeSet<&str>>());
    let (mut text, mut copied) = (String::with_capacity(source.len()), 0);
    for place in &places {
        let number = names.binary_search(&name(place)).expect("every name is among the names") + 1;
        text.push_str(&source[copied..place.start]);
        text.push_str(&format!("${number}"));
        copied = place.end;
    }
    text.push_str(&source[copied..]);
    (text, names.into_iter().map(str::to_owned).collect())
}

/// Where the names are: `:name`, but not in a literal or a comment, and not the type in `value::type`.
fn places(source: &str) -> Vec<Range<usize>> {
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let (skipped, end) = match first {
            '-' if rest.starts_with("--") => (2, "\n"),
            '/' if rest.starts_with("/*") => (2, "*/"),
            '\'' => (1, "'"),
            '"' => (1, "\""),
            '$' => match dollar_quote(rest) {
                Some(quote) => (quote.len(), quote),
                None => (1, ""),
            },
            ':' if rest.starts_with("::") => (2, ""),
            ':' => {
                let length = rest[1..].bytes().take_while(|byte| is_of_name(*byte)).count();
                if length > 0 {
                    places.push(at..at + 1 + length);
                }
                (1 + length, "")
            }
            other => (other.len_utf8(), ""),
        };
        at += skipped;
        at += source[at..].find(end).map_or(source.len() - at, |found| found + end.len());
    }
    places
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_'
}

/// `$$` or `$word$`, where the text begins with one.
fn dollar_quote(text: &str) -> Option<&str> {
    let word = text[1..].bytes().take_while(|byte| is_of_name(*byte)).count();
    text[1 + word..].starts_with('$').then(|| &text[..word + 2])
}

/// Where the first of these names stands, then the second, and so on. Two that are the same do not compile.
pub(super) const fn in_order<const N: usize>(names: [&str; N]) -> [usize; N] {
    let mut order = [0; N];
    let mut next = 0;
    while next < N {
        let mut at = next;
        while at > 0 && is_before(names[next], names[order[at - 1]]) {
            order[at] = order[at - 1];
            at -= 1;
        }
        order[at] = next;
        next += 1;
    }
    order
}

const fn is_before(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() {
        if one[at] != other[at] {
            return one[at] < other[at];
        }
        at += 1;
    }
    assert!(one.len() != other.len(), "a parameter is given twice");
    one.len() < other.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_its_place_among_the_names() {
        let (text, names) = numbered("select * from t where b = :beta and a = :alpha or b > :beta + :n_2");
        assert_eq!(text, "select * from t where b = $2 and a = $1 or b > $2 + $3");
        assert_eq!(names, ["alpha", "beta", "n_2"]);
    }

    #[test]
    fn what_only_looks_like_a_name_is_left_alone() {
        for text in [
            "select x::text, y::uuid[] from t",
            "select ':no', 'it''s :no', \":no\" from t",
            "select 1 -- of :no\n, 2 /* :no\n :no */",
            "do $$ begin perform :no; end $$",
            "do $body$ :no $ :no $$ :no $body$",
            "select '7:30', 7 : 30",
            "",
            "select ':not closed",
            "select ':ü', ü",
        ] {
            assert_eq!(numbered(text), (text.to_owned(), Vec::new()), "{text}");
        }
        assert_eq!(numbered("select :id::uuid, (:ids)[1] -- :no").0, "select $1::uuid, ($2)[1] -- :no");
        assert_eq!(numbered("'a':id'b'").0, "'a'$1'b'");
    }

    #[test]
    fn values_are_sent_in_the_order_of_their_names() {
        let statement = Statement::new("test", "select :b, :a, :c");
        let params = params![c: 3_i64 => INT8, b: true => BOOL, a: "a" => TEXT];
        let types: Vec<Type> = statement.values(&params).into_iter().map(|(_, kind)| kind).collect();
        assert_eq!(types, [Type::TEXT, Type::BOOL, Type::INT8]);
        let names: Vec<&str> = params.sorted_names().collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    #[should_panic(expected = "`test` wants [\"a\", \"b\"] and is given [\"a\", \"c\"]")]
    fn a_name_that_the_statement_does_not_have_is_found_by_any_test_that_runs_it() {
        let statement = Statement::new("test", "select :b, :a");
        statement.values(&params![a: 1_i64 => INT8, c: 2_i64 => INT8]);
    }
}
