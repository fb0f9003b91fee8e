//! `/v1/documents`: the registered documents of all kinds.

use crate::platform::api::request::{self, JsonBody, QueryParams};
use crate::platform::control::{ControlBody, DOCUMENT_MAX_BYTES, parse_name};
use crate::platform::openapi::{DOCUMENT_BODY, JSON_BODY, STORE, problems};
use crate::platform::problem::{Problem, without_state_dir};
use crate::platform::routes::{Routes, routes};
use crate::platform::service::{DaemonService, run_to_end};
use actors_ground::registry::{DocumentChange, DocumentState, RegistryError};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::{Extension, Json};
use domain_base::caller::PeerCredentials;
use domain_base::document::AnyDocument;
use domain_base::page::ListPage;
use domain_base::problem::{DOCUMENT_FIXED, DOCUMENT_UNKNOWN, INVALID_DOCUMENT, INVALID_REQUEST};
use domain_ground::problem::{ONTOLOGY_UNKNOWN, SOURCE_LIVE, SOURCE_UNKNOWN};
use oracled_domain::documents::{
    AppliedDocument, ApplyRequest, ApplyResponse, DocumentChangeKind, DocumentContent, DocumentFault,
    DocumentKind, DocumentReport, DocumentSummary, DocumentsParams,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The routes of registered documents.
pub(super) fn routes() -> Routes {
    routes![apply, list, get, put]
}

/// Maximum size of a body of `POST /v1/documents`, in bytes.
const APPLY_MAX_BYTES: usize = 32 * 1024 * 1024;
/// Maximum number of documents in such a body.
const APPLY_MAX_DOCUMENTS: usize = 10_000;

problems!(ListProblems: STORE);

/// List the registered documents of a kind, in the order of their ids.
#[utoipa::path(
    get,
    path = "/v1/documents/{kind}",
    operation_id = "list_documents",
    tag = "documents",
    params(("kind" = DocumentKind, Path), DocumentsParams),
    responses(
        ListProblems,
        (status = 200, description = "A page of documents", body = ListPage<DocumentSummary>),
    ),
)]
pub(super) async fn list(
    State(service): State<Arc<DaemonService>>,
    kind: Result<Path<String>, PathRejection>,
    QueryParams(params): QueryParams<DocumentsParams>,
) -> Result<Json<ListPage<DocumentSummary>>, Problem> {
    let DocumentsParams { after, limit } = params;
    let kind = parse_kind(&parse_name::<String>(kind)?)?;
    let known = service.system.registry.list(&kind)?.into_iter();
    let mut known: Vec<_> = known.map(|state| summary(kind, state)).collect();
    known.sort_by(|one, other| one.document_id.cmp(&other.document_id));
    known.retain(|summary| after.as_ref().is_none_or(|after| summary.document_id > *after));
    Ok(Json(ListPage::from_items(known, *limit, |summary| summary.document_id.clone())))
}

problems!(ReadProblems: STORE; DOCUMENT_UNKNOWN);

/// Read a registered document.
#[utoipa::path(
    get,
    path = "/v1/documents/{kind}/{document_id}",
    operation_id = "read_document",
    tag = "documents",
    params(("kind" = DocumentKind, Path), ("document_id" = String, Path, description = "The id of the document; an ontology, a word list, a review rule, a prompt template and a mail template have `NAME@VERSION`")),
    responses(
        ReadProblems,
        (status = 200, description = "The document", body = DocumentReport),
    ),
)]
pub(super) async fn get(
    State(service): State<Arc<DaemonService>>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<Json<DocumentReport>, Problem> {
    let (kind, document_id) = parse_path(path)?;
    let found = service.system.registry.find(&kind, &document_id)?;
    let unknown = || Problem::new(DOCUMENT_UNKNOWN, format!("no {kind} {document_id} is registered"));
    let (state, document) = found.ok_or_else(unknown)?;
    Ok(Json(DocumentReport { summary: summary(kind, state), document }))
}

problems!(PutProblems: DOCUMENT_BODY STORE; ONTOLOGY_UNKNOWN SOURCE_UNKNOWN DOCUMENT_FIXED SOURCE_LIVE);

/// Register a document, in place of the one with its id.
///
/// The id of an ontology, of a word list, of a review rule, of a prompt template and of a mail template is `NAME@VERSION`; a version is immutable. A freshness policy and an adapter
/// have the id of their source. A document has up to 4 MiB. An unknown field, and a duplicate name in an object, are
/// errors that name the position. The members `kind` and `$schema` are ignored. A day without a time is its midnight in
/// UTC. If the entry cannot be committed, nothing changes.
#[utoipa::path(
    put,
    path = "/v1/documents/{kind}/{document_id}",
    operation_id = "register_document",
    tag = "documents",
    params(("kind" = DocumentKind, Path), ("document_id" = String, Path, description = "The id in the document")),
    request_body = DocumentContent,
    responses(
        PutProblems,
        (status = 200, description = "The change", body = AppliedDocument),
    ),
)]
pub(super) async fn put(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    path: Result<Path<(String, String)>, PathRejection>,
    body: ControlBody,
) -> Result<Json<AppliedDocument>, Problem> {
    let (kind, document_id) = parse_path(path)?;
    let document = request::read_document(body.as_bytes(), kind)?;
    if document.document_id() != document_id {
        let detail = format!(
            "the document's id is {}, and the path has {document_id}; they must be equal",
            document.document_id()
        );
        return Err(Problem::new(INVALID_DOCUMENT, detail));
    }
    run_to_end(async move {
        let change = service.system.registry.register(document.clone(), peer).await?;
        Ok(Json(applied_document(&document, change)))
    })
    .await
}

