//! One attempt of an order: its start, and its end with one commit each. The commit of the verdict itself also ends the
//! order as delivered.

use super::{OrderDesk, OrdersActor, ReportOrder};
use crate::audit::commit_loop::CommitDecision;
use crate::audit::logger::CommitError;
use crate::platform::caller::run_as_current_caller;
use crate::platform::in_flight::InFlightClaim;
use crate::verdict::cache::{FindSession, FindSessionOutcome, remove_held_verdict};
use crate::verdict::generation::{FirstCallPermits, GenerationEnd, GenerationError, PromptError};
use crate::verdict::rate_limiter::CallLimitError;
use crate::verdict::submission::{Submission, SubmissionOutcome};
use actix::Addr;
use jiff::{SignedDuration, Timestamp};
use oracled_domain::verdict::generation_outcome::GenerationOutcome;
use oracled_domain::verdict::order::{Order, OrderAttemptFailure, OrderState, OrderStopCause};
use oracled_domain::verdict::order_wait::OrderWait;
use oracled_domain::verdict::policy::join_causes;
use oracled_domain::{AuditEvent, EventKind, ModelPrompt, SessionId, SessionRecord, VerdictGeneration};
use oracled_store::{JournalRecord, RowExpectation, RowKey, StoreError, TableWrite};
use std::time::Duration;

/// When to try again after an error that is not the model's, such as a full disk.
const ERROR_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// When to try again if the prompt template is not registered, or has no text for the tier.
const PROMPT_PAUSE: SignedDuration = SignedDuration::from_secs(15);
/// When to try again while the last attempt of the order ends.
const CLAIM_PAUSE: SignedDuration = SignedDuration::from_millis(100);

/// The result of an attempt to start the attempt of an order.
#[derive(Debug)]
pub(super) enum DispatchOutcome {
    /// The order has left the queue: it is in flight, or has ended.
    Left,
    /// It is due at this time.
    Due(Timestamp),
    /// No order of its application can be attempted now.
    Blocked(SignedDuration),
}

/// A session whose order has an attempt in progress, and the entry of the attempt.
pub(super) struct StartedOrder {
    pub(super) session: SessionRecord,
    pub(super) event: AuditEvent,
}

impl StartedOrder {
    pub(super) fn of(session: SessionRecord, generation: VerdictGeneration, now: Timestamp) -> Self {
        let order = session.order.clone().unwrap_or_else(|| Order::placed(now));
        let order = order.attempted(generation.settings.clone(), now);
        let attempted = EventKind::OrderAttempted { attempt: order.attempts, generation };
        let event = AuditEvent::new(now, session.session_id.clone(), attempted);
        Self { session: SessionRecord { order: Some(order), ..session }, event }
    }
}

impl OrderDesk {
    /// Starts the attempt of a due order, or stops an order that reached a limit.
    pub(super) async fn dispatch(&self, session_id: &SessionId, me: Addr<OrdersActor>) -> DispatchOutcome {
        self.waits.end_of_order(session_id);
        match self.try_dispatch(session_id, me).await {
            Ok(outcome) => outcome,
            Err(GenerationError::Store(error @ StoreError::Corrupt { .. })) => {
                tracing::error!(%session_id, %error, "the session of an order is damaged; its order is skipped");
                DispatchOutcome::Left
            }
            Err(error) => {
                if self.waits.of(session_id).is_none_or(|wait| wait.cause != error.generation_outcome()) {
                    tracing::warn!(%session_id, %error, "could not attempt an order; trying again");
                }
                self.blocked_by(session_id, &error)
            }
        }
    }

