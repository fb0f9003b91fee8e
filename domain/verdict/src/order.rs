//! Orders: first verdicts that the model is to generate. An accepted order is stored before the model is asked, and
//! lasts until its session is removed.

use crate::cost::ModelCost;
use crate::generation::{GenerationOutcome, GenerationSettings, ModelTokenUsage, VerdictGeneration};
use crate::opinion::{OpenOpinion, OpinionPlan, OpinionTally};
use crate::policy::{PolicyCause, join_causes};
use crate::rejection::AnswerRejection;
use domain_base::caller::TraceContext;
use domain_base::row::{Index, IndexEntry};
use domain_base::session_id::{ApplicationName, SessionId};
use domain_base::upstream_text::UpstreamText;
use domain_base::wording::ParseTextError;
use domain_base::work::{Backoff, stored_cause};
use domain_upstream::upstream_id::UpstreamId;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use strum::{EnumString, IntoStaticStr, VariantArray};

/// The pauses after failures of the model in a row.
const BACKOFF: Backoff = Backoff {
    first_pause: SignedDuration::from_secs(5),
    longest_pause: SignedDuration::from_mins(5),
    longest_wait: SignedDuration::from_hours(1),
};
/// The number of interrupted attempts after which an order is stopped: its attempts may be what stops the daemon.
const INTERRUPTIONS_MAX: u32 = 20;
/// The number of attempts that an order lists; the audit log has all of them.
const ATTEMPTS_LISTED_MAX: usize = 10;

/// The state of an order.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
    EnumString,
    utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OrderState {
    /// It waits for its next attempt.
    Queued,
    /// A model call is in progress.
    Generating,
    /// It waits for an operator, who retries or fails it, or releases its verdict if the policy holds one.
    Held,
    /// The verdict was delivered.
    Delivered,
    /// It ended without a verdict. An operator can retry it.
    Failed,
    /// Its application or an operator cancelled it. It never gets a verdict.
    Cancelled,
}

impl OrderState {
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// Whether the daemon continues the order without an operator.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Queued | Self::Generating)
    }

    /// Whether the order waits neither for an attempt nor for an operator.
    #[must_use]
    pub const fn has_ended(self) -> bool {
        matches!(self, Self::Delivered | Self::Failed | Self::Cancelled)
    }
}

/// Why an order was stopped without a verdict.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, VariantArray, IntoStaticStr, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OrderStopCause {
    /// The model's answers were rejected `orders.generations_max` times.
    GenerationsUsedUp,
    /// It is older than `orders.max_age_s`, and its last attempt failed.
    Expired,
    /// Stops of the daemon or internal errors cut off 20 attempts.
    Interrupted,
    /// An operator failed it.
    Operator,
    /// The policy holds its verdict.
    Policy,
    /// Too few opinions of the models have the same label (`orders.opinions`).
    NoAgreement,
}

/// A change that an operator makes to an order.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, VariantArray, IntoStaticStr, utoipa::ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum OrderAction {
    /// Try again. The age, the rejected answers and the interruptions of the order count from now on. A held verdict is destroyed.
    Retry,
    /// End it without a verdict. A held verdict is destroyed.
    Fail,
    /// Deliver the verdict that the policy holds.
    Release,
    /// End it for good. A held verdict is destroyed, and the answer to a call in progress is discarded.
    Cancel,
}

/// A change that an operator made to an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OperatorAction {
    /// The change.
    pub action: OrderAction,
    /// When it was made.
    pub at: Timestamp,
    /// The user id of the operator.
    pub uid: u32,
    /// The name of the operator at that time; absent if the system had none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_name: Option<String>,
    /// The operator's reason.
    pub reason: String,
}

/// The limits of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderPolicy {
    /// The age from which an order gets only its last attempt.
    pub max_age: SignedDuration,
    /// The number of rejected answers after which an order is stopped.
    pub generations_max: u32,
    /// Whether an order that reached a limit is held; otherwise it fails.
    pub holds_stopped: bool,
}

