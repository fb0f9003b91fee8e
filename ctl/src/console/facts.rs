//! The facts of a source: filtered, sorted, counted by value, as CSV, and as the same query in a program.

use super::catalog::{read_ontology, read_source};
use super::forms::Fields;
use super::layout::{PageError, PageHead, PageResult, Section, page as render_page};
use super::parts::{Tone, card, group_digits, message, pairs, scrolled, unit_of};
use super::resolve::without_separators;
use super::{Console, ConsoleState};
use crate::base::options::encode_segment;
use crate::base::output::spreadsheet_csv;
use crate::ground::query::{format_validity, format_value, parse_filter, send_query, value_paths};
use axum::extract::{self, State};
use axum::response::IntoResponse;
use domain_base::moment::{Moment, format_span};
use domain_base::text_form::{is_hiding, visible_json, visible_toml};
use domain_base::wording::format_count;
use domain_ground::id::SourceId;
use domain_ground::query::{
    FilterOperator, NormalizedRecord, OracleQuery, QueryAnswer, QueryFilter, QueryRequest,
};
use domain_ground::value::AxisValue;
use domain_ground::wire::SourceSummary;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use maud::{Markup, html};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::Path;

/// Maximum number of records that are sorted and counted.
const RECORDS: usize = 1_000;
/// Maximum number of records in a file.
const FILE_RECORDS: usize = 10_000;
/// Number of records on a page.
const PAGE: usize = 50;
/// An axis with more values than this has no list of them.
const FACET_VALUES: usize = 30;
/// Number of values of an axis that are listed.
const FACET_SHOWN: usize = 8;

fn facts_path(oracle_id: &str) -> String {
    format!("/sources/{}/query", encode_segment(oracle_id))
}

pub(super) async fn page(
    State(console): State<ConsoleState>,
    extract::Path(oracle_id): extract::Path<String>,
    fields: Fields,
) -> PageResult {
    let source = read_source(&console, &oracle_id).await?;
    let answered = answer(&console, &source, &fields).await;
    let body = html! {
        (filter_chips(&source, &fields))
        @match answered { Ok(parts) => (parts), Err(error) => (error.render()) }
    };
    let path = format!("/sources/{}", encode_segment(&oracle_id));
    let head = PageHead {
        crumbs: Some(
            html! { a href="/sources" { "Sources" } " › " a href=(path) { (oracle_id) } " › Facts" },
        ),
        ..PageHead::titled(format!("Facts of {oracle_id}"))
    };
    Ok(render_page(&console, Section::Sources, head, &body).await)
}

async fn answer(console: &Console, source: &SourceSummary, fields: &Fields) -> Result<Markup, PageError> {
    let request = read_query(console, source, fields, RECORDS).await?;
    let oracle_id = source.entry.oracle_id();
    let answer = send_query(&console.options, oracle_id, &request).await?;
    let query = OracleQuery { query_id: None, oracle_id: oracle_id.clone(), request };
    let code = render_code(&console.options.routes_path()?, &query);
    Ok(html! { (render_answer(source, &answer, fields)) (code) })
}

/// The same facts as a file.
pub(super) async fn csv(
    State(console): State<ConsoleState>,
    extract::Path(oracle_id): extract::Path<String>,
    fields: Fields,
) -> PageResult {
    let source = read_source(&console, &oracle_id).await?;
    let request = read_query(&console, &source, &fields, FILE_RECORDS).await?;
    let answer = send_query(&console.options, source.entry.oracle_id(), &request).await?;
    if answer.response.cursor.is_some() {
        return Err(PageError::input(format!(
            "more than {FILE_RECORDS} records match; add filters, or use `oraclectl query {oracle_id} --csv`"
        )));
    }
    let mut table = FactTable::new(&source, answer.response.records);
    table.sort(fields.text("sort"));
    let name = format!("attachment; filename=\"{}.csv\"", encode_segment(&oracle_id));
    Ok(([(CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()), (CONTENT_DISPOSITION, name)], table.to_csv()?)
        .into_response())
}

