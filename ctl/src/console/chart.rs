//! Charts as SVG: percent on x, pixels on y, and a table with the same numbers after each. Text is never stretched, since the lines
//! are in an inner SVG of their own. The stylesheet colors the classes.

use super::parts::{Tone, group_digits};
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// The height of the plot, in pixels.
const HEIGHT: f64 = 180.0;
/// Space above the highest tick, in pixels, where labels of lines fit.
const TOP: f64 = 12.0;
/// The width of the inner SVG, which is stretched to that of the plot.
const WIDTH: f64 = 1000.0;
/// Distance of two labels of lines, in pixels.
const LABEL_DISTANCE: f64 = 18.0;
/// The least span of an axis that does not begin at 0, as a share of the value: a change of 0.05 % must look like one.
const LEAST_SPAN: f64 = 0.03;

/// Values over time.
#[derive(Debug, Clone)]
pub(crate) struct ChartLine {
    pub(crate) name: String,
    pub(crate) tone: Tone,
    /// Whether it is a second line of the same measure.
    pub(crate) is_dashed: bool,
    /// Times in seconds with values. Without a value, the line has a gap.
    pub(crate) points: Vec<(i64, Option<f64>)>,
}

/// The parts of a chart other than its lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChartFrame<'a> {
    /// The prefix of ids on the page.
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    /// In words; empty if the values have none.
    pub(crate) unit: &'a str,
    /// The first and the last time, in seconds.
    pub(crate) span: (i64, i64),
    /// The name of the first column of the table.
    pub(crate) time_name: &'a str,
    /// Times that are marked, in seconds: from and until.
    pub(crate) bands: &'a [(i64, i64)],
    /// The buckets, if the lines are stacked bars of rates per minute.
    pub(crate) buckets: Option<ChartBuckets>,
}

/// The buckets of rates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChartBuckets {
    /// The length of each, in seconds.
    pub(crate) length_s: i64,
    /// The present time, in seconds. Its bucket was measured only until then.
    pub(crate) now: i64,
}

impl ChartBuckets {
    /// The measured time of the bucket that begins at `at`, in minutes.
    fn measured_minutes(self, at: i64) -> f64 {
        (self.now - at).clamp(0, self.length_s) as f64 / 60.0
    }
}

impl ChartFrame<'_> {
    /// The place of a time, from 0 to 1.
    fn share(&self, at: i64) -> f64 {
        let (start, end) = self.span;
        if end > start { ((at - start) as f64 / (end - start) as f64).clamp(0.0, 1.0) } else { 0.5 }
    }
}

/// The axis of the values, with round ticks.
#[derive(Debug, PartialEq)]
struct ValueAxis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl ValueAxis {
    /// From 0, for counts, rates, ages and latencies.
    fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let highest = values.fold(0.0, f64::max);
        Self::between(0.0, if highest > 0.0 { highest } else { 1.0 })
    }

    /// Around the values, for those that change by a small share.
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) =
            values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            return Self::between(0.0, 1.0);
        }
        let least = high.abs().max(low.abs()) * LEAST_SPAN;
        let missing = (least - (high - low)).max(0.0) / 2.0;
        let extra = if high > low || least > 0.0 { 0.0 } else { 0.5 };
        Self::between(low - missing - extra, high + missing + extra)
    }

    /// Three to five round ticks that enclose `low` and `high`.
    fn between(low: f64, high: f64) -> Self {
        let rough = (high - low) / 3.0;
        let power = 10f64.powf(rough.log10().floor());
        let factor =
            [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough).unwrap_or(10.0);
        let step = factor * power;
        let first = (low / step + 1e-9).floor();
        let count = ((high / step - 1e-9).ceil() - first).clamp(1.0, 8.0);
        let ticks: Vec<_> = (0..=count as usize).map(|number| (first + number as f64) * step).collect();
        Self { low: first * step, high: (first + count) * step, ticks }
    }

    /// The place of a value, in pixels from the top.
    fn place(&self, value: f64) -> f64 {
        HEIGHT - (value - self.low) / (self.high - self.low) * (HEIGHT - TOP)
    }

    fn begins_at_zero(&self) -> bool {
        self.low == 0.0
    }
}

