//! The start of an attempt of an order, which is one commit.

use super::{OrderWork, OrdersActor, due_of};
use crate::cache::{PolicyConfig, VerdictCacheError};
use crate::generation::{FirstCallDenial, FirstCallPermits, GenerationError, PromptError};
use crate::rate_limiter::CallLimitError;
use crate::submission::Submission;
use actix::Addr;
use actors_audit::logger::CommitError;
use actors_platform::caller::run_as_current_caller;
use actors_platform::in_flight::InFlightClaim;
use actors_platform::work::{Work, WorkOutcome};
use actors_upstream::oracle_health::PermitError;
use domain_base::event::AuditEvent;
use domain_base::session_id::SessionId;
use domain_verdict::event::OrderAttempted;
use domain_verdict::generation_outcome::GenerationOutcome;
use domain_verdict::label::ProductTier;
use domain_verdict::order::{
    OpenRejection, Order, OrderAttemptFailure, OrderAttemptStart, OrderState, OrderWait,
};
use domain_verdict::prompt::ModelPrompt;
use domain_verdict::query::CustomerQuery;
use domain_verdict::rejection::RejectedClaim;
use domain_verdict::session::SessionRecord;
use jiff::{SignedDuration, Timestamp};
use oracled_store::StoreError;
use std::time::Duration;

/// When to try again after an error that is not the model's, such as a full disk.
const ERROR_PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// When to try again if the prompt template is not registered, or has no text for the tier, or if the key of held verdicts
/// cannot be used.
const ORDER_PAUSE: SignedDuration = SignedDuration::from_secs(15);

/// A session whose order has an attempt in progress, and the entry of the attempt.
pub(super) struct StartedOrder {
    pub(super) session: SessionRecord,
    pub(super) event: AuditEvent,
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
        let (session_id, now) = (&claim.id.clone(), self.clock().now());
        let Some((SessionRecord { order: Some(order), tier, query, .. }, _)) =
            self.store().session(session_id)?
        else {
            self.progress.remove(session_id);
            return Ok(WorkOutcome::Left);
        };
        match order.state {
            // the attempt was cut off by a restart, or its end could not be committed
            OrderState::Generating => {
                let failure = OrderAttemptFailure {
                    outcome: GenerationOutcome::Interrupted,
                    cause: "the attempt was cut off before its end was stored".to_owned(),
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
        let permits = if is_last {
            self.runner.request_last_call(&application, &order).await
        } else {
            self.runner.request_first_call(&application, Some(&order)).await
        };
        let permits = match permits {
            Ok(permits) => permits.with_temperature(self.config.temperature_of(&order)),
            Err(FirstCallDenial::Application(error)) => return Ok(self.blocked_by(session_id, &error)),
            Err(FirstCallDenial::Order { error, wait }) => {
                if let Some(error) = error {
                    self.waits.set_of_order(session_id.clone(), self.wait_for(&error));
                }
                let (now, wait) = (self.clock().now(), to_signed(wait).min(ERROR_PAUSE));
                return Ok(WorkOutcome::Due(now.saturating_add(wait).unwrap_or(now)));
            }
            Err(FirstCallDenial::Final(denied)) => {
                let denied = denied.map(|(model, error)| (model.start_of_last_attempt(&prompt), error));
                return Ok(self.outcome_of(self.expire(session_id, denied).await?));
            }
        };
        if let Some(session) = self.begin_attempt(session_id, &permits.start(&prompt, is_last)).await? {
            self.start(session, prompt, (permits, claim), me);
        }
        Ok(WorkOutcome::Left)
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

    /// Checks the key of held verdicts if the policy may hold the verdict: without the key, an answer that the model was
    /// paid for could not be stored.
    pub(super) async fn check_held_key(
        &self,
        session_id: &SessionId,
        tier: ProductTier,
    ) -> Result<(), GenerationError> {
        let policy = self.gate.policies.find(session_id.application(), tier);
        if policy.is_some_and(|policy| !policy.hold.is_empty()) {
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
    ) -> Result<Option<SessionRecord>, GenerationError> {
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
pub(super) fn wait_of(error: &GenerationError) -> SignedDuration {
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