async fn read_query(
    console: &Console,
    source: &SourceSummary,
    fields: &Fields,
    most: usize,
) -> Result<QueryRequest, PageError> {
    let axes: Vec<_> =
        fields.text("axes").split(',').map(str::trim).filter(|axis| !axis.is_empty()).collect();
    let all = || source.entry.registration.axes_provided.clone();
    let moment = |name: &str, label: &str| -> Result<_, PageError> {
        Ok(fields.parsed::<Moment>(name, label)?.map(|Moment(at)| at))
    };
    Ok(QueryRequest {
        axes_requested: if axes.is_empty() { all() } else { axes.into_iter().map(str::to_owned).collect() },
        filters: read_filters(console, source, fields).await?,
        point_in_time: moment("at", "Valid at")?,
        known_at: moment("known_at", "Known at")?,
        max_results: Some(most),
        latest: fields.filled("latest").is_some(),
        ..QueryRequest::default()
    })
}

/// The filters in a field, one on a line. On axes of numbers, a number can have the separators of the pages.
///
/// # Errors
/// A line is not a filter.
pub(super) async fn read_filters(
    console: &Console,
    source: &SourceSummary,
    fields: &Fields,
) -> Result<Vec<QueryFilter>, PageError> {
    let mut filters = parse_filters(fields)?;
    if filters.iter().all(|filter| plain_value(&filter.value) == filter.value) {
        return Ok(filters);
    }
    let ontology = read_ontology(console, &source.entry.registration.ontology).await?;
    for filter in &mut filters {
        if ontology.axis(&filter.axis).is_some_and(|axis| axis.kind.is_numeric()) {
            filter.value = plain_value(&filter.value);
        }
    }
    Ok(filters)
}

fn parse_filters(fields: &Fields) -> Result<Vec<QueryFilter>, PageError> {
    let parse = |line| parse_filter(line).map_err(|fault| PageError::input(format!("`{line}`: {fault}")));
    filter_lines(fields).map(parse).collect()
}

/// The value of a filter, with each number that has the separators of the pages in its plain form.
fn plain_value(value: &Json) -> Json {
    match value {
        Json::String(text) => Json::String(without_separators(text)),
        Json::Array(items) => items.iter().map(plain_value).collect(),
        other => other.clone(),
    }
}

/// The filter for records with this value. A value that would not be read back from the usual form is in a JSON list, which has
/// escapes for line breaks and hidden characters.
fn equality_filter(axis: &str, value: &str) -> String {
    let plain = format!("{axis}={value}");
    let is_same = |filter: QueryFilter| {
        filter.axis == axis && filter.operator == FilterOperator::Eq && filter.value == value
    };
    let is_line = !plain.contains(|letter: char| letter.is_control() || is_hiding(letter));
    if is_line && parse_filter(&plain).is_ok_and(is_same) {
        return plain;
    }
    let list = serde_json::to_string(&[value]).unwrap_or_default();
    format!("{axis} in {}", visible_json(&list))
}

/// The address of the facts of a source about one subject.
pub(super) fn subject_path(oracle_id: &SourceId, subject: &BTreeMap<String, AxisValue>) -> String {
    let filters = subject.iter().map(|(axis, value)| equality_filter(axis, &value.to_string()));
    let filters = filters.collect::<Vec<_>>().join("\n");
    format!("{}?filters={}", facts_path(oracle_id.as_str()), encode_segment(&filters))
}

/// The fields of the page, in the order of its addresses.
const PARAMS: [&str; 6] = ["filters", "axes", "at", "known_at", "latest", "sort"];

/// The address of the page with one field changed. Without a value, the field is left out.
fn with(path: &str, fields: &Fields, name: &str, value: Option<&str>) -> String {
    let of = |param: &str| if param == name { value } else { fields.filled(param) };
    let params = PARAMS.iter().chain([&"page"]).filter(|param| **param != "page" || name == "page");
    let params = params.filter_map(|param| Some(format!("{param}={}", encode_segment(of(param)?))));
    format!("{path}?{}", params.collect::<Vec<_>>().join("&"))
}