/// One attempt to generate the verdict of an order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderAttempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// When the model was asked.
    pub started_at: Timestamp,
    /// The model, by its name among the oracles.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub oracle_id: Option<UpstreamId>,
    /// Whether it is the last attempt with this model, because the order is older than `orders.max_age_s`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub is_last: bool,
    /// The settings of the generation.
    pub generation: GenerationSettings,
    /// When the attempt ended; null while it is in progress.
    pub ended_at: Option<Timestamp>,
    /// Its outcome; null while it is in progress. `held` stays: `state` of the order says whether the verdict is held now.
    pub outcome: Option<GenerationOutcome>,
    /// The cause of the failure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<String>)]
    pub cause: Option<UpstreamText>,
    /// The faults for which the crosscheck or the rules rejected the answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(nullable = false)]
    pub rejection: Option<AnswerRejection>,
    /// The tokens used, with retries.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub usage: Option<ModelTokenUsage>,
    /// The cost, with retries.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost: Option<ModelCost>,
}

/// The faults of the last rejected answer of an open order, for its next prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRejection {
    pub rejection: AnswerRejection,
    /// The texts of the claims, encrypted; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sealed_claims: Option<String>,
}

/// The beginning of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderAttemptStart {
    /// The model that is asked.
    pub oracle_id: UpstreamId,
    /// The prompt and the settings.
    pub generation: VerdictGeneration,
    /// Whether it is the last attempt with this model.
    pub is_last: bool,
    /// The longest time that the call takes.
    pub time_limit: SignedDuration,
}

/// How an attempt failed.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderAttemptFailure {
    pub outcome: GenerationOutcome,
    /// The error, without the text of any answer.
    pub cause: UpstreamText,
    /// The faults of the answer, if the crosscheck or the rules rejected it.
    pub rejection: Option<OpenRejection>,
    /// The tokens used.
    pub usage: Option<ModelTokenUsage>,
    pub cost: Option<ModelCost>,
    /// The wait that the model requested.
    pub retry_after: Option<SignedDuration>,
}

/// The order of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Order {
    /// Its state.
    pub state: OrderState,
    /// When it was accepted.
    pub placed_at: Timestamp,
    /// When its state changed last.
    pub changed_at: Timestamp,
    /// When its age began: when it was accepted, or retried by an operator.
    pub tried_since: Timestamp,
    /// When its next attempt is due; null unless it is queued.
    pub next_attempt_at: Option<Timestamp>,
    /// When the call of its attempt in progress ends at the latest; absent unless it is generating. If the process of the attempt has
    /// ended before, this is what is left of it. It is not shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(ignore)]
    pub attempt_deadline: Option<Timestamp>,
    /// The number of attempts.
    pub attempts: u32,
    /// The number of rejected answers since it was accepted, was retried by an operator, or got its last opinion.
    pub generations: u32,
    /// The number of other failures in a row.
    pub failures_in_a_row: u32,
    /// The number of attempts that a stop of the daemon or an internal error cut off, since it was accepted, or retried by an
    /// operator.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub interruptions: u32,
    /// The models that are not asked for it before these times.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub model_pauses: BTreeMap<UpstreamId, Timestamp>,
    /// The models that had their last attempt, because the order is older than `orders.max_age_s`. Each opinion empties the list.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub last_asked: Vec<UpstreamId>,
    /// Why it was stopped; null unless it is held or failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stop_cause: Option<OrderStopCause>,
    /// Why the policy holds its verdict; empty unless the policy does.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub policy_causes: Vec<PolicyCause>,
    /// The last change by an operator. It is not shown to the application.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub operator_action: Option<OperatorAction>,
    /// The labels of the opinions of several models on its verdict; absent if it needs only one, or its verdict was delivered or held
    /// without them. They are not shown to the application.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub opinions: Option<OpinionTally>,
    /// The last attempts, up to 10, the latest one last.
    pub last_attempts: Vec<OrderAttempt>,
    /// The earlier attempt whose answer the gate decides on, until it has decided.
    #[serde(skip)]
    pub answered_by: Option<u32>,
    /// The trace of the request that placed it, which its attempts continue; absent if it had none. It is not shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(ignore)]
    pub trace: Option<TraceContext>,
    /// What the next prompt says about the last rejected answer. It is removed when the order is not open any longer, and never
    /// shown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(ignore)]
    pub open_rejection: Option<OpenRejection>,
    /// The opinions on its verdict, in their order. They are removed when the order is not open any longer, and never shown.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schema(ignore)]
    pub open_opinions: Vec<OpenOpinion>,
}