/// A number without insignificant digits.
pub(crate) fn format_number(number: f64) -> String {
    let places = match number.abs() {
        size if size >= 100.0 => 1.0,
        size if size >= 1.0 => 100.0,
        _ => 10_000.0,
    };
    let rounded = (number * places).round() / places;
    group_digits(&(if rounded == 0.0 { 0.0 } else { rounded }).to_string())
}

/// A number with all of its digits, such as that of a fact.
fn format_exact(number: f64) -> String {
    group_digits(&number.to_string())
}

/// The most digits after the point that a label has so that it differs from the others.
const LABEL_PLACES: usize = 6;

/// The numbers with enough digits after the point that different ones have different texts.
fn format_distinct(numbers: &[f64]) -> Vec<String> {
    let rounded = |places: usize| {
        let text = |number: &f64| {
            let text = format!("{number:.places$}");
            group_digits(if text.contains('.') {
                text.trim_end_matches('0').trim_end_matches('.')
            } else {
                &text
            })
        };
        numbers.iter().map(text).collect::<Vec<_>>()
    };
    let are_distinct = |texts: &[String]| {
        let of = || numbers.iter().zip(texts);
        of().all(|(one, text)| of().all(|(other, same)| one == other || text != same))
    };
    let short: Vec<_> = numbers.iter().map(|number| format_number(*number)).collect();
    let longer = (1..=LABEL_PLACES).map(rounded);
    [short]
        .into_iter()
        .chain(longer)
        .find(|texts| are_distinct(texts))
        .unwrap_or_else(|| rounded(LABEL_PLACES))
}

/// A round number, short enough for the space beside the plot.
fn format_tick(number: f64) -> String {
    if number.abs() >= 1e6 { format!("{} M", format_number(number / 1e6)) } else { format_number(number) }
}

/// The steps between ticks of a time axis, in seconds.
const TIME_STEPS: [i64; 16] = [
    60, 300, 600, 900, 1800, 3600, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600, 2_592_000,
    7_776_000, 15_552_000,
];
/// Maximum number of ticks of a time axis.
const TIME_TICKS: usize = 9;
const YEAR_S: i64 = 31_556_952;

/// Round times between the ends, with their labels.
fn time_ticks((start, end): (i64, i64)) -> Vec<(i64, String)> {
    let span = end - start;
    let step = TIME_STEPS.into_iter().find(|step| span / step < TIME_TICKS as i64);
    let Some(step) = step.filter(|step| *step < 2_592_000) else { return calendar_ticks((start, end)) };
    let form = if step >= 86_400 { "%-d %b" } else { "%H:%M" };
    let label =
        |at: i64| Timestamp::from_second(at).map(|at| at.strftime(form).to_string()).unwrap_or_default();
    let first = (start + step - 1).div_euclid(step) * step;
    (0..).map(|number| first + number * step).take_while(|at| *at <= end).map(|at| (at, label(at))).collect()
}

/// Starts of months or years.
fn calendar_ticks((start, end): (i64, i64)) -> Vec<(i64, String)> {
    let (Ok(from), Ok(until)) = (Timestamp::from_second(start), Timestamp::from_second(end)) else {
        return Vec::new();
    };
    let (from, until) = (from.to_zoned(TimeZone::UTC).date(), until.to_zoned(TimeZone::UTC).date());
    let months = (i64::from(until.year()) - i64::from(from.year())) * 12 + i64::from(until.month());
    let years = (end - start) / YEAR_S;
    let step_months = match years {
        0 => 1 + months / 9,
        1..=2 => 6,
        years => (years / 8 + 1) * 12,
    };
    let first = i64::from(from.year()) * 12;
    let ticks = (0..).map(|number| first + number * step_months).map_while(|month| {
        let year = i16::try_from(month.div_euclid(12)).ok()?;
        let of_year = i8::try_from(month.rem_euclid(12) + 1).ok()?;
        let day = jiff::civil::Date::new(year, of_year, 1).ok()?;
        let at = day.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
        let label = if step_months % 12 == 0 { day.strftime("%Y") } else { day.strftime("%b %Y") };
        (at <= end).then(|| (at, label.to_string()))
    });
    ticks.filter(|(at, _)| *at >= start).collect()
}

