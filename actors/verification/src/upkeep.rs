//! The schedule of the verification: it resumes pending decisions, which workflows without a waiting caller make later,
//! and deletes expired answers of live sources.

use super::{VerificationContext, VerificationService, VerifyError};
use actix::{Actor, AsyncContext, Context, Supervised};
use actors_platform::caller::spawn_for_caller;
use actors_platform::clock::stopwatch;
use actors_platform::work::{InFlight, InFlightClaim};
use actors_platform::work_turn::WorkTurn;
use domain_base::event::AuditEvent;
use domain_verification::adapter::ValidatedAdapter;
use domain_verification::event::{AnswerRemovalEntry, CachedAnswersRemoved};
use domain_verification::{CachedAnswer, CachedAnswerKey, CandidateAnswer, DecisionInputs};
use jiff::{SignedDuration, Timestamp};
use oracled_store::{JournalRecord, RowExpectation, RowName, RowWrite, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// The time between two passes over cached answers and pending decisions.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(3600);
/// The time between two passes over pending decisions on a host of a cluster.
const FOREIGN_INTERVAL: Duration = Duration::from_secs(60);
/// The age from which a pending decision counts as one of a host that was lost. Its own host makes it much earlier.
const FOREIGN_AGE: SignedDuration = SignedDuration::from_mins(10);
/// Number of cached answers that are checked and deleted in one commit.
const PAGE: usize = 256;

/// The actor that runs the schedule.
#[derive(Debug)]
pub struct VerificationUpkeep {
    verification: VerificationService,
    turn: WorkTurn,
}

impl VerificationUpkeep {
    pub const fn new(verification: VerificationService, turn: WorkTurn) -> Self {
        Self { verification, turn }
    }
}

impl Actor for VerificationUpkeep {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Context<Self>) {
        ctx.run_interval(UPKEEP_INTERVAL, |upkeep, _| {
            if !upkeep.turn.is_ours() {
                return;
            }
            if upkeep.turn.host().is_none() {
                resume_pending_decisions(&upkeep.verification.context, SignedDuration::ZERO);
            }
            let verifier = Arc::clone(&upkeep.verification.context);
            tokio::spawn(async move { verifier.delete_expired_answers().await });
        });
        self.verification.context.track_workflow_sources();
        if self.turn.host().is_none() {
            return resume_pending_decisions(&self.verification.context, SignedDuration::ZERO);
        }
        ctx.run_interval(FOREIGN_INTERVAL, |upkeep, _| {
            if upkeep.turn.is_ours() {
                resume_pending_decisions(&upkeep.verification.context, FOREIGN_AGE);
            }
        });
    }
}

impl Supervised for VerificationUpkeep {}

actors_platform::handle_actor_calls!(VerificationUpkeep);

impl VerificationContext {
    /// Deletes expired cached answers. An answer that is replaced meanwhile is left to the next pass.
    async fn delete_expired_answers(&self) {
        if let Err(error) = self.try_delete_expired_answers().await {
            tracing::warn!(%error, "could not delete expired answers of live sources");
        }
    }

