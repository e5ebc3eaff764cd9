//! Event-type patterns: which events a route wants, by name alone.
//!
//! ```text
//! payment.succeeded   exactly this type
//! payment.*           one segment more: payment.succeeded, not payment.card.declined
//! *.failed            a star is one whole segment, anywhere
//! payment.**          one segment more or many; only at the end
//! *                   everything, however many segments
//! ```
//! What Posthaste tells of itself (types that begin with the segment `posthaste`) is taken on a route only by patterns
//! that begin with that segment: [`Pattern::names_operational`].
//!
//! Case counts. A segment is what lies between full stops. There are no stars inside a word and no regular
//! expressions: a pattern is read once when the route is saved and costs a string compare when an event comes in.

use std::fmt;
use std::str::FromStr;

use crate::operations::is_operational;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// As long as the longest event type.
pub const PATTERN_MAX_BYTES: usize = 128;

/// A checked pattern. `"payment.*".parse::<Pattern>()` makes one; it shows and stores itself as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Pattern {
    written: Box<str>,
    shape: Shape,
}

/// What is left to do at match time, decided once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Shape {
    Everything,
    Exact,
    /// Stars only at the end: the bytes before them, full stop included, then one segment or (`deep`) any number.
    Below {
        prefix_len: usize,
        deep: bool,
    },
    /// Stars elsewhere: `None` is a star; `deep` says that more segments may follow, one at least.
    Segments {
        segments: Box<[Option<Box<str>>]>,
        deep: bool,
    },
}

impl Pattern {
    pub fn matches(&self, event_type: &str) -> bool {
        match &self.shape {
            Shape::Everything => true,
            Shape::Exact => *self.written == *event_type,
            Shape::Below { prefix_len, deep } => {
                let rest = event_type.strip_prefix(&self.written[..*prefix_len]);
                rest.is_some_and(|rest| *deep || !rest.contains('.'))
            }
            Shape::Segments { segments, deep } => {
                let mut found = event_type.split('.');
                let all_there = segments.iter().all(|wanted| match (wanted, found.next()) {
                    (Some(word), Some(segment)) => **word == *segment,
                    (None, Some(_)) => true,
                    (_, None) => false,
                });
                all_there && found.next().is_some() == *deep
            }
        }
    }

    /// Whether its first segment is that of operational events, which only such patterns take on a route: who asks for
    /// everything asks for what was published.
    pub fn names_operational(&self) -> bool {
        is_operational(&self.written)
    }

    /// The only type that it matches, if there is only one.
    pub fn exact(&self) -> Option<&str> {
        matches!(self.shape, Shape::Exact).then_some(&*self.written)
    }

    pub fn as_str(&self) -> &str {
        &self.written
    }
}

/// Why a text is not a pattern; the words are meant for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    #[error("a pattern needs at least one segment; `*` matches every event type")]
    Empty,
    #[error("a pattern has at most {PATTERN_MAX_BYTES} characters, this one has {length}")]
    TooLong { length: usize },
    #[error("a segment is empty: write exactly one full stop between two segments, none at the ends")]
    EmptySegment,
    #[error("`{segment}`: a star stands for a whole segment, as in `payment.*`; it cannot be part of a word")]
    StarInWord { segment: String },
    #[error("`**` matches any number of segments and can only be the last one, as in `payment.**`")]
    DeepNotLast,
    #[error("`{character}` cannot occur in an event type: use letters, digits, `_`, `-` and full stops")]
    BadCharacter { character: char },
}

impl FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Pattern, PatternError> {
        Ok(Pattern { shape: shape_of(text)?, written: text.into() })
    }
}

fn shape_of(text: &str) -> Result<Shape, PatternError> {
    if text.is_empty() {
        return Err(PatternError::Empty);
    }
    if text.len() > PATTERN_MAX_BYTES {
        return Err(PatternError::TooLong { length: text.chars().count() });
    }
    let mut segments: Vec<Option<Box<str>>> = Vec::new();
    let mut deep = false;
    for segment in text.split('.') {
        if deep {
            return Err(PatternError::DeepNotLast);
        }
        match segment {
            "" => return Err(PatternError::EmptySegment),
            "*" => segments.push(None),
            "**" => deep = true,
            word => segments.push(Some(checked(word)?)),
        }
    }

    let first_star = segments.iter().position(Option::is_none);
    Ok(match (first_star, deep) {
        (None, false) => Shape::Exact,
        _ if text == "*" || text == "**" => Shape::Everything,
        (None, true) => Shape::Below { prefix_len: text.len() - "**".len(), deep },
        (Some(at), false) if at + 1 == segments.len() => {
            Shape::Below { prefix_len: text.len() - "*".len(), deep }
        }
        _ => Shape::Segments { segments: segments.into(), deep },
    })
}

