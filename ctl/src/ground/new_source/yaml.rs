//! The documents of a new source as YAML, with a comment at each line that its author must check.

use super::columns::SampleColumn;
use super::notation::ValueForm;
use super::remark::{RemarkPlace, SourceRemark};
use super::sample::Sample;
use crate::ground::document_files::is_plain_text;
use crate::ground::new_source::columns::FoundColumns;
use domain_base::moment::PeriodLength;
use domain_ground::freshness::FreshnessPolicy;
use domain_ground::id::SourceId;
use domain_ground::source::UpdateFrequency;
use domain_verification::workflow::AXES_MAX;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The parts of the documents.
pub(super) struct NewDocuments<'s> {
    pub(super) id: &'s SourceId,
    /// The name of the sample's file.
    pub(super) file: String,
    pub(super) sample: &'s Sample,
    pub(super) found: &'s FoundColumns,
    /// The trust in the publisher, if it was given.
    pub(super) tier: Option<&'s str>,
}

/// A text or a value in YAML. JSON is a part of YAML, except for characters that YAML requires to be escaped.
fn quoted(value: &(impl Serialize + ?Sized)) -> String {
    let json = serde_json::to_string(value).unwrap_or_default();
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if is_escaped(character) {
            text.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            text.push(character);
        }
    }
    text
}

/// Whether YAML has a character in no text, or reads it as a line end: control characters, separators of lines, a byte-order mark,
/// and two that are no characters.
fn is_escaped(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// The name of an axis, in quotes if YAML reads it as another value, such as `null`.
fn axis_name(column: &SampleColumn) -> String {
    plain_or_quoted(&column.axis)
}

fn plain_or_quoted(axis: &str) -> String {
    if is_plain_text(axis) { axis.to_owned() } else { quoted(axis) }
}

/// The remarks as comments on lines of their own.
fn comment_lines<'r>(remarks: impl IntoIterator<Item = &'r SourceRemark>, indent: &str) -> String {
    remarks.into_iter().map(|remark| format!("{indent}# {remark}\n")).collect()
}

/// The remarks on a column at this place as a comment at the end of a line.
fn line_comment(column: &SampleColumn, place: RemarkPlace) -> String {
    let remarks = column.remarks.iter().filter(|remark| remark.place() == place);
    let remarks: Vec<_> = remarks.map(ToString::to_string).collect();
    if remarks.is_empty() { String::new() } else { format!("  # {}", remarks.join("; ")) }
}

impl<'s> NewDocuments<'s> {
    /// All remarks, with the axis if they concern one.
    pub(super) fn remarks(&self) -> Vec<(Option<&'s str>, SourceRemark)> {
        let of_source =
            self.sample.remarks.iter().chain(&self.found.remarks).cloned().chain(self.found.no_axis());
        let mut all: Vec<_> = of_source.map(|remark| (None, remark)).collect();
        for column in &self.found.columns {
            all.extend(column.remarks.iter().map(|remark| (Some(column.axis.as_str()), remark.clone())));
        }
        all
    }

    /// The ontology, the source, its freshness policy and its pipeline; a trusted source also gets a workflow.
    pub(super) fn to_yaml(&self) -> Result<String, std::fmt::Error> {
        let mut text = format!(
            "# Documents for {}. Check the lines with a comment, and correct them.\n",
            self.file.escape_debug()
        );
        self.write_ontology(&mut text)?;
        self.write_source(&mut text)?;
        self.write_pipeline(&mut text)?;
        if self.tier.is_some() {
            self.write_workflow(&mut text)?;
        }
        // such characters can still be in comments
        let is_unreadable = |character: char| is_escaped(character) && character != '\n';
        Ok(text.replace(is_unreadable, "\u{fffd}"))
    }

    /// The axes that a verification can have.
    pub(super) fn verified_axes(&self) -> impl Iterator<Item = &str> {
        let is_verified = |column: &&SampleColumn| !column.is_identity && column.group.is_none();
        self.found.columns.iter().filter(is_verified).map(|column| column.axis.as_str())
    }

