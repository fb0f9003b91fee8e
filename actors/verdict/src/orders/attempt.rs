//! The start and the end of an attempt of an order, and other changes of an order: one commit each. The commit of a
//! verdict also ends its order.

use super::{OrderWork, OrdersActor, due_of};
use crate::cache::{
    FindSession, FindSessionOutcome, PolicyConfig, VerdictCacheError, refuse_on_hold, remove_held_verdict,
};
use crate::generation::{
    ConfiguredModel, FirstCallDenial, FirstCallPermits, GenerationEnd, GenerationError, PromptError,
};
use crate::rate_limiter::CallLimitError;
use crate::submission::{Submission, SubmissionOutcome};
use actix::Addr;
use actors_audit::logger::CommitError;
use actors_audit::logger::handle::CommitDecision;
use actors_platform::caller::{run_as_current_caller, run_in_trace};
use actors_platform::span::{Span, SpanKind};
use actors_platform::work::{InFlightClaim, Work, WorkOutcome};
use actors_upstream::oracle_health::PermitError;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_base::upstream_text::UpstreamText;
use domain_upstream::upstream_id::UpstreamId;
use domain_verdict::event::{OrderAttemptFailed, OrderAttempted, OrderStopped};
use domain_verdict::generation::GenerationOutcome;
use domain_verdict::label::ProductTier;
use domain_verdict::legal_hold::LegalHold;
use domain_verdict::order::{
    OpenRejection, Order, OrderAttemptFailure, OrderAttemptStart, OrderPolicy, OrderState, OrderStopCause,
    OrderWait,
};
use domain_verdict::prompt::ModelPrompt;
use domain_verdict::query::CustomerQuery;
use domain_verdict::rejection::{AnswerRejection, RejectedClaim};
use domain_verdict::session::SessionRecord;
use jiff::{SignedDuration, Timestamp};
use oracled_store::{CommitReceipt, EvidenceEntry, JournalRecord, RowExpectation, RowWrite, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// When to try again after an error that is not the model's, such as a full disk.
const ERROR_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// When to try again if the prompt template is not registered, or has no text for the tier, or if the key of held verdicts
/// cannot be used.
pub(super) const ORDER_PAUSE: SignedDuration = SignedDuration::from_secs(15);

/// A session whose order has an attempt in progress, and the entry of the attempt.
pub(super) struct StartedOrder {
    pub(super) session: SessionRecord,
    pub(super) event: AuditEvent,
}

/// A session after a commit that has changed its order, and the entries of the commit that a delivery can name.
pub(super) struct CommittedOrder {
    pub(super) session: SessionRecord,
    evidence: Vec<EvidenceEntry>,
}

impl CommittedOrder {
    pub(super) fn new(session: SessionRecord, receipt: Option<CommitReceipt>) -> Self {
        Self { session, evidence: receipt.map(|receipt| receipt.evidence).unwrap_or_default() }
    }
}

impl StartedOrder {
    pub(super) fn of(session: SessionRecord, start: OrderAttemptStart, now: Timestamp) -> Self {
        let order = session.order.clone().unwrap_or_else(|| Order::placed(now));
        let order = order.attempted(start.clone(), now);
        let OrderAttemptStart { oracle_id, generation, is_last, .. } = start;
        let attempted =
            OrderAttempted { attempt: order.attempts, generation, oracle_id: Some(oracle_id), is_last };
        let event = AuditEvent::new(now, session.session_id.clone(), attempted);
        Self { session: SessionRecord { order: Some(order), ..session }, event }
    }
}

impl OrderWork {
    /// Starts the attempt of a due order, or stops an order that is at its last attempt if no model may be called for it.
    pub(super) async fn dispatch(
        &self,
        claim: InFlightClaim<SessionId>,
        me: Addr<OrdersActor>,
    ) -> WorkOutcome {
        let session_id = &claim.id.clone();
        let waited_for = self.waits.end_of_order(session_id);
        match self.try_dispatch(claim, me).await {
            Ok(outcome) => outcome,
            // only this order waits: orders of other tiers may have a prompt, or no verdicts that are held
            Err(
                error @ (GenerationError::Prompt(PromptError::Unknown(_) | PromptError::Tier(_))
                | GenerationError::Cache(VerdictCacheError::HeldKey(_))),
            ) => {
                let wait = self.wait_for(&error);
                if waited_for.is_none_or(|before| before.cause != wait.cause) {
                    tracing::warn!(%session_id, %error, "an order waits");
                }
                self.waits.set_of_order(session_id.clone(), wait);
                let now = self.clock().now();
                WorkOutcome::Due(now.saturating_add(ORDER_PAUSE).unwrap_or(now))
            }
            Err(GenerationError::Store(
                error @ (StoreError::Corrupt { .. } | StoreError::RowLost { .. }),
            )) => {
                tracing::error!(%session_id, %error, "the session of an order is damaged; its order is skipped");
                WorkOutcome::Left
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
        claim: InFlightClaim<SessionId>,
        me: Addr<OrdersActor>,
    ) -> Result<WorkOutcome, GenerationError> {
        let Some((SessionRecord { order: Some(order), tier, query, .. }, _)) =
            self.store().session(&claim.id)?
        else {
            self.progress.remove(&claim.id);
            return Ok(WorkOutcome::Left);
        };
        run_in_trace(order.trace.clone(), self.try_dispatch_order(order, (tier, query), claim, me)).await
    }

    async fn try_dispatch_order(
        &self,
        order: Order,
        (tier, query): (ProductTier, CustomerQuery),
        claim: InFlightClaim<SessionId>,
        me: Addr<OrdersActor>,
    ) -> Result<WorkOutcome, GenerationError> {
        let (session_id, now) = (&claim.id.clone(), self.clock().now());
        match order.state {
            // another host may have it in flight
            OrderState::Generating if let Some(due) = self.foreign_until(&order).filter(|due| *due > now) => {
                Ok(WorkOutcome::Due(due))
            }
            // the attempt was cut off by a restart, or its end could not be committed
            OrderState::Generating => {
                let failure = OrderAttemptFailure {
                    outcome: GenerationOutcome::Interrupted,
                    cause: "the attempt was cut off before its end was stored".into(),
                    rejection: None,
                    usage: None,
                    cost: None,
                    retry_after: None,
                };
                Ok(self.outcome_of(self.fail_attempt(session_id, &failure).await?))
            }
            OrderState::Queued => {
                let is_last = order.is_expired(&self.config.policy, now)
                    && order.is_expired(&self.policy(session_id, &order, now), now);
                if !is_last && due_of(&order, self.clock()).is_some_and(|due| due > now) {
                    return Ok(self.outcome_of(Some(order)));
                }
                self.try_attempt(order, (tier, query), is_last, claim, me).await
            }
            OrderState::Held | OrderState::Delivered | OrderState::Failed | OrderState::Cancelled => {
                self.progress.publish(session_id, &order);
                Ok(WorkOutcome::Left)
            }
        }
    }

    /// Starts the attempt of a queued order if a model may be called. `is_last` is whether the order reached its maximum age. An
    /// order of any age waits while the daemon lacks what an attempt needs.
    async fn try_attempt(
        &self,
        order: Order,
        (tier, query): (ProductTier, CustomerQuery),
        is_last: bool,
        claim: InFlightClaim<SessionId>,
        me: Addr<OrdersActor>,
    ) -> Result<WorkOutcome, GenerationError> {
        let session_id = &claim.id.clone();
        let application = session_id.application();
        let prompt = self.prepare(session_id, tier, &query, &order).await?;
        let models = self.models_for(session_id, tier, Some(&order));
        let permits = if is_last {
            self.runner.request_last_call(&models, &application, &order).await
        } else {
            self.runner.request_first_call(&models, &application, Some(&order)).await
        };
        let permits = match permits {
            Ok(permits) => permits.with_temperature(self.config.temperature_of(&order)),
            // other orders of the application may be at the turn of another model
            Err(FirstCallDenial::Application(error @ GenerationError::NotPermitted { .. }))
                if self.needs_opinions(session_id, tier) =>
            {
                let wait = wait_of(&error);
                return Ok(self.delayed_by(session_id, Some(&error), wait));
            }
            Err(FirstCallDenial::Application(error)) => return Ok(self.blocked_by(session_id, &error)),
            Err(FirstCallDenial::Order { error, wait }) => {
                return Ok(self.delayed_by(session_id, error.as_ref(), to_signed(wait)));
            }
            Err(FirstCallDenial::Final(denied)) => {
                let denied = denied.map(|(model, error)| (model.start_of_last_attempt(&prompt), error));
                return Ok(self.outcome_of(self.expire(session_id, denied).await?));
            }
        };
        if let Some(started) = self.begin_attempt(session_id, &permits.start(&prompt, is_last)).await? {
            self.start(started, prompt, (permits, claim), me);
        }
        Ok(WorkOutcome::Left)
    }

    /// Whether several opinions decide on the verdict of an order.
    pub(super) fn needs_opinions(&self, session_id: &SessionId, tier: ProductTier) -> bool {
        self.gate.opinion_plan(session_id.application(), tier).is_some()
    }

    /// The models that may be asked for an order: those of its application, or the one whose opinion on its verdict is next.
    pub(super) fn models_for(
        &self,
        session_id: &SessionId,
        tier: ProductTier,
        order: Option<&Order>,
    ) -> Vec<Arc<ConfiguredModel>> {
        let (application, models) = (session_id.application(), &self.runner.models);
        let Some(plan) = self.gate.opinion_plan(application.clone(), tier) else {
            return models.order_of(&application).to_vec();
        };
        let next = plan.next_model(order.map_or(0, |order| order.open_opinions.len()));
        next.and_then(|next| models.find(next)).cloned().into_iter().collect()
    }

    /// The prompt of an attempt, if the daemon has all that an attempt needs.
    async fn prepare(
        &self,
        session_id: &SessionId,
        tier: ProductTier,
        query: &CustomerQuery,
        order: &Order,
    ) -> Result<ModelPrompt, GenerationError> {
        self.runner.require_model()?;
        self.check_held_key(session_id, tier).await?;
        self.next_prompt(session_id, tier, query, order).await
    }

    /// The prompt of the next attempt: after a rejected answer, with its faults.
    async fn next_prompt(
        &self,
        session_id: &SessionId,
        tier: ProductTier,
        query: &CustomerQuery,
        order: &Order,
    ) -> Result<ModelPrompt, GenerationError> {
        let application = session_id.application();
        let Some(OpenRejection { rejection, sealed_claims }) = &order.open_rejection else {
            return self.runner.first_prompt(&application, tier, query);
        };
        let claims = match sealed_claims {
            Some(sealed) => self.open_claims(session_id, sealed).await,
            None => Vec::new(),
        };
        self.runner.prompt_after(&application, (tier, query), rejection, &claims)
    }

    /// The claims of a rejected answer; empty if they cannot be read: the prompt then names only the rules.
    async fn open_claims(&self, session_id: &SessionId, sealed: &str) -> Vec<RejectedClaim> {
        let claims = match self.gate.key.open(session_id, sealed).await {
            // the error of the parser may quote a claim
            Ok(text) => serde_json::from_slice::<Vec<RejectedClaim>>(&text)
                .map_err(|_| "the decrypted text is no list of claims".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        claims.unwrap_or_else(|error| {
            tracing::warn!(%session_id, error, "asking again without the claims of a rejected answer");
            Vec::new()
        })
    }

    /// Checks the key of held verdicts if the verdict may be held, or wait for the opinions of other models: without the key, an
    /// answer that the model was paid for could not be stored.
    pub(super) async fn check_held_key(
        &self,
        session_id: &SessionId,
        tier: ProductTier,
    ) -> Result<(), GenerationError> {
        let policy = self.gate.policies.find(session_id.application(), tier);
        if self.needs_opinions(session_id, tier) || policy.is_some_and(|policy| !policy.hold.is_empty()) {
            let may_create = PolicyConfig::may_create_key(self.store())?;
            self.gate.key.check(may_create).await.map_err(VerdictCacheError::from)?;
        }
        Ok(())
    }

    /// No order of the application can be attempted because of `error`.
    fn blocked_by(&self, session_id: &SessionId, error: &GenerationError) -> WorkOutcome {
        self.waits.set_of_application(session_id.application(), self.wait_for(error));
        WorkOutcome::Blocked
    }

    /// Only this order cannot be attempted before `wait` is over.
    fn delayed_by(
        &self,
        session_id: &SessionId,
        error: Option<&GenerationError>,
        wait: SignedDuration,
    ) -> WorkOutcome {
        if let Some(error) = error {
            self.waits.set_of_order(session_id.clone(), self.wait_for(error));
        }
        let now = self.clock().now();
        WorkOutcome::Due(now.saturating_add(wait.min(ERROR_PAUSE)).unwrap_or(now))
    }

    /// The wait of an order that `error` stops.
    pub(super) fn wait_for(&self, error: &GenerationError) -> OrderWait {
        let until = match error {
            GenerationError::Limited(CallLimitError::DailyBudget { budget, .. }) => budget.resets_at,
            // an operator holds the circuit open
            GenerationError::NotPermitted {
                error: PermitError::CircuitOpen { retry_after: None, .. },
                ..
            } => None,
            GenerationError::Limited(CallLimitError::Budget { .. } | CallLimitError::Application { .. })
            | GenerationError::NotPermitted { .. } => self.clock().now().checked_add(wait_of(error)).ok(),
            _ => None,
        };
        OrderWait::new(error.generation_outcome(), &error.to_string(), until)
    }

    fn outcome_of(&self, order: Option<Order>) -> WorkOutcome {
        order.and_then(|order| due_of(&order, self.clock())).map_or(WorkOutcome::Left, WorkOutcome::Due)
    }

    /// Commits that the attempt of a queued order begins. `None` if the order is not queued any longer.
    async fn begin_attempt(
        &self,
        session_id: &SessionId,
        start: &OrderAttemptStart,
    ) -> Result<Option<CommittedOrder>, GenerationError> {
        self.change_order(session_id, |session, order, now| {
            (order.state == OrderState::Queued).then(|| {
                let StartedOrder { session, event } = StartedOrder::of(session, start.clone(), now);
                (session, vec![event])
            })
        })
        .await
    }

    /// Runs an attempt that was committed, in a task of its own. The order was claimed before the commit.
    pub(super) fn start(
        &self,
        CommittedOrder { session, evidence }: CommittedOrder,
        prompt: ModelPrompt,
        (permits, claim): (FirstCallPermits, InFlightClaim<SessionId>),
        me: Addr<OrdersActor>,
    ) {
        let (work, session_id) = (self.clone(), session.session_id.clone());
        self.waits.end_of_application(&session_id);
        if let Some(order) = &session.order {
            self.progress.publish(&session_id, order);
        }
        let id = session_id.clone();
        let began = session.order.as_ref().map_or_else(|| self.clock().now(), |order| order.changed_at);
        let attempt = actix_rt::spawn(run_as_current_caller(async move {
            let mut span = Span::child(SpanKind::Internal, "order attempt");
            span.set("oracled.tier", session.tier.into_str());
            span.set("oracled.attempt", session.order.as_ref().map_or(0, |order| u64::from(order.attempts)));
            let submission = Submission { evidence, ..Submission::of_order(&session) };
            // the deadline counts from before the commit
            let permits = permits.with_time_spent(work.clock().now().duration_since(began).unsigned_abs());
            let end = span.run(work.runner.generate(submission.clone(), prompt, permits)).await;
            span.set("oracled.outcome", end.outcome().into_str());
            if end.result.is_err() {
                span.fail(end.outcome().into_str());
            }
            span.run(work.settle(submission, end)).await
        }));
        let clock = self.clock().clone();
        actix_rt::spawn(async move {
            let due = match attempt.await {
                Ok(Ok(order)) => order.and_then(|order| due_of(&order, &clock)),
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
            // the slot of the model is free
            Self::wake(&me, id, due, true);
        });
    }
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
        let outcome = end.outcome();
        let rejection = self.rejection_of(&submission, &end.result).await;
        let (cause, retry_after) = match &end.result {
            Ok(
                SubmissionOutcome::Stored(_)
                | SubmissionOutcome::Regenerated(..)
                | SubmissionOutcome::Held
                | SubmissionOutcome::Opinion,
            ) => {
                return self.published(&session_id);
            }
            Ok(SubmissionOutcome::Replayed(_)) => {
                // a verdict that was generated for a read counts as delivered by this
                match self.runner.handles.cache.ask(FindSession(submission)).await?? {
                    FindSessionOutcome::Cached(_) | FindSessionOutcome::Held => {
                        return self.published(&session_id);
                    }
                    FindSessionOutcome::Cancelled => (CANCELLED.into(), None),
                    FindSessionOutcome::Mismatch(mismatch) => {
                        (UpstreamText::new(format!("the session has another {mismatch}")), None)
                    }
                    FindSessionOutcome::Nothing(_) => {
                        ("the stored verdict was removed meanwhile".into(), None)
                    }
                }
            }
            Ok(
                rejected @ (SubmissionOutcome::RejectedByCrosscheck { .. }
                | SubmissionOutcome::RejectedByRules { .. }
                | SubmissionOutcome::RejectedByPolicy { .. }),
            ) => (UpstreamText::new(rejected.rejection_cause().unwrap_or_default()), None),
            Ok(SubmissionOutcome::Mismatch(mismatch)) => {
                (UpstreamText::new(format!("the session has another {mismatch}")), None)
            }
            Ok(SubmissionOutcome::Cancelled) => (CANCELLED.into(), None),
            Ok(SubmissionOutcome::Checked(_)) => ("the verdict was only checked".into(), None),
            Err(error) => (error.cause(), Some(wait_of(error))),
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
    async fn fail_attempt(
        &self,
        session_id: &SessionId,
        failure: &OrderAttemptFailure,
    ) -> Result<Option<Order>, GenerationError> {
        let Some((SessionRecord { order: Some(order), tier, .. }, _)) = self.store().session(session_id)?
        else {
            return Ok(None);
        };
        let policy = self.policy(session_id, &order, self.clock().now());
        let models = self.models_for(session_id, tier, Some(&order));
        let models: Vec<_> = models.iter().map(|model| model.oracle_id().clone()).collect();
        let changed = self.change_order(session_id, |session, order, now| {
            if order.state == OrderState::Cancelled {
                let order = order.cancelled_call_ended(failure.usage, failure.cost.clone())?;
                let attempt_failed = OrderAttemptFailed {
                    attempt: order.attempts,
                    outcome: GenerationOutcome::Cancelled,
                    cause: CANCELLED.into(),
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
            Some(changed) => Ok(changed.session.order),
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
                    let order = order.stopped(OrderStopCause::Expired, policy.holds_stopped, now);
                    let event = stopped_event(session_id, &order, OrderStopCause::Expired, now);
                    return (SessionRecord { order: Some(order), ..session }, vec![event]);
                };
                let StartedOrder { session, event } = StartedOrder::of(session, start.clone(), now);
                let order = session.order.clone().unwrap_or(order);
                let failure = OrderAttemptFailure {
                    outcome: error.generation_outcome(),
                    cause: UpstreamText::new(format!("not called: {error}")),
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
        Ok(changed.await?.and_then(|changed| changed.session.order))
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
    /// nothing. Refuses a user's change that would remove a text of a session on legal hold.
    pub(super) async fn change_order(
        &self,
        session_id: &SessionId,
        change: impl Fn(SessionRecord, Order, Timestamp) -> Option<(SessionRecord, Vec<AuditEvent>)>,
    ) -> Result<Option<CommittedOrder>, GenerationError> {
        let changed = self.runner.handles.log.decide_and_commit(|| {
            let Some((session, revision)) = self.store().session(session_id)? else {
                return Ok::<_, GenerationError>(CommitDecision::Already(None));
            };
            let Some(order) = session.order.clone() else { return Ok(CommitDecision::Already(None)) };
            let (before, opinions) = (order.state, order.open_opinions.len());
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
            let mut removes_text = remove_held_verdict(&mut record, self.store(), session_id)?;
            if let Some(after) = session.order.as_ref().filter(|after| after.open_opinions.len() < opinions) {
                // a limit stops an order also during a hold
                removes_text |= after.stop_cause.is_none_or(|cause| cause == OrderStopCause::Operator);
            }
            if removes_text {
                refuse_on_hold(self.store(), session_id)?;
                record.expect.push(RowExpectation::new::<LegalHold>(session_id, None));
            }
            Ok(CommitDecision::Change(Some((session, before)), record))
        });
        let (changed, receipt) = changed.await?;
        if let Some((SessionRecord { order: Some(order), .. }, before)) = &changed {
            self.progress.publish(session_id, order);
            // the end of a call changes nothing in the state of a cancelled order
            if *before != order.state {
                self.metrics.count_end(session_id.application(), order.state);
            }
        }
        Ok(changed.map(|(session, _)| CommittedOrder::new(session, receipt)))
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
    AuditEvent::new(now, session_id.clone(), OrderStopped::without_operator(order, cause))
}