fn filter_lines(fields: &Fields) -> impl Iterator<Item = &str> {
    fields.text("filters").lines().map(str::trim).filter(|line| !line.is_empty())
}

fn chip(path: &str, text: &str) -> Markup {
    html! { a.chip.on href=(path) { (text) " " span.x aria-hidden="true" { "×" } span.sr { " remove the filter" } } }
}

/// The filters as chips, and the form behind "+ filter".
fn filter_chips(source: &SourceSummary, fields: &Fields) -> Markup {
    let path = facts_path(source.entry.oracle_id().as_str());
    let example = source.identity.first().map(|axis| format!("{axis}=…")).unwrap_or_default();
    let without = |line: &str| {
        let rest: Vec<_> = filter_lines(fields).filter(|other| *other != line).collect();
        with(&path, fields, "filters", Some(rest.join("\n").as_str()).filter(|rest| !rest.is_empty()))
    };
    let set =
        |name: &str| fields.filled(name).map(|value| (with(&path, fields, name, None), value.to_owned()));
    html! {
        div.chips {
            @for line in filter_lines(fields) { (chip(&without(line), line)) }
            @for (name, label) in [("axes", "axes"), ("at", "valid at"), ("known_at", "known at")] {
                @if let Some((path, value)) = set(name) { (chip(&path, &format!("{label} {value}"))) }
            }
            @if let Some((path, _)) = set("latest") { (chip(&path, "latest of each subject")) }
            @else { a.chip href=(with(&path, fields, "latest", Some("true"))) { "latest of each subject" } }
        }
        details.more {
            summary { "+ filter" }
            form.fields method="get" action=(path) {
                label.f.wide {
                    "Filters, one on a line: axis, one of = != > >= < <= ~ =~ in, and a value"
                    textarea name="filters" rows="3" placeholder=(example) { (fields.text("filters")) }
                }
                @for (name, label, hint) in [("axes", "Axes, separated by commas", "all"), ("at", "Valid at", "now"), ("known_at", "Known at", "now")] {
                    label.f { (label) input type="text" name=(name) value=(fields.text(name)) placeholder=(hint) autocomplete="off"; }
                }
                @if fields.filled("latest").is_some() { input type="hidden" name="latest" value="true"; }
                button.btn type="submit" { "Query the source" }
            }
        }
    }
}

/// Records as a table.
struct FactTable {
    paths: Vec<String>,
    records: Vec<NormalizedRecord>,
}

impl FactTable {
    fn new(source: &SourceSummary, records: Vec<NormalizedRecord>) -> Self {
        let order: Vec<_> =
            source.identity.iter().chain(&source.entry.registration.axes_provided).cloned().collect();
        Self { paths: value_paths(&records, &order), records }
    }

    /// Sorts the records by the values of a path; in descending order after a `-`.
    fn sort(&mut self, by: &str) {
        let (path, is_descending) = by.strip_prefix('-').map_or((by, false), |path| (path, true));
        if !self.paths.iter().any(|known| known == path) {
            return;
        }
        let compare = |first: &NormalizedRecord, second: &NormalizedRecord| {
            let (first, second) = (format_value(first, path), format_value(second, path));
            match (first.parse::<f64>(), second.parse::<f64>()) {
                (Ok(first), Ok(second)) => first.total_cmp(&second),
                _ => first.cmp(&second),
            }
        };
        self.records.sort_by(compare);
        if is_descending {
            self.records.reverse();
        }
    }

    fn unit(&self, path: &str) -> Option<&String> {
        self.records.iter().find_map(|record| record.units.get(path))
    }

    fn is_number(&self, path: &str) -> bool {
        let mut values =
            self.records.iter().map(|record| format_value(record, path)).filter(|value| !value.is_empty());
        values.all(|value| value.parse::<f64>().is_ok())
    }

