//! The requests of reviewers: to resolve a review, which puts its locks in force, to revoke that, to dismiss a review, or to comment on it.

mod by_rule;

use super::VerificationContext;
use actors_audit::logger::CommitError;
use actors_audit::logger::handle::CommitDecision;
use domain_base::caller::DecidingUser;
use domain_base::document::RegisteredDocument;
use domain_base::event::AuditEvent;
use domain_base::wording::excerpt;
use domain_ground::id::WorkflowId;
use domain_ground::ontology::{Ontology, OntologyRef};
use domain_ground::version_name::{ReviewRuleName, ReviewRuleRef};
use domain_verification::deviation::restore_baselines;
use domain_verification::event::{
    CommentEntry, DismissalEntry, ResolutionEntry, ReviewCommented, ReviewDismissed, ReviewResolved,
    ReviewRevoked, RevocationEntry,
};
use domain_verification::review::{
    COMMENTS_MAX, CommentRequest, CommentTextError, DismissalRecord, DismissalRequest, PriorBaselines,
    ResolutionRecord, ReviewComment, ReviewResolution, ReviewResolutionError, ReviewState, RevocationRecord,
    RevocationRequest, Verifier,
};
use domain_verification::review_rule::ReviewRuleMismatch;
use domain_verification::workflow::Workflow;
use domain_verification::{AxisBaseline, HumanLock, ReviewCase, SubjectKey, SubjectState};
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

