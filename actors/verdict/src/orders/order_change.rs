//! The end of an attempt, and other changes of an order: one commit each. The commit of a verdict also ends its order.

use super::OrderWork;
use super::attempt::{StartedOrder, wait_of};
use crate::cache::{FindSession, FindSessionOutcome, PolicyConfig, remove_held_verdict};
use crate::generation::{GenerationEnd, GenerationError};
use crate::submission::{Submission, SubmissionOutcome};
use actors_audit::commit_loop::CommitDecision;
use actors_platform::work::Work;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::event::{OrderAttemptFailed, OrderStopped};
use domain_verdict::generation_outcome::GenerationOutcome;
use domain_verdict::order::{
    OpenRejection, Order, OrderAttemptFailure, OrderAttemptStart, OrderPolicy, OrderState, OrderStopCause,
};
use domain_verdict::policy::join_causes;
use domain_verdict::rejection::{AnswerRejection, RejectedClaim};
use domain_verdict::session::SessionRecord;
use jiff::Timestamp;
use oracled_store::{JournalRecord, RowExpectation, RowWrite};

/// The cause of an attempt whose answer was discarded.
const CANCELLED: &str = "the order was cancelled during the call";

impl OrderWork {
    /// Ends the attempt of an order by its outcome. Returns the order; `None` if its session was removed.
    pub(super) async fn settle(
        &self,
        submission: Submission,
        end: GenerationEnd,
    ) -> Result<Option<Order>, GenerationError> {
        let session_id = submission.session_id.clone();
        let outcome = end
            .result
            .as_ref()
            .map_or_else(GenerationError::generation_outcome, SubmissionOutcome::generation_outcome);
        let rejection = self.rejection_of(&submission, &end.result).await;
        let (cause, retry_after) = match &end.result {
            Ok(
                SubmissionOutcome::Stored(_) | SubmissionOutcome::Regenerated(..) | SubmissionOutcome::Held,
            ) => {
                return self.published(&session_id);
            }
            Ok(SubmissionOutcome::Replayed(_)) => {
                // a verdict that was generated for a read counts as delivered by this
                match self.runner.handles.cache.ask(FindSession(submission)).await?? {
                    FindSessionOutcome::Cached(_) | FindSessionOutcome::Held => {
                        return self.published(&session_id);
                    }
                    FindSessionOutcome::Cancelled => (CANCELLED.to_owned(), None),
                    FindSessionOutcome::Mismatch(mismatch) => {
                        (format!("the session has another {mismatch}"), None)
                    }
                    FindSessionOutcome::Nothing(_) => {
                        ("the stored verdict was removed meanwhile".to_owned(), None)
                    }
                }
            }
            Ok(SubmissionOutcome::RejectedByCrosscheck { decision, .. }) => {
                let (reason, coherence): (&str, _) =
                    (decision.crosscheck_reason.into(), decision.coherence_score);
                let flags = AnswerRejection::by_crosscheck(decision);
                (
                    format!(
                        "the crosscheck rejected the verdict: {reason}, coherence {coherence:.4}: {flags}"
                    ),
                    None,
                )
            }
            Ok(SubmissionOutcome::RejectedByRules { rejection, .. }) => {
                let rejection = &rejection.rejection;
                let why = if rejection.is_empty() {
                    ": a rule could not be applied".to_owned()
                } else {
                    format!(": {rejection}")
                };
                (format!("the rules rejected the verdict{why}"), None)
            }
            Ok(SubmissionOutcome::RejectedByPolicy { causes, .. }) => {
                (format!("the policy refused the verdict: {}", join_causes(causes)), None)
            }
            Ok(SubmissionOutcome::Mismatch(mismatch)) => {
                (format!("the session has another {mismatch}"), None)
            }
            Ok(SubmissionOutcome::Cancelled) => (CANCELLED.to_owned(), None),
            Ok(SubmissionOutcome::Checked(_)) => ("the verdict was only checked".to_owned(), None),
            Err(error) => (error.to_string(), Some(wait_of(error))),
        };
        let GenerationEnd { usage, cost, .. } = end;
        let failure = OrderAttemptFailure { outcome, cause, rejection, usage, cost, retry_after };
        self.fail_attempt(&session_id, &failure).await
    }

