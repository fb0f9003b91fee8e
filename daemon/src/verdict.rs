//! Verdicts and their sessions: their errors and those of the outbox, and the metrics of stored and regenerated
//! verdicts and of budgets.

pub mod api;
pub mod config;
pub mod control;
pub mod retention;

use crate::platform::api::metrics::{FeatureMetrics, MetricsText};
use crate::platform::problem::{Problem, ProblemCode, by_value};
use crate::platform::service::{DaemonService, run_blocking};
use actors_verdict::cache::VerdictCacheError;
use actors_verdict::crosscheck::{self, GateError};
use actors_verdict::erasure::ErasureError;
use actors_verdict::generation::{self, GenerationError, PromptError};
use actors_verdict::held_key::HeldKeyError;
use actors_verdict::lookup::LookupError;
use actors_verdict::notifier::{self, OutboxError};
use actors_verdict::order_metrics;
use actors_verdict::orders::OrderChangeError;
use actors_verdict::rate_limiter::CallLimitError;
use actors_verdict::regen::ReadVariance;
use domain_audit::problem::BACKUP_IN_PROGRESS;
use domain_base::decimal::Decimal;
use domain_base::problem::{APPLICATION_UNKNOWN, INTERNAL_ERROR, INVALID_SESSION_ID, STORAGE_UNAVAILABLE};
use domain_base::row::Row;
use domain_base::session_id::SessionId;
use domain_verdict::cost::DailyBudget;
use domain_verdict::delivery::VerdictDelivery;
use domain_verdict::generation::GenerationOutcome;
use domain_verdict::lookup::LookupOutcome;
use domain_verdict::order::{Order, OrderStopCause};
use domain_verdict::problem::{
    DELIVERED_ALREADY, ENDPOINT_NOT_PAUSED, HELD_VERDICT_UNREADABLE, LOOKUP_TIMEOUT, LOOKUP_UNAVAILABLE,
    MAIL_IN_FLIGHT, MAIL_UNKNOWN, MODEL_BUSY, MODEL_REFUSED, MODEL_REFUSED_REQUEST, MODEL_TIMEOUT,
    MODEL_UNAVAILABLE, ORDER_CANCELLED, ORDER_FAILED, ORDER_STATE_REFUSED, ORDER_UNKNOWN, POLICY_REJECTED,
    PROMPT_UNAVAILABLE, QUERY_TOO_LONG, REGEN_RATE_LIMITED, SESSION_MISMATCH, SESSION_NOT_OWNED,
    SESSION_ON_HOLD, SESSION_UNKNOWN, UNKNOWN_TIER, VERDICT_NOT_CACHED, VerdictProblem,
};
use domain_verdict::session::{SessionMismatch, SessionRecord};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// A request that changes a session. Another caller may have the same status by `application_unknown`.
pub(crate) const OWNER: &[ProblemCode] = &[APPLICATION_UNKNOWN, SESSION_NOT_OWNED];
/// The data of a submitted verdict.
const SUBMISSION: &[ProblemCode] = &[INVALID_SESSION_ID, UNKNOWN_TIER, QUERY_TOO_LONG];
/// A call of the model.
const MODEL: &[ProblemCode] =
    &[MODEL_REFUSED, MODEL_REFUSED_REQUEST, MODEL_BUSY, MODEL_UNAVAILABLE, PROMPT_UNAVAILABLE, MODEL_TIMEOUT];
/// A change of an order by an operator.
const ORDER_CHANGE: &[ProblemCode] = &[
    ORDER_UNKNOWN,
    ORDER_STATE_REFUSED,
    SESSION_ON_HOLD,
    POLICY_REJECTED,
    HELD_VERDICT_UNREADABLE,
    MODEL_UNAVAILABLE,
];
/// A read of a held verdict by an operator.
pub(crate) const HELD: &[ProblemCode] = &[ORDER_UNKNOWN, ORDER_STATE_REFUSED, HELD_VERDICT_UNREADABLE];

/// When to retry after too many orders are open.
const QUEUE_RETRY_AFTER: Duration = Duration::from_secs(60);

impl Problem {
    /// No verdict is cached for the session.
    pub fn verdict_not_cached(session_id: impl Display) -> Self {
        Self::new(VERDICT_NOT_CACHED, format!("no verdict is cached for session {session_id}"))
    }

