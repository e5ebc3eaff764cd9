//! Answers that are worth a retry although they usually are final: a code, or a whole class of them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr};

/// What `retry_statuses` names: `404`, or `"4xx"` for all of 400 to 499. Which of them can be made retryable at all is for
/// [`RetrySettings::validate`]; what 410, 429 and the `webhook-delivery` header mean is no class's to change.
///
/// [`RetrySettings::validate`]: super::RetrySettings::validate
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryStatus {
    Code(u16),
    /// Its hundreds.
    Class(u8),
}

impl RetryStatus {
    pub fn covers(self, status: u16) -> bool {
        match self {
            Self::Code(code) => code == status,
            Self::Class(class) => status / 100 == u16::from(class),
        }
    }

    /// Every code that it covers.
    pub fn codes(self) -> impl Iterator<Item = u16> {
        let (first, last) = match self {
            Self::Code(code) => (code, code),
            Self::Class(class) => (u16::from(class) * 100, u16::from(class) * 100 + 99),
        };
        first..=last
    }
}

impl fmt::Display for RetryStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "{code}"),
            Self::Class(class) => write!(f, "{class}xx"),
        }
    }
}

/// Neither a code nor a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a status such as 404, or a class such as 4xx")]
pub struct NoRetryStatus;

impl FromStr for RetryStatus {
    type Err = NoRetryStatus;

    fn from_str(text: &str) -> Result<Self, NoRetryStatus> {
        match text.as_bytes() {
            [hundreds @ b'1'..=b'5', b'x', b'x'] => Ok(Self::Class(hundreds - b'0')),
            [_, _, _] => text.parse().map(Self::Code).map_err(|_| NoRetryStatus),
            _ => Err(NoRetryStatus),
        }
    }
}

impl Serialize for RetryStatus {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Code(code) => to.serialize_u16(*code),
            Self::Class(_) => to.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for RetryStatus {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StatusVisitor)
    }
}

struct StatusVisitor;

impl de::Visitor<'_> for StatusVisitor {
    type Value = RetryStatus;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status such as 404, or a class: \"3xx\" or \"4xx\"")
    }

    fn visit_u64<E: de::Error>(self, code: u64) -> Result<RetryStatus, E> {
        let code = u16::try_from(code);
        code.map(RetryStatus::Code).map_err(|_| E::custom("a status has three digits"))
    }

    fn visit_i64<E: de::Error>(self, code: i64) -> Result<RetryStatus, E> {
        u64::try_from(code)
            .map_err(|_| E::custom("a status has three digits"))
            .and_then(|code| self.visit_u64(code))
    }

    /// A class only: a code is a number.
    fn visit_str<E: de::Error>(self, text: &str) -> Result<RetryStatus, E> {
        let class = text.parse().ok().filter(|status| matches!(status, RetryStatus::Class(_)));
        class.ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_number_and_a_class_a_word() {
        let read = |json: &str| serde_json::from_str::<RetryStatus>(json).ok();
        assert_eq!(read("404"), Some(RetryStatus::Code(404)));
        assert_eq!(read(r#""4xx""#), Some(RetryStatus::Class(4)));
        for other in
            [r#""404""#, r#""4XX""#, r#""4x""#, r#""6xx""#, r#""xxx""#, "-1", "70000", "4.5", "null", "[]"]
        {
            assert_eq!(read(other), None, "{other}");
        }
        let shown = serde_json::to_string(&[RetryStatus::Code(307), RetryStatus::Class(4)]).unwrap();
        assert_eq!(shown, r#"[307,"4xx"]"#);
    }

    #[test]
    fn settings_say_both_as_text() {
        assert_eq!("404".parse(), Ok(RetryStatus::Code(404)));
        assert_eq!("3xx".parse(), Ok(RetryStatus::Class(3)));
        for other in ["", "4", "4xxx", "0xx", "abc", "éx"] {
            assert_eq!(other.parse::<RetryStatus>(), Err(NoRetryStatus), "{other}");
        }
    }

    #[test]
    fn a_class_covers_its_hundred() {
        let class = RetryStatus::Class(4);
        assert!(class.covers(400) && class.covers(499));
        assert!(!class.covers(399) && !class.covers(500));
        assert_eq!(class.codes().count(), 100);
        assert_eq!(RetryStatus::Code(404).codes().collect::<Vec<_>>(), [404]);
    }
}