/// Lines over time whose values hold until the next time, such as those of releases.
pub(crate) fn step_chart(frame: &ChartFrame<'_>, lines: &[ChartLine]) -> Markup {
    let values = || lines.iter().flat_map(|line| &line.points).filter_map(|(_, value)| *value);
    let axis = ValueAxis::around(values());
    let paths = html! { @for line in lines { path.(line.tone.name()).thin[line.is_dashed] d=(step_path(frame, &axis, line)) {} } };
    let dots = html! {
        @for line in lines {
            @let mut last = None;
            @for (at, value) in &line.points {
                @if let Some(value) = value {
                    @if last != Some(*value) {
                        circle.dot.(line.tone.name()) cx=(percent(frame.share(*at))) cy=(pixels(axis.place(*value))) r="4" {
                            title { (line.name) ": " (format_exact(*value)) " from " (format_day(*at)) }
                        }
                    }
                }
                @let () = last = *value;
            }
        }
    };
    let size = axis.high - axis.low;
    let highest = values().fold(0.0, |top: f64, value| top.max(value.abs()));
    let note = html! {
        @if !axis.begins_at_zero() {
            "The axis does not begin at 0: its height is " (format_number(size)) @if !frame.unit.is_empty() { " " (frame.unit) }
            @if highest > 0.0 { ", " (format_number(size / highest * 100.0)) " % of the value" }
            ". "
        }
        "Steps: a value holds until the next one. Dots: changes."
    };
    figure(frame, &axis, (&paths, &dots), lines, &note, format_exact)
}

/// Lines over time of sampled measures, from 0.
pub(crate) fn line_chart(frame: &ChartFrame<'_>, lines: &[ChartLine]) -> Markup {
    let values = || lines.iter().flat_map(|line| &line.points).filter_map(|(_, value)| *value);
    let axis = ValueAxis::from_zero(values());
    let paths = html! { @for line in lines { path.(line.tone.name()).thin[line.is_dashed] d=(line_path(frame, &axis, line)) {} } };
    figure(frame, &axis, (&paths, &hit_areas(frame, lines)), lines, &html! {}, format_number)
}

/// Stacked bars over time, the first line at the bottom. All lines have the same times.
pub(crate) fn bar_chart(frame: &ChartFrame<'_>, lines: &[ChartLine]) -> Markup {
    let slots = lines.first().map(|line| line.points.len()).unwrap_or_default();
    let value = |line: &ChartLine, slot: usize| {
        line.points.get(slot).and_then(|(_, value)| *value).unwrap_or_default()
    };
    let totals = (0..slots).map(|slot| lines.iter().map(|line| value(line, slot)).sum::<f64>());
    let axis = ValueAxis::from_zero(totals);
    let bucket_s = frame.buckets.map(|buckets| buckets.length_s).unwrap_or_default();
    let width = (frame.share(frame.span.0 + bucket_s) - 0.001).max(0.001);
    let bars = html! {
        @for slot in 0..slots {
            @let mut below = 0.0;
            @for line in lines {
                @let (at, size) = (line.points.get(slot).map_or(frame.span.0, |(at, _)| *at), value(line, slot));
                @if size > 0.0 {
                    @let (top, bottom) = (axis.place(below + size), axis.place(below));
                    // a second tone has a pattern, so that color is not the only difference
                    rect.bar.(line.tone.name()) x=(percent(frame.share(at))) width=(percent(width)) y=(pixels(top)) height=(pixels(bottom - top))
                        fill=[pattern(line.tone)] {}
                }
                @let () = below += size;
            }
        }
        (hit_areas(frame, lines))
    };
    figure(frame, &axis, (&html! {}, &bars), lines, &html! {}, format_number)
}

/// An area over each bucket, whose title has the values of all lines.
fn hit_areas(frame: &ChartFrame<'_>, lines: &[ChartLine]) -> Markup {
    let times: BTreeSet<i64> = lines.iter().flat_map(|line| &line.points).map(|(at, _)| *at).collect();
    let ends = times.iter().skip(1).copied().chain([frame.span.1]);
    let text = |line: &ChartLine, at: i64| {
        let value = line.points.iter().find(|(time, _)| *time == at).and_then(|(_, value)| *value);
        format!("{} {}", line.name, value.map_or_else(|| "–".to_owned(), format_number))
    };
    html! {
        @for (at, end) in times.iter().zip(ends) {
            rect.hit x=(percent(frame.share(*at))) width=(percent(frame.share(end) - frame.share(*at))) y="0" height="180" {
                title { (format_time(*at)) ": " (lines.iter().map(|line| text(line, *at)).collect::<Vec<_>>().join(", ")) }
            }
        }
    }
}