fn checked(word: &str) -> Result<Box<str>, PatternError> {
    if word.contains('*') {
        return Err(PatternError::StarInWord { segment: word.into() });
    }
    match word.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))) {
        Some(character) => Err(PatternError::BadCharacter { character }),
        None => Ok(word.into()),
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Pattern, PatternError> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.written.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(pattern: &str, yes: &[&str], no: &[&str]) {
        let parsed: Pattern = pattern.parse().unwrap();
        for event_type in yes {
            assert!(parsed.matches(event_type), "{pattern} should match {event_type}");
        }
        for event_type in no {
            assert!(!parsed.matches(event_type), "{pattern} should not match {event_type}");
        }
        assert_eq!(parsed.to_string(), pattern);
    }

    #[test]
    fn a_plain_pattern_matches_its_own_name_only() {
        check(
            "payment.succeeded",
            &["payment.succeeded"],
            &["payment", "payment.Succeeded", "payment.succeeded.x"],
        );
    }

    #[test]
    fn a_star_is_one_whole_segment_anywhere() {
        check("payment.*", &["payment.ok", "payment.a-b_c"], &["payment", "payments.ok", "payment.card.ok"]);
        check("*.failed", &["payment.failed"], &["failed", "a.b.failed", "payment.failed.x"]);
        check("a.*.c", &["a.b.c"], &["a.c", "a.b.b.c", "a.b.d"]);
        check("*.*", &["a.b"], &["a", "a.b.c"]);
    }

    #[test]
    fn two_stars_are_one_or_more_segments_at_the_end() {
        check("payment.**", &["payment.ok", "payment.card.ok"], &["payment", "payments.ok"]);
        check("*.card.**", &["payment.card.ok", "payment.card.a.b"], &["payment.card", "payment.x.ok"]);
        check("**", &["a", "a.b.c"], &[]);
    }

    #[test]
    fn a_star_alone_is_everything() {
        check("*", &["unknown", "a.b", "a.b.c.d"], &[]);
    }

    #[test]
    fn a_wrong_pattern_says_what_is_wrong() {
        let error = |text: &str| text.parse::<Pattern>().unwrap_err();
        assert_eq!(error(""), PatternError::Empty);
        assert_eq!(error("pay*"), PatternError::StarInWord { segment: "pay*".into() });
        assert_eq!(error("a.***"), PatternError::StarInWord { segment: "***".into() });
        assert_eq!(error("**.failed"), PatternError::DeepNotLast);
        assert_eq!(error("a.**.**"), PatternError::DeepNotLast);
        for text in [".a", "a.", "a..b", "."] {
            assert_eq!(error(text), PatternError::EmptySegment, "{text}");
        }
        assert_eq!(error("pay ment"), PatternError::BadCharacter { character: ' ' });
        assert_eq!(error("zahlung.fällig"), PatternError::BadCharacter { character: 'ä' });
        assert_eq!(error(&"a".repeat(129)), PatternError::TooLong { length: 129 });
        assert!("a".repeat(128).parse::<Pattern>().is_ok());
        assert!(error("pay*").to_string().contains("whole segment"));
    }

    #[test]
    fn a_pattern_is_a_string_in_json_and_is_checked_on_the_way_in() {
        let patterns: Vec<Pattern> = serde_json::from_str(r#"["a.*","*"]"#).unwrap();
        assert_eq!(serde_json::to_string(&patterns).unwrap(), r#"["a.*","*"]"#);
        assert!(serde_json::from_str::<Pattern>(r#""a*""#).is_err());
    }

    /// The rules read aloud, one segment at a time, with nothing compiled.
    fn naive(pattern: &[&str], event_type: &[&str]) -> bool {
        match (pattern, event_type) {
            (["**"], rest) => !rest.is_empty(),
            ([], []) => true,
            ([wanted, pattern @ ..], [found, rest @ ..]) => {
                (*wanted == "*" || wanted == found) && naive(pattern, rest)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_a_naive_reading(
            pattern in "(a|b|ab|\\*)(\\.(a|b|ab|\\*)){0,3}(\\.\\*\\*)?",
            event_type in "(a|b|ab|A)(\\.(a|b|ab)){0,4}",
        ) {
            let expected = pattern == "*"
                || naive(&pattern.split('.').collect::<Vec<_>>(), &event_type.split('.').collect::<Vec<_>>());
            prop_assert_eq!(pattern.parse::<Pattern>().unwrap().matches(&event_type), expected);
        }

        #[test]
        fn any_text_is_a_pattern_or_an_error_and_never_a_panic(text in "\\PC{0,20}", event_type in "\\PC{0,20}") {
            if let Ok(pattern) = text.parse::<Pattern>() {
                pattern.matches(&event_type);
            }
        }
    }
}
