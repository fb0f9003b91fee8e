//! `oraclectl query`.

use super::look::Look;
use super::output::{csv_of, json, on_one_line};
use super::{CtlError, Options};
use comfy_table::{Cell, Table};
use domain::ground::id::SourceId;
use domain::ground::moment::Moment;
use domain::ground::query::{
    NormalizedRecord, Operator, OracleQuery, QueryAnswer, QueryFilter, QueryRequest,
};
use hyper::Method;
use jiff::Timestamp;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::io::Write;

/// Asks a source; all pages of the answer, unless so many records are enough
#[derive(Debug, clap::Args)]
pub struct Query {
    /// Which source
    oracle_id: SourceId,
    /// What must hold of a record: `area=ABW`, `year>=2000`, `area_name~Aru` (contains), `area_name=~^A` (pattern), `area!=ABW`
    #[arg(value_name = "FILTER", value_parser = filter)]
    filters: Vec<QueryFilter>,
    /// Which axes to show; all of the source's where none is named
    #[arg(long, value_delimiter = ',', value_name = "AXIS,AXIS")]
    axes: Vec<String>,
    /// As it was valid then: a day or a time
    #[arg(long, value_name = "WHEN")]
    at: Option<Moment>,
    /// As it was known then: a day or a time
    #[arg(long, value_name = "WHEN")]
    known_at: Option<Moment>,
    /// How many records at the most
    #[arg(short = 'n', long, default_value_t = 100, value_name = "N")]
    limit: usize,
    /// Tell how it was answered
    #[arg(long)]
    explain: bool,
    /// Print a table for programs
    #[arg(long, conflicts_with = "json")]
    csv: bool,
}

/// A record with more values than this is shown by itself.
const COLUMNS_MAX: usize = 8;
/// The most records of one page.
const PAGE_MAX: usize = 10_000;

/// The operators as they are written, the longest first.
const OPERATORS: [(&str, Operator); 8] = [
    ("!=", Operator::Ne),
    (">=", Operator::Gte),
    ("<=", Operator::Lte),
    ("=~", Operator::Regex),
    ("=", Operator::Eq),
    (">", Operator::Gt),
    ("<", Operator::Lt),
    ("~", Operator::Contains),
];

/// The filter that is written `text`: several values with `=`, separated by commas, are one of them.
fn filter(text: &str) -> Result<QueryFilter, String> {
    let at = |(sign, operator): (&'static str, Operator)| Some((text.find(sign)?, sign, operator));
    let found =
        OPERATORS.into_iter().filter_map(at).min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()));
    let (at, sign, operator) =
        found.ok_or("a filter is AXIS, one of = != > >= < <= ~ =~, and a value; as in year>=2000")?;
    let (axis, value) = (text.get(..at).unwrap_or_default(), text.get(at + sign.len()..).unwrap_or_default());
    let several = operator == Operator::Eq && value.contains(',');
    let (operator, value) = if several {
        (Operator::In, value.split(',').map(|value| Json::String(value.trim().into())).collect())
    } else {
        (operator, Json::String(value.trim().into()))
    };
    Ok(QueryFilter { axis: axis.trim().into(), operator, value })
}

impl Query {
    pub(super) async fn run(&self, options: &Options, out: &mut dyn Write) -> Result<(), CtlError> {
        let axes =
            if self.axes.is_empty() { provided(options, &self.oracle_id).await? } else { self.axes.clone() };
        let mut request = QueryRequest {
            axes_requested: axes,
            filters: self.filters.clone(),
            point_in_time: self.at.map(|Moment(at)| at),
            known_at: self.known_at.map(|Moment(at)| at),
            max_results: Some(self.limit.clamp(1, PAGE_MAX)),
            explain: self.explain,
            ..QueryRequest::default()
        };
        let mut answer = ask(options, &self.oracle_id, &request).await?;
        while let Some(cursor) = answer.response.cursor.take() {
            let left = self.limit.saturating_sub(answer.response.records.len());
            if left == 0 {
                answer.response.cursor = Some(cursor);
                break;
            }
            request.cursor = Some(cursor);
            request.max_results = Some(left.min(PAGE_MAX));
            let page = ask(options, &self.oracle_id, &request).await?.response;
            let sofar = &mut answer.response;
            sofar.records.extend(page.records);
            sofar.query_metadata.records_scanned += page.query_metadata.records_scanned;
            sofar.query_metadata.records_returned += page.query_metadata.records_returned;
            sofar.cursor = page.cursor;
        }
        if options.json {
            return json(out, &answer);
        }
        let paths = paths(&answer.response.records);
        if self.csv {
            return self.csv(out, &answer, &paths);
        }
        show(out, &answer, &paths, Look::of_stdout())
    }

