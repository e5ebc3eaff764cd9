//! Charts as SVG, drawn on the server. The plot is stretched to whatever width there is, so everything that is text stands
//! around it and not in it; values on hover are read by the browser from the table that is there for screen readers anyway.

use crate::format;
use domain::time::Timestamp;
use maud::{Markup, html};
use std::{fmt::Write as _, time::Duration};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;
/// How wide a value is drawn that has no neighbour.
const DASH: f64 = 10.0;

/// One line of a chart, or one layer of a stack.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// What colours it.
    pub(crate) class: &'static str,
    /// One a step; None where there was nothing to measure.
    pub(crate) values: Vec<Option<f64>>,
    /// The last value is a sum so far, of a step that is not over: it is no fall.
    pub(crate) goes_on: bool,
}

impl Line {
    pub(crate) fn new(name: &'static str, class: &'static str, values: Vec<Option<f64>>) -> Self {
        Self { name, class, values, goes_on: false }
    }

    /// Of sums.
    pub(crate) fn going_on(self, goes_on: bool) -> Self {
        Self { goes_on, ..self }
    }

    /// The line through its values, or through the edges of its layer, and what lies under it.
    fn drawn(&self, edge: &[Option<f64>], floor: Option<&[Option<f64>]>, top: f64) -> Markup {
        let whole = edge.len().saturating_sub(usize::from(self.goes_on));
        // One value alone has nothing to fall from.
        let (over, so_far) = if whole < 2 { (edge.to_vec(), None) } else { parts(edge, whole) };
        let part = |class: &str, values: &[Option<f64>]| {
            html! {
                path class={ "fill " (self.class) (class) } d=(area(values, floor, top)) {}
                path class={ "stroke " (self.class) (class) } d=(stroke(values, top)) {}
            }
        };
        html! { (part("", &over)) @if let Some(so_far) = so_far { (part(" so-far", &so_far)) } }
    }
}

/// The steps that are over, and the last of them with the one that is not.
fn parts(edge: &[Option<f64>], whole: usize) -> (Vec<Option<f64>>, Option<Vec<Option<f64>>>) {
    let only = |from: usize, to: usize| -> Vec<Option<f64>> {
        edge.iter().enumerate().map(|(place, value)| value.filter(|_| (from..to).contains(&place))).collect()
    };
    (only(0, whole), (whole < edge.len()).then(|| only(whole - 1, edge.len())))
}

/// A span that is marked behind the lines: a hold.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    pub(crate) class: &'static str,
    pub(crate) label: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) from: Timestamp,
    pub(crate) step: Duration,
    pub(crate) lines: Vec<Line>,
    /// Each line stands on the one before it.
    pub(crate) stacked: bool,
    pub(crate) unit: Unit,
    pub(crate) marks: Vec<Mark>,
    /// Dragging over it asks for that time.
    pub(crate) brush: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Count,
    Millis,
    Percent,
    /// Of which there are parts, on average.
    Slots,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Count | Self::Slots => format::compact(value),
            Self::Millis => format::millis(value.round() as u64),
            Self::Percent => format::percent(value),
        }
    }

    /// An axis that ends lower has half a delivery in its middle.
    const fn least_top(self) -> f64 {
        match self {
            Self::Count | Self::Slots => 2.0,
            Self::Millis => 10.0,
            Self::Percent => 1.0,
        }
    }

    fn show_exactly(self, value: f64) -> String {
        match self {
            Self::Count => format::number(value.round() as u64),
            Self::Slots => format!("{value:.1}").trim_end_matches(".0").to_owned(),
            Self::Millis | Self::Percent => self.show(value),
        }
    }
}

