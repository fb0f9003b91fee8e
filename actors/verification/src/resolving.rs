//! Resolving a review, which puts its locks in force.

use super::VerificationContext;
use super::loaded_review::{LoadedReview, ReviewClosedError};
use actors_audit::commit_loop::CommitDecision;
use actors_audit::logger::CommitError;
use domain_base::caller::DecidingUser;
use domain_base::document::RegisteredDocument;
use domain_base::event::AuditEvent;
use domain_ground::id::WorkflowId;
use domain_ground::ontology::{Ontology, OntologyRef};
use domain_verification::deviation::restore_baselines;
use domain_verification::event::{ResolutionEntry, ReviewResolved};
use domain_verification::review::{
    PriorBaselines, ResolutionRecord, ReviewResolution, ReviewResolutionError, ReviewState, Verifier,
};
use domain_verification::workflow::Workflow;
use domain_verification::{AxisBaseline, HumanLock, ReviewCase, SubjectState};
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowName, RowWrite, StoreError};

/// Resolves a review.
#[derive(Debug)]
pub struct ResolveReview {
    pub review_id: String,
    /// The decision.
    pub resolution: ReviewResolution,
    /// The reviewer.
    pub user: DecidingUser,
}

/// Why a review is not resolved. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No review has this id.
    #[error("no review has the id {0}")]
    Unknown(String),
    /// The review is already closed.
    #[error(transparent)]
    Closed(#[from] ReviewClosedError),
    /// The ontology of the review is not registered.
    #[error("no ontology {0} is registered")]
    OntologyUnknown(OntologyRef),
    /// The workflow has another ontology than the review, so no question would find the decision.
    #[error(
        "workflow {workflow_id} {now}, and review {review_id} is about {ontology}: a decision would apply to no question; dismiss the review"
    )]
    Outdated {
        review_id: String,
        workflow_id: WorkflowId,
        ontology: OntologyRef,
        /// The present state of the workflow.
        now: String,
    },
    /// The resolution is invalid.
    #[error(transparent)]
    Bad(#[from] ReviewResolutionError),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The resolution could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// A reviewer's decision and its time.
struct ReviewerDecision<'a> {
    resolution: &'a ReviewResolution,
    user: &'a DecidingUser,
    verifier_id: String,
    now: Timestamp,
}

impl VerificationContext {
    pub(super) async fn resolve(&self, message: &ResolveReview) -> Result<ReviewState, ResolveError> {
        let mut resolved = 0;
        let (state, _) = self
            .handles
            .log
            .decide_and_commit(|| {
                let (state, record) = self.build_resolution(message)?;
                resolved = record.events.len() as u64;
                Ok::<_, ResolveError>(CommitDecision::Change(state, record))
            })
            .await?;
        self.metrics.count_resolved_reviews(resolved);
        Ok(state)
    }

    /// Returns the resolved review, and the record that stores it.
    fn build_resolution(
        &self,
        ResolveReview { review_id, resolution, user }: &ResolveReview,
    ) -> Result<(ReviewState, JournalRecord), ResolveError> {
        let case = self.load_review(review_id, ResolveError::Unknown)?;
        case.check_open()?;
        let review = &case.state.review;
        let workflow_revision = self.check_ontology(review)?;
        let ontology = self.store.ontology(&review.ontology)?;
        let ontology = ontology.ok_or_else(|| ResolveError::OntologyUnknown(review.ontology.clone()))?;
        let (verifier_id, now) = (user.peer.uid.to_string(), self.clock.now());
        let verifier = Verifier { id: &verifier_id, name: user.name.as_deref() };
        let locks = review.resolve(&ontology, resolution, verifier, now)?;
        let decision = ReviewerDecision { resolution, user, verifier_id, now };
        let workflow = RowName::of::<RegisteredDocument<Workflow>>(&review.workflow_id.to_string());
        let (state, mut record) = self.resolution_record(case, &locks, &ontology, &decision)?;
        record.expect.push(RowExpectation { row: workflow, revision: Some(workflow_revision) });
        Ok((state, record))
    }

    /// Checks that the workflow still has the ontology of the review. Returns its revision.
    fn check_ontology(&self, review: &ReviewCase) -> Result<u64, ResolveError> {
        let registered = self.store.registered::<Workflow>(review.workflow_id.as_str())?;
        let now = match registered {
            Some((workflow, revision)) if workflow.document.ontology == review.ontology => {
                return Ok(revision);
            }
            registered => registered.map(|(workflow, _)| workflow.document.ontology),
        };
        Err(ResolveError::Outdated {
            review_id: review.review_id.clone(),
            workflow_id: review.workflow_id.clone(),
            ontology: review.ontology.clone(),
            now: now.map_or_else(|| "does not exist".into(), |now| format!("uses ontology {now} now")),
        })
    }

