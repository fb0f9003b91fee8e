//! Verbs that show registered documents: `oraclectl get`, `describe` and `schema`.

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::{format_pairs, format_requester, format_table, print_json, short_run_id};
use crate::base::program::examples;
use crate::ground::source::{format_status, is_live};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain_base::document::{Document, DocumentVersions};
use domain_base::moment::format_span;
use domain_base::page::ListPage;
use domain_base::text_form::{visible_json, visible_text};
use domain_base::wording::format_count;
use domain_ground::axis::{Axis, AxisClass, ConservativeSide};
use domain_ground::freshness::{AxisFreshness, FreshnessPolicy};
use domain_ground::ontology::{FactTemplate, Ontology};
use domain_ground::source::{SourceRegistration, VersionRecord};
use domain_ground::source_state::SourceCheck;
use domain_ground::wire::{FreshnessReport, SourceReport};
use domain_verdict::prompt::TemplateRef;
use hyper::Method;
use oracled_domain::documents::{DocumentKind, DocumentReport, DocumentSummary};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};

/// Parses the kind of a document.
fn kind_parser() -> impl TypedValueParser<Value = DocumentKind> {
    let find = |name: String| DocumentKind::find(&name).expect("only these names are possible");
    PossibleValuesParser::new(DocumentKind::names()).map(find)
}

/// All registered documents of a kind.
pub async fn list_documents(
    options: &GlobalOptions,
    kind: DocumentKind,
) -> Result<Vec<DocumentSummary>, CtlError> {
    let (mut documents, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/documents/{kind}?limit=1000{after}");
        let page: ListPage<DocumentSummary> = options.call_control(Method::GET, &path, None).await?.json()?;
        documents.extend(page.items);
        let Some(next) = page.next else { return Ok(documents) };
        after = format!("&after={}", encode_segment(&next));
    }
}

/// A registered document.
pub async fn find_document(
    options: &GlobalOptions,
    kind: DocumentKind,
    document_id: &str,
) -> Result<DocumentReport, CtlError> {
    let document_id = complete_version(options, kind, document_id).await?;
    let path = format!("/v1/documents/{kind}/{}", encode_segment(&document_id));
    let unknown =
        || format!("no {kind} {document_id} is registered; `oraclectl get {kind}` lists the registered ones");
    let found = options.call_control(Method::GET, &path, None).await;
    Ok(found.map_err(|error| error.reword("document_unknown", unknown))?.json()?)
}

/// The id of a document. A version that is a text may be left out if only one is registered. Without its number, a version is the
/// newest one.
async fn complete_version(
    options: &GlobalOptions,
    kind: DocumentKind,
    document_id: &str,
) -> Result<String, CtlError> {
    if kind.versions == DocumentVersions::None || document_id.contains('@') {
        return Ok(document_id.to_owned());
    }
    let is_version = |known: &String| known.split_once('@').is_some_and(|(name, _)| name == document_id);
    let known = list_documents(options, kind).await?.into_iter().map(|summary| summary.document_id);
    let mut versions: Vec<_> = known.filter(is_version).collect();
    if kind.versions == DocumentVersions::Numbered {
        let version = |known: &String| known.parse::<TemplateRef>().ok().map(|known| known.version);
        return Ok(versions.into_iter().max_by_key(version).unwrap_or_else(|| document_id.to_owned()));
    }
    match versions.len() {
        0 => Ok(document_id.to_owned()),
        1 => Ok(versions.remove(0)),
        _ => Err(CtlError::NotOne(format!(
            "{kind} {document_id} has several versions (name one of {})",
            versions.join(", ")
        ))),
    }
}

/// A document with its kind, in the form that `apply` reads.
#[derive(Serialize)]
pub struct TaggedDocument<'d> {
    pub kind: DocumentKind,
    #[serde(flatten)]
    pub document: &'d Value,
}

/// A document as YAML, with its kind. If it has characters that a terminal interprets or does not show, it is
/// written as JSON, which can escape them everywhere.
pub fn to_yaml(kind: DocumentKind, document: &Value) -> Result<String, CtlError> {
    let text = serde_saphyr::to_string(document).map_err(io::Error::other)?;
    if visible_text(&text) == text {
        return Ok(format!("kind: {kind}\n{text}"));
    }
    let json = serde_json::to_string_pretty(&TaggedDocument { kind, document }).map_err(io::Error::from)?;
    Ok(visible_json(&json).into_owned() + "\n")
}

/// Show the registered documents of a kind, or one of them in the form that `apply` reads
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl get source", "oraclectl get ontology demography@1.0"]))]
pub(crate) struct GetArgs {
    /// The kind of the documents
    #[arg(value_parser = kind_parser())]
    kind: DocumentKind,
    /// The id of one document; an ontology, a word list, a review rule, a prompt template and a mail template have the id NAME@VERSION
    #[arg(value_name = "ID", value_parser = id_parser())]
    document_id: Option<String>,
}

impl GetArgs {
    pub(crate) async fn run(&self, options: &GlobalOptions, out: &mut dyn Write) -> Result<(), CtlError> {
        let Some(document_id) = &self.document_id else {
            let documents = list_documents(options, self.kind).await?;
            return if options.json {
                print_json(out, &documents)
            } else {
                Ok(writeln!(out, "{}", format_documents(self.kind, documents))?)
            };
        };
        let document = find_document(options, self.kind, document_id).await?.document;
        if options.json {
            return print_json(out, &TaggedDocument { kind: self.kind, document: &document });
        }
        Ok(out.write_all(to_yaml(self.kind, &document)?.as_bytes())?)
    }
}

pub(crate) fn format_documents(kind: DocumentKind, documents: Vec<DocumentSummary>) -> String {
    if documents.is_empty() {
        return format!("no {kind} is registered: `oraclectl apply -f FILE`");
    }
    // the documents of some kinds have no status
    let has_status = documents.iter().any(|summary| summary.status.is_some());
    let row = |summary: DocumentSummary| {
        [
            summary.document_id,
            summary.status.unwrap_or_default(),
            short_run_id(&summary.sha256),
            summary.registered_at.map(|at| at.to_string()).unwrap_or_default(),
            summary.registered_by.map(|by| format_requester(&by)).unwrap_or_default(),
        ]
    };
    let rows = documents.into_iter().map(row);
    if has_status {
        return format_table([kind.name, "status", "sha256", "registered at", "by"], rows.collect());
    }
    let rows = rows.map(|[document_id, _, sha256, at, by]| [document_id, sha256, at, by]);
    format_table([kind.name, "sha256", "registered at", "by"], rows.collect())
}

/// Print the JSON Schema of a kind of document, for editors
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl schema pipeline"]))]
pub(crate) struct SchemaArgs {
    /// The kind of document
    #[arg(value_parser = kind_parser())]
    kind: DocumentKind,
}

impl SchemaArgs {
    pub(crate) fn run(&self, out: &mut dyn Write) -> Result<(), CtlError> {
        print_json(out, &self.kind.json_schema())
    }
}

/// Show a registered document with its state
#[derive(Debug, clap::Args)]
#[command(after_help = examples(&["oraclectl describe source wb-population"]))]
pub(crate) struct DescribeArgs {
    /// The kind of the document
    #[arg(value_parser = kind_parser())]
    kind: DocumentKind,
    /// The id of the document; an ontology, a word list, a review rule, a prompt template and a mail template have the id NAME@VERSION
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