/// The number of events of a line of a stack, or the last value of another one. The number is not exact: after a start of the daemon, a
/// bucket was measured in part.
fn summarize(frame: &ChartFrame<'_>, line: &ChartLine, format_value: fn(f64) -> String) -> String {
    let Some(buckets) = frame.buckets else {
        let last = line.points.iter().rev().find_map(|(_, value)| *value);
        return last.map_or_else(|| "–".to_owned(), format_value);
    };
    let events = line.points.iter().filter_map(|(at, value)| Some((*value)? * buckets.measured_minutes(*at)));
    let total = events.sum::<f64>();
    if total == 0.0 { "0".to_owned() } else { format!("about {}", format_number(total.round())) }
}

/// The fill of bars of a tone that has a pattern in `assets/icons.svg`.
pub(crate) const fn pattern(tone: Tone) -> Option<&'static str> {
    match tone {
        Tone::Refused => Some("url(#p-refused)"),
        Tone::Held => Some("url(#p-held)"),
        _ => None,
    }
}

fn figure(
    frame: &ChartFrame<'_>,
    axis: &ValueAxis,
    (stretched, drawn): (&Markup, &Markup),
    lines: &[ChartLine],
    note: &Markup,
    format_value: fn(f64) -> String,
) -> Markup {
    let ticks = time_ticks(frame.span);
    let is_empty = !lines.iter().flat_map(|line| &line.points).any(|(_, value)| value.is_some());
    let is_stack = frame.buckets.is_some();
    let named: Vec<_> = lines.iter().map(|line| (line, summarize(frame, line, format_value))).collect();
    let summary: Vec<_> = named.iter().map(|(line, text)| format!("{} {text}", line.name)).collect();
    let summary_id = format!("{}-summary", frame.id);
    html! {
        figure.chart {
            figcaption {
                h3 id=(frame.id) { (frame.title) }
                span.unit { (frame.unit) }
                @if is_stack || lines.len() > 1 { (legend(&named, is_stack)) }
            }
            @if is_empty { p.small.muted { "No values in this time." } }
            @else {
                div.gut {
                    svg.plot height="204" role="img" aria-labelledby=(frame.id) aria-describedby=(summary_id) {
                        desc id=(summary_id) { (if is_stack { "Totals: " } else { "Last values: " }) (summary.join(", ")) }
                        @for (from, until) in frame.bands {
                            @let (start, end) = (frame.share(*from), frame.share(*until));
                            rect.band.refused x=(percent(start)) width=(percent(end - start)) y="0" height="180" {}
                            line.mark.refused x1=(percent(start)) x2=(percent(start)) y1="0" y2="180" {}
                        }
                        @for tick in &axis.ticks {
                            @let y = axis.place(*tick);
                            text x="0" dx="-8" y=(pixels(y + 4.0)) text-anchor="end" { (format_tick(*tick)) }
                            line.g x1="0" x2="100%" y1=(pixels(y)) y2=(pixels(y)) {}
                        }
                        @for (number, (at, label)) in ticks.iter().enumerate() {
                            @let x = percent(frame.share(*at));
                            line.tick x1=(x) x2=(x) y1="180" y2="184" {}
                            text.minor[number % 2 == 1] x=(x) y="198" text-anchor=(anchor(frame.share(*at))) { (label) }
                        }
                        svg viewBox="0 0 1000 180" width="100%" height="180" preserveAspectRatio="none" { (stretched) }
                        (drawn)
                        @if !is_stack { (end_labels(frame, axis, lines)) }
                    }
                }
            }
            @if !note.0.is_empty() { p.xs.muted { (note) } }
            @if !is_empty { (data_table(frame, lines, format_value)) }
        }
    }
}