    /// The faults for which the crosscheck or the rules rejected an answer. The texts of claims are encrypted, and kept only if
    /// the next prompt has a place for them.
    async fn rejection_of(
        &self,
        submission: &Submission,
        result: &Result<SubmissionOutcome, GenerationError>,
    ) -> Option<OpenRejection> {
        let (rejection, claims) = match result {
            Ok(SubmissionOutcome::RejectedByCrosscheck { decision, .. }) => {
                return Some(OpenRejection {
                    rejection: AnswerRejection::by_crosscheck(decision),
                    sealed_claims: None,
                });
            }
            Ok(SubmissionOutcome::RejectedByRules { rejection, .. }) => {
                (&rejection.rejection, &rejection.claims)
            }
            _ => return None,
        };
        let Submission { session_id, tier, .. } = submission;
        let is_used = !claims.is_empty() && self.runner.has_rejection(&session_id.application(), *tier);
        let sealed_claims = if is_used { self.seal_claims(session_id, claims).await } else { None };
        Some(OpenRejection { rejection: rejection.clone(), sealed_claims })
    }

    /// The encrypted claims; `None` if they cannot be encrypted: the next prompt then names only the rules.
    async fn seal_claims(&self, session_id: &SessionId, claims: &[RejectedClaim]) -> Option<String> {
        let text = serde_json::to_vec(claims).expect("claims are plain data");
        let sealed = async {
            let may_create = PolicyConfig::may_create_key(self.store()).map_err(|error| error.to_string())?;
            let sealed = self.gate.key.seal(session_id, text, may_create).await;
            sealed.map_err(|error| error.to_string())
        };
        let unused = |error| tracing::warn!(%session_id, error, "could not encrypt the claims of a rejected answer; it is asked again without them");
        sealed.await.map_err(unused).ok()
    }

    /// Commits that the attempt of an order failed. Returns the order; `None` if its session was removed.
    pub(super) async fn fail_attempt(
        &self,
        session_id: &SessionId,
        failure: &OrderAttemptFailure,
    ) -> Result<Option<Order>, GenerationError> {
        let Some((SessionRecord { order: Some(order), .. }, _)) = self.store().session(session_id)? else {
            return Ok(None);
        };
        let policy = self.policy(session_id, &order, self.clock().now());
        let models = self.runner.first_models(&session_id.application());
        let changed = self.change_order(session_id, |session, order, now| {
            if order.state == OrderState::Cancelled {
                let order = order.cancelled_call_ended(failure.usage, failure.cost.clone())?;
                let attempt_failed = OrderAttemptFailed {
                    attempt: order.attempts,
                    outcome: GenerationOutcome::Cancelled,
                    cause: CANCELLED.to_owned(),
                    rejection: None,
                    next_attempt_at: None,
                };
                let event = AuditEvent::new(now, session_id.clone(), attempt_failed);
                return Some((SessionRecord { order: Some(order), ..session }, vec![event]));
            }
            (order.state == OrderState::Generating)
                .then(|| fail_order(session, order, failure, (&models, &policy), now))
        });
        match changed.await? {
            Some(session) => Ok(session.order),
            // a verdict that a route submitted, or a cancellation, has ended the order meanwhile
            None => self.published(session_id),
        }
    }

    /// Commits that a queued order ends at its maximum age. `denied` is its last attempt, for which the model may not be called,
    /// and the reason. Returns the order; `None` if it is not queued any longer.
    pub(super) async fn expire(
        &self,
        session_id: &SessionId,
        denied: Option<(OrderAttemptStart, GenerationError)>,
    ) -> Result<Option<Order>, GenerationError> {
        let policy = self.config.policy;
        let changed = self.change_order(session_id, |session, order, now| {
            (order.state == OrderState::Queued).then(|| {
                let Some((start, error)) = &denied else {
                    let order = order.stopped(OrderStopCause::Expired, &policy, now);
                    let event = stopped_event(session_id, &order, OrderStopCause::Expired, now);
                    return (SessionRecord { order: Some(order), ..session }, vec![event]);
                };
                let StartedOrder { session, event } = StartedOrder::of(session, start.clone(), now);
                let order = session.order.clone().unwrap_or(order);
                let failure = OrderAttemptFailure {
                    outcome: error.generation_outcome(),
                    cause: format!("not called: {error}"),
                    rejection: None,
                    usage: None,
                    cost: None,
                    retry_after: None,
                };
                let (session, mut events) = fail_order(session, order, &failure, (&[], &policy), now);
                events.insert(0, event);
                (session, events)
            })
        });
        Ok(changed.await?.and_then(|session| session.order))
    }

