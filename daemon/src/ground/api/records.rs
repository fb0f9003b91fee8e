//! `GET /v1/records/{record_id}` and its provenance: one record of a source, even if it is no longer valid.

use crate::platform::openapi::problems;
use crate::platform::problem::{Problem, without_state_dir};
use crate::platform::service::{DaemonService, run_blocking};
use actors_ground::queries::RecordReadError;
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain_ground::provenance::ProvenanceRecord;
use domain_ground::query::answer::RecordAnswer;
use oracled_api::base::problem::ProblemCode;
use oracled_api::ground::ProvenanceReport;
use oracled_store::{Store, StoreError};
use std::sync::Arc;

problems!(RecordProblems: RECORD STORE; SourceSilent SourceStale);

/// Read a record by its id, with its validity and its freshness.
///
/// The record is returned whatever its status is now.
#[utoipa::path(
    get,
    path = "/v1/records/{record_id}",
    operation_id = "read_record",
    tag = "ground",
    params(("record_id" = String, Path, pattern = "^[0-9a-f]{16}-[0-9]+$", description = "The id of the record, as a query returns it")),
    responses(
        RecordProblems,
        (status = 200, description = "The record with all its axes, its standing and its freshness", body = RecordAnswer),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    record_id: Result<Path<String>, PathRejection>,
) -> Result<Json<RecordAnswer>, Problem> {
    let (record_id, queries) = (parse_record_id(record_id)?, service.system.queries.clone());
    Ok(Json(service.run_work(async move { Ok(queries.record(&record_id).await?) }).await?))
}

problems!(ProvenanceProblems: RECORD STORE; SourceSilent);

/// Read the provenance of a record whose source answers.
///
/// The provenance leads to the hash and the payload offset of the raw record.
#[utoipa::path(
    get,
    path = "/v1/records/{record_id}/provenance",
    operation_id = "read_provenance",
    tag = "ground",
    params(("record_id" = String, Path, pattern = "^[0-9a-f]{16}-[0-9]+$", description = "The id of the record, as a query returns it")),
    responses(
        ProvenanceProblems,
        (status = 200, description = "The RFC's provenance record, and the location of the raw record", body = ProvenanceRecord),
    ),
)]
pub async fn provenance(
    State(service): State<Arc<DaemonService>>,
    record_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ProvenanceRecord>, Problem> {
    let (record_id, queries) = (parse_record_id(record_id)?, service.system.queries.clone());
    Ok(Json(service.run_work(async move { Ok(queries.provenance(&record_id).await?) }).await?))
}

problems!(RecordedProblems: RECORD STORE);

/// Read the provenance of a record and the text of its raw record, even if its source does not answer.
#[utoipa::path(
    get,
    path = "/v1/records/{record_id}/provenance",
    operation_id = "read_recorded_provenance",
    tag = "ground",
    params(("record_id" = String, Path, pattern = "^[0-9a-f]{16}-[0-9]+$", description = "The id of the record, as a query returns it")),
    responses(
        RecordedProblems,
        (status = 200, description = "The RFC's provenance record, and the location and the text of the raw record", body = ProvenanceReport),
    ),
)]
pub async fn recorded_provenance(
    State(service): State<Arc<DaemonService>>,
    record_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ProvenanceReport>, Problem> {
    let (record_id, queries) = (parse_record_id(record_id)?, service.system.queries.clone());
    let provenance =
        service.run_work(async move { Ok(queries.recorded_provenance(&record_id).await?) }).await?;
    let store = service.system.store.clone();
    let read = move || -> Result<_, Problem> {
        let (raw_text, raw_fault) = match read_raw_text(&store, &provenance) {
            Ok(raw_text) => (raw_text, None),
            Err(error) => (None, Some(without_state_dir(error.to_string()))),
        };
        Ok(ProvenanceReport { provenance, raw_text, raw_fault })
    };
    Ok(Json(run_blocking(read).await?))
}

/// The text of the raw record; `None` if it was pruned or not kept.
fn read_raw_text(store: &Store, provenance: &ProvenanceRecord) -> Result<Option<String>, StoreError> {
    if provenance.pruned {
        return Ok(None);
    }
    let raw = &provenance.raw;
    let texts = store.raw_texts(&provenance.oracle_id, &raw.raw_sha256, [(raw.offset, raw.len)])?;
    Ok(texts.into_iter().next())
}

fn parse_record_id(record_id: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    // the path has escapes that are not UTF-8
    let Path(record_id) =
        record_id.map_err(|error| Problem::new(ProblemCode::InvalidRequest, error.body_text()))?;
    Ok(record_id)
}

impl From<RecordReadError> for Problem {
    fn from(error: RecordReadError) -> Self {
        let detail = error.to_string();
        match error {
            RecordReadError::Unknown(_) => Problem::new(ProblemCode::RecordUnknown, detail),
            RecordReadError::Silent(_) => Problem::new(ProblemCode::SourceSilent, detail),
            RecordReadError::Stale(_) => Problem::new(ProblemCode::SourceStale, detail),
            RecordReadError::Store(error) => error.into(),
            RecordReadError::Unlogged(error) => error.into(),
        }
    }
}