impl Order {
    /// A new order, which is due at once.
    #[must_use]
    pub const fn placed(now: Timestamp) -> Self {
        Self {
            state: OrderState::Queued,
            placed_at: now,
            changed_at: now,
            tried_since: now,
            next_attempt_at: Some(now),
            attempt_deadline: None,
            attempts: 0,
            generations: 0,
            failures_in_a_row: 0,
            interruptions: 0,
            model_pauses: BTreeMap::new(),
            last_asked: Vec::new(),
            stop_cause: None,
            policy_causes: Vec::new(),
            operator_action: None,
            opinions: None,
            last_attempts: Vec::new(),
            answered_by: None,
            trace: None,
            open_rejection: None,
            open_opinions: Vec::new(),
        }
    }

    /// The order with an attempt in progress.
    #[must_use]
    pub fn attempted(mut self, start: OrderAttemptStart, now: Timestamp) -> Self {
        let OrderAttemptStart { oracle_id, generation, is_last, time_limit } = start;
        if is_last && !self.last_asked.contains(&oracle_id) {
            self.last_asked.push(oracle_id.clone());
        }
        self.attempts = self.attempts.saturating_add(1);
        if self.last_attempts.len() >= ATTEMPTS_LISTED_MAX {
            self.last_attempts.remove(0);
        }
        self.last_attempts.push(OrderAttempt {
            attempt: self.attempts,
            started_at: now,
            oracle_id: Some(oracle_id),
            is_last,
            generation: generation.settings,
            ended_at: None,
            outcome: None,
            cause: None,
            rejection: None,
            usage: None,
            cost: None,
        });
        let attempt_deadline = Some(now.saturating_add(time_limit).unwrap_or(Timestamp::MAX));
        Self { attempt_deadline, ..self.enter(OrderState::Generating, now) }
    }

    /// The order after its attempt failed: queued for the next one, or stopped at a limit. `models` are those that may be
    /// asked for it.
    ///
    /// A failure binds the model that was asked: it is not asked for this order before 5 s, 10 s, 20 s and so on up to 5
    /// minutes are over, or the wait that it requested, up to an hour. A model that gave no verdict is not asked for 5 minutes,
    /// if there is another one. An interruption, or a fault of the daemon, binds the order for the same times. The next attempt
    /// is due when a model may be asked, but not after the maximum age of the order: then each model gets a last attempt.
    #[must_use]
    pub fn attempt_failed(
        mut self,
        failure: OrderAttemptFailure,
        models: &[UpstreamId],
        policy: &OrderPolicy,
        now: Timestamp,
    ) -> Self {
        let OrderAttemptFailure { outcome, cause, rejection, usage, cost, retry_after } = failure;
        self.end_attempt(outcome, usage, cost, now);
        let (asked, is_last) = match self.last_attempts.last_mut() {
            None => (None, false),
            Some(attempt) => {
                attempt.cause = Some(cause.stored());
                attempt.rejection = rejection.as_ref().map(|open| open.rejection.clone());
                (attempt.oracle_id.clone(), attempt.is_last)
            }
        };
        // a further failure of another kind leaves the faults of the last answer to be avoided
        self.open_rejection = rejection.or(self.open_rejection);
        // an unreadable answer with tokens was paid for
        let is_answer = outcome.is_rejected_answer()
            || (outcome == GenerationOutcome::UnreadableAnswer && usage.is_some());
        let pause = if is_answer {
            self.generations = self.generations.saturating_add(1);
            self.failures_in_a_row = 0;
            match outcome {
                _ if outcome.is_without_verdict() && models.len() > 1 => BACKOFF.longest_pause,
                GenerationOutcome::UnreadableAnswer => BACKOFF.first_pause,
                _ => SignedDuration::ZERO,
            }
        } else {
            self.interruptions = self.interruptions.saturating_add(outcome.is_interruption().into());
            let pause = BACKOFF.pause(self.failures_in_a_row);
            self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
            BACKOFF.extended(pause, retry_after)
        };
        if self.generations >= policy.generations_max {
            return self.stopped(OrderStopCause::GenerationsUsedUp, policy.holds_stopped, now);
        }
        if self.interruptions >= INTERRUPTIONS_MAX {
            return self.stopped(OrderStopCause::Interrupted, policy.holds_stopped, now);
        }
        if is_last {
            let is_left = models.iter().any(|model| !self.last_asked.contains(model));
            return if is_left {
                Self { next_attempt_at: Some(now), ..self.enter(OrderState::Queued, now) }
            } else {
                self.stopped(OrderStopCause::Expired, policy.holds_stopped, now)
            };
        }
        let paused_until = now.saturating_add(pause).unwrap_or(Timestamp::MAX);
        self.model_pauses.retain(|_, until| *until > now);
        let due = match asked {
            Some(asked) if is_answer || outcome.is_failure_of_model() => {
                if paused_until > now {
                    self.model_pauses.insert(asked, paused_until);
                }
                models.iter().map(|model| self.paused_until(model, now).unwrap_or(now)).min().unwrap_or(now)
            }
            _ => paused_until,
        };
        let last_due = self.tried_since.saturating_add(policy.max_age).unwrap_or(Timestamp::MAX).max(now);
        Self { next_attempt_at: Some(due.min(last_due)), ..self.enter(OrderState::Queued, now) }
    }

