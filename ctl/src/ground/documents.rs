//! Reads registered documents from the daemon.

use crate::base::error::CtlError;
use crate::base::examples::examples;
use crate::base::options::{GlobalOptions, encode_segment, id_parser};
use crate::base::output::{format_requester, format_table, print_json, short_run_id};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain_base::document::DocumentVersions;
use domain_base::page::ListPage;
use domain_base::visible::{visible_json, visible_text};
use domain_verdict::template_name::TemplateRef;
use hyper::Method;
use oracled_domain::documents::DocumentKind;
use oracled_domain::documents::wire::{DocumentReport, DocumentSummary};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, Write};

/// Parses the kind of a document.
pub fn kind_parser() -> impl TypedValueParser<Value = DocumentKind> {
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
    /// The id of one document; an ontology, a word list, a prompt template and a mail template have the id NAME@VERSION
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