impl Chart {
    pub(crate) fn render(&self) -> Markup {
        let steps = self.lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
        let tops = if self.stacked { stack(&self.lines) } else { plain(&self.lines) };
        let highest = tops.iter().flatten().flatten().fold(0.0_f64, |high, value| high.max(*value));
        let top = nice_top(highest.max(self.unit.least_top()));
        let label = |place: usize| self.moment(place);
        html! {
            figure class=(if self.stacked { "chart stacked" } else { "chart" }) data-chart data-from=(self.from.micros() / 1_000) data-step=(self.step.as_millis())
                data-brush[self.brush] {
                figcaption {
                    span.chart-title { (self.title) }
                    span.legend { @for line in &self.lines { span class={ "key " (line.class) } { span { (line.name) } } } }
                }
                div.chart-box {
                    div.axis-y aria-hidden="true" { span { (self.unit.show(top)) } span { (self.unit.show(top / 2.0)) } span { "0" } }
                    div.plot {
                        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                            aria-label={ (self.title) ": the values are in the table below" } {
                            line.grid x1="0" x2=(WIDTH) y1="0.5" y2="0.5" {}
                            line.grid x1="0" x2=(WIDTH) y1=(HEIGHT / 2.0) y2=(HEIGHT / 2.0) {}
                            line.grid x1="0" x2=(WIDTH) y1=(HEIGHT - 0.5) y2=(HEIGHT - 0.5) {}
                            @for mark in &self.marks { @if let Some((x, width)) = self.across(mark, steps) {
                                rect class={ "mark " (mark.class) } x=(short(x)) width=(short(width)) y="0" height=(HEIGHT) { title { (mark.label) } }
                            } }
                            @for (place, line) in self.lines.iter().enumerate().rev() {
                                @let values = &tops[place];
                                @let floor = if self.stacked && place > 0 { Some(&tops[place - 1]) } else { None };
                                (line.drawn(values, floor.map(Vec::as_slice), top))
                            }
                        }
                    }
                    div.axis-x aria-hidden="true" { span { (label(0)) } span { (label(steps / 2)) } span { (label(steps.saturating_sub(1))) } }
                }
                details.chart-table {
                    summary { "As a table" }
                    div.scroll { table {
                        thead { tr { th scope="col" { "Time (UTC)" } @for line in &self.lines { th scope="col" { (line.name) } } } }
                        tbody { @for place in 0..steps { tr {
                            th scope="row" { (label(place)) }
                            @for line in &self.lines {
                                td { @match line.values.get(place).copied().flatten() { Some(value) => (self.unit.show_exactly(value)), None => "–" } }
                            }
                        } } }
                    } }
                }
            }
        }
    }

    fn moment(&self, place: usize) -> String {
        moment(self.from.plus(self.step * place as u32), self.step)
    }

    /// Where a mark lies; None if it is outside.
    fn across(&self, mark: &Mark, steps: usize) -> Option<(f64, f64)> {
        let all = self.step.as_micros() as f64 * (steps.max(2) - 1) as f64;
        let at = |moment: Timestamp| {
            let micros = (moment.micros() - self.from.micros()) as f64;
            (micros / all * WIDTH).clamp(0.0, WIDTH)
        };
        let (from, to) = (at(mark.from), at(mark.to));
        // A hold of a second is still seen.
        let wide = mark.to > self.from && from < WIDTH;
        wide.then(|| (from.min(WIDTH - 2.0), (to - from).max(2.0)))
    }
}

/// As long as the steps allow: `14:30`, `04-03 14:00`, `04-03`.
fn moment(at: Timestamp, step: Duration) -> String {
    let exact = format::exact(at);
    let day = exact.get(5..10).unwrap_or_default();
    match step.as_secs() {
        0..3_600 => format::hour_and_minute(at),
        3_600..86_400 => format!("{day} {}", format::hour_and_minute(at)),
        _ => day.to_owned(),
    }
}

/// A sparkline whose values are told on hover; for screen readers they stand in a table beside it.
pub(crate) fn told_sparkline(
    label: &str,
    from: Timestamp,
    step: Duration,
    unit: Unit,
    lines: &[Line],
) -> Markup {
    let top = lines.iter().flat_map(|line| line.values.iter().flatten()).fold(0.0_f64, |a, b| a.max(*b));
    // A little room, so that the highest is not cut off; without anything, a line at the bottom.
    let top = if top > 0.0 { top * 1.08 } else { 1.0 };
    let values: Vec<String> = lines.iter().map(|line| told(line, unit)).collect();
    html! {
        span.spark-box data-spark=(values.join("\n")) data-from=(from.micros() / 1_000) data-step=(step.as_millis()) {
            svg.sparkline viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
                @for line in lines.iter().rev() {
                    (line.drawn(&line.values, None, top))
                }
            }
        }
    }
}

