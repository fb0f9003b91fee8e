//! `oraclectl query`, and `oraclectl provenance` for one record of its answer.

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser, limit_parser};
use crate::base::output::{
    NO_END, Output, OutputStyle, format_pairs, format_table, print_csv_rows, print_json, print_note,
    row_limit, shorten_line, table_text, warn_of_omitted_rows,
};
use crate::base::program::examples;
use comfy_table::{ColumnConstraint, Table};
use domain_base::moment::{Moment, find_past_time, format_span};
use domain_base::text_form::visible_line;
use domain_ground::id::SourceId;
use domain_ground::query::{
    FilterOperator, NormalizedRecord, OracleQuery, QueryAnswer, QueryFilter, QueryFreshness, QueryRequest,
    QueryResponse, RecordAnswer, ValueHistory,
};
use domain_ground::record::RecordVerificationStatus;
use domain_ground::wire::{ProvenanceReport, SourceSummary, ValueHistoryRequest};
use hyper::Method;
use jiff::Timestamp;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::io::Write;

/// Query the records of a source
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl query wb-population area=MDA 'year>=2010'", "oraclectl query wb-population 'area in MDA,ROU' --axes year,population --at 2015-06-30 --csv", "oraclectl query wb-population area=MDA --known-at 2026-01-31 --explain", "oraclectl query wb-population area=MDA year=2015 --axes population --history"]))]
pub(crate) struct QueryArgs {
    /// The source
    oracle_id: SourceId,
    /// Conditions on records: `area=ABW`, `year>=2000`, `area_name~Aru` (contains), `area_name=~^A` (pattern),
    /// `area!=ABW`, `'area in ABW,AFG'` (one of them), `'name in ["Korea, Rep.","Japan"]'` (for values with a comma)
    #[arg(value_name = "FILTER", value_parser = parse_filter)]
    filters: Vec<QueryFilter>,
    /// Axes to show [default: all axes of the source]
    #[arg(long, value_delimiter = ',', value_name = "AXIS,AXIS")]
    axes: Vec<String>,
    /// Only records that are valid at this day or time
    #[arg(long, value_name = "WHEN")]
    at: Option<Moment>,
    /// Only data that the daemon had at this day or time
    #[arg(long, value_name = "WHEN")]
    known_at: Option<Moment>,
    /// Only the latest record of each subject: of the records that differ only on the last identity axis, for example a date
    #[arg(long)]
    latest: bool,
    /// Maximum number of records [default: 100, and all with --csv or --json]
    #[arg(short = 'n', long, value_name = "N", value_parser = limit_parser(usize::MAX))]
    limit: Option<usize>,
    /// Show how the query was answered
    #[arg(long)]
    explain: bool,
    /// Print CSV, for programs
    #[arg(long)]
    csv: bool,
    /// Show all states of one value instead: when each was valid, and when the daemon knew it so. Requires one axis, and a filter with `=`
    /// for each identity axis
    #[arg(long, requires = "axes", conflicts_with_all = ["at", "known_at", "latest", "limit", "explain", "csv"])]
    history: bool,
}

/// Maximum number of values in a row of the table; records with more are shown one by one.
const COLUMNS_MAX: usize = 8;
/// The columns after the values.
const FIXED: [&str; 3] = ["valid from", "until", "record"];
/// Maximum number of records on one page.
const PAGE_MAX: usize = 10_000;

/// The operators, the longest first.
const OPERATORS: [(&str, FilterOperator); 9] = [
    (" in ", FilterOperator::In),
    ("!=", FilterOperator::Ne),
    (">=", FilterOperator::Gte),
    ("<=", FilterOperator::Lte),
    ("=~", FilterOperator::Regex),
    ("=", FilterOperator::Eq),
    (">", FilterOperator::Gt),
    ("<", FilterOperator::Lt),
    ("~", FilterOperator::Contains),
];

