//! The course over a list, to drag a time over: that of the account, or of the destinations that are asked for. Other words
//! have no course of their own, which is said under it; what is dragged narrows the list all the same.

use crate::{
    chart::{Chart, Line, Mark, Unit},
    destination_names::DestinationNames,
    format,
    reads::together,
    search::Wanted,
    visit::Visit,
};
use api::{error::ApiError, read};
use contract::{SeriesBy, SeriesPointView, SeriesQuery, SeriesView};
use domain::{
    account::Scope,
    delivery::Status,
    id::{AccountId, DestinationId},
    limits,
    outcome::Outcome,
    time::Timestamp,
};
use futures_util::FutureExt;
use maud::{Markup, html};
use std::{collections::BTreeMap, time::Duration};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
/// Spans that are drawn: each is a row of the table too, and a page is small.
const SPANS: u32 = 121;
/// Destinations whose courses are added up: each costs a few reads.
const ADDED_UP: usize = 5;

/// What a list is narrowed by, as far as it concerns its course.
#[derive(Debug, Default, PartialEq)]
struct Asked {
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    destinations: Vec<DestinationId>,
    lines: Lines,
    /// There are words that no course is kept for.
    narrower: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum Lines {
    #[default]
    Events,
    Attempts,
    Delivered,
    Dead,
}

impl Asked {
    fn of(wanted: &Wanted) -> Self {
        match wanted {
            Wanted::Events(query) => Self {
                since: query.since,
                until: query.until,
                destinations: Vec::new(),
                lines: Lines::Events,
                narrower: !(query.types.is_empty()
                    && query.source_id.is_empty()
                    && query.tag.is_empty()
                    && query.idempotency_key.is_empty()
                    && query.metadata.is_empty()
                    && query.fanout.is_none()
                    && query.q.is_none()),
            },
            Wanted::Deliveries(query) => {
                let lines = match query.status.as_slice() {
                    [Status::Delivered] => Lines::Delivered,
                    [Status::DeadLetter] => Lines::Dead,
                    _ => Lines::Attempts,
                };
                Self {
                    since: query.since,
                    until: query.until,
                    destinations: query.destination_id.clone(),
                    lines,
                    narrower: !(query.types.is_empty()
                        && query.source_id.is_empty()
                        && query.reason.is_empty()
                        && query.http_status.is_empty()
                        && query.route_id.is_empty()
                        && query.replay_id.is_empty()
                        && query.event_id.is_empty()
                        && (query.status.is_empty() || lines != Lines::Attempts)),
                }
            }
        }
    }
}

/// What is drawn: whole spans, a little more than is asked for, so that one can also drag a wider time.
#[derive(Debug, PartialEq)]
struct Window {
    by: SeriesBy,
    span: Duration,
    from: Timestamp,
    to: Timestamp,
}

impl Window {
    /// None of a time that there is nothing of.
    fn of(asked: &Asked, now: Timestamp) -> Option<Self> {
        let until = asked.until.unwrap_or(now).min(now);
        let since = asked.since.unwrap_or(until.minus(HOUR)).min(until);
        // Shorter than an hour is not drawn alone.
        let around = HOUR.saturating_sub(until.since(since)) / 2;
        let (since, until) = (since.minus(around), until.plus(around).min(now));
        let (by, span) = if until.since(since) <= 2 * HOUR && since > now.minus(limits::ROLLUP_MINUTES_KEPT) {
            (SeriesBy::Minute, MINUTE)
        } else if until.since(since) <= HOUR * (SPANS - 1) && since > now.minus(limits::ROLLUP_HOURS_KEPT) {
            (SeriesBy::Hour, HOUR)
        } else {
            (SeriesBy::Day, DAY)
        };
        // Of a long time the end.
        let since = since.max(until.minus(span * (SPANS - 1)));
        let (from, to) = (since.floor(span), until);
        (from < to && since > now.minus(limits::STATS_OVER_MAX)).then_some(Self { by, span, from, to })
    }