    /// The session is not registered, so its verdict cannot be regenerated.
    pub fn session_unknown(session_id: impl Display) -> Self {
        let detail = format!(
            "session {session_id} has no verdict here and is not registered; for its first verdict, order one by POST \
             /v1/verdicts/{session_id} with `tier` and `query`; for a lost one, register it by PUT \
             /v1/sessions/{session_id} with `tier` and `query` (oraclectl register), then read again"
        );
        Self::new(SESSION_UNKNOWN, detail)
    }

    /// The session is registered with other data.
    #[must_use]
    pub fn session_mismatch(session_id: &SessionId, mismatch: SessionMismatch) -> Self {
        let detail = format!("session {} is known with another {mismatch}", session_id.local());
        let code = match mismatch {
            SessionMismatch::Owner => SESSION_NOT_OWNED,
            _ => SESSION_MISMATCH,
        };
        let mut problem = Self::new(code, detail);
        let mismatch = Some(mismatch);
        problem.document.add(&VerdictProblem { mismatch, ..VerdictProblem::default() });
        problem
    }

    /// The verdict of `session_id` could not be generated.
    #[must_use]
    fn generation_failed(session_id: &SessionId, failed: &GenerationError) -> Self {
        let session_id = session_id.local();
        match failed {
            GenerationError::SessionUnknown => Self::session_unknown(session_id),
            GenerationError::DeliveredAlready => {
                let detail = format!(
                    "the verdict of session {session_id} was delivered, and is no longer stored; GET \
                     /v1/verdicts/{session_id} regenerates it"
                );
                Self::new(DELIVERED_ALREADY, detail)
            }
            GenerationError::Limited(limited @ CallLimitError::Session { wait }) => {
                let wait_s = wait.as_secs_f64().ceil();
                let detail = format!(
                    "the verdict of session {session_id} can be regenerated in {wait_s} s: {limited}"
                );
                Self::new(REGEN_RATE_LIMITED, detail).retry_after(*wait)
            }
            failed => Self::model_call_failed(failed),
        }
    }

    /// The model could not be asked, or its answer could not be judged.
    #[must_use]
    fn model_call_failed(failed: &GenerationError) -> Self {
        let (code, retry_after) = match failed {
            GenerationError::Limited(limited) => {
                let wait = limited.wait();
                let detail = format!("{limited}; try again in {} s", wait.as_secs_f64().ceil());
                return Self::new(MODEL_BUSY, detail).retry_after(wait);
            }
            GenerationError::QueueFull(_) => (MODEL_BUSY, Some(QUEUE_RETRY_AFTER)),
            GenerationError::Prompt(PromptError::Store(error)) => return error.into(),
            GenerationError::Prompt(_) => (PROMPT_UNAVAILABLE, None),
            GenerationError::NoModel => (MODEL_UNAVAILABLE, None),
            GenerationError::NotPermitted { retry_after, .. } => (MODEL_UNAVAILABLE, Some(*retry_after)),
            GenerationError::Model { error, retry_after } => {
                return Self::model_failed(failed.generation_outcome(), error.cause().reveal(), *retry_after);
            }
            GenerationError::Store(error) => return error.into(),
            GenerationError::Commit(error) => return error.into(),
            GenerationError::Cache(error) => return error.into(),
            GenerationError::Gate(error) => return error.into(),
            GenerationError::NoAnswer(error) => return (*error).into(),
            GenerationError::SessionUnknown
            | GenerationError::DeliveredAlready
            | GenerationError::Crashed => return Self::new(INTERNAL_ERROR, failed.to_string()),
        };
        Self::new(code, failed.to_string()).retry_after(retry_after)
    }
}

impl Problem {
    /// The call of the model had this outcome, which is no answer that can be judged.
    #[must_use]
    fn model_failed(outcome: GenerationOutcome, cause: &str, retry_after: Option<Duration>) -> Self {
        let code = match outcome {
            GenerationOutcome::ModelUnavailable | GenerationOutcome::UnreadableAnswer => MODEL_UNAVAILABLE,
            GenerationOutcome::ModelTimeout => MODEL_TIMEOUT,
            GenerationOutcome::RequestRefused => {
                let detail = format!(
                    "{cause}; check `name`, `base_url` and the key of the model in `[model]` or `[models.NAME]`"
                );
                return Self::new(MODEL_REFUSED_REQUEST, detail);
            }
            GenerationOutcome::PromptBlocked
            | GenerationOutcome::StoppedEarly
            | GenerationOutcome::Declined
            | GenerationOutcome::EmptyAnswer => MODEL_REFUSED,
            GenerationOutcome::CircuitOpen | GenerationOutcome::QuotaWait => MODEL_UNAVAILABLE,
            GenerationOutcome::ModelBusy | GenerationOutcome::BudgetUsedUp => MODEL_BUSY,
            GenerationOutcome::StorageFailed => STORAGE_UNAVAILABLE,
            _ => INTERNAL_ERROR,
        };
        Self::new(code, cause).retry_after(retry_after)
    }