/// Its name and its values, for the browser to tell.
fn told(line: &Line, unit: Unit) -> String {
    let value = |value: &Option<f64>| value.map_or_else(|| "–".to_owned(), |value| unit.show_exactly(value));
    let values: Vec<String> = line.values.iter().map(value).collect();
    format!("{}|{}", line.name, values.join("|"))
}

/// The values of sparklines that stand side by side, for screen readers and for whoever wants them exactly.
pub(crate) fn table(from: Timestamp, step: Duration, columns: &[(&Line, Unit)]) -> Markup {
    let steps = columns.iter().map(|(line, _)| line.values.len()).max().unwrap_or(0);
    html! {
        details.chart-table {
            summary { "As a table" }
            div.scroll { table {
                thead { tr { th scope="col" { "Time (UTC)" } @for (line, _) in columns { th scope="col" { (line.name) } } } }
                tbody { @for place in 0..steps { tr {
                    th scope="row" { (moment(from.plus(step * place as u32), step)) }
                    @for (line, unit) in columns {
                        td { @match line.values.get(place).copied().flatten() { Some(value) => (unit.show_exactly(value)), None => "–" } }
                    }
                } } }
            } }
        }
    }
}

/// Parts of a whole side by side, each with its class, name and size.
pub(crate) fn bar(label: &str, parts: &[(&str, &str, f64)]) -> Markup {
    let whole: f64 = parts.iter().map(|(_, _, size)| size.max(0.0)).sum();
    let width = |size: f64| if whole > 0.0 { size.max(0.0) / whole * WIDTH } else { 0.0 };
    let mut from = 0.0;
    let mut drawn = Vec::new();
    for (class, name, size) in parts {
        drawn.push((class, name, from, width(*size)));
        from += width(*size);
    }
    html! {
        svg.bar viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" role="img" aria-label=(label) {
            rect.rest x="0" y="0" width=(WIDTH) height="10" {}
            @for (class, name, x, width) in drawn {
                @if width > 0.0 { rect class={ "fill " (class) } x=(short(x)) y="0" width=(short(width)) height="10" { title { (name) } } }
            }
        }
    }
}

/// The pauses between attempts as dots on a ruler, whose distances grow with the logarithm of the time. The places are
/// percentages, so that dots stay round and texts are not stretched.
pub(crate) fn ruler(pauses: &[Duration]) -> Markup {
    let mut at = Duration::ZERO;
    let mut dots = vec![(0.0, "at once".to_owned(), "1st attempt, at once".to_owned())];
    for (place, pause) in pauses.iter().enumerate() {
        at = at.saturating_add(*pause);
        let label = format!("attempt {}, {} after the first", place + 2, format::span(at));
        dots.push((at.as_secs_f64(), format::span(at), label));
    }
    let scale = |seconds: f64| (1.0 + seconds).ln();
    let last = scale(dots.last().map_or(0.0, |(seconds, ..)| *seconds)).max(1.0);
    let x = |seconds: f64| format!("{}%", short(4.0 + scale(seconds) / last * 90.0));
    let (mut told_until, mut texts) = (f64::MIN, Vec::new());
    for (seconds, text, _) in &dots {
        let place = scale(*seconds) / last * 90.0;
        // One that would run into the text before it is left to the list.
        if place - told_until >= 12.0 {
            told_until = place;
            texts.push((x(*seconds), text));
        }
    }
    html! {
        div.ruler {
            svg aria-hidden="true" {
                line.grid x1="4%" x2="94%" y1="10" y2="10" {}
                @for (seconds, _, label) in &dots { circle.moment cx=(x(*seconds)) cy="10" r="5" { title { (label) } } }
                @for (x, text) in &texts { text x=(x) y="31" { (text) } }
            }
            ol.sr aria-label="When attempts are made" { @for (_, _, label) in &dots { li { (label) } } }
        }
    }
}

fn plain(lines: &[Line]) -> Vec<Vec<Option<f64>>> {
    lines.iter().map(|line| line.values.clone()).collect()
}

/// The upper edge of each layer.
fn stack(lines: &[Line]) -> Vec<Vec<Option<f64>>> {
    let mut below: Vec<f64> = Vec::new();
    let mut edges = Vec::new();
    for line in lines {
        below.resize(below.len().max(line.values.len()), 0.0);
        for (sum, value) in below.iter_mut().zip(&line.values) {
            *sum += value.unwrap_or(0.0);
        }
        edges.push(below.iter().copied().map(Some).collect());
    }
    edges
}