    async fn try_delete_expired_answers(&self) -> Result<(), VerifyError> {
        let mut after: Option<CachedAnswerKey> = None;
        loop {
            let page = self.store.cached_answer_page(after.as_ref(), PAGE)?;
            let now = self.clock.now();
            let mut record = JournalRecord::default();
            for (key, answer, revision) in page.answers {
                if !self.is_answer_needed(&key, &answer, now)? {
                    let (row, revision) = (RowName::of::<CachedAnswer>(&key), Some(revision));
                    record.expect.push(RowExpectation { row, revision });
                    record.writes.push(RowWrite::remove::<CachedAnswer>(&key));
                }
            }
            if !record.writes.is_empty() {
                let entry = AnswerRemovalEntry { count: record.writes.len() as u64 };
                record.events.push(AuditEvent::new(now, None, CachedAnswersRemoved(entry)));
                self.handles.log.commit(record).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Whether an answer may still be served, or still guards against replays of older answers.
    fn is_answer_needed(
        &self,
        key: &CachedAnswerKey,
        answer: &CachedAnswer,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let Some(view) = self.store.view(&key.oracle_id)? else { return Ok(false) };
        // if the adapter is invalid for now, no answer of its source is deleted
        let Ok(Some(adapter)) = self.adapter(&view) else { return Ok(true) };
        // an answer from a later time is used again once the clock, which was set back, has caught up
        let is_ahead = |candidate: &CandidateAnswer| candidate.record.retrieved_at > now;
        let is_ahead = answer.candidate.as_ref().is_some_and(is_ahead);
        Ok(is_ahead || adapter.is_usable(answer, now) || is_replay_guard(&adapter, answer, now))
    }
}

/// Whether an answer that was issued before `answer` would be accepted again if `answer` were deleted.
fn is_replay_guard(adapter: &ValidatedAdapter, answer: &CachedAnswer, now: Timestamp) -> bool {
    let age_s = adapter.adapter().max_issue_age_seconds.and_then(|age_s| i64::try_from(age_s).ok());
    let limit = age_s.map(SignedDuration::from_secs);
    answer.issued_at.zip(limit).is_some_and(|(issued_at, limit)| now.duration_since(issued_at) <= limit)
}

/// Pause before the next attempt of a decision that could not be committed.
const DECISION_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Maximum number of pending decisions. Beyond it, a request is rejected as busy.
pub const PENDING_DECISIONS_MAX: usize = 2000;
/// Pending decisions use one in this number of slots, so that waiting callers get theirs.
const PENDING_SLOT_DIVISOR: usize = 4;

/// Exclusive access to a pending decision, by its execution id.
pub(super) type PendingDecisionClaim = InFlightClaim<String>;

#[derive(Debug)]
pub(super) struct PendingDecisions {
    /// The decisions in progress. A restarted actor does not start any of them twice.
    in_flight: InFlight<String>,
    slots: Semaphore,
}

impl PendingDecisions {
    /// No pending decisions, with a share of the `at_once` slots.
    pub(super) fn new(at_once: usize) -> Self {
        let slots = Semaphore::new((at_once / PENDING_SLOT_DIVISOR).max(1));
        Self { in_flight: InFlight::default(), slots }
    }

    /// Claims a new pending decision; `None` if the limit is reached. It must be claimed before it is logged, because
    /// concurrent requests could exceed the limit otherwise.
    pub(super) fn claim(&self, execution_id: &str) -> Option<PendingDecisionClaim> {
        self.in_flight.claim_below(execution_id.to_owned(), PENDING_DECISIONS_MAX)
    }
}

/// Starts a decision in the background. It waits for a slot.
pub(super) fn start_decision(
    verifier: Arc<VerificationContext>,
    claim: PendingDecisionClaim,
    inputs: DecisionInputs,
) {
    spawn_for_caller(async move {
        loop {
            let slot = verifier.pending.slots.acquire().await;
            let Err(error) = verifier.decide(inputs.clone(), stopwatch()).await else { break };
            tracing::warn!(execution_id = claim.id, %error, "could not make a pending decision; retrying");
            drop(slot);
            sleep(DECISION_RETRY_PAUSE).await;
        }
    });
}

/// Starts all pending decisions that are not in progress, without a limit: those that were interrupted by a stop or a
/// panic.
fn resume_pending_decisions(verifier: &Arc<VerificationContext>, age: SignedDuration) {
    let pending = match verifier.store.pending_decisions() {
        Ok(pending) => pending,
        Err(error) => {
            tracing::error!(%error, "could not read the pending decisions");
            return;
        }
    };
    let now = verifier.clock.now();
    for inputs in pending.into_iter().filter(|inputs| now.duration_since(inputs.asked_at) >= age) {
        if let Some(claim) = verifier.pending.in_flight.claim(inputs.execution_id.clone()) {
            start_decision(Arc::clone(verifier), claim, inputs);
        }
    }
}