    /// The values of each axis that has few of them, with the number of records, the most frequent first.
    fn facets(&self) -> Vec<(&str, Vec<(String, usize)>)> {
        let facet = |path: &String| {
            let mut counts: BTreeMap<String, usize> = BTreeMap::new();
            for record in &self.records {
                *counts.entry(format_value(record, path)).or_default() += 1;
            }
            counts.remove("");
            let mut counts: Vec<_> = counts.into_iter().collect();
            counts.sort_by_key(|(value, count)| (std::cmp::Reverse(*count), value.clone()));
            counts
        };
        let all = self.paths.iter().map(|path| (path.as_str(), facet(path)));
        all.filter(|(_, counts)| (2..=FACET_VALUES).contains(&counts.len())).collect()
    }

    fn to_csv(&self) -> Result<Vec<u8>, PageError> {
        let further = ["valid_from", "valid_until", "record_id"].map(str::to_owned);
        let titles = self.paths.iter().cloned().chain(further).collect();
        let rows = self.records.iter().map(|record| {
            let from = record.valid_from.to_string();
            // empty without an end, as in the CSV of `oraclectl query`
            let until = record.valid_until.map(|until| until.to_string()).unwrap_or_default();
            let values = self.paths.iter().map(|path| format_value(record, path));
            values.chain([from, until, record.record_id.clone()]).collect()
        });
        Ok(spreadsheet_csv([titles].into_iter().chain(rows))?)
    }
}

fn render_answer(source: &SourceSummary, answer: &QueryAnswer, fields: &Fields) -> Markup {
    let response = &answer.response;
    let metadata = &response.query_metadata;
    let mut table = FactTable::new(source, response.records.clone());
    table.sort(fields.text("sort"));
    let path = facts_path(answer.oracle_id.as_str());
    let age = metadata.freshness.staleness_seconds.map_or_else(|| "no release".to_owned(), format_span);
    let number = fields.text("page").parse::<usize>().unwrap_or(1).max(1);
    let file = with(&format!("{path}.csv"), fields, "page", None);
    html! {
        @for warning in &response.warnings { (message(Tone::Stale, &html! { (warning) })) }
        section.card aria-label="Facts" {
            div.facts { (render_facets(&table, &path, fields)) (render_records(source, &table, (&path, fields), number)) }
            div.pager {
                span {
                    span title=(format!("{} examined in {:.2} ms", metadata.records_scanned, metadata.latency_ms)) {
                        (format_count(table.records.len(), "record", "records"))
                    }
                    @if response.cursor.is_some() { ": the first " (RECORDS) ", which are sorted and counted; add filters for others" }
                }
                span.right {
                    @if number > 1 { a.btn.slim data-key="ArrowLeft" href=(with(&path, fields, "page", Some(&(number - 1).to_string()))) { "Previous" } }
                    @if number * PAGE < table.records.len() { a.btn.slim data-key="ArrowRight" href=(with(&path, fields, "page", Some(&(number + 1).to_string()))) { "Next" } }
                    a.btn.slim href="#code" { "As curl, Node, Python" }
                    a.btn.slim href=(file) { "CSV" }
                }
            }
        }
        (card("Origin", &html! {}, &html! { div.body { (pairs([
            ("release", html! { (metadata.data_version) }),
            ("age", html! { (age) }),
            ("trust", html! { (metadata.oracle_tier.into_str()) }),
        ])) } }))
    }
}

fn render_facets(table: &FactTable, path: &str, fields: &Fields) -> Markup {
    let facets = table.facets();
    html! {
        div.facets {
            @if facets.is_empty() { p.xs.muted { "No axis has 2 to " (FACET_VALUES) " values here." } }
            @for (axis, values) in &facets {
                div {
                    h3 { (axis) }
                    ul {
                        @for (value, count) in values.iter().take(FACET_SHOWN) {
                            @let line = equality_filter(axis, value);
                            @let lines = filter_lines(fields).chain([line.as_str()]).collect::<Vec<_>>().join("\n");
                            li { a href=(with(path, fields, "filters", Some(&lines))) { span { (value) } span.n { (count) } } }
                        }
                        @if values.len() > FACET_SHOWN { li.muted.xs { (values.len() - FACET_SHOWN) " more" } }
                    }
                }
            }
        }
    }
}