    /// Publishes the stored state of an order to waiting requests, and returns it.
    pub(super) fn published(&self, session_id: &SessionId) -> Result<Option<Order>, GenerationError> {
        let order = self.store().session(session_id)?.and_then(|(session, _)| session.order);
        if let Some(order) = &order {
            self.progress.publish(session_id, order);
        }
        Ok(order)
    }

    /// Changes the order of a session in one commit, and reports its new state to the requests that wait for it. `change` gets
    /// the session, its order and the time, and returns the session after the change and the entries; `None` changes
    /// nothing. Returns the session after the change.
    pub(super) async fn change_order(
        &self,
        session_id: &SessionId,
        change: impl Fn(SessionRecord, Order, Timestamp) -> Option<(SessionRecord, Vec<AuditEvent>)>,
    ) -> Result<Option<SessionRecord>, GenerationError> {
        let changed = self.runner.handles.log.decide_and_commit(|| {
            let Some((session, revision)) = self.store().session(session_id)? else {
                return Ok::<_, GenerationError>(CommitDecision::Already(None));
            };
            let Some(order) = session.order.clone() else { return Ok(CommitDecision::Already(None)) };
            let before = order.state;
            let Some((session, events)) = change(session, order, self.clock().now()) else {
                return Ok(CommitDecision::Already(None));
            };
            let mut record = JournalRecord {
                expect: vec![RowExpectation::new::<SessionRecord>(session_id, Some(revision))],
                events,
                writes: vec![RowWrite::put::<SessionRecord>(&session)],
                ..JournalRecord::default()
            };
            // an order that changes in this way has no held verdict any longer
            remove_held_verdict(&mut record, self.store(), session_id)?;
            Ok(CommitDecision::Change(Some((session, before)), record))
        });
        let changed = changed.await?.0;
        if let Some((SessionRecord { order: Some(order), .. }, before)) = &changed {
            self.progress.publish(session_id, order);
            // the end of a call changes nothing in the state of a cancelled order
            if *before != order.state {
                self.metrics.count_end(session_id.application(), order.state);
            }
        }
        Ok(changed.map(|(session, _)| session))
    }
}

/// The session after the attempt of its order failed, and the entries. `models` may be asked for the order.
fn fail_order(
    session: SessionRecord,
    order: Order,
    failure: &OrderAttemptFailure,
    (models, policy): (&[UpstreamId], &OrderPolicy),
    now: Timestamp,
) -> (SessionRecord, Vec<AuditEvent>) {
    let session_id = session.session_id.clone();
    let order = order.attempt_failed(failure.clone(), models, policy, now);
    // as the order has it: without the rest of a long text of the model's service
    let cause = order.last_attempts.last().and_then(|attempt| attempt.cause.clone());
    let attempt_failed = OrderAttemptFailed {
        attempt: order.attempts,
        outcome: failure.outcome,
        cause: cause.unwrap_or_default(),
        rejection: failure.rejection.as_ref().map(|open| open.rejection.clone()),
        next_attempt_at: order.next_attempt_at,
    };
    let mut events = vec![AuditEvent::new(now, session_id.clone(), attempt_failed)];
    events.extend(order.stop_cause.map(|cause| stopped_event(&session_id, &order, cause, now)));
    (SessionRecord { order: Some(order), ..session }, events)
}

/// The entry of an order that a limit stopped.
fn stopped_event(session_id: &SessionId, order: &Order, cause: OrderStopCause, now: Timestamp) -> AuditEvent {
    let Order { state, attempts, .. } = *order;
    let stopped = OrderStopped { state, cause, attempts, reason: None, user_name: None, peer: None };
    AuditEvent::new(now, session_id.clone(), stopped)
}
