//! The end of an attempt, and other changes of an order: one commit each. The commit of a verdict also ends its order.

use super::OrderDesk;
use super::attempt::wait_of;
use crate::audit::commit_loop::CommitDecision;
use crate::verdict::cache::{FindSession, FindSessionOutcome, remove_held_verdict};
use crate::verdict::generation::{GenerationEnd, GenerationError};
use crate::verdict::submission::{Submission, SubmissionOutcome};
use jiff::Timestamp;
use oracled_domain::verdict::flag::Flag;
use oracled_domain::verdict::generation_outcome::GenerationOutcome;
use oracled_domain::verdict::order::{Order, OrderAttemptFailure, OrderState, OrderStopCause};
use oracled_domain::verdict::policy::join_causes;
use oracled_domain::{AuditEvent, EventKind, SessionId, SessionRecord};
use oracled_store::{JournalRecord, RowExpectation, RowKey, TableWrite};

/// The cause of an attempt whose answer was discarded.
const CANCELLED: &str = "the application cancelled the order during the call";

impl OrderDesk {
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
                // the names of unexpected members are the model's words, and no reason for a rejection
                let flags = decision.flags.iter().filter(|flag| !matches!(flag, Flag::UnexpectedField(_)));
                let flags = flags.map(ToString::to_string).collect::<Vec<_>>().join(", ");
                (
                    format!(
                        "the crosscheck rejected the verdict: {reason}, coherence {coherence:.4}: {flags}"
                    ),
                    None,
                )
            }
            Ok(SubmissionOutcome::RejectedByRules { .. }) => {
                ("the rules rejected the verdict".to_owned(), None)
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
        let failure = OrderAttemptFailure { outcome, cause, usage: end.usage, cost: end.cost, retry_after };
        self.fail_attempt(&session_id, &failure).await
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
        let changed = self.change_order(session_id, |session, order, now| {
            if order.state == OrderState::Cancelled {
                let order = order.cancelled_call_ended(failure.usage, failure.cost.clone())?;
                let attempt_failed = EventKind::OrderAttemptFailed {
                    attempt: order.attempts,
                    outcome: GenerationOutcome::Cancelled,
                    cause: CANCELLED.to_owned(),
                    next_attempt_at: None,
                };
                let event = AuditEvent::new(now, session_id.clone(), attempt_failed);
                return Some((SessionRecord { order: Some(order), ..session }, vec![event]));
            }
            (order.state == OrderState::Generating).then(|| {
                let order = order.attempt_failed(failure.clone(), &policy, now);
                // as the order has it: without the rest of a long text of the model's service
                let cause = order.last_attempts.last().and_then(|attempt| attempt.cause.clone());
                let cause = cause.unwrap_or_default();
                let attempt_failed = EventKind::OrderAttemptFailed {
                    attempt: order.attempts,
                    outcome: failure.outcome,
                    cause,
                    next_attempt_at: order.next_attempt_at,
                };
                let mut events = vec![AuditEvent::new(now, session_id.clone(), attempt_failed)];
                events.extend(order.stop_cause.map(|cause| stopped_event(session_id, &order, cause, now)));
                (SessionRecord { order: Some(order), ..session }, events)
            })
        });
        match changed.await? {
            Some(session) => Ok(session.order),
            // a verdict that a route submitted, or a cancellation, has ended the order meanwhile
            None => self.published(session_id),
        }
    }

    /// Commits that a queued order is too old. Returns the order; `None` if it is not queued any longer.
    pub(super) async fn expire(&self, session_id: &SessionId) -> Result<Option<Order>, GenerationError> {
        let policy = self.config.policy;
        let changed = self.change_order(session_id, |session, order, now| {
            (order.state == OrderState::Queued).then(|| {
                let order = order.stopped(OrderStopCause::Expired, &policy, now);
                let event = stopped_event(session_id, &order, OrderStopCause::Expired, now);
                (SessionRecord { order: Some(order), ..session }, vec![event])
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
            let Some((session, events)) = change(session, order, self.clock().now()) else {
                return Ok(CommitDecision::Already(None));
            };
            let mut record = JournalRecord {
                expect: vec![RowExpectation {
                    row: RowKey::Session(session_id.clone()),
                    revision: Some(revision),
                }],
                events,
                writes: vec![TableWrite::PutSession(session.clone().into())],
                ..JournalRecord::default()
            };
            // an order that changes in this way has no held verdict any longer
            remove_held_verdict(&mut record, self.store(), session_id)?;
            Ok(CommitDecision::Change(Some(session), record))
        });
        let session = changed.await?.0;
        if let Some(SessionRecord { order: Some(order), .. }) = &session {
            self.progress.publish(session_id, order);
            self.runner.metrics.orders.count_end(session_id.application(), order.state);
        }
        Ok(session)
    }
}

/// The entry of an order that a limit stopped.
fn stopped_event(session_id: &SessionId, order: &Order, cause: OrderStopCause, now: Timestamp) -> AuditEvent {
    let Order { state, attempts, .. } = *order;
    let stopped =
        EventKind::OrderStopped { state, cause, attempts, reason: None, user_name: None, peer: None };
    AuditEvent::new(now, session_id.clone(), stopped)
}