    /// The order with another opinion, whose attempt is still in progress.
    #[must_use]
    pub fn with_opinion(mut self, opinion: OpenOpinion, tally: OpinionTally) -> Self {
        self.open_opinions.push(opinion);
        Self { opinions: Some(tally), ..self }
    }

    /// The order after an attempt that brought an opinion but no decision: queued for the next opinion, which has the limits of a
    /// first one.
    #[must_use]
    pub fn opinion_given(
        mut self,
        (usage, cost): (Option<ModelTokenUsage>, Option<ModelCost>),
        now: Timestamp,
    ) -> Self {
        self.end_attempt(GenerationOutcome::Opinion, usage, cost, now);
        Self {
            generations: 0,
            failures_in_a_row: 0,
            last_asked: Vec::new(),
            // the first prompt is sent again
            open_rejection: None,
            next_attempt_at: Some(now),
            ..self.enter(OrderState::Queued, now)
        }
    }

    /// The order after the attempt whose opinion made an agreement impossible.
    #[must_use]
    pub fn opinions_differ(
        mut self,
        (usage, cost): (Option<ModelTokenUsage>, Option<ModelCost>),
        plan: &OpinionPlan,
        now: Timestamp,
    ) -> Self {
        self.end_attempt(GenerationOutcome::Opinion, usage, cost, now);
        self.stopped(OrderStopCause::NoAgreement, plan.holds_disagreed, now)
    }

    /// Until when `model` is not asked for the order; `None` if it may be asked at `now`.
    #[must_use]
    pub fn paused_until(&self, model: &UpstreamId, now: Timestamp) -> Option<Timestamp> {
        let until = self.model_pauses.get(model)?;
        Some(BACKOFF.due_at(*until, self.changed_at, now)).filter(|until| *until > now)
    }

    /// Whether the order has reached its maximum age at `now`, so that only last attempts are left.
    #[must_use]
    pub fn is_expired(&self, policy: &OrderPolicy, now: Timestamp) -> bool {
        now.duration_since(self.tried_since) >= policy.max_age
    }

    /// The order after it was stopped for `cause`: held, or failed.
    #[must_use]
    pub fn stopped(self, cause: OrderStopCause, is_held: bool, now: Timestamp) -> Self {
        let state = if is_held { OrderState::Held } else { OrderState::Failed };
        Self { stop_cause: Some(cause), ..self.enter(state, now) }
    }

