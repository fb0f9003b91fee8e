//! The history of a session on one scale of time. Long times without an event are cut out.

use super::parts::Tone;
use domain_base::moment::format_span;
use domain_base::wording::format_count;
use jiff::Timestamp;
use maud::{Markup, html};

/// A row of the timeline.
#[derive(Debug, Clone)]
pub(super) struct TimelineRow {
    pub(super) name: String,
    pub(super) note: String,
    pub(super) tone: Tone,
    /// Whether nothing was done meanwhile.
    pub(super) is_wait: bool,
    /// From and until; an event has one time.
    pub(super) spans: Vec<(Timestamp, Timestamp)>,
}

/// A time without an event that is cut out is longer than this share of the rest.
const CUT_SHARE: f64 = 0.4;
/// The shortest time that is cut out, in seconds.
const CUT_LEAST_S: f64 = 20.0;
/// The width of a cut, as a share of the scale.
const CUT_WIDTH: f64 = 0.04;
/// The height of a row, in pixels.
const ROW: usize = 32;

/// Places of times between 0 and 1.
struct Scale {
    start: Timestamp,
    /// Times in seconds since the start that are shown: from, until.
    shown: Vec<(f64, f64)>,
    /// The width of a second.
    second: f64,
}

impl Scale {
    fn new(rows: &[TimelineRow]) -> Self {
        // the row of the whole covers all of the time, and a wait is cut out
        let spans = || rows.iter().flat_map(|row| &row.spans);
        let start = spans().map(|(from, _)| *from).min().unwrap_or_default();
        let end = spans().map(|(_, until)| *until).max().unwrap_or_default();
        let at = |time: Timestamp| time.duration_since(start).as_secs_f64();
        let inner = rows.iter().skip(1).filter(|row| !row.is_wait).flat_map(|row| &row.spans);
        let mut busy: Vec<_> = inner.map(|(from, until)| (at(*from), at(*until))).collect();
        busy.extend([(0.0, 0.0), (at(end), at(end))]);
        busy.sort_by(|first, second| first.0.total_cmp(&second.0));
        let mut merged: Vec<(f64, f64)> = Vec::new();
        let total: f64 = busy.iter().map(|(from, until)| until - from).sum::<f64>().max(1.0);
        let least = (total * CUT_SHARE).max(CUT_LEAST_S);
        for (from, until) in busy {
            match merged.last_mut() {
                Some(last) if from - last.1 <= least => last.1 = last.1.max(until),
                _ => merged.push((from, until)),
            }
        }
        // an event at the edge of a cut needs some room
        let room = total * 0.03;
        let parts = merged.len();
        for (number, part) in merged.iter_mut().enumerate() {
            part.0 -= if number > 0 { room } else { 0.0 };
            part.1 += if number + 1 < parts { room } else { 0.0 };
        }
        let length: f64 = merged.iter().map(|(from, until)| until - from).sum();
        let cuts = parts.saturating_sub(1) as f64;
        Self { start, shown: merged, second: (1.0 - cuts * CUT_WIDTH) / length.max(0.001) }
    }

    fn place(&self, time: Timestamp) -> f64 {
        self.place_of(time.duration_since(self.start).as_secs_f64())
    }

    fn place_of(&self, at: f64) -> f64 {
        let mut place = 0.0;
        for (number, (from, until)) in self.shown.iter().enumerate() {
            if at <= *until || number + 1 == self.shown.len() {
                return (place + (at - from).clamp(0.0, until - from) * self.second).clamp(0.0, 1.0);
            }
            place += (until - from) * self.second + CUT_WIDTH;
        }
        place
    }

    /// The places of the cuts, each with the seconds since the start at which it begins and ends.
    fn cuts(&self) -> Vec<(f64, f64, f64)> {
        let pairs = self.shown.windows(2);
        let cut = |pair: &[(f64, f64)]| match pair {
            [(_, until), (from, _)] => Some((self.place_of(*until), *until, *from)),
            _ => None,
        };
        pairs.filter_map(cut).collect()
    }
}

