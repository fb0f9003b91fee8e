//! `oraclectl describe`.

use super::documents::{find_document, kind_parser, to_yaml};
use super::source::{format_status, is_live};
use crate::base::error::CtlError;
use crate::base::examples::examples;
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::{format_pairs, format_requester, format_table, print_json};
use domain_base::count::format_count;
use domain_base::document::Document;
use domain_base::moment::format_span;
use domain_ground::axis::{Axis, AxisClass, ConservativeSide};
use domain_ground::freshness::{AxisFreshness, FreshnessPolicy};
use domain_ground::ontology::{FactTemplate, Ontology};
use domain_ground::source::{SourceRegistration, VersionRecord};
use domain_ground::upkeep::SourceCheck;
use domain_ground::wire::{FreshnessReport, SourceReport};
use hyper::Method;
use oracled_domain::documents::DocumentKind;
use serde::Serialize;
use serde_json::Value;
use std::io::Write;

/// Show a registered document with its state
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl describe source wb-population"]))]
pub(crate) struct DescribeArgs {
    /// The kind of the document
    #[arg(value_parser = kind_parser())]
    kind: DocumentKind,
    /// The id of the document; an ontology, a word list, a prompt template and a mail template have the id NAME@VERSION
    #[arg(value_name = "ID", value_parser = id_parser())]
    document_id: String,
}

impl DescribeArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let of_source = |rest: &str| format!("/v1/sources/{}{rest}", encode_segment(&self.document_id));
        match self.kind {
            kind if kind == SourceRegistration::TYPE => {
                let source = options.call_control(Method::GET, &of_source(""), None).await?.json()?;
                if options.json { print_json(out, &source) } else { show_source(out, &source) }
            }
            kind if kind == FreshnessPolicy::TYPE => {
                let report =
                    options.call_control(Method::GET, &of_source("/freshness"), None).await?.json()?;
                if options.json { print_json(out, &report) } else { show_freshness_policy(out, &report) }
            }
            kind => {
                let report = find_document(options, kind, &self.document_id).await?;
                if options.json {
                    return print_json(out, &report);
                }
                let summary = report.summary;
                let registered = summary.registered_at.zip(summary.registered_by);
                let registered = registered.map(|(at, by)| format!("{at} by {}", format_requester(&by)));
                let mut head = vec![(kind.name, summary.document_id)];
                head.extend(registered.map(|registered| ("registered", registered)));
                head.push(("sha256", summary.sha256.to_string()));
                head.extend(summary.status.map(|status| ("status", status)));
                writeln!(out, "{}", format_pairs(&head))?;
                match serde_json::from_value(report.document.clone()) {
                    Ok(ontology) if kind == Ontology::TYPE => show_ontology(out, &ontology),
                    _ => Ok(out.write_all(to_yaml(kind, &report.document)?.as_bytes())?),
                }
            }
        }
    }
}

/// Maximum number of allowed values that are shown for an axis.
const WORDS_MAX: usize = 12;

fn show_ontology(out: &mut dyn Write, ontology: &Ontology) -> Result<(), CtlError> {
    let row = |axis: &Axis| {
        [
            axis.axis.clone(),
            axis.kind.into_str().to_owned(),
            axis.unit.clone().unwrap_or_default(),
            describe_properties(axis).join(", "),
            axis.description.clone(),
        ]
    };
    let rows = ontology.axes.iter().map(row).collect();
    writeln!(out, "{}", format_table(["axis", "type", "unit", "marks", "description"], rows))?;
    if ontology.fact_templates.is_empty() {
        return Ok(());
    }
    let row = |written: &FactTemplate| [written.template_id.to_string(), written.template.clone()];
    let rows = ontology.fact_templates.iter().map(row).collect();
    Ok(writeln!(out, "\n{}", format_table(["template", "of facts"], rows))?)
}

/// The further properties of an axis, in words.
fn describe_properties(axis: &Axis) -> Vec<String> {
    let mark = |holds: bool, mark: &str| holds.then(|| mark.to_owned());
    let careful = |way| match way {
        ConservativeSide::Lower => "the lower value is conservative".to_owned(),
        ConservativeSide::Higher => "the higher value is conservative".to_owned(),
    };
    let more = axis.values.len().saturating_sub(WORDS_MAX);
    let mut words = axis.values.iter().take(WORDS_MAX).cloned().collect::<Vec<_>>().join(" | ");
    if more > 0 {
        words += &format!(" and {more} more");
    }
    let marks = [
        mark(axis.identity, "identity"),
        mark(axis.indexed, "indexed"),
        mark(axis.class == AxisClass::SelfReported, "self-reported"),
        (!words.is_empty()).then_some(words),
        axis.precision.map(|digits| format!("equal up to {digits} decimal places")),
        axis.relative_tolerance.as_ref().map(|part| format!("equal within {part} of the larger magnitude")),
        axis.conservative.map(careful),
        mark(axis.state_sensitive, "state sensitive"),
        axis.max_ttl_seconds.map(|ttl_s| format!("at most {} old", format_span(ttl_s))),
    ];
    marks.into_iter().flatten().collect()
}