    /// The order after the policy held its verdict for `causes`. `outcome` is that of an attempt in progress.
    #[must_use]
    pub fn held_by_policy(
        mut self,
        causes: Vec<PolicyCause>,
        (outcome, usage, cost): (GenerationOutcome, Option<ModelTokenUsage>, Option<ModelCost>),
        now: Timestamp,
    ) -> Self {
        if self.state == OrderState::Generating
            && let Some(attempt) = self.end_answer(outcome, usage, cost, now)
        {
            let cause = format!("the policy held the verdict: {}", join_causes(&causes));
            attempt.cause = Some(UpstreamText::new(cause).stored());
        }
        self.drop_undecided_opinions();
        let stop_cause = Some(OrderStopCause::Policy);
        Self { stop_cause, policy_causes: causes, ..self.enter(OrderState::Held, now) }
    }

    /// The order after it was cancelled. The answer to a call in progress is discarded.
    #[must_use]
    pub fn cancelled(mut self, now: Timestamp) -> Self {
        if self.state == OrderState::Generating {
            self.end_attempt(GenerationOutcome::Cancelled, None, None, now);
        }
        self.enter(OrderState::Cancelled, now)
    }

    /// The cancelled order after its call in progress ended, with what the call used; `None` if there was no such call.
    #[must_use]
    pub fn cancelled_call_ended(
        mut self,
        usage: Option<ModelTokenUsage>,
        cost: Option<ModelCost>,
    ) -> Option<Self> {
        let attempt = self.last_attempts.last_mut().filter(|_| self.state == OrderState::Cancelled)?;
        if attempt.outcome != Some(GenerationOutcome::Cancelled) {
            return None;
        }
        (attempt.usage, attempt.cost) = (usage, cost);
        Some(self)
    }

    /// Whether the policy holds the verdict of the order.
    #[must_use]
    pub fn is_held_by_policy(&self) -> bool {
        self.state == OrderState::Held && self.stop_cause == Some(OrderStopCause::Policy)
    }

