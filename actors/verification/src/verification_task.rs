//! One verification: querying the sources, deciding, logging.

use super::{VerificationContext, VerifyError};
use crate::source::SourceCallExtras;
use crate::upkeep::start_decision;
use actors_audit::logger::handle;
use actors_platform::caller::current_caller;
use actors_platform::clock::stopwatch;
use actors_platform::key_file::unique_id;
use domain_base::event::AuditEvent;
use domain_ground::id::{SourceId, WorkflowId};
use domain_verification::deviation::{advance_baselines, find_deviations, record_baselines};
use domain_verification::envelope::ValueBasis;
use domain_verification::event::{
    ReviewEntry, ReviewOpened, SourceAsked, SourceCallEntry, VerificationDecided, VerificationEntry,
};
use domain_verification::review::{
    CALLERS_QUEUE_MAX, CALLERS_QUEUE_TOTAL_MAX, OPEN_REVIEWS, QUEUE_MAX, QUEUE_TOTAL_MAX, ReviewState,
};
use domain_verification::workflow::{EnforcementMode, Workflow};
use domain_verification::{
    AxisBaseline, DecisionInputs, DecisionStage, Envelope, EnvelopeKind, OracleReply, ReviewCase,
    SourceBaselines, SubjectKey, SubjectState, VerifyRequest, decide, is_query_required,
};
use oracled_store::{JournalRecord, RowExpectation, RowWrite, StoreError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

/// The part of a budget that is reserved for the decision, so that a substitute for a missing answer is in time, too.
const DECISION_RESERVE: Duration = Duration::from_millis(20);
/// The reserved part is at most this fraction of the budget.
const DECISION_RESERVE_DIVISOR: u32 = 10;
/// After this number of attempts to commit a decision, its answers are no longer cached: other decisions cache theirs.
const CACHING_ATTEMPTS_MAX: usize = 4;

/// A decision with the state that is committed with it.
struct UncommittedDecision {
    inputs: DecisionInputs,
    envelope: Envelope,
    /// The open reviews, locks and baselines of the subject.
    subject: SubjectState,
    /// The expected revision of the subject's row. For a question about the past, also that of the present subject.
    expected_rows: Vec<RowExpectation>,
}

/// The log events and cached answers that are committed with a decision.
#[derive(Default)]
struct DecisionAttachments {
    /// The events of the first calls of sources that were queried again afterwards.
    first_call_events: Vec<AuditEvent>,
    extras: SourceCallExtras,
}

impl VerificationContext {
    /// Verifies `request`. `began` is when the caller started to wait.
    pub(super) async fn verify(
        self: Arc<Self>,
        request: &VerifyRequest,
        began: Instant,
    ) -> Result<Arc<Envelope>, VerifyError> {
        let inputs = self.prepare_inputs(request)?;
        if inputs.workflow.authority_latency.enforcement_mode == EnforcementMode::Async {
            return self.defer_decision(inputs, began).await;
        }
        self.decide(inputs, began).await
    }

    /// Validates the request, and returns the inputs without any calls.
    fn prepare_inputs(&self, request: &VerifyRequest) -> Result<DecisionInputs, VerifyError> {
        let unknown = || VerifyError::WorkflowUnknown(request.workflow.clone());
        let (registered, _) =
            self.store.registered::<Workflow>(request.workflow.as_str())?.ok_or_else(unknown)?;
        let workflow = registered.document;
        let unknown = || VerifyError::OntologyUnknown(workflow.ontology.clone());
        let ontology = self.store.ontology(&workflow.ontology)?.ok_or_else(unknown)?;
        let asked_at = self.clock.now();
        let question = request.read(&workflow, &ontology, asked_at)?;
        let inputs = DecisionInputs::new(unique_id('v', asked_at), workflow, &ontology, question, asked_at);
        Ok(DecisionInputs { owner: current_caller().and_then(|caller| caller.owner()), ..inputs })
    }

    /// Commits a pending decision, starts it in the background, and returns its provisional envelope.
    async fn defer_decision(
        self: Arc<Self>,
        inputs: DecisionInputs,
        began: Instant,
    ) -> Result<Arc<Envelope>, VerifyError> {
        let envelope = decide(&inputs);
        let claim = if envelope.kind == EnvelopeKind::Provisional {
            Some(self.pending.claim(&inputs.execution_id).ok_or(VerifyError::Busy)?)
        } else {
            None
        };
        let mut later = DecisionInputs { stage: DecisionStage::Delayed, ..inputs.clone() };
        later.calls.clear();
        let entry = VerificationDecided(VerificationEntry::of(inputs.clone(), &envelope));
        let mut record = JournalRecord::from(AuditEvent::new(envelope.decided_at, None, entry));
        record.writes.extend(claim.is_some().then(|| RowWrite::put::<DecisionInputs>(&later)));
        self.handles.log.commit(record).await?;
        self.metrics.count_decision(&inputs, &envelope, false, began.elapsed());
        if let Some(claim) = claim {
            start_decision(self, claim, later);
        }
        Ok(Arc::new(envelope))
    }

    /// Queries the sources, decides, and commits the decision.
    pub(super) async fn decide(
        self: &Arc<Self>,
        mut inputs: DecisionInputs,
        began: Instant,
    ) -> Result<Arc<Envelope>, VerifyError> {
        let authority = inputs.workflow.authority_latency;
        let waits =
            authority.enforcement_mode == EnforcementMode::Inline && inputs.stage == DecisionStage::First;
        let budget = Duration::from_millis(authority.authority_latency_budget_ms).min(self.config.longest);
        let deadline =
            waits.then(|| began + budget - DECISION_RESERVE.min(budget / DECISION_RESERVE_DIVISOR));
        let mut attachments = DecisionAttachments::default();
        let is_asked = is_query_required(&inputs);
        // a question without queries needs no slot, and a pending decision already has its own
        let _slot = match deadline.filter(|_| is_asked) {
            Some(deadline) => Some(self.wait_for_slot(deadline).await?),
            None => None,
        };
        // a pending decision queries its sources when its slot is free
        let put_at = if inputs.stage == DecisionStage::Delayed { self.clock.now() } else { inputs.asked_at };
        if is_asked {
            let oracle_ids = inputs.workflow.oracles.iter().cloned().collect();
            attachments.extras = self.call_sources(&mut inputs, &oracle_ids, put_at, deadline).await;
        }
        let mut decided = self.decide_with_current_state(inputs, &attachments.extras, began)?;
        let again: BTreeSet<SourceId> =
            decided.envelope.reverify.iter().map(|again| again.oracle_id.clone()).collect();
        if !again.is_empty() && deadline.is_none_or(|deadline| stopwatch() < deadline) {
            let UncommittedDecision { mut inputs, envelope, .. } = decided;
            let before = SourceCallEntry::all(&inputs, &envelope);
            let before = before.into_iter().filter(|call| again.contains(&call.oracle_id));
            attachments.first_call_events = before.map(|call| source_call_event(&inputs, call)).collect();
            let second_extras = self.call_sources(&mut inputs, &again, put_at, deadline).await;
            attachments.extras.answers_to_cache.extend(second_extras.answers_to_cache);
            attachments.extras.earlier_statements.extend(second_extras.earlier_statements);
            inputs.reverified = true;
            decided = self.decide_with_current_state(inputs, &attachments.extras, began)?;
        }
        self.commit_decision(decided, &attachments, began).await
    }

    /// Waits for a slot until this time.
    async fn wait_for_slot(&self, until: Instant) -> Result<OwnedSemaphorePermit, VerifyError> {
        let slot = Arc::clone(&self.slots).acquire_owned();
        let slot = timeout_at(until, slot).await.map_err(|_| VerifyError::Busy)?;
        Ok(slot.expect("the semaphore is never closed"))
    }

    /// Decides with the current open reviews, locks and baselines of the subject.
    fn decide_with_current_state(
        &self,
        mut inputs: DecisionInputs,
        extras: &SourceCallExtras,
        began: Instant,
    ) -> Result<UncommittedDecision, StoreError> {
        let mut expected_rows = Vec::new();
        let mut read = |key: SubjectKey| {
            let known = self.store.subject(&key)?;
            let revision = known.as_ref().map(|(_, revision)| *revision);
            expected_rows.push(RowExpectation::new::<SubjectState>(&key, revision));
            let mut subject = known.map(|(subject, _)| subject).unwrap_or_default();
            self.remove_undone_baselines(&mut subject.baselines)?;
            Ok::<_, StoreError>(subject)
        };
        let subject = read(question_subject_key(&inputs))?;
        (inputs.locks, inputs.open_reviews) = (subject.locks.clone(), subject.open.clone());
        let present = if !inputs.question.is_about_the_present() {
            let present = read(present_subject_key(&inputs))?;
            // a decision about the present also covers the time since then
            inputs.locks.extend(present.locks.iter().cloned());
            present
        } else {
            subject.clone()
        };
        let question = &inputs.question;
        inputs.locks.retain(|lock| lock.covers(question));
        compare_with_baselines(&mut inputs, &present.baselines, extras);
        inputs.decided_at = self.clock.now();
        inputs.elapsed_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        inputs.queue_is_full = false;
        let mut envelope = decide(&inputs);
        let opens = ReviewCase::of(&inputs, &envelope);
        if let Some(review) = opens
            && self.queue_is_full(&review)?
        {
            inputs.queue_is_full = true;
            envelope = decide(&inputs);
        }
        Ok(UncommittedDecision { inputs, envelope, subject, expected_rows })
    }

    /// Removes baselines that come from undone runs.
    fn remove_undone_baselines(&self, baselines: &mut SourceBaselines) -> Result<(), StoreError> {
        for (oracle_id, of_source) in baselines.iter_mut() {
            let Some(view) = self.store.view(oracle_id)? else { continue };
            let releases = view.state.completed.iter().map(|completed| &completed.release);
            let undone: Vec<_> = releases.filter(|release| view.known.is_undone(release.run)).collect();
            of_source.retain(|_, baseline| {
                !undone.iter().any(|release| release.ingested_at == baseline.verified_at)
            });
        }
        baselines.retain(|_, of_source| !of_source.is_empty());
        Ok(())
    }

    /// Whether the limit of open reviews is reached for the workflow or in total. Reviews that callers can
    /// open at will, and other reviews, have separate limits.
    fn queue_is_full(&self, review: &ReviewCase) -> Result<bool, StoreError> {
        let all = self.handles.log.report().borrow().counts.of(OPEN_REVIEWS.name);
        let workflow_id = &review.workflow_id;
        let by_callers = |of: Option<&WorkflowId>| self.store.caller_openable_reviews(of);
        // the reviews of a workflow are only counted if all open reviews together could fill its pool
        if review.is_caller_openable() {
            let is_full = all >= CALLERS_QUEUE_MAX && by_callers(Some(workflow_id))? >= CALLERS_QUEUE_MAX;
            return Ok(
                is_full || all >= CALLERS_QUEUE_TOTAL_MAX && by_callers(None)? >= CALLERS_QUEUE_TOTAL_MAX
            );
        }
        let of_sources =
            |all: u64, of: Option<&WorkflowId>| Ok::<_, StoreError>(all.saturating_sub(by_callers(of)?));
        let is_full = all >= QUEUE_MAX
            && of_sources(self.store.open_reviews_of(workflow_id)?, Some(workflow_id))? >= QUEUE_MAX;
        Ok(is_full || all >= QUEUE_TOTAL_MAX && of_sources(all, None)? >= QUEUE_TOTAL_MAX)
    }

    /// Commits a decision. If another commit has changed its rows meanwhile, it is decided again.
    async fn commit_decision(
        &self,
        mut decided: UncommittedDecision,
        attachments: &DecisionAttachments,
        began: Instant,
    ) -> Result<Arc<Envelope>, VerifyError> {
        let mut attempt = 0;
        let settled = self.handles.log.decide_and_commit(|| {
            attempt += 1;
            if attempt > 1 {
                decided =
                    self.decide_with_current_state(decided.inputs.clone(), &attachments.extras, began)?;
            }
            let record = self.decision_record(&decided, attachments, attempt <= CACHING_ATTEMPTS_MAX)?;
            Ok::<_, VerifyError>(handle::CommitDecision::Change((), record))
        });
        settled.await?;
        let UncommittedDecision { inputs, envelope, .. } = decided;
        let opened = envelope.review_id.as_ref() == Some(&envelope.execution_id);
        self.metrics.count_decision(&inputs, &envelope, opened, began.elapsed());
        Ok(Arc::new(envelope))
    }

    /// The record of a decision. It includes the answers to cache if `keeps`.
    fn decision_record(
        &self,
        decided: &UncommittedDecision,
        attachments: &DecisionAttachments,
        keeps: bool,
    ) -> Result<JournalRecord, StoreError> {
        let UncommittedDecision { inputs, envelope, subject, expected_rows } = decided;
        let mut record =
            JournalRecord { events: attachments.first_call_events.clone(), ..JournalRecord::default() };
        let calls = SourceCallEntry::all(inputs, envelope).into_iter();
        record.events.extend(calls.map(|call| source_call_event(inputs, call)));
        let entry = VerificationDecided(VerificationEntry::of(inputs.clone(), envelope));
        record.events.push(AuditEvent::new(envelope.decided_at, None, entry));
        let review = ReviewCase::of(inputs, envelope);
        let mut known = subject.clone();
        if inputs.question.is_about_the_present() {
            record_baselines(inputs, &attachments.extras.earlier_statements, &mut known.baselines);
        }
        let advanced = advance_baselines(inputs, envelope, &known.baselines).filter(|_| keeps);
        known.baselines = advanced.unwrap_or(known.baselines);
        if review.is_some() || known.baselines != subject.baselines {
            known.open.extend(review.as_ref().map(ReviewCase::to_open_review));
            record.writes.push(RowWrite::put_at(&question_subject_key(inputs), &known));
        }
        // a lock that was revoked meanwhile must not be returned
        let rests_on_locks = envelope.axes.values().any(|axis| axis.basis == Some(ValueBasis::HumanLock));
        if rests_on_locks {
            record.expect.extend(expected_rows.iter().cloned());
        } else if !record.writes.is_empty() {
            record.expect.extend(expected_rows.first().cloned());
        }
        if let Some(review) = review {
            let (review_id, timestamp) = (review.review_id.clone(), envelope.decided_at);
            let state = ReviewState::new_open(review.clone());
            let entry = ReviewEntry { review_id, review: Box::new(review) };
            record.events.push(AuditEvent::new(timestamp, None, ReviewOpened(entry)));
            record.writes.push(RowWrite::put::<ReviewState>(&state));
        }
        for answer in attachments
            .extras
            .answers_to_cache
            .iter()
            .filter(|answer| keeps && answer.is_accepted_in(envelope))
        {
            let call = inputs.calls.get(&answer.key.oracle_id);
            let is_doubted = call.is_some_and(|call| call.reply.is_deviating());
            if let Some((expect, write)) = answer.cache_write(&self.store, is_doubted)? {
                record.expect.push(expect);
                record.writes.push(write);
            }
        }
        if inputs.stage == DecisionStage::Delayed {
            record.writes.push(RowWrite::remove::<DecisionInputs>(&inputs.execution_id));
            record.ends_work = true;
        }
        Ok(record)
    }
}

/// Compares the answer or the cached answer of each source with its baseline.
fn compare_with_baselines(
    inputs: &mut DecisionInputs,
    baselines: &SourceBaselines,
    extras: &SourceCallExtras,
) {
    let as_of = (!inputs.question.is_about_the_present()).then(|| inputs.as_of());
    let known_at = inputs.question.known_at;
    let DecisionInputs { workflow, axes, calls, .. } = inputs;
    for (oracle_id, call) in calls {
        let (known, before) = (baselines.get(oracle_id), extras.earlier_statements.get(oracle_id));
        let baseline = |path: &str| {
            let known = known.and_then(|known| known.get(path)).cloned();
            let before = || AxisBaseline::of(before?, path);
            match as_of {
                None => known.or_else(before),
                // a decision about the present may use later releases, which a question about the past must not see
                Some(as_of) => before().or_else(|| {
                    let is_known = |known: &AxisBaseline| known_at.is_none_or(|at| known.verified_at <= at);
                    known.filter(|known| known.observed_at <= as_of && is_known(known))
                }),
            }
        };
        let answered = match &mut call.reply {
            OracleReply::Answered { candidate } => Some(candidate),
            _ => None,
        };
        for candidate in answered.into_iter().chain(&mut call.kept) {
            candidate.deviations = find_deviations(workflow, axes, baseline, candidate);
        }
    }
}

/// The event that reports a call of `inputs`.
fn source_call_event(inputs: &DecisionInputs, call: SourceCallEntry) -> AuditEvent {
    AuditEvent::new(inputs.decided_at, None, SourceAsked(call))
}

/// The key of the subject in the present: its open reviews, locks and baselines.
fn present_subject_key(inputs: &DecisionInputs) -> SubjectKey {
    SubjectKey::of(&inputs.workflow.workflow_id, &inputs.question.subject, true)
}

fn question_subject_key(inputs: &DecisionInputs) -> SubjectKey {
    let question = &inputs.question;
    SubjectKey::of(&inputs.workflow.workflow_id, &question.subject, question.is_about_the_present())
}
