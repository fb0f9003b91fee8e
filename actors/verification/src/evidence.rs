//! The evidence of a review: whether its sources still have the answers that it recorded.

use domain_ground::id::SourceId;
use domain_ground::record::ProvenanceRecord;
use domain_ground::timeline::ReleaseScope;
use domain_verification::wire::ReviewedSourceAnswer;
use domain_verification::{CandidateAnswer, ReviewCase};
use jiff::Timestamp;
use oracled_store::ground::statement::StoredStatement;
use oracled_store::ground::view::SourceView;
use oracled_store::{Store, StoreError};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The record of a source in a review, compared with its present one.
#[derive(Debug)]
pub enum PresentRecord {
    /// The record is in force, and has the same date of a release.
    Same,
    /// The record is in force, and a later release confirms it.
    Confirmed,
    /// The source has another answer, or none.
    Changed(ReviewedSourceAnswer),
}

/// The records of the ingested sources of `review`, compared with those at `now`. None for a question about a past knowledge, which does
/// not change. Reads the disk.
///
/// # Errors
/// A source cannot be read.
pub fn read_present_records(
    store: &Store,
    review: &ReviewCase,
    now: Timestamp,
) -> Result<BTreeMap<SourceId, PresentRecord>, StoreError> {
    let mut present = BTreeMap::new();
    for (oracle_id, candidate) in review.candidates.iter().filter(|_| review.known_at.is_none()) {
        let Some(provenance) = candidate.provenance.as_deref() else { continue };
        // a record that is not stored any longer is not in force
        let answer = read_present_record(store, review, (oracle_id, candidate, provenance), now)?;
        let gone = || ReviewedSourceAnswer { version: None, values: BTreeMap::new() };
        present.insert(oracle_id.clone(), answer.unwrap_or_else(|| PresentRecord::Changed(gone())));
    }
    Ok(present)
}

/// The record of a source, compared with its present one; `None` if there is none.
fn read_present_record(
    store: &Store,
    review: &ReviewCase,
    (oracle_id, candidate, provenance): (&SourceId, &CandidateAnswer, &ProvenanceRecord),
    now: Timestamp,
) -> Result<Option<PresentRecord>, StoreError> {
    let Some(view) = store.view(oracle_id)? else { return Ok(None) };
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
            let last_seen = view.state.run(found.version.last_seen).map(|run| run.release.as_of());
            let is_same = last_seen == Some(candidate.observed_at);
            return Ok(Some(if is_same { PresentRecord::Same } else { PresentRecord::Confirmed }));
        }
        present.get_or_insert(found);
    }
    let Some(found) = present else { return Ok(None) };
    let mut values = view.content(&found.statement)?.unwrap_or_default().axes;
    values.retain(|path, _| review.axes.contains_key(path));
    let version = view.state.run(found.statement.time.run).map(|run| run.release.version.clone());
    Ok(Some(PresentRecord::Changed(ReviewedSourceAnswer { version, values })))
}
