//! A series of the API without its gaps, oldest first, as charts need it: what is left out is nothing.

use crate::chart::{Chart, Line, Mark, Unit};
use contract::{SeriesBy, SeriesLatencyView, SeriesPointView, SeriesQuery, SeriesView};
use domain::{outcome::Outcome, time::Timestamp};
use std::{collections::BTreeMap, time::Duration};

/// How long a page looks back, and in which steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    Hour,
    Day,
    Week,
    Month,
}

impl Range {
    pub(crate) const ALL: [Self; 4] = [Self::Hour, Self::Day, Self::Week, Self::Month];

    /// What is not known is the hour: an old bookmark still opens.
    pub(crate) fn of(word: Option<&str>) -> Self {
        Self::ALL.into_iter().find(|range| Some(range.word()) == word).unwrap_or(Self::Hour)
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
        }
    }

    /// As the end of a sentence: `in the last hour`.
    pub(crate) const fn last(self) -> &'static str {
        match self {
            Self::Hour => "last hour",
            Self::Day => "last 24 hours",
            Self::Week => "last 7 days",
            Self::Month => "last 30 days",
        }
    }

    const fn over(self) -> Duration {
        Duration::from_secs(match self {
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
            Self::Month => 30 * 86_400,
        })
    }

    pub(crate) fn query(self, now: Timestamp) -> SeriesQuery {
        let by = match self {
            Self::Hour => SeriesBy::Minute,
            Self::Day | Self::Week => SeriesBy::Hour,
            Self::Month => SeriesBy::Day,
        };
        SeriesQuery { by, since: Some(now.minus(self.over())), until: None }
    }
}

/// A course is never shorter.
const LEAST_SPANS: usize = 12;

/// A series with a point for every span.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Course {
    pub(crate) from: Timestamp,
    pub(crate) step: Duration,
    pub(crate) points: Vec<SeriesPointView>,
    /// The last span is not over.
    pub(crate) goes_on: bool,
}

/// The kinds of answers that are told apart by colour.
const CODES: [(&str, &str); 6] = [
    ("2xx", "ok"),
    ("3xx", "code-3"),
    ("4xx", "code-4"),
    ("429", "throttle"),
    ("5xx", "fail"),
    ("no answer", "none"),
];

impl Course {
    pub(crate) fn of(series: &SeriesView) -> Self {
        let step = Duration::from_secs(match series.by {
            SeriesBy::Minute => 60,
            SeriesBy::Hour => 3_600,
            SeriesBy::Day => 86_400,
        });
        let known: BTreeMap<Timestamp, &SeriesPointView> =
            series.points.iter().map(|point| (point.at, point)).collect();
        let spans = series.until.since(series.since).as_secs().div_ceil(step.as_secs()) as u32;
        let starts = (0..spans).map(|place| series.since.plus(step * place));
        let point = |at| known.get(&at).map_or_else(|| nothing(at), |point| (*point).clone());
        let goes_on = series.since.plus(step * spans) > series.until;
        Self { from: series.since, step, points: starts.map(point).collect(), goes_on }
    }

    /// From when there was something, or a little before it: what has begun just now is not a line at the very end.
    pub(crate) fn from_its_beginning(series: &SeriesView) -> Self {
        let whole = Self::of(series);
        let first = series.points.first().map_or(series.until, |point| point.at);
        let begins = whole.points.iter().position(|point| point.at >= first).unwrap_or(whole.points.len());
        let before = begins.saturating_sub(1).min(whole.points.len().saturating_sub(LEAST_SPANS));
        let points = whole.points[before..].to_vec();
        Self { from: points.first().map_or(whole.from, |point| point.at), points, ..whole }
    }

    pub(crate) fn values(&self, pick: impl Fn(&SeriesPointView) -> Option<f64>) -> Vec<Option<f64>> {
        self.points.iter().map(pick).collect()
    }

    fn line(
        &self,
        name: &'static str,
        class: &'static str,
        pick: impl Fn(&SeriesPointView) -> Option<f64>,
    ) -> Line {
        Line::new(name, class, self.values(pick))
    }

