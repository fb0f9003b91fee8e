//! Charts as SVG. They have no inline style: the stylesheet colors their classes.

use super::layout::scrolled;
use maud::{Markup, html};

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 40.0;

/// A line of values, with gaps where a value is missing. `summary` describes it to a screen reader.
pub(crate) fn sparkline(values: &[Option<f64>], summary: &str) -> Markup {
    let top = values.iter().flatten().copied().fold(1.0, f64::max);
    let step = WIDTH / values.len().saturating_sub(1).max(1) as f64;
    let mut path = String::new();
    let mut is_drawing = false;
    for (index, value) in values.iter().enumerate() {
        if let Some(value) = value {
            let (x, y) = (index as f64 * step, HEIGHT - 2.0 - value / top * (HEIGHT - 4.0));
            path.push_str(&format!("{}{x:.1} {y:.1}", if is_drawing { 'L' } else { 'M' }));
            if !is_drawing {
                // a single value is a dot
                path.push_str("h0.1");
            }
        }
        is_drawing = value.is_some();
    }
    html! {
        svg.sparkline viewBox="0 0 240 40" role="img" aria-label=(summary) preserveAspectRatio="none" {
            path d=(path) {}
        }
    }
}

/// Names with their numbers, as a table whose last column is drawn.
pub(crate) fn bars(caption: &str, label: &str, unit: &str, rows: &[(String, f64)]) -> Markup {
    let top = rows.iter().map(|(_, count)| *count).fold(1.0, f64::max);
    let parts = html! {
        thead { tr { th scope="col" { (label) } th scope="col" { (unit) } td {} } }
        tbody {
            @for (name, count) in rows {
                tr {
                    th scope="row" { (name) }
                    td.number { (count) }
                    td aria-hidden="true" {
                        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" {
                            rect width=(format!("{:.1}", count / top * 100.0)) height="10" {}
                        }
                    }
                }
            }
            @if rows.is_empty() { tr { td colspan="3" { "none" } } }
        }
    };
    scrolled(caption, &parts)
}

/// A line of a chart over time: its name, and its values at times in seconds. Each value holds until the next time; without one, the
/// line has a gap.
#[derive(Debug)]
pub(crate) struct StepLine {
    pub(crate) name: String,
    pub(crate) points: Vec<(i64, Option<f64>)>,
}

/// The size of a chart over time.
const SIZE: (f64, f64) = (640.0, 240.0);
/// Space around the lines.
const MARGIN: f64 = 8.0;
/// Number of colors of lines in the stylesheet.
const COLORS: usize = 4;

/// Lines over time with a legend. The last line is the most prominent. `labels` are those of the first and the last time.
pub(crate) fn step_chart(lines: &[StepLine], unit: &str, labels: [&str; 2], summary: &str) -> Markup {
    let all = || lines.iter().flat_map(|line| &line.points);
    let times = || all().map(|(at, _)| *at as f64);
    let span = (times().fold(f64::MAX, f64::min), times().fold(f64::MIN, f64::max));
    let values = || all().filter_map(|(_, value)| *value);
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
    // counted from the newest line, which always has the first look
    let look = |number: usize| {
        let age = lines.len().saturating_sub(number + 1);
        format!("color-{} dash-{}", age % COLORS, age / COLORS)
    };
    html! {
        figure.chart {
            svg viewBox="0 0 640 240" role="img" aria-label=(summary) {
                @for (number, line) in lines.iter().enumerate() {
                    path class=(look(number)) d=(step_path(line, span, (low, high))) { title { (line.name) } }
                }
                @if values().next().is_some() {
                    text x="8" y="20" { (high) " " (unit) }
                    @if low < high { text x="8" y="236" { (low) " " (unit) } }
                }
            }
            figcaption { span { (labels[0]) } span { (labels[1]) } }
            ul.legend {
                @for (number, line) in lines.iter().enumerate().rev() {
                    li {
                        svg viewBox="0 0 40 8" aria-hidden="true" { path class=(look(number)) d="M0 4H40" {} }
                        (line.name)
                    }
                }
            }
        }
    }
}

fn step_path(line: &StepLine, (start, end): (f64, f64), (low, high): (f64, f64)) -> String {
    let scale = |value: f64, low: f64, high: f64, length: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.5 };
        MARGIN + share * (length - 2.0 * MARGIN)
    };
    let mut path = String::new();
    let mut is_drawing = false;
    for (at, value) in &line.points {
        let x = scale(*at as f64, start, end, SIZE.0);
        if is_drawing {
            path.push_str(&format!("H{x:.1}"));
        }
        if let Some(value) = value {
            let y = SIZE.1 - scale(*value, low, high, SIZE.1);
            path.push_str(&if is_drawing { format!("V{y:.1}") } else { format!("M{x:.1} {y:.1}") });
        }
        is_drawing = value.is_some();
    }
    if is_drawing {
        path.push_str(&format!("H{:.1}", SIZE.0 - MARGIN));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chart_of_no_or_equal_values_has_only_finite_numbers() {
        let line =
            |points: &[(i64, Option<f64>)]| StepLine { name: "<a>".to_owned(), points: points.to_vec() };
        let one = Some(1.0);
        for points in [vec![], vec![(5, None)], vec![(5, one)], vec![(5, one), (6, one)]] {
            let chart = step_chart(&[line(&points)], "", ["", ""], "").into_string();
            assert!(!chart.contains("NaN") && !chart.contains("inf") && !chart.contains("<a>"), "{chart}");
        }
        let sparkline = sparkline(&[None, Some(0.0), None], "").into_string();
        assert!(sparkline.contains("M120.0 38.0h0.1"), "{sparkline}");
    }

    #[test]
    fn line_over_time_has_a_gap_where_a_value_is_missing() {
        let points = vec![(0, Some(1.0)), (4, None), (6, None), (8, Some(3.0)), (10, Some(2.0))];
        let line = StepLine { name: "known".to_owned(), points };
        let path = step_path(&line, (0.0, 10.0), (1.0, 3.0));
        // from 8 to 632: the first value ends at 4, the next one begins at 8
        assert_eq!(path, "M8.0 232.0H257.6M507.2 8.0H632.0V120.0H632.0");
        let at_end = StepLine { name: "known".to_owned(), points: vec![(0, Some(1.0)), (10, None)] };
        assert_eq!(step_path(&at_end, (0.0, 10.0), (1.0, 3.0)), "M8.0 232.0H632.0");
        let chart = step_chart(&[line, at_end], "m", ["", ""], "").into_string();
        assert!(chart.contains("3 m") && chart.contains("</svg>known</li>"), "{chart}");
        assert!(chart.contains("color-0 dash-0") && chart.contains("color-1 dash-0"), "{chart}");
    }
}
