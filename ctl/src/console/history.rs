//! The history of a value: when it is valid, and when it was known.

use super::Console;
use super::ConsoleState;
use super::catalog::read_source;
use super::chart::{ChartFrame, ChartLine, step_chart};
use super::forms::Fields;
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{Tone, capitalized, card, day, group_digits, second, table_card, unit_of};
use crate::base::options::encode_segment;
use crate::base::output::NO_END;
use crate::ground::query::read_value_history;
use axum::extract::{Path, State};
use domain_ground::id::SourceId;
use domain_ground::query::{FilterOperator, KnownValue, QueryFilter, ValueHistory};
use domain_ground::value::AxisValue;
use domain_ground::wire::{SourceSummary, ValueHistoryRequest};
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of lines: what is known now, and what was known before the latest changes.
const LINES_MAX: usize = 4;
/// The tones of what was known before, the latest first.
const PAST_TONES: [Tone; LINES_MAX - 1] = [Tone::Held, Tone::Stale, Tone::Neutral];

/// The address of the history of a value.
pub(super) fn history_path(
    oracle_id: &SourceId,
    axis: &str,
    subject: &BTreeMap<String, AxisValue>,
) -> String {
    let subject = subject.iter();
    let subject =
        subject.map(|(name, value)| format!("where:{name}={}&", encode_segment(&value.to_string())));
    let (oracle_id, axis) = (encode_segment(oracle_id.as_str()), encode_segment(axis));
    format!("/sources/{oracle_id}/history?{}axis={axis}", subject.collect::<String>())
}

pub(super) fn form(source: &SourceSummary, fields: &Fields) -> Markup {
    let axes = source.entry.registration.axes_provided.iter().filter(|axis| !source.identity.contains(axis));
    html! {
        form.fields method="get" action=(format!("/sources/{}/history", encode_segment(source.entry.oracle_id().as_str()))) {
            @for axis in &source.identity {
                @let name = format!("where:{axis}");
                label.f { (axis) input type="text" name=(name) value=(fields.text(&name)) required autocomplete="off"; }
            }
            label.f { "Axis" input type="text" name="axis" value=(fields.text("axis")) list="axes" required autocomplete="off"; }
            datalist #axes { @for axis in axes { option value=(axis) {} } }
            button.btn type="submit" { "Show the history" }
        }
    }
}

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path(oracle_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let source = read_source(&console, &oracle_id).await?;
    let read = read_history(&console, &source, &fields).await;
    let title = read.as_ref().map_or("History of a value", |history| history.title.as_str());
    let body = html! {
        @match &read { Ok(history) => (render_history(fields.text("axis"), history, Timestamp::now())), Err(error) => (error.render()) }
        (card("Another value", &html! {}, &html! { div.body { (form(&source, &fields)) } }))
    };
    let path = format!("/sources/{}", encode_segment(&oracle_id));
    let head = PageHead {
        crumbs: Some(
            html! { a href="/sources" { "Sources" } " › " a href=(path) { (oracle_id) } " › History of a value" },
        ),
        ..PageHead::titled(title)
    };
    Ok(render_page(&console, Section::Sources, head, &body).await)
}

async fn read_history(
    console: &Console,
    source: &SourceSummary,
    fields: &Fields,
) -> Result<ValueHistory, PageError> {
    let axis = fields.required("axis", "Axis")?;
    if axis.contains('*') {
        return Err(PageError::input(format!(
            "`{axis}` is a group of axes; write the key of one in place of the `*`"
        )));
    }
    // one subject: without one of its values, the first of several subjects would be shown
    let subject = source
        .identity
        .iter()
        .map(|identity| Ok((identity.clone(), fields.required(&format!("where:{identity}"), identity)?)));
    let subject = subject.collect::<Result<_, PageError>>()?;
    read(console, source.entry.oracle_id(), axis, subject).await
}

async fn read(
    console: &Console,
    oracle_id: &SourceId,
    axis: String,
    subject: BTreeMap<String, String>,
) -> Result<ValueHistory, PageError> {
    let filter =
        |(axis, value)| QueryFilter { axis, operator: FilterOperator::Eq, value: Json::String(value) };
    let request = ValueHistoryRequest { axis, filters: subject.into_iter().map(filter).collect() };
    Ok(read_value_history(&console.options, oracle_id, &request).await?)
}

/// The value of a source as it is known now, as a line with the name of the source.
pub(super) async fn read_line(
    console: &Console,
    oracle_id: &SourceId,
    axis: &str,
    subject: &BTreeMap<String, AxisValue>,
) -> Result<ChartLine, PageError> {
    let subject = subject.iter().map(|(axis, value)| (axis.clone(), value.to_string())).collect();
    let history = read(console, oracle_id, axis.to_owned(), subject).await?;
    let points = points(&history.values, Timestamp::now());
    Ok(ChartLine { name: oracle_id.to_string(), tone: Tone::Info, is_dashed: false, points })
}

/// The values that were known at a time, by the time from which they are valid. Without a record, there is none.
fn points(values: &[KnownValue], known_at: Timestamp) -> Vec<(i64, Option<f64>)> {
    let is_known = |known: &&KnownValue| {
        known.known_from <= known_at && known.known_until.is_none_or(|until| known_at < until)
    };
    let mut known: Vec<_> = values.iter().filter(is_known).collect();
    known.sort_by_key(|known| known.valid_from);
    let mut points: Vec<(i64, Option<f64>)> = Vec::new();
    let mut end: Option<Timestamp> = None;
    for known in known {
        if let Some(end) = end.filter(|end| *end < known.valid_from) {
            points.push((end.as_second(), None));
        }
        let number = known.value.as_ref().and_then(|value| value.to_string().parse::<f64>().ok());
        // a text may be `inf`
        points.push((known.valid_from.as_second(), number.filter(|number| number.is_finite())));
        end = known.valid_until;
    }
    points.extend(end.map(|end| (end.as_second(), None)));
    points
}

