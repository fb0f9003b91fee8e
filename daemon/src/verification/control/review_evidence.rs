//! `GET /v1/reviews/{review_id}/evidence`: what a reviewer needs beside the review itself.

use super::review::find_review;
use crate::platform::control::control_request::parse_name;
use crate::platform::openapi::problems;
use crate::platform::problem::Problem;
use crate::platform::service::{DaemonService, run_blocking};
use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use domain_ground::id::SourceId;
use domain_ground::timeline::ReleaseScope;
use domain_verification::ReviewCase;
use domain_verification::review::ReviewState;
use jiff::Timestamp;
use oracled_api::verification::{ReviewEvidence, ReviewedSourceAnswer};
use oracled_store::ground::statement::StoredStatement;
use oracled_store::ground::view::SourceView;
use oracled_store::{Store, StoreError};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

problems!(EvidenceProblems: STORE; ReviewUnknown SourceDamaged);

/// Read the units and the raw records of a review, and answers that have changed since.
#[utoipa::path(
    get,
    path = "/v1/reviews/{review_id}/evidence",
    operation_id = "read_review_evidence",
    tag = "verification",
    params(("review_id" = String, Path, description = "The id of the review: the execution id of the decision that opened it")),
    responses(
        EvidenceProblems,
        (status = 200, description = "The units of the axes to decide, the texts of the raw records, and the answers that have changed", body = ReviewEvidence),
    ),
)]
pub async fn get(
    State(service): State<Arc<DaemonService>>,
    review_id: Result<Path<String>, PathRejection>,
) -> Result<Json<ReviewEvidence>, Problem> {
    let (review_id, store, now) =
        (parse_name::<String>(review_id)?, service.system.store.clone(), service.system.clock.now());
    let read = run_blocking(move || -> Result<_, Problem> {
        let ReviewState { review, .. } = find_review(&store, &review_id)?;
        let ontology = store.ontology(&review.ontology)?;
        let unit = |path: &String| Some((path.clone(), ontology.as_ref()?.axis(path)?.unit.clone()?));
        let (mut raw_texts, mut changed) = (BTreeMap::new(), BTreeMap::new());
        for (oracle_id, candidate) in &review.candidates {
            let Some(provenance) = &candidate.provenance else { continue };
            let raw = &provenance.raw;
            let texts = store.raw_texts(oracle_id, &raw.raw_sha256, [(raw.offset, raw.len)])?;
            raw_texts.extend(texts.into_iter().map(|text| (oracle_id.clone(), text)));
            if let Some(answer) = read_changed_answer(&store, &review, oracle_id, now)? {
                changed.insert(oracle_id.clone(), answer);
            }
        }
        Ok(ReviewEvidence { units: review.axes.keys().filter_map(unit).collect(), raw_texts, changed })
    });
    Ok(Json(read.await?))
}

/// The answer that a source has now in place of its record in `review`; `None` if the record is still in force.
fn read_changed_answer(
    store: &Store,
    review: &ReviewCase,
    oracle_id: &SourceId,
    now: Timestamp,
) -> Result<Option<ReviewedSourceAnswer>, StoreError> {
    let provenance = review.candidates.get(oracle_id).and_then(|candidate| candidate.provenance.as_deref());
    let (Some(provenance), Some(view)) = (provenance, store.view(oracle_id)?) else { return Ok(None) };
    // knowledge of a past time does not change
    if review.known_at.is_some() {
        return Ok(None);
    }
    let run = view.state.completed.iter().rfind(|run| run.run_id == provenance.ingestion_run_id);
    let Some(run) = run.map(|run| run.release.run) else { return Ok(None) };
    let Some(record) = view.record(run, provenance.raw.position)? else { return Ok(None) };
    let at = review.point_in_time.unwrap_or_else(|| view.state.present(now));
    let known = view.knowledge(ReleaseScope { released_by: Some(at), ..ReleaseScope::default() });
    let is_reviewed = |statement: &&StoredStatement| {
        (statement.time.run, statement.position) == (run, provenance.raw.position)
    };
    let Some(reviewed) = record.statements.iter().find(is_reviewed) else { return Ok(None) };
    // the source may state the subject under another id of its own by now
    let identity = view.content(reviewed)?.and_then(|content| content.identity(&view.ontology));
    let subject = identity.map_or_else(|| record.key.clone(), |identity| identity.key());
    let mut present = None;
    for record in view.records(&subject, Bound::Unbounded)? {
        let Some(found) = SourceView::valid_at(&record?, &known, at) else { continue };
        // a later release may state the same content again
        if found.statement.time.content == reviewed.time.content {
            return Ok(None);
        }
        present.get_or_insert(found);
    }
    let Some(found) = present else {
        return Ok(Some(ReviewedSourceAnswer { version: None, values: BTreeMap::new() }));
    };
    let mut values = view.content(&found.statement)?.unwrap_or_default().axes;
    values.retain(|path, _| review.axes.contains_key(path));
    let version = view.state.run(found.statement.time.run).map(|run| run.release.version.clone());
    Ok(Some(ReviewedSourceAnswer { version, values }))
}