    /// The unknown session `session_id` could not be registered by a look-up.
    #[must_use]
    fn lookup_failed(session_id: &SessionId, failed: &LookupError) -> Self {
        let session_id = session_id.local();
        if failed.is_negative() {
            let detail = format!(
                "session {session_id} is not registered, and its look-up found no session that can be used: {failed}"
            );
            return Self::new(SESSION_UNKNOWN, detail);
        }
        let code = match failed {
            LookupError::Cache(error) => return error.into(),
            LookupError::NoAnswer(error) => return (*error).into(),
            LookupError::Call(error) if error.outcome() == LookupOutcome::TimedOut => LOOKUP_TIMEOUT,
            LookupError::Call(_) | LookupError::NotPermitted(_) | LookupError::Busy => LOOKUP_UNAVAILABLE,
        };
        let detail = format!("session {session_id} is not registered, and could not be looked up: {failed}");
        Self::new(code, detail).retry_after(failed.retry_after())
    }

    /// The session has no order.
    #[must_use]
    pub fn order_unknown(session_id: impl Display) -> Self {
        Self::new(ORDER_UNKNOWN, format!("session {session_id} has no order"))
    }

    /// The order of the session failed.
    #[must_use]
    pub fn order_failed(session_id: &SessionId, order: &Order) -> Self {
        const RETRY: &str = "an operator can retry the order (`oraclectl order retry`)";
        let (local, attempts) = (session_id.local(), order.attempts);
        let s = if attempts == 1 { "" } else { "s" };
        let last = order.last_attempts.last().and_then(|attempt| attempt.cause.as_ref());
        let last = last.map(|last| format!("; the last attempt: {}", last.reveal())).unwrap_or_default();
        let cause = order.stop_cause.map_or("failed", |cause| cause.into_str());
        let detail = match order.stop_cause {
            // the operator's reason is not for the application
            Some(OrderStopCause::Operator) => {
                format!("an operator failed the order of session {local}; {RETRY}")
            }
            _ => format!(
                "the order of session {local} failed after {attempts} attempt{s} ({cause}); {RETRY}{last}"
            ),
        };
        Self::new(ORDER_FAILED, detail)
    }
}

impl Problem {
    /// The application or an operator cancelled the order of the session.
    #[must_use]
    pub fn order_cancelled(session_id: &SessionId) -> Self {
        let detail =
            format!("the order of session {} was cancelled; use a new session id", session_id.local());
        Self::new(ORDER_CANCELLED, detail)
    }
}

impl From<OrderChangeError> for Problem {
    fn from(error: OrderChangeError) -> Self {
        match error {
            OrderChangeError::Unknown(session_id) => Self::order_unknown(session_id),
            OrderChangeError::RefusedByPolicy { ref causes, .. } => {
                let mut problem = Self::new(POLICY_REJECTED, error.to_string());
                let causes = Some(causes.clone());
                problem.document.add(&VerdictProblem { causes, ..VerdictProblem::default() });
                problem
            }
            OrderChangeError::OtherOwner(session_id) => {
                Self::session_mismatch(&session_id, SessionMismatch::Owner)
            }
            OrderChangeError::HeldKey(error) => (&error).into(),
            OrderChangeError::OnHold(_) => Self::new(SESSION_ON_HOLD, error.to_string()),
            OrderChangeError::HeldVerdictDamaged(_) => Self::new(HELD_VERDICT_UNREADABLE, error.to_string()),
            OrderChangeError::State { .. }
            | OrderChangeError::Ended { .. }
            | OrderChangeError::Changed { .. }
            | OrderChangeError::NoHeldVerdict { .. }
            | OrderChangeError::CheckInForce(_) => Self::new(ORDER_STATE_REFUSED, error.to_string()),
            OrderChangeError::Failed(error) => match error {
                GenerationError::Store(error) => error.into(),
                GenerationError::Commit(error) => error.into(),
                GenerationError::Cache(error) => error.into(),
                GenerationError::NoModel => {
                    let detail = "no model is configured, so no other verdict can be generated; release or fail the order, or \
                                  configure `model.provider`";
                    Self::new(MODEL_UNAVAILABLE, detail)
                }
                other => Self::new(INTERNAL_ERROR, other.to_string()),
            },
        }
    }
}