/// A time span as people say it: with a fraction below 10 s.
pub(super) fn format_duration(seconds: f64) -> String {
    match seconds {
        short if short < 1.0 => format!("{:.0} ms", short * 1000.0),
        short if short < 60.0 => format!("{short:.1} s"),
        minutes if minutes < 3600.0 => format!("{} min {} s", minutes as u64 / 60, minutes as u64 % 60),
        long => format_span(long as u64),
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", share * 100.0)
}

/// The least distance of two labels of the axis, as a share of it.
const LABEL_DISTANCE: f64 = 0.17;

/// Times since the start: at the start, the middle and the end of the part before the first cut, and after each cut. A label without
/// room is left out.
fn axis_labels(scale: &Scale, first_end: f64) -> Vec<(f64, String)> {
    let ticks = [0.0, 0.5, 1.0].map(|share| first_end * share);
    let ticks = ticks.into_iter().map(|at| (scale.place_of(at), format_duration(at)));
    let cuts = scale.cuts().into_iter();
    let mut wanted: Vec<_> = cuts.map(|(place, _, end)| (place + CUT_WIDTH, format_duration(end))).collect();
    // a cut is named before a time
    wanted.extend(ticks);
    let mut labels: Vec<(f64, String)> = Vec::new();
    for (place, text) in wanted {
        if labels.iter().all(|(other, _)| (place - other).abs() >= LABEL_DISTANCE) {
            labels.push((place, text));
        }
    }
    labels
}

/// The rows on their scale. The first one is that of the whole.
pub(super) fn render(rows: &[TimelineRow]) -> Markup {
    let scale = Scale::new(rows);
    let cuts = scale.cuts();
    let first = scale.shown.first().copied().unwrap_or_default();
    let labels = axis_labels(&scale, first.1);
    html! {
        div.tl {
            div.r.ax {
                span.nm { span.muted.xs { "time since the start" } }
                span.bar-c {
                    svg.plot width="100%" height="16" aria-hidden="true" {
                        @for (place, text) in labels {
                            text x=(percent(place)) y="12" text-anchor=(if place < 0.05 { "start" } else if place > 0.85 { "end" } else { "middle" }) { (text) }
                        }
                    }
                }
                span.du { "duration" }
            }
            @for row in rows {
                div.r {
                    span.nm { span.(row.tone.name()).fg { (super::parts::icon(if row.is_wait { "waiting" } else { row.tone.name() })) } span { (row.name) " " span.muted.xs { (row.note) } } }
                    span.bar-c { (render_bars(row, &scale, &cuts)) }
                    span.du { (render_duration(row, &scale)) }
                }
            }
        }
    }
}

fn render_duration(row: &TimelineRow, scale: &Scale) -> String {
    let total: f64 = row.spans.iter().map(|(from, until)| until.duration_since(*from).as_secs_f64()).sum();
    match row.spans.as_slice() {
        [(from, until)] if from == until => {
            format!("at {}", format_duration(from.duration_since(scale.start).as_secs_f64()))
        }
        spans if total == 0.0 => format_count(spans.len(), "event", "events"),
        // a message that failed again and again lasts from the first attempt to the last
        spans if row.tone == Tone::Refused && spans.len() > 1 => {
            let from = spans.iter().map(|(from, _)| *from).min().unwrap_or_default();
            let until = spans.iter().map(|(_, until)| *until).max().unwrap_or_default();
            format!("over {}", format_duration(until.duration_since(from).as_secs_f64()))
        }
        _ => format_duration(total),
    }
}

fn render_bars(row: &TimelineRow, scale: &Scale, cuts: &[(f64, f64, f64)]) -> Markup {
    html! {
        svg.plot width="100%" height=(ROW) aria-hidden="true" {
            @for (place, from, until) in cuts {
                rect x=(percent(*place)) width=(percent(CUT_WIDTH)) height=(ROW) fill="url(#p-brk)" { title { (format_duration(until - from)) " without an event" } }
            }
            @for (from, until) in &row.spans {
                @let (start, end) = (scale.place(*from), scale.place(*until));
                rect.b.w[row.is_wait].(row.tone.name()) x=(percent(start.min(0.995))) width=(percent((end - start).max(0.005))) y="9" height="14" rx="2" {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn row(spans: &[(i64, i64)]) -> TimelineRow {
        let spans = spans.iter().map(|(from, until)| (at(*from), at(*until))).collect();
        TimelineRow { name: "<a>".to_owned(), note: String::new(), tone: Tone::Ok, is_wait: false, spans }
    }

    #[test]
    fn long_times_without_an_event_are_cut_out() {
        let rows = [row(&[(0, 2000)]), row(&[(0, 10)]), row(&[(1990, 2000)])];
        let scale = Scale::new(&rows);
        assert_eq!(scale.cuts().len(), 1);
        let places = [0, 10, 1990, 2000].map(|second| scale.place(at(second)));
        assert!(places[0] == 0.0 && (places[3] - 1.0).abs() < 0.001, "{places:?}");
        assert!(places[1] > 0.4 && places[2] < 0.6, "both parts have half of the scale: {places:?}");
        let page = render(&rows).into_string();
        assert!(page.contains("p-brk") && !page.contains("<a>"), "{page}");
        // its ends have some room
        assert!(page.contains("<title>32 min 58 s without an event</title>"), "{page}");
        assert!(
            page.contains(">33 min 9 s</text>"),
            "the time after the cut is since the start, too: {page}"
        );
    }

    #[test]
    fn duration_of_repeated_failures_is_that_of_all_of_them() {
        let mut row = row(&[(0, 1), (100, 101), (260, 261)]);
        let scale = Scale::new(std::slice::from_ref(&row));
        assert_eq!(render_duration(&row, &scale), "3.0 s");
        row.tone = Tone::Refused;
        assert_eq!(render_duration(&row, &scale), "over 4 min 21 s");
    }

    #[test]
    fn labels_of_the_axis_do_not_overlap() {
        let rows = [
            row(&[(0, 9000)]),
            row(&[(0, 1)]),
            row(&[(1000, 1001)]),
            row(&[(4000, 4001)]),
            row(&[(8999, 9000)]),
        ];
        let scale = Scale::new(&rows);
        assert!(scale.cuts().len() > 1);
        let labels = axis_labels(&scale, scale.shown[0].1);
        for (number, (place, _)) in labels.iter().enumerate() {
            let others = labels.iter().skip(number + 1);
            assert!(others.clone().all(|(other, _)| (place - other).abs() >= LABEL_DISTANCE), "{labels:?}");
        }
    }

    #[test]
    fn timeline_of_one_moment_has_finite_places() {
        for rows in [vec![], vec![row(&[])], vec![row(&[(5, 5)])], vec![row(&[(5, 5)]), row(&[(5, 5)])]] {
            let page = render(&rows).into_string();
            assert!(!page.contains("NaN") && !page.contains("inf%"), "{page}");
        }
        assert_eq!(format_duration(0.0042), "4 ms");
        assert_eq!(
            (format_duration(9.44), format_duration(103.9)),
            ("9.4 s".to_owned(), "1 min 43 s".to_owned())
        );
    }
}
