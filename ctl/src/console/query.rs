//! A query of a source, with its answer and its code.

use super::layout::{PageError, PageResult, pairs, table};
use super::{Console, ConsoleState};
use crate::base::options::encode_segment;
use crate::console::layout::Fields;
use crate::console::source::{read_source, result_page};
use crate::ground::query::{format_validity, format_value, parse_filter, send_query, value_paths};
use axum::extract::{self, State};
use domain_base::moment::{Moment, format_span};
use domain_ground::query::{OracleQuery, QueryAnswer, QueryFilter, QueryRequest};
use domain_ground::wire::SourceSummary;
use maud::{Markup, html};
use std::path::Path;

/// Maximum number of records on the page.
const RECORDS: usize = 100;

pub(super) async fn page(
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
