//! The documents of a new source as YAML, with a comment at each line that its author must check.

use super::columns::SampleColumn;
use super::notation::ValueForm;
use super::sample::Sample;
use crate::base::output::format_count;
use oracled_domain::base::period::PeriodLength;
use oracled_domain::base::time_format::TimeFormat;
use oracled_domain::ground::frequency::UpdateFrequency;
use oracled_domain::ground::freshness::FreshnessPolicy;
use oracled_domain::ground::id::SourceId;
use oracled_domain::verification::workflow::AXES_MAX;
use serde::Serialize;
use std::fmt::Write;

/// The parts of the documents.
pub(super) struct NewDocuments<'s> {
    pub(super) id: &'s SourceId,
    /// The name of the sample's file.
    pub(super) file: String,
    pub(super) sample: &'s Sample,
    pub(super) columns: &'s [SampleColumn],
    /// Whether the identity was found.
    pub(super) has_identity: bool,
    /// The trust in the publisher, if it was given.
    pub(super) tier: Option<&'s str>,
}

/// A text or a value in YAML. JSON is a part of YAML.
fn quoted(value: &(impl Serialize + ?Sized)) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

impl NewDocuments<'_> {
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
        Ok(text)
    }

    /// The axes that a verification can have.
    pub(super) fn verified_axes(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().filter(|column| !column.is_identity).map(|column| column.axis.as_str())
    }

    fn write_ontology(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "ontology_id: {}\nversion: \"1\"\naxes:", quoted(self.id))?;
        match self.has_identity {
            true => writeln!(
                text,
                "  # the axes with `identity` identify a record; in the sample, their values occur once"
            )?,
            false => writeln!(
                text,
                "  # no few fields identify a record in the sample: several records have the same values on all axes with `identity`"
            )?,
        }
        // the digits of a sample do not show which difference is allowed: a `precision` from them could accept a wrong claim
        if self.columns.iter().any(|column| !column.is_identity && column.form.is_number()) {
            writeln!(
                text,
                "  # a verification compares numbers exactly; `precision` (digits after the point) or `relative_tolerance` of an axis allows a difference"
            )?;
        }
        for column in self.columns {
            let mut parts = vec![format!("axis: {}", column.axis), format!("type: {}", axis_type(column))];
            parts.extend(column.unit_code.as_ref().map(|code| format!("unit: {}", quoted(code))));
            if column.is_identity {
                parts.push("identity: true".to_owned());
            }
            let name = column.path.last().cloned().unwrap_or_default();
            let comment =
                self.axis_comment(column).map(|comment| format!("  # {comment}")).unwrap_or_default();
            writeln!(
                text,
                "  - {{{}, class: measured, description: {}}}{comment}",
                parts.join(", "),
                quoted(&name)
            )?;
        }
        Ok(())
    }

    /// A remark on an axis: its unit is not known, or it has few values.
    fn axis_comment(&self, column: &SampleColumn) -> Option<String> {
        let unit = column.unit.as_ref().filter(|_| column.unit_code.is_none());
        let unit = unit.map(|unit| {
            format!("the unit `{}` is not known; add `unit` with its UCUM code", unit.escape_debug())
        });
        let missing = self.sample.records.len() - column.filled;
        let empty = (column.filled == 0).then(|| "no record of the sample has a value".to_owned());
        unit.or(empty).or_else(|| {
            (missing > 0).then(|| {
                let records = format_count(missing as u64, "record", "records");
                format!("without a value in {records} of the sample")
            })
        })
    }

    fn write_source(&self, text: &mut String) -> std::fmt::Result {
        let id = quoted(self.id);
        let axes: Vec<_> = self.columns.iter().map(|column| column.axis.as_str()).collect();
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
            self.columns.iter().filter(|column| column.is_identity).filter_map(|column| match &column.form {
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
        let Sample { compression, encoding, format, records, is_whole, .. } = self.sample;
        let id = quoted(self.id);
        writeln!(
            text,
            "---\npipeline:\n  pipeline_id: {id}\n  oracle_id: {id}\n  retrieval:\n    method: manual_upload"
        )?;
        if let Some(compression) = compression {
            writeln!(text, "    compression: {}", quoted(compression))?;
        }
        if !encoding.is_utf_8() {
            writeln!(text, "    encoding: {}", quoted(encoding))?;
        }
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
        if *is_whole {
            let least = records.len() * 9 / 10;
            writeln!(
                text,
                "    min_records: {least}  # a file with fewer records is held; the sample has {}",
                records.len()
            )?;
        }
        writeln!(
            text,
            "  storage: {{retention_days: 3650}}\n  audit: {{log_raw_input: true, log_transformations: true}}"
        )?;
        writeln!(text, "normalization:\n  axis_mappings:")?;
        for column in self.columns {
            let mut parts = vec![
                format!("source_field: {}", quoted(&path_text(&column.path))),
                format!("target_axis: {}", column.axis),
            ];
            if column.is_identity {
                parts.push("required: true".to_owned());
            }
            let missing = &column.missing_values;
            let comment = if missing.is_empty() { "" } else { "  # the words for a missing value" };
            if !missing.is_empty() {
                parts.push(format!("missing_values: {}", quoted(missing)));
            }
            writeln!(text, "    - {{{}}}{comment}", parts.join(", "))?;
        }
        self.write_normalizers(text)
    }

    /// The smallest workflow over the source. An identity alone has nothing to verify.
    fn write_workflow(&self, text: &mut String) -> std::fmt::Result {
        let axes: Vec<_> = self.verified_axes().take(AXES_MAX).collect();
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
        let steps: Vec<_> = self.columns.iter().flat_map(normalizers).collect();
        if !steps.is_empty() {
            writeln!(text, "  value_normalizers:")?;
        }
        for (axis, kind, config, comment) in steps {
            let comment = comment.map(|comment| format!("  # {comment}")).unwrap_or_default();
            writeln!(text, "    - {{axis: {axis}, normalizer_type: {kind}, config: {config}}}{comment}")?;
        }
        Ok(())
    }
}

const fn axis_type(column: &SampleColumn) -> &'static str {
    match &column.form {
        // whole numbers of a measured quantity are probably rounded
        ValueForm::Number { is_integer: true, .. } if column.unit.is_none() => "integer",
        ValueForm::Number { .. } => "number",
        ValueForm::Boolean => "boolean",
        ValueForm::Date { .. } => "date",
        ValueForm::Period { length: PeriodLength::Month, .. } => "month",
        ValueForm::Period { length: PeriodLength::Quarter, .. } => "quarter",
        ValueForm::Period { length: PeriodLength::Year, .. } => "year",
        ValueForm::Text => "string",
    }
}