    async fn try_dispatch(
        &self,
        session_id: &SessionId,
        me: Addr<OrdersActor>,
    ) -> Result<DispatchOutcome, GenerationError> {
        let now = self.clock().now();
        let Some((SessionRecord { order: Some(order), tier, query, .. }, _)) =
            self.store().session(session_id)?
        else {
            self.progress.remove(session_id);
            return Ok(DispatchOutcome::Left);
        };
        let claimed_later = DispatchOutcome::Due(now.saturating_add(CLAIM_PAUSE).unwrap_or(now));
        match order.state {
            // the attempt was cut off by a restart, or its end could not be committed
            OrderState::Generating => {
                let Some(_claim) = self.in_flight.claim(session_id.clone()) else { return Ok(claimed_later) };
                let failure = OrderAttemptFailure {
                    outcome: GenerationOutcome::Interrupted,
                    cause: "the attempt was cut off before its end was stored".to_owned(),
                    usage: None,
                    cost: None,
                    retry_after: None,
                };
                Ok(self.outcome_of(self.fail_attempt(session_id, &failure).await?))
            }
            OrderState::Queued
                if order.is_expired(&self.config.policy, now)
                    && order.is_expired(&self.policy(session_id, &order, now), now) =>
            {
                Ok(self.outcome_of(self.expire(session_id).await?))
            }
            OrderState::Queued if order.due_at(now).is_some_and(|due| due > now) => {
                Ok(self.outcome_of(Some(order)))
            }
            OrderState::Queued => {
                // an operator may have retried the order while its last attempt ends
                let Some(claim) = self.in_flight.claim(session_id.clone()) else { return Ok(claimed_later) };
                self.runner.require_model()?;
                let prompt = match self.runner.first_prompt(&session_id.application(), tier, &query) {
                    // only this order waits: orders of other tiers may have a prompt
                    Err(GenerationError::Prompt(
                        error @ (PromptError::Unknown(_) | PromptError::Tier(_)),
                    )) => {
                        let error = GenerationError::Prompt(error);
                        tracing::debug!(%session_id, %error, "an order waits for its prompt template");
                        self.waits.set_of_order(session_id.clone(), self.wait_for(&error));
                        return Ok(DispatchOutcome::Due(now.saturating_add(PROMPT_PAUSE).unwrap_or(now)));
                    }
                    prompt => prompt?,
                };
                let permits = match self.runner.request_first_call(session_id.application()).await {
                    Ok(permits) => permits,
                    Err(error) => return Ok(self.blocked_by(session_id, &error)),
                };
                let permits = permits.with_temperature(self.config.temperature_of(&order));
                if let Some(session) = self.begin_attempt(session_id, &permits.generation(&prompt)).await? {
                    self.start(session, prompt, (permits, claim), me);
                }
                Ok(DispatchOutcome::Left)
            }
            OrderState::Held | OrderState::Delivered | OrderState::Failed => {
                self.progress.publish(session_id, &order);
                Ok(DispatchOutcome::Left)
            }
        }
    }

    /// No order of the application can be attempted because of `error`.
    fn blocked_by(&self, session_id: &SessionId, error: &GenerationError) -> DispatchOutcome {
        self.waits.set_of_application(session_id.application(), self.wait_for(error));
        DispatchOutcome::Blocked(wait_of(error))
    }

    /// The wait of an order that `error` stops.
    pub(super) fn wait_for(&self, error: &GenerationError) -> OrderWait {
        let until = match error {
            GenerationError::Limited(CallLimitError::DailyBudget { budget, .. }) => budget.resets_at,
            GenerationError::Limited(CallLimitError::Budget { .. } | CallLimitError::Application { .. })
            | GenerationError::NotPermitted { .. } => self.clock().now().checked_add(wait_of(error)).ok(),
            _ => None,
        };
        OrderWait::new(error.generation_outcome(), &error.to_string(), until)
    }

    fn outcome_of(&self, order: Option<Order>) -> DispatchOutcome {
        order
            .and_then(|order| order.due_at(self.clock().now()))
            .map_or(DispatchOutcome::Left, DispatchOutcome::Due)
    }

    /// Commits that the attempt of a queued order begins. `None` if the order is not queued any longer.
    async fn begin_attempt(
        &self,
        session_id: &SessionId,
        generation: &VerdictGeneration,
    ) -> Result<Option<SessionRecord>, GenerationError> {
        self.change_order(session_id, |session, order, now| {
            (order.state == OrderState::Queued).then(|| {
                let StartedOrder { session, event } = StartedOrder::of(session, generation.clone(), now);
                (session, vec![event])
            })
        })
        .await
    }