    /// Of what is counted up in each span.
    pub(crate) fn sums(
        &self,
        name: &'static str,
        class: &'static str,
        pick: impl Fn(&SeriesPointView) -> u64,
    ) -> Line {
        self.line(name, class, |point| Some(pick(point) as f64)).going_on(self.goes_on)
    }

    fn chart(&self, title: &'static str, unit: Unit, lines: Vec<Line>, marks: &[Mark]) -> Chart {
        Chart {
            title,
            from: self.from,
            step: self.step,
            lines,
            stacked: false,
            unit,
            marks: marks.to_vec(),
            brush: false,
        }
    }

    /// What attempts met, one on the other.
    pub(crate) fn outcomes(&self, title: &'static str, marks: &[Mark]) -> Chart {
        let lines = vec![
            self.sums("succeeded", "ok", succeeded),
            self.sums("throttled", "throttle", throttled),
            self.sums("failed", "fail", failed),
        ];
        Chart { stacked: true, ..self.chart(title, Unit::Count, lines, marks) }
    }

    /// How long it took, as bands.
    pub(crate) fn latency(
        &self,
        title: &'static str,
        marks: &[Mark],
        of: fn(&SeriesLatencyView) -> &contract::QuantilesView,
    ) -> Chart {
        let millis = |value: Option<u64>| value.map(|millis| millis as f64);
        let lines = vec![
            self.line("p50", "p50", |point| millis(of(&point.latency_ms).p50)),
            self.line("p95", "p95", |point| millis(of(&point.latency_ms).p95)),
            self.line("p99", "p99", |point| millis(of(&point.latency_ms).p99)),
        ];
        self.chart(title, Unit::Millis, lines, marks)
    }

    /// Answers by their kind; those that never came are left out.
    pub(crate) fn codes(&self, marks: &[Mark]) -> Chart {
        let all = CODES.into_iter().enumerate();
        let lines = all.map(|(kind, (name, class))| self.sums(name, class, |point| codes(point)[kind]));
        let came = |line: &Line| line.values.iter().flatten().any(|count| *count > 0.0);
        let lines = lines.filter(|line| line.name == "2xx" || came(line)).collect();
        Chart { stacked: true, ..self.chart("Answers by HTTP status", Unit::Count, lines, marks) }
    }

    /// Slots that were taken, against those there are.
    pub(crate) fn slots(&self, max_concurrency: u32, marks: &[Mark]) -> Chart {
        let limit =
            |point: &SeriesPointView| Some(point.max_concurrency.unwrap_or(max_concurrency.into()) as f64);
        let lines = vec![
            self.line("in use", "busy", |point| Some(point.in_flight)),
            self.line("limit", "limit", limit),
        ];
        self.chart("Slots in use, on average", Unit::Slots, lines, marks)
    }

    pub(crate) fn denied(&self, marks: &[Mark]) -> Chart {
        let lines = vec![self.sums("denied", "throttle", |point| point.slot_denied)];
        self.chart("Due, and every slot taken", Unit::Count, lines, marks)
    }

    pub(crate) fn backlog(&self, title: &'static str, marks: &[Mark]) -> Chart {
        let lines = vec![self.line("waiting", "waiting", |point| point.backlog.map(|rows| rows as f64))];
        self.chart(title, Unit::Count, lines, marks)
    }
}

pub(crate) fn succeeded(point: &SeriesPointView) -> u64 {
    point.outcomes.get(&Outcome::Success).copied().unwrap_or(0)
}

pub(crate) fn throttled(point: &SeriesPointView) -> u64 {
    point.outcomes.get(&Outcome::Throttled).copied().unwrap_or(0)
}

/// A throttled attempt has neither succeeded nor failed.
pub(crate) fn failed(point: &SeriesPointView) -> u64 {
    point.attempts.saturating_sub(succeeded(point) + throttled(point))
}

/// None where nothing was tried that counts.
pub(crate) fn success_ratio(point: &SeriesPointView) -> Option<f64> {
    let (good, all) = (succeeded(point), succeeded(point) + failed(point));
    (all > 0).then(|| good as f64 / all as f64)
}