/// Labels at the ends of lines, moved apart.
fn end_labels(frame: &ChartFrame<'_>, axis: &ValueAxis, lines: &[ChartLine]) -> Markup {
    let ends = lines.iter().filter_map(|line| {
        let (at, value) = line.points.iter().rev().find_map(|(at, value)| Some((*at, (*value)?)))?;
        // a line whose last value holds reaches the end
        let x =
            if line.points.last().is_some_and(|(_, last)| last.is_some()) { 1.0 } else { frame.share(at) };
        Some((axis.place(value), x, frame.share(at), line, value))
    });
    let mut ends: Vec<_> = ends.collect();
    ends.sort_by(|first, second| first.0.total_cmp(&second.0));
    let mut lowest = f64::MIN;
    let mut placed = Vec::new();
    for (y, x, dot, line, value) in ends {
        let above = (y - 7.0).max(lowest + LABEL_DISTANCE).max(11.0);
        lowest = above;
        placed.push((above, y, x, dot, line, value));
    }
    // and none of them below the lowest tick, where the times are
    let mut highest = HEIGHT - 5.0;
    for (label, ..) in placed.iter_mut().rev() {
        *label = label.min(highest);
        highest = *label - LABEL_DISTANCE;
    }
    let texts = format_distinct(&placed.iter().map(|(.., value)| *value).collect::<Vec<_>>());
    html! {
        @for ((label, y, x, dot, line, _), text) in placed.into_iter().zip(texts) {
            circle.dot.(line.tone.name()) cx=(percent(dot)) cy=(pixels(y)) r="4" {}
            text.lab.fg.(line.tone.name()) x=(percent(x)) dx="-2" y=(pixels(label)) text-anchor=(if x < 0.2 { "start" } else { "end" }) {
                (line.name) " " (text)
            }
        }
    }
}

/// The names of the lines; those of a stack with their totals.
fn legend(named: &[(&ChartLine, String)], is_stack: bool) -> Markup {
    html! {
        ul.legend {
            @for (line, total) in named {
                li {
                    @if is_stack {
                        svg.sw.(line.tone.name()) aria-hidden="true" { rect width="12" height="12" fill=[pattern(line.tone)] {} }
                        (line.name) " " b { (total) } " in total"
                    } @else {
                        svg.key.(line.tone.name()).dash[line.is_dashed] viewBox="0 0 22 10" aria-hidden="true" {
                            line x1="0" x2="22" y1="5" y2="5" {}
                        }
                        (line.name)
                    }
                }
            }
        }
    }
}

