//! Registered documents of any kind.

// these docstrings become the descriptions in the OpenAPI documents and in `docs/reference`
#![warn(missing_docs)]

use crate::documents::{DocumentContent, DocumentKind};
use domain_base::digest::Sha256Hex;
use domain_base::page::PageLimit;
use domain_base::problem::code_schema;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

/// The query of `GET /v1/documents/{kind}`.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DocumentsParams {
    /// Only documents after this one in the list, which is in the order of their ids.
    pub after: Option<String>,
    /// The most documents in the answer.
    #[param(inline)]
    #[serde(default)]
    pub limit: PageLimit,
}

/// A registered document without its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DocumentSummary {
    /// The kind of the document.
    pub kind: DocumentKind,
    /// Its id.
    pub document_id: String,
    /// The SHA-256 of its canonical JSON.
    pub sha256: Sha256Hex,
    /// When it was registered with this content. Null for a built-in prompt template.
    pub registered_at: Option<Timestamp>,
    /// The user id that registered it then. Null for a built-in prompt template.
    pub registered_by: Option<String>,
    /// Its state in words: whether a source answers, whether a workflow can decide, whether a prompt template is the current
    /// one. Null if its kind has none.
    pub status: Option<String>,
}

/// A registered document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DocumentReport {
    /// All but its content.
    #[serde(flatten)]
    pub summary: DocumentSummary,
    /// Its content, with all defaults.
    #[schema(value_type = DocumentContent)]
    pub document: Json,
}

/// `POST /v1/documents`: registers all of these documents, or none if one of them cannot be.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// Only report what would change.
    #[serde(default)]
    pub dry_run: bool,
    /// The documents, in any order.
    pub documents: Vec<DocumentRequest>,
}

/// A document to register.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentRequest {
    /// Its kind.
    pub kind: DocumentKind,
    /// Its content.
    #[schema(value_type = DocumentContent)]
    pub document: Box<RawValue>,
}

/// The answer to `POST /v1/documents`.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ApplyResponse {
    /// The number of documents that are registered now: all of them, or 0 with `dry_run` or after a fault.
    pub registered: usize,
    /// The result of each document, in the order of the request.
    pub items: Vec<AppliedDocument>,
}

/// The result of one document.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct AppliedDocument {
    /// Its kind.
    pub kind: DocumentKind,
    /// Its id; null if the document cannot be read.
    pub document_id: Option<String>,
    /// The change, applied or only reported; null if the document has a fault.
    pub change: Option<DocumentChangeKind>,
    /// The document that it replaces; null if there is none.
    #[schema(value_type = Option<DocumentContent>)]
    pub before: Option<Json>,
    /// The document with all defaults; null if it cannot be read.
    #[schema(value_type = Option<DocumentContent>)]
    pub document: Option<Json>,
    /// Why it cannot be registered; null if it can.
    pub fault: Option<DocumentFault>,
}

/// Why a document cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct DocumentFault {
    /// The code of the problem.
    #[schema(schema_with = code_schema)]
    pub code: String,
    /// The fault, in words.
    pub detail: String,
}

/// The change by a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentChangeKind {
    /// No document of this id was registered.
    Created,
    /// Another document of this id was registered.
    Changed,
    /// The same document was registered already.
    Unchanged,
}
