//! The catalog of sources; one source with its registration, its freshness and its runs; and a query of a source, with
//! its answer and its code.

use super::layout::{
    PageError, PageResult, Section, moment, moment_or_none, page as render_page, pairs, table,
};
use super::run::{RUN_HEADING, coverage_rows, run_row};
use super::{Console, ConsoleState};
use crate::base::options::encode_segment;
use crate::console::layout::{Fields, StepLine, bars, step_chart};
use crate::ground::query::{format_validity, format_value, parse_filter, send_query, value_paths};
use axum::extract::{self, State};
use axum::response::Response;
use domain_base::moment::{Moment, format_span};
use domain_base::page::{ListPage, PageLimit};
use domain_ground::id::SourceId;
use domain_ground::query::{
    FilterOperator, OracleQuery, QueryAnswer, QueryFilter, QueryRequest, ValueHistory,
};
use domain_ground::run::RunState;
use domain_ground::wire::{FreshnessReport, RunReport, SourceSummary, ValueHistoryRequest};
use hyper::Method;
use jiff::Timestamp;
use maud::{Markup, html};
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;

/// Number of runs on the page.
const RUNS: usize = 50;

pub(super) async fn page(
    State(console): State<ConsoleState>,
    extract::Path(oracle_id): extract::Path<String>,
    fields: Fields,
) -> PageResult {
    let source = read_source(&console, &oracle_id).await?;
    let path = format!("/v1/sources/{}/freshness", encode_segment(&oracle_id));
    let freshness: FreshnessReport = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let path = format!("/v1/runs?limit={RUNS}&oracle_id={}", encode_segment(&oracle_id));
    let runs: ListPage<RunReport> = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let completed: Vec<_> =
        runs.items.iter().filter(|report| report.run.state == RunState::Completed).collect();
    let changes = completed.iter().rev().map(|report| {
        let changes: u64 = report.run.counts.changes.values().sum();
        (format!("version {}", report.run.input.version), changes as f64)
    });
    let changes: Vec<_> = changes.collect();
    let body = html! {
        (render_registration(&source))
        (render_freshness(&freshness))
        section aria-labelledby="query" { h2 #query { "Query" } (query_form(&source, &fields)) }
        section aria-labelledby="value" { h2 #value { "History of a value" } (history_form(&source, &fields)) }
        section aria-labelledby="runs" {
            h2 #runs { "Runs" }
            (table("Runs, the latest first", &RUN_HEADING, &runs.items.iter().map(run_row).collect::<Vec<_>>()))
            div.columns {
                @if let Some(last) = completed.first() {
                    (bars("Filled axes in the last completed run", "axis", "percent of records", &coverage_rows(&last.run)))
                }
                (bars("Changes of each release", "release", "changes", &changes))
            }
        }
    };
    Ok(render_page(&console, Section::Sources, &format!("Source {oracle_id}"), &body))
}

fn render_registration(source: &SourceSummary) -> Markup {
    let entry = &source.entry;
    let registration = &entry.registration;
    pairs([
        ("name", html! { (registration.oracle_name) }),
        ("publisher", html! { (registration.upstream_authority) ", " (registration.upstream_url) }),
        ("license", html! { (registration.data_license) }),
        ("trust", html! { (registration.oracle_tier.into_str()) }),
        ("domain", html! { (registration.domain) }),
        ("ontology", html! { (registration.ontology) }),
        ("axes", html! { (registration.axes_provided.join(", ")) }),
        ("identity", html! { (source.identity.join(", ")) }),
        (
            "answers",
            html! {
                @if source.answers { "yes" } @else { strong { "no" } }
                @if let Some(note) = &source.note { ": " (note) }
            },
        ),
        ("registered", html! { (moment(entry.registered_at)) " by uid " (entry.registered_by) }),
        ("stored", html! { (source.statements) " statements, " (source.size_bytes) " bytes" }),
    ])
}

fn render_freshness(report: &FreshnessReport) -> Markup {
    let rows = report.now.axes.iter().map(|axis| {
        let age = axis.age_seconds.map_or_else(|| "no release".to_owned(), format_span);
        vec![
            html! { (axis.axis) },
            html! { (age) },
            html! { (format_span(axis.max_age_seconds)) },
            html! { @if axis.stale { strong { "stale" } } @else { "fresh" } },
        ]
    });
    html! {
        section aria-labelledby="freshness" {
            h2 #freshness { "Freshness" }
            (pairs([
                ("policy", html! { (if report.is_default { "the default one" } else { "its own" }) }),
                ("current version", html! { (report.current_version.as_deref().unwrap_or("none")) }),
                ("released", moment_or_none(report.released_at)),
                ("marked stale", moment_or_none(report.invalidated_at)),
            ]))
            (table("Freshness by axis", &["axis", "age", "allowed", "now"], &rows.collect::<Vec<_>>()))
        }
    }
}

/// Maximum number of times at which data was known: the latest.
const KNOWN_MAX: usize = 12;
/// Maximum number of times at which a value is valid: the latest.
const VALID_MAX: usize = 60;

/// A value with the time at which it is valid, and the time at which it was known.
struct ValueAtTimes {
    known_at: Timestamp,
    valid_at: Timestamp,
    has_record: bool,
    /// `None` without a record, or if it has no value.
    value: Option<String>,
    unit: Option<String>,
}

fn history_form(source: &SourceSummary, fields: &Fields) -> Markup {
    let axes = source.entry.registration.axes_provided.iter().filter(|axis| !source.identity.contains(axis));
    html! {
        form.action method="get" action=(format!("/sources/{}/history", encode_segment(source.entry.oracle_id().as_str()))) {
            @for axis in &source.identity {
                @let name = format!("where:{axis}");
                label { (axis) input name=(name) value=(fields.text(&name)) required autocomplete="off"; }
            }
            label { "Axis" input name="axis" value=(fields.text("axis")) list="axes" required autocomplete="off"; }
            datalist #axes { @for axis in axes { option value=(axis) {} } }
            button type="submit" { "Show the history" }
        }
    }
}

pub(super) async fn history_page(
    State(console): State<ConsoleState>,
    extract::Path(oracle_id): extract::Path<String>,
    fields: Fields,
) -> PageResult {
    let source = read_source(&console, &oracle_id).await?;
    let rendered = render(&console, &source, &fields).await;
    let form = history_form(&source, &fields);
    Ok(result_page(&console, ("History of a value", &oracle_id), &form, rendered))
}

async fn render(console: &Console, source: &SourceSummary, fields: &Fields) -> Result<Markup, PageError> {
    let axis = fields.required("axis", "Axis")?;
    if axis.contains('*') {
        return Err(PageError::input(format!(
            "`{axis}` is a group of axes; write the key of one in place of the `*`"
        )));
    }
    // one subject: without one of its values, the first of several subjects would be shown
    let filters = source.identity.iter().map(|identity| {
        let value = fields.required(&format!("where:{identity}"), identity)?;
        Ok(QueryFilter { axis: identity.clone(), operator: FilterOperator::Eq, value: Json::String(value) })
    });
    let filters = filters.collect::<Result<_, PageError>>()?;
    let request = ValueHistoryRequest { axis: axis.clone(), filters };
    let values = read_values(console, source.entry.oracle_id(), &request).await?;
    Ok(render_values(&axis, &values))
}

fn render_values(axis: &str, values: &[ValueAtTimes]) -> Markup {
    if !values.iter().any(|known| known.has_record) {
        return html! { p { "No record matches." } };
    }
    let unit = values.iter().find_map(|known| known.unit.as_deref());
    let title = unit.map_or_else(|| axis.to_owned(), |unit| format!("{axis} ({unit})"));
    let mut rows = Vec::new();
    for (number, known) in values.iter().enumerate() {
        let state = |known: &ValueAtTimes| (known.known_at, known.has_record, known.value.clone());
        let previous = number.checked_sub(1).and_then(|number| values.get(number));
        if previous.is_none_or(|previous| state(previous) != state(known)) {
            let missing = if known.has_record { "no value" } else { "no record" };
            rows.push(vec![
                html! { (known.known_at) },
                html! { (known.valid_at) },
                html! { (known.value.as_deref().unwrap_or(missing)) },
            ]);
        }
    }
    html! {
        (render_chart(&title, unit.unwrap_or_default(), values))
        (table("Each change, by the time at which it was known", &["known at", "valid at", &title], &rows))
        p.note {
            "`valid at` is now or the time of a release, at most the latest " (VALID_MAX) "; `known at` is the end of an ingestion, at most "
            "the latest " (KNOWN_MAX) "."
        }
    }
}

/// The value for each pair of times, by the time at which it was known.
async fn read_values(
    console: &Console,
    oracle_id: &SourceId,
    request: &ValueHistoryRequest,
) -> Result<Vec<ValueAtTimes>, PageError> {
    let path = format!("/v1/runs?limit={}&oracle_id={oracle_id}", <PageLimit>::MAX);
    let runs: ListPage<RunReport> = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let runs = runs.items.iter().map(|report| &report.run).filter(|run| run.state == RunState::Completed);
    let known_at: BTreeSet<_> = runs.clone().filter_map(|run| run.ended_at).collect();
    let known_at: BTreeSet<_> = known_at.into_iter().rev().take(KNOWN_MAX).collect();
    let valid_at: BTreeSet<_> = runs.map(|run| run.input.released_at).chain([Timestamp::now()]).collect();
    let valid_at: BTreeSet<_> = valid_at.into_iter().rev().take(VALID_MAX).collect();
    let pairs: Vec<_> =
        known_at.iter().flat_map(|known_at| valid_at.iter().map(|valid_at| (*known_at, *valid_at))).collect();
    // without a completed run, nothing was ever known
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let path = format!("/v1/sources/{oracle_id}/history");
    let body = serde_json::to_vec(request).map_err(std::io::Error::from)?;
    let history: ValueHistory =
        console.options.call_control(Method::POST, &path, Some(body.into())).await?.json()?;
    let values = pairs.into_iter().map(|(known_at, valid_at)| {
        let known = history.values.iter().find(|known| known.is_answer_at(valid_at, known_at));
        ValueAtTimes {
            known_at,
            valid_at,
            has_record: known.is_some(),
            value: known.and_then(|known| Some(known.value.as_ref()?.to_string())),
            unit: history.unit.clone(),
        }
    });
    Ok(values.collect())
}

/// One line for each time at which data was known. Values that are not numbers have no chart.
fn render_chart(title: &str, unit: &str, values: &[ValueAtTimes]) -> Markup {
    let mut lines: Vec<StepLine> = Vec::new();
    for known in values {
        let name = format!("known at {}", known.known_at);
        if lines.last().is_none_or(|line| line.name != name) {
            lines.push(StepLine { name, points: Vec::new() });
        }
        let number = known.value.as_ref().and_then(|value| value.parse::<f64>().ok());
        // a text may be `inf`
        let number = number.filter(|number| number.is_finite());
        if let Some(line) = lines.last_mut() {
            line.points.push((known.valid_at.as_second(), number));
        }
    }
    let times = || values.iter().map(|known| known.valid_at);
    let day = |at: Option<Timestamp>| at.map(|at| at.strftime("%Y-%m-%d").to_string()).unwrap_or_default();
    let (first, last) = (day(times().min()), day(times().max()));
    let summary = format!("{title} from {first} to {last}, one line for each time at which it was known");
    html! {
        @if lines.iter().flat_map(|line| &line.points).any(|(_, number)| number.is_some()) {
            (step_chart(&lines, unit, [&first, &last], &summary))
        } @else { p { "No chart: the values are not numbers." } }
    }
}

pub(super) async fn list_page(State(console): State<ConsoleState>) -> PageResult {
    let sources = read_sources(&console).await?;
    let path = format!("/v1/runs?limit={}", <PageLimit>::MAX);
    let runs: ListPage<RunReport> = console.options.call_control(Method::GET, &path, None).await?.json()?;
    let is_held = |report: &&RunReport| report.run.state == RunState::Held;
    let held: Vec<_> = runs.items.iter().filter(is_held).map(run_row).collect();
    let latest: Vec<_> = runs.items.iter().take(20).map(run_row).collect();
    let heading = ["source", "name", "trust", "license", "answers", "version", "released", "statements"];
    let body = html! {
        @if !held.is_empty() { (table("Held runs, which wait for a decision", &RUN_HEADING, &held)) }
        (table("Sources", &heading, &sources.iter().map(row).collect::<Vec<_>>()))
        (table("Latest runs", &RUN_HEADING, &latest))
    };
    Ok(render_page(&console, Section::Sources, "Sources", &body))
}

pub(super) async fn read_sources(console: &Console) -> Result<Vec<SourceSummary>, PageError> {
    Ok(console.options.call_routes(Method::GET, "/v1/sources", None).await?.json()?)
}

/// A source of the catalog.
pub(super) async fn read_source(console: &Console, oracle_id: &str) -> Result<SourceSummary, PageError> {
    let sources = read_sources(console).await?;
    let found = sources.into_iter().find(|source| source.entry.oracle_id().as_str() == oracle_id);
    found.ok_or_else(|| PageError::input(format!("no source has the id {oracle_id}")))
}

/// A page about a source: a form, and the result of the form or its error.
fn result_page(
    console: &Console,
    (title, oracle_id): (&str, &str),
    form: &Markup,
    result: Result<Markup, PageError>,
) -> Response {
    let body = html! {
        (form)
        @match result {
            Ok(parts) => (parts),
            Err(error) => (error.render()),
        }
        p { a href=(format!("/sources/{}", encode_segment(oracle_id))) { "Back to the source" } }
    };
    render_page(console, Section::Sources, &format!("{title} of {oracle_id}"), &body)
}

fn row(source: &SourceSummary) -> Vec<Markup> {
    let entry = &source.entry;
    let registration = &entry.registration;
    let current = entry.version_history.iter().find(|version| version.version == entry.current_version);
    let id = registration.oracle_id.as_str();
    vec![
        html! { a href=(format!("/sources/{}", encode_segment(id))) { (id) } },
        html! { (registration.oracle_name) },
        html! { (registration.oracle_tier.into_str()) },
        html! { (registration.data_license) },
        html! {
            @if source.answers { "yes" } @else { strong { "no" } }
            @if let Some(note) = &source.note { ": " (note) }
        },
        html! { (entry.current_version) },
        moment_or_none(current.map(|version| version.released_at)),
        html! { (source.statements) },
    ]
}

/// Maximum number of records on the page.
const RECORDS: usize = 100;

pub(super) async fn query_page(
    State(console): State<ConsoleState>,
    extract::Path(oracle_id): extract::Path<String>,
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

fn query_form(source: &SourceSummary, fields: &Fields) -> Markup {
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

fn render_code(socket: &Path, query: &OracleQuery) -> Markup {
    let forms = [("curl", curl(socket, query)), ("Node", node(query)), ("Python", python(query))];
    html! {
        section aria-labelledby="code" {
            h2 #code { "The same query in a program" }
            @for (name, code) in forms { h3 { (name) } pre tabindex="0" { (code) } }
        }
    }
}

/// The JSON of the query without members that have their defaults.
fn json(query: &OracleQuery) -> serde_json::Value {
    let mut document = serde_json::to_value(query).unwrap_or_default();
    if let Some(request) = document.get_mut("request").and_then(|request| request.as_object_mut()) {
        request
            .retain(|_, value| *value != serde_json::Value::Bool(false) && *value != serde_json::json!([]));
    }
    document
}

fn curl(socket: &Path, query: &OracleQuery) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    format!(
        "curl --unix-socket {} http://localhost/v1/query \\\n  -H 'Content-Type: application/json' -d {}",
        quoted(&socket.display().to_string()),
        quoted(&json(query).to_string())
    )
}

fn node(query: &OracleQuery) -> String {
    let request = serde_json::to_string_pretty(&json(query)).unwrap_or_default();
    format!(
        "import {{ OracledClient }} from \"oracled-client\";\n\nconst oracled = new OracledClient();\n\
         const answer = await oracled.querySource({request});\nconsole.log(answer.body.response.records);\noracled.close();"
    )
}

fn python(query: &OracleQuery) -> String {
    // a JSON text is also a Python literal, except for these words
    let mut request = String::new();
    write_python(&json(query), &mut request);
    format!(
        "from oracled import Client\n\nwith Client() as client:\n    answer = client.query_source({request})\n    \
         print(answer.body[\"response\"][\"records\"])"
    )
}

/// Writes a JSON value as a literal of Python.
fn write_python(value: &serde_json::Value, out: &mut String) {
    use serde_json::Value;
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Array(items) => {
            out.push('[');
            for (number, item) in items.iter().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                write_python(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (number, (name, member)) in members.iter().enumerate() {
                out.push_str(if number > 0 { ", " } else { "" });
                out.push_str(&format!("{}: ", Value::from(name.as_str())));
                write_python(member, out);
            }
            out.push('}');
        }
        // numbers; and strings, whose escapes Python reads alike
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn known(known_at: i64, valid_at: i64, value: Option<&str>) -> ValueAtTimes {
        let at = |second| Timestamp::from_second(second).expect("a time");
        ValueAtTimes {
            known_at: at(known_at),
            valid_at: at(valid_at),
            has_record: value.is_some(),
            value: value.map(str::to_owned),
            unit: value.map(|_| "m".to_owned()),
        }
    }

    #[test]
    fn history_has_a_gap_without_a_record_and_names_the_unit() {
        let values =
            [known(50, 0, Some("7")), known(50, 10, None), known(50, 20, Some("8")), known(90, 0, Some("7"))];
        let page = render_values("height", &values).into_string();
        for text in ["H320.0M632.0", "height (m)", "no record", "known at 1970-01-01T00:01:30Z</li>"] {
            assert!(page.contains(text), "{text} is not in {page}");
        }
        for name in ["north", "inf"] {
            let text = render_values("name", &[known(50, 0, Some(name))]).into_string();
            assert!(text.contains("No chart") && text.contains(name), "{text}");
        }
        for values in [vec![], vec![known(50, 0, None)]] {
            let page = render_values("height", &values).into_string();
            assert!(page.contains("No record matches") && !page.contains("<table"), "{page}");
        }
    }

    #[test]
    fn query_is_quoted_for_each_language() {
        let query: OracleQuery = serde_json::from_value(json!({
            "oracle_id": "people",
            "request": {"axes_requested": ["population"], "latest": true,
                "filters": [{"axis": "name", "operator": "eq", "value": "d'Or \"x\""}]},
        }))
        .expect("a valid query");
        let shell = curl(Path::new("/run/o'x"), &query);
        assert!(shell.contains(r"'/run/o'\''x'") && shell.contains(r#"d'\''Or \"x\""#), "{shell}");
        let code = python(&query);
        assert!(code.contains(r#""latest": True"#) && code.contains(r#""d'Or \"x\"""#), "{code}");
        assert!(node(&query).contains(r#""latest": true"#));
        assert!(!code.contains("include_provenance"), "defaults are left out: {code}");
    }
}