/// The numbers of a chart: one row for each time.
fn data_table(frame: &ChartFrame<'_>, lines: &[ChartLine], format_value: fn(f64) -> String) -> Markup {
    let times: BTreeSet<i64> = lines.iter().flat_map(|line| &line.points).map(|(at, _)| *at).collect();
    let cell = |line: &ChartLine, at: i64| {
        let known = line.points.iter().rev().find(|(time, _)| *time <= at);
        known.and_then(|(_, value)| *value).map_or_else(|| "–".to_owned(), format_value)
    };
    let is_long = frame.span.1 - frame.span.0 > 40 * 86_400;
    html! {
        details.data {
            summary { "Show as a table" }
            div.scroll role="region" aria-label=(frame.title) tabindex="0" {
                table {
                    thead { tr { th scope="col" { (frame.time_name) } @for line in lines { th.n scope="col" { (line.name) } } } }
                    tbody {
                        @for at in times {
                            tr {
                                th scope="row" { @if is_long { (format_day(at)) } @else { (format_time(at)) } }
                                @for line in lines { td.n { (cell(line, at)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn step_path(frame: &ChartFrame<'_>, axis: &ValueAxis, line: &ChartLine) -> String {
    let mut path = String::new();
    let mut is_drawing = false;
    for (at, value) in &line.points {
        let x = frame.share(*at) * WIDTH;
        if is_drawing {
            path.push_str(&format!("H{x:.1}"));
        }
        if let Some(value) = value {
            let y = axis.place(*value);
            path.push_str(&if is_drawing { format!("V{y:.1}") } else { format!("M{x:.1} {y:.1}") });
        }
        is_drawing = value.is_some();
    }
    if is_drawing {
        path.push_str(&format!("H{WIDTH:.1}"));
    }
    path
}

fn line_path(frame: &ChartFrame<'_>, axis: &ValueAxis, line: &ChartLine) -> String {
    let mut path = String::new();
    let mut is_drawing = false;
    for (at, value) in &line.points {
        if let Some(value) = value {
            let (x, y) = (frame.share(*at) * WIDTH, axis.place(*value));
            path.push_str(&format!("{}{x:.1} {y:.1}", if is_drawing { 'L' } else { 'M' }));
            if !is_drawing {
                // a single value is a dot
                path.push_str("h1");
            }
        }
        is_drawing = value.is_some();
    }
    path
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

fn pixels(place: f64) -> String {
    format!("{place:.1}")
}

const fn anchor(share: f64) -> &'static str {
    if share < 0.03 {
        "start"
    } else if share > 0.97 {
        "end"
    } else {
        "middle"
    }
}

fn format_day(at: i64) -> String {
    Timestamp::from_second(at).map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default()
}

fn format_time(at: i64) -> String {
    Timestamp::from_second(at).map(|at| at.strftime("%Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default()
}

/// One row of a list of bars.
#[derive(Debug, Clone)]
pub(crate) struct BarRow {
    pub(crate) name: String,
    /// Parts of the bar with their tones, from the left, as shares of 1.
    pub(crate) parts: Vec<(Tone, f64)>,
    /// The number at the right.
    pub(crate) text: String,
    pub(crate) note: Option<String>,
}

/// Horizontal bars with their numbers.
pub(crate) fn bars(rows: &[BarRow]) -> Markup {
    html! {
        ul.hbars {
            @for row in rows {
                li {
                    span { (row.name) }
                    svg.meter.plot width="100%" height="12" aria-hidden="true" {
                        rect.tr width="100%" height="12" {}
                        @let mut start = 0.0;
                        @for (tone, share) in &row.parts {
                            rect.bar.(tone.name()) x=(percent(start)) width=(percent(*share)) height="12" fill=[pattern(*tone)] {}
                            @let () = start += share;
                        }
                    }
                    span.n { (row.text) }
                    @if let Some(note) = &row.note { span.s { (note) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: ChartFrame<'_> = ChartFrame {
        id: "c",
        title: "<Height>",
        unit: "m",
        span: (0, 10),
        time_name: "valid from",
        bands: &[],
        buckets: None,
    };
    const MINUTES: Option<ChartBuckets> = Some(ChartBuckets { length_s: 60, now: 120 });

    fn line(points: &[(i64, Option<f64>)]) -> ChartLine {
        ChartLine { name: "<a>".to_owned(), tone: Tone::Info, is_dashed: false, points: points.to_vec() }
    }

    #[test]
    fn chart_of_no_or_equal_values_has_only_finite_numbers() {
        let one = Some(1.0);
        for points in
            [vec![], vec![(5, None)], vec![(5, one)], vec![(5, one), (6, one)], vec![(5, Some(0.0))]]
        {
            for chart in [
                step_chart(&FRAME, &[line(&points)]),
                line_chart(&FRAME, &[line(&points)]),
                bar_chart(&ChartFrame { buckets: MINUTES, ..FRAME }, &[line(&points)]),
                step_chart(&ChartFrame { span: (5, 5), ..FRAME }, &[line(&points)]),
            ] {
                let chart = chart.into_string();
                assert!(
                    !chart.contains("NaN")
                        && !chart.contains("\"inf\"")
                        && !chart.contains("inf%")
                        && !chart.contains("<a>"),
                    "{chart}"
                );
            }
        }
    }

    #[test]
    fn line_has_a_gap_where_a_value_is_missing() {
        let steps = line(&[(0, Some(1.0)), (4, None), (6, None), (8, Some(3.0)), (9, Some(2.0))]);
        let axis = ValueAxis { low: 1.0, high: 3.0, ticks: vec![] };
        assert_eq!(step_path(&FRAME, &axis, &steps), "M0.0 180.0H400.0M800.0 12.0H900.0V96.0H1000.0");
        assert_eq!(line_path(&FRAME, &axis, &steps), "M0.0 180.0h1M800.0 12.0h1L900.0 96.0");
    }

    #[test]
    fn axis_has_round_ticks_and_spans_at_least_3_percent_of_the_value() {
        assert_eq!(ValueAxis::from_zero([7.0].into_iter()).ticks, [0.0, 2.5, 5.0, 7.5]);
        assert_eq!(ValueAxis::from_zero(std::iter::empty()).low, 0.0);
        let small = ValueAxis::around([90_588.0, 90_633.0].into_iter());
        assert!(small.high - small.low >= 90_000.0 * LEAST_SPAN, "{small:?}");
        assert!((2..=6).contains(&small.ticks.len()), "{small:?}");
        let one = ValueAxis::around([0.0].into_iter());
        assert!(one.high > one.low, "{one:?}");
        let below = ValueAxis::around([-5.0, -4.0].into_iter());
        assert!(below.low <= -5.0 && below.high >= -4.0, "{below:?}");
    }

    #[test]
    fn time_axis_has_at_most_9_round_ticks() {
        let day = 86_400;
        for span in [3600, day, 7 * day, 40 * day, 200 * day, 400 * day, 900 * day, 9 * YEAR_S, 60 * YEAR_S] {
            let start = 1_000_000_123;
            let ticks = time_ticks((start, start + span));
            assert!((1..=10).contains(&ticks.len()), "{span}: {ticks:?}");
            assert!(ticks.iter().all(|(at, label)| *at >= start && !label.is_empty()), "{ticks:?}");
        }
        let hours = time_ticks((0, 3600));
        assert_eq!(hours.first().map(|(_, label)| label.as_str()), Some("00:00"));
    }

    #[test]
    fn labels_of_different_values_differ() {
        for (numbers, expected) in [
            (vec![907_137.28, 907_137.29], vec!["907,137.28", "907,137.29"]),
            (vec![907_137.28, 907_138.0], vec!["907,137", "907,138"]),
            (vec![5.0, 5.0], vec!["5", "5"]),
            (vec![-0.5], vec!["−0.5"]),
            (vec![], vec![]),
        ] {
            assert_eq!(format_distinct(&numbers), expected, "{numbers:?}");
        }
    }

    #[test]
    fn chart_of_values_without_a_unit_has_their_digits_and_no_blank_before_a_comma() {
        let at = |value| line(&[(0, Some(value)), (10, Some(value))]);
        let frame = ChartFrame { unit: "", ..FRAME };
        let chart = step_chart(&frame, &[at(907_137.28), at(907_137.29)]).into_string();
        assert!(!chart.contains(" ,"), "{chart}");
        assert_eq!(chart.matches("<td class=\"n\">907,137.28</td>").count(), 2, "{chart}");
    }

    #[test]
    fn bucket_has_an_area_with_the_values_of_all_lines_and_a_stack_its_totals() {
        let lines = [line(&[(0, Some(2.0)), (60, Some(0.0))]), line(&[(0, Some(1.0)), (60, None)])];
        let frame = ChartFrame { span: (0, 120), buckets: MINUTES, ..FRAME };
        for chart in [bar_chart(&frame, &lines), line_chart(&ChartFrame { buckets: None, ..frame }, &lines)] {
            let chart = chart.into_string();
            assert_eq!(chart.matches("<rect class=\"hit\"").count(), 2, "{chart}");
            let last = "x=\"50.00%\" width=\"50.00%\" y=\"0\" height=\"180\"><title>1970-01-01 00:01 UTC: &lt;a&gt; 0, &lt;a&gt; –";
            assert!(chart.contains(last) && chart.contains("aria-describedby=\"c-summary\""), "{chart}");
        }
        let stack = bar_chart(&frame, &lines[..1]).into_string();
        assert!(
            stack.contains("&lt;a&gt; <b>about 2</b>") && stack.contains("Totals: &lt;a&gt; about 2</desc>"),
            "{stack}"
        );
        let rates = line(&[(0, Some(2.0)), (60, Some(8.0))]);
        let buckets = Some(ChartBuckets { length_s: 60, now: 75 });
        let total = summarize(&ChartFrame { buckets, ..frame }, &rates, format_number);
        assert_eq!(total, "about 4", "the last bucket was measured for 15 s");
        assert_eq!(summarize(&frame, &line(&[(0, Some(0.0)), (60, None)]), format_number), "0");
        let one = line_chart(&FRAME, &lines[..1]).into_string();
        assert!(
            !one.contains("class=\"legend\"") && one.contains("Last values: &lt;a&gt; 0</desc>"),
            "{one}"
        );
    }

    #[test]
    fn labels_of_lines_do_not_overlap() {
        let at = |value| line(&[(0, Some(value)), (10, Some(value))]);
        for values in [[5.0, 5.01, 5.02], [0.0, 0.0, 0.0]] {
            let chart = line_chart(&FRAME, &values.map(at)).into_string();
            let places: Vec<f64> = chart
                .split("class=\"lab fg info\"")
                .skip(1)
                .filter_map(|rest| rest.split(" y=\"").nth(1)?.split('"').next()?.parse().ok())
                .collect();
            assert_eq!(places.len(), 3, "{chart}");
            assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_DISTANCE), "{places:?}");
            assert!(places.iter().all(|place| *place < HEIGHT), "{places:?}");
        }
    }
}
