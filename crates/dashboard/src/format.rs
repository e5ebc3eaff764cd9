//! Numbers, spans and ids as people read them.

use domain::time::Timestamp;
use std::{fmt::Display, time::Duration};

/// `1,284`.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `950`, `1.2k`, `48k`, `3.4M`: for axes and badges.
pub(crate) fn compact(value: f64) -> String {
    let (scaled, unit) = match value {
        v if v >= 999_500_000.0 => (v / 1e9, "G"),
        v if v >= 999_500.0 => (v / 1e6, "M"),
        v if v >= 999.5 => (v / 1e3, "k"),
        v => (v, ""),
    };
    // One digit after the point while there is one before it.
    let text = if scaled < 9.95 && (scaled - scaled.round()).abs() > 0.049 {
        format!("{scaled:.1}")
    } else {
        format!("{scaled:.0}")
    };
    format!("{text}{unit}")
}

/// How many a second: `0`, `0.4/s`, `12/s`, `1,204/s`.
pub(crate) fn rate(count: u64, over: Duration) -> String {
    let seconds = over.as_secs_f64();
    if count == 0 || seconds <= 0.0 {
        return "0/s".into();
    }
    let per_second = count as f64 / seconds;
    if per_second < 0.095 {
        format!("{}/min", compact(per_second * 60.0))
    } else if per_second < 9.95 {
        format!("{per_second:.1}/s")
    } else {
        format!("{}/s", number(per_second.round() as u64))
    }
}

/// `<1 ms`, `38 ms`, `1.2 s`, `15 s`, `2 min`.
pub(crate) fn millis(millis: u64) -> String {
    match millis {
        0 => "<1 ms".into(),
        1..=999 => format!("{millis} ms"),
        1_000..=9_949 => format!("{:.1} s", millis as f64 / 1_000.0),
        9_950..=119_999 => format!("{} s", (millis + 500) / 1_000),
        _ => span(Duration::from_millis(millis)),
    }
}

/// The two largest units: `40 s`, `5 min`, `2 h 5 min`, `3 d 4 h`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs();
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    };
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=3_599 => two(seconds / 60, "min", if seconds < 600 { seconds % 60 } else { 0 }, "s"),
        3_600..=86_399 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

/// In one unit, short: `40s`, `5m`, `2h`, `3d`.
pub(crate) fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..=59 => format!("{seconds}s"),
        seconds @ 60..=3_599 => format!("{}m", seconds / 60),
        seconds @ 3_600..=86_399 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// `3s ago`, `in 5m`.
pub(crate) fn relative(now: Timestamp, at: Timestamp) -> String {
    if at > now { format!("in {}", age(at.since(now))) } else { format!("{} ago", age(now.since(at))) }
}

/// `2026-04-03 14:30:00 UTC`.
pub(crate) fn exact(at: Timestamp) -> String {
    let text = at.to_string();
    let (date, time) = text.split_once('T').unwrap_or((&text, ""));
    format!("{date} {} UTC", time.get(..8).unwrap_or(time))
}

/// `14:30`.
pub(crate) fn hour_and_minute(at: Timestamp) -> String {
    exact(at).get(11..16).unwrap_or_default().to_owned()
}

/// `512 B`, `1.2 kB`, `3.4 MB`: powers of 1,000.
pub(crate) fn bytes(bytes: u64) -> String {
    match bytes {
        0..=999 => format!("{bytes} B"),
        1_000..=999_999 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..=999_999_999 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

/// `99.98 %`; never 100 unless nothing is missing, never 0 unless there is nothing.
pub(crate) fn percent(ratio: f64) -> String {
    let percent = ratio.clamp(0.0, 1.0) * 100.0;
    match percent {
        p if p >= 100.0 => "100 %".into(),
        p if p > 99.99 => "99.99 %".into(),
        p if p >= 99.0 => format!("{p:.2} %"),
        p if p <= 0.0 => "0 %".into(),
        p if p < 0.1 => "0.1 %".into(),
        p => format!("{p:.1} %"),
    }
}

/// An id shortened in the middle, where ids of one time are alike: `evt_01kb…pex5vsk`.
pub(crate) fn short_id(id: impl Display) -> String {
    let id = id.to_string();
    match (id.get(..8), id.len().checked_sub(7).and_then(|from| id.get(from..))) {
        (Some(head), Some(tail)) if id.len() > 18 => format!("{head}…{tail}"),
        _ => id,
    }
}

/// `1 event`, `2 events`.
pub(crate) fn count(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", number(count), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        let shown = [0, 7, 999, 1_000, 12_345, 1_234_567].map(number);
        assert_eq!(shown, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn compact_numbers_never_lie_about_their_unit() {
        let shown = [0.0, 0.4, 7.0, 950.0, 999.6, 1_200.0, 48_000.0, 999_600.0, 3_400_000.0].map(compact);
        assert_eq!(shown, ["0", "0.4", "7", "950", "1k", "1.2k", "48k", "1M", "3.4M"]);
    }

    #[test]
    fn rates_have_a_unit_that_shows_them() {
        let minute = Duration::from_secs(60);
        assert_eq!(
            [0, 3, 24, 720, 72_240].map(|count| rate(count, minute)),
            ["0/s", "3/min", "0.4/s", "12/s", "1,204/s"]
        );
        assert_eq!(rate(5, Duration::ZERO), "0/s");
    }

    #[test]
    fn spans_have_two_units_at_most() {
        assert_eq!(
            [0, 38, 1_200, 15_400, 119_999, 300_000].map(millis),
            ["<1 ms", "38 ms", "1.2 s", "15 s", "120 s", "5 min"]
        );
        let shown = [40, 119, 125, 3_599, 7_500, 86_400, 273_600].map(|s| span(Duration::from_secs(s)));
        assert_eq!(shown, ["40 s", "119 s", "2 min 5 s", "59 min", "2 h 5 min", "1 d", "3 d 4 h"]);
        assert_eq!(
            [0, 59, 60, 7_300, 200_000].map(|s| age(Duration::from_secs(s))),
            ["0s", "59s", "1m", "2h", "2d"]
        );
    }

    #[test]
    fn moments_are_told_from_now_and_exactly() {
        let now = Timestamp::from_seconds(1_790_000_000);
        assert_eq!(relative(now, now.minus(Duration::from_secs(3))), "3s ago");
        assert_eq!(relative(now, now.plus(Duration::from_secs(300))), "in 5m");
        assert_eq!(exact(now), "2026-09-21 14:13:20 UTC");
        assert_eq!(hour_and_minute(now), "14:13");
    }

    #[test]
    fn only_everything_is_a_hundred_percent_and_only_nothing_is_none() {
        let shown = [1.0, 0.99999, 0.9951, 0.5, 0.0001, 0.0].map(percent);
        assert_eq!(shown, ["100 %", "99.99 %", "99.51 %", "50.0 %", "0.1 %", "0 %"]);
    }

    #[test]
    fn ids_are_shortened_in_the_middle_and_hostile_ones_do_no_harm() {
        assert_eq!(short_id("evt_01h455vb4pex5vsknk084sn02q"), "evt_01h4…84sn02q");
        assert_eq!(short_id("short"), "short");
        assert_eq!(short_id("ääääääääääääääääääää"), "ääääääääääääääääääää");
    }
}