    fn csv(&self, out: &mut dyn Write, answer: &QueryAnswer, paths: &[String]) -> Result<(), CtlError> {
        let fixed = ["record_id", "source_record_id", "valid_from", "valid_until"].map(str::to_owned);
        let heading = fixed.into_iter().chain(paths.iter().cloned()).collect();
        let rows = answer.response.records.iter().map(|record| {
            let until = record.valid_until.map(|until| until.to_string()).unwrap_or_default();
            let fixed = [
                record.record_id.clone(),
                record.source_record_id.clone(),
                record.valid_from.to_string(),
                until,
            ];
            fixed.into_iter().chain(paths.iter().map(|path| value(record, path))).collect()
        });
        csv_of(out, heading, rows.collect())
    }
}

async fn ask(
    options: &Options,
    oracle_id: &SourceId,
    request: &QueryRequest,
) -> Result<QueryAnswer, CtlError> {
    let asked = OracleQuery { query_id: None, oracle_id: oracle_id.clone(), request: request.clone() };
    let body = serde_json::to_vec(&asked).map_err(std::io::Error::from)?;
    Ok(options.on_routes(Method::POST, "/v1/query", Some(body.into())).await?.json()?)
}

/// The axes that a source provides.
async fn provided(options: &Options, oracle_id: &SourceId) -> Result<Vec<String>, CtlError> {
    let sources: Vec<Json> = options.on_routes(Method::GET, "/v1/sources", None).await?.json()?;
    let source = sources
        .iter()
        .find(|source| source.get("oracle_id").and_then(Json::as_str) == Some(oracle_id.as_str()));
    let axes = source.and_then(|source| source.get("axes_provided")?.as_array());
    let names = axes.into_iter().flatten().filter_map(Json::as_str).map(str::to_owned).collect::<Vec<_>>();
    // one that is not there is refused by the daemon, which says so
    Ok(if names.is_empty() { vec!["*".into()] } else { names })
}

/// Every path that a record has a value at.
fn paths(records: &[NormalizedRecord]) -> Vec<String> {
    let all: BTreeSet<_> = records.iter().flat_map(|record| record.axes.keys()).collect();
    all.into_iter().cloned().collect()
}

fn value(record: &NormalizedRecord, path: &str) -> String {
    record.axes.get(path).map(ToString::to_string).unwrap_or_default()
}

/// Records for people, with where they come from and how old they are.
fn show(out: &mut dyn Write, answer: &QueryAnswer, paths: &[String], look: Look) -> Result<(), CtlError> {
    let response = &answer.response;
    let metadata = &response.query_metadata;
    match response.records.as_slice() {
        [] => writeln!(out, "no records")?,
        records if paths.len() > COLUMNS_MAX => {
            for record in records {
                writeln!(out, "{}\n", down(record, look))?;
            }
        }
        records => writeln!(out, "{}", across(records, paths, look))?,
    }
    let stale = metadata.freshness.policy.axes.iter().any(|axis| axis.stale);
    let days = metadata.freshness.staleness_seconds / 86_400;
    let age = format!("{days} days old{}", if stale { ", stale" } else { "" });
    let coloured = if look.colour { painted(&age, stale) } else { age };
    let (source, version) = (&answer.oracle_id, &metadata.data_version);
    writeln!(
        out,
        "{source}, {}, version {}: {coloured}",
        metadata.oracle_tier.as_str(),
        on_one_line(version)
    )?;
    for warning in &response.warnings {
        writeln!(out, "warning: {}", on_one_line(warning))?;
    }
    if response.cursor.is_some() {
        writeln!(out, "there are more: -n")?;
    }
    if let Some(explain) = &response.explain {
        let filters = if explain.filters.is_empty() { "none".into() } else { explain.filters.join(", ") };
        writeln!(
            out,
            "by {}, filters: {filters}, {} records looked at in {} files, {:.3} ms",
            explain.access, metadata.records_scanned, explain.files, metadata.latency_ms
        )?;
    }
    Ok(())
}