fn render_history(axis: &str, history: &ValueHistory, now: Timestamp) -> Markup {
    if history.values.is_empty() {
        return card("History", &html! {}, &html! { div.body { p { "No record matches." } } });
    }
    let unit = history.unit.as_deref().map(|unit| unit_of("", unit)).unwrap_or_default();
    let until = |at: Option<Timestamp>, shown: fn(Timestamp) -> Markup| html! { @if let Some(at) = at { (shown(at)) } @else { (NO_END) } };
    let rows = history.values.iter().rev().map(|known| {
        let value = known.value.as_ref().map(ToString::to_string);
        vec![
            html! { (value.as_deref().map_or_else(|| "no value".to_owned(), group_digits)) },
            day(known.valid_from),
            until(known.valid_until, day),
            // several corrections can be of one day
            second(known.known_from),
            until(known.known_until, second),
        ]
    });
    let value_heading = if unit.is_empty() { "#value".to_owned() } else { format!("#value, {unit}") };
    let heading = [value_heading.as_str(), "valid from", "valid until", "known from", "known until"];
    html! {
        section.card aria-label="Chart" { div.body { (render_chart(axis, &unit, &history.values, now)) } }
        (table_card("Values, the latest first", &heading, &rows.collect::<Vec<_>>()))
    }
}

/// The values known now, and those known before the latest changes. Values that are not numbers have no chart.
fn render_chart(axis: &str, unit: &str, values: &[KnownValue], now: Timestamp) -> Markup {
    let lines = lines(values, now);
    let times = || lines.iter().flat_map(|line| &line.points);
    if !times().any(|(_, number)| number.is_some()) {
        return html! { p { "No chart: the values are not numbers." } };
    }
    let first = times().map(|(at, _)| *at).min().unwrap_or_default();
    let last = times().map(|(at, _)| *at).max().unwrap_or_default().max(now.as_second());
    let title = capitalized(axis);
    let frame = ChartFrame {
        id: "history",
        title: &title,
        unit,
        span: (first, last),
        time_name: "valid from",
        bands: &[],
        buckets: None,
    };
    step_chart(&frame, &lines)
}

fn lines(values: &[KnownValue], now: Timestamp) -> Vec<ChartLine> {
    let changes: BTreeSet<_> =
        values.iter().flat_map(|known| [Some(known.known_from), known.known_until]).flatten().collect();
    let current = points(values, now);
    let mut lines =
        vec![ChartLine { name: "known now".to_owned(), tone: Tone::Info, is_dashed: false, points: current }];
    let mut changes: Vec<_> = changes.into_iter().rev().collect();
    // before the first of them, nothing was known
    changes.pop();
    let day_of = |change: &Timestamp| change.strftime("%-d %b %Y").to_string();
    let days: BTreeSet<_> = changes.iter().map(day_of).collect();
    let names_time = days.len() < changes.len();
    for change in changes {
        let before = change.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(change);
        let points = points(values, before);
        if lines.len() < LINES_MAX
            && !points.is_empty()
            && lines.last().is_none_or(|line| line.points != points)
        {
            let time = if names_time { change.strftime(", %H:%M:%S UTC").to_string() } else { String::new() };
            let name = format!("before {}{time}", day_of(&change));
            let tone = PAST_TONES.get(lines.len() - 1).copied().unwrap_or(Tone::Neutral);
            lines.push(ChartLine { name, tone, is_dashed: true, points });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn known(
        (valid_from, valid_until): (i64, Option<i64>),
        (known_from, known_until): (i64, Option<i64>),
        value: &str,
    ) -> KnownValue {
        KnownValue {
            record_id: "a".to_owned(),
            valid_from: at(valid_from),
            valid_until: valid_until.map(at),
            known_from: at(known_from),
            known_until: known_until.map(at),
            value: Some(AxisValue::Text(value.to_owned())),
        }
    }

    #[test]
    fn history_has_a_line_for_each_state_of_knowledge_and_gaps_without_a_record() {
        let values = [
            known((0, None), (50, Some(90)), "7"),
            known((0, Some(10)), (90, None), "7"),
            known((20, None), (90, None), "8"),
        ];
        let now = lines(&values, at(100));
        let points: Vec<_> = now.iter().map(|line| line.points.clone()).collect();
        let seven = Some(7.0);
        assert_eq!(points, [vec![(0, seven), (10, None), (20, Some(8.0))], vec![(0, seven)]]);
        assert!(now[1].is_dashed && now[1].name.starts_with("before 1 Jan 1970"), "{now:?}");
    }

    #[test]
    fn history_names_unit_and_values_that_are_no_numbers() {
        let history = |values: Vec<KnownValue>| ValueHistory {
            title: String::new(),
            unit: Some("{person}".to_owned()),
            values,
        };
        let open = (0, None);
        let page =
            render_history("population", &history(vec![known(open, open, "54208")]), at(100)).into_string();
        for text in ["54,208", "value, persons", "Population", "<svg", "Show as a table"] {
            assert!(page.contains(text), "{text} is not in {page}");
        }
        for name in ["north", "inf"] {
            let page = render_history("name", &history(vec![known(open, open, name)]), at(100)).into_string();
            assert!(page.contains("No chart") && page.contains(name), "{page}");
        }
        let none = render_history("name", &history(vec![]), at(100)).into_string();
        assert!(none.contains("No record matches") && !none.contains("<table"), "{none}");
    }
}