    /// The outcome of one of its attempts, for people. For a held verdict, it includes release or destruction.
    #[must_use]
    pub fn outcome_of(&self, attempt: &OrderAttempt) -> &'static str {
        let Some(outcome) = attempt.outcome else { return "in progress" };
        let has_held = |attempt: &&OrderAttempt| attempt.outcome == Some(GenerationOutcome::Held);
        let is_last =
            self.last_attempts.iter().rfind(has_held).is_some_and(|last| last.attempt == attempt.attempt);
        let action = self.operator_action.as_ref().map(|made| made.action);
        match (outcome, action) {
            (GenerationOutcome::Held, _) if is_last && self.is_held_by_policy() => "held",
            (GenerationOutcome::Held, Some(OrderAction::Release)) if is_last => "held, then released",
            // an application does not see the operator's action
            (GenerationOutcome::Held, None) if self.state == OrderState::Delivered => "held",
            (GenerationOutcome::Held, _) => "held, then destroyed",
            _ => outcome.into_str(),
        }
    }

    /// Whether an operator's change is possible in the state of the order.
    #[must_use]
    pub fn allows(&self, action: OrderAction) -> bool {
        match action {
            OrderAction::Retry => {
                matches!(self.state, OrderState::Queued | OrderState::Held | OrderState::Failed)
            }
            OrderAction::Fail => matches!(self.state, OrderState::Queued | OrderState::Held),
            OrderAction::Release => self.is_held_by_policy(),
            // the answer of an attempt in progress is discarded
            OrderAction::Cancel => !self.state.has_ended(),
        }
    }

    /// The order after an operator changed it. After a retry, its age, its rejected answers and its interruptions count from then on.
    #[must_use]
    pub fn changed_by_operator(self, action: OperatorAction) -> Self {
        let at = action.at;
        let changed = match action.action {
            OrderAction::Fail => {
                Self { stop_cause: Some(OrderStopCause::Operator), ..self.enter(OrderState::Failed, at) }
            }
            OrderAction::Retry => Self {
                tried_since: at,
                generations: 0,
                failures_in_a_row: 0,
                interruptions: 0,
                model_pauses: BTreeMap::new(),
                last_asked: Vec::new(),
                next_attempt_at: Some(at),
                // the first prompt is sent again, and all opinions are requested again
                open_rejection: None,
                open_opinions: Vec::new(),
                opinions: None,
                ..self.enter(OrderState::Queued, at)
            },
            OrderAction::Release => self.enter(OrderState::Delivered, at),
            OrderAction::Cancel => self.cancelled(at),
        };
        Self { operator_action: Some(action), ..changed }
    }

    /// Why the order is not delivered: its stop cause with the words of the operator, the policy or the last attempt, or the
    /// error of the last attempt. `None` if it was delivered or cancelled, or has no error yet.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let last_error = self.last_attempts.last().and_then(|attempt| attempt.cause.as_ref());
        let last_error = last_error.map(|error| error.reveal().to_owned());
        let detail = match self.stop_cause {
            _ if matches!(self.state, OrderState::Delivered | OrderState::Cancelled) => return None,
            None => return last_error,
            Some(OrderStopCause::Operator) => {
                self.operator_action.as_ref().map(|action| action.reason.clone())
            }
            Some(OrderStopCause::Policy) => Some(join_causes(&self.policy_causes)),
            Some(OrderStopCause::NoAgreement) => self.opinions.as_ref().map(OpinionTally::describe),
            Some(
                OrderStopCause::Expired | OrderStopCause::GenerationsUsedUp | OrderStopCause::Interrupted,
            ) => last_error,
        };
        let cause = self.stop_cause.map_or("", |cause| cause.into_str());
        Some(match detail.filter(|detail| !detail.is_empty()) {
            Some(detail) => format!("{cause}: {detail}"),
            None => cause.to_owned(),
        })
    }

    /// The order after its verdict was delivered. `outcome` is that of an attempt in progress.
    #[must_use]
    pub fn delivered(
        mut self,
        (outcome, usage, cost): (GenerationOutcome, Option<ModelTokenUsage>, Option<ModelCost>),
        now: Timestamp,
    ) -> Self {
        if self.state == OrderState::Generating {
            self.end_answer(outcome, usage, cost, now);
        }
        self.drop_undecided_opinions();
        self.enter(OrderState::Delivered, now)
    }

    /// Removes the labels of opinions that have not decided on the verdict: `orders.opinions` requires only one since, or the application
    /// submitted the verdict.
    fn drop_undecided_opinions(&mut self) {
        self.opinions = self.opinions.take().filter(|tally| tally.agreed_label.is_some());
    }

    /// Ends the attempt in progress. If the answer of an earlier one is decided on, that one gets the outcome. Returns the attempt of the
    /// answer.
    fn end_answer(
        &mut self,
        outcome: GenerationOutcome,
        usage: Option<ModelTokenUsage>,
        cost: Option<ModelCost>,
        now: Timestamp,
    ) -> Option<&mut OrderAttempt> {
        let earlier = self.answered_by.take();
        let is_of_answer = |attempt: &OrderAttempt| Some(attempt.attempt) == earlier;
        let at = self.last_attempts.iter().position(is_of_answer);
        self.end_attempt(if at.is_some() { GenerationOutcome::Opinion } else { outcome }, usage, cost, now);
        let Some(at) = at else { return self.last_attempts.last_mut() };
        let attempt = self.last_attempts.get_mut(at)?;
        attempt.outcome = Some(outcome);
        Some(attempt)
    }

    fn end_attempt(
        &mut self,
        outcome: GenerationOutcome,
        usage: Option<ModelTokenUsage>,
        cost: Option<ModelCost>,
        now: Timestamp,
    ) {
        if let Some(attempt) = self.last_attempts.last_mut() {
            (attempt.ended_at, attempt.outcome) = (Some(now), Some(outcome));
            (attempt.usage, attempt.cost) = (usage, cost);
        }
    }

    fn enter(self, state: OrderState, now: Timestamp) -> Self {
        let (next_attempt_at, stop_cause, policy_causes) = (None, None, Vec::new());
        let open_rejection = self.open_rejection.filter(|_| state.is_open());
        let open_opinions = if state.is_open() { self.open_opinions } else { Vec::new() };
        // pauses of before the clock was set back
        let model_pauses = if now < self.changed_at { BTreeMap::new() } else { self.model_pauses };
        Self {
            state,
            changed_at: now,
            next_attempt_at,
            attempt_deadline: None,
            model_pauses,
            stop_cause,
            policy_causes,
            open_rejection,
            open_opinions,
            ..self
        }
    }

    /// When the next attempt of a queued order is due.
    #[must_use]
    pub fn due_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.next_attempt_at.map(|at| BACKOFF.due_at(at, self.changed_at, now))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Why an order that is due is not attempted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OrderWait {
    /// The cause, such as `budget_used_up`, `model_busy`, `circuit_open` or `prompt_unavailable`.
    pub cause: GenerationOutcome,
    /// The error.
    pub detail: String,
    /// When the cause ends, if that is known. The order is tried earlier, too, because the cause may end before.
    pub until: Option<Timestamp>,
}