    fn query(&self) -> SeriesQuery {
        SeriesQuery { by: self.by, since: Some(self.from), until: Some(self.to) }
    }
}

pub(super) async fn histogram(
    visit: &Visit,
    account: AccountId,
    wanted: &Wanted,
) -> Result<Markup, ApiError> {
    let (asked, now) = (Asked::of(wanted), visit.now());
    let Some(window) = Window::of(&asked, now) else { return Ok(Markup::default()) };
    let told_apart = visit.may(Scope::DestinationsRead) && (1..=ADDED_UP).contains(&asked.destinations.len());
    let found = if told_apart {
        let query = &window.query();
        let each = asked.destinations.iter();
        let each = each.map(|id| read::destination_series(&visit.app, account, *id, query).boxed());
        together(each.collect()).await
    } else {
        vec![read::series(&visit.app, account, &window.query()).await]
    };
    let mut points: BTreeMap<Timestamp, Counted> = BTreeMap::new();
    for series in found {
        match series {
            Ok(SeriesView { points: found, .. }) => {
                for point in &found {
                    points.entry(point.at).or_default().add(point);
                }
            }
            // One that is not there any more, or a time that is not known.
            Err(error) if error.status().is_client_error() => {}
            Err(error) => return Err(error),
        }
    }
    let in_range = asked.since.is_some() || asked.until.is_some();
    if points.values().all(Counted::is_nothing) && !in_range {
        return Ok(Markup::default());
    }
    let names = if told_apart {
        let names = DestinationNames::of(visit, account, asked.destinations.iter().copied()).await;
        let names: Vec<String> = asked.destinations.iter().map(|id| names.name(*id)).collect();
        names.join(", ")
    } else {
        String::new()
    };
    let goes_beyond = asked.narrower || asked.destinations.len() > ADDED_UP;
    Ok(html! {
        div #histogram data-region {
            (drawn(&window, &asked, &points))
            p.quiet.course-of.longer[told_apart || goes_beyond] {
                @if told_apart { "At " strong { (names) } } @else { "Of the whole account" }
                @if goes_beyond { ", whatever else is asked for" }
                ". Drag over it for a time."
            }
        }
    })
}

/// What is drawn of one span.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    events: u64,
    succeeded: u64,
    failed: u64,
    delivered: u64,
    dead: u64,
}

impl Counted {
    fn add(&mut self, point: &SeriesPointView) {
        let succeeded = point.outcomes.get(&Outcome::Success).copied().unwrap_or_default();
        self.events += point.events.unwrap_or_default();
        self.succeeded += succeeded;
        self.failed += point.attempts.saturating_sub(succeeded);
        self.delivered += point.delivered;
        self.dead += point.dead_letter;
    }

    fn is_nothing(&self) -> bool {
        self.events + self.succeeded + self.failed + self.delivered + self.dead == 0
    }
}