/// Why a reviewer's request has no effect. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// No review has this id.
    #[error("no review has the id {0}")]
    Unknown(String),
    /// The review was resolved.
    #[error(
        "review {review_id} was resolved by uid {verifier_id} at {resolved_at}: that decision applies until it expires or is revoked"
    )]
    Resolved {
        review_id: String,
        /// User id of the reviewer.
        verifier_id: String,
        /// When the review was resolved.
        resolved_at: Timestamp,
    },
    /// The review was dismissed.
    #[error(
        "review {review_id} was dismissed by uid {verifier_id} at {dismissed_at}: if the dispute remains, the next question opens a new review"
    )]
    Dismissed {
        review_id: String,
        /// User id of the reviewer.
        verifier_id: String,
        /// When the review was dismissed.
        dismissed_at: Timestamp,
    },
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
    /// The review is not resolved, so its resolution is not revoked.
    #[error("review {0} is open; only a resolved review can be revoked")]
    Open(String),
    /// The resolution was already revoked.
    #[error("review {review_id} was revoked by uid {verifier_id} at {revoked_at}")]
    Revoked {
        review_id: String,
        /// User id of the reviewer.
        verifier_id: String,
        /// When the resolution was revoked.
        revoked_at: Timestamp,
    },
    /// No lock of the review is in force.
    #[error(
        "no decision of review {0} is in force: it has expired, or another review that was resolved with it or later \
         replaced it"
    )]
    Gone(String),
    /// The resolution is invalid, or the reason is empty or too long.
    #[error(transparent)]
    Bad(#[from] ReviewResolutionError),
    /// No review rule has this name.
    #[error("no review rule {0} is registered")]
    RuleUnknown(ReviewRuleName),
    /// A review rule does not give the resolution.
    #[error("review rule {rule} does not give a resolution of review {review_id}: {mismatch}")]
    RuleMismatch { review_id: String, rule: ReviewRuleRef, mismatch: Box<ReviewRuleMismatch> },
    /// The evidence could not be read, because of an internal error.
    #[error("the evidence of the review could not be read: {0}")]
    Reading(String),
    /// The text of a comment is blank or too long.
    #[error(transparent)]
    Text(#[from] CommentTextError),
    /// The review has too many comments.
    #[error("review {0} has {COMMENTS_MAX} comments, and more are not allowed")]
    TooManyComments(String),
    /// The store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The change could not be committed.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

/// A reviewer's decision and its time.
struct ReviewerDecision<'a> {
    /// The review that the reviewer decides. The decision may also settle others.
    review_id: &'a str,
    resolution: &'a ReviewResolution,
    user: &'a DecidingUser,
    verifier_id: String,
    now: Timestamp,
}

impl VerificationContext {
    pub(super) async fn resolve(&self, message: &ResolveReview) -> Result<ReviewState, ReviewError> {
        let mut resolved = 0;
        let (state, _) = self
            .handles
            .log
            .decide_and_commit(|| {
                let (state, record) = self.build_resolution(message)?;
                resolved = record.events.len() as u64;
                Ok::<_, ReviewError>(CommitDecision::Change(state, record))
            })
            .await?;
        self.metrics.count_resolved_reviews(resolved);
        Ok(state)
    }

    /// Returns the resolved review, and the record that stores it.
    fn build_resolution(
        &self,
        ResolveReview { review_id, resolution, user }: &ResolveReview,
    ) -> Result<(ReviewState, JournalRecord), ReviewError> {
        let case = self.load_review(review_id)?;
        case.check_open()?;
        let review = &case.state.review;
        let workflow_revision = self.check_ontology(review)?;
        let ontology = self.read_ontology(review)?;
        let sources = self.check_rule(&case, &ontology, resolution)?;
        let (verifier_id, now) = (user.peer.uid.to_string(), self.clock.now());
        let verifier = Verifier { id: &verifier_id, name: user.name.as_deref() };
        let locks = review.resolve(&ontology, resolution, verifier, now)?;
        let decision = ReviewerDecision { review_id, resolution, user, verifier_id, now };
        let workflow = RowName::of::<RegisteredDocument<Workflow>>(&review.workflow_id.to_string());
        let (state, mut record) = self.resolution_record(case, &locks, &ontology, &decision)?;
        record.expect.push(RowExpectation { row: workflow, revision: Some(workflow_revision) });
        record.expect.extend(sources);
        Ok((state, record))
    }

    fn read_ontology(&self, review: &ReviewCase) -> Result<Ontology, ReviewError> {
        let ontology = self.store.ontology(&review.ontology)?;
        ontology.ok_or_else(|| ReviewError::OntologyUnknown(review.ontology.clone()))
    }

    /// Checks that the workflow still has the ontology of the review. Returns its revision.
    fn check_ontology(&self, review: &ReviewCase) -> Result<u64, ReviewError> {
        let registered = self.store.registered::<Workflow>(review.workflow_id.as_str())?;
        let now = match registered {
            Some((workflow, revision)) if workflow.document.ontology == review.ontology => {
                return Ok(revision);
            }
            registered => registered.map(|(workflow, _)| workflow.document.ontology),
        };
        Err(ReviewError::Outdated {
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

    /// The part of the decision that concerns `review`. A rule was applied to the review of the decision only.
    fn resolution_for_review(&self, review: &ReviewCase) -> ReviewResolution {
        let mut resolution = self.resolution.clone();
        resolution.rule = resolution.rule.filter(|_| review.review_id == self.review_id);
        resolution.values.retain(|axis, _| review.axes.contains_key(axis));
        resolution.definitions.retain(|axis, _| review.axes.contains_key(axis));
        resolution
    }
}

/// Comments on a review, open or closed.
#[derive(Debug)]
pub struct CommentOnReview {
    pub review_id: String,
    pub comment: CommentRequest,
    /// The author.
    pub user: DecidingUser,
}

impl VerificationContext {
    pub(super) async fn comment(&self, message: &CommentOnReview) -> Result<ReviewState, ReviewError> {
        let commented = self.handles.log.decide_and_commit(|| {
            let (state, record) = self.build_comment(message)?;
            Ok::<_, ReviewError>(CommitDecision::Change(state, record))
        });
        Ok(commented.await?.0)
    }

    /// Returns the review with the comment, and the record that stores it. The subject is unchanged.
    fn build_comment(
        &self,
        CommentOnReview { review_id, comment, user }: &CommentOnReview,
    ) -> Result<(ReviewState, JournalRecord), ReviewError> {
        let text = comment.checked()?;
        let known = self.store.review(review_id)?;
        let (mut state, revision) = known.ok_or_else(|| ReviewError::Unknown(excerpt(review_id)))?;
        let review_id = state.review.review_id.clone();
        if state.comments.len() >= COMMENTS_MAX {
            return Err(ReviewError::TooManyComments(review_id));
        }
        let now = self.clock.now();
        state.comments.push(ReviewComment {
            text: text.to_owned(),
            author_id: user.peer.uid.to_string(),
            author_name: user.name.clone(),
            commented_at: now,
        });
        let expect = vec![RowExpectation::new::<ReviewState>(&review_id, Some(revision))];
        let entry = CommentEntry {
            review_id,
            text: text.to_owned(),
            author_name: user.name.clone(),
            peer: user.peer,
        };
        let events = vec![AuditEvent::new(now, None, ReviewCommented(entry))];
        let writes = vec![RowWrite::put::<ReviewState>(&state)];
        Ok((state, JournalRecord { expect, events, writes, ..JournalRecord::default() }))
    }
}

/// Closes a review without a decision.
#[derive(Debug)]
pub struct DismissReview {
    pub review_id: String,
    /// The reason of the dismissal.
    pub dismissal: DismissalRequest,
    /// The reviewer.
    pub user: DecidingUser,
}

impl VerificationContext {
    pub(super) async fn dismiss(&self, message: &DismissReview) -> Result<ReviewState, ReviewError> {
        let (state, _) = self
            .handles
            .log
            .decide_and_commit(|| {
                let (state, record) = self.build_dismissal(message)?;
                Ok::<_, ReviewError>(CommitDecision::Change(state, record))
            })
            .await?;
        self.metrics.count_dismissal();
        Ok(state)
    }

    /// Returns the dismissed review, and the record that stores it. Locks and baselines are unchanged.
    fn build_dismissal(
        &self,
        DismissReview { review_id, dismissal, user }: &DismissReview,
    ) -> Result<(ReviewState, JournalRecord), ReviewError> {
        let reason = dismissal.checked()?;
        let mut case = self.load_review(review_id)?;
        case.check_open()?;
        case.close();
        let now = self.clock.now();
        case.state.dismissed = Some(DismissalRecord {
            reason: reason.to_owned(),
            verifier_id: user.peer.uid.to_string(),
            verifier_name: user.name.clone(),
            dismissed_at: now,
        });
        Ok(case.into_record(AuditEvent::new(
            now,
            None,
            ReviewDismissed(DismissalEntry {
                review_id: review_id.clone(),
                reason: reason.to_owned(),
                verifier_name: user.name.clone(),
                peer: user.peer,
            }),
        )))
    }
}

/// Revokes the resolution of a review.
#[derive(Debug)]
pub struct RevokeResolution {
    pub review_id: String,
    /// The reason of the revocation.
    pub revocation: RevocationRequest,
    /// The reviewer.
    pub user: DecidingUser,
}

impl VerificationContext {
    pub(super) async fn revoke(&self, message: &RevokeResolution) -> Result<ReviewState, ReviewError> {
        message.revocation.check()?;
        let (state, _) = self
            .handles
            .log
            .decide_and_commit(|| {
                let (state, record) = self.build_revocation(message)?;
                Ok::<_, ReviewError>(CommitDecision::Change(state, record))
            })
            .await?;
        self.metrics.count_revocation();
        Ok(state)
    }

    /// Returns the review with its locks revoked, and the record that stores it.
    fn build_revocation(
        &self,
        RevokeResolution { review_id, revocation, user }: &RevokeResolution,
    ) -> Result<(ReviewState, JournalRecord), ReviewError> {
        let mut case = self.load_review(review_id)?;
        case.check_not_dismissed()?;
        let LoadedReview { state, subject, .. } = &mut case;
        if let Some(RevocationRecord { verifier_id, revoked_at, .. }) = &state.revoked {
            let (review_id, verifier_id) = (review_id.clone(), verifier_id.clone());
            return Err(ReviewError::Revoked { review_id, verifier_id, revoked_at: *revoked_at });
        }
        let resolved = state.resolved.as_ref().ok_or_else(|| ReviewError::Open(review_id.clone()))?;
        let now = self.clock.now();
        let (mut locks, others): (Vec<HumanLock>, Vec<_>) =
            std::mem::take(&mut subject.locks).into_iter().partition(|lock| lock.review_id == *review_id);
        locks.retain(|lock| now < lock.valid_until);
        if locks.is_empty() {
            return Err(ReviewError::Gone(review_id.clone()));
        }
        subject.locks = others;
        // the values that the review confirmed are no longer baselines
        restore_baselines(&mut subject.baselines, &resolved.held_against, |path| {
            locks.iter().any(|lock| lock.axis == path)
        });
        let revoked = RevocationRecord {
            reason: revocation.reason.trim().to_owned(),
            verifier_id: user.peer.uid.to_string(),
            verifier_name: user.name.clone(),
            revoked_at: now,
        };
        let entry = RevocationEntry {
            review_id: review_id.clone(),
            reason: revoked.reason.clone(),
            locks,
            verifier_name: user.name.clone(),
            peer: user.peer,
        };
        state.revoked = Some(revoked);
        Ok(case.into_record(AuditEvent::new(now, None, ReviewRevoked(entry))))
    }
}

/// A review and the state of its subject. A change is committed only if neither has changed since they were read.
#[derive(Debug)]
struct LoadedReview {
    state: ReviewState,
    subject: SubjectState,
    key: SubjectKey,
    expect: Vec<RowExpectation>,
}

impl VerificationContext {
    /// Reads the case of a review.
    fn load_review(&self, review_id: &str) -> Result<LoadedReview, ReviewError> {
        let known = self.store.review(review_id)?;
        let (state, revision) = known.ok_or_else(|| ReviewError::Unknown(excerpt(review_id)))?;
        let review = &state.review;
        let key = SubjectKey::of(&review.workflow_id, &review.subject, review.is_about_the_present());
        let (subject, known_at) = self.store.subject(&key)?.unzip();
        let expect = vec![
            RowExpectation::new::<ReviewState>(&review.review_id, Some(revision)),
            RowExpectation::new::<SubjectState>(&key, known_at),
        ];
        Ok(LoadedReview { state, subject: subject.unwrap_or_default(), key, expect })
    }
}

impl LoadedReview {
    /// Checks that the review is open.
    ///
    /// # Errors
    /// If the review is resolved or dismissed.
    fn check_open(&self) -> Result<(), ReviewError> {
        if let Some(ResolutionRecord { verifier_id, resolved_at, .. }) = &self.state.resolved {
            return Err(ReviewError::Resolved {
                review_id: self.state.review.review_id.clone(),
                verifier_id: verifier_id.clone(),
                resolved_at: *resolved_at,
            });
        }
        self.check_not_dismissed()
    }

    /// Checks that the review is not dismissed.
    ///
    /// # Errors
    /// If the review is dismissed.
    fn check_not_dismissed(&self) -> Result<(), ReviewError> {
        let Some(DismissalRecord { verifier_id, dismissed_at, .. }) = &self.state.dismissed else {
            return Ok(());
        };
        Err(ReviewError::Dismissed {
            review_id: self.state.review.review_id.clone(),
            verifier_id: verifier_id.clone(),
            dismissed_at: *dismissed_at,
        })
    }

    /// Removes the review from the open reviews of its subject.
    fn close(&mut self) {
        let Self { state, subject, .. } = self;
        subject.open.retain(|open| open.review_id != state.review.review_id);
    }

    /// Returns the review in its current state, and the record that stores it and its subject with the log entry.
    fn into_record(self, entry: AuditEvent) -> (ReviewState, JournalRecord) {
        let Self { state, subject, key, expect } = self;
        let subject = if subject == SubjectState::default() {
            RowWrite::remove::<SubjectState>(&key)
        } else {
            RowWrite::put_at(&key, &subject)
        };
        let writes = vec![RowWrite::put::<ReviewState>(&state), subject];
        (state, JournalRecord { expect, events: vec![entry], writes, ..JournalRecord::default() })
    }
}