impl OrderWait {
    /// The wait for the end of an error, whose text is shortened.
    #[must_use]
    pub fn new(cause: GenerationOutcome, error: &str, until: Option<Timestamp>) -> Self {
        Self { cause, detail: stored_cause(error), until }
    }
}

/// The orders by application, state and time.
pub static ORDERS: Index = Index {
    name: "orders",
    session_of: |name| {
        // the application, the state, the time and the session
        let mut parts = name.splitn(4, SEPARATOR);
        let application: ApplicationName = parts.next()?.parse().ok()?;
        let local: SessionId = parts.nth(2)?.parse().ok()?;
        Some(local.in_application(&application))
    },
};
/// Separates the parts of a name. No application and no local session id contains this character.
const SEPARATOR: char = '/';

/// The sort key of an order: the time at which it was placed, in microseconds, then its application and session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderPosition {
    pub placed_at_us: i64,
    application: ApplicationName,
    pub session_id: SessionId,
}

impl OrderPosition {
    /// The position of the order of `session_id`.
    #[must_use]
    pub fn of(session_id: &SessionId, placed_at: Timestamp) -> Self {
        Self::at(session_id.clone(), placed_at.as_microsecond())
    }

    fn at(session_id: SessionId, placed_at_us: i64) -> Self {
        Self { placed_at_us, application: session_id.application(), session_id }
    }

    /// The position of the order with this name in the index, after its application and state.
    #[must_use]
    pub fn parse_name(name: &str, application: &ApplicationName) -> Option<Self> {
        let (at, local) = name.split_once(SEPARATOR)?;
        let session_id: SessionId = local.parse().ok()?;
        Some(Self::at(session_id.in_application(application), at.parse().ok()?))
    }

    /// The end of the names of those orders of `application` in the index that were placed before this one, after their application
    /// and state.
    #[must_use]
    pub fn names_end(&self, application: &ApplicationName) -> String {
        let Self { placed_at_us, .. } = self;
        match application.cmp(&self.application) {
            Ordering::Less => format!("{:020}", placed_at_us.saturating_add(1)),
            Ordering::Equal => format!("{placed_at_us:020}{SEPARATOR}{}", self.session_id.local()),
            Ordering::Greater => format!("{placed_at_us:020}"),
        }
    }
}

impl fmt::Display for OrderPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}{SEPARATOR}{}", self.placed_at_us, self.session_id)
    }
}

impl FromStr for OrderPosition {
    type Err = ParseTextError;

    fn from_str(text: &str) -> Result<Self, ParseTextError> {
        let position = text
            .split_once(SEPARATOR)
            .and_then(|(at, session_id)| Some(Self::at(session_id.parse().ok()?, at.parse().ok()?)));
        let allowed = "the `next` of the previous page";
        position.ok_or_else(|| ParseTextError::new("a position in a list of orders", text, allowed))
    }
}

/// The entry of an order in [`ORDERS`].
pub(super) fn order_entry(session_id: &SessionId, order: &Order) -> IndexEntry {
    let position = OrderPosition::of(session_id, order.placed_at);
    let prefix = orders_prefix(&position.application, order.state);
    ORDERS.entry(format!("{prefix}{:020}{SEPARATOR}{}", position.placed_at_us, session_id.local()))
}

/// The beginning of the names of all orders of `application` in `state`.
#[must_use]
pub fn orders_prefix(application: &ApplicationName, state: OrderState) -> String {
    format!("{application}{SEPARATOR}{}{SEPARATOR}", state.into_str())
}

#[cfg(test)]
mod tests;
