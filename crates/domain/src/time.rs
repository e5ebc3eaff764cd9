//! Instants as microseconds since 1970, and the trait by which all code outside the rules asks for the time.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr, time::Duration};

/// A moment in UTC, to the microsecond: what the databases keep and the API shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// Tells the time. The binary has the real one, tests and the simulator have theirs.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
    /// The store has just said what time it is. A clock that follows the store goes on from there.
    fn sync(&self, _store_now: Timestamp) {}
    /// A moment of ours as others have it, who compare it with their clocks: signatures, `Retry-After` as a date.
    fn to_wall(&self, moment: Timestamp) -> Timestamp {
        moment
    }
    /// What is wrong with the clock of this machine, as far as it matters here.
    fn trouble(&self) -> Option<ClockTrouble> {
        None
    }
}

/// Why the clock of a machine is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockTrouble {
    /// It was set by so many seconds (back, if negative) less than a minute ago.
    Jumped { seconds: i64 },
    /// It was set back for good. Our time is so many seconds ahead of it, so that nothing is late.
    Ahead { seconds: i64 },
    /// We started with a clock that is behind the newest time in the store.
    Behind { newest: Timestamp, wall: Timestamp },
}

impl ClockTrouble {
    /// Whether a person has to look first.
    pub fn keeps_from_serving(&self) -> bool {
        matches!(self, Self::Behind { .. })
    }
}

impl fmt::Display for ClockTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Jumped { seconds } => write!(
                f,
                "this machine's clock was set by {seconds} s; nothing goes by it before it has stayed there for a minute"
            ),
            Self::Ahead { seconds } => write!(
                f,
                "this machine's clock was set back; this process goes on by its own time, {seconds} s ahead of it, and \
                 after a restart waits until the clock has passed what is stored"
            ),
            Self::Behind { newest, wall } => write!(
                f,
                "this machine's clock says {wall}, and the newest time in the store is {newest}: set the clock right, or \
                 start with --accept-clock if it is"
            ),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotATime {
    #[error("expected an RFC 3339 time such as 2026-04-03T14:30:00Z")]
    Malformed,
    #[error("expected a time from {} to {}", Timestamp::MIN, Timestamp::MAX)]
    OutOfRange,
}

impl Timestamp {
    pub const MIN: Self = Self(0);
    /// 9999-12-30T22:00:00Z: later than anything, and still printable in every time zone.
    pub const MAX: Self = Self(253_402_207_200_000_000);

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_seconds(seconds: i64) -> Self {
        Self(seconds.saturating_mul(1_000_000))
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds, as in `webhook-timestamp`.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Never beyond [`Timestamp::MAX`], whatever the pause.
    /// The beginning of the span it is in, counted from 1970.
    pub fn floor(self, span: Duration) -> Self {
        let span = (span.as_micros() as i64).max(1);
        Self::from_micros(self.micros() - self.micros().rem_euclid(span))
    }

    pub fn plus(self, pause: Duration) -> Self {
        let micros = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros)).min(Self::MAX)
    }

    pub fn minus(self, pause: Duration) -> Self {
        let micros = i64::try_from(pause.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(micros)).max(Self::MIN)
    }

    /// How long ago `earlier` was; nothing if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0).max(0) as u64)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A number that is no time (a damaged row) is shown as the nearest one: printing must not panic.
        let printable = (*self).clamp(Self::MIN, Self::MAX);
        let time = jiff::Timestamp::from_microsecond(printable.0).map_err(|_| fmt::Error)?;
        write!(f, "{time:.6}")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = NotATime;

    /// Any offset is accepted; what counts is the moment.
    fn from_str(text: &str) -> Result<Self, NotATime> {
        let moment = rfc_3339(text).ok_or(NotATime::Malformed)?;
        // Without its offset: a moment that is in the calendar, and beyond what can be kept.
        let in_the_calendar = || moment.parse::<jiff::civil::DateTime>().is_ok();
        let time: jiff::Timestamp = text.parse().map_err(|_| match in_the_calendar() {
            true => NotATime::OutOfRange,
            false => NotATime::Malformed,
        })?;
        // A leap second is read as the one before it, which would be early.
        let leap = if moment.ends_with(":60") { 1_000_000 } else { 0 };
        let found = Self(time.as_microsecond() + leap);
        if (Self::MIN..=Self::MAX).contains(&found) { Ok(found) } else { Err(NotATime::OutOfRange) }
    }
}