/// 1, 2 or 5 times a power of ten, not below the value: the top of an axis.
fn nice_top(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
    nice.into_iter().find(|top| *top >= value * 0.999_999).unwrap_or(value)
}

fn x(place: usize, steps: usize) -> f64 {
    if steps < 2 { 0.0 } else { place as f64 / (steps - 1) as f64 * WIDTH }
}

fn y(value: f64, top: f64) -> f64 {
    HEIGHT - (value / top).clamp(0.0, 1.0) * HEIGHT
}

/// The line through the values, lifted where there is none.
fn stroke(values: &[Option<f64>], top: f64) -> String {
    let mut path = String::new();
    let mut drawing = false;
    for (place, value) in values.iter().enumerate() {
        if let Some(value) = value {
            let (x, y) = (x(place, values.len()), y(*value, top));
            // A single value between gaps is a dash: as a dot it would not be seen.
            let alone = !drawing && values.get(place + 1).is_none_or(Option::is_none);
            let _ = match (drawing, alone) {
                (true, _) => write!(path, "L{} {}", short(x), short(y)),
                (_, false) => write!(path, "M{} {}", short(x), short(y)),
                (_, true) => {
                    let from = (x - DASH / 2.0).clamp(0.0, WIDTH - DASH);
                    write!(path, "M{} {}h{}", short(from), short(y), short(DASH))
                }
            };
        }
        drawing = value.is_some();
    }
    path
}

/// What lies under the line, down to the floor; under a gap lies nothing.
fn area(values: &[Option<f64>], floor: Option<&[Option<f64>]>, top: f64) -> String {
    let steps = values.len();
    let under = |place: usize| floor.and_then(|floor| floor.get(place).copied().flatten()).unwrap_or(0.0);
    let mut path = String::new();
    let mut from = 0;
    for known in values.chunk_by(|one, next| one.is_some() == next.is_some()) {
        let places = from..from + known.len();
        from = places.end;
        if known[0].is_none() {
            continue;
        }
        for (place, value) in places.clone().zip(known.iter().flatten()) {
            let verb = if place == places.start { 'M' } else { 'L' };
            let _ = write!(path, "{verb}{} {}", short(x(place, steps)), short(y(*value, top)));
        }
        for place in places.rev() {
            let _ = write!(path, "L{} {}", short(x(place, steps)), short(y(under(place), top)));
        }
        path.push('Z');
    }
    path
}