impl From<&VerdictCacheError> for Problem {
    fn from(error: &VerdictCacheError) -> Self {
        match error {
            VerdictCacheError::Store(error) => error.into(),
            VerdictCacheError::Commit(error) => error.into(),
            VerdictCacheError::HeldKey(error) => error.into(),
            VerdictCacheError::OnHold(_) => Self::new(SESSION_ON_HOLD, error.to_string()),
        }
    }
}

impl From<&HeldKeyError> for Problem {
    fn from(error: &HeldKeyError) -> Self {
        tracing::error!(%error, "a held verdict cannot be encrypted or decrypted");
        Self::new(HELD_VERDICT_UNREADABLE, error.to_string())
    }
}

impl From<&GateError> for Problem {
    fn from(error: &GateError) -> Self {
        match error {
            GateError::Judging(_) => Self::new(INTERNAL_ERROR, error.to_string()),
            GateError::Commit(error) => error.into(),
            GateError::Cache(error) => error.into(),
            GateError::Rules(error) => error.into(),
            GateError::NoAnswer(error) => (*error).into(),
        }
    }
}

impl From<ErasureError> for Problem {
    fn from(error: ErasureError) -> Self {
        let detail = error.to_string();
        match error {
            ErasureError::Store(error) => error.into(),
            ErasureError::Commit(error) => error.into(),
            ErasureError::Cache(error) => error.into(),
            ErasureError::Outbox(error) => error.into(),
            ErasureError::OnHold(_) => Self::new(SESSION_ON_HOLD, detail),
            ErasureError::Actor(error) => error.into(),
            ErasureError::InProgress | ErasureError::Incomplete => Self::new(BACKUP_IN_PROGRESS, detail),
            ErasureError::Files(_) => Self::new(INTERNAL_ERROR, detail),
            ErasureError::Begun(error) => {
                let mut problem = Self::from(*error);
                problem.document.detail = detail;
                problem
            }
        }
    }
}

impl From<OutboxError> for Problem {
    fn from(error: OutboxError) -> Self {
        let detail = error.to_string();
        match error {
            OutboxError::Unknown { .. } => Self::new(MAIL_UNKNOWN, detail),
            OutboxError::InFlight { .. } => Self::new(MAIL_IN_FLIGHT, detail),
            OutboxError::NotPaused { .. } => Self::new(ENDPOINT_NOT_PAUSED, detail),
            OutboxError::Store(error) => error.into(),
            OutboxError::Commit(error) => error.into(),
        }
    }
}

by_value!(VerdictCacheError, GateError);

/// The metrics of the feature.
pub(crate) const METRICS: FeatureMetrics = FeatureMetrics {
    name: "verdict",
    read: |service| Box::pin(read_metrics(service)),
    series: &[crosscheck::SERIES, order_metrics::SERIES, generation::SERIES, notifier::SERIES],
};

/// Reads the number of verdicts and sessions, whether regenerated verdicts differ too often, and the daily budgets. The budget of all calls has no label.
async fn read_metrics(service: &Arc<DaemonService>) -> Result<MetricsText, Problem> {
    let mut text = MetricsText::default();
    let counts = service.journal_report().counts;
    text.gauge("cached_verdicts", "verdicts in the store", counts.of(VerdictDelivery::TABLE.name));
    text.gauge("sessions", "sessions in the store", counts.of(SessionRecord::TABLE.name));
    match service.system.regen.ask(ReadVariance).await {
        Ok(variance) => {
            let help = "whether regenerated verdicts differ too often";
            text.gauge("infrastructure_variance", help, u64::from(variance.escalated));
        }
        Err(error) => tracing::warn!(%error, "the metrics lack the divergence of regenerated verdicts"),
    }
    let reading = Arc::clone(service);
    let budgets = run_blocking(move || reading.system.daily_budgets()).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "the metrics lack the daily budgets");
        Vec::new()
    });
    if budgets.is_empty() {
        return Ok(text);
    }
    let each = |read: fn(&DailyBudget) -> &Decimal| {
        budgets.iter().map(move |budget| {
            let label = budget.application.as_ref().map(|name| format!("application=\"{name}\""));
            (label.unwrap_or_default(), read(budget))
        })
    };
    text.gauges("daily_budget", "budget for model calls of a UTC day", each(|budget| &budget.daily));
    text.gauges(
        "daily_costs",
        "costs of the current UTC day that count toward the budget",
        each(|budget| &budget.costs_of_today),
    );
    Ok(text)
}
