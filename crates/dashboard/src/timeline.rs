//! Attempts as points by time and duration, with the holds drawn into it, so that one sees when a hold began and the gap it
//! left. Places are percentages of the plot: points stay round and texts are not stretched, however wide it is.

use crate::{
    format, hold, moment,
    status::{self, Tone},
};
use contract::{AttemptView, HoldRecordView};
use domain::time::Timestamp;
use maud::{Markup, html};
use std::time::Duration;

/// A timeline is never shorter: a single attempt would have none.
const SHORTEST: Duration = Duration::from_secs(60);
/// The axis of durations goes from a millisecond up, by powers of ten, to a second at least.
const LEAST_DECADES: u32 = 3;
/// A hold that is wider than this, in percent, has room for its name.
const NAMED: f64 = 9.0;

pub(crate) struct Timeline<'a> {
    now: Timestamp,
    from: Timestamp,
    to: Timestamp,
    decades: u32,
    attempts: Vec<&'a AttemptView>,
    holds: Vec<&'a HoldRecordView>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn of(now: Timestamp, attempts: &'a [AttemptView], holds: &'a [HoldRecordView]) -> Self {
        let mut attempts: Vec<&AttemptView> = attempts.iter().collect();
        attempts.sort_by_key(|attempt| attempt.started_at);
        let from = attempts.first().map_or(now, |attempt| attempt.started_at).min(now.minus(SHORTEST));
        let holds: Vec<_> = holds.iter().filter(|held| held.ended_at.is_none_or(|end| end > from)).collect();
        // What goes on is drawn to where it ends, as far as there is room without pressing the past together.
        let goes_on = holds.iter().filter(|held| held.ended_at.is_none()).filter_map(|held| held.until).max();
        let room = now.plus(now.since(from) / 4);
        let to = goes_on.map_or(now, |until| until.clamp(now, room));
        let longest = attempts.iter().map(|attempt| attempt.duration_ms).max().unwrap_or(0).max(1);
        let decades = (longest as f64).log10().ceil() as u32;
        Self { now, from, to, decades: decades.max(LEAST_DECADES), attempts, holds }
    }

    pub(crate) fn render(&self) -> Markup {
        let middle = self.from.plus(self.to.since(self.from) / 2);
        html! {
            figure.chart.attempt-chart data-timeline {
                figcaption {
                    span.chart-title { @if self.attempts.len() == 1 { "The last attempt, by when it began and how long it took" }
                        @else { "The last " (self.attempts.len()) " attempts, by when they began and how long they took" } }
                    span.legend aria-hidden="true" {
                        @for (tone, name) in [(Tone::Good, "succeeded"), (Tone::Warn, "throttled"), (Tone::Bad, "failed")] {
                            span.point-key class=(tone.class()) { svg { (shape(tone)) } (name) }
                        }
                        @if !self.holds.is_empty() { span.hold-key { "held" } }
                    }
                }
                div.chart-box {
                    div.axis-y aria-hidden="true" { @for decade in (0..=self.decades).rev() { span { (format::millis(10_u64.pow(decade))) } } }
                    div.plot { (self.plot()) }
                    div.axis-x aria-hidden="true" { span { (self.label(self.from)) } span { (self.label(middle)) } span { @if self.to == self.now { "now" } @else { (self.label(self.to)) } } }
                }
                details.chart-table {
                    summary { "As a table" }
                    div.scroll { (self.table()) }
                }
            }
        }
    }

    fn plot(&self) -> Markup {
        html! {
            svg role="img" aria-label="Attempts by time and duration: they are in the table below" {
                defs { @for tone in [Tone::Good, Tone::Warn, Tone::Bad] { g id={ "point-" (tone.class()) } class={ "point-" (tone.class()) } { (mark(tone)) } } }
                @for decade in 0..=self.decades {
                    @let y = percent(100.0 - f64::from(decade) / f64::from(self.decades) * 100.0);
                    line.grid x1="0" x2="100%" y1=(y) y2=(y) {}
                }
                @for held in &self.holds {
                    @let (x, width) = self.across(held);
                    g class={ "held " (hold::tone(held.reason).class()) } {
                        rect x=(percent(x)) width=(percent(width)) y="0" height="100%" { title { (told(held, self.now)) } }
                        line x1=(percent(x)) x2=(percent(x)) y1="0" y2="100%" {}
                        @if width >= NAMED { text x=(percent(x)) y="13" dx="5" { (hold::word(held.reason)) " " (format::span(held.ended_at.unwrap_or(self.now).since(held.since))) } }
                    }
                }
                @if self.to > self.now {
                    @let x = percent(self.x(self.now));
                    line.present x1=(x) x2=(x) y1="0" y2="100%" {}
                }
                @for attempt in &self.attempts {
                    use href={ "#point-" (status::outcome_tone(attempt.outcome).class()) } x=(percent(self.x(attempt.started_at))) y=(percent(self.y(attempt.duration_ms))) {}
                }
            }
        }
    }

    /// Newest first, the holds where they began.
    fn table(&self) -> Markup {
        enum Happened<'a> {
            Attempt(&'a AttemptView),
            Hold(&'a HoldRecordView),
        }
        let attempts = self.attempts.iter().map(|attempt| (attempt.started_at, Happened::Attempt(attempt)));
        let holds = self.holds.iter().map(|held| (held.since, Happened::Hold(held)));
        let mut happened: Vec<(Timestamp, Happened<'_>)> = attempts.chain(holds).collect();
        happened.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        html! {
            table.happened {
                thead { tr { th scope="col" { "When" } th scope="col" { "What" } th.num scope="col" { "Took" } th scope="col" { "" } } }
                tbody { @for (at, what) in &happened { @match what {
                    Happened::Attempt(attempt) => tr data-x=(short(self.x(*at))) data-y=(short(self.y(attempt.duration_ms))) {
                        td { (moment::ago(self.now, *at)) }
                        td { a class=(status::outcome_tone(attempt.outcome).class()) href={ "/events/" (attempt.event_id) "#" (attempt.delivery_id) } { @match attempt.http_status { Some(code) => { "HTTP " (code) }, None => (status::outcome_word(attempt.outcome)) } } }
                        td.num { (format::millis(attempt.duration_ms)) }
                        td { "attempt " (attempt.number) @if let Some(error) = &attempt.error { " · " (error.message) } }
                    },
                    Happened::Hold(held) => tr.hold-row {
                        td { (moment::ago(self.now, *at)) }
                        td { span class={ "status " (hold::tone(held.reason).class()) } { (hold::picture(held.reason)) (hold::word(held.reason)) } }
                        td.num { @match held.ended_at { Some(end) => (format::span(end.since(held.since))), None => "goes on" } }
                        td { (held.detail) }
                    },
                } } }
            }
        }
    }

    fn x(&self, at: Timestamp) -> f64 {
        let all = (self.to.micros() - self.from.micros()) as f64;
        ((at.micros() - self.from.micros()) as f64 / all * 100.0).clamp(0.0, 100.0)
    }

    fn y(&self, millis: u64) -> f64 {
        let decades = (millis.max(1) as f64).log10() / f64::from(self.decades);
        (100.0 - decades * 100.0).clamp(0.0, 100.0)
    }

    /// Where a hold lies and how wide it is; one of a second is still seen.
    fn across(&self, held: &HoldRecordView) -> (f64, f64) {
        let end = held.ended_at.unwrap_or_else(|| held.until.map_or(self.now, |until| until.max(self.now)));
        let (from, to) = (self.x(held.since), self.x(end));
        (from.min(99.6), (to - from).max(0.4))
    }

    fn label(&self, at: Timestamp) -> String {
        let exact = format::exact(at);
        let range = match self.to.since(self.from).as_secs() {
            0..900 => 11..19,
            900..43_200 => 11..16,
            _ => 5..16,
        };
        exact.get(range).unwrap_or_default().to_owned()
    }
}

fn told(held: &HoldRecordView, now: Timestamp) -> String {
    let lasted = format::span(held.ended_at.unwrap_or(now).since(held.since));
    let so_far = if held.ended_at.is_none() { " so far" } else { "" };
    let (word, since) = (hold::word(held.reason), format::exact(held.since));
    format!("{word} for {lasted}{so_far}, since {since}: {}", held.detail)
}

/// Apart by shape as well as by colour.
fn mark(tone: Tone) -> Markup {
    html! { @match tone {
        Tone::Good => circle r="3" {},
        Tone::Warn => rect x="-3" y="-3" width="6" height="6" {},
        _ => path d="M-3.2-3.2l6.4 6.4M3.2-3.2l-6.4 6.4" {},
    } }
}

fn shape(tone: Tone) -> Markup {
    html! { g transform="translate(6 6)" class={ "point-" (tone.class()) } { (mark(tone)) } }
}

fn percent(value: f64) -> String {
    format!("{}%", short(value))
}

/// Two digits after the point: a tenth of a pixel.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{HeadersView, RequestView, TimingView};
    use domain::{
        gate::HoldReason,
        id::{AttemptId, DeliveryId, DestinationId, EventId, NodeId},
        outcome::Outcome,
    };

    const NOW: Timestamp = Timestamp::from_seconds(1_790_000_000);

    fn attempt(seconds_ago: u64, duration_ms: u64, outcome: Outcome) -> AttemptView {
        AttemptView {
            id: AttemptId::at(NOW, 1),
            delivery_id: DeliveryId::at(NOW, 1),
            event_id: EventId::at(NOW, 1),
            destination_id: DestinationId::at(NOW, 1),
            number: 1,
            started_at: NOW.minus(Duration::from_secs(seconds_ago)),
            duration_ms,
            timing_ms: TimingView { dns: None, connect: None, tls: None, first_byte: None },
            connection_reused: false,
            outcome,
            http_status: None,
            retry_after_seconds: None,
            error: None,
            request: RequestView {
                method: "POST".into(),
                url: String::new(),
                headers: HeadersView::default(),
            },
            response: None,
            node: NodeId::at(NOW, 1),
            late: false,
        }
    }

    fn held(since: u64, until: i64, ended: Option<u64>) -> HoldRecordView {
        HoldRecordView {
            reason: HoldReason::Throttle,
            since: NOW.minus(Duration::from_secs(since)),
            until: Some(Timestamp::from_seconds(NOW.seconds() + until)),
            ended_at: ended.map(|ended| NOW.minus(Duration::from_secs(ended))),
            detail: "429 Too Many Requests".into(),
            step: Some(1),
        }
    }

    #[test]
    fn an_attempt_stands_by_its_time_and_the_logarithm_of_its_duration() {
        let attempts = [attempt(100, 1, Outcome::Success), attempt(50, 100, Outcome::Throttled)];
        let timeline = Timeline::of(NOW, &attempts, &[]);
        assert_eq!((timeline.x(attempts[0].started_at), timeline.y(1)), (0.0, 100.0));
        assert_eq!(timeline.x(attempts[1].started_at), 50.0);
        assert!((timeline.y(100) - 33.3).abs() < 0.1, "two decades of three");
        assert_eq!(Timeline::of(NOW, &[attempt(5, 30_000, Outcome::Timeout)], &[]).decades, 5);
    }

    #[test]
    fn a_hold_that_goes_on_is_drawn_to_its_end_as_far_as_there_is_room() {
        let attempts = [attempt(100, 1, Outcome::Success)];
        let going_on = [held(20, 10, None)];
        let timeline = Timeline::of(NOW, &attempts, &going_on);
        let (from, width) = timeline.across(&going_on[0]);
        assert!((from - 80.0 / 110.0 * 100.0).abs() < 0.1 && (from + width - 100.0).abs() < 0.1);
        let long = [held(20, 86_400, None)];
        assert_eq!(Timeline::of(NOW, &attempts, &long).to, NOW.plus(Duration::from_secs(25)));
        let over = [held(900, -500, Some(500))];
        assert!(Timeline::of(NOW, &attempts, &over).holds.is_empty(), "it ended before all of this");
    }

    #[test]
    fn what_is_drawn_stands_in_a_table_too() {
        let attempts = [attempt(30, 12, Outcome::Success), attempt(20, 1_500, Outcome::Timeout)];
        let shown = Timeline::of(NOW, &attempts, &[held(10, 30, None)]).render().into_string();
        assert_eq!(shown.matches("<use ").count(), 2);
        assert_eq!(shown.matches("<tr data-x").count(), 2);
        assert!(shown.contains("hold-row") && shown.contains("429 Too Many Requests"));
        let empty = Timeline::of(NOW, &[], &[]).render().into_string();
        assert!(empty.contains("0 attempts"));
    }
}