fn render_records(
    source: &SourceSummary,
    table: &FactTable,
    (path, fields): (&str, &Fields),
    number: usize,
) -> Markup {
    let sort = fields.text("sort");
    let heading = |axis: &String| {
        let descending = format!("-{axis}");
        let (state, next) = match sort {
            by if by == axis => (Some("ascending"), descending.as_str()),
            by if by == descending => (Some("descending"), axis.as_str()),
            _ => (None, axis.as_str()),
        };
        html! {
            th.n[table.is_number(axis)] scope="col" aria-sort=[state] {
                a href=(with(path, fields, "sort", Some(next))) {
                    (axis) @if let Some(unit) = table.unit(axis) { ", " (unit_of("", unit)) }
                    @match state { Some("ascending") => " ↑", Some(_) => " ↓", None => "" }
                }
            }
        }
    };
    let shown = table.records.iter().skip((number - 1) * PAGE).take(PAGE);
    let parts = html! {
        thead { tr { @for axis in &table.paths { (heading(axis)) } th scope="col" { "valid from" } th scope="col" { "valid until" } th scope="col" { span.sr { "history" } } } }
        tbody {
            @for record in shown { (record_row(source, table, record)) }
            @if table.records.is_empty() { tr { td.muted colspan=(table.paths.len() + 3) { "No record matches." } } }
        }
    };
    scrolled("Records", &parts)
}

fn record_row(source: &SourceSummary, table: &FactTable, record: &NormalizedRecord) -> Markup {
    let [from, until] = format_validity(record);
    let is_identity = |path: &String| source.identity.contains(path);
    let cell = |path: &String| {
        let value = format_value(record, path);
        // a year or a code of an identity is no amount
        if is_identity(path) || !table.is_number(path) { value } else { group_digits(&value) }
    };
    // a history of numbers has a chart
    let axes = || table.paths.iter().filter(|path| !is_identity(path));
    let axis = axes().find(|path| table.is_number(path)).or(axes().next());
    let history = axis.map(|axis| {
        let subject = source.identity.iter();
        let subject = subject
            .map(|identity| format!("where:{identity}={}", encode_segment(&format_value(record, identity))));
        let subject = subject.collect::<Vec<_>>().join("&");
        let oracle_id = encode_segment(source.entry.oracle_id().as_str());
        format!("/sources/{oracle_id}/history?{subject}&axis={}", encode_segment(axis))
    });
    html! {
        tr title=(format!("record {}", record.record_id)) {
            @for path in &table.paths {
                td.n[table.is_number(path)] data-label=(path) {
                    (cell(path))
                    @if let Some(definition) = record.definitions.get(path) { " (" (definition) ")" }
                }
            }
            td.nowrap data-label="valid from" { (from) } td.nowrap data-label="valid until" { (until) }
            td data-label="history" { @if let Some(history) = history { a href=(history) { "history" } } }
        }
    }
}

fn render_code(socket: &Path, query: &OracleQuery) -> Markup {
    let forms = [("curl", curl(socket, query)), ("Node", node(query)), ("Python", python(query))];
    html! {
        section.card #code aria-label="The same query in a program" {
            header { h2 { "The same query in a program" } }
            div.body {
                @for (name, code) in forms {
                    @let id = format!("code-{}", name.to_lowercase());
                    div.section {
                        header {
                            h3 { (name) }
                            // the script shows the button, which fills the state
                            button.btn.slim type="button" data-copy=(id) hidden { "Copy " span.sr { (name) } }
                            span.small.muted role="status" {}
                        }
                        pre.raw.wrap #(id) tabindex="0" { (code) }
                    }
                }
            }
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
        quoted(&visible_json(&json(query).to_string()))
    )
}