/// A record in each row.
fn across(records: &[NormalizedRecord], paths: &[String], look: Look) -> Table {
    let unit = |path: &String| records.iter().find_map(|record| record.units.get(path));
    let title = |path: &String| unit(path).map_or_else(|| path.clone(), |unit| format!("{path}\n{unit}"));
    let titles: Vec<_> = paths.iter().map(title).chain(["valid from".into(), "until".into()]).collect();
    let titles: Vec<_> = titles.iter().map(String::as_str).collect();
    let text: Vec<_> = (0..titles.len()).collect();
    let mut table = look.table(&titles, &text);
    for record in records {
        let values = paths.iter().map(|path| match (record.axes.get(path), record.definitions.get(path)) {
            (Some(value), Some(definition)) => format!("{value}\n({definition})"),
            (Some(value), None) => value.to_string(),
            (None, _) => "-".to_owned(),
        });
        table.add_row(values.chain(valid(record)).map(|text| cell(&text)).collect::<Vec<_>>());
    }
    table
}

/// A value in each row, of a record that has too many for one.
fn down(record: &NormalizedRecord, look: Look) -> Table {
    let [from, until] = valid(record);
    let title = format!("{}, valid from {from} until {until}", on_one_line(&record.source_record_id));
    let mut table = look.table(&[&title, "value", "unit"], &[0, 2]);
    for (path, value) in &record.axes {
        let unit = record.units.get(path).map_or("", String::as_str);
        let definition = record.definitions.get(path).map(|definition| format!(" ({definition})"));
        let value = format!("{value}{}", definition.unwrap_or_default());
        table.add_row([path.as_str(), &value, unit].map(cell));
    }
    table
}

/// From when until when a record is valid, by the day.
fn valid(record: &NormalizedRecord) -> [String; 2] {
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    [day(record.valid_from), record.valid_until.map_or_else(|| "now".into(), day)]
}

/// A cell of lines that were written by others.
fn cell(text: &str) -> Cell {
    Cell::new(text.lines().map(on_one_line).collect::<Vec<_>>().join("\n"))
}

/// In red what is stale, in green what is not.
fn painted(text: &str, stale: bool) -> String {
    let code = if stale { 31 } else { 32 };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_as_they_are_written() {
        let read = |text: &str| filter(text).map(|filter| (filter.axis, filter.operator, filter.value));
        let text = |value: &str| Json::String(value.into());
        assert_eq!(read("area=ABW"), Ok(("area".into(), Operator::Eq, text("ABW"))));
        assert_eq!(read("year>=2000"), Ok(("year".into(), Operator::Gte, text("2000"))));
        assert_eq!(read("year<2000"), Ok(("year".into(), Operator::Lt, text("2000"))));
        assert_eq!(read("name=~^A.*=x"), Ok(("name".into(), Operator::Regex, text("^A.*=x"))));
        assert_eq!(read("name~a=b"), Ok(("name".into(), Operator::Contains, text("a=b"))));
        assert_eq!(read("area != X"), Ok(("area".into(), Operator::Ne, text("X"))));
        let several = Json::Array(vec![text("ABW"), text("AFG")]);
        assert_eq!(read("area=ABW,AFG"), Ok(("area".into(), Operator::In, several)));
        assert!(read("area").is_err());
    }
}