/// The normalizers of a column: its axis, the type, the configuration, and a remark.
fn normalizers(column: &SampleColumn) -> Vec<(&str, &'static str, String, Option<String>)> {
    let axis = column.axis.as_str();
    let mut steps = Vec::new();
    if column.is_padded && !column.form.is_number() {
        steps.push((axis, "string_normalization", "{trim: true}".to_owned(), None));
    }
    let dates = |format: &str| format!("{{formats: [{}]}}", quoted(format));
    match &column.form {
        ValueForm::Number { notation, is_ambiguous, .. } => {
            let marks = notation.or_else(|| (column.is_padded || *is_ambiguous).then_some(('.', None)));
            let Some((mark, separator)) = marks else { return steps };
            let separator =
                separator.map(|separator| format!(", thousands_separator: {}", quoted(&separator)));
            let config = format!("{{decimal_mark: {}{}}}", quoted(&mark), separator.unwrap_or_default());
            let remark = is_ambiguous
                .then(|| "the sample can also be read with the other mark: check the numbers".to_owned());
            steps.push((axis, "number_parsing", config, remark));
        }
        ValueForm::Date { format: Some(format), is_ambiguous } => {
            let is_local = TimeFormat::new(format).is_ok_and(|format| format.is_local());
            let (config, zone_remark) = if is_local {
                let config = format!("{{formats: [{}], timezone: UTC}}", quoted(format));
                (config, Some("its times name no zone: UTC is a guess, check it"))
            } else {
                (dates(format), None)
            };
            let order_remark =
                is_ambiguous.then_some("the sample can also be read as month and day: check the dates");
            let remarks: Vec<_> = [order_remark, zone_remark].into_iter().flatten().collect();
            let remark = (!remarks.is_empty()).then(|| remarks.join("; "));
            steps.push((axis, "date_parsing", config, remark));
        }
        ValueForm::Period { format: Some(format), .. } => {
            steps.push((axis, "date_parsing", dates(format), None));
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