    fn write_ontology(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "ontology_id: {}\nversion: \"1\"\naxes:", quoted(self.id))?;
        if self.found.has_identity {
            writeln!(
                text,
                "  # the axes with `identity` identify a record; in the sample, their values occur once"
            )?;
        }
        text.push_str(&comment_lines(&self.found.remarks, "  "));
        // the digits of a sample do not show which difference is allowed: a `precision` from them could accept a wrong claim
        if self.found.columns.iter().any(|column| !column.is_identity && column.form.is_number()) {
            writeln!(
                text,
                "  # a verification compares numbers exactly; `precision` (digits after the point) or `relative_tolerance` of an axis allows a difference"
            )?;
        }
        for column in &self.found.columns {
            let mut parts =
                vec![format!("axis: {}", axis_name(column)), format!("type: {}", self.axis_type(column))];
            parts.extend(column.unit_code.as_ref().map(|code| format!("unit: {}", quoted(code))));
            if column.is_identity {
                parts.push("identity: true".to_owned());
            }
            writeln!(
                text,
                "  - {{{}, class: measured, description: {}}}{}",
                parts.join(", "),
                quoted(&column.description),
                line_comment(column, RemarkPlace::Axis)
            )?;
        }
        Ok(())
    }

    fn write_source(&self, text: &mut String) -> std::fmt::Result {
        let id = quoted(self.id);
        let axes: Vec<_> = self.found.columns.iter().map(axis_name).collect();
        let frequency = self.update_frequency();
        let policy = FreshnessPolicy::default_for(self.id.clone(), frequency, &[]);
        let days = policy.default_max_age_seconds / 86_400;
        let tier = self.tier.unwrap_or(
            "unverified  # your trust in the publisher; `oraclectl new source --tier` sets it. Such a source cannot decide a verification",
        );
        write!(
            text,
            "---
oracle_id: {id}
oracle_name: {id}  # the name of the data, for readers
oracle_tier: {tier}
upstream_authority: unknown  # the publisher
upstream_url: https://example.org/  # the address where the data is published
data_license: unknown  # the license of the data
domain: {id}  # the subject area
ontology: {{ontology_id: {id}, version: \"1\"}}
axes_provided: [{}]
update_frequency: {}  # realtime, daily, weekly, monthly, quarterly, annual, static or on_demand
adapter_id: store
snapshot: true  # each file has all records, so that a record that is missing in a later file is withdrawn; else false
---
kind: freshness_policy
oracle_id: {id}
default_max_age_seconds: {}  # {days} days: older values are stale
default_stale_behavior: serve_stale_with_warning  # or fail_closed
invalidation_triggers: [{{trigger_type: version_change, config: {{}}}}]
",
            axes.join(", "),
            quoted(&frequency).trim_matches('"'),
            policy.default_max_age_seconds,
        )
    }

    /// How often a new file is probably published: as often as its periods.
    fn update_frequency(&self) -> UpdateFrequency {
        let mut lengths =
            self.found.columns.iter().filter(|column| column.is_identity).filter_map(|column| match &column
                .form
            {
                ValueForm::Period { length, .. } => Some(*length),
                _ => None,
            });
        match lengths.next_back() {
            Some(PeriodLength::Year) => UpdateFrequency::Annual,
            Some(PeriodLength::Quarter) => UpdateFrequency::Quarterly,
            Some(PeriodLength::Month) => UpdateFrequency::Monthly,
            None => UpdateFrequency::OnDemand,
        }
    }

    fn write_pipeline(&self, text: &mut String) -> std::fmt::Result {
        let Sample { compression, encoding, format, remarks, records, .. } = self.sample;
        let id = quoted(self.id);
        writeln!(
            text,
            "---\npipeline:\n  pipeline_id: {id}\n  oracle_id: {id}\n  retrieval:\n    method: manual_upload"
        )?;
        if let Some(compression) = compression {
            writeln!(text, "    compression: {}", quoted(compression))?;
        }
        let (of_encoding, of_format): (Vec<_>, Vec<_>) =
            remarks.iter().partition(|remark| matches!(remark, SourceRemark::EncodingGuessed { .. }));
        text.push_str(&comment_lines(of_encoding, "    "));
        if !encoding.is_utf_8() {
            writeln!(text, "    encoding: {}", quoted(encoding))?;
        }
        text.push_str(&comment_lines(of_format, "    "));
        writeln!(text, "    format: {}", quoted(format))?;
        writeln!(text, "  validation: {{reject_on_schema_fail: true}}\n  gates:")?;
        writeln!(
            text,
            "    max_rejected_ratio: \"0.01\"  # a file with more rejected records is held for a decision"
        )?;
        writeln!(
            text,
            "    max_withdrawn_ratio: \"0.05\"  # a file that withdraws more records is held for a decision"
        )?;
        // a number from the sample would hold an older file with fewer records
        writeln!(
            text,
            "    # min_records: {}  # a file with fewer records would be held; the sample has {}, and older files can have fewer",
            records.len().div_ceil(2),
            records.len()
        )?;
        self.write_axis_gates(text)?;
        writeln!(
            text,
            "  storage: {{retention_days: 3650}}\n  audit: {{log_raw_input: true, log_transformations: true}}"
        )?;
        writeln!(text, "normalization:")?;
        text.push_str(&comment_lines(self.found.no_axis().as_ref(), "  "));
        writeln!(text, "  axis_mappings:")?;
        for column in &self.found.columns {
            let (path, cardinality) = match column.group {
                None => (path_text(&column.path), None),
                Some(_) => {
                    (format!("{}.*", path_text(&column.path)), Some("cardinality: one_to_many".to_owned()))
                }
            };
            let mut parts = vec![
                format!("source_field: {}", quoted(&path)),
                format!("target_axis: {}", axis_name(column)),
            ];
            parts.extend(cardinality);
            if column.is_identity {
                parts.push("required: true".to_owned());
            }
            if !column.missing_values.is_empty() {
                parts.push(format!("missing_values: {}", quoted(&column.missing_values)));
            }
            writeln!(text, "    - {{{}}}{}", parts.join(", "), line_comment(column, RemarkPlace::Mapping))?;
        }
        self.write_normalizers(text)
    }

    /// The gates of the axes with values. The values of a day or a year are seldom all revised at once. Without such an
    /// identity, each release can have new values for all records.
    fn write_axis_gates(&self, text: &mut String) -> std::fmt::Result {
        let columns = &self.found.columns;
        let mut values = columns.iter().filter(|column| !column.is_identity).peekable();
        if !self.found.has_identity || values.peek().is_none() {
            return Ok(());
        }
        let is_time = |column: &SampleColumn| {
            column.is_identity && matches!(column.form, ValueForm::Date { .. } | ValueForm::Period { .. })
        };
        let (limits, what) = if columns.iter().any(is_time) {
            ("max_unfilled_ratio: \"0.5\", max_changed_values_ratio: \"0.9\"", "empties or changes")
        } else {
            ("max_unfilled_ratio: \"0.5\"", "empties")
        };
        writeln!(
            text,
            "    axes:  # a file that {what} a larger share of the values of an axis is held for a decision"
        )?;
        for column in values {
            writeln!(text, "      {}: {{{limits}}}", axis_name(column))?;
        }
        Ok(())
    }

    /// The smallest workflow over the source. An identity alone has nothing to verify.
    fn write_workflow(&self, text: &mut String) -> std::fmt::Result {
        let axes: Vec<_> = self.verified_axes().take(AXES_MAX).map(plain_or_quoted).collect();
        if axes.is_empty() {
            return Ok(());
        }
        let omitted = self.verified_axes().count() - axes.len();
        let comment = match omitted {
            0 => String::new(),
            _ => format!("  # at most {AXES_MAX}; {omitted} further axes need another workflow"),
        };
        let id = quoted(self.id);
        write!(
            text,
            "---
# `oraclectl verify {}` uses this workflow
workflow_id: {id}
domain: {id}  # the subject area of the verification, for readers
ontology: {{ontology_id: {id}, version: \"1\"}}
axes: [{}]{comment}
oracles: [{id}]
oracle_latency: {{on_timeout: FAIL_CLOSED_BLOCK}}
authority_latency: {{authority_latency_budget_ms: 3000, enforcement_mode: INLINE, on_timeout_behavior: ESCALATE}}
",
            self.id,
            axes.join(", "),
        )
    }

    fn write_normalizers(&self, text: &mut String) -> std::fmt::Result {
        let steps: Vec<_> = self.found.columns.iter().flat_map(normalizers).collect();
        if !steps.is_empty() {
            writeln!(text, "  value_normalizers:")?;
        }
        for (column, kind, config) in steps {
            // a step that only trims has no guess
            let comment = match kind {
                "string_normalization" => String::new(),
                _ => line_comment(column, RemarkPlace::Normalizer),
            };
            writeln!(
                text,
                "    - {{axis: {}, normalizer_type: {kind}, config: {config}}}{comment}",
                axis_name(column)
            )?;
        }
        Ok(())
    }

    fn axis_type(&self, column: &SampleColumn) -> &'static str {
        match &column.form {
            // whole numbers of a measured quantity are probably rounded, and the rest of the file can have fractions
            ValueForm::Number { is_integer: true, .. }
                if column.is_identity || (column.unit.is_none() && self.sample.is_whole) =>
            {
                "integer"
            }
            ValueForm::Number { .. } => "number",
            ValueForm::Boolean { .. } => "boolean",
            ValueForm::Date { .. } => "date",
            ValueForm::Period { length: PeriodLength::Month, .. } => "month",
            ValueForm::Period { length: PeriodLength::Quarter, .. } => "quarter",
            ValueForm::Period { length: PeriodLength::Year, .. } => "year",
            ValueForm::Text => "string",
        }
    }
}

/// The normalizers of a column: their type and their configuration.
fn normalizers(column: &SampleColumn) -> Vec<(&SampleColumn, &'static str, String)> {
    let mut steps = Vec::new();
    if column.is_padded && !column.form.is_number() {
        steps.push((column, "string_normalization", "{trim: true}".to_owned()));
    }
    match &column.form {
        ValueForm::Number { notation, affix, .. } => {
            let needs_parsing = column.is_padded || affix.is_some();
            let Some((mark, separator)) = notation.or_else(|| needs_parsing.then_some(('.', None))) else {
                return steps;
            };
            let mut parts = vec![format!("decimal_mark: {}", quoted(&mark))];
            parts.extend(separator.map(|separator| format!("thousands_separator: {}", quoted(&separator))));
            let affix = affix.clone().unwrap_or_default();
            for (name, text) in [("prefix", &affix.prefix), ("suffix", &affix.suffix)] {
                if !text.is_empty() {
                    parts.push(format!("{name}: {}", quoted(text)));
                }
            }
            if affix.accounting {
                parts.push("accounting: true".to_owned());
            }
            steps.push((column, "number_parsing", format!("{{{}}}", parts.join(", "))));
        }
        ValueForm::Boolean { words } if !words.is_empty() => {
            let words: BTreeMap<_, _> = words.iter().map(|(word, value)| (word, value.to_string())).collect();
            steps.push((column, "enum_mapping", format!("{{map: {}}}", quoted(&words))));
        }
        ValueForm::Date { format: Some(format), is_local } => {
            let zone = if *is_local { ", timezone: UTC" } else { "" };
            steps.push((column, "date_parsing", format!("{{formats: [{}]{zone}}}", quoted(format))));
        }
        ValueForm::Period { format: Some(format), .. } => {
            steps.push((column, "date_parsing", format!("{{formats: [{}]}}", quoted(format))));
        }
        _ => {}
    }
    steps
}

/// The path of a field, as pipelines write it.
fn path_text(path: &[String]) -> String {
    let is_plain =
        |name: &str| !name.is_empty() && !name.contains(['.', '[', ']', '\'', '"', '$', '*', '@', '\\']);
    match path {
        [name] if is_plain(name) => name.clone(),
        [name] => format!("['{}']", escape(name)),
        path => {
            let step = |name: &String| {
                if is_plain(name) { format!(".{name}") } else { format!("['{}']", escape(name)) }
            };
            format!("${}", path.iter().map(step).collect::<String>())
        }
    }
}

fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace('\'', "\\'")
}