/// Parses a filter: an axis, the first operator in the text, and a value, which is the rest.
pub(crate) fn parse_filter(text: &str) -> Result<QueryFilter, String> {
    let at = |(sign, operator): (&'static str, FilterOperator)| Some((text.find(sign)?, sign, operator));
    let found =
        OPERATORS.into_iter().filter_map(at).min_by_key(|(at, sign, _)| (*at, usize::MAX - sign.len()));
    let (at, sign, operator) = found.ok_or(
        "the filter has no operator; write AXIS, one of = != > >= < <= ~ =~ in, and a value, such as year>=2000 or 'area in ABW,AFG'",
    )?;
    let (axis, value) = (text.get(..at).unwrap_or_default(), text.get(at + sign.len()..).unwrap_or_default());
    let value =
        if operator == FilterOperator::In { parse_list(value)? } else { Json::String(value.trim().into()) };
    Ok(QueryFilter { axis: axis.trim().into(), operator, value })
}

/// Parses comma-separated values, or a JSON list.
fn parse_list(text: &str) -> Result<Json, String> {
    if !text.trim_start().starts_with('[') {
        return Ok(text.split(',').map(|value| Json::String(value.trim().into())).collect());
    }
    let list: Vec<Json> = serde_json::from_str(text)
        .map_err(|error| format!("the text after `in` begins with `[` and is not a JSON list: {error}"))?;
    Ok(list.into())
}

/// Whether a filter compares a text with letters, of which the case matters.
fn is_text_filter(filter: &QueryFilter) -> bool {
    let has_letters = |value: &Json| {
        value.as_str().is_some_and(|text| text.contains(|letter: char| letter.is_alphabetic()))
    };
    match &filter.value {
        Json::Array(values) => values.iter().any(has_letters),
        value => has_letters(value),
    }
}

impl QueryArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        if self.history {
            return self.show_history(options, out).await;
        }
        let SourceAxes { identity, axes } = read_source_axes(options, &self.oracle_id).await?;
        let axes_requested = if self.axes.is_empty() { axes } else { self.axes.clone() };
        let order: Vec<_> = identity.into_iter().chain(axes_requested.iter().cloned()).collect();
        let limit = row_limit(self.limit, options.json || self.csv);
        let mut request = QueryRequest {
            axes_requested,
            filters: self.filters.clone(),
            point_in_time: self.at.map(|Moment(at)| at),
            known_at: self.known_at.map(|Moment(at)| at),
            max_results: Some(limit.min(PAGE_MAX)),
            latest: self.latest,
            explain: self.explain,
            ..QueryRequest::default()
        };
        let mut answer = send_query(options, &self.oracle_id, &request).await?;
        while let Some(cursor) = answer.response.cursor.take() {
            let left = limit.saturating_sub(answer.response.records.len());
            if left == 0 {
                answer.response.cursor = Some(cursor);
                break;
            }
            request.cursor = Some(cursor);
            request.max_results = Some(left.min(PAGE_MAX));
            join(&mut answer.response, send_query(options, &self.oracle_id, &request).await?.response);
        }
        if answer.response.cursor.is_some() {
            warn_of_omitted_rows(None);
        }
        if options.json {
            return print_json(out, &answer);
        }
        if answer.response.records.is_empty()
            && let Some(cause) = self.explain_absence(&answer.response)
        {
            print_note(&format!("oraclectl: {cause}"));
        }
        let mut paths = value_paths(&answer.response.records, &order);
        if self.csv {
            if answer.response.records.is_empty() {
                paths = order;
            }
            // the output is for a program
            for warning in &answer.response.warnings {
                print_note(&format!("oraclectl: warning: {}", visible_line(warning)));
            }
            return self.print_csv(out, &answer, &paths);
        }
        show(out, &answer, &paths, &request, OutputStyle::for_stdout())
    }

    async fn show_history(&self, options: &GlobalOptions, out: &mut dyn Output) -> Result<(), CtlError> {
        let [axis] = self.axes.as_slice() else {
            return Err(CtlError::Verb {
                message: format!("--history shows one axis, and --axes names {}", self.axes.len()),
                exit_code: 2,
                was_printed: false,
            });
        };
        let request = ValueHistoryRequest { axis: axis.clone(), filters: self.filters.clone() };
        let history = read_value_history(options, &self.oracle_id, &request).await?;
        if options.json {
            print_json(out, &history)
        } else {
            Ok(writeln!(out, "{}", format_history(&history))?)
        }
    }

    /// The likely cause of an answer without records.
    fn explain_absence(&self, response: &QueryResponse) -> Option<String> {
        if response.query_metadata.data_version.is_empty() {
            let known = self.known_at.map(|Moment(at)| format!("that the daemon had at {at}"));
            let released = self.at.map(|Moment(at)| format!("that was released by {at}"));
            let limits: Vec<_> = known.into_iter().chain(released).collect();
            return Some(
                format!("{} has no release {}", self.oracle_id, limits.join(" and ")).trim_end().to_owned(),
            );
        }
        let has_text = self.filters.iter().any(is_text_filter);
        has_text.then(|| {
            "texts are compared exactly, also upper and lower case; `'AXIS=~(?i)TEXT'` ignores case"
                .to_owned()
        })
    }

    fn print_csv(
        &self,
        out: &mut dyn Output,
        answer: &QueryAnswer,
        paths: &[String],
    ) -> Result<(), CtlError> {
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
            fixed.into_iter().chain(paths.iter().map(|path| format_value(record, path))).collect()
        });
        print_csv_rows(out, heading, rows.collect())
    }
}

