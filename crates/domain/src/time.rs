//! Instants as microseconds since 1970, and the trait by which everybody outside the rules asks for the time.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr, time::Duration};

/// A moment in UTC, to the microsecond: what the databases keep and the API shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

/// Who tells the time. The binary has the real one, tests and the simulator have theirs.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
    /// The store has just said what time it is. A clock that follows the store goes on from there.
    fn sync(&self, _store_now: Timestamp) {}
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an RFC 3339 time such as 2026-04-03T14:30:00Z")]
pub struct NotATime;

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
        let time: jiff::Timestamp = text.parse().map_err(|_| NotATime)?;
        let found = Self(time.as_microsecond());
        if (Self::MIN..=Self::MAX).contains(&found) { Ok(found) } else { Err(NotATime) }
    }
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
    fn arithmetic_stays_in_range() {
        assert_eq!(Timestamp::MAX.plus(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MIN.minus(Duration::MAX), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
        assert_eq!("tomorrow".parse::<Timestamp>(), Err(NotATime));
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00.000000Z");
        assert_eq!(Timestamp::from_micros(i64::MAX).to_string(), Timestamp::MAX.to_string());
    }
}