    /// Runs an attempt that was committed, in a task of its own. The order was claimed before the commit.
    pub(super) fn start(
        &self,
        session: SessionRecord,
        prompt: ModelPrompt,
        (permits, claim): (FirstCallPermits, InFlightClaim<SessionId>),
        me: Addr<OrdersActor>,
    ) {
        let (desk, session_id) = (self.clone(), session.session_id.clone());
        self.waits.end_of_application(&session_id);
        if let Some(order) = &session.order {
            self.progress.publish(&session_id, order);
        }
        let id = session_id.clone();
        let attempt = actix_rt::spawn(run_as_current_caller(async move {
            let submission = Submission::of_order(&session);
            let end = desk.runner.generate(submission.clone(), prompt, permits).await;
            desk.settle(submission, end).await
        }));
        let clock = self.clock().clone();
        actix_rt::spawn(async move {
            let due = match attempt.await {
                Ok(Ok(order)) => order.and_then(|order| order.due_at(clock.now())),
                // the order is found `generating` then, and the attempt counts as interrupted
                Ok(Err(error)) => {
                    tracing::error!(session_id = %id, %error, "could not store the end of an attempt; trying again");
                    clock.now().checked_add(ERROR_PAUSE).ok()
                }
                Err(panic) => {
                    tracing::error!(session_id = %id, %panic, "the attempt of an order panicked");
                    clock.now().checked_add(ERROR_PAUSE).ok()
                }
            };
            drop(claim);
            me.do_send(ReportOrder { session_id: id, due });
        });
    }

    /// Ends the attempt of an order by its outcome. Returns the order; `None` if its session was removed.
    async fn settle(
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
                    FindSessionOutcome::Mismatch(mismatch) => {
                        (format!("the session has another {mismatch}"), None)
                    }
                    FindSessionOutcome::Nothing(_) => {
                        ("the stored verdict was removed meanwhile".to_owned(), None)
                    }
                }
            }
            Ok(SubmissionOutcome::RejectedByCrosscheck { decision, .. }) => {
                let reason: &str = decision.crosscheck_reason.into();
                (
                    format!(
                        "the crosscheck rejected the verdict: {reason}, coherence {}",
                        decision.coherence_score
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
            Ok(SubmissionOutcome::Checked(_)) => ("the verdict was only checked".to_owned(), None),
            Err(error) => (error.to_string(), Some(wait_of(error))),
        };
        let failure = OrderAttemptFailure { outcome, cause, usage: end.usage, cost: end.cost, retry_after };
        self.fail_attempt(&session_id, &failure).await
    }

    /// Commits that the attempt of an order failed. Returns the order; `None` if its session was removed.
    async fn fail_attempt(
        &self,
        session_id: &SessionId,
        failure: &OrderAttemptFailure,
    ) -> Result<Option<Order>, GenerationError> {
        let Some((SessionRecord { order: Some(order), .. }, _)) = self.store().session(session_id)? else {
            return Ok(None);
        };
        let policy = self.policy(session_id, &order, self.clock().now());
        let changed = self.change_order(session_id, |session, order, now| {
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
            // a verdict that a route submitted has ended the order meanwhile
            None => self.published(session_id),
        }
    }

    /// Commits that a queued order is too old. Returns the order; `None` if it is not queued any longer.
    async fn expire(&self, session_id: &SessionId) -> Result<Option<Order>, GenerationError> {
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
    let stopped = EventKind::OrderStopped { state, cause, attempts, reason: None, peer: None };
    AuditEvent::new(now, session_id.clone(), stopped)
}

/// How long no order should be attempted after `error`.
fn wait_of(error: &GenerationError) -> SignedDuration {
    let wait = match error {
        GenerationError::Limited(limited) => limited.wait(),
        GenerationError::NotPermitted { retry_after, .. } => *retry_after,
        GenerationError::Model { retry_after, .. } => retry_after.unwrap_or_default(),
        GenerationError::Commit(CommitError::Stale(_)) => Duration::ZERO,
        _ => return ERROR_PAUSE,
    };
    to_signed(wait)
}

fn to_signed(wait: Duration) -> SignedDuration {
    SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX)
}