pub(crate) async fn read_value_history(
    options: &GlobalOptions,
    oracle_id: &SourceId,
    request: &ValueHistoryRequest,
) -> Result<ValueHistory, CtlError> {
    let path = format!("/v1/sources/{}/history", encode_segment(oracle_id.as_str()));
    let body = serde_json::to_vec(request).map_err(std::io::Error::from)?;
    Ok(options.call_control(Method::POST, &path, Some(body.into())).await?.json()?)
}

/// The values of a history, each with its periods of validity and of knowledge.
fn format_history(history: &ValueHistory) -> String {
    let title = visible_line(&history.title);
    if history.values.is_empty() {
        return format!("{title}: no records");
    }
    let end = |until: Option<Timestamp>| until.map_or_else(|| NO_END.to_owned(), format_moment);
    let rows = history.values.iter().map(|known| {
        [
            known.value.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            format_moment(known.valid_from),
            end(known.valid_until),
            format_moment(known.known_from),
            end(known.known_until),
            known.record_id.clone(),
        ]
    });
    let unit = history.unit.as_ref().map(|unit| format!(", {}", visible_line(unit))).unwrap_or_default();
    let heading = ["value", "valid from", "until", "known from", "until", "record"];
    format!("{title}{unit}\n{}", format_table(heading, rows.collect()))
}

pub(crate) async fn send_query(
    options: &GlobalOptions,
    oracle_id: &SourceId,
    request: &QueryRequest,
) -> Result<QueryAnswer, CtlError> {
    let query = OracleQuery { query_id: None, oracle_id: oracle_id.clone(), request: request.clone() };
    let body = serde_json::to_vec(&query).map_err(std::io::Error::from)?;
    Ok(options.call_routes(Method::POST, "/v1/query", Some(body.into())).await?.json()?)
}

/// The axes that a source provides, and its identity axes, in their order.
struct SourceAxes {
    identity: Vec<String>,
    axes: Vec<String>,
}

async fn read_source_axes(options: &GlobalOptions, oracle_id: &SourceId) -> Result<SourceAxes, CtlError> {
    let listed: Vec<SourceSummary> = options.call_routes(Method::GET, "/v1/sources", None).await?.json()?;
    let source = listed.into_iter().find(|source| source.entry.oracle_id() == oracle_id);
    // the daemon rejects an unknown source with its own error
    Ok(source.map_or_else(
        || SourceAxes { identity: Vec::new(), axes: vec!["*".into()] },
        |source| SourceAxes { identity: source.identity, axes: source.entry.registration.axes_provided },
    ))
}

/// The paths of all records, with or without a value, in the order of `axes`. The paths of a group are sorted by key.
pub(crate) fn value_paths(records: &[NormalizedRecord], axes: &[String]) -> Vec<String> {
    let all: BTreeSet<_> = records.iter().flat_map(|record| record.axes.keys()).collect();
    // a group without a value in any record is one path
    let has_members = |path: &String| all.iter().any(|other| *other != path && is_axis_of(path, other));
    let mut paths: Vec<_> =
        all.iter().filter(|path| !has_members(path)).map(|path| (*path).clone()).collect();
    paths.sort_by_key(|path| axes.iter().position(|axis| is_axis_of(axis, path)).unwrap_or(axes.len()));
    paths
}

/// Whether `path` belongs to the axis, or to the group of axes (`nutrients.*.amount`).
fn is_axis_of(axis: &str, path: &str) -> bool {
    let (axis, path) = (axis.split('.'), path.split('.'));
    axis.clone().count() == path.clone().count()
        && axis.zip(path).all(|(axis, path)| axis == "*" || axis == path)
}

pub(crate) fn format_value(record: &NormalizedRecord, path: &str) -> String {
    record.axes.get(path).and_then(Option::as_ref).map(ToString::to_string).unwrap_or_default()
}