fn codes(point: &SeriesPointView) -> [u64; CODES.len()] {
    let mut kinds = [0; CODES.len()];
    for (status, count) in &point.http_statuses {
        let kind = match status {
            429 => 3,
            200..=299 => 0,
            300..=399 => 1,
            400..=499 => 2,
            _ => 4,
        };
        kinds[kind] += count;
    }
    kinds[5] = point.attempts.saturating_sub(kinds.iter().sum());
    kinds
}

fn nothing(at: Timestamp) -> SeriesPointView {
    let none = contract::QuantilesView { p50: None, p95: None, p99: None };
    SeriesPointView {
        at,
        events: None,
        attempts: 0,
        outcomes: BTreeMap::new(),
        http_statuses: BTreeMap::new(),
        delivered: 0,
        dead_letter: 0,
        cancelled: 0,
        latency_ms: SeriesLatencyView { deliveries: none.clone(), attempts: none },
        backlog: None,
        in_flight: 0.0,
        max_concurrency: None,
        slot_denied: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{QuantilesView, SeriesTotalsView};

    fn series(by: SeriesBy, since: i64, until: i64, points: Vec<SeriesPointView>) -> SeriesView {
        let none = QuantilesView { p50: None, p95: None, p99: None };
        SeriesView {
            by,
            since: Timestamp::from_seconds(since),
            until: Timestamp::from_seconds(until),
            as_of: Timestamp::from_seconds(until),
            totals: SeriesTotalsView {
                events: None,
                attempts: 0,
                outcomes: BTreeMap::new(),
                http_statuses: BTreeMap::new(),
                success_ratio: None,
                delivered: 0,
                dead_letter: 0,
                cancelled: 0,
                latency_ms: SeriesLatencyView { deliveries: none.clone(), attempts: none },
                slot_denied: 0,
            },
            points,
        }
    }

    #[test]
    fn what_a_series_leaves_out_is_nothing() {
        let at = |seconds| Timestamp::from_seconds(seconds);
        let point = SeriesPointView { attempts: 7, ..nothing(at(120)) };
        let course = Course::of(&series(SeriesBy::Minute, 60, 290, vec![point]));
        let attempts: Vec<u64> = course.points.iter().map(|point| point.attempts).collect();
        assert_eq!(attempts, [0, 7, 0, 0], "the span that has begun is one of them");
        assert_eq!((course.points[3].at, course.points[3].backlog), (at(240), None));
        let empty = Course::of(&series(SeriesBy::Day, 0, 0, Vec::new()));
        assert!(empty.points.is_empty());
        assert!(empty.outcomes("Attempts", &[]).render().into_string().contains("Attempts"));
    }

    #[test]
    fn a_course_begins_a_little_before_there_is_something() {
        let at = |minute: i64| Timestamp::from_seconds(minute * 60);
        let course = |minute| {
            let point = SeriesPointView { attempts: 7, ..nothing(at(minute)) };
            Course::from_its_beginning(&series(SeriesBy::Minute, 0, 3_600, vec![point]))
        };
        assert_eq!([0, 1, 20, 59].map(|minute| course(minute).from), [at(0), at(0), at(19), at(48)]);
        assert_eq!(course(59).points.len(), LEAST_SPANS);
        let empty = Course::from_its_beginning(&series(SeriesBy::Minute, 0, 3_600, Vec::new()));
        assert_eq!(empty.points.len(), LEAST_SPANS);
    }

    #[test]
    fn every_attempt_is_of_one_kind() {
        let point = SeriesPointView {
            attempts: 20,
            outcomes: [(Outcome::Success, 8), (Outcome::Throttled, 2), (Outcome::Timeout, 10)].into(),
            http_statuses: [(200, 8), (301, 1), (404, 1), (429, 2), (503, 3)].into(),
            ..nothing(Timestamp::MIN)
        };
        assert_eq!((succeeded(&point), throttled(&point), failed(&point)), (8, 2, 10));
        assert_eq!(success_ratio(&point), Some(8.0 / 18.0));
        assert_eq!(success_ratio(&nothing(Timestamp::MIN)), None);
        assert_eq!(codes(&point), [8, 1, 1, 2, 3, 5]);
    }

    #[test]
    fn an_old_bookmark_still_opens() {
        assert_eq!([Some("24h"), Some("6h"), None].map(Range::of), [Range::Day, Range::Hour, Range::Hour]);
    }
}