/// One digit after the point, none where it is 0: a plot has a few hundred of these.
fn short(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_number_people_count_in() {
        let tops = [0.0, 0.3, 1.0, 1.1, 3.0, 7.0, 42.0, 100.0, 1_204.0, f64::NAN].map(nice_top);
        assert_eq!(tops, [1.0, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 2_000.0, 1.0]);
    }

    #[test]
    fn a_line_is_lifted_over_a_gap_and_a_value_alone_is_a_dash() {
        let values = [Some(0.0), Some(5.0), None, Some(10.0)];
        assert_eq!(stroke(&values, 10.0), "M0 100L200 50M590 0h10");
        assert_eq!(stroke(&[], 10.0), "");
    }

    #[test]
    fn an_area_stands_on_its_floor() {
        assert_eq!(area(&[Some(5.0), Some(10.0)], None, 10.0), "M0 50L600 0L600 100L0 100Z");
        let floor = [Some(5.0), Some(5.0)];
        assert_eq!(area(&[Some(10.0), Some(5.0)], Some(&floor), 10.0), "M0 0L600 50L600 50L0 50Z");
        let gap = [Some(5.0), Some(5.0), None, Some(10.0)];
        assert_eq!(
            area(&gap, None, 10.0),
            "M0 50L200 50L200 100L0 100ZM600 0L600 100Z",
            "nothing under a gap"
        );
    }

    #[test]
    fn layers_stand_on_each_other() {
        let line = |values: &[f64]| Line::new("", "", values.iter().copied().map(Some).collect());
        let edges = stack(&[line(&[1.0, 2.0]), line(&[3.0, 4.0])]);
        assert_eq!(edges, [[Some(1.0), Some(2.0)], [Some(4.0), Some(6.0)]]);
    }

    #[test]
    fn a_step_that_goes_on_is_told_apart_from_those_that_are_over() {
        let drawn = |values: &[f64], goes_on| {
            let values: Vec<_> = values.iter().copied().map(Some).collect();
            let line = Line::new("", "ok", values.clone()).going_on(goes_on);
            line.drawn(&values, None, 10.0).into_string()
        };
        let going_on = drawn(&[5.0, 5.0, 1.0], true);
        assert!(going_on.contains("\"stroke ok\" d=\"M0 50L300 50\""), "{going_on}");
        assert!(going_on.contains("\"stroke ok so-far\" d=\"M300 50L600 90\""), "{going_on}");
        assert!(drawn(&[5.0, 5.0, 1.0], false).contains("d=\"M0 50L300 50L600 90\""));
        for alone in [&[][..], &[5.0], &[5.0, 1.0]] {
            assert!(!drawn(alone, true).contains("so-far"), "{alone:?}");
        }
    }

    #[test]
    fn values_beyond_the_axis_stay_inside_the_plot() {
        assert_eq!((y(50.0, 10.0), y(-1.0, 10.0)), (0.0, 100.0));
        assert_eq!(x(0, 1), 0.0);
    }

    #[test]
    fn a_mark_is_seen_however_short_it_is_and_not_at_all_if_it_is_over() {
        let from = Timestamp::from_seconds(6_000);
        let line = Line::new("", "", vec![None; 61]);
        let chart = Chart {
            title: "",
            from,
            step: Duration::from_secs(60),
            lines: vec![line],
            stacked: false,
            unit: Unit::Count,
            marks: Vec::new(),
            brush: false,
        };
        let mark = |start: i64, end: i64| Mark {
            from: Timestamp::from_seconds(6_000 + start),
            to: Timestamp::from_seconds(6_000 + end),
            class: "",
            label: String::new(),
        };
        assert_eq!(chart.across(&mark(360, 720), 61), Some((60.0, 60.0)));
        assert_eq!(chart.across(&mark(360, 361), 61), Some((60.0, 2.0)));
        assert_eq!(chart.across(&mark(-500, 360), 61), Some((0.0, 60.0)));
        assert_eq!(chart.across(&mark(-500, -400), 61), None);
        assert_eq!(chart.across(&mark(3_700, 3_800), 61), None);
    }

    #[test]
    fn a_sparkline_tells_its_values_by_name() {
        let line = Line::new("waiting", "ok", vec![Some(1_200.0), None]);
        let drawn = told_sparkline("Backlog", Timestamp::MIN, Duration::from_secs(60), Unit::Count, &[line]);
        assert!(drawn.into_string().contains("data-spark=\"waiting|1,200|–\""));
    }

    #[test]
    fn steps_are_told_as_long_as_they_are() {
        let at = Timestamp::from_seconds(1_790_000_000);
        let told = [60, 3_600, 86_400].map(|step| moment(at, Duration::from_secs(step)));
        assert_eq!(told, ["14:13", "09-21 14:13", "09-21"]);
    }

    #[test]
    fn texts_of_a_ruler_do_not_run_into_each_other() {
        let drawn = ruler(&[1, 1, 3_600].map(Duration::from_secs)).into_string();
        assert_eq!((drawn.matches("<circle").count(), drawn.matches("<text").count()), (4, 3));
        assert!(drawn.contains("attempt 4, 1 h after the first"));
    }

    #[test]
    fn nothing_to_draw_is_drawn_as_nothing() {
        let chart = Chart {
            title: "Nothing",
            from: Timestamp::MIN,
            step: Duration::ZERO,
            lines: Vec::new(),
            stacked: true,
            unit: Unit::Millis,
            marks: Vec::new(),
            brush: false,
        };
        assert!(chart.render().into_string().contains("Nothing"));
        let nowhere = told_sparkline("", Timestamp::MIN, Duration::ZERO, Unit::Count, &[]);
        assert!(nowhere.into_string().contains("sparkline"));
        assert!(!bar("", &[("ok", "", 0.0)]).into_string().contains("fill"));
    }
}