    /// Returns the resolved review, and the record that stores it. The record also resolves the open reviews
    /// of the same subject that this decision settles.
    fn resolution_record(
        &self,
        mut case: LoadedReview,
        locks: &[HumanLock],
        ontology: &Ontology,
        decision: &ReviewerDecision<'_>,
    ) -> Result<(ReviewState, JournalRecord), StoreError> {
        case.close();
        let LoadedReview { state, subject, .. } = &mut case;
        let mut other_reviews = JournalRecord::default();
        let mut still_open = Vec::new();
        for open in std::mem::take(&mut subject.open) {
            let other = self.store.review(&open.review_id)?;
            let settled = other.filter(|(other, _)| state.review.is_deciding(&other.review));
            let Some((mut other, revision)) = settled else {
                still_open.push(open);
                continue;
            };
            other_reviews.expect.push(RowExpectation::new::<ReviewState>(&open.review_id, Some(revision)));
            other_reviews.events.push(decision.resolution_event(&other.review, Vec::new()));
            other.resolved = Some(decision.record_of(&other.review));
            other_reviews.writes.push(RowWrite::put::<ReviewState>(&other));
        }
        subject.open = still_open;
        subject.locks.retain(|lock| decision.now < lock.valid_until);
        let is_replaced = |lock: &HumanLock| {
            lock.ontology == state.review.ontology
                && (lock.point_in_time, lock.known_at) == (state.review.point_in_time, state.review.known_at)
                && state.review.axes.contains_key(&lock.axis)
        };
        let (replaced, others): (Vec<_>, _) =
            std::mem::take(&mut subject.locks).into_iter().partition(is_replaced);
        subject.locks = others;
        let mut confirmed = Vec::new();
        for lock in replaced {
            let by = self.store.review(&lock.review_id)?.and_then(|(state, _)| state.resolved);
            let before = by.map(|by| by.held_against).unwrap_or_default();
            let is_same = |new: &HumanLock| {
                (&new.axis, &new.value, &new.definition) == (&lock.axis, &lock.value, &lock.definition)
            };
            if locks.iter().any(is_same) {
                confirmed.push((lock.axis, before));
            } else {
                restore_baselines(&mut subject.baselines, &before, |path| path == lock.axis);
            }
        }
        subject.locks.extend(locks.iter().cloned());
        let mut before = confirm_baselines(subject, &state.review, locks, ontology);
        // a deviation that is confirmed again keeps the baseline from before its first confirmation
        for (axis, earlier) in confirmed {
            for (oracle_id, mut earlier) in earlier {
                let earlier = earlier.remove_entry(&axis);
                before.entry(oracle_id).or_default().extend(earlier);
            }
        }
        state.resolved = Some(ResolutionRecord { held_against: before, ..decision.record_of(&state.review) });
        let entry = decision.resolution_event(&state.review, locks.to_vec());
        let (state, mut record) = case.into_record(entry);
        record.expect.extend(other_reviews.expect);
        record.events.extend(other_reviews.events);
        record.writes.extend(other_reviews.writes);
        Ok((state, record))
    }
}

/// Makes the deviating values that the reviewer has confirmed the new baselines. Returns the previous
/// baselines, to restore them on revocation.
fn confirm_baselines(
    subject: &mut SubjectState,
    review: &ReviewCase,
    locks: &[HumanLock],
    ontology: &Ontology,
) -> PriorBaselines {
    let mut before = PriorBaselines::new();
    if !review.is_about_the_present() {
        return before;
    }
    for (oracle_id, candidate) in &review.candidates {
        for path in candidate.deviations.keys() {
            let Some(baseline) = AxisBaseline::of(candidate, path) else { continue };
            let lock = locks.iter().find(|lock| lock.axis == *path);
            let is_confirmed = lock.zip(ontology.axis(path)).is_some_and(|(lock, axis)| {
                let (stated, decided) = (baseline.stated.value.typed(axis), lock.value.typed(axis));
                lock.definition == baseline.stated.definition
                    && stated.is_ok_and(|stated| decided.is_ok_and(|decided| stated == decided))
            });
            if is_confirmed {
                let of_source = subject.baselines.entry(oracle_id.clone()).or_default();
                let old = of_source.insert(path.clone(), baseline);
                before.entry(oracle_id.clone()).or_default().insert(path.clone(), old);
            }
        }
    }
    before
}

impl ReviewerDecision<'_> {
    fn record_of(&self, review: &ReviewCase) -> ResolutionRecord {
        ResolutionRecord {
            resolution: self.resolution_for_review(review),
            verifier_id: self.verifier_id.clone(),
            verifier_name: self.user.name.clone(),
            resolved_at: self.now,
            held_against: PriorBaselines::new(),
        }
    }

    fn resolution_event(&self, review: &ReviewCase, locks: Vec<HumanLock>) -> AuditEvent {
        AuditEvent::new(
            self.now,
            None,
            ReviewResolved(ResolutionEntry {
                review_id: review.review_id.clone(),
                resolution: self.resolution_for_review(review),
                locks,
                verifier_name: self.user.name.clone(),
                peer: self.user.peer,
            }),
        )
    }

    /// The part of the decision that concerns `review`.
    fn resolution_for_review(&self, review: &ReviewCase) -> ReviewResolution {
        let mut resolution = self.resolution.clone();
        resolution.values.retain(|axis, _| review.axes.contains_key(axis));
        resolution.definitions.retain(|axis, _| review.axes.contains_key(axis));
        resolution
    }
}