fn node(query: &OracleQuery) -> String {
    let request = serde_json::to_string_pretty(&json(query)).unwrap_or_default();
    let request = visible_json(&request);
    format!(
        "import {{ OracledClient }} from \"oracled-client\";\n\nconst oracled = new OracledClient();\n\
         const answer = await oracled.querySource({request});\nconsole.log(answer.body.response.records);\noracled.close();"
    )
}

fn python(query: &OracleQuery) -> String {
    // a JSON text is also a Python literal, except for these words
    let mut request = String::new();
    write_python(&json(query), &mut request);
    // the escapes of TOML are those of Python, too
    let request = visible_toml(&request);
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

    #[test]
    fn filter_link_of_a_value_is_read_back_as_one_filter() {
        for value in [
            "Krems",
            "Krems\nan der Donau",
            "a\r\nb",
            " Krems ",
            "~pattern",
            "a=b in c>1",
            "=",
            "\u{202e}x\u{e0041}",
            "1,000",
            "[\"a\"]",
        ] {
            let lines = ["year>=2000".to_owned(), equality_filter("station", value)];
            let fields = Fields::of([("filters", lines.join("\n"))]);
            let filters = parse_filters(&fields).expect("valid filters");
            let [_, filter] = filters.as_slice() else { panic!("{value:?}: {filters:?}") };
            let values = match &filter.value {
                Json::Array(values) => values.clone(),
                one => vec![one.clone()],
            };
            assert_eq!((filter.axis.as_str(), values), ("station", vec![json!(value)]), "{filter:?}");
            assert!(matches!(filter.operator, FilterOperator::Eq | FilterOperator::In), "{filter:?}");
            let query: OracleQuery = serde_json::from_value(json!({
                "oracle_id": "people", "request": {"axes_requested": ["level"], "filters": filters},
            }))
            .expect("a valid query");
            for code in [curl(Path::new("/run/o"), &query), node(&query), python(&query)] {
                assert_eq!(code.find(is_hiding), None, "{code}");
            }
        }
        assert_eq!(equality_filter("area", "ABW"), "area=ABW");
    }

    #[test]
    fn facts_of_a_subject_are_filtered_by_each_of_its_axes() {
        let source = "office-a".parse().expect("an id");
        let subject = [("area", "ABW"), ("year", "2000")];
        let subject = subject.map(|(axis, value)| (axis.to_owned(), AxisValue::Text(value.to_owned())));
        assert_eq!(
            subject_path(&source, &subject.into()),
            "/sources/office-a/query?filters=area%3DABW%0Ayear%3D2000"
        );
    }

    #[test]
    fn number_in_a_filter_can_have_the_separators_of_the_pages() {
        for (value, expected) in [
            (json!("2,324,201.61"), json!("2324201.61")),
            (json!("−1,500"), json!("-1500")),
            (json!("2000000"), json!("2000000")),
            (json!("1,5"), json!("1,5")),
            (json!(["2,000", "x"]), json!(["2000", "x"])),
        ] {
            assert_eq!(plain_value(&value), expected, "{value}");
        }
    }

    #[test]
    fn csv_file_has_formulas_as_text_and_numbers_as_numbers() {
        let text = |text: &str| Some(AxisValue::Text(text.to_owned()));
        let record = NormalizedRecord {
            record_id: "r-0".to_owned(),
            source_record_id: "r".to_owned(),
            axes: [("=name".to_owned(), text("=1+1")), ("change".to_owned(), text("-2.5"))].into(),
            units: BTreeMap::new(),
            definitions: BTreeMap::new(),
            valid_from: "2026-01-01T00:00:00Z".parse().expect("a time"),
            valid_until: None,
            unconfirmed_by: None,
        };
        let paths = ["=name", "change"].map(str::to_owned).to_vec();
        let csv = FactTable { paths, records: vec![record] }.to_csv().expect("CSV");
        assert_eq!(
            String::from_utf8(csv).expect("text"),
            "\"'=name\",\"change\",\"valid_from\",\"valid_until\",\"record_id\"\n\
             \"'=1+1\",-2.5,\"2026-01-01T00:00:00Z\",\"\",\"r-0\"\n"
        );
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