fn show_freshness_policy(out: &mut dyn Write, report: &FreshnessReport) -> Result<(), CtlError> {
    let FreshnessReport { policy, is_default, invalidated_at, current_version, released_at, now } = report;
    let none = || "none".to_owned();
    let released = released_at.map(|at| format!(", released {at}")).unwrap_or_default();
    let shown = [
        ("source", policy.oracle_id.to_string()),
        ("policy", if *is_default { "the default" } else { "its own" }.into()),
        ("version", current_version.as_ref().map_or_else(none, |version| format!("{version}{released}"))),
        ("invalidated", invalidated_at.map_or_else(|| "no".into(), |at| at.to_string())),
        ("answer now", serialized_word(&now.answer)),
    ];
    out.write_all(format_pairs(&shown).as_bytes())?;
    let row = |axis: &AxisFreshness| {
        [
            axis.axis.clone(),
            axis.age_seconds.map_or_else(none, format_span),
            format_span(axis.max_age_seconds),
            if axis.stale { "stale" } else { "fresh" }.into(),
            serialized_word(&axis.stale_behavior),
        ]
    };
    let rows = now.axes.iter().map(row).collect();
    Ok(writeln!(out, "\n{}", format_table(["axis", "age", "allowed", "now", "when stale"], rows))?)
}

/// The value as it is written in documents.
fn serialized_word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map_or_else(|| Value::to_string(&value), str::to_owned)
}

fn show_source(out: &mut dyn Write, source: &SourceReport) -> Result<(), CtlError> {
    let SourceReport { entry, last_check, .. } = source;
    let registration = &entry.registration;
    let holds = match (is_live(entry), registration.snapshot) {
        (true, _) => "none: the source is live",
        (false, true) => "all records",
        (false, false) => "changed records",
    };
    let shown = [
        ("source", format!("{}: {}", registration.oracle_id, registration.oracle_name)),
        ("tier", registration.oracle_tier.into_str().to_owned()),
        ("status", format_status(entry)),
        ("authority", registration.upstream_authority.clone()),
        ("published at", registration.upstream_url.clone()),
        ("license", registration.data_license.clone()),
        ("domain", registration.domain.clone()),
        ("scope", registration.geographic_scope.clone().unwrap_or_else(|| "not specified".into())),
        ("ontology", registration.ontology.to_string()),
        ("axes", registration.axes_provided.join(", ")),
        ("release content", holds.into()),
        ("registered", format!("{} by {}", entry.registered_at, format_requester(&entry.registered_by))),
        ("last check", last_check.as_ref().map_or_else(|| "never".into(), format_check)),
    ];
    out.write_all(format_pairs(&shown).as_bytes())?;
    if is_live(entry) {
        let oracle_id = &registration.oracle_id;
        let how =
            format!("`oraclectl get adapter {oracle_id}` shows the requests, `oraclectl verify` sends them");
        return Ok(writeln!(out, "\nlive, queried for each verification: {how}")?);
    }
    if entry.version_history.is_empty() {
        return Ok(writeln!(out, "\nno versions: `oraclectl ingest run`")?);
    }
    let row = |version: &VersionRecord| {
        [
            version.version.clone(),
            version.released_at.to_string(),
            version.ingested_at.to_string(),
            version.record_count.map(|count| count.to_string()).unwrap_or_default(),
        ]
    };
    let rows = entry.version_history.iter().map(row).collect();
    Ok(writeln!(out, "\n{}", format_table(["version", "released at", "ingested at", "records"], rows))?)
}

fn format_check(SourceCheck { checked_at, fault_count }: &SourceCheck) -> String {
    match fault_count {
        0 => format!("{checked_at}: no faults"),
        number => {
            format!(
                "{checked_at}: {}; see `oraclectl source verify`",
                format_count(*number, "fault", "faults")
            )
        }
    }
}