/// Prints records for people, with their source and current age. For a question about the past, the freshness policy
/// judges the age at that time, so the output names the time of each age.
fn show(
    out: &mut dyn Write,
    answer: &QueryAnswer,
    paths: &[String],
    request: &QueryRequest,
    look: OutputStyle,
) -> Result<(), CtlError> {
    let response = &answer.response;
    let metadata = &response.query_metadata;
    if response.records.is_empty() {
        writeln!(out, "no records")?;
    } else if let Some(table) = record_table(&response.records, paths, look) {
        writeln!(out, "{}", table_text(&table))?;
    } else {
        for record in &response.records {
            writeln!(out, "{}", format_record(record, paths))?;
        }
    }
    let policy = &metadata.freshness.policy;
    let stale = policy.axes.iter().any(|axis| axis.stale);
    let past = find_past_time(request.point_in_time, request.known_at, metadata.executed_at);
    let now = if past.is_some() { " now" } else { "" };
    let then = past.map(|past| format!(" at {past}")).unwrap_or_default();
    let age = metadata.freshness.staleness_seconds;
    let age = age.map_or_else(|| "no release".into(), |age_s| format!("{} old{now}", format_span(age_s)));
    let age = if stale { format!("{age}, stale{then}") } else { age };
    let colored = look.paint(&age, !stale);
    let (source, version) = (&answer.oracle_id, &metadata.data_version);
    let version = if version.is_empty() { "none" } else { version };
    writeln!(
        out,
        "{source}, {}, version {}: {colored}",
        metadata.oracle_tier.into_str(),
        visible_line(version)
    )?;
    for warning in &response.warnings {
        let then = if policy.warnings.contains(warning) { then.as_str() } else { "" };
        writeln!(out, "warning{then}: {}", visible_line(warning))?;
    }
    if let Some(explain) = &response.explain {
        let filters = if explain.filters.is_empty() { "none".into() } else { explain.filters.join(", ") };
        writeln!(
            out,
            "by {}, filters: {filters}, records scanned: {}, files: {}, {:.3} ms",
            explain.access, metadata.records_scanned, explain.files, metadata.latency_ms
        )?;
    }
    Ok(())
}

/// A table with one record per row; `None` if there are too many values or the terminal is too narrow.
fn record_table(records: &[NormalizedRecord], paths: &[String], look: OutputStyle) -> Option<Table> {
    if paths.len() > COLUMNS_MAX {
        return None;
    }
    let unit = |path: &String| records.iter().find_map(|record| record.units.get(path));
    let title = |path: &String| unit(path).map_or_else(|| path.clone(), |unit| format!("{path}\n{unit}"));
    let titles: Vec<_> = paths.iter().map(title).chain(FIXED.map(str::to_owned)).collect();
    let titles: Vec<_> = titles.iter().map(String::as_str).collect();
    let row = |record: &NormalizedRecord| {
        let values = paths.iter().map(|path| {
            let value = record.axes.get(path).and_then(Option::as_ref);
            match (value, record.definitions.get(path)) {
                (Some(value), Some(definition)) => {
                    format!("{}\n({})", visible_line(&value.to_string()), visible_line(definition))
                }
                (Some(value), None) => visible_line(&value.to_string()).into_owned(),
                (None, _) => "-".to_owned(),
            }
        });
        let [from, until] = format_validity(record);
        values.chain([from, until, record.record_id.clone()]).collect()
    };
    let mut table = look.data_table(&titles, records.iter().map(row).collect())?;
    // the id stays unbroken so that it can be copied
    table.column_mut(titles.len() - 1)?.set_constraint(ColumnConstraint::ContentWidth);
    Some(table)
}

/// One record, with one value per line.
fn format_record(record: &NormalizedRecord, paths: &[String]) -> String {
    let [from, until] = format_validity(record);
    let valid = [("valid from", from), ("until", until), ("record", record.record_id.clone())];
    let values = paths.iter().filter_map(|path| {
        let Some(value) = record.axes.get(path)? else { return Some((path.as_str(), "-".to_owned())) };
        let unit = record.units.get(path).map(|unit| format!(" {unit}")).unwrap_or_default();
        let definition = record.definitions.get(path).map(|definition| format!(" ({definition})"));
        Some((path.as_str(), format!("{value}{unit}{}", definition.unwrap_or_default())))
    });
    format_pairs(&values.chain(valid).collect::<Vec<_>>())
}

/// The start and the end of a record's validity.
pub(crate) fn format_validity(record: &NormalizedRecord) -> [String; 2] {
    let until = record.valid_until.map_or_else(|| NO_END.to_owned(), format_moment);
    [format_moment(record.valid_from), until]
}

/// A time. Midnight is shown as a day, which is also a valid argument.
fn format_moment(at: Timestamp) -> String {
    let written = at.to_string();
    written.strip_suffix("T00:00:00Z").map(str::to_owned).unwrap_or(written)
}

/// Appends `page`, the page after `joined`. The result has the versions and warnings of both. It has the
/// freshness and the tier of the worse one, and that one's policy report on single axes.
pub(crate) fn join(joined: &mut QueryResponse, mut page: QueryResponse) {
    let cursor = page.cursor.take();
    let (before, after) = (&joined.query_metadata, &page.query_metadata);
    let records_scanned = before.records_scanned + after.records_scanned;
    let records_returned = before.records_returned + after.records_returned;
    let latency_ms = before.latency_ms + after.latency_ms;
    // the freshness of a page without records does not matter
    if joined.records.is_empty() {
        *joined = page;
    } else if !page.records.is_empty() {
        joined.records.append(&mut page.records);
        join_metadata(joined, page);
    }
    let metadata = &mut joined.query_metadata;
    (metadata.records_scanned, metadata.records_returned) = (records_scanned, records_returned);
    metadata.latency_ms = latency_ms;
    joined.cursor = cursor;
}

