//! Reads registered documents from the daemon.

use crate::base::error::CtlError;
use crate::base::options::{GlobalOptions, encode_segment};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain_base::document::DocumentVersions;
use domain_base::visible::{visible_json, visible_text};
use domain_verdict::template_name::TemplateRef;
use hyper::Method;
use oracled_api::base::page::ListPage;
use oracled_api::documents::{DocumentReport, DocumentSummary};
use oracled_domain::documents::DocumentKind;
use serde::Serialize;
use serde_json::Value;
use std::io;

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