problems!(ApplyProblems: JSON_BODY STORE);

/// Register several documents by one commit: all of them, or none if one has a fault.
///
/// The documents are registered in the order of their dependencies. A request has up to 10,000 documents and 32 MiB. With
/// `dry_run`, none is registered. The fault of a document is in its result.
#[utoipa::path(
    post,
    path = "/v1/documents",
    operation_id = "apply_documents",
    tag = "documents",
    request_body = ApplyRequest,
    responses(
        ApplyProblems,
        (status = 200, description = "The result of each document", body = ApplyResponse),
    ),
)]
pub(super) async fn apply(
    State(service): State<Arc<DaemonService>>,
    Extension(peer): Extension<PeerCredentials>,
    request: Request,
) -> Result<Json<ApplyResponse>, Problem> {
    let body = JsonBody::read_within(request, &service, APPLY_MAX_BYTES).await?;
    let ApplyRequest { dry_run, documents } =
        request::read_strict_json(body.as_bytes(), "a request", INVALID_REQUEST)?;
    if documents.len() > APPLY_MAX_DOCUMENTS {
        let detail =
            format!("`documents` has {} items (at most {APPLY_MAX_DOCUMENTS} allowed)", documents.len());
        return Err(Problem::new(INVALID_REQUEST, detail));
    }
    let mut items = BTreeMap::new();
    let mut readable = Vec::new();
    let mut seen = BTreeSet::new();
    for (position, request) in documents.into_iter().enumerate() {
        let read = read_within_limit(request.document.get(), request.kind).and_then(|document| {
            let repeated = format!("{} {} is in the request twice", request.kind, document.document_id());
            let is_new = seen.insert((request.kind, document.document_id()));
            if is_new { Ok(document) } else { Err(Problem::new(INVALID_DOCUMENT, repeated)) }
        });
        match read {
            Ok(document) => readable.push((position, document)),
            Err(problem) => {
                items.insert(position, rejected_document(request.kind, None, problem));
            }
        }
    }
    // an earlier kind never depends on a later one
    readable.sort_by_key(|(position, document)| (DocumentKind::from(document.document_type()), *position));
    let (positions, documents): (Vec<_>, Vec<_>) = readable.into_iter().unzip();
    let check_only = dry_run || !items.is_empty();
    run_to_end(async move {
        let changes = service.system.registry.register_all(&documents, check_only, peer).await?;
        for ((position, document), change) in positions.into_iter().zip(&documents).zip(changes) {
            items.insert(position, document_result(document, change));
        }
        let items: Vec<_> = items.into_values().collect();
        let is_registered = !dry_run && items.iter().all(|item| item.fault.is_none());
        Ok(Json(ApplyResponse { registered: if is_registered { items.len() } else { 0 }, items }))
    })
    .await
}

/// Reads a document of at most `DOCUMENT_MAX_BYTES`.
fn read_within_limit(text: &str, kind: DocumentKind) -> Result<AnyDocument, Problem> {
    if text.len() > DOCUMENT_MAX_BYTES {
        let detail = format!("the document has {} bytes (at most {DOCUMENT_MAX_BYTES} allowed)", text.len());
        return Err(Problem::new(INVALID_DOCUMENT, detail));
    }
    request::read_document(text.as_bytes(), kind)
}

fn document_result(document: &AnyDocument, change: Result<DocumentChange, RegistryError>) -> AppliedDocument {
    match change {
        Ok(change) => applied_document(document, change),
        Err(error) => rejected_document(document.document_type().into(), Some(document), error.into()),
    }
}

fn applied_document(document: &AnyDocument, change: DocumentChange) -> AppliedDocument {
    let (change, before) = match change {
        DocumentChange::Created => (DocumentChangeKind::Created, None),
        DocumentChange::Changed(before) => (DocumentChangeKind::Changed, Some(*before)),
        DocumentChange::Unchanged => (DocumentChangeKind::Unchanged, None),
    };
    AppliedDocument {
        kind: document.document_type().into(),
        document_id: Some(document.document_id()),
        change: Some(change),
        before,
        document: Some(document.to_json()),
        fault: None,
    }
}

fn rejected_document(
    kind: DocumentKind,
    document: Option<&AnyDocument>,
    problem: Problem,
) -> AppliedDocument {
    AppliedDocument {
        kind,
        document_id: document.map(AnyDocument::document_id),
        change: None,
        before: None,
        document: document.map(AnyDocument::to_json),
        fault: Some(DocumentFault {
            code: problem.document.code.name.to_owned(),
            detail: without_state_dir(problem.document.detail),
        }),
    }
}

fn summary(kind: DocumentKind, state: DocumentState) -> DocumentSummary {
    let DocumentState { document_id, sha256, registered, status } = state;
    let (registered_at, registered_by) = registered.unzip();
    DocumentSummary { kind, document_id, sha256, registered_at, registered_by, status }
}

fn parse_kind(name: &str) -> Result<DocumentKind, Problem> {
    DocumentKind::find(name).ok_or_else(|| {
        let kinds = DocumentKind::names().join(", ");
        Problem::new(INVALID_REQUEST, format!("`{name}` is not a kind (one of {kinds})"))
    })
}

fn parse_path(
    path: Result<Path<(String, String)>, PathRejection>,
) -> Result<(DocumentKind, String), Problem> {
    let Path((kind, document_id)) = path.map_err(|error| Problem::new(INVALID_REQUEST, error.body_text()))?;
    Ok((parse_kind(&kind)?, document_id))
}