fn join_metadata(joined: &mut QueryResponse, page: QueryResponse) {
    let own_warnings = |response: &QueryResponse| {
        let of_age = &response.query_metadata.freshness.policy.warnings;
        response.warnings.iter().filter(|warning| !of_age.contains(warning)).cloned().collect::<Vec<_>>()
    };
    let mut warnings = own_warnings(joined);
    warnings.extend(own_warnings(&page).into_iter().filter(|warning| !joined.warnings.contains(warning)));
    let (metadata, other) = (&mut joined.query_metadata, page.query_metadata);
    let known: Vec<_> = metadata.data_version.split(", ").collect();
    let new: Vec<_> = other.data_version.split(", ").filter(|version| !known.contains(version)).collect();
    metadata.data_version = [known, new].concat().join(", ");
    metadata.oracle_tier = metadata.oracle_tier.min(other.oracle_tier);
    let data_as_of = metadata.freshness.data_as_of.max(other.freshness.data_as_of);
    if staleness_rank(&other.freshness) > staleness_rank(&metadata.freshness) {
        metadata.freshness = other.freshness;
    }
    metadata.freshness.data_as_of = data_as_of;
    warnings.extend(metadata.freshness.policy.warnings.iter().cloned());
    joined.warnings = warnings;
}

/// Orders freshness from better to worse: by the outcome of the policy, the number of stale axes, and the age.
fn staleness_rank(freshness: &QueryFreshness) -> impl Ord + use<> {
    let stale = freshness.policy.axes.iter().filter(|axis| axis.stale).count();
    (freshness.policy.answer, stale, freshness.staleness_seconds)
}

/// Maximum length of a raw record, in characters.
const RAW_MAX_CHARS: usize = 1000;

/// Show the origin of a record, down to the bytes of its source
#[derive(Debug, clap::Args)]
pub(crate) struct ProvenanceArgs {
    /// The id of the record, as a query returns it
    #[arg(value_parser = id_parser())]
    record_id: String,
}

impl ProvenanceArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let path = format!("/v1/records/{}", encode_segment(&self.record_id));
        let report: ProvenanceReport =
            options.call_control(Method::GET, &format!("{path}/provenance"), None).await?.json()?;
        if options.json {
            return print_json(out, &report);
        }
        // a source that cannot be queried returns no record, but its provenance is still available
        let record: Option<RecordAnswer> =
            options.call_routes(Method::GET, &path, None).await.ok().and_then(|answer| answer.json().ok());
        Ok(out.write_all(format_pairs(&format_provenance(&report, record.as_ref())).as_bytes())?)
    }
}