fn drawn(window: &Window, asked: &Asked, points: &BTreeMap<Timestamp, Counted>) -> Markup {
    let spans = (window.to.since(window.from).as_secs() / window.span.as_secs()).min(u64::from(SPANS)) as u32;
    let at = |place: u32| window.from.plus(window.span * place);
    let line = |name, class, pick: fn(&Counted) -> u64| {
        let count = |place| Some(points.get(&at(place)).map_or(0, pick) as f64);
        Line::new(name, class, (0..=spans).map(count).collect()).going_on(asked.until.is_none())
    };
    let delivered = || line("delivered", "ok", |counted| counted.delivered);
    let dead = || line("dead letters", "fail", |counted| counted.dead);
    let lines = match asked.lines {
        Lines::Events => vec![line("events", "received", |counted| counted.events), delivered(), dead()],
        Lines::Attempts => vec![
            line("attempts that succeeded", "ok", |counted| counted.succeeded),
            line("that failed", "fail", |counted| counted.failed),
        ],
        Lines::Delivered => vec![delivered()],
        Lines::Dead => vec![dead()],
    };
    // What is nearly all of it needs no mark.
    let left_out = asked.since.map_or(Duration::ZERO, |since| since.since(window.from))
        + asked.until.map_or(Duration::ZERO, |until| window.to.since(until));
    let chosen = (left_out > window.to.since(window.from) / 20).then(|| Mark {
        from: asked.since.unwrap_or(window.from),
        to: asked.until.unwrap_or(window.to),
        class: "busy",
        label: format!(
            "{} to {}",
            asked.since.map_or_else(|| "the beginning".to_owned(), format::exact),
            asked.until.map_or_else(|| "now".to_owned(), format::exact)
        ),
    });
    let chart = Chart {
        title: match window.by {
            SeriesBy::Minute => "By the minute",
            SeriesBy::Hour => "By the hour",
            SeriesBy::Day => "By the day",
        },
        from: window.from,
        step: window.span,
        lines,
        stacked: false,
        unit: Unit::Count,
        marks: chosen.into_iter().collect(),
        brush: true,
    };
    chart.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{DeliveryQuery, EventQuery};

    const NOW: Timestamp = Timestamp::from_seconds(1_790_000_030);

    fn window(since: Option<Duration>, until: Option<Duration>) -> Option<Window> {
        let ago = |back: Option<Duration>| back.map(|back| NOW.minus(back));
        Window::of(&Asked { since: ago(since), until: ago(until), ..Asked::default() }, NOW)
    }

    #[test]
    fn an_hour_is_drawn_at_least_and_longer_times_in_longer_spans() {
        let lately = window(None, None).unwrap();
        assert_eq!((lately.by, lately.to), (SeriesBy::Minute, NOW));
        assert_eq!(lately.from, NOW.minus(HOUR).floor(MINUTE));
        let brushed = window(Some(HOUR), Some(50 * MINUTE)).unwrap();
        assert_eq!(brushed.from, NOW.minus(HOUR + 25 * MINUTE).floor(MINUTE), "with something around it");
        assert_eq!(window(Some(DAY), None).unwrap().by, SeriesBy::Hour);
        assert_eq!(window(Some(5 * HOUR), Some(4 * HOUR)).unwrap().by, SeriesBy::Minute);
        assert_eq!(window(Some(7 * HOUR), Some(6 * HOUR)).unwrap().by, SeriesBy::Hour, "minutes are gone");
        assert_eq!(window(Some(30 * DAY), None).unwrap().by, SeriesBy::Day);
    }

    #[test]
    fn no_time_is_too_long_or_the_wrong_way_round_to_be_drawn() {
        let long = window(Some(3_000 * DAY), None).unwrap();
        assert!(long.to.since(long.from).as_secs() / DAY.as_secs() <= u64::from(SPANS));
        assert!(window(Some(HOUR), Some(2 * HOUR)).is_some(), "the hour before its end");
        assert_eq!(window(Some(5_000 * DAY), Some(4_999 * DAY)), None, "nothing is known of it");
        let ahead = Asked { since: Some(NOW.plus(DAY)), ..Asked::default() };
        assert!(Window::of(&ahead, NOW).is_some_and(|window| window.to <= NOW));
    }

    #[test]
    fn what_no_course_is_kept_for_is_said() {
        let events = EventQuery { tag: vec!["a".into()], ..EventQuery::default() };
        assert!(Asked::of(&Wanted::Events(events)).narrower);
        assert!(!Asked::of(&Wanted::Events(EventQuery::default())).narrower);
        let dead = DeliveryQuery { status: vec![Status::DeadLetter], ..DeliveryQuery::default() };
        let dead = Asked::of(&Wanted::Deliveries(dead));
        assert_eq!((dead.lines, dead.narrower), (Lines::Dead, false));
        let queued = DeliveryQuery { status: vec![Status::Queued], ..DeliveryQuery::default() };
        assert!(Asked::of(&Wanted::Deliveries(queued)).narrower);
    }
}