/// The date and the time of day of what is written as RFC 3339 has it, which is less than a calendar's library reads.
fn rfc_3339(text: &str) -> Option<&str> {
    let (moment, rest) = text.split_at_checked("2026-04-03T14:30:00".len())?;
    let fits = moment.bytes().zip(*b"0000-00-00T00:00:00").all(|(byte, like)| match like {
        b'0' => byte.is_ascii_digit(),
        b'T' => matches!(byte, b'T' | b't' | b' '),
        _ => byte == like,
    });
    let offset = match rest.strip_prefix('.') {
        Some(fraction) => {
            let offset = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            Some(offset).filter(|offset| (1..=9).contains(&(fraction.len() - offset.len())))?
        }
        None => rest,
    };
    let known = match offset.as_bytes() {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', h, i, b':', m, n] => {
            [h, i, m, n].into_iter().all(u8::is_ascii_digit) && [*h, *i] <= *b"23"
        }
        _ => false,
    };
    (fits && known).then_some(moment)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// For settings that are whole seconds outside and a [`Duration`] inside: `#[serde(with = "seconds")]`.
pub mod seconds {
    use super::*;

    pub fn serialize<S: Serializer>(pause: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(pause.as_secs())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_secs)
    }
}

/// The same for one that may be left out.
pub mod maybe_seconds {
    use super::*;

    pub fn serialize<S: Serializer>(pause: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        match pause {
            Some(pause) => seconds::serialize(pause, to),
            None => to.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_secs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_utc_with_six_decimals() {
        let time: Timestamp = "2026-04-03T16:30:00.5+02:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-04-03T14:30:00.500000Z");
        assert_eq!(time.to_string().parse(), Ok(time));
    }

    #[test]
    fn a_time_is_read_as_rfc_3339_has_it_and_not_otherwise() {
        let read = |text: &str| text.parse::<Timestamp>().map(|time| time.to_string());
        for (text, moment) in [
            ("2026-04-03t14:30:00z", "2026-04-03T14:30:00.000000Z"),
            ("2026-04-03 14:30:00-00:00", "2026-04-03T14:30:00.000000Z"),
            ("2026-04-03T14:30:00.123456789+23:59", "2026-04-02T14:31:00.123456Z"),
            ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00.000000Z"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(moment), "{text}");
        }
        for text in [
            "",
            "tomorrow",
            "2026-04-03",
            "20261117T010000Z",
            "2026-04-03T14:30Z",
            "2026-04-03T14:30:00",
            "2026-04-03T14:30:00-25:00",
            "2026-04-03T14:30:00+0200",
            "2026-04-03T14:30:00+02",
            "2026-04-03T14:30:00Z[UTC]",
            "+002026-04-03T14:30:00Z",
            "2026-04-03T14:30:00,5Z",
            "2026-04-03T14:30:00.Z",
            "2026-02-30T14:30:00Z",
            "2026-04-03T25:30:00Z",
            "2026-04-03T14:30:0éZ",
        ] {
            assert_eq!(read(text), Err(NotATime::Malformed), "{text}");
        }
        for text in ["9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "0000-01-01T00:00:00+01:00"] {
            assert_eq!(read(text), Err(NotATime::OutOfRange), "{text}");
        }
    }

    #[test]
    fn arithmetic_stays_in_range() {
        assert_eq!(Timestamp::MAX.plus(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.minus(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00.000000Z");
        assert_eq!(Timestamp::from_micros(i64::MAX).to_string(), Timestamp::MAX.to_string());
    }
}