fn format_provenance(
    report: &ProvenanceReport,
    record: Option<&RecordAnswer>,
) -> Vec<(&'static str, String)> {
    let ProvenanceReport { provenance: chain, raw_text, raw_fault } = report;
    let mut shown = vec![
        ("record", format!("{}, which the source calls {}", chain.record_id, chain.source_record_id)),
        ("source", format!("{}, version {}", chain.oracle_id, chain.source_version)),
    ];
    if let Some(record) = record {
        let values = record.record.values().into_iter().map(|(path, value)| {
            let unit = record.record.units.get(&path).map(|unit| format!(" {unit}")).unwrap_or_default();
            format!("{path} {value}{unit}")
        });
        let standing =
            serde_json::to_value(record.standing).ok().and_then(|word| word.as_str().map(str::to_owned));
        if !chain.pruned {
            shown.push(("values", values.collect::<Vec<_>>().join(", ")));
        }
        shown.push(("standing", standing.unwrap_or_default()));
        shown.extend(record.warnings.iter().map(|warning| ("warning", warning.clone())));
    }
    if chain.pruned {
        shown.push(("values", "pruned; only the hashes and times are kept".into()));
    }
    let until = chain.valid_until.map_or_else(|| format!(", {NO_END}"), |until| format!(" until {until}"));
    shown.push(("valid", format!("from {}{until}", chain.valid_from)));
    shown.extend(chain.superseded_by.clone().map(|by| ("superseded by", by)));
    let unconfirmed = chain.unconfirmed_by.as_ref();
    shown.extend(unconfirmed.map(|by| {
        ("unconfirmed", format!("by version {by}, which rejected this record or an unreadable one"))
    }));
    shown.extend([
        ("known since", chain.ingested_at.to_string()),
        ("pipeline", chain.ingestion_pipeline_id.to_string()),
        ("run", chain.ingestion_run_id.to_string()),
    ]);
    shown.extend(chain.source_url.clone().map(|url| ("pulled from", url)));
    let status = match chain.verification_status {
        RecordVerificationStatus::Unverified => "unverified: ingestion noted a warning",
        RecordVerificationStatus::AutoVerified => "by the schema and checks of its pipeline",
    };
    let raw = &chain.raw;
    shown.extend([
        ("verified", status.to_owned()),
        ("transformations", chain.transformations_applied.join(", ")),
        ("raw hash", chain.raw_hash.to_string()),
        ("raw location", format!("{} bytes from byte {} of {}", raw.len, raw.offset, raw.raw_sha256)),
    ]);
    shown.extend(raw_text.as_ref().map(|text| ("raw record", shorten_line(text, RAW_MAX_CHARS))));
    shown.extend(raw_fault.as_ref().map(|fault| ("raw record", format!("cannot be read: {fault}"))));
    shown.extend(chain.normalized_hash.as_ref().map(|hash| ("normalized hash", hash.to_string())));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain_ground::source::OracleTier;
    use serde_json::json;

    #[test]
    fn filter_parses_axis_operator_and_value() {
        let read = |text: &str| parse_filter(text).map(|filter| (filter.axis, filter.operator, filter.value));
        let text = |value: &str| Json::String(value.into());
        assert_eq!(read("area=ABW"), Ok(("area".into(), FilterOperator::Eq, text("ABW"))));
        assert_eq!(read("year>=2000"), Ok(("year".into(), FilterOperator::Gte, text("2000"))));
        assert_eq!(read("year<2000"), Ok(("year".into(), FilterOperator::Lt, text("2000"))));
        assert_eq!(read("name=~^A.*=x"), Ok(("name".into(), FilterOperator::Regex, text("^A.*=x"))));
        assert_eq!(read("name~a=b"), Ok(("name".into(), FilterOperator::Contains, text("a=b"))));
        assert_eq!(read("area != X"), Ok(("area".into(), FilterOperator::Ne, text("X"))));
        assert_eq!(read("name=Korea, Rep."), Ok(("name".into(), FilterOperator::Eq, text("Korea, Rep."))));
        assert_eq!(read("name=Food in cans"), Ok(("name".into(), FilterOperator::Eq, text("Food in cans"))));
        let several = Json::Array(vec![text("ABW"), text("AFG")]);
        assert_eq!(read("area in ABW, AFG"), Ok(("area".into(), FilterOperator::In, several)));
        let several = Json::Array(vec![text("Korea, Rep."), 7.into()]);
        assert_eq!(read(r#"name in ["Korea, Rep.", 7]"#), Ok(("name".into(), FilterOperator::In, several)));
        for bad in ["area", "name in [\"Korea"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn filter_with_letters_compares_text() {
        for (text, expected) in [
            ("mountain=k2", true),
            ("city in 1,Zürich", true),
            ("year>=2000", false),
            ("day=2024-01-31", false),
            ("year in 1999,2000", false),
        ] {
            let filter = parse_filter(text).expect("a valid filter");
            assert_eq!(is_text_filter(&filter), expected, "{text}");
        }
    }

    fn record(from: &str, until: Option<&str>) -> NormalizedRecord {
        let json = json!({
            "record_id": "0123456789abcdef-7", "source_record_id": "x",
            "axes": {"area": "MDA", "gases.b.share": "2", "gases.a.share": "1", "mass": "5", "year": "2015"},
            "units": {"mass": "kg"}, "definitions": {"mass": "dry"},
            "valid_from": from, "valid_until": until,
        });
        serde_json::from_value(json).expect("a valid record")
    }

    #[test]
    fn values_are_in_request_order_and_groups_by_key() {
        let axes = ["year", "area", "mass", "gases.*.share"].map(str::to_owned);
        let paths = value_paths(&[record("2020-01-01T00:00:00Z", None)], &axes);
        assert_eq!(paths, ["year", "area", "mass", "gases.a.share", "gases.b.share"]);
    }

    #[test]
    fn empty_axis_is_shown_as_a_dash_and_an_empty_group_once() {
        let mut empty = record("2020-01-01T00:00:00Z", None);
        empty.axes = [("mass".to_owned(), None), ("gases.*.share".to_owned(), None)].into();
        let axes = ["mass", "gases.*.share"].map(str::to_owned);
        assert_eq!(value_paths(std::slice::from_ref(&empty), &axes), axes);
        assert!(
            format_record(&empty, &axes).starts_with("mass           -\ngases.*.share  -\n"),
            "{}",
            format_record(&empty, &axes)
        );
        let both = value_paths(&[empty, record("2020-01-01T00:00:00Z", None)], &axes);
        assert_eq!(both.get(..3), Some(&["mass", "gases.a.share", "gases.b.share"].map(str::to_owned)[..]));
    }

    #[test]
    fn midnight_is_shown_as_a_day_and_other_times_in_full() {
        let valid_in = |from, until| format_validity(&record(from, until));
        assert_eq!(
            valid_in("2020-01-01T00:00:00Z", Some("2020-01-01T10:30:00Z")),
            ["2020-01-01", "2020-01-01T10:30:00Z"]
        );
        assert_eq!(valid_in("2020-01-01T00:00:01Z", None), ["2020-01-01T00:00:01Z", NO_END]);
    }

    #[test]
    fn staleness_is_shown_with_the_past_time_at_which_it_was_judged() {
        let (early, late, future) = ("2020-01-01T00:00:00Z", "2024-06-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let axis = json!({"axis": "size", "age_seconds": 9, "max_age_seconds": 5, "stale": true,
            "stale_behavior": "serve_stale_with_warning"});
        let response = json!({
            "cursor": null, "records": [], "warnings": ["old"],
            "query_metadata": {
                "query_id": "q", "executed_at": "2026-01-01T00:00:00Z", "latency_ms": 0.5, "records_scanned": 0,
                "records_returned": 0, "data_version": "1", "known_at": null, "oracle_tier": "primary",
                "freshness": {
                    "data_as_of": early, "staleness_seconds": 9, "axes": [axis],
                    "answer": "serve_with_warnings", "warnings": ["old"], "refresh": false,
                },
            },
        });
        let answer = json!({"query_id": "q", "oracle_id": "office", "response": response});
        let answer: QueryAnswer = serde_json::from_value(answer).expect("a valid answer");
        for (at, known_at, judged_at) in [
            (None, None, None),
            (Some(late), Some(early), Some(early)),
            (None, Some(early), Some(early)),
            (Some(future), None, None),
        ] {
            let time = |text: Option<&str>| text.map(|text| text.parse().expect("a time"));
            let request =
                QueryRequest { point_in_time: time(at), known_at: time(known_at), ..QueryRequest::default() };
            let mut out = Vec::new();
            show(&mut out, &answer, &[], &request, OutputStyle::new(100, false))
                .expect("a write to memory succeeds");
            let out = String::from_utf8(out).expect("the output is UTF-8");
            let (now, then) = judged_at.map_or(Default::default(), |at| (" now", format!(" at {at}")));
            let expected = format!(": 9 seconds old{now}, stale{then}\nwarning{then}: old\n");
            assert!(out.ends_with(&expected), "{at:?} {known_at:?}: {out}");
        }
    }

    #[test]
    fn record_too_wide_for_a_row_is_shown_alone_with_its_id() {
        let paths = ["year", "mass"].map(str::to_owned);
        let records = [record("2020-01-01T00:00:00Z", None)];
        let table = record_table(&records, &paths, OutputStyle::new(60, false)).expect("the table fits");
        assert!(
            table_text(&table)
                .ends_with(" 2015  5      2020-01-01  no end  0123456789abcdef-7\n       (dry)"),
            "{table}"
        );
        assert!(record_table(&records, &paths, OutputStyle::new(40, false)).is_none());
        let alone = "year        2015\nmass        5 kg (dry)\nvalid from  2020-01-01\nuntil       no end\nrecord      0123456789abcdef-7\n";
        assert_eq!(format_record(&records[0], &paths), alone);
    }

    /// A page of these records, released on `day`. Unless `answer` is `serve`, it has a warning about its age.
    fn page(records: &[&str], day: &str, answer: &str, age_s: u64, more: Option<&str>) -> QueryResponse {
        let stale = answer != "serve";
        let old: Vec<_> = stale.then(|| format!("`size` is {age_s} s old")).into_iter().collect();
        let record = |id: &&str| json!({"record_id": id, "source_record_id": id, "axes": {}, "valid_from": "2020-01-01T00:00:00Z", "valid_until": null});
        let records: Vec<_> = records.iter().map(record).collect();
        let warnings: Vec<_> = ["it is deprecated".to_owned()].into_iter().chain(old.clone()).collect();
        let axis = json!({"axis": "size", "age_seconds": age_s, "max_age_seconds": 5, "stale": stale, "stale_behavior": "degrade_tier"});
        let page = json!({
            "query_metadata": {
                "query_id": "q", "executed_at": "2026-01-01T00:00:00Z", "latency_ms": 0.5, "records_scanned": 10,
                "records_returned": records.len(), "data_version": day, "known_at": null,
                "oracle_tier": if answer == "degrade_tier" { "secondary" } else { "primary" },
                "freshness": {
                    "data_as_of": format!("{day}T00:00:00Z"), "staleness_seconds": age_s, "axes": [axis],
                    "answer": answer, "warnings": old, "refresh": stale,
                },
            },
            "records": records, "cursor": more, "warnings": warnings,
        });
        serde_json::from_value(page).expect("a page")
    }

    #[test]
    fn absent_records_are_explained_by_a_missing_release_before_the_case_of_texts() {
        let arguments = |known_at: Option<&str>| QueryArgs {
            oracle_id: "office".parse().expect("a valid id"),
            filters: vec![parse_filter("area=Aruba").expect("a valid filter")],
            axes: Vec::new(),
            at: None,
            known_at: known_at.map(|at| at.parse().expect("a time")),
            latest: false,
            limit: None,
            explain: false,
            csv: false,
            history: false,
        };
        let mut empty = page(&[], "2020-02-01", "serve", 3, None);
        let texts = arguments(None).explain_absence(&empty).expect("a cause");
        assert!(texts.starts_with("texts are compared exactly"), "{texts}");
        empty.query_metadata.data_version.clear();
        assert_eq!(arguments(None).explain_absence(&empty).as_deref(), Some("office has no release"));
        let known = arguments(Some("2019-01-01")).explain_absence(&empty);
        assert_eq!(
            known.as_deref(),
            Some("office has no release that the daemon had at 2019-01-01T00:00:00Z")
        );
    }

    #[test]
    fn history_shows_each_value_with_both_periods() {
        let known = |value: Option<&str>, until: Option<&str>| {
            json!({"record_id": "0123456789abcdef-7", "valid_from": "2020-01-01T00:00:00Z", "valid_until": null,
                "known_from": "2020-02-01T10:00:00Z", "known_until": until, "value": value})
        };
        let values = [known(Some("5"), Some("2020-03-01T00:00:00Z")), known(None, None)];
        let history = json!({"title": "Mass, Aruba", "unit": "kg", "values": values});
        let shown = format_history(&serde_json::from_value(history).expect("a history"));
        assert_eq!(shown.lines().next(), Some("Mass, Aruba, kg"));
        let count = |word: &str| shown.split_whitespace().filter(|shown| *shown == word).count();
        let counts =
            ["5", "-", "2020-01-01", "2020-02-01T10:00:00Z", "2020-03-01", "0123456789abcdef-7"].map(count);
        assert_eq!(counts, [1, 1, 2, 2, 1, 2], "{shown}");
        let none = ValueHistory { title: "Mass".into(), unit: None, values: Vec::new() };
        assert_eq!(format_history(&none), "Mass: no records");
    }

    #[test]
    fn joined_pages_have_the_freshness_and_tier_of_the_worst_page() {
        let mut all = page(&["a", "b"], "2020-02-01", "serve", 3, Some("01"));
        join(&mut all, page(&["c"], "2020-01-01", "degrade_tier", 9, Some("02")));
        join(&mut all, page(&["d"], "2020-02-01", "serve_with_warnings", 8, Some("03")));
        join(&mut all, page(&[], "2020-03-01", "serve", 1, None));
        let ids: Vec<_> = all.records.iter().map(|record| record.record_id.as_str()).collect();
        assert_eq!((ids, &all.cursor), (vec!["a", "b", "c", "d"], &None));
        let metadata = &all.query_metadata;
        assert_eq!((metadata.records_scanned, metadata.records_returned), (40, 4));
        assert_eq!(metadata.data_version, "2020-02-01, 2020-01-01");
        assert_eq!(metadata.oracle_tier, OracleTier::Secondary);
        let freshness = &metadata.freshness;
        assert_eq!(freshness.staleness_seconds, Some(9));
        assert_eq!(freshness.data_as_of, "2020-02-01T00:00:00Z".parse().ok(), "the newest of them");
        assert_eq!(all.warnings, ["it is deprecated", "`size` is 9 s old"]);
    }

    #[test]
    fn page_without_records_does_not_affect_the_joined_freshness() {
        let mut all = page(&[], "2020-03-01", "serve", 1, Some("01"));
        join(&mut all, page(&["a"], "2020-01-01", "serve_with_warnings", 9, None));
        assert_eq!((all.records.len(), all.query_metadata.data_version.as_str()), (1, "2020-01-01"));
        assert_eq!(all.warnings, ["it is deprecated", "`size` is 9 s old"]);
        assert_eq!((all.query_metadata.records_scanned, all.cursor), (20, None));
    }
}
