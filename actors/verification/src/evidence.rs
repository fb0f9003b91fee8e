//! The evidence of a review: whether its sources still have the answers that it recorded.

use domain_ground::id::SourceId;
use domain_ground::record::{ProvenanceRecord, RecordContent};
use domain_ground::source::{OracleTier, SourceAvailability};
use domain_ground::timeline::ReleaseScope;
use domain_verification::wire::ReviewedSourceAnswer;
use domain_verification::{CandidateAnswer, ReviewCase};
use jiff::Timestamp;
use oracled_store::ground::statement::StoredStatement;
use oracled_store::ground::view::{FoundVersion, SourceView};
use oracled_store::{Store, StoreError};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The record of a source in a review, compared with its present one.
#[derive(Debug)]
pub enum PresentRecord {
    /// The record is in force, and has the same date of a release.
    Same,
    /// The record is in force, and a later release confirms it.
    Confirmed,
    /// The source has another answer, or none; or it has one only now.
    Changed(ReviewedSourceAnswer),
}

/// The records of the sources of `review`, compared with those at `now`. Without sources that had no answer and have none, and without live
/// sources that may still answer. Empty for a question about the knowledge of a past time, which does not change. Reads the disk.
///
/// # Errors
/// A source cannot be read.
pub fn read_present_records(
    store: &Store,
    review: &ReviewCase,
    now: Timestamp,
) -> Result<BTreeMap<SourceId, PresentRecord>, StoreError> {
    let mut present = BTreeMap::new();
    let gone = || PresentRecord::Changed(ReviewedSourceAnswer { version: None, values: BTreeMap::new() });
    for oracle_id in review.sources.keys().filter(|_| review.known_at.is_none()) {
        let may_answer = |view: &Arc<SourceView>| {
            !matches!(view.state.entry.availability(now), SourceAvailability::Silent(_))
        };
        let view = store.view(oracle_id)?.filter(may_answer);
        let candidate = review.candidates.get(oracle_id);
        let record = match (candidate, &view) {
            (Some(_), None) => Some(gone()),
            (Some(candidate), Some(view)) => match candidate.provenance.as_deref() {
                // a record that is no longer stored is not in force
                Some(provenance) => Some(
                    read_present_record(view, review, (candidate, provenance), now)?.unwrap_or_else(gone),
                ),
                None => None,
            },
            (None, Some(view)) => read_new_answer(view, review, now)?.map(PresentRecord::Changed),
            (None, None) => None,
        };
        present.extend(record.map(|record| (oracle_id.clone(), record)));
    }
    Ok(present)
}

/// The answer that counts of a source that had none; `None` if it still has none.
fn read_new_answer(
    view: &SourceView,
    review: &ReviewCase,
    now: Timestamp,
) -> Result<Option<ReviewedSourceAnswer>, StoreError> {
    let registration = &view.state.entry.registration;
    if registration.oracle_tier == OracleTier::Unverified || registration.ontology != review.ontology {
        return Ok(None);
    }
    let subject = RecordContent { axes: review.subject.clone(), ..RecordContent::default() };
    let Some(identity) = subject.identity(&view.ontology) else { return Ok(None) };
    let at = review.point_in_time.unwrap_or_else(|| view.state.present(now));
    let known = view.knowledge(ReleaseScope { released_by: Some(at), ..ReleaseScope::default() });
    let found = view.lookup(&identity.key(), &known, at)?.take(2).collect::<Result<Vec<_>, _>>()?;
    // a source gives no answer if it has several records, or if a later release rejected the record
    let [found] = found.as_slice() else { return Ok(None) };
    if view.unconfirmed_by(&found.version).is_some() {
        return Ok(None);
    }
    let answer = read_answer(view, review, found)?;
    Ok(Some(answer).filter(|answer| !answer.values.is_empty()))
}

/// The answer of a source by this version of its record.
fn read_answer(
    view: &SourceView,
    review: &ReviewCase,
    found: &FoundVersion,
) -> Result<ReviewedSourceAnswer, StoreError> {
    let mut values = view.content(&found.statement)?.unwrap_or_default().axes;
    values.retain(|path, _| review.axes.contains_key(path));
    let version = view.state.run(found.statement.time.run).map(|run| run.release.version.clone());
    Ok(ReviewedSourceAnswer { version, values })
}

/// The record of a source, compared with its present one; `None` if there is none.
fn read_present_record(
    view: &SourceView,
    review: &ReviewCase,
    (candidate, provenance): (&CandidateAnswer, &ProvenanceRecord),
    now: Timestamp,
) -> Result<Option<PresentRecord>, StoreError> {
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
    let mut present = Vec::new();
    for record in view.records(&subject, Bound::Unbounded)? {
        present.extend(SourceView::valid_at(&record?, &known, at));
    }
    // a source gives no answer if it has several records, or if a later release rejected the record
    let [found] = present.as_slice() else { return Ok(None) };
    if view.unconfirmed_by(&found.version).is_some() {
        return Ok(None);
    }
    // a later release may state the same content again
    if found.statement.time.content == reviewed.time.content {
        let last_seen = view.state.run(found.version.last_seen).map(|run| run.release.as_of());
        let is_same = last_seen == Some(candidate.observed_at);
        return Ok(Some(if is_same { PresentRecord::Same } else { PresentRecord::Confirmed }));
    }
    Ok(Some(PresentRecord::Changed(read_answer(view, review, found)?)))
}
