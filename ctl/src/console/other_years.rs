//! The values of the sources in a dispute at the other times of its subject: is their difference constant?

use super::Console;
use super::catalog::read_source;
use super::items::{Difference, value_text};
use super::layout::PageError;
use super::parts::{capitalized, card, group_digits, table};
use crate::ground::query::send_query;
use domain_ground::id::SourceId;
use domain_ground::query::{FilterOperator, QueryFilter, QueryRequest};
use domain_verification::ReviewCase;
use maud::{Markup, html};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Number of records that are read of each source.
const RECORDS: usize = 1_000;
/// Number of times that are shown: the nearest ones.
const SHOWN: usize = 9;

/// A table for each axis of the review; nothing for reviewers, who have no access to sources.
pub(super) async fn render(console: &Console, review: &ReviewCase, is_open: bool) -> Markup {
    if console.has_only_reviews {
        return html! {};
    }
    let mut tables = Vec::new();
    for path in review.axes.keys() {
        // a live source has no records
        tables.extend(render_axis(console, review, path, is_open).await.unwrap_or_default());
    }
    html! { @for table in tables { (table) } }
}

async fn render_axis(
    console: &Console,
    review: &ReviewCase,
    path: &str,
    is_open: bool,
) -> Result<Option<Markup>, PageError> {
    let Some(first) = review.candidates.keys().next() else { return Ok(None) };
    let source = read_source(console, first.as_str()).await?;
    // the time is the last axis of an identity with several
    let Some(time) = source.identity.last().filter(|_| source.identity.len() > 1) else { return Ok(None) };
    let Some(own) = review.subject.get(time).map(ToString::to_string) else { return Ok(None) };
    let mut values: BTreeMap<String, BTreeMap<&SourceId, String>> = BTreeMap::new();
    let mut unit = None;
    for oracle_id in review.candidates.keys() {
        let others = review.subject.iter().filter(|(axis, _)| *axis != time);
        let filter = |(axis, value): (&String, &domain_ground::value::AxisValue)| QueryFilter {
            axis: axis.clone(),
            operator: FilterOperator::Eq,
            value: Json::String(value.to_string()),
        };
        let request = QueryRequest {
            axes_requested: vec![path.to_owned()],
            filters: others.map(filter).collect(),
            max_results: Some(RECORDS),
            ..QueryRequest::default()
        };
        let answer = send_query(&console.options, oracle_id, &request).await?;
        for record in answer.response.records {
            let text = |axis: &str| crate::ground::query::format_value(&record, axis);
            let (at, value) = (text(time), text(path));
            unit = unit.or_else(|| record.units.get(path).cloned());
            if !at.is_empty() && !value.is_empty() {
                values.entry(at).or_default().insert(oracle_id, value);
            }
        }
    }
    if values.len() < 2 {
        return Ok(None);
    }
    let place = values.keys().position(|at| *at == own).unwrap_or(values.len());
    let skipped = place.saturating_sub(SHOWN / 2).min(values.len().saturating_sub(SHOWN));
    let rows: Vec<_> = values
        .iter()
        .skip(skipped)
        .take(SHOWN)
        .map(|(at, values)| {
            let mark = if is_open { "in dispute" } else { "of this dispute" };
            let mark = (*at == own).then_some(mark);
            row(at, mark, review.candidates.keys().map(|id| values.get(id)).collect())
        })
        .collect();
    let unit = unit.map(|unit| value_text("", Some(&unit))).unwrap_or_default();
    let names = review.candidates.keys().map(|id| format!("#{id}"));
    let heading: Vec<_> =
        [time.clone()].into_iter().chain(names).chain(["#difference".into(), "#percent".into()]).collect();
    let heading: Vec<_> = heading.iter().map(String::as_str).collect();
    let title = format!("{} at other times", capitalized(path));
    let beside = html! { span.muted.small { (unit.trim()) " as known now: is the difference constant?" } };
    Ok(Some(card(&title, &beside, &table(&title, &heading, &rows))))
}

/// The values at one time, and the difference of the first two. `mark` is the word beside the time of the dispute.
fn row(at: &str, mark: Option<&str>, values: Vec<Option<&String>>) -> Vec<Markup> {
    let difference = match values.as_slice() {
        [Some(first), Some(second), ..] => Difference::of(first, second),
        _ => None,
    };
    let (size, percent) = difference.map_or_else(
        || ("–".into(), "–".into()),
        |difference| (difference.size.clone(), difference.percent()),
    );
    let cells = values
        .into_iter()
        .map(|value| html! { (value.map_or_else(|| "–".to_owned(), |value| group_digits(value))) });
    let at = html! { @match mark { Some(mark) => { b { (at) } " " span.muted { (mark) } }, None => (at) } };
    [at].into_iter().chain(cells).chain([html! { (size) }, html! { (percent) }]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_has_the_difference_of_two_sources() {
        let (first, second) = ("90588".to_owned(), "90866".to_owned());
        let text = |values: Vec<Option<&String>>| {
            row("2000", Some("in dispute"), values).into_iter().map(Markup::into_string).collect::<Vec<_>>()
        };
        let both = text(vec![Some(&first), Some(&second)]);
        assert!(both[0].contains("in dispute"), "{both:?}");
        assert_eq!(both[1..], ["90,588", "90,866", "278", "0.30 %"]);
        assert_eq!(text(vec![Some(&first), None])[1..], ["90,588", "–", "–", "–"]);
    }
}
