//! A query of a source, with its answer and its code.

use super::form::Fields;
use super::layout::{pairs, table};
use super::page_error::{PageError, PageResult};
use super::query_code::render_code;
use super::sources::{read_source, result_page};
use super::state::{Console, ConsoleState};
use crate::base::options::encode_segment;
use crate::ground::query::{format_validity, format_value, parse_filter, send_query, value_paths};
use axum::extract::{Path, State};
use maud::{Markup, html};
use oracled_api::ground::SourceSummary;
use oracled_domain::base::moment::{Moment, format_span};
use oracled_domain::ground::query::{OracleQuery, QueryAnswer, QueryFilter, QueryRequest};

/// Maximum number of records on the page.
const RECORDS: usize = 100;

pub(super) async fn page(
    State(console): State<ConsoleState>,
    Path(oracle_id): Path<String>,
    fields: Fields,
) -> PageResult {
    let source = read_source(&console, &oracle_id).await?;
    let answered = answer(&console, &source, &fields).await;
    Ok(result_page(&console, ("Query", &oracle_id), &query_form(&source, &fields), answered))
}

async fn answer(console: &Console, source: &SourceSummary, fields: &Fields) -> Result<Markup, PageError> {
    let request = read_query(source, fields)?;
    let oracle_id = source.entry.oracle_id();
    let answer = send_query(&console.options, oracle_id, &request).await?;
    let query = OracleQuery { query_id: None, oracle_id: oracle_id.clone(), request };
    Ok(html! { (render_answer(source, &answer)) (render_code(&console.options.routes_path()?, &query)) })
}

pub(super) fn query_form(source: &SourceSummary, fields: &Fields) -> Markup {
    let example = source.identity.first().map(|axis| format!("{axis}=…")).unwrap_or_default();
    html! {
        form.action method="get" action=(format!("/sources/{}/query", encode_segment(source.entry.oracle_id().as_str()))) {
            label {
                "Filters, one on a line: axis, one of = != > >= < <= ~ =~ in, and a value"
                textarea name="filters" rows="3" placeholder=(example) { (fields.text("filters")) }
            }
            (fields.input("axes", "Axes, separated by commas; all if empty", ""))
            (fields.input("at", "Valid at", "now"))
            (fields.input("known_at", "Known at", "now"))
            label.check {
                input type="checkbox" name="latest" value="true" checked[fields.filled("latest").is_some()];
                "Only the latest record of each subject"
            }
            button type="submit" { "Query the source" }
        }
    }
}

/// The filters in a field, one on a line.
///
/// # Errors
/// A line is not a filter.
pub(super) fn read_filters(fields: &Fields) -> Result<Vec<QueryFilter>, PageError> {
    let lines = fields.text("filters").lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| parse_filter(line).map_err(|fault| PageError::input(format!("`{line}`: {fault}"))))
        .collect()
}

fn read_query(source: &SourceSummary, fields: &Fields) -> Result<QueryRequest, PageError> {
    let axes: Vec<_> =
        fields.text("axes").split(',').map(str::trim).filter(|axis| !axis.is_empty()).collect();
    let all = || source.entry.registration.axes_provided.clone();
    let moment = |name: &str, label: &str| -> Result<_, PageError> {
        Ok(fields.parsed::<Moment>(name, label)?.map(|Moment(at)| at))
    };
    Ok(QueryRequest {
        axes_requested: if axes.is_empty() { all() } else { axes.into_iter().map(str::to_owned).collect() },
        filters: read_filters(fields)?,
        point_in_time: moment("at", "Valid at")?,
        known_at: moment("known_at", "Known at")?,
        max_results: Some(RECORDS),
        latest: fields.filled("latest").is_some(),
        ..QueryRequest::default()
    })
}

fn render_answer(source: &SourceSummary, answer: &QueryAnswer) -> Markup {
    let response = &answer.response;
    let metadata = &response.query_metadata;
    let order: Vec<_> =
        source.identity.iter().chain(&source.entry.registration.axes_provided).cloned().collect();
    let paths = value_paths(&response.records, &order);
    let unit = |path: &String| response.records.iter().find_map(|record| record.units.get(path));
    let titles =
        paths.iter().map(|path| unit(path).map_or_else(|| path.clone(), |unit| format!("{path} ({unit})")));
    let titles: Vec<_> = titles.chain(["valid from", "until", "record"].map(str::to_owned)).collect();
    let heading: Vec<_> = titles.iter().map(String::as_str).collect();
    let rows = response.records.iter().map(|record| {
        let values = paths.iter().map(|path| {
            let definition = record.definitions.get(path);
            html! { (format_value(record, path)) @if let Some(definition) = definition { " (" (definition) ")" } }
        });
        let [from, until] = format_validity(record);
        values.chain([from, until, record.record_id.clone()].map(|text| html! { (text) })).collect()
    });
    let age = metadata.freshness.staleness_seconds.map_or_else(|| "no release".to_owned(), format_span);
    html! {
        (table("Records", &heading, &rows.collect::<Vec<_>>()))
        @if response.cursor.is_some() { p { "There are more records; the page shows the first " (RECORDS) "." } }
        @for warning in &response.warnings { p.alert { (warning) } }
        (pairs([
            ("version", html! { (metadata.data_version) }),
            ("age", html! { (age) }),
            ("trust", html! { (metadata.oracle_tier.into_str()) }),
            ("records scanned", html! { (metadata.records_scanned) }),
            ("time", html! { (format!("{:.2} ms", metadata.latency_ms)) }),
        ]))
    }
}
